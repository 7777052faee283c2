/* The planner chooses which layers are recomputed and offloaded. The result is never worse than the
 * traced variant, and what is said of the other variants holds when they are searched. */
#include "models/derive.h"
#include "models/synth.h"
#include "planner/answers/verify.h"
#include "planner/proof/bound.h"
#include "planner/proof/certificate.h"
#include "planner/schedule/placement.h"
#include "planner/search/search.h"
#include "planner/search/variant.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"

#include <math.h>
#include <string.h>

enum { CASES = 2, LAYERS = 4, DEEP = 34 };

enum {
    AS_TRACED = 0,
    LAYERS_ONLY = RUN_RECOMPUTE,
    OFFLOAD = RUN_RECOMPUTE | RUN_OFFLOAD,
    MASTERS = RUN_RECOMPUTE | RUN_MASTERS,
    MICRO_BATCHES = RUN_RECOMPUTE | RUN_MICRO_BATCHES,
    BLOCKS = RUN_RECOMPUTE | RUN_STATE_BLOCKS
};

struct fixture {
    struct model_config config;
    struct platform *platform;
    struct costs *costs;
    struct trace *trace;
    struct search_options options;
    unsigned scope; /* bits of enum run_choice */
};

/* The trace with other layers recomputed and offloaded, which may be NULL, and the embedding on the
 * device. */
static struct trace *derive(const struct recognised *recognised, const struct trace *trace,
                            uint8_t *recompute, uint8_t *offload, bool second_backward)
{
    uint8_t none[LAYERS] = {0};
    struct run_choices *traced = run_choices_of(trace), choices = *traced;
    choices.recompute = recompute ? recompute : none;
    choices.offload = offload ? offload : none;
    choices.host_embedding = false;
    model_choose_backward(&choices, traced, second_backward);
    struct trace *derived = model_derive(recognised, trace, &choices, NULL, NULL);
    run_choices_free(traced);
    return derived;
}

/* Synthesises the model of a trace with whole masters, other micro-batches, and other layers
 * recomputed and offloaded, which may be NULL. */
static struct trace *synthesise(const struct fixture *f, uint32_t batch, uint32_t micro_batches,
                                uint8_t *recompute, uint8_t *offload)
{
    const struct model_job job = {.choices = {.batch = batch,
                                              .micro_batches = micro_batches,
                                              .recompute = recompute,
                                              .offload = offload},
                                  .sequence = f->trace->sequence,
                                  .precision = MODEL_BF16};
    return model_synthesise(&f->config, &job, f->platform, NULL);
}

/* Returns a budget between what the variants need and what all of them and the model data take. */
static uint64_t some_budget(const struct fixture *f, GRand *random)
{
    uint8_t every[LAYERS];
    struct recognised *recognised = recognise(f->trace, NULL);
    memset(every, 1, LAYERS);
    struct trace *least = derive(recognised, f->trace, every, NULL, false);
    struct non_model *low = non_model_place(least), *high = non_model_place(f->trace);
    double from = 0.9 * (double)low->peak_bytes;
    double to = (double)high->peak_bytes + 0.5 * (double)trace_model_bytes(f->trace);

    non_model_free(low);
    non_model_free(high);
    trace_free(least);
    recognised_free(recognised);
    return (uint64_t)g_rand_double_range(random, from, to);
}

