#include "sim/stage_sweep.h"

#include "base/seconds.h"
#include "base/size.h"
#include "sim/baselines.h"
#include "sim/workers.h"

/* What the rows share. */
struct stage_job {
    const struct stage_sweep *asked;
    struct sweep *sweep;
    struct non_model **non_model; /* [stages] */
    char **digests;               /* [stages] of the traces */
    struct baselines *baselines;  /* [layouts * stages] */
};

static uint32_t layout_count(const struct stage_job *job)
{
    return job->asked->layouts[0]->len;
}

static const struct named_layout *layout_at(const struct stage_job *job, uint32_t layout,
                                            uint32_t s)
{
    return g_ptr_array_index(job->asked->layouts[s], layout);
}

/* ---- rows ---- */

/* Adds the rows of a layout and a budget: policies with their look-aheads, then strategies. */
static void add_rows(struct stage_job *job, uint64_t device_budget, uint32_t layout)
{
    const struct sweep_options *options = job->asked->options;
    struct sweep *sweep = job->sweep;
    const struct named_layout *first = layout_at(job, layout, 0);
    struct sweep_row row = {.layout = first,
                            .chunk_bytes = first->layout->chunk_bytes[TRACE_PARAM],
                            .device_budget = device_budget};
    for (uint32_t p = 0; options->policies[p]; p++)
        for (guint a = 0; a < options->look_aheads->len; a++) {
            row.policy = options->policies[p];
            row.look_ahead = g_array_index(options->look_aheads, uint32_t, a);
            sweep->rows[sweep->row_count++] = row;
        }
    row.policy = NULL;
    row.look_ahead = 0;
    for (guint s = 0; options->strategies && s < options->strategies->len; s++) {
        row.strategy = g_ptr_array_index(options->strategies, s);
        sweep->rows[sweep->row_count++] = row;
    }
}

static void list_rows(struct stage_job *job)
{
    const struct sweep_options *options = job->asked->options;
    size_t policies = 0, strategies = options->strategies ? options->strategies->len : 0;
    while (options->policies[policies])
        policies++;
    job->sweep->rows = g_new0(struct sweep_row,
                              options->budgets->len * layout_count(job) *
                                  (policies * options->look_aheads->len + strategies));
    for (guint b = 0; b < options->budgets->len; b++)
        for (uint32_t l = 0; l < layout_count(job); l++)
            add_rows(job, g_array_index(options->budgets, uint64_t, b), l);
}

/* Returns the first of a row's baselines, of which each stage has one. */
static const struct baselines *baselines_of(const struct stage_job *job,
                                            const struct sweep_row *row)
{
    uint32_t layout = 0;
    while (layout_at(job, layout, 0) != row->layout)
        layout++;
    return &job->baselines[(size_t)layout * job->asked->messages->stages];
}

static void open_baselines(void *data, uint32_t index)
{
    struct stage_job *job = data;
    uint32_t stages = job->asked->messages->stages, s = index % stages;
    job->baselines[index] = (struct baselines){.trace = job->asked->traces[s],
                                               .digest = job->digests[s],
                                               .layout = layout_at(job, index / stages, s)->layout,
                                               .non_model = job->non_model[s]->extent,
                                               .costs = job->asked->options->costs,
                                               .platform = job->asked->options->platform};
    baselines_open(&job->baselines[index]);
}

/* ---- a row's plans ---- */

/* A stage's plan. A strategy's is for a trace of its own, in which it has placed the updates. */
struct planned_stage {
    struct plan *plan;
    struct trace *placed;       /* NULL for the stage's trace */
    struct accesses *accesses;  /* of the placed trace */
    struct non_model *extended; /* of the placed trace, if it is not the stage's */
};

static void planned_stage_clear(struct planned_stage *planned)
{
    plan_free(planned->plan);
    accesses_free(planned->accesses);
    non_model_free(planned->extended);
    trace_free(planned->placed);
}

static struct plan *plan_strategy(const struct stage_job *job, const struct sweep_row *row,
                                  const struct baselines *b, struct planned_stage *planned,
                                  GError **error)
{
    const struct strategy_job strategy = {
        .trace = b->trace,
        .platform = b->platform,
        .layout = b->layout,
        .non_model = b->non_model,
        .device_budget = sizes_arena(row->device_budget, b->trace),
        .host_budget = job->asked->options->host_budget};
    uint64_t needed;
    struct plan *plan = strategy_plan(row->strategy, &strategy, &planned->placed, &needed, error);
    if (!plan)
        return NULL;
    planned->extended = strategy_non_model(&strategy, planned->placed);
    planned->accesses = accesses_new_digested(planned->placed, plan->digest, b->layout,
                                              planned->extended ? planned->extended->extent
                                                                : b->non_model);
    return plan;
}

