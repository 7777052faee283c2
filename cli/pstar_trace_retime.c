/* pstar-trace retime: a trace's times for another machine. */
#include "base/printable.h"
#include "cli/pstar_trace.h"
#include "models/retime.h"

#include <stdio.h>

enum { NO_PRECISION = UINT8_MAX };

struct retime_arguments {
    char *platform, *output, **files;
    uint8_t precision; /* enum model_precision, or NO_PRECISION */
    bool lists_platforms;
};

static int run(void *data, G_GNUC_UNUSED const struct console *console, GError **error)
{
    const struct retime_arguments *a = data;
    if (!a->files || a->files[1] || !a->platform || !a->output)
        return options_refuse(error, "retime needs one TRACE, --platform FILE and -o FILE");
    struct platform *platform = platform_read(a->platform, error);
    enum model_precision precision = (enum model_precision)a->precision;
    double seconds;
    if (platform &&
        trace_retime_file(a->files[0], platform, a->precision == NO_PRECISION ? NULL : &precision,
                          a->output, &seconds, error))
        text_print_line(stdout, "%s: all operators take %.4g s on %s", a->output, seconds,
                        platform->name);
    platform_free(platform);
    return STATUS_DONE;
}

int pstar_trace_retime(int argc, char **argv)
{
    struct retime_arguments a = {.precision = NO_PRECISION};
    const struct option options[] = {
        {.shared = OPTION_PLATFORM, .file = &a.platform, .help = "operators get its times"},
        {.shared = OPTION_PRECISION,
         .choice = &a.precision,
         .help =
             "of matrix products; default: the trace's. A loop under autocast has parameters in "
             "fp32 and products in bf16"},
        {.shared = OPTION_LIST_PLATFORMS, .flag = &a.lists_platforms, .use = OPTION_PRINTS},
        {.shared = OPTION_OUTPUT,
         .file = &a.output,
         .use = OPTION_WRITES_FILE,
         .value = "FILE.pstar"},
        {.arguments = &a.files, .value = "TRACE"},
    };
    return pstar_trace_command(
        "retime",
        "Writes a trace with the times that its operators take on another machine, by the "
        "operations and bytes that the trace holds.",
        &(struct example){"Ask what a step that was recorded here takes on a GPU.",
                          "pstar-trace retime run.pstar --platform rtx-4090 -o there.pstar"},
        options, G_N_ELEMENTS(options), run, &a, argc, argv);
}
