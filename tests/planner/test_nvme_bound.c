/* What NVMe must read and write, counted by hand, and never more than any plan does. */
#include "chunks/dry_run.h"
#include "chunks/nvme_homes.h"
#include "planner/answers/verify.h"
#include "planner/proof/nvme_bound.h"
#include "planner/proof/nvme_prices.h"
#include "tests/chunks/random_iteration.h"
#include <math.h>

enum { ELEMENTS = 1000000, BYTES = 4 * ELEMENTS, TENSORS = 3, PLANS = 400 };

static void add_operator(struct trace *trace, enum trace_phase phase, struct trace_access access)
{
    uint32_t m = trace->operator_count++;
    trace->accesses[m] = access;
    trace->access_count = m + 1;
    trace->operators[m] = (struct trace_operator){.name = g_strdup_printf("operator %u", m),
                                                  .phase = (uint8_t)phase,
                                                  .layer = -1,
                                                  .first_access = m,
                                                  .access_count = 1,
                                                  .duration_ns = 1000};
}

/* Forward reads three parameters of 4 MB, backward overwrites the gradients of the first two, which
 * may be read then, and these parameters are updated, the second one without being read. */
static struct trace *small_iteration(bool reads_gradients)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->producer = g_strdup("a test");
    trace->precision = g_strdup("fp32");
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = trace->list_element_bytes[TRACE_GRAD] = 4;
    trace->tensor_count = TENSORS;
    trace->tensors = g_new0(struct trace_tensor, TENSORS);
    trace->operators = g_new0(struct trace_operator, TENSORS + 6);
    trace->accesses = g_new0(struct trace_access, TENSORS + 7);
    for (uint32_t t = 0; t < TENSORS; t++) {
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("t%u", t),
                                                  .elements = ELEMENTS};
        add_operator(trace, TRACE_FORWARD, (struct trace_access){t, TRACE_PARAM, TRACE_READ, 0});
    }
    for (uint32_t t = 0; t < 2; t++)
        add_operator(trace, TRACE_BACKWARD,
                     (struct trace_access){t, TRACE_GRAD, TRACE_OVERWRITE, 0});
    for (uint32_t t = 0; t < 2 && reads_gradients; t++)
        add_operator(trace, TRACE_UPDATE_PHASE,
                     (struct trace_access){t, TRACE_GRAD, TRACE_READ, 0});
    for (uint32_t t = 0; t < 2; t++)
        add_operator(trace, TRACE_UPDATE_PHASE,
                     (struct trace_access){t, TRACE_PARAM, t ? TRACE_OVERWRITE : TRACE_UPDATE, 0});
    trace_sum_buffers(trace);
    return trace;
}

/* A buffer has two million bytes of the device while all parameters live, and until the gradients
 * do. */
static void test_non_model(void)
{
    for (int reads = 0; reads < 2; reads++) {
        struct trace *trace = small_iteration(reads);
        trace->buffer_count = 1;
        trace->buffers = g_new0(struct trace_buffer, 1);
        trace->buffers[0] = (struct trace_buffer){
            .name = g_strdup("workspace"), .bytes = BYTES / 2, .first = 0, .last = 5};
        trace_sum_buffers(trace);
        struct layout *layout = layout_pack_uniform(trace, BYTES, NULL);
        const struct plan plan = {
            .layout = layout, .device_budget = 2ull * BYTES, .host_budget = BYTES};
        const struct nvme_least least = nvme_least(&plan, trace);
        g_assert_cmpuint(least.read_bytes, ==, reads ? BYTES + BYTES / 2 : BYTES / 2);
        g_assert_cmpuint(least.write_bytes, ==, reads ? BYTES / 2 : 0);
        layout_free(layout);
        trace_free(trace);
    }
}

/* All three parameters outlive the iteration, and two change. Where gradients are read, they, the
 * first and the third parameter live when backward ends, and the third one does not change. */
