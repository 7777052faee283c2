#include "planner/proof/prices.h"

#include "planner/proof/bound.h"
#include "sim/network_times.h"

#include <string.h>

/* Windows begin at and after the updates of the device that need at least this part of it, those
 * that need the most. */
enum { LEAST_PART = 3, RUNS_MOST = 6 };

/* ---- building ---- */

/* Returns the number of windows from the window of moment `m` to the last one that begins before
 * the operator of moment `next`, which is after `m`. Time is cyclic. */
static uint16_t span_to(const struct time_windows *windows, uint32_t m, uint32_t next)
{
    uint32_t to = windows->of_moment[next % windows->moment_count], from = windows->of_moment[m];
    uint32_t begin = windows->items[0].moment, moments = windows->moment_count;
    uint32_t position = (m + moments - begin) % moments;
    uint32_t next_position = (next % moments + moments - begin) % moments;
    bool begins = time_windows_begin(windows, next % moments);
    if (next_position <= position)
        to += windows->count;
    return (uint16_t)MIN(to - from - begins, windows->count - 1);
}

/* Returns the first moment after `m` whose operator always runs on the device, or `m` one cycle
 * later if there is no such moment. */
static uint32_t next_device_operator(const struct trace *trace, uint32_t m)
{
    for (uint32_t i = 1; i < trace->operator_count; i++) {
        const struct trace_operator *op = &trace->operators[(m + i) % trace->operator_count];
        if (op->place == TRACE_ON_DEVICE && !time_is_placed(op) && !trace_operator_reduces(op))
            return m + i;
    }
    return m + trace->operator_count;
}

/* Returns the moment before which the reduction of moment `m` is over, because an operator that is
 * on the device in any case waits for it. In backward, operators wait for the last reduction but
 * one. */
static uint32_t reduction_deadline(const struct time_job *job, const struct trace *trace,
                                   uint32_t m)
{
    bool is_last = true;
    for (uint32_t i = 1; i < trace->operator_count; i++) {
        const struct trace_operator *op = &trace->operators[(m + i) % trace->operator_count];
        bool placed = job->sides[TIME_HOST] && time_is_placed(op);
        if (trace_operator_reduces(op))
            is_last = false;
        else if (op->place == TRACE_ON_DEVICE && !placed &&
                 (!is_last || op->phase != TRACE_BACKWARD))
            return m + i;
    }
    return m + trace->operator_count;
}

/* Where the device waits for a reduction, and what it computes until then. */
struct reduction_wait {
    uint32_t moment; /* of the operator that waits */
    bool ends;       /* it waits for all reductions, as operators outside of backward do */
    uint64_t compute_ns;
};

/* In backward, the first operator after the next reduction waits. */
static struct reduction_wait find_wait(const struct time_job *job, const struct trace *trace,
                                       uint32_t m)
{
    struct reduction_wait wait = {.moment = m + trace->operator_count};
    bool is_last = true;
    for (uint32_t i = 1; i < trace->operator_count; i++) {
        const struct trace_operator *op = &trace->operators[(m + i) % trace->operator_count];
        wait.moment = m + i;
        wait.ends = op->phase != TRACE_BACKWARD;
        if (trace_operator_reduces(op))
            is_last = false;
        else if (op->place == TRACE_ON_DEVICE && (wait.ends || !is_last))
            return wait;
        else if (op->place == TRACE_ON_DEVICE)
            wait.compute_ns += time_job_device_ns(job, op);
    }
    return wait;
}

/* Returns the window in which the device waits for the reduction of moment `m`. That of the update
 * begins when the device has finished what comes before. */
static uint16_t window_of_wait(const struct time_windows *windows, const struct trace *trace,
                               uint32_t m)
{
    uint32_t next = m + 1;
    while (next < trace->operator_count && trace_operator_reduces(&trace->operators[next]))
        next++;
    for (uint16_t w = 0; w < windows->count; w++)
        if (windows->items[w].of_update && windows->items[w].moment == next)
            return w;
    return windows->of_moment[m];
}

