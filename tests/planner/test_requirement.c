/* The reported memory requirement is enough, and no layout needs less. */
#include "planner/proof/bound.h"
#include "planner/search/candidate.h"
#include "planner/search/search.h"
#include "planner/search/trials.h"
#include "tests/chunks/random_iteration.h"

enum { TRIALS = 6, LAYOUT_TRIALS = 60, EXCLUDED_TRIALS = 200 };

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
                        needed_by(&job, spec, (struct placement){PLACEMENT_TRACED, 0, 0, NULL}));
            if (placement_is_possible(trace, platform))
                least = MIN(least, needed_by(&job, spec,
                                             (struct placement){PLACEMENT_SPREAD, PLACEMENT_PARTS,
                                                                0, NULL}));
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

/* The requirement is also enough within a host budget. */
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
    for (int trial = 0; trial < EXCLUDED_TRIALS; trial++) {
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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/requirement/no-layout-needs-less", test_no_layout_needs_less);
    g_test_add_func("/requirement/enough", test_enough);
    g_test_add_func("/requirement/excluded", test_excluded);
    return g_test_run();
}
