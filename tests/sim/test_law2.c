/* The second law: what the simulator says that an iteration moves and takes is what pstar-run
 * counts, exactly, in every iteration. Placements are drawn at random (PSTAR_SEED repeats a run):
 * chunk size, policy, look-ahead, budgets, precision, bytes a parameter, clipping, recomputation,
 * offloading, micro-batches, host operators; the plan is a policy's, which each side makes for
 * itself, with or without chunks in NVMe, or the planner's, which pstar-run is given. The
 * simulator's trace is synthesised, or collected from a run of another placement. */
#include "chunks/dry_run.h"
#include "chunks/nvme_homes.h"
#include "models/synth.h"
#include "planner/search/candidate.h"
#include "sim/replay.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/programs/workshop.h"
#include "tests/sanitized.h"
#include "traces/choices.h"
#include "traces/trace_file.h"

#include <string.h>

enum { PLANNED_EVERY = 4, COLLECTED_EVERY = 6, STEPS = 4 };
#define DRAWS draws(UNLESS_SANITIZED(24, 12), 72)

struct draw {
    struct model_config config;
    struct model_job job;
    bool clip;
    uint8_t recompute[4], offload[4], *every; /* [layers], [layers], [tensors] */
    uint64_t chunk_bytes, device_budget, host_budget;
    uint32_t look_ahead;
    const struct pstar_policy_ops *policy;
    const char *link;
    bool planned, collected, nvme;
};

static uint32_t pick(GRand *random, uint32_t least, uint32_t most)
{
    return (uint32_t)g_rand_int_range(random, (gint32)least, (gint32)most + 1);
}

static void draw_model(struct draw *d, GRand *random)
{
    uint32_t heads = pick(random, 1, 4);
    d->config = (struct model_config){.name = "drawn",
                                      .layers = pick(random, 1, 4),
                                      .heads = heads,
                                      .width = heads * 16,
                                      .inner = heads * 64,
                                      .positions = 32,
                                      .vocabulary = 256,
                                      .tied = g_rand_boolean(random),
                                      .norm_epsilon = 1e-5,
                                      .initializer_range = 0.02};
    if (g_rand_boolean(random))
        d->config.embedding_dropout = d->config.residual_dropout = 0.1;
}

static void draw_job(struct draw *d, GRand *random)
{
    bool offloads = pick(random, 0, 1);
    for (uint32_t layer = 0; layer < G_N_ELEMENTS(d->recompute); layer++) {
        d->recompute[layer] = (uint8_t)pick(random, 0, 1);
        d->offload[layer] = offloads && pick(random, 0, 3);
    }
    d->job = (struct model_job){.choices = {.batch = pick(random, 1, 3),
                                            .micro_batches = pick(random, 0, 3) ? 1 : 2,
                                            .recompute = d->recompute,
                                            .offload = d->offload,
                                            .host_embedding = pick(random, 0, 3) == 0,
                                            .host_update = pick(random, 0, 3) ? NULL : d->every},
                                .sequence = pick(random, 8, 32),
                                .precision = (enum model_precision)pick(random, 0, 1)};
    d->job.choices.state_block = TRACE_BLOCK_STEP * pick(random, 0, 2);
    d->job.choices.split_masters = d->job.precision == MODEL_BF16 && pick(random, 0, 1);
    d->clip = pick(random, 0, 1);
    if (model_gradient_layout(&d->job) == MODEL_GRADIENT_BUFFER) {
        d->job.choices.host_embedding = false;
        d->job.choices.second_backward = d->clip;
    }
}

static uint32_t policy_count(void)
{
    uint32_t count = 0;
    while (policy_all[count])
        count++;
    return count;
}

/* Budgets between the least that fits and what holds everything. */
static void draw_placement(struct draw *d, const struct trace *trace, GRand *random)
{
    static const char *const links[] = {NULL, "h2d=2GB/s,d2h=1GB/s", "h2d=500MB/s,d2h=500MB/s"};
    d->chunk_bytes = LAYOUT_ALIGNMENT * (uint64_t)pick(random, 1, 400);
    d->policy = policy_all[pick(random, 0, policy_count() - 1)];
    d->look_ahead = pick(random, 0, 1) ? pick(random, 1, 12) : 0;
    d->link = links[pick(random, 0, G_N_ELEMENTS(links) - 1)];
    d->nvme = !d->planned && pick(random, 0, 2);

    struct layout *layout = layout_pack_uniform(trace, d->chunk_bytes, NULL);
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    uint64_t least = accesses_least_arena_bytes(accesses, layout, NULL);
    uint64_t most = MAX(least, layout_slot_bytes(layout) + non_model->peak_bytes);
    double share = g_rand_double(random);
    d->device_budget = least + (uint64_t)(share * share * (double)(most - least));
    /* What does not find a place on the host lives on the device. */
    uint64_t on_host = layout_slot_bytes(layout) - (d->device_budget - least) / 2;
    d->host_budget = pick(random, 0, 4) ? UINT64_MAX : on_host;
    if (d->nvme && (!d->job.choices.host_update || pick(random, 0, 1)))
        d->host_budget = (uint64_t)(g_rand_double(random) * (double)on_host);
    accesses_free(accesses);
    non_model_free(non_model);
    layout_free(layout);
}