static struct plan *plan_policy(const struct stage_job *job, const struct sweep_row *row,
                                const struct baselines *b, GError **error)
{
    const struct dry_run_options options = {
        .device_budget = sizes_arena(row->device_budget, b->trace),
        .host_budget = job->asked->options->host_budget,
        .policy = row->policy,
        .look_ahead = row->look_ahead};
    return baselines_policy(b, &options, error);
}

/* Plans every stage. Returns false if one does not fit; the row then says which and why. */
static bool plan_stages(const struct stage_job *job, struct sweep_row *row,
                        struct planned_stage *planned)
{
    const struct baselines *baselines = baselines_of(job, row);
    bool fits = true;
    for (uint32_t s = 0; s < job->asked->messages->stages; s++) {
        const struct baselines *b = &baselines[s];
        uint64_t least = accesses_least_arena_bytes(b->accesses, b->layout, NULL) +
                         b->trace->library_bytes;
        g_autoptr(GError) error = NULL;
        row->least_device_bytes = MAX(row->least_device_bytes, least);
        planned[s].plan = row->policy ? plan_policy(job, row, b, &error)
                                      : plan_strategy(job, row, b, &planned[s], &error);
        if (planned[s].plan || !fits)
            continue;
        fits = false;
        row->reason = g_strdup_printf("stage %u: %s", s, error->message);
        row->failed = row->policy && !g_error_matches(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
    }
    return fits;
}

static void add_figures(struct plan_figures *sum, const struct plan_figures *of_stage)
{
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++) {
        if (figure->unit == FIGURE_SECONDS)
            continue;
        uint64_t *total = (uint64_t *)(void *)((char *)sum + figure->offset);
        uint64_t own = figures_count(of_stage, figure);
        *total = figure->kind == FIGURE_PEAK ? MAX(*total, own) : *total + own;
    }
    sum->stall_seconds = MAX(sum->stall_seconds, of_stage->stall_seconds);
    sum->iteration_seconds = of_stage->iteration_seconds;
}

static void time_stages(const struct stage_job *job, struct sweep_row *row,
                        const struct planned_stage *planned)
{
    uint32_t stages = job->asked->messages->stages;
    const struct baselines *baselines = baselines_of(job, row);
    g_autofree struct stage_view *views = g_new0(struct stage_view, stages);
    g_autofree struct timeline **timelines = g_new0(struct timeline *, stages);
    for (uint32_t s = 0; s < stages; s++) {
        const struct baselines *b = &baselines[s];
        const struct planned_stage *stage = &planned[s];
        views[s] = (struct stage_view){stage->plan,
                                       {stage->placed ? stage->placed : b->trace,
                                        stage->accesses ? stage->accesses : b->accesses, b->costs}};
        timelines[s] = timeline_new();
    }
    row->stages = g_new0(struct stage_result, stages);
    stages_replay(views, job->asked->messages, timelines, row->stages);
    for (uint32_t s = 0; s < stages; s++) {
        add_figures(&row->figures, &row->stages[s].figures);
        timeline_free(timelines[s]);
    }
}

static void run_row(void *data, uint32_t index)
{
    const struct stage_job *job = data;
    struct sweep_row *row = &job->sweep->rows[index];
    uint32_t stages = job->asked->messages->stages;
    g_autofree struct planned_stage *planned = g_new0(struct planned_stage, stages);
    row->fits = plan_stages(job, row, planned);
    if (row->fits)
        time_stages(job, row, planned);
    for (uint32_t s = 0; s < stages; s++)
        planned_stage_clear(&planned[s]);
    row->done = true;
}

struct sweep *stage_sweep_run(const struct stage_sweep *asked)
{
    const struct sweep_options *options = asked->options;
    uint32_t stages = asked->messages->stages;
    struct sweep *sweep = g_new0(struct sweep, 1);
    struct stage_job job = {.asked = asked,
                            .sweep = sweep,
                            .non_model = g_new0(struct non_model *, stages),
                            .digests = g_new0(char *, stages + 1)};
    *sweep = (struct sweep){.objective = options->objective,
                            .host_budget = options->host_budget,
                            .stage_count = stages};
    for (uint32_t s = 0; s < stages; s++) {
        job.non_model[s] = non_model_place(asked->traces[s]);
        job.digests[s] = trace_digest(asked->traces[s]);
    }
    uint32_t shared = layout_count(&job) * stages;
    job.baselines = g_new0(struct baselines, shared);
    list_rows(&job);
    workers_run(&(struct workers_job){
        .task = open_baselines, .data = &job, .count = shared, .threads = options->threads});
    workers_run(&(struct workers_job){.task = run_row,
                                      .data = &job,
                                      .count = sweep->row_count,
                                      .threads = options->threads,
                                      .progress = options->progress,
                                      .progress_data = options->progress_data});
    for (uint32_t i = 0; i < shared; i++)
        baselines_close(&job.baselines[i]);
    for (uint32_t s = 0; s < stages; s++)
        non_model_free(job.non_model[s]);
    g_strfreev(job.digests);
    g_free(job.non_model);
    g_free(job.baselines);
    return sweep;
}

