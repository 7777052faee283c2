/* The search is never worse than any policy or strategy with any size of the default sweep and any
 * look-ahead that it tries, with updates as traced and all on the host, and with its own layout. It
 * gives the same plan for the same seed, and says what would fit if nothing does. */
#include "models/derive.h"
#include "planner/answers/verify.h"
#include "planner/schedule/placement.h"
#include "planner/search/search.h"
#include "sim/sizes.h"
#include "sim/sweep.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#include <glib/gstdio.h>

#define CASES draws(UNLESS_SANITIZED(6, 2), 12)

struct fixture {
    struct trace *trace;
    struct costs *costs;
    struct platform *platform;
    struct search_options options;
};

static void set_up(struct fixture *f, GRand *random)
{
    uint64_t bytes;
    g_autofree char *share = g_strdup_printf("%d%%", g_rand_int_range(random, 20, 90));
    f->trace = random_iteration(random);
    f->platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    g_assert_nonnull(f->platform);
    f->costs = costs_new(f->platform, g_rand_boolean(random) ? "h2d=1GB/s,d2h=500MB/s" : NULL,
                         NULL);
    g_assert_true(sizes_parse_budget(share, f->trace, &bytes, NULL));
    f->options = (struct search_options){.objective = (uint32_t)g_rand_int_range(random, 0, 2),
                                         .platform = g_rand_boolean(random) ? f->platform : NULL,
                                         .device_budget = bytes,
                                         .host_budget = UINT64_MAX,
                                         .costs = f->costs,
                                         .seed = g_rand_int(random)};
}

static void tear_down(struct fixture *f)
{
    costs_free(f->costs);
    platform_free(f->platform);
    trace_free(f->trace);
}

static uint64_t traffic(const struct plan_figures *figures)
{
    return figures->h2d_bytes + figures->d2h_bytes;
}

/* Makes the rows of all policies with several look-aheads at the search's budget, and of the
 * strategies. */
static struct sweep *sweep_of(const struct fixture *f, const struct trace *trace,
                              GPtrArray *layouts, GPtrArray *strategies)
{
    g_autoptr(GArray) look_aheads = sizes_parse_counts("0,1,4,16,64,256", NULL);
    g_autoptr(GArray) budgets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    uint64_t budget = f->options.device_budget + f->trace->library_bytes;
    g_array_append_val(budgets, budget);
    return sweep_run(trace, &(struct sweep_options){.layouts = layouts,
                                                    .budgets = budgets,
                                                    .look_aheads = look_aheads,
                                                    .policies = policy_all,
                                                    .strategies = strategies,
                                                    .platform = f->options.platform,
                                                    .host_budget = UINT64_MAX,
                                                    .costs = f->costs});
}

static bool is_better(enum objective objective, const struct plan_figures *a,
                      const struct plan_figures *b)
{
    return objective == OBJECTIVE_TRAFFIC ? traffic(a) < traffic(b)
                                          : a->iteration_seconds < b->iteration_seconds;
}

static void check_against_sweep(const struct fixture *f, const struct plan *plan,
                                const struct trace *trace, GPtrArray *layouts, bool strategies)
{
    g_autoptr(GPtrArray) all = strategy_parse_list("all", NULL);
    struct sweep *sweep = sweep_of(f, trace, layouts, strategies ? all : NULL);
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (sweep->rows[r].fits &&
            is_better(f->options.objective, &sweep->rows[r].figures, &plan->predicted))
            g_error("%s, %u moments ahead, is better than the plan",
                    sweep->rows[r].policy ? sweep->rows[r].policy->name
                                          : sweep->rows[r].strategy->name,
                    sweep->rows[r].look_ahead);
    sweep_free(sweep);
}

static void check_against_sweeps(const struct fixture *f, const struct plan *plan)
{
    g_autoptr(GPtrArray) layouts = layout_list_parse(NULL, NULL, f->trace, NULL);
    g_autoptr(GPtrArray) own = g_ptr_array_new();
    g_autofree uint8_t *on_host = g_new(uint8_t, f->trace->tensor_count);
    struct named_layout named = {.layout = plan->layout};
    struct trace *host = NULL;
    g_ptr_array_add(own, &named);
    memset(on_host, 1, f->trace->tensor_count);
    if (placement_is_possible(f->trace, f->options.platform))
        host = model_place_updates(f->trace, on_host, f->options.platform, NULL);
    check_against_sweep(f, plan, f->trace, layouts, f->options.platform);
    check_against_sweep(f, plan, f->trace, own, f->options.platform);
    if (host) {
        check_against_sweep(f, plan, host, layouts, false);
        check_against_sweep(f, plan, host, own, false);
    }
    trace_free(host);
}

static void test_never_worse_than_any(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        g_autoptr(GError) error = NULL;
        struct fixture f;
        set_up(&f, random);
        struct search_result *result = search_plan(f.trace, &f.options, &error);
        if (result) {
            g_assert_false(result->stopped);
            verify_plan(result->plan, result->trace, f.costs, NULL, &error);
            check_against_sweeps(&f, result->plan);
        } else {
            g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
            g_clear_error(&error);
        }
        g_assert_no_error(error);
        search_result_free(result);
        tear_down(&f);
    }
}

