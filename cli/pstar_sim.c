/* pstar-sim: what every chunk size, policy and budget would move, and how long it would take. */
#include "policies/plugin.h"
#include "sim/progress.h"
#include "sim/replay.h"
#include "sim/sizes.h"
#include "sim/sweep_report.h"
#include "traces/output_file.h"
#include "traces/size.h"
#include "traces/trace_file.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DOES_NOT_FIT = 3 };

#define ALL_PROCESSORS G_MAXINT

struct arguments {
    char *device_memory, *host_memory, *chunk_size, *layout, *policy, *strategy, *look_ahead, *link,
        *pinned_memory, *platform, *json, *csv, *emit_plan, *timeline;
    char **rest;
    int threads, stalls;
    gboolean version, fits, phases;
};

static GOptionContext *describe(struct arguments *a)
{
    const GOptionEntry entries[] = {
        {"device-memory", 0, 0, G_OPTION_ARG_STRING, &a->device_memory,
         "Budgets: sizes, or, as in 30%, shares of the model data beside all activations",
         "SIZE[,..]"},
        {"chunk-size", 0, 0, G_OPTION_ARG_STRING, &a->chunk_size,
         "Range in steps of sqrt(2), or list; or a size a list of chunks: param=64MiB,master=1GiB; "
         "default: 13 sizes about the mean tensor",
         "A:B|LIST|NAME=SIZE,.."},
        {"layout", 0, 0, G_OPTION_ARG_FILENAME, &a->layout,
         "Chunks from a layout file or a plan, instead of sizes", "FILE"},
        {"policy", 0, 0, G_OPTION_ARG_STRING, &a->policy,
         "Eviction policies; default: all, or none beside --strategy", "LIST|all"},
        {"strategy", 0, 0, G_OPTION_ARG_STRING, &a->strategy,
         "Other systems' ways, as in zero-offload,twinflow:0.3", "LIST|all"},
        {"look-ahead", 0, 0, G_OPTION_ARG_STRING, &a->look_ahead,
         "Moments of prefetching; default: 0", "N[,..]"},
        {"host-memory", 0, 0, G_OPTION_ARG_STRING, &a->host_memory,
         "Budget of host memory; default: unlimited", "SIZE"},
        {"link", 0, 0, G_OPTION_ARG_STRING, &a->link,
         "Rates of the copies; default: the platform's", "h2d=RATE,d2h=RATE"},
        {"pinned-memory", 0, 0, G_OPTION_ARG_STRING, &a->pinned_memory,
         "How much of the host's chunks is pinned, for the clock; default: all", "SIZE"},
        {"platform", 0, 0, G_OPTION_ARG_FILENAME, &a->platform,
         "Measured rates; default: 8 GB/s each way, 16 GB/s of device memory", "FILE"},
        {"threads", 0, 0, G_OPTION_ARG_INT, &a->threads, "Default: all processors", "N"},
        {"json", 0, 0, G_OPTION_ARG_FILENAME, &a->json, "Write the results for programs", "FILE"},
        {"csv", 0, 0, G_OPTION_ARG_FILENAME, &a->csv, "Write the results for spreadsheets", "FILE"},
        {"emit-plan", 0, 0, G_OPTION_ARG_FILENAME, &a->emit_plan,
         "Write the best one (*) as a plan for pstar-run --plan; takes one budget", "PLAN"},
        {"timeline", 0, 0, G_OPTION_ARG_FILENAME, &a->timeline,
         "Write when everything of the best one runs, for chrome://tracing; takes one budget",
         "FILE"},
        {"stalls", 0, 0, G_OPTION_ARG_INT, &a->stalls,
         "Print the best one's longest waits: where, for what, on which resource", "N"},
        {"phases", 0, 0, G_OPTION_ARG_NONE, &a->phases,
         "Forward, backward and update of the best one: time, busy shares, link rates, peaks",
         NULL},
        {"fits", 0, 0, G_OPTION_ARG_NONE, &a->fits,
         "Print how well the platform's copies fit latency and rate", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &a->version, "Print the version", NULL},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &a->rest, NULL, "TRACE"},
        {0}};
    GOptionContext *context = g_option_context_new(NULL);
    g_autoptr(GString) policies = g_string_new("Policies:\n");

    for (const struct policy_ops *const *p = policy_all; *p; p++)
        g_string_append_printf(policies, "  %-12s %s\n", (*p)->name, (*p)->summary);
    g_string_append_printf(policies, "  %-12s %s\n", "./mine.so",
                           "one of your own: docs/policies.md");
    g_string_append(policies, "\nStrategies:\n");
    for (const struct strategy_ops *const *s = strategy_all; *s; s++) {
        g_autofree char *name = g_strconcat((*s)->name, (*s)->parameter ? ":" : "", (*s)->parameter,
                                            NULL);
        g_string_append_printf(policies, "  %-16s %s\n", name, (*s)->summary);
    }
    g_option_context_add_main_entries(context, entries, NULL);
    g_option_context_set_summary(
        context, "Replays one training iteration under every combination of chunk size, eviction\n"
                 "policy and memory budget, and prints what each would move and take.");
    g_option_context_set_description(context, policies->str);
    return context;
}

