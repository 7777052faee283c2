/* What a bound knows of the largest chunks, and of all work that they do not decide. */
#ifndef PSTAR_PLANNER_PROOF_JOINT_MODEL_H
#define PSTAR_PLANNER_PROOF_JOINT_MODEL_H

#include "chunks/certificate.h"
#include "planner/proof/prices.h"

/* A moment of forward or backward whose operator uses chunks that are taken together. Each field is
 * a set of them: those that are used, and of these those that leave dirty afterwards, those whose
 * next use needs their bytes, and those that are not used again. */
struct joint_step {
    uint32_t used, dirty, fetched, over;
    uint64_t room;      /* for chunks that are taken together */
    uint64_t gap_room;  /* the least room at the moments since the step before */
    uint64_t non_model; /* the least non-model data from the step before on, up to this one */
    uint64_t fetch_ns;  /* what fetching all large chunks takes whose bytes are used here */
    uint64_t gap_ns;    /* the same for the moments since the step before */
};

/* A chunk that forward and backward do not use. The device's update fetches and writes it, unless
 * it stays for the whole of forward and backward. */
struct joint_state {
    uint64_t bytes, h2d_ns, d2h_ns;
};

/* What a group takes if its updates run on one side. */
struct joint_work {
    uint64_t compute_ns, host_ns, h2d_ns, d2h_ns;
    GArray *states; /* struct joint_state */
};

struct joint_chunk {
    chunk_id chunk;
    uint64_t bytes, h2d_ns, d2h_ns;
};

struct joint_model {
    const struct time_job *job;
    struct joint_chunk chunks[CERTIFICATE_JOINT_MOST]; /* the largest first */
    uint32_t chunk_count, group_count, side_count;
    GArray *steps;                        /* struct joint_step */
    struct joint_work always;             /* wherever updates run */
    struct joint_work *works[TIME_SIDES]; /* [group_count] */
    uint64_t state_least, state_bytes;    /* of states that do not stay for nothing: the smallest
                                             one, and all of them */
    uint64_t longest_ns;                  /* of the fetches of large chunks */
    uint64_t *fetches_ns;                 /* [JOINT_GRAINS + 1] the longest time that fetches of
                                             large chunks take that fit together into so many
                                             grains of the device */
};

/* Room for fetches is counted in so many grains of the device. */
enum { JOINT_GRAINS = 2048 };

/* Returns the model of the `most` largest chunks, or NULL if updates are within backward, or there
 * are several ranks or stages. The job must outlive it; the caller frees it with joint_model_free.
 */
struct joint_model *joint_model_new(const struct time_job *job, uint32_t most);
void joint_model_free(struct joint_model *model); /* NULL is allowed */

/* Returns the longest time, or a longer one, that fetches of large chunks take which fit into
 * `bytes` together. */
uint64_t joint_fetches_ns(const struct joint_model *model, uint64_t bytes);

#endif
