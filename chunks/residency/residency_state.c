#include "chunks/residency/residency_state.h"

#include "chunks/accesses.h"

/* Each entry is the next state + 1. 0 means that the event is illegal. */
#define TO(state) (RESIDENCY_##state + 1)

const uint8_t residency_transitions[RESIDENCY_STATES][RESIDENCY_EVENTS] = {
    [RESIDENCY_NOWHERE] =
        {[RESIDENCY_ALLOCATE] = TO(EMPTY), [RESIDENCY_HOST_FRESH_WRITE] = TO(HOST)},
    [RESIDENCY_EMPTY] = {[RESIDENCY_DROP] = TO(NOWHERE),
                         [RESIDENCY_MOVE] = TO(EMPTY),
                         [RESIDENCY_FRESH_WRITE] = TO(DEVICE)},
    [RESIDENCY_HOST] = {[RESIDENCY_FETCH] = TO(FETCHING),
                        [RESIDENCY_ALLOCATE] = TO(EMPTY),
                        [RESIDENCY_DIE] = TO(NOWHERE),
                        [RESIDENCY_HOST_READ] = TO(HOST),
                        [RESIDENCY_HOST_WRITE] = TO(HOST),
                        [RESIDENCY_HOST_FRESH_WRITE] = TO(HOST)},
    [RESIDENCY_FETCHING] = {[RESIDENCY_WRITE_BACK] = TO(WRITING_BACK),
                            [RESIDENCY_DROP] = TO(HOST),
                            [RESIDENCY_FLUSH] = TO(BOTH),
                            [RESIDENCY_MOVE] = TO(FETCHING),
                            [RESIDENCY_READ] = TO(BOTH),
                            [RESIDENCY_WRITE] = TO(DEVICE),
                            [RESIDENCY_FRESH_WRITE] = TO(DEVICE),
                            [RESIDENCY_DIE] = TO(EMPTY),
                            [RESIDENCY_HOST_READ] = TO(FETCHING)},
    [RESIDENCY_BOTH] = {[RESIDENCY_WRITE_BACK] = TO(WRITING_BACK),
                        [RESIDENCY_DROP] = TO(HOST),
                        [RESIDENCY_FLUSH] = TO(BOTH),
                        [RESIDENCY_MOVE] = TO(BOTH),
                        [RESIDENCY_READ] = TO(BOTH),
                        [RESIDENCY_WRITE] = TO(DEVICE),
                        [RESIDENCY_FRESH_WRITE] = TO(DEVICE),
                        [RESIDENCY_DIE] = TO(EMPTY),
                        [RESIDENCY_HOST_READ] = TO(BOTH)},
    [RESIDENCY_DEVICE] = {[RESIDENCY_WRITE_BACK] = TO(WRITING_BACK),
                          [RESIDENCY_FLUSH] = TO(BOTH),
                          [RESIDENCY_MOVE] = TO(DEVICE),
                          [RESIDENCY_READ] = TO(DEVICE),
                          [RESIDENCY_WRITE] = TO(DEVICE),
                          [RESIDENCY_FRESH_WRITE] = TO(DEVICE),
                          [RESIDENCY_DIE] = TO(EMPTY)},
    [RESIDENCY_WRITING_BACK] = {[RESIDENCY_FETCH] = TO(FETCHING),
                                [RESIDENCY_ALLOCATE] = TO(EMPTY),
                                [RESIDENCY_HOST_READ] = TO(HOST),
                                [RESIDENCY_HOST_WRITE] = TO(HOST),
                                [RESIDENCY_HOST_FRESH_WRITE] = TO(HOST)},
};

static const uint8_t slot_transitions[RESIDENCY_SLOTS][RESIDENCY_EVENTS] = {
    [RESIDENCY_SLOT_NONE] =
        {[RESIDENCY_LOAD] = TO(SLOT_CLEAN), [RESIDENCY_RESERVE] = TO(SLOT_EMPTY)},
    [RESIDENCY_SLOT_EMPTY] = {[RESIDENCY_WRITE_BACK] = TO(SLOT_DIRTY),
                              [RESIDENCY_FLUSH] = TO(SLOT_DIRTY),
                              [RESIDENCY_HOST_FRESH_WRITE] = TO(SLOT_DIRTY),
                              [RESIDENCY_RELEASE] = TO(SLOT_NONE)},
    [RESIDENCY_SLOT_CLEAN] = {[RESIDENCY_FETCH] = TO(SLOT_CLEAN),
                              [RESIDENCY_WRITE_BACK] = TO(SLOT_DIRTY),
                              [RESIDENCY_FLUSH] = TO(SLOT_DIRTY),
                              [RESIDENCY_HOST_READ] = TO(SLOT_CLEAN),
                              [RESIDENCY_HOST_WRITE] = TO(SLOT_DIRTY),
                              [RESIDENCY_HOST_FRESH_WRITE] = TO(SLOT_DIRTY),
                              [RESIDENCY_RELEASE] = TO(SLOT_NONE)},
    [RESIDENCY_SLOT_DIRTY] = {[RESIDENCY_FETCH] = TO(SLOT_DIRTY),
                              [RESIDENCY_WRITE_BACK] = TO(SLOT_DIRTY),
                              [RESIDENCY_FLUSH] = TO(SLOT_DIRTY),
                              [RESIDENCY_HOST_READ] = TO(SLOT_DIRTY),
                              [RESIDENCY_HOST_WRITE] = TO(SLOT_DIRTY),
                              [RESIDENCY_HOST_FRESH_WRITE] = TO(SLOT_DIRTY),
                              [RESIDENCY_STORE] = TO(SLOT_NONE),
                              [RESIDENCY_RELEASE] = TO(SLOT_NONE)},
};

