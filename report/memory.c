#include "report/memory.h"

/* State of the replay: what is resident at the current moment. */
struct replay {
    const struct trace *trace;
    const struct plan *plan;
    struct memory *memory;
    uint64_t list_bytes[TRACE_ACCESS_LISTS];
    uint64_t host_slot_bytes[TRACE_ACCESS_LISTS], host_twice_bytes; /* as in memory_moment */
};

/* Returns what the chunk takes of the host pool: its content, because only the device rounds slots.
 */
static uint64_t host_bytes(const struct plan *plan, chunk_id chunk)
{
    return plan->host_address[chunk] == NO_ADDRESS ? 0 : plan->layout->chunks[chunk].copy_bytes;
}

static void note_host(struct replay *replay, uint32_t c, bool arrives)
{
    const struct chunk *chunk = &replay->plan->layout->chunks[c];
    uint64_t bytes = host_bytes(replay->plan, c);
    replay->host_slot_bytes[chunk->list] += arrives ? -bytes : bytes;
    replay->host_twice_bytes += arrives ? bytes : -bytes;
}

static void arrive(struct replay *replay, uint32_t c)
{
    const struct chunk *chunk = &replay->plan->layout->chunks[c];
    replay->list_bytes[chunk->list] += chunk->slot_bytes;
    note_host(replay, c, true);
}

static void leave(struct replay *replay, uint32_t c)
{
    const struct chunk *chunk = &replay->plan->layout->chunks[c];
    replay->list_bytes[chunk->list] -= chunk->slot_bytes;
    note_host(replay, c, false);
}

static void start_resident(struct replay *replay)
{
    const struct layout *layout = replay->plan->layout;
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        replay->host_slot_bytes[layout->chunks[c].list] += host_bytes(replay->plan, c);
        if (replay->plan->initial_address[c] != NO_ADDRESS)
            arrive(replay, c);
    }
}

static void perform(struct replay *replay, const struct plan_action *action, enum trace_phase phase)
{
    const struct chunk *chunk = &replay->plan->layout->chunks[action->chunk];
    switch ((enum plan_action_kind)action->kind) {
    case PLAN_FETCH:
        replay->memory->h2d_bytes[phase] += chunk->copy_bytes;
        arrive(replay, action->chunk);
        break;
    case PLAN_ALLOCATE:
        arrive(replay, action->chunk);
        break;
    case PLAN_WRITE_BACK:
        replay->memory->d2h_bytes[phase] += chunk->copy_bytes;
        leave(replay, action->chunk);
        break;
    case PLAN_DROP:
        leave(replay, action->chunk);
        break;
    case PLAN_FLUSH:
        replay->memory->d2h_bytes[phase] += chunk->copy_bytes;
        break;
    case PLAN_MOVE:
    case PLAN_WAIT:
    case PLAN_LOAD:
    case PLAN_RESERVE:
    case PLAN_STORE:
    case PLAN_RELEASE:
    case PLAN_ACTIONS:
        break;
    }
}

static void perform_before(struct replay *replay, uint32_t index, enum trace_phase phase)
{
    const struct plan *plan = replay->plan;
    for (uint32_t a = plan->first_action[index]; a < plan->first_action[index + 1]; a++)
        perform(replay, &plan->actions[a], phase);
}

static void note_phase(struct memory *memory, uint32_t moment, enum trace_phase phase)
{
    if (memory->phases->len) {
        struct memory_phase *last = &g_array_index(memory->phases, struct memory_phase,
                                                   memory->phases->len - 1);
        last->last = moment - 1;
        if (last->phase == phase) {
            last->last = moment;
            return;
        }
    }
    struct memory_phase next = {phase, moment, moment};
    g_array_append_val(memory->phases, next);
}

static struct memory_moment observe(const struct replay *replay, uint32_t m, double start)
{
    const struct trace *trace = replay->trace;
    double length = replay->memory->timed ? (double)trace->operators[m].duration_ns / 1e9 : 1;
    struct memory_moment moment = {.start = start,
                                   .end = start + length,
                                   .non_model_bytes = trace->non_model_bytes[m],
                                   .host_twice_bytes = replay->host_twice_bytes};
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++) {
        moment.list_bytes[list] = replay->list_bytes[list];
        moment.chunk_bytes += replay->list_bytes[list];
        moment.host_slot_bytes[list] = replay->host_slot_bytes[list];
    }
    return moment;
}

static bool is_timed(const struct trace *trace)
{
    bool timed = false;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        timed = timed || trace->operators[m].duration_ns;
    return timed;
}

struct memory *memory_replay(const struct trace *trace, const struct plan *plan)
{
    struct memory *memory = g_new0(struct memory, 1);
    memory->moment_count = trace->operator_count;
    memory->moments = g_new0(struct memory_moment, trace->operator_count);
    memory->phases = g_array_new(FALSE, FALSE, sizeof(struct memory_phase));
    memory->timed = is_timed(trace);
    memory->host_pool_bytes = plan->host_pool_bytes;

    struct replay replay = {.trace = trace, .plan = plan, .memory = memory};
    start_resident(&replay);
    double time = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        enum trace_phase phase = trace->operators[m].phase;
        note_phase(memory, m, phase);
        perform_before(&replay, m, phase);
        memory->moments[m] = observe(&replay, m, time);
        time = memory->moments[m].end;
        if (memory_total(&memory->moments[m]) > memory_total(&memory->moments[memory->peak]))
            memory->peak = m;
    }
    if (trace->operator_count)
        perform_before(&replay, trace->operator_count,
                       trace->operators[trace->operator_count - 1].phase);
    return memory;
}

void memory_free(struct memory *memory)
{
    if (!memory)
        return;
    g_free(memory->moments);
    g_array_unref(memory->phases);
    g_free(memory);
}

uint64_t memory_total(const struct memory_moment *moment)
{
    return moment->chunk_bytes + moment->non_model_bytes;
}

double memory_duration(const struct memory *memory)
{
    return memory->moment_count ? memory->moments[memory->moment_count - 1].end : 0;
}

GArray *memory_phases(const struct memory *memory)
{
    GArray *phases = g_array_new(FALSE, FALSE, sizeof(struct track_phase));
    for (guint i = 0; i < memory->phases->len; i++) {
        const struct memory_phase *phase = &g_array_index(memory->phases, struct memory_phase, i);
        const struct track_phase band = {phase->phase, memory->moments[phase->first].start,
                                         memory->moments[phase->last].end};
        g_array_append_val(phases, band);
    }
    return phases;
}
