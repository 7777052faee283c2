#include "engine/train/run_plan.h"

#include "base/size.h"
#include "chunks/dry_run.h"
#include "chunks/homes.h"
#include "chunks/lack.h"
#include "chunks/layout_file.h"
#include "chunks/nvme_homes.h"
#include "chunks/slots.h"
#include "chunks/stage_path.h"
#include "engine/device.h"
#include "engine/ranks.h"
#include "engine/train/plan_choices.h"
#include "engine/train/snapshot.h"
#include "engine/train/together.h"
#include "models/family.h"
#include "models/pipeline.h"
#include "models/train_choice.h"
#include "policies/plugin.h"

#include <string.h>

enum { DEFAULT_BATCH = 4, DEFAULT_SEQUENCE = 256 };

/* ---- model ---- */

/* Returns the option's value, else the plan's, else the checkpoint's, else the default. 0 means
 * that a value is not given. */
static uint32_t first_given(uint32_t option, uint32_t plan, uint32_t saved, uint32_t otherwise)
{
    return option ? option : plan ? plan : saved ? saved : otherwise;
}

/* Takes the plan's choice of split masters if there is one. A plan with two backward passes is also
 * valid without clipping. A plan with updates within backward is valid without clipping only. */
static bool choose_masters(const struct run_options *options, const struct plan *plan,
                           struct model_job *job, GError **error)
{
    const struct run_choices *of_plan = plan ? plan->choices : NULL;
    uint32_t bytes = options->bytes_per_parameter;
    if (bytes && !model_split_masters(job, bytes, &job->choices.split_masters, error)) {
        g_prefix_error(error, "--bytes-per-parameter: ");
        return false;
    }
    if (of_plan && (!bytes || plan_choices_are_weighed(plan)))
        job->choices.split_masters = of_plan->split_masters;
    job->choices.second_backward = model_gradient_layout(job) == MODEL_GRADIENT_BUFFER &&
                                   (options->clip > 0 || (of_plan && of_plan->second_backward));
    bool unclipped = of_plan && of_plan->split_masters && !of_plan->second_backward &&
                     job->choices.second_backward;
    if (!unclipped && !(of_plan && run_updates_early(of_plan) && options->clip > 0))
        return true;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--clip %g: %s updates before it knows the gradient's norm; use --clip 0",
                options->clip, options->plan);
    return false;
}

/* ---- stages ---- */

/* Into which stages the model is cut. */
struct cut {
    struct pipeline_shape shape;
    uint32_t *layers; /* of the shape */
};

static bool read_cut(struct cut *cut, const struct run_options *options, GError **error)
{
    uint32_t stages;
    *cut = (struct cut){.shape = {.stages = options->stages,
                                  .schedule = (enum pipeline_schedule)options->schedule,
                                  .parts = options->stage_parts}};
    if (options->stage_layers &&
        !(cut->layers = pipeline_parse_layers(options->stage_layers, &stages, error)))
        return false;
    cut->shape.layers = cut->layers;
    return true;
}

/* Describes the whole model, and takes this process's stage of it. */
static bool describe_stage(struct run_plan *run, const struct run_options *options,
                           const struct model_job *job, const struct pipeline_shape *shape,
                           GError **error)
{
    g_clear_pointer(&run->iteration, model_iteration_free);
    g_clear_pointer(&run->whole, model_iteration_free);
    if (!(run->whole = model_iteration_new(run->config, job, error)))
        return false;
    if (!pipeline_check(run->config, &run->whole->job, shape, error)) {
        g_prefix_error(error, "--stages: ");
        return false;
    }
    run->iteration = pipeline_stage(run->whole, shape, options->pipeline->rank);
    together_trace(options, run->iteration);
    return true;
}

static bool describe_job(struct run_plan *run, const struct run_options *options,
                         struct model_job *job, GError **error)
{
    struct cut cut;
    if (!run_is_pipeline(options))
        return (run->iteration = model_iteration_new(run->config, job, error)) != NULL;
    bool ok = read_cut(&cut, options, error) &&
              describe_stage(run, options, job, &cut.shape, error) &&
              (!run->stage_plans || (stage_plans_follow(run->stage_plans, options, run->whole,
                                                        &cut.shape, &job->choices, error) &&
                                     describe_stage(run, options, job, &cut.shape, error)));
    g_free(cut.layers);
    return ok;
}

/* Refuses models that pstar describes and no device trains. */
static bool is_trained(const struct model_config *config, const struct run_options *options,
                       GError **error)
{
    if (config->labels)
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED,
                    "%s: pstar-run trains models that predict tokens, not classifiers of "
                    "sequences; pstar-trace synth makes traces of both",
                    options->model);
    else if (config->bidirectional)
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED,
                    "%s: pstar-run trains decoders, not encoders such as %s, so far; use "
                    "pstar-trace synth, pstar-sim and pstar-plan",
                    options->model, model_family_of(config)->type);
    else
        return true;
    return false;
}

