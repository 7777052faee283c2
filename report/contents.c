#include "report/contents.h"

static void free_highlight(void *data)
{
    struct highlight *highlight = data;
    g_free(highlight->question);
    g_free(highlight->answer);
    g_free(highlight->detail);
    g_free(highlight);
}

static void free_advice(void *data)
{
    struct advice *advice = data;
    g_free(advice->claim);
    g_free(advice->detail);
    g_free(advice->command);
    g_free(advice->plot);
    g_free(advice->timeline);
    g_free(advice);
}

static void clear_missing(void *data)
{
    struct missing *missing = data;
    g_free(missing->reason);
    g_free(missing->command);
}

static void clear_replayed(void *data)
{
    memory_free(((struct replayed *)data)->memory);
}

static void replay_plans(struct contents *contents)
{
    for (guint p = 0; p < contents->inputs->plans->len; p++) {
        const struct input_plan *plan = g_ptr_array_index(contents->inputs->plans, p);
        if (!plan->trace || !plan->trace->trace->operator_count)
            continue;
        const struct trace *trace = plan->trace->trace;
        const struct tracks *tracks = tracks_of_plan(contents->inputs, plan);
        struct replayed replayed = {plan, memory_replay(trace, plan->plan)};
        if (tracks && memory_take_times(replayed.memory, trace, tracks))
            replayed.memory->timed_by = tracks->origin;
        else
            memory_add_waits(replayed.memory, trace, plan->plan);
        g_array_append_val(contents->replays, replayed);
    }
}

/* `plot` may be NULL. */
static void add_plot(struct contents *contents, struct plot *plot)
{
    if (plot)
        g_ptr_array_add(contents->plots, plot);
}

static bool is_timed(const struct sweep_file *sweep)
{
    for (guint i = 0; i < sweep->entries->len; i++)
        if (g_array_index(sweep->entries, struct sweep_file_entry, i).figures.iteration_seconds > 0)
            return true;
    return false;
}

static bool has_faster(const struct report_inputs *inputs, const struct sweep_file *sweep)
{
    for (guint f = 0; f < inputs->faster->len; f++)
        if (sweep_file_is_slower(sweep, g_ptr_array_index(inputs->faster, f)))
            return true;
    return false;
}

/* Lines over chunk sizes need at least two sizes. With one size the bars show the same. */
static void add_sweep(struct contents *contents, const struct sweep_file *sweep, guint *drawn)
{
    const GPtrArray *plans = contents->inputs->plans;
    g_autoptr(GArray) sizes = sweep_file_sizes(sweep), budgets = sweep_file_budgets(sweep);
    bool timed = is_timed(sweep);
    if (timed && (budgets->len > 1 || has_faster(contents->inputs, sweep)))
        g_ptr_array_add(contents->plots,
                        plot_sensitivity(sweep, contents->inputs->faster, plans, *drawn));
    if (sizes->len > 1 || !contents->breakdowns->len) {
        if (timed)
            g_ptr_array_add(contents->plots, plot_sweep(sweep, &sweep_time, plans, *drawn));
        g_ptr_array_add(contents->plots, plot_sweep(sweep, &sweep_traffic, plans, *drawn));
    }
    if (sizes->len > 1 && budgets->len > 1)
        g_ptr_array_add(contents->plots,
                        plot_heat(sweep, timed ? &sweep_time : &sweep_traffic, plans, *drawn));
    if (sweep->passes->len)
        g_ptr_array_add(contents->plots, plot_stages(sweep, *drawn));
    (*drawn)++;
}

/* Draws traces that no plan is for. With a plan, plot_memory shows their non-model data. */
static void add_non_model(struct contents *contents)
{
    const GPtrArray *traces = contents->inputs->traces;
    for (guint t = 0, drawn = 0; !contents->replays->len && t < traces->len; t++) {
        const struct input_trace *input = g_ptr_array_index(traces, t);
        uint64_t most = 0;
        for (uint32_t m = 0; m < input->trace->operator_count; m++)
            most = MAX(most, input->trace->non_model_bytes[m]);
        if (most)
            g_ptr_array_add(contents->plots, plot_non_model(input, drawn++));
    }
}

