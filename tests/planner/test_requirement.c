/* The reported memory requirement is enough, and no layout needs less. */
#include "planner/proof/bound.h"
#include "planner/search/candidate.h"
#include "planner/search/search.h"
#include "planner/search/trials.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

enum { TRIALS = 6, MOST_TRIALS = 1000 };
#define LAYOUT_TRIALS   draws(UNLESS_SANITIZED(20, 10), 60)
#define EXCLUDED_TRIALS draws(UNLESS_SANITIZED(70, 20), 200)
#define PLAN_TRIALS     draws(UNLESS_SANITIZED(10, 4), 30)

static uint64_t needed_by(const struct candidate_job *job, const struct layout_spec *spec,
                          struct placement placement)
{
    uint64_t needed;
    candidate_free(candidate_new(job, spec, &placement, &needed, NULL));
    return needed;
}

static void test_no_layout_needs_less(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    struct costs *costs = costs_new(platform, NULL, NULL);

    for (int trial = 0; trial < LAYOUT_TRIALS; trial++) {
        struct trace *trace = random_iteration(random);
        struct non_model *non_model = non_model_place(trace);
        struct layout_choices *choices = layout_choices_new(trace, NULL, NULL);
        const struct search_options options = {
            .platform = platform, .costs = costs, .host_budget = UINT64_MAX};
        const struct candidate_job job = {.trace = trace,
                                          .non_model = non_model,
                                          .costs = costs,
                                          .platform = platform,
                                          .device_budget = INT64_MAX,
                                          .host_budget = UINT64_MAX};
        uint64_t needed = requirement_device_bytes(trace, &options, NULL), least = UINT64_MAX;
        for (guint i = 0; i < choices->items->len; i++) {
            const struct layout_spec *spec =
                &g_array_index(choices->items, struct layout_choice, i).spec;
            least = MIN(least,
                        needed_by(&job, spec, (struct placement){.pattern = PLACEMENT_TRACED}));
            if (placement_is_possible(trace, platform))
                least = MIN(least, needed_by(&job, spec,
                                             (struct placement){PLACEMENT_SPREAD, PLACEMENT_PARTS,
                                                                0, NULL, 0}));
        }
        g_assert_cmpuint(needed, ==, least);
        layout_choices_free(choices);
        non_model_free(non_model);
        trace_free(trace);
    }
    costs_free(costs);
    platform_free(platform);
    g_rand_free(random);
}

/* Returns chunk sizes that a person may have given. */
static GPtrArray *draw_chunks(const struct trace *trace, GRand *random)
{
    g_autofree char *sizes = g_strdup_printf("%dB,%dB", 256 * g_rand_int_range(random, 1, 20),
                                             256 * g_rand_int_range(random, 20, 60));
    return layout_list_parse(sizes, NULL, trace, NULL);
}

/* The requirement is also enough within a host budget, and with chunk sizes that are given. */
static void test_enough(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    struct costs *costs = costs_new(platform, NULL, NULL);

    for (int trial = 0; trial < TRIALS; trial++) {
        struct trace *trace = random_iteration(random);
        struct search_options options = {
            .platform = platform, .costs = costs, .host_budget = UINT64_MAX, .threads = 1};
        g_autoptr(GError) error = NULL;
        if (g_rand_boolean(random))
            options.host_budget = (uint64_t)(g_rand_double(random) * trace_model_bytes(trace));
        g_autoptr(GPtrArray) chunks = trial % 2 ? draw_chunks(trace, random) : NULL;
        options.layouts = chunks;
        uint64_t needed = requirement_device_bytes(trace, &options, &error);

        g_assert_true((needed == UINT64_MAX) == (error != NULL));
        if (needed != UINT64_MAX) {
            options.device_budget = needed;
            struct search_result *result = search_plan(trace, &options, &error);
            g_assert_no_error(error);
            g_assert_cmpuint(result->plan->arena_bytes, <=, needed);
            g_assert_cmpuint(result->plan->predicted.peak_host_bytes, <=, options.host_budget);
            search_result_free(result);
            g_assert_true(requirement_is_met(trace, &options, NULL));
            options.device_budget--;
            g_assert_false(requirement_is_met(trace, &options, NULL));
            if (chunks && options.host_budget == UINT64_MAX)
                g_assert_null(search_plan(trace, &options, NULL));
        }
        trace_free(trace);
    }
    costs_free(costs);
    platform_free(platform);
    g_rand_free(random);
}

/* If host memory is plentiful, what does not fit is excluded. If it is limited, what is excluded
 * does not fit, and is not found. */
