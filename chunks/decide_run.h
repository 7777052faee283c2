/* A dry run in progress: its state, and its operators. For decide.c alone. */
#ifndef PSTAR_CHUNKS_DECIDE_RUN_H
#define PSTAR_CHUNKS_DECIDE_RUN_H

#include "chunks/decide.h"

/* Where a chunk is. */
enum { RUN_ON_HOST, RUN_ON_DEVICE, RUN_AT_HOME /* on the device, for good */ };

struct run {
    const struct accesses *accesses;
    const struct policy_ops *ops;
    void *policy;
    struct policy_view view;
    uint64_t *bytes;    /* [chunk_count] slots */
    uint8_t *place;     /* [chunk_count] RUN_... */
    uint8_t *pinned;    /* [chunk_count] all 0 between operators */
    uint8_t *dirty;     /* [chunk_count] the device's copy is newer and alive */
    uint8_t *ahead;     /* [chunk_count] see struct policy_view */
    uint32_t *next_use; /* [chunk_count] likewise */
    uint64_t *capacity; /* [moment_count + 1] likewise */
    uint64_t used;      /* slots on the device of chunks that are not at home there */
    uint32_t chunk_count, moment, iteration;
    uint32_t incoming; /* see struct policy_view */
    char *fault;       /* see struct decisions */

    uint32_t look_ahead;  /* moments */
    uint32_t look_aheads; /* so far */
    uint32_t *seen;       /* [chunk_count] the look-ahead that last met the chunk */
    uint32_t *window;     /* [window_count] chunks that it has pinned */
    uint32_t window_count;

    struct decisions *record;    /* NULL while settling */
    struct plan_action *actions; /* the record's, which has room for action_room of them */
    uint32_t action_count, action_room;
};

/* All operators of one iteration. Writes the record's actions and, but for the last one, its
 * `first`. */
void run_operators(struct run *run);

/* Chunks leave and enter the device, which has room for them: the policy hears of it, and the
 * record has it. */
void run_leave(struct run *run, uint32_t chunk);
void run_enter(struct run *run, enum plan_action_kind kind, uint32_t chunk);

#endif
