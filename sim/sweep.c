#include "sim/sweep.h"

#include "chunks/dry_run.h"
#include "sim/replay.h"
#include "sim/sizes.h"
#include "sim/workers.h"

/* What the configurations of one chunk size share. */
struct shared_layout {
    struct layout *layout;
    struct accesses *accesses;
};

struct sweep_job {
    const struct trace *trace;
    const struct sweep_options *options;
    const struct non_model *non_model;
    struct shared_layout *layouts; /* [chunk_sizes->len] */
    struct sweep *sweep;
};

static uint32_t policy_count(const struct sweep_options *options)
{
    uint32_t count = 0;
    while (options->policies[count])
        count++;
    return count;
}

/* The size a row belongs to, from its place: see struct sweep. */
static uint32_t layout_index(const struct sweep_job *job, uint32_t row)
{
    const struct sweep_options *options = job->options;
    return row / (policy_count(options) * options->look_aheads->len) % options->chunk_sizes->len;
}

static void make_layout(void *data, uint32_t index)
{
    struct sweep_job *job = data;
    uint64_t chunk_bytes = g_array_index(job->options->chunk_sizes, uint64_t, index);
    struct shared_layout *shared = &job->layouts[index];

    shared->layout = layout_pack_uniform(job->trace, chunk_bytes, NULL);
    g_assert(shared->layout);
    shared->accesses = accesses_new(job->trace, shared->layout, job->non_model->extent);
}

static void run_row(void *data, uint32_t index)
{
    struct sweep_job *job = data;
    struct sweep_row *row = &job->sweep->rows[index];
    const struct shared_layout *shared = &job->layouts[layout_index(job, index)];
    struct dry_run_options options = {.device_bytes = sizes_arena(row->device_bytes, job->trace),
                                      .host_bytes = job->options->host_bytes,
                                      .policy = row->policy,
                                      .look_ahead = row->look_ahead};
    g_autoptr(GError) error = NULL;

    row->least_device_bytes = accesses_least_device_bytes(shared->accesses, shared->layout, NULL) +
                              job->trace->library_bytes;
    struct plan *plan = dry_run_accesses(job->trace, shared->layout, shared->accesses, &options,
                                         &error);
    if (plan) {
        struct replay_view view = {job->trace, shared->accesses, job->options->costs};
        row->figures = replay(plan, &view).steady;
        plan_free(plan);
    } else
        row->reason = g_strdup(error->message);
    row->fits = plan != NULL;
    row->done = true;
}

static void list_rows(struct sweep *sweep, const struct sweep_options *options)
{
    uint32_t policies = policy_count(options), r = 0;

    sweep->row_count = options->budgets->len * options->chunk_sizes->len * policies *
                       options->look_aheads->len;
    sweep->rows = g_new0(struct sweep_row, sweep->row_count);
    for (uint32_t b = 0; b < options->budgets->len; b++)
        for (uint32_t s = 0; s < options->chunk_sizes->len; s++)
            for (uint32_t p = 0; p < policies; p++)
                for (uint32_t l = 0; l < options->look_aheads->len; l++)
                    sweep->rows[r++] = (struct sweep_row){
                        .chunk_bytes = g_array_index(options->chunk_sizes, uint64_t, s),
                        .device_bytes = g_array_index(options->budgets, uint64_t, b),
                        .policy = options->policies[p],
                        .look_ahead = g_array_index(options->look_aheads, uint32_t, l),
                    };
}

struct sweep *sweep_run(const struct trace *trace, const struct sweep_options *options)
{
    uint32_t sizes = options->chunk_sizes->len;
    struct non_model *non_model = non_model_place(trace);
    struct sweep *sweep = g_new0(struct sweep, 1);
    struct sweep_job job = {.trace = trace,
                            .options = options,
                            .non_model = non_model,
                            .layouts = g_new0(struct shared_layout, sizes),
                            .sweep = sweep};

    list_rows(sweep, options);
    workers_run(&(struct workers_job){
        .task = make_layout, .data = &job, .count = sizes, .threads = options->threads});
    workers_run(&(struct workers_job){.task = run_row,
                                      .data = &job,
                                      .count = sweep->row_count,
                                      .threads = options->threads,
                                      .progress = options->progress,
                                      .progress_data = options->progress_data});
    for (uint32_t s = 0; s < sizes; s++) {
        accesses_free(job.layouts[s].accesses);
        layout_free(job.layouts[s].layout);
    }
    g_free(job.layouts);
    non_model_free(non_model);
    return sweep;
}

void sweep_free(struct sweep *sweep)
{
    if (!sweep)
        return;
    for (uint32_t r = 0; r < sweep->row_count; r++)
        g_free(sweep->rows[r].reason);
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
    const struct plan_figures *x = &a->figures, *y = &b->figures;
    int order = compare(a->device_bytes, b->device_bytes);

    if (!order)
        order = b->fits - a->fits;
    if (!order)
        order = compare(x->h2d_bytes + x->d2h_bytes, y->h2d_bytes + y->d2h_bytes);
    if (!order)
        order = (x->iteration_seconds > y->iteration_seconds) -
                (x->iteration_seconds < y->iteration_seconds);
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
