#include "chunks/place.h"

#include "chunks/place_internal.h"
#include "chunks/slots.h"

#include <math.h>

/* ---- ceilings ---- */

/* A moment with its non-model data. Moments count on into the second iteration. */
struct maximum {
    uint32_t moment;
    uint64_t non_model;
};

/* Goes backwards through two iterations, so that the ceilings of the first one know what the second
 * one needs. */
struct ceiling_search {
    const uint64_t *non_model; /* [moment_count] */
    uint64_t budget;
    uint32_t moment_count;
    /* The moments from now on whose non-model data exceeds the non-model data of all moments
     * before, latest first. The last such moment up to a given moment has the maximum. */
    struct maximum *maxima; /* [count] */
    uint32_t count;
    uint32_t *leave; /* [chunk_count] the moment by which it has left next, or NO_INDEX */
};

static void step_back(struct ceiling_search *s, uint32_t moment, uint64_t non_model)
{
    while (s->count && s->maxima[s->count - 1].non_model <= non_model)
        s->count--;
    s->maxima[s->count++] = (struct maximum){moment, non_model};
}

/* Returns the ceiling that holds from now until `end`. */
static uint64_t lowest_ceiling(const struct ceiling_search *s, uint32_t end)
{
    uint32_t low = 0, high = s->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->maxima[middle].moment >= end)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t most = low < s->count ? s->maxima[low].non_model : 0;
    return (s->budget - most) / LAYOUT_ALIGNMENT * LAYOUT_ALIGNMENT;
}

/* If `arrival` is NULL, only finds what comes after the iteration before. */
static void go_back_through(struct ceiling_search *s, const struct decisions *decisions,
                            uint32_t base, uint64_t *arrival)
{
    for (uint32_t m = s->moment_count + 1; m-- > 0;) {
        if (m < s->moment_count)
            step_back(s, base + m, s->non_model[m]);
        for (uint32_t i = decisions->first[m + 1]; i-- > decisions->first[m];) {
            const struct plan_action *action = &g_array_index(decisions->actions,
                                                              struct plan_action, i);
            if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP)
                s->leave[action->chunk] = base + (decisions->over ? MAX(m, decisions->over[i]) : m);
            else if (arrival && (action->kind == PLAN_FETCH || action->kind == PLAN_ALLOCATE))
                arrival[i] = lowest_ceiling(s, MIN(s->leave[action->chunk], m + s->moment_count));
        }
    }
}

struct ceilings *ceilings_new(const struct decisions *decisions, const struct accesses *accesses,
                              uint64_t device_budget)
{
    uint32_t moments = accesses->moment_count, chunks = accesses->chunk_count;
    struct ceilings *ceilings = g_new(struct ceilings, 1);
    g_autofree struct maximum *maxima = g_new(struct maximum, 2 * (size_t)moments);
    g_autofree uint32_t *leave = g_new(uint32_t, chunks);
    struct ceiling_search search = {.non_model = accesses->non_model,
                                    .budget = device_budget,
                                    .moment_count = moments,
                                    .maxima = maxima,
                                    .leave = leave};
    ceilings->arrival = g_new(uint64_t, decisions->actions->len);
    ceilings->initial = g_new(uint64_t, chunks);
    memset(leave, 0xff, chunks * sizeof *leave);
    go_back_through(&search, decisions, moments, NULL);
    go_back_through(&search, decisions, 0, ceilings->arrival);
    for (uint32_t c = 0; c < chunks; c++)
        ceilings->initial[c] = lowest_ceiling(&search, MIN(leave[c], moments));
    return ceilings;
}

void ceilings_free(struct ceilings *ceilings)
{
    if (!ceilings)
        return;
    g_free(ceilings->arrival);
    g_free(ceilings->initial);
    g_free(ceilings);
}

/* ---- an iteration ---- */

/* The most rounds of the iteration. Each starts from where the round before left the chunks. They
 * end early when the best round's moves cost less than this share of the decided copies, or when a
 * round is given up. */
static const struct effort {
    int rounds;
    double little_share;
} efforts[] = {[PLACE_QUICKLY] = {2, 0.1}, [PLACE_WELL] = {6, 0.001}};

