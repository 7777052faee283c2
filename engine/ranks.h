/* Ranks: the processes that a launcher (mpirun, srun) started together and that train one model.
 *
 * A rank exchanges bytes with all others in collectives, in which every rank takes part in the same
 * order. Several threads of a rank may need one: the thread that walks through the plan gives each
 * collective its turn when it queues the operator, so that the order is the plan's on every rank,
 * whatever the threads' timing. */
#ifndef PSTAR_ENGINE_RANKS_H
#define PSTAR_ENGINE_RANKS_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum ranks_error {
    RANKS_ERROR_LAUNCH, /* MPI does not see the processes; all of them find that out */
    RANKS_ERROR_ALONE,  /* there is no MPI here; others may have it */
    RANKS_ERROR_DIFFER, /* the ranks were started with different things */
    RANKS_ERROR_FAILED  /* what ranks do together went wrong on one of them */
};
#define RANKS_ERROR ranks_error_quark()
GQuark ranks_error_quark(void);

/* Bytes for one rank, or from it. */
struct ranks_message {
    uint32_t rank;
    uint64_t bytes;
    void *data; /* is only read if it is sent */
    uint32_t channel;
};

/* The bytes [first, first + bytes) of an array. */
struct ranks_part {
    uint64_t first, bytes;
};

struct ranks;

/* What carries the messages. Messages between two ranks in one channel arrive in the order in which
 * they are sent. */
struct ranks_ops {
    /* Sends and receives the messages; none of them is from or for this rank. Called by one thread
     * at a time. MPI returns when all of them are there. NCCL queues the transfer on a stream. */
    void (*transfer)(struct ranks *ranks, const struct ranks_message *sends, uint32_t send_count,
                     const struct ranks_message *receives, uint32_t receive_count);
    /* Sends the messages without waiting for their receivers. It copies them before it returns.
     * Called like transfer. NULL if there are no stages. */
    void (*post)(struct ranks *ranks, const struct ranks_message *sends, uint32_t count);
    /* Copies what a rank has for itself, in the order of transfers. */
    void (*copy)(struct ranks *ranks, void *to, const void *from, uint64_t bytes);
    /* Prints the message, unless another rank of the host has just failed, too, and has said why;
     * ends all ranks with EXIT_FAILURE; does not return. Any thread may call it. */
    void (*fail)(struct ranks *ranks, const char *message);
    /* Waits for all ranks and frees. */
    void (*close)(struct ranks *ranks);
};

struct ranks {
    const struct ranks_ops *ops;
    struct ranks *all; /* of a part (engine/ranks_part.h): all ranks, whose turns it takes; NULL */
    uint32_t first, step; /* of a part: see ranks_number */
    uint32_t rank, count;
    uint32_t node_rank, node_count; /* among the ranks of this host */
    char **hosts;                   /* [count] the host of each rank, ending with NULL */
    _Atomic uint64_t sent_bytes, received_bytes; /* without what a rank sends to itself; counted by
                                                    the code that sends and receives */

    GMutex lock;
    GCond next;
    uint64_t issued, turn; /* turns given, and taken back */
};

/* Returns the exit status for an error. */
typedef int ranks_status_of(const GError *error);

/* Joins the ranks that were started with this process. *ranks is NULL if it was started alone.
 * Fails with RANKS_ERROR_LAUNCH, which the first process has to report: for the others it is
 * cleared, and *elsewhere becomes the status with which they end; otherwise it is 0. Fails with
 * RANKS_ERROR_ALONE, or FAILURE_DOES_NOT_FIT if MPI has no memory: a process reports such an error
 * unless the launcher ends it before, because the first has the same. */
bool ranks_open(struct ranks **ranks, ranks_status_of *status_of, int *elsewhere, GError **error);
/* Returns how many tasks Slurm has for the job if this process was started without srun or mpirun,
 * and therefore is none of several ranks; otherwise 0. */
uint32_t ranks_left_out(void);
/* If ranks of one host may run on the same cores, gives each of them an equal part, and binds the
 * calling thread to this rank's; threads inherit it. With fewer cores than ranks, ranks share a
 * core. A launcher that binds ranks to cores of their own is left alone. */
