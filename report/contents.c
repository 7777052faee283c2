#include "report/contents.h"

static void free_finding(void *data)
{
    struct finding *finding = data;
    g_free(finding->question);
    g_free(finding->answer);
    g_free(finding->detail);
    g_free(finding);
}

static void free_advice(void *data)
{
    struct advice *advice = data;
    g_free(advice->claim);
    g_free(advice->detail);
    g_free(advice->command);
    g_free(advice->figure);
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
        struct replayed replayed = {plan, memory_replay(plan->trace->trace, plan->plan)};
        g_array_append_val(contents->replays, replayed);
    }
}

/* NULL: there is nothing to draw. */
static void add_figure(struct contents *contents, struct figure *figure)
{
    if (figure)
        g_ptr_array_add(contents->figures, figure);
}

static bool is_timed(const struct sweep_file *sweep)
{
    for (guint i = 0; i < sweep->entries->len; i++)
        if (g_array_index(sweep->entries, struct sweep_file_entry, i).figures.iteration_seconds > 0)
            return true;
    return false;
}

static bool has_faster(const struct inputs *inputs, const struct sweep_file *sweep)
{
    for (guint f = 0; f < inputs->faster->len; f++)
        if (sweep_file_is_slower(sweep, g_ptr_array_index(inputs->faster, f)))
            return true;
    return false;
}

/* Lines over chunk sizes need two of them; bars show what a single one does. */
static void add_sweep(struct contents *contents, const struct sweep_file *sweep, guint *drawn)
{
    const GPtrArray *plans = contents->inputs->plans;
    g_autoptr(GArray) sizes = sweep_file_sizes(sweep), budgets = sweep_file_budgets(sweep);
    bool timed = is_timed(sweep);
    if (timed && (budgets->len > 1 || has_faster(contents->inputs, sweep)))
        g_ptr_array_add(contents->figures,
                        figure_sensitivity(sweep, contents->inputs->faster, plans, *drawn));
    if (sizes->len > 1 || !contents->splits->len) {
        if (timed)
            g_ptr_array_add(contents->figures, figure_sweep(sweep, &sweep_time, plans, *drawn));
        g_ptr_array_add(contents->figures, figure_sweep(sweep, &sweep_traffic, plans, *drawn));
    }
    if (sizes->len > 1 && budgets->len > 1)
        g_ptr_array_add(contents->figures,
                        figure_heat(sweep, timed ? &sweep_time : &sweep_traffic, plans, *drawn));
    (*drawn)++;
}

/* Of traces that no plan is for: with one, figure_memory has it. */
static void add_non_model(struct contents *contents)
{
    const GPtrArray *traces = contents->inputs->traces;
    for (guint t = 0, drawn = 0; !contents->replays->len && t < traces->len; t++) {
        const struct input_trace *input = g_ptr_array_index(traces, t);
        uint64_t most = 0;
        for (uint32_t m = 0; m < input->trace->operator_count; m++)
            most = MAX(most, input->trace->non_model_bytes[m]);
        if (most)
            g_ptr_array_add(contents->figures, figure_non_model(input, drawn++));
    }
}

static void add_figures(struct contents *contents)
{
    const struct inputs *inputs = contents->inputs;
    if (contents->splits->len)
        g_ptr_array_add(contents->figures, figure_bars(contents->splits));
    for (guint i = 0; i < inputs->strips->len; i++) {
        const struct strips *strips = g_ptr_array_index(inputs->strips, i);
        if (!strips->alone)
            g_ptr_array_add(contents->figures, figure_busy(strips, i));
        if (strips->known[STRIP_H2D])
            g_ptr_array_add(contents->figures, figure_link(strips, i));
        add_figure(contents, figure_allocated(strips, i));
        add_figure(contents, figure_host_measured(strips, i));
    }
    for (guint i = 0; i < contents->replays->len; i++) {
        const struct replayed *replayed = &g_array_index(contents->replays, struct replayed, i);
        g_ptr_array_add(contents->figures, figure_memory(replayed->plan, replayed->memory, i));
        if (replayed->memory->host_pool_bytes)
            g_ptr_array_add(contents->figures, figure_host(replayed->plan, replayed->memory, i));
    }
    add_non_model(contents);
    for (guint s = 0, drawn = 0; s < inputs->sweeps->len; s++)
        add_sweep(contents, g_ptr_array_index(inputs->sweeps, s), &drawn);
    if (contents->pairs->len)
        g_ptr_array_add(contents->figures, figure_predicted(contents->pairs));
    if (inputs->runs->len)
        g_ptr_array_add(contents->figures, figure_loss(inputs->runs));
}

static void add_table(struct contents *contents, struct table *table)
{
    if (table)
        g_ptr_array_add(contents->tables, table);
}

static void add_tables(struct contents *contents)
{
    const struct inputs *inputs = contents->inputs;
    add_table(contents, table_compare(inputs));
    add_table(contents, table_compare_operators(inputs));
    for (guint i = 0; i < inputs->strips->len; i++)
        if (!((const struct strips *)g_ptr_array_index(inputs->strips, i))->alone)
            add_table(contents, table_busy(g_ptr_array_index(inputs->strips, i)));
    for (guint i = 0; i < contents->pairs->len; i++)
        add_table(contents, table_pair(&g_array_index(contents->pairs, struct pair, i)));
    for (guint s = 0; s < inputs->sweeps->len; s++)
        add_table(contents, table_best(g_ptr_array_index(inputs->sweeps, s)));
    add_table(contents, table_traffic(inputs));
    add_table(contents, table_peaks(contents));
    for (guint t = 0; t < inputs->traces->len; t++)
        add_table(contents, table_phases(g_ptr_array_index(inputs->traces, t)));
    for (guint i = 0; i < contents->replays->len; i++)
        add_table(contents,
                  table_phase_traffic(&g_array_index(contents->replays, struct replayed, i)));
    add_table(contents, table_configuration(inputs));
}

struct contents *contents_new(const struct inputs *inputs)
{
    struct contents *contents = g_new0(struct contents, 1);
    contents->inputs = inputs;
    contents->replays = g_array_new(FALSE, FALSE, sizeof(struct replayed));
    g_array_set_clear_func(contents->replays, clear_replayed);
    contents->pairs = pairs_find(inputs);
    contents->splits = splits_find(inputs);
    contents->advice = g_ptr_array_new_with_free_func(free_advice);
    contents->figures = g_ptr_array_new_with_free_func((GDestroyNotify)figure_free);
    contents->tables = g_ptr_array_new_with_free_func((GDestroyNotify)table_free);
    contents->findings = g_ptr_array_new_with_free_func(free_finding);
    contents->missing = g_array_new(FALSE, FALSE, sizeof(struct missing));
    g_array_set_clear_func(contents->missing, clear_missing);
    replay_plans(contents);
    add_figures(contents);
    add_tables(contents);
    advice_add(contents);
    findings_add(contents);
    missing_add(contents);
    return contents;
}

void contents_free(struct contents *contents)
{
    if (!contents)
        return;
    g_array_unref(contents->replays);
    g_array_unref(contents->pairs);
    g_ptr_array_unref(contents->splits);
    g_ptr_array_unref(contents->advice);
    g_free(contents->verdict);
    g_free(contents->comparison);
    g_ptr_array_unref(contents->figures);
    g_ptr_array_unref(contents->tables);
    g_ptr_array_unref(contents->findings);
    g_array_unref(contents->missing);
    g_free(contents);
}
