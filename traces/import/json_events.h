/* Chrome trace events, as profilers write them: one large JSON file, gzipped or not. */
#ifndef PSTAR_TRACES_IMPORT_JSON_EVENTS_H
#define PSTAR_TRACES_IMPORT_JSON_EVENTS_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>

/* Takes one event, an object that is freed after the call. False, with the error set, ends the
 * reading. */
typedef bool json_events_take(void *data, const json_t *event, GError **error);

/* Hands out the members of the array `key` of the top object ("traceEvents"), or of an array that
 * is the whole file, in the order of the file, one in memory at a time. Whole numbers arrive as
 * reals: identifiers may exceed 63 bits, and reals hold 53 exactly. Returns the other members of
 * the top object, which the caller owns; NULL, with an error that names the file and the place in
 * it (TRACE_ERROR), where it cannot be read or is no such file. */
json_t *json_events_read(const char *path, const char *key, json_events_take *take, void *data,
                         GError **error);

#endif
