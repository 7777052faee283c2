/* pstar-report: pictures, tables and a page of traces, plans, sweeps and run logs. */
#include "report/report.h"
#include "traces/output_file.h"

#include <locale.h>
#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2 };

struct options {
    char *folder;
    gboolean json, text, version;
    char **files;
};

static bool parse(struct options *options, int *argc, char ***argv, GError **error)
{
    const GOptionEntry entries[] = {
        {"output", 'o', 0, G_OPTION_ARG_FILENAME, &options->folder, "Write the report here", "DIR"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &options->json, "Print JSON instead of tables", NULL},
        {"text", 0, 0, G_OPTION_ARG_NONE, &options->text,
         "Print the figures too, as characters; -o may be left out", NULL},
        {"version", 0, 0, G_OPTION_ARG_NONE, &options->version, "Print the version", NULL},
        {G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &options->files, NULL, "FILES..."},
        {0}};
    GOptionContext *context = g_option_context_new(NULL);
    g_option_context_set_summary(
        context,
        "Says why a training step is slow and what to change, from traces (*.pstar), timelines\n"
        "(pstar-sim --timeline), plans (plan.json), sweeps (pstar-sim --json) and run logs\n"
        "(pstar-run --log) in any mixture: DIR/index.html shows everything, DIR/figures\n"
        "holds each figure as SVG and PNG with its gnuplot script and data.");
    g_option_context_add_main_entries(context, entries, NULL);
    bool parsed = g_option_context_parse(context, argc, argv, error);
    g_option_context_free(context);
    return parsed;
}

/* What to print; NULL on error. With --text the folder's summary is part of the text. */
static char *print_of(const struct options *options, bool folder, GError **error)
{
    const char *const *files = (const char *const *)options->files;
    char *summary = folder ? report_write(files, options->folder,
                                          options->json ? REPORT_JSON : REPORT_TEXT, error)
                           : NULL;
    if (!options->text || (folder && !summary))
        return summary;
    g_free(summary);
    return report_text(files, error);
}

static int run(const struct options *options, GError **error)
{
    if (options->version) {
        puts("pstar-report " PSTAR_VERSION);
        return EXIT_DONE;
    }
    bool folder = options->folder && *options->folder;
    if (!options->files || (!folder && !options->text) || (options->json && options->text)) {
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT,
                    "usage: pstar-report FILES... -o DIR, or --text (--help says more)");
        return EXIT_BAD_INPUT;
    }
    char *summary = print_of(options, folder, error);
    if (!summary)
        return g_error_matches(*error, REPORT_ERROR, REPORT_ERROR_FAILED) ? EXIT_FAILED
                                                                          : EXIT_BAD_INPUT;
    fputs(summary, stdout);
    g_free(summary);
    return EXIT_DONE;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    GError *error = NULL;
    setlocale(LC_CTYPE, "");
    int status = parse(&options, &argc, &argv, &error) ? run(&options, &error) : EXIT_BAD_INPUT;
    if (error)
        fprintf(stderr, "pstar-report: %s\n", error->message);
    g_clear_error(&error);
    g_free(options.folder);
    g_strfreev(options.files);
    return output_end("pstar-report", status);
}
