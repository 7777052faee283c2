/* Queues of work with their threads: what makes the CPU device asynchronous.
 *
 * A ticket is the number of a piece of work in its queue, from 1. Queues without a thread belong to
 * their caller, who counts its own work with queues_begin and queues_end. */
#ifndef PSTAR_ENGINE_HOST_QUEUES_H
#define PSTAR_ENGINE_HOST_QUEUES_H

#include "chunks/residency/mover.h"
#include <glib.h>

struct queues;

/* `self` is the owner's, `work` its own copy of what was put. `at_once`: the queue had neither to
 * wait for work nor for other queues since the piece before. */
typedef void queues_run(void *self, const void *work, bool at_once);

struct queues *queues_new(void);
/* Completes all work, ends the threads. */
void queues_free(struct queues *queues);

/* Starts a thread for `queue`. `enter` runs first in it; may be NULL. */
void queues_start(struct queues *queues, enum mover_queue queue, queues_run *run,
                  void (*enter)(void *self), void *self);

/* Adds a piece of work, which is copied. */
mover_ticket queues_put(struct queues *queues, enum mover_queue queue, const void *work,
                        uint32_t bytes, const struct mover_after *after);

/* Waits until all of `after` is complete; returns the nanoseconds that it took. */
uint64_t queues_wait(struct queues *queues, const struct mover_after *after);

/* One piece of work done by the caller, complete on return; its ticket. */
mover_ticket queues_complete(struct queues *queues, enum mover_queue queue);

/* Everything put so far. */
struct mover_after queues_all(const struct queues *queues);

#endif
