#include "chunks/decide_run.h"

static void grow(struct run *run)
{
    run->action_room = MAX(1024, 2 * run->action_room);
    g_array_set_size(run->record->actions, run->action_room);
    run->actions = (struct plan_action *)run->record->actions->data;
}

static inline void emit(struct run *run, enum plan_action_kind kind, uint32_t chunk)
{
    if (!run->record)
        return;
    if (run->action_count == run->action_room)
        grow(run);
    run->actions[run->action_count++] =
        (struct plan_action){.chunk = chunk, .kind = (uint8_t)kind, .address = PLAN_NOWHERE};
}

void run_leave(struct run *run, uint32_t chunk)
{
    emit(run, run->dirty[chunk] ? PLAN_WRITE_BACK : PLAN_DROP, chunk);
    run->place[chunk] = RUN_ON_HOST;
    run->dirty[chunk] = 0;
    run->used -= run->bytes[chunk];
    run->ops->remove(run->policy, chunk);
}

void run_enter(struct run *run, enum plan_action_kind kind, uint32_t chunk)
{
    emit(run, kind, chunk);
    run->place[chunk] = RUN_ON_DEVICE;
    run->used += run->bytes[chunk];
    run->ops->admit(run->policy, chunk);
}

/* ---- room ---- */

static inline bool may_leave(const struct run *run, uint32_t chunk)
{
    return chunk < run->chunk_count && run->place[chunk] == RUN_ON_DEVICE && !run->pinned[chunk];
}

/* Policies are plug-ins too: a wrong answer is noted, and the lowest chunk that may leave does.
 * Returns that, or POLICY_NONE. */
static uint32_t correct(struct run *run, uint32_t victim)
{
    uint32_t chosen = 0;
    while (chosen < run->chunk_count && !may_leave(run, chosen))
        chosen++;
    if (chosen == run->chunk_count)
        chosen = POLICY_NONE;
    if (chosen != victim && !run->fault)
        run->fault = g_strdup_printf(
            "policy %s: asked for a victim at moment %u of iteration %u it "
            "answered %u, which is %s",
            run->ops->name, run->moment, run->iteration, victim,
            victim == POLICY_NONE ? "none, though there are some" : "not on the device, or pinned");
    return chosen;
}

/* Evicts until the chunk `incoming` (POLICY_NONE: nothing) fits into `capacity` beside the others;
 * false when what is left is pinned. */
static inline bool make_room(struct run *run, uint32_t incoming, uint64_t capacity)
{
    uint64_t bytes = incoming == POLICY_NONE ? 0 : run->bytes[incoming];
    run->incoming = incoming;
    while (run->used + bytes > capacity) {
        uint32_t victim = run->ops->victim(run->policy);
        if (!may_leave(run, victim))
            victim = correct(run, victim);
        if (victim == POLICY_NONE)
            return false;
        run_leave(run, victim);
    }
    return true;
}

/* ---- an operator: its accesses, from `begin` to before `end` ---- */

static inline void pin(struct run *run, const struct chunk_access *begin,
                       const struct chunk_access *end, uint8_t pinned)
{
    for (const struct chunk_access *access = begin; access < end; access++)
        run->pinned[access->chunk] = pinned;
}

static inline bool are_on_device(const struct run *run, const struct chunk_access *begin,
                                 const struct chunk_access *end)
{
    bool all = true;
    for (const struct chunk_access *access = begin; access < end; access++)
        all &= run->place[access->chunk] != RUN_ON_HOST;
    return all;
}

/* The operator's chunks on the device, and room for its non-model data. */
static inline void serve_on_device(struct run *run, const struct chunk_access *begin,
                                   const struct chunk_access *end)
{
    uint64_t capacity = run->capacity[run->moment];
    if (run->used <= capacity && are_on_device(run, begin, end))
        return;
    pin(run, begin, end, 1);
    bool fits = make_room(run, POLICY_NONE, capacity);
    for (const struct chunk_access *access = begin; access < end; access++) {
        if (run->place[access->chunk] != RUN_ON_HOST)
            continue;
        fits &= make_room(run, access->chunk, capacity);
        run_enter(run, access->flags & ACCESS_FRESH ? PLAN_ALLOCATE : PLAN_FETCH, access->chunk);
    }
    g_assert(fits);
    pin(run, begin, end, 0);
}

/* The host's copies valid, and the device's gone where the operator writes. A flush of a clean
 * chunk is taken out when the iteration is settled. */
