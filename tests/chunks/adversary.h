/* A mover with the worst possible timing: copies and operators run in any order that their tickets
 * allow. Every 32 bytes of memory carry who wrote them last, so that an operator which runs on
 * stale, overwritten or half-copied bytes is found out. */
#ifndef PSTAR_TESTS_CHUNKS_ADVERSARY_H
#define PSTAR_TESTS_CHUNKS_ADVERSARY_H

#include "chunks/residency/residency.h"

struct adversary;

extern const struct mover_ops adversary_ops;

struct adversary *adversary_new(const struct plan *plan, const struct accesses *accesses,
                                const struct trace *trace, GRand *random);
void adversary_free(struct adversary *adversary);

/* Returns the counts of the work that was requested since the last call. */
struct plan_figures adversary_take_figures(struct adversary *adversary);

/* Runs all queued work. Returns how many pieces of memory were found wrong so far. */
uint32_t adversary_finish(struct adversary *adversary);

#endif