/* A byte that returns through the host costs as much as this number of bytes that move within the
 * device. It crosses the link twice, and device memory is that much faster. */
#define RETURN_COST 128

enum { FIRST_ACTIONS = 1024 }; /* allocated at first; the array grows */

struct job {
    const struct decisions *decisions;
    const struct plan_inputs *inputs;
    struct ceilings *ceilings;
    uint32_t *last_leave; /* [chunk_count] the index after the chunk's last departure; 0 if there is
                             none */
    uint64_t copied;      /* bytes that the decisions copy over the link */
    uint64_t small_most;  /* the most bytes of small chunks on the device at once */
    uint32_t *first;      /* [moment_count + 2] as in a plan */
    uint64_t peak, peak_live;
};

static const struct plan_action *decided(const struct job *job, uint32_t index)
{
    return &g_array_index(job->decisions->actions, struct plan_action, index);
}

void placing_put(struct placing *p, chunk_id chunk, uint64_t address)
{
    uint64_t bytes = p->arena->slot_bytes[chunk];
    arena_put(p->arena, chunk, address);
    p->live += bytes;
    /* Counted here as well as when the operator starts, because the chunk may move before that. */
    p->arena_bytes = MAX(p->arena_bytes, address + bytes + p->non_model);
}

void placing_take(struct placing *p, chunk_id chunk)
{
    arena_take(p->arena, chunk);
    p->live -= p->arena->slot_bytes[chunk];
}

/* ---- chunks that are leaving ---- */

static void leave(struct placing *p, chunk_id chunk, uint32_t vacated)
{
    const struct placing_leaver leaver = {chunk, vacated, p->copied[chunk],
                                          p->arena->address[chunk]};
    p->live -= p->arena->slot_bytes[chunk];
    p->leaving[chunk] = 1;
    g_array_append_val(p->leavers, leaver);
}

static void vacate(struct placing *p, guint index)
{
    chunk_id chunk = g_array_index(p->leavers, struct placing_leaver, index).chunk;
    arena_take(p->arena, chunk);
    p->leaving[chunk] = 0;
    g_array_remove_index_fast(p->leavers, index);
}

static void vacate_all(struct placing *p)
{
    while (p->leavers->len)
        vacate(p, p->leavers->len - 1);
}

/* Gives the ranges free whose copies are over by the moment. */
static void vacate_until(struct placing *p, moment_id moment)
{
    for (guint i = p->leavers->len; i-- > 0;)
        if (g_array_index(p->leavers, struct placing_leaver, i).vacated <= moment)
            vacate(p, i);
}

static void vacate_chunk(struct placing *p, chunk_id chunk)
{
    for (guint i = p->leavers->len; p->leaving[chunk]; i--)
        if (g_array_index(p->leavers, struct placing_leaver, i - 1).chunk == chunk)
            vacate(p, i - 1);
}

/* Gives the range free that will be soonest. Returns false if no chunk is leaving. */
static bool vacate_next(struct placing *p)
{
    guint next = 0;
    if (!p->leavers->len)
        return false;
    for (guint i = 1; i < p->leavers->len; i++)
        if (g_array_index(p->leavers, struct placing_leaver, i).order <
            g_array_index(p->leavers, struct placing_leaver, next).order)
            next = i;
    vacate(p, next);
    return true;
}

/* Chunks that were leaving at the end of the iteration keep their ranges at its start. */
static void leave_again(struct placing *p, const GArray *leavers, uint32_t moments)
{
    for (guint i = 0; i < leavers->len; i++) {
        struct placing_leaver leaver = g_array_index(leavers, struct placing_leaver, i);
        if (leaver.vacated <= moments || p->arena->address[leaver.chunk] != NO_ADDRESS ||
            !arena_has_room(p->arena, leaver.chunk, leaver.address))
            continue;
        leaver.vacated -= moments;
        arena_put(p->arena, leaver.chunk, leaver.address);
        p->leaving[leaver.chunk] = 1;
        g_array_append_val(p->leavers, leaver);
    }
}

