/* What the collector does in a thread of the program's must not be seen there, but for its time. */
#ifndef PSTAR_COLLECT_HARMLESS_H
#define PSTAR_COLLECT_HARMLESS_H

#include <glib.h>
#include <signal.h>
#include <stdbool.h>

/* Around writing: where a file has reached its limit (RLIMIT_FSIZE), or nobody reads a pipe, that
 * fails, and the program gets no signal. Pairs may lie within one another. */
struct harmless {
    sigset_t mask, pending; /* before */
};

void harmless_begin(struct harmless *before);
void harmless_end(const struct harmless *before);

/* "pstar-collect: " and a line on standard error. */
void harmless_say(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* A lock that also keeps the thread's errno as it was, and the thread from being cancelled while it
 * has it. No thread has two. */
void harmless_lock(GMutex *lock);
void harmless_unlock(GMutex *lock);

/* Whether the calling thread has a lock, or is about to: in a signal's handler, which must not wait
 * for what it interrupted. */
bool harmless_is_locked(void);

#endif
