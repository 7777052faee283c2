/* The time bound of a layout, and prices that make the bounds of time and traffic large.
 *
 * The model of the time says what any schedule must do in each window: routes of chunks, work on
 * either side, room. docs/bounds.md proves that no schedule does less. Prices come from linear
 * programs. */
#ifndef PSTAR_PLANNER_PROOF_PRICES_H
#define PSTAR_PLANNER_PROOF_PRICES_H

#include "chunks/plan.h"
#include "planner/proof/bound.h"
#include "planner/proof/chains.h"
#include "planner/proof/routes.h"
#include "planner/schedule/reuse.h"
#include "sim/costs.h"

/* The sides on which updates may run. With only one side, they run where the plan has them. */
enum time_side { TIME_DEVICE, TIME_HOST, TIME_SIDES };

/* Work that does not belong to a chunk: an update, or an operator of the host. */
struct time_work {
    uint64_t compute_ns; /* on the device, in `window` */
    uint64_t host_ns, h2d_ns,
        network_ns;     /* each somewhere in `window` or the `span` windows after it */
    uint64_t d2h_ns;    /* the same with `d2h_span` */
    uint64_t memory_ns; /* of the host's memory: the same as host_ns */
    uint64_t idle_ns; /* for which the device waits, in `idle_window` or the `idle_span` after it */
    uint16_t window, span, d2h_span, idle_window, idle_span;
};

/* A unit of placement: the chunks of a group with their updates on each side, or one operator
 * without chunks that is always in the queue of the host or of the network. */
struct time_block {
    GArray *chunks;            /* uint32_t */
    GArray *work[TIME_SIDES];  /* struct time_work */
    bool excluded[TIME_SIDES]; /* an update there needs more memory than there is */
};

/* Blocks that are alike. */
struct time_kind {
    uint32_t first, count; /* the first one, and how many there are */
};

/* Who may end the search for prices before its time. The bounds that were found by then hold. */
struct proof_watch {
    bool (*goes_on)(void *data); /* called in the thread that proves the time's bound */
    void *data;
};

/* `watch` may be NULL. */
static inline bool proof_goes_on(const struct proof_watch *watch)
{
    return !watch || watch->goes_on(watch->data);
}

struct time_model {
    struct time_windows *windows, *host_windows; /* the latter, if not NULL, for updates on the host
                                                    that may run in any order with the device's */
    uint64_t *compute_ns; /* [window count] of operators that are on the device in any case */
    uint32_t side_count, chunk_count, block_count;
    uint64_t host_bytes;        /* the host's budget; UINT64_MAX if it is unlimited */
    struct route_chunk *chunks; /* [chunk_count] */
    struct route *routes[TIME_SIDES];
    struct time_block *blocks; /* [block_count] */
    struct time_kind *kinds;   /* [kind_count] */
    uint32_t kind_count;
    uint32_t *kind_of;                       /* [block_count] */
    bool networked;                          /* something occupies the network */
    bool shares_memory;                      /* copies and operators share the host's memory */
    uint32_t longest;                        /* most steps of a route */
    struct chain_operators *chain_operators; /* NULL if the order of updates is unknown */
    const struct proof_watch *watch;         /* the job's */
};

struct time_job {
    const struct plan *plan;
    const struct trace *sides[TIME_SIDES]; /* with every update on the device, and on the host; or
                                              the plan's own and NULL, if updates stay there */
    const struct costs *costs;
    bool in_order; /* the updates of each side run in one order wherever others run, or stay where
                      the plan has them */
    /* Groups that are on one side in this case: on the host if the bit of `branches_on_host` is
     * set. */
    const uint32_t *branches;
    uint32_t branch_count, branches_on_host;
    bool sorts; /* in_order, and placing may sort updates: the host's come first, and those of
                   each side ascend by tensor */
    const struct proof_watch *watch; /* may be NULL */
};

/* Returns whether the operator is an update, which may be placed. */
bool time_is_placed(const struct trace_operator *op);
/* Sets in_order and sorts; `traced` has updates where they were traced. */
void time_job_set_order(struct time_job *job, const struct trace *traced);
/* Returns the group of the update at moment `m`, or NO_INDEX for other operators. */
uint32_t time_group_of(const struct trace *trace, const struct layout *layout, moment_id m);

/* The nanoseconds that a piece of work takes at least: of `ns` nanoseconds, a copy, an operator of
 * the device. */
uint64_t time_job_at_least(const struct time_job *job, uint64_t ns);
uint64_t time_job_copy_ns(const struct time_job *job, const struct cost *cost, uint64_t bytes);
uint64_t time_job_device_ns(const struct time_job *job, const struct trace_operator *op);
/* Returns the nanoseconds for which a copy, or an operator of the host, that takes `alone_ns` has
 * the host's memory for itself at least; 0 if that is not shared. */
