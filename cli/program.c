#include "cli/program.h"

#include "chunks/plan.h"
#include "traces/failure.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>

enum exit_status exit_status_of(const GError *error)
{
    if (!error)
        return STATUS_DONE;
    if (g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT) ||
        g_error_matches(error, FAILURE, FAILURE_DOES_NOT_FIT))
        return STATUS_DOES_NOT_FIT;
    return g_error_matches(error, FAILURE, FAILURE_RUNNING) ? STATUS_FAILED : STATUS_BAD_INPUT;
}

static GOptionContext *context_of(const struct program *program)
{
    GOptionContext *context = g_option_context_new(program->usage);
    g_option_context_set_summary(context, program->summary);
    g_option_context_set_description(context, program->description);
    g_option_context_set_strict_posix(context, program->strict_posix);
    if (program->command) {
        g_autofree char *name = g_strconcat(program->name, " ", program->command, NULL);
        g_set_prgname(name); /* begins the line of usage */
    }
    return context;
}

/* Prints an error as one line. Names and values of files stand in it, and must not command the
 * terminal: control characters become question marks, and ends of lines spaces. */
static void print_error(const struct program *program, const char *message)
{
    g_autofree char *valid = g_utf8_make_valid(message, -1);
    g_autoptr(GString) line = g_string_new(NULL);
    for (const char *at = valid; *at; at = g_utf8_next_char(at)) {
        gunichar letter = g_utf8_get_char(at);
        g_string_append_unichar(line, letter == '\n'              ? ' '
                                      : g_unichar_iscntrl(letter) ? '?'
                                                                  : letter);
    }
    fprintf(stderr, "%s: %s\n", program->name, line->str);
}

/* A program whose output is lost has failed, even if all else went well. */
static int end_output(const struct program *program, int status)
{
    bool ok = !ferror(stdout);
    if ((fflush(stdout) == 0 && ok) || status != STATUS_DONE)
        return status;
    fprintf(stderr, "%s: standard output: cannot be written: %s\n", program->name,
            g_strerror(errno));
    return STATUS_FAILED;
}

int program_main(const struct program *program, int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    bool version = false;
    int status = STATUS_DONE;
    setlocale(LC_CTYPE, "");
    GOptionContext *context = context_of(program);
    if (!options_parse(context, program->groups, program->group_count, argc, argv, &version,
                       &error))
        status = STATUS_BAD_INPUT;
    else if (version)
        printf("%s %s\n", program->name, PSTAR_VERSION);
    else if (options_check_outputs(program->groups, program->group_count, &error))
        status = program->run(program->data, &error);
    if (error) {
        print_error(program, error->message);
        status = exit_status_of(error);
    }
    g_option_context_free(context);
    options_clear(program->groups, program->group_count);
    return end_output(program, status);
}
