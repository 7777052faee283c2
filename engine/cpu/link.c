#include "engine/cpu/link.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    SLICE = 256 << 10,     /* bytes copied between two looks at the clock */
    SHORTEST_SLEEP = 20000 /* ns; what a sleep costs */
};

void link_enter(void)
{
    prctl(PR_SET_TIMERSLACK, 1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
    struct timespec end = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue;
}

/* In slices, each no earlier than its share of the whole copy's time: memory traffic is spread as
 * a slow link's is. */
static void copy_paced(struct link *link, uint8_t *to, const uint8_t *from, uint64_t bytes,
                       bool at_once)
{
    uint64_t start = at_once && link->free_ns ? link->free_ns : now_ns();
    double ns_a_byte = 1e9 / link->rate;
    for (uint64_t done = 0; done < bytes;) {
        uint64_t slice = bytes - done < SLICE ? bytes - done : SLICE;
        memcpy(to + done, from + done, slice);
        done += slice;
        uint64_t due = start + (uint64_t)((double)done * ns_a_byte);
        if (due > now_ns() + SHORTEST_SLEEP || (done == bytes && due > now_ns()))
            sleep_until(due);
    }
    uint64_t due = start + (uint64_t)((double)bytes * ns_a_byte);
    uint64_t now = now_ns();
    /* Where memory is slower than the link, the link is what memory makes it. */
    link->free_ns = due + SHORTEST_SLEEP * 10 > now ? due : now;
}

void link_copy(struct link *link, void *to, const void *from, uint64_t bytes, bool at_once)
{
    if (link->rate > 0)
        copy_paced(link, to, from, bytes, at_once);
    else
        memcpy(to, from, bytes);
    link->bytes += bytes;
    link->copies++;
}
