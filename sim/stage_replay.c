#include "sim/stage_replay.h"

#include "chunks/residency/residency.h"
#include "sim/clock.h"

#include <math.h>

enum { ITERATIONS_LEAST = 3, ITERATIONS_MOST = 8 };

/* A message that is sent and not received. */
struct letter {
    uint64_t arrival_ns, way_ns; /* when it is there, and how long it was on its way */
};

struct stage_run {
    const struct stage_view *view;
    struct sim_clock *clock;
    struct residency *residency;
    struct timeline *timeline;
    moment_id moment; /* comes next */
    bool met;         /* the other stages have come to the first update, too */
    uint64_t *way_ns; /* [moments] how long what it waited for was on its way */
    struct plan_figures lap, before;
};

struct stage_runs {
    const struct stage_messages *messages;
    const struct costs *costs;
    struct stage_run *runs; /* [stages] */
    GQueue *letters;        /* [queues] of struct letter */
    uint64_t *free_ns;      /* [stages * stages] when the way from a stage to another is free */
};

static void open_run(struct stage_run *run, const struct stage_view *view,
                     struct timeline *timeline)
{
    const struct sim_job job = {.trace = view->view.trace,
                                .plan = view->plan,
                                .non_model = view->view.accesses->non_model,
                                .costs = view->view.costs,
                                .timeline = timeline};
    *run = (struct stage_run){.view = view, .timeline = timeline};
    run->clock = sim_clock_new(&job);
    run->residency = residency_new(view->plan, view->view.accesses, view->view.trace,
                                   &sim_clock_mover, run->clock);
    run->way_ns = g_new0(uint64_t, view->plan->moment_count);
    residency_load(run->residency);
    sim_clock_await_copies(run->clock);
    sim_clock_lap(run->clock);
}

static void close_run(struct stage_run *run)
{
    residency_free(run->residency);
    sim_clock_free(run->clock);
    g_free(run->way_ns);
}

/* ---- messages ---- */

static void post(struct stage_runs *all, const struct stage_message *message, uint64_t sent_ns)
{
    const struct costs_message time = costs_message(all->costs, message->from, message->to,
                                                    message->bytes);
    uint64_t *free_ns = &all->free_ns[message->from * all->messages->stages + message->to];
    uint64_t start_ns = MAX(sent_ns, *free_ns);
    struct letter *letter = g_new(struct letter, 1);
    *free_ns = start_ns + time.way_ns;
    *letter = (struct letter){start_ns + time.all_ns, start_ns + time.all_ns - sent_ns};
    g_queue_push_tail(&all->letters[message->queue], letter);
}

/* Lets the stage's next operator wait for its message. Returns false if it has not been sent. */
static bool expect(struct stage_runs *all, struct stage_run *run,
                   const struct stage_message *message)
{
    g_autofree struct letter *letter = g_queue_pop_head(&all->letters[message->queue]);
    if (!letter)
        return false;
    sim_clock_expect(run->clock, letter->arrival_ns);
    run->way_ns[run->moment] = letter->way_ns;
    return true;
}

/* Lets all stages wait for the last one to come to the first update. */
static void meet(struct stage_runs *all)
{
    uint32_t stages = all->messages->stages;
    const struct costs_message time = costs_message(all->costs, 0, stages - 1,
                                                    (stages - 1) * all->messages->shown_bytes);
    uint64_t last_ns = 0;
    for (uint32_t s = 0; s < stages; s++) {
        struct stage_run *run = &all->runs[s];
        g_assert(run->moment == all->messages->meeting[s] && !run->met);
        last_ns = MAX(last_ns, sim_clock_await_exchanges(run->clock));
    }
    for (uint32_t s = 0; s < stages; s++) {
        struct stage_run *run = &all->runs[s];
        run->met = true;
        run->way_ns[run->moment] = time.all_ns;
        sim_clock_expect(run->clock, last_ns + time.all_ns);
    }
}

/* What a step before the first would have sent is there when the first begins. */
static void send_before(struct stage_runs *all)
{
    for (uint32_t q = 0; q < all->messages->queues; q++)
        for (uint32_t i = 0; i < all->messages->under_way[q]; i++)
            g_queue_push_tail(&all->letters[q], g_new0(struct letter, 1));
}

