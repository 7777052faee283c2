/* A plan: the layout and, for every moment of the iteration, what moves, in order.
 *
 * The schedule is cyclic: every iteration, the first included, begins and ends with the initial
 * residency. Non-model data occupies the top of an arena of exactly `arena_bytes`. Every chunk that
 * is copied, or used by an operator on the host, has a fixed slot in the host pool. Of the others,
 * a device-homed chunk never leaves its address. A transient one begins the iteration nowhere, and
 * is on the device while anything in it is alive. A gathered one is dropped and gathered again
 * (chunks/gathering.h). A chunk that is at home in NVMe (chunks/nvme_homes.h) begins and ends the
 * iteration there. Its slots in the host pool, which others have at other times, come and go with
 * its actions. */
#ifndef PSTAR_CHUNKS_PLAN_H
#define PSTAR_CHUNKS_PLAN_H

#include "chunks/accesses.h"
#include "chunks/certificate.h"
#include "chunks/figures.h"
#include "chunks/layout.h"
#include "chunks/non_model.h"
#include "traces/choices.h"

enum plan_action_kind {
    PLAN_FETCH,    /* copy host to device, into `address`; a gathered chunk is gathered */
    PLAN_ALLOCATE, /* take `address` on the device without a copy: nothing in the chunk is alive */
    PLAN_WRITE_BACK, /* copy device to host, then leave the device */
    PLAN_DROP,       /* leave the device without a copy: the host's is valid, or nothing is alive */
    PLAN_FLUSH,      /* copy device to host and stay: then both copies are valid */
    PLAN_MOVE,       /* to another `address` on the device */
    PLAN_WAIT,       /* the next operator waits for all copies, from and to NVMe too, and host
                        operators issued so far; it has no chunk */
    PLAN_LOAD,       /* take the slot at `address` of the host pool, and copy NVMe to it */
    PLAN_RESERVE,    /* take it without a copy: what comes next writes it whole */
    PLAN_STORE,      /* copy the slot to NVMe, then leave it */
    PLAN_RELEASE,    /* leave the slot without a copy: NVMe has the same bytes, or nobody needs them
                      */
    PLAN_ACTIONS
};

struct plan_action {
    chunk_id chunk;   /* 0 if PLAN_WAIT */
    uint8_t kind;     /* enum plan_action_kind */
    uint64_t address; /* where it lies on the device afterwards, or its slot in the host pool if
                         PLAN_LOAD or PLAN_RESERVE; NO_ADDRESS if it leaves, or if PLAN_WAIT */
};

struct plan {
    char *digest; /* of the trace it was made for */
    char *model;  /* from the trace, for people */
    char *precision;
    uint32_t batch, sequence, micro_batches;
    uint32_t ranks;                      /* that share the micro-batches; 0 stands for 1 */
    struct run_choices *choices;         /* of the trace; NULL if the file does not say */
    char *made_by;                       /* "policy opt", "planner", a strategy's name */
    char *policy;                        /* of the dry run that made it, or NULL */
    uint32_t look_ahead;                 /* moments of prefetching */
    uint64_t device_budget, host_budget; /* bytes; UINT64_MAX for the host means unlimited */

    struct layout *layout;
    uint64_t arena_bytes;     /* size of the arena; <= device_budget */
    uint64_t host_pool_bytes; /* size of the host pool; <= host_budget */
    uint64_t staging_address; /* in the host pool, up to its end: activations of host operators */
    uint64_t *host_address;   /* [chunk_count] host slot; NO_ADDRESS if it is never copied, or is at
                                 home in NVMe */
    uint64_t nvme_bytes;      /* size of the file in NVMe; 0 if there is none */
    uint64_t *nvme_address;   /* [chunk_count] in the file; NO_ADDRESS if the chunk is at home
                                 elsewhere. NULL if all are */
    uint64_t nvme_block_bytes; /* the transfers of the file are cut into blocks of this size, */
    uint32_t nvme_depth;       /* this many of which are under way; 0, 0: the run decides */
    uint64_t cut_from_bytes;   /* chunks of at least so many copy bytes are copied over the link in
                                    parts (chunks/parts.h); 0: none is */
    uint64_t *initial_address; /* [chunk_count] on the device at the start, or NO_ADDRESS */

    uint32_t moment_count, action_count;
    uint32_t *first_action; /* [moment_count + 2]: before moment m; index moment_count: after the
                               last operator */
    struct plan_action *actions;
    struct plan_figures predicted;
    struct certificate *certificate; /* may be NULL */
    uint32_t sharers;                /* number of owners besides the first */
};

/* Slots in NVMe, and those in the host pool from and to which they are copied, are multiples of
 * this. */
#define PLAN_NVME_ALIGNMENT ((uint64_t)4096)

/* Most that a plan may say about the blocks of the file in NVMe. */
#define PLAN_NVME_LARGEST_BLOCK ((uint64_t)1 << 30)
#define PLAN_NVME_MOST_DEPTH    256

/* Returns whether blocks of this size can be read and written with this many under way. */
static inline bool plan_nvme_blocks_fit(uint64_t block_bytes, uint64_t depth)
{
    return block_bytes > 0 && block_bytes <= PLAN_NVME_LARGEST_BLOCK &&
           block_bytes % PLAN_NVME_ALIGNMENT == 0 && depth > 0 && depth <= PLAN_NVME_MOST_DEPTH;
}

/* Returns whether the chunk is at home in NVMe. */
static inline bool plan_in_nvme(const struct plan *plan, chunk_id chunk)
{
    return plan->nvme_address && plan->nvme_address[chunk] != NO_ADDRESS;
}

