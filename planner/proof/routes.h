/* Time windows, and the cheapest route of one chunk through them: cyclic, by dynamic programming in
 * integers.
 *
 * At any time a chunk's valid bytes are on the host, on both sides, or only on the device. In the
 * last case a host operator that runs late may already want them, either to read them or to
 * overwrite them, which makes the device's copy stale. The network's queue runs late, too: a chunk
 * that a reduction is to use may still be due on the device. In each window a copy in either
 * direction has a price, and so has each byte that is on the device when the window begins. */
#ifndef PSTAR_PLANNER_PROOF_ROUTES_H
#define PSTAR_PLANNER_PROOF_ROUTES_H

#include "chunks/accesses.h"
#include "chunks/certificate.h"
#include "planner/schedule/reuse.h"

/* Cuts an iteration into windows for the time bound. A window begins with an operator of the
 * device, or when the device has finished everything before the update. It ends where the next one
 * begins; the last one wraps around. */

/* The limits of a window: nanoseconds of six resources, and bytes of room at its start. */
enum window_resource {
    WINDOW_COMPUTE,
    WINDOW_H2D,
    WINDOW_D2H,
    WINDOW_HOST,
    WINDOW_NETWORK,
    WINDOW_MEMORY, /* the host's, which copies and operators of the host share */
    WINDOW_ROOM,
    WINDOW_WHOLE, /* room in whole units */
    WINDOW_USES
};

struct time_window {
    moment_id moment; /* of the operator that begins it or ends before it, or of an update */
    uint8_t begins;   /* enum window_begin */
    bool of_update;   /* begins at the update, before its operator has what it needs */
    uint64_t room;    /* beside non-model data and the chunks of that operator; at the update, the
                         bytes of all chunks; at and after an update of the device, with its chunks */
};

/* Where a window begins. */
struct window_start {
    moment_id moment;
    uint8_t begins; /* enum window_begin */
};

struct time_windows {
    uint32_t count, moment_count;
    struct time_window *items;
    uint16_t *of_moment; /* [moment_count] the window in which the operator begins; moments before
                            the first window belong to the last */
};

#define TIME_WINDOWS_MOST 60 /* in equal parts of an iteration */

/* Appends where windows should begin to `starts` (struct window_start), ascending. Forward and
 * backward are cut into at most `most` equal parts; in each, the window begins with the device
 * operator that leaves the least room. The first update follows if only updates come after it.
 * Appends nothing if forward and backward have no device operator. */
void time_windows_choose(const struct trace *trace, const struct reuses *reuses, uint32_t most,
                         GArray *starts);

/* Returns whether windows can begin so: they ascend, time_windows_choose could choose the operator
 * of each that is not at or after an update, and the first begins with an operator of forward or
 * backward. Those at and after updates are updates of the device. */
bool time_windows_are_possible(const struct trace *trace, const struct window_start *starts,
                               uint32_t count);

/* Returns whether a window may begin at, or after, this update of the device. */
bool time_window_may_begin_at(const struct trace_operator *op, enum window_begin begins);

/* Returns whether a window may begin after this operator of forward or backward. */
bool time_window_may_begin_after(const struct trace_operator *op);

/* Returns whether the window begins at or after an update of the device. */
static inline bool time_window_is_in_update(uint8_t begins)
{
    return begins == WINDOW_AT_UPDATE || begins == WINDOW_AFTER_UPDATE;
}

/* Returns whether the window begins when its operator is over. */
static inline bool time_window_is_after(uint8_t begins)
{
    return begins == WINDOW_AFTER_UPDATE || begins == WINDOW_AFTER_OPERATOR;
}

/* Sorts by time. */
int window_start_compare(const void *left, const void *right);

struct time_windows *time_windows_new(const struct trace *trace, const struct reuses *reuses,
                                      const struct window_start *starts, uint32_t count);

/* Returns a copy for a trace whose updates, from `update` on, begin in any order when the device
 * has finished all before. */
struct time_windows *time_windows_with_updates_first(const struct time_windows *windows,
                                                     moment_id update);
