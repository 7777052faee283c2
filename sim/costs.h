/* The cost of work on a platform: of copies over the link and of moves within the device. If the
 * device is threads of this machine, these threads also slow each other down. */
#ifndef PSTAR_SIM_COSTS_H
#define PSTAR_SIM_COSTS_H

#include "chunks/residency/mover.h"
#include "platforms/platform.h"
#include "traces/trace.h"

#include <jansson.h>

/* Default rates, if there is neither a platform nor a link. They describe the CPU device, which
 * copies at the speed of memory. One core of a recent server copies about 8 GB/s, and reads as much
 * as it writes. */
#define COSTS_DEFAULT_COPY_RATE   8e9  /* bytes a second, each direction */
#define COSTS_DEFAULT_MEMORY_RATE 16e9 /* bytes a second, read and written */
#define COSTS_DEFAULT_NVME_RATE \
    2e9                      /* bytes a second, each direction, of a platform without "nvme" */
#define COSTS_LEAST_RATE 1e5 /* bytes a second, of anything */

struct fit_interval {
    double low, high; /* 95 % of the resampled fits lie between them */
};

/* A fit of measured copies: seconds = latency + bytes / rate. */
struct fit {
    uint32_t points; /* 0 if there were too few for a fit */
    double latency;  /* seconds, at least 0 */
    double rate;     /* bytes a second */
    struct fit_interval latency_interval, rate_interval;
    double mean_error, worst_error; /* relative, over the points */
};

/* Fits by weighted least squares of relative errors, so that small copies count as much as large
 * ones. The intervals come from a bootstrap of 1,000 resamplings of the points, with a fixed seed.
 * Fewer than three points have no fit. */
struct fit fit_copies(const struct platform_curve *curve);

double fit_seconds(const struct fit *fit, double bytes);

/* Seconds by amount. Copies follow the fit of latency and rate if there are enough points for one.
 * Everything else follows its points, because its rate depends on caches. */
struct cost {
    struct platform_curve curve;
    struct fit fit;   /* no fit if it has 0 points */
    double most_rate; /* amount a second that nothing exceeds; 0 if there is no limit */
};

/* The overheads of the CPU device (struct platform_threads). */
struct costs_threads {
    bool known;                        /* if not, nothing is shared, and no thread wakes late */
    bool together;                     /* the device computes on the shared cores, too */
    double cores;                      /* that copies and the host's operators share */
    struct cost copy[2];               /* [H2D, D2H] time of a core, by bytes */
    struct cost products[2], memory;   /* of operators on the device; [fp32, bf16] and by bytes */
    struct platform_threads constants; /* without its source */
};

/* The time of one copy. */
struct costs_copy {
    uint64_t alone_ns;
    uint64_t both_ns;    /* while the other direction copies all the time; at least alone_ns */
    uint64_t core_ns;    /* of an exchange: time of a core that it takes; 0 for copies, of which
                            struct costs_threads says it */
    uint64_t link_bytes; /* of an exchange: bytes each way over the link that copies take; 0 if it
                            takes another */
    uint64_t ready_ns;   /* of a message: when it is there; else 0 */
};

struct costs {
    char *link;           /* as it was given; may be NULL */
    struct cost h2d, d2h; /* by bytes copied from and to pinned host memory */
    struct cost both[2];  /* H2D, D2H: by bytes, while the other direction copies equally much; has
                             no points if the directions do not slow each other */
    struct cost pageable[2]; /* H2D, D2H: from and to host memory that is not pinned; may have no
                                points */
    double host_rate; /* bytes a second of the host's memory, which copies and host operators share;
                         0 if they share nothing */
    uint64_t pinned_bytes; /* of the host pool, from its beginning; UINT64_MAX if all is pinned */
    struct cost nvme[2];   /* by bytes read, and by bytes written */
    struct cost memory;    /* by bytes read and written within the device */
    struct cost move;      /* by bytes moved within the device */
    struct cost within;    /* of one move, by the bytes of the arena; may have no points */
    struct costs_threads threads;
    struct platform *ranks; /* how ranks and stages exchange; NULL with one process, or if it is not
                               known */
    uint32_t nodes;         /* over which the platform's ranks are spread; 0 if they are not */
};

enum costs_error { COSTS_ERROR_INVALID };
#define COSTS_ERROR costs_error_quark()
GQuark costs_error_quark(void);

