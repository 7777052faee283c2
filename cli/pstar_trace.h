/* What the commands of the program pstar-trace share. */
#ifndef PSTAR_CLI_PSTAR_TRACE_H
#define PSTAR_CLI_PSTAR_TRACE_H

#include "traces/activity/activity.h"
#include "traces/records.h"

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>

enum { PSTAR_TRACE_DONE = 0, PSTAR_TRACE_FAILED = 1, PSTAR_TRACE_BAD_INPUT = 2 };

/* Prints the error, frees it, and returns the status. */
int pstar_trace_fail(int status, GError *error);

/* Prints the message and returns PSTAR_TRACE_BAD_INPUT. */
G_GNUC_PRINTF(1, 2)
int pstar_trace_usage(const char *format, ...);

/* Parses the options of a command of that name; false after a message. */
bool pstar_trace_parse(int argc, char **argv, const char *command, const char *summary,
                       const GOptionEntry *entries);

/* Takes the reference. */
void pstar_trace_print_json(json_t *json);

/* The commands info and check, of a file that holds what was recorded but no iteration. */
void pstar_trace_info_records(const struct records *records, const struct activity *activity,
                              const char *path, bool as_json);
int pstar_trace_check_records(struct records *records, const char *path); /* frees the records */

/* The commands synth and import. */
int pstar_trace_synth(int argc, char **argv);
int pstar_trace_import(int argc, char **argv);

#endif
