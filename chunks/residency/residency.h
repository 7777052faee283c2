/* The residency manager executes a plan through a mover, in simulated or in real time.
 *
 * It knows where every chunk is, refuses what is illegal, and says what each copy and operator
 * must wait for. A fetch waits for the former users of its addresses and for the chunk's own
 * write-back; an operator waits for its chunks. The plan makes all decisions, and none depends on
 * time. */
#ifndef PSTAR_CHUNKS_RESIDENCY_RESIDENCY_H
#define PSTAR_CHUNKS_RESIDENCY_RESIDENCY_H

#include "chunks/plan.h"
#include "chunks/residency/mover.h"
#include "chunks/residency/residency_state.h"

struct residency;

/* `plan` must have passed plan_check against `trace`, and `accesses` are made of both. All
 * arguments outlive the result, which the caller frees. */
struct residency *residency_new(const struct plan *plan, const struct accesses *accesses,
                                const struct trace *trace, const struct mover_ops *ops,
                                void *mover);
void residency_free(struct residency *residency);

/* Fetches the initial residency. Chunks at home on the device are already written there. */
void residency_load(struct residency *residency);

/* Performs the actions before `moment`, then its operator. Calls go through the moments in order,
 * again and again. The last moment also performs the actions after its operator. */
void residency_step(struct residency *residency, moment_id moment);

/* Flushes every dirty host-homed chunk, between two iterations. Afterwards the host pool holds all
 * chunks except the device-homed. */
void residency_flush(struct residency *residency);

/* Returns to the initial residency after a forward pass alone, as in evaluation and sampling:
 * residency_flush, moments from 0 on, residency_rewind. The forward pass writes no model data, so
 * all data that the training iteration would have dropped on the way is still valid on the host.
 * The mover counts these copies apart. */
void residency_rewind(struct residency *residency);

/* Returns the chunk's address on the device; NO_ADDRESS if it is not there. */
uint64_t residency_address(const struct residency *residency, chunk_id chunk);
enum residency_state residency_state(const struct residency *residency, chunk_id chunk);

/* Returns the address of the chunk's slot in the host pool; NO_ADDRESS if it has none. */
uint64_t residency_host_address(const struct residency *residency, chunk_id chunk);

#endif