/* ---- what is shown ---- */

/* Where the time of a step goes, in the order of tables and files. */
static const struct {
    const char *title, *key;
    size_t offset;
} columns[] = {
    {"compute", "compute_seconds", offsetof(struct stage_times, compute)},
    {"warm-up", "warm_up_seconds", offsetof(struct stage_times, warm_up)},
    {"drain", "drain_seconds", offsetof(struct stage_times, drain)},
    {"imbalance", "imbalance_seconds", offsetof(struct stage_times, imbalance)},
    {"messages", "communication_seconds", offsetof(struct stage_times, communication)},
    {"copies", "copies_seconds", offsetof(struct stage_times, copies)},
};

static double seconds_in(const struct stage_result *stage, size_t column)
{
    return *(const double *)(const void *)((const char *)&stage->times + columns[column].offset);
}

static void print_stage(const struct stage_result *stage, uint32_t s, FILE *out)
{
    uint32_t last = stage->first_layer + stage->layers - 1;
    g_autofree char *layers = stage->layers == 1
                                  ? g_strdup_printf("%u", last)
                                  : g_strdup_printf("%u-%u", stage->first_layer, last);
    g_autofree char *device = size_format(stage->figures.peak_device_bytes);
    g_autofree char *host = size_format(stage->figures.peak_host_bytes);
    g_autofree char *sent = size_format(stage->figures.sent_bytes);
    g_autofree char *received = size_format(stage->figures.received_bytes);
    fprintf(out, "%5u  %8s  %9u  %11s  %11s  %11s  %11s", s, layers, stage->in_flight, device, host,
            sent, received);
    for (size_t c = 0; c < G_N_ELEMENTS(columns); c++) {
        g_autofree char *seconds = seconds_format(seconds_in(stage, c));
        fprintf(out, "  %9s", seconds);
    }
    fputc('\n', out);
}

void stage_sweep_print_best(const struct sweep *sweep, FILE *out)
{
    g_autoptr(GArray) ranked = sweep_rank(sweep);
    const struct sweep_row *best = ranked->len ? &sweep->rows[g_array_index(ranked, uint32_t, 0)]
                                               : NULL;
    if (!best || !best->fits)
        return;
    fprintf(out, "\nSeconds of a step by stage, in the best configuration\n");
    fprintf(out, "%5s  %8s  %9s  %11s  %11s  %11s  %11s", "stage", "layers", "in flight", "peak",
            "host peak", "sent", "received");
    for (size_t c = 0; c < G_N_ELEMENTS(columns); c++)
        fprintf(out, "  %9s", columns[c].title);
    fputc('\n', out);
    for (uint32_t s = 0; s < sweep->stage_count; s++)
        print_stage(&best->stages[s], s, out);
}

static json_t *passes_json(const GArray *passes)
{
    json_t *array = json_array();
    for (guint p = 0; p < passes->len; p++) {
        const struct stage_pass *pass = &g_array_index(passes, struct stage_pass, p);
        json_array_append_new(array, json_pack("[s, i, f, f]", trace_phase_name(pass->phase),
                                               (int)pass->micro_batch, pass->start, pass->end));
    }
    return array;
}

json_t *stage_sweep_json(const struct stage_result *stages, uint32_t count, bool passes)
{
    json_t *array = json_array();
    for (uint32_t s = 0; s < count; s++) {
        const struct stage_result *stage = &stages[s];
        json_t *json = json_pack(
            "{s:I, s:I, s:I, s:I, s:I}", "first_layer", (json_int_t)stage->first_layer, "layers",
            (json_int_t)stage->layers, "in_flight", (json_int_t)stage->in_flight, "device_bytes",
            (json_int_t)stage->device_bytes, "host_bytes", (json_int_t)stage->host_bytes);
        json_object_update_new(json, figures_to_json(&stage->figures));
        for (size_t c = 0; c < G_N_ELEMENTS(columns); c++)
            json_object_set_new(json, columns[c].key, json_real(seconds_in(stage, c)));
        if (passes)
            json_object_set_new(json, "passes", passes_json(stage->passes));
        json_array_append_new(array, json);
    }
    return array;
}
