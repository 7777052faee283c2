/* Plans for several ranks whose stage the search chooses: none is slower than a strategy's row in
 * either stage, and each moves what it predicts. Instances are drawn. */
#include "models/synth.h"
#include "planner/answers/verify.h"
#include "planner/search/trials.h"
#include "planner/search/variants.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#include <math.h>

#define CASES draws(UNLESS_SANITIZED(2, 1), 5)

static const unsigned scope = RUN_RECOMPUTE | RUN_OFFLOAD | RUN_STAGE;

struct fixture {
    struct model_config config;
    struct platform *platform;
    struct costs *costs;
    struct trace *stages[2]; /* 2 and 3 */
    uint64_t device_budget;
    char *machine; /* the platform's file */
};

/* Returns a number between two powers of ten. */
static double draw_rate(GRand *random, double least, double most)
{
    return pow(10, g_rand_double_range(random, least, most));
}

static void draw_model(GRand *random, struct model_config *config)
{
    uint32_t heads = 2u << g_rand_int_range(random, 0, 2);
    *config = (struct model_config){
        .name = "drawn",
        .layers = (uint32_t)g_rand_int_range(random, 1, UNLESS_SANITIZED(5, 3)),
        .width = 64 * heads,
        .heads = heads,
        .inner = 256 * heads,
        .positions = 256,
        .vocabulary = (uint32_t)draw_rate(random, 2.4, 4.3),
        .tied = true};
}

/* Nodes of up to eight GPUs with drawn rates between them, to the host, and between nodes. */
static void draw_machine(GRand *random, struct fixture *f)
{
    uint32_t gpus = 2u << g_rand_int_range(random, 0, 3),
             nodes = 1u << g_rand_int_range(random, 0, 3);
    double link = draw_rate(random, 9, 11);
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(PROJECT_DIR "/platforms/a100-40gb.json", &text, NULL, NULL));
    *strrchr(text, '}') = '\0';
    f->machine = g_strdup_printf(
        "%s, \"node\": {\"source\": \"drawn\", \"gpus\": %u, \"bytes_per_second\": %.0f, "
        "\"latency_seconds\": %.9f}, \"network\": {\"source\": \"drawn\", "
        "\"bytes_per_second\": %.0f, \"latency_seconds\": %.9f}}",
        text, gpus, draw_rate(random, 9, 11.5), draw_rate(random, -6.5, -5),
        draw_rate(random, 9, 11.3), draw_rate(random, -6, -5));
    g_autoptr(GError) error = NULL;
    f->platform = platform_parse(f->machine, "drawn", &error);
    g_assert_no_error(error);
    g_assert_true(platform_spread_ranks(f->platform, gpus * nodes, nodes, NULL));
    for (int d = 0; d < 2; d++)
        (d ? &f->platform->d2h : &f->platform->h2d)->points[0] = (struct platform_point){link, 1};
    f->costs = costs_new(f->platform, NULL, NULL);
}

static struct trace *synthesise(const struct fixture *f, GRand *random, int stage, uint32_t each)
{
    uint32_t ranks = f->platform->spread.ranks;
    const struct model_job job = {
        .choices = {.batch = 2, .micro_batches = each * ranks, .stage = (uint8_t)stage},
        .sequence = 128,
        .precision = g_rand_boolean(random) ? MODEL_BF16 : MODEL_FP32,
        .ranks = ranks};
    return model_synthesise(&f->config, &job, f->platform, NULL);
}

static void set_up(struct fixture *f, GRand *random)
{
    *f = (struct fixture){0};
    draw_model(random, &f->config);
    draw_machine(random, f);
    uint32_t each = (uint32_t)g_rand_int_range(random, 1, UNLESS_SANITIZED(4, 3));
    f->stages[1] = synthesise(f, random, 3, each);
    struct recognised *recognised = recognise(f->stages[1], NULL);
    f->stages[0] = model_derive_ranks(recognised, f->stages[1], f->stages[1]->ranks,
                                      (struct run_stage){2, false}, f->platform, NULL);
    recognised_free(recognised);
    g_autofree char *share = g_strdup_printf("%d%%", g_rand_int_range(random, 20, 400));
    g_assert_true(sizes_parse_budget(share, f->stages[1], &f->device_budget, NULL));
}

static void tear_down(struct fixture *f)
{
    for (int s = 0; s < 2; s++)
        trace_free(f->stages[s]);
    costs_free(f->costs);
    platform_free(f->platform);
    g_free(f->machine);
}

