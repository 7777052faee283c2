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
                        [RESIDENCY_HOST_FRESH_WRITE] = TO(HOST),
                        [RESIDENCY_STORE] = TO(NVME)},
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
    [RESIDENCY_NVME] = {[RESIDENCY_LOAD] = TO(HOST)},
};

enum residency_event residency_event_of(uint32_t flags)
{
    bool writes = flags & ACCESS_WRITES, fresh = flags & ACCESS_FRESH;
    if (flags & ACCESS_ON_HOST)
        return !writes ? RESIDENCY_HOST_READ
               : fresh ? RESIDENCY_HOST_FRESH_WRITE
                       : RESIDENCY_HOST_WRITE;
    return !writes ? RESIDENCY_READ : fresh ? RESIDENCY_FRESH_WRITE : RESIDENCY_WRITE;
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
    return plan_in_nvme(plan, chunk)        ? RESIDENCY_NVME
           : plan_is_homed(plan, chunk)     ? RESIDENCY_DEVICE
           : plan_is_transient(plan, chunk) ? RESIDENCY_NOWHERE
                                            : RESIDENCY_HOST;
}

const char *residency_state_name(enum residency_state state)
{
    static const char *const names[] = {"nowhere", "empty",  "host",         "being fetched",
                                        "both",    "device", "written back", "in NVMe"};
    return names[state];
}

const char *residency_event_name(enum residency_event event)
{
    static const char *const names[] = {"fetch",          "allocate",    "write-back", "drop",
                                        "flush",          "move",        "read",       "write",
                                        "overwrite",      "end of life", "host read",  "host write",
                                        "host overwrite", "load",        "store"};
    return names[event];
}
