/* The states of a chunk, which say where its valid bytes are, and the events that change them. The
 * residency manager and plan_check share the table. */
#ifndef PSTAR_CHUNKS_RESIDENCY_RESIDENCY_STATE_H
#define PSTAR_CHUNKS_RESIDENCY_RESIDENCY_STATE_H

#include "chunks/plan.h"

enum residency_state {
    RESIDENCY_NOWHERE,      /* nothing in it is alive, and it has no room on the device */
    RESIDENCY_EMPTY,        /* has room on the device, but nothing in it is alive */
    RESIDENCY_HOST,         /* host only */
    RESIDENCY_FETCHING,     /* valid on the host, on its way to the device */
    RESIDENCY_BOTH,         /* host and device agree */
    RESIDENCY_DEVICE,       /* device only, dirty */
    RESIDENCY_WRITING_BACK, /* on its way to the host */
    RESIDENCY_STATES
};

/* Where "the host" of a chunk is that is at home in NVMe: in its slot in the host pool, or, where
 * that has gone or is clean, in the file. */
enum residency_slot {
    RESIDENCY_SLOT_NONE,
    RESIDENCY_SLOT_EMPTY, /* taken, but not written yet */
    RESIDENCY_SLOT_CLEAN, /* with the same bytes as the file */
    RESIDENCY_SLOT_DIRTY, /* the file has older bytes */
    RESIDENCY_SLOTS
};

enum residency_event {
    RESIDENCY_FETCH,
    RESIDENCY_ALLOCATE,
    RESIDENCY_WRITE_BACK,
    RESIDENCY_DROP,
    RESIDENCY_FLUSH,
    RESIDENCY_MOVE,
    RESIDENCY_READ,        /* by an operator on the device */
    RESIDENCY_WRITE,       /* by an operator on the device; some old bytes are still valid */
    RESIDENCY_FRESH_WRITE, /* by an operator on the device; no old byte is needed */
    RESIDENCY_DIE,         /* after the last use of its bytes, on the device or on the host */
    RESIDENCY_HOST_READ,   /* by an operator on the host */
    RESIDENCY_HOST_WRITE,
    RESIDENCY_HOST_FRESH_WRITE,
    RESIDENCY_LOAD,
    RESIDENCY_RESERVE,
    RESIDENCY_STORE,
    RESIDENCY_RELEASE,
    RESIDENCY_EVENTS
};

/* The next state + 1; 0 if the event is illegal. */
extern const uint8_t residency_transitions[RESIDENCY_STATES][RESIDENCY_EVENTS];

/* Sets *next to the state after `event`. Returns false if the event is illegal, because bytes would
 * be lost, or used where they are not. */
static inline bool residency_state_next(enum residency_state state, enum residency_event event,
                                        enum residency_state *next)
{
    uint8_t entry = residency_transitions[state][event];
    if (entry)
        *next = (enum residency_state)(entry - 1);
    return entry != 0;
}

/* Does the same for a chunk that is at home in NVMe, with its slot. Neither changes if the event is
 * illegal. */
bool residency_tier_next(enum residency_state *state, enum residency_slot *slot,
                         enum residency_event event);

/* Returns the event for an access with these flags (chunks/accesses.h), without the end of its
 * life. */
enum residency_event residency_event_of(uint32_t access_flags);
/* Returns the event of a plan's action (enum plan_action_kind) that has a chunk. */
enum residency_event residency_event_of_action(uint8_t kind);

/* Returns whether the chunk's bytes are all valid, wherever they are. */
bool residency_is_whole(enum residency_state state);

bool residency_on_device(enum residency_state state);

/* Returns the state before anything was copied. Shards count as the host of a gathered chunk. */
enum residency_state residency_state_initial(const struct plan *plan, chunk_id chunk);

const char *residency_state_name(enum residency_state state);
const char *residency_slot_name(enum residency_slot slot);
const char *residency_event_name(enum residency_event event);

#endif
