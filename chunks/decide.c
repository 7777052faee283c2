#include "chunks/decide_internal.h"
#include "policies/plugin.h"

/* Iterations before the one that is recorded. */
#define SETTLING_ITERATIONS 2

static void grow(struct run *run)
{
    run->action_room = MAX(1024, 2 * run->action_room);
    g_array_set_size(run->record->actions, run->action_room);
    run->actions = (struct plan_action *)run->record->actions->data;
}

static inline void emit(struct run *run, enum plan_action_kind kind, chunk_id chunk)
{
    if (!run->record)
        return;
    if (run->action_count == run->action_room)
        grow(run);
    run->actions[run->action_count++] =
        (struct plan_action){.chunk = chunk, .kind = (uint8_t)kind, .address = NO_ADDRESS};
}

/* A chunk leaves the device. Tells the policy and writes it to the record. */
static void run_leave(struct run *run, chunk_id chunk)
{
    emit(run, run->dirty[chunk] ? PLAN_WRITE_BACK : PLAN_DROP, chunk);
    run->place[chunk] = RUN_ON_HOST;
    run->dirty[chunk] = 0;
    run->used -= run->slot_bytes[chunk];
    run->pinned_used -= run->pinned[chunk] ? run->slot_bytes[chunk] : 0;
    run->ops->remove(run->policy, chunk);
}

void run_enter(struct run *run, enum plan_action_kind kind, chunk_id chunk)
{
    emit(run, kind, chunk);
    run->place[chunk] = RUN_ON_DEVICE;
    run->used += run->slot_bytes[chunk];
    run->pinned_used += run->pinned[chunk] ? run->slot_bytes[chunk] : 0;
    run->ops->admit(run->policy, chunk);
}

/* ---- room ---- */

static inline bool may_leave(const struct run *run, chunk_id chunk)
{
    return chunk < run->chunk_count && run->place[chunk] == RUN_ON_DEVICE && !run->pinned[chunk];
}

/* Notes a wrong answer of the policy, which may be a plug-in. Returns the lowest chunk that may
 * leave instead, or NO_INDEX. */
static uint32_t correct(struct run *run, uint32_t victim)
{
    uint32_t chosen = 0;
    if (victim == NO_INDEX && run->used == run->pinned_used)
        return NO_INDEX;
    while (chosen < run->chunk_count && !may_leave(run, chosen))
        chosen++;
    if (chosen == run->chunk_count)
        chosen = NO_INDEX;
    if (chosen != victim && !run->fault)
        run->fault = g_strdup_printf(
            "policy %s: at moment %u of iteration %u it chose victim %u, which is %s",
            run->ops->name, run->moment, run->iteration, victim,
            victim == NO_INDEX ? "no chunk, although some can be evicted"
                               : "not on the device, or pinned");
    return chosen;
}

bool run_make_room(struct run *run, uint32_t incoming, uint64_t capacity)
{
    uint64_t bytes = incoming == NO_INDEX ? 0 : run->slot_bytes[incoming];
    run->incoming = incoming;
    while (run->used + bytes > capacity) {
        uint32_t victim = run->ops->victim(run->policy);
        if (!may_leave(run, victim))
            victim = correct(run, victim);
        if (victim == NO_INDEX)
            return false;
        run_leave(run, victim);
    }
    return true;
}

/* ---- an operator: its accesses, from `begin` to before `end` ---- */

void run_pin(struct run *run, const struct chunk_access *begin, const struct chunk_access *end,
             bool pinned)
{
    for (const struct chunk_access *access = begin; access < end; access++)
        run_set_pin(run, access->chunk, pinned);
}

/* Returns the bytes of the chunks that are on the host only. */
static inline uint64_t missing_bytes(const struct run *run, const struct chunk_access *begin,
                                     const struct chunk_access *end)
{
    uint64_t bytes = 0;
    for (const struct chunk_access *access = begin; access < end; access++)
        bytes += run->place[access->chunk] == RUN_ON_HOST ? run->slot_bytes[access->chunk] : 0;
    return bytes;
}