static bool is_of_slot(enum residency_event event)
{
    return event == RESIDENCY_LOAD || event == RESIDENCY_RESERVE || event == RESIDENCY_STORE ||
           event == RESIDENCY_RELEASE;
}

/* Whether what the host has is valid, in a slot or in NVMe. */
static bool is_below(enum residency_state state)
{
    return state == RESIDENCY_HOST || state == RESIDENCY_FETCHING || state == RESIDENCY_BOTH ||
           state == RESIDENCY_WRITING_BACK;
}

/* Bytes that nobody needs below the device leave with a dirty slot that is released. */
static bool leave_slot(enum residency_state *state, enum residency_slot slot,
                       enum residency_event event)
{
    if (event == RESIDENCY_LOAD || event == RESIDENCY_STORE)
        return is_below(*state);
    if (event == RESIDENCY_RESERVE || slot != RESIDENCY_SLOT_DIRTY || !is_below(*state))
        return true;
    bool stays = residency_on_device(*state);
    *state = stays ? RESIDENCY_DEVICE : *state;
    return stays;
}

bool residency_tier_next(enum residency_state *state, enum residency_slot *slot,
                         enum residency_event event)
{
    bool on_device_alone = !is_of_slot(event) && !slot_transitions[RESIDENCY_SLOT_DIRTY][event];
    uint8_t entry = on_device_alone ? *slot + 1 : slot_transitions[*slot][event];
    if (!entry || !(is_of_slot(event) ? leave_slot(state, *slot, event)
                                      : residency_state_next(*state, event, state)))
        return false;
    *slot = (enum residency_slot)(entry - 1);
    return true;
}

enum residency_event residency_event_of(uint32_t flags)
{
    bool writes = flags & ACCESS_WRITES, fresh = flags & ACCESS_FRESH;
    if (flags & ACCESS_ON_HOST)
        return !writes ? RESIDENCY_HOST_READ
               : fresh ? RESIDENCY_HOST_FRESH_WRITE
                       : RESIDENCY_HOST_WRITE;
    return !writes ? RESIDENCY_READ : fresh ? RESIDENCY_FRESH_WRITE : RESIDENCY_WRITE;
}

enum residency_event residency_event_of_action(uint8_t kind)
{
    static const enum residency_event events[] = {[PLAN_FETCH] = RESIDENCY_FETCH,
                                                  [PLAN_ALLOCATE] = RESIDENCY_ALLOCATE,
                                                  [PLAN_WRITE_BACK] = RESIDENCY_WRITE_BACK,
                                                  [PLAN_DROP] = RESIDENCY_DROP,
                                                  [PLAN_FLUSH] = RESIDENCY_FLUSH,
                                                  [PLAN_MOVE] = RESIDENCY_MOVE,
                                                  [PLAN_LOAD] = RESIDENCY_LOAD,
                                                  [PLAN_RESERVE] = RESIDENCY_RESERVE,
                                                  [PLAN_STORE] = RESIDENCY_STORE,
                                                  [PLAN_RELEASE] = RESIDENCY_RELEASE};
    g_assert(kind != PLAN_WAIT && kind < PLAN_ACTIONS);
    return events[kind];
}

bool residency_is_whole(enum residency_state state)
{
    return state != RESIDENCY_NOWHERE && state != RESIDENCY_EMPTY;
}

bool residency_on_device(enum residency_state state)
{
    return state == RESIDENCY_EMPTY || state == RESIDENCY_FETCHING || state == RESIDENCY_BOTH ||
           state == RESIDENCY_DEVICE;
}

enum residency_state residency_state_initial(const struct plan *plan, chunk_id chunk)
{
    return plan_is_homed(plan, chunk)       ? RESIDENCY_DEVICE
           : plan_is_transient(plan, chunk) ? RESIDENCY_NOWHERE
                                            : RESIDENCY_HOST;
}

const char *residency_state_name(enum residency_state state)
{
    static const char *const names[] = {"nowhere", "empty",  "host",        "being fetched",
                                        "both",    "device", "written back"};
    return names[state];
}

const char *residency_slot_name(enum residency_slot slot)
{
    static const char *const names[] = {"without a slot in the host pool", "in an empty slot",
                                        "in a clean slot", "in a dirty slot"};
    return names[slot];
}

const char *residency_event_name(enum residency_event event)
{
    static const char *const names[] = {
        "fetch",          "allocate", "write-back", "drop",        "flush",     "move",
        "read",           "write",    "overwrite",  "end of life", "host read", "host write",
        "host overwrite", "load",     "reserve",    "store",       "release"};
    return names[event];
}
