#include "engine/shards.h"

/* ---- gathering ---- */

void shards_gather(struct ranks *ranks, const struct shard_whole *wholes, uint32_t count,
                   uint32_t element_bytes)
{
    g_autofree struct ranks_part *parts = g_new(struct ranks_part, ranks->count);
    struct ranks_transfer transfer = ranks_transfer_begin();
    for (uint32_t w = 0; w < count; w++) {
        for (uint32_t r = 0; r < ranks->count; r++) {
            struct shard shard = shard_of(wholes[w].elements, ranks->count, r);
            parts[r] = (struct ranks_part){shard.first * element_bytes,
                                           shard.count * element_bytes};
        }
        ranks_gather_within(ranks, &transfer, parts, wholes[w].data);
    }
    ranks_transfer_end(&transfer, ranks);
}

/* ---- reading ---- */

/* Elements that all ranks together ask for in a round, and those that a rank asks for at least. */
#define ROUND       (UINT64_C(1) << 22)
#define LEAST_PIECE (UINT64_C(1) << 12)

struct shard_request shard_request_of(const struct trace *trace,
                                      const struct shard_request *request, uint32_t rank)
{
    struct shard shard = shard_of(trace->tensors[request->tensor].elements, trace->ranks, rank);
    uint64_t first = MAX(request->first, shard.first);
    uint64_t end = MIN(request->first + request->count, shard.first + shard.count);
    struct shard_request own = *request;
    own.first = first;
    own.count = end > first ? end - first : 0;
    return own;
}

/* A rank that asks for nothing more names no tensor. */
static bool is_end(const struct shard_request *request)
{
    return request->tensor == NO_INDEX;
}

/* Returns this rank's part of what another asks for, as a message whose data the caller frees. */
static struct ranks_message answer(const struct shard_store *store,
                                   const struct shard_request *request, uint32_t rank)
{
    struct shard_request part = store->part_of(store->self, request, store->ranks->rank);
    uint64_t bytes = part.count * store->element_bytes[request->list];
    struct ranks_message message = {.rank = rank, .bytes = bytes, .data = g_malloc(bytes)};
    if (bytes)
        store->read_own(store->self, &part, message.data);
    return message;
}

/* Copies the own part of what this rank asks for, and returns the message with another's. */
static struct ranks_message take(const struct shard_store *store,
                                 const struct shard_request *request, uint32_t rank, void *to)
{
    struct shard_request part = store->part_of(store->self, request, rank);
    uint64_t element = store->element_bytes[request->list];
    uint8_t *at = (uint8_t *)to + (part.first - request->first) * element;
    struct ranks_message message = {.rank = rank, .bytes = part.count * element, .data = at};
    if (rank != store->ranks->rank)
        return message;
    if (part.count)
        store->read_own(store->self, &part, at);
    message.bytes = 0;
    return message;
}

/* Tells all ranks what this one asks for, and exchanges it. Returns whether all have ended. */
static bool exchange_round(const struct shard_store *store, const struct shard_request *own,
                           void *to)
{
    struct ranks *ranks = store->ranks;
    g_autofree struct shard_request *asked = g_new0(struct shard_request, ranks->count);
    g_autofree struct ranks_message *sends = g_new(struct ranks_message, ranks->count);
    g_autofree struct ranks_message *receives = g_new(struct ranks_message, ranks->count);
    uint32_t sent = 0, received = 0;
    bool ended = true;
    asked[ranks->rank] = *own;
    ranks_share(ranks, sizeof *asked, asked);
    for (uint32_t r = 0; r < ranks->count; r++) {
        ended &= is_end(&asked[r]);
        if (r != ranks->rank && !is_end(&asked[r]) &&
            (sends[sent] = answer(store, &asked[r], r)).bytes)
            sent++;
        if (!is_end(own) && (receives[received] = take(store, own, r, to)).bytes)
            received++;
    }
    ranks->ops->transfer(ranks, sends, sent, receives, received);
    for (uint32_t i = 0; i < sent; i++)
        g_free(sends[i].data);
    return ended;
}

void shard_store_read(const struct shard_store *store, const struct shard_request *request,
                      void *to)
{
    uint64_t most = MAX(ROUND / store->ranks->count, LEAST_PIECE);
    for (uint64_t done = 0; done < request->count; done += most) {
        struct shard_request piece = *request;
        piece.first += done;
        piece.count = MIN(most, request->count - done);
        exchange_round(store, &piece, (uint8_t *)to + done * store->element_bytes[request->list]);
    }
}

void shard_store_end(const struct shard_store *store)
{
    const struct shard_request end = {.tensor = NO_INDEX};
    while (!exchange_round(store, &end, NULL))
        ;
}
