/* The least that passes NVMe in small drawn iterations, found by trying all there is to try, and
 * the bound of it. */
#include "planner/proof/nvme_reuses.h"
#include "planner/proof/prices.h"
#include "tests/chunks/random_iteration.h"

#include <math.h>

enum { DRAWS = 60, TENSORS_MOST = 3, STEPS_MOST = 32 };

/* Where a chunk's bytes are: in NVMe alone, or above it as well, or only there. */
enum where { AWAY, SAME, CHANGED, WHERES };

/* Chunks that are used: each tensor's parameter, and a gradient and a moment. */
enum { CHUNKS_MOST = TENSORS_MOST + 2, STATES_MOST = 3 * 3 * 3 * 3 * 3 };

/* An iteration of two or three parameters, one of which is trained. */
struct drawn {
    struct trace *trace;
    struct layout *layout;
    struct accesses *accesses;
    uint32_t order[STEPS_MOST], steps; /* moments as they run, in a cycle */
    chunk_id chunks[CHUNKS_MOST];
    uint32_t chunk_count, state_count;
    uint64_t memory;
};

static void begin_operator(struct trace *trace, enum trace_phase phase)
{
    uint32_t m = trace->operator_count++;
    trace->operators[m] = (struct trace_operator){.name = g_strdup_printf("operator %u", m),
                                                  .phase = (uint8_t)phase,
                                                  .layer = -1,
                                                  .first_access = trace->access_count};
}

static void add_access(struct trace *trace, tensor_id tensor, enum trace_list list,
                       enum trace_mode mode)
{
    trace->operators[trace->operator_count - 1].access_count++;
    trace->accesses[trace->access_count++] = (struct trace_access){tensor, (uint8_t)list,
                                                                   (uint8_t)mode, 0};
}

static void add_micro_batch(GRand *random, struct trace *trace, tensor_id trained, bool first)
{
    for (tensor_id t = 0; t < trace->tensor_count; t++) {
        begin_operator(trace, TRACE_FORWARD);
        add_access(trace, t, TRACE_PARAM, TRACE_READ);
    }
    for (tensor_id t = trace->tensor_count; t-- > 0;) {
        if (t != trained && g_rand_boolean(random))
            continue;
        begin_operator(trace, TRACE_BACKWARD);
        add_access(trace, t, TRACE_PARAM, TRACE_READ);
        if (t == trained)
            add_access(trace, t, TRACE_GRAD, first ? TRACE_OVERWRITE : TRACE_UPDATE);
    }
}

static struct trace *draw_trace(GRand *random, tensor_id trained, uint32_t tensors)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->producer = g_strdup("a test");
    trace->precision = g_strdup("fp32");
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = trace->list_element_bytes[TRACE_EXP_AVG] = 4;
    trace->list_element_bytes[TRACE_GRAD] = g_rand_boolean(random) ? 1 : 4;
    trace->tensor_count = tensors;
    trace->tensors = g_new0(struct trace_tensor, tensors);
    trace->operators = g_new0(struct trace_operator, STEPS_MOST);
    trace->accesses = g_new0(struct trace_access, 2 * STEPS_MOST);
    bool alike = g_rand_boolean(random);
    for (tensor_id t = 0; t < tensors; t++)
        trace->tensors[t] = (struct trace_tensor){
            .name = g_strdup_printf("t%u", t),
            .elements = 256 * (uint64_t)(alike ? 1 : g_rand_int_range(random, 1, 6)),
            .absent = t == trained ? 0 : 1 << TRACE_GRAD | 1 << TRACE_EXP_AVG};
    int micro_batches = g_rand_int_range(random, 1, 4);
    for (int k = 0; k < micro_batches; k++)
        add_micro_batch(random, trace, trained, k == 0);
    begin_operator(trace, TRACE_UPDATE_PHASE);
    add_access(trace, trained, TRACE_PARAM,
               g_rand_boolean(random) ? TRACE_UPDATE : TRACE_OVERWRITE);
    add_access(trace, trained, TRACE_GRAD, TRACE_READ);
    add_access(trace, trained, TRACE_EXP_AVG, TRACE_UPDATE);
    trace_sum_buffers(trace);
    return trace;
}

/* The update runs behind backward, or as late as in the next iteration before forward reads what it
 * writes. */
