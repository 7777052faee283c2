/* Where a chunk's valid bytes are, and which events may change that. One table, for the residency
 * manager and for the check of a plan. */
#ifndef PSTAR_CHUNKS_RESIDENCY_RESIDENCY_STATE_H
#define PSTAR_CHUNKS_RESIDENCY_RESIDENCY_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum residency_state {
    RESIDENCY_NOWHERE,      /* nothing alive in it, no room on the device */
    RESIDENCY_EMPTY,        /* has room on the device, nothing alive in it */
    RESIDENCY_HOST,         /* host only */
    RESIDENCY_FETCHING,     /* host valid, device on the way */
    RESIDENCY_BOTH,         /* host and device agree */
    RESIDENCY_DEVICE,       /* device only, dirty */
    RESIDENCY_WRITING_BACK, /* on the way to the host */
    RESIDENCY_STATES
};

enum residency_event {
    RESIDENCY_FETCH,
    RESIDENCY_ALLOCATE,
    RESIDENCY_WRITE_BACK,
    RESIDENCY_DROP,
    RESIDENCY_FLUSH,
    RESIDENCY_MOVE,
    RESIDENCY_READ,        /* by an operator on the device */
    RESIDENCY_WRITE,       /* likewise, some old bytes still count */
    RESIDENCY_FRESH_WRITE, /* likewise, no old byte counts */
    RESIDENCY_DIE,         /* after the last use of its bytes, on the device or on the host */
    RESIDENCY_HOST_READ,   /* by an operator on the host */
    RESIDENCY_HOST_WRITE,
    RESIDENCY_HOST_FRESH_WRITE,
    RESIDENCY_EVENTS
};

/* The next state + 1; 0 where the event is illegal. */
extern const uint8_t residency_transitions[RESIDENCY_STATES][RESIDENCY_EVENTS];

/* The state after `event`; false where it is illegal: bytes would be lost, or used where they are
 * not. */
static inline bool residency_state_next(enum residency_state state, enum residency_event event,
                                        enum residency_state *next)
{
    uint8_t entry = residency_transitions[state][event];
    if (entry)
        *next = (enum residency_state)(entry - 1);
    return entry != 0;
}

/* The event that an access is, from its flags (chunks/accesses.h), but for its end of life. */
enum residency_event residency_event_of(uint32_t access_flags);

bool residency_on_device(enum residency_state state);

const char *residency_state_name(enum residency_state state);
const char *residency_event_name(enum residency_event event);

#endif
