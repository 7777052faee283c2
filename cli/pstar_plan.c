/* pstar-plan: the best plan found for a traced iteration and a memory budget. */
#include "planner/answers/emit.h"
#include "planner/answers/explain.h"
#include "planner/answers/plan_replay.h"
#include "planner/answers/questions.h"
#include "planner/answers/verify.h"
#include "planner/proof/certificate.h"
#include "planner/schedule/placement.h"
#include "planner/search/choices.h"
#include "planner/search/traced.h"
#include "sim/layout_list.h"
#include "sim/progress.h"
#include "sim/replay.h"
#include "sim/sizes.h"
#include "traces/output_file.h"
#include "traces/size.h"
#include "traces/trace_file.h"

#include <locale.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DOES_NOT_FIT = 3 };

struct arguments {
    char *device_memory, *host_memory, *link, *platform, *output, *explain, *verify, *objective,
        *chunk_size, *layout, *recompute, *offload, *embedding, *masters, *micro_batch, *emit,
        *timeline;
    char **rest;
    double time_limit;
    int seed, threads;
    gboolean version;
    struct question_options question;
};

static GOptionContext *describe(struct arguments *a)
{
    const GOptionEntry entries[] = {
        {"device-memory", 0, 0, G_OPTION_ARG_STRING, &a->device_memory,
         "Budget: a size, or a share of the model data beside all activations (30%)", "SIZE"},
        {"host-memory", 0, 0, G_OPTION_ARG_STRING, &a->host_memory,
         "Budget of host memory; default: unlimited", "SIZE"},
        {"link", 0, 0, G_OPTION_ARG_STRING, &a->link,
         "Rates of the copies; default: the platform's", "h2d=RATE,d2h=RATE"},
        {"platform", 0, 0, G_OPTION_ARG_FILENAME, &a->platform,
         "Measured rates; default: 8 GB/s each way, 16 GB/s of device memory", "FILE"},
        {"chunk-size", 0, 0, G_OPTION_ARG_STRING, &a->chunk_size,
         "Choose among these sizes: as pstar-sim takes them; default: sizes of the model's tensors",
         "A:B|LIST|NAME=SIZE,.."},
        {"layout", 0, 0, G_OPTION_ARG_FILENAME, &a->layout,
         "Use the chunks of a layout file or a plan", "FILE"},
        {"recompute", 0, 0, G_OPTION_ARG_STRING, &a->recompute,
         "Which layers compute activations again: any (default), or as traced", "any|traced"},
        {"offload-activations", 0, 0, G_OPTION_ARG_STRING, &a->offload,
         "Whether activations may leave the device: any (default), or as traced", "any|traced"},
        {"embedding", 0, 0, G_OPTION_ARG_STRING, &a->embedding,
         "Whether it runs on device or host: any (default; takes a --platform), or as traced",
         "any|traced"},
        {"bytes-per-parameter", 0, 0, G_OPTION_ARG_STRING, &a->masters,
         "Whether split masters and a second backward may make 12 of 14: any (default), or as "
         "traced",
         "any|traced"},
        {"micro-batch", 0, 0, G_OPTION_ARG_STRING, &a->micro_batch,
         "Its size in a step of the same batch: any, or as traced (default)", "any|traced"},
        {"objective", 0, 0, G_OPTION_ARG_STRING, &a->objective,
         "Least time (default), traffic or memory", "NAME"},
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &a->output, "Where the plan goes", "PLAN"},
        {"time-limit", 0, 0, G_OPTION_ARG_DOUBLE, &a->time_limit,
         "Stop with the best plan so far; default: none", "SECONDS"},
        {"seed", 0, 0, G_OPTION_ARG_INT, &a->seed, "Of the search; default: 1", "N"},
        {"threads", 0, 0, G_OPTION_ARG_INT, &a->threads, "Default: all processors", "N"},
        {"explain", 0, 0, G_OPTION_ARG_FILENAME, &a->explain,
         "Print a plan for a person; with its TRACE, more", "PLAN"},
        {"verify", 0, 0, G_OPTION_ARG_FILENAME, &a->verify,
         "Check a plan against its TRACE, and that it moves what it predicts", "PLAN"},
        {"emit", 0, 0, G_OPTION_ARG_STRING, &a->emit,
         "Write the nearest settings of deepspeed or fsdp beside the plan too", "SYSTEM"},
        {"timeline", 0, 0, G_OPTION_ARG_FILENAME, &a->timeline,
         "Write when everything of the plan runs, for chrome://tracing and pstar-report", "FILE"},
        {"version", 0, 0, G_OPTION_ARG_NONE, &a->version, "Print the version", NULL},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &a->rest, NULL, "TRACE"},
        {0}};
    GOptionContext *context = g_option_context_new(NULL);

    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_add_group(context, question_group(&a->question));
    g_option_context_set_summary(
        context,
        "Searches chunk sizes, tensor orders, homes, where the optimizer runs, which layers are\n"
        "computed again, and the schedule of fetches, evictions and write-backs for the plan with\n"
        "which pstar-run trains fastest.");
    return context;
}