static void set_up(struct fixture *f, GRand *random)
{
    static const char *const links[] = {"h2d=100MB/s,d2h=100MB/s", "h2d=2GB/s,d2h=1GB/s"};
    uint8_t recompute[LAYERS], offloaded[LAYERS] = {0};
    f->config = (struct model_config){.name = "small",
                                      .layers = LAYERS,
                                      .width = 64,
                                      .heads = 4,
                                      .inner = 256,
                                      .positions = 64,
                                      .vocabulary = 100,
                                      .tied = true};
    for (int l = 0; l < LAYERS; l++)
        recompute[l] = (uint8_t)g_rand_boolean(random);
    if (g_rand_int_range(random, 0, 3) == 0)
        memcpy(offloaded, recompute, LAYERS);
    struct model_job job = {.choices = {.batch = (uint32_t)g_rand_int_range(random, 1, 3),
                                        .micro_batches = (uint32_t)g_rand_int_range(random, 1, 3),
                                        .recompute = recompute,
                                        .offload = offloaded,
                                        .host_embedding = g_rand_int_range(random, 0, 4) == 0},
                            .sequence = 64,
                            .precision = MODEL_BF16};
    job.choices.split_masters = job.choices.second_backward = job.choices.micro_batches == 1 &&
                                                              !job.choices.host_embedding &&
                                                              g_rand_int_range(random, 0, 4) == 0;
    f->platform = platform_read(PROJECT_DIR "/platforms/cpu-2core.json", NULL);
    g_assert_nonnull(f->platform);
    f->trace = model_synthesise(&f->config, &job, f->platform, NULL);
    f->costs = costs_new(f->platform, links[g_rand_int_range(random, 0, 2)], NULL);
    f->options =
        (struct search_options){.objective = (enum objective)g_rand_int_range(random, 0, 3),
                                .device_budget = some_budget(f, random),
                                .host_budget = UINT64_MAX,
                                .costs = f->costs,
                                .platform = g_rand_boolean(random) ? f->platform : NULL,
                                .seed = 1,
                                .threads = 1};
    f->scope = RUN_RECOMPUTE | (g_rand_boolean(random) ? RUN_OFFLOAD : 0) |
               (g_rand_boolean(random) ? RUN_EMBEDDING : 0) |
               (g_rand_boolean(random) ? RUN_MASTERS : 0) |
               (g_rand_boolean(random) ? RUN_STATE_BLOCKS : 0) |
               (f->options.platform && g_rand_boolean(random) ? RUN_MICRO_BATCHES : 0);
}

static void tear_down(struct fixture *f)
{
    trace_free(f->trace);
    costs_free(f->costs);
    platform_free(f->platform);
}

/* Does what request_plan does, without files. */
static void certify(const struct fixture *f, struct variants_result *result)
{
    struct plan *plan = result->best->plan;
    struct certificate *certificate = plan->certificate = g_new0(struct certificate, 1);
    variants_list(result, certificate);
    certificate->objective = g_strdup(objective_name(f->options.objective));
    certificate->traffic.achieved = objective_traffic(plan);
    certificate->time.achieved = (uint64_t)llround(plan->predicted.iteration_seconds * 1e9);
}

static double achieved(const struct fixture *f, const struct plan *plan)
{
    return f->options.objective == OBJECTIVE_TRAFFIC  ? (double)objective_traffic(plan)
           : f->options.objective == OBJECTIVE_MEMORY ? (double)plan->device_budget
                                                      : plan->predicted.iteration_seconds;
}

static void check_plan(const struct fixture *f, const struct variants_result *result)
{
    GError *error = NULL;
    struct search_result *retained = search_plan(f->trace, &f->options, NULL);
    struct trace *traced = derived_for_plan(result->best->plan, f->trace, f->options.platform,
                                            &error);
    g_autofree char *a = traced ? trace_digest(traced) : NULL;
    g_autofree char *b = trace_digest(result->traced);

    g_assert_no_error(error);
    g_assert_cmpstr(a, ==, b);
    verify_plan(result->best->plan, result->best->trace, f->costs, NULL, &error);
    g_assert_no_error(error);
    if (retained)
        g_assert_cmpfloat(achieved(f, result->best->plan), <=, achieved(f, retained->plan));
    search_result_free(retained);
    trace_free(traced);
}

