#include "chunks/arena.h"
#include "chunks/homes.h"
#include "chunks/plan_check.h"
#include "chunks/residency/residency_state.h"

/* What one iteration leaves behind, the next begins with. */
#define ITERATIONS 2

struct check {
    const struct plan *plan;
    const struct trace *trace;
    const struct accesses *accesses;
    enum residency_state *state; /* [chunk_count] */
    struct arena *arena;
    uint32_t moment;
};

static uint64_t slot_bytes(const struct check *check, uint32_t chunk)
{
    return check->plan->layout->chunks[chunk].slot_bytes;
}

static bool refuse_moment(const struct check *check, GError **error, const char *what)
{
    const char *name = check->moment < check->trace->operator_count
                           ? check->trace->operators[check->moment].name
                           : "end of the iteration";
    return plan_refuse(error, "moment %u (%s): %s", check->moment, name, what);
}

static bool change(struct check *check, uint32_t chunk, enum residency_event event, GError **error)
{
    if (residency_state_next(check->state[chunk], event, &check->state[chunk]))
        return true;
    g_autofree char *what = g_strdup_printf("%s of chunk %u, whose bytes are %s",
                                            residency_event_name(event), chunk,
                                            residency_state_name(check->state[chunk]));
    return refuse_moment(check, error, what);
}

static bool settle_at(struct check *check, uint32_t chunk, uint64_t address, GError **error)
{
    uint64_t bytes = slot_bytes(check, chunk), arena = check->plan->arena_bytes;
    if (address % LAYOUT_ALIGNMENT || bytes > arena || address > arena - bytes ||
        !arena_has_room(check->arena, chunk, address)) {
        g_autofree char *what = g_strdup_printf("chunk %u at address %" G_GUINT64_FORMAT
                                                ": taken, unaligned or outside the arena",
                                                chunk, address);
        return refuse_moment(check, error, what);
    }
    arena_put(check->arena, chunk, address);
    return true;
}

static bool perform(struct check *check, const struct plan_action *action, GError **error)
{
    static const enum residency_event events[] = {
        [PLAN_FETCH] = RESIDENCY_FETCH,           [PLAN_ALLOCATE] = RESIDENCY_ALLOCATE,
        [PLAN_WRITE_BACK] = RESIDENCY_WRITE_BACK, [PLAN_DROP] = RESIDENCY_DROP,
        [PLAN_FLUSH] = RESIDENCY_FLUSH,           [PLAN_MOVE] = RESIDENCY_MOVE};
    uint32_t chunk = action->chunk;
    if (action->kind == PLAN_WAIT)
        return true;
    bool enters = action->kind == PLAN_FETCH || action->kind == PLAN_ALLOCATE;
    bool leaves = action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP;
    if (check->plan->host_address[chunk] == NO_ADDRESS && action->kind != PLAN_MOVE)
        return refuse_moment(check, error, "a chunk at home on the device cannot leave it");
    if (!change(check, chunk, events[action->kind], error))
        return false;
    if (leaves || action->kind == PLAN_MOVE)
        arena_take(check->arena, chunk);
    if (enters || action->kind == PLAN_MOVE)
        return settle_at(check, chunk, action->address, error);
    return action->address == check->arena->address[chunk] ||
           refuse_moment(check, error, "a chunk does not lie afterwards where its action says");
}

static bool perform_all(struct check *check, GError **error)
{
    const struct plan *plan = check->plan;
    for (uint32_t i = plan->first_action[check->moment]; i < plan->first_action[check->moment + 1];
         i++)
        if (!perform(check, &plan->actions[i], error))
            return false;
    return true;
}

static bool run_operator(struct check *check, GError **error)
{
    const struct accesses *accesses = check->accesses;
    uint32_t m = check->moment;
    uint64_t non_model = accesses->non_model[m];
    if (arena_end(check->arena) + non_model > check->plan->arena_bytes)
        return refuse_moment(check, error, "chunks and non-model data overlap");
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        if (!change(check, access->chunk, residency_event_of(access->flags), error))
            return false;
        if (access->flags & ACCESS_LAST && !change(check, access->chunk, RESIDENCY_DIE, error))
            return false;
    }
    return true;
}