/* Fetches that were under way at the end of the iteration go on. */
static void arrive_again(struct placing *p, uint32_t moments)
{
    for (uint32_t c = 0; c < p->arena->chunk_count; c++)
        p->arrives[c] -= MIN(p->arrives[c], moments);
}

/* Returns the end of the highest chunk that is not leaving. */
static uint64_t end_of_chunks(const struct placing *p)
{
    const struct arena *arena = p->arena;
    uint32_t top = arena->below[arena->chunk_count];
    while (top != arena->chunk_count && p->leaving[top])
        top = arena->below[top];
    return top == arena->chunk_count ? 0 : arena->address[top] + arena->slot_bytes[top];
}

/* ---- actions ---- */

void placing_emit(struct placing *p, enum plan_action_kind kind, chunk_id chunk, uint64_t address)
{
    if (p->action_count == p->action_room) {
        p->action_room *= 2;
        p->actions = g_renew(struct plan_action, p->actions, p->action_room);
    }
    p->actions[p->action_count++] =
        (struct plan_action){.chunk = chunk, .kind = (uint8_t)kind, .address = address};
}

void placing_move(struct placing *p, chunk_id chunk, uint64_t address)
{
    uint64_t bytes = p->arena->slot_bytes[chunk];
    arena_move(p->arena, chunk, address);
    p->arena_bytes = MAX(p->arena_bytes, address + bytes + p->non_model);
    p->moved += bytes;
    placing_emit(p, PLAN_MOVE, chunk, address);
}

static bool is_small(const struct placing *p, chunk_id chunk)
{
    return p->arena->slot_bytes[chunk] < p->small;
}

static uint64_t find_below(const struct placing *p, chunk_id chunk, uint64_t ceiling)
{
    uint64_t bytes = p->arena->slot_bytes[chunk];
    uint64_t address = is_small(p, chunk)
                           ? arena_best_fit(p->arena, bytes, p->floor, MIN(p->small_end, ceiling))
                           : arena_best_fit(p->arena, bytes, p->small_end, ceiling);
    return address != NO_ADDRESS ? address : arena_best_fit(p->arena, bytes, p->floor, ceiling);
}

uint64_t placing_find(const struct placing *p, chunk_id chunk, uint64_t ceiling)
{
    uint64_t address = find_below(p, chunk, MIN(p->ceiling[chunk], ceiling));
    if (address == NO_ADDRESS && p->ceiling[chunk] < ceiling)
        address = find_below(p, chunk, ceiling);
    return address;
}

/* Returns an address below the ceiling that is free, or becomes free by moves, or NO_ADDRESS. */
static uint64_t find_now(struct placing *p, const struct job *job, chunk_id chunk, uint64_t ceiling)
{
    uint64_t address = placing_find(p, chunk, ceiling);
    if (address == NO_ADDRESS && job->decisions->over)
        address = placing_try_to_make_room(p, p->arena->slot_bytes[chunk], ceiling);
    return address;
}

/* Finds an address that is free now, or soon. Moves within the device take next to no time, unless
 * they wait for a copy; so they come before the ranges of chunks that are leaving. */
static uint64_t find_soonest(struct placing *p, const struct job *job, chunk_id chunk,
                             uint64_t ceiling)
{
    uint64_t address;
    do {
        address = find_now(p, job, chunk, MIN(p->ceiling[chunk], ceiling));
        if (address == NO_ADDRESS && p->ceiling[chunk] < ceiling)
            address = find_now(p, job, chunk, ceiling);
    } while (address == NO_ADDRESS && vacate_next(p));
    return address;
}

/* Prefers the chunk's start if it stays until the end of the iteration. */
static uint64_t choose_address(struct placing *p, const struct job *job, uint32_t index,
                               uint64_t ceiling)
{
    chunk_id chunk = decided(job, index)->chunk;
    uint64_t bytes = p->arena->slot_bytes[chunk], start = p->start[chunk];
    bool stays = job->decisions->initial[chunk] && index >= job->last_leave[chunk];
    if (stays && start + bytes <= ceiling && arena_has_room(p->arena, chunk, start))
        return start;
    uint64_t address = find_soonest(p, job, chunk, ceiling);
    return address != NO_ADDRESS ? address : placing_make_room(p, bytes, ceiling);
}

