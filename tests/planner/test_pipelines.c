/* The search for a pipeline, beside the simulator: drawn cuts take the time and the memory that the
 * simulator says, and with several ranks hardly less time and hardly more memory; of small
 * instances every plan is simulated: none is faster than the bound, and what was found is one of
 * them. */
#include "chunks/dry_run.h"
#include "models/pipeline_derive.h"
#include "models/synth.h"
#include "models/train_choice.h"
#include "planner/pipelines/cuts.h"
#include "planner/pipelines/pass_clock.h"
#include "planner/pipelines/pipeline_search.h"
#include "sim/stage_replay.h"
#include "tests/models/small_model.h"

#include <math.h>
#include <string.h>

enum { MOST_STAGES = 8, MOST_LAYERS = 32, DRAWN_STAGES = 4 };

#define CURVE(name, rate) ", \"" name "\": {\"source\": \"s\", \"points\": [[" rate ", 1]]}"

/* A machine without speed, but for its network, which is drawn. */
static const char machine[] = "{\"name\": \"m\", \"source\": \"s\", \"device_bytes\": 1000000000"
                              ", \"host_bytes\": 1000000000" CURVE("h2d", "1e9") CURVE("d2h", "1e9")
                                  CURVE("compute_fp32", "1e8") CURVE("compute_bf16", "1e8")
                                      CURVE("memory", "1e8") CURVE("host_update", "1e9");

static struct platform *draw_platform(void)
{
    g_autofree char *text =
        g_strdup_printf("%s, \"network\": {\"source\": \"s\", \"bytes_per_second\": %de6, "
                        "\"latency_seconds\": %d.0e-6}}",
                        machine, g_test_rand_int_range(1, 500), g_test_rand_int_range(1, 100));
    GError *error = NULL;
    struct platform *platform = platform_parse(text, "drawn", &error);
    g_assert_no_error(error);
    return platform;
}

struct drawn {
    enum model_precision precision;
    struct model_config config;
    struct platform *platform;
    uint32_t stages, width, sequences;
    uint8_t *frozen; /* NULL: all is trained */
};

/* Draws what is trained, when the layers are known: all, adapters, or the same tensors of each
 * layer. */
static void draw_trained(struct drawn *d)
{
    const char *in_layers = d->config.family == &family_bert ? "*.output.*" : "*.mlp.*";
    const char *const choices[] = {"all", "all", "lora:2", in_layers, "*.weight"};
    GError *error = NULL;
    model_choose_trained(&d->config, choices[g_test_rand_int_range(0, G_N_ELEMENTS(choices))], 0,
                         &d->frozen, &error);
    g_assert_no_error(error);
}

static void draw_end(struct drawn *d)
{
    platform_free(d->platform);
    g_free(d->frozen);
}

static void draw(struct drawn *d)
{
    static const struct model_family *const families[] = {
        &family_gpt2, &family_llama, &family_mistral, &family_bert, &family_phi, &family_gpt_neox};
    *d = (struct drawn){
        .config = small_decoder(families[g_test_rand_int_range(0, G_N_ELEMENTS(families))],
                                g_test_rand_int_range(0, 2)),
        .platform = draw_platform(),
        .precision = g_test_rand_int_range(0, 2) ? MODEL_BF16 : MODEL_FP32,
        .width = 1,
        .stages = (uint32_t)g_test_rand_int_range(2, DRAWN_STAGES + 1)};
    d->config.vocabulary = (uint32_t)g_test_rand_int_range(5, 120);
    d->config.layers = d->stages + (uint32_t)g_test_rand_int_range(0, 3);
    if (g_test_rand_int_range(0, 2)) /* enough for parts */
        d->config.layers += d->stages + (uint32_t)g_test_rand_int_range(0, 3);
    d->sequences = 2 * (d->stages + (uint32_t)g_test_rand_int_range(0, 4));
    if (g_test_rand_int_range(0, 2)) /* for whole groups */
        d->sequences = 2 * d->stages * (uint32_t)g_test_rand_int_range(1, 4);
}

static struct pipeline_question question_of(const struct drawn *d, uint64_t device_budget)
{
    return (struct pipeline_question){.config = &d->config,
                                      .platform = d->platform,
                                      .sequence = 4,
                                      .precision = d->precision,
                                      .sequences = d->sequences,
                                      .gpus = d->stages * d->width,
                                      .nodes = d->stages * d->width,
                                      .stages = d->stages,
                                      .schedule = PIPELINE_SCHEDULE_ANY,
                                      .clips = true,
                                      .frozen = d->frozen,
                                      .device_budget = device_budget,
                                      .threads = 2};
}

