/* When each chunk is on the device, by its rule: the first half of a script. */
#ifndef PSTAR_STRATEGIES_SCRIPT_STAYS_H
#define PSTAR_STRATEGIES_SCRIPT_STAYS_H

#include "strategies/strategy.h"

/* A chunk's time on the device, at the moments [enter, last_use]. Moments are counted from the
 * start of an iteration; below 0: in the one before, moment_count and more: in the next. */
struct script_stay {
    uint32_t chunk;
    int64_t first_use; /* in [0, moment_count) */
    int64_t last_use;  /* < first_use + moment_count */
    int64_t earliest;  /* that it may enter: it has left before, and the host has written it */
    int64_t enter;     /* <= first_use */
    bool fetch;        /* else: allocated */
};

struct script_flush {
    uint32_t chunk, moment;
};

struct script_stays {
    GArray *items;   /* struct script_stay: chunks that come and go */
    GArray *flushes; /* struct script_flush: of what stays while a host operator reads it */
    uint8_t *always; /* [chunk_count] nonzero: never leaves */
};

/* As late as possible: each enters when it is first used. */
struct script_stays *script_stays_new(const struct strategy_context *context,
                                      const struct script_rule *rules);
void script_stays_free(struct script_stays *stays);

#endif
