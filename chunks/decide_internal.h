/* A run of a policy, which decides. For decide.c and decide_ahead.c alone. */
#ifndef PSTAR_CHUNKS_DECIDE_INTERNAL_H
#define PSTAR_CHUNKS_DECIDE_INTERNAL_H

#include "chunks/decide.h"

/* The place of a chunk. */
enum { RUN_ON_HOST, RUN_ON_DEVICE, RUN_AT_HOME /* always on the device */ };

/* The moments behind the current operator that were looked at, and the chunks that they pin. Times
 * are moments since the start of the first iteration, which begins at moment_count. */
struct run_window {
    uint32_t most;     /* moments that it may have; 0 without look-ahead */
    bool known;        /* false: nothing is pinned, and `end` is meaningless */
    uint32_t now, end; /* times: of the last operator, and the first one not looked at */
    uint32_t *met;     /* [chunk_count] time of the last access from `now` to before `end`; a lower
                          value means that there is none */
    uint32_t *lowest; /* [most + 1] a ring of times from `now` on: each has less room than all later
                         ones before `end` */
    uint32_t lowest_first, lowest_count;
};

struct run {
    const struct accesses *accesses;
    const struct pstar_policy_ops *ops;
    void *policy;
    struct pstar_policy_view view;
    uint64_t *slot_bytes;     /* [chunk_count] slots */
    uint8_t *place;           /* [chunk_count] RUN_... */
    uint8_t *pinned;          /* [chunk_count] see struct pstar_policy_view */
    const uint8_t *transient; /* [chunk_count] of the homes: always pinned */
    uint8_t *dirty;           /* [chunk_count] the device's copy is newer, and alive */
    uint8_t *ahead;           /* [chunk_count] see struct pstar_policy_view */
    uint32_t *next_use;       /* [chunk_count] see struct pstar_policy_view */
    uint64_t *capacity;       /* [moment_count + 1] see struct pstar_policy_view */
    uint64_t used; /* bytes of the slots of chunks that are on the device but not at home there */
    uint64_t pinned_used; /* of those, the pinned ones */
    uint32_t chunk_count, moment, iteration;
    uint32_t incoming; /* see struct pstar_policy_view */
    char *fault;       /* see struct decisions */
    struct run_window window;

    struct decisions *record;    /* NULL while settling */
    struct plan_action *actions; /* the record's actions, with room for action_room of them */
    uint32_t action_count, action_room;
};

/* A chunk enters the device, which has room for it. Tells the policy and writes it to the record.
 */
void run_enter(struct run *run, enum plan_action_kind kind, chunk_id chunk);

/* Evicts until the chunk `incoming` (or nothing, if it is NO_INDEX) fits into `capacity` beside the
 * others. Returns false if all that is left is pinned. */
bool run_make_room(struct run *run, uint32_t incoming, uint64_t capacity);

/* Every chunk is pinned and unpinned here. */
static inline void run_set_pin(struct run *run, chunk_id chunk, bool pinned)
{
    pinned |= run->transient[chunk];
    if (run->place[chunk] == RUN_ON_DEVICE && pinned != run->pinned[chunk])
        run->pinned_used += pinned ? run->slot_bytes[chunk] : -run->slot_bytes[chunk];
    run->pinned[chunk] = pinned;
}

/* Pins the chunks of the accesses from `begin` to before `end`, or unpins them. */
void run_pin(struct run *run, const struct chunk_access *begin, const struct chunk_access *end,
             bool pinned);

void run_window_open(struct run *run, uint32_t look_ahead);
void run_window_close(struct run *run);

/* Unpins what later moments need. The operator in progress must do so before it evicts. */
void run_window_forget(struct run *run);

/* Fetches what the moments behind the current operator need, in their order, into the room that all
 * moments until then leave. What they need stays pinned, and so do the chunks that the operator
 * uses on the device, which come before `host`. Stops at the first chunk without room. */
void run_window_fetch(struct run *run, const struct chunk_access *begin,
                      const struct chunk_access *host, const struct chunk_access *end);

#endif