/* Returns a budget of NVMe in which plans of any policy have room, or 0 if this plan has no NVMe:
 * it knows what its own file takes, which others exceed. All that the plan moves fits into the
 * three memories; chunks of other sizes are rounded to blocks of 4,096 bytes. */
static inline uint64_t plan_ample_nvme(const struct plan *plan)
{
    return plan->nvme_bytes ? 2 * (plan->arena_bytes + plan->host_pool_bytes + plan->nvme_bytes)
                            : 0;
}

/* Returns what a chunk takes in NVMe, and what is read and written of it. */
static inline uint64_t plan_nvme_slot(const struct layout *layout, chunk_id chunk)
{
    return (layout->chunks[chunk].copy_bytes + PLAN_NVME_ALIGNMENT - 1) / PLAN_NVME_ALIGNMENT *
           PLAN_NVME_ALIGNMENT;
}

/* Returns where room for slots of chunks at home in NVMe begins in the host pool: behind the slots
 * of all others, up to staging. Between iterations it is free. */
uint64_t plan_nvme_room(const struct plan *plan);

/* Returns whether nothing below the device ever holds the chunk. */
static inline bool plan_has_none_below(const struct plan *plan, chunk_id chunk)
{
    return plan->host_address[chunk] == NO_ADDRESS && !plan_in_nvme(plan, chunk) &&
           plan->layout->chunks[chunk].list != TRACE_GATHERED;
}

/* Returns whether the chunk is at home on the device, which it never leaves. */
static inline bool plan_is_homed(const struct plan *plan, chunk_id chunk)
{
    return plan_has_none_below(plan, chunk) && plan->initial_address[chunk] != NO_ADDRESS;
}

/* Returns whether the chunk begins the iteration nowhere. */
static inline bool plan_is_transient(const struct plan *plan, chunk_id chunk)
{
    return plan_has_none_below(plan, chunk) && plan->initial_address[chunk] == NO_ADDRESS;
}

enum plan_error {
    PLAN_ERROR_INVALID,     /* damaged, contradicts itself, or not a plan */
    PLAN_ERROR_OTHER_RUN,   /* made for another model, batch, precision, ... */
    PLAN_ERROR_DOES_NOT_FIT /* a budget is too small; exit status 3 */
};
#define PLAN_ERROR plan_error_quark()
GQuark plan_error_quark(void);

/* Sets PLAN_ERROR_DOES_NOT_FIT: the moment needs more device memory than the budget, both without
 * what libraries hold there. Sizes are for people, but the message ends with the exact need, with
 * what libraries hold: "...; N bytes would fit". `remark` follows the need. */
void plan_lacks_memory(GError **error, const struct trace *trace, moment_id moment,
                       uint64_t need_bytes, const char *remark, uint64_t budget);

struct plan_inputs; /* chunks/place.h */
struct addresses;

/* Makes a plan of addresses, which it frees: what the plan is for, its layout (copied), its homes
 * and its schedule, with the traffic and the peaks that these predict, for the first of several
 * ranks. The caller adds who made it.
 */
struct plan *plan_make(const struct plan_inputs *inputs, struct addresses *addresses);

/* Returns what one of the ranks exchanges in an iteration: in the trace's operators, which must be
 * this rank's, and in the plan's gathers. */
struct trace_exchange plan_exchange(const struct plan *plan, const struct trace *trace,
                                    uint32_t rank);

void plan_free(struct plan *plan);

/* Sets the digest to that of the trace. Searches make many plans, and hash the trace of the best
 * one alone. */
void plan_set_digest(struct plan *plan, const struct trace *trace);

/* Returns a copy with one owner, of a plan without a certificate. Free it with plan_free. */
struct plan *plan_copy(const struct plan *plan);

/* Adds a reference; plan_free releases it, and the last release frees the plan. All owners must be
 * in one thread. */
struct plan *plan_share(struct plan *plan);

#define PLAN_FORMAT 1 /* value of the key "pstar_plan" of the files that are read and written */

/* Reads plan.json and checks what can be checked without a trace. Fails with PLAN_ERROR_INVALID. */
struct plan *plan_read(const char *path, GError **error);

/* Writes plan.json with the certificate, if there is one. A file of that name is replaced when all
 * is written, and kept as it is if that fails. */
bool plan_write(const struct plan *plan, const char *path, GError **error);

/* Refuses a plan that was made for another trace (PLAN_ERROR_OTHER_RUN, with what differs), and a
 * plan whose schedule is impossible (PLAN_ERROR_INVALID). A schedule is impossible if a chunk is
 * used where it is not, an address is taken twice, bytes are lost, a budget is exceeded, or the end
 * is unlike the start. */
bool plan_check(const struct plan *plan, const struct trace *trace, GError **error);

/* Does the same for callers that have placed the trace's buffers already (non_model_place), which
 * may take about a second. */
bool plan_check_placed(const struct plan *plan, const struct trace *trace,
                       const struct non_model *non_model, GError **error);

/* Refuses a plan that has passed plan_check and whose predicted figures are not those of its
 * actions (PLAN_ERROR_INVALID). Does not look at times, at the peaks of the device, which take a
 * replay, or at what ranks exchange, which differs from rank to rank. */
bool plan_check_figures(const struct plan *plan, const struct trace *trace, GError **error);

/* Checks the layout alone: every tensor lies whole within one chunk of each of its lists, and none
 * overlaps another. Fails with PLAN_ERROR_INVALID. */
bool plan_check_layout(const struct plan *plan, const struct trace *trace, GError **error);

/* "fetch", "allocate", "write-back", "drop", "flush", "move", "wait", "load", "reserve", "store",
 * "release" */
const char *plan_action_name(enum plan_action_kind kind);

#endif
