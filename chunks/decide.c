#include "chunks/decide.h"

#include "chunks/settle.h"

/* Iterations before the one that becomes the plan. */
#define SETTLING_ITERATIONS 2

struct run {
    const struct layout *layout;
    const struct accesses *accesses;
    const struct homes *homes;
    const struct dry_run_options *options;
    void *policy;
    struct policy_view view;
    uint64_t *bytes;    /* [chunk_count] slots */
    uint8_t *pinned;    /* [chunk_count] */
    uint8_t *dirty;     /* [chunk_count] the device's copy is newer and alive */
    uint32_t *next_use; /* [chunk_count] see struct policy_view */
    uint8_t *ahead;     /* [chunk_count] likewise */
    uint8_t *resident;  /* [chunk_count] */
    uint32_t *seen;     /* [chunk_count] the look-ahead that last met the chunk */
    GArray *window;     /* uint32_t: chunks pinned by the current moment and its look-ahead */
    uint64_t used;      /* slots on the device */
    uint64_t *capacity; /* [moment_count + 1] for chunks that are not at home on the device */
    uint32_t incoming;  /* see struct policy_view */
    uint32_t moment, iteration, look_aheads;
    char *fault;              /* see struct decisions */
    struct decisions *record; /* NULL while settling */
};

static void emit(struct run *run, enum plan_action_kind kind, uint32_t chunk)
{
    struct plan_action action = {.chunk = chunk, .kind = (uint8_t)kind, .address = PLAN_NOWHERE};
    if (run->record)
        g_array_append_val(run->record->actions, action);
}

static void leave(struct run *run, uint32_t chunk)
{
    emit(run, run->dirty[chunk] ? PLAN_WRITE_BACK : PLAN_DROP, chunk);
    run->resident[chunk] = run->dirty[chunk] = 0;
    run->used -= run->bytes[chunk];
    run->options->policy->remove(run->policy, chunk);
}

static void enter(struct run *run, enum plan_action_kind kind, uint32_t chunk)
{
    emit(run, kind, chunk);
    run->resident[chunk] = 1;
    run->used += run->bytes[chunk];
    run->options->policy->admit(run->policy, chunk);
}

static bool may_leave(const struct run *run, uint32_t chunk)
{
    return chunk < run->layout->chunk_count && run->resident[chunk] && !run->pinned[chunk] &&
           !run->homes->on_device[chunk];
}

/* Policies are plug-ins too: a wrong answer is noted, and the lowest chunk that may leave does. */
static uint32_t choose_victim(struct run *run)
{
    uint32_t victim = run->options->policy->victim(run->policy), chosen = 0;
    if (may_leave(run, victim))
        return victim;
    while (chosen < run->layout->chunk_count && !may_leave(run, chosen))
        chosen++;
    if (chosen == run->layout->chunk_count)
        chosen = POLICY_NONE;
    if (chosen != victim && !run->fault)
        run->fault = g_strdup_printf(
            "policy %s: asked for a victim at moment %u of iteration %u it "
            "answered %u, which is %s",
            run->options->policy->name, run->moment, run->iteration, victim,
            victim == POLICY_NONE ? "none, though there are some" : "not on the device, or pinned");
    return chosen;
}

/* Evicts until the chunk `incoming` (POLICY_NONE: nothing) fits into `capacity` beside the others;
 * false when what is left is pinned. */
static bool make_room(struct run *run, uint32_t incoming, uint64_t capacity)
{
    uint64_t bytes = incoming == POLICY_NONE ? 0 : run->bytes[incoming];
    run->incoming = incoming;
    while (run->used + bytes > capacity) {
        uint32_t victim = choose_victim(run);
        if (victim == POLICY_NONE)
            return false;
        leave(run, victim);
    }
    return true;
}

static uint64_t capacity_at(const struct run *run, uint32_t moment)
{
    return run->options->device_bytes - run->accesses->non_model[moment];
}

static void pin(struct run *run, uint32_t chunk)
{
    if (!run->pinned[chunk]) {
        run->pinned[chunk] = 1;
        g_array_append_val(run->window, chunk);
    }
}

static void unpin_all(struct run *run)
{
    for (uint32_t i = 0; i < run->window->len; i++)
        run->pinned[g_array_index(run->window, uint32_t, i)] = 0;
    g_array_set_size(run->window, 0);
}

