#include "engine/ranks_ends.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

struct ranks_ends {
    struct ranks_process *processes; /* [count] */
    struct pollfd *files;            /* [count] become readable at the end; -1 if none is there */
    uint32_t count, own;             /* own: index of this process */
    bool *ended;                     /* [count] */
};

struct ranks_process ranks_process_own(uint32_t rank)
{
    struct stat space = {0};
    stat("/proc/self/ns/pid", &space);
    return (struct ranks_process){.space = space.st_ino, .number = (int32_t)getpid(), .rank = rank};
}

/* Returns a file of the process, which cannot become another's, or -1. */
static int open_process(const struct ranks_process *process)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, process->number, 0);
#else
    (void)process;
    return -1;
#endif
}

struct ranks_ends *ranks_ends_new(const struct ranks_process *processes, uint32_t count)
{
    struct ranks_ends *ends = g_new0(struct ranks_ends, 1);
    const struct ranks_process own = ranks_process_own(0);
    ends->processes = g_memdup2(processes, count * sizeof *processes);
    ends->files = g_new0(struct pollfd, count);
    ends->ended = g_new0(bool, count);
    ends->count = count;
    for (uint32_t i = 0; i < count; i++) {
        bool seen = processes[i].space == own.space,
             is_own = seen && processes[i].number == own.number;
        ends->files[i] = (struct pollfd){.fd = seen && !is_own ? open_process(&processes[i]) : -1,
                                         .events = POLLIN};
        if (is_own)
            ends->own = i;
    }
    return ends;
}

void ranks_ends_free(struct ranks_ends *ends)
{
    if (!ends)
        return;
    for (uint32_t i = 0; i < ends->count; i++)
        if (ends->files[i].fd >= 0)
            close(ends->files[i].fd);
    g_free(ends->processes);
    g_free(ends->files);
    g_free(ends->ended);
    g_free(ends);
}

bool ranks_ends_look(struct ranks_ends *ends)
{
    if (poll(ends->files, ends->count, 0) <= 0)
        return false;
    for (uint32_t i = 0; i < ends->count; i++)
        if (ends->files[i].revents) {
            close(ends->files[i].fd);
            ends->files[i].fd = -1;
            ends->ended[i] = true;
        }
    return true;
}

void ranks_ends_say(const struct ranks_ends *ends)
{
    uint32_t first = 0;
    while (ends->ended[first])
        first++;
    for (uint32_t i = 0; first == ends->own && i < ends->count; i++)
        if (ends->ended[i])
            fprintf(stderr,
                    "pstar-run: rank %u on %s has ended before the others: it was killed, or it "
                    "failed\n",
                    ends->processes[i].rank, g_get_host_name());
}

/* A name that only one process of a host can have, and that goes with it. Where none can be made,
 * everybody speaks. */
static bool is_first_to_fail(const struct ranks_ends *ends)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const struct ranks_process *of = &ends->processes[0];
    int speaker = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* stays open until the end */
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "pstar-run-fails-%" PRIu64 "-%d",
             of->space, of->number);
    return speaker < 0 || bind(speaker, (const struct sockaddr *)&name, sizeof name) == 0 ||
           errno != EADDRINUSE;
}

void ranks_ends_say_why(const struct ranks_ends *ends, const char *message)
{
    if (is_first_to_fail(ends))
        fprintf(stderr, "pstar-run: rank %u on %s: %s\n", ends->processes[ends->own].rank,
                g_get_host_name(), message);
}
