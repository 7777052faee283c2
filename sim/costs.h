/* What work costs on a platform: copies over the link, moves within the device, and, where the
 * device is threads of this machine, what these threads take from each other. */
#ifndef PSTAR_SIM_COSTS_H
#define PSTAR_SIM_COSTS_H

#include "chunks/residency/mover.h"
#include "platforms/platform.h"

/* Where neither a platform nor a link is given: the CPU device, copying at the speed of memory. One
 * core of a recent server copies about 8 GB/s, and reads as much as it writes. */
#define COSTS_DEFAULT_COPY_RATE   8e9  /* bytes a second, each direction */
#define COSTS_DEFAULT_MEMORY_RATE 16e9 /* bytes a second, read and written */
#define COSTS_LEAST_RATE          1e5  /* bytes a second, of anything */

struct fit_interval {
    double low, high; /* 95 % of the resampled fits lie between */
};

/* A fit of measured copies: seconds = latency + bytes / rate. */
struct fit {
    uint32_t points; /* 0: too few for a fit */
    double latency;  /* seconds, at least 0 */
    double rate;     /* bytes a second */
    struct fit_interval latency_interval, rate_interval;
    double mean_error, worst_error; /* relative, over the points */
};

/* Weighted least squares: the squares of relative errors, so that small copies count as much as
 * large ones. The intervals are of a bootstrap of 1,000 resamplings of the points, with a fixed
 * seed. Fewer than three points have no fit. */
struct fit fit_copies(const struct platform_curve *curve);

double fit_seconds(const struct fit *fit, double bytes);

/* Seconds by amount. Copies follow the fit of latency and rate where there are points enough for
 * one; everything else, whose rate depends on caches, its points. */
struct cost {
    struct platform_curve curve;
    struct fit fit; /* points 0: none */
};

/* How the CPU device spends time beside its work; see struct platform_threads. */
struct costs_threads {
    bool known;                        /* false: nothing is shared, and nobody wakes late */
    double cores;                      /* that copies and the host's operators share */
    struct cost copy[2];               /* H2D, D2H: a core's time, by bytes */
    struct cost products[2], memory;   /* of operators on the device: fp32, bf16; by bytes */
    struct platform_threads constants; /* without its source */
};

/* How long a copy takes. */
struct costs_copy {
    uint64_t alone_ns;
    uint64_t both_ns; /* while the other direction copies all the time; at least alone_ns */
};

struct costs {
    struct cost h2d, d2h;    /* by bytes copied from and to pinned host memory */
    struct cost both[2];     /* H2D, D2H: the same while the other direction copies as much; no
                                points: the directions do not slow each other */
    struct cost pageable[2]; /* H2D, D2H: from and to host memory that is not pinned; may have no
                                points */
    uint64_t pinned_bytes;   /* of the host pool, from its beginning; UINT64_MAX: all */
    struct cost memory;      /* by bytes read and written within the device */
    struct cost move;        /* by bytes moved within the device */
    struct cost within;      /* of one move, by the bytes of the arena; no points: all are alike */
    struct costs_threads threads;
};

enum costs_error { COSTS_ERROR_INVALID };
#define COSTS_ERROR costs_error_quark()
GQuark costs_error_quark(void);

/* The platform's curves (`platform` may be NULL: the defaults above; it may be freed afterwards),
 * with the directions that `link` names replaced by a plain rate: "h2d=12GB/s,d2h=12GB/s", either
 * or both; NULL: none. With a link on a platform of threads, these share cores as the CPU device's
 * do. Fails on a link that does not read so, and where a TB takes longer than at the least rate. */
struct costs *costs_new(const struct platform *platform, const char *link, GError **error);
/* The same with the platform's file; `platform_path` NULL: none. Errors of platform_read too. */
struct costs *costs_read(const char *platform_path, const char *link, GError **error);
void costs_free(struct costs *costs);

/* From now on only so much of the host pool is pinned, from its beginning. Fails where copies of
 * other memory have no rate: without a platform that has both pageable curves, or with a link,
 * which has one rate. */
bool costs_set_pinned(struct costs *costs, uint64_t bytes, GError **error);

/* From now on the link is so many times as fast, in both directions; what a copy takes however
 * small it is stays, where it is known. */
void costs_speed_up(struct costs *costs, double times);

/* A copy in MOVER_H2D or MOVER_D2H whose host memory ends at `host_end` in the host pool. What is
 * not pinned takes, beside the other direction, the longer of its own time and that of pinned
 * memory there: the link is shared, not what is done on the host before. */
struct costs_copy costs_copy(const struct costs *costs, enum mover_queue queue, uint64_t bytes,
                             uint64_t host_end);
/* Bytes a second of a large copy between pinned memory and the device in MOVER_H2D or MOVER_D2H:
 * the link's peak. */
double costs_link_rate(const struct costs *costs, enum mover_queue queue);

/* Whether a direction slows the other. */
bool costs_is_duplex(const struct costs *costs);

/* Whole nanoseconds for an amount; 0 for none. */
uint64_t costs_ns(const struct cost *cost, uint64_t amount);

/* What a move takes in an arena of this size, relative to the curve `move`, which was measured in
 * the largest. */
double costs_move_scale(const struct costs *costs, uint64_t arena_bytes);

#endif
