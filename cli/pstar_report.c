/* pstar-report: pictures, tables and a page of traces, plans, sweeps and run logs. */
#include "base/failure.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "report/report.h"

#include <stdio.h>

struct report_arguments {
    char *folder, **files;
    bool json, text;
};

/* Returns what to print, or NULL on error. With --text the folder's summary is part of the text. */
static char *make_report(const struct report_arguments *a, bool folder,
                         const struct report_progress *progress, GError **error)
{
    const char *const *files = (const char *const *)a->files;
    enum report_format format = a->json ? REPORT_JSON : REPORT_TEXT;
    char *summary = folder ? report_write(files, a->folder, format, progress, error) : NULL;
    if (!a->text || (folder && !summary))
        return summary;
    g_free(summary);
    return report_text(files, progress, error);
}

/* As make_report. A signal that comes leaves nothing behind; *status says which. A terminal sends
 * its signal to gnuplot, too, whose failure then says nothing. */
static char *make_stoppable(const struct report_arguments *a, bool folder,
                            const struct console *console, int *status, GError **error)
{
    struct progress *shown = progress_begin(console, "figures", true);
    const struct report_progress progress = {progress_update, shown};
    char *summary = make_report(a, folder, &progress, error);
    int signal = progress_signal(shown);
    progress_end(shown);
    if (signal && !summary) {
        g_clear_error(error);
        console_warn(console, "interrupted: no report was written");
        *status = STATUS_SIGNALLED + signal;
    }
    return summary;
}

static int run(void *data, const struct console *console, GError **error)
{
    const struct report_arguments *a = data;
    bool folder = a->folder && *a->folder;
    if (!a->files || (!folder && !a->text) || (a->json && a->text))
        return options_refuse(error, "usage: pstar-report FILES... -o DIR, or --text");
    int status = STATUS_DONE;
    char *summary = make_stoppable(a, folder, console, &status, error);
    if (!summary && g_error_matches(*error, REPORT_ERROR, REPORT_ERROR_FAILED))
        failure_mark(error, FAILURE_RUNNING);
    if (summary)
        fputs(summary, stdout);
    g_free(summary);
    return status;
}

int main(int argc, char **argv)
{
    struct report_arguments a = {0};
    const struct option options[] = {
        {.shared = OPTION_OUTPUT,
         .file = &a.folder,
         .use = OPTION_WRITES_FOLDER,
         .help = "a folder",
         .value = "DIR"},
        {.shared = OPTION_JSON,
         .flag = &a.json,
         .use = OPTION_PRINTS,
         .help = "to standard output, instead of tables"},
        {.name = "text",
         .flag = &a.text,
         .use = OPTION_PRINTS,
         .help = "Print the figures as well, drawn with characters; -o may be left out"},
        {.arguments = &a.files, .value = "FILES..."},
    };
    static const struct example examples[] = {
        {"Write a page about a step, a sweep and a plan.",
         "pstar-report run.pstar sweep.json plan.json -o report"},
        {"Print what a run took, without a page.", "pstar-report run.pstar run.jsonl --text"},
    };
    const struct option_group group = {.options = options, .count = G_N_ELEMENTS(options)};
    const struct program program = {
        .name = "pstar-report",
        .purpose = "say and draw why a step takes as long as it does, and what to change",
        .examples = examples,
        .example_count = G_N_ELEMENTS(examples),
        .summary =
            "Explains why a training step is slow and what to change. Reads traces (*.pstar),\n"
            "timelines (pstar-sim --timeline), plans (plan.json), sweeps (pstar-sim --json) and\n"
            "run logs (pstar-run --log) in any mixture. DIR/index.html shows everything;\n"
            "DIR/figures holds each figure as SVG and PNG, with its gnuplot script and data.",
        .groups = &group,
        .group_count = 1,
        .run = run,
        .data = &a};
    return program_main(&program, argc, argv);
}
