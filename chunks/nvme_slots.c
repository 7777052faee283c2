#include "chunks/nvme_slots.h"

#include <string.h>

/* ---- a ring ---- */

/* Rooms are handed from visit to visit in the order of needs, which keeps loads in that order, too:
 * the disk reads what is needed first. A load takes the room that is free the earliest, so that it
 * can begin the earliest. What is not loaded gains nothing from that, and takes the room that is
 * free the latest.
 *
 * Visits of different lengths and sizes split the ring into pieces. If it is too small for that,
 * each takes the lowest room that has been free for long enough: since so many bytes of visits ago.
 * The fewer they are, the better the ring is filled, and the less loads run ahead. */

/* The smallest share of the ring that is looked at as long enough is one of so many parts. */
enum { LOW_PARTS_MOST = 64 };

/* A part of the ring, and the instant at which it is free; negative if what was there left it in
 * the iteration before. */
struct ring_part {
    uint64_t begin, end;
    int64_t free_from;
};

static struct ring_part *room_at(const GArray *rooms, uint32_t i)
{
    return &g_array_index(rooms, struct ring_part, i);
}

/* Sets *free_from to the instant at which the range that begins with the room is free. Returns
 * false if the ring ends before. */
static bool is_range(const GArray *rooms, uint32_t first, uint64_t bytes, int64_t *free_from)
{
    uint64_t end = room_at(rooms, first)->begin + bytes;
    uint32_t r = first;
    *free_from = INT64_MIN;
    for (; r < rooms->len && room_at(rooms, r)->begin < end; r++)
        *free_from = MAX(*free_from, room_at(rooms, r)->free_from);
    return room_at(rooms, r - 1)->end >= end;
}

/* Returns the index of the room that begins the visit's range, or NO_INDEX: the lowest that is free
 * from the instant `long_ago` on, or, without one or with INT64_MAX, what is free the earliest for
 * a load, and the latest for the rest. */
static uint32_t find_room(const GArray *rooms, const struct nvme_visit *visit, int64_t long_ago,
                          int64_t *free_from)
{
    bool late = long_ago == INT64_MAX && !visit->loads;
    uint32_t best = NO_INDEX;
    int64_t from;
    *free_from = 0;
    for (uint32_t r = 0; r < rooms->len && is_range(rooms, r, visit->bytes, &from); r++) {
        bool low = long_ago != INT64_MAX && from <= long_ago;
        if (low || (from <= visit->needed &&
                    (best == NO_INDEX || (late ? from > *free_from : from < *free_from)))) {
            *free_from = from;
            best = r;
        }
        if (low)
            break;
    }
    return best;
}

/* Takes the first `bytes` of the rooms from `at` on, until `free_from`. */
static void take_room(GArray *rooms, uint32_t at, uint64_t bytes, int64_t free_from)
{
    uint64_t begin = room_at(rooms, at)->begin;
    const struct ring_part taken = {begin, begin + bytes, free_from};
    while (at < rooms->len && room_at(rooms, at)->end <= taken.end)
        g_array_remove_index(rooms, at);
    if (at < rooms->len)
        room_at(rooms, at)->begin = taken.end;
    g_array_insert_val(rooms, at, taken);
}

static struct nvme_visit *visit_at(const GArray *visits, uint32_t i)
{
    return &g_array_index(visits, struct nvme_visit, i);
}

/* The visits before one that have as many bytes as a low room has been free for. */
struct recent {
    uint64_t ahead_bytes;
    uint64_t bytes; /* of the visits from the first one on */
    uint32_t first;
};

/* Returns the instant since which a low room must be free for visit i, the next one; INT64_MAX if
 * low rooms are no better. */
static int64_t long_before(struct recent *recent, const GArray *visits, uint32_t i)
{
    if (recent->ahead_bytes == UINT64_MAX)
        return INT64_MAX;
    recent->bytes += visit_at(visits, i)->bytes;
    while (recent->first < i &&
           recent->bytes - visit_at(visits, recent->first)->bytes >= recent->ahead_bytes)
        recent->bytes -= visit_at(visits, recent->first++)->bytes;
    return recent->first ? (int64_t)visit_at(visits, recent->first)->needed : INT64_MIN;
}