static bool describe(struct run_plan *run, const struct run_options *options, GError **error)
{
    run->config = model_config_read(options->model, error);
    if (!run->config || !is_trained(run->config, options, error))
        return false;
    if (!options->device->supports(run->config, error)) {
        g_prefix_error(error, "%s: ", options->model);
        return false;
    }
    struct run_choices *choices = plan_choices_take(options, run->config, run->plan, error);
    if (!choices)
        return false;
    const struct plan *plan = run->plan;
    choices->batch = first_given(options->batch, plan ? plan->batch : 0, options->saved_batch,
                                 DEFAULT_BATCH);
    choices->micro_batches = first_given(options->micro_batches, plan ? plan->micro_batches : 0,
                                         options->saved_micro_batches,
                                         options->ranks ? options->ranks->count : 1);
    struct model_job job = {.choices = *choices,
                            .sequence = first_given(options->sequence, plan ? plan->sequence : 0,
                                                    options->saved_sequence,
                                                    MIN(run->config->positions, DEFAULT_SEQUENCE)),
                            .precision = options->precision,
                            .ranks = options->peers ? options->peers->count : 1,
                            .delay = options->delay == 1,
                            .split = pipeline_splits((enum pipeline_schedule)options->schedule)};
    bool ok = choose_masters(options, plan, &job, error) && describe_job(run, options, &job, error);
    run_choices_free(choices);
    return ok;
}

/* ---- the device's memory ---- */

/* Skips the CPU device, whose memory is the host's. A dry run needs no device and allows any size.
 */
static bool measure_device(struct run_plan *run, const struct run_options *options, GError **error)
{
    g_autoptr(GError) missing = NULL;
    if (options->device == &device_cpu)
        return true;
    g_autofree char *name = options->device->describe(&run->capacity, &missing);
    if (!name && !options->dry_run) {
        g_propagate_error(error, g_steal_pointer(&missing));
        return false;
    }
    if (options->dry_run)
        run->capacity.bytes = UINT64_MAX;
    run->iteration->trace->library_bytes = run->capacity.library_bytes;
    return true;
}

/* Sets *budget to the part of --device-memory that the arena may use. */
static bool find_arena(const struct run_plan *run, const struct run_options *options,
                       uint64_t *budget, GError **error)
{
    uint64_t held = run->capacity.library_bytes;
    *budget = RUN_UNLIMITED;
    if (options->device_budget == RUN_UNLIMITED)
        return true;
    if (options->device_budget <= held) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "--device-memory %" G_GUINT64_FORMAT
                    ": driver and libraries hold %" G_GUINT64_FORMAT " bytes already",
                    options->device_budget, held);
        return false;
    }
    *budget = options->device_budget - held;
    return true;
}

static bool check_capacity(const struct run_plan *run, GError **error)
{
    const struct device_capacity *capacity = &run->capacity;
    uint64_t takes = run->plan->arena_bytes;
    if (takes <= capacity->bytes)
        return true;
    g_autofree char *size = size_format(takes), *more = size_format(takes - capacity->bytes);
    g_autofree char *held = size_format(capacity->library_bytes);
    g_autofree char *has = size_format(capacity->bytes);
    g_set_error(
        error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
        "device memory: the plan takes %s, %s more than the device has beside %s of driver, "
        "libraries and other programs; %" G_GUINT64_FORMAT " bytes would fit (%s)",
        size, more, held, capacity->bytes, has);
    return false;
}

/* Places the buffers of the iteration, which stays as it is from here on. */
static void place(struct run_plan *run)
{
    run->places = non_model_place(run->iteration->trace);
}

/* ---- the snapshot's memory ---- */

/* Returns the bytes of the largest rank's part. */
static uint64_t snapshot_of(const struct run_plan *run, const struct run_options *options)
{
    const struct trace *trace = pipeline_whole(run->iteration)->trace;
    uint32_t ranks = options->ranks ? options->ranks->count : 1;
    uint64_t most = 0;
    if (!run_saves_behind(options))
        return 0;
    for (uint32_t r = 0; r < ranks; r++)
        most = MAX(most, snapshot_bytes(trace, options->delay == 1,
                                        (struct weights_writer){.index = r, .count = ranks}));
    return most;
}

/* Decides for or against a snapshot beside a host pool of so many bytes. */
static void fit_snapshot(struct run_plan *run, const struct run_options *options, uint64_t pool)
{
    uint64_t bytes = snapshot_of(run, options);
    bool fits = bytes <= options->host_budget && pool <= options->host_budget - bytes;
    run->snapshot_bytes = fits ? bytes : 0;
    run->lacking_bytes = fits ? 0
                              : bytes - (options->host_budget - MIN(pool, options->host_budget));
}