static char *plan_text(const struct plan *plan)
{
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "pstar-plan-XXXXXX", NULL);
    char *text = NULL;
    g_close(g_mkstemp(path), NULL);
    g_assert_true(plan_write(plan, path, NULL));
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_unlink(path);
    return text;
}

static void test_same_seed_same_plan(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 3; i++) {
        g_autofree char *expected = NULL;
        struct fixture f;
        set_up(&f, random);
        for (f.options.threads = 1; f.options.threads <= 3; f.options.threads++) {
            struct search_result *result = search_plan(f.trace, &f.options, NULL);
            g_autofree char *text = result ? plan_text(result->plan) : g_strdup("none");
            if (!expected)
                expected = g_steal_pointer(&text);
            else
                g_assert_cmpstr(text, ==, expected);
            search_result_free(result);
        }
        tear_down(&f);
    }
}

/* A short search has a plan whenever something fits, the same for any number of threads. */
static void test_briefly(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        g_autofree char *expected = NULL;
        struct fixture f;
        set_up(&f, random);
        for (f.options.threads = 1; f.options.threads <= 2; f.options.threads++) {
            g_autoptr(GError) error = NULL, lacks = NULL;
            struct search_result *result = search_briefly(f.trace, &f.options, &error);
            g_autofree char *text = result ? plan_text(result->plan) : g_strdup("none");
            g_assert_true(!result == !requirement_is_met(f.trace, &f.options, &lacks));
            if (result)
                verify_plan(result->plan, result->trace, f.costs, NULL, &error);
            else
                g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
            g_assert_true(!result == !!error);
            if (expected)
                g_assert_cmpstr(text, ==, expected);
            else
                expected = g_steal_pointer(&text);
            search_result_free(result);
        }
        tear_down(&f);
    }
}

/* The last figure of the message is the least that fits: it fits, and one byte less does not. */
static void test_what_would_fit(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct fixture f;
    set_up(&f, random);
    f.options.device_budget = 1;
    g_assert_null(search_plan(f.trace, &f.options, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
    const char *last = strrchr(error->message, ';');
    g_assert_nonnull(last);
    f.options.device_budget = g_ascii_strtoull(last + 2, NULL, 10);
    struct search_result *result = search_plan(f.trace, &f.options, NULL);
    g_assert_nonnull(result);
    g_assert_cmpuint(result->plan->arena_bytes, <=, f.options.device_budget);
    search_result_free(result);
    f.options.device_budget--;
    g_assert_null(search_plan(f.trace, &f.options, NULL));
    tear_down(&f);
}

/* The budget that the objective finds fits, and one byte less does not. The least chunks of a drawn
 * step, whose slots are rounded up, may need more than the budget is. */
static void test_least_memory(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        set_up(&f, random);
        f.options.objective = OBJECTIVE_MEMORY;
        uint64_t needed = requirement_device_bytes(f.trace, &f.options, NULL);
        f.options.device_budget = MAX(4 * f.options.device_budget, needed);
        g_autoptr(GError) error = NULL;
        struct search_result *result = search_plan(f.trace, &f.options, &error);
        g_assert_no_error(error);
        f.options.device_budget = result->plan->predicted.peak_device_bytes - 1;
        g_assert_null(search_plan(f.trace, &f.options, NULL));
        g_assert_true(verify_plan(result->plan, result->trace, f.costs, NULL, NULL));
        search_result_free(result);
        tear_down(&f);
    }
}

/* Runs a search whose plan has actions. */
static struct search_result *search_something(struct fixture *f, GRand *random)
{
    for (;;) {
        set_up(f, random);
        struct search_result *result = search_plan(f->trace, &f->options, NULL);
        if (result && result->plan->action_count)
            return result;
        search_result_free(result);
        tear_down(f);
    }
}

static void test_verify_notices(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct fixture f;
    struct search_result *result = search_something(&f, random);
    uint64_t *figures[] = {&result->plan->predicted.h2d_bytes, &result->plan->predicted.evictions,
                           &result->plan->predicted.peak_device_bytes};
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        g_autoptr(GError) error = NULL;
        ++*figures[i];
        g_assert_false(verify_plan(result->plan, result->trace, f.costs, NULL, &error));
        g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
        --*figures[i];
    }
    g_assert_true(verify_plan(result->plan, result->trace, f.costs, NULL, NULL));
    search_result_free(result);
    tear_down(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/search/never_worse_than_any", test_never_worse_than_any);
    g_test_add_func("/search/same_seed_same_plan", test_same_seed_same_plan);
    g_test_add_func("/search/briefly", test_briefly);
    g_test_add_func("/search/what_would_fit", test_what_would_fit);
    g_test_add_func("/search/least_memory", test_least_memory);
    g_test_add_func("/search/verify_notices", test_verify_notices);
    return g_test_run();
}
