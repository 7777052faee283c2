/* Hides the collector's work from the program's threads: signals, errno, cancellation and locks. */
#ifndef PSTAR_COLLECT_HARMLESS_H
#define PSTAR_COLLECT_HARMLESS_H

#include <glib.h>
#include <signal.h>
#include <stdbool.h>

/* Protects a block that writes. If a file has reached its limit (RLIMIT_FSIZE) or a pipe has no
 * reader, the write fails without a signal for the program. Blocks may nest. */
struct harmless {
    sigset_t mask, pending; /* as they were before */
};

void harmless_begin(struct harmless *before);
void harmless_end(const struct harmless *before);

/* Prints "pstar-collect: " and a line on standard error. */
void harmless_say(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* Locks, keeps the thread's errno, and prevents its cancellation until it is unlocked. A thread
 * holds at most one such lock. */
void harmless_lock(GMutex *lock);
void harmless_unlock(GMutex *lock);

/* Returns whether the calling thread holds or takes a lock. A signal handler asks this, because it
 * must not wait for the code that it interrupted. */
bool harmless_is_locked(void);

#endif