/* Hands the rooms from visit to visit. Low rooms are no better if `ahead_bytes` is UINT64_MAX.
 * Returns false if the ring is too small; then some visits have slots. */
static bool hand_on(GArray *rooms, GArray *visits, uint32_t late, uint64_t ahead_bytes)
{
    struct recent recent = {.ahead_bytes = ahead_bytes};
    for (uint32_t i = 0; i < visits->len; i++) {
        struct nvme_visit *visit = visit_at(visits, i);
        int64_t free_from, long_ago = long_before(&recent, visits, i);
        uint32_t room = find_room(rooms, visit, long_ago, &free_from);
        if (room == NO_INDEX)
            return false;
        visit->host_address = room_at(rooms, room)->begin;
        uint32_t earliest = (uint32_t)MAX(free_from, visit->earliest);
        visit->taken = !visit->loads           ? visit->needed
                       : visit->needed >= late ? MAX(earliest, late)
                                               : earliest;
        take_room(rooms, room, visit->bytes, visit->left);
    }
    return true;
}

/* The whole ring is free between iterations, but what was left there last is still being stored. So
 * visits are placed again, with what has left the rooms having done so in the iteration before.
 * They stay as they are if that needs more room. */
static void place_again(GArray *rooms, GArray *visits, uint32_t late, uint64_t ahead_bytes)
{
    g_autofree struct nvme_visit *placed = g_memdup2(visits->data, visits->len * sizeof *placed);
    int64_t end = 0;
    for (uint32_t r = 0; r < rooms->len; r++)
        end = MAX(end, room_at(rooms, r)->free_from);
    for (uint32_t r = 0; r < rooms->len; r++)
        room_at(rooms, r)->free_from -= end;
    if (!hand_on(rooms, visits, late, ahead_bytes))
        memcpy(visits->data, placed, visits->len * sizeof *placed);
}

/* Returns false if the ring is too small. */
static bool place_ahead(GArray *visits, uint64_t ring_bytes, uint32_t late, uint64_t ahead_bytes)
{
    g_autoptr(GArray) rooms = g_array_new(FALSE, FALSE, sizeof(struct ring_part));
    const struct ring_part all = {0, ring_bytes, 0};
    g_array_append_val(rooms, all);
    if (!hand_on(rooms, visits, late, ahead_bytes))
        return false;
    place_again(rooms, visits, late, ahead_bytes);
    return true;
}

static bool place(GArray *visits, uint64_t ring_bytes, uint32_t late)
{
    bool placed = place_ahead(visits, ring_bytes, late, UINT64_MAX);
    for (uint64_t parts = 2; !placed && parts <= LOW_PARTS_MOST; parts *= 2)
        placed = place_ahead(visits, ring_bytes, late, ring_bytes / parts);
    return placed || place_ahead(visits, ring_bytes, late, 0);
}

/* What visits take or leave at an instant. */
struct change {
    uint32_t instant;
    uint64_t taken, left;
};

static gint by_instant(gconstpointer left, gconstpointer right)
{
    const struct change *a = left, *b = right;
    return (a->instant > b->instant) - (a->instant < b->instant);
}

uint64_t nvme_slots_least_bytes(const GArray *visits)
{
    g_autoptr(GArray) changes = g_array_new(FALSE, FALSE, sizeof(struct change));
    uint64_t most = 0, now = 0;
    for (uint32_t i = 0; i < visits->len; i++) {
        const struct nvme_visit *visit = visit_at(visits, i);
        const struct change both[] = {{.instant = visit->needed, .taken = visit->bytes},
                                      {.instant = visit->left, .left = visit->bytes}};
        g_array_append_vals(changes, both, G_N_ELEMENTS(both));
    }
    g_array_sort(changes, by_instant);
    for (uint32_t i = 0, next; i < changes->len; i = next) {
        uint64_t taken = 0;
        for (next = i; next < changes->len && g_array_index(changes, struct change, next).instant ==
                                                  g_array_index(changes, struct change, i).instant;
             next++) {
            now -= g_array_index(changes, struct change, next).left;
            taken += g_array_index(changes, struct change, next).taken;
        }
        now += taken;
        most = MAX(most, now);
    }
    return most;
}