/* Runs a search for each of the other variants. */
static void check_alternatives(const struct fixture *f, const struct plan *plan)
{
    struct recognised *recognised = recognise(f->trace, NULL);
    for (uint32_t i = 0; i < plan->certificate->alternative_count; i++) {
        const struct certificate_alternative *a = &plan->certificate->alternatives[i];
        struct search_options options = f->options;
        options.device_budget = plan->device_budget;
        g_assert_cmpuint(a->choices->batch * a->choices->micro_batches, ==,
                         f->trace->batch * f->trace->micro_batches);
        struct trace *trace = model_derive(recognised, f->trace, a->choices, f->options.platform,
                                           NULL);
        g_assert_true(f->scope & RUN_MICRO_BATCHES || a->choices->batch == f->trace->batch);
        struct search_result *result = variants_search_fully(trace, f->trace, &options, NULL);
        if (result) {
            uint64_t ns = (uint64_t)llround(result->plan->predicted.iteration_seconds * 1e9);
            g_assert_cmpuint(ns + 1, >=, a->bound); /* seconds are rounded */
            g_assert_cmpint(a->outcome, !=, CERTIFICATE_DOES_NOT_FIT);
            if (a->outcome == CERTIFICATE_BOUNDED)
                g_assert_cmpuint(ns + 1, >=, plan->certificate->time.achieved);
        }
        search_result_free(result);
        trace_free(trace);
    }
    recognised_free(recognised);
}

static bool passes(const struct fixture *f, const struct plan *plan)
{
    g_autoptr(GError) error = NULL;
    bool ok = verify_alternatives(plan, f->trace, f->options.platform, &error);
    g_assert_true(ok || g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID) ||
                  g_error_matches(error, TRACE_ERROR, TRACE_ERROR_INVALID));
    return ok;
}

/* An alternative must not be better by the objective. */
static void check_better(const struct fixture *f, const struct plan *plan,
                         struct certificate_alternative *a)
{
    const struct certificate *certificate = plan->certificate;
    const struct certificate_alternative as_it_was = *a;
    if (certificate->time.achieved <= a->bound || certificate->traffic.achieved == 0)
        return;
    a->achieved = certificate->time.achieved - 1;
    a->achieved_traffic = certificate->traffic.achieved;
    g_assert_cmpint(passes(f, plan), ==, f->options.objective != OBJECTIVE_TIME);
    a->achieved++;
    g_assert_true(passes(f, plan));
    a->achieved_traffic--;
    g_assert_cmpint(passes(f, plan), ==, f->options.objective != OBJECTIVE_TRAFFIC);
    *a = as_it_was;
}

/* A changed figure of any alternative is found. */
static void check_lies(const struct fixture *f, struct plan *plan)
{
    g_assert_true(passes(f, plan));
    for (uint32_t i = 0; i < plan->certificate->alternative_count; i++) {
        struct certificate_alternative *a = &plan->certificate->alternatives[i];
        const struct certificate_alternative as_it_was = *a;
        const struct run_choices as_chosen = *a->choices;
        a->bound++;
        g_assert_false(passes(f, plan));
        *a = as_it_was;
        check_better(f, plan, a);
        a->choices->layer_count--;
        g_assert_false(passes(f, plan));
        *a->choices = as_chosen;
        a->choices->micro_batches++;
        g_assert_false(passes(f, plan));
        *a->choices = as_chosen;
        a->choices->batch = 0;
        g_assert_false(passes(f, plan));
        *a->choices = as_chosen;
        if (a->outcome == CERTIFICATE_SEARCHED) {
            a->outcome = CERTIFICATE_BOUNDED;
            g_assert_cmpint(passes(f, plan), ==, a->bound >= plan->certificate->time.achieved);
        } else if (a->outcome == CERTIFICATE_BOUNDED) {
            a->outcome = CERTIFICATE_DOES_NOT_FIT;
            passes(f, plan); /* it may not fit either */
        } else {
            a->outcome = CERTIFICATE_BOUNDED;
            g_assert_cmpint(passes(f, plan), ==, a->bound >= plan->certificate->time.achieved);
        }
        *a = as_it_was;
    }
}

static void test_property(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        g_autoptr(GError) error = NULL;
        struct fixture f;
        set_up(&f, random);
        /* one chunk size, to be quick */
        g_autoptr(GPtrArray) sizes = layout_list_parse("24KiB", NULL, f.trace, &error);
        f.options.layouts = sizes;
        struct variants_result *result = variants_search(f.trace, &f.options, f.scope, &error);
        if (result) {
            check_plan(&f, result);
            certify(&f, result);
            check_alternatives(&f, result->best->plan);
            check_lies(&f, result->best->plan);
        } else {
            g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
        }
        variants_result_free(result);
        tear_down(&f);
    }
}