/* The traces of both sides, or of the only one, with their accesses. */
struct side_accesses {
    const struct time_job *job;
    struct accesses *of[TIME_SIDES];
    uint32_t count;
};

/* Returns the moment at which the device needs what access `i` of moment `m` wrote, or one cycle
 * later if it never does. If the operator is on the host in any case, other updates may run on
 * either side, so the later moment of both counts. */
static uint32_t next_need(const struct side_accesses *accesses, int side, uint32_t m, uint32_t i)
{
    const struct trace *trace = accesses->job->sides[side];
    bool any_side = !time_is_placed(&trace->operators[m]);
    uint32_t moments = trace->operator_count, latest = m + 1;
    for (int s = 0; s < (int)accesses->count; s++) {
        const struct accesses *of_side = accesses->of[s];
        if (s != side && !any_side)
            continue;
        uint32_t next = accesses_next_need(of_side, of_side->first[m] + i);
        const struct trace *of_trace = accesses->job->sides[s];
        if (next != NO_INDEX && trace_operator_reduces(&of_trace->operators[next % moments]))
            next += reduction_deadline(accesses->job, of_trace, next % moments) - next % moments;
        latest = MAX(latest, MIN(next, m + moments));
    }
    return latest;
}

/* Returns the moment at which an operator of the host must be over, perhaps in the next cycle: the
 * device then uses what it wrote or sent. Nobody waits for what is dead. */
static uint32_t own_deadline(const struct side_accesses *accesses, int side, uint32_t m)
{
    const struct trace *trace = accesses->job->sides[side];
    const struct accesses *of_side = accesses->of[side];
    uint32_t deadline = m + trace->operator_count;
    if (trace->operators[m].h2d_bytes)
        deadline = next_device_operator(trace, m);
    for (uint32_t i = 0; i < of_side->first[m + 1] - of_side->first[m]; i++)
        deadline = MIN(deadline, next_need(accesses, side, m, i));
    return deadline;
}

uint32_t time_group_of(const struct trace *trace, const struct layout *layout, moment_id m)
{
    const struct trace_operator *op = &trace->operators[m];
    if (!time_is_placed(op))
        return NO_INDEX;
    const struct trace_access *access = &trace->accesses[op->first_access];
    return layout->chunks[layout_place_of(layout, access)->chunk].group;
}

/* Returns whether the operator of the host is there wherever updates run. */
static bool is_there_in_any_case(const struct side_accesses *accesses, const GArray *blocks,
                                 int side, uint32_t m)
{
    const struct time_job *job = accesses->job;
    if (accesses->count == 1 || !time_is_placed(&job->sides[side]->operators[m]))
        return true;
    uint32_t group = time_group_of(job->sides[side], job->plan->layout, m);
    return job->in_order && g_array_index(blocks, struct time_block, group).excluded[TIME_DEVICE];
}

/* Returns the deadline of each operator of the host, and of each reduction. Those of the host run
 * in order, so each is over before the deadline of the next one that is there in any case. */
static uint32_t *find_deadlines(const struct side_accesses *accesses, const GArray *blocks,
                                int side)
{
    const struct trace *trace = accesses->job->sides[side];
    uint32_t moments = trace->operator_count, later = NO_INDEX;
    uint32_t *deadline = g_new0(uint32_t, moments);
    for (uint32_t p = 2 * moments; p-- > 0;) {
        uint32_t m = p % moments, cycle = p - m;
        const struct trace_operator *op = &trace->operators[m];
        if (trace_operator_reduces(op))
            deadline[m] = reduction_deadline(accesses->job, trace, m);
        if (op->place != TRACE_ON_HOST)
            continue;
        uint32_t over = MIN(later, cycle + own_deadline(accesses, side, m));
        deadline[m] = over - cycle;
        if (is_there_in_any_case(accesses, blocks, side, m))
            later = over;
    }
    return deadline;
}