static bool run_iteration(struct check *check, GError **error)
{
    const struct plan *plan = check->plan;
    for (check->moment = 0; check->moment < plan->moment_count; check->moment++)
        if (!perform_all(check, error) || !run_operator(check, error))
            return false;
    if (!perform_all(check, error))
        return false;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        if (check->arena->address[c] != plan->initial_address[c])
            return plan_refuse(error, "chunk %u does not end the iteration where it began it", c);
    return true;
}

static bool check_host_slots(const struct plan *plan, GError **error)
{
    g_autofree uint64_t *used = g_new(uint64_t, plan->layout->chunk_count);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        used[c] = plan->layout->chunks[c].copy_bytes;
    struct arena *pool = arena_new(plan->layout->chunk_count, used);
    bool fine = plan->staging_address <= plan->host_pool_bytes &&
                plan->host_pool_bytes <= plan->host_budget;
    for (uint32_t c = 0; fine && c < plan->layout->chunk_count; c++) {
        uint64_t address = plan->host_address[c];
        if (address == NO_ADDRESS)
            continue;
        fine = address % LAYOUT_ALIGNMENT == 0 && used[c] <= plan->staging_address &&
               address <= plan->staging_address - used[c] && arena_has_room(pool, c, address);
        if (fine)
            arena_put(pool, c, address);
    }
    arena_free(pool);
    return fine || plan_refuse(error, "host slots overlap or lie outside the host pool");
}

static bool begin(struct check *check, GError **error)
{
    const struct plan *plan = check->plan;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        bool homed = plan->host_address[c] == NO_ADDRESS;
        uint64_t address = plan->initial_address[c];
        check->state[c] = homed ? RESIDENCY_DEVICE : RESIDENCY_HOST;
        if (homed && address == NO_ADDRESS)
            return plan_refuse(error, "chunk %u has no home", c);
        if (address == NO_ADDRESS)
            continue;
        if (!settle_at(check, c, address, error) ||
            (!homed && !change(check, c, RESIDENCY_FETCH, error)))
            return false;
    }
    return true;
}

static bool check_staging(const struct plan *plan, const struct trace *trace, GError **error)
{
    uint64_t staging = plan->host_pool_bytes - plan->staging_address;
    struct staging needs = staging_of(trace);
    uint64_t needed = needs.bytes;
    staging_clear(&needs);
    return needed <= staging ||
           plan_refuse(error,
                       "%" G_GUINT64_FORMAT
                       " bytes of staging in the host pool, not %" G_GUINT64_FORMAT,
                       staging, needed);
}

bool plan_check_schedule(const struct plan *plan, const struct trace *trace, GError **error)
{
    uint32_t chunks = plan->layout->chunk_count;
    if (plan->moment_count != trace->operator_count)
        return plan_refuse(error, "%u moments, the run has %u", plan->moment_count,
                           trace->operator_count);
    if (plan->arena_bytes > plan->device_budget)
        return plan_refuse(error, "the arena is larger than the budget");
    if (!check_host_slots(plan, error) || !check_staging(plan, trace, error))
        return false;

    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    g_autofree uint64_t *slots = g_new(uint64_t, chunks);
    for (uint32_t c = 0; c < chunks; c++)
        slots[c] = plan->layout->chunks[c].slot_bytes;
    struct check check = {.plan = plan,
                          .trace = trace,
                          .accesses = accesses,
                          .state = g_new0(enum residency_state, chunks),
                          .arena = arena_new(chunks, slots)};
    bool fine = begin(&check, error);
    for (int i = 0; fine && i < ITERATIONS; i++)
        fine = run_iteration(&check, error);
    arena_free(check.arena);
    g_free(check.state);
    accesses_free(accesses);
    non_model_free(non_model);
    return fine;
}
