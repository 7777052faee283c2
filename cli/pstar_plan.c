/* pstar-plan: the best plan found for a traced iteration and a memory budget. */
#include "base/failure.h"
#include "base/files.h"
#include "base/output_file.h"
#include "base/size.h"
#include "cli/budgets.h"
#include "cli/machine.h"
#include "cli/plan_stages.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "models/derive.h"
#include "planner/answers/emit.h"
#include "planner/answers/questions.h"
#include "planner/answers/requests.h"
#include "planner/answers/script_step.h"
#include "sim/operator_times.h"
#include "sim/replay.h"
#include "sim/sizes.h"
#include "traces/trace_file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEAST_SECONDS 1e-9 /* 0 means that they are not given */

/* Says whether the plan may make another choice than the traced run. */
enum freedom { FREE, AS_TRACED, FREEDOM_DEFAULT };

struct plan_arguments {
    char *device_memory, *host_memory, *link, *platform, *output, *explain, *verify, *chunk_size,
        *layout, *emit, *timeline, *json, *top, *stages;
    char **files;
    uint8_t objective; /* enum objective; OBJECTIVES if not given */
    uint8_t recompute, offload, embedding, bytes_per_parameter, state_blocks, micro_batch; /* enum
                                                                                         freedom */
    uint8_t reduction; /* enum run_reduction */
    double time_limit;
    uint64_t nvme_memory;
    uint32_t seed, threads, gpus, nodes, stage, micro_batches, parts;
    uint8_t schedule; /* 0: any; else enum pipeline_schedule, and 1 */
    bool no_clip, lists_platforms;
    struct question_options question;
    const struct option_group *groups;
    size_t group_count;
};

/* ---- what the arguments name ---- */

struct search_inputs {
    struct trace *trace; /* NULL if not given, as the next two */
    struct platform *platform;
    GPtrArray *layouts;
    struct costs *costs;
    enum objective objective;
    uint64_t device_budget, host_budget;
};

static struct plan_paths paths_of(const struct plan_arguments *a, const char *plan)
{
    return (struct plan_paths){.plan = plan,
                               .trace = a->files ? a->files[0] : NULL,
                               .platform = a->platform,
                               .link = a->link,
                               .nvme_bytes = a->nvme_memory,
                               .timeline = a->timeline,
                               .json = a->json,
                               .emit = a->emit};
}

static bool read_budgets(const struct plan_arguments *a, const struct console *console,
                         struct search_inputs *in, GError **error)
{
    const struct budget_request request = {.console = console,
                                           .device_memory = a->device_memory,
                                           .host_memory = a->host_memory,
                                           .nvme_memory = a->nvme_memory,
                                           .platform = in->platform,
                                           .trace = in->trace};
    g_autoptr(GArray) budgets = budgets_read(&request, &in->host_budget, error);
    if (!budgets)
        return false;
    in->device_budget = g_array_index(budgets, uint64_t, 0);
    return budgets->len == 1 ||
           options_refuse(error, "--device-memory %s: must be one budget", a->device_memory);
}

static bool read_inputs(const struct plan_arguments *a, const struct console *console,
                        struct search_inputs *in, GError **error)
{
    bool own = a->question.min_gpus > 0; /* these say how many GPUs are tried */
    const struct machine_request machine = {.console = console,
                                            .platform = a->platform,
                                            .link = a->link,
                                            .gpus = own ? 0 : a->gpus,
                                            .nodes = own ? 0 : a->nodes,
                                            .stage = own ? RUN_ANY_STAGE : a->stage,
                                            .fast = !own && a->reduction == RUN_REDUCTION_FAST};
    in->objective = a->objective < OBJECTIVES ? (enum objective)a->objective : OBJECTIVE_TIME;
    return (!a->files || ((in->trace = model_updates_last(trace_read_whole(a->files[0], error))) &&
                          replay_check_trace(in->trace, a->files[0], error))) &&
           machine_read(&machine, &in->trace, &in->platform, &in->costs, error) &&
           read_budgets(a, console, in, error) &&
           ((!a->chunk_size && !a->layout) ||
            (in->layouts = layout_list_parse(a->chunk_size, a->layout, in->trace, error)));
}

