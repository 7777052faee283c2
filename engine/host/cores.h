/* Chooses the cores that compute and the cores that copy, and finds the memory near them. */
#ifndef PSTAR_ENGINE_HOST_CORES_H
#define PSTAR_ENGINE_HOST_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

struct core_sets {
    cpu_set_t all, compute, host;
    uint32_t compute_count, host_count;
};

enum cores_use {
    CORES_TOGETHER, /* compute and host have all cores */
    /* A quarter of the cores, at least one, is for copies and host operators, because compute
     * beside copying threads slows by up to two times, and no clock predicts by how much. */
    CORES_APART,
    /* One core is for the thread that queues a GPU's work, all others are for host operators. If
     * that thread shared a core with one that updates, this one could wait for milliseconds until
     * the system moves it, all others would wait for it at the end of their loop, and the GPU for
     * all. With fewer than 4 cores both have all. */
    CORES_BESIDE_GPU
};

/* Splits a set of cores. A single core is both sides'. */
struct core_sets cores_split_set(const cpu_set_t *all, enum cores_use use);
/* Splits the cores that the calling thread may use. */
struct core_sets cores_split(enum cores_use use);

/* Binds the calling thread, and the threads that it creates later. */
void cores_bind(const cpu_set_t *set);

/* Ends OpenMP's threads of the calling thread; its next loop creates them again. While a process
 * has more such threads than cores, those of every thread sleep as soon as a loop has ended, and
 * waking them for the next one takes longer than a small loop. This is so with GCC's OpenMP; with
 * LLVM's the function does nothing, because a pause there makes the threads of all loops sleep. */
void cores_leave(void);

/* Machines whose memory lies in several places, each near some of the cores (NUMA).
 *
 * The memory of the host's operators is spread so that each of their threads finds its part near. A
 * node holds the same share of each tensor in the host pool as it has of the cores, in the nodes'
 * order. An operator's threads have equal parts of a tensor, and each runs on the node that holds
 * the middle of its part. Neither changes what is computed. */

#define NODES_FOLDER "/sys/devices/system/node"

struct nodes {
    uint32_t count;   /* at least 2 */
    cpu_set_t *cores; /* [count] cores that may be used; no set is empty */
    uint32_t *before; /* [count + 1] cores of the nodes before; the last is their total */
};

/* Returns the nodes described in `folder` that have some of the allowed cores, in the order of
 * their numbers. Returns NULL if there is only one or `folder` says nothing: all memory is then
 * equally near. Free with nodes_free, which takes NULL. */
struct nodes *nodes_read(const char *folder, const cpu_set_t *allowed);
void nodes_free(struct nodes *nodes);

/* Returns where a node's share of `bytes` begins. For node `count` it returns their end. */
uint64_t nodes_share(const struct nodes *nodes, uint32_t node, uint64_t bytes);

/* Returns the node for part `part` of `parts` equal parts: the one whose share holds the part's
 * middle. */
uint32_t nodes_of_part(const struct nodes *nodes, uint64_t part, uint64_t parts);

/* How a pool is spread over nodes. Each piece between two cuts is spread separately. */
struct nodes_spread {
    const struct nodes *nodes;
    const uint64_t *cuts; /* [cut_count] ascending, within the pool */
    uint32_t cut_count;
};

/* Makes each node's cores touch their shares, to the page, of memory that has not been touched yet,
 * so that the system gives them memory that is near. Memory that the system refuses stays
 * untouched. Linux before 5.14 refuses all of it. `start` is the beginning of a page. */
void nodes_touch(const struct nodes_spread *spread, uint8_t *start, uint64_t bytes);

#endif
