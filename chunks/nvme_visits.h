/* When chunks that are at home in NVMe must be in the host pool. */
#ifndef PSTAR_CHUNKS_NVME_VISITS_H
#define PSTAR_CHUNKS_NVME_VISITS_H

#include "chunks/plan.h"

/* The actions and the operators of a plan, in their order, are its items, which are counted from 0.
 * Slots in the host pool are taken and left at instants: instant i is before item i, and the last
 * one behind the last item. */

/* A stay of a chunk in the host pool. */
struct nvme_visit {
    chunk_id chunk;
    uint32_t needed, left; /* instants: it has its slot by the first, and needs it no more from the
                              second on */
    uint32_t earliest;     /* the instant at which the chunk's visit before this one ends; 0 */
    bool loads, stores;    /* its bytes come from NVMe; they go there */
    uint64_t bytes;        /* of its slot */
    uint32_t taken;        /* the instant at which it takes the slot, and is loaded; <= needed */
    uint64_t host_address; /* of the slot, from where the caller says */
};

/* Compares visits by their needs, of one instant the largest first, for g_array_sort. */
gint nvme_visit_by_need(gconstpointer left, gconstpointer right);

/* What uses the host's copy of every chunk in an iteration. */
struct nvme_uses;

/* Returns the instant before the actions of a moment. */
static inline uint32_t nvme_instant(const struct plan *plan, moment_id moment)
{
    return plan->first_action[moment] + moment;
}

struct nvme_uses *nvme_uses_new(const struct plan *plan, const struct accesses *accesses);
void nvme_uses_free(struct nvme_uses *uses);

/* What it means for a chunk to live in NVMe. */
enum nvme_kind {
    NVME_RESTS,  /* nothing: it is copied to the device before the first iteration, and stays */
    NVME_STATES, /* optimizer states that only operators on the host use: a visit an iteration */
    NVME_COMES,  /* a visit for each use in an iteration, or for several */
    NVME_NEVER   /* it has no slot in the host pool, or what is gathered before the iteration begins
                    needs it there */
};

/* One use of the host's copy of a chunk in an iteration. */
struct nvme_use {
    uint32_t item;
    bool reads, writes;
    bool stored; /* if the chunk leaves its slot behind the use, what was written there is stored */
};

/* Returns how many items an iteration has. */
static inline uint32_t nvme_items(const struct plan *plan)
{
    return nvme_instant(plan, plan->moment_count + 1) - 1;
}

/* Returns how often an iteration uses the chunk on the host, and the use with this number, in their
 * order. */
uint32_t nvme_uses_count(const struct nvme_uses *uses, chunk_id chunk);
struct nvme_use nvme_uses_at(const struct nvme_uses *uses, chunk_id chunk, uint32_t number);

/* Returns whether all of the chunk's bytes are overwritten before an iteration uses them. */
bool nvme_uses_passes(const struct nvme_uses *uses, chunk_id chunk);
enum nvme_kind nvme_uses_kind(const struct nvme_uses *uses, chunk_id chunk);

/* Appends the chunk's visits to an array of struct nvme_visit, in their order. Uses with at most
 * `near` other items between them are one visit; those of a state on the host always are. `taken`
 * becomes `needed`. */
void nvme_uses_visits(const struct nvme_uses *uses, chunk_id chunk, uint32_t near, GArray *visits);

/* Does so with uses that are one visit where `stays` [uses] says that the chunk stays behind the
 * first of both. */
void nvme_uses_visits_that_stay(const struct nvme_uses *uses, chunk_id chunk, const uint8_t *stays,
                                GArray *visits);

#endif
