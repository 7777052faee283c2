#include "chunks/non_model.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#define TRIALS draws(UNLESS_SANITIZED(150, 30), 300)

static void check_apart(const struct trace *trace, const struct non_model *placed)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        if (held && held[b])
            continue;
        for (uint32_t o = 0; o < b; o++) {
            const struct trace_buffer *other = &trace->buffers[o];
            if (held && held[o])
                continue;
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

/* ---- the rule by the book: the longest-lived first, each moved up past all that it meets ---- */

static int longest_first(const void *left, const void *right)
{
    const struct trace_buffer *a = *(struct trace_buffer *const *)left,
                              *b = *(struct trace_buffer *const *)right;
    uint32_t span_a = a->last - a->first, span_b = b->last - b->first;
    if (span_a != span_b)
        return span_a > span_b ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a < b ? -1 : 1;
}

/* Of one of the `before` first in the order that `buffer` meets `at` an offset; 0: of none. */
static uint64_t end_of_obstacle(struct trace_buffer *const *order, uint32_t before,
                                const uint64_t *offset, const struct trace *trace,
                                const struct trace_buffer *buffer, uint64_t at)
{
    for (uint32_t i = 0; i < before; i++) {
        const struct trace_buffer *other = order[i];
        uint64_t from = offset[other - trace->buffers];
        if (buffer->first <= other->last && other->first <= buffer->last &&
            at < from + other->bytes && from < at + buffer->bytes)
            return from + other->bytes;
    }
    return 0;
}

static uint64_t *place_slowly(const struct trace *trace)
{
    uint32_t count = trace->buffer_count;
    g_autofree struct trace_buffer **order = g_new(struct trace_buffer *, count);
    uint64_t *offset = g_new0(uint64_t, count);
    for (uint32_t b = 0; b < count; b++)
        order[b] = &trace->buffers[b];
    qsort(order, count, sizeof(struct trace_buffer *), longest_first);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *at = &offset[order[i] - trace->buffers], end;
        while ((end = end_of_obstacle(order, i, offset, trace, order[i], *at)))
            *at = end;
    }
    return offset;
}

/* If the rule's peak is the least possible, the rule's offsets are kept. Otherwise the search may
 * find better ones. */
static void check_rule(const struct trace *trace, const struct non_model *placed)
{
    size_t bytes = trace->buffer_count * sizeof(uint64_t);
    g_autofree uint64_t *expected = place_slowly(trace);
    uint64_t peak = 0;
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        peak = MAX(peak, expected[b] + trace->buffers[b].bytes);
    if (peak == placed->peak_live_bytes || peak == placed->peak_bytes)
        g_assert_cmpmem(placed->offset, bytes, expected, bytes);
    g_assert_cmpuint(placed->peak_bytes, <=, peak);
}

/* Buffers for more than one block. Some live long and most briefly, as in a step of many
 * micro-batches. They have a few sizes, so that holes are filled exactly, too. */
static void test_many(void)
{
    enum { MOMENTS = 900, BUFFERS = 1500, ROUNDS = UNLESS_SANITIZED(12, 2) };
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int round = 0; round < ROUNDS; round++) {
        struct trace_operator *operators = g_new0(struct trace_operator, MOMENTS);
        struct trace_buffer *buffers = g_new0(struct trace_buffer, BUFFERS);
        int longest = round % 2 ? 30 : MOMENTS;
        for (int b = 0; b < BUFFERS; b++) {
            int first = g_rand_int_range(random, 0, round % 3 ? MOMENTS : MOMENTS / 20);
            int span = g_rand_int_range(random, 0, b % 20 ? 30 : longest);
            buffers[b].first = (uint32_t)first;
            buffers[b].last = (uint32_t)MIN(MOMENTS - 1, first + span);
            buffers[b].bytes = 256 * (uint64_t)g_rand_int_range(random, 1, 9);
        }
        struct trace trace = {.operator_count = MOMENTS,
                              .operators = operators,
                              .buffer_count = BUFFERS,
                              .buffers = buffers};
        trace_sum_buffers(&trace);
        struct non_model *placed = non_model_place(&trace);
        check_rule(&trace, placed);
        check_apart(&trace, placed);
        non_model_free(placed);
        g_free(trace.non_model_bytes);
        g_free(buffers);
        g_free(operators);
    }
}

/* If lifetimes nest, as those of forward and backward do, the extent equals the live sum at every
 * moment. */
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
    g_test_add_func("/non-model/many", test_many);
    g_test_add_func("/non-model/stack", test_stack);
    return g_test_run();
}
