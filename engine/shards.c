#include "engine/shards.h"

#include "engine/bf16.h"

#include <string.h>

/* ---- gradients and parameters ---- */

/* Elements that a rank receives from each other rank at once, on the host. */
enum { HOST_PIECE = 1 << 16 };

struct reduction {
    struct ranks *ranks;
    struct ranks_part *parts; /* [count] */
    struct reduction_place place;
    void *own; /* the place's memory if it is the host's; NULL */
};

static void begin_on_host(struct reduction *reduction)
{
    size_t received = 2 * (size_t)reduction->ranks->count * HOST_PIECE * sizeof(float);
    reduction->own = g_malloc(received + SHARD_BLOCKS * sizeof(double));
    reduction->place = (struct reduction_place){
        .piece = HOST_PIECE,
        .received = reduction->own,
        .blocks = (double *)(void *)((uint8_t *)reduction->own + received),
        .add = reduction_add_on_host,
        .clear = reduction_clear_on_host,
    };
}

struct reduction *reduction_new(struct ranks *ranks, const struct reduction_place *place)
{
    struct reduction *reduction = g_new0(struct reduction, 1);
    reduction->ranks = ranks;
    reduction->parts = g_new(struct ranks_part, ranks->count);
    if (place)
        reduction->place = *place;
    else
        begin_on_host(reduction);
    return reduction;
}

void reduction_free(struct reduction *reduction)
{
    if (!reduction)
        return;
    g_free(reduction->parts);
    g_free(reduction->own);
    g_free(reduction);
}

struct ranks *reduction_ranks(const struct reduction *reduction)
{
    return reduction->ranks;
}

double *reduction_blocks(const struct reduction *reduction)
{
    return reduction->place.blocks;
}

void reduction_clear(struct reduction *reduction, uint64_t elements, bool narrow, void *gradient)
{
    reduction->place.clear(reduction->place.context, narrow ? (elements + 1) / 2 : elements,
                           gradient);
}

void reduction_clear_on_host(const void *context, uint64_t elements, float *gradient)
{
    (void)context;
    for (uint64_t i = 0; i < elements; i++)
        gradient[i] = -0.0f;
}

static uint32_t element_bytes(const struct reduction_sum *of)
{
    return of->narrow ? sizeof(uint16_t) : sizeof(float);
}

/* Sets the parts to the elements [first, first + piece) of every rank's shard. */
static void cut_piece(struct reduction *reduction, const struct reduction_sum *of, uint64_t first)
{
    uint64_t elements = of->elements, element = element_bytes(of);
    uint32_t count = reduction->ranks->count;
    for (uint32_t r = 0; r < count; r++) {
        struct shard shard = shard_of(elements, count, r);
        uint64_t begin = MIN(first, shard.count);
        uint64_t end = MIN(first + reduction->place.piece, shard.count);
        reduction->parts[r] = (struct ranks_part){(shard.first + begin) * element,
                                                  (end - begin) * element};
    }
}

/* A sum of embedding rows begins at 0, so that a row which no micro-batch touches is +0. */
static void begin_sum(bool rows, uint64_t count, const float *gradient, float *sum)
{
    for (uint64_t i = 0; i < count; i++)
        sum[i] = rows ? 0.0f + gradient[i] : gradient[i];
}

static void add(uint64_t count, const float *restrict gradient, float *restrict sum)
{
    for (uint64_t i = 0; i < count; i++)
        sum[i] += gradient[i];
}

static void add_narrow(const struct reduction_piece *piece)
{
    uint16_t *sums = piece->sum;
    for (uint64_t i = 0; i < piece->elements; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < piece->ranks; r++)
            for (int part = 0; part < 2 && piece->received[part]; part++)
                sum +=
                    bf16_widen(((const uint16_t *)piece->received[part])[r * piece->elements + i]);
        sums[i] = bf16_round(sum);
    }
}