void time_windows_free(struct time_windows *windows);

/* Returns whether a window begins with the operator of moment `m`. */
bool time_windows_begin(const struct time_windows *windows, moment_id m);

/* Returns the moment whose operator is the first that begins in the window, or moment_count. */
uint32_t time_window_first(const struct time_window *window);

/* Returns the first moment of the update if it ends the iteration, otherwise operator_count. */
moment_id time_find_update(const struct trace *trace);

/* Returns the moment at a position counted from the beginning of the first window. */
uint32_t time_windows_moment(const struct time_windows *windows, uint32_t position);

/* Nanoseconds times BOUND_PRICE_SCALE, summed over chunks and windows. */
__extension__ typedef __int128 scaled_ns;

struct route_step {
    uint16_t window;
    uint8_t kind; /* enum route_event_kind, in routes.c */
};

/* One cycle of a chunk: from an operator after which its state is known, to the same operator
 * again. */
struct route {
    struct route_step *steps; /* [count]; count is 0 if the chunk is never on the device */
    uint32_t count;
    uint16_t first_window; /* in which the cycle begins */
    uint8_t start;         /* enum route_state */
    uint8_t states;        /* that it can have: ROUTE_STATES if reductions use the chunk */
    bool used_on_host;     /* by an operator of the host, so the chunk needs a place there */
};

/* The cost of one copy of the chunk, and its slots on the device and on the host. A gathered chunk
 * comes over the network. */
struct route_chunk {
    uint64_t fetch_ns, d2h_ns;
    uint64_t memory_ns; /* for which a copy has the host's memory, if that is shared */
    uint64_t bytes, host_bytes;
    uint8_t fetched_by; /* enum window_resource: WINDOW_H2D or WINDOW_NETWORK */
};

/* Returns the routes of all chunks: [chunk_count], freed with routes_free. `deadline`
 * [moment_count] is the moment before which an operator of the host, or a reduction, is over,
 * perhaps in the next cycle. So are the copies that it waited for. `trace` tells reductions from
 * other operators. */
struct route *routes_new(const struct accesses *accesses, const struct trace *trace,
                         const struct time_windows *windows, const uint32_t *deadline);
void routes_free(struct route *routes, uint32_t chunk_count);

/* Returns whether chunks with the same costs of copies and slots have the same cheapest routes. */
bool routes_are_alike(const struct route *a, const struct route *b);

/* Returns the cost of the cheapest route; with `copied` false, of those that copy nothing, so that
 * the chunk needs no place on the host. `from` [route->count + 1][ROUTE_STATES] (may be NULL)
 * remembers it for route_follow. */
#define ROUTE_STATES 7
scaled_ns route_cheapest(const struct route *route, const struct route_chunk *chunk,
                         const struct certificate_window *prices, bool copied,
                         uint8_t (*from)[ROUTE_STATES]);

/* Adds what the route found last for the prices takes in each window to `use` [window
 * count][WINDOW_USES]. */
void route_follow(const struct route *route, const struct route_chunk *chunk,
                  const struct certificate_window *prices, uint8_t (*from)[ROUTE_STATES],
                  uint64_t (*use)[WINDOW_USES]);

/* Returns the price of a resource other than the device's compute. */
static inline uint64_t window_price(const struct certificate_window *window,
                                    enum window_resource resource)
{
    return resource == WINDOW_H2D      ? window->h2d
           : resource == WINDOW_D2H    ? window->d2h
           : resource == WINDOW_HOST   ? window->host
           : resource == WINDOW_MEMORY ? window->memory
                                       : window->network;
}

/* Returns the sum of the prices of all resources but the device's compute. */
static inline uint64_t window_prices(const struct certificate_window *window)
{
    return window->h2d + window->d2h + window->host + window->network + window->memory;
}

/* Returns the bytes that make up whole units of the window; 0 if it has none. */
static inline uint64_t window_whole(const struct certificate_window *window, uint64_t bytes)
{
    return window->unit ? bytes - bytes % window->unit : 0;
}

#endif