static void place_action(struct placing *p, const struct job *job, uint32_t index, moment_id moment,
                         uint64_t ceiling)
{
    const struct plan_action *action = decided(job, index);
    chunk_id chunk = action->chunk;
    uint64_t address = NO_ADDRESS;
    switch ((enum plan_action_kind)action->kind) {
    case PLAN_FETCH:
    case PLAN_ALLOCATE:
        p->ceiling[chunk] = job->ceilings->arrival[index];
        vacate_chunk(p, chunk);
        address = choose_address(p, job, index, ceiling);
        p->arrives[chunk] = job->decisions->over && action->kind == PLAN_FETCH
                                ? job->decisions->over[index]
                                : 0;
        placing_put(p, chunk, address);
        break;
    case PLAN_WRITE_BACK:
        p->copied[chunk] = p->before + index;
        /* fall through */
    case PLAN_DROP:
        if (job->decisions->over && job->decisions->over[index] > moment)
            leave(p, chunk, job->decisions->over[index]);
        else
            placing_take(p, chunk);
        break;
    case PLAN_FLUSH:
        p->copied[chunk] = p->before + index;
        address = p->arena->address[chunk];
        break;
    case PLAN_WAIT:
        break;
    case PLAN_MOVE: /* decisions have no moves, and homes in NVMe come later */
    case PLAN_LOAD:
    case PLAN_RESERVE:
    case PLAN_STORE:
    case PLAN_RELEASE:
    case PLAN_ACTIONS:
        g_assert_not_reached();
    }
    placing_emit(p, action->kind, chunk, address);
}

/* Addresses are multiples of the alignment, while budgets need not be. */
static uint64_t ceiling_beside(const struct job *job, uint64_t non_model)
{
    return (job->inputs->device_budget - non_model) / LAYOUT_ALIGNMENT * LAYOUT_ALIGNMENT;
}

static double cost_of(const struct placing *p)
{
    return (double)p->moved + RETURN_COST * (double)p->returned;
}

/* Moves what lies where non-model data will. Ranges of chunks that are leaving are the last ones
 * that others move to. */
static void clear_above(struct placing *p, const struct job *job, uint64_t ceiling)
{
    while (p->leavers->len && arena_end(p->arena) > ceiling) {
        uint32_t top = p->arena->below[p->arena->chunk_count];
        if (p->leaving[top]) {
            vacate_chunk(p, top);
            continue;
        }
        uint64_t address = find_now(p, job, top, ceiling);
        if (address != NO_ADDRESS)
            placing_move(p, top, address);
        else
            vacate_next(p);
    }
    placing_clear_above(p, ceiling);
}

/* Returns false if the iteration is given up because it already costs as much as `least`, the best
 * one. */
static bool place_iteration(struct placing *p, struct job *job, double least)
{
    uint32_t moments = job->inputs->accesses->moment_count;
    p->action_count = 0;
    job->peak = job->peak_live = p->returned = p->moved = 0;
    p->arena_bytes = end_of_chunks(p);
    for (uint32_t m = 0; m <= moments && cost_of(p) < least; m++) {
        p->non_model = m < moments ? job->inputs->accesses->non_model[m]
                                   : job->inputs->accesses->resting;
        uint64_t ceiling = ceiling_beside(job, p->non_model);
        p->moment = m;
        vacate_until(p, m);
        job->first[m] = p->action_count;
        for (uint32_t i = job->decisions->first[m]; i < job->decisions->first[m + 1]; i++)
            place_action(p, job, i, m, ceiling);
        clear_above(p, job, ceiling);
        uint64_t extent = end_of_chunks(p) + p->non_model;
        p->arena_bytes = MAX(p->arena_bytes, extent);
        if (m < moments) {
            job->peak = MAX(job->peak, extent);
            job->peak_live = MAX(job->peak_live, p->live + job->inputs->trace->non_model_bytes[m]);
        }
    }
    return cost_of(p) < least;
}

static int lowest_ceiling_first(const void *left, const void *right, void *data)
{
    const uint64_t *ceiling = data;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (ceiling[a] != ceiling[b])
        return ceiling[a] < ceiling[b] ? -1 : 1;
    return (a > b) - (a < b);
}

