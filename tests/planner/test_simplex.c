/* GLPK that gets no memory ends the process as GLib does, and prints nothing itself. What its
 * interior point method cannot solve ends that method alone. */
#include "base/failure.h"
#include "planner/proof/simplex.h"

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

/* Returns the program: the least 2 x + y, where 3 x + `small` y is 1, `small` y is at least 1/3,
 * and `small` (y - x) is `much`. */
static glp_prob *program_with(double small, double much)
{
    static const int columns[] = {0, 1, 2};
    const double rows[][3] = {{0, 3, small}, {0, 0, small}, {0, -small, small}};
    const double least[] = {1, 1. / 3, much};
    glp_prob *lp = simplex_new();
    glp_add_cols(lp, 2);
    glp_add_rows(lp, 3);
    for (int r = 1; r <= 3; r++) {
        glp_set_row_bnds(lp, r, r == 2 ? GLP_LO : GLP_FX, least[r - 1], least[r - 1]);
        glp_set_mat_row(lp, r, 2, columns, rows[r - 1]);
    }
    for (int c = 1; c <= 2; c++) {
        glp_set_col_bnds(lp, c, GLP_LO, 0, 0);
        glp_set_obj_coef(lp, c, c == 1 ? 2 : 1);
    }
    return lp;
}

static void test_middle(void)
{
    glp_prob *lp = program_with(1, 0.5);
    g_assert_true(simplex_solve(lp, SIMPLEX_WARM));
    g_assert_true(simplex_find_middle(lp));
    g_assert_cmpfloat_with_epsilon(glp_ipt_obj_val(lp), 0.875, 1e-6);
    glp_delete_prob(lp);

    lp = program_with(1e-160, -1e160);
    g_assert_false(simplex_find_middle(lp));
    glp_delete_prob(lp);
    glp_free_env();
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/simplex/memory", test_memory);
    g_test_add_func("/simplex/middle", test_middle);
    return g_test_run();
}
