/* Which chunks of a plan live in NVMe, and when and where in the host pool they are meanwhile. */
#ifndef PSTAR_CHUNKS_NVME_CHOICE_H
#define PSTAR_CHUNKS_NVME_CHOICE_H

#include "chunks/nvme_homes.h"
#include "chunks/nvme_visits.h"

struct nvme_candidate {
    chunk_id chunk;
    enum nvme_kind kind;
    uint32_t transfers; /* loads and stores in an iteration with a visit for each use */
    uint32_t needed;    /* the instant of the first visit */
    bool first;         /* before those that are not, whatever they cost */
};

struct nvme_choice {
    const struct plan *plan;
    struct nvme_uses *uses;
    GArray *candidates;  /* struct nvme_candidate: what can live there, the cheapest first */
    GArray *states;      /* the same of optimizer states that only the host uses */
    GArray *chosen;      /* chunk_id: those that live in NVMe */
    GArray *visits;      /* struct nvme_visit: theirs, by need */
    uint32_t late;       /* the instant from which backward loads what it needs */
    uint64_t room_bytes; /* of the host pool, for their slots */
};

/* Finds what can live there. `accesses` are of the plan's layout. `passing_first`: as in struct
 * nvme_budget. */
struct nvme_choice *nvme_choice_new(const struct plan *plan, const struct trace *trace,
                                    const struct accesses *accesses, bool passing_first);
void nvme_choice_free(struct nvme_choice *choice);

/* Each of these chooses chunks, and gives their visits slots, whose addresses count from the begin
 * of the room: as few chunks as make a limited host fit; those that the budget names; as many
 * states as NVMe has room for; or all states, which pass through buffers. They fail with
 * PLAN_ERROR_DOES_NOT_FIT, and say what would fit. */
bool nvme_choice_fewest(struct nvme_choice *choice, const struct nvme_budget *budget,
                        GError **error);
bool nvme_choice_stays(struct nvme_choice *choice, const struct nvme_budget *budget,
                       GError **error);
bool nvme_choice_states(struct nvme_choice *choice, const struct nvme_budget *budget,
                        GError **error);
bool nvme_choice_buffers(struct nvme_choice *choice, const struct nvme_budget *budget,
                         GError **error);

#endif