/* The model and the data of the run, which no placement changes. */
static char *job_options(const struct draw *d)
{
    g_autofree char *recompute = run_layers_format(d->recompute, d->config.layers);
    g_autofree char *offload = run_layers_format(d->offload, d->config.layers);
    return g_strdup_printf(
        "--model model --data text.txt --threads 1 --steps %d --batch %u --seq %u "
        "--micro-batches %u --precision %s --bytes-per-parameter %u --clip %d "
        "--state-block %" G_GUINT64_FORMAT " --recompute %s --offload-activations %s%s%s",
        STEPS, d->job.choices.batch, d->job.sequence, d->job.choices.micro_batches,
        d->job.precision == MODEL_BF16 ? "bf16" : "fp32", model_bytes_per_parameter(&d->job),
        d->clip, d->job.choices.state_block, recompute, offload,
        d->job.choices.host_embedding ? " --host-embedding" : "",
        d->job.choices.host_update ? " --host-update" : "");
}

static char *placement_options(const struct draw *d)
{
    g_autoptr(GString) text = g_string_new(NULL);
    if (d->planned)
        g_string_append(text, "--plan plan.json");
    else
        g_string_append_printf(text,
                               "--chunk-size %" G_GUINT64_FORMAT
                               "B --policy %s --look-ahead %u --device-memory %" G_GUINT64_FORMAT
                               "B",
                               d->chunk_bytes, d->policy->name, d->look_ahead, d->device_budget);
    if (!d->planned && d->host_budget != UINT64_MAX)
        g_string_append_printf(text, " --host-memory %" G_GUINT64_FORMAT "B", d->host_budget);
    if (d->nvme)
        g_string_append(text, " --nvme . --nvme-memory 1GiB");
    if (d->link)
        g_string_append_printf(text, " --link %s", d->link);
    return g_strdup(text->str);
}

/* From a run with everything resident; replaces the synthesised trace, which has its structure. */
static struct trace *collect(const struct workshop *workshop, const struct draw *d,
                             struct trace *synthesised)
{
    g_autofree char *job = job_options(d);
    g_autofree char *command =
        g_strdup_printf("pstar-collect -o run.pstar --iterations 1:2 -- pstar-run %s", job);
    g_autofree char *path = workshop_path(workshop, "run.pstar");
    g_autoptr(GError) error = NULL;
    workshop_must_run(workshop, command);
    struct trace *trace = trace_read(path, &error);
    g_assert_no_error(error);
    g_autofree char *collected = trace_digest(trace), *expected = trace_digest(synthesised);
    g_assert_cmpstr(collected, ==, expected);
    trace_free(synthesised);
    return trace;
}

/* A plan of the planner's for the draw's chunk size, written for pstar-run. */
static struct plan *make_planned(const struct workshop *workshop, const struct draw *d,
                                 const struct candidate_job *job, GRand *random)
{
    struct layout_spec spec = {.order = NULL};
    uint64_t needed;
    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = d->chunk_bytes;
    struct candidate *candidate =
        candidate_new(job, &spec, &(struct placement){.pattern = PLACEMENT_TRACED}, &needed, NULL);
    if (!candidate)
        return NULL;
    struct interval_options options = {.look_ahead = d->look_ahead,
                                       .flush_early = g_rand_boolean(random)};
    const struct retention_bias bias = {
        .parameter_share = (uint8_t)g_rand_int_range(random, 0, BIAS_PARTS + 1),
        .d2h_share = (uint8_t)g_rand_int_range(random, 0, BIAS_PARTS + 1),
        .spread = g_rand_boolean(random)};
    retention_choose(candidate->retention, &bias);
    retention_improve(candidate->retention, random, 50, NULL);
    candidate->cut_from_bytes = LAYOUT_ALIGNMENT * (uint64_t)pick(random, 0, 40);
    struct moment_times *times = NULL;
    struct plan *plan = candidate_plan(candidate, &options, &times);
    if (g_rand_boolean(random)) {
        options.times = times;
        options.margin_ns = (uint64_t)(g_rand_double(random) * (double)times->period_ns);
        plan_free(plan);
        plan = candidate_plan(candidate, &options, NULL);
    }
    moment_times_free(times);
    g_autofree char *path = workshop_path(workshop, "plan.json");
    g_autoptr(GError) error = NULL;
    plan_write(plan, path, &error);
    g_assert_no_error(error);
    candidate_free(candidate);
    return plan;
}

/* Returns the plan with chunks in NVMe; NULL, and frees it, if they have no room. */
static struct plan *give_nvme(struct plan *plan, const struct draw *d,
                              const struct candidate_job *job)
{
    const struct nvme_budget budget = {.host_bytes = d->host_budget,
                                       .nvme_bytes = UINT64_C(1) << 30};
    struct accesses *accesses = accesses_new(job->trace, plan->layout, job->non_model->extent);
    if (!nvme_homes_give(plan, job->trace, accesses, &budget, NULL))
        g_clear_pointer(&plan, plan_free);
    accesses_free(accesses);
    return plan;
}