/* On a fast device with a slow link, room is worth more than operations. */
static void test_room_pays(void)
{
    const struct model_config config = {.name = "small",
                                        .layers = LAYERS,
                                        .width = 256,
                                        .heads = 4,
                                        .inner = 1024,
                                        .positions = 512,
                                        .vocabulary = 100,
                                        .tied = true};
    const struct model_job job = {
        .choices = {.batch = 8, .micro_batches = 1}, .sequence = 512, .precision = MODEL_BF16};
    g_autoptr(GError) error = NULL;
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", &error);
    g_clear_pointer(&platform->framework.source, g_free); /* nominal rates are faster */
    struct trace *trace = model_synthesise(&config, &job, platform, &error);
    struct costs *costs = costs_new(platform, NULL, &error);
    struct non_model *non_model = non_model_place(trace);
    g_autoptr(GPtrArray) sizes = layout_list_parse("256KiB,1MiB", NULL, trace, &error);
    const struct search_options options = {.layouts = sizes,
                                           .device_budget = non_model->peak_bytes + (4 << 20),
                                           .host_budget = UINT64_MAX,
                                           .costs = costs,
                                           .platform = platform,
                                           .seed = 1};
    g_assert_no_error(error);
    struct variants_result *retained = variants_search(trace, &options, AS_TRACED, &error);
    struct variants_result *chosen = variants_search(trace, &options, LAYERS_ONLY, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(retained->alternative_count, ==, 0);
    g_assert_cmpuint(chosen->alternative_count, >=, 3);
    g_assert_cmpint(chosen->best->plan->choices->recompute[0], ==, 1);
    g_assert_cmpfloat(chosen->best->plan->predicted.iteration_seconds, <,
                      0.9 * retained->best->plan->predicted.iteration_seconds);
    variants_result_free(retained);
    variants_result_free(chosen);
    non_model_free(non_model);
    costs_free(costs);
    trace_free(trace);
    platform_free(platform);
}

/* A model that is mostly a table of words gains from state blocks, whether it was traced with or
 * without them. */
static void test_blocks_pay(void)
{
    const struct model_config config = {.name = "small",
                                        .layers = 1,
                                        .width = 64,
                                        .heads = 4,
                                        .inner = 256,
                                        .positions = 64,
                                        .vocabulary = 100000,
                                        .tied = true};
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", NULL);
    struct costs *costs = costs_new(platform, "h2d=1GB/s,d2h=1GB/s", NULL);
    double seconds[2];
    for (int cut = 0; cut < 2; cut++) {
        g_autoptr(GError) error = NULL;
        struct fixture f = {.config = config, .platform = platform, .costs = costs};
        struct model_job job = {
            .choices = {.batch = 1, .micro_batches = 1}, .sequence = 64, .precision = MODEL_BF16};
        if (cut)
            model_state_block(&config, "auto", &job.choices.state_block, NULL);
        f.trace = model_synthesise(&config, &job, platform, &error);
        g_assert_no_error(error);
        f.options = (struct search_options){.device_budget = 120 << 20,
                                            .host_budget = UINT64_MAX,
                                            .costs = costs,
                                            .platform = platform,
                                            .seed = 1};
        struct variants_result *whole = variants_search(f.trace, &f.options, LAYERS_ONLY, &error);
        struct variants_result *chosen = variants_search(f.trace, &f.options, BLOCKS, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(whole->best->plan->choices->state_block, ==, job.choices.state_block);
        g_assert_cmpuint(chosen->best->plan->choices->state_block, >, 0);
        g_assert_cmpuint(chosen->alternative_count, >, whole->alternative_count);
        seconds[cut] = whole->best->plan->predicted.iteration_seconds;
        g_assert_cmpfloat(chosen->best->plan->predicted.iteration_seconds, <=, seconds[cut]);
        check_plan(&f, chosen);
        certify(&f, chosen);
        check_lies(&f, chosen->best->plan);
        variants_result_free(whole);
        variants_result_free(chosen);
        trace_free(f.trace);
    }
    g_assert_cmpfloat(seconds[1], <, 0.98 * seconds[0]);
    costs_free(costs);
    platform_free(platform);
}

/* Synthesises a step of the model for a machine of platforms/ behind this link. */
static void set_up_on(struct fixture *f, const char *machine, const struct model_job *job,
                      const char *link)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = g_strdup_printf(PROJECT_DIR "/platforms/%s.json", machine);
    f->platform = platform_read(path, NULL);
    f->costs = costs_new(f->platform, link, NULL);
    f->trace = model_synthesise(&f->config, job, f->platform, &error);
    g_assert_no_error(error);
}

/* Searches for a plan with or without blocks. */
static struct variants_result *search_blocks(struct fixture *f, uint64_t device, uint64_t host,
                                             uint64_t seed, unsigned scope)
{
    g_autoptr(GError) error = NULL;
    f->options = (struct search_options){.device_budget = device,
                                         .host_budget = host,
                                         .costs = f->costs,
                                         .platform = f->platform,
                                         .seed = seed};
    struct variants_result *result = variants_search(f->trace, &f->options, scope, &error);
    g_assert_no_error(error);
    return result;
}

/* Where the states of one tensor fill much of the device, blocks of a share of the model may be too
 * large to cut it. */
static void test_small_blocks_pay(void)
{
    struct fixture f = {.config = {.name = "narrow",
                                   .layers = 2,
                                   .width = 512,
                                   .heads = 8,
                                   .inner = 4 * 512,
                                   .positions = 256,
                                   .vocabulary = 300}};
    const struct model_job job = {
        .choices = {.batch = 1, .micro_batches = 1}, .sequence = 256, .precision = MODEL_BF16};
    set_up_on(&f, "v100-yard", &job, "h2d=133GB/s,d2h=200GB/s");
    struct variants_result *whole = search_blocks(&f, 14000000, UINT64_MAX, 1, LAYERS_ONLY);
    struct variants_result *chosen = search_blocks(&f, 14000000, UINT64_MAX, 1, BLOCKS);
    g_test_message("%.4f s, in blocks %.4f s", whole->best->plan->predicted.iteration_seconds,
                   chosen->best->plan->predicted.iteration_seconds);
    g_assert_cmpuint(chosen->best->plan->choices->state_block, >, 0);
    g_assert_cmpfloat(chosen->best->plan->predicted.iteration_seconds, <,
                      0.5 * whole->best->plan->predicted.iteration_seconds);
    check_plan(&f, chosen);
    variants_result_free(whole);
    variants_result_free(chosen);
    tear_down(&f);
}

/* Low effort says little where a few large tensors fill the device: with these seeds the blocks'
 * first plan is more than a twentieth longer, and their last one a fifth shorter. */
static void test_blocks_pay_late(void)
{
    struct fixture f = {.config = {.name = "wide",
                                   .layers = 1,
                                   .width = 8192,
                                   .heads = 32,
                                   .inner = 4 * 8192,
                                   .positions = 512,
                                   .vocabulary = 1012}};
    const struct model_job job = {
        .choices = {.batch = 1, .micro_batches = 1}, .sequence = 512, .precision = MODEL_FP32};
    set_up_on(&f, "v100-yard", &job, "h2d=12.3GB/s,d2h=23.9GB/s");
    for (uint64_t seed = 3; seed <= 4; seed++) {
        struct variants_result *chosen = search_blocks(&f, 2541056129, 21484664047, seed, BLOCKS);
        g_assert_cmpuint(chosen->best->plan->choices->state_block, >, 0);
        g_assert_cmpfloat(chosen->best->plan->predicted.iteration_seconds, <, 1.0);
        check_plan(&f, chosen);
        variants_result_free(chosen);
    }
    tear_down(&f);
}

/* A plan may be near its bound because that knows that no two of the largest states are on the
 * device at the same time. Takes about 40 s. */
static void test_blocks_pay_near_bound(void)
{
    struct fixture f = {.config = {.name = "words",
                                   .layers = 4,
                                   .width = 1216,
                                   .heads = 19,
                                   .inner = 4 * 1216,
                                   .positions = 128,
                                   .vocabulary = 25248}};
    uint8_t all[LAYERS];
    const struct model_job job = {
        .choices = {.batch = 1, .micro_batches = 1, .recompute = memset(all, 1, LAYERS)},
        .sequence = 128,
        .precision = MODEL_FP32};
    set_up_on(&f, "a100-40gb", &job, "h2d=139GB/s,d2h=112GB/s");
    struct variants_result *whole = search_blocks(&f, 305562554, 3568491116, 0, LAYERS_ONLY);
    struct variants_result *chosen = search_blocks(&f, 305562554, 3568491116, 0, BLOCKS);
    g_assert_cmpfloat(chosen->best->plan->predicted.iteration_seconds, <,
                      0.6 * whole->best->plan->predicted.iteration_seconds);
    check_plan(&f, chosen);
    variants_result_free(whole);
    variants_result_free(chosen);
    tear_down(&f);
}

/* If kept activations do not fit, recomputed ones may. */
static void test_only_way(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(7);
    g_autoptr(GError) error = NULL;
    uint8_t every[LAYERS] = {1, 1, 1, 1};
    struct fixture f;
    set_up(&f, random);
    struct recognised *recognised = recognise(f.trace, NULL);
    struct trace *retained = derive(recognised, f.trace, NULL, NULL, false);
    struct trace *again = derive(recognised, f.trace, every, NULL, false);
    g_autoptr(GPtrArray) a_tensor = layout_list_parse("256B", NULL, retained, &error);
    f.options.layouts = a_tensor;
    f.options.objective = OBJECTIVE_TIME;
    f.options.device_budget = variants_requirement(again, retained, &f.options);
    g_assert_null(variants_search(retained, &f.options, AS_TRACED, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
    g_clear_error(&error);

    struct variants_result *result = variants_search(retained, &f.options, LAYERS_ONLY, &error);
    g_assert_no_error(error);
    g_assert_cmpint(result->best->plan->choices->recompute[0], ==, 1);
    g_assert_cmpint(result->alternatives[0].outcome, ==, CERTIFICATE_DOES_NOT_FIT);
    variants_result_free(result);

    f.options.device_budget--;
    g_assert_null(variants_search(retained, &f.options, LAYERS_ONLY, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
    trace_free(again);
    trace_free(retained);
    recognised_free(recognised);
    tear_down(&f);
}

/* Returns the least host memory with which a plan fits. */
static uint64_t least_host(const struct trace *trace, struct search_options options)
{
    uint64_t low = 0, high = 2 * trace_model_bytes(trace); /* high fits */

    while (high - low > 1) {
        options.host_budget = low + (high - low) / 2;
        if (requirement_is_met(trace, &options, NULL))
            high = options.host_budget;
        else
            low = options.host_budget;
    }
    return high;
}

/* If host and device cannot hold 14 bytes a parameter, they may hold 12. */
static void test_split_masters(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(7);
    g_autoptr(GError) error = NULL;
    uint8_t every[LAYERS] = {1, 1, 1, 1};
    struct fixture f;
    set_up(&f, random);
    struct trace *whole = synthesise(&f, 2, 1, every, NULL);
    struct recognised *of_whole = recognise(whole, NULL);
    struct trace *split = derive(of_whole, whole, every, NULL, true);
    f.options.objective = OBJECTIVE_TIME;
    f.options.device_budget = requirement_device_bytes(split, &f.options, &error);
    uint64_t for_split = least_host(split, f.options), for_whole = least_host(whole, f.options);
    g_assert_cmpuint(for_split, <, for_whole);
    f.options.host_budget = (for_split + for_whole) / 2;
    g_assert_null(variants_search(whole, &f.options, LAYERS_ONLY, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
    g_clear_error(&error);

    struct variants_result *result = variants_search(whole, &f.options, MASTERS, &error);
    g_assert_no_error(error);
    g_assert_true(result->best->plan->choices->second_backward);
    verify_plan(result->best->plan, result->best->trace, f.costs, NULL, &error);
    g_assert_no_error(error);
    certify(&f, result);
    g_assert_true(verify_alternatives(result->best->plan, whole, f.options.platform, &error));
    variants_result_free(result);
    trace_free(split);
    trace_free(whole);
    recognised_free(of_whole);
    tear_down(&f);
}

/* If recomputed activations do not fit either, offloaded ones do; the plan fetches them back. */
static void test_offload_only(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(7);
    g_autoptr(GError) error = NULL;
    uint8_t every[LAYERS] = {1, 1, 1, 1};
    struct fixture f;
    set_up(&f, random);
    struct trace *retained = synthesise(&f, 8, 1, NULL, NULL);
    struct trace *held = synthesise(&f, 8, 1, every, every);
    g_autoptr(GPtrArray) a_tensor = layout_list_parse("256B", NULL, retained, &error);
    f.options.layouts = a_tensor;
    f.options.objective = OBJECTIVE_TIME;
    f.options.device_budget = variants_requirement(held, retained, &f.options);
    g_assert_null(variants_search(retained, &f.options, LAYERS_ONLY, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
    g_clear_error(&error);

    struct variants_result *result = variants_search(retained, &f.options, OFFLOAD, &error);
    g_assert_no_error(error);
    const struct plan *plan = result->best->plan;
    uint64_t back = 0;
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->layout->chunks[plan->actions[i].chunk].list == TRACE_ACTIVATION &&
            plan->actions[i].kind == PLAN_FETCH)
            back += plan->layout->chunks[plan->actions[i].chunk].copy_bytes;
    g_assert_cmpint(plan->choices->offload[LAYERS - 1], ==, 1);
    g_assert_cmpuint(back, >, 0);
    verify_plan(plan, result->best->trace, f.costs, NULL, &error);
    g_assert_no_error(error);
    certify(&f, result);
    g_assert_true(verify_alternatives(plan, retained, f.options.platform, &error));
    variants_result_free(result);
    trace_free(held);
    trace_free(retained);
    tear_down(&f);
}

/* If the host cannot hold the activations of all layers, it holds those of the last ones, and the
 * first ones are recomputed. */
static void test_host_shares(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(7);
    g_autoptr(GError) error = NULL;
    uint8_t every[LAYERS] = {1, 1, 1, 1};
    struct fixture f;
    set_up(&f, random);
    costs_free(f.costs);
    f.costs = costs_new(f.platform, "h2d=200GB/s,d2h=200GB/s", &error);
    struct trace *kept = synthesise(&f, 8, 1, NULL, NULL);
    struct trace *held = synthesise(&f, 8, 1, every, every);
    g_autoptr(GPtrArray) a_tensor = layout_list_parse("256B", NULL, kept, &error);
    f.options.layouts = a_tensor;
    f.options.objective = OBJECTIVE_TIME;
    f.options.costs = f.costs;
    f.options.platform = f.platform;
    f.options.device_budget = variants_requirement(held, kept, &f.options) * 3 / 2;
    struct variants_result *plenty = variants_search(kept, &f.options, OFFLOAD, &error);
    g_assert_no_error(error);
    g_assert_cmpint(plenty->best->plan->choices->recompute[0], ==, 0);
    g_assert_cmpint(plenty->best->plan->choices->offload[0], ==, 1);

    f.options.host_budget = layout_slot_bytes(plenty->best->plan->layout) * 7 / 10;
    struct variants_result *scarce = variants_search(kept, &f.options, OFFLOAD, &error);
    g_assert_no_error(error);
    const struct plan *plan = scarce->best->plan;
    g_assert_cmpint(plan->choices->recompute[0], ==, 1);
    g_assert_cmpint(plan->choices->recompute[LAYERS - 1], ==, 0);
    g_assert_cmpint(plan->choices->offload[LAYERS - 1], ==, 1);
    verify_plan(plan, scarce->best->trace, f.costs, NULL, &error);
    g_assert_no_error(error);
    variants_result_free(scarce);
    variants_result_free(plenty);
    trace_free(held);
    trace_free(kept);
    tear_down(&f);
}

/* Smaller micro-batches take less room. Sizes in between are compared, and those of a measured run
 * are unknown. */
static void test_micro_batches(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(7);
    g_autoptr(GError) error = NULL;
    uint8_t every[LAYERS] = {1, 1, 1, 1};
    struct fixture f;
    set_up(&f, random);
    struct trace *whole = synthesise(&f, 8, 1, every, NULL);
    struct trace *parts = synthesise(&f, 2, 4, every, NULL);
    g_autoptr(GPtrArray) a_tensor = layout_list_parse("256B", NULL, whole, &error);
    f.options.layouts = a_tensor;
    f.options.objective = OBJECTIVE_TIME;
    f.options.platform = f.platform;
    f.options.device_budget = variants_requirement(parts, whole, &f.options);
    g_assert_null(variants_search(whole, &f.options, LAYERS_ONLY, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT));
    g_clear_error(&error);

    struct variants_result *result = variants_search(whole, &f.options, MICRO_BATCHES, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(result->best->plan->batch, <=, 2);
    g_assert_cmpuint(result->best->plan->batch * result->best->plan->micro_batches, ==, 8);
    verify_plan(result->best->plan, result->best->trace, f.costs, NULL, &error);
    g_assert_no_error(error);
    variants_result_free(result);

    whole->operators[0].duration_ns += 5;
    g_assert_null(variants_search(whole, &f.options, MICRO_BATCHES, &error));
    g_assert_true(g_error_matches(error, TRACE_ERROR, TRACE_ERROR_INVALID));
    trace_free(parts);
    trace_free(whole);
    tear_down(&f);
}

/* Offloading is barely better than the traced choices, so that only its search is finished. A
 * policy with the traced choices, everything updated on the host and look-ahead takes an eighth
 * less than both. */
static void test_other_baselines(void)
{
    const struct model_config config = {.name = "deep",
                                        .layers = DEEP,
                                        .width = 256,
                                        .heads = 4,
                                        .inner = 1024,
                                        .positions = 256,
                                        .vocabulary = 1601};
    uint8_t every[DEEP];
    memset(every, 1, DEEP);
    const struct model_job job = {.choices = {.batch = 5,
                                              .micro_batches = 1,
                                              .recompute = every,
                                              .split_masters = true,
                                              .second_backward = true},
                                  .sequence = 256,
                                  .precision = MODEL_BF16};
    g_autoptr(GError) error = NULL;
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/h100-80gb.json", &error);
    struct trace *trace = model_synthesise(&config, &job, platform, &error);
    struct costs *costs = costs_new(platform, "h2d=0.255GB/s,d2h=0.2GB/s", &error);
    const struct search_options options = {.device_budget = 59645139,
                                           .host_budget = 357964345,
                                           .costs = costs,
                                           .platform = platform,
                                           .seed = 1};
    g_assert_no_error(error);
    struct variants_result *result = variants_search(trace, &options, OFFLOAD | MASTERS, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(result->best->policy.look_ahead, ==, 256);
    g_assert_cmpfloat(result->best->plan->predicted.iteration_seconds, <=,
                      result->best->policy.figures.iteration_seconds);
    g_assert_cmpfloat(result->best->plan->predicted.iteration_seconds, <, 0.5690);
    variants_result_free(result);
    costs_free(costs);
    trace_free(trace);
    platform_free(platform);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    draws_test(4, 11, "/variants/property", test_property);
    draws_test(4, 11, "/variants/room-pays", test_room_pays);
    draws_test(4, 11, "/variants/blocks-pay", test_blocks_pay);
    draws_test(4, 11, "/variants/blocks-pay-late", test_blocks_pay_late);
    draws_test(4, 11, "/variants/small-blocks-pay", test_small_blocks_pay);
    draws_test(4, 11, "/variants/only-way", test_only_way);
    draws_test(4, 11, "/variants/split-masters", test_split_masters);
    draws_test(4, 11, "/variants/offload-only", test_offload_only);
    draws_test(4, 11, "/variants/host-shares", test_host_shares);
    draws_test(4, 11, "/variants/micro-batches", test_micro_batches);
    draws_test(4, 11, "/variants/other-baselines", test_other_baselines);
    if (g_test_slow())
        g_test_add_func("/variants/blocks-pay-near-bound", test_blocks_pay_near_bound);
    return g_test_run();
}
