/* Ranks by MPI. One thread makes all calls of MPI, which it initialises: other threads hand their
 * messages to it. While it waits, it tells the next rank that this one is alive, and listens to the
 * rank before it, so that a rank that hangs, or whose host is cut off, ends the job. */
#include "engine/mpi/mpi_ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    JOIN_MS = 60000, /* after which a rank that does not join counts as hanging: its host may
                      * start late */
    LEAVE_MS = 10000 /* after which a rank that does not leave counts as cut off: one that
                      * hangs has ended before, and the launcher has ended the others */
};

static struct mpi_ranks *mpi_of(struct ranks *ranks)
{
    return (struct mpi_ranks *)ranks;
}

/* ---- the thread ---- */

/* While posted messages are under way, MPI needs to be called, so that they go on, and where some
 * may come, so that they are let through. */
static enum work next_work(struct mpi_ranks *mpi)
{
    enum { IDLE_US = 50000, SENDING_US = 50, RECEIVING_US = 200 };
    enum work work;
    int idle_us = mpi->sources->len ? RECEIVING_US : IDLE_US;
    mpi_free_arrived(mpi);
    mpi_receive_early(mpi);
    g_mutex_lock(&mpi->lock);
    if (mpi->work == WORK_NONE || mpi->work == WORK_DONE)
        g_cond_wait_until(&mpi->changed, &mpi->lock,
                          g_get_monotonic_time() +
                              (g_queue_is_empty(&mpi->posted) ? idle_us : SENDING_US));
    work = mpi->work;
    g_mutex_unlock(&mpi->lock);
    return work;
}

static void set_work(struct mpi_ranks *mpi, enum work work)
{
    g_mutex_lock(&mpi->lock);
    mpi->work = work;
    g_cond_broadcast(&mpi->changed);
    g_mutex_unlock(&mpi->lock);
}

/* Without it the system lets sleeps end 50 us late. */
static void start_sleeping_exactly(void)
{
    prctl(PR_SET_TIMERSLACK, 1);
}

static void *serve(void *data)
{
    struct mpi_ranks *mpi = data;
    start_sleeping_exactly();
    bool joined = mpi_join(mpi);
    set_work(mpi, WORK_DONE);
    while (joined)
        switch (next_work(mpi)) {
        case WORK_TRANSFER:
            mpi_stay_alive(mpi); /* transfers may follow each other without a wait */
            mpi_run_transfer(mpi);
            set_work(mpi, WORK_DONE);
            break;
        case WORK_POST:
            mpi_stay_alive(mpi);
            mpi_run_post(mpi);
            set_work(mpi, WORK_DONE);
            break;
        case WORK_CLOSE:
            mpi_leave(mpi);
            ranks_watch_beat(mpi->watch); /* the watch begins: there are no other signs of life */
            set_work(mpi, WORK_PART);
            MPI_Finalize();
            set_work(mpi, WORK_DONE);
            joined = false;
            break;
        case WORK_NONE:
        case WORK_PART:
        case WORK_DONE:
            mpi_stay_alive(mpi);
            break;
        }
    return NULL;
}

/* ---- calls of other threads ---- */

static void wait_until_done(struct mpi_ranks *mpi)
{
    while (mpi->work != WORK_DONE)
        g_cond_wait(&mpi->changed, &mpi->lock);
    mpi->work = WORK_NONE;
}

/* Ends this rank, because another one does not do what all do. MPI cannot tell which it is. The
 * ranks end one after the other, so that the launcher can end them when the first has said why. */
static G_NORETURN void end_alone(const char *what, uint32_t waited_ms)
{
    fflush(stdout);
    fprintf(
        stderr,
        "pstar-run: another rank has not %s for %u seconds: it hangs, has ended, or is cut off\n",
        what, waited_ms / 1000);
    _exit(EXIT_FAILURE);
}

/* Waits until the thread has done what it does without signs of life. A process beside each rank
 * notices meanwhile if the rank hangs, and the limit is for ranks that nobody can reach. */
static void wait_or_end(struct mpi_ranks *mpi, uint32_t limit_ms, const char *what)
{
    enum { TICK_MS = 100, TICKS_OF_A_RANK = 15 };
    uint32_t most = limit_ms / TICK_MS + TICKS_OF_A_RANK * mpi->ranks.rank, ticks = most;
    while (mpi->work != WORK_DONE) {
        ranks_watch_beat(mpi->watch);
        if (!g_cond_wait_until(&mpi->changed, &mpi->lock,
                               g_get_monotonic_time() + TICK_MS * 1000) &&
            ticks-- == 0)
            end_alone(what, most * TICK_MS);
    }
    mpi->work = WORK_NONE;
    ranks_watch_stop(g_steal_pointer(&mpi->watch));
}