void reduction_add_on_host(const void *context, const struct reduction_piece *piece)
{
    (void)context;
    if (piece->narrow) {
        add_narrow(piece);
        return;
    }
    for (uint32_t r = 0; r < piece->ranks; r++)
        for (int part = 0; part < 2 && piece->received[part]; part++) {
            const float *from = (const float *)piece->received[part] + r * piece->elements;
            if (r == 0 && part == 0 && !piece->accumulate)
                begin_sum(piece->rows, piece->elements, from, piece->sum);
            else
                add(piece->elements, from, piece->sum);
        }
}

/* Receives the cut piece of all ranks, and adds it to the sum from element `first` of the shard. */
static void add_piece(struct reduction *reduction, const struct reduction_sum *of, uint64_t first)
{
    const struct reduction_place *place = &reduction->place;
    struct ranks *ranks = reduction->ranks;
    uint32_t element = element_bytes(of);
    struct reduction_piece piece = {.ranks = ranks->count,
                                    .elements = reduction->parts[ranks->rank].bytes / element,
                                    .accumulate = of->accumulate,
                                    .rows = of->rows,
                                    .narrow = of->narrow,
                                    .sum = (uint8_t *)of->sum + first * element};
    for (int part = 0; part < 2 && of->gradients[part]; part++) {
        float *received = place->received + (size_t)part * ranks->count * place->piece;
        ranks_exchange(ranks, reduction->parts, of->gradients[part], received);
        piece.received[part] = received;
    }
    if (piece.elements)
        place->add(place->context, &piece);
}

void reduction_add(struct reduction *reduction, const struct reduction_sum *of)
{
    uint64_t room = shard_room(of->elements, reduction->ranks->count);
    for (uint64_t first = 0; first < room; first += reduction->place.piece) {
        cut_piece(reduction, of, first);
        add_piece(reduction, of, first);
    }
}

/* Adds the messages with one other rank, if its shard and the own one are not empty. */
static void add_messages(const struct ranks *ranks, const struct shard_whole *whole,
                         uint32_t element_bytes, uint32_t other, GArray *sends, GArray *receives)
{
    uint8_t *data = whole->data;
    struct shard own = shard_of(whole->elements, ranks->count, ranks->rank);
    struct shard theirs = shard_of(whole->elements, ranks->count, other);
    const struct ranks_message send = {.rank = other,
                                       .bytes = own.count * element_bytes,
                                       .data = data + own.first * element_bytes};
    const struct ranks_message receive = {.rank = other,
                                          .bytes = theirs.count * element_bytes,
                                          .data = data + theirs.first * element_bytes};
    if (send.bytes)
        g_array_append_val(sends, send);
    if (receive.bytes)
        g_array_append_val(receives, receive);
}

void shards_gather(struct ranks *ranks, const struct shard_whole *wholes, uint32_t count,
                   uint32_t element_bytes)
{
    g_autoptr(GArray) sends = g_array_new(FALSE, FALSE, sizeof(struct ranks_message));
    g_autoptr(GArray) receives = g_array_new(FALSE, FALSE, sizeof(struct ranks_message));
    for (uint32_t i = 1; i < ranks->count; i++)
        for (uint32_t w = 0; w < count; w++)
            add_messages(ranks, &wholes[w], element_bytes, (ranks->rank + i) % ranks->count, sends,
                         receives);
    ranks->ops->transfer(ranks, (const struct ranks_message *)(const void *)sends->data, sends->len,
                         (const struct ranks_message *)(const void *)receives->data, receives->len);
}

void reduction_gather_blocks(struct reduction *reduction, uint64_t elements)
{
    uint32_t count = reduction->ranks->count;
    uint64_t block = shard_block(elements);
    for (uint32_t r = 0; r < count; r++) {
        struct shard shard = shard_of(elements, count, r);
        uint64_t blocks = (shard.count + block - 1) / block;
        reduction->parts[r] = (struct ranks_part){blocks ? shard.first / block * sizeof(double) : 0,
                                                  blocks * sizeof(double)};
    }
    ranks_gather(reduction->ranks, reduction->parts, reduction->place.blocks);
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