static void inputs_clear(struct search_inputs *in)
{
    trace_free(in->trace);
    costs_free(in->costs);
    platform_free(in->platform);
    g_clear_pointer(&in->layouts, g_ptr_array_unref);
}

/* ---- what is asked ---- */

static bool answer(const struct plan_arguments *a, const struct search_inputs *in,
                   const struct search_options *options, GError **error)
{
    const struct question question = {.asked = &a->question,
                                      .search = options,
                                      .trace = in->trace,
                                      .platform_path = a->platform,
                                      .link = a->link,
                                      .nvme_bytes = a->nvme_memory,
                                      .trace_path = a->files ? a->files[0] : NULL,
                                      .gpus = a->gpus,
                                      .nodes = a->nodes,
                                      .stage = a->stage,
                                      .fast = a->reduction == RUN_REDUCTION_FAST,
                                      .json = a->json,
                                      .device_given = a->device_memory != NULL,
                                      .host_given = a->host_memory != NULL};
    bool stopped = false, ok = question_answer(&question, stdout, &stopped, error);
    return ok || (stopped && failure_mark(error, FAILURE_RUNNING));
}

/* Returns whether the plan chooses what its ranks share: only if it is known what that costs. */
static bool chooses_stage(const struct plan_arguments *a, const struct search_inputs *in)
{
    return a->stage == RUN_ANY_STAGE && in->trace->ranks > 1 && in->platform &&
           platform_knows_exchanges(in->platform);
}

static bool plan(const struct plan_arguments *a, const struct console *console,
                 const struct search_inputs *in, const struct search_options *options,
                 GError **error)
{
    struct plan_paths paths = paths_of(a, a->output);
    if (!options_parse_top(a->top, 0, &paths.top, error))
        return false;
    unsigned scope = (chooses_stage(a, in) ? RUN_STAGE : 0) |
                     (a->reduction == RUN_REDUCTION_FAST ? RUN_SUMS : 0) |
                     (a->recompute == AS_TRACED ? 0 : RUN_RECOMPUTE) |
                     (a->offload == FREE || (a->offload != AS_TRACED && a->recompute != AS_TRACED)
                          ? RUN_OFFLOAD
                          : 0) |
                     (a->embedding == AS_TRACED ? 0 : RUN_EMBEDDING) |
                     (a->bytes_per_parameter == AS_TRACED ? 0 : RUN_MASTERS) |
                     (a->state_blocks == AS_TRACED ? 0 : RUN_STATE_BLOCKS) |
                     (a->micro_batch == FREE ? RUN_MICRO_BATCHES : 0);
    bool ok = request_plan(&paths, in->trace, options, scope, error);
    g_autofree char *note = operator_times_note(in->trace, in->platform);
    if (ok && note)
        console_note(console, "%s", note);
    return ok;
}

static bool show_proof(void *progress)
{
    return progress_show(progress, 0, 0, "proving bounds", INFINITY);
}

/* Makes a plan or, if a question is asked, answers it. *signal becomes the one that ended it, or 0.
 */
static bool make(const struct plan_arguments *a, const struct console *console, int *signal,
                 GError **error)
{
    struct search_inputs in = {0};
    bool ok = read_inputs(a, console, &in, error);
    if (ok && ((a->output && !output_file_has_place(a->output, error)) ||
               (a->timeline && !output_file_has_place(a->timeline, error))))
        ok = failure_mark(error, FAILURE_RUNNING);
    if (ok) {
        struct progress *progress = progress_begin(console, "candidates", true);
        const struct search_options options = {
            .objective = in.objective,
            .layouts = in.layouts,
            .platform = in.platform,
            .device_budget = in.trace ? sizes_arena(in.device_budget, in.trace) : in.device_budget,
            .host_budget = in.host_budget,
            .unclipped = a->no_clip,
            .costs = in.costs,
            .seed = a->seed,
            .time_limit = a->time_limit,
            .threads = a->threads,
            .progress = progress_update,
            .proving = show_proof,
            .progress_data = progress};
        ok = question_count(&a->question) ? answer(a, &in, &options, error)
                                          : plan(a, console, &in, &options, error);
        *signal = progress_signal(progress);
        progress_end(progress);
    }
    inputs_clear(&in);
    return ok;
}

