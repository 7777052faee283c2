/* pstar-sim: what every chunk size, policy and budget would move, and how long it would take. */
#include "base/size.h"
#include "cli/budgets.h"
#include "cli/machine.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "models/pipeline_derive.h"
#include "policies/plugin.h"
#include "sim/operator_times.h"
#include "sim/replay.h"
#include "sim/simulation.h"
#include "sim/sizes.h"
#include "sim/stages.h"
#include "sim/sweep_report.h"
#include "traces/trace_file.h"

#include <stdio.h>

struct sim_arguments {
    char *device_memory, *host_memory, *chunk_size, *layout, *policy, *strategy, *look_ahead, *link,
        *platform;
    char *json, *csv, *emit_plan, *timeline, *stage_layers;
    char **files;
    uint64_t pinned_memory; /* UINT64_MAX: not given */
    uint64_t nvme_memory;   /* 0: not given */
    char *top;
    uint32_t threads, stalls, gpus, nodes, stage, stages, micro_batches;
    uint8_t objective; /* enum objective; OBJECTIVES if not given */
    uint8_t schedule;  /* enum pipeline_schedule; PIPELINE_SCHEDULES if not given */
    uint32_t stage_parts;
    uint8_t reduction; /* enum run_reduction */
    bool fits, phases, no_clip, lists_platforms;
};

enum { USUAL_TOP = 10 };

/* The files and values that the arguments name. */
struct sim_inputs {
    struct trace *trace;     /* of a pipeline whose stages have a trace each, the first's */
    struct trace **pipeline; /* [stages] the traces of a pipeline; NULL if it is none */
    uint32_t pipeline_stages;
    uint32_t *stage_layers;       /* [stages] as they were given; may be NULL */
    GPtrArray **pipeline_layouts; /* [stages] like `layouts` */
    struct stage_messages *messages;
    struct costs *costs;
    GArray *budgets, *look_aheads;
    GPtrArray *layouts, *policies, *strategies; /* strategies: NULL if none are wanted */
    struct platform *platform;                  /* NULL if none is given */
    struct sweep_stage *stages;                 /* NULL with one rank, or without strategies */
    uint64_t host_budget;
    struct nvme_budget nvme; /* nvme_bytes is 0 if none is given */
    uint32_t top;            /* rows to print */
};

/* "all", "" or a list of names and plug-ins. Returns an array that ends with NULL. */
static GPtrArray *parse_policies(const char *text, GError **error)
{
    GPtrArray *policies = g_ptr_array_new();
    g_auto(GStrv) names = g_strsplit(text, ",", -1);
    for (char **name = names; *name; name++) {
        const struct pstar_policy_ops *policy = NULL;
        if (g_str_equal(*name, "all"))
            for (const struct pstar_policy_ops *const *p = policy_all; *p; p++)
                g_ptr_array_add(policies, (void *)*p);
        else if ((policy = policy_open(*name, error)))
            g_ptr_array_add(policies, (void *)policy);
        else {
            g_ptr_array_unref(policies);
            return NULL;
        }
    }
    g_ptr_array_add(policies, NULL);
    return policies;
}

static bool begins_early(const GPtrArray *strategies)
{
    for (guint i = 0; strategies && i < strategies->len; i++)
        if (((const struct strategy *)g_ptr_array_index(strategies, i))->ops->begins_early)
            return true;
    return false;
}

/* Without --policy, all policies are replayed, or none beside strategies. */
static bool read_policies(const struct sim_arguments *a, struct sim_inputs *in, GError **error)
{
    const char *policies = a->policy ? a->policy : a->strategy ? "" : "all";
    if (a->policy && !*a->policy)
        return options_refuse(error, "--policy '': must name a policy");
    if (a->look_ahead && !*policies)
        return options_refuse(
            error, "--look-ahead %s: strategies have their own; it needs --policy", a->look_ahead);
    return (in->policies = parse_policies(policies, error)) &&
           (!a->strategy || (in->strategies = strategy_parse_list(a->strategy, error))) &&
           (!a->no_clip || begins_early(in->strategies) ||
            options_refuse(error, "--no-clip: changes only --strategy superoffload, which updates "
                                  "before the norm of all gradients is known"));
}