static void arguments_clear(struct arguments *a)
{
    char *strings[] = {a->layout,     a->device_memory, a->host_memory,   a->chunk_size, a->policy,
                       a->look_ahead, a->link,          a->pinned_memory, a->platform,   a->json,
                       a->csv,        a->strategy,      a->emit_plan,     a->timeline};
    for (size_t i = 0; i < G_N_ELEMENTS(strings); i++)
        g_free(strings[i]);
    g_strfreev(a->rest);
}

/* "all", "" or a list of names and plug-ins; returns an array that ends with NULL. */
static GPtrArray *parse_policies(const char *text, GError **error)
{
    GPtrArray *policies = g_ptr_array_new();
    g_auto(GStrv) names = g_strsplit(text, ",", -1);

    for (char **name = names; *name; name++) {
        const struct policy_ops *policy = NULL;
        if (g_str_equal(*name, "all"))
            for (const struct policy_ops *const *p = policy_all; *p; p++)
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

struct inputs {
    struct trace *trace;
    struct costs *costs;
    GArray *budgets, *look_aheads;
    GPtrArray *layouts, *policies, *strategies; /* strategies: NULL where none are wanted */
    struct platform *platform;
    uint64_t host_budget;
};

/* Policies beside strategies are those that are named. */
static bool read_ways(const struct arguments *a, struct inputs *in, GError **error)
{
    const char *policies = a->policy ? a->policy : a->strategy ? "" : "all";

    if (a->policy && !*a->policy) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--policy '': names none");
        return false;
    }
    if (!(in->policies = parse_policies(policies, error)) ||
        (a->strategy && !(in->strategies = strategy_parse_list(a->strategy, error))))
        return false;
    if (!a->strategy || !a->platform)
        return true;
    if ((in->platform = platform_read(a->platform, error)) && a->link)
        platform_keep_apart(in->platform);
    return in->platform;
}

static bool read_costs(const struct arguments *a, struct inputs *in, GError **error)
{
    uint64_t pinned = UINT64_MAX;

    return (in->costs = costs_read(a->platform, a->link, error)) &&
           (!a->pinned_memory || (size_parse(a->pinned_memory, &pinned, error) &&
                                  costs_set_pinned(in->costs, pinned, error)));
}

static bool read_inputs(const struct arguments *a, struct inputs *in, GError **error)
{
    in->host_budget = UINT64_MAX;
    return (!a->host_memory || size_parse(a->host_memory, &in->host_budget, error)) &&
           (in->look_aheads = sizes_parse_counts(a->look_ahead, error)) &&
           read_ways(a, in, error) && read_costs(a, in, error) &&
           (in->trace = trace_read(a->rest[0], error)) &&
           replay_check_trace(in->trace, a->rest[0], error) &&
           (in->budgets = sizes_parse_budgets(a->device_memory, in->trace, error)) &&
           (in->layouts = layout_list_parse(a->chunk_size, a->layout, in->trace, error));
}

static void inputs_clear(struct inputs *in)
{
    trace_free(in->trace);
    costs_free(in->costs);
    g_clear_pointer(&in->layouts, g_ptr_array_unref);
    g_clear_pointer(&in->budgets, g_array_unref);
    g_clear_pointer(&in->look_aheads, g_array_unref);
    g_clear_pointer(&in->policies, g_ptr_array_unref);
    g_clear_pointer(&in->strategies, g_ptr_array_unref);
    platform_free(in->platform);
}

static int fail(int status, const GError *error)
{
    fprintf(stderr, "pstar-sim: %s\n", error->message);
    return status;
}

/* NULL, or what a policy answered wrongly first. */
static const char *find_failure(const struct sweep *sweep)
{
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (sweep->rows[r].failed)
            return sweep->rows[r].reason;
    return NULL;
}

static int refuse(const struct sweep *sweep)
{
    const struct sweep_row *least = &sweep->rows[0];

    for (uint32_t r = 1; r < sweep->row_count; r++)
        if (!least->least_device_bytes ||
            (sweep->rows[r].least_device_bytes &&
             sweep->rows[r].least_device_bytes < least->least_device_bytes))
            least = &sweep->rows[r];
    if (least->least_device_bytes <= least->device_budget) { /* it is not the device */
        fprintf(stderr, "pstar-sim: nothing fits; %s\n", least->reason);
        return EXIT_DOES_NOT_FIT;
    }
    g_autofree char *device = size_format(least->least_device_bytes);
    g_autofree char *chunk = size_format(least->chunk_bytes);
    fprintf(stderr, "pstar-sim: nothing fits; the least device memory is %s, with chunks of %s\n",
            device, chunk);
    return EXIT_DOES_NOT_FIT;
}

static bool looks_at_best(const struct arguments *a)
{
    return a->emit_plan || a->timeline || a->stalls || a->phases;
}

/* The first in rank, if it fits: its plan, and what it does in time. */
static bool show_best(const struct arguments *a, const struct inputs *in,
                      const struct sweep_options *options, struct sweep *sweep, GError **error)
{
    g_autoptr(GArray) ranked = sweep_rank(sweep);
    const struct sweep_row *best = &sweep->rows[g_array_index(ranked, uint32_t, 0)];
    if (!best->fits)
        return true;
    struct timeline *timeline = timeline_new();
    struct plan *plan = sweep_plan(in->trace, options, best, timeline);
    bool written = (!a->emit_plan || plan_write(plan, a->emit_plan, error)) &&
                   (!a->timeline ||
                    timeline_write(timeline, plan, in->trace, in->costs, a->timeline, error));

    if (written && a->stalls)
        timeline_print_stalls(timeline, plan, in->trace, (uint32_t)a->stalls, stdout);
    if (written && a->phases)
        phases_print(best->phases, stdout);
    plan_free(plan);
    timeline_free(timeline);
    return written;
}

static void print_fit(const char *name, const struct fit *f)
{
    if (f->points)
        printf("%-20s %6u %8.2f (%6.2f, %6.2f) %9.3f (%7.3f, %7.3f) %9.1f %% %9.1f %%\n", name,
               f->points, f->latency * 1e6, f->latency_interval.low * 1e6,
               f->latency_interval.high * 1e6, f->rate * 1e-9, f->rate_interval.low * 1e-9,
               f->rate_interval.high * 1e-9, f->mean_error * 100, f->worst_error * 100);
}

static void print_fits(const struct costs *costs)
{
    printf("\n%-20s %6s %24s %26s %11s %11s\n", "copies", "points", "latency, us (95 %)",
           "rate, GB/s (95 %)", "mean error", "worst");
    print_fit("H2D", &costs->h2d.fit);
    print_fit("D2H", &costs->d2h.fit);
    print_fit("H2D, D2H as well", &costs->both[0].fit);
    print_fit("D2H, H2D as well", &costs->both[1].fit);
    print_fit("H2D, pageable", &costs->pageable[0].fit);
    print_fit("D2H, pageable", &costs->pageable[1].fit);
    print_fit("H2D, a core's time", &costs->threads.copy[0].fit);
    print_fit("D2H, a core's time", &costs->threads.copy[1].fit);
}

static int report(const struct arguments *a, const struct inputs *in,
                  const struct sweep_options *options, struct sweep *sweep)
{
    g_autoptr(GError) error = NULL;
    bool complete = true, any = false;

    sweep_print(sweep, stdout);
    if (!replay_is_timed(in->trace))
        fputs("pstar-sim: the trace has no durations: times are those of copies alone\n", stderr);
    for (uint32_t r = 0; r < sweep->row_count; r++) {
        any |= sweep->rows[r].fits;
        complete &= sweep->rows[r].done;
    }
    if (complete && looks_at_best(a) && !show_best(a, in, options, sweep, &error))
        return fail(EXIT_FAILED, error);
    if (a->json && !sweep_write_json(sweep, in->trace, a->rest[0], in->costs, a->json, &error))
        return fail(EXIT_FAILED, error);
    if (a->csv && !sweep_write_csv(sweep, a->csv, &error))
        return fail(EXIT_FAILED, error);
    if (a->fits)
        print_fits(in->costs);
    if (!complete)
        fputs("pstar-sim: interrupted; what was done is above\n", stderr);
    const char *failure = find_failure(sweep);
    if (failure) {
        fprintf(stderr, "pstar-sim: %s\n", failure);
        return EXIT_USAGE;
    }
    return !complete ? EXIT_FAILED : any ? EXIT_DONE : refuse(sweep);
}

static int run(const struct arguments *a)
{
    struct inputs in = {0};
    g_autoptr(GError) error = NULL;
    int status = EXIT_USAGE;

    if (!read_inputs(a, &in, &error))
        fail(status, error);
    else if (looks_at_best(a) && in.budgets->len > 1)
        fputs("pstar-sim: --emit-plan, --timeline, --stalls and --phases take one budget; see "
              "--help\n",
              stderr);
    else {
        struct progress *progress = progress_begin("configurations");
        struct sweep_options options = {
            .layouts = in.layouts,
            .budgets = in.budgets,
            .look_aheads = in.look_aheads,
            .policies = (const struct policy_ops *const *)in.policies->pdata,
            .strategies = in.strategies,
            .platform = in.platform,
            .host_budget = in.host_budget,
            .phases = a->phases,
            .costs = in.costs,
            .threads = a->threads == ALL_PROCESSORS ? 0 : (uint32_t)a->threads,
            .progress = progress_update,
            .progress_data = progress};
        struct sweep *sweep = sweep_run(in.trace, &options);
        progress_end(progress);
        status = report(a, &in, &options, sweep);
        sweep_free(sweep);
    }
    inputs_clear(&in);
    return status;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.threads = ALL_PROCESSORS};
    g_autoptr(GOptionContext) context = describe(&arguments);
    g_autoptr(GError) error = NULL;
    int status = EXIT_USAGE;

    setlocale(LC_CTYPE, "");
    if (!g_option_context_parse(context, &argc, &argv, &error))
        fail(status, error);
    else if (arguments.version) {
        puts("pstar-sim " PSTAR_VERSION);
        status = EXIT_DONE;
    } else if (arguments.threads < 1) {
        fprintf(stderr, "pstar-sim: --threads %d: not from 1\n", arguments.threads);
    } else if (arguments.stalls < 0) {
        fprintf(stderr, "pstar-sim: --stalls %d: not from 0\n", arguments.stalls);
    } else if (!arguments.rest || arguments.rest[1] || !arguments.device_memory)
        fputs("pstar-sim: one TRACE and --device-memory are needed; see --help\n", stderr);
    else
        status = run(&arguments);
    arguments_clear(&arguments);
    return output_end("pstar-sim", status);
}