enum part { HOMED, SMALL, OTHERS, PARTS };

/* Places one part's chunks from `address` upwards and returns where they end. */
static uint64_t place_part(struct placing *p, const struct job *job, enum part part,
                           uint64_t address)
{
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t c = 0; c < job->inputs->layout->chunk_count; c++) {
        enum part own = job->inputs->homes->on_device[c] ? HOMED : is_small(p, c) ? SMALL : OTHERS;
        if (job->decisions->initial[c] && own == part)
            g_array_append_val(order, c);
    }
    g_array_sort_with_data(order, lowest_ceiling_first, job->ceilings->initial);
    for (uint32_t i = 0; i < order->len; i++) {
        chunk_id chunk = g_array_index(order, uint32_t, i);
        placing_put(p, chunk, address);
        address += p->arena->slot_bytes[chunk];
    }
    return address;
}

/* From the bottom up: chunks at home on the device, small chunks with room for the most there will
 * be, and the others. */
static void place_start(struct placing *p, const struct job *job)
{
    p->floor = place_part(p, job, HOMED, 0);
    uint64_t end = place_part(p, job, SMALL, p->floor), others = 0;
    for (uint32_t c = 0; c < job->inputs->layout->chunk_count; c++)
        if (job->decisions->initial[c] && !job->inputs->homes->on_device[c] && !is_small(p, c))
            others += p->arena->slot_bytes[c];
    p->small_end = p->floor + job->small_most;
    if (p->small_end + others > ceiling_beside(job, job->inputs->accesses->non_model[0]))
        p->small_end = end;
    place_part(p, job, OTHERS, p->small_end);
}

/* Empties the arena and puts the chunks at `address`. */
static void place_at(struct placing *p, const uint64_t *address)
{
    arena_clear(p->arena);
    p->live = 0;
    for (uint32_t c = 0; c < p->arena->chunk_count; c++)
        if (address[c] != NO_ADDRESS)
            placing_put(p, c, address[c]);
}

static void keep(const struct placing *p, const struct job *job, struct addresses *best)
{
    uint32_t chunks = p->arena->chunk_count;
    memcpy(best->initial, p->start, chunks * sizeof *p->start);
    memcpy(best->first_action, job->first, (best->moment_count + 2) * sizeof *job->first);
    g_free(best->actions);
    best->action_count = p->action_count;
    best->actions = g_memdup2(p->actions, p->action_count * sizeof *p->actions);
    best->arena_bytes = p->arena_bytes;
    best->peak_device_bytes = job->peak;
    best->peak_live_device_bytes = job->peak_live;
}

/* Places an iteration that begins and ends with the chunks where they are now, after one with these
 * leavers at its end. Returns false if it is given up. */
static bool place_round(struct placing *p, struct job *job, double least, GArray *leavers)
{
    size_t addresses = job->inputs->layout->chunk_count * sizeof(uint64_t);
    memcpy(p->start, p->arena->address, addresses);
    memcpy(p->ceiling, job->ceilings->initial, addresses);
    leave_again(p, leavers, job->inputs->accesses->moment_count);
    arrive_again(p, job->inputs->accesses->moment_count);
    bool placed = place_iteration(p, job, least);
    g_array_set_size(leavers, 0);
    g_array_append_vals(leavers, p->leavers->data, p->leavers->len);
    vacate_all(p);
    p->before += job->decisions->actions->len;
    if (!placed)
        return false;
    memcpy(p->end, p->arena->address, addresses);
    placing_go_home(p, ceiling_beside(job, job->inputs->accesses->resting));
    job->first[job->inputs->accesses->moment_count + 1] = p->action_count;
    return true;
}

static void place_rounds(struct placing *p, struct job *job, const struct effort *effort,
                         struct addresses *best)
{
    double little = effort->little_share * RETURN_COST / 2 * (double)job->copied;
    double least = INFINITY;
    g_autoptr(GArray) leavers = g_array_new(FALSE, FALSE, sizeof(struct placing_leaver));
    place_start(p, job);
    for (int round = 0; round < effort->rounds && least > little; round++) {
        if (!place_round(p, job, least, leavers))
            break;
        if (cost_of(p) < least) {
            least = cost_of(p);
            keep(p, job, best);
        }
        place_at(p, p->end);
    }
}

