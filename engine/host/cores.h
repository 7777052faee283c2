/* Which cores compute, and which copy and run the host's operators. */
#ifndef PSTAR_ENGINE_HOST_CORES_H
#define PSTAR_ENGINE_HOST_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct cores {
    cpu_set_t all, compute, host; /* `all`: what the thread that split them was allowed */
    uint32_t compute_count, host_count;
};

/* Apart: a quarter of the cores, at least one, is kept for copies and host operators, since compute
 * beside copying threads slows by up to two times and no clock predicts by how much. Else, and on a
 * single core, both have all. */
struct cores cores_split(bool apart);

/* Binds the calling thread, and those that it creates later. */
void cores_bind(const cpu_set_t *set);

#endif