/* ---- which options go together ---- */

/* Records a step of the script, whose trace then is that of the question. */
static bool record_script(struct plan_arguments *a, const struct console *console, GError **error)
{
    g_auto(GStrv) remarks = NULL;
    enum model_precision precision = g_strcmp0(a->question.precision, "fp32") == 0 ? MODEL_FP32
                                                                                   : MODEL_BF16;
    struct platform *platform = platform_read(a->platform, error);
    char *path = platform ? script_step_record(a->question.torch, platform,
                                               a->question.precision ? &precision : NULL, &remarks,
                                               error)
                          : NULL;
    platform_free(platform);
    for (char **remark = remarks; remark && *remark; remark++)
        console_warn(console, "%s", *remark);
    if (!path)
        return false;
    a->files = g_new0(char *, 2);
    a->files[0] = path;
    return true;
}

/* What an option does not go with. */
enum { A_QUESTION = 1, READING = 2, STAGES = 4 };

/* Refuses the first option that does not go with what is asked, a bit of those above: READING is
 * --explain or --verify. `with` names it. */
static bool check_foreign(const struct plan_arguments *a, unsigned asked, const char *with,
                          GError **error)
{
    const struct {
        const char *name;
        bool given;
        unsigned foreign;
    } options[] = {
        {"output", a->output, A_QUESTION | READING},
        {"explain", a->explain, A_QUESTION | STAGES},
        {"verify", a->verify, A_QUESTION | STAGES},
        {"emit", a->emit, A_QUESTION | STAGES},
        {"timeline", a->timeline, A_QUESTION | STAGES},
        {"top", a->top, A_QUESTION | READING},
        {"json", a->json, READING},
        {"objective", a->objective < OBJECTIVES, A_QUESTION | READING | STAGES},
        {"chunk-size", a->chunk_size, A_QUESTION | READING | STAGES},
        {"layout", a->layout, A_QUESTION | READING | STAGES},
        {"device-memory", a->device_memory, READING},
        {"host-memory", a->host_memory, READING},
        {"nvme-memory", a->nvme_memory > 0, READING | STAGES},
        {"gpus", a->gpus > 0, READING},
        {"nodes", a->nodes > 0, READING},
        {"stage", a->stage != RUN_ANY_STAGE, READING | STAGES},
        {"reduction", a->reduction != RUN_ANY_REDUCTION, READING},
        {"recompute", a->recompute != FREEDOM_DEFAULT, A_QUESTION | READING},
        {"offload-activations", a->offload != FREEDOM_DEFAULT, A_QUESTION | READING | STAGES},
        {"embedding", a->embedding != FREEDOM_DEFAULT, A_QUESTION | READING | STAGES},
        {"bytes-per-parameter", a->bytes_per_parameter != FREEDOM_DEFAULT,
         A_QUESTION | READING | STAGES},
        {"state-blocks", a->state_blocks != FREEDOM_DEFAULT, A_QUESTION | READING},
        {"micro-batch", a->micro_batch != FREEDOM_DEFAULT, A_QUESTION | READING},
        {"no-clip", a->no_clip, READING},
        {"time-limit", a->time_limit > 0, READING},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(options); i++)
        if (options[i].given && options[i].foreign & asked)
            return options_refuse(error, "--%s: not with %s", options[i].name, with);
    return true;
}