/* ---- iterations ---- */

/* Goes on until the stage has to wait. Returns whether it went on at all. */
static bool go_on(struct stage_runs *all, uint32_t s)
{
    struct stage_run *run = &all->runs[s];
    moment_id first = run->moment;
    for (; run->moment < run->view->plan->moment_count; run->moment++) {
        const struct stage_message *message = &all->messages->of[s][run->moment];
        bool passes = message->queue != NO_INDEX;
        if ((run->moment == all->messages->meeting[s] && !run->met) ||
            (passes && !message->sends && !expect(all, run, message)))
            break;
        residency_step(run->residency, run->moment);
        if (passes && message->sends)
            post(all, message, sim_clock_now(run->clock));
    }
    return run->moment > first;
}

static bool is_over(const struct stage_runs *all)
{
    for (uint32_t s = 0; s < all->messages->stages; s++)
        if (all->runs[s].moment < all->runs[s].view->plan->moment_count)
            return false;
    return true;
}

/* Replays an iteration. Returns whether every stage took as long as in the one before. */
static bool iterate(struct stage_runs *all)
{
    bool settled = true;
    for (uint32_t s = 0; s < all->messages->stages; s++) {
        all->runs[s].moment = 0;
        all->runs[s].met = false;
    }
    while (!is_over(all)) {
        bool moved = false;
        for (uint32_t s = 0; s < all->messages->stages; s++)
            moved |= go_on(all, s);
        if (!moved)
            meet(all);
    }
    for (uint32_t s = 0; s < all->messages->stages; s++) {
        struct stage_run *run = &all->runs[s];
        run->before = run->lap;
        run->lap = sim_clock_lap(run->clock);
        settled &= run->lap.iteration_seconds == run->before.iteration_seconds;
    }
    return settled;
}

/* ---- where the time goes ---- */

/* A stage's step, in nanoseconds. */
struct stage_waits {
    uint64_t passes_ns;   /* operators of forward and backward */
    uint64_t messages_ns; /* copies of messages */
    uint64_t way_ns;      /* waits for messages that are on their way */
    uint64_t copies_ns;   /* waits for anything but other stages */
    uint64_t warm_up_ns;  /* waits for other stages before the first backward pass, */
    uint64_t drain_ns;    /* after the last forward pass, */
    uint64_t between_ns;  /* and between these */
};

/* The bounds between warm-up, what follows and drain. */
struct pass_bounds {
    moment_id first_backward, last_forward;
};

static struct pass_bounds bounds_of(const struct trace *trace)
{
    struct pass_bounds bounds = {trace->operator_count, 0};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (trace->operators[m].phase == TRACE_FORWARD)
            bounds.last_forward = m;
        if (trace->operators[m].phase == TRACE_BACKWARD)
            bounds.first_backward = MIN(bounds.first_backward, m);
    }
    return bounds;
}

/* A wait of the next iteration's first operators stands at the end of this one. */
static uint64_t shown_ns(const struct timeline *timeline, const struct timeline_stall *stall)
{
    uint64_t begin = MAX(stall->start_ns, timeline->begin_ns);
    uint64_t end = MIN(stall->start_ns + stall->wait_ns, timeline->end_ns);
    return end > begin ? end - begin : 0;
}

static bool waits_for_stages(const struct stage_messages *messages, uint32_t stage,
                             const struct timeline_stall *stall)
{
    const struct stage_message *message = &messages->of[stage][stall->moment];
    bool receives = message->queue != NO_INDEX && !message->sends;
    return stall->queue == MOVER_NETWORK && (receives || stall->moment == messages->meeting[stage]);
}

static void count_stall(struct stage_waits *waits, const struct pass_bounds *bounds,
                        moment_id moment, uint64_t waited_ns, uint64_t way_ns)
{
    uint64_t on_way = MIN(waited_ns, way_ns);
    waits->way_ns += on_way;
    *(moment <= bounds->first_backward ? &waits->warm_up_ns
      : moment > bounds->last_forward  ? &waits->drain_ns
                                       : &waits->between_ns) += waited_ns - on_way;
}

