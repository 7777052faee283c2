#include "chunks/non_model.h"
#include "tests/chunks/random_iteration.h"

#define TRIALS 300

static void check_apart(const struct trace *trace, const struct non_model *placed)
{
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        for (uint32_t o = 0; o < b; o++) {
            const struct trace_buffer *other = &trace->buffers[o];
            bool meet = buffer->first <= other->last && other->first <= buffer->last;
            bool overlap = placed->offset[b] < placed->offset[o] + other->bytes &&
                           placed->offset[o] < placed->offset[b] + buffer->bytes;
            g_assert_false(meet && overlap);
        }
        for (uint32_t m = buffer->first; m <= buffer->last; m++)
            g_assert_cmpuint(placed->offset[b] + buffer->bytes, <=, placed->extent[m]);
    }
}

static void test_random(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < TRIALS; i++) {
        struct trace *trace = random_iteration(random);
        struct non_model *placed = non_model_place(trace);
        check_apart(trace, placed);
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            g_assert_cmpuint(placed->extent[m], >=, trace->non_model_bytes[m]);
            g_assert_cmpuint(placed->extent[m], <=, placed->peak_bytes);
        }
        non_model_free(placed);
        trace_free(trace);
    }
    g_rand_free(random);
}

/* Lives that nest, as forward and backward make them: the extent is the live sum everywhere. */
static void test_stack(void)
{
    enum { LAYERS = 5 };
    struct trace_buffer buffers[2 * LAYERS];
    struct trace_operator operators[2 * LAYERS];
    memset(operators, 0, sizeof operators);
    for (uint32_t l = 0; l < LAYERS; l++) {
        uint32_t backward = 2 * LAYERS - 1 - l;
        buffers[2 * l] = (struct trace_buffer){"saved", 256 * (l + 1), l, backward, true, 0};
        buffers[2 * l + 1] = (struct trace_buffer){"work", 1024, backward, backward, false, 0};
    }
    struct trace trace = {.operator_count = 2 * LAYERS,
                          .operators = operators,
                          .buffer_count = 2 * LAYERS,
                          .buffers = buffers};
    trace_sum_buffers(&trace);
    struct non_model *placed = non_model_place(&trace);
    for (uint32_t m = 0; m < trace.operator_count; m++)
        g_assert_cmpuint(placed->extent[m], ==, trace.non_model_bytes[m]);
    g_assert_cmpuint(placed->peak_bytes, ==, 256 * (1 + 2 + 3 + 4 + 5) + 1024);
    non_model_free(placed);
    g_free(trace.non_model_bytes);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/non-model/random", test_random);
    g_test_add_func("/non-model/stack", test_stack);
    return g_test_run();
}
