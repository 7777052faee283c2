/* Bounds of the time in certificates for traces so small that they can be counted by hand. What
 * proves them is refused once it is altered. */
#include "link_plan.h"
#include "planner/proof/bound.h"
#include "planner/proof/certificate.h"
#include "planner/proof/prices.h"
#include "tests/chunks/random_iteration.h"

static void add_operator(struct trace *trace, const char *name, enum trace_phase phase,
                         enum trace_place place, uint64_t ms, struct trace_access access)
{
    uint32_t m = trace->operator_count++;
    trace->accesses[m] = access;
    trace->access_count = m + 1;
    trace->operators[m] = (struct trace_operator){.name = g_strdup(name),
                                                  .phase = (uint8_t)phase,
                                                  .place = (uint8_t)place,
                                                  .layer = -1,
                                                  .first_access = m,
                                                  .access_count = 1,
                                                  .duration_ns = ms * 1000000};
}

/* In fp32, of `tensor_count` tensors `elements` long, with room for operators and accesses. */
static struct trace *trace_of(uint32_t tensor_count, uint64_t elements, uint32_t operators,
                              uint32_t accesses)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->producer = g_strdup("a test");
    trace->precision = g_strdup("fp32");
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = trace->list_element_bytes[TRACE_GRAD] = 4;
    trace->tensor_count = tensor_count;
    trace->tensors = g_new0(struct trace_tensor, tensor_count);
    for (uint32_t t = 0; t < tensor_count; t++)
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("t%u", t),
                                                  .elements = elements};
    trace->operators = g_new0(struct trace_operator, operators);
    trace->accesses = g_new0(struct trace_access, accesses);
    return trace;
}

/* The host clears, and may then read, a gradient that the device overwrites in the next iteration.
 * So the device never waits for the host. */
static struct trace *trace_with_dead_writes(bool is_read)
{
    const struct trace_access gradient = {0, TRACE_GRAD, TRACE_OVERWRITE, 0},
                              cleared = {0, TRACE_GRAD, TRACE_UPDATE, 0},
                              read = {0, TRACE_GRAD, TRACE_READ, 0},
                              parameter = {0, TRACE_PARAM, TRACE_READ, 0};
    struct trace *trace = trace_of(1, 1024, 4, 4);
    add_operator(trace, "make", TRACE_FORWARD, TRACE_ON_DEVICE, 1, gradient);
    add_operator(trace, "use", TRACE_BACKWARD, TRACE_ON_DEVICE, 5, parameter);
    add_operator(trace, "clear", TRACE_UPDATE_PHASE, TRACE_ON_HOST, 5, cleared);
    if (is_read)
        add_operator(trace, "look", TRACE_UPDATE_PHASE, TRACE_ON_HOST, 1, read);
    trace_sum_buffers(trace);
    return trace;
}

static void test_dead_writes(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int is_read = 0; is_read < 2; is_read++) {
        g_autoptr(GError) error = NULL;
        struct trace *trace = trace_with_dead_writes(is_read), *placed;
        g_assert_true(trace_check(trace, "the test's", &error));
        struct plan *plan = search(trace, "200%", random, &placed);
        const struct certificate_source source = {
            .objective = "time", .link = LINK, .traced = trace};
        g_assert_true(certificate_make(plan, placed, &source, &error));
        const struct certificate_time *time = &plan->certificate->time;
        g_assert_cmpuint(time->bound, <=, time->achieved);
        g_assert_cmpuint(time->bound, >=, 6000000);
        g_assert_cmpuint(time->achieved, <, 7000000);
        plan_free(plan);
        trace_free(placed);
        trace_free(trace);
    }
}

/* The device waits for the host: nothing overlaps, from the gradient over the update to the
 * parameter. */
