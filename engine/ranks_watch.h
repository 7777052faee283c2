/* A process beside a rank, which notices that the rank hangs while no other rank can: MPI gives no
 * signs of life before it has started, and when it ends. It ends the rank, so that the launcher
 * notices, and says which rank it was. */
#ifndef PSTAR_ENGINE_RANKS_WATCH_H
#define PSTAR_ENGINE_RANKS_WATCH_H

#include <stdint.h>

struct ranks_watch;

/* Starts the process that watches this one, which is the rank on the host. After the first sign of
 * life, a silence of `silence_ms` kills the rank, with a message. `number` is the variable of the
 * environment in which the launcher tells each process its rank, while ranks join: then the first
 * rank of the host also ends one that the launcher has started beside it and that is stopped for
 * 7.5 seconds, because such a rank may not be watched yet; and it ends itself, with a message, if
 * another has ended for 5 seconds. NULL while all are watched. Returns NULL if no
 * process could be started: then nobody watches. */
struct ranks_watch *ranks_watch_start(uint32_t rank, const char *host, const char *number,
                                      uint32_t silence_ms);

/* Gives a sign of life. `watch` may be NULL. */
void ranks_watch_beat(const struct ranks_watch *watch);

/* Ends the watch, and frees it. `watch` may be NULL. */
void ranks_watch_stop(struct ranks_watch *watch);

#endif