static void test_excluded(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    struct costs *costs = costs_new(platform, NULL, NULL);
    int limited = 0, proved = 0, unmet = 0;
    for (int trial = 0; trial < EXCLUDED_TRIALS || (!proved && trial < MOST_TRIALS); trial++) {
        struct trace *trace = random_iteration(random);
        struct search_options options = {.platform = g_rand_boolean(random) ? platform : NULL,
                                         .costs = costs,
                                         .host_budget = UINT64_MAX,
                                         .threads = 1};
        double bytes = (double)trace_model_bytes(trace);
        if (trial % 2)
            options.host_budget = (uint64_t)(g_rand_double(random) * 1.2 * bytes);
        options.device_budget = (uint64_t)(g_rand_double(random) * bytes);
        bool met = requirement_is_met(trace, &options, NULL);
        bool excluded = bound_excludes(trace, options.platform, options.device_budget,
                                       options.host_budget);
        if (options.host_budget == UINT64_MAX)
            g_assert_cmpint(excluded, ==, !met);
        if (excluded) {
            g_assert_false(met);
            g_assert_null(search_plan(trace, &options, NULL));
        }
        limited += trial % 2;
        unmet += trial % 2 && !met;
        proved += trial % 2 && excluded;
        trace_free(trace);
    }
    g_test_message("of %d limits of the host, %d were too low, %d of them by proof", limited, unmet,
                   proved);
    g_assert_cmpint(proved, >, 0);
    costs_free(costs);
    platform_free(platform);
}

/* Returns whether budgets of exactly what the plan takes are excluded. */
static bool excludes_plan(const struct trace *trace, const struct platform *platform,
                          const struct plan *plan)
{
    return bound_excludes(trace, platform, plan->arena_bytes, plan->host_pool_bytes);
}

/* No plan takes less than what is excluded, whatever the ranks share. */
static void test_no_plan_is_excluded(void)
{
    static struct trace *(*const kinds[])(GRand *) = {random_iteration, shared_iteration,
                                                      ranks_iteration};
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    struct costs *costs = costs_new(platform, NULL, NULL);
    int found = 0;
    for (int trial = 0; trial < PLAN_TRIALS || (!found && trial < MOST_TRIALS); trial++) {
        struct trace *trace = kinds[trial % G_N_ELEMENTS(kinds)](random);
        struct search_options options = {.platform = g_rand_boolean(random) ? platform : NULL,
                                         .costs = costs,
                                         .host_budget = UINT64_MAX,
                                         .threads = 1};
        if (g_rand_boolean(random))
            options.host_budget = (uint64_t)(g_rand_double_range(random, 0.7, 1.2) *
                                             (double)trace_model_bytes(trace));
        uint64_t needed = requirement_device_bytes(trace, &options, NULL);
        options.device_budget = needed;
        struct search_result *result = needed != UINT64_MAX ? search_plan(trace, &options, NULL)
                                                            : NULL;
        if (result)
            g_assert_false(excludes_plan(trace, options.platform, result->plan));
        found += result != NULL;
        search_result_free(result);
        trace_free(trace);
    }
    g_assert_cmpint(found, >, 0);
    costs_free(costs);
    platform_free(platform);
}

/* ---- small iterations ---- */

enum { TENSORS = 4, TENSOR_BYTES = LAYOUT_ALIGNMENT };

/* Adds an operator of the device that accesses the lists of one tensor in these modes. A mode of -1
 * stands for no access. */
static void add_operator(GArray *operators, GArray *accesses, tensor_id tensor,
                         enum trace_phase phase, const int modes[TRACE_LISTS])
{
    struct trace_operator op = {.name = g_strdup_printf("%u", operators->len),
                                .phase = (uint8_t)phase,
                                .layer = -1,
                                .first_access = accesses->len,
                                .duration_ns = 1000};
    for (uint8_t list = 0; list < TRACE_LISTS; list++) {
        const struct trace_access access = {tensor, list, (uint8_t)modes[list], 0};
        op.access_count += modes[list] >= 0;
        if (modes[list] >= 0)
            g_array_append_val(accesses, access);
    }
    g_array_append_val(operators, op);
}

/* Returns an iteration over tensors of one slot each, of which the last `frozen` have parameters
 * only. Forward works in `forward_bytes` beside them. */