/* Brings the operator's chunks to the device, and makes room for its non-model data. */
static inline void serve_on_device(struct run *run, const struct chunk_access *begin,
                                   const struct chunk_access *end)
{
    uint64_t capacity = run->capacity[run->moment], missing = missing_bytes(run, begin, end);
    if (run->used <= capacity && !missing)
        return;
    if (run->used + missing > capacity)
        run_window_forget(run);
    run_pin(run, begin, end, true);
    bool fits = run_make_room(run, NO_INDEX, capacity);
    for (const struct chunk_access *access = begin; access < end; access++) {
        if (run->place[access->chunk] != RUN_ON_HOST)
            continue;
        fits &= run_make_room(run, access->chunk, capacity);
        run_enter(run, access->flags & ACCESS_FRESH ? PLAN_ALLOCATE : PLAN_FETCH, access->chunk);
    }
    g_assert(fits);
    run_pin(run, begin, end, false);
}

/* Makes the host's copies valid, and removes the device's if the operator writes. Flushes of clean
 * chunks are removed later, by decisions_settle. */
static void bring_to_host(struct run *run, const struct chunk_access *begin,
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
}

/* Makes room for the operator's activations. */
static void serve_on_host(struct run *run)
{
    if (run->used > run->capacity[run->moment])
        run_window_forget(run);
    bool made = run_make_room(run, NO_INDEX, run->capacity[run->moment]);
    g_assert(made);
}

/* Updates what is known of the chunks that an operator on the device has used. */
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

/* Drops the chunks in which nothing is alive any more. That costs nothing. */
static inline void drop_dead(struct run *run, const struct chunk_access *begin,
                             const struct chunk_access *end)
{
    for (const struct chunk_access *access = begin; access < end; access++)
        if (access->flags & ACCESS_LAST && run->place[access->chunk] == RUN_ON_DEVICE)
            run_leave(run, access->chunk);
}

/* ---- the iteration ---- */

/* Runs the operator of the current moment and goes on to the next moment. Accesses to the host's
 * copies come last. */
static inline void run_operator(struct run *run, const struct chunk_access *begin,
                                const struct chunk_access *end)
{
    const struct chunk_access *host = begin;
    while (host < end && !(host->flags & ACCESS_ON_HOST))
        host++;
    bring_to_host(run, host, end);
    if (host == begin && begin < end)
        serve_on_host(run);
    else
        serve_on_device(run, begin, host);
    if (run->window.most > 0)
        run_window_fetch(run, begin, host, end);
    account(run, begin, host);
    run->moment++;
    if (run->record)
        run->record->first[run->moment] = run->action_count;
    drop_dead(run, begin, end);
}

/* Runs all operators of one iteration. Writes the record's actions, and its `first` except for the
 * last entry. */
static void run_operators(struct run *run)
{
    const uint32_t *first = run->accesses->first;
    const struct chunk_access *items = run->accesses->items;
    for (run->moment = 0; run->moment < run->accesses->moment_count;)
        run_operator(run, items + first[run->moment], items + first[run->moment + 1]);
}

/* Brings back the chunks that the iteration began with. */
static void close_iteration(struct run *run)
{
    struct decisions *record = run->record;
    if (!record)
        return;
    for (uint32_t c = 0; c < run->chunk_count; c++)
        if (run->place[c] != RUN_ON_HOST && !record->initial[c])
            run_leave(run, c);
    for (uint32_t c = 0; c < run->chunk_count; c++)
        if (run->place[c] == RUN_ON_HOST && record->initial[c])
            run_enter(run, PLAN_FETCH, c);
    record->first[record->moment_count + 1] = run->action_count;
    g_array_set_size(record->actions, run->action_count);
}

