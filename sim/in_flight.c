#include "sim/in_flight.h"

#include <glib.h>
#include <string.h>

enum { FIRST_ROOM = 1024 };

/* Between what was issued before all iterations and what they issue: no such work is like another.
 */
#define APART (UINT64_C(1) << 40)

static void lap_init(struct in_flight_lap *lap)
{
    *lap = (struct in_flight_lap){.marks = g_new(struct in_flight_mark, FIRST_ROOM),
                                  .works = g_new(struct in_flight_work, FIRST_ROOM),
                                  .mark_room = FIRST_ROOM,
                                  .work_room = FIRST_ROOM};
}

static void lap_clear(struct in_flight_lap *lap)
{
    g_free(lap->marks);
    g_free(lap->works);
}

void in_flight_init(struct in_flight *in_flight)
{
    *in_flight = (struct in_flight){.works = g_new(struct in_flight_work, FIRST_ROOM),
                                    .room = FIRST_ROOM};
    lap_init(&in_flight->lap);
    lap_init(&in_flight->before);
}

void in_flight_clear(struct in_flight *in_flight)
{
    g_free(in_flight->works);
    lap_clear(&in_flight->lap);
    lap_clear(&in_flight->before);
}

void in_flight_add(struct in_flight *in_flight, uint64_t end_ns)
{
    if (in_flight->count == in_flight->room) {
        in_flight->room *= 2;
        in_flight->works = g_renew(struct in_flight_work, in_flight->works, in_flight->room);
    }
    in_flight->works[in_flight->count++] = (struct in_flight_work){end_ns, in_flight->issued++};
}

static void reserve(struct in_flight_lap *lap, uint32_t works)
{
    if (lap->mark_count == lap->mark_room) {
        lap->mark_room *= 2;
        lap->marks = g_renew(struct in_flight_mark, lap->marks, lap->mark_room);
    }
    if (lap->work_count + works > lap->work_room) {
        lap->work_room = MAX(2 * lap->work_room, lap->work_count + works);
        lap->works = g_renew(struct in_flight_work, lap->works, lap->work_room);
    }
}

/* Appends what goes on after `now_ns` to the lap's, and forgets the rest. */
static void note_later(struct in_flight *in_flight, uint64_t now_ns)
{
    struct in_flight_lap *lap = &in_flight->lap;
    uint32_t left = 0;
    for (uint32_t i = 0; i < in_flight->count; i++) {
        struct in_flight_work work = in_flight->works[i];
        if (work.end_ns <= now_ns)
            continue;
        in_flight->works[left++] = work;
        lap->works[lap->work_count++] = (struct in_flight_work){work.end_ns - now_ns,
                                                                in_flight->issued - work.number};
    }
    in_flight->count = left;
}

/* Index of a mark's first work. */
static uint32_t begin_of(const struct in_flight_lap *lap, uint32_t mark)
{
    return mark ? lap->marks[mark - 1].end : 0;
}

static bool same_at(const struct in_flight_lap *a, const struct in_flight_lap *b, uint32_t mark)
{
    if (mark >= a->mark_count || mark >= b->mark_count)
        return false;
    uint32_t in_a = begin_of(a, mark), in_b = begin_of(b, mark);
    uint32_t count = a->marks[mark].end - in_a;
    return count == b->marks[mark].end - in_b &&
           memcmp(a->works + in_a, b->works + in_b, count * sizeof *a->works) == 0;
}

bool in_flight_mark(struct in_flight *in_flight, uint64_t now_ns, uint64_t stall_ns)
{
    struct in_flight_lap *lap = &in_flight->lap;
    reserve(lap, in_flight->count);
    note_later(in_flight, now_ns);
    lap->marks[lap->mark_count++] = (struct in_flight_mark){now_ns, stall_ns, lap->work_count};
    return same_at(lap, &in_flight->before, lap->mark_count - 1);
}

const struct in_flight_mark *in_flight_mark_before(const struct in_flight *in_flight)
{
    return &in_flight->before.marks[in_flight->lap.mark_count - 1];
}

void in_flight_next_lap(struct in_flight *in_flight)
{
    struct in_flight_lap before = in_flight->before;
    if (!in_flight->lap.mark_count)
        in_flight->issued += APART;
    in_flight->before = in_flight->lap;
    in_flight->lap = before;
    in_flight->lap.mark_count = in_flight->lap.work_count = 0;
}
