/* Which cores compute and which copy, and which memory is near them. */
#ifndef PSTAR_ENGINE_HOST_CORES_H
#define PSTAR_ENGINE_HOST_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct core_sets {
    cpu_set_t all, compute, host; /* `all`: what the thread that split them was allowed */
    uint32_t compute_count, host_count;
};

/* Apart: a quarter of the cores, at least one, is kept for copies and host operators, since compute
 * beside copying threads slows by up to two times and no clock predicts by how much. Else, and on a
 * single core, both have all. */
struct core_sets cores_split(bool apart);

/* Binds the calling thread, and those that it creates later. */
void cores_bind(const cpu_set_t *set);

/* Machines whose memory lies in several places, each near some of the cores (NUMA).
 *
 * What the host's operators work on is spread so that each of their threads finds its part near. Of
 * each tensor in the host pool a node holds as large a share as it has of the cores, in the nodes'
 * order; an operator's threads have equal parts of a tensor, and each runs on the node that holds
 * the middle of its part. Neither changes what is computed. */

#define NODES_FOLDER "/sys/devices/system/node"

struct nodes {
    uint32_t count;   /* at least 2 */
    cpu_set_t *cores; /* [count] that may be used; none is empty */
    uint32_t *before; /* [count + 1] cores of the nodes before; the last is all of them */
};

/* The nodes described in `folder` that have some of the allowed cores, by number. NULL where there
 * is one or nothing is said: all memory is as near. Free with nodes_free, which takes NULL too. */
struct nodes *nodes_read(const char *folder, const cpu_set_t *allowed);
void nodes_free(struct nodes *nodes);

/* Where a node's share of `bytes` begins; for node `count`: their end. */
uint64_t nodes_share(const struct nodes *nodes, uint32_t node, uint64_t bytes);

/* The node that part `part` of `parts` equal ones is for: whose share holds its middle. */
uint32_t nodes_of_part(const struct nodes *nodes, uint64_t part, uint64_t parts);

/* How a pool is spread: each piece between two cuts by itself. */
struct nodes_spread {
    const struct nodes *nodes;
    const uint64_t *cuts; /* [cut_count] ascending, within the pool */
    uint32_t cut_count;
};

/* Has each node's cores touch its shares, to the page, of memory that nobody touched yet: the
 * system gives them memory that is near. What cannot be had stays untouched, all of it on
 * Linux before 5.14. `start` is the beginning of a page. */
void nodes_touch(const struct nodes_spread *spread, uint8_t *start, uint64_t bytes);

#endif
