/* The home of each chunk: the memory in which it lives at rest. A chunk without a home is
 * transient: it holds nothing when an iteration begins, and stays on the device while it holds
 * anything. */
#ifndef PSTAR_CHUNKS_HOMES_H
#define PSTAR_CHUNKS_HOMES_H

#include "chunks/accesses.h"

struct homes {
    uint32_t chunk_count;
    uint8_t *on_device; /* [chunk_count] nonzero if it lives on the device and has no host slot */
    uint8_t *transient; /* [chunk_count] 1 if it has no home, and no host slot either */
    uint64_t *host_address; /* [chunk_count] slot in the host pool; NO_ADDRESS if it has none, or
                               if the chunk is gathered: then it lives in the shards of the ranks */
    uint64_t device_slot_bytes; /* slots of device-homed chunks */
    uint64_t
        staging_address; /* end of the slots; then comes staging of host operators' activations */
    uint64_t host_pool_bytes; /* slots and staging */
};

/* Puts the home of every chunk on the host if `host_budget` allows it. Otherwise the chunks that
 * are used most often for their size live on the device, except chunks that host operators use. If
 * these leave too little room in `device_budget`, gradients and activations become transient, those
 * with the shortest lives first, before other chunks live on the device. If that does not fit
 * either, the result needs little more device memory than the least with which it does, and fits in
 * as much (homes_least_device_bytes). Fails with PLAN_ERROR_DOES_NOT_FIT if what operators use on
 * the host exceeds its budget, and names the least budget with which every operator has room in
 * `device_budget`. The caller frees the result with homes_free. */
struct homes *homes_choose(const struct trace *trace, const struct layout *layout,
                           const struct accesses *accesses, uint64_t device_budget,
                           uint64_t host_budget, GError **error);

/* Adds to need[m], [moment_count], the bytes that transient chunks take on the device at moment m,
 * if its operator does not use them. */
void homes_add_transient(const struct homes *homes, const struct layout *layout,
                         const struct accesses *accesses, uint64_t *need);

/* Returns the least device memory with which every operator finds its chunks there, beside its
 * non-model data, the chunks at home on the device and the transient chunks that hold something.
 * *moment becomes the operator that needs it. */
uint64_t homes_least_device_bytes(const struct homes *homes, const struct layout *layout,
                                  const struct accesses *accesses, moment_id *moment);

/* The places in the host pool where activations of operators on the host are staged. Consecutive
 * operators that receive activations alternate between two places, so that a copy need not wait
 * until the previous operator has read its activations. Consecutive sequences of such operators
 * alternate between two pairs of places. */
enum { STAGING_PLACES = 4 };
struct staging {
    uint8_t *place; /* [operator_count] the place of the activations that the operator sends or
                       receives */
    uint64_t offset[STAGING_PLACES]; /* of each place from the first one */
    uint64_t bytes;                  /* of all places */
};
struct staging staging_of(const struct trace *trace);
void staging_clear(struct staging *staging);

/* Returns the bytes that the host must hold: the chunks that operators use there, and staging. */
uint64_t homes_least_host_bytes(const struct trace *trace, const struct layout *layout,
                                const struct accesses *accesses);
/* Makes homes from `on_device` [chunk_count], nonzero if the chunk lives on the device, and from
 * `transient` [chunk_count], 1 if it has no home; NULL means none. */
struct homes *homes_assign(const struct trace *trace, const struct layout *layout,
                           const uint8_t *on_device, const uint8_t *transient);
void homes_free(struct homes *homes);

#endif