/* The device's next operator waits until the activations for the host have left, and the host's
 * next one for what this one exchanges. */
static struct time_work host_work(const struct time_job *job, const struct trace *trace,
                                  const struct time_windows *windows, uint32_t m, uint32_t deadline)
{
    const struct trace_operator *op = &trace->operators[m];
    bool is_awaited = op->d2h_bytes || op->h2d_bytes;
    uint32_t left = is_awaited ? MIN(deadline, next_device_operator(trace, m)) : deadline;
    uint64_t network_ns = time_job_network_ns(job, op);
    uint64_t h2d_ns = time_job_copy_ns(job, &job->costs->h2d, op->h2d_bytes);
    uint64_t d2h_ns = time_job_copy_ns(job, &job->costs->d2h, op->d2h_bytes);
    uint64_t memory_ns = time_job_memory_ns(job, op->bytes, op->duration_ns) +
                         time_job_memory_ns(job, op->h2d_bytes, h2d_ns) +
                         time_job_memory_ns(job, op->d2h_bytes, d2h_ns);
    return (struct time_work){.host_ns = time_job_at_least(job, op->duration_ns) + network_ns,
                              .network_ns = network_ns,
                              .h2d_ns = h2d_ns,
                              .d2h_ns = d2h_ns,
                              .memory_ns = memory_ns,
                              .idle_ns = time_job_idle_ns(job, trace, m),
                              .window = windows->of_moment[m],
                              .idle_window = windows->of_moment[m],
                              .span = span_to(windows, m, deadline),
                              .d2h_span = span_to(windows, m, left),
                              .idle_span = span_to(windows, m, left)};
}

/* A reduction goes on beside the device until somebody waits for it. If it takes longer than what
 * the device computes until then, the device is idle for the rest. */
static struct time_work reduction_work(const struct time_job *job, const struct trace *trace,
                                       const struct time_windows *windows, uint32_t m,
                                       uint32_t deadline)
{
    struct reduction_wait wait = find_wait(job, trace, m);
    struct time_work work = {.network_ns = time_job_network_ns(job, &trace->operators[m]),
                             .window = windows->of_moment[m],
                             .idle_window = windows->of_moment[m],
                             .span = span_to(windows, m, deadline)};
    work.idle_ns = work.network_ns - MIN(work.network_ns, wait.compute_ns);
    if (wait.ends && !wait.compute_ns)
        work.idle_window = window_of_wait(windows, trace, m);
    else
        work.idle_span = span_to(windows, m, wait.moment);
    return work;
}

/* What an operator exchanges lies in its window, because none begins with such an operator. */
static struct time_work device_work(const struct time_job *job, const struct trace *trace,
                                    const struct time_windows *windows, uint32_t m)
{
    const struct trace_operator *op = &trace->operators[m];
    return (struct time_work){.compute_ns = time_job_device_ns(job, op),
                              .network_ns = time_job_network_ns(job, op),
                              .window = windows->of_moment[m]};
}

static struct time_block *add_block(GArray *blocks)
{
    struct time_block block = {.chunks = g_array_new(FALSE, FALSE, sizeof(uint32_t))};
    for (int side = 0; side < TIME_SIDES; side++)
        block.work[side] = g_array_new(FALSE, FALSE, sizeof(struct time_work));
    g_array_append_val(blocks, block);
    return &g_array_index(blocks, struct time_block, blocks->len - 1);
}

static const struct time_windows *windows_of(const struct time_model *model, int side)
{
    return side == TIME_HOST && model->host_windows ? model->host_windows : model->windows;
}

/* `next` is the block of the next operator that is on the host, or in the network's queue, in any
 * case. It is the same work on both sides. */
