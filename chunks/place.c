#include "chunks/place.h"

#include "chunks/arena.h"

/* Rounds of the iteration, each from where the last one left the chunks. Often one soon ends as it
 * began; otherwise chunks go back to where they were, and the round that moves the least counts. */
#define ROUNDS 8

struct placing {
    const struct decisions *decisions;
    const struct layout *layout;
    const struct accesses *accesses;
    const struct homes *homes;
    const struct trace *trace;
    uint64_t budget;
    struct arena *arena;
    uint64_t *address; /* [chunk_count] */
    GArray *actions;   /* struct plan_action */
    uint32_t *first;   /* [moment_count + 2] */
    uint64_t peak, peak_live, arena_bytes;
    uint64_t returned;  /* bytes that went home through the host */
    uint64_t moved;     /* bytes moved within the device */
    uint64_t live;      /* slots on the device */
    uint64_t non_model; /* of the current moment */
};

static void put(struct placing *p, uint32_t chunk, uint64_t address)
{
    arena_insert(p->arena, chunk, address, p->layout->chunks[chunk].bytes);
    p->address[chunk] = address;
    p->live += p->layout->chunks[chunk].bytes;
    /* Here, not only when the operator starts: the chunk may move on before that. */
    p->arena_bytes = MAX(p->arena_bytes, address + p->layout->chunks[chunk].bytes + p->non_model);
}

static void take(struct placing *p, uint32_t chunk)
{
    arena_remove(p->arena, p->address[chunk]);
    p->address[chunk] = PLAN_NOWHERE;
    p->live -= p->layout->chunks[chunk].bytes;
}

static void emit(struct placing *p, enum plan_action_kind kind, uint32_t chunk, uint64_t address)
{
    struct plan_action action = {.chunk = chunk, .kind = (uint8_t)kind, .address = address};
    g_array_append_val(p->actions, action);
}

static void move(struct placing *p, uint32_t chunk, uint64_t address)
{
    take(p, chunk);
    put(p, chunk, address);
    emit(p, PLAN_MOVE, chunk, address);
    p->moved += p->layout->chunks[chunk].used;
}

/* Blocks [first, first + count) slide down against the block below them. */
struct slide {
    uint32_t first, count;
    uint64_t bytes; /* that they hold: what the slide moves */
};

static const struct arena_block *block_at(const struct placing *p, uint32_t index)
{
    return &g_array_index(p->arena->blocks, struct arena_block, index);
}

/* Free bytes below block `index`, down to the block before, and not above `ceiling`. */
static uint64_t gap_below(const struct placing *p, uint32_t index, uint64_t ceiling)
{
    const struct arena_block *below = index ? block_at(p, index - 1) : NULL;
    uint64_t begin = below ? below->address + below->bytes : 0;
    uint64_t end = index < p->arena->blocks->len ? block_at(p, index)->address : ceiling;
    return MIN(end, ceiling) > begin ? MIN(end, ceiling) - begin : 0;
}

/* The run of blocks below the ceiling that frees `bytes` in one piece by sliding, for the least
 * bytes moved. */
static struct slide cheapest_slide(const struct placing *p, uint64_t bytes, uint64_t ceiling)
{
    struct slide best = {.bytes = UINT64_MAX}, run = {.count = 0};
    uint64_t room = gap_below(p, 0, ceiling);
    for (uint32_t next = 0; next < p->arena->blocks->len; next++) {
        run.count++;
        run.bytes += block_at(p, next)->bytes;
        room += gap_below(p, next + 1, ceiling);
        while (room >= bytes && run.count) {
            if (run.bytes < best.bytes)
                best = run;
            room -= gap_below(p, run.first, ceiling);
            run.bytes -= block_at(p, run.first)->bytes;
            run.first++;
            run.count--;
        }
    }
    return best;
}

static void slide_down(struct placing *p, const struct slide *run)
{
    uint64_t cursor = block_at(p, run->first)->address - gap_below(p, run->first, UINT64_MAX);
    for (uint32_t i = 0; i < run->count; i++) {
        struct arena_block block = *block_at(p, run->first + i);
        move(p, block.chunk, cursor);
        cursor += block.bytes;
    }
}

/* The lowest address with room, made by moving chunks together where room is scattered. */
static uint64_t find(struct placing *p, uint64_t bytes, uint64_t ceiling)
{
    uint64_t address = arena_find(p->arena, bytes, ceiling);
    if (address == ARENA_NO_ROOM) {
        struct slide run = cheapest_slide(p, bytes, ceiling);
        g_assert(run.bytes != UINT64_MAX);
        slide_down(p, &run);
        address = arena_find(p->arena, bytes, ceiling);
    }
    g_assert(address != ARENA_NO_ROOM);
    return address;
}

