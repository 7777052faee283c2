#include "planner/schedule/intervals.h"

#include "policies/headroom.h"

#include <stdlib.h>

/* Attempts with other orders: each moves the interval that found no room to the front. There are
 * fewer of them if many intervals make an attempt slow. */
enum { ATTEMPTS = 6, INTERVALS_MOST = 4000, PAIRS_MOST = 4000000 };

/* The fields of an interval that the overlap test needs, close together. */
struct live_range {
    uint32_t enter, length;      /* moments */
    uint64_t begin_ns, lasts_ns; /* cyclic in the period, if that is known */
    uint64_t follow_ns, lead_ns; /* as in struct interval */
    uint64_t bytes;
};

/* Each placed interval has a mask with a bit for each of these parts of the iteration. */
enum { PARTS = 64 };

struct offsets {
    const struct intervals *intervals;
    const struct accesses *accesses;
    uint64_t device_budget;
    uint32_t count;
    int32_t *wanted;           /* [count] when each would enter if there is room */
    struct live_range *ranges; /* [count] */
    uint64_t *address;         /* [count] */
    uint32_t *order;           /* [count] in which intervals are placed */
    uint32_t *placed;          /* [placed_count] intervals with an address, by address */
    uint64_t *parts;           /* [placed_count] masks of `placed` */
    uint32_t placed_count;
    struct headroom *limit; /* below which chunks must end at each moment */
    uint64_t
        *permanent;  /* [chunk_count] address of chunks that never leave, NO_ADDRESS for others */
    uint64_t bottom; /* end of the chunks that never leave */
    uint64_t *time_parts;    /* [placed_count] masks of `placed` in time; 0 without times */
    uint64_t period_ns;      /* 0 if times are unknown */
    bool by_time;            /* intervals that share an address must not overlap in time either */
    uint64_t tolerance_ns;   /* by which they may: the later one waits so long */
    bool hold_until_vacated; /* intervals keep their slot until their write-back is over, if they
                                can */
};

static struct interval *interval_at(const struct offsets *o, uint32_t index)
{
    return &g_array_index(o->intervals->items, struct interval, index);
}

static uint64_t bytes_of(const struct offsets *o, uint32_t index)
{
    return o->ranges[index].bytes;
}

static void set_range(struct offsets *o, uint32_t index, int32_t end)
{
    const struct interval *interval = interval_at(o, index);
    o->ranges[index] = (struct live_range){intervals_moment(o->intervals, interval->enter),
                                           (uint32_t)(end - interval->enter),
                                           (uint64_t)interval->begin_ns,
                                           (uint64_t)interval->lasts_ns,
                                           (uint64_t)interval->follow_ns,
                                           (uint64_t)interval->lead_ns,
                                           o->intervals->reuses->slot_bytes[interval->chunk]};
}

static bool begins_within(uint32_t enter, const struct live_range *range, uint32_t moment_count)
{
    uint32_t after = enter >= range->enter ? enter - range->enter
                                           : enter + moment_count - range->enter;
    return after < range->length;
}

/* Returns whether a chunk that comes would wait too long for one that leaves. */
static bool waits(const struct offsets *o, const struct live_range *comes,
                  const struct live_range *leaves)
{
    uint64_t after = comes->begin_ns >= leaves->begin_ns
                         ? comes->begin_ns - leaves->begin_ns
                         : comes->begin_ns + o->period_ns - leaves->begin_ns;
    uint64_t behind = MIN(comes->follow_ns, leaves->lead_ns);
    return after + behind + o->tolerance_ns < leaves->lasts_ns;
}

/* Returns whether both hold their slots at some moment or, by time, one would wait for the other.
 */
static bool overlap(const struct offsets *o, const struct live_range *a, const struct live_range *b)
{
    uint32_t n = o->intervals->reuses->moment_count;
    if (begins_within(b->enter, a, n) || begins_within(a->enter, b, n))
        return true;
    return o->by_time && (waits(o, b, a) || waits(o, a, b));
}

/* Returns the mask of the parts from the part of moment `first` to the part of moment `last`. */
static uint64_t bits_between(const struct offsets *o, uint32_t first, uint32_t last)
{
    uint32_t low = (uint32_t)((uint64_t)first * PARTS / o->intervals->reuses->moment_count);
    uint32_t high = (uint32_t)((uint64_t)last * PARTS / o->intervals->reuses->moment_count);
    return (UINT64_MAX << low) & (UINT64_MAX >> (PARTS - 1 - high));
}