static void hand_over(struct mpi_ranks *mpi, enum work work, const struct ranks_message *sends,
                      uint32_t send_count, const struct ranks_message *receives,
                      uint32_t receive_count)
{
    g_mutex_lock(&mpi->lock);
    g_assert(mpi->work == WORK_NONE);
    mpi->sends = sends;
    mpi->send_count = send_count;
    mpi->receives = receives;
    mpi->receive_count = receive_count;
    mpi->work = work;
    g_cond_broadcast(&mpi->changed);
    wait_until_done(mpi);
    g_mutex_unlock(&mpi->lock);
}

static void mpi_transfer(struct ranks *ranks, const struct ranks_message *sends,
                         uint32_t send_count, const struct ranks_message *receives,
                         uint32_t receive_count)
{
    hand_over(mpi_of(ranks), WORK_TRANSFER, sends, send_count, receives, receive_count);
}

static void mpi_post(struct ranks *ranks, const struct ranks_message *sends, uint32_t count)
{
    hand_over(mpi_of(ranks), WORK_POST, sends, count, NULL, 0);
}

static void mpi_copy(G_GNUC_UNUSED struct ranks *ranks, void *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
}

static void mpi_fail(struct ranks *ranks, const char *message)
{
    struct mpi_ranks *mpi = mpi_of(ranks);
    ranks_ends_say_why(mpi->ends, message);
    g_mutex_lock(&mpi->lock);
    mpi->failed = EXIT_FAILURE;
    g_cond_broadcast(&mpi->changed);
    for (;;) /* the thread ends the process */
        g_cond_wait(&mpi->changed, &mpi->lock);
}

static void mpi_free(struct mpi_ranks *mpi)
{
    ranks_clear_turns(&mpi->ranks);
    g_mutex_clear(&mpi->lock);
    g_cond_clear(&mpi->changed);
    g_strfreev(mpi->ranks.hosts);
    ranks_ends_free(mpi->ends);
    mpi_messages_clear(mpi);
    g_free(mpi);
}

static void mpi_close(struct ranks *ranks)
{
    struct mpi_ranks *mpi = mpi_of(ranks);
    mpi->watch = ranks_watch_start(ranks->rank, ranks->hosts[ranks->rank], NULL, SILENCE_MS);
    g_mutex_lock(&mpi->lock);
    g_assert(mpi->work == WORK_NONE);
    mpi->work = WORK_CLOSE;
    g_cond_broadcast(&mpi->changed);
    while (mpi->work == WORK_CLOSE)
        g_cond_wait(&mpi->changed, &mpi->lock);
    wait_or_end(mpi, LEAVE_MS, "left");
    g_mutex_unlock(&mpi->lock);
    g_thread_join(mpi->thread);
    mpi_free(mpi);
}

static const struct ranks_ops mpi_ops = {mpi_transfer, mpi_post, mpi_copy, mpi_fail, mpi_close};

/* Signals are for the program's own threads. MPI's inherit the mask. */
static void start_thread(struct mpi_ranks *mpi)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    mpi->thread = g_thread_new("mpi", serve, mpi);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The module's entry: engine/ranks.c. `count` is the number of processes that the launcher started,
 * and `number` which of them this is, as the variable of the environment says. */
__attribute__((visibility("default"))) struct ranks *
pstar_ranks_open(uint32_t count, uint32_t number, const char *variable, GError **error);

struct ranks *pstar_ranks_open(uint32_t count, uint32_t number, const char *variable,
                               GError **error)
{
    struct mpi_ranks *mpi = g_new0(struct mpi_ranks, 1);
    mpi->ranks.ops = &mpi_ops;
    mpi->ranks.count = count;
    mpi->ranks.rank = number;
    mpi_messages_init(mpi);
    g_mutex_init(&mpi->lock);
    g_cond_init(&mpi->changed);
    ranks_init_turns(&mpi->ranks);
    mpi->watch = ranks_watch_start(number, g_get_host_name(), variable, SILENCE_MS);
    ranks_watch_beat(mpi->watch); /* the watch begins before MPI does */
    start_thread(mpi);
    g_mutex_lock(&mpi->lock);
    wait_or_end(mpi, JOIN_MS, "joined");
    g_mutex_unlock(&mpi->lock);
    if (!mpi->error)
        return &mpi->ranks;
    g_thread_join(mpi->thread);
    g_propagate_error(error, mpi->error);
    mpi_free(mpi);
    return NULL;
}
