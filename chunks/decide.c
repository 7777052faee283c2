#include "chunks/decide.h"

#include "chunks/decide_run.h"
#include "chunks/settle.h"

/* Iterations before the one that becomes the plan. */
#define SETTLING_ITERATIONS 2

/* Back to the chunks that the iteration began with. */
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
        if (run->next_use[c] != POLICY_NONE)
            run->next_use[c] -= moments;
    run->iteration++;
}

static void open_view(struct run *run)
{
    run->view = (struct policy_view){.chunk_count = run->chunk_count,
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
    run->policy = run->ops->open(&run->view);
}

/* Bytes that the moment's operator needs of the policy's chunks at once. */
static uint64_t needed_at(const struct run *run, uint32_t moment)
{
    const struct accesses *accesses = run->accesses;
    uint64_t bytes = 0;
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        if (!(access->flags & ACCESS_ON_HOST) && run->place[access->chunk] != RUN_AT_HOME)
            bytes += run->bytes[access->chunk];
    }
    return bytes;
}

static void set_capacity(struct run *run, const struct homes *homes,
                         const struct dry_run_options *options)
{
    uint32_t moments = run->accesses->moment_count;
    for (uint32_t m = 0; m < moments; m++) {
        uint64_t most = options->device_bytes - run->accesses->non_model[m] - homes->device_bytes;
        run->capacity[m] = MAX(most - MIN(most, options->spare_bytes), needed_at(run, m));
    }
    run->capacity[moments] = run->capacity[moments - 1]; /* after the last operator as at it */
}

static void open_run(struct run *run, const struct layout *layout, const struct homes *homes,
                     const struct dry_run_options *options)
{
    uint32_t chunks = layout->chunk_count, moments = run->accesses->moment_count;
    run->ops = options->policy;
    run->look_ahead = options->look_ahead;
    run->chunk_count = chunks;
    run->bytes = g_new(uint64_t, chunks);
    run->place = g_new0(uint8_t, chunks);
    run->pinned = g_new0(uint8_t, chunks);
    run->dirty = g_new0(uint8_t, chunks);
    run->ahead = g_new0(uint8_t, chunks);
    run->next_use = g_memdup2(run->accesses->first_device_use, chunks * sizeof *run->next_use);
    run->capacity = g_new(uint64_t, moments + 1);
    run->seen = g_new0(uint32_t, chunks);
    run->window = g_new(uint32_t, chunks);
    for (uint32_t c = 0; c < chunks; c++) {
        run->bytes[c] = layout->chunks[c].bytes;
        run->place[c] = homes->on_device[c] ? RUN_AT_HOME : RUN_ON_HOST;
    }
    set_capacity(run, homes, options);
    open_view(run);
}

static void close_run(struct run *run)
{
    run->ops->close(run->policy);
    g_free(run->bytes);
    g_free(run->place);
    g_free(run->pinned);
    g_free(run->dirty);
    g_free(run->ahead);
    g_free(run->next_use);
    g_free(run->capacity);
    g_free(run->seen);
    g_free(run->window);
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
    struct run run = {.accesses = accesses};
    struct decisions *record = decisions_new(accesses);
    open_run(&run, layout, homes, options);
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