/* ---- plan ---- */

/* Returns about a 32nd of the largest list: small enough to fill a budget well, and large enough
 * for efficient copies. */
static uint64_t default_chunk_bytes(const struct trace *trace)
{
    enum { SMALLEST = 256 << 10, LARGEST = 64 << 20 };
    uint64_t elements = 0, chunk = SMALLEST;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        elements += trace->tensors[t].elements;
    while (chunk < LARGEST && chunk * 32 < elements * sizeof(float))
        chunk *= 2;
    return chunk;
}

/* Without a budget, everything is resident if the device has room for it, and the host holds only
 * what its own operators use. If the device lacks room, some of it is left free for the driver's
 * page tables of pinned host memory, which take at most 8 bytes for each page of 4 KiB. */
static struct dry_run_options
dry_run_of(const struct run_plan *run, const struct run_options *options,
           const struct pstar_policy_ops *policy, const struct layout *layout,
           const struct accesses *accesses, uint64_t non_model, uint64_t arena, uint64_t host)
{
    uint64_t all = layout_slot_bytes(layout) + non_model;
    bool room = all <= run->capacity.bytes;
    if (options->nvme_budget != RUN_UNLIMITED)
        host = RUN_UNLIMITED; /* NVMe holds the rest */
    struct dry_run_options dry = {
        .device_budget = arena,
        .host_budget = host,
        .policy = policy,
        .look_ahead = options->look_ahead,
    };
    if (arena == RUN_UNLIMITED)
        dry.device_budget = room ? all : run->capacity.bytes - MIN(run->capacity.bytes, all / 512);
    if (arena == RUN_UNLIMITED && room && host == RUN_UNLIMITED)
        dry.host_budget = homes_least_host_bytes(run->iteration->trace, layout, accesses);
    return dry;
}

static struct layout *layout_of(const struct run_options *options, const struct trace *trace,
                                GError **error)
{
    if (options->layout)
        return layout_read(options->layout, trace, error);
    if (options->sized)
        return chunk_sizes_pack(&options->chunk_sizes, trace, error);
    return layout_pack_uniform(trace, default_chunk_bytes(trace), error);
}

static struct plan *plan_of_policy(const struct run_plan *run, const struct run_options *options,
                                   const struct pstar_policy_ops *policy, uint64_t arena,
                                   uint64_t host, GError **error)
{
    const struct trace *trace = run->iteration->trace;
    struct layout *layout = layout_of(options, trace, error);
    if (!layout)
        return NULL;
    struct accesses *accesses = accesses_new(trace, layout, run->places->extent);
    const struct dry_run_options dry = dry_run_of(run, options, policy, layout, accesses,
                                                  run->places->peak_bytes, arena, host);
    struct layout *slots = slots_round(layout);
    struct plan *plan = dry_run_accesses(trace, layout, slots, accesses, &dry, error);
    const struct nvme_budget nvme = {.host_bytes = host,
                                     .nvme_bytes = options->nvme_budget,
                                     .block_bytes = options->nvme_block_bytes,
                                     .depth = options->nvme_depth};
    if (plan && options->nvme_budget != RUN_UNLIMITED &&
        !nvme_homes_give(plan, trace, accesses, &nvme, error))
        g_clear_pointer(&plan, plan_free);
    GError *wrong = NULL;
    if (plan && !plan_check_placed(plan, trace, run->places, &wrong))
        g_error("the dry run's plan: %s", wrong->message);
    layout_free(slots);
    accesses_free(accesses);
    layout_free(layout);
    return plan;
}

static const struct pstar_policy_ops *open_policy(const struct run_options *options, GError **error)
{
    if (!options->policy)
        return &policy_opt;
    const struct pstar_policy_ops *policy = policy_open(options->policy, error);
    if (!policy)
        g_prefix_error(error, "--policy: ");
    return policy;
}

/* `held`: what libraries hold of the memory beside the plan. */
static bool check_budget(const char *file, enum plan_memory memory, uint64_t takes, uint64_t budget,
                         uint64_t held, GError **error)
{
    static const char *const names[] = {
        [PLAN_MEMORY_DEVICE] = "device", [PLAN_MEMORY_HOST] = "host", [PLAN_MEMORY_NVME] = "NVMe"};
    if (takes <= budget)
        return true;
    g_autofree char *size = size_format(takes), *more = size_format(takes - budget);
    g_autofree char *given = size_format(budget);
    g_autofree char *why =
        g_strdup_printf("%s: %s memory: the plan takes %s, %s more than the budget of %s", file,
                        names[memory], size, more, given);
    plan_lack_set(error, &(struct plan_lack){.memory = memory, .bytes = takes + held}, why);
    return false;
}

