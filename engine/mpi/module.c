/* Ranks by MPI. One thread makes all calls of MPI, which it initialises: other threads hand their
 * messages to it. While it waits, it tells the next rank that this one is alive, and listens to the
 * rank before it, so that a rank that hangs, or whose host is cut off, ends the job. */
#include "engine/ranks.h"

#include "engine/ranks_ends.h"
#include "engine/ranks_watch.h"

#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    HOST_BYTES = 256,
    PIECE = 1 << 30,   /* bytes of a message at most: MPI counts in int */
    JOIN_MS = 60000,   /* after which a rank that does not join counts as hanging: its host may
                        * start late */
    BEAT_MS = 500,     /* between two signs of life */
    SILENCE_MS = 7000, /* without one, after which a rank counts as hanging */
    ENDED_MS = 3000,   /* for which the launcher has time to end the others of a rank that ended */
    SUSPICION_MS = 6300,  /* after which it tells other ranks: they miss a sign within BEAT_MS */
    YIELD_MS = 1500,      /* in which a rank leaves it to another to say so */
    LEAVE_MS = 10000,     /* after which a rank that does not leave counts as cut off: one that
                           * hangs has ended before, and the launcher has ended the others */
    LONGEST_TICK_MS = 200 /* longer times between two looks are this process's own pauses */
};

enum life_tag { SIGN_OF_LIFE, SUSPICION, LAST_WORDS };

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

/* A piece of a message that was sent without waiting. */
struct posted {
    MPI_Request request;
    uint8_t bytes[];
};

/* A rank and a channel from which messages come that are received before anybody asks for them: one
 * at a time, so that a receiver which is late holds one message of each. */
struct early_source {
    uint32_t rank, channel;
    uint8_t *early; /* the message, or its first piece; NULL if there is none */
    int bytes;
    MPI_Request request; /* of the message while it is under way */
};

static struct mpi_ranks *mpi_of(struct ranks *ranks)
{
    return (struct mpi_ranks *)ranks;
}

/* ---- signs of life ---- */

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

/* Called again and again, while the thread waits for anything and between its works. */
static void stay_alive(struct mpi_ranks *mpi)
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
static void wait_for(struct mpi_ranks *mpi, int count, MPI_Request *requests)
{
    enum { EAGER_TRIES = 100, SLEEP_US = 20 };
    int complete = 0;
    for (uint32_t tries = 0; !complete; tries++) {
        MPI_Testall(count, requests, &complete, MPI_STATUSES_IGNORE);
        if (complete || tries < EAGER_TRIES)
            continue;
        g_usleep(SLEEP_US);
        stay_alive(mpi);
    }
}

/* ---- messages ---- */

typedef int post_message(struct mpi_ranks *mpi, const struct ranks_message *message, uint64_t first,
                         int bytes, MPI_Request *request);

static int post_send(struct mpi_ranks *mpi, const struct ranks_message *message, uint64_t first,
                     int bytes, MPI_Request *request)
{
    mpi->ranks.sent_bytes += (uint64_t)bytes;
    return MPI_Isend((const char *)message->data + first, bytes, MPI_BYTE, (int)message->rank,
                     (int)message->channel, mpi->data, request);
}

static int post_receive(struct mpi_ranks *mpi, const struct ranks_message *message, uint64_t first,
                        int bytes, MPI_Request *request)
{
    mpi->ranks.received_bytes += (uint64_t)bytes;
    return MPI_Irecv((char *)message->data + first, bytes, MPI_BYTE, (int)message->rank,
                     (int)message->channel, mpi->data, request);
}

/* ---- messages that are received early ---- */

static struct early_source *find_source(const struct mpi_ranks *mpi, uint32_t rank,
                                        uint32_t channel)
{
    for (guint i = 0; i < mpi->sources->len; i++) {
        struct early_source *source = &g_array_index(mpi->sources, struct early_source, i);
        if (source->rank == rank && source->channel == channel)
            return source;
    }
    return NULL;
}

/* Messages of stages have channels, and the exchanges among ranks of a stage have none. */
static void remember_sources(struct mpi_ranks *mpi, const struct ranks_message *messages,
                             uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct early_source source = {
            .rank = messages[i].rank, .channel = messages[i].channel, .request = MPI_REQUEST_NULL};
        if (source.channel && !find_source(mpi, source.rank, source.channel))
            g_array_append_val(mpi->sources, source);
    }
}

/* Lets a large message, which waits for its receiver's answer, cross while other threads compute.
 */