static struct pipeline_answer *search(const struct pipeline_question *question)
{
    GError *error = NULL;
    struct pipeline_answer *answer = pipeline_search(question, &error);
    g_assert_no_error(error);
    return answer;
}

/* ---- a plan in the simulator ---- */

/* Everything that a plan says. */
struct choice {
    uint32_t micro_batch, layers[MOST_STAGES];
    enum pipeline_schedule schedule;
    uint32_t parts;
    uint8_t recompute[MOST_LAYERS];
};

struct simulated {
    double seconds;
    uint64_t device_bytes[MOST_STAGES]; /* model data, and the most that lives beside it */
};

static struct trace **cut(const struct drawn *d, const struct choice *choice)
{
    struct model_job job = {.choices = {.batch = choice->micro_batch,
                                        .micro_batches = d->sequences / choice->micro_batch,
                                        .frozen = d->frozen},
                            .sequence = 4,
                            .precision = d->precision,
                            .ranks = d->width,
                            .delay = choice->schedule == PIPELINE_2BW};
    uint8_t recompute[MOST_LAYERS];
    memcpy(recompute, choice->recompute, sizeof recompute);
    job.choices.recompute = recompute;
    GError *error = NULL;
    struct trace *whole = model_synthesise(&d->config, &job, d->platform, &error);
    g_assert_no_error(error);
    const struct pipeline_request request = {
        {d->stages, choice->schedule, choice->parts > 1 ? NULL : choice->layers, choice->parts}, 0};
    struct trace **traces = pipeline_traces_new(whole, &request, d->platform, &error);
    g_assert_no_error(error);
    trace_free(whole);
    return traces;
}

static uint64_t bytes_of(const struct trace *trace)
{
    uint64_t model = 0, most = 0;
    for (int list = 0; list < TRACE_LISTS; list++)
        for (tensor_id t = 0; t < trace->tensor_count; t++)
            model += trace_list_bytes(trace, (enum trace_list)list, t);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        most = MAX(most, trace->non_model_bytes[m]);
    return model + most;
}

static struct simulated simulate(const struct drawn *d, const struct choice *choice)
{
    struct simulated simulated;
    struct stage_view views[MOST_STAGES];
    struct layout *layouts[MOST_STAGES];
    struct accesses *accesses[MOST_STAGES];
    struct plan *plans[MOST_STAGES];
    struct stage_result results[MOST_STAGES];
    GError *error = NULL;
    g_assert_true(
        platform_spread_stages(d->platform, d->stages, d->width, d->stages * d->width, &error));
    struct costs *costs = costs_new(d->platform, NULL, NULL);
    struct trace **traces = cut(d, choice);
    for (uint32_t s = 0; s < d->stages; s++) {
        const struct dry_run_options options = {
            .device_budget = 1 << 30, .host_budget = UINT64_MAX, .policy = &policy_opt};
        layouts[s] = layout_pack_uniform(traces[s], 1 << 16, NULL);
        struct non_model *places = non_model_place(traces[s]);
        accesses[s] = accesses_new(traces[s], layouts[s], places->extent);
        plans[s] = dry_run_accesses(traces[s], layouts[s], NULL, accesses[s], &options, &error);
        g_assert_no_error(error);
        views[s] = (struct stage_view){plans[s], {traces[s], accesses[s], costs}};
        simulated.device_bytes[s] = bytes_of(traces[s]);
        non_model_free(places);
    }
    struct stage_messages *messages = stage_messages_new((const struct trace *const *)traces,
                                                         d->stages, &error);
    g_assert_no_error(error);
    stages_replay(views, messages, NULL, results);
    simulated.seconds = results[0].figures.iteration_seconds;
    stage_messages_free(messages);
    for (uint32_t s = 0; s < d->stages; s++) {
        plan_free(plans[s]);
        accesses_free(accesses[s]);
        layout_free(layouts[s]);
    }
    pipeline_traces_free(traces, d->stages);
    costs_free(costs);
    return simulated;
}

/* ---- the plan's own figures ---- */