static void add_operator(struct time_model *model, const struct time_job *job, GArray *blocks,
                         const uint32_t *deadline, int side, uint32_t m, uint32_t *next)
{
    const struct trace *trace = job->sides[side];
    const struct trace_operator *op = &trace->operators[m];
    const struct time_windows *windows = windows_of(model, side);
    uint16_t window = windows->of_moment[m];
    bool placed = model->side_count > 1 && time_is_placed(op);
    struct time_work work = op->place == TRACE_ON_HOST
                                ? host_work(job, trace, windows, m, deadline[m])
                            : trace_operator_reduces(op)
                                ? reduction_work(job, trace, windows, m, deadline[m])
                                : device_work(job, trace, windows, m);
    bool beside = op->place == TRACE_ON_HOST || work.network_ns;
    model->networked |= work.network_ns > 0;
    if (placed) {
        uint32_t group = time_group_of(trace, job->plan->layout, m);
        g_array_append_val(g_array_index(blocks, struct time_block, group).work[side], work);
        return;
    }
    if (side == 0)
        model->compute_ns[window] += work.compute_ns;
    work.compute_ns = 0;
    if (beside) {
        if (*next == blocks->len)
            add_block(blocks);
        g_array_append_val(g_array_index(blocks, struct time_block, (*next)++).work[side], work);
    }
}

static void add_side(struct time_model *model, const struct side_accesses *accesses, GArray *blocks,
                     int side)
{
    const struct time_job *job = accesses->job;
    const struct trace *trace = job->sides[side];
    g_autofree uint32_t *deadline = find_deadlines(accesses, blocks, side);
    uint32_t next = job->plan->layout->group_count;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        add_operator(model, job, blocks, deadline, side, m, &next);
    model->routes[side] = routes_new(accesses->of[side], trace, windows_of(model, side), deadline);
    for (uint32_t c = 0; c < model->chunk_count; c++)
        model->longest = MAX(model->longest, model->routes[side][c].count);
    if (job->in_order && side + 1 == (int)model->side_count)
        model->chain_operators = chain_operators_new(job, trace, accesses->of[side], deadline,
                                                     blocks->len);
}

/* Excludes the sides on which an update's chunks alone exceed the device. */
static void exclude_sides(const struct time_model *model, const struct side_accesses *accesses,
                          GArray *blocks)
{
    const struct time_job *job = accesses->job;
    for (int side = 0; side < (int)accesses->count && accesses->count > 1; side++) {
        const struct trace *trace = job->sides[side];
        const struct accesses *of_side = accesses->of[side];
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            uint64_t bytes = 0;
            for (uint32_t a = of_side->first[m]; a < of_side->first[m + 1]; a++)
                if (!(of_side->items[a].flags & ACCESS_ON_HOST)) /* as a gathered copy is */
                    bytes += model->chunks[of_side->items[a].chunk].bytes;
            if (time_is_placed(&trace->operators[m]) &&
                trace->operators[m].place == TRACE_ON_DEVICE && bytes > job->plan->device_budget)
                g_array_index(blocks, struct time_block, time_group_of(trace, job->plan->layout, m))
                    .excluded[side] = true;
        }
    }
}

static void add_sides(struct time_model *model, const struct time_job *job, GArray *blocks)
{
    struct non_model *non_model = non_model_place(job->sides[0]);
    struct side_accesses accesses = {.job = job, .count = model->side_count};
    for (uint32_t side = 0; side < model->side_count; side++)
        accesses.of[side] = accesses_new(job->sides[side], job->plan->layout, non_model->extent);
    exclude_sides(model, &accesses, blocks);
    for (uint32_t k = 0; k < job->branch_count; k++) {
        int other = job->branches_on_host >> k & 1 ? TIME_DEVICE : TIME_HOST;
        g_array_index(blocks, struct time_block, job->branches[k]).excluded[other] = true;
    }
    for (uint32_t side = 0; side < model->side_count; side++)
        add_side(model, &accesses, blocks, (int)side);
    for (uint32_t side = 0; side < model->side_count; side++)
        accesses_free(accesses.of[side]);
    non_model_free(non_model);
}

