/* An iteration while its chunks are given addresses: what the steps of chunks/place.c share. */
#ifndef PSTAR_CHUNKS_PLACE_INTERNAL_H
#define PSTAR_CHUNKS_PLACE_INTERNAL_H

#include "chunks/arena.h"
#include "chunks/decide.h"
#include "chunks/plan.h"

/* How far up each chunk may lie without having to make way for non-model data later. */
struct ceilings {
    uint64_t *arrival; /* [actions] of a fetch or an allocation: the lowest address at which
                          non-model data begins until the chunk leaves */
    uint64_t *initial; /* [chunk_count] likewise, from the iteration's start */
};

/* Addresses are multiples of LAYOUT_ALIGNMENT below `device_budget`. Time goes round: a chunk that
 * stays at the iteration's end stays into the next. */
struct ceilings *ceilings_new(const struct decisions *decisions, const struct accesses *accesses,
                              uint64_t device_budget);
void ceilings_free(struct ceilings *ceilings);

/* Holes that are tried where there is room for a chunk in none: each grows both ways. */
enum { PLACING_TRIED = 4 };

struct placing {
    struct arena *arena;
    struct plan_action *actions; /* [action_room]: action_count so far in this iteration */
    uint32_t action_count, action_room;
    uint64_t *start;      /* [chunk_count] where each was when the iteration began, and will end */
    uint64_t *end;        /* [chunk_count] where the iteration had brought it before that */
    uint64_t *ceiling;    /* [chunk_count] above which it should not lie: struct ceilings */
    uint64_t floor;       /* below it lie the chunks at home on the device, which never move */
    uint64_t small;       /* chunks of less bytes keep to themselves, for the holes that they leave
                             are of no use to others: */
    uint64_t small_end;   /* from the floor to here, while there is room */
    uint64_t non_model;   /* extent at the current moment */
    uint64_t arena_bytes; /* that the iteration has needed so far */
    uint64_t live;        /* slots on the device */
    uint64_t moved;       /* bytes, within the device */
    uint64_t returned;    /* bytes that went to their start through the host */

    /* Scratch of place_moves.c: the holes [chunk_count + 1] of each search; chunks [chunk_count]
     * that are to move, and where to. */
    struct arena_hole *holes;
    uint32_t *chunks;
    uint64_t *targets;
};

void placing_put(struct placing *p, uint32_t chunk, uint64_t address);
void placing_take(struct placing *p, uint32_t chunk);
void placing_emit(struct placing *p, enum plan_action_kind kind, uint32_t chunk, uint64_t address);
/* Moves it in the arena and emits a PLAN_MOVE. */
void placing_move(struct placing *p, uint32_t chunk, uint64_t address);

/* The best fit for a chunk below `ceiling`: below its own ceiling and among chunks of its kind if
 * there is one; NO_ADDRESS. */
uint64_t placing_find(const struct placing *p, uint32_t chunk, uint64_t ceiling);

/* Moves chunks, as few bytes as a short search finds, until a hole below `ceiling` holds `bytes`;
 * returns where it begins. The holes below the ceiling must hold as much together. */
uint64_t placing_make_room(struct placing *p, uint64_t bytes, uint64_t ceiling);

/* Chunks make way for the non-model data above `ceiling`. All must fit below it. */
void placing_clear_above(struct placing *p, uint64_t ceiling);

/* After the last operator: every chunk goes to where it began. Whoever stands in another's way and
 * finds no room within the device leaves through the host and comes back. */
void placing_go_home(struct placing *p, uint64_t ceiling);

#endif
