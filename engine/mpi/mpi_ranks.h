/* What the files of this module share. One thread makes all calls of MPI, which it initialises:
 * other threads hand their messages to it. All of this is called by that thread, except where a
 * function says otherwise. */
#ifndef PSTAR_ENGINE_MPI_MPI_RANKS_H
#define PSTAR_ENGINE_MPI_MPI_RANKS_H

#include "engine/ranks.h"
#include "engine/ranks_ends.h"
#include "engine/ranks_watch.h"

#include <mpi.h>

/* Without a sign of life for so long a rank counts as hanging. */
enum { SILENCE_MS = 7000 };

enum work { WORK_NONE, WORK_TRANSFER, WORK_POST, WORK_CLOSE, WORK_PART, WORK_DONE };

struct mpi_ranks {
    struct ranks ranks; /* first: see mpi_of */
    MPI_Comm data, life;
    GThread *thread;
    struct ranks_watch *watch; /* while MPI starts and when it ends */
    struct ranks_ends *ends;   /* of the host's ranks */
    GError *error;             /* of opening */

    GMutex lock; /* protects the following */
    GCond changed;
    enum work work;
    const struct ranks_message *sends, *receives;
    uint32_t send_count, receive_count;
    int failed; /* the status with which all ranks shall end; 0 if all is well */

    /* Of the thread. */
    GQueue posted;   /* struct posted: messages under way, the oldest first */
    GArray *sources; /* struct early_source: of all from whom a stage has received */
    MPI_Request beat;
    gint64 last_beat, last_look, silent_ms;
    bool suspects; /* that the rank before it hangs, and has told the others */
    gint64 ended;  /* when a rank of this host was seen to have ended; 0 if none has */
};

/* ---- joining.c ---- */

/* Initialises MPI, and finds out who takes part. mpi->ranks.count is what the launcher says. Sets
 * mpi->error and returns false if the ranks cannot be joined. */
bool mpi_join(struct mpi_ranks *mpi);
/* Leaves when every rank wants to leave, and what they have sent has arrived. */
void mpi_leave(struct mpi_ranks *mpi);

/* ---- life.c ---- */

/* Tells the next rank that this one is alive, and listens to the rank before it; ends all ranks if
 * one hangs, has ended or has failed. Called again and again, while the thread waits for anything
 * and between its works. */
void mpi_stay_alive(struct mpi_ranks *mpi);
/* Waits for the requests, and stays alive meanwhile. */
void mpi_wait_for(struct mpi_ranks *mpi, int count, MPI_Request *requests);

/* ---- messages.c ---- */

void mpi_messages_init(struct mpi_ranks *mpi);
void mpi_messages_clear(struct mpi_ranks *mpi);
/* Sends mpi->sends and receives mpi->receives; returns when all are there. */
void mpi_run_transfer(struct mpi_ranks *mpi);
/* Copies mpi->sends, and sends the copies without waiting. */
void mpi_run_post(struct mpi_ranks *mpi);
/* Receives messages that nobody has asked for yet: a large one, which waits for its receiver's
 * answer, so crosses while other threads compute. */
void mpi_receive_early(struct mpi_ranks *mpi);
/* Frees the copies that their receivers have got. */
void mpi_free_arrived(struct mpi_ranks *mpi);
/* Waits for what is coming in, and drops it: nobody asks for it any more. */
void mpi_drop_early(struct mpi_ranks *mpi);

#endif