static void arguments_clear(struct arguments *a)
{
    char *strings[] = {
        a->device_memory, a->host_memory, a->link,        a->platform, a->output,    a->explain,
        a->verify,        a->objective,   a->chunk_size,  a->layout,   a->recompute, a->offload,
        a->embedding,     a->masters,     a->micro_batch, a->emit,     a->timeline};
    for (size_t i = 0; i < G_N_ELEMENTS(strings); i++)
        g_free(strings[i]);
    g_strfreev(a->rest);
    question_options_clear(&a->question);
}

static int fail(int status, const GError *error)
{
    fprintf(stderr, "pstar-plan: %s\n", error->message);
    return status;
}

/* The platform that the options name or, where they name none, the certificate's (may be NULL).
 * *platform stays NULL where there is neither. */
static bool read_platform(const struct arguments *a, const struct certificate *certificate,
                          struct platform **platform, GError **error)
{
    const char *link = a->link;

    if (a->platform) {
        *platform = platform_read(a->platform, error);
    } else if (certificate && certificate->platform) {
        *platform = certificate_platform(certificate, error);
        link = certificate->link;
    } else {
        return true;
    }
    if (*platform && link)
        platform_keep_apart(*platform);
    return *platform != NULL;
}

/* What the options name or, where they name nothing, the certificate. */
static struct costs *read_costs(const struct arguments *a, const struct certificate *certificate,
                                GError **error)
{
    if (!certificate || a->platform || a->link)
        return costs_read(a->platform, a->link, error);
    return certificate_costs(certificate, error);
}

static struct trace *read_trace_of(const struct plan *plan, const struct arguments *a,
                                   GError **error)
{
    struct platform *platform = NULL;
    struct trace *trace = trace_read(a->rest[0], error), *traced = NULL, *placed = NULL;

    if (trace && read_platform(a, plan->certificate, &platform, error) &&
        (traced = derived_for_plan(plan, trace, platform, error)))
        placed = placement_of_plan(plan, traced, platform, error);
    platform_free(platform);
    trace_free(traced);
    trace_free(trace);
    return placed;
}

static int explain(const struct arguments *a)
{
    g_autoptr(GError) error = NULL;
    struct trace *trace = NULL;
    struct plan *plan = plan_read(a->explain, &error);
    bool ok = plan && (!a->rest || ((trace = read_trace_of(plan, a, &error)) &&
                                    plan_check(plan, trace, &error)));

    if (ok)
        explain_plan(plan, trace, stdout);
    if (ok && a->emit)
        ok = emit_beside(a->explain, a->emit, plan, trace, stdout, &error);
    plan_free(plan);
    trace_free(trace);
    return ok ? EXIT_DONE : fail(EXIT_USAGE, error);
}

static int verify(const struct arguments *a)
{
    g_autoptr(GError) error = NULL;
    struct trace *trace = NULL;
    struct costs *costs = NULL;
    struct plan_figures figures;
    struct plan *plan = plan_read(a->verify, &error);
    bool ok = plan && (trace = read_trace_of(plan, a, &error)) &&
              (costs = read_costs(a, plan->certificate, &error)) &&
              verify_plan(plan, trace, costs, &figures, &error) &&
              (!plan->certificate ||
               verify_certificate(plan, a->verify, trace, a->rest[0], &error));

    if (ok)
        printf("%s: possible, and moves what it predicts; a step takes %.4f s, %.4f s of it "
               "stalled\n",
               a->verify, figures.iteration_seconds, figures.stall_seconds);
    if (ok && plan->certificate)
        explain_certificate(plan->certificate, stdout);
    else if (ok)
        puts("It has no certificate.");
    if (ok && a->timeline)
        ok = plan_replay_write(plan, trace, costs, a->timeline, &error);
    plan_free(plan);
    trace_free(trace);
    costs_free(costs);
    return ok ? EXIT_DONE : fail(EXIT_USAGE, error);
}

/* What was read for a search; NULL where it was not. */
struct inputs {
    struct trace *trace;
    struct costs *costs;
    struct platform *platform; /* NULL: none is named */
    GPtrArray *layouts;        /* NULL: none is named */
    enum objective objective;
    uint64_t device_budget, host_budget;
};

