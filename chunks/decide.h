/* Which chunks come, go and stay: an eviction policy over one iteration's accesses, by place in the
 * trace and by bytes alone. Addresses come afterwards (chunks/place.h). */
#ifndef PSTAR_CHUNKS_DECIDE_H
#define PSTAR_CHUNKS_DECIDE_H

#include "chunks/dry_run.h"
#include "chunks/homes.h"

struct decisions {
    uint32_t moment_count;
    uint8_t *initial; /* [chunk_count] nonzero: on the device at the start of every iteration */
    uint32_t *first;  /* [moment_count + 2] into actions, as in a plan */
    GArray *actions;  /* struct plan_action, addresses NO_ADDRESS; no moves */
    char *fault;      /* an answer of the policy that broke its contract; NULL: none did */
};

/* `options->device_bytes` must be at least what every moment needs beside the device-homed chunks.
 * The policy runs through two iterations to settle; the third is recorded, and closed: it ends with
 * the chunks it began with. */
struct decisions *decide(const struct layout *layout, const struct accesses *accesses,
                         const struct homes *homes, const struct dry_run_options *options);

/* Gives each departure of the schedule its kind, a write-back of what is dirty and a drop of what
 * is not, and takes out flushes of clean chunks. */
void decisions_settle(struct decisions *decisions, const struct accesses *accesses);

/* Of nothing: no chunk on the device, no action. */
struct decisions *decisions_new(const struct accesses *accesses);
void decisions_free(struct decisions *decisions);

#endif
