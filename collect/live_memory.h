/* What is allocated while the devices are recorded: profilers leave out how much a free gives back,
 * and the host's samples are to say how much of its memory is pinned. */
#ifndef PSTAR_COLLECT_LIVE_MEMORY_H
#define PSTAR_COLLECT_LIVE_MEMORY_H

#include "traces/activity/activity.h"

struct live_memory;

struct live_memory *live_memory_new(void);
void live_memory_free(struct live_memory *live); /* NULL is allowed */

/* The next allocation or free. A free without bytes gets those of what lies at its address. */
void live_memory_add(struct live_memory *live, struct memory_record *record);

/* Pinned bytes at each of `count` times, which ascend, of all that was added in any order. */
void live_memory_pinned(struct live_memory *live, const uint64_t *times_ns, uint32_t count,
                        uint64_t *bytes);

#endif