static struct choice choice_of(const struct drawn *d, const struct pipeline_candidate *candidate)
{
    struct choice choice = {.micro_batch = candidate->micro_batch,
                            .schedule = candidate->schedule,
                            .parts = candidate->stage_parts};
    uint32_t pieces = d->stages * candidate->stage_parts;
    for (uint32_t s = 0; s < d->stages; s++) {
        const struct stage_cost *cost = &candidate->costs[s];
        uint32_t left = cost->recomputed;
        choice.layers[s] = cost->end - cost->first;
        for (uint32_t p = s; p < pieces; p += d->stages) {
            uint32_t first = p * d->config.layers / pieces,
                     end = (p + 1) * d->config.layers / pieces;
            if (candidate->stage_parts == 1) {
                first = cost->first;
                end = cost->end;
            }
            for (uint32_t l = first; l < end && left > 0; l++, left--)
                choice.recompute[l] = 1;
        }
        g_assert_cmpuint(left, ==, 0);
    }
    return choice;
}

static void check_candidate(const struct drawn *d, const struct pipeline_candidate *candidate)
{
    const struct choice choice = choice_of(d, candidate);
    const struct simulated simulated = simulate(d, &choice);
    g_assert_cmpfloat(fabs(simulated.seconds - candidate->step_seconds), <, 1.5e-9);
    for (uint32_t s = 0; s < d->stages; s++)
        g_assert_cmpuint(simulated.device_bytes[s], ==, candidate->costs[s].device_bytes);
}

/* Draws a budget between half of what the fastest plan takes, and all of it. */
static uint64_t draw_budget(const struct drawn *d)
{
    const struct pipeline_question question = question_of(d, UINT64_MAX);
    struct pipeline_answer *answer = search(&question);
    uint64_t most = 0;
    for (uint32_t s = 0; s < d->stages; s++)
        most = MAX(most, answer->candidates[0].costs[s].device_bytes);
    pipeline_answer_free(answer);
    return most / 2 + (uint64_t)((0.2 + g_test_rand_double() * 0.4) * (double)most);
}

static void test_simulated(void)
{
    uint32_t interleaved = 0;
    for (int i = 0; i < 8 || !interleaved; i++) { /* few draws have parts */
        struct drawn d;
        draw(&d);
        draw_trained(&d);
        const struct pipeline_question question = question_of(&d, draw_budget(&d));
        struct pipeline_answer *answer = search(&question);
        for (uint32_t c = 0; c < answer->count; c++)
            if (answer->candidates[c].timed) {
                check_candidate(&d, &answer->candidates[c]);
                interleaved += answer->candidates[c].stage_parts > 1;
            }
        pipeline_answer_free(answer);
        draw_end(&d);
    }
    g_assert_cmpuint(interleaved, >, 0);
}

/* ---- several ranks a stage ---- */

/* Where activations lie is known to the simulator alone: they may wait for a gradient's place. What
 * was left of a layer that another stage has may count here. */
static double check_ranks(const struct drawn *d, const struct pipeline_candidate *candidate)
{
    const struct choice choice = choice_of(d, candidate);
    const struct simulated simulated = simulate(d, &choice);
    g_assert_cmpfloat(candidate->bound_seconds, <=, simulated.seconds + 1.5e-9);
    g_assert_cmpfloat(candidate->step_seconds, <=, simulated.seconds + 1.5e-9);
    for (uint32_t s = 0; s < d->stages; s++) {
        uint64_t bytes = candidate->costs[s].device_bytes;
        g_assert_cmpuint(bytes, >=, simulated.device_bytes[s]);
        g_assert_cmpfloat((double)bytes, <=, 1.15 * (double)simulated.device_bytes[s]);
    }
    return simulated.seconds / candidate->step_seconds;
}

static void test_ranks(void)
{
    double sum = 0, worst = 1;
    uint32_t count = 0;
    for (int i = 0; i < 8; i++) {
        struct drawn d;
        draw(&d);
        draw_trained(&d);
        d.width = (uint32_t)g_test_rand_int_range(2, 4);
        d.sequences *= d.width;
        const struct pipeline_question question = question_of(&d, draw_budget(&d));
        struct pipeline_answer *answer = search(&question);
        for (uint32_t c = 0; c < answer->count; c++)
            if (answer->candidates[c].timed) {
                double ratio = check_ranks(&d, &answer->candidates[c]);
                worst = fmax(worst, ratio);
                sum += ratio;
                count++;
            }
        pipeline_answer_free(answer);
        draw_end(&d);
    }
    g_test_message("the simulator's step is %g of the clock's on average, %g at worst", sum / count,
                   worst);
    g_assert_cmpfloat(sum / count, <=, 1.15);
}

