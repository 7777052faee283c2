/* Reads Chrome trace events from one large JSON file, gzipped or not. */
#ifndef PSTAR_TRACES_IMPORT_JSON_EVENTS_H
#define PSTAR_TRACES_IMPORT_JSON_EVENTS_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>

/* Takes one event, which is freed after the call. Returns false with the error set to stop reading.
 */
typedef bool json_events_take(void *data, const json_t *event, GError **error);

/* Calls `take` for each member of the array `key` of the top object ("traceEvents"), or of an array
 * that is the whole file. Members come in file order, one in memory at a time. Integers arrive as
 * reals, because identifiers may exceed 63 bits; reals hold 53 bits exactly. Returns the other
 * members of the top object, owned by the caller. Returns NULL with TRACE_ERROR, naming the file
 * and the byte, if the file cannot be read or is not such a file. */
json_t *json_events_read(const char *path, const char *key, json_events_take *take, void *data,
                         GError **error);

#endif