static struct trace *trace_with_chain(void)
{
    const struct trace_access read = {0, TRACE_PARAM, TRACE_READ, 0},
                              made = {0, TRACE_GRAD, TRACE_OVERWRITE, 0},
                              updated = {0, TRACE_PARAM, TRACE_UPDATE, 0};
    struct trace *trace = trace_of(1, 1000000, 3, 4);
    add_operator(trace, "use", TRACE_FORWARD, TRACE_ON_DEVICE, 1, read);
    add_operator(trace, "make", TRACE_BACKWARD, TRACE_ON_DEVICE, 2, made);
    add_operator(trace, "update", TRACE_UPDATE_PHASE, TRACE_ON_HOST, 5, updated);
    trace->accesses[trace->access_count++] = (struct trace_access){0, TRACE_GRAD, TRACE_READ, 0};
    trace->operators[2].access_count = 2;
    trace_sum_buffers(trace);
    return trace;
}

static void test_chains(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_chain(), *placed;
    g_assert_true(trace_check(trace, "the test's", &error));
    struct plan *plan = search(trace, "200%", random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    struct certificate_time *time = &plan->certificate->time;
    /* 1 + 2 + 5 ms, and 4 MB each way, but for the padding of chunks. */
    g_assert_cmpuint(time->achieved, >=, 18158000);
    g_assert_cmpuint(time->bound, <=, time->achieved);
    g_assert_cmpuint(time->bound, >=, time->achieved - time->achieved / 1000);
    g_assert_cmpuint(time->cases[0].prices.chain_count, >, 0);
    g_assert_true(certificate_check(plan, placed, trace, &error));

    struct certificate_chain *chain = &time->cases[0].prices.chains[0];
    const struct certificate_chain before = *chain;
    for (int change = 0; change < 5; change++) {
        uint32_t *const moments[] = {&chain->from, &chain->first, &chain->last, &chain->to};
        if (change < 4)
            *moments[change] += 1000;
        else
            chain->price++;
        g_assert_false(certificate_check(plan, placed, trace, &error));
        g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
        g_clear_error(&error);
        *chain = before;
    }
    time->case_count = 2; /* but updates stay where they are */
    g_assert_false(certificate_check(plan, placed, trace, &error));
    g_clear_error(&error);
    time->case_count = 1;
    time->cases[0].prices.windows[1].begins = WINDOW_AFTER_UPDATE; /* of none */
    g_assert_false(certificate_check(plan, placed, trace, &error));
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

/* The device updates two tensors, and has room for one of them. */
static struct trace *trace_with_large_updates(void)
{
    const struct trace_access read = {0, TRACE_PARAM, TRACE_READ, 0},
                              first = {0, TRACE_PARAM, TRACE_UPDATE, 0},
                              second = {1, TRACE_PARAM, TRACE_UPDATE, 0};
    struct trace *trace = trace_of(2, 1000000, 3, 3);
    trace->list_element_bytes[TRACE_GRAD] = 0;
    add_operator(trace, "use", TRACE_FORWARD, TRACE_ON_DEVICE, 1, read);
    add_operator(trace, "update t0", TRACE_UPDATE_PHASE, TRACE_ON_DEVICE, 5, first);
    add_operator(trace, "update t1", TRACE_UPDATE_PHASE, TRACE_ON_DEVICE, 5, second);
    trace_sum_buffers(trace);
    return trace;
}

/* Between two updates one tensor leaves and the other one comes. Neither overlaps an update. */
static void test_large_updates(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_large_updates(), *placed;
    g_assert_true(trace_check(trace, "the test's", &error));
    struct plan *plan = search(trace, "51%", random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    const struct certificate_time *time = &plan->certificate->time;
    /* 1 + 5 + 5 ms, and nearly twice the 4 MB to the host: 2 % of a tensor may stay. */
    g_assert_cmpuint(time->bound, <=, time->achieved);
    g_assert_cmpuint(time->bound, >=, 22000000);
    g_assert_true(certificate_check(plan, placed, trace, &error));
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

/* The device uses two tensors of 4 MB in turn for 10 ms each, and the host updates one of them. */
static struct trace *trace_with_long_uses(void)
{
    const struct trace_access first = {0, TRACE_PARAM, TRACE_READ, 0},
                              second = {1, TRACE_PARAM, TRACE_READ, 0},
                              updated = {1, TRACE_PARAM, TRACE_UPDATE, 0};
    struct trace *trace = trace_of(2, 1000000, 3, 3);
    trace->list_element_bytes[TRACE_GRAD] = 0;
    add_operator(trace, "use t0", TRACE_FORWARD, TRACE_ON_DEVICE, 10, first);
    add_operator(trace, "use t1", TRACE_BACKWARD, TRACE_ON_DEVICE, 10, second);
    add_operator(trace, "update t1", TRACE_UPDATE_PHASE, TRACE_ON_HOST, 1, updated);
    trace_sum_buffers(trace);
    return trace;
}

/* Returns the bound of a plan whose updates stay, from windows that begin with operators and, with
 * `ends`, after them. */
static uint64_t bound_with(const struct plan *plan, const struct trace *trace, uint32_t ends)
{
    struct costs *costs = costs_new(NULL, LINK, NULL);
    struct reuses *reuses = bound_reuses(trace, plan);
    struct time_job job = {.plan = plan, .sides = {trace}, .costs = costs};
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(struct window_start));
    time_job_set_order(&job, trace);
    time_windows_choose(trace, reuses, TIME_WINDOWS_MOST, starts);
    time_windows_choose_ends(&job, ends, starts);
    struct time_model *model = time_model_new(
        &job, reuses, (const struct window_start *)(void *)starts->data, starts->len);
    uint64_t host_bytes;
    g_autofree struct certificate_window *windows =
        time_prices_find(model, TIME_PRICES_CLOSE, UINT64_MAX, NULL, &host_bytes, NULL, true);
    uint64_t bound = time_model_bound_ns(model,
                                         &(struct time_prices){windows, NULL, 0, host_bytes});
    time_model_free(model);
    reuses_free(reuses);
    costs_free(costs);
    return bound;
}

/* While the device uses one tensor it has no room for the other one, which thus comes between the
 * operators. A copy that could be part of it, beside an operator, is not. */
static void test_room_beside_operators(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_long_uses(), *placed;
    g_assert_true(trace_check(trace, "the test's", &error));
    struct plan *plan = search(trace, "51%", random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    struct certificate_time *time = &plan->certificate->time;
    /* 10 + 10 ms, and nearly twice the 4 MB to the device; without windows after operators, the
     * second of them overlaps the first operator. */
    g_assert_cmpuint(time->bound, <=, time->achieved);
    g_assert_cmpuint(time->bound, >=, 28000000);
    g_assert_cmpuint(bound_with(plan, placed, 2), >=, 28000000);
    g_assert_cmpuint(bound_with(plan, placed, 0), <, 25000000);
    g_assert_true(certificate_check(plan, placed, trace, &error));
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

/* A window may begin after an operator of the device's forward and backward, but not the first
 * one, and not where threads share cores. */
static void test_windows_after_operators(void)
{
    struct trace *trace = trace_with_long_uses();
    struct costs *costs = costs_new(NULL, LINK, NULL);
    const struct time_job job = {.sides = {trace}, .costs = costs, .in_order = true};
    struct window_start starts[] = {{0, WINDOW_AT_OPERATOR},
                                    {0, WINDOW_AFTER_OPERATOR},
                                    {1, WINDOW_AT_OPERATOR},
                                    {1, WINDOW_AFTER_OPERATOR},
                                    {2, WINDOW_AT_OPERATOR}};
    g_assert_true(time_job_may_begin(&job, starts, 5));
    g_assert_false(time_job_may_begin(&job, starts + 1, 4)); /* the first one */
    starts[4].begins = WINDOW_AFTER_OPERATOR;                /* of the host */
    g_assert_false(time_job_may_begin(&job, starts, 5));
    trace->operators[2].place = TRACE_ON_DEVICE; /* an update */
    g_assert_false(time_job_may_begin(&job, starts, 5));
    g_assert_true(time_job_may_begin(&job, starts, 4));
    trace->operators[1].exchange[TRACE_REDUCE].sent_bytes = 1;
    g_assert_false(time_job_may_begin(&job, starts, 4));
    g_assert_true(time_job_may_begin(&job, starts, 2));
    costs->threads.known = true;
    g_assert_false(time_job_may_begin(&job, starts, 2));
    g_assert_true(time_job_may_begin(&job, starts, 1));
    costs_free(costs);
    trace_free(trace);
}

/* The device uses `tensors` tensors of 4 MB in turn, `rounds` times, and then as many others. */
static struct trace *trace_with_turns(uint32_t tensors, uint32_t rounds, uint32_t phases)
{
    uint32_t uses = tensors * rounds;
    struct trace *trace = trace_of(phases * tensors, 1000000, phases * uses, phases * uses);
    trace->list_element_bytes[TRACE_GRAD] = 0;
    for (uint32_t i = 0; i < phases * uses; i++)
        add_operator(
            trace, "use", TRACE_FORWARD, TRACE_ON_DEVICE, 1,
            (struct trace_access){i / uses * tensors + i % tensors, TRACE_PARAM, TRACE_READ, 0});
    trace_sum_buffers(trace);
    return trace;
}

/* The device has room for two and a half of three tensors. Beside the tensor that is used, one
 * other stays, and not one and a half. */
static void test_whole_units(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_turns(3, 1, 1), *placed;
    g_assert_true(trace_check(trace, "the test's", &error));
    struct plan *plan = search(trace, "84%", random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    struct certificate_time *time = &plan->certificate->time;
    g_assert_cmpuint(plan->predicted.h2d_bytes, >=, 8000000);
    g_assert_cmpuint(10 * time->bound, >=, 6 * time->achieved);
    g_assert_true(certificate_check(plan, placed, trace, &error));

    struct certificate_window *priced = NULL;
    for (uint32_t w = 0; w < time->cases[0].prices.window_count; w++)
        if (time->cases[0].prices.windows[w].whole)
            priced = &time->cases[0].prices.windows[w];
    g_assert_nonnull(priced);
    uint64_t *const numbers[] = {&priced->unit, &priced->whole};
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        uint64_t before = *numbers[i];
        *numbers[i] = before / 2;
        g_assert_false(certificate_check(plan, placed, trace, &error));
        g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
        g_clear_error(&error);
        *numbers[i] = before;
    }
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

/* The device has room for four of eight tensors, and uses four of them again and again, then the
 * other four. If the host has room for five only, three never leave the device, so that not all of
 * those that it uses fit. */
static void test_memory_of_the_host(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_turns(4, 5, 2), *placed;
    struct plan *plan = search_within(trace, "50%", 20000000, random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    struct certificate_time *time = &plan->certificate->time;
    uint64_t *price = &time->cases[0].prices.host_bytes;
    g_assert_cmpuint(plan->predicted.h2d_bytes, >, 32000000);  /* eight fetches */
    g_assert_cmpuint(3 * time->bound, >=, 2 * time->achieved); /* without the price, not half */
    g_assert_cmpuint(*price, >, 0);
    g_assert_true(certificate_check(plan, placed, trace, &error));

    for (int half = 0; half < 2; half++) {
        uint64_t before = *price, budget = plan->host_budget;
        *price = half ? before / 2 : before;
        plan->host_budget = half ? budget : UINT64_MAX;
        g_assert_false(certificate_check(plan, placed, trace, &error));
        g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
        g_clear_error(&error);
        *price = before;
        plan->host_budget = budget;
    }
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/certificate/dead_writes", test_dead_writes);
    g_test_add_func("/certificate/chains", test_chains);
    g_test_add_func("/certificate/room_beside_operators", test_room_beside_operators);
    g_test_add_func("/certificate/windows_after_operators", test_windows_after_operators);
    g_test_add_func("/certificate/large_updates", test_large_updates);
    g_test_add_func("/certificate/whole_units", test_whole_units);
    g_test_add_func("/certificate/memory_of_the_host", test_memory_of_the_host);
    return g_test_run();
}
