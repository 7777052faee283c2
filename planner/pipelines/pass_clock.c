#include "planner/pipelines/pass_clock.h"

#include "planner/pipelines/stage_links.h"

enum { STEPS_LEAST = 3, STEPS_MOST = 24 };

/* Messages of one kind on their way from a stage to another, by when they are there. There are
 * never more than a step's, and one. */
struct letters {
    uint64_t *arrival_ns; /* [room] */
    uint32_t room, sent, received;
};

struct clock_stage {
    const struct stage_cost *cost;
    struct pipeline_pass *passes;   /* [pass_count] */
    struct stage_pass_times *times; /* [parts] */
    uint32_t pass_count, next;      /* pass of this step */
    uint64_t now_ns, met_ns;
    double stretch;       /* of passes, by chunks that come and go */
    uint64_t reducing_ns; /* when the last reduction of the ranks is over */
    bool met;             /* with the other stages, before the step's updates */
    uint64_t reduced_ns;  /* when this step's gradients are summed */
    uint64_t update_ns;
};

struct pass_clock {
    const struct pipeline_job *job;
    uint32_t pieces; /* parts of all stages */
    struct clock_stage *stages;
    struct letters *activation; /* [pieces] from each piece to the next */
    struct letters *gradient;   /* [pieces] to the piece before */
    struct letters tied;        /* gradients of tied weights, to the first stage */
    uint64_t *free_ns;          /* [stages * stages] when the way between two is free */
    uint64_t shown_ns;
    bool instant;
};

static void letters_init(struct letters *letters, const struct pipeline_job *job)
{
    letters->room = job->micro_batches + 2;
    letters->arrival_ns = g_new0(uint64_t, letters->room);
}

/* Returns when a message is there that is sent now. */
static uint64_t arrival_ns(struct pass_clock *clock, uint32_t from, uint32_t to, uint64_t bytes,
                           uint64_t sent_ns)
{
    struct costs_message time = {0, 0};
    uint64_t *free_ns = &clock->free_ns[from * clock->job->stages + to];
    if (!clock->instant)
        time = costs_message(clock->job->costs, from, to, bytes);
    uint64_t start_ns = MAX(sent_ns, *free_ns);
    *free_ns = start_ns + time.way_ns;
    return start_ns + time.all_ns;
}

static void put(struct letters *letters, uint64_t ns)
{
    letters->arrival_ns[letters->sent++ % letters->room] = ns;
}

static bool is_there(const struct letters *letters)
{
    return letters->received < letters->sent;
}

/* Waits for the next message. Returns when the stage goes on. */
static uint64_t await(struct letters *letters, uint64_t now_ns)
{
    uint64_t there_ns = letters->arrival_ns[letters->received++ % letters->room];
    return MAX(now_ns, there_ns);
}

static uint32_t turn_of(const struct pipeline_pass *pass)
{
    return pass->micro_batch == 0 ? UNIT_FIRST : UNIT_LATER;
}

/* ---- passes ---- */

/* Returns the time in the stage, where chunks that come and go make passes longer. */
static uint64_t lasting(const struct clock_stage *stage, uint64_t ns)
{
    return stage->stretch == 1 ? ns : (uint64_t)((double)ns * stage->stretch);
}

/* Messages, forward passes and updates wait for the last reduction. */
static void await_reductions(struct clock_stage *stage)
{
    stage->now_ns = MAX(stage->now_ns, stage->reducing_ns);
}

static void copy_message(const struct pass_clock *clock, struct clock_stage *stage)
{
    await_reductions(stage);
    stage->now_ns += lasting(stage, clock->job->units->stream_ns);
}

static void run_forward(struct pass_clock *clock, uint32_t s, const struct pipeline_pass *pass)
{
    struct clock_stage *stage = &clock->stages[s];
    uint32_t piece = stage_piece(clock->job, s, pass->part), stages = clock->job->stages;
    await_reductions(stage);
    if (piece > 0)
        stage->now_ns = await(&clock->activation[piece - 1], stage->now_ns);
    if (pass->next && pass->micro_batch == 0)
        stage->now_ns += stage->cost->newest_ns;
    stage->now_ns += lasting(stage, stage->times[pass->part].forward_ns[turn_of(pass)]);
    if (piece + 1 < clock->pieces)
        put(&clock->activation[piece], arrival_ns(clock, s, (piece + 1) % stages,
                                                  clock->job->units->stream_bytes, stage->now_ns));
}

