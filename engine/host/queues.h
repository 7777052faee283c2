/* Queues of work, each with a thread, which make work on the host asynchronous.
 *
 * A ticket is the number of a piece of work in its queue, from 1. A queue without a thread belongs
 * to its caller, who reports its own work with queues_complete. */
#ifndef PSTAR_ENGINE_HOST_QUEUES_H
#define PSTAR_ENGINE_HOST_QUEUES_H

#include "chunks/residency/mover.h"
#include <glib.h>

struct work_queues;

/* `self` is the owner's; `work` is the queue's copy of what was put. `at_once` is true if the queue
 * has waited neither for work nor for other queues since the previous piece. */
typedef void queues_run(void *self, const void *work, bool at_once);

struct work_queues *queues_new(void);
/* Completes all work and ends the threads. */
void queues_free(struct work_queues *queues);

/* Starts a thread for `queue`. `enter` runs first in it; may be NULL. Fails, with
 * FAILURE_DOES_NOT_FIT, if the system refuses a thread. */
bool queues_start(struct work_queues *queues, enum mover_queue queue, queues_run *run,
                  void (*enter)(void *self), void *self, GError **error);

/* Adds a piece of work, copying `work`. Returns its ticket. */
mover_ticket queues_put(struct work_queues *queues, enum mover_queue queue, const void *work,
                        uint32_t bytes, const struct mover_after *after);

/* Waits until all of `after` is complete. Returns the nanoseconds that this took. */
uint64_t queues_wait(struct work_queues *queues, const struct mover_after *after);

/* Counts one piece of work that the caller has done. Returns its ticket, which is complete. */
mover_ticket queues_complete(struct work_queues *queues, enum mover_queue queue);

/* Returns the tickets of everything put so far. */
struct mover_after queues_all(const struct work_queues *queues);

#endif
