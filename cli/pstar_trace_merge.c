/* pstar-trace merge: one trace of all ranks of a run, and who waited for whom. */
#include "base/failure.h"
#include "base/printable.h"
#include "base/size.h"
#include "cli/pstar_trace.h"
#include "traces/merge.h"
#include "traces/summary.h"
#include "traces/trace_file.h"

#include <stdio.h>
#include <sys/stat.h>

struct merge_arguments {
    char *output, **files;
    uint8_t durations; /* enum durations */
};

enum durations { DURATIONS_MEDIAN, DURATIONS_SLOWEST };

static void print_waits(const struct merge *merge, char *const *files)
{
    printf("%-11s %-11s %-11s %-12s\n", "computing", "exchanging", "waiting", "others wait");
    for (uint32_t r = 0; r < merge->count; r++) {
        const struct merge_rank *rank = &merge->rank[r];
        g_autofree char *computing = summary_format_time(rank->computing_ns);
        g_autofree char *exchanging = summary_format_time(rank->exchanging_ns);
        g_autofree char *waiting = summary_format_time(rank->waiting_ns);
        g_autofree char *last = g_strdup_printf("%u of %u", rank->last, merge->exchanges);
        text_print_line(stdout, "%-11s %-11s %-11s %-12s %s", computing, exchanging, waiting, last,
                        files[r]);
    }
}

static void print_network(const struct merge *merge)
{
    g_autofree char *bytes = size_format(merge->received_bytes);
    g_autofree char *time = summary_format_time(merge->network_ns);
    double seconds = (double)merge->network_ns * 1e-9;
    g_autofree char *rate =
        size_format(seconds > 0 ? (uint64_t)((double)merge->received_bytes / seconds) : 0);
    printf("a rank receives %s in %u exchanges, %u of them gathers, which take %s without waiting: "
           "%s/s\n",
           bytes, merge->exchanges, merge->gathers, time, rate);
}

static bool merge_all(const struct merge_arguments *a, struct trace *const *traces,
                      struct gathers *const *gathers, uint32_t count, GError **error)
{
    struct merge *merge = merge_traces(traces, gathers, a->files, count,
                                       a->durations == DURATIONS_SLOWEST, error);
    bool ok = merge &&
              (trace_write(merge->trace, a->output, error) || failure_mark(error, FAILURE_RUNNING));
    if (ok) {
        print_waits(merge, a->files);
        print_network(merge);
    }
    merge_free(merge);
    return ok;
}

static void free_trace(gpointer trace)
{
    trace_free(trace);
}

static void free_gathers(gpointer gathers)
{
    gathers_free(gathers);
}

/* Reads a trace, and the gathers of its recording, of which there may be none. */
static bool add_file(GPtrArray *traces, GPtrArray *gathers, const char *path, GError **error)
{
    struct trace *trace = trace_read(path, error);
    struct gathers *found = NULL;
    bool ok = trace && gathers_read(path, &found, error);
    if (trace)
        g_ptr_array_add(traces, trace);
    g_ptr_array_add(gathers, found);
    return ok;
}

/* A rank's trace that stands for another one, too, would let nobody see how that one fared. */
static bool are_different(char *const *files, GError **error)
{
    struct stat first, second;
    for (; *files; files++)
        for (char *const *other = files + 1; *other; other++)
            if (stat(*files, &first) == 0 && stat(*other, &second) == 0 &&
                first.st_dev == second.st_dev && first.st_ino == second.st_ino)
                return options_refuse(error, "%s: is the trace of one rank, and is given twice",
                                      *other);
    return true;
}

static int run(void *data, G_GNUC_UNUSED const struct console *console, GError **error)
{
    const struct merge_arguments *a = data;
    g_autoptr(GPtrArray) traces = g_ptr_array_new_with_free_func(free_trace);
    g_autoptr(GPtrArray) gathers = g_ptr_array_new_with_free_func(free_gathers);
    if (!a->files || !a->files[1] || !a->output)
        return options_refuse(error, "merge needs a TRACE of each rank and -o FILE");
    if (!are_different(a->files, error))
        return STATUS_BAD_INPUT;
    for (char **file = a->files; *file; file++)
        if (!add_file(traces, gathers, *file, error))
            return STATUS_BAD_INPUT;
    merge_all(a, (struct trace *const *)traces->pdata, (struct gathers *const *)gathers->pdata,
              traces->len, error);
    return STATUS_DONE;
}

int pstar_trace_merge(int argc, char **argv)
{
    struct merge_arguments a = {0};
    const struct option options[] = {
        {.name = "durations",
         .choice = &a.durations,
         .help =
             "What an operator takes that waits for no rank: the median of the ranks (default), "
             "or the slowest rank's time",
         .value = "median|slowest"},
        {.shared = OPTION_OUTPUT,
         .file = &a.output,
         .use = OPTION_WRITES_FILE,
         .value = "FILE.pstar"},
        {.arguments = &a.files, .value = "TRACE..."},
    };
    return pstar_trace_command(
        "merge",
        "Makes one trace of those that pstar-collect recorded of each rank of a run, and prints "
        "which ranks wait in exchanges, and which the others wait for.",
        &(struct example){"Merge the traces of two ranks.",
                          "pstar-trace merge run-0.pstar run-1.pstar -o ranks.pstar"},
        options, G_N_ELEMENTS(options), run, &a, argc, argv);
}
