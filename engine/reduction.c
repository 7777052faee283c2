#include "engine/reduction.h"

#include "engine/bf16.h"

/* Elements that a rank receives from each other rank at once, on the host. Ranks wait for each
 * other once a piece. */
enum { HOST_PIECE = 1 << 17 };

struct reduction {
    struct ranks *ranks;
    struct reduction_place place;
    void *own; /* the place's memory if it is the host's; NULL */
};

static void begin_on_host(struct reduction *reduction)
{
    size_t received = 2 * (size_t)reduction->ranks->count * HOST_PIECE * sizeof(float);
    reduction->own = g_malloc(received + REDUCTION_BLOCKS * sizeof(double));
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
    g_free(reduction->own);
    g_free(reduction);
}

struct ranks *reduction_ranks(const struct reduction *reduction)
{
    return reduction->ranks;
}

double *reduction_blocks(const struct reduction *reduction, uint32_t index)
{
    g_assert(index < REDUCTION_TENSORS);
    return reduction->place.blocks + (size_t)index * SHARD_BLOCKS;
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

/* ---- pieces ---- */

/* A part of a tensor's shards that is received at once: elements [first, first + room) of each. */
struct piece_segment {
    const struct reduction_sum *sum;
    uint64_t first, room;
    uint64_t place; /* elements of each rank that are received before it */
};

/* Returns the segments of a piece, which begins at an element of all shards one behind the other.
 */
static GArray *cut_piece(const struct reduction *reduction, const struct reduction_sum *sums,
                         uint32_t count, uint64_t piece)
{
    GArray *segments = g_array_new(FALSE, FALSE, sizeof(struct piece_segment));
    uint64_t begin = 0, end = piece + reduction->place.piece;
    for (uint32_t s = 0; s < count; s++) {
        uint64_t room = shard_room(sums[s].elements, reduction->ranks->count);
        uint64_t first = MAX(begin, piece), last = MIN(begin + room, end);
        const struct piece_segment segment = {&sums[s], first - begin, last - first, first - piece};
        if (first < last)
            g_array_append_val(segments, segment);
        begin += room;
    }
    return segments;
}

/* Returns the elements of a rank's shard that are within a segment. */
static struct shard part_of(const struct piece_segment *segment, uint32_t ranks, uint32_t rank)
{
    struct shard shard = shard_of(segment->sum->elements, ranks, rank);
    uint64_t begin = MIN(segment->first, shard.count);
    uint64_t end = MIN(segment->first + segment->room, shard.count);
    return (struct shard){shard.first + begin, end - begin};
}

static uint32_t element_bytes(const struct reduction_sum *of)
{
    return of->narrow ? sizeof(uint16_t) : sizeof(float);
}

/* Adds the messages with which the rank's part comes from all ranks to `received`. */
static void exchange_part(struct ranks *ranks, struct ranks_transfer *transfer,
                          const struct piece_segment *segment, const void *gradient,
                          uint8_t *received)
{
    const uint8_t *from = gradient;
    uint32_t element = element_bytes(segment->sum);
    struct shard own = part_of(segment, ranks->count, ranks->rank);
    uint64_t bytes = own.count * element;
    for (uint32_t i = 1; i < ranks->count; i++) {
        uint32_t before = ranks_before(ranks, i), after = ranks_after(ranks, i);
        struct shard theirs = part_of(segment, ranks->count, after);
        ranks_transfer_send(transfer, after, theirs.count * element, from + theirs.first * element);
        ranks_transfer_receive(transfer, before, bytes, received + before * bytes);
    }
    ranks->ops->copy(ranks, received + ranks->rank * bytes, from + own.first * element, bytes);
}

/* Exchanges a segment, and returns what is to be added when the transfer has ended. */
static struct reduction_piece exchange_segment(struct reduction *reduction,
                                               struct ranks_transfer *transfer,
                                               const struct piece_segment *segment)
{
    const struct reduction_sum *sum = segment->sum;
    struct ranks *ranks = reduction->ranks;
    struct reduction_piece piece = {.ranks = ranks->count,
                                    .elements = part_of(segment, ranks->count, ranks->rank).count,
                                    .accumulate = sum->accumulate,
                                    .rows = sum->rows,
                                    .narrow = sum->narrow,
                                    .sum = (uint8_t *)sum->sum +
                                           segment->first * element_bytes(sum)};
    for (uint32_t part = 0; part < 2 && sum->gradients[part]; part++) {
        uint64_t before = part * reduction->place.piece + segment->place;
        float *received = reduction->place.received + before * ranks->count;
        exchange_part(ranks, transfer, segment, sum->gradients[part], (uint8_t *)received);
        piece.received[part] = received;
    }
    return piece;
}

static void add_piece(struct reduction *reduction, const GArray *segments)
{
    const struct reduction_place *place = &reduction->place;
    struct ranks_transfer transfer = ranks_transfer_begin();
    g_autofree struct reduction_piece *pieces = g_new(struct reduction_piece, segments->len);
    for (guint i = 0; i < segments->len; i++)
        pieces[i] = exchange_segment(reduction, &transfer,
                                     &g_array_index(segments, struct piece_segment, i));
    ranks_transfer_end(&transfer, reduction->ranks);
    for (guint i = 0; i < segments->len; i++)
        if (pieces[i].elements)
            place->add(place->context, &pieces[i]);
}

void reduction_add(struct reduction *reduction, const struct reduction_sum *sums, uint32_t count)
{
    uint64_t room = 0;
    for (uint32_t s = 0; s < count; s++)
        room += shard_room(sums[s].elements, reduction->ranks->count);
    for (uint64_t piece = 0; piece < room; piece += reduction->place.piece) {
        g_autoptr(GArray) segments = cut_piece(reduction, sums, count, piece);
        add_piece(reduction, segments);
    }
}

/* ---- squares ---- */

void reduction_gather_blocks(struct reduction *reduction, const uint64_t *elements, uint32_t count)
{
    struct ranks *ranks = reduction->ranks;
    g_autofree struct ranks_part *parts = g_new(struct ranks_part, ranks->count);
    struct ranks_transfer transfer = ranks_transfer_begin();
    for (uint32_t i = 0; i < count; i++) {
        uint64_t block = shard_block(elements[i]);
        for (uint32_t r = 0; r < ranks->count; r++) {
            struct shard shard = shard_of(elements[i], ranks->count, r);
            uint64_t blocks = (shard.count + block - 1) / block;
            uint64_t first = blocks ? shard.first / block : 0;
            parts[r] = (struct ranks_part){first * sizeof(double), blocks * sizeof(double)};
        }
        ranks_gather_within(ranks, &transfer, parts, reduction_blocks(reduction, i));
    }
    ranks_transfer_end(&transfer, ranks);
}
