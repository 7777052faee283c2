/* Computes operators on the host's cores in the host's memory: all operators of the CPU device, and
 * on every device the operators that a plan places on the host. */
#ifndef PSTAR_ENGINE_HOST_HOST_OPERATORS_H
#define PSTAR_ENGINE_HOST_HOST_OPERATORS_H

#include "engine/host/cores.h"
#include "engine/operation.h"
#include "engine/ranks.h"

struct host_operators;

/* Operators run on `threads` threads, for one caller at a time. Addresses of operations count from
 * the start of `memory`. Threads run near their part of the memory on `nodes`, which must outlive
 * the result; NULL leaves threads where the system puts them. Free with host_operators_free, which
 * takes NULL. */
struct host_operators *host_operators_new(unsigned threads, uint8_t *memory,
                                          const struct nodes *nodes);
/* Lets the operators share gradients and parameters with other ranks, which outlive them. */
void host_operators_share(struct host_operators *operators, struct ranks *ranks);
/* Lets the operators send to the other stages of a pipeline, and receive from them. */
void host_operators_connect(struct host_operators *operators, struct ranks *stages);
void host_operators_free(struct host_operators *operators);

/* Runs an operation, always in the same thread. The first call makes the other threads, unless
 * host_operators_begin did, in the thread that will run the operations. */
void host_operators_run(struct host_operators *operators, const struct operation *operation);
void host_operators_begin(struct host_operators *operators);
/* Behind an update: operators_share_update (engine/operators.h). */
void host_operators_share_update(struct host_operators *operators,
                                 const struct operation *operation);

#endif