static void test_by_hand(void)
{
    static const struct {
        uint64_t device, host, read, write;
        bool reads_gradients;
    } cases[] = {{0, 0, 3ull * BYTES, 2ull * BYTES, false},
                 {BYTES, 0, 2ull * BYTES, BYTES, false},
                 {BYTES / 2, BYTES / 4, 2ull * BYTES + BYTES / 4, BYTES + BYTES / 4, false},
                 {BYTES, BYTES, BYTES, 0, false},
                 {BYTES, UINT64_MAX, 0, 0, false},
                 {UINT64_MAX, UINT64_MAX, 0, 0, false},
                 {0, 0, 4ull * BYTES, 3ull * BYTES, true},
                 {BYTES, BYTES / 2, 2ull * BYTES + BYTES / 2, BYTES + BYTES / 2, true},
                 {2ull * BYTES, BYTES, BYTES, 0, true}};
    struct costs *costs = costs_new(NULL, NULL, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct trace *trace = small_iteration(cases[i].reads_gradients);
        struct layout *layout = layout_pack_uniform(trace, BYTES, NULL);
        const struct plan plan = {
            .layout = layout, .device_budget = cases[i].device, .host_budget = cases[i].host};
        const struct nvme_least least = nvme_least(&plan, trace);
        g_assert_cmpuint(least.read_bytes, ==, cases[i].read);
        g_assert_cmpuint(least.write_bytes, ==, cases[i].write);
        uint64_t ns = (uint64_t)((double)cases[i].read / COSTS_DEFAULT_NVME_RATE * 1e9);
        g_assert_cmpuint(nvme_bound_ns(&plan, trace, costs), <=, ns);
        g_assert_cmpuint(nvme_bound_ns(&plan, trace, costs) + 2 * layout->chunk_count, >=, ns);
        layout_free(layout);
        trace_free(trace);
    }
    costs_free(costs);
}

/* The operator that updates the second parameter updates its moment, too. */
static struct trace *iteration_with_moment(void)
{
    struct trace *trace = small_iteration(false);
    trace->list_element_bytes[TRACE_EXP_AVG] = 4;
    trace->operators[trace->operator_count - 1].access_count++;
    trace->accesses[trace->access_count++] = (struct trace_access){1, TRACE_EXP_AVG, TRACE_UPDATE,
                                                                   0};
    for (uint32_t m = 1; m < trace->operator_count; m++)
        trace->operators[m].duration_ns = 10000000;
    trace->operators[0].duration_ns = 0;
    trace_sum_buffers(trace);
    return trace;
}

/* The device works 40 ms from the second operator to the updates. When it begins, both updates have
 * run: three chunks have changed since the device ended the work before them, and two of them have
 * been read as well. A chunk takes 2 ms. When the first operator begins, which takes no time, only
 * the first update is known to have run. */
static void test_spans(void)
{
    static const struct {
        uint64_t device, ns;
        bool writes_fast;
    } cases[] = {
        {0, 46000000, false},           {BYTES, 44000000, false}, {2ull * BYTES, 42000000, false},
        {3ull * BYTES, 2000000, false}, {0, 44000000, true},      {BYTES / 2, 43000000, true}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct costs *costs = costs_new(NULL, "h2d=1PB/s,d2h=1PB/s", NULL);
        struct cost nvme_write = costs->nvme[1];
        if (cases[i].writes_fast)
            costs->nvme[1] = costs->h2d;
        struct trace *trace = iteration_with_moment();
        struct layout *layout = layout_pack_uniform(trace, BYTES, NULL);
        const struct plan plan = {.layout = layout, .device_budget = cases[i].device};
        uint64_t bound_ns = nvme_bound_ns(&plan, trace, costs);
        g_assert_cmpuint(bound_ns, <=, cases[i].ns + 12);
        g_assert_cmpuint(bound_ns + 2 * layout->chunk_count, >=, cases[i].ns);
        layout_free(layout);
        trace_free(trace);
        costs->nvme[1] = nvme_write;
        costs_free(costs);
    }
}

/* Two micro-batches read three parameters in turn, and there is room for two: beside the one that
 * is read, one stays until it is read again, for which it waits while two others are. So half of
 * the six reads find their parameter, and three are read from the disk. When an operator begins,
 * only one need be there. */
static struct trace *two_rounds(void)
{
    struct trace *trace = small_iteration(false);
    for (uint32_t m = TENSORS; m < trace->operator_count; m++)
        g_free(trace->operators[m].name);
    trace->operator_count = trace->access_count = TENSORS;
    for (uint32_t t = 0; t < TENSORS; t++)
        add_operator(trace, TRACE_BACKWARD, (struct trace_access){t, TRACE_PARAM, TRACE_READ, 0});
    trace_sum_buffers(trace);
    return trace;
}

static void test_rounds(void)
{
    struct costs *costs = costs_new(NULL, NULL, NULL);
    struct trace *trace = two_rounds();
    struct layout *layout = layout_pack_uniform(trace, BYTES, NULL);
    const struct plan plan = {
        .layout = layout, .device_budget = BYTES, .host_budget = BYTES, .nvme_bytes = BYTES};
    const uint64_t chunk_ns = 2000000;
    struct certificate_nvme found;
    uint64_t at_once = nvme_bound_ns(&plan, trace, costs), again;
    uint64_t bound = nvme_prices_prove(&plan, trace, costs, at_once, &found);
    g_assert_cmpuint(at_once, <=, chunk_ns);
    g_assert_cmpuint(bound, <=, 3 * chunk_ns);
    g_assert_cmpuint(bound + 100, >=, 3 * chunk_ns);
    g_assert_null(nvme_prices_recompute(&plan, trace, costs, &found, &again));
    g_assert_cmpuint(again, ==, bound);
    found.prices[0].moment = 1000;
    g_assert_nonnull(nvme_prices_recompute(&plan, trace, costs, &found, &again));
    g_free(found.prices);
    layout_free(layout);
    trace_free(trace);
    costs_free(costs);
}