static void run_iteration(struct run *run)
{
    uint32_t moments = run->accesses->moment_count;
    for (uint32_t c = 0; run->record && c < run->chunk_count; c++)
        run->record->initial[c] = run->place[c] != RUN_ON_HOST;
    run_operators(run);
    close_iteration(run);
    for (uint32_t c = 0; c < run->chunk_count; c++)
        if (run->next_use[c] != NO_INDEX)
            run->next_use[c] -= moments;
    run->iteration++;
}

/* ---- what copies ---- */

struct settling {
    struct decisions *decisions;
    const struct accesses *accesses;
    uint8_t *dirty; /* [chunk_count] the device's copy is newer, and alive */
};

/* Updates what is dirty, and returns whether the action does anything. */
static bool settle_action(struct settling *s, struct plan_action *action)
{
    uint8_t *dirty = &s->dirty[action->chunk], was_dirty = *dirty;
    if (action->kind == PLAN_WAIT)
        return true;
    *dirty = 0;
    if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP)
        action->kind = was_dirty ? PLAN_WRITE_BACK : PLAN_DROP;
    return action->kind != PLAN_FLUSH || was_dirty;
}

static void settle_operator(struct settling *s, moment_id moment)
{
    for (uint32_t a = s->accesses->first[moment]; a < s->accesses->first[moment + 1]; a++) {
        const struct chunk_access *access = &s->accesses->items[a];
        if (access->flags & ACCESS_WRITES && !(access->flags & ACCESS_ON_HOST))
            s->dirty[access->chunk] = 1;
        if (access->flags & ACCESS_LAST)
            s->dirty[access->chunk] = 0;
    }
}

/* Goes over the iteration once, from what is dirty now. The first pass only finds what is dirty at
 * the end. */
static void settle_pass(struct settling *s, bool rewrite)
{
    struct decisions *d = s->decisions;
    struct plan_action *actions = (struct plan_action *)d->actions->data;
    uint32_t kept = 0;
    for (uint32_t m = 0; m <= d->moment_count; m++) {
        uint32_t begin = kept;
        for (uint32_t i = d->first[m]; i < d->first[m + 1]; i++) {
            struct plan_action action = actions[i];
            if (settle_action(s, &action) && rewrite)
                actions[kept++] = action;
        }
        if (rewrite)
            d->first[m] = begin;
        if (m < d->moment_count)
            settle_operator(s, m);
    }
    if (rewrite) {
        d->first[d->moment_count + 1] = kept;
        g_array_set_size(d->actions, kept);
    }
}

/* At the start of an iteration in the steady state, those chunks are dirty that the iteration
 * leaves dirty. The first pass starts with clean chunks and finds them, because a chunk's state at
 * the end depends on its state at the start only if it never leaves. */
void decisions_settle(struct decisions *decisions, const struct accesses *accesses)
{
    g_autofree uint8_t *dirty = g_new0(uint8_t, accesses->chunk_count);
    struct settling s = {.decisions = decisions, .accesses = accesses, .dirty = dirty};
    settle_pass(&s, false);
    settle_pass(&s, true);
}

/* ---- a run ---- */

static void open_view(struct run *run)
{
    run->view = (struct pstar_policy_view){.chunk_count = run->chunk_count,
                                           .moment_count = run->accesses->moment_count,
                                           .chunk_bytes = run->slot_bytes,
                                           .pinned = run->pinned,
                                           .dirty = run->dirty,
                                           .next_use = run->next_use,
                                           .moment = &run->moment,
                                           .iteration = &run->iteration,
                                           .ahead = run->ahead,
                                           .capacity = run->capacity,
                                           .incoming = &run->incoming,
                                           .values = run->ops->values};
    policy_enter_thread();
    run->policy = run->ops->open(&run->view);
}

/* Adds to `need` the bytes of the policy's chunks that the moment's operator needs at once. */
static void add_needed(const struct run *run, moment_id moment, uint64_t *need)
{
    const struct accesses *accesses = run->accesses;
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        if (!(access->flags & ACCESS_ON_HOST) && run->place[access->chunk] != RUN_AT_HOME)
            *need += run->slot_bytes[access->chunk];
    }
}

