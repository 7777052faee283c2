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

/* A request of these elements ends the service. */
enum { END_BADLY, END_WELL };

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

static void broadcast(struct ranks *ranks, struct shard_request *request)
{
    g_autofree struct ranks_message *sends = g_new(struct ranks_message, ranks->count);
    for (uint32_t r = 1; r < ranks->count; r++)
        sends[r - 1] = (struct ranks_message){.rank = r, .bytes = sizeof *request, .data = request};
    ranks->ops->transfer(ranks, sends, ranks->count - 1, NULL, 0);
}

void shard_store_read(const struct shard_store *store, const struct shard_request *request,
                      void *to)
{
    struct ranks *ranks = store->ranks;
    uint64_t element = store->element_bytes[request->list];
    struct shard_request asked = *request;
    g_autofree struct ranks_message *receives = g_new(struct ranks_message, ranks->count);
    uint32_t received = 0;
    broadcast(ranks, &asked);
    for (uint32_t r = 0; r < ranks->count; r++) {
        struct shard_request part = store->part_of(store->self, request, r);
        uint8_t *at = (uint8_t *)to + (part.first - request->first) * element;
        if (!part.count)
            continue;
        if (r == ranks->rank)
            store->read_own(store->self, &part, at);
        else
            receives[received++] =
                (struct ranks_message){.rank = r, .bytes = part.count * element, .data = at};
    }
    ranks->ops->transfer(ranks, NULL, 0, receives, received);
}

void shard_store_end(struct ranks *ranks, bool well)
{
    struct shard_request end = {.tensor = NO_INDEX, .count = well ? END_WELL : END_BADLY};
    broadcast(ranks, &end);
}

static void answer(const struct shard_store *store, const struct shard_request *request)
{
    struct ranks *ranks = store->ranks;
    struct shard_request part = store->part_of(store->self, request, ranks->rank);
    uint64_t bytes = part.count * store->element_bytes[request->list];
    g_autofree uint8_t *values = g_malloc(bytes);
    if (!bytes)
        return;
    store->read_own(store->self, &part, values);
    const struct ranks_message send = {.rank = 0, .bytes = bytes, .data = values};
    ranks->ops->transfer(ranks, &send, 1, NULL, 0);
}

bool shard_store_serve(const struct shard_store *store)
{
    struct ranks *ranks = store->ranks;
    for (;;) {
        struct shard_request request = {0};
        const struct ranks_message receive = {.rank = 0, .bytes = sizeof request, .data = &request};
        ranks->ops->transfer(ranks, NULL, 0, &receive, 1);
        if (request.tensor == NO_INDEX)
            return request.count == END_WELL;
        answer(store, &request);
    }
}