static bool ask(struct plan_arguments *a, const struct console *console, int *signal,
                GError **error)
{
    bool one_model = a->question.model || a->question.torch;
    bool models = question_is_about_models(&a->question) || a->question.torch;
    if (!check_foreign(a, A_QUESTION, "--model, --torch or another question", error))
        return false;
    if (!one_model && (a->json || a->nvme_memory || a->time_limit > 0))
        return options_refuse(error, "--json, --nvme-memory and --time-limit: of the questions "
                                     "only with --model and --torch");
    if (models && (a->files || !a->platform))
        return options_refuse(
            error, "--model, --torch, --max-model and --max-batch take a --platform and no TRACE");
    if (!models && (!a->files || a->files[1]))
        return options_refuse(error, "--min-memory, --min-gpus and --sensitivity take one TRACE");
    if (a->question.min_gpus > 0 && a->stage < 2 && a->reduction != RUN_REDUCTION_FAST)
        return options_refuse(error, "--stage %u: needs --reduction fast", a->stage);
    if (a->question.min_gpus > 0 && !a->platform)
        return options_refuse(error, "--min-gpus needs --platform");
    if (a->question.torch && !record_script(a, console, error))
        return false;
    return make(a, console, signal, error);
}

static bool check_freedoms(const struct plan_arguments *a, GError **error)
{
    const struct {
        const char *option;
        uint8_t freedom;
    } others[] = {{"--embedding", a->embedding},
                  {"--bytes-per-parameter", a->bytes_per_parameter},
                  {"--state-blocks", a->state_blocks},
                  {"--micro-batch", a->micro_batch}};
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (a->recompute == AS_TRACED && others[i].freedom == FREE)
            return options_refuse(error,
                                  "%s any chooses layers as well: not with --recompute traced",
                                  others[i].option);
    if (a->layout && a->micro_batch == FREE)
        return options_refuse(error, "--layout names the chunks of the traced micro-batches: not "
                                     "with --micro-batch any");
    return true;
}

/* Checks the place of the settings as that of any other output. */
static bool check_emit(const struct plan_arguments *a, GError **error)
{
    const char *plan = a->explain ? a->explain : a->output;
    if (!emit_knows(a->emit))
        return options_refuse(error, "--emit %s: must be deepspeed, fsdp or fsdp2", a->emit);
    if (!plan || a->verify)
        return options_refuse(error, "--emit goes with -o or --explain");
    if (g_str_has_prefix(plan, "/dev/"))
        return options_refuse(error, "--emit writes beside the plan, so -o must be a file");
    g_autofree char *path = emit_path(plan, a->emit);
    const struct option output = {.name = "emit", .file = &path, .use = OPTION_WRITES_FILE};
    return options_check_output(&output, a->groups, a->group_count, error);
}

/* ---- pipelines ---- */

static bool check_pipeline(const struct plan_arguments *a, GError **error)
{
    if (!check_foreign(a, STAGES, "--stages", error))
        return false;
    if (question_count(&a->question) > !!a->question.model)
        return options_refuse(error, "one question at a time");
    return !a->files || !a->files[1] || options_refuse(error, "--stages takes one TRACE");
}

static bool choose_pipeline(const struct plan_arguments *a, const struct console *console,
                            int *signal, GError **error)
{
    const char *model = a->question.model;
    const struct plan_stages asked = {.console = console,
                                      .about = &a->question,
                                      .trace = a->files ? a->files[0] : NULL,
                                      .stages = a->stages,
                                      .device_memory = a->device_memory,
                                      .host_memory = a->host_memory,
                                      .output = a->output,
                                      .platform = a->platform,
                                      .link = a->link,
                                      .seed = a->seed,
                                      .time_limit = a->time_limit,
                                      .json = a->json,
                                      .top = a->top,
                                      .gpus = a->gpus,
                                      .nodes = a->nodes,
                                      .micro_batches = a->micro_batches,
                                      .threads = a->threads,
                                      .schedule = a->schedule,
                                      .parts = a->parts,
                                      .any_micro_batch = model ? a->micro_batch != AS_TRACED
                                                               : a->micro_batch == FREE,
                                      .as_traced = a->recompute == AS_TRACED,
                                      .unclipped = a->no_clip,
                                      .fast = a->reduction == RUN_REDUCTION_FAST};
    return check_pipeline(a, error) && plan_stages(&asked, signal, error);
}