/* Returns what the pass, or this half of it, does. */
static struct unit_reductions half_of(const struct pass_clock *clock,
                                      const struct clock_stage *stage,
                                      const struct pipeline_pass *pass)
{
    const struct pipeline_job *job = clock->job;
    const struct stage_pass_times *times = &stage->times[pass->part];
    enum unit_pass half = pass->weights ? UNIT_WEIGHTS : UNIT_BACKWARD;
    bool last = stage_reduces_each(job) && pass->micro_batch + 1 == job->micro_batches;
    if (clock->instant)
        return (struct unit_reductions){.behind_ns = times->computed_ns[half][turn_of(pass)]};
    return times->halves[half][last ? UNIT_LAST : turn_of(pass)];
}

/* Goes on until the last reduction can begin. */
static void run_to_last(struct clock_stage *stage, const struct unit_reductions *half)
{
    if (half->count)
        stage->now_ns = MAX(stage->now_ns + lasting(stage, half->before_ns), stage->reducing_ns) +
                        lasting(stage, half->inner_ns);
}

static void run_behind(struct clock_stage *stage, const struct unit_reductions *half)
{
    if (half->count)
        stage->reducing_ns = stage->now_ns + lasting(stage, half->last_ns);
    stage->now_ns += lasting(stage, half->behind_ns);
}

static void run_weights(struct pass_clock *clock, uint32_t s, const struct pipeline_pass *pass)
{
    struct clock_stage *stage = &clock->stages[s];
    const struct unit_reductions half = half_of(clock, stage, pass);
    run_to_last(stage, &half);
    run_behind(stage, &half);
}

/* The last stage sends the gradient of tied weights behind its first operator. */
static void send_tied(struct pass_clock *clock, uint32_t s, uint32_t turn)
{
    const struct units *units = clock->job->units;
    struct clock_stage *stage = &clock->stages[s];
    uint64_t first_ns = lasting(stage, units->head_first_ns[turn]);
    uint64_t sent_ns = MAX(stage->now_ns + first_ns, stage->reducing_ns) +
                       lasting(stage, units->tied_gradient_ns);
    put(&clock->tied, arrival_ns(clock, s, 0, units->tied_gradient_bytes, sent_ns));
    stage->now_ns = sent_ns - first_ns;
}

/* The first stage needs the gradient of tied weights before its last operator. Of several ranks
 * this is the reduction. */
static void run_to_tied(struct pass_clock *clock, struct clock_stage *stage,
                        const struct unit_reductions *half, uint32_t turn)
{
    const struct units *units = clock->job->units;
    uint64_t last_ns = stage_reduces_each(clock->job) ? 0
                                                      : lasting(stage, units->embed_last_ns[turn]);
    uint64_t before_ns = half->count ? 0 : lasting(stage, half->behind_ns) - last_ns;
    run_to_last(stage, half);
    stage->now_ns = await(&clock->tied, stage->now_ns + before_ns) +
                    lasting(stage, units->tied_gradient_ns + units->tied_add_ns[turn]) - before_ns;
}

static void run_backward(struct pass_clock *clock, uint32_t s, const struct pipeline_pass *pass)
{
    struct clock_stage *stage = &clock->stages[s];
    const struct unit_reductions half = half_of(clock, stage, pass);
    uint32_t piece = stage_piece(clock->job, s, pass->part), stages = clock->job->stages;
    bool tied = stage_tied(clock->job) == STAGE_TIED_EACH;
    if (piece + 1 < clock->pieces) {
        await_reductions(stage);
        stage->now_ns = await(&clock->gradient[piece + 1], stage->now_ns);
        copy_message(clock, stage);
    } else if (tied) {
        send_tied(clock, s, turn_of(pass));
    }
    if (tied && piece == 0)
        run_to_tied(clock, stage, &half, turn_of(pass));
    else
        run_to_last(stage, &half);
    run_behind(stage, &half);
    if (piece == 0)
        return;
    copy_message(clock, stage);
    put(&clock->gradient[piece],
        arrival_ns(clock, s, (piece - 1) % stages, clock->job->units->stream_bytes, stage->now_ns));
}