static bool read_machine(const struct sim_arguments *a, const struct console *console,
                         struct sim_inputs *in, GError **error)
{
    const struct machine_request request = {
        console,  a->platform,         a->link,  a->gpus,
        a->nodes, in->pipeline_stages, a->stage, a->reduction == RUN_REDUCTION_FAST};
    return machine_read(&request, &in->trace, &in->platform, &in->costs, error);
}

static bool read_budgets(const struct sim_arguments *a, const struct console *console,
                         struct sim_inputs *in, GError **error)
{
    const struct budget_request request = {.console = console,
                                           .device_memory = a->device_memory,
                                           .host_memory = a->host_memory,
                                           .nvme_memory = a->nvme_memory,
                                           .platform = in->platform,
                                           .trace = in->trace};
    return (in->budgets = budgets_read(&request, &in->host_budget, error));
}

static bool asks_for_all(const char *strategies)
{
    g_auto(GStrv) names = g_strsplit(strategies, ",", -1);
    return g_strv_contains((const char *const *)names, "all");
}

/* Returns the name of a strategy that is asked for and needs NVMe; NULL if there is none. */
static const char *tiered_strategy(const struct sim_inputs *in)
{
    for (guint i = 0; in->strategies && i < in->strategies->len; i++) {
        const struct strategy *strategy = g_ptr_array_index(in->strategies, i);
        if (strategy->ops->in_nvme)
            return strategy->name;
    }
    return NULL;
}

/* The blocks of transfers are the platform's, if it knows the disk. */
static bool read_nvme(const struct sim_arguments *a, struct sim_inputs *in, GError **error)
{
    struct platform_disk_way way = {0};
    const char *tiered = tiered_strategy(in);
    if (!a->nvme_memory)
        return !tiered || options_refuse(error,
                                         "--strategy %s: keeps optimizer states in NVMe, and needs "
                                         "--nvme-memory",
                                         tiered);
    if (in->platform)
        platform_disk_best(&in->platform->disk, &way);
    in->nvme = (struct nvme_budget){.host_bytes = in->host_budget,
                                    .nvme_bytes = a->nvme_memory,
                                    .block_bytes = way.block_bytes,
                                    .depth = way.depth};
    if (a->strategy && asks_for_all(a->strategy))
        strategy_add_tiered(in->strategies);
    return true;
}

static bool has_stage(const struct sim_inputs *in)
{
    for (guint i = 0; i < in->strategies->len; i++)
        if (((const struct strategy *)g_ptr_array_index(in->strategies, i))->ops->stage)
            return true;
    return false;
}

static struct sweep_stage *derive_stages(const struct sim_inputs *in, GError **error)
{
    return stages_new(in->trace, in->strategies, in->layouts, in->platform, in->costs, error);
}

/* Makes the traces of strategies with a stage of their own. With several ranks these belong to all
 * strategies, if the trace and the layout allow it. */
static bool read_stages(const struct sim_arguments *a, const struct console *console,
                        struct sim_inputs *in, GError **error)
{
    g_autoptr(GError) why = NULL;
    if (in->trace->ranks <= 1 || !in->strategies)
        return true;
    guint named = in->strategies->len;
    if (asks_for_all(a->strategy) && !a->layout) {
        strategy_add_several(in->strategies);
        if ((in->stages = derive_stages(in, &why)))
            return true;
        g_ptr_array_set_size(in->strategies, (gint)named);
        console_note(console, "strategies with a stage of their own are left out: %s",
                     why->message);
    }
    if (a->layout && has_stage(in))
        return options_refuse(error,
                              "--layout %s: says which chunks there are, but a strategy with "
                              "a stage of its own needs others",
                              a->layout);
    return (in->stages = derive_stages(in, error));
}