static void set_capacity(struct run *run, const struct plan_inputs *inputs, uint64_t spare_bytes)
{
    uint32_t moments = run->accesses->moment_count;
    uint64_t of_others = inputs->device_budget - inputs->homes->device_slot_bytes;
    g_autofree uint64_t *needed = g_new0(uint64_t, moments);
    homes_add_transient(inputs->homes, inputs->layout, run->accesses, needed);
    for (uint32_t m = 0; m < moments; m++) {
        uint64_t most = of_others - run->accesses->non_model[m];
        add_needed(run, m, &needed[m]);
        run->capacity[m] = MAX(most - MIN(most, spare_bytes), needed[m]);
    }
    run->capacity[moments] = run->capacity[moments - 1]; /* the same after the last operator */
}

static void open_run(struct run *run, const struct plan_inputs *inputs,
                     const struct decide_options *options)
{
    uint32_t chunks = inputs->layout->chunk_count, moments = run->accesses->moment_count;
    run->ops = options->policy;
    run->chunk_count = chunks;
    run->slot_bytes = g_new(uint64_t, chunks);
    run->place = g_new0(uint8_t, chunks);
    run->transient = inputs->homes->transient;
    run->pinned = g_memdup2(run->transient, chunks);
    run->dirty = g_new0(uint8_t, chunks);
    run->ahead = g_new0(uint8_t, chunks);
    run->next_use = g_memdup2(run->accesses->first_device_use, chunks * sizeof *run->next_use);
    run->capacity = g_new(uint64_t, moments + 1);
    for (uint32_t c = 0; c < chunks; c++) {
        run->slot_bytes[c] = inputs->layout->chunks[c].slot_bytes;
        run->place[c] = inputs->homes->on_device[c] ? RUN_AT_HOME : RUN_ON_HOST;
    }
    set_capacity(run, inputs, options->spare_bytes);
    run_window_open(run, options->look_ahead);
    open_view(run);
}

static void close_run(struct run *run)
{
    run->ops->close(run->policy);
    run_window_close(run);
    g_free(run->slot_bytes);
    g_free(run->place);
    g_free(run->pinned);
    g_free(run->dirty);
    g_free(run->ahead);
    g_free(run->next_use);
    g_free(run->capacity);
}

uint64_t decide_least_bytes(const struct plan_inputs *inputs, uint32_t *moment)
{
    return homes_least_device_bytes(inputs->homes, inputs->layout, inputs->accesses, moment);
}

struct decisions *decisions_new(const struct accesses *accesses)
{
    struct decisions *decisions = g_new0(struct decisions, 1);
    decisions->moment_count = accesses->moment_count;
    decisions->initial = g_new0(uint8_t, accesses->chunk_count);
    decisions->first = g_new0(uint32_t, accesses->moment_count + 2);
    decisions->actions = g_array_new(FALSE, FALSE, sizeof(struct plan_action));
    return decisions;
}

struct decisions *decide(const struct plan_inputs *inputs, const struct decide_options *options)
{
    struct run run = {.accesses = inputs->accesses};
    struct decisions *record = decisions_new(inputs->accesses);
    open_run(&run, inputs, options);
    for (int i = 0; i < SETTLING_ITERATIONS; i++)
        run_iteration(&run);
    run.record = record;
    run_iteration(&run);
    decisions_settle(record, inputs->accesses);
    record->fault = run.fault;
    close_run(&run);
    return record;
}

void decisions_free(struct decisions *decisions)
{
    if (!decisions)
        return;
    g_free(decisions->initial);
    g_free(decisions->first);
    g_free(decisions->over);
    g_free(decisions->fault);
    g_array_free(decisions->actions, TRUE);
    g_free(decisions);
}
