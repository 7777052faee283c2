/* The machine that a job runs on: memories, links and rates as measured points with their sources.
 * The keys of its file are the names of the fields; docs/models.md shows one. */
#ifndef PSTAR_PLATFORMS_PLATFORM_H
#define PSTAR_PLATFORMS_PLATFORM_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct platform_point {
    double amount; /* bytes of a copy, floating-point operations of an operator, elements updated */
    double seconds;
};

struct platform_curve {
    struct platform_point *points; /* ascending in amount, all above 0; at least one */
    uint32_t count;
    char *source; /* how these points were measured; may be NULL */
};

/* Curves that a file may lack; the key in it is the name in lower case. */
enum platform_extra {
    PLATFORM_H2D_BOTH,           /* copies while the other direction copies as well, by bytes */
    PLATFORM_D2H_BOTH,           /* the other direction */
    PLATFORM_H2D_BESIDE,         /* copies while the device computes */
    PLATFORM_D2H_BESIDE,         /* the other direction */
    PLATFORM_H2D_PAGEABLE,       /* copies from host memory that is not pinned */
    PLATFORM_D2H_PAGEABLE,       /* copies to such memory */
    PLATFORM_MOVE,               /* within the device, by bytes moved */
    PLATFORM_MOVE_WITHIN,        /* of 1 MiB, by the bytes of the arena that moves walk through */
    PLATFORM_COMPUTE_FP32_APART, /* like compute and memory, on the cores that --link leaves to */
    PLATFORM_COMPUTE_BF16_APART, /* compute */
    PLATFORM_MEMORY_APART,
    PLATFORM_HOST_UPDATE_APART, /* AdamW on the cores that --link leaves to the host */
    PLATFORM_LAUNCH, /* the host's time to launch kernels, by their number, in a framework that
                        fuses nothing */
    PLATFORM_UPDATE_THREADS, /* AdamW on 4 Mi elements, by threads instead of elements */
    PLATFORM_EXTRAS
};

/* A matrix product [rows, inputs] x [inputs, outputs]. */
struct platform_product {
    uint32_t rows, inputs, outputs, threads;
    bool bf16;
    double seconds;
};

/* Operators by what bounds them, and what may run beside them. */
enum platform_bound { PLATFORM_PRODUCT_FP32, PLATFORM_PRODUCT_BF16, PLATFORM_MEMORY_BOUND };
enum platform_neighbour { PLATFORM_BESIDE_H2D, PLATFORM_BESIDE_D2H, PLATFORM_BESIDE_UPDATE };

/* Operators are measured beside copies of this rate, in bytes a second each way. */
#define PLATFORM_BESIDE_RATE 2e9

/* A device that is threads of this machine, as the CPU device with --link: one thread computes, one
 * a direction copies, one runs the host's operators; they sleep while they wait. */
struct platform_threads {
    char *source; /* NULL if the platform has no such threads; the fields below are then unused */
    uint32_t host_cores;    /* shared by the copies and the host's operators */
    uint32_t cores;         /* all that the process may use; 0 if the file does not say */
    double put_seconds;     /* of the computing thread, to queue a copy */
    double wake_seconds;    /* from what a thread waits for to its next instruction */
    double late_seconds;    /* from when a copy over a link is due to its completion */
    double gap_seconds;     /* between an operator's end and the next one's start */
    double slow_down[3][3]; /* [platform_bound][platform_neighbour]: share of time added */
};

/* A host that several ranks share: processes, each with a device of its own, that do the same at
 * the same time. The curves are of one rank that is bound to its NUMA node. */
struct platform_host {
    char *source;            /* NULL if the platform does not say; nothing is shared then */
    double bytes_per_second; /* of the host's memory, read and written, for all ranks */
    uint32_t ranks;
    bool bound; /* ranks are bound to their nodes */
    double
        binding_speed_up; /* how many times as fast bound ranks use the host's memory, and update */
};

/* What ranks do together: each gets the others' parts of something, or each gets the sum of all
 * ranks' values of its own part of it (an all-gather, a reduce-scatter). */
enum platform_collective { PLATFORM_GATHER, PLATFORM_REDUCE, PLATFORM_COLLECTIVES };

/* A measured collective. */
struct platform_exchange {
    uint32_t ranks;
    double bytes; /* of all ranks' parts together */
    double seconds;
    double core_seconds; /* that it takes of a core meanwhile, of a rank whose threads exchange
                            where they compute; 0 if it takes none, or it was not measured */
};

/* How GPUs exchange within a node, or nodes over the network: a rate and a latency, or measured
 * points, or both: points then count for the collectives that have them. */