static bool read_layouts(const struct sim_arguments *a, const struct console *console,
                         struct sim_inputs *in, GError **error)
{
    return (in->layouts = layout_list_parse(a->chunk_size, a->layout, in->trace, error)) &&
           read_stages(a, console, in, error);
}

/* ---- the stages of a pipeline ---- */

static bool is_pipeline(const struct sim_arguments *a)
{
    return a->stages > 1 || a->stage_layers || a->files[1];
}

/* Finds out how many stages are asked for. */
static bool read_stage_count(const struct sim_arguments *a, struct sim_inputs *in, GError **error)
{
    in->pipeline_stages = MAX(a->stages, 1);
    if (!a->stage_layers)
        return true;
    in->stage_layers = pipeline_parse_layers(a->stage_layers, &in->pipeline_stages, error);
    if (!in->stage_layers) {
        g_prefix_error(error, "--stage-layers: ");
        return false;
    }
    return !a->stages || a->stages == in->pipeline_stages ||
           options_refuse(error, "--stages %u: --stage-layers names %u", a->stages,
                          in->pipeline_stages);
}

static int by_stage(const void *left, const void *right)
{
    const struct trace *a = *(struct trace *const *)left, *b = *(struct trace *const *)right;
    return (a->stage > b->stage) - (a->stage < b->stage);
}

/* Reads a trace of each stage, in any order, or one of the whole model. */
static bool read_traces(const struct sim_arguments *a, struct sim_inputs *in, GError **error)
{
    uint32_t count = g_strv_length(a->files);
    if (a->micro_batches && !is_pipeline(a))
        return options_refuse(error,
                              "--micro-batches %u: needs --stages; a trace of one process "
                              "says how many it has",
                              a->micro_batches);
    if (count == 1) {
        return read_stage_count(a, in, error) &&
               (in->trace = trace_read_whole(a->files[0], error)) &&
               replay_check_trace(in->trace, a->files[0], error);
    }
    in->pipeline = g_new0(struct trace *, count);
    in->pipeline_stages = count;
    for (uint32_t s = 0; s < count; s++)
        if (!(in->pipeline[s] = trace_read(a->files[s], error)) ||
            !replay_check_trace(in->pipeline[s], a->files[s], error))
            return false;
    qsort(in->pipeline, count, sizeof(struct trace *), by_stage);
    if (!(in->messages = stage_messages_new((const struct trace *const *)in->pipeline, count,
                                            error)))
        return false;
    in->trace = trace_copy(in->pipeline[0]);
    return true;
}

static bool names_schedule(const struct sim_arguments *a)
{
    return a->schedule < PIPELINE_SCHEDULES;
}

static enum pipeline_schedule schedule_of(const struct sim_arguments *a)
{
    return names_schedule(a) ? (enum pipeline_schedule)a->schedule : PIPELINE_1F1B;
}

/* Returns the first option that is given and that the traces of stages make needless, or NULL. */
static const char *said_by_stages(const struct sim_arguments *a)
{
    return a->stages           ? "stages"
           : a->stage_layers   ? "stage-layers"
           : names_schedule(a) ? "schedule"
           : a->stage_parts    ? "stage-parts"
           : a->micro_batches  ? "micro-batches"
           : a->gpus           ? "gpus"
                               : NULL;
}

