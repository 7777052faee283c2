/* A folder to run the programs in as a user would: a small model's config, a text, and what the
 * programs leave. */
#ifndef PSTAR_TESTS_PROGRAMS_WORKSHOP_H
#define PSTAR_TESTS_PROGRAMS_WORKSHOP_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>

struct workshop {
    char *folder; /* holds model/config.json (GPT-2, 2 layers of 64, bytes) and text.txt */
};

struct outcome {
    int status; /* exit status; -1: killed by a signal */
    char *out, *err;
};

struct workshop *workshop_new(void);
void workshop_free(struct workshop *workshop);

/* Runs a command line, quoted as for a shell, in the folder, with the programs just built in PATH.
 * Free the outcome with outcome_clear. */
struct outcome workshop_run(const struct workshop *workshop, const char *command_line);
void outcome_clear(struct outcome *outcome);

/* The same, but fails the test, with what was printed, unless it exits 0. */
struct outcome workshop_run_well(const struct workshop *workshop, const char *command_line);
void workshop_must_run(const struct workshop *workshop, const char *command_line);
void workshop_must_run_format(const struct workshop *workshop, const char *format, ...)
    G_GNUC_PRINTF(2, 3);

/* Runs it, and fails the test, with what was printed, unless it exits with this status, its output
 * holds `out`, and its standard error `err`. */
void workshop_must_end(const struct workshop *workshop, const char *command_line, int status,
                       const char *out, const char *err);

/* Run it as workshop_must_run does, and return its output: as text, to be freed with g_free, or as
 * one JSON value. */
char *workshop_must_print(const struct workshop *workshop, const char *command_line);
json_t *workshop_must_print_json(const struct workshop *workshop, const char *command_line);

/* A file's path in the folder; free with g_free. */
char *workshop_path(const struct workshop *workshop, const char *name);
void workshop_write(const struct workshop *workshop, const char *name, const char *text);

/* Every file below the folder with its size and time of change, to see whether anything was
 * written. Free with g_free. */
char *workshop_listing(const struct workshop *workshop);

/* The objects of a JSON-lines file, in an array. */
json_t *workshop_read_json_lines(const struct workshop *workshop, const char *name);
json_t *workshop_read_json(const struct workshop *workshop, const char *name);

#endif