uint64_t nvme_slots_ring(GArray *visits, const struct nvme_ring *ring)
{
    uint64_t most = MIN(ring->most, ring->all) / PLAN_NVME_ALIGNMENT * PLAN_NVME_ALIGNMENT;
    uint64_t wanted = ring->most == UINT64_MAX ? MIN(NVME_RING_TIMES * ring->least, most) : most;
    for (uint64_t bytes = wanted; bytes && bytes < most; bytes += ring->least)
        if (place(visits, bytes, ring->late))
            return bytes;
    return place(visits, most, ring->late) ? most : 0;
}

/* ---- buffers ---- */

/* The states of a chunk group, which pass through a buffer together. */
struct batch {
    uint32_t needed, left; /* instants */
    uint64_t bytes;        /* of their slots */
    uint32_t buffer;
    uint32_t taken; /* the instant at which it is loaded */
};

static struct batch *batch_at(const GArray *batches, uint32_t i)
{
    return &g_array_index(batches, struct batch, i);
}

/* Returns the batches, in the order of their updates, and sets of[visit] to the batch of each
 * visit, whose place in the buffer becomes its host_address. */
static GArray *find_batches(GArray *visits, const struct layout *layout, uint32_t *of)
{
    g_autofree uint32_t *of_group = g_new(uint32_t, layout->group_count);
    GArray *batches = g_array_new(FALSE, TRUE, sizeof(struct batch));
    memset(of_group, 0xff, layout->group_count * sizeof *of_group);
    for (uint32_t i = 0; i < visits->len; i++) {
        struct nvme_visit *visit = visit_at(visits, i);
        uint32_t *batch = &of_group[layout->chunks[visit->chunk].group];
        if (*batch == NO_INDEX) {
            *batch = batches->len;
            g_array_append_val(batches, ((struct batch){.needed = visit->needed}));
        }
        of[i] = *batch;
        visit->host_address = batch_at(batches, *batch)->bytes;
        batch_at(batches, *batch)->left = MAX(batch_at(batches, *batch)->left, visit->left);
        batch_at(batches, *batch)->bytes += visit->bytes;
    }
    return batches;
}

/* Returns the number of buffers that the batches take, at least one. */
static uint32_t rotate(const GArray *batches, uint32_t buffers)
{
    uint32_t ahead = buffers > 1 ? MAX(1, buffers - 2) : 0;
    g_autofree uint32_t *free_from = g_new0(uint32_t, batches->len);
    uint32_t taken = 0;
    for (uint32_t b = 0; b < batches->len; b++) {
        struct batch *batch = batch_at(batches, b);
        uint32_t best = 0;
        for (uint32_t i = 1; i < taken; i++)
            best = free_from[i] < free_from[best] ? i : best;
        if (taken < buffers || free_from[best] > batch->needed)
            best = taken++;
        batch->buffer = best;
        batch->taken = MAX(batch_at(batches, b > ahead ? b - ahead : 0)->needed, free_from[best]);
        free_from[best] = batch->left;
    }
    return taken;
}

uint64_t nvme_slots_buffers(GArray *visits, const struct layout *layout, uint32_t buffers)
{
    g_autofree uint32_t *of = g_new(uint32_t, visits->len);
    g_autoptr(GArray) batches = find_batches(visits, layout, of);
    uint64_t largest = 0;
    for (uint32_t b = 0; b < batches->len; b++)
        largest = MAX(largest, batch_at(batches, b)->bytes);
    uint32_t taken = rotate(batches, buffers);
    for (uint32_t i = 0; i < visits->len; i++) {
        struct nvme_visit *visit = visit_at(visits, i);
        const struct batch *batch = batch_at(batches, of[i]);
        visit->host_address += batch->buffer * largest;
        visit->taken = batch->taken;
    }
    return largest * taken;
}
