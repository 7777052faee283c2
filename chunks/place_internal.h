/* An iteration while its chunks get addresses. For place.c and place_moves.c alone. */
#ifndef PSTAR_CHUNKS_PLACE_INTERNAL_H
#define PSTAR_CHUNKS_PLACE_INTERNAL_H

#include "chunks/arena.h"
#include "chunks/decide.h"
#include "chunks/plan.h"

/* The highest end that each chunk may have without moving aside for non-model data later. */
struct ceilings {
    uint64_t *arrival; /* [actions] for a fetch or an allocation, the lowest address at which
                          non-model data begins until the chunk has left */
    uint64_t *initial; /* [chunk_count] the same from the start of the iteration */
};

/* The ceilings are multiples of LAYOUT_ALIGNMENT and at most `device_budget`. Time is cyclic. A
 * chunk that is there at the end of the iteration stays into the next one. */
struct ceilings *ceilings_new(const struct decisions *decisions, const struct accesses *accesses,
                              uint64_t device_budget);
void ceilings_free(struct ceilings *ceilings);

/* The number of holes that are tried if no hole is large enough. Each of them grows in both
 * directions. */
enum { PLACING_TRIED = 4 };

struct placing {
    struct arena *arena;
    const struct layout *layout;
    struct plan_action *actions; /* [action_room] action_count of them in this iteration so far */
    uint32_t action_count, action_room;
    uint64_t *start; /* [chunk_count] where each was at the start of the iteration, and will be at
                        its end */
    uint64_t *end;   /* [chunk_count] where each was after the last operator, before it returned to
                        its start */
    uint64_t *ceiling;  /* [chunk_count] see struct ceilings */
    uint64_t floor;     /* the chunks at home on the device lie below it, and never move */
    uint64_t small;     /* chunks with fewer bytes lie together, because others cannot use the holes
                           that they leave */
    uint64_t small_end; /* small chunks lie between the floor and here, as long as they fit */
    uint8_t *leaving;  /* [chunk_count] nonzero if it has left, but its copy to the host is not over
                          yet: it keeps its range in the arena until another chunk needs that */
    uint32_t *arrives; /* [chunk_count] the moment by which its fetch is over; before, moving it
                          waits for its copy */
    moment_id moment;  /* the current one */
    GArray *leavers;   /* struct placing_leaver, in no order */
    int64_t *copied;   /* [chunk_count] the action that last copied it to the host */
    int64_t before;    /* actions of the rounds before */
    uint64_t non_model;   /* extent at the current moment */
    uint64_t arena_bytes; /* needed by the iteration so far */
    uint64_t live;        /* bytes of the slots on the device */
    uint64_t moved;       /* bytes moved within the device */
    uint64_t returned;    /* bytes that returned to their start through the host */

    /* Scratch of place_moves.c: [chunk_count + 1] holes for each search, [chunk_count] chunks that
     * move, and [chunk_count] addresses that they move to. */
    struct arena_hole *holes;
    uint32_t *chunks;
    uint64_t *targets;
};

struct placing_leaver {
    chunk_id chunk;
    uint32_t vacated; /* moment */
    int64_t order;    /* of its copy to the host */
    uint64_t address;
};

void placing_put(struct placing *p, chunk_id chunk, uint64_t address);
void placing_take(struct placing *p, chunk_id chunk);
void placing_emit(struct placing *p, enum plan_action_kind kind, chunk_id chunk, uint64_t address);
/* Moves the chunk in the arena and emits a PLAN_MOVE. */
void placing_move(struct placing *p, chunk_id chunk, uint64_t address);

/* Returns the best fit for a chunk below `ceiling`, or NO_ADDRESS. Prefers addresses below the
 * chunk's own ceiling and among chunks of its kind. */
uint64_t placing_find(const struct placing *p, chunk_id chunk, uint64_t ceiling);

/* Moves chunks until a hole below `ceiling` holds `bytes`, and returns where the hole begins. A
 * short search looks for the fewest bytes to move. The holes below the ceiling must hold `bytes`
 * together, and no chunk may be leaving. */
uint64_t placing_make_room(struct placing *p, uint64_t bytes, uint64_t ceiling);

/* Does the same, but moves no chunk that is leaving or arriving. Returns NO_ADDRESS if there is no
 * such way. */
uint64_t placing_try_to_make_room(struct placing *p, uint64_t bytes, uint64_t ceiling);

/* Moves all chunks below `ceiling`, above which non-model data lies. They must fit there. */
void placing_clear_above(struct placing *p, uint64_t ceiling);

/* Returns every chunk to its start, after the last operator. A chunk that is in the way of another
 * and fits nowhere else on the device leaves for the host and comes back. */
void placing_go_home(struct placing *p, uint64_t ceiling);

#endif
