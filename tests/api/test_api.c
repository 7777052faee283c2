/* What pstar.h does with the simulator and the planner. */
#include <glib.h>
#include <glib/gstdio.h>
#include <pstar.h>

static const char config[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 32, \"n_embd\": 128,"
    " \"n_layer\": 3, \"n_head\": 4}";

static double figure_of(const struct pstar_plan *plan, const char *name)
{
    double value = -1;
    g_assert_true(pstar_plan_figure(plan, name, &value));
    return value;
}

struct fixture {
    struct pstar_platform *platform;
    struct pstar_trace *trace;
    struct pstar_layout *layout;
    struct pstar_budgets budgets;
    char *model_path, *trace_path, *plan_path;
};

static void set_up(struct fixture *f)
{
    struct pstar_error error;
    f->model_path = g_build_filename(g_get_tmp_dir(), "pstar-api-model.json", NULL);
    g_assert_true(g_file_set_contents(f->model_path, config, -1, NULL));
    const struct pstar_job job = {.model = f->model_path, .batch = 1, .sequence = 32};
    f->platform = pstar_platform_read(PROJECT_DIR "/platforms/a100-40gb.json", &error);
    f->trace = pstar_trace_synthesise(&job, f->platform, &error);
    f->layout = pstar_layout_pack(f->trace, 1 << 18, &error);
    f->budgets = (struct pstar_budgets){pstar_layout_least_arena_bytes(f->layout, f->trace) +
                                            pstar_trace_model_bytes(f->trace) / 4,
                                        PSTAR_UNLIMITED};
    f->trace_path = g_build_filename(g_get_tmp_dir(), "pstar-api-search.pstar", NULL);
    f->plan_path = g_build_filename(g_get_tmp_dir(), "pstar-api-search.json", NULL);
}

static void tear_down(struct fixture *f)
{
    g_unlink(f->model_path);
    g_unlink(f->trace_path);
    g_unlink(f->plan_path);
    g_free(f->model_path);
    g_free(f->trace_path);
    g_free(f->plan_path);
    pstar_layout_free(f->layout);
    pstar_trace_free(f->trace);
    pstar_platform_free(f->platform);
}

static void test_replay(void)
{
    struct pstar_error error;
    struct fixture f;
    set_up(&f);
    struct pstar_plan *plan = pstar_plan_from_policy(f.trace, f.layout, pstar_policy_at(0),
                                                     &f.budgets, 2, &error);
    double bytes = figure_of(plan, "h2d_bytes");
    g_assert_true(pstar_plan_replay(plan, f.trace, f.platform, NULL, &error));
    double seconds = figure_of(plan, "iteration_seconds");
    g_assert_cmpfloat(seconds, >, 0);
    g_assert_cmpfloat(figure_of(plan, "h2d_bytes"), ==, bytes);
    g_assert_true(pstar_plan_replay(plan, f.trace, f.platform, "h2d=10MB/s,d2h=10MB/s", &error));
    g_assert_cmpfloat(figure_of(plan, "iteration_seconds"), >, seconds);
    g_assert_false(pstar_plan_replay(plan, f.trace, NULL, "fast", &error));
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
    pstar_plan_free(plan);
    tear_down(&f);
}

static void test_search(void)
{
    struct pstar_error error;
    struct fixture f;
    struct pstar_trace *planned;
    set_up(&f);
    g_assert_true(pstar_trace_write(f.trace, f.trace_path, &error));
    const struct pstar_search search = {.budgets = f.budgets, .as_traced = true, .seed = 1};
    struct pstar_plan *plan = pstar_plan_search(f.trace, f.platform, &search, &planned, &error);
    g_assert_true(pstar_plan_check(plan, planned, &error));
    g_assert_true(pstar_plan_write(plan, f.plan_path, &error));
    g_assert_true(pstar_plan_verify(f.plan_path, f.trace_path, NULL, &error));

    /* A certificate is about every byte of the trace's file. */
    g_assert_true(pstar_trace_write(planned, f.trace_path, &error));
    g_assert_false(pstar_plan_verify(f.plan_path, f.trace_path, NULL, &error));
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
    pstar_trace_free(planned);
    pstar_plan_free(plan);
    tear_down(&f);
}

static void test_without_file(void)
{
    struct pstar_error error;
    struct fixture f;
    struct pstar_trace *planned;
    set_up(&f);
    struct pstar_search search = {
        .budgets = f.budgets, .objective = PSTAR_LEAST_TRAFFIC, .as_traced = true, .seed = 1};
    struct pstar_plan *plan = pstar_plan_search(f.trace, NULL, &search, &planned, &error);
    g_assert_true(pstar_plan_write(plan, f.plan_path, &error));
    g_assert_true(pstar_trace_write(f.trace, f.trace_path, &error));
    g_assert_true(pstar_plan_verify(f.plan_path, f.trace_path, NULL, &error));
    pstar_trace_free(planned);
    pstar_plan_free(plan);

    search.budgets.device = 1000;
    g_assert_null(pstar_plan_search(f.trace, NULL, &search, &planned, &error));
    g_assert_null(planned);
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_DOES_NOT_FIT);
    tear_down(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/api/replay", test_replay);
    g_test_add_func("/api/search", test_search);
    g_test_add_func("/api/without-file", test_without_file);
    return g_test_run();
}