/* The highest blocks slide down until all end below the ceiling. */
static void slide_below(struct placing *p, uint64_t ceiling)
{
    uint64_t excess = arena_end(p->arena) - ceiling, room = 0;
    struct slide run = {.first = p->arena->blocks->len};
    while (room < excess) {
        g_assert(run.first > 0);
        run.first--;
        run.count++;
        room += gap_below(p, run.first, UINT64_MAX);
    }
    slide_down(p, &run);
}

/* Chunks make way for the non-model data of the next operator. */
static void clear_above(struct placing *p, uint64_t ceiling)
{
    while (arena_end(p->arena) > ceiling) {
        struct arena_block top = *block_at(p, p->arena->blocks->len - 1);
        uint64_t address = arena_find(p->arena, top.bytes, ceiling);
        if (address == ARENA_NO_ROOM)
            slide_below(p, ceiling);
        else
            move(p, top.chunk, address);
    }
}

static void place_action(struct placing *p, const struct plan_action *action, uint64_t ceiling)
{
    uint32_t chunk = action->chunk;
    switch ((enum plan_action_kind)action->kind) {
    case PLAN_FETCH:
    case PLAN_ALLOCATE:
        put(p, chunk, find(p, p->layout->chunks[chunk].bytes, ceiling));
        emit(p, action->kind, chunk, p->address[chunk]);
        break;
    case PLAN_WRITE_BACK:
    case PLAN_DROP:
        take(p, chunk);
        emit(p, action->kind, chunk, PLAN_NOWHERE);
        break;
    case PLAN_FLUSH:
        emit(p, action->kind, chunk, p->address[chunk]);
        break;
    case PLAN_WAIT:
        emit(p, action->kind, chunk, PLAN_NOWHERE);
        break;
    case PLAN_MOVE: /* none is decided */
    case PLAN_ACTIONS:
        g_assert_not_reached();
    }
}

static void place_iteration(struct placing *p)
{
    uint32_t moments = p->accesses->moment_count;
    g_array_set_size(p->actions, 0);
    p->peak = p->peak_live = p->returned = p->moved = 0;
    p->arena_bytes = arena_end(p->arena);
    for (uint32_t m = 0; m <= moments; m++) {
        p->non_model = m < moments ? p->accesses->non_model[m] : 0;
        /* Budgets need not be multiples of the alignment, addresses must. */
        uint64_t ceiling = p->budget - p->non_model;
        ceiling -= ceiling % LAYOUT_ALIGNMENT;
        p->first[m] = p->actions->len;
        for (uint32_t i = p->decisions->first[m]; i < p->decisions->first[m + 1]; i++)
            place_action(p, &g_array_index(p->decisions->actions, struct plan_action, i), ceiling);
        clear_above(p, ceiling);
        p->arena_bytes = MAX(p->arena_bytes, arena_end(p->arena) + p->non_model);
        if (m < moments) {
            p->peak = MAX(p->peak, arena_end(p->arena) + p->non_model);
            p->peak_live = MAX(p->peak_live, p->live + p->trace->non_model_bytes[m]);
        }
    }
    p->first[moments + 1] = p->actions->len;
}

/* Moves what can go straight to where it began; returns how many cannot. */
static uint32_t move_straight_home(struct placing *p, const uint64_t *start)
{
    uint32_t left;
    bool moved;
    do {
        left = 0;
        moved = false;
        for (uint32_t c = 0; c < p->layout->chunk_count; c++) {
            if (p->address[c] == start[c])
                continue;
            if (arena_is_free(p->arena, start[c], p->layout->chunks[c].bytes, c)) {
                move(p, c, start[c]);
                moved = true;
            } else {
                left++;
            }
        }
    } while (left && moved);
    return left;
}

/* One chunk that stands in the way of others steps aside; false: there is no room for that. */
static bool step_aside(struct placing *p, const uint64_t *start)
{
    for (uint32_t c = 0; c < p->layout->chunk_count; c++) {
        if (p->address[c] == start[c])
            continue;
        uint64_t aside = arena_find(p->arena, p->layout->chunks[c].bytes, p->budget);
        if (aside != ARENA_NO_ROOM) {
            move(p, c, aside);
            return true;
        }
    }
    return false;
}

/* Whether all went home within the device. Every step aside lets at least one go home, or is the
 * last. */