static void receive_early(struct mpi_ranks *mpi)
{
    for (guint i = 0; i < mpi->sources->len; i++) {
        struct early_source *source = &g_array_index(mpi->sources, struct early_source, i);
        int there = 0;
        MPI_Message message;
        MPI_Status status;
        if (source->early) {
            MPI_Test(&source->request, &there, MPI_STATUS_IGNORE);
            continue;
        }
        MPI_Improbe((int)source->rank, (int)source->channel, mpi->data, &there, &message, &status);
        if (!there)
            continue;
        MPI_Get_count(&status, MPI_BYTE, &source->bytes);
        source->early = g_malloc((size_t)source->bytes);
        MPI_Imrecv(source->early, source->bytes, MPI_BYTE, &message, &source->request);
    }
}

/* Puts what was received early to its place. Returns the bytes, or 0 if there was nothing. */
static uint64_t take_early(struct mpi_ranks *mpi, const struct ranks_message *message)
{
    struct early_source *source = find_source(mpi, message->rank, message->channel);
    if (!source || !source->early)
        return 0;
    wait_for(mpi, 1, &source->request);
    g_assert((uint64_t)source->bytes <= message->bytes);
    memcpy(message->data, source->early, (size_t)source->bytes);
    g_clear_pointer(&source->early, g_free);
    mpi->ranks.received_bytes += (uint64_t)source->bytes;
    return (uint64_t)source->bytes;
}

/* Waits for what is under way, and drops it: nobody asks for it any more. */
static void drop_early(struct mpi_ranks *mpi)
{
    for (guint i = 0; i < mpi->sources->len; i++) {
        struct early_source *source = &g_array_index(mpi->sources, struct early_source, i);
        if (source->early)
            wait_for(mpi, 1, &source->request);
        g_clear_pointer(&source->early, g_free);
    }
}

static void post_all(struct mpi_ranks *mpi, post_message *post,
                     const struct ranks_message *messages, uint32_t count, GArray *requests)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t first = post == post_receive ? take_early(mpi, &messages[i]) : 0;
             first < messages[i].bytes; first += PIECE) {
            MPI_Request request;
            int bytes = (int)MIN(messages[i].bytes - first, PIECE);
            post(mpi, &messages[i], first, bytes, &request);
            g_array_append_val(requests, request);
        }
}

/* Sends come first. A large message waits for the other rank's answer to its announcement; if the
 * rank that comes last answered before it announced its own message, its answer's answer would wait
 * behind the message that it has let through, and the two directions of a network would take turns.
 */
static void run_transfer(struct mpi_ranks *mpi)
{
    g_autoptr(GArray) requests = g_array_new(FALSE, FALSE, sizeof(MPI_Request));
    post_all(mpi, post_send, mpi->sends, mpi->send_count, requests);
    post_all(mpi, post_receive, mpi->receives, mpi->receive_count, requests);
    wait_for(mpi, (int)requests->len, (MPI_Request *)(void *)requests->data);
    remember_sources(mpi, mpi->receives, mpi->receive_count);
}

/* Frees what its receivers have got. */
static void free_arrived(struct mpi_ranks *mpi)
{
    struct posted *oldest;
    while ((oldest = g_queue_peek_head(&mpi->posted))) {
        int arrived = 0;
        MPI_Test(&oldest->request, &arrived, MPI_STATUS_IGNORE);
        if (!arrived)
            return;
        g_free(g_queue_pop_head(&mpi->posted));
    }
}

static void run_post(struct mpi_ranks *mpi)
{
    for (uint32_t i = 0; i < mpi->send_count; i++) {
        const struct ranks_message *message = &mpi->sends[i];
        for (uint64_t first = 0; first < message->bytes; first += PIECE) {
            int bytes = (int)MIN(message->bytes - first, PIECE);
            struct posted *posted = g_malloc(sizeof *posted + (size_t)bytes);
            const struct ranks_message copy = {message->rank, (uint64_t)bytes, posted->bytes,
                                               message->channel};
            memcpy(posted->bytes, (const uint8_t *)message->data + first, (size_t)bytes);
            post_send(mpi, &copy, 0, bytes, &posted->request);
            g_queue_push_tail(&mpi->posted, posted);
        }
    }
    free_arrived(mpi);
}

/* ---- opening and closing, in the thread ---- */

static bool refuse(struct mpi_ranks *mpi, const char *why)
{
    mpi->error = g_error_new_literal(RANKS_ERROR, RANKS_ERROR_ALONE, why);
    return false;
}

static void find_hosts(struct mpi_ranks *mpi)
{
    uint32_t count = mpi->ranks.count;
    char own[HOST_BYTES] = {0};
    g_autofree char *all = g_malloc0((size_t)count * HOST_BYTES);
    g_strlcpy(own, g_get_host_name(), sizeof own);
    MPI_Allgather(own, HOST_BYTES, MPI_CHAR, all, HOST_BYTES, MPI_CHAR, MPI_COMM_WORLD);
    mpi->ranks.hosts = g_new0(char *, count + 1);
    for (uint32_t r = 0; r < count; r++)
        mpi->ranks.hosts[r] = g_strdup(all + (size_t)r * HOST_BYTES);
}

