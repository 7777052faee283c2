/* Strategies in a sweep have rows beside the policies', which are the same on any number of threads
 * and describe their plans. */
#include "sim/sizes.h"
#include "sim/sweep.h"
#include "tests/chunks/random_iteration.h"

#include <string.h>

enum { TRIALS = 8 };

static const struct pstar_policy_ops *const policies[] = {&policy_opt, &policy_lru, NULL};

struct fixture {
    struct trace *trace;
    GArray *budgets, *look_aheads;
    GPtrArray *layouts, *strategies;
    struct costs *costs;
    struct sweep_options options;
};

static void set_up(struct fixture *f, GRand *random)
{
    f->trace = random_iteration(random);
    f->layouts = layout_list_parse("1KiB,8KiB", NULL, f->trace, NULL);
    f->budgets = sizes_parse_budgets("20%,150%", f->trace, NULL);
    f->look_aheads = sizes_parse_counts("0,3", NULL);
    f->strategies = strategy_parse_list("all", NULL);
    f->costs = costs_new(NULL, NULL, NULL);
    f->options = (struct sweep_options){.layouts = f->layouts,
                                        .budgets = f->budgets,
                                        .look_aheads = f->look_aheads,
                                        .policies = policies,
                                        .strategies = f->strategies,
                                        .host_budget = UINT64_MAX,
                                        .costs = f->costs};
}

static void tear_down(struct fixture *f)
{
    g_ptr_array_unref(f->layouts);
    g_array_unref(f->budgets);
    g_array_unref(f->look_aheads);
    g_ptr_array_unref(f->strategies);
    costs_free(f->costs);
    trace_free(f->trace);
}

static void check_row(const struct fixture *f, const struct sweep_row *row)
{
    struct plan *plan = sweep_plan(f->trace, &f->options, row, NULL);
    g_assert_true(row->done);
    g_assert_true((row->policy != NULL) != (row->strategy != NULL));
    g_assert_true((plan != NULL) == row->fits);
    if (!plan) {
        g_assert_nonnull(row->reason);
        g_assert_cmpuint(row->least_device_bytes, >, row->device_budget);
        return;
    }
    g_assert_cmpmem(&plan->predicted, sizeof plan->predicted, &row->figures, sizeof row->figures);
    g_assert_cmpuint(plan->look_ahead, ==, row->look_ahead);
    if (row->strategy)
        g_assert_cmpstr(plan->made_by, ==, row->strategy->name);
    plan_free(plan);
}

static void assert_same(const struct sweep *a, const struct sweep *b)
{
    g_assert_cmpuint(a->row_count, ==, b->row_count);
    for (uint32_t r = 0; r < a->row_count; r++) {
        const struct sweep_row *x = &a->rows[r], *y = &b->rows[r];
        g_assert_true(x->strategy == y->strategy && x->policy == y->policy && x->fits == y->fits);
        g_assert_cmpmem(&x->figures, sizeof x->figures, &y->figures, sizeof y->figures);
    }
}

static void test_rows(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < TRIALS; i++) {
        struct fixture f;
        set_up(&f, random);
        f.options.threads = 1;
        struct sweep *one = sweep_run(f.trace, &f.options);
        f.options.threads = 3;
        struct sweep *three = sweep_run(f.trace, &f.options);
        assert_same(one, three);
        g_assert_cmpuint(one->row_count, ==, 2 * 2 * (2 * 2 + f.strategies->len));
        for (uint32_t r = 0; r < one->row_count; r++)
            check_row(&f, &one->rows[r]);
        sweep_free(one);
        sweep_free(three);
        tear_down(&f);
    }
    g_rand_free(random);
}

/* Everything on the device moves nothing, so nothing ranks before it where it fits. */
static void test_rank(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    struct fixture f;
    do {
        set_up(&f, random);
        if (f.trace->operators[0].place == TRACE_ON_DEVICE)
            break;
        tear_down(&f);
    } while (true);
    g_array_unref(f.budgets);
    f.options.budgets = f.budgets = sizes_parse_budgets("400%", f.trace, NULL);
    f.options.objective = OBJECTIVE_TRAFFIC;
    struct sweep *sweep = sweep_run(f.trace, &f.options);
    GArray *ranked = sweep_rank(sweep);
    const struct plan_figures *best = &sweep->rows[g_array_index(ranked, uint32_t, 0)].figures;
    g_assert_cmpuint(best->h2d_bytes + best->d2h_bytes, ==, 0);
    g_array_unref(ranked);
    sweep_free(sweep);
    tear_down(&f);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strategies/sweep/rows", test_rows);
    g_test_add_func("/strategies/sweep/rank", test_rank);
    return g_test_run();
}