static struct plan *make_plan(const struct workshop *workshop, const struct draw *d,
                              const struct candidate_job *job, GRand *random)
{
    if (d->planned)
        return make_planned(workshop, d, job, random);
    struct dry_run_options options = {.device_budget = d->device_budget,
                                      .host_budget = d->nvme ? UINT64_MAX : d->host_budget,
                                      .policy = d->policy,
                                      .look_ahead = d->look_ahead};
    struct layout *layout = layout_pack_uniform(job->trace, d->chunk_bytes, NULL);
    struct plan *plan = dry_run(job->trace, layout, &options, NULL);
    if (plan && d->nvme)
        plan = give_nvme(plan, d, job);
    layout_free(layout);
    return plan;
}

static void check_step(json_t *step, const struct plan_figures *simulated, const char *draw)
{
    struct plan_figures measured;
    const struct plan_figure *bad;
    if (!figures_from_json(step, &measured, &bad))
        g_error("%s: %s is missing", draw, bad->name);
    bad = figures_first_difference(simulated, &measured);
    if (bad)
        g_error("%s\nstep %" JSON_INTEGER_FORMAT ": %s is %" G_GUINT64_FORMAT
                " in the run, %" G_GUINT64_FORMAT " in the simulator",
                draw, json_integer_value(json_object_get(step, "step")), bad->name,
                figures_count(&measured, bad), figures_count(simulated, bad));
}

static void check_log(const struct workshop *workshop, const struct replay_figures *simulated,
                      const char *draw)
{
    json_t *lines = workshop_read_json_lines(workshop, "log.jsonl"), *line;
    size_t index;
    int steps = 0;
    json_array_foreach (lines, index, line)
        if (json_object_get(line, "step"))
            check_step(line, steps++ ? &simulated->steady : &simulated->first, draw);
    g_assert_cmpint(steps, ==, STEPS);
    json_decref(lines);
}

/* Runs the plan for real and compares. */
static void compare(const struct workshop *workshop, const struct draw *d, const struct plan *plan,
                    const struct candidate_job *job, int number)
{
    g_autofree char *run = job_options(d), *placement = placement_options(d);
    g_autofree char *command = g_strdup_printf("pstar-run %s %s --log log.jsonl", run, placement);
    g_autofree char *text = g_strdup_printf("draw %d%s: %s", number,
                                            d->collected ? ", trace collected" : "", command);
    struct non_model *non_model = non_model_place(job->trace);
    struct accesses *accesses = accesses_new(job->trace, plan->layout, non_model->extent);
    struct replay_view view = {job->trace, accesses, job->costs};
    struct replay_figures simulated = replay(plan, &view);
    g_test_message("%s", text);
    workshop_must_run(workshop, command);
    check_log(workshop, &simulated, text);
    accesses_free(accesses);
    non_model_free(non_model);
}

static struct trace *make_trace(const struct workshop *workshop, const struct draw *d)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *path = workshop_path(workshop, "model/config.json");
    model_config_write(&d->config, path, &error);
    g_assert_no_error(error);
    /* The name is the reader's own. */
    struct model_config *config = model_config_read(path, &error);
    g_assert_no_error(error);
    struct trace *trace = model_synthesise(config, &d->job, NULL, &error);
    g_assert_no_error(error);
    model_config_free(config);
    return trace;
}

/* False where the draw does not fit: another is drawn. */
static bool try_draw(const struct workshop *workshop, int number, GRand *random)
{
    struct draw d = {.planned = number % PLANNED_EVERY == 0,
                     .collected = number % COLLECTED_EVERY == 1};
    draw_model(&d, random);
    d.every = model_every_tensor(&d.config);
    draw_job(&d, random);
    struct trace *trace = make_trace(workshop, &d);
    draw_placement(&d, trace, random);
    if (d.collected)
        trace = collect(workshop, &d, trace);
    struct non_model *non_model = non_model_place(trace);
    struct costs *costs = costs_new(NULL, d.link, NULL);
    struct candidate_job job = {.trace = trace,
                                .non_model = non_model,
                                .costs = costs,
                                .device_budget = d.device_budget,
                                .host_budget = d.host_budget};
    struct plan *plan = make_plan(workshop, &d, &job, random);
    bool fits = plan != NULL;
    if (plan)
        compare(workshop, &d, plan, &job, number);
    plan_free(plan);
    costs_free(costs);
    non_model_free(non_model);
    trace_free(trace);
    g_free(d.every);
    return fits;
}

static void test_simulator_equals_engine(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct workshop *workshop = workshop_new();
    int refused = 0;
    for (int number = 0; number < DRAWS; number++)
        while (!try_draw(workshop, number, random)) {
            refused++;
            g_assert_cmpint(refused, <, DRAWS * 4);
        }
    g_test_message("%d draws equal, %d did not fit", DRAWS, refused);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/law2/simulator_equals_engine", test_simulator_equals_engine);
    return g_test_run();
}