/* Ranges can overlap only if their masks do. */
static uint64_t parts_of(const struct offsets *o, const struct live_range *range)
{
    uint32_t n = o->intervals->reuses->moment_count,
             last = range->enter + MAX(range->length, 1) - 1;
    if (range->length >= n)
        return UINT64_MAX;
    return last < n ? bits_between(o, range->enter, last)
                    : bits_between(o, range->enter, n - 1) | bits_between(o, 0, last - n);
}

static uint32_t time_part(const struct offsets *o, uint64_t ns)
{
    return (uint32_t)((unsigned __int128)(ns % o->period_ns) * PARTS / o->period_ns);
}

/* Does the same with parts of the period. */
static uint64_t time_parts_of(const struct offsets *o, const struct live_range *range)
{
    if (!o->period_ns)
        return 0;
    if (range->lasts_ns >= o->period_ns)
        return UINT64_MAX;
    uint64_t end_ns = range->begin_ns + range->lasts_ns;
    uint64_t from = UINT64_MAX << time_part(o, range->begin_ns);
    uint64_t to = UINT64_MAX >> (PARTS - 1 - time_part(o, end_ns));
    return end_ns < o->period_ns ? from & to : from | to;
}

/* Returns the address at which the interval must end at the latest: below the non-model data until
 * it has left or, by time, until its write-back is over. */
static uint64_t limit_of(const struct offsets *o, uint32_t index, bool by_time)
{
    const struct live_range *range = &o->ranges[index];
    const struct interval *interval = interval_at(o, index);
    uint32_t length = by_time ? (uint32_t)(interval->vacated - interval->enter) : range->length;
    length = MIN(length, o->intervals->reuses->moment_count);
    return (uint64_t)headroom_least(o->limit, range->enter, length);
}

/* Returns the lowest address that is free throughout the range, whose masks are `parts` and
 * `time_parts`. If no such address is at most `most`, returns any address above it. */
static uint64_t find_address(const struct offsets *o, const struct live_range *range,
                             uint64_t parts, uint64_t time_parts, uint64_t most)
{
    uint64_t address = o->bottom;
    for (uint32_t i = 0; i < o->placed_count && address <= most; i++) {
        if (!(o->parts[i] & parts) && !(o->by_time && o->time_parts[i] & time_parts))
            continue;
        uint32_t index = o->placed[i];
        uint64_t begin = o->address[index], end = begin + bytes_of(o, index);
        if (begin >= address + range->bytes)
            break;
        if (end > address && overlap(o, range, &o->ranges[index]))
            address = end;
    }
    return address;
}

