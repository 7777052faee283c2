/* Searches that begin anew: the plan is never worse than that of one search, and they can be
 * stopped. */
#include "models/synth.h"
#include "planner/answers/verify.h"
#include "planner/search/variants.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"

struct fixture {
    struct platform *platform;
    struct costs *costs;
    struct trace *trace;
    GPtrArray *sizes;
    struct search_options options;
};

/* Few large tensors on a link with unequal directions: plans of these are often far above their
 * bounds. One layer and one micro-batch show as much of searches that begin anew as two, which take
 * many times as long. */
static void set_up(struct fixture *f, GRand *random)
{
    const uint32_t width = 64 * (uint32_t)g_rand_int_range(random, 1, 3);
    const struct model_config config = {
        .name = "small",
        .layers = (uint32_t)g_rand_int_range(random, 1, draws(2, 3)),
        .width = width,
        .heads = 4,
        .inner = 4 * width,
        .positions = 64,
        .vocabulary = (uint32_t)g_rand_int_range(random, 100, 9999),
        .tied = true};
    const struct model_job job = {
        .choices = {.batch = 1,
                    .micro_batches = (uint32_t)g_rand_int_range(random, 1, draws(2, 3))},
        .sequence = 64,
        .precision = MODEL_BF16};
    g_autofree char *link = g_strdup_printf("h2d=%.1fGB/s,d2h=%.1fGB/s",
                                            g_rand_double_range(random, 1, 20),
                                            g_rand_double_range(random, 1, 5));
    g_autoptr(GError) error = NULL;
    f->platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", &error);
    f->costs = costs_new(f->platform, link, &error);
    f->trace = model_synthesise(&config, &job, f->platform, &error);
    f->sizes = layout_list_parse("64KiB,1MiB", NULL, f->trace, &error);
    g_assert_no_error(error);
    struct non_model *non_model = non_model_place(f->trace);
    double share = g_rand_double_range(random, 0.3, 0.7);
    f->options = (struct search_options){
        .layouts = f->sizes,
        .device_budget = non_model->peak_bytes +
                         (uint64_t)(share * (double)trace_model_bytes(f->trace)),
        .host_budget = UINT64_MAX,
        .costs = f->costs,
        .platform = f->platform,
        .seed = g_rand_int(random)};
    non_model_free(non_model);
}

static void tear_down(struct fixture *f)
{
    g_ptr_array_unref(f->sizes);
    trace_free(f->trace);
    costs_free(f->costs);
    platform_free(f->platform);
}

static double seconds_of(const struct variants_result *result)
{
    return result->best->plan->predicted.iteration_seconds;
}

static void compare_baselines(const struct search_baseline *anew,
                              const struct search_baseline *once)
{
    if (!once->name)
        return;
    g_assert_nonnull(anew->name);
    g_assert_cmpfloat(anew->figures.iteration_seconds, <=, once->figures.iteration_seconds);
}

static void test_never_worse(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < draws(1, 6); i++) {
        g_autoptr(GError) error = NULL;
        struct fixture f;
        set_up(&f, random);
        struct variants_result *once = variants_search(f.trace, &f.options, RUN_RECOMPUTE, NULL);
        struct variants_result *anew = variants_search_anew(f.trace, &f.options, RUN_RECOMPUTE,
                                                            NULL);
        g_assert_nonnull(once);
        g_assert_cmpfloat(seconds_of(anew), <=, seconds_of(once));
        compare_baselines(&anew->best->policy, &once->best->policy);
        compare_baselines(&anew->best->strategy, &once->best->strategy);
        if (once->best->far)
            g_assert_cmpuint(anew->best->plans_tried, >, once->best->plans_tried);
        else
            g_assert_cmpuint(anew->best->plans_tried, ==, once->best->plans_tried);
        g_assert_false(anew->best->stopped);
        verify_plan(anew->best->plan, anew->best->trace, f.costs, NULL, &error);
        g_assert_no_error(error);
        variants_result_free(once);
        variants_result_free(anew);
        tear_down(&f);
    }
}

struct calls {
    uint32_t count, most;
};

static bool count_call(void *data, G_GNUC_UNUSED uint32_t done, G_GNUC_UNUSED uint32_t total)
{
    struct calls *calls = data;
    return ++calls->count <= calls->most;
}

/* Draws until one search stays far above its bound. */
static struct variants_result *set_up_far(struct fixture *f, GRand *random, struct calls *calls)
{
    for (;;) {
        set_up(f, random);
        f->options.threads = 1; /* so that calls can be counted */
        f->options.progress = count_call;
        f->options.progress_data = calls;
        *calls = (struct calls){.most = UINT32_MAX};
        struct variants_result *once = variants_search(f->trace, &f->options, RUN_RECOMPUTE, NULL);
        if (once->best->far)
            return once;
        variants_result_free(once);
        tear_down(f);
    }
}

/* Whoever stops a later search has the plan of the first. */
static void test_stopped(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct fixture f;
    struct calls calls;
    struct variants_result *once = set_up_far(&f, random, &calls);
    calls = (struct calls){.most = calls.count + 1};
    struct variants_result *anew = variants_search_anew(f.trace, &f.options, RUN_RECOMPUTE, NULL);
    g_assert_true(anew->best->stopped);
    g_assert_cmpfloat(seconds_of(anew), <=, seconds_of(once));
    variants_result_free(anew);

    f.options.time_limit = 1e-3;
    calls = (struct calls){.most = UINT32_MAX};
    anew = variants_search_anew(f.trace, &f.options, RUN_RECOMPUTE, NULL);
    g_assert_true(anew->best->stopped);
    variants_result_free(anew);
    variants_result_free(once);
    tear_down(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/restarts/never-worse", test_never_worse);
    g_test_add_func("/restarts/stopped", test_stopped);
    return g_test_run();
}
