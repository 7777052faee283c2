/* The search's plans of policies and strategies equal the rows of a sweep to the byte and the
 * nanosecond, with any look-ahead, and with updates as traced and all on the host. Only then is a
 * plan that beats them never worse than the sweep. */
#include "models/derive.h"
#include "planner/search/trials.h"
#include "sim/sizes.h"
#include "sim/sweep.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#include <math.h>

#define CASES draws(UNLESS_SANITIZED(5, 2), 10)

struct fixture {
    struct trace *trace;
    struct platform *platform;
    struct costs *costs;
    struct non_model *non_model;
    struct candidate_job job;
    GPtrArray *layouts, *strategies;
};

static void set_up(struct fixture *f, GRand *random)
{
    g_autofree char *share = g_strdup_printf("%d%%", g_rand_int_range(random, 20, 90));
    uint64_t bytes;
    f->trace = random_iteration(random);
    f->platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    g_assert_nonnull(f->platform);
    f->costs = costs_new(f->platform, g_rand_boolean(random) ? "h2d=1GB/s,d2h=500MB/s" : NULL,
                         NULL);
    f->non_model = non_model_place(f->trace);
    g_assert_true(sizes_parse_budget(share, f->trace, &bytes, NULL));
    f->job = (struct candidate_job){.trace = f->trace,
                                    .non_model = f->non_model,
                                    .costs = f->costs,
                                    .platform = f->platform,
                                    .device_budget = bytes,
                                    .host_budget = UINT64_MAX,
                                    .unclipped = g_rand_boolean(random)};
    f->layouts = layout_list_parse(NULL, NULL, f->trace, NULL);
    f->strategies = strategy_parse_list("all", NULL);
}

static void tear_down(struct fixture *f)
{
    g_ptr_array_unref(f->strategies);
    g_ptr_array_unref(f->layouts);
    non_model_free(f->non_model);
    costs_free(f->costs);
    platform_free(f->platform);
    trace_free(f->trace);
}

static struct sweep *sweep_all(const struct fixture *f, const struct trace *trace)
{
    g_autoptr(GArray) look_aheads = sizes_parse_counts("0,2,7", NULL);
    g_autoptr(GArray) budgets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    uint64_t budget = f->job.device_budget + f->trace->library_bytes;
    g_array_append_val(budgets, budget);
    return sweep_run(trace, &(struct sweep_options){.layouts = f->layouts,
                                                    .budgets = budgets,
                                                    .look_aheads = look_aheads,
                                                    .policies = policy_all,
                                                    .strategies = f->strategies,
                                                    .platform = f->platform,
                                                    .unclipped = f->job.unclipped,
                                                    .host_budget = UINT64_MAX,
                                                    .costs = f->costs});
}

/* Returns NULL if the plan does not fit, or if its lower bound is above `most`. */
static struct plan *baseline_of(const struct fixture *f, const struct trace *trace,
                                const struct sweep_row *row, enum objective objective, double most)
{
    struct baselines baselines;
    trial_open_baselines(&f->job, trace, row->layout->layout, &baselines);
    struct plan *plan =
        row->policy
            ? trial_plan_policy(&f->job, &baselines, row->policy, row->look_ahead, objective, most)
            : trial_plan_strategy(&f->job, &baselines, row->strategy, objective, most);
    baselines_close(&baselines);
    return plan;
}

static void check_same(const struct plan_figures *baseline, const struct plan_figures *row)
{
    g_assert_cmpuint(baseline->h2d_bytes, ==, row->h2d_bytes);
    g_assert_cmpuint(baseline->d2h_bytes, ==, row->d2h_bytes);
    g_assert_cmpuint(baseline->moved_bytes, ==, row->moved_bytes);
    g_assert_cmpuint(baseline->peak_device_bytes, ==, row->peak_device_bytes);
    g_assert_cmpfloat(baseline->iteration_seconds, ==, row->iteration_seconds);
}

/* A plan is not given up if it just reaches what it has to beat, and is if nothing can. */
static void check_baseline(const struct fixture *f, const struct trace *trace,
                           const struct sweep_row *row)
{
    static const enum objective objectives[] = {OBJECTIVE_TIME, OBJECTIVE_TRAFFIC};
    for (size_t o = 0; o < G_N_ELEMENTS(objectives); o++) {
        const struct plan_figures *figures = &row->figures;
        double reached = objective_figure(objectives[o], figures->h2d_bytes + figures->d2h_bytes,
                                          figures->iteration_seconds);
        struct plan *plan = baseline_of(f, trace, row, objectives[o], reached);
        g_assert_cmpint(plan != NULL, ==, row->fits);
        if (plan)
            check_same(&plan->predicted, figures);
        plan_free(plan);
        g_assert_null(baseline_of(f, trace, row, objectives[o], -1));
    }
}

static void check_sweep(const struct fixture *f, const struct trace *trace)
{
    struct sweep *sweep = sweep_all(f, trace);
    for (uint32_t r = 0; r < sweep->row_count; r++)
        check_baseline(f, trace, &sweep->rows[r]);
    sweep_free(sweep);
}

static void test_same_as_a_sweep(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        g_autofree uint8_t *on_host = g_new(uint8_t, f.trace->tensor_count);
        memset(on_host, 1, f.trace->tensor_count);
        struct trace *host = model_place_updates(f.trace, on_host, f.platform, NULL);
        check_sweep(&f, f.trace);
        if (host)
            check_sweep(&f, host);
        trace_free(host);
        tear_down(&f);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/baselines/same_as_a_sweep", test_same_as_a_sweep);
    return g_test_run();
}