/* Returns how many placed intervals begin at the address or below. */
static uint32_t place_of(const struct offsets *o, uint64_t address)
{
    uint32_t low = 0, high = o->placed_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (o->address[o->placed[middle]] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns false if there is no address below the limit. */
static bool place_at(struct offsets *o, uint32_t index)
{
    const struct live_range *range = &o->ranges[index];
    uint64_t parts = parts_of(o, range), time_parts = time_parts_of(o, range),
             limit = limit_of(o, index, o->by_time);
    if (range->bytes > limit)
        return false;
    uint64_t address = find_address(o, range, parts, time_parts, limit - range->bytes);

    if (address + range->bytes > limit)
        return false;
    uint32_t place = place_of(o, address), above = o->placed_count++ - place;
    o->address[index] = address;
    memmove(o->placed + place + 1, o->placed + place, above * sizeof *o->placed);
    memmove(o->parts + place + 1, o->parts + place, above * sizeof *o->parts);
    o->placed[place] = index;
    o->parts[place] = parts;
    memmove(o->time_parts + place + 1, o->time_parts + place, above * sizeof *o->time_parts);
    o->time_parts[place] = time_parts;
    return true;
}

static bool place_from(struct offsets *o, uint32_t index, int32_t enter, int32_t end)
{
    interval_at(o, index)->enter = enter;
    set_range(o, index, end);
    return place_at(o, index);
}

/* Lets the interval wait for the one before it at the address: a 256th of the period, more, or, if
 * nothing else is found, however long it takes. */
static bool place_tolerantly(struct offsets *o, uint32_t index, int32_t enter, int32_t end)
{
    bool placed = false;
    for (int level = 8; level >= 2 && !placed; level--) {
        o->tolerance_ns = o->period_ns >> level;
        placed = place_from(o, index, enter, end);
    }
    o->tolerance_ns = 0;
    if (!placed) {
        o->by_time = false;
        placed = place_from(o, index, enter, end);
        o->by_time = true;
    }
    return placed;
}

/* Shortens the prefetch until the interval fits. If possible the interval keeps its slot until its
 * write-back is over, so that the next chunk there need not wait. */
static bool place_one(struct offsets *o, uint32_t index)
{
    const struct interval interval = *interval_at(o, index);
    for (int32_t ahead = interval.first_use - o->wanted[index];; ahead /= 2) {
        int32_t enter = interval.first_use - ahead;
        if ((o->hold_until_vacated && interval.vacated > interval.leave &&
             place_from(o, index, enter, interval.vacated)) ||
            place_from(o, index, enter, interval.leave) ||
            (o->by_time && place_tolerantly(o, index, enter, interval.leave)))
            return true;
        if (!ahead)
            return false;
    }
}

/* Returns how many were placed before one found no room. */
static uint32_t place_all(struct offsets *o)
{
    o->placed_count = 0;
    while (o->placed_count < o->count && place_one(o, o->order[o->placed_count]))
        continue;
    return o->placed_count;
}

static void move_to_front(struct offsets *o, uint32_t place)
{
    uint32_t index = o->order[place];
    memmove(o->order + 1, o->order, place * sizeof *o->order);
    o->order[0] = index;
}

static int longest_first(const void *left, const void *right, void *data)
{
    uint32_t l = *(const uint32_t *)left, r = *(const uint32_t *)right;
    const struct offsets *o = data;
    uint32_t a = o->ranges[l].length, b = o->ranges[r].length;
    if (a != b)
        return a > b ? -1 : 1;
    if (bytes_of(o, l) != bytes_of(o, r))
        return bytes_of(o, l) > bytes_of(o, r) ? -1 : 1;
    return l < r ? -1 : l > r;
}

/* Stacks the chunks that never leave. */
static void place_permanent(struct offsets *o, const struct homes *homes)
{
    uint32_t chunks = o->intervals->reuses->chunk_count;
    o->permanent = g_new(uint64_t, chunks);
    for (uint32_t c = 0; c < chunks; c++) {
        bool intervals = homes->on_device[c] || o->intervals->permanent[c];
        o->permanent[c] = intervals ? o->bottom : NO_ADDRESS;
        o->bottom += intervals ? o->intervals->reuses->slot_bytes[c] : 0;
    }
}

/* Returns the address of the interval of `chunk` that enters at `moment`. */
static uint64_t entry_address(const struct offsets *o, const GArray *by_chunk, uint32_t chunk,
                              moment_id moment)
{
    uint32_t low = 0, high = by_chunk->len;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (interval_at(o, g_array_index(by_chunk, uint32_t, middle))->chunk < chunk)
            low = middle + 1;
        else
            high = middle;
    }
    while (intervals_moment(o->intervals,
                            interval_at(o, g_array_index(by_chunk, uint32_t, low))->enter) !=
           moment)
        low++;
    return o->address[g_array_index(by_chunk, uint32_t, low)];
}

static int by_chunk_then_place(const void *left, const void *right, void *data)
{
    uint32_t l = *(const uint32_t *)left, r = *(const uint32_t *)right;
    const struct offsets *o = data;
    uint32_t a = interval_at(o, l)->chunk, b = interval_at(o, r)->chunk;
    if (a != b)
        return a < b ? -1 : 1;
    return l < r ? -1 : l > r;
}

static GArray *sort_by_chunk(const struct offsets *o)
{
    GArray *sorted = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t i = 0; i < o->count; i++)
        g_array_append_val(sorted, i);
    g_array_sort_with_data(sorted, by_chunk_then_place, (void *)o);
    return sorted;
}

/* Returns the highest end of chunks and non-model data together. */
static uint64_t arena_bytes(const struct offsets *o)
{
    uint64_t arena = o->bottom;
    for (uint32_t m = 0; m < o->accesses->moment_count; m++)
        arena = MAX(arena, o->bottom + o->accesses->non_model[m]);
    for (uint32_t i = 0; i < o->count; i++)
        arena = MAX(arena,
                    o->address[i] + bytes_of(o, i) + o->device_budget - limit_of(o, i, false));
    return arena;
}