/* At an update of the device, and after it, all chunks share the room beside non-model data. If
 * placing sorts updates, there is none then, or it is not known. */
static void set_room(struct time_model *model, const struct time_job *job)
{
    struct non_model *non_model = non_model_place(job->sides[0]);
    for (uint32_t w = 0; w < model->windows->count; w++) {
        struct time_window *window = &model->windows->items[w];
        uint64_t other = job->sorts ? 0 : non_model->extent[window->moment];
        if (time_window_is_in_update(window->begins))
            window->room = job->plan->device_budget - MIN(other, job->plan->device_budget);
    }
    non_model_free(non_model);
}

static void add_windows(struct time_model *model, const struct time_job *job,
                        const struct reuses *reuses, const struct window_start *starts,
                        uint32_t count)
{
    model->windows = time_windows_new(job->sides[0], reuses, starts, count);
    set_room(model, job);
    if (job->sorts)
        model->host_windows = time_windows_with_updates_first(model->windows,
                                                              time_find_update(job->sides[0]));
}

/* Updates of a group that follow each other, and need much of the device. */
struct update_run {
    moment_id first, last;
    uint32_t group;
    uint64_t bytes;
};

static int by_bytes(const void *left, const void *right)
{
    const struct update_run *a = left, *b = right;
    return a->bytes > b->bytes ? -1 : a->bytes < b->bytes;
}

static GArray *find_runs(const struct time_job *job)
{
    GArray *runs = g_array_new(FALSE, FALSE, sizeof(struct update_run));
    const struct trace *trace = job->sides[0];
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, job->plan->layout, non_model->extent);
    uint32_t begin = job->sorts ? time_find_update(trace) : 0;
    for (uint32_t m = begin; m < trace->operator_count; m++) {
        struct update_run run = {m, m, time_group_of(trace, job->plan->layout, m), 0};
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            if (!(accesses->items[a].flags & ACCESS_ON_HOST))
                run.bytes += job->plan->layout->chunks[accesses->items[a].chunk].slot_bytes;
        if (run.group == NO_INDEX || trace->operators[m].place != TRACE_ON_DEVICE ||
            run.bytes < job->plan->device_budget / LEAST_PART ||
            run.bytes > job->plan->device_budget)
            continue;
        struct update_run *last = runs->len ? &g_array_index(runs, struct update_run, runs->len - 1)
                                            : NULL;
        if (last && last->group == run.group && last->last + 1 == m)
            last->last = m;
        else
            g_array_append_val(runs, run);
    }
    accesses_free(accesses);
    non_model_free(non_model);
    return runs;
}

void time_windows_choose_updates(const struct time_job *job, GArray *starts)
{
    if (!starts->len || !job->in_order)
        return;
    const struct trace *trace = job->sides[0];
    moment_id first = g_array_index(starts, struct window_start, 0).moment;
    g_autoptr(GArray) runs = find_runs(job);
    g_array_sort(runs, by_bytes);
    for (guint i = 0; i < MIN(runs->len, RUNS_MOST); i++) {
        const struct update_run *run = &g_array_index(runs, struct update_run, i);
        const struct window_start before = {run->first, WINDOW_AT_UPDATE},
                                  after = {run->last, WINDOW_AFTER_UPDATE};
        if (run->first < first)
            continue;
        if (time_window_may_begin_at(&trace->operators[run->first], WINDOW_AT_UPDATE))
            g_array_append_val(starts, before);
        if (time_window_may_begin_at(&trace->operators[run->last], WINDOW_AFTER_UPDATE))
            g_array_append_val(starts, after);
    }
    g_array_sort(starts, window_start_compare);
}

bool time_job_may_begin(const struct time_job *job, const struct window_start *starts,
                        uint32_t count)
{
    uint32_t update = job->sorts ? time_find_update(job->sides[0]) : 0;
    for (uint32_t w = 0; w < count; w++) {
        if (time_window_is_in_update(starts[w].begins) &&
            (!job->in_order || starts[w].moment < update))
            return false;
        if (starts[w].begins == WINDOW_AFTER_OPERATOR && !time_windows_may_end(job))
            return false;
    }
    return time_windows_are_possible(job->sides[0], starts, count);
}