/* Checks the plan of --plan against the run, whose buffers are placed. */
static bool check_file(const struct run_plan *run, const struct run_options *options,
                       uint64_t arena, GError **error)
{
    g_autofree char *file = run_is_pipeline(options)
                                ? stage_path(options->plan, options->pipeline->rank)
                                : g_strdup(options->plan);
    if (!plan_check_placed(run->plan, run->iteration->trace, run->places, error) ||
        !plan_check_figures(run->plan, run->iteration->trace, error)) {
        g_prefix_error(error, "%s: ", file);
        return false;
    }
    if (run->plan->nvme_bytes && !options->nvme && !options->dry_run) {
        g_set_error(
            error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
            "--plan %s: it has chunks at home in NVMe; --nvme names the folder of their file",
            options->plan);
        return false;
    }
    return check_budget(file, PLAN_MEMORY_NVME, run->plan->nvme_bytes, options->nvme_budget, 0,
                        error) &&
           check_budget(file, PLAN_MEMORY_DEVICE, run->plan->arena_bytes, arena,
                        run->capacity.library_bytes, error) &&
           check_budget(file, PLAN_MEMORY_HOST, run->plan->host_pool_bytes, options->host_budget, 0,
                        error);
}

static bool read_plans(struct run_plan *run, const struct run_options *options, GError **error)
{
    if (!run_is_pipeline(options))
        return (run->plan = plan_read(options->plan, error)) != NULL;
    run->stage_plans = stage_plans_read(options->plan, options->stages, error);
    if (run->stage_plans)
        run->plan = plan_share(run->stage_plans[options->pipeline->rank]);
    return run->plan != NULL;
}

static bool prepare_file(struct run_plan *run, const struct run_options *options, GError **error)
{
    uint64_t arena;
    bool ok = read_plans(run, options, error) && describe(run, options, error) &&
              measure_device(run, options, error) && find_arena(run, options, &arena, error);
    if (ok) {
        place(run);
        ok = check_file(run, options, arena, error);
    }
    stage_plans_free(run->stage_plans, options->stages);
    run->stage_plans = NULL;
    return ok;
}

static bool prepare_policy(struct run_plan *run, const struct run_options *options,
                           const struct pstar_policy_ops *policy, GError **error)
{
    uint64_t arena;
    if (!describe(run, options, error) || !measure_device(run, options, error) ||
        !find_arena(run, options, &arena, error))
        return false;
    place(run);
    g_autoptr(GError) small = NULL;
    uint64_t host = options->host_budget, snapshot = snapshot_of(run, options);
    if (host != RUN_UNLIMITED && snapshot > 0 && snapshot < host)
        run->plan = plan_of_policy(run, options, policy, arena, host - snapshot, &small);
    if (!run->plan)
        run->plan = plan_of_policy(run, options, policy, arena, host, error);
    return run->plan != NULL;
}

/* The options come before the plan, whose machine may have had another disk. */
static void choose_blocks(struct run_plan *run, const struct run_options *options)
{
    enum { USUAL_BLOCK = 1 << 20, USUAL_DEPTH = 16 };
    bool given = options->nvme_depth != 0, planned = run->plan->nvme_depth != 0;
    run->nvme_block_bytes = given     ? options->nvme_block_bytes
                            : planned ? run->plan->nvme_block_bytes
                                      : USUAL_BLOCK;
    run->nvme_depth = given ? options->nvme_depth : planned ? run->plan->nvme_depth : USUAL_DEPTH;
}

bool run_plan_prepare(struct run_plan *run, const struct run_options *options, GError **error)
{
    *run = (struct run_plan){.capacity = {.bytes = UINT64_MAX}};
    const struct pstar_policy_ops *policy = open_policy(options, error);
    if (policy &&
        (options->plan ? prepare_file(run, options, error)
                       : prepare_policy(run, options, policy, error)) &&
        check_capacity(run, error)) {
        fit_snapshot(run, options, run->plan->host_pool_bytes);
        choose_blocks(run, options);
        return true;
    }
    run_plan_clear(run);
    return false;
}

void run_plan_clear(struct run_plan *run)
{
    plan_free(run->plan);
    non_model_free(run->places);
    model_iteration_free(run->iteration);
    model_iteration_free(run->whole);
    model_config_free(run->config);
    *run = (struct run_plan){0};
}

uint64_t run_plan_least_device_bytes(const struct run_plan *run, uint32_t *moment)
{
    struct layout *layout = layout_copy(run->plan->layout);
    slots_tighten(layout);
    struct accesses *accesses = accesses_new(run->iteration->trace, layout, run->places->extent);
    uint64_t least = accesses_least_arena_bytes(accesses, layout, moment);
    accesses_free(accesses);
    layout_free(layout);
    return least;
}
