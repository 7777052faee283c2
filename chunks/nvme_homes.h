/* Homes below host memory. Chunks that a plan has in the host pool can live in a file on NVMe. Each
 * is loaded into a slot of the host pool before what uses it there, and stored behind it. The slots
 * are a ring, whose room passes from chunk to chunk in the order of their uses, so that loads run
 * ahead of the uses as far as there is room. Or they are a few buffers for the optimizer states of
 * whole chunk groups, as other systems have them. */
#ifndef PSTAR_CHUNKS_NVME_HOMES_H
#define PSTAR_CHUNKS_NVME_HOMES_H

#include "chunks/plan.h"

/* Which chunks live in NVMe, and between which of their uses they stay in the host pool. */
struct nvme_stays {
    uint8_t *lives;  /* [chunk_count] */
    uint32_t *first; /* [chunk_count + 1] a chunk's first use in `stays` */
    uint8_t *stays;  /* behind this use, until the chunk's next one in the iteration */
};

struct nvme_budget {
    uint64_t host_bytes;  /* of the host pool, with the ring; UINT64_MAX: all optimizer states that
                             only operators on the host use live in NVMe, with a ring for four times
                             what is used at once */
    uint64_t nvme_bytes;  /* of the file */
    uint64_t block_bytes; /* of its blocks, and how many are under way, as in struct plan; */
    uint32_t depth;       /* 0, 0: the plan does not say */
    uint32_t
        ring_times;     /* the least room of the ring with a limited host, in what is used at
                           once; 0: up to four times that, if an eighth more lives in NVMe for it */
    bool passing_first; /* with a limited host, first what does not outlive the iteration lives
                           there, such as gradients: its room is free for other chunks between
                           updates and backward */
    const struct nvme_stays *stays; /* with a limited host, what lives there; NULL: as few as make
                                       it fit */
    uint32_t buffers; /* 0: a ring. Else all states that only the host uses live in NVMe. Those
                       of a chunk group pass through one of so many equal buffers: a group is read
                       while the one before it is updated, or with more than 3 buffers as
                       many more ahead, none before the first update, and the step ends when
                       the last is written. Where the updates of more groups overlap, there
                       are more buffers */
};

/* Gives chunks of a plan homes in NVMe: with a host budget as few as make it fit, of those that
 * cost the least in an iteration, spread over it. Changes slots in the host pool, actions and
 * predicted bytes; times that the plan predicts do not hold any more, and a certificate must not be
 * there. `accesses` are of the plan's layout. Changes nothing and returns true if the host pool
 * fits its budget without. Fails with PLAN_ERROR_DOES_NOT_FIT, and says what would fit; the plan is
 * then unchanged. */
bool nvme_homes_give(struct plan *plan, const struct trace *trace, const struct accesses *accesses,
                     const struct nvme_budget *budget, GError **error);

#endif
