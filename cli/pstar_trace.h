/* The commands of pstar-trace. */
#ifndef PSTAR_CLI_PSTAR_TRACE_H
#define PSTAR_CLI_PSTAR_TRACE_H

#include "cli/program.h"
#include "traces/activity/activity.h"
#include "traces/records.h"

#include <jansson.h>

/* Each function parses its own options and returns the exit status. */
int pstar_trace_import(int argc, char **argv);
int pstar_trace_merge(int argc, char **argv);
int pstar_trace_retime(int argc, char **argv);
int pstar_trace_synth(int argc, char **argv);

/* Calls program_main for the command of this name. */
int pstar_trace_command(const char *command, const char *summary, const struct example *example,
                        const struct option *options, size_t option_count, program_run *run,
                        void *data, int argc, char **argv);

/* Prints the JSON to standard output and releases it. */
void pstar_trace_print_json(json_t *json);

/* Run the commands info and check for a file that holds records but no iteration. */
void pstar_trace_info_records(const struct records *records, const struct activity *activity,
                              const char *path, bool as_json);
bool pstar_trace_check_records(const struct records *records, const char *path, GError **error);

#endif
