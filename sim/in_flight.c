#include "sim/in_flight.h"

#include <glib.h>
#include <string.h>

enum { FIRST_ROOM = 1024 };

void in_flight_init(struct in_flight *in_flight)
{
    *in_flight = (struct in_flight){.ends = g_new(uint64_t, FIRST_ROOM), .room = FIRST_ROOM};
}

void in_flight_clear(struct in_flight *in_flight)
{
    g_free(in_flight->ends);
    g_free(in_flight->ahead);
}

void in_flight_add(struct in_flight *in_flight, uint64_t end_ns)
{
    if (in_flight->count == in_flight->room) {
        in_flight->room *= 2;
        in_flight->ends = g_renew(uint64_t, in_flight->ends, in_flight->room);
    }
    in_flight->ends[in_flight->count++] = end_ns;
}

/* Forgets what has ended by then. */
static void keep_later(struct in_flight *in_flight, uint64_t now_ns)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < in_flight->count; i++)
        if (in_flight->ends[i] > now_ns)
            in_flight->ends[left++] = in_flight->ends[i];
    in_flight->count = left;
}

bool in_flight_repeats(struct in_flight *in_flight, uint64_t now_ns)
{
    keep_later(in_flight, now_ns);
    uint32_t count = in_flight->count;
    uint64_t *ahead = g_new(uint64_t, count);
    for (uint32_t i = 0; i < count; i++)
        ahead[i] = in_flight->ends[i] - now_ns;
    bool same = count == in_flight->ahead_count &&
                (count == 0 || memcmp(ahead, in_flight->ahead, count * sizeof *ahead) == 0);
    g_free(in_flight->ahead);
    in_flight->ahead = ahead;
    in_flight->ahead_count = count;
    return same;
}
