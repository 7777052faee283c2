/* Traces whose updates are not in the order of their tensors: plans are made for that order, and
 * verify with it, wherever the updates run. */
#include "models/derive.h"
#include "planner/answers/verify.h"
#include "planner/proof/bound.h"
#include "planner/proof/certificate.h"
#include "planner/schedule/placement.h"
#include "planner/search/search.h"
#include "sim/baselines.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"

enum { CASES = 24 };

struct fixture {
    struct trace *traced;
    struct platform *platform; /* may be NULL */
    struct costs *costs;
    struct search_options options;
};

/* Every third iteration has its updates in reverse; the others have them in any order. */
static void set_up(struct fixture *f, GRand *random, int number)
{
    g_autofree char *share = g_strdup_printf("%d%%", g_rand_int_range(random, 20, 90));
    f->traced = random_iteration(random);
    shuffle_updates(f->traced, number % 3 ? random : NULL);
    f->platform = number % 2 ? platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL) : NULL;
    f->costs = costs_new(f->platform, "h2d=900MB/s,d2h=700MB/s", NULL);
    f->options = (struct search_options){.host_budget = UINT64_MAX,
                                         .costs = f->costs,
                                         .platform = f->platform,
                                         .seed = g_rand_int(random),
                                         .threads = 1};
    g_assert_true(sizes_parse_budget(share, f->traced, &f->options.device_budget, NULL));
}

static void tear_down(struct fixture *f)
{
    costs_free(f->costs);
    platform_free(f->platform);
    trace_free(f->traced);
}

/* Verifies a plan as pstar-plan --verify does, which knows the trace as it was recorded. */
static void check(const struct fixture *f, const struct plan *plan)
{
    GError *error = NULL;
    struct trace *trace = model_place_chosen(f->traced, plan->choices, f->platform, &error);
    g_assert_no_error(error);
    verify_plan(plan, trace, f->costs, NULL, &error);
    g_assert_no_error(error);
    trace_free(trace);
}

static void test_plans_verify(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int plans = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random, i);
        struct search_result *result = search_plan(f.traced, &f.options, NULL);
        if (result) {
            check(&f, result->plan);
            plans++;
        }
        search_result_free(result);
        tear_down(&f);
    }
    g_test_message("%d of %d iterations fit", plans, CASES);
    g_assert_cmpint(plans, >, CASES / 2);
}

/* The bound of the work pairs each update on the device with the same update on the host. */
static void test_work_bound_ignores_order(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        uint64_t price = 0, before, after;
        set_up(&f, random, 2 * i + 1);
        before = work_bound_best(f.traced, f.platform, &price);
        shuffle_updates(f.traced, random);
        after = work_bound_best(f.traced, f.platform, &price);
        g_assert_cmpuint(before, ==, after);
        tear_down(&f);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/update_order/plans_verify", test_plans_verify);
    g_test_add_func("/update_order/work_bound_ignores_order", test_work_bound_ignores_order);
    return g_test_run();
}
