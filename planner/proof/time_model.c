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
    return (struct time_work){.host_ns = time_job_at_least(job, op->duration_ns) + network_ns,
                              .network_ns = network_ns,
                              .h2d_ns = time_job_copy_ns(job, &job->costs->h2d, op->h2d_bytes),
                              .d2h_ns = time_job_copy_ns(job, &job->costs->d2h, op->d2h_bytes),
                              .idle_ns = time_job_activations_ns(job, op, trace->ranks),
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
        if (window->begins != WINDOW_AT_OPERATOR)
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
    for (uint32_t w = 0; w < count; w++)
        if (starts[w].begins != WINDOW_AT_OPERATOR && (!job->in_order || starts[w].moment < update))
            return false;
    return time_windows_are_possible(job->sides[0], starts, count);
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
        model->chunks[c] =
            (struct route_chunk){time_job_copy_ns(job, &job->costs->h2d, chunk->copy_bytes),
                                 time_job_copy_ns(job, &job->costs->d2h, chunk->copy_bytes),
                                 chunk->slot_bytes, chunk->copy_bytes, WINDOW_H2D};
        if (chunk->list == TRACE_GATHERED)
            model->chunks[c] = gathered_chunk(job, network, c);
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
    model->host_bytes = job->plan->host_budget;
    model->chunk_count = job->plan->layout->chunk_count;
    model->chunks = g_new(struct route_chunk, model->chunk_count);
    add_groups(model, job, blocks);
    add_sides(model, job, blocks);
    model->block_count = blocks->len;
    model->blocks = (struct time_block *)(void *)g_array_free(blocks, FALSE);
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
    g_free(model->chunks);
    g_free(model->compute_ns);
    chain_operators_free(model->chain_operators);
    time_windows_free(model->windows);
    time_windows_free(model->host_windows);
    g_free(model);
}

/* ---- the bound ---- */

struct bound_evaluation {
    const struct time_model *model;
    const struct time_prices *prices;
    uint64_t *compute_price;       /* [window count] what other prices leave */
    uint8_t (*from)[ROUTE_STATES]; /* [longest] */
};

static void set_compute_prices(const struct bound_evaluation *e)
{
    uint32_t count = e->model->windows->count;
    for (uint32_t w = 0; w < count; w++) {
        const struct certificate_window *price = &e->prices->windows[w];
        e->compute_price[w] = BOUND_PRICE_SCALE - window_prices(price);
    }
    for (uint32_t r = 0; r < e->prices->chain_count; r++) {
        const struct time_chain *chain = &e->prices->chains[r];
        for (uint32_t i = 0; i < chain->span; i++)
            e->compute_price[(chain->window + i) % count] -= chain->ends.price;
    }
}

/* Puts the time for which the device is idle into the cheapest of its windows. */
static scaled_ns place_idle(const struct bound_evaluation *e, const struct time_work *work,
                            uint64_t (*use)[WINDOW_USES])
{
    uint32_t count = e->model->windows->count, best = work->idle_window;
    for (uint32_t i = 1; i <= work->idle_span; i++) {
        uint32_t w = (work->idle_window + i) % count;
        best = e->compute_price[w] < e->compute_price[best] ? w : best;
    }
    if (use)
        use[best][WINDOW_COMPUTE] += work->idle_ns;
    return (scaled_ns)e->compute_price[best] * work->idle_ns;
}

/* Puts the work into the cheapest of its windows, the first and `span` others; `use` may be NULL.
 */
static scaled_ns place_work(const struct bound_evaluation *e, const struct time_work *work,
                            uint32_t span, enum window_resource resource, uint64_t ns,
                            uint64_t (*use)[WINDOW_USES])
{
    const struct certificate_window *prices = e->prices->windows;
    uint32_t count = e->model->windows->count, best = work->window;
    for (uint32_t i = 1; i <= span; i++) {
        uint32_t w = (work->window + i) % count;
        if (window_price(&prices[w], resource) < window_price(&prices[best], resource))
            best = w;
    }
    if (use)
        use[best][resource] += ns;
    return (scaled_ns)window_price(&prices[best], resource) * ns;
}

static scaled_ns work_cost(const struct bound_evaluation *e, const struct time_work *work,
                           uint64_t (*use)[WINDOW_USES])
{
    scaled_ns cost = (scaled_ns)e->compute_price[work->window] * work->compute_ns;
    if (use)
        use[work->window][WINDOW_COMPUTE] += work->compute_ns;
    cost += place_work(e, work, work->span, WINDOW_HOST, work->host_ns, use);
    cost += place_work(e, work, work->span, WINDOW_H2D, work->h2d_ns, use);
    cost += place_work(e, work, work->span, WINDOW_NETWORK, work->network_ns, use);
    cost += work->idle_ns ? place_idle(e, work, use) : 0;
    return cost + place_work(e, work, work->d2h_span, WINDOW_D2H, work->d2h_ns, use);
}

/* Returns the price of the block's part in chains, if its updates run on the host. */
static scaled_ns chains_cost(const struct bound_evaluation *e, uint32_t block)
{
    scaled_ns cost = 0;
    for (uint32_t r = 0; r < e->prices->chain_count; r++) {
        const struct time_chain *chain = &e->prices->chains[r];
        cost += (scaled_ns)chain->ends.price * chain->host_ns[block];
    }
    return cost;
}

/* What a block takes. */
struct block_use {
    uint64_t (*windows)[WINDOW_USES]; /* [window count] */
    uint64_t host_bytes;
};

