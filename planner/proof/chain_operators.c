#include "planner/proof/bound.h"
#include "planner/proof/prices.h"

struct chain_source {
    const struct time_job *job;
    const struct trace *trace;
    const struct accesses *accesses;
    const uint32_t *deadline;
    bool either_side;
    struct chain_operators *operators;
};

static bool runs_in_any_case(const struct chain_source *source, const struct trace_operator *op)
{
    return !source->either_side || !time_is_placed(op);
}

/* Returns how long the device waits for activations between two operators of forward and backward,
 * because of the operator of the host at moment `m`. A window of the update begins as soon as the
 * device has computed what comes before. */
static uint64_t idle_between(const struct chain_source *source, moment_id m)
{
    const struct trace *trace = source->trace;
    for (moment_id next = m + 1; next < trace->operator_count; next++) {
        const struct trace_operator *op = &trace->operators[next];
        if (time_is_placed(op))
            break;
        if (op->place == TRACE_ON_DEVICE)
            return time_job_idle_ns(source->job, trace, m);
    }
    return 0;
}

static void sum_device(const struct chain_source *source)
{
    struct chain_operators *operators = source->operators;
    for (uint32_t m = 0; m < operators->moment_count; m++) {
        const struct trace_operator *op = &source->trace->operators[m];
        bool counts = op->place == TRACE_ON_DEVICE && !trace_operator_reduces(op) &&
                      runs_in_any_case(source, op);
        uint64_t ns = counts                       ? time_job_device_ns(source->job, op)
                      : op->place == TRACE_ON_HOST ? idle_between(source, m)
                                                   : 0;
        operators->device_ns[m + 1] = operators->device_ns[m] + ns;
        operators->device_count[m + 1] = operators->device_count[m] + counts;
    }
}

static bool is_device(const struct chain_source *source, uint32_t m)
{
    return source->operators->device_count[m + 1] > source->operators->device_count[m];
}

/* Returns the moments from the last operator that the device has in any case to moment `m`. */
static uint32_t find_released(const struct chain_source *source, moment_id m)
{
    uint32_t moments = source->operators->moment_count, span = 1;
    while (span < moments && !is_device(source, (m + moments - span) % moments))
        span++;
    return span;
}

/* Returns the moments from `m` to the next operator that the device has in any case. */
static uint32_t find_next(const struct chain_source *source, moment_id m)
{
    uint32_t moments = source->operators->moment_count, span = 1;
    while (span < moments && !is_device(source, (m + span) % moments))
        span++;
    return span;
}

static void add_copy(GArray *copies, uint32_t span, uint64_t ns)
{
    const struct chain_copy copy = {span, ns};
    if (ns)
        g_array_append_val(copies, copy);
}

static void add_operator(const struct chain_source *source, moment_id m, uint32_t block)
{
    const struct trace_operator *op = &source->trace->operators[m];
    struct chain_operator *added = &source->operators->items[source->operators->count++];
    *added = (struct chain_operator){.moment = m,
                                     .block = runs_in_any_case(source, op) ? NO_INDEX : block,
                                     .released = find_released(source, m),
                                     .over = source->deadline[m] - m,
                                     .host_ns = time_job_at_least(source->job, op->duration_ns),
                                     .before = g_array_new(FALSE, FALSE, sizeof(struct chain_copy)),
                                     .after = g_array_new(FALSE, FALSE, sizeof(struct chain_copy))};
    add_copy(added->before, added->released,
             time_job_copy_ns(source->job, &source->job->costs->d2h, op->d2h_bytes));
    add_copy(added->after, find_next(source, m),
             time_job_copy_ns(source->job, &source->job->costs->h2d, op->h2d_bytes));
}

/* If other groups may run on either side, the chunks that an operator uses in any case may be
 * elsewhere than in this trace. So their copies count for updates only. */
static bool counts_copies(const struct chain_source *source, moment_id m)
{
    return !source->either_side || time_is_placed(&source->trace->operators[m]);
}

/* Returns how many updates that can be placed come before each moment: [moment_count + 1]. */
static uint32_t *count_placed(const struct chain_source *source)
{
    uint32_t moments = source->operators->moment_count;
    uint32_t *placed = g_new0(uint32_t, moments + 1);
    for (uint32_t m = 0; m < moments; m++)
        placed[m + 1] = placed[m] + time_is_placed(&source->trace->operators[m]);
    return placed;
}