static void find_node(struct mpi_ranks *mpi)
{
    const struct ranks_process own = ranks_process_own(mpi->ranks.rank);
    MPI_Comm node;
    int rank, count;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &count);
    g_autofree struct ranks_process *all = g_new0(struct ranks_process, count);
    MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, node);
    MPI_Comm_free(&node);
    mpi->ends = ranks_ends_new(all, (uint32_t)count);
    mpi->ranks.node_rank = (uint32_t)rank;
    mpi->ranks.node_count = (uint32_t)count;
}

#ifdef OPEN_MPI
#define SRUN "srun --mpi=pmix"

/* Open MPI ends a process that srun started in another way, with a page of text. */
static bool is_offered_join(void)
{
    return g_getenv("PMIX_RANK") != NULL;
}
#else
#define SRUN "srun --mpi=pmi2"

static bool is_offered_join(void)
{
    return true;
}
#endif

static bool refuse_launcher(struct mpi_ranks *mpi)
{
    mpi->error = g_error_new(
        RANKS_ERROR, RANKS_ERROR_LAUNCH,
        "the launcher started %u processes, but MPI cannot join them: start them with "
        "the mpirun of the MPI that pstar-run was built with, or under Slurm with " SRUN,
        mpi->ranks.count);
    return false;
}

/* mpi->ranks.count is what the launcher says. */
static bool join(struct mpi_ranks *mpi)
{
    int provided, rank, count;
    if (!is_offered_join())
        return refuse_launcher(mpi);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return refuse(mpi, "MPI could not be initialised");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if (provided < MPI_THREAD_FUNNELED)
        return refuse(mpi, "this MPI does not allow programs with threads");
    if ((uint32_t)count != mpi->ranks.count)
        return refuse_launcher(mpi);
    mpi->ranks.rank = (uint32_t)rank;
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &mpi->life);
    mpi->beat = MPI_REQUEST_NULL;
    find_hosts(mpi);
    find_node(mpi);
    mpi->last_look = g_get_monotonic_time() / 1000;
    return true;
}

/* Receives what nobody needs any more: a pipeline that never drains has sent activations of a step
 * that it does not take. */
static void drop_arrived(struct mpi_ranks *mpi)
{
    int arrived, bytes;
    MPI_Status status;
    for (;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi->data, &arrived, &status);
        if (!arrived)
            return;
        MPI_Get_count(&status, MPI_BYTE, &bytes);
        g_autofree char *message = g_malloc((size_t)bytes);
        MPI_Recv(message, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, mpi->data,
                 MPI_STATUS_IGNORE);
    }
}

/* Leaves when every rank wants to leave, and what they have sent has arrived. */
static void leave(struct mpi_ranks *mpi)
{
    enum { LOOK_US = 50 };
    MPI_Request all = MPI_REQUEST_NULL;
    drop_early(mpi);
    for (int complete = 0; !complete; g_usleep(LOOK_US)) {
        stay_alive(mpi);
        drop_arrived(mpi);
        free_arrived(mpi);
        if (all == MPI_REQUEST_NULL && g_queue_is_empty(&mpi->posted))
            MPI_Ibarrier(mpi->data, &all);
        if (all != MPI_REQUEST_NULL)
            MPI_Test(&all, &complete, MPI_STATUS_IGNORE);
    }
    if (mpi->beat != MPI_REQUEST_NULL)
        MPI_Request_free(&mpi->beat);
}

/* ---- the thread ---- */

/* While posted messages are under way, MPI needs to be called, so that they go on, and where some
 * may come, so that they are let through. */
static enum work next_work(struct mpi_ranks *mpi)
{
    enum { IDLE_US = 50000, SENDING_US = 50, RECEIVING_US = 200 };
    enum work work;
    int idle_us = mpi->sources->len ? RECEIVING_US : IDLE_US;
    free_arrived(mpi);
    receive_early(mpi);
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
    bool joined = join(mpi);
    set_work(mpi, WORK_DONE);
    while (joined)
        switch (next_work(mpi)) {
        case WORK_TRANSFER:
            stay_alive(mpi); /* transfers may follow each other without a wait */
            run_transfer(mpi);
            set_work(mpi, WORK_DONE);
            break;
        case WORK_POST:
            stay_alive(mpi);
            run_post(mpi);
            set_work(mpi, WORK_DONE);
            break;
        case WORK_CLOSE:
            leave(mpi);
            ranks_watch_beat(mpi->watch); /* the watch begins: there are no other signs of life */
            set_work(mpi, WORK_PART);
            MPI_Finalize();
            set_work(mpi, WORK_DONE);
            joined = false;
            break;
        case WORK_NONE:
        case WORK_PART:
        case WORK_DONE:
            stay_alive(mpi);
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
    g_array_unref(mpi->sources);
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
    g_queue_init(&mpi->posted);
    mpi->sources = g_array_new(FALSE, FALSE, sizeof(struct early_source));
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