static void draw_order(GRand *random, struct drawn *drawn, tensor_id trained)
{
    uint32_t update = drawn->trace->operator_count - 1;
    uint32_t late = (uint32_t)g_rand_int_range(random, 0, (gint)trained + 1);
    for (uint32_t m = 0; m < update; m++) {
        if (m == late && late)
            drawn->order[drawn->steps++] = update;
        drawn->order[drawn->steps++] = m;
    }
    if (!late)
        drawn->order[drawn->steps++] = update;
}

/* Lists have chunks for tensors that they lack. */
static bool is_used(const struct drawn *drawn, chunk_id chunk)
{
    for (uint32_t a = 0; a < drawn->accesses->count; a++)
        if (drawn->accesses->items[a].chunk == chunk)
            return true;
    return false;
}

static uint64_t most_at_once(const struct drawn *drawn)
{
    const struct accesses *accesses = drawn->accesses;
    uint64_t most = 0;
    for (uint32_t m = 0; m < accesses->moment_count; m++) {
        uint64_t bytes = 0;
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            bytes += drawn->layout->chunks[accesses->items[a].chunk].copy_bytes;
        most = MAX(most, bytes);
    }
    return most;
}

static struct drawn draw(GRand *random)
{
    uint32_t tensors = (uint32_t)g_rand_int_range(random, 2, TENSORS_MOST + 1);
    tensor_id trained = (tensor_id)g_rand_int_range(random, 0, (gint)tensors);
    struct drawn drawn = {.trace = draw_trace(random, trained, tensors), .state_count = 1};
    drawn.layout = layout_pack_uniform(drawn.trace, LAYOUT_ALIGNMENT, NULL);
    struct non_model *non_model = non_model_place(drawn.trace);
    drawn.accesses = accesses_new(drawn.trace, drawn.layout, non_model->extent);
    non_model_free(non_model);
    draw_order(random, &drawn, trained);
    uint64_t all = 0, least = most_at_once(&drawn);
    for (chunk_id c = 0; c < drawn.layout->chunk_count; c++)
        if (is_used(&drawn, c)) {
            drawn.chunks[drawn.chunk_count++] = c;
            drawn.state_count *= WHERES;
            all += drawn.layout->chunks[c].copy_bytes;
        }
    drawn.memory = least + LAYOUT_ALIGNMENT *
                               (uint64_t)g_rand_int_range(random, 0,
                                                          (gint)((all - least) / LAYOUT_ALIGNMENT));
    return drawn;
}

static void drawn_clear(struct drawn *drawn)
{
    accesses_free(drawn->accesses);
    layout_free(drawn->layout);
    trace_free(drawn->trace);
}

/* ---- the least of all schedules ---- */

static uint64_t bytes_of(const struct drawn *drawn, uint32_t i)
{
    return drawn->layout->chunks[drawn->chunks[i]].copy_bytes;
}

static enum where where_is(uint32_t state, uint32_t i)
{
    while (i--)
        state /= WHERES;
    return (enum where)(state % WHERES);
}

static uint32_t moved_to(uint32_t state, uint32_t i, enum where where)
{
    uint32_t unit = 1;
    for (uint32_t k = 0; k < i; k++)
        unit *= WHERES;
    return state + unit * ((uint32_t)where - (uint32_t)where_is(state, i));
}

/* Lets each chunk be read, written and leave, one chunk after the other: those that leave first
 * need not do so before the others come, because only operators say what must be there at once. */
static void move_chunks(const struct drawn *drawn, const struct copy_weights *weights, double *cost)
{
    for (uint32_t i = 0; i < drawn->chunk_count; i++) {
        double read = (double)bytes_of(drawn, i) * weights->fetched,
               write = (double)bytes_of(drawn, i) * weights->written;
        for (uint32_t s = 0; s < drawn->state_count; s++) {
            if (where_is(s, i) != AWAY)
                continue;
            double *away = &cost[s], *same = &cost[moved_to(s, i, SAME)],
                   *changed = &cost[moved_to(s, i, CHANGED)];
            *same = fmin(*same, *changed + write);
            double was_away = *away;
            *away = fmin(*away, *same);
            *same = fmin(*same, was_away + read);
        }
    }
}