/* ---- every plan ---- */

/* The best of all plans, in the simulator. */
struct best {
    const struct drawn *d;
    uint64_t device_budget;
    double seconds;
    uint32_t plans, fitting;
};

static void try_plan(struct best *best, const struct choice *choice)
{
    const struct simulated simulated = simulate(best->d, choice);
    bool fits = true;
    for (uint32_t s = 0; s < best->d->stages; s++)
        fits &= simulated.device_bytes[s] <= best->device_budget;
    best->plans++;
    best->fitting += fits;
    if (fits)
        best->seconds = fmin(best->seconds, simulated.seconds);
}

/* Tries all choices of recomputed layers. */
static void try_recompute(struct best *best, struct choice *choice)
{
    uint32_t layers = MIN(best->d->config.layers, MOST_LAYERS - 1);
    for (uint32_t marks = 0; marks < 1U << layers; marks++) {
        for (uint32_t l = 0; l < layers; l++)
            choice->recompute[l] = marks >> l & 1;
        try_plan(best, choice);
    }
}

/* Tries all cuts of what is left into the stages from s on. */
static void try_cuts(struct best *best, struct choice *choice, uint32_t s, uint32_t left)
{
    uint32_t behind = best->d->stages - s - 1;
    g_assert_cmpuint(s, <, MOST_STAGES);
    if (!behind) {
        choice->layers[s] = left;
        try_recompute(best, choice);
        return;
    }
    for (uint32_t n = 1; n + behind <= left; n++) {
        choice->layers[s] = n;
        try_cuts(best, choice, s + 1, left - n);
    }
}

/* Tries all numbers of parts, each of which has one cut. */
static void try_parts(struct best *best, struct choice *choice)
{
    const struct drawn *d = best->d;
    if (d->sequences / d->width / choice->micro_batch % d->stages != 0)
        return;
    for (choice->parts = 2; choice->parts <= d->config.layers / d->stages; choice->parts++)
        try_recompute(best, choice);
}

static void try_all(struct best *best)
{
    const struct drawn *d = best->d;
    uint32_t sequences = d->sequences / d->width; /* of a rank */
    for (uint32_t b = 1; b <= sequences; b++)
        for (int schedule = 0; schedule < PIPELINE_SCHEDULES; schedule++) {
            struct choice choice = {
                .micro_batch = b, .schedule = (enum pipeline_schedule)schedule, .parts = 1};
            if (sequences % b != 0 || sequences / b < d->stages)
                continue;
            if (schedule == PIPELINE_INTERLEAVED)
                try_parts(best, &choice);
            else
                try_cuts(best, &choice, 0, d->config.layers);
        }
}

static void test_every_plan(void)
{
    uint32_t fitting = 0;
    for (int i = 0; i < 4; i++) {
        struct drawn d;
        draw(&d);
        d.stages = MIN(d.stages, 3);
        d.config.layers = d.stages + (uint32_t)g_test_rand_int_range(0, 2);
        if (i % 2) { /* with parts */
            d.stages = 2;
            d.config.layers = 4;
            d.sequences = 4;
        }
        draw_trained(&d);
        if (i == 3) { /* several ranks */
            d.stages = d.width = 2;
            d.config.layers = 3;
            d.sequences = 2 * d.width * (uint32_t)g_test_rand_int_range(1, 3);
        }
        struct best best = {&d, draw_budget(&d), INFINITY, 0, 0};
        const struct pipeline_question question = question_of(&d, best.device_budget);
        struct pipeline_answer *answer = search(&question);
        const struct pipeline_candidate *plan = &answer->candidates[0];
        try_all(&best);
        g_test_message("%u plans, %u fit: bound %g, best %g, found %g", best.plans, best.fitting,
                       answer->bound_seconds, best.seconds, plan->fits ? plan->step_seconds : 0);
        if (d.width == 1) /* else a plan that just fits may be missed: see check_ranks */
            g_assert_cmpint(plan->fits, ==, best.fitting > 0);
        if (plan->fits) {
            g_assert_cmpfloat(answer->bound_seconds, <=, best.seconds + 1.5e-9);
            if (d.width == 1)
                g_assert_cmpfloat(best.seconds, <=, plan->step_seconds + 1.5e-9);
        }
        fitting += best.fitting;
        pipeline_answer_free(answer);
        draw_end(&d);
    }
    g_assert_cmpuint(fitting, >, 0);
}

/* ---- bounds with several ranks a stage ---- */