/* Budgets that are not given: a question's are the platform's. */
static bool read_budgets(const struct arguments *a, struct inputs *in, GError **error)
{
    bool whole = in->platform && question_count(&a->question);

    in->device_budget = whole ? in->platform->device_capacity : 0;
    in->host_budget = whole ? in->platform->host_capacity : UINT64_MAX;
    return (!a->host_memory || size_parse(a->host_memory, &in->host_budget, error)) &&
           (!a->device_memory ||
            (in->trace ? sizes_parse_budget(a->device_memory, in->trace, &in->device_budget, error)
                       : size_parse(a->device_memory, &in->device_budget, error)));
}

static bool read_inputs(const struct arguments *a, struct inputs *in, GError **error)
{
    return objective_parse(a->objective ? a->objective : "time", &in->objective, error) &&
           read_platform(a, NULL, &in->platform, error) &&
           (in->costs = costs_read(a->platform, a->link, error)) &&
           (!a->rest || ((in->trace = trace_read(a->rest[0], error)) &&
                         replay_check_trace(in->trace, a->rest[0], error))) &&
           read_budgets(a, in, error) &&
           ((!a->chunk_size && !a->layout) ||
            (in->layouts = layout_list_parse(a->chunk_size, a->layout, in->trace, error)));
}

/* Proves how good the plan is, and writes it. */
static bool write_result(const struct arguments *a, const struct costs *costs,
                         struct variants_result *result, GError **error)
{
    g_autofree char *platform = NULL, *hash = NULL;

    if (a->platform && !g_file_get_contents(a->platform, &platform, NULL, error))
        return false;
    if (!(hash = certificate_hash_file(a->rest[0], error)))
        return false;
    const struct certificate_source source = {hash, platform, a->link, result->traced};
    if (!certificate_make(result->best->plan, result->best->trace, &source, error))
        return false;
    variants_list(result, result->best->plan->certificate);
    return plan_write(result->best->plan, a->output, error) &&
           (!a->timeline ||
            plan_replay_write(result->best->plan, result->best->trace, costs, a->timeline, error));
}

static struct search_options options_of(const struct arguments *a, const struct inputs *in,
                                        struct progress *progress)
{
    return (struct search_options){
        .objective = in->objective,
        .layouts = in->layouts,
        .platform = in->platform,
        .device_budget = in->trace ? sizes_arena(in->device_budget, in->trace) : in->device_budget,
        .host_budget = in->host_budget,
        .costs = in->costs,
        .seed = (uint32_t)a->seed,
        .time_limit = a->time_limit,
        .threads = (uint32_t)a->threads,
        .progress = progress_update,
        .progress_data = progress};
}

static int answer(const struct arguments *a, const struct inputs *in)
{
    g_autoptr(GError) error = NULL;
    struct progress *progress = progress_begin("candidates");
    const struct search_options options = options_of(a, in, progress);
    const struct question question = {.asked = &a->question,
                                      .search = &options,
                                      .trace = in->trace,
                                      .platform_path = a->platform,
                                      .link = a->link};
    bool stopped = false;
    bool ok = question_answer(&question, stdout, &stopped, &error);

    progress_end(progress);
    if (ok)
        return EXIT_DONE;
    if (stopped)
        return fail(EXIT_FAILED, error);
    bool fits = !g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
    return fail(fits ? EXIT_USAGE : EXIT_DOES_NOT_FIT, error);
}

static bool is_given(const char *option, const char *value)
{
    return option && g_str_equal(option, value);
}

static bool is_any_or_traced(const char *option)
{
    return !option || is_given(option, "any") || is_given(option, "traced");
}

static int search(const struct arguments *a, const struct inputs *in)
{
    g_autoptr(GError) error = NULL;
    struct progress *progress = progress_begin("candidates");
    const struct search_options options = options_of(a, in, progress);
    unsigned scope = (is_given(a->recompute, "traced") ? 0 : RUN_RECOMPUTE) |
                     (is_given(a->offload, "traced") ? 0 : RUN_OFFLOAD) |
                     (is_given(a->embedding, "traced") ? 0 : RUN_EMBEDDING) |
                     (is_given(a->masters, "traced") ? 0 : RUN_MASTERS) |
                     (is_given(a->micro_batch, "any") ? RUN_MICRO_BATCHES : 0);
    struct variants_result *result = variants_search(in->trace, &options, scope, &error);

    progress_end(progress);
    if (!result)
        return fail(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT) ? EXIT_DOES_NOT_FIT
                                                                                : EXIT_USAGE,
                    error);
    bool ok = write_result(a, in->costs, result, &error);
    if (ok)
        explain_result(result->best, stdout);
    if (ok && !replay_is_timed(in->trace))
        fputs("pstar-plan: the trace has no durations: times are those of copies alone\n", stderr);
    if (ok && a->emit)
        ok = emit_beside(a->output, a->emit, result->best->plan, result->best->trace, stdout,
                         &error);
    variants_result_free(result);
    return ok ? EXIT_DONE : fail(EXIT_FAILED, error);
}