static struct stage_waits stage_waits_of(const struct timeline *timeline, const struct trace *trace,
                                         const struct stage_messages *messages, uint32_t stage,
                                         const uint64_t *way_ns)
{
    const struct pass_bounds bounds = bounds_of(trace);
    const GArray *spans = timeline->spans[MOVER_COMPUTE];
    struct stage_waits waits = {0};
    for (guint i = 0; i < timeline->stalls->len; i++) {
        const struct timeline_stall *stall = &g_array_index(timeline->stalls, struct timeline_stall,
                                                            i);
        uint64_t waited_ns = shown_ns(timeline, stall);
        if (waits_for_stages(messages, stage, stall))
            count_stall(&waits, &bounds, stall->moment, waited_ns, way_ns[stall->moment]);
        else
            waits.copies_ns += waited_ns;
    }
    for (guint i = timeline->first[MOVER_COMPUTE]; i < timeline->shown[MOVER_COMPUTE]; i++) {
        const struct timeline_span *span = &g_array_index(spans, struct timeline_span, i);
        bool passes = messages->of[stage][span->moment].queue != NO_INDEX;
        if (span->kind != TIMELINE_OPERATOR ||
            trace->operators[span->moment].phase == TRACE_UPDATE_PHASE)
            continue;
        *(passes ? &waits.messages_ns : &waits.passes_ns) += span->end_ns - span->start_ns;
    }
    return waits;
}

static double seconds_of(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* Of the waits of warm-up and drain, what the slowest stage computes more is due to imbalance, as
 * far as the waits between are not that already. */
static struct stage_times times_of(const struct stage_waits *waits, uint64_t most_ns,
                                   double seconds)
{
    uint64_t more = most_ns - waits->passes_ns, ends = waits->warm_up_ns + waits->drain_ns;
    uint64_t unequal = MIN(ends, more > waits->between_ns ? more - waits->between_ns : 0);
    double share = ends ? (double)(ends - unequal) / (double)ends : 0;
    struct stage_times times = {
        .warm_up = share * seconds_of(waits->warm_up_ns),
        .drain = share * seconds_of(waits->drain_ns),
        .imbalance = seconds_of(waits->between_ns + unequal),
        .communication = seconds_of(waits->way_ns + waits->messages_ns),
        .copies = seconds_of(waits->copies_ns),
    };
    times.compute = seconds - times.warm_up - times.drain - times.imbalance - times.communication -
                    times.copies;
    return times;
}

static void stage_times_set(const struct stage_waits *waits, uint32_t stages, double seconds,
                            struct stage_result *results)
{
    uint64_t most_ns = 0;
    for (uint32_t s = 0; s < stages; s++)
        most_ns = MAX(most_ns, waits[s].passes_ns);
    for (uint32_t s = 0; s < stages; s++)
        results[s].times = times_of(&waits[s], most_ns, seconds);
}

/* ---- results ---- */

/* The pipeline is as fast as its slowest stage. */
static double step_seconds(const struct stage_runs *all)
{
    double seconds = 0;
    for (uint32_t s = 0; s < all->messages->stages; s++) {
        const struct stage_run *run = &all->runs[s];
        seconds = fmax(seconds, fmax(run->lap.iteration_seconds,
                                     (double)sim_clock_busiest_ns(run->clock) * 1e-9));
    }
    return seconds;
}

static struct stage_result describe_stage(const struct stage_view *view)
{
    const struct trace *trace = view->view.trace;
    g_autoptr(GHashTable) layers = g_hash_table_new(NULL, NULL);
    uint32_t first = UINT32_MAX;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].layer >= 0) {
            first = MIN(first, (uint32_t)trace->operators[m].layer);
            g_hash_table_add(layers, GINT_TO_POINTER(trace->operators[m].layer));
        }
    return (struct stage_result){.first_layer = first < UINT32_MAX ? first : 0,
                                 .layers = g_hash_table_size(layers),
                                 .in_flight = trace_most_in_flight(trace),
                                 .device_bytes = view->plan->arena_bytes,
                                 .host_bytes = view->plan->host_pool_bytes};
}

/* ---- passes ---- */

