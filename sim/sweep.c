#include "sim/sweep.h"

#include "chunks/lack.h"
#include "sim/baselines.h"
#include "sim/sizes.h"
#include "sim/stage_replay.h"
#include "sim/workers.h"

/* The data that the configurations of one layout share. */
struct shared_layout {
    struct baselines baselines; /* not open if `like` is another layout */
    uint64_t least_device_bytes;
    uint32_t like; /* index of the first layout with the same chunks: its own, or lower */
};

/* A trace, and what its configurations share. */
struct subject {
    const struct trace *trace; /* NULL if no row is for it */
    const GPtrArray *named;    /* struct named_layout */
    struct non_model *non_model;
    char *digest;                  /* of the trace */
    struct shared_layout *layouts; /* [named->len] */
};

struct sweep_job {
    const struct sweep_options *options;
    struct subject subjects[STRATEGY_STAGES]; /* the first has the policies and most strategies */
    struct sweep *sweep;
    struct timeline *timeline; /* of the row that is run; may be NULL */
};

/* What makes a layout's shared data. */
struct layout_task {
    const struct sweep_job *job;
    struct subject *subject;
};

static enum strategy_stage stage_of(const struct sweep_options *options,
                                    const struct strategy *strategy)
{
    return strategy && options->stages ? strategy->ops->stage : STRATEGY_AS_TRACED;
}

static struct subject subject_of(const struct trace *trace, const GPtrArray *named)
{
    return (struct subject){.trace = trace,
                            .named = named,
                            .non_model = non_model_place(trace),
                            .digest = trace_digest(trace),
                            .layouts = g_new0(struct shared_layout, named->len)};
}

static void subject_clear(struct subject *subject)
{
    for (guint i = 0; subject->trace && i < subject->named->len; i++)
        baselines_close(&subject->layouts[i].baselines);
    g_free(subject->layouts);
    g_free(subject->digest);
    non_model_free(subject->non_model);
}

const struct trace *sweep_row_trace(const struct trace *trace, const struct sweep_options *options,
                                    const struct sweep_row *row)
{
    enum strategy_stage stage = stage_of(options, row->strategy);
    return stage == STRATEGY_AS_TRACED ? trace : options->stages[stage].trace;
}

static const struct subject *subject_of_row(const struct sweep_job *job,
                                            const struct sweep_row *row)
{
    return &job->subjects[stage_of(job->options, row->strategy)];
}

static uint32_t policy_count(const struct sweep_options *options)
{
    uint32_t count = 0;
    while (options->policies[count])
        count++;
    return count;
}

/* Returns the number of rows of one budget and layout. */
static uint32_t ways(const struct sweep_options *options)
{
    return policy_count(options) * options->look_aheads->len +
           (options->strategies ? options->strategies->len : 0);
}

/* Returns the layout of a row, which its place tells (struct sweep). */
static uint32_t layout_index(const struct sweep_job *job, uint32_t row)
{
    return row / ways(job->options) % job->options->layouts->len;
}

static struct shared_layout layout_of(const struct sweep_job *job, const struct subject *subject,
                                      const struct layout *layout)
{
    struct shared_layout shared = {.baselines = {.trace = subject->trace,
                                                 .digest = subject->digest,
                                                 .layout = layout,
                                                 .non_model = subject->non_model->extent,
                                                 .costs = job->options->costs,
                                                 .platform = job->options->platform,
                                                 .unclipped = job->options->unclipped,
                                                 .nvme = job->options->nvme}};
    baselines_open(&shared.baselines);
    shared.least_device_bytes = accesses_least_arena_bytes(shared.baselines.accesses, layout,
                                                           NULL) +
                                subject->trace->library_bytes;
    return shared;
}

static const struct layout *layout_at(const struct subject *subject, uint32_t index)
{
    const struct named_layout *named = g_ptr_array_index(subject->named, index);
    return named->layout;
}

static void make_layout(void *data, uint32_t index)
{
    const struct layout_task *task = data;
    const struct subject *subject = task->subject;
    struct shared_layout *shared = &subject->layouts[index];
    uint32_t like = 0;
    while (!layout_same_chunks(layout_at(subject, like), layout_at(subject, index)))
        like++;
    if (like == index)
        *shared = layout_of(task->job, subject, layout_at(subject, index));
    shared->like = like;
}

/* Returns the first row of the same policy and budget that has the same chunks, which may be the
 * row itself. A strategy's row is always itself, because it may depend on the requested chunk size.
 */
static uint32_t row_like(const struct sweep_job *job, uint32_t row)
{
    uint32_t index = layout_index(job, row);
    return job->sweep->rows[row].policy
               ? row - (index - job->subjects[0].layouts[index].like) * ways(job->options)
               : row;
}