static void serve_on_host(struct run *run, const struct chunk_access *begin,
                          const struct chunk_access *end)
{
    for (const struct chunk_access *access = begin; access < end; access++) {
        if (run->place[access->chunk] == RUN_ON_HOST)
            continue;
        if (access->flags & ACCESS_WRITES) {
            run_leave(run, access->chunk);
        } else {
            emit(run, PLAN_FLUSH, access->chunk);
            run->dirty[access->chunk] = 0;
        }
    }
    bool made = make_room(run, POLICY_NONE, run->capacity[run->moment]);
    g_assert(made);
}

/* What an operator on the device leaves behind. */
static inline void account(struct run *run, const struct chunk_access *begin,
                           const struct chunk_access *end)
{
    for (const struct chunk_access *access = begin; access < end; access++) {
        uint32_t chunk = access->chunk, flags = access->flags;
        size_t a = (size_t)(access - run->accesses->items);
        run->next_use[chunk] = run->accesses->next_device_use[a];
        run->ahead[chunk] = run->accesses->ahead[a];
        if (run->place[chunk] == RUN_AT_HOME)
            continue;
        if (flags & (ACCESS_WRITES | ACCESS_LAST))
            run->dirty[chunk] = !(flags & ACCESS_LAST);
        if (run->ops->touch)
            run->ops->touch(run->policy, chunk);
    }
}

/* Chunks in which nothing is alive any more make room at once: it costs nothing. */
static inline void drop_dead(struct run *run, const struct chunk_access *begin,
                             const struct chunk_access *end)
{
    for (const struct chunk_access *access = begin; access < end; access++)
        if (access->flags & ACCESS_LAST && run->place[access->chunk] == RUN_ON_DEVICE)
            run_leave(run, access->chunk);
}

/* ---- look-ahead ---- */

/* Fetches what a later moment needs into the room that the moments until then leave; false: no more
 * room. */
static bool look_at(struct run *run, uint32_t moment, uint64_t capacity)
{
    const struct accesses *accesses = run->accesses;
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        uint32_t chunk = access->chunk;
        if (run->seen[chunk] == run->look_aheads)
            continue;
        run->seen[chunk] = run->look_aheads;
        if (access->flags & ACCESS_ON_HOST)
            continue;
        run->pinned[chunk] = 1;
        run->window[run->window_count++] = chunk;
        if (run->place[chunk] != RUN_ON_HOST || access->flags & ACCESS_FRESH)
            continue;
        if (!make_room(run, chunk, capacity))
            return false;
        run_enter(run, PLAN_FETCH, chunk);
    }
    return true;
}

static void look_ahead(struct run *run)
{
    uint64_t capacity = run->capacity[run->moment];
    for (uint32_t ahead = 1; ahead <= run->look_ahead; ahead++) {
        uint32_t moment = (run->moment + ahead) % run->accesses->moment_count;
        capacity = MIN(capacity, run->capacity[moment]);
        if (run->used > capacity || !look_at(run, moment, capacity))
            return;
    }
}

/* What it meets is pinned until its end, and what the operator uses, if that is on the device. */
static void prefetch(struct run *run, const struct chunk_access *begin,
                     const struct chunk_access *end, bool on_host)
{
    run->look_aheads++;
    for (const struct chunk_access *access = begin; access < end; access++)
        run->seen[access->chunk] = run->look_aheads;
    pin(run, begin, end, !on_host);
    look_ahead(run);
    pin(run, begin, end, 0);
    while (run->window_count > 0)
        run->pinned[run->window[--run->window_count]] = 0;
}

/* ---- the iteration ---- */

/* Of the current moment; at its end the next one has begun. */
static inline void run_operator(struct run *run, const struct chunk_access *begin,
                                const struct chunk_access *end)
{
    bool on_host = begin < end && begin->flags & ACCESS_ON_HOST;
    if (on_host)
        serve_on_host(run, begin, end);
    else
        serve_on_device(run, begin, end);
    if (run->look_ahead > 0)
        prefetch(run, begin, end, on_host);
    if (!on_host)
        account(run, begin, end);
    run->moment++;
    if (run->record)
        run->record->first[run->moment] = run->action_count;
    drop_dead(run, begin, end);
}

void run_operators(struct run *run)
{
    const uint32_t *first = run->accesses->first;
    const struct chunk_access *items = run->accesses->items;
    for (run->moment = 0; run->moment < run->accesses->moment_count;)
        run_operator(run, items + first[run->moment], items + first[run->moment + 1]);
}