/* Finds which chunks are small, how many bytes of them are there at once, and when each chunk
 * leaves for the last time. */
static void survey(struct placing *p, struct job *job)
{
    const struct decisions *decisions = job->decisions;
    uint64_t now = 0;
    p->small = slots_small(job->inputs->layout);
    for (uint32_t c = 0; c < job->inputs->layout->chunk_count; c++)
        if (decisions->initial[c] && !job->inputs->homes->on_device[c] && is_small(p, c))
            now += p->arena->slot_bytes[c];
    job->small_most = now;
    for (uint32_t i = 0; i < decisions->actions->len; i++) {
        const struct plan_action *action = decided(job, i);
        uint64_t small = is_small(p, action->chunk) ? p->arena->slot_bytes[action->chunk] : 0;
        bool copies = action->kind == PLAN_FETCH || action->kind == PLAN_WRITE_BACK ||
                      action->kind == PLAN_FLUSH;
        job->copied += copies ? job->inputs->layout->chunks[action->chunk].copy_bytes : 0;
        if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP) {
            job->last_leave[action->chunk] = i + 1;
            now -= small;
        } else if (action->kind == PLAN_FETCH || action->kind == PLAN_ALLOCATE) {
            now += small;
            job->small_most = MAX(job->small_most, now);
        }
    }
}

static void placing_clear(struct placing *p)
{
    arena_free(p->arena);
    g_free(p->actions);
    g_free(p->start);
    g_free(p->end);
    g_free(p->ceiling);
    g_free(p->leaving);
    g_free(p->copied);
    g_free(p->arrives);
    g_array_unref(p->leavers);
    g_free(p->holes);
    g_free(p->chunks);
    g_free(p->targets);
}

struct addresses *place_decisions(const struct decisions *decisions,
                                  const struct plan_inputs *inputs, enum place_effort effort)
{
    uint32_t chunks = inputs->layout->chunk_count, moments = inputs->accesses->moment_count;
    g_autofree uint64_t *bytes = g_new(uint64_t, chunks);
    g_autofree uint32_t *last_leave = g_new0(uint32_t, chunks);
    g_autofree uint32_t *first = g_new0(uint32_t, moments + 2);
    for (uint32_t c = 0; c < chunks; c++)
        bytes[c] = inputs->layout->chunks[c].slot_bytes;
    struct job job = {.decisions = decisions,
                      .inputs = inputs,
                      .ceilings = ceilings_new(decisions, inputs->accesses, inputs->device_budget),
                      .last_leave = last_leave,
                      .first = first};
    struct placing p = {.arena = arena_new(chunks, bytes),
                        .layout = inputs->layout,
                        .actions = g_new(struct plan_action, FIRST_ACTIONS),
                        .action_room = FIRST_ACTIONS,
                        .start = g_new(uint64_t, chunks),
                        .end = g_new(uint64_t, chunks),
                        .ceiling = g_new(uint64_t, chunks),
                        .leaving = g_new0(uint8_t, chunks),
                        .copied = g_new0(int64_t, chunks),
                        .arrives = g_new0(uint32_t, chunks),
                        .leavers = g_array_new(FALSE, FALSE, sizeof(struct placing_leaver)),
                        .holes = g_new(struct arena_hole, 2 * PLACING_TRIED * (chunks + 1)),
                        .chunks = g_new(uint32_t, chunks),
                        .targets = g_new(uint64_t, chunks)};
    struct addresses *best = g_new0(struct addresses, 1);
    best->moment_count = moments;
    best->initial = g_new(uint64_t, chunks);
    best->first_action = g_new(uint32_t, moments + 2);
    survey(&p, &job);
    place_rounds(&p, &job, &efforts[effort], best);
    placing_clear(&p);
    ceilings_free(job.ceilings);
    return best;
}

void addresses_free(struct addresses *addresses)
{
    if (!addresses)
        return;
    g_free(addresses->initial);
    g_free(addresses->first_action);
    g_free(addresses->actions);
    g_free(addresses);
}