/* Returns what the row's layout shares with others that have the same chunks. */
static const struct shared_layout *shared_of(const struct sweep_job *job, uint32_t row)
{
    const struct subject *subject = subject_of_row(job, &job->sweep->rows[row]);
    return &subject->layouts[subject->layouts[layout_index(job, row)].like];
}

static struct plan *plan_policy(const struct sweep_job *job, const struct shared_layout *shared,
                                struct sweep_row *row, GError **error)
{
    const struct dry_run_options options = {
        .device_budget = sizes_arena(row->device_budget, shared->baselines.trace),
        .host_budget = job->options->host_budget,
        .policy = row->policy,
        .look_ahead = row->look_ahead};
    row->least_device_bytes = shared->least_device_bytes;
    struct plan *plan = baselines_policy(&shared->baselines, &options, error);
    if (plan)
        baselines_time(&shared->baselines, plan, job->timeline);
    return plan;
}

/* Layouts with the same chunks may have been asked for with different chunk sizes, on which a
 * strategy may depend. */
static struct plan *plan_strategy(const struct sweep_job *job, const struct shared_layout *shared,
                                  struct sweep_row *row, GError **error)
{
    struct baselines baselines = shared->baselines;
    baselines.layout = row->layout->layout;
    struct plan *plan = baselines_strategy(
        &baselines, row->strategy, sizes_arena(row->device_budget, baselines.trace),
        job->options->host_budget, job->timeline, &row->least_device_bytes, error);
    if (row->least_device_bytes)
        row->least_device_bytes += baselines.trace->library_bytes;
    if (plan)
        row->look_ahead = plan->look_ahead;
    return plan;
}

static struct plan *plan_row(const struct sweep_job *job, const struct shared_layout *shared,
                             struct sweep_row *row, GError **error)
{
    struct plan *plan = row->policy ? plan_policy(job, shared, row, error)
                                    : plan_strategy(job, shared, row, error);
    if (plan)
        row->figures = plan->predicted;
    return plan;
}

static struct phases *copy_phases(struct phases phases)
{
    return g_memdup2(&phases, sizeof phases);
}

/* What the host's budget has no room for lies on the device, too. */
static void note_refusal(struct sweep_row *row, const GError *error)
{
    const struct plan_lack *lack = plan_lack_of(error);
    row->reason = g_strdup(error->message);
    row->host_lacks = lack && lack->memory == PLAN_MEMORY_DEVICE &&
                      lack->bytes > row->least_device_bytes;
    if (row->host_lacks)
        row->least_device_bytes = lack->bytes;
}

static void run_row(void *data, uint32_t index)
{
    struct sweep_job job = *(struct sweep_job *)data; /* its timeline is the row's own */
    struct sweep_row *row = &job.sweep->rows[index];
    g_autoptr(GError) error = NULL;
    if (row_like(&job, index) != index)
        return;
    job.timeline = job.options->phases ? timeline_new() : NULL;
    struct plan *plan = plan_row(&job, shared_of(&job, index), row, &error);

    if (plan && job.timeline)
        row->phases = copy_phases(phases_of(job.timeline, subject_of_row(&job, row)->trace));
    timeline_free(job.timeline);
    if (!plan)
        note_refusal(row, error);
    row->failed = !plan && !g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
    row->fits = plan != NULL;
    row->done = true;
    plan_free(plan);
}

/* Fills in the rows that were not run because another has the same chunks. */
static void copy_rows(const struct sweep_job *job)
{
    for (uint32_t r = 0; r < job->sweep->row_count; r++) {
        struct sweep_row *row = &job->sweep->rows[r];
        const struct sweep_row *like = &job->sweep->rows[row_like(job, r)];
        if (row == like)
            continue;
        const struct named_layout *layout = row->layout;
        uint64_t chunk_bytes = row->chunk_bytes;
        *row = *like;
        row->layout = layout;
        row->chunk_bytes = chunk_bytes;
        row->reason = g_strdup(like->reason);
        row->phases = like->phases ? copy_phases(*like->phases) : NULL;
    }
}

bool sweep_fits(const struct sweep *sweep)
{
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (sweep->rows[r].fits)
            return true;
    return false;
}

struct plan *sweep_plan(const struct trace *trace, const struct sweep_options *options,
                        const struct sweep_row *row, struct timeline *timeline)
{
    struct sweep_job job = {.options = options, .timeline = timeline};
    struct subject subject = subject_of(trace, options->layouts);
    struct shared_layout shared = layout_of(&job, &subject, row->layout->layout);
    struct sweep_row again = *row;
    struct plan *plan = plan_row(&job, &shared, &again, NULL);
    baselines_close(&shared.baselines);
    subject_clear(&subject);
    return plan;
}

