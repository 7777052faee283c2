/* GLPK that gets no memory ends the process as GLib does, and prints nothing itself. */
#include "planner/proof/simplex.h"
#include "traces/failure.h"

#include <unistd.h>

enum { ENDED = 3 };

static void end(const char *domain, GLogLevelFlags level, const char *message, void *data)
{
    (void)level, (void)data;
    g_printerr("%s: %s", domain, message);
    _exit(ENDED);
}

static void test_memory(void)
{
    if (g_test_subprocess()) {
        g_log_set_handler(FAILURE_MEMORY_DOMAIN,
                          (GLogLevelFlags)(G_LOG_LEVEL_ERROR | G_LOG_FLAG_FATAL), end, NULL);
        glp_prob *lp = simplex_new();
        glp_mem_limit(1); /* MiB */
        glp_add_cols(lp, 1000000);
        glp_delete_prob(lp);
        return;
    }
    g_test_trap_subprocess(NULL, 0, (GTestSubprocessFlags)0);
    g_test_trap_assert_failed();
    g_test_trap_assert_stderr(FAILURE_MEMORY_DOMAIN ": GLPK failed to allocate*");
    g_test_trap_assert_stdout_unmatched("*glp*");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/simplex/memory", test_memory);
    return g_test_run();
}
