/* Runs pstar-run as a user does, and reads what it logged. */
#ifndef PSTAR_TESTS_ENGINE_REFERENCE_RUN_PROGRAM_H
#define PSTAR_TESTS_ENGINE_REFERENCE_RUN_PROGRAM_H

#include <glib.h>
#include <jansson.h>

/* `arguments`: strings, of which the array takes a copy; ends the test where the program fails. */
void run_program(const GPtrArray *arguments);

/* Appends printf's text as one argument. */
void add_argument(GPtrArray *arguments, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* The objects of a log, an array. Free with json_decref. */
json_t *read_log(const char *path);

/* A number of an object; ends the test where there is none. */
double number_of(const json_t *object, const char *key);

#endif