/* Lists the rows of the budget and the layout in `row`. */
static void list_ways(struct sweep *sweep, const struct sweep_options *options, guint layout,
                      struct sweep_row row, uint32_t *count)
{
    const struct named_layout *usual = row.layout;
    for (uint32_t p = 0; options->policies[p]; p++)
        for (uint32_t l = 0; l < options->look_aheads->len; l++) {
            row.policy = options->policies[p];
            row.look_ahead = g_array_index(options->look_aheads, uint32_t, l);
            sweep->rows[(*count)++] = row;
        }
    row.policy = NULL;
    row.look_ahead = 0;
    for (guint i = 0; options->strategies && i < options->strategies->len; i++) {
        row.strategy = g_ptr_array_index(options->strategies, i);
        enum strategy_stage stage = stage_of(options, row.strategy);
        row.layout = stage == STRATEGY_AS_TRACED
                         ? usual
                         : g_ptr_array_index(options->stages[stage].layouts, layout);
        sweep->rows[(*count)++] = row;
    }
}

static void list_rows(struct sweep *sweep, const struct sweep_options *options)
{
    uint32_t count = 0;
    sweep->row_count = options->budgets->len * options->layouts->len * ways(options);
    sweep->rows = g_new0(struct sweep_row, sweep->row_count);
    for (uint32_t b = 0; b < options->budgets->len; b++)
        for (uint32_t s = 0; s < options->layouts->len; s++) {
            const struct named_layout *named = g_ptr_array_index(options->layouts, s);
            const struct sweep_row row = {
                .layout = named,
                .chunk_bytes = named->layout->chunk_bytes[TRACE_PARAM],
                .device_budget = g_array_index(options->budgets, uint64_t, b)};
            list_ways(sweep, options, s, row, &count);
        }
}

/* Makes what the rows share of each trace that they are for. */
static void open_subjects(struct sweep_job *job, const struct trace *trace)
{
    const struct sweep_options *options = job->options;
    job->subjects[0] = subject_of(trace, options->layouts);
    for (int s = 1; options->stages && s < STRATEGY_STAGES; s++)
        if (options->stages[s].trace)
            job->subjects[s] = subject_of(options->stages[s].trace, options->stages[s].layouts);
    for (int s = 0; s < STRATEGY_STAGES; s++) {
        struct layout_task task = {job, &job->subjects[s]};
        if (task.subject->trace)
            workers_run(&(struct workers_job){.task = make_layout,
                                              .data = &task,
                                              .count = options->layouts->len,
                                              .threads = options->threads});
    }
}

struct sweep *sweep_run(const struct trace *trace, const struct sweep_options *options)
{
    struct sweep *sweep = g_new0(struct sweep, 1);
    struct sweep_job job = {.options = options, .sweep = sweep};
    sweep->objective = options->objective;
    sweep->host_budget = options->host_budget;
    sweep->nvme_budget = options->nvme ? options->nvme->nvme_bytes : 0;
    list_rows(sweep, options);
    open_subjects(&job, trace);
    workers_run(&(struct workers_job){.task = run_row,
                                      .data = &job,
                                      .count = sweep->row_count,
                                      .threads = options->threads,
                                      .progress = options->progress,
                                      .progress_data = options->progress_data});
    copy_rows(&job);
    for (int s = 0; s < STRATEGY_STAGES; s++)
        subject_clear(&job.subjects[s]);
    return sweep;
}

void sweep_free(struct sweep *sweep)
{
    if (!sweep)
        return;
    for (uint32_t r = 0; r < sweep->row_count; r++) {
        g_free(sweep->rows[r].reason);
        g_free(sweep->rows[r].phases);
        stage_results_free(sweep->rows[r].stages, sweep->stage_count);
    }
    g_free(sweep->rows);
    g_free(sweep);
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_rank(const void *left, const void *right, void *data)
{
    uint32_t l = *(const uint32_t *)left, r = *(const uint32_t *)right;
    const struct sweep *sweep = data;
    const struct sweep_row *a = &sweep->rows[l], *b = &sweep->rows[r];
    int order = compare(a->device_budget, b->device_budget);
    if (!order)
        order = b->fits - a->fits;
    if (!order)
        order = objective_compare(sweep->objective, &a->figures, &b->figures);
    if (!order)
        order = compare(a->chunk_bytes, b->chunk_bytes);
    return order ? order : compare(l, r);
}

GArray *sweep_rank(const struct sweep *sweep)
{
    GArray *ranked = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (sweep->rows[r].done)
            g_array_append_val(ranked, r);
    g_array_sort_with_data(ranked, by_rank, (void *)sweep);
    return ranked;
}
