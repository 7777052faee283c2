/* Signs of life: a rank that hangs, or whose host is cut off, ends the job. */
#include "engine/mpi/mpi_ranks.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    BEAT_MS = 500,   /* between two signs of life */
    ENDED_MS = 3000, /* for which the launcher has time to end the others of a rank that ended */
    SUSPICION_MS = 6300,  /* without a sign, after which a rank tells others: they miss one within
                             BEAT_MS */
    YIELD_MS = 1500,      /* in which a rank leaves it to another to say so */
    LONGEST_TICK_MS = 200 /* longer times between two looks are this process's own pauses */
};

enum life_tag { SIGN_OF_LIFE, SUSPICION, LAST_WORDS };

static uint32_t neighbour(const struct mpi_ranks *mpi, uint32_t distance)
{
    return (mpi->ranks.rank + distance) % mpi->ranks.count;
}

static void send_beat(struct mpi_ranks *mpi, gint64 now)
{
    int gone = 1;
    if (now - mpi->last_beat < BEAT_MS)
        return;
    if (mpi->beat != MPI_REQUEST_NULL)
        MPI_Test(&mpi->beat, &gone, MPI_STATUS_IGNORE);
    if (!gone)
        return;
    MPI_Isend(NULL, 0, MPI_BYTE, (int)neighbour(mpi, 1), SIGN_OF_LIFE, mpi->life, &mpi->beat);
    mpi->last_beat = now;
}

/* Tells ranks from the first on something, without waiting. */
static void tell(struct mpi_ranks *mpi, uint32_t first, enum life_tag what)
{
    MPI_Request told;
    for (uint32_t r = first; r < mpi->ranks.count; r++) {
        MPI_Isend(NULL, 0, MPI_BYTE, (int)r, what, mpi->life, &told);
        MPI_Request_free(&told);
    }
}

/* Ends all ranks; the reason has been said. */
static G_NORETURN void end_all(struct mpi_ranks *mpi, int status)
{
    tell(mpi, 0, LAST_WORDS);
    MPI_Abort(MPI_COMM_WORLD, status);
    abort(); /* never reached */
}

/* A host that is cut off is the end of several ranks, which several others miss. The lowest of
 * these speaks: each tells those above it. */
static void suspect(struct mpi_ranks *mpi)
{
    tell(mpi, mpi->ranks.rank + 1, SUSPICION);
    mpi->suspects = true;
}

/* Ends all ranks if it is this one that has to, since the rank before it is silent. */
static void end_silence(struct mpi_ranks *mpi, int before)
{
    int is_told;
    if (!mpi->suspects)
        suspect(mpi);
    MPI_Iprobe(MPI_ANY_SOURCE, SUSPICION, mpi->life, &is_told, MPI_STATUS_IGNORE);
    if (mpi->silent_ms < SILENCE_MS + (is_told ? YIELD_MS : 0))
        return;
    fprintf(
        stderr,
        "pstar-run: rank %d on %s has not answered for %d seconds: it hangs, or its host is cut "
        "off\n",
        before, mpi->ranks.hosts[before], SILENCE_MS / 1000);
    end_all(mpi, EXIT_FAILURE);
}

static void hear_beats(struct mpi_ranks *mpi, gint64 now)
{
    int before = (int)neighbour(mpi, mpi->ranks.count - 1), heard = 0;
    mpi->silent_ms += MIN(now - mpi->last_look, LONGEST_TICK_MS);
    mpi->last_look = now;
    for (MPI_Iprobe(before, SIGN_OF_LIFE, mpi->life, &heard, MPI_STATUS_IGNORE); heard;
         MPI_Iprobe(before, SIGN_OF_LIFE, mpi->life, &heard, MPI_STATUS_IGNORE)) {
        MPI_Recv(NULL, 0, MPI_BYTE, before, SIGN_OF_LIFE, mpi->life, MPI_STATUS_IGNORE);
        mpi->silent_ms = 0;
        mpi->suspects = false;
    }
    if (mpi->silent_ms >= SUSPICION_MS)
        end_silence(mpi, before);
}

/* A rank of this host that has ended leaves the others without its part. Another one says so,
 * unless the rank has said why, because only some launchers do. They have time to end others. */
static void notice_ends(struct mpi_ranks *mpi, gint64 now)
{
    if (ranks_ends_look(mpi->ends)) {
        int is_told = 0;
        for (int looks = 100; looks && !is_told; looks--) /* the words may take some to come */
            MPI_Iprobe(MPI_ANY_SOURCE, LAST_WORDS, mpi->life, &is_told, MPI_STATUS_IGNORE);
        if (!mpi->ended && !is_told)
            ranks_ends_say(mpi->ends);
        mpi->ended = now;
    }
    if (mpi->ended && now - mpi->ended >= ENDED_MS)
        end_all(mpi, EXIT_FAILURE);
}

void mpi_stay_alive(struct mpi_ranks *mpi)
{
    enum { LOOK_MS = 20 };
    gint64 now = g_get_monotonic_time() / 1000;
    if (now - mpi->last_look < LOOK_MS)
        return;
    g_mutex_lock(&mpi->lock);
    int failed = mpi->failed;
    g_mutex_unlock(&mpi->lock);
    if (failed)
        end_all(mpi, failed);
    notice_ends(mpi, now);
    send_beat(mpi, now);
    hear_beats(mpi, now);
}

/* Waits for the requests. It sleeps if that takes long, because other threads may need the core;
 * giving it away without sleeping would cost a time slice wherever others compute. Its sleeps end
 * when they should (start_sleeping_exactly). */
void mpi_wait_for(struct mpi_ranks *mpi, int count, MPI_Request *requests)
{
    enum { EAGER_TRIES = 100, SLEEP_US = 20 };
    int complete = 0;
    for (uint32_t tries = 0; !complete; tries++) {
        MPI_Testall(count, requests, &complete, MPI_STATUSES_IGNORE);
        if (complete || tries < EAGER_TRIES)
            continue;
        g_usleep(SLEEP_US);
        mpi_stay_alive(mpi);
    }
}