static bool may_run(const struct pass_clock *clock, uint32_t s, const struct pipeline_pass *pass)
{
    uint32_t piece = stage_piece(clock->job, s, pass->part), last = clock->pieces - 1;
    bool tied = stage_tied(clock->job) == STAGE_TIED_EACH;
    if (pass->weights)
        return true;
    if (!pass->backward)
        return piece == 0 || is_there(&clock->activation[piece - 1]);
    return (piece == last || is_there(&clock->gradient[piece + 1])) &&
           (!tied || piece > 0 || is_there(&clock->tied));
}

static bool go_on(struct pass_clock *clock, uint32_t s)
{
    struct clock_stage *stage = &clock->stages[s];
    uint32_t first = stage->next;
    for (; stage->next < stage->pass_count; stage->next++) {
        const struct pipeline_pass *pass = &stage->passes[stage->next];
        if (!may_run(clock, s, pass))
            break;
        if (pass->weights)
            run_weights(clock, s, pass);
        else if (pass->backward)
            run_backward(clock, s, pass);
        else
            run_forward(clock, s, pass);
    }
    return stage->next > first;
}

/* ---- steps ---- */

/* A step begins with the copy of tied weights. */
static void begin_step(struct pass_clock *clock)
{
    const struct units *units = clock->job->units;
    uint32_t stages = clock->job->stages;
    for (uint32_t s = 0; s < stages; s++)
        clock->stages[s].next = 0;
    if (!stage_copies_tied(clock->job))
        return;
    struct clock_stage *first = &clock->stages[0], *last = &clock->stages[stages - 1];
    first->now_ns += units->tied_ns;
    uint64_t there_ns = arrival_ns(clock, 0, stages - 1, units->tied_bytes, first->now_ns);
    last->now_ns = MAX(last->now_ns, there_ns) + units->tied_ns;
}

/* Returns when the first stage has added the last one's gradient of tied weights to its own. */
static uint64_t tied_added_ns(struct pass_clock *clock)
{
    const struct units *units = clock->job->units;
    uint32_t last = clock->job->stages - 1;
    uint64_t sent_ns = clock->stages[last].now_ns + units->tied_gradient_ns;
    uint64_t there_ns = arrival_ns(clock, last, 0, units->tied_gradient_bytes, sent_ns);
    return MAX(there_ns, clock->stages[0].now_ns) + units->tied_gradient_ns +
           units->tied_add_ns[UNIT_LATER];
}

/* Sums the gradients and updates. With clipping, no stage updates before all have summed. A
 * pipeline that never drains and does not clip goes on meanwhile. */
static void end_step(struct pass_clock *clock)
{
    const struct pipeline_job *job = clock->job;
    bool beside = job->schedule == PIPELINE_2BW && !job->clips && job->width > 1;
    uint64_t last_ns = 0;
    if (stage_tied(job) == STAGE_TIED_ONCE)
        clock->stages[0].now_ns = tied_added_ns(clock);
    for (uint32_t s = 0; s < job->stages; s++) {
        struct clock_stage *stage = &clock->stages[s];
        await_reductions(stage);
        uint64_t begin_ns = beside ? MAX(stage->now_ns, stage->reduced_ns) : stage->now_ns;
        stage->reduced_ns = begin_ns + stage->cost->reduce_ns;
        if (!beside)
            stage->now_ns = stage->reduced_ns;
        last_ns = MAX(last_ns, stage->now_ns);
    }
    for (uint32_t s = 0; s < job->stages; s++) {
        struct clock_stage *stage = &clock->stages[s];
        if (job->clips && job->stages > 1)
            stage->now_ns = last_ns + clock->shown_ns;
        stage->met_ns = beside ? MAX(stage->now_ns, stage->reduced_ns - stage->cost->reduce_ns)
                               : stage->now_ns;
        stage->now_ns = stage->met_ns + stage->update_ns;
    }
}