/* Options that say nothing of a pipeline. */
static bool check_pipeline(const struct sim_arguments *a, GError **error)
{
    const struct {
        const char *name;
        bool given;
    } foreign[] = {{"layout", a->layout},
                   {"emit-plan", a->emit_plan},
                   {"timeline", a->timeline},
                   {"stalls", a->stalls},
                   {"phases", a->phases},
                   {"no-clip", a->no_clip},
                   {"nvme-memory", a->nvme_memory > 0}};
    bool several = a->files[1];
    for (size_t i = 0; i < G_N_ELEMENTS(foreign); i++)
        if (foreign[i].given)
            return options_refuse(error, "--%s: not with the stages of a pipeline",
                                  foreign[i].name);
    const char *said = said_by_stages(a);
    if (several && said)
        return options_refuse(error, "--%s: the traces of stages say it already", said);
    if (a->device_memory && strchr(a->device_memory, '%'))
        return options_refuse(error,
                              "--device-memory %s: stages differ in size; say how many bytes "
                              "the device of each has",
                              a->device_memory);
    return true;
}

/* Other systems know neither stages of ZeRO within those of a pipeline here, nor forward passes
 * that read masters. */
static bool check_strategies(const struct sim_inputs *in, GError **error)
{
    if (!in->strategies)
        return true;
    if (has_stage(in))
        return options_refuse(error, "--strategy: one of these has a stage of ZeRO of its own, "
                                     "which the stages of a pipeline have not");
    for (uint32_t q = 0; q < in->messages->queues; q++)
        if (in->messages->under_way[q])
            return options_refuse(error, "--strategy: not with schedule 2bw, whose forward passes "
                                         "read masters");
    return true;
}

/* Cuts the trace, if there is one of the whole model, and lays every stage out. */
static bool read_pipeline(const struct sim_arguments *a, struct sim_inputs *in, GError **error)
{
    uint32_t stages = in->pipeline_stages;
    enum pipeline_schedule schedule = schedule_of(a);
    const struct pipeline_request request = {
        {stages, schedule, in->stage_layers,
         a->stage_parts ? a->stage_parts : pipeline_usual_parts(schedule)},
        a->micro_batches};
    if (!in->pipeline &&
        !(in->pipeline = pipeline_traces_new(in->trace, &request, in->platform, error))) {
        if (a->stage_layers)
            g_prefix_error(error, "--stage-layers %s: ", a->stage_layers);
        else
            g_prefix_error(error, "--stages %u: ", stages);
        return false;
    }
    if (!in->messages && !(in->messages = stage_messages_new(
                               (const struct trace *const *)in->pipeline, stages, error)))
        return false;
    if (!check_strategies(in, error))
        return false;
    in->pipeline_layouts = g_new0(GPtrArray *, stages);
    for (uint32_t s = 0; s < stages; s++) {
        operator_times_leave_exchanges(in->pipeline[s], in->costs);
        in->pipeline_layouts[s] =
            s ? layout_list_like(in->pipeline_layouts[0], in->pipeline[s], error)
              : layout_list_parse(a->chunk_size, NULL, in->pipeline[0], error);
        if (!in->pipeline_layouts[s])
            return false;
    }
    return true;
}

/* Rows are ranked by what they are known to differ in. */
static enum objective objective_of(const struct sim_arguments *a, const struct trace *trace)
{
    if (a->objective < OBJECTIVES)
        return (enum objective)a->objective;
    return replay_is_timed(trace) ? OBJECTIVE_TIME : OBJECTIVE_TRAFFIC;
}

static bool read_inputs(const struct sim_arguments *a, const struct console *console,
                        struct sim_inputs *in, GError **error)
{
    if (!is_pipeline(a) && !a->stages && (names_schedule(a) || a->stage_parts))
        return options_refuse(error, "--schedule and --stage-parts go with --stages");
    return options_parse_top(a->top, USUAL_TOP, &in->top, error) &&
           (in->look_aheads = sizes_parse_counts(a->look_ahead, error)) &&
           read_policies(a, in, error) && (!is_pipeline(a) || check_pipeline(a, error)) &&
           read_traces(a, in, error) && read_machine(a, console, in, error) &&
           (a->pinned_memory == UINT64_MAX ||
            costs_set_pinned(in->costs, a->pinned_memory, error)) &&
           read_budgets(a, console, in, error) && read_nvme(a, in, error) &&
           (is_pipeline(a) ? read_pipeline(a, in, error) : read_layouts(a, console, in, error));
}

