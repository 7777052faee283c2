/* pstar-run: trains a GPT-2 family model by a plan. */
#include "engine/probe/probe.h"
#include "engine/train/trainer.h"
#include "traces/output_file.h"

#include <locale.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct run_options options;
    GError *error = NULL;
    int status = 0;
    setlocale(LC_CTYPE, "");
    if (!run_options_parse(&options, &argc, &argv, &error))
        status = 2;
    else if (options.version)
        puts("pstar-run " PSTAR_VERSION);
    else if (options.probe)
        status = probe_run(options.device, options.output ? options.output : "machine.json",
                           &error);
    else
        status = trainer_run(&options, &error);
    if (error)
        fprintf(stderr, "pstar-run: %s\n", error->message);
    g_clear_error(&error);
    run_options_clear(&options);
    return output_end("pstar-run", status);
}
