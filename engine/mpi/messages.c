/* Messages: sent and received together, sent without waiting, and received early. */
#include "engine/mpi/mpi_ranks.h"

#include <string.h>

enum { PIECE = 1 << 30 }; /* bytes of a message at most: MPI counts in int */

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

void mpi_messages_init(struct mpi_ranks *mpi)
{
    g_queue_init(&mpi->posted);
    mpi->sources = g_array_new(FALSE, FALSE, sizeof(struct early_source));
}

void mpi_messages_clear(struct mpi_ranks *mpi)
{
    g_array_unref(mpi->sources);
}

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

void mpi_receive_early(struct mpi_ranks *mpi)
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
    mpi_wait_for(mpi, 1, &source->request);
    g_assert((uint64_t)source->bytes <= message->bytes);
    memcpy(message->data, source->early, (size_t)source->bytes);
    g_clear_pointer(&source->early, g_free);
    mpi->ranks.received_bytes += (uint64_t)source->bytes;
    return (uint64_t)source->bytes;
}

void mpi_drop_early(struct mpi_ranks *mpi)
{
    for (guint i = 0; i < mpi->sources->len; i++) {
        struct early_source *source = &g_array_index(mpi->sources, struct early_source, i);
        if (source->early)
            mpi_wait_for(mpi, 1, &source->request);
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
void mpi_run_transfer(struct mpi_ranks *mpi)
{
    g_autoptr(GArray) requests = g_array_new(FALSE, FALSE, sizeof(MPI_Request));
    post_all(mpi, post_send, mpi->sends, mpi->send_count, requests);
    post_all(mpi, post_receive, mpi->receives, mpi->receive_count, requests);
    mpi_wait_for(mpi, (int)requests->len, (MPI_Request *)(void *)requests->data);
    remember_sources(mpi, mpi->receives, mpi->receive_count);
}

void mpi_free_arrived(struct mpi_ranks *mpi)
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

void mpi_run_post(struct mpi_ranks *mpi)
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
    mpi_free_arrived(mpi);
}