/* A plan or, where one is asked for, an answer. */
static int make(const struct arguments *a)
{
    g_autoptr(GError) error = NULL;
    struct inputs in = {0};
    int status;

    if (!read_inputs(a, &in, &error))
        status = fail(EXIT_USAGE, error);
    else if ((a->output && !output_file_has_place(a->output, &error)) ||
             (a->timeline && !output_file_has_place(a->timeline, &error)))
        status = fail(EXIT_FAILED, error);
    else
        status = question_count(&a->question) ? answer(a, &in) : search(a, &in);

    trace_free(in.trace);
    costs_free(in.costs);
    platform_free(in.platform);
    g_clear_pointer(&in.layouts, g_ptr_array_unref);
    return status;
}

static int usage(const char *what)
{
    fprintf(stderr, "pstar-plan: %s; see --help\n", what);
    return EXIT_USAGE;
}

static int ask(const struct arguments *a)
{
    const char *wrong = question_usage(&a->question);
    bool models = question_is_about_models(&a->question);

    if (wrong)
        return usage(wrong);
    if (a->explain || a->verify || a->emit || a->timeline || a->output || a->objective ||
        a->chunk_size || a->layout || a->recompute || a->offload || a->micro_batch ||
        a->time_limit > 0)
        return usage("a question goes with budgets, --platform, --link, --seed and --threads only");
    if (models && (a->rest || !a->platform))
        return usage("--max-model and --max-batch take a --platform and no TRACE");
    if (!models && (!a->rest || a->rest[1]))
        return usage("--min-memory and --sensitivity take one TRACE");
    if (!a->platform && !a->device_memory)
        return usage("--device-memory or --platform is needed");
    return make(a);
}

static int run(const struct arguments *a)
{
    bool one = a->rest && !a->rest[1];

    if (a->threads < 0 || !(a->time_limit >= 0))
        return usage("--threads and --time-limit take numbers from 0 up");
    if (question_count(&a->question))
        return ask(a);
    if (question_usage(&a->question))
        return usage(question_usage(&a->question));
    if (a->emit && !emit_knows(a->emit))
        return usage("--emit takes deepspeed or fsdp");
    if (!is_any_or_traced(a->recompute) || !is_any_or_traced(a->offload) ||
        !is_any_or_traced(a->embedding) || !is_any_or_traced(a->masters) ||
        !is_any_or_traced(a->micro_batch))
        return usage("--recompute, --offload-activations, --embedding, --bytes-per-parameter and "
                     "--micro-batch take any or traced");
    if (is_given(a->recompute, "traced") && is_given(a->offload, "any"))
        return usage("--offload-activations any chooses layers, too");
    if (is_given(a->recompute, "traced") && is_given(a->embedding, "any"))
        return usage("--embedding any chooses layers, too");
    if (is_given(a->recompute, "traced") && is_given(a->masters, "any"))
        return usage("--bytes-per-parameter any chooses layers, too");
    if (is_given(a->recompute, "traced") && is_given(a->micro_batch, "any"))
        return usage("--micro-batch any chooses layers, too");
    if (a->layout && is_given(a->micro_batch, "any"))
        return usage(
            "--layout names the chunks of the traced micro-batches: not with --micro-batch any");
    if (a->explain && a->verify)
        return usage("--explain and --verify, one at a time");
    if (a->explain && a->timeline)
        return usage("--timeline goes with -o or --verify");
    if (a->explain && a->emit && !one)
        return usage("--explain with --emit takes one TRACE");
    if (a->explain)
        return one || !a->rest ? explain(a) : usage("--explain takes one TRACE at most");
    if (!one)
        return usage("one TRACE is needed");
    if (a->verify)
        return verify(a);
    if (!a->device_memory || !a->output)
        return usage("--device-memory and -o are needed");
    return make(a);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.seed = 1};
    g_autoptr(GOptionContext) context = describe(&arguments);
    g_autoptr(GError) error = NULL;
    int status = EXIT_DONE;

    setlocale(LC_CTYPE, "");
    if (!g_option_context_parse(context, &argc, &argv, &error))
        status = fail(EXIT_USAGE, error);
    else if (arguments.version)
        puts("pstar-plan " PSTAR_VERSION);
    else
        status = run(&arguments);
    arguments_clear(&arguments);
    return output_end("pstar-plan", status);
}
