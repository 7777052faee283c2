/* Where chunks live at rest. */
#ifndef PSTAR_CHUNKS_HOMES_H
#define PSTAR_CHUNKS_HOMES_H

#include "chunks/accesses.h"

struct homes {
    uint32_t chunk_count;
    uint8_t *on_device;     /* [chunk_count] nonzero: lives on the device and has no host slot */
    uint64_t *host_address; /* [chunk_count] slot in the host pool; NO_ADDRESS on the device */
    uint64_t device_slot_bytes; /* slots of the device-homed */
    uint64_t staging_address;   /* end of the slots: staging of host operators' activations */
    uint64_t host_pool_bytes;   /* slots and staging */
};

/* Every chunk at home on the host where `host_budget` allows it; otherwise those used most often
 * for their size stay on the device, which a chunk that a host operator uses cannot. Fails with
 * PLAN_ERROR_DOES_NOT_FIT. */
struct homes *homes_choose(const struct trace *trace, const struct layout *layout,
                           const struct accesses *accesses, uint64_t host_budget, GError **error);
/* Where activations of operators on the host are staged. Operators that receive some, one right
 * after another, take turns between two places, and so do such rows of them between two pairs: a
 * copy need not wait until the operator before has read its own. */
enum { STAGING_PLACES = 4 };
struct staging {
    uint8_t *place;                  /* [operator_count] of what the operator sends or receives */
    uint64_t offset[STAGING_PLACES]; /* of the places, one behind the other */
    uint64_t bytes;                  /* of all */
};
struct staging staging_of(const struct trace *trace);
void staging_clear(struct staging *staging);

/* What the host must hold: the chunks that operators use there, and staging. */
uint64_t homes_least_host_bytes(const struct trace *trace, const struct layout *layout,
                                const struct accesses *accesses);
/* Homes as they are told: nonzero in `on_device` [chunk_count] is at home there. */
struct homes *homes_assign(const struct trace *trace, const struct layout *layout,
                           const uint8_t *on_device);
void homes_free(struct homes *homes);

#endif