/* Returns whether the host needs what the device wrote at `from` wherever updates run: the
 * operators of both moments run where they are in any case, and no update lies between. `to` is
 * counted from the beginning of an iteration, and at most one later than `from`. */
static bool is_needed_in_any_case(const uint32_t *placed, uint32_t moments, uint32_t from,
                                  uint32_t to)
{
    uint32_t begin = from / moments * moments;
    uint32_t until = placed[to % moments] + (to >= begin + moments ? placed[moments] : 0);
    return until == placed[from % moments + 1];
}

/* Adds the copies of chunks that the device wrote last, to the first operator of the host that
 * needs them. In the second iteration it is known for each chunk who wrote it. */
static void add_copies_before(const struct chain_source *source, const uint32_t *index)
{
    const struct accesses *accesses = source->accesses;
    uint32_t moments = accesses->moment_count;
    g_autofree uint32_t *placed = count_placed(source);
    g_autofree uint32_t *written = g_new0(uint32_t, accesses->chunk_count); /* moment + 1; 0 if the
                                                                               host is up to date */
    for (uint32_t at = 0; at < 2 * moments; at++)
        for (uint32_t m = at % moments, a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            uint32_t *by = &written[access->chunk];
            if (access->flags & ACCESS_ON_HOST) {
                const struct chunk *chunk = &source->job->plan->layout->chunks[access->chunk];
                if (*by && at >= moments && !(access->flags & ACCESS_FRESH) &&
                    (counts_copies(source, m) ||
                     is_needed_in_any_case(placed, moments, *by - 1, at)))
                    add_copy(
                        source->operators->items[index[m]].before, at + 1 - *by,
                        time_job_copy_ns(source->job, &source->job->costs->d2h, chunk->copy_bytes));
                *by = 0;
            } else if (access->flags & ACCESS_LAST) {
                *by = 0;
            } else if (access->flags & ACCESS_WRITES) {
                *by = is_device(source, m) ? at + 1 : 0;
            }
        }
}

/* Adds the copies of chunks that the device needs, to the last operator of the host that writes
 * them before. Gathered chunks come over the network, in another queue. */
static void add_copies_after(const struct chain_source *source, const uint32_t *index)
{
    const struct accesses *accesses = source->accesses;
    uint32_t moments = accesses->moment_count;
    g_autofree uint32_t *next_write = g_new(uint32_t, accesses->chunk_count);
    for (uint32_t c = 0; c < accesses->chunk_count; c++)
        next_write[c] = NO_INDEX;
    for (uint32_t at = 2 * moments; at-- > 0;)
        for (uint32_t m = at % moments, a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            const struct chunk *chunk = &source->job->plan->layout->chunks[access->chunk];
            if (!(access->flags & ACCESS_ON_HOST) || !(access->flags & ACCESS_WRITES) ||
                chunk->list == TRACE_GATHERED)
                continue;
            uint32_t need = at < moments ? accesses_next_need(accesses, a) : NO_INDEX;
            if (need != NO_INDEX && need < next_write[access->chunk] && need - m <= moments &&
                is_device(source, need % moments) && counts_copies(source, m))
                add_copy(
                    source->operators->items[index[m]].after, need - m,
                    time_job_copy_ns(source->job, &source->job->costs->h2d, chunk->copy_bytes));
            next_write[access->chunk] = at;
        }
}

struct chain_operators *chain_operators_new(const struct time_job *job, const struct trace *trace,
                                            const struct accesses *accesses,
                                            const uint32_t *deadline, uint32_t block_count)
{
    struct chain_operators *operators = g_new0(struct chain_operators, 1);
    uint32_t moments = trace->operator_count;
    const struct chain_source source = {
        job, trace, accesses, deadline, job->sides[TIME_HOST] != NULL, operators};
    g_autofree uint32_t *index = g_new(uint32_t, moments);
    operators->moment_count = moments;
    operators->block_count = block_count;
    operators->device_ns = g_new0(uint64_t, moments + 1);
    operators->device_count = g_new0(uint32_t, moments + 1);
    operators->items = g_new(struct chain_operator, moments);
    sum_device(&source);
    for (uint32_t m = 0; m < moments; m++) {
        index[m] = operators->count;
        if (trace->operators[m].place == TRACE_ON_HOST)
            add_operator(&source, m, time_group_of(trace, job->plan->layout, m));
    }
    add_copies_before(&source, index);
    add_copies_after(&source, index);
    return operators;
}
