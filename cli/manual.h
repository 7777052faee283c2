/* Manual pages (man 1), made from the same tables as --help, so that both always agree. The build
 * calls each program with MANUAL_ARGUMENT and installs what it prints. */
#ifndef PSTAR_CLI_MANUAL_H
#define PSTAR_CLI_MANUAL_H

#include "cli/commands.h"
#include "cli/program.h"

#define MANUAL_ARGUMENT "--man-page"

/* Prints the page of a program or, for a command of a program, the part of the page about it. */
void manual_print(const struct program *program);

/* Prints the page of a program with commands, up to the parts about the commands, and what follows
 * these parts. */
void manual_print_commands(const struct command_set *set);
void manual_print_end(const struct command_set *set);

#endif