static bool move_home(struct placing *p, const uint64_t *start)
{
    uint32_t left = move_straight_home(p, start), before = UINT32_MAX;
    while (left && left < before && step_aside(p, start)) {
        before = left;
        left = move_straight_home(p, start);
    }
    return !left;
}

/* Chunks that stand in each other's way leave through the host and come back. */
static void return_home(struct placing *p, const uint64_t *start)
{
    if (!move_home(p, start)) {
        g_autofree uint8_t *gone = g_new0(uint8_t, p->layout->chunk_count);
        for (uint32_t c = 0; c < p->layout->chunk_count; c++) {
            if (p->address[c] == start[c])
                continue;
            emit(p, PLAN_WRITE_BACK, c, PLAN_NOWHERE);
            take(p, c);
            p->returned += p->layout->chunks[c].used;
            gone[c] = 1;
        }
        for (uint32_t c = 0; c < p->layout->chunk_count; c++) {
            if (gone[c]) {
                put(p, c, start[c]);
                emit(p, PLAN_FETCH, c, start[c]);
            }
        }
    }
    p->first[p->accesses->moment_count + 1] = p->actions->len;
}

static void place_start(struct placing *p)
{
    uint64_t cursor = 0;
    memset(p->address, 0xff, p->layout->chunk_count * sizeof *p->address);
    for (int homed = 1; homed >= 0; homed--) {
        for (uint32_t c = 0; c < p->layout->chunk_count; c++) {
            if (p->decisions->initial[c] && !!p->homes->on_device[c] == homed) {
                put(p, c, cursor);
                cursor += p->layout->chunks[c].bytes;
            }
        }
    }
}

/* Puts the chunks at `address` and nowhere else. */
static void place_at(struct placing *p, const uint64_t *address)
{
    for (uint32_t c = 0; c < p->layout->chunk_count; c++)
        if (p->address[c] != PLAN_NOWHERE)
            take(p, c);
    for (uint32_t c = 0; c < p->layout->chunk_count; c++)
        if (address[c] != PLAN_NOWHERE)
            put(p, c, address[c]);
}

static void keep(const struct placing *p, const uint64_t *start, struct plan *plan)
{
    uint32_t chunks = p->layout->chunk_count, moments = p->accesses->moment_count;
    memcpy(plan->initial_address, start, chunks * sizeof *start);
    memcpy(plan->first_action, p->first, (moments + 2) * sizeof *p->first);
    g_free(plan->actions);
    plan->action_count = p->actions->len;
    plan->actions = g_memdup2(p->actions->data, p->actions->len * sizeof(struct plan_action));
    plan->device_bytes = p->arena_bytes;
    plan->predicted.peak_device_bytes = p->peak;
    plan->predicted.peak_live_device_bytes = p->peak_live;
}

static void place_rounds(struct placing *p, struct plan *plan)
{
    size_t addresses = p->layout->chunk_count * sizeof(uint64_t);
    g_autofree uint64_t *start = g_malloc(addresses), *end = g_malloc(addresses);
    uint64_t least_returned = UINT64_MAX, least_moved = UINT64_MAX;
    bool periodic = false;
    place_start(p);
    for (int round = 0; round < ROUNDS && !periodic; round++) {
        memcpy(start, p->address, addresses);
        place_iteration(p);
        memcpy(end, p->address, addresses);
        periodic = !memcmp(start, end, addresses);
        return_home(p, start);
        if (p->returned < least_returned ||
            (p->returned == least_returned && p->moved < least_moved)) {
            least_returned = p->returned;
            least_moved = p->moved;
            keep(p, start, plan);
        }
        place_at(p, end);
    }
}

void place_decisions(const struct decisions *decisions, const struct layout *layout,
                     const struct accesses *accesses, const struct homes *homes,
                     const struct trace *trace, uint64_t device_budget, struct plan *plan)
{
    struct placing p = {.decisions = decisions,
                        .layout = layout,
                        .accesses = accesses,
                        .homes = homes,
                        .trace = trace,
                        .budget = device_budget,
                        .arena = arena_new(),
                        .address = g_new(uint64_t, layout->chunk_count),
                        .actions = g_array_new(FALSE, FALSE, sizeof(struct plan_action)),
                        .first = g_new0(uint32_t, accesses->moment_count + 2)};
    plan->moment_count = accesses->moment_count;
    plan->initial_address = g_new(uint64_t, layout->chunk_count);
    plan->first_action = g_new(uint32_t, accesses->moment_count + 2);
    place_rounds(&p, plan);
    g_array_free(p.actions, TRUE);
    g_free(p.first);
    g_free(p.address);
    arena_free(p.arena);
}
