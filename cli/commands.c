#include "cli/commands.h"

#include "cli/completion.h"
#include "cli/console.h"
#include "cli/manual.h"
#include "cli/program.h"
#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

static const struct command *find(const struct command_set *set, const char *name)
{
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->commands[i].name, name) == 0)
            return &set->commands[i];
    return NULL;
}

static void print_help(const struct command_set *set, FILE *out)
{
    int width = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct command *command = &set->commands[i];
        width = MAX(width, (int)(strlen(command->name) + strlen(command->arguments)) + 1);
    }
    fprintf(out, "Usage: %s COMMAND [OPTIONS] ... - %s\n\n", set->name, set->purpose);
    for (size_t i = 0; i < set->count; i++) {
        const struct command *command = &set->commands[i];
        g_autofree char *use = g_strjoin(" ", command->name, command->arguments, NULL);
        fprintf(out, "  %-*s  %s\n", width, use, command->purpose);
    }
    fprintf(out,
            "\n%s COMMAND --help, or %s help COMMAND, lists the options of a command.\n"
            "%s --version prints the version.\n",
            set->name, set->name, set->name);
}

/* Runs the command with `first` and the rest of the arguments. */
static int run_with(const struct command *command, const char *first, int argc, char **argv)
{
    g_autoptr(GPtrArray) arguments = g_ptr_array_new();
    g_ptr_array_add(arguments, (char *)command->name);
    if (first)
        g_ptr_array_add(arguments, (char *)first);
    for (int i = 0; i < argc; i++)
        g_ptr_array_add(arguments, argv[i]);
    g_ptr_array_add(arguments, NULL);
    return command->run((int)arguments->len - 1, (char **)arguments->pdata);
}

static int refuse(const struct command_set *set, const char *name)
{
    const struct console console = {.program = set->name};
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    g_autoptr(GString) list = g_string_new(NULL);
    for (size_t i = 0; i < set->count; i++) {
        g_ptr_array_add(names, (char *)set->commands[i].name);
        g_string_append_printf(list, "%s%s",
                               i == 0                ? ""
                               : i + 1 == set->count ? " or "
                                                     : ", ",
                               set->commands[i].name);
    }
    const char *meant = suggest(name, names);
    g_autofree char *hint = meant ? g_strdup_printf("did you mean %s?", meant)
                                  : g_strdup_printf("use %s", list->str);
    g_autofree char *message = g_strdup_printf("there is no command '%s': %s", name, hint);
    console_error(&console, message);
    return STATUS_BAD_INPUT;
}

/* Lets the command complete its own words, or completes its name. */
static int complete(const struct command_set *set, int argc, char **argv)
{
    int skipped = argc > 1 && strcmp(argv[0], "help") == 0;
    const struct command *command = argc - skipped > 1 ? find(set, argv[skipped]) : NULL;
    if (command)
        return run_with(command, COMPLETION_ARGUMENT, argc - skipped - 1, argv + skipped + 1);
    if (argc - skipped > 1)
        return STATUS_DONE;
    const char *word = argc ? argv[argc - 1] : "";
    for (size_t i = 0; i < set->count; i++)
        completion_offer(word, set->commands[i].name, set->commands[i].purpose);
    completion_offer(word, "help", "print the options of a command");
    completion_offer(word, "--help", "print the commands");
    completion_offer(word, "--version", "print the version");
    return STATUS_DONE;
}

static int help(const struct command_set *set, int argc, char **argv)
{
    const struct command *command = argc ? find(set, argv[0]) : NULL;
    if (argc && !command)
        return refuse(set, argv[0]);
    if (!command) {
        print_help(set, stdout);
        return STATUS_DONE;
    }
    if (argc == 1)
        return run_with(command, "--help", 0, NULL);
    char *rest[] = {argv[1], "--help"}; /* of a command that has commands */
    return run_with(command, NULL, G_N_ELEMENTS(rest), rest);
}

static int print_manual(const struct command_set *set)
{
    manual_print_commands(set);
    for (size_t i = 0; !set->are_programs && i < set->count; i++) {
        int status = run_with(&set->commands[i], MANUAL_ARGUMENT, 0, NULL);
        if (status != STATUS_DONE)
            return status;
    }
    manual_print_end(set);
    return STATUS_DONE;
}

int commands_main(const struct command_set *set, int argc, char **argv)
{
    program_check_output(set->name);
    if (argc < 2) {
        print_help(set, stderr);
        return STATUS_BAD_INPUT;
    }
    const char *name = argv[1];
    const struct command *command = find(set, name);
    if (command)
        return run_with(command, NULL, argc - 2, argv + 2);
    if (strcmp(name, "help") == 0)
        return help(set, argc - 2, argv + 2);
    if (strcmp(name, COMPLETION_ARGUMENT) == 0)
        return complete(set, argc - 2, argv + 2);
    if (strcmp(name, MANUAL_ARGUMENT) == 0)
        return print_manual(set);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        print_help(set, stdout);
    else if (strcmp(name, "--version") == 0)
        printf("%s %s\n", set->name, PSTAR_VERSION);
    else
        return refuse(set, name);
    return STATUS_DONE;
}