/* Returns the cost of a chunk on its cheapest route, with a place on the host or, if it is never
 * copied, without. */
/* Returns whether what is cheapest for one chunk is so for the other. */
static bool chunks_are_alike(const struct time_model *model, int side, uint32_t a, uint32_t b)
{
    const struct route_chunk *x = &model->chunks[a], *y = &model->chunks[b];
    return x->fetch_ns == y->fetch_ns && x->d2h_ns == y->d2h_ns && x->bytes == y->bytes &&
           x->host_bytes == y->host_bytes && x->fetched_by == y->fetched_by &&
           routes_are_alike(&model->routes[side][a], &model->routes[side][b]);
}

static void use_chunk(const struct bound_evaluation *e, int side, uint32_t c, bool has_host_slot,
                      struct block_use *use)
{
    const struct route_chunk *chunk = &e->model->chunks[c];
    route_follow(&e->model->routes[side][c], chunk, e->prices->windows, e->from, use->windows);
    use->host_bytes += has_host_slot ? chunk->host_bytes : 0;
}

static scaled_ns chunk_cost(const struct bound_evaluation *e, int side, uint32_t c, bool routed,
                            bool *has_host_slot)
{
    const struct route *route = &e->model->routes[side][c];
    const struct route_chunk *chunk = &e->model->chunks[c];
    const struct certificate_window *prices = e->prices->windows;
    scaled_ns cost = route_cheapest(route, chunk, prices, true, routed ? e->from : NULL) +
                     (scaled_ns)e->prices->host_bytes * chunk->host_bytes;
    *has_host_slot = true;
    if (!route->used_on_host && e->prices->host_bytes &&
        route_cheapest(route, chunk, prices, false, NULL) < cost) {
        cost = route_cheapest(route, chunk, prices, false, routed ? e->from : NULL);
        *has_host_slot = false;
    }
    return cost;
}

/* Returns the cost of the chunks of a block. The optimizer states of a group are alike, and lie one
 * behind the other. */
static scaled_ns chunks_cost(const struct bound_evaluation *e, int side, const GArray *chunks,
                             struct block_use *use)
{
    scaled_ns cost = 0, of_one = 0;
    bool has_host_slot = false;
    for (guint i = 0; i < chunks->len; i++) {
        uint32_t c = g_array_index(chunks, uint32_t, i);
        if (!i || !chunks_are_alike(e->model, side, c, g_array_index(chunks, uint32_t, i - 1)))
            of_one = chunk_cost(e, side, c, use != NULL, &has_host_slot);
        if (use)
            use_chunk(e, side, c, has_host_slot, use);
        cost += of_one;
    }
    return cost;
}

static scaled_ns side_cost(const struct bound_evaluation *e, uint32_t b, int side,
                           struct block_use *use)
{
    const struct time_block *block = &e->model->blocks[b];
    scaled_ns cost = side == TIME_HOST ? chains_cost(e, b) : 0;
    for (guint i = 0; i < block->work[side]->len; i++)
        cost += work_cost(e, &g_array_index(block->work[side], struct time_work, i),
                          use ? use->windows : NULL);
    return cost + chunks_cost(e, side, block->chunks, use);
}

static scaled_ns block_cost(const struct bound_evaluation *e, uint32_t b,
                            const struct time_use *use)
{
    const bool *excluded = e->model->blocks[b].excluded;
    scaled_ns least = side_cost(e, b, TIME_DEVICE, NULL);
    uint8_t best = TIME_DEVICE;
    if (e->model->side_count > 1 && !excluded[TIME_HOST]) {
        scaled_ns other = side_cost(e, b, TIME_HOST, NULL);
        if (other < least || excluded[TIME_DEVICE]) {
            best = TIME_HOST;
            least = other;
        }
    }
    if (use) {
        struct block_use taken = {use->windows + (size_t)b * e->model->windows->count, 0};
        side_cost(e, b, best, &taken);
        use->host_bytes[b] = taken.host_bytes;
        use->side[b] = best;
    }
    return least;
}

scaled_ns time_model_bound(const struct time_model *model, const struct time_prices *prices,
                           const struct time_use *use)
{
    uint32_t count = model->windows->count;
    g_autofree uint8_t(*from)[ROUTE_STATES] = g_malloc0(MAX(model->longest, 1) * sizeof *from);
    g_autofree uint64_t *compute_price = g_new(uint64_t, count);
    const struct bound_evaluation evaluation = {model, prices, compute_price, from};
    scaled_ns bound = 0;
    if (use)
        memset(use->windows, 0, (size_t)model->block_count * count * sizeof *use->windows);
    set_compute_prices(&evaluation);
    for (uint32_t w = 0; w < count; w++) {
        const struct certificate_window *price = &prices->windows[w];
        uint64_t room = model->windows->items[w].room;
        bound += (scaled_ns)compute_price[w] * model->compute_ns[w] -
                 (scaled_ns)price->room * room -
                 (scaled_ns)price->whole * window_whole(price, room);
    }
    for (uint32_t r = 0; r < prices->chain_count; r++)
        bound += (scaled_ns)prices->chains[r].ends.price * prices->chains[r].always_ns;
    if (model->host_bytes != UINT64_MAX)
        bound -= (scaled_ns)prices->host_bytes * model->host_bytes;
    for (uint32_t b = 0; b < model->block_count; b++)
        bound += block_cost(&evaluation, b, use);
    return bound;
}