void ranks_share_cores(struct ranks *ranks);
/* Every rank must call it. NULL is allowed. */
void ranks_close(struct ranks *ranks);

/* For ops: set up and free the fields from `lock` on. */
void ranks_init_turns(struct ranks *ranks);
void ranks_clear_turns(struct ranks *ranks);

/* Ends all ranks after printing the message with the rank and its host: of several ranks of a host
 * that fail at once, one prints its own. Does not return. */
G_GNUC_NORETURN void ranks_fail(struct ranks *ranks, const char *message);

/* Returns all ranks of which these are a part, or the ranks themselves. */
static inline struct ranks *ranks_all(struct ranks *ranks)
{
    return ranks->all ? ranks->all : ranks;
}

/* Returns the number that a rank of these has among all. */
static inline uint32_t ranks_number(const struct ranks *ranks, uint32_t rank)
{
    return ranks->all ? ranks->first + rank * ranks->step : rank;
}

/* ---- turns ---- */

/* Gives the next turn. Called by one thread, in the same order on every rank. */
uint64_t ranks_issue(struct ranks *ranks);
/* Waits for the turn. Collectives come between the two calls. */
void ranks_begin(struct ranks *ranks, uint64_t turn);
void ranks_end(struct ranks *ranks);

/* ---- collectives ---- */

/* What is exchanged at once: one transfer waits less often than several. Messages between two ranks
 * must have the same order on both. */
struct ranks_transfer {
    GArray *sends, *receives; /* struct ranks_message */
};

/* Begins a transfer, which ranks_transfer_end runs and frees. */
struct ranks_transfer ranks_transfer_begin(void);
/* Adds a message. Without bytes there is none. The data must live until the end. */
void ranks_transfer_send(struct ranks_transfer *transfer, uint32_t rank, uint64_t bytes,
                         const void *data);
void ranks_transfer_receive(struct ranks_transfer *transfer, uint32_t rank, uint64_t bytes,
                            void *data);
void ranks_transfer_end(struct ranks_transfer *transfer, struct ranks *ranks);

/* Return the rank that comes `distance` after this one, or before it, in a circle. If each rank
 * begins with its neighbours, not all send to the same rank at first. */
uint32_t ranks_after(const struct ranks *ranks, uint32_t distance);
uint32_t ranks_before(const struct ranks *ranks, uint32_t distance);

/* Replaces parts[r] of `whole` by the bytes that rank r has there. parts is [count]; it is the same
 * on all ranks. */
void ranks_gather(struct ranks *ranks, const struct ranks_part *parts, void *whole);
/* Adds the messages of ranks_gather to a transfer. */
void ranks_gather_within(struct ranks *ranks, struct ranks_transfer *transfer,
                         const struct ranks_part *parts, void *whole);
/* Replaces blocks[r] of blocks[count] by rank r's, of `bytes` each. */
void ranks_share(struct ranks *ranks, uint64_t bytes, void *blocks);

/* ---- agreement ---- */

/* Begins a line of a description that need not be alike, but explains why the next line without it
 * is not: the first one that differs is then named in its place. */
#define RANKS_EXPLAINS " "

/* Finds out whether all ranks fare well, without an *error, and were started alike. `description`
 * has a line "what: value" for each thing that must be alike; it may be NULL if there is an *error.
 * Returns true if all is well. Otherwise one rank has an *error to report: the lowest that fares
 * badly, or rank 0 (RANKS_ERROR_DIFFER). For the other ranks it is cleared, and *elsewhere becomes
 * the status with which they end; it is 0 for the one that reports. `ranks` is NULL with one. */
bool ranks_agree(struct ranks *ranks, const char *description, ranks_status_of *status_of,
                 int *elsewhere, GError **error);

/* Finds out whether all ranks did well what they do together. Otherwise the error of the lowest
 * rank that has one becomes that of all (RANKS_ERROR_FAILED), which names the rank unless it is
 * rank 0. */
bool ranks_share_error(struct ranks *ranks, GError **error);

#endif
