/* One trace of all ranks of a run: durations of the ranks, and who waited for whom. */
#include "traces/merge.h"

#include <string.h>

/* A forward operator, a reduction and an update, of a rank that takes these times. */
static struct trace *trace_of_rank(const uint64_t *duration_ns, uint64_t received)
{
    static const char *const names[] = {"forward a", "reduce a", "update a"};
    struct trace *trace = g_new0(struct trace, 1);
    trace->batch = trace->sequence = 1;
    trace->ranks = trace->micro_batches = 3;
    trace->list_element_bytes[TRACE_PARAM] = 4;
    trace->tensor_count = 1;
    trace->tensors = g_new0(struct trace_tensor, 1);
    trace->tensors[0] = (struct trace_tensor){.name = g_strdup("a"), .elements = 64};
    trace->operator_count = G_N_ELEMENTS(names);
    trace->operators = g_new0(struct trace_operator, G_N_ELEMENTS(names));
    for (size_t m = 0; m < G_N_ELEMENTS(names); m++)
        trace->operators[m] = (struct trace_operator){
            .name = g_strdup(names[m]), .layer = -1, .duration_ns = duration_ns[m]};
    trace->operators[1].exchange[TRACE_REDUCE] = (struct trace_exchange){8, received};
    trace->non_model_bytes = g_new0(uint64_t, trace->operator_count);
    return trace;
}

static struct gathers *const none[3] = {NULL};
static char *const paths[] = {(char *)"r0", (char *)"r1", (char *)"r2"};

/* The second rank comes last to the reduction: the others wait 20 and 30. */
static void test_waits(void)
{
    static const uint64_t durations[3][3] = {{10, 120, 5}, {40, 100, 7}, {10, 130, 9}};
    struct trace *traces[3];
    for (int r = 0; r < 3; r++)
        traces[r] = trace_of_rank(durations[r], r == 2 ? 99 : 90);
    for (int slowest = 0; slowest < 2; slowest++) {
        struct merge *merge = merge_traces(traces, none, paths, 3, slowest, NULL);
        const struct trace_operator *op = merge->trace->operators;
        g_assert_cmpuint(op[0].duration_ns, ==, slowest ? 40 : 10);
        g_assert_cmpuint(op[1].duration_ns, ==, 100);
        g_assert_cmpuint(op[2].duration_ns, ==, slowest ? 9 : 7);
        g_assert_cmpuint(op[1].exchange[TRACE_REDUCE].received_bytes, ==, 99);
        g_assert_cmpuint(merge->exchanges, ==, 1);
        g_assert_cmpuint(merge->rank[0].waiting_ns, ==, 20);
        g_assert_cmpuint(merge->rank[1].waiting_ns, ==, 0);
        g_assert_cmpuint(merge->rank[2].waiting_ns, ==, 30);
        g_assert_cmpuint(merge->rank[1].last, ==, 1);
        g_assert_cmpuint(merge->rank[0].last + merge->rank[2].last, ==, 0);
        g_assert_cmpuint(merge->rank[2].computing_ns, ==, 19);
        g_assert_cmpuint(merge->rank[2].exchanging_ns, ==, 100);
        g_assert_true(trace_check(merge->trace, "", NULL));
        merge_free(merge);
    }
    for (int r = 0; r < 3; r++)
        trace_free(traces[r]);
}

/* Each rank is the last one at a gather. The gathers do not count if a rank has another number. */
static void test_gathers(void)
{
    static const uint64_t durations[] = {10, 100, 5};
    uint64_t gathered[3][2] = {{50, 20}, {30, 70}, {90, 80}},
             bytes[3][2] = {{4, 8}, {5, 8}, {4, 7}};
    struct trace *traces[3];
    struct gathers of_rank[3], *gathers[3];
    for (int r = 0; r < 3; r++) {
        traces[r] = trace_of_rank(durations, 90);
        of_rank[r] = (struct gathers){2, bytes[r], gathered[r]};
        gathers[r] = &of_rank[r];
    }
    for (int alike = 1; alike >= 0; alike--) {
        of_rank[2].count = alike ? 2 : 1;
        struct merge *merge = merge_traces(traces, gathers, paths, 3, false, NULL);
        g_assert_cmpuint(merge->gathers, ==, alike ? 2 : 0);
        g_assert_cmpuint(merge->exchanges, ==, 1 + merge->gathers);
        g_assert_cmpuint(merge->network_ns, ==, 100 + (alike ? 30 + 20 : 0));
        g_assert_cmpuint(merge->received_bytes, ==, 90 + (alike ? 5 + 8 : 0));
        g_assert_cmpuint(merge->rank[0].last, ==, alike ? 2 : 1);
        g_assert_cmpuint(merge->rank[1].last, ==, alike ? 1 : 0);
        g_assert_cmpuint(merge->rank[0].waiting_ns, ==, alike ? 20 : 0);
        g_assert_cmpuint(merge->rank[2].waiting_ns, ==, alike ? 60 + 60 : 0);
        g_assert_cmpuint(merge->trace->operators[1].duration_ns, ==, 100);
        merge_free(merge);
    }
    for (int r = 0; r < 3; r++)
        trace_free(traces[r]);
}

static void assert_refused(struct trace *const *traces, uint32_t count, const char *reason)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(merge_traces(traces, none, paths, count, false, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, reason));
}

static void test_refused(void)
{
    static const uint64_t duration_ns[] = {1, 2, 3};
    struct trace *traces[3];
    for (int r = 0; r < 3; r++)
        traces[r] = trace_of_rank(duration_ns, 8);
    assert_refused(traces, 2, "3 ranks, but there are 2");
    traces[2]->tensors[0].elements = 65;
    assert_refused(traces, 3, "r2: another structure than r0");
    traces[2]->stage = 1; /* as of a run without stages */
    assert_refused(traces, 3, "r2: another structure than r0");
    for (int r = 0; r < 3; r++)
        traces[r]->stages = 2;
    assert_refused(traces, 3, "r2: is of stage 1 of a pipeline, and r0 of stage 0");
    for (int r = 0; r < 3; r++)
        traces[r]->ranks = 1;
    assert_refused(traces, 1, "one rank");
    for (int r = 0; r < 3; r++)
        trace_free(traces[r]);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/merge/waits", test_waits);
    g_test_add_func("/merge/gathers", test_gathers);
    g_test_add_func("/merge/refused", test_refused);
    return g_test_run();
}