struct platform_level {
    char *source;            /* NULL if the platform does not say; the rest is then 0 */
    double bytes_per_second; /* each way: of a GPU within its node, of all of a node's over the
                                network; 0 if there are points of both collectives */
    double latency_seconds;  /* of one step of a ring */
    struct platform_exchange *points[PLATFORM_COLLECTIVES]; /* ascending in ranks, then bytes */
    uint32_t point_count[PLATFORM_COLLECTIVES];
};

/* A node: GPUs that share a host. */
struct platform_node {
    uint32_t gpus;                  /* 0 if the platform does not say */
    uint32_t gpus_per_switch;       /* that share one link to the host; 1 if not said */
    double switch_bytes_per_second; /* of this link, each way; 0 if GPUs share none */
    bool exchanges_share_link; /* what its GPUs exchange crosses the same links as their copies from
                                  and to the host */
    struct platform_level level; /* how its GPUs exchange */
};

/* Ranks, one a GPU, in equal numbers on nodes. Of a pipeline, those of one stage; the next stage's
 * follow them. */
struct platform_spread {
    uint32_t ranks, nodes; /* 0 if nothing is spread */
    uint32_t stages;       /* 0 stands for 1 */
    uint32_t host_ranks;   /* of a pipeline: ranks of all stages that share a host; else 0 */
};

/* Memory that no plan may take. All is 0 if the file does not say. */
struct platform_reserved {
    char *source;          /* NULL if the file does not say */
    uint64_t device_bytes; /* for the driver's context and its libraries */
    uint64_t host_bytes;   /* for the system and other programs */
};

/* The processors of a GPU, each of which computes a tile of a matrix product at a time. */
struct platform_multiprocessors {
    char *source; /* NULL if the file does not say; the count is then 0, and the shape of a
                     product does not change its time */
    uint32_t count;
};

/* What a training framework makes of the device's rates: of nominal ones fitted to published steps,
 * of measured ones as pstar-run's own kernels were measured. */
struct platform_framework {
    char *source;     /* NULL if the file does not say; the fields below are then unused */
    double products;  /* share of the compute rate that matrix products reach, in (0, 1] */
    double attention; /* share that attention reaches */
    double passes;    /* how often an operator's bytes pass over the device's memory, besides its
                         arithmetic; at least 1 */
};

/* A disk with files below host memory, by the bytes of a call and the calls that are under way. */
struct platform_disk_point {
    uint64_t block_bytes;
    uint32_t depth;
    double bytes_per_second;
};
struct platform_disk {
    char *source; /* NULL if the file does not say; the fields below are then unused */
    struct platform_disk_point *points[2]; /* reading, writing; at least one pair of the same block
                                              and depth */
    uint32_t count[2];
};

/* How to use a disk. */
struct platform_disk_way {
    uint64_t block_bytes;
    uint32_t depth;
    double bytes_per_second[2]; /* reading, writing */
};

struct platform {
    char *name;
    char *source; /* where most of the figures come from */
    uint64_t device_capacity, host_capacity;
    struct platform_curve h2d, d2h;    /* copies between pinned host memory and device, by bytes */
    struct platform_curve compute[2];  /* matrix products, by operations: fp32, bf16 */
    struct platform_curve memory;      /* device memory traffic of other operators, by bytes */
    struct platform_curve host_update; /* AdamW on the host, by elements */
    struct platform_curve extra[PLATFORM_EXTRAS]; /* count is 0 if it is not in the file */
    struct platform_threads threads;
    struct platform_host host;
    struct platform_reserved reserved;
    struct platform_multiprocessors multiprocessors;
    struct platform_framework framework;
    struct platform_disk disk;
    struct platform_node node;
    struct platform_level network;     /* between nodes */
    struct platform_spread spread;     /* not in the file: platform_spread_ranks sets it */
    struct platform_product *products; /* may be absent: NULL, 0 */
    uint32_t product_count;
};

enum platform_error { PLATFORM_ERROR_INVALID };
#define PLATFORM_ERROR platform_error_quark()
GQuark platform_error_quark(void);

/* Reads a platform's file. Errors name the file, the key and the value. The caller frees the result
 * with platform_free. */
struct platform *platform_read(const char *path, GError **error);
/* Parses the contents of such a file; errors name `origin`. */
struct platform *platform_parse(const char *text, const char *origin, GError **error);
bool platform_write(const struct platform *platform, const char *path, GError **error);
void platform_free(struct platform *platform);

/* Returns the seconds for an amount: interpolated between points, and at the rate of the nearest
 * point beyond them. */
double platform_seconds(const struct platform_curve *curve, double amount);

