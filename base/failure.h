/* Marks of errors that tell a program with which status it ends. */
#ifndef PSTAR_BASE_FAILURE_H
#define PSTAR_BASE_FAILURE_H

#include <glib.h>
#include <stdbool.h>

/* An unmarked error means that what a person asked for, or an input, is wrong. */
enum failure {
    FAILURE_RUNNING,     /* the request was good, but carrying it out failed */
    FAILURE_DOES_NOT_FIT /* a memory is too small */
};
#define FAILURE failure_quark()
GQuark failure_quark(void);

/* Replaces the domain and the code of the error by FAILURE and `failure`, and keeps its message.
 * Returns false. `error` may be NULL; *error must be set. */
bool failure_mark(GError **error, enum failure failure);

/* The domain of fatal messages with which a process ends because the system refuses it memory, as
 * GLib ends it with messages of its own domain. */
#define FAILURE_MEMORY_DOMAIN "pstar-memory"

#endif
