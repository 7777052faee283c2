/* Reads the fields of a platform's file. Errors (PLATFORM_ERROR_INVALID) name the file, the key and
 * the value. For platforms/ alone. */
#ifndef PSTAR_PLATFORMS_FIELDS_H
#define PSTAR_PLATFORMS_FIELDS_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Sets the error: the key is missing if `value` is NULL, and otherwise must be as `expected` says.
 * Returns false. */
bool field_wrong(GError **error, const char *path, const char *key, const json_t *value,
                 const char *expected);

/* Reads a non-empty string; free it with g_free. */
bool field_string(const json_t *object, const char *path, const char *key, char **string,
                  GError **error);

/* Reads an integer above 0. */
bool field_bytes(const json_t *object, const char *path, const char *key, uint64_t *bytes,
                 GError **error);

/* Reads an amount of memory: a number of bytes, or a text as options take it, such as "40GB". */
bool field_size(const json_t *object, const char *path, const char *key, uint64_t *bytes,
                GError **error);

/* Returns whether the value is a finite number above 0. */
bool field_is_positive(const json_t *value);

/* Reads a finite number above 0. */
bool field_positive(const json_t *object, const char *path, const char *key, double *number,
                    GError **error);

/* Reads a number of seconds in [0, 1). */
bool field_seconds(const json_t *object, const char *path, const char *key, double *seconds,
                   GError **error);

#endif
