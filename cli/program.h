/* What the mains of all programs do alike: options, --help, --version, messages, exit statuses. */
#ifndef PSTAR_CLI_PROGRAM_H
#define PSTAR_CLI_PROGRAM_H

#include "cli/options.h"

enum exit_status {
    STATUS_DONE = 0,
    STATUS_FAILED = 1,      /* while running */
    STATUS_BAD_INPUT = 2,   /* or bad usage */
    STATUS_DOES_NOT_FIT = 3 /* into a memory */
};

/* Returns what a program ends with after `error`, which may be NULL: STATUS_DOES_NOT_FIT for
 * PLAN_ERROR_DOES_NOT_FIT, what a mark says (traces/failure.h), STATUS_BAD_INPUT for all others. */
enum exit_status exit_status_of(const GError *error);

struct program {
    const char *name;                  /* "pstar-sim": begins each message */
    const char *command;               /* of a program with commands: "info"; NULL: none */
    const char *usage;                 /* GOption's parameter string; may be NULL */
    const char *summary, *description; /* of --help; description may be NULL */
    const struct option_group *groups; /* the first is the main one */
    size_t group_count;
    bool strict_posix; /* the first argument that is no option ends the options */

    /* Called when the targets of the options are filled. Returns the exit status, which counts
     * where no error is set. */
    int (*run)(void *data, GError **error);
    void *data;
};

/* Parses the command line, prints the version or runs the program, prints its error, and frees the
 * options' targets. Returns the exit status: STATUS_FAILED also where standard output cannot be
 * written. */
int program_main(const struct program *program, int argc, char **argv);

#endif