/* Lists all strategies, and those of several ranks in this stage, with gradients as exact as the
 * trace's. */
static GPtrArray *strategies_in(int stage)
{
    GPtrArray *list = strategy_parse_list(stage == 3 ? "all,zero3,fsdp-no-reshard" : "all,zero2",
                                          NULL);
    g_assert_nonnull(list);
    return list;
}

/* Returns the least seconds of the strategies' rows with the sweep's chunk sizes. */
static double best_row(const struct fixture *f, int stage, char **name)
{
    const struct trace *trace = f->stages[stage - 2];
    g_autoptr(GPtrArray) strategies = strategies_in(stage);
    g_autoptr(GPtrArray) layouts = layout_list_parse(NULL, NULL, trace, NULL);
    struct non_model *non_model = non_model_place(trace);
    const struct candidate_job job = {.trace = trace,
                                      .non_model = non_model,
                                      .costs = f->costs,
                                      .platform = f->platform,
                                      .device_budget = f->device_budget,
                                      .host_budget = UINT64_MAX};
    double best = INFINITY;
    for (guint l = 0; l < layouts->len; l++) {
        const struct named_layout *named = g_ptr_array_index(layouts, l);
        struct baselines baselines;
        trial_open_baselines(&job, trace, named->layout, &baselines);
        for (guint s = 0; s < strategies->len; s++) {
            const struct strategy *strategy = g_ptr_array_index(strategies, s);
            struct plan *plan = trial_plan_strategy(&job, &baselines, strategy, OBJECTIVE_TIME,
                                                    INFINITY);
            if (plan && plan->predicted.iteration_seconds < best) {
                best = plan->predicted.iteration_seconds;
                g_free(*name);
                *name = g_strdup_printf("%s in stage %d", strategy->name, stage);
            }
            plan_free(plan);
        }
        baselines_close(&baselines);
    }
    non_model_free(non_model);
    return best;
}

/* Plans the trace, of ranks that may sum fast or not. Returns the plan's stage, or 0 if there is no
 * plan. */
static uint8_t assert_no_row_is_faster(const struct fixture *f, unsigned sums, double row)
{
    g_autoptr(GError) error = NULL;
    const struct search_options options = {.objective = OBJECTIVE_TIME,
                                           .device_budget = f->device_budget,
                                           .host_budget = UINT64_MAX,
                                           .costs = f->costs,
                                           .platform = f->platform,
                                           .seed = 1};
    struct variants_result *result = variants_search(f->stages[1], &options, scope | sums, NULL);
    if (!result)
        return 0;
    const struct plan *plan = result->best->plan;
    uint8_t stage = plan->choices->stage;
    g_test_message("%u ranks: %.6f s in stage %u, %s sums", f->stages[1]->ranks,
                   plan->predicted.iteration_seconds, stage,
                   plan->choices->fast ? "fast" : "exact");
    g_assert_cmpfloat(plan->predicted.iteration_seconds, <=, row);
    for (uint32_t i = 0; i < result->alternative_count; i++) {
        const struct run_choices *other = result->alternatives[i].choices;
        g_assert_true(other->stage >= 2 || other->fast); /* stages 0 and 1 sum fast */
    }
    verify_plan(plan, result->best->trace, f->costs, NULL, &error);
    g_assert_no_error(error);
    variants_result_free(result);
    return stage;
}

/* Rows with exact sums are no faster than a plan whose ranks may sum fast, either. */
static void test_no_strategy_is_faster(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    uint32_t in_stage[4] = {0};
    for (int i = 0; i < CASES;) {
        struct fixture f;
        set_up(&f, random);
        g_autofree char *name = g_strdup("none");
        double row = fmin(best_row(&f, 2, &name), best_row(&f, 3, &name));
        g_test_message("best row %.6f s, %s", row, name);
        uint8_t stage = assert_no_row_is_faster(&f, 0, row);
        if (stage) {
            assert_no_row_is_faster(&f, RUN_SUMS, row);
            in_stage[stage]++;
            i += isfinite(row); /* some row fits */
        }
        tear_down(&f);
    }
    g_test_message("%u plans in stage 2, %u in stage 3", in_stage[2], in_stage[3]);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stages/no-strategy-is-faster", test_no_strategy_is_faster);
    return g_test_run();
}