/* The operator's chunks on the device, and room for its non-model data. */
static void serve_device_operator(struct run *run, uint32_t begin, uint32_t end)
{
    const struct chunk_access *items = run->accesses->items;
    uint64_t capacity = capacity_at(run, run->moment);
    for (uint32_t a = begin; a < end; a++)
        pin(run, items[a].chunk);
    bool fits = make_room(run, POLICY_NONE, capacity);
    for (uint32_t a = begin; a < end; a++) {
        uint32_t chunk = items[a].chunk;
        if (run->resident[chunk])
            continue;
        fits &= make_room(run, chunk, capacity);
        enter(run, items[a].flags & ACCESS_FRESH ? PLAN_ALLOCATE : PLAN_FETCH, chunk);
    }
    g_assert(fits);
}

/* The host's copies valid, and the device's gone where the operator writes. A flush of a clean
 * chunk is taken out when the iteration is settled. */
static void serve_host_operator(struct run *run, uint32_t begin, uint32_t end)
{
    for (uint32_t a = begin; a < end; a++) {
        const struct chunk_access *access = &run->accesses->items[a];
        if (!run->resident[access->chunk])
            continue;
        if (access->flags & ACCESS_WRITES) {
            leave(run, access->chunk);
        } else {
            emit(run, PLAN_FLUSH, access->chunk);
            run->dirty[access->chunk] = 0;
        }
    }
    bool made = make_room(run, POLICY_NONE, capacity_at(run, run->moment));
    g_assert(made);
}

/* Fetches what the next moments need into the room that they leave; false: no more room. */
static bool look_at(struct run *run, uint32_t moment, uint64_t capacity)
{
    const struct accesses *accesses = run->accesses;
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        if (run->seen[access->chunk] == run->look_aheads)
            continue;
        run->seen[access->chunk] = run->look_aheads;
        if (access->flags & ACCESS_ON_HOST)
            continue;
        pin(run, access->chunk);
        if (run->resident[access->chunk] || access->flags & ACCESS_FRESH)
            continue;
        if (!make_room(run, access->chunk, capacity))
            return false;
        enter(run, PLAN_FETCH, access->chunk);
    }
    return true;
}

static void look_ahead(struct run *run)
{
    const struct accesses *accesses = run->accesses;
    uint64_t capacity = capacity_at(run, run->moment);
    run->look_aheads++;
    for (uint32_t a = accesses->first[run->moment]; a < accesses->first[run->moment + 1]; a++)
        run->seen[accesses->items[a].chunk] = run->look_aheads;
    for (uint32_t ahead = 1; ahead <= run->options->look_ahead; ahead++) {
        uint32_t moment = (run->moment + ahead) % accesses->moment_count;
        capacity = MIN(capacity, capacity_at(run, moment));
        if (run->used > capacity || !look_at(run, moment, capacity))
            return;
    }
}

/* What the operator leaves behind. */
static void account(struct run *run, uint32_t begin, uint32_t end)
{
    for (uint32_t a = begin; a < end; a++) {
        const struct chunk_access *access = &run->accesses->items[a];
        uint32_t chunk = access->chunk;
        if (access->flags & ACCESS_ON_HOST)
            continue;
        run->next_use[chunk] = run->accesses->next_device_use[a];
        run->ahead[chunk] = run->accesses->ahead[a];
        if (run->homes->on_device[chunk])
            continue;
        if (access->flags & ACCESS_WRITES)
            run->dirty[chunk] = 1;
        if (access->flags & ACCESS_LAST)
            run->dirty[chunk] = 0;
        if (run->options->policy->touch)
            run->options->policy->touch(run->policy, chunk);
    }
}

/* Chunks in which nothing is alive any more make room at once: it costs nothing. */
static void drop_dead(struct run *run, uint32_t begin, uint32_t end)
{
    for (uint32_t a = begin; a < end; a++) {
        const struct chunk_access *access = &run->accesses->items[a];
        if (access->flags & ACCESS_LAST && run->resident[access->chunk] &&
            !run->homes->on_device[access->chunk])
            leave(run, access->chunk);
    }
}