uint64_t time_job_memory_ns(const struct time_job *job, uint64_t bytes, uint64_t alone_ns);
/* Returns the nanoseconds for which an operator occupies the network: what it exchanges and, if it
 * is a reduction, the sum. */
uint64_t time_job_network_ns(const struct time_job *job, const struct trace_operator *op);

/* Returns the nanoseconds for which the device computes nothing because of the operator of the host
 * at moment `m`: while it receives its activations and, if it sends some, until they have arrived.
 * Operators of the host before it that are there in any case then count, too, if nothing else may
 * happen while they run. 0 with several ranks, since the device may exchange something meanwhile.
 */
uint64_t time_job_idle_ns(const struct time_job *job, const struct trace *trace, moment_id m);

/* Adds the starts of windows at and after large updates of the device to others, and sorts them. */
void time_windows_choose_updates(const struct time_job *job, GArray *starts);

/* Returns whether windows may begin after operators of forward and backward. Where threads share
 * cores, an operator counts with the pause behind it, in which copies may already have its room. */
bool time_windows_may_end(const struct time_job *job);

/* Adds windows that begin at and after the longest operators of forward and backward, at most
 * `most` of them, and sorts them. */
void time_windows_choose_ends(const struct time_job *job, uint32_t most, GArray *starts);

/* Returns whether windows can begin so, with the trace of the device's side. */
bool time_job_may_begin(const struct time_job *job, const struct window_start *starts,
                        uint32_t count);

/* `starts` satisfy time_job_may_begin. */
struct time_model *time_model_new(const struct time_job *job, const struct reuses *reuses,
                                  const struct window_start *starts, uint32_t count);
void time_model_free(struct time_model *model);

/* Sets kinds, kind_count and kind_of. Blocks are alike if they do the same work in the same
 * windows, and their chunks have the same routes and sizes. Their parts in chains may differ. */
void time_model_find_kinds(struct time_model *model);

/* Returns whether what is cheapest for one chunk is so for the other. */
bool time_chunks_are_alike(const struct time_model *model, int side, uint32_t a, uint32_t b);

/* Prices of windows and of chains. In each window, the prices of the resources and those of the
 * chains that contain it sum to at most BOUND_PRICE_SCALE. */
struct time_prices {
    const struct certificate_window *windows; /* [window count] */
    const struct time_chain *chains;          /* [chain_count] with a price each */
    uint32_t chain_count;
    uint64_t host_bytes; /* of a byte of the host's memory, as prices of room are; 0 if it is
                            unlimited */
};

/* What a block of each kind takes on its cheapest routes, on the side that most of them have. */
struct time_use {
    uint64_t (*windows)[WINDOW_USES]; /* [kind_count * window count] */
    uint64_t *host_bytes;             /* [kind_count] */
    uint8_t *side;                    /* [kind_count] enum time_side */
};

/* Returns the lower bound for these prices in nanoseconds times BOUND_PRICE_SCALE, exact in
 * integers. `use` may be NULL. */
scaled_ns time_model_bound(const struct time_model *model, const struct time_prices *prices,
                           const struct time_use *use);

/* Returns the same in whole nanoseconds, rounded down: the times of a schedule are whole but sums
 * of roundings. */
uint64_t time_model_bound_ns(const struct time_model *model, const struct time_prices *prices);

/* How far the bound of a certificate may stay below the master program's optimum, as a share of it.
 */
#define TIME_PRICES_CLOSE 2e-4

/* Solves the time bound by Dantzig-Wolfe decomposition. A master program, solved with GLPK, mixes
 * the routes of the blocks found so far and proposes prices; each block answers with its cheapest
 * routes for them. This repeats until the bound is within `close` of the mix. Returns the best
 * prices found, for time_model_bound: [window count], freed by the caller. `chains` (may be NULL)
 * is an array that receives the chains (struct time_chain) that the mix breaks, with their prices;
 * it clears them. `host_bytes` receives the price of a byte of the host's memory. `on_host`
 * [2 * block_count] (may be NULL) receives the share of each block that runs on the host, first in
 * the last mix, then in the one whatever the host's memory. With `central`, optimal prices are also
 * taken from the middle of them where there are few blocks, which takes longer. A bound of
 * `enough_ns` is not improved any more. Must not run in two threads at once. */
struct certificate_window *time_prices_find(const struct time_model *model, double close,
                                            uint64_t enough_ns, GArray *chains,
                                            uint64_t *host_bytes, double *on_host, bool central);

/* Returns the dual values of the room in the program of the least copies, counted by these weights,
 * for bound_copies: [moment_count], freed by the caller. All are 0 if the solver finds no solution,
 * which is still valid. Must not run in two threads at once. */
uint64_t *traffic_prices_find(const struct reuses *reuses, const struct copy_weights *weights);

#endif
