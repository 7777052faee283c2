/* If no tool listens to NVTX, annotations have no measurable cost. */
#include "engine/annotate.h"

#include "tests/traces/random_trace.h"

enum { CALLS = 4000000, ROUNDS = 5 };

/* Returns nanoseconds per call, the best of several rounds. */
static double cost(struct annotate *annotate)
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        gint64 start = g_get_monotonic_time();
        for (uint32_t i = 0; i < CALLS / 2; i++) {
            annotate_operator_begin(annotate, 0);
            annotate_operator_end(annotate);
        }
        double nanoseconds = 1e3 * (double)(g_get_monotonic_time() - start) / CALLS;
        best = MIN(best, nanoseconds);
    }
    return best;
}

static void test_unattached(void)
{
    g_unsetenv("NVTX_INJECTION64_PATH");
    GRand *random = g_rand_new_with_seed(1);
    struct trace *trace = random_trace(random, 10);
    struct annotate *annotate = annotate_new(trace, ANNOTATE_RANGES);
    g_assert_null(annotate);
    annotate_iteration_begin(annotate, 0);
    double nanoseconds = cost(annotate);
    annotate_iteration_end(annotate);
    annotate_free(annotate);
    g_test_message("%.2f ns a call; an operator takes microseconds at least", nanoseconds);
    trace_free(trace);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/annotate/unattached", test_unattached);
    return g_test_run();
}