static void run_moment(struct run *run)
{
    const uint32_t *first = run->accesses->first;
    uint32_t m = run->moment, begin = first[m], end = first[m + 1];
    if (run->record)
        run->record->first[m] = run->record->actions->len;
    if (m > 0)
        drop_dead(run, first[m - 1], begin);
    if (begin < end && run->accesses->items[begin].flags & ACCESS_ON_HOST)
        serve_host_operator(run, begin, end);
    else
        serve_device_operator(run, begin, end);
    look_ahead(run);
    unpin_all(run);
    account(run, begin, end);
}

/* Back to the chunks that the iteration began with. */
static void close_iteration(struct run *run)
{
    struct decisions *record = run->record;
    uint32_t chunks = run->layout->chunk_count;
    for (uint32_t c = 0; record && c < chunks; c++)
        if (run->resident[c] && !record->initial[c])
            leave(run, c);
    for (uint32_t c = 0; record && c < chunks; c++)
        if (!run->resident[c] && record->initial[c])
            enter(run, PLAN_FETCH, c);
}

static void run_iteration(struct run *run)
{
    uint32_t moments = run->accesses->moment_count;
    if (run->record)
        memcpy(run->record->initial, run->resident, run->layout->chunk_count);
    for (run->moment = 0; run->moment < moments; run->moment++)
        run_moment(run);
    if (run->record)
        run->record->first[moments] = run->record->actions->len;
    drop_dead(run, run->accesses->first[moments - 1], run->accesses->first[moments]);
    close_iteration(run);
    if (run->record)
        run->record->first[moments + 1] = run->record->actions->len;
    for (uint32_t c = 0; c < run->layout->chunk_count; c++)
        if (run->next_use[c] != POLICY_NONE)
            run->next_use[c] -= moments;
    run->iteration++;
}

/* After the last operator as at it. */
static void find_capacity(struct run *run)
{
    uint32_t moments = run->accesses->moment_count;
    run->capacity = g_new(uint64_t, moments + 1);
    for (uint32_t m = 0; m <= moments; m++)
        run->capacity[m] = capacity_at(run, MIN(m, moments - 1)) - run->homes->device_bytes;
}

static void open_run(struct run *run)
{
    uint32_t chunks = run->layout->chunk_count;
    run->bytes = g_new(uint64_t, chunks);
    run->pinned = g_new0(uint8_t, chunks);
    run->dirty = g_new0(uint8_t, chunks);
    run->next_use = g_memdup2(run->accesses->first_device_use, chunks * sizeof *run->next_use);
    run->ahead = g_new0(uint8_t, chunks);
    run->resident = g_memdup2(run->homes->on_device, chunks);
    run->seen = g_new0(uint32_t, chunks);
    run->window = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    run->used = run->homes->device_bytes;
    for (uint32_t c = 0; c < chunks; c++)
        run->bytes[c] = run->layout->chunks[c].bytes;
    find_capacity(run);
    run->view = (struct policy_view){.chunk_count = chunks,
                                     .moment_count = run->accesses->moment_count,
                                     .chunk_bytes = run->bytes,
                                     .pinned = run->pinned,
                                     .dirty = run->dirty,
                                     .next_use = run->next_use,
                                     .moment = &run->moment,
                                     .iteration = &run->iteration,
                                     .ahead = run->ahead,
                                     .capacity = run->capacity,
                                     .incoming = &run->incoming};
    run->policy = run->options->policy->open(&run->view);
}

static void close_run(struct run *run)
{
    run->options->policy->close(run->policy);
    g_free(run->bytes);
    g_free(run->pinned);
    g_free(run->dirty);
    g_free(run->next_use);
    g_free(run->ahead);
    g_free(run->capacity);
    g_free(run->resident);
    g_free(run->seen);
    g_array_free(run->window, TRUE);
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

struct decisions *decide(const struct layout *layout, const struct accesses *accesses,
                         const struct homes *homes, const struct dry_run_options *options)
{
    struct run run = {.layout = layout, .accesses = accesses, .homes = homes, .options = options};
    struct decisions *record = decisions_new(accesses);
    open_run(&run);
    for (int i = 0; i < SETTLING_ITERATIONS; i++)
        run_iteration(&run);
    run.record = record;
    run_iteration(&run);
    decisions_settle(record, accesses);
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
    g_free(decisions->fault);
    g_array_free(decisions->actions, TRUE);
    g_free(decisions);
}