static void inputs_clear(struct sim_inputs *in)
{
    for (uint32_t s = 0; in->pipeline_layouts && s < in->pipeline_stages; s++)
        g_clear_pointer(&in->pipeline_layouts[s], g_ptr_array_unref);
    g_free(in->pipeline_layouts);
    g_free(in->stage_layers);
    stage_messages_free(in->messages);
    pipeline_traces_free(in->pipeline, in->pipeline_stages);
    trace_free(in->trace);
    costs_free(in->costs);
    stages_free(in->stages);
    g_clear_pointer(&in->layouts, g_ptr_array_unref);
    g_clear_pointer(&in->budgets, g_array_unref);
    g_clear_pointer(&in->look_aheads, g_array_unref);
    g_clear_pointer(&in->policies, g_ptr_array_unref);
    g_clear_pointer(&in->strategies, g_ptr_array_unref);
    platform_free(in->platform);
}

/* Returns the exit status if no error is set, or if a signal came. */
static int simulate(const struct sim_arguments *a, const struct console *console,
                    const struct sim_inputs *in, GError **error)
{
    struct progress *progress = progress_begin(console, "configurations", true);
    struct simulation simulation = {
        .trace = in->trace,
        .trace_path = a->files[0],
        .platform_path = a->platform,
        .sweep = {.layouts = in->layouts,
                  .budgets = in->budgets,
                  .look_aheads = in->look_aheads,
                  .policies = (const struct pstar_policy_ops *const *)in->policies->pdata,
                  .strategies = in->strategies,
                  .stages = in->stages,
                  .platform = in->platform,
                  .unclipped = a->no_clip,
                  .host_budget = in->host_budget,
                  .nvme = in->nvme.nvme_bytes ? &in->nvme : NULL,
                  .phases = a->phases,
                  .objective = objective_of(a, in->trace),
                  .costs = in->costs,
                  .threads = a->threads,
                  .progress = progress_update,
                  .progress_data = progress},
        .json = a->json,
        .csv = a->csv,
        .emit_plan = a->emit_plan,
        .timeline = a->timeline,
        .top = in->top,
        .stalls = a->stalls,
        .fits = a->fits};
    const struct stage_sweep stages = {(const struct trace *const *)in->pipeline, in->messages,
                                       in->pipeline_layouts, &simulation.sweep};
    if (in->pipeline)
        simulation.stages = &stages;
    if (in->budgets->len == 1 || !simulation_looks_at_best(&simulation))
        simulation_run(&simulation, error);
    else
        options_refuse(error, "--emit-plan, --timeline, --stalls and --phases take one budget");
    int signal = progress_signal(progress);
    progress_end(progress);
    g_autofree char *note = operator_times_note(in->trace, in->platform);
    if (note)
        console_note(console, "%s", note);
    return signal ? STATUS_SIGNALLED + signal : STATUS_DONE;
}

static int run(void *data, const struct console *console, GError **error)
{
    const struct sim_arguments *a = data;
    struct sim_inputs in = {0};
    int status = STATUS_BAD_INPUT;
    if (!a->files)
        options_refuse(error, "a TRACE is needed");
    else if (read_inputs(a, console, &in, error))
        status = simulate(a, console, &in, error);
    inputs_clear(&in);
    return status;
}

static void append_policy(GString *text, const struct pstar_policy_ops *policy)
{
    g_string_append_printf(text, "  %-12s %s\n", policy->name, policy->summary);
    for (const struct pstar_policy_parameter *p = policy->parameters; p && p->name; p++)
        g_string_append_printf(text, "  %-14s %s=%g: %s\n", "", p->name, p->usual, p->summary);
}

static void append_strategy(GString *text, const struct strategy_ops *strategy)
{
    g_autofree char *name = g_strconcat(strategy->name, strategy->parameter ? ":" : "",
                                        strategy->parameter, NULL);
    g_string_append_printf(text, "  %-16s %s\n", name, strategy->summary);
}