static struct trace *small_iteration(uint32_t frozen, uint64_t forward_bytes)
{
    static const int forward[] = {TRACE_READ, -1, -1, -1, -1, -1},
                     backward[] = {TRACE_READ, TRACE_OVERWRITE, -1, -1, -1, -1},
                     update[] = {TRACE_UPDATE, TRACE_READ, -1, TRACE_UPDATE, TRACE_UPDATE, -1};
    GArray *operators = g_array_new(FALSE, FALSE, sizeof(struct trace_operator));
    GArray *accesses = g_array_new(FALSE, FALSE, sizeof(struct trace_access));
    struct trace *trace = g_new0(struct trace, 1);
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->model = g_strdup("small");
    trace->precision = g_strdup("fp32");
    trace->tensor_count = TENSORS;
    trace->tensors = g_new0(struct trace_tensor, TENSORS);
    for (int list = TRACE_PARAM; list <= TRACE_EXP_AVG_SQ; list++)
        trace->list_element_bytes[list] = list == TRACE_MASTER ? 0 : 4;
    for (tensor_id t = 0; t < TENSORS; t++) {
        bool trained = t < TENSORS - frozen;
        const uint8_t lacks = 1 << TRACE_GRAD | 1 << TRACE_EXP_AVG | 1 << TRACE_EXP_AVG_SQ;
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("t%u", t),
                                                  .elements = TENSOR_BYTES / 4,
                                                  .absent = trained ? 0 : lacks};
        add_operator(operators, accesses, t, TRACE_FORWARD, forward);
    }
    for (tensor_id t = TENSORS - frozen; t-- > 0;)
        add_operator(operators, accesses, t, TRACE_BACKWARD, backward);
    for (tensor_id t = 0; t < TENSORS - frozen; t++)
        add_operator(operators, accesses, t, TRACE_UPDATE_PHASE, update);
    trace->operator_count = operators->len;
    trace->access_count = accesses->len;
    trace->operators = (void *)g_array_free(operators, FALSE);
    trace->accesses = (void *)g_array_free(accesses, FALSE);
    trace->non_model_bytes = g_new0(uint64_t, trace->operator_count);
    for (uint32_t m = 0; m < TENSORS; m++)
        trace->non_model_bytes[m] = forward_bytes;
    g_assert_true(trace_check(trace, "small", NULL));
    return trace;
}

/* Returns the plan that is found with these budgets. */
static struct search_result *find_plan(const struct trace *trace, uint64_t device_budget,
                                       uint64_t host_budget)
{
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    struct costs *costs = costs_new(platform, NULL, NULL);
    const struct search_options options = {
        .costs = costs, .device_budget = device_budget, .host_budget = host_budget, .threads = 1};
    g_autoptr(GError) error = NULL;
    struct search_result *result = search_plan(trace, &options, &error);
    g_assert_no_error(error);
    costs_free(costs);
    platform_free(platform);
    return result;
}

/* What frozen tensors lack takes nothing, although it has chunks if each tensor has its own. */
static void test_frozen(void)
{
    struct trace *trace = small_iteration(TENSORS - 1, 0);
    uint64_t all = (TENSORS + 3) * TENSOR_BYTES;
    struct search_result *result = find_plan(trace, all, 0);
    g_assert_cmpuint(result->plan->arena_bytes, ==, all);
    g_assert_false(bound_excludes(trace, NULL, all, 0));
    g_assert_true(bound_excludes(trace, NULL, all - 1, 0));
    search_result_free(result);
    trace_free(trace);
}

/* Gradients are on the device between backward and update, and nowhere in forward, which needs more
 * memory. */
static void test_gradients(void)
{
    uint64_t host = 3 * TENSORS * TENSOR_BYTES, forward = 2 * TENSORS * TENSOR_BYTES;
    struct trace *trace = small_iteration(0, forward);
    struct search_result *result = find_plan(trace, forward + TENSOR_BYTES, UINT64_MAX);
    g_assert_cmpuint(result->plan->host_pool_bytes, ==, host);
    g_assert_cmpuint(result->plan->arena_bytes, ==, forward + TENSOR_BYTES);
    g_assert_false(excludes_plan(trace, NULL, result->plan));
    g_assert_true(bound_excludes(trace, NULL, forward + TENSOR_BYTES - 1, host));
    search_result_free(result);
    trace_free(trace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/requirement/no-layout-needs-less", test_no_layout_needs_less);
    g_test_add_func("/requirement/enough", test_enough);
    g_test_add_func("/requirement/excluded", test_excluded);
    g_test_add_func("/requirement/no-plan-is-excluded", test_no_plan_is_excluded);
    g_test_add_func("/requirement/frozen", test_frozen);
    g_test_add_func("/requirement/gradients", test_gradients);
    return g_test_run();
}