static bool find_all(struct offsets *o)
{
    uint32_t pairs = MAX(o->count * o->count / 2, 1);
    uint32_t attempts = CLAMP(PAIRS_MOST / pairs, 1, ATTEMPTS);
    for (uint32_t attempt = 0; attempt < attempts; attempt++) {
        o->by_time = o->period_ns != 0;
        o->hold_until_vacated = !o->by_time && attempt < attempts / 2;
        uint32_t failed = place_all(o);
        if (failed == o->count)
            return true;
        move_to_front(o, failed);
    }
    return false;
}

static struct headroom *limit_new(const struct accesses *accesses, uint64_t device_budget)
{
    g_autofree int64_t *bytes = g_new(int64_t, accesses->moment_count);
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        bytes[m] = (int64_t)(device_budget - accesses->non_model[m]);
    return headroom_new(bytes, accesses->moment_count);
}

struct offsets *offsets_find(const struct intervals *intervals, const struct homes *homes,
                             const struct accesses *accesses, uint64_t device_budget)
{
    struct offsets *o = g_new0(struct offsets, 1);
    o->intervals = intervals;
    o->accesses = accesses;
    o->device_budget = device_budget;
    o->count = intervals->items->len;
    o->wanted = g_new(int32_t, o->count);
    o->address = g_new(uint64_t, o->count);
    o->order = g_new(uint32_t, o->count);
    o->placed = g_new(uint32_t, o->count);
    o->parts = g_new(uint64_t, o->count);
    o->time_parts = g_new(uint64_t, o->count);
    o->period_ns = intervals->period_ns;
    o->limit = limit_new(accesses, device_budget);
    o->ranges = g_new(struct live_range, o->count);
    for (uint32_t i = 0; i < o->count; i++) {
        o->wanted[i] = interval_at(o, i)->enter;
        o->order[i] = i;
        set_range(o, i, interval_at(o, i)->leave);
    }
    g_qsort_with_data(o->order, (gint)o->count, sizeof *o->order, longest_first, o);
    place_permanent(o, homes);
    if (o->count <= INTERVALS_MOST && find_all(o)) {
        return o;
    }
    for (uint32_t i = 0; i < o->count; i++)
        interval_at(o, i)->enter = o->wanted[i];
    offsets_free(o);
    return NULL;
}

void offsets_free(struct offsets *offsets)
{
    if (!offsets)
        return;
    g_free(offsets->wanted);
    g_free(offsets->address);
    g_free(offsets->order);
    g_free(offsets->placed);
    g_free(offsets->parts);
    g_free(offsets->time_parts);
    headroom_free(offsets->limit);
    g_free(offsets->ranges);
    g_free(offsets->permanent);
    g_free(offsets);
}

/* Returns where each chunk lies when the iteration begins. */
static uint64_t *initial_address(const struct offsets *o)
{
    uint64_t *address = g_memdup2(o->permanent,
                                  o->intervals->reuses->chunk_count * sizeof *o->permanent);
    for (uint32_t i = 0; i < o->count; i++)
        if (intervals_is_initial(o->intervals, interval_at(o, i)))
            address[interval_at(o, i)->chunk] = o->address[i];
    return address;
}

struct addresses *offsets_addresses(const struct offsets *offsets,
                                    const struct decisions *decisions)
{
    g_autoptr(GArray) by_chunk = sort_by_chunk(offsets);
    uint32_t moments = decisions->moment_count, chunks = offsets->intervals->reuses->chunk_count;
    struct addresses *addresses = g_new0(struct addresses, 1);
    addresses->arena_bytes = arena_bytes(offsets);
    addresses->initial = initial_address(offsets);
    addresses->moment_count = moments;
    addresses->first_action = g_memdup2(decisions->first, (moments + 2) * sizeof *decisions->first);
    addresses->action_count = decisions->actions->len;
    addresses->actions = g_new(struct plan_action, addresses->action_count);
    g_autofree uint64_t *now = g_memdup2(addresses->initial, chunks * sizeof(uint64_t));
    for (uint32_t m = 0; m <= moments; m++)
        for (uint32_t i = decisions->first[m]; i < decisions->first[m + 1]; i++) {
            struct plan_action action = g_array_index(decisions->actions, struct plan_action, i);
            bool enters = action.kind == PLAN_FETCH || action.kind == PLAN_ALLOCATE;
            if (enters)
                now[action.chunk] = entry_address(offsets, by_chunk, action.chunk, m);
            else if (action.kind != PLAN_FLUSH)
                now[action.chunk] = NO_ADDRESS;
            action.address = now[action.chunk];
            addresses->actions[i] = action;
        }
    return addresses;
}