/* Returns the seconds of AdamW on this many elements on the rank's share of the host: of its cores,
 * where the platform knows updates by threads, and on its nodes. Its share of the memory is the
 * clock's matter (platform_host_rate). */
double platform_update_seconds(const struct platform *platform, double elements);

/* Returns the bytes a second of the host's memory for one rank, or 0 if nothing limits it. */
double platform_host_rate(const struct platform *platform);

/* Spreads ranks evenly over nodes; 0 nodes stand for as few as hold and divide
 * them. Host memory, its rate,
 * its cores and shared links are divided among the ranks of a node from then on. Fails
 * (PLATFORM_ERROR_INVALID) if the ranks are not a multiple of the nodes, or if a node has fewer
 * GPUs. A platform that does not say how many GPUs a node has, has one. */
bool platform_spread_ranks(struct platform *platform, uint32_t ranks, uint32_t nodes,
                           GError **error);

/* Spreads the stages of a pipeline, each of so many ranks that follow each other, over nodes; 0
 * nodes stand for as few as hold and divide them. Fails as platform_spread_ranks does, and if a
 * node has neither whole stages nor a whole part of one. */
bool platform_spread_stages(struct platform *platform, uint32_t stages, uint32_t ranks,
                            uint32_t nodes, GError **error);

/* Returns how many ranks share a host: of the spread, or of the file's "host". */
uint32_t platform_host_ranks(const struct platform *platform);

/* Returns whether a machine of this name computes on its processors, without a GPU: probes name
 * them "CPU, 8 cores, ...", and the collector "..., 8 processors". */
bool platform_names_processors(const char *machine);

/* Returns the option with which pstar-run trains on the platform's kind of device, with a blank
 * before it; "" for the CPU device, which is the default, and without a platform (NULL). */
const char *platform_device_option(const struct platform *platform);

/* Returns whether the platform says how the spread ranks exchange, and pass messages between
 * stages. */
bool platform_knows_exchanges(const struct platform *platform);

/* Returns a platform that knows the spread, the node and the network of another, and nothing else,
 * for platform_exchange_time. The caller frees it with platform_free. */
struct platform *platform_copy_exchanges(const struct platform *platform);

/* Returns what a rank of the spread receives from others in a large gather, bytes a second; 0 if
 * there is one rank, or the platform does not know exchanges. */
double platform_network_rate(const struct platform *platform);
/* The same with the ranks on as few nodes as hold and divide them; 0 if that cannot be. */
double platform_ranks_rate(const struct platform *platform, uint32_t ranks);

struct platform_taken {
    double seconds;
    double core_seconds; /* as in struct platform_exchange */
};

/* Returns the time of a collective of the spread ranks on `bytes`, of all ranks' parts together.
 * Points count where the platform has them for the collective; otherwise the ranks form a ring,
 * which its slowest link holds up. The platform must know exchanges. */
struct platform_taken platform_exchange_time(const struct platform *platform,
                                             enum platform_collective collective, double bytes);
double platform_exchange_seconds(const struct platform *platform,
                                 enum platform_collective collective, double bytes);

/* Returns the time in which the ranks of a stage each pass so many bytes to their peers in another
 * stage: of that, latency_seconds pass while the way is free for the next message. The ranks of a
 * node share its network. The platform must know exchanges. */
struct platform_passed {
    double seconds, latency_seconds;
};
struct platform_passed platform_pass_time(const struct platform *platform, uint32_t from,
                                          uint32_t to, double bytes);

/* Sets *way to the block and the depth with which reading and writing the same bytes takes least,
 * and to the rates with them. Returns false if there are no such points. */
bool platform_disk_best(const struct platform_disk *disk, struct platform_disk_way *way);

/* Returns the bytes a second, each way, of a rank's part of the link to the host that it shares; 0
 * if it shares none. */
double platform_switch_rate(const struct platform *platform);

/* Returns the bytes of device memory that a step may take, with the `library_bytes` that its trace
 * counts for the driver and its libraries: the capacity less what is reserved beyond these. */
uint64_t platform_device_room(const struct platform *platform, uint64_t library_bytes);

/* Returns the bytes of host memory that the step of one rank may take: its share of the capacity
 * less what is reserved. */
uint64_t platform_host_room(const struct platform *platform);

/* Replaces the curves of compute and the optimizer by those measured on the cores that --link
 * leaves to each, where the file has them. */
void platform_keep_apart(struct platform *platform);

/* Returns `curve`, or `otherwise` if it has no points. */
const struct platform_curve *platform_curve_or(const struct platform_curve *curve,
                                               const struct platform_curve *otherwise);

#endif
