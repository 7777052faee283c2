/* The residency manager: executes a plan through a mover, in simulated or in real time.
 *
 * It knows where every chunk is, refuses what is illegal, and says what each copy and operator must
 * wait for: a fetch for whatever used its addresses before and for its own write-back, an operator
 * for its chunks. Decisions are the plan's; no decision depends on time. */
#ifndef PSTAR_CHUNKS_RESIDENCY_RESIDENCY_H
#define PSTAR_CHUNKS_RESIDENCY_RESIDENCY_H

#include "chunks/plan.h"
#include "chunks/residency/mover.h"
#include "chunks/residency/residency_state.h"

struct residency;

/* `plan` must have passed plan_check against `trace`; `accesses` were made from both. All arguments
 * outlive the result. */
struct residency *residency_new(const struct plan *plan, const struct accesses *accesses,
                                const struct trace *trace, const struct mover_ops *ops,
                                void *mover);
void residency_free(struct residency *residency);

/* Fetches the initial residency (device-homed chunks are taken as already written there). */
void residency_load(struct residency *residency);

/* The actions before `moment`, then its operator. Moments follow each other; moment_count - 1 also
 * performs the actions after the last operator, and 0 follows it. */
void residency_step(struct residency *residency, uint32_t moment);

/* Between two iterations: flushes every dirty host-homed chunk, so that the host pool holds all but
 * the device-homed. */
void residency_flush(struct residency *residency);

/* Back to the initial residency after a forward pass alone (evaluation, sampling): residency_flush,
 * moments from 0, residency_rewind. Forward writes no model data, so whatever the training
 * iteration would have let die on the way is still whole on the host. What moves is the mover's to
 * count apart. */
void residency_rewind(struct residency *residency);

/* Where the chunk lies on the device, NO_ADDRESS if it does not. */
uint64_t residency_address(const struct residency *residency, uint32_t chunk);
enum residency_state residency_state(const struct residency *residency, uint32_t chunk);

#endif
