/* Words of the command lines that a report proposes. Free with g_free. */
#ifndef PSTAR_REPORT_COMMANDS_H
#define PSTAR_REPORT_COMMANDS_H

#include "report/inputs.h"

/* The name of a file as a command line takes it: one of the files, or the name that it would
 * have. */
char *command_platform(const struct inputs *inputs);
char *command_trace(const struct inputs *inputs);
char *command_plan(const struct inputs *inputs);

/* The device memory of the files, where they agree on one: "131608576"; else "SIZE". */
char *command_memory(const struct inputs *inputs);

#endif
