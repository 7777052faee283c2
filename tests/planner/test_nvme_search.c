/* Plans for a host that a disk extends verify, stay within the budgets, and are no slower than any
 * policy's with homes in NVMe. */
#include "chunks/dry_run.h"
#include "chunks/nvme_homes.h"
#include "models/synth.h"
#include "planner/answers/nvme_search.h"
#include "planner/answers/verify.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"

enum { FEW = 1, MANY = 12, LAYERS = 2 };

/* More than one of the searches that share the progress is of all of them. */
#define PART_MOST 0.1

struct fixture {
    struct platform *platform;
    struct costs *costs;
    struct trace *trace;
    struct search_options options;
    uint64_t nvme_bytes;
    double progress; /* the largest share that was done */
};

/* The progress goes on from search to search. Within one it may fall, because that finds more to
 * try. */
static bool watch(void *data, uint32_t done, uint32_t total)
{
    struct fixture *f = data;
    double share = (double)done / total;
    g_assert_cmpuint(done, <=, total);
    g_assert_cmpfloat(share + PART_MOST, >, f->progress);
    f->progress = MAX(f->progress, share);
    return true;
}

static struct trace *synthesise(const struct platform *platform, GRand *random)
{
    static const uint32_t widths[] = {32, 64, 96}, vocabularies[] = {100, 1000};
    uint32_t width = widths[g_rand_int_range(random, 0, 3)];
    const struct model_config config = {.name = "small",
                                        .layers = LAYERS,
                                        .width = width,
                                        .heads = 4,
                                        .inner = 4 * width,
                                        .positions = 64,
                                        .vocabulary = vocabularies[g_rand_int_range(random, 0, 2)],
                                        .tied = g_rand_boolean(random)};
    const struct model_job job = {
        .choices = {.batch = (uint32_t)g_rand_int_range(random, 1, 5), .micro_batches = 1},
        .sequence = 64,
        .precision = g_rand_boolean(random) ? MODEL_BF16 : MODEL_FP32};
    return model_synthesise(&config, &job, platform, NULL);
}

/* The disk reads and writes 2 GB/s. The host has room for a part of the model data. */
static void set_up(struct fixture *f, GRand *random)
{
    static const char *const links[] = {"h2d=1GB/s,d2h=3GB/s", "h2d=8GB/s,d2h=8GB/s",
                                        "h2d=25GB/s,d2h=20GB/s"};
    f->platform = platform_read(PROJECT_DIR "/platforms/cpu-2core.json", NULL);
    f->trace = synthesise(f->platform, random);
    f->costs = costs_new(f->platform, links[g_rand_int_range(random, 0, 3)], NULL);
    struct non_model *non_model = non_model_place(f->trace);
    double model = (double)trace_model_bytes(f->trace), beside = (double)non_model->peak_bytes;
    f->nvme_bytes = 4 * (uint64_t)(model + beside);
    f->options = (struct search_options){
        .objective = OBJECTIVE_TIME,
        .device_budget = (uint64_t)(beside + g_rand_double_range(random, 0.2, 0.6) * model),
        .host_budget = (uint64_t)(g_rand_double_range(random, 0.15, 0.9) * model),
        .costs = f->costs,
        .platform = f->platform,
        .seed = 1,
        .threads = 1,
        .progress = watch,
        .progress_data = f};
    f->progress = 0;
    non_model_free(non_model);
}

static void tear_down(struct fixture *f)
{
    trace_free(f->trace);
    costs_free(f->costs);
    platform_free(f->platform);
}

/* Returns the seconds of a step with a policy and homes in NVMe; 0 if it does not fit. */
static double step_with(const struct fixture *f, const struct layout *layout,
                        const struct pstar_policy_ops *policy)
{
    const struct dry_run_options options = {
        .device_budget = f->options.device_budget, .host_budget = UINT64_MAX, .policy = policy};
    const struct nvme_budget budget = {.host_bytes = f->options.host_budget,
                                       .nvme_bytes = f->nvme_bytes};
    struct plan *plan = dry_run(f->trace, layout, &options, NULL);
    if (!plan)
        return 0;
    struct non_model *non_model = non_model_place(f->trace);
    struct accesses *accesses = accesses_new(f->trace, layout, non_model->extent);
    double seconds = 0;
    if (nvme_homes_give(plan, f->trace, accesses, &budget, NULL))
        seconds = plan_replay(plan, f->trace, f->costs, NULL).iteration_seconds;
    accesses_free(accesses);
    non_model_free(non_model);
    plan_free(plan);
    return seconds;
}

/* Returns how many policies fit, none of which may be faster. */
static int compare(const struct fixture *f, double seconds)
{
    g_autoptr(GPtrArray) layouts = layout_list_parse(NULL, NULL, f->trace, NULL);
    int compared = 0;
    for (guint i = 0; i < layouts->len; i++) {
        const struct named_layout *named = g_ptr_array_index(layouts, i);
        for (size_t p = 0; policy_all[p]; p++) {
            double simple = step_with(f, named->layout, policy_all[p]);
            compared += simple > 0;
            if (simple > 0 && simple < seconds)
                g_error("%s with layout %u takes %.9f s, the plan %.9f s", policy_all[p]->name, i,
                        simple, seconds);
        }
    }
    return compared;
}

static void check_plan(const struct fixture *f, const struct search_result *best)
{
    struct plan_figures figures;
    GError *error = NULL;
    verify_plan(best->plan, best->trace, f->costs, &figures, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(best->plan->host_pool_bytes, <=, f->options.host_budget);
}

static void answer_clear(struct nvme_answer *answer)
{
    variants_result_free(answer->alone);
    variants_result_free(answer->result);
}

static void test_never_slower(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int compared = 0, lives_in_nvme = 0;
    for (int i = 0; i < draws(FEW, MANY) || !compared || !lives_in_nvme; i++) {
        struct fixture f;
        struct nvme_answer answer = {0};
        set_up(&f, random);
        unsigned scope = i % 4 ? 0 : RUN_RECOMPUTE | RUN_OFFLOAD;
        if (nvme_search_run(f.trace, &f.options, scope, f.nvme_bytes, &answer, NULL)) {
            const struct search_result *best = answer.result->best;
            check_plan(&f, best);
            g_assert_cmpfloat(f.progress, >, 0.5);
            compared += compare(&f, best->plan->predicted.iteration_seconds);
            lives_in_nvme += best->plan->nvme_bytes > 0;
        }
        answer_clear(&answer);
        tear_down(&f);
    }
    g_test_message("%d compared, %d plans use NVMe", compared, lives_in_nvme);
}

/* Chunk sizes that are given hold for the trace with state blocks, too. */
static void test_given_chunks(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int planned = 0;
    for (int i = 0; i < draws(FEW, MANY) || !planned; i++) {
        struct fixture f;
        struct nvme_answer answer = {0};
        set_up(&f, random);
        g_autoptr(GPtrArray) layouts = layout_list_parse("16KiB", NULL, f.trace, NULL);
        f.options.layouts = layouts;
        if (nvme_search_run(f.trace, &f.options, RUN_RECOMPUTE | RUN_STATE_BLOCKS, f.nvme_bytes,
                            &answer, NULL)) {
            check_plan(&f, answer.result->best);
            planned += answer.result->best->plan->choices->state_block > 0;
        }
        answer_clear(&answer);
        tear_down(&f);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme-search/never-slower", test_never_slower);
    g_test_add_func("/nvme-search/given-chunks", test_given_chunks);
    return g_test_run();
}