static char **strategy_names(void)
{
    GPtrArray *names = g_ptr_array_new();
    for (const struct strategy_ops *const *s = strategy_all; *s; s++)
        g_ptr_array_add(names, g_strdup((*s)->name));
    for (const struct strategy_ops *const *s = strategy_tiered; *s; s++)
        g_ptr_array_add(names, g_strdup((*s)->name));
    for (const struct strategy_ops *const *s = strategy_several; *s; s++)
        g_ptr_array_add(names, g_strdup((*s)->name));
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

static char *describe_policies(void)
{
    GString *text = g_string_new("Policies:\n");
    for (const struct pstar_policy_ops *const *p = policy_all; *p; p++)
        append_policy(text, *p);
    g_string_append_printf(text, "  %-12s %s\n", "./mine.so", "one of your own: docs/policies.md");
    g_string_append(text, "\nStrategies:\n");
    for (const struct strategy_ops *const *s = strategy_all; *s; s++)
        append_strategy(text, *s);
    for (const struct strategy_ops *const *s = strategy_tiered; *s; s++)
        append_strategy(text, *s);
    for (const struct strategy_ops *const *s = strategy_several; *s; s++)
        append_strategy(text, *s);
    return g_string_free(text, FALSE);
}

int main(int argc, char **argv)
{
    struct sim_arguments a = {.pinned_memory = UINT64_MAX,
                              .objective = OBJECTIVES,
                              .schedule = PIPELINE_SCHEDULES,
                              .stage = RUN_ANY_STAGE,
                              .reduction = RUN_ANY_REDUCTION};
    const struct option options[] = {
        {.shared = OPTION_DEVICE_MEMORY,
         .text = &a.device_memory,
         .help = "30% is a share of the model data, on top of all activations; default: the "
                 "platform's",
         .value = "SIZE[,..]"},
        {.shared = OPTION_CHUNK_SIZE,
         .text = &a.chunk_size,
         .help = "A:B is a range in steps of sqrt(2); default: 13 sizes around the mean tensor",
         .value = "A:B|SIZE,..|LIST=SIZE,.."},
        {.shared = OPTION_LAYOUT, .file = &a.layout},
        {.shared = OPTION_POLICY,
         .text = &a.policy,
         .help = "several are replayed one by one; default: all, or none beside --strategy",
         .value = "NAME,..|all"},
        {.name = "strategy",
         .text = &a.strategy,
         .words = strategy_names,
         .help = "Strategies of other systems, such as zero-offload,twinflow:0.3",
         .value = "NAME,..|all"},
        {.shared = OPTION_NO_CLIP, .flag = &a.no_clip},
        {.shared = OPTION_LOOK_AHEAD,
         .text = &a.look_ahead,
         .help = "strategies have their own",
         .value = "N[,..]"},
        {.shared = OPTION_HOST_MEMORY,
         .text = &a.host_memory,
         .help = "default: the platform's, or unlimited without one",
         .value = "SIZE|unlimited"},
        {.shared = OPTION_NVME_MEMORY,
         .size = &a.nvme_memory,
         .help = "with --host-memory unlimited all optimizer states that only the host uses live "
                 "there; default: none"},
        {.shared = OPTION_LINK, .text = &a.link, .help = "default: the platform's"},
        {.name = "pinned-memory",
         .size = &a.pinned_memory,
         .help = "How much of the host's chunks is pinned, which only changes times; default: all",
         .value = "SIZE"},
        {.shared = OPTION_PLATFORM,
         .file = &a.platform,
         .help = "default: 8 GB/s each way, 16 GB/s of device memory"},
        {.shared = OPTION_LIST_PLATFORMS, .flag = &a.lists_platforms, .use = OPTION_PRINTS},
        {.shared = OPTION_GPUS, .count32 = &a.gpus, .least = 1, .most = 1 << 20},
        {.shared = OPTION_NODES, .count32 = &a.nodes, .least = 1, .most = 1 << 20},
        {.shared = OPTION_STAGE,
         .count32 = &a.stage,
         .help = "default: the trace's, or 3",
         .most = 3},
        {.shared = OPTION_REDUCTION, .choice = &a.reduction, .help = "default: the trace's"},
        {.shared = OPTION_STAGES, .count32 = &a.stages, .least = 1},
        {.shared = OPTION_STAGE_LAYERS, .text = &a.stage_layers},
        {.shared = OPTION_SCHEDULE,
         .choice = &a.schedule,
         .help = "default: 1f1b",
         .value = "1f1b|gpipe|2bw|interleaved|zb-h1"},
        {.shared = OPTION_STAGE_PARTS, .count32 = &a.stage_parts, .help = "default: 2", .least = 2},
        {.shared = OPTION_MICRO_BATCHES,
         .count32 = &a.micro_batches,
         .help = "with --stages; default: the trace's, times the ranks of a stage",
         .least = 1},
        {.shared = OPTION_OBJECTIVE,
         .choice = &a.objective,
         .help = "default: time, or traffic if the trace has no durations"},
        {.shared = OPTION_TOP,
         .text = &a.top,
         .help = "configurations of each budget; default: 10"},
        {.shared = OPTION_THREADS, .count32 = &a.threads, .least = 1},
        {.shared = OPTION_JSON, .file = &a.json, .use = OPTION_WRITES, .value = "FILE"},
        {.name = "csv",
         .file = &a.csv,
         .use = OPTION_WRITES,
         .help = "Write the results as CSV",
         .value = "FILE"},
        {.shared = OPTION_EMIT_PLAN,
         .file = &a.emit_plan,
         .use = OPTION_WRITES,
         .help = "of the best configuration (*); takes one budget"},
        {.shared = OPTION_TIMELINE,
         .file = &a.timeline,
         .use = OPTION_WRITES,
         .help = "of the best configuration; takes one budget"},
        {.name = "stalls",
         .count32 = &a.stalls,
         .use = OPTION_PRINTS,
         .help = "Print the longest stalls of the best configuration: where, for which chunk, on "
                 "which resource",
         .value = "N"},
        {.name = "phases",
         .flag = &a.phases,
         .use = OPTION_PRINTS,
         .help = "Print forward, backward and update of the best configuration: time, busy shares, "
                 "link rates, peaks"},
        {.name = "fits",
         .flag = &a.fits,
         .use = OPTION_PRINTS,
         .help = "Print how well latency and rate fit the platform's copies"},
        {.arguments = &a.files, .value = "TRACE.."},
    };
    static const struct example examples[] = {
        {"Compare two policies at five chunk sizes.",
         "pstar-sim run.pstar --device-memory 200MiB --policy opt,lru --chunk-size 1MiB:4MiB"},
        {"Compare other systems' strategies at two budgets, on a measured machine.",
         "pstar-sim run.pstar --device-memory 30%,50% --platform machine.json --strategy all "
         "--json sweep.json"},
        {"Cut the model into the four stages of a pipeline.",
         "pstar-sim run.pstar --device-memory 200MiB --policy opt --stages 4 --micro-batches 8"},
    };
    const struct option_group group = {.options = options, .count = G_N_ELEMENTS(options)};
    g_autofree char *description = describe_policies();
    const struct program program = {
        .name = "pstar-sim",
        .purpose = "replay a step for any chunk size, policy, strategy, budget and link",
        .examples = examples,
        .example_count = G_N_ELEMENTS(examples),
        .summary =
            "Replays one training iteration under every combination of chunk size, eviction\n"
            "policy and memory budget, and prints what each would move and take.",
        .description = description,
        .groups = &group,
        .group_count = 1,
        .run = run,
        .data = &a};
    return program_main(&program, argc, argv);
}