static struct units *new_units(const struct drawn *d, const struct pipeline_job *of)
{
    uint8_t all[MOST_LAYERS];
    uint32_t ranks = stage_reduces_each(of) ? of->width : 1;
    struct model_job job = {
        .choices = {.batch = 1,
                    .micro_batches = ranks > 1 ? ranks * UNIT_REDUCED_TURNS : UNIT_TURNS,
                    .frozen = d->frozen},
        .sequence = 4,
        .precision = MODEL_BF16,
        .ranks = ranks,
        .delay = of->schedule == PIPELINE_2BW,
        .split = pipeline_splits(of->schedule)};
    memset(all, 1, sizeof all);
    struct model_iteration *kept = model_iteration_new(&d->config, &job, NULL);
    job.choices.recompute = all;
    struct model_iteration *recomputed = model_iteration_new(&d->config, &job, NULL);
    model_estimate(kept, d->platform);
    model_estimate(recomputed, d->platform);
    struct units *units = units_new(kept, recomputed, d->platform, of->costs);
    model_iteration_free(kept);
    model_iteration_free(recomputed);
    return units;
}

/* Finds the least step of the clock over all cuts from stage s on. */
static double least_step(const struct pipeline_job *job, uint32_t *ends, uint32_t s)
{
    struct stage_cost costs[MOST_STAGES];
    double least = INFINITY;
    uint32_t first = s ? ends[s - 1] : 0, behind = job->stages - s - 1;
    g_assert_cmpuint(s, <, MOST_STAGES);
    if (!behind || job->parts > 1) {
        ends[s] = job->units->layers;
        return cuts_cost(job, ends, costs) ? pass_clock_step(job, costs, false) : INFINITY;
    }
    for (ends[s] = first + 1; ends[s] + behind <= job->units->layers; ends[s]++)
        least = fmin(least, least_step(job, ends, s + 1));
    return least;
}

static void check_bound(const struct drawn *d, struct pipeline_job *job)
{
    uint32_t ends[MOST_STAGES], found[MOST_STAGES];
    struct units *units = new_units(d, job);
    uint64_t bound_ns = 0;
    job->units = units;
    double least = least_step(job, ends, 0);
    if (!cuts_find(job, found, &bound_ns)) {
        g_assert_cmpfloat(least, ==, INFINITY);
    } else {
        g_assert_cmpfloat((double)bound_ns, <=, least);
        g_assert_cmpfloat(least, <=, 3 * (double)bound_ns);
    }
    units_free(units);
}

/* Stages of several parts take whole groups of micro-batches. */
static void draw_parts(struct drawn *d, struct pipeline_job *job)
{
    job->parts = (uint32_t)g_test_rand_int_range(2, 4);
    job->micro_batches = d->stages * (uint32_t)g_test_rand_int_range(1, 7);
    d->config.layers = d->stages * job->parts + (uint32_t)g_test_rand_int_range(0, 3);
}

/* With and without clipping, with sums of gradients of each micro-batch, beside the next step or
 * before it. */
static void test_widths(void)
{
    for (int i = 0; i < 120; i++) {
        struct drawn d;
        draw(&d);
        uint32_t width = (uint32_t)g_test_rand_int_range(1, 4);
        g_assert_true(platform_spread_stages(d.platform, d.stages, width, d.stages * width, NULL));
        struct costs *costs = costs_new(d.platform, NULL, NULL);
        struct pipeline_job job = {
            .stages = d.stages,
            .width = width,
            .fast = g_test_rand_int_range(0, 2),
            .parts = 1,
            .micro_batches = d.stages + (uint32_t)g_test_rand_int_range(0, 12),
            .schedule = (enum pipeline_schedule)g_test_rand_int_range(0, PIPELINE_SCHEDULES),
            .clips = g_test_rand_int_range(0, 2),
            .device_budget = (uint64_t)g_test_rand_int_range(10000, 100000),
            .platform = d.platform,
            .costs = costs};
        job.clips |= stage_reduces_each(&job);
        if (job.schedule == PIPELINE_INTERLEAVED)
            draw_parts(&d, &job);
        draw_trained(&d);
        check_bound(&d, &job);
        costs_free(costs);
        draw_end(&d);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pipelines/simulated", test_simulated);
    g_test_add_func("/pipelines/ranks", test_ranks);
    g_test_add_func("/pipelines/every_plan", test_every_plan);
    g_test_add_func("/pipelines/widths", test_widths);
    return g_test_run();
}