static void add_plots(struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    if (contents->breakdowns->len)
        g_ptr_array_add(contents->plots, plot_bars(contents->breakdowns));
    for (guint i = 0; i < inputs->tracks->len; i++) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        if (!tracks->operators_only)
            g_ptr_array_add(contents->plots, plot_busy(tracks, i));
        if (tracks->known[TRACK_H2D])
            g_ptr_array_add(contents->plots, plot_link(tracks, i));
        add_plot(contents, plot_allocated(tracks, i));
        add_plot(contents, plot_host_measured(tracks, i));
    }
    for (guint i = 0; i < contents->replays->len; i++) {
        const struct replayed *replayed = &g_array_index(contents->replays, struct replayed, i);
        g_ptr_array_add(contents->plots, plot_memory(replayed->plan, replayed->memory, i));
        if (replayed->memory->host_pool_bytes)
            add_plot(contents, plot_host(replayed->plan, replayed->memory, i));
    }
    add_non_model(contents);
    for (guint s = 0, drawn = 0; s < inputs->sweeps->len; s++)
        add_sweep(contents, g_ptr_array_index(inputs->sweeps, s), &drawn);
    if (contents->predictions->len)
        g_ptr_array_add(contents->plots, plot_predicted(contents->predictions));
    if (inputs->runs->len)
        g_ptr_array_add(contents->plots, plot_loss(inputs->runs));
    add_plot(contents, plot_run_time(inputs->runs));
}

static void add_table(struct contents *contents, struct text_table *table)
{
    if (table)
        g_ptr_array_add(contents->tables, table);
}

static void add_tables(struct contents *contents)
{
    const struct report_inputs *inputs = contents->inputs;
    add_table(contents, table_compare(inputs));
    add_table(contents, table_compare_operators(inputs));
    add_table(contents, table_ranks(inputs));
    for (guint i = 0; i < inputs->tracks->len; i++)
        if (!((const struct tracks *)g_ptr_array_index(inputs->tracks, i))->operators_only)
            add_table(contents, table_busy(g_ptr_array_index(inputs->tracks, i)));
    for (guint i = 0; i < inputs->tracks->len; i++)
        add_table(contents, table_kernels(inputs, g_ptr_array_index(inputs->tracks, i)));
    for (guint t = 0; t < inputs->traces->len; t++)
        add_table(contents, table_operators(inputs, g_ptr_array_index(inputs->traces, t)));
    for (guint i = 0; i < contents->predictions->len; i++)
        add_table(contents,
                  table_prediction(&g_array_index(contents->predictions, struct prediction, i)));
    for (guint s = 0; s < inputs->sweeps->len; s++)
        add_table(contents, table_best(g_ptr_array_index(inputs->sweeps, s)));
    add_table(contents, table_traffic(inputs));
    add_table(contents, table_peaks(contents));
    add_table(contents, table_host(contents));
    for (guint t = 0; t < inputs->traces->len; t++)
        add_table(contents, table_phases(g_ptr_array_index(inputs->traces, t)));
    for (guint i = 0; i < contents->replays->len; i++)
        add_table(contents,
                  table_phase_traffic(&g_array_index(contents->replays, struct replayed, i)));
    add_table(contents, table_configuration(inputs));
}

struct contents *contents_new(const struct report_inputs *inputs)
{
    struct contents *contents = g_new0(struct contents, 1);
    contents->inputs = inputs;
    contents->replays = g_array_new(FALSE, FALSE, sizeof(struct replayed));
    g_array_set_clear_func(contents->replays, clear_replayed);
    contents->predictions = predictions_find(inputs);
    contents->breakdowns = breakdowns_find(inputs);
    contents->advice = g_ptr_array_new_with_free_func(free_advice);
    contents->plots = g_ptr_array_new_with_free_func((GDestroyNotify)plot_free);
    contents->tables = g_ptr_array_new_with_free_func((GDestroyNotify)table_free);
    contents->highlights = g_ptr_array_new_with_free_func(free_highlight);
    contents->missing = g_array_new(FALSE, FALSE, sizeof(struct missing));
    g_array_set_clear_func(contents->missing, clear_missing);
    replay_plans(contents);
    add_plots(contents);
    add_tables(contents);
    advice_add(contents);
    highlights_add(contents);
    missing_add(contents);
    return contents;
}

void contents_free(struct contents *contents)
{
    if (!contents)
        return;
    g_array_unref(contents->replays);
    g_array_unref(contents->predictions);
    g_ptr_array_unref(contents->breakdowns);
    g_ptr_array_unref(contents->advice);
    g_free(contents->verdict);
    g_free(contents->comparison);
    g_ptr_array_unref(contents->plots);
    g_ptr_array_unref(contents->tables);
    g_ptr_array_unref(contents->highlights);
    g_array_unref(contents->missing);
    g_free(contents);
}
