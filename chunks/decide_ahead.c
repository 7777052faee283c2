/* Looks ahead. The window of moments that were looked at moves on with the operators, so each
 * access is looked at a few times only, however long the window is. The decisions are those of a
 * search through the whole window at every moment. */
#include "chunks/decide_internal.h"

void run_window_open(struct run *run, uint32_t look_ahead)
{
    struct run_window *window = &run->window;
    window->most = MIN(look_ahead, run->accesses->moment_count - 1);
    window->met = g_new0(uint32_t, run->chunk_count);
    window->lowest = g_new(uint32_t, window->most + 1);
}

void run_window_close(struct run *run)
{
    g_free(run->window.met);
    g_free(run->window.lowest);
}

static moment_id moment_of(const struct run *run, uint32_t time)
{
    return time % run->accesses->moment_count;
}

void run_window_forget(struct run *run)
{
    struct run_window *window = &run->window;
    if (!window->known)
        return;
    for (uint32_t time = window->now; time < window->end; time++) {
        moment_id moment = moment_of(run, time);
        for (uint32_t a = run->accesses->first[moment]; a < run->accesses->first[moment + 1]; a++) {
            run_set_pin(run, run->accesses->items[a].chunk, false);
            window->met[run->accesses->items[a].chunk] = 0;
        }
    }
    window->known = false;
}

/* ---- the room that all moments of the window leave ---- */

static uint32_t *lowest_at(struct run_window *window, uint32_t index)
{
    return &window->lowest[(window->lowest_first + index) % (window->most + 1)];
}

static uint64_t capacity_at(const struct run *run, uint32_t time)
{
    return run->capacity[moment_of(run, time)];
}

static void add_capacity(struct run *run, uint32_t time)
{
    struct run_window *window = &run->window;
    while (window->lowest_count &&
           capacity_at(run, *lowest_at(window, window->lowest_count - 1)) >= capacity_at(run, time))
        window->lowest_count--;
    *lowest_at(window, window->lowest_count++) = time;
}

static uint64_t least_capacity(struct run *run)
{
    struct run_window *window = &run->window;
    while (*lowest_at(window, 0) < window->now) {
        window->lowest_first = (window->lowest_first + 1) % (window->most + 1);
        window->lowest_count--;
    }
    return capacity_at(run, *lowest_at(window, 0));
}

/* ---- the window ---- */

/* Only a chunk's first access in the window counts, and it pins the chunk if it is on the device.
 * For the chunks of the operator before, that is another access now. Returns false if one of them
 * must be fetched, which is for a new look at all moments. */
static bool leave_behind(struct run *run)
{
    const struct accesses *accesses = run->accesses;
    uint32_t before = run->window.now, moment = moment_of(run, before), base = before - moment;
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        chunk_id chunk = accesses->items[a].chunk;
        uint32_t next = accesses->next_device_use[a];
        bool comes = next != NO_INDEX && base + next < run->window.end &&
                     !(accesses->ahead[a] & PSTAR_AHEAD_HOST);
        if (comes && run->place[chunk] == RUN_ON_HOST && accesses->ahead[a] & PSTAR_AHEAD_READ)
            return false;
        run_set_pin(run, chunk, comes);
    }
    return true;
}

static bool is_met(const struct run *run, chunk_id chunk)
{
    return run->window.met[chunk] >= run->window.now;
}

/* Fetches what the first moment behind the window needs. Returns false if there is no more room. */
static bool fetch_all(struct run *run, uint64_t capacity)
{
    moment_id moment = moment_of(run, run->window.end);
    const struct chunk_access *begin = run->accesses->items + run->accesses->first[moment];
    const struct chunk_access *end = run->accesses->items + run->accesses->first[moment + 1];
    for (const struct chunk_access *access = begin; access < end; access++) {
        chunk_id chunk = access->chunk;
        if (is_met(run, chunk) || access->flags & ACCESS_ON_HOST)
            continue;
        run_set_pin(run, chunk, true);
        if (run->place[chunk] != RUN_ON_HOST || access->flags & ACCESS_FRESH)
            continue;
        if (!run_make_room(run, chunk, capacity)) {
            for (const struct chunk_access *undo = begin; undo <= access; undo++)
                run_set_pin(run, undo->chunk, run->pinned[undo->chunk] && is_met(run, undo->chunk));
            return false;
        }
        run_enter(run, PLAN_FETCH, chunk);
    }
    for (const struct chunk_access *access = begin; access < end; access++)
        run->window.met[access->chunk] = run->window.end;
    return true;
}

/* Lets the window begin at the operator of the current moment, whose chunks count as met. */
static void move_on(struct run *run, const struct chunk_access *begin,
                    const struct chunk_access *host, const struct chunk_access *end)
{
    struct run_window *window = &run->window;
    uint32_t now = (run->iteration + 1) * run->accesses->moment_count + run->moment;
    if (window->known && !leave_behind(run))
        run_window_forget(run);
    window->now = now;
    if (!window->known || window->end <= now) {
        window->known = true;
        window->end = now + 1;
        window->lowest_count = 0;
        add_capacity(run, now);
    }
    run_pin(run, begin, host, true);
    run_pin(run, host, end, false);
    for (const struct chunk_access *access = begin; access < end; access++)
        window->met[access->chunk] = MAX(window->met[access->chunk], now);
}

void run_window_fetch(struct run *run, const struct chunk_access *begin,
                      const struct chunk_access *host, const struct chunk_access *end)
{
    struct run_window *window = &run->window;
    move_on(run, begin, host, end);
    uint64_t capacity = least_capacity(run);
    while (run->used <= capacity && window->end - window->now <= window->most) {
        capacity = MIN(capacity, capacity_at(run, window->end));
        if (run->used > capacity || !fetch_all(run, capacity))
            return;
        add_capacity(run, window->end++);
    }
}
