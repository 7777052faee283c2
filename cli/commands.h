/* Programs with commands: pstar-trace, and pstar, whose commands are the other programs. */
#ifndef PSTAR_CLI_COMMANDS_H
#define PSTAR_CLI_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

struct command {
    const char *name, *arguments; /* "check", "TRACE..."; arguments may be "" */
    const char *purpose;          /* "check whether traces are whole and consistent" */

    /* Runs the command and returns the exit status. argv[0] is the command's name. */
    int (*run)(int argc, char **argv);
};

struct command_set {
    const char *name;        /* "pstar-trace" */
    const char *purpose;     /* of the program, in one line */
    const char *description; /* paragraphs for the manual page */
    const struct command *commands;
    size_t count;
    bool are_programs; /* the commands are programs with manual pages of their own */
};

/* The main function of such a program: runs the command that argv[1] names, or prints help, the
 * version, what completes a command line, or the manual page. Returns the exit status. */
int commands_main(const struct command_set *set, int argc, char **argv);

#endif
