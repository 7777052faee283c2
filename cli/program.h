/* The common main function of all programs: options, --help, --version, messages, exit statuses. */
#ifndef PSTAR_CLI_PROGRAM_H
#define PSTAR_CLI_PROGRAM_H

#include "cli/console.h"
#include "cli/options.h"

enum exit_status {
    STATUS_DONE = 0,
    STATUS_FAILED = 1,       /* while running */
    STATUS_BAD_INPUT = 2,    /* or bad usage */
    STATUS_DOES_NOT_FIT = 3, /* into a memory */
    STATUS_SIGNALLED = 128   /* plus the number of the signal that ended the work */
};

/* Returns the exit status of a program for `error`, which may be NULL. It is STATUS_DOES_NOT_FIT
 * for PLAN_ERROR_DOES_NOT_FIT, the mark's status for a marked error (base/failure.h), and
 * STATUS_BAD_INPUT for all others. */
enum exit_status exit_status_of(const GError *error);

/* Called after the options' targets are filled. Returns the exit status, which is used if no error
 * is set, or if a signal ended the work. The console is valid until it returns. */
typedef int program_run(void *data, const struct console *console, GError **error);

/* A command line that works, for --help and the manual page. */
struct example {
    const char *what, *command; /* what it does, as a sentence */
};

struct program {
    const char *name;                  /* "pstar-sim": begins each message */
    const char *command;               /* "info" in a program with commands; otherwise NULL */
    const char *purpose;               /* "search for the best plan"; NULL of a command */
    const char *summary, *description; /* of --help; description may be NULL */
    const struct example *examples;
    size_t example_count;
    const struct option_group *groups; /* the first is the main one */
    size_t group_count;
    bool strict_posix; /* the first argument that is not an option ends the options */
    program_run *run;
    program_run *refuse; /* is called with what is wrong with the command line, before the program
                          * prints it, unless it clears *error; may be NULL */
    void *data;
};

/* From now on, an exit with status 0 becomes STATUS_FAILED with a message of the program `name` if
 * standard output could not be written. `name` must stay valid. */
void program_check_output(const char *name);

/* Parses the command line, prints the version or runs the program, prints its error, and frees the
 * options' targets. Returns the exit status, which is also STATUS_FAILED if standard output cannot
 * be written. */
int program_main(const struct program *program, int argc, char **argv);

#endif
