/* pstar: one command in front of the programs. `pstar plan` becomes the pstar-plan beside it. */
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/program.h"

#include <errno.h>
#include <unistd.h>

/* Replaces this process. Returns only if the program cannot be run. */
static int run(G_GNUC_UNUSED int argc, char **argv)
{
    const struct console console = {.program = "pstar"};
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *folder = self ? g_path_get_dirname(self) : NULL;
    g_autofree char *name = g_strconcat("pstar-", argv[0], NULL);
    g_autofree char *path = folder ? g_build_filename(folder, name, NULL) : g_strdup(name);
    argv[0] = name;
    execvp(path, argv); /* without /proc, the program on the PATH */
    g_autofree char *message = g_strdup_printf("%s cannot be run: %s", path, g_strerror(errno));
    console_error(&console, message);
    return STATUS_FAILED;
}

int main(int argc, char **argv)
{
    static const struct command commands[] = {
        {"run", "", "train a model that may exceed the device's memory", run},
        {"tokens", "", "turn a text into the tokens of a model", run},
        {"tokenize", "", "turn texts into the tokens of a model with the model's own tokenizer",
         run},
        {"collect", "", "record a training step of any program that is annotated with NVTX", run},
        {"trace", "", "show, check, import, export and synthesise traces", run},
        {"sim", "", "replay a step for any chunk size, policy, strategy, budget and link", run},
        {"plan", "", "search for the best plan, explain plans and verify them", run},
        {"report", "", "say and draw why a step takes as long as it does, and what to change", run},
    };
    const struct command_set set = {
        .name = "pstar",
        .purpose = "predict and train models that are larger than the memory of the device",
        .description =
            "Each command is a program of its own: pstar plan runs pstar-plan, which lies beside "
            "pstar, with the same arguments. A training is recorded by collect, or described by "
            "trace synth. sim replays the recorded step under other rules, plan searches for the "
            "best schedule, run trains with it, and report compares all of them.",
        .commands = commands,
        .count = G_N_ELEMENTS(commands),
        .are_programs = true};
    return commands_main(&set, argc, argv);
}