/* Returns a plan of the drawn trace that lives partly in NVMe; NULL if there is none. */
static struct plan *draw_plan(GRand *random, const struct trace *trace)
{
    struct layout *layout =
        layout_pack_uniform(trace, 256 * (uint64_t)g_rand_int_range(random, 1, 60), NULL);
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    const struct dry_run_options options = {
        .device_budget = accesses_least_arena_bytes(accesses, layout, NULL) +
                         (uint64_t)g_rand_int_range(random, 0, 8192),
        .host_budget = UINT64_MAX,
        .policy = random_policy(random)};
    struct plan *plan = dry_run(trace, layout, &options, NULL);
    const struct nvme_budget budget = {
        .host_bytes = plan ? (uint64_t)(g_rand_double(random) * (double)plan->host_pool_bytes) : 0,
        .nvme_bytes = UINT64_MAX};
    if (plan && (!nvme_homes_give(plan, trace, accesses, &budget, NULL) || !plan->nvme_bytes))
        g_clear_pointer(&plan, plan_free);
    accesses_free(accesses);
    non_model_free(non_model);
    layout_free(layout);
    return plan;
}

/* The disk becomes slow or fast beside the operators. */
static void scale_durations(GRand *random, struct trace *trace)
{
    double scale = pow(10, g_rand_double_range(random, -2, 1.5));
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns =
            (uint64_t)((double)trace->operators[m].duration_ns * scale);
}

/* Returns whether the bound from prices, which is not above the plan's time either, is larger. */
static bool check_prices(const struct plan *plan, const struct trace *trace,
                         const struct costs *costs, uint64_t most_ns)
{
    uint64_t at_once = nvme_bound_ns(plan, trace, costs), again;
    struct certificate_nvme found;
    uint64_t bound = nvme_prices_prove(plan, trace, costs, at_once, &found);
    g_assert_cmpuint(bound, <=, most_ns);
    g_assert_null(nvme_prices_recompute(plan, trace, costs, &found, &again));
    g_assert_cmpuint(again, ==, found.prices ? bound : 0);
    g_free(found.prices);
    return bound > at_once;
}

static void test_below_every_plan(void)
{
    static struct trace *(*const draws[])(GRand *) = {random_iteration, shared_iteration,
                                                      ranks_iteration, wild_iteration};
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct costs *costs = costs_new(NULL, "h2d=1TB/s,d2h=1TB/s", NULL);
    int compared = 0, above_zero = 0, raised = 0;
    double nearest = 0;
    for (int i = 0; i < PLANS; i++) {
        struct trace *trace = draws[i % G_N_ELEMENTS(draws)](random);
        scale_durations(random, trace);
        struct plan *plan = draw_plan(random, trace);
        if (plan) {
            const struct nvme_least least = nvme_least(plan, trace);
            g_assert_cmpuint(least.read_bytes, <=, plan->predicted.nvme_read_bytes);
            g_assert_cmpuint(least.write_bytes, <=, plan->predicted.nvme_write_bytes);
            above_zero += least.read_bytes > 0 && least.write_bytes > 0;
            double ns = plan_replay(plan, trace, costs, NULL).iteration_seconds * 1e9;
            double bound_ns = (double)nvme_bound_ns(plan, trace, costs);
            g_assert_cmpfloat(bound_ns, <=, ns + 1);
            raised += check_prices(plan, trace, costs, (uint64_t)ns + 1);
            nearest = MAX(nearest, bound_ns / ns);
            compared++;
        }
        plan_free(plan);
        trace_free(trace);
    }
    costs_free(costs);
    g_test_message("%d plans, %d with a bound above zero, %d with a larger one from prices, the "
                   "nearest %.0f %% of its time",
                   compared, above_zero, raised, 100 * nearest);
    g_assert_cmpint(compared, >, PLANS / 20);
    g_assert_cmpint(above_zero, >, 0);
    g_assert_cmpfloat(nearest, >, 0.2);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme-bound/by-hand", test_by_hand);
    g_test_add_func("/nvme-bound/spans", test_spans);
    g_test_add_func("/nvme-bound/non-model", test_non_model);
    g_test_add_func("/nvme-bound/rounds", test_rounds);
    g_test_add_func("/nvme-bound/below-every-plan", test_below_every_plan);
    return g_test_run();
}
