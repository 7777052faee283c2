/* Records when each piece of work ran under the simulator's clock, and what the device waited for.
 */
#ifndef PSTAR_SIM_TIMELINE_H
#define PSTAR_SIM_TIMELINE_H

#include "chunks/plan.h"
#include "chunks/residency/mover.h"
#include "sim/costs.h"

#include <stdio.h>

enum timeline_kind {
    TIMELINE_OPERATOR,
    TIMELINE_FETCH,
    TIMELINE_WRITE_BACK,
    TIMELINE_MOVE,
    TIMELINE_ACTIVATIONS, /* a copy of activations for an operator on the host */
    TIMELINE_JOIN         /* a place in a queue */
};

/* A piece of work in its queue. Where tickets are numbers, the span of ticket n is the queue's
 * n-th. */
struct timeline_span {
    uint8_t kind;     /* enum timeline_kind */
    moment_id moment; /* at which it was issued */
    chunk_id chunk;   /* or NO_INDEX */
    uint64_t bytes;
    uint64_t start_ns, end_ns; /* end 0 if not complete yet */
};

/* A time in which the device had nothing to compute. */
struct timeline_stall {
    moment_id moment; /* whose operator, or a move before it, waited */
    uint64_t start_ns, wait_ns;
    uint8_t queue;  /* enum mover_queue: resource of the work that it waited for last */
    chunk_id chunk; /* the chunk of that work, or NO_INDEX */
};

struct timeline {
    GArray *spans[MOVER_QUEUES]; /* struct timeline_span */
    GArray *stalls;              /* struct timeline_stall */
    GPtrArray *operators;        /* names, by moment */
    GArray *used_device_bytes;   /* uint64_t, by moment: end of the highest chunk and the extent of
                               non-model data, when its operator last ran */
    uint64_t begin_ns, end_ns;   /* of the iteration that is shown */
    guint first[MOVER_QUEUES];   /* index of its first span; it has all spans from there on */
    guint shown[MOVER_QUEUES];   /* number of spans when it ended */
    guint first_stall, shown_stalls;
};

/* A stretch of time. */
struct timeline_stretch {
    uint64_t start_ns, end_ns;
};

struct timeline *timeline_new(void);
void timeline_free(struct timeline *timeline);

/* Appends a span to a queue, for the caller to close. Returns it, or NULL if `timeline` is NULL.
 * The pointer holds until the next span of the queue. */
struct timeline_span *timeline_note(struct timeline *timeline, enum mover_queue queue,
                                    const struct timeline_span *span);
/* Gives a span its times; it may be NULL. */
void timeline_close(struct timeline_span *span, uint64_t start_ns, uint64_t end_ns);

/* Shows the newest iteration, which lasted from `begin_ns` to `end_ns`. Its spans are those since
 * the last call. */
void timeline_show(struct timeline *timeline, uint64_t begin_ns, uint64_t end_ns);

/* Returns when the i-th span of a queue ran. In the steady state, work that is under way when the
 * replay ends takes as long as it took an iteration earlier. */
struct timeline_stretch timeline_when(const struct timeline *timeline, enum mover_queue queue,
                                      guint i);

/* Takes the first piece off *rest, and moves it into the iteration that begins at `origin_ns` and
 * lasts as long as the one that is shown. In the steady state, what runs before or after it also
 * runs an iteration later or earlier. A piece ends where the iteration does, at the latest. */
struct timeline_stretch timeline_wrap(const struct timeline *timeline, uint64_t origin_ns,
                                      struct timeline_stretch *rest);

/* Returns how many bytes of a span have moved when it has run for `ran_ns` of `all_ns`. */
uint64_t timeline_moved(uint64_t bytes, uint64_t ran_ns, uint64_t all_ns);

/* Returns the span that is complete at `end_ns` in a queue whose tickets are times, or NULL. */
const struct timeline_span *timeline_ending(const struct timeline *timeline, enum mover_queue queue,
                                            uint64_t end_ns);

/* Returns the span of the work with this number, from 1, in a queue whose tickets are numbers.
 * Returns NULL if `timeline` is NULL. */
const struct timeline_span *timeline_numbered(const struct timeline *timeline,
                                              enum mover_queue queue, mover_ticket number);

/* Writes the iteration shown as Chrome trace events (chrome://tracing, Perfetto), from the start of
 * its first operator: one row per queue, and one of stalls. `trace` names the tensors; `costs` has
 * the link's rates. */
bool timeline_write(const struct timeline *timeline, const struct plan *plan,
                    const struct trace *trace, const struct costs *costs, const char *path,
                    GError **error);

/* Prints at most `rows` of the iteration's stalls, longest first: moment, seconds, chunk with its
 * first tensor, resource. */
void timeline_print_stalls(const struct timeline *timeline, const struct plan *plan,
                           const struct trace *trace, uint32_t rows, FILE *out);

#endif
