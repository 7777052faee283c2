#include "report/tables.h"

#include "report/quantities.h"
#include "report/text.h"
#include "traces/size.h"

struct table *table_phase_traffic(const struct replayed *replayed)
{
    g_autofree char *title = g_strconcat("Chunks over the link by phase, ", replayed->plan->path,
                                         NULL);
    struct table *table = table_new(title, "Phase|H2D|D2H");
    for (int phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++)
        table_add(table, g_strdup(trace_phase_name((enum trace_phase)phase)),
                  size_format(replayed->memory->h2d_bytes[phase]),
                  size_format(replayed->memory->d2h_bytes[phase]));
    return table;
}

static char *budget_cell(uint64_t budget)
{
    return budget == 0            ? g_strdup("–")
           : budget == UINT64_MAX ? g_strdup("unlimited")
                                  : size_format(budget);
}

static void add_peaks(struct table *table, char *what, const struct plan_figures *figures,
                      uint64_t device_budget, uint64_t host_budget)
{
    table_add(table, what, size_format(figures->peak_device_bytes),
              size_format(figures->peak_live_device_bytes), budget_cell(device_budget),
              size_format(figures->peak_host_bytes), budget_cell(host_budget));
}

struct table *table_peaks(const struct contents *contents)
{
    const struct inputs *inputs = contents->inputs;
    struct table *table = table_new(
        "Peaks by memory", "|Device, by address|Device, live bytes|Device budget|Host|Host budget");
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        add_peaks(table, g_strdup_printf("%s, predicted", input->path), &input->plan->predicted,
                  input->plan->device_budget, input->plan->host_budget);
    }
    for (guint r = 0; r < inputs->runs->len; r++) {
        const struct run_log *run = g_ptr_array_index(inputs->runs, r);
        struct plan_figures measured;
        if (run_log_measured(run, &measured, NULL))
            add_peaks(table, g_strdup_printf("%s, measured", run->origin), &measured,
                      run->configuration.maker ? run->configuration.device_bytes : 0, 0);
    }
    if (table->rows->len)
        return table;
    table_free(table);
    return NULL;
}

static void add_traffic(struct table *table, char *what, const struct plan_figures *figures)
{
    table_add(table, what, size_format(quantity_traffic(figures)), size_format(figures->h2d_bytes),
              size_format(figures->d2h_bytes), text_count(figures->h2d_copies),
              text_count(figures->d2h_copies), text_count(figures->evictions),
              size_format(figures->moved_bytes));
}

struct table *table_traffic(const struct inputs *inputs)
{
    struct table *table =
        table_new("Traffic an iteration",
                  "|Both ways|H2D|D2H|H2D copies|D2H copies|Evictions|Moved within the device");
    for (guint p = 0; p < inputs->plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
        add_traffic(table, g_strdup_printf("%s, predicted", input->path), &input->plan->predicted);
    }
    for (guint r = 0; r < inputs->runs->len; r++) {
        const struct run_log *run = g_ptr_array_index(inputs->runs, r);
        struct plan_figures measured;
        if (run_log_measured(run, &measured, NULL))
            add_traffic(table, g_strdup_printf("%s, measured", run->origin), &measured);
    }
    if (table->rows->len)
        return table;
    table_free(table);
    return NULL;
}

struct table *table_best(const struct sweep_file *sweep)
{
    g_autofree char *title = g_strconcat("Best of the sweep, ", sweep->origin, NULL);
    struct table *table =
        table_new(title, "Device memory|Decided by|Chunk size|Traffic|H2D|D2H|Stall|Step time");
    GArray *budgets = sweep_file_budgets(sweep);
    GPtrArray *makers = sweep_file_makers(sweep);
    for (guint b = 0; b < budgets->len; b++) {
        uint64_t budget = g_array_index(budgets, uint64_t, b);
        const struct sweep_file_entry *best = sweep_file_best(sweep, budget, NULL);
        for (guint m = 0; m < makers->len; m++) {
            const char *maker = g_ptr_array_index(makers, m);
            const struct sweep_file_entry *entry = sweep_file_best(sweep, budget, maker);
            if (!entry) {
                table_add(table, size_format(budget), g_strdup(maker), g_strdup("does not fit"),
                          g_strdup("–"), g_strdup("–"), g_strdup("–"), g_strdup("–"),
                          g_strdup("–"));
                continue;
            }
            const struct plan_figures *figures = &entry->figures;
            bool timed = figures->iteration_seconds > 0;
            table_add(table, size_format(budget),
                      g_strconcat(maker, entry == best ? " ★" : "", NULL),
                      size_format(entry->configuration.chunk_bytes),
                      size_format(quantity_traffic(figures)), size_format(figures->h2d_bytes),
                      size_format(figures->d2h_bytes),
                      timed ? text_seconds(figures->stall_seconds) : g_strdup("–"),
                      timed ? text_seconds(figures->iteration_seconds) : g_strdup("–"));
        }
    }
    table->note = g_strdup("For each policy the chunk size that moves least; ★ the least of all "
                           "with that device memory.");
    g_array_unref(budgets);
    g_ptr_array_unref(makers);
    return table;
}

struct table *table_pair(const struct pair *pair)
{
    g_autofree char *label = configuration_label(pair->configuration);
    g_autofree char *title = g_strconcat("Predicted beside measured: ", label, NULL);
    struct table *table = table_new(title, "|Predicted|Measured|Difference");
    for (const struct quantity *quantity = quantities; quantity->name; quantity++) {
        double predicted = quantity_value(&pair->predicted, quantity);
        double measured = quantity_value(&pair->measured, quantity);
        bool unknown = quantity->unit == QUANTITY_SECONDS && !pair->timed;
        table_add(table, g_strdup(quantity->label),
                  unknown ? g_strdup("–") : quantity_format(&pair->predicted, quantity),
                  quantity_format(&pair->measured, quantity),
                  unknown ? g_strdup("–") : text_difference(measured, predicted));
    }
    table->note = g_strdup_printf("Predicted by %s, measured by %s.%s", pair->predictor,
                                  pair->run->origin,
                                  pair->steady ? "" : " The run's counts differ between steps.");
    return table;
}