static bool is_of_pass(const struct stage_pass *pass, const struct trace_operator *op)
{
    return pass->micro_batch == op->micro_batch && pass->phase == (enum trace_phase)op->phase;
}

static GArray *passes_of(const struct timeline *timeline, const struct trace *trace)
{
    GArray *passes = g_array_new(FALSE, FALSE, sizeof(struct stage_pass));
    for (guint i = timeline->first[MOVER_COMPUTE]; i < timeline->shown[MOVER_COMPUTE]; i++) {
        const struct timeline_span *span = &g_array_index(timeline->spans[MOVER_COMPUTE],
                                                          struct timeline_span, i);
        const struct trace_operator *op = &trace->operators[span->moment];
        struct stage_pass *last = passes->len
                                      ? &g_array_index(passes, struct stage_pass, passes->len - 1)
                                      : NULL;
        if (span->kind != TIMELINE_OPERATOR)
            continue;
        bool waited = op->exchange[TRACE_PASS].received_bytes && last &&
                      last->end < seconds_of(span->start_ns);
        if (last && is_of_pass(last, op) && !waited) {
            last->end = seconds_of(span->end_ns);
            continue;
        }
        const struct stage_pass pass = {seconds_of(span->start_ns), seconds_of(span->end_ns),
                                        op->micro_batch, (enum trace_phase)op->phase};
        g_array_append_val(passes, pass);
    }
    return passes;
}

/* Lets time begin with the first pass of all stages. */
static void shift_passes(struct stage_result *results, uint32_t stages)
{
    double first = INFINITY;
    for (uint32_t s = 0; s < stages; s++)
        if (results[s].passes->len)
            first = fmin(first, g_array_index(results[s].passes, struct stage_pass, 0).start);
    for (uint32_t s = 0; s < stages; s++)
        for (guint p = 0; p < results[s].passes->len; p++) {
            struct stage_pass *pass = &g_array_index(results[s].passes, struct stage_pass, p);
            pass->start -= first;
            pass->end -= first;
        }
}

void stage_results_free(struct stage_result *results, uint32_t stages)
{
    for (uint32_t s = 0; results && s < stages; s++)
        g_clear_pointer(&results[s].passes, g_array_unref);
    g_free(results);
}

static void set_results(const struct stage_runs *all, struct stage_result *results)
{
    uint32_t stages = all->messages->stages;
    double seconds = step_seconds(all);
    g_autofree struct stage_waits *waits = g_new0(struct stage_waits, stages);
    for (uint32_t s = 0; s < stages; s++) {
        const struct stage_run *run = &all->runs[s];
        results[s] = describe_stage(run->view);
        results[s].figures = run->lap;
        results[s].figures.iteration_seconds = seconds;
        if (!run->timeline)
            continue;
        results[s].passes = passes_of(run->timeline, run->view->view.trace);
        waits[s] = stage_waits_of(run->timeline, run->view->view.trace, all->messages, s,
                                  run->way_ns);
    }
    if (!all->runs[0].timeline)
        return;
    stage_times_set(waits, stages, seconds, results);
    shift_passes(results, stages);
}

void stages_replay(const struct stage_view *stages, const struct stage_messages *messages,
                   struct timeline *const *timelines, struct stage_result *results)
{
    uint32_t count = messages->stages;
    struct stage_runs all = {.messages = messages,
                             .costs = stages[0].view.costs,
                             .runs = g_new0(struct stage_run, count),
                             .letters = g_new0(GQueue, messages->queues),
                             .free_ns = g_new0(uint64_t, (size_t)count * count)};
    for (uint32_t s = 0; s < count; s++)
        open_run(&all.runs[s], &stages[s], timelines ? timelines[s] : NULL);
    send_before(&all);
    for (int i = 1; i <= ITERATIONS_MOST; i++)
        if (iterate(&all) && i >= ITERATIONS_LEAST)
            break;
    set_results(&all, results);
    for (uint32_t s = 0; s < count; s++)
        close_run(&all.runs[s]);
    for (uint32_t q = 0; q < messages->queues; q++)
        g_queue_clear_full(&all.letters[q], g_free);
    g_free(all.runs);
    g_free(all.letters);
    g_free(all.free_ns);
}