static struct route_chunk copied_chunk(const struct time_job *job, const struct chunk *chunk)
{
    uint64_t h2d_ns = time_job_copy_ns(job, &job->costs->h2d, chunk->copy_bytes);
    uint64_t d2h_ns = time_job_copy_ns(job, &job->costs->d2h, chunk->copy_bytes);
    return (struct route_chunk){
        .fetch_ns = h2d_ns,
        .d2h_ns = d2h_ns,
        .memory_ns = time_job_memory_ns(job, chunk->copy_bytes, MIN(h2d_ns, d2h_ns)),
        .bytes = chunk->slot_bytes,
        .host_bytes = chunk->copy_bytes,
        .fetched_by = WINDOW_H2D};
}

/* A gathered chunk has no slot on the host. Its shards may be on the device. */
static struct route_chunk gathered_chunk(const struct time_job *job,
                                         const struct network_times *network, uint32_t c)
{
    return (struct route_chunk){.fetch_ns = time_job_at_least(job, network->gather_ns[c]),
                                .bytes = job->plan->layout->chunks[c].slot_bytes,
                                .fetched_by = WINDOW_NETWORK};
}

static void add_groups(struct time_model *model, const struct time_job *job, GArray *blocks)
{
    const struct layout *layout = job->plan->layout;
    struct network_times *network = network_times_new(job->sides[0], layout, job->costs);
    for (uint32_t g = 0; g < layout->group_count; g++)
        add_block(blocks);
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        const struct chunk *chunk = &layout->chunks[c];
        model->chunks[c] = chunk->list == TRACE_GATHERED ? gathered_chunk(job, network, c)
                                                         : copied_chunk(job, chunk);
        model->networked |= chunk->list == TRACE_GATHERED;
        g_array_append_val(g_array_index(blocks, struct time_block, chunk->group).chunks, c);
    }
    network_times_free(network);
}

struct time_model *time_model_new(const struct time_job *job, const struct reuses *reuses,
                                  const struct window_start *starts, uint32_t count)
{
    struct time_model *model = g_new0(struct time_model, 1);
    GArray *blocks = g_array_new(FALSE, FALSE, sizeof(struct time_block));
    add_windows(model, job, reuses, starts, count);
    model->compute_ns = g_new0(uint64_t, count);
    model->side_count = job->sides[TIME_HOST] ? 2 : 1;
    model->shares_memory = job->costs->host_rate > 0;
    model->watch = job->watch;
    /* What lives in NVMe counts as if the host had room for it. */
    model->host_bytes = job->plan->nvme_bytes ? UINT64_MAX : job->plan->host_budget;
    model->chunk_count = job->plan->layout->chunk_count;
    model->chunks = g_new(struct route_chunk, model->chunk_count);
    add_groups(model, job, blocks);
    add_sides(model, job, blocks);
    model->block_count = blocks->len;
    model->blocks = (struct time_block *)(void *)g_array_free(blocks, FALSE);
    time_model_find_kinds(model);
    return model;
}

void time_model_free(struct time_model *model)
{
    if (!model)
        return;
    for (uint32_t b = 0; b < model->block_count; b++) {
        g_array_unref(model->blocks[b].chunks);
        for (int side = 0; side < TIME_SIDES; side++)
            g_array_unref(model->blocks[b].work[side]);
    }
    for (int side = 0; side < TIME_SIDES; side++)
        routes_free(model->routes[side], model->chunk_count);
    g_free(model->blocks);
    g_free(model->kinds);
    g_free(model->kind_of);
    g_free(model->chunks);
    g_free(model->compute_ns);
    chain_operators_free(model->chain_operators);
    time_windows_free(model->windows);
    time_windows_free(model->host_windows);
    g_free(model);
}