/* Returns the state behind an operator; NO_INDEX if it cannot run. What it overwrites need not be
 * there before, but its room must. What dies may go for nothing, as if nothing had changed. */
static uint32_t run(const struct drawn *drawn, uint32_t moment, uint32_t state)
{
    const struct accesses *accesses = drawn->accesses;
    uint64_t taken = 0;
    uint32_t before = state;
    for (uint32_t i = 0; i < drawn->chunk_count; i++) {
        const struct chunk_access *use = NULL;
        for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++)
            if (accesses->items[a].chunk == drawn->chunks[i])
                use = &accesses->items[a];
        enum where where = where_is(before, i);
        taken += use || where != AWAY ? bytes_of(drawn, i) : 0;
        if (use && where == AWAY && !(use->flags & ACCESS_FRESH))
            return NO_INDEX;
        if (use && use->flags & ACCESS_LAST)
            state = moved_to(state, i, SAME);
        else if (use && use->flags & ACCESS_WRITES)
            state = moved_to(state, i, CHANGED);
    }
    return taken <= drawn->memory ? state : NO_INDEX;
}

/* Returns what the cheapest iteration costs that begins and ends in this state. */
static double cheapest_from(const struct drawn *drawn, const struct copy_weights *weights,
                            uint32_t begin)
{
    double cost[STATES_MOST], next[STATES_MOST];
    for (uint32_t s = 0; s < drawn->state_count; s++)
        cost[s] = s == begin ? 0 : INFINITY;
    for (uint32_t i = 0; i < drawn->steps; i++) {
        move_chunks(drawn, weights, cost);
        for (uint32_t s = 0; s < drawn->state_count; s++)
            next[s] = INFINITY;
        for (uint32_t s = 0; s < drawn->state_count; s++) {
            uint32_t after = isfinite(cost[s]) ? run(drawn, drawn->order[i], s) : NO_INDEX;
            if (after != NO_INDEX)
                next[after] = fmin(next[after], cost[s]);
        }
        memcpy(cost, next, sizeof cost);
    }
    move_chunks(drawn, weights, cost);
    return cost[begin];
}

static double cheapest(const struct drawn *drawn, const struct copy_weights *weights)
{
    double least = INFINITY;
    for (uint32_t s = 0; s < drawn->state_count; s++)
        least = fmin(least, cheapest_from(drawn, weights, s));
    return least;
}

/* ---- the bound ---- */

static double bound_of(GRand *random, const struct drawn *drawn, const struct copy_weights *weights)
{
    uint64_t device = (uint64_t)(g_rand_double(random) * (double)drawn->memory);
    const struct plan plan = {
        .layout = drawn->layout, .device_budget = device, .host_budget = drawn->memory - device};
    struct reuses *reuses = nvme_reuses_new(&plan, drawn->trace);
    g_autofree uint64_t *price = traffic_prices_find(reuses, weights);
    double bound = (double)bound_copies(reuses, weights, price);
    reuses_free(reuses);
    return fmax(bound, 0);
}

static uint32_t draw_weight(GRand *random)
{
    return g_rand_boolean(random) ? BOUND_PRICE_SCALE
                                  : (uint32_t)(g_rand_double(random) * BOUND_PRICE_SCALE);
}

static void test_below_the_least(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    double share = 0;
    int met = 0, above_zero = 0;
    for (int i = 0; i < DRAWS; i++) {
        struct drawn drawn = draw(random);
        const struct copy_weights weights = {draw_weight(random), draw_weight(random)};
        double least = cheapest(&drawn, &weights), bound = bound_of(random, &drawn, &weights);
        g_assert_true(isfinite(least));
        g_assert_cmpfloat(bound, <=, least);
        if (least > 0) {
            share += bound / least;
            met += bound >= 0.999 * least;
            above_zero++;
        }
        drawn_clear(&drawn);
    }
    g_test_message(
        "%d iterations that use NVMe: the bound is the least in %d, and %.0f %% of it on "
        "average",
        above_zero, met, 100 * share / above_zero);
    g_assert_cmpint(above_zero, >, DRAWS / 4);
    g_assert_cmpfloat(share, >, 0.25 * above_zero);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme-prices/below-the-least", test_below_the_least);
    return g_test_run();
}