static bool choose(struct plan_arguments *a, const struct console *console, int *signal,
                   GError **error)
{
    bool one = a->files && !a->files[1];
    const char *wrong = question_usage(&a->question);
    if (a->question.train && !a->question.model)
        return options_refuse(error, "--train goes with --model");
    if (a->stages)
        return choose_pipeline(a, console, signal, error);
    if (a->schedule || a->micro_batches || a->parts)
        return options_refuse(error, "--schedule, --stage-parts, --micro-batches go with --stages");
    if (wrong)
        return options_refuse(error, "%s", wrong);
    if (question_count(&a->question))
        return ask(a, console, signal, error);
    if (a->emit && !check_emit(a, error))
        return false;
    if (!check_freedoms(a, error))
        return false;
    if (a->explain && a->verify)
        return options_refuse(error, "--explain and --verify exclude each other");
    if ((a->explain || a->verify) &&
        !check_foreign(a, READING, a->explain ? "--explain" : "--verify", error))
        return false;
    if (a->explain && a->timeline)
        return options_refuse(error, "--timeline goes with -o or --verify");
    if (a->explain && a->emit && !one)
        return options_refuse(error, "--explain with --emit takes one TRACE");
    if (a->explain && a->files && !one)
        return options_refuse(error, "--explain takes at most one TRACE");
    const struct plan_paths paths = paths_of(a, a->explain ? a->explain : a->verify);
    if (a->explain)
        return request_explain(&paths, error);
    if (!one)
        return options_refuse(error, "one TRACE is needed");
    if (a->verify)
        return request_verify(&paths, error);
    if (!a->output)
        return options_refuse(error, "-o is needed");
    return make(a, console, signal, error);
}

static int run(void *data, const struct console *console, GError **error)
{
    int signal = 0;
    bool ok = choose(data, console, &signal, error);
    return signal ? STATUS_SIGNALLED + signal : ok ? STATUS_DONE : STATUS_BAD_INPUT;
}

