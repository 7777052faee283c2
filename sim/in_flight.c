#include "sim/in_flight.h"

#include <glib.h>

enum { FIRST_ROOM = 1024 };

static void lap_init(struct in_flight_lap *lap)
{
    *lap = (struct in_flight_lap){.marks = g_new(struct in_flight_mark, FIRST_ROOM),
                                  .room = FIRST_ROOM};
}

void in_flight_init(struct in_flight *in_flight)
{
    *in_flight = (struct in_flight){.end_ns = g_new(uint64_t, FIRST_ROOM),
                                    .end_room = FIRST_ROOM,
                                    .going = g_new(uint32_t, FIRST_ROOM),
                                    .going_room = FIRST_ROOM};
    lap_init(&in_flight->lap);
    lap_init(&in_flight->before);
}

void in_flight_clear(struct in_flight *in_flight)
{
    g_free(in_flight->end_ns);
    g_free(in_flight->going);
    g_free(in_flight->lap.marks);
    g_free(in_flight->before.marks);
}

void in_flight_add(struct in_flight *in_flight, uint64_t end_ns)
{
    if (in_flight->issued == in_flight->end_room) {
        in_flight->end_room *= 2;
        in_flight->end_ns = g_renew(uint64_t, in_flight->end_ns, in_flight->end_room);
    }
    if (in_flight->going_count == in_flight->going_room) {
        in_flight->going_room *= 2;
        in_flight->going = g_renew(uint32_t, in_flight->going, in_flight->going_room);
    }
    in_flight->end_ns[in_flight->issued] = end_ns;
    in_flight->going[in_flight->going_count++] = in_flight->issued++;
}

static void forget_ended(struct in_flight *in_flight, uint64_t now_ns)
{
    const uint64_t *end_ns = in_flight->end_ns;
    uint32_t *going = in_flight->going, left = 0;

    for (uint32_t i = 0; i < in_flight->going_count; i++) {
        going[left] = going[i];
        left += end_ns[going[i]] > now_ns;
    }
    in_flight->going_count = left;
}

/* What goes on at `mark` was issued as long ago, and ends as late, as the works that did at `then`:
 * as many of them, so that there are no others. */
static bool goes_on_alike(const struct in_flight *in_flight, const struct in_flight_mark *mark,
                          const struct in_flight_mark *then)
{
    uint32_t between = mark->issued - then->issued, prologue = in_flight->prologue;

    if (mark->count != then->count)
        return false;
    for (uint32_t i = 0; i < mark->count; i++) {
        uint32_t work = in_flight->going[i];
        if (work < between || (work < prologue) != (work - between < prologue) ||
            in_flight->end_ns[work] - mark->now_ns !=
                in_flight->end_ns[work - between] - then->now_ns)
            return false;
    }
    return true;
}

bool in_flight_mark(struct in_flight *in_flight, uint64_t now_ns, uint64_t stall_ns)
{
    struct in_flight_lap *lap = &in_flight->lap;
    const struct in_flight_lap *before = &in_flight->before;

    if (lap->count == lap->room) {
        lap->room *= 2;
        lap->marks = g_renew(struct in_flight_mark, lap->marks, lap->room);
    }
    forget_ended(in_flight, now_ns);
    struct in_flight_mark *mark = &lap->marks[lap->count];
    *mark = (struct in_flight_mark){now_ns, stall_ns, in_flight->issued, in_flight->going_count};
    lap->count++;
    return lap->count <= before->count &&
           goes_on_alike(in_flight, mark, &before->marks[lap->count - 1]);
}

const struct in_flight_mark *in_flight_mark_before(const struct in_flight *in_flight)
{
    return &in_flight->before.marks[in_flight->lap.count - 1];
}

void in_flight_next_lap(struct in_flight *in_flight)
{
    struct in_flight_lap before = in_flight->before;

    if (!in_flight->lap.count)
        in_flight->prologue = in_flight->issued;
    in_flight->before = in_flight->lap;
    in_flight->lap = before;
    in_flight->lap.count = 0;
}
