/* The ends of other ranks' processes on this host, which the kernel tells at once, while MPI says
 * nothing. */
#ifndef PSTAR_ENGINE_RANKS_ENDS_H
#define PSTAR_ENGINE_RANKS_ENDS_H

#include <stdbool.h>
#include <stdint.h>

/* A rank's process. */
struct ranks_process {
    uint64_t space; /* in which the number below counts: a container may have its own */
    int32_t number;
    uint32_t rank;
};

/* Returns this process. */
struct ranks_process ranks_process_own(uint32_t rank);

struct ranks_ends;

/* Looks at processes of this host, by ascending rank, of which one is this process. Those that
 * cannot be seen from here, or with Linux before 5.3 all, count as alive. */
struct ranks_ends *ranks_ends_new(const struct ranks_process *processes, uint32_t count);
void ranks_ends_free(struct ranks_ends *ends); /* NULL is allowed */

/* Returns whether a process has ended since the last look. */
bool ranks_ends_look(struct ranks_ends *ends);

/* Says which processes have ended, if this is the first one of its host that is alive: it alone
 * speaks. */
void ranks_ends_say(const struct ranks_ends *ends);

/* Prints why this process ends the others, unless another one of the host has said before why it
 * does: a disk or a file that is lost is lost for all at once. */
void ranks_ends_say_why(const struct ranks_ends *ends, const char *message);

#endif