int main(int argc, char **argv)
{
    struct plan_arguments a = {.objective = OBJECTIVES,
                               .recompute = FREEDOM_DEFAULT,
                               .offload = FREEDOM_DEFAULT,
                               .embedding = FREEDOM_DEFAULT,
                               .bytes_per_parameter = FREEDOM_DEFAULT,
                               .state_blocks = FREEDOM_DEFAULT,
                               .micro_batch = FREEDOM_DEFAULT,
                               .reduction = RUN_ANY_REDUCTION,
                               .stage = RUN_ANY_STAGE,
                               .seed = 1};
    struct question_options *q = &a.question;
    const struct option options[] = {
        {.shared = OPTION_MODEL,
         .file = &q->model,
         .help =
             "with a --platform and no TRACE: does it train there, in which ways, how fast, and "
             "what would make it fit"},
        {.shared = OPTION_TRAIN, .text = &q->train, .help = "for --model"},
        {.name = "torch",
         .text = &q->torch,
         .help = "The same question about the model that a training script in PyTorch trains: a "
                 "step is recorded without memory and without a GPU. SCRIPT may have arguments",
         .value = "SCRIPT"},
        {.shared = OPTION_DEVICE_MEMORY,
         .text = &a.device_memory,
         .help = "30% is a share of the model data, on top of all activations; default: the "
                 "platform's"},
        {.shared = OPTION_HOST_MEMORY,
         .text = &a.host_memory,
         .help = "default: the platform's, or unlimited without one",
         .value = "SIZE|unlimited"},
        {.shared = OPTION_NVME_MEMORY, .size = &a.nvme_memory, .help = "default: none"},
        {.shared = OPTION_LINK, .text = &a.link, .help = "default: the platform's"},
        {.shared = OPTION_PLATFORM,
         .file = &a.platform,
         .help = "default: 8 GB/s each way, 16 GB/s of device memory"},
        {.shared = OPTION_LIST_PLATFORMS, .flag = &a.lists_platforms, .use = OPTION_PRINTS},
        {.shared = OPTION_GPUS, .count32 = &a.gpus, .least = 1, .most = 1 << 20},
        {.shared = OPTION_NODES, .count32 = &a.nodes, .least = 1, .most = 1 << 20},
        {.shared = OPTION_STAGE,
         .count32 = &a.stage,
         .help = "default: the fastest, if the platform says how ranks exchange; else 3",
         .most = 3},
        {.shared = OPTION_STAGES,
         .text = &a.stages,
         .help = "any searches for the best; with --gpus, and a TRACE or a --model with --batch "
                 "and --micro-batches, which then count the step's sequences; %s in the name of -o "
                 "is a stage's number",
         .value = "any|N"},
        {.shared = OPTION_SCHEDULE,
         .choice = &a.schedule,
         .help = "default: any",
         .value = "any|1f1b|gpipe|2bw|interleaved|zb-h1"},
        {.shared = OPTION_STAGE_PARTS, .count32 = &a.parts, .help = "default: any", .least = 2},
        {.shared = OPTION_MICRO_BATCHES,
         .count32 = &a.micro_batches,
         .help = "with --stages; default: the trace's",
         .least = 1},
        {.shared = OPTION_REDUCTION, .choice = &a.reduction, .help = "default: exact or traced"},
        {.shared = OPTION_CHUNK_SIZE,
         .text = &a.chunk_size,
         .help = "several are tried, as in pstar-sim; default: sizes of the model's tensors",
         .value = "A:B|SIZE,..|LIST=SIZE,.."},
        {.shared = OPTION_LAYOUT, .file = &a.layout},
        {.name = "recompute",
         .choice = &a.recompute,
         .help = "Which layers compute activations again: any (default), or as traced",
         .value = "any|traced"},
        {.name = "offload-activations",
         .choice = &a.offload,
         .help = "Whether activations may leave the device: as --recompute (default), any, traced",
         .value = "any|traced"},
        {.name = "embedding",
         .choice = &a.embedding,
         .help = "Whether the embedding runs on device or host: any (default; takes a "
                 "--platform), or as traced",
         .value = "any|traced"},
        {.name = "bytes-per-parameter",
         .choice = &a.bytes_per_parameter,
         .help = "Whether split masters and a second backward may save 2 of 14 bytes per "
                 "parameter: any (default), or as traced",
         .value = "any|traced"},
        {.name = "state-blocks",
         .choice = &a.state_blocks,
         .help = "Whether masters and moments of large tensors move in blocks: any (default), or "
                 "as traced",
         .value = "any|traced"},
        {.name = "micro-batch",
         .choice = &a.micro_batch,
         .help = "Size of the micro-batches that make up the step's batch: any, or as traced "
                 "(default, but any for --model with --stages)",
         .value = "any|traced"},
        {.shared = OPTION_NO_CLIP, .flag = &a.no_clip},
        {.shared = OPTION_OBJECTIVE, .choice = &a.objective, .help = "default: time"},
        {.shared = OPTION_OUTPUT, .file = &a.output, .use = OPTION_WRITES, .value = "PLAN"},
        {.name = "time-limit",
         .real = &a.time_limit,
         .help = "Stop the search after this time with the best plan so far, but not before there "
                 "is one. The proof of its bounds may take as long again, or 15 s; default: none",
         .value = "SECONDS",
         .least = LEAST_SECONDS},
        {.shared = OPTION_SEED, .count32 = &a.seed, .help = "of the search; default: 1"},
        {.shared = OPTION_THREADS, .count32 = &a.threads},
        {.name = "explain",
         .file = &a.explain,
         .use = OPTION_PRINTS,
         .help = "Print a plan for a person; with its TRACE, more",
         .value = "PLAN"},
        {.name = "verify",
         .file = &a.verify,
         .use = OPTION_CHECKS,
         .help = "Check a plan against its TRACE, and that it moves what it predicts",
         .value = "PLAN"},
        {.name = "emit",
         .text = &a.emit,
         .help = "Also write the nearest settings of another system beside the plan",
         .value = "deepspeed|fsdp|fsdp2"},
        {.shared = OPTION_TIMELINE, .file = &a.timeline, .use = OPTION_WRITES},
        {.shared = OPTION_JSON,
         .file = &a.json,
         .help = "of the search: figures, bounds and runners-up; of --model: the answer",
         .value = "FILE",
         .use = OPTION_WRITES},
        {.shared = OPTION_TOP,
         .text = &a.top,
         .use = OPTION_PRINTS,
         .help = "runners-up, and why they lost; default: none"},
        {.arguments = &a.files, .value = "TRACE"},
    };
    const struct option questions[] = {
        {.name = "max-model",
         .file = &q->max_model,
         .help = "The largest model that fits the --platform, among the configs whose paths begin "
                 "with FAMILY, or of one config with 1 to 512 layers",
         .value = "FAMILY"},
        {.name = "max-batch",
         .file = &q->max_batch,
         .help = "The largest micro-batch with which a model fits the --platform",
         .value = "CONFIG"},
        {.name = "min-memory",
         .text = &q->min_memory,
         .help = "The least device memory, and the least host memory, that slow down the TRACE by "
                 "at most this",
         .value = "PERCENT"},
        {.name = "min-gpus",
         .real = &q->min_gpus,
         .help =
             "How few GPUs, of at most --gpus (default: 1024), train the TRACE with steps of at "
             "most this time; each computes what a traced rank does",
         .value = "SECONDS",
         .least = LEAST_SECONDS},
        {.name = "sensitivity",
         .file = &q->sensitivity,
         .use = OPTION_WRITES,
         .help = "What more device memory or a faster link would gain for the TRACE, with a "
                 "picture",
         .value = "SVG"},
        {.shared = OPTION_BATCH,
         .count32 = &q->batch,
         .help = "with --model (default: what fits, of at most 8192 tokens) and --max-model "
                 "(default: 1)",
         .least = 1},
        {.shared = OPTION_SEQUENCE,
         .count32 = &q->sequence,
         .help = "with --model (default: at most 2048), --max-model and --max-batch (default: the "
                 "most that the model takes)",
         .least = 1},
        {.shared = OPTION_PRECISION,
         .text = &q->precision,
         .help = "with --model, --max-model, --max-batch (default: bf16), and of --torch's matrix "
                 "products (default: the parameters')"},
    };
    static const struct example examples[] = {
        {"Ask whether and how fast a model trains on a machine, without a trace and without a GPU.",
         "pstar-plan --model models/configs/llama-3.1-8b.json --platform rtx-4090 "
         "--host-memory 128GiB"},
        {"Ask the same about the model that a script trains, wherever it trains.",
         "pstar-plan --torch train.py --platform rtx-4090"},
        {"Search for a plan.",
         "pstar-plan run.pstar --device-memory 80MiB --platform machine.json -o plan.json"},
        {"Check the plan, and the proof of how far it is from the optimum.",
         "pstar-plan --verify plan.json run.pstar --platform machine.json"},
        {"Find the best pipeline on 64 GPUs, for steps of 512 sequences.",
         "pstar-plan --model models/configs/llama-3.1-8b.json --platform dgx-a100 --gpus 64 "
         "--stages any --batch 1 --micro-batches 512"},
        {"Print the plan for a person.", "pstar-plan --explain plan.json run.pstar"},
        {"Find the largest batch with which a model fits a machine.",
         "pstar-plan --max-batch models/configs/gpt2.json --seq 256 --platform "
         "platforms/a100-40gb.json"},
    };
    const struct option_group groups[] = {
        {.options = options, .count = G_N_ELEMENTS(options)},
        {.name = "questions",
         .title = "Questions, one at a time:",
         .help = "Show the questions that can be asked",
         .options = questions,
         .count = G_N_ELEMENTS(questions)},
    };
    a.groups = groups;
    a.group_count = G_N_ELEMENTS(groups);
    const struct program program = {
        .name = "pstar-plan",
        .purpose = "search for the best plan, explain plans and verify them",
        .examples = examples,
        .example_count = G_N_ELEMENTS(examples),
        .summary =
            "Searches for the plan with which pstar-run trains fastest: chunk sizes, tensor\n"
            "orders, homes of chunks, where the optimizer runs, which layers are computed again,\n"
            "and the schedule of fetches, evictions and write-backs.",
        .groups = groups,
        .group_count = G_N_ELEMENTS(groups),
        .run = run,
        .data = &a};
    return program_main(&program, argc, argv);
}