/* Returns the costs of the platform, which may be freed afterwards; NULL gives the defaults above.
 * `link` replaces one or both directions by a plain rate, "h2d=12GB/s,d2h=12GB/s"; it may be NULL.
 * Ranks exchange as the platform says, if it was told of several (platform_spread_ranks).
 * With a link on a platform of threads, the threads share cores as the CPU device's do. Those of
 * one of several ranks share all of its cores with computing, if it has only one, or no link. Fails
 * if `link` has another form, or if a rate is below COSTS_LEAST_RATE. */
struct costs *costs_new(const struct platform *platform, const char *link, GError **error);
/* Reads the platform's file, which may be NULL, and returns costs_new of it. */
struct costs *costs_read(const char *platform_path, const char *link, GError **error);
void costs_free(struct costs *costs);

/* Pins only the first `bytes` of the host pool. Fails if copies of other memory have no rate: if
 * the platform lacks one of the pageable curves, or with a link, which has one rate. */
bool costs_set_pinned(struct costs *costs, uint64_t bytes, GError **error);

/* Multiplies the link's rates in both directions. The latency of a copy stays, where it is known.
 */
void costs_speed_up(struct costs *costs, double times);

/* Makes no copy over the link faster than NVMe reads or writes, as if all that lies in host memory
 * had to pass there. */
void costs_slow_to_nvme(struct costs *costs);

/* Returns the time of a transfer in MOVER_NVME_READ or MOVER_NVME_WRITE, with the blocks and the
 * depth that platform_disk_best finds, or of a copy in MOVER_H2D or MOVER_D2H whose host memory
 * ends at `host_end` in the host pool. Beside the other direction, a copy of pageable memory takes
 * the longer of its own time alone and the time of pinned memory beside it, because only the link
 * is shared. */
struct costs_copy costs_copy(const struct costs *costs, enum mover_queue queue, uint64_t bytes,
                             uint64_t host_end);
/* Returns the time of each of the COPY_PARTS parts of a copy of `bytes` over the link: as a copy
 * of its own takes, and at least its share of the whole. */
struct costs_copy costs_part(const struct costs *costs, enum mover_queue queue, uint64_t bytes,
                             uint64_t host_end);
/* Returns how much longer a copy takes that waits for another one: threads must wake. */
uint64_t costs_copy_overhead_ns(const struct costs *costs);
/* Returns the time in which a rank exchanges these bytes with the others; 0 if it is not known how
 * ranks exchange. No other direction slows it. */
struct costs_copy costs_exchange(const struct costs *costs, enum trace_collective collective,
                                 const struct trace_exchange *exchange);
/* Returns the time of everything that an operator exchanges, one after the other. */
struct costs_copy costs_exchanges(const struct costs *costs, const struct trace_operator *op);

/* The time of a message from a stage to another. */
struct costs_message {
    uint64_t way_ns; /* until the next message may follow on this way */
    uint64_t all_ns; /* until it is there; at least way_ns */
};
/* Returns the time of a message of each rank of a stage to its peer in another; 0 if it is not
 * known how stages exchange. */
struct costs_message costs_message(const struct costs *costs, uint32_t from, uint32_t to,
                                   uint64_t bytes);

/* Returns the network's peak: bytes a second that a rank receives in a large gather; 0 if it is not
 * known how ranks exchange. */
double costs_network_rate(const struct costs *costs);
/* Adds to a JSON object what the simulation was of, beside its budgets: the link with its rates,
 * and the ranks of the trace with their nodes and their stage. "link" is null where it was not
 * given. */
void costs_describe(const struct costs *costs, const struct trace *trace, json_t *object);

/* Returns the peak of a queue: bytes a second of a large transfer, over the link of pinned memory.
 */
double costs_link_rate(const struct costs *costs, enum mover_queue queue);

/* Returns whether what ranks exchange crosses the link that copies take. */
bool costs_exchanges_share_link(const struct costs *costs);
/* Returns whether copies slow each other, or host operators, exchanges and copies do. */
bool costs_is_shared(const struct costs *costs);

/* Returns whole nanoseconds for an amount, 0 for 0. */
uint64_t costs_ns(const struct cost *cost, uint64_t amount);

/* Returns the time of a move in an arena of this size relative to the curve `move`, which was
 * measured in the largest arena. */
double costs_move_scale(const struct costs *costs, uint64_t arena_bytes);

#endif