static void run_step(struct pass_clock *clock)
{
    bool moved = true;
    begin_step(clock);
    while (moved) {
        moved = false;
        for (uint32_t s = 0; s < clock->job->stages; s++)
            moved |= go_on(clock, s);
    }
    for (uint32_t s = 0; s < clock->job->stages; s++)
        g_assert(clock->stages[s].next == clock->stages[s].pass_count);
    end_step(clock);
}

/* Returns what the updates of a stage whose chunks move delay its first forward pass. */
static uint64_t begin_ns(const struct pipeline_job *job, const struct clock_stage *stage)
{
    double first_ns = (double)lasting(stage, stage->times[0].forward_ns[UNIT_FIRST]);
    double ns = stage_begin_ns(job, (double)stage->cost->trained, first_ns);
    return ns > first_ns ? (uint64_t)(ns - first_ns) : 0;
}

static void open_stage(struct pass_clock *clock, uint32_t s, const struct stage_cost *cost)
{
    const struct pipeline_job *job = clock->job;
    const struct pipeline_shape shape = stage_shape(job);
    struct clock_stage *stage = &clock->stages[s];
    stage->cost = cost;
    stage->passes = pipeline_stage_passes(&shape, s, job->micro_batches, &stage->pass_count);
    stage->times = g_new(struct stage_pass_times, job->parts);
    for (uint32_t part = 0; part < job->parts; part++)
        stage->times[part] = stage_pass_times(job, cost, part);
    stage->stretch = job->moves ? stage_link_stretch(job, cost) : 1;
    stage->update_ns = job->moves ? begin_ns(job, stage) : cost->update_ns;
}

static void open_clock(struct pass_clock *clock, const struct stage_cost *costs)
{
    const struct pipeline_job *job = clock->job;
    clock->pieces = job->stages * job->parts;
    clock->stages = g_new0(struct clock_stage, job->stages);
    clock->activation = g_new0(struct letters, clock->pieces);
    clock->gradient = g_new0(struct letters, clock->pieces);
    clock->free_ns = g_new0(uint64_t, (size_t)job->stages * job->stages);
    clock->shown_ns = clock->instant ? 0 : stage_shown_ns(job);
    letters_init(&clock->tied, job);
    for (uint32_t s = 0; s < job->stages; s++)
        open_stage(clock, s, &costs[s]);
    for (uint32_t p = 0; p < clock->pieces; p++) {
        letters_init(&clock->activation[p], job);
        letters_init(&clock->gradient[p], job);
        if (job->schedule == PIPELINE_2BW && p + 1 < clock->pieces)
            clock->activation[p].sent = 1; /* in a step before the first */
    }
}

static void close_clock(struct pass_clock *clock)
{
    for (uint32_t s = 0; s < clock->job->stages; s++) {
        g_free(clock->stages[s].passes);
        g_free(clock->stages[s].times);
    }
    for (uint32_t p = 0; p < clock->pieces; p++) {
        g_free(clock->activation[p].arrival_ns);
        g_free(clock->gradient[p].arrival_ns);
    }
    g_free(clock->stages);
    g_free(clock->activation);
    g_free(clock->gradient);
    g_free(clock->free_ns);
    g_free(clock->tied.arrival_ns);
}

double pass_clock_step(const struct pipeline_job *job, const struct stage_cost *costs, bool instant)
{
    struct pass_clock clock = {.job = job, .instant = instant};
    g_autofree uint64_t *before_ns = g_new0(uint64_t, job->stages);
    double step_ns = 0;
    open_clock(&clock, costs);
    for (int i = 1; i <= STEPS_MOST; i++) {
        uint64_t least_ns = UINT64_MAX, most_ns = 0;
        run_step(&clock);
        for (uint32_t s = 0; s < job->stages; s++) {
            uint64_t lap_ns = clock.stages[s].met_ns - before_ns[s];
            before_ns[s] = clock.stages[s].met_ns;
            least_ns = MIN(least_ns, lap_ns);
            most_ns = MAX(most_ns, lap_ns);
        }
        bool settled = least_ns == most_ns && (double)most_ns == step_ns;
        step_ns = (double)most_ns;
        if (settled && i >= STEPS_LEAST)
            break;
    }
    close_clock(&clock);
    return step_ns;
}
