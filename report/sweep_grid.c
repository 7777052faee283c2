#include "report/sweep_grid.h"

#include "report/axis.h"
#include "report/quantities.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

static double traffic(const struct plan_figures *figures)
{
    return (double)quantity_traffic(figures);
}

static double traffic_bound(const struct certificate *certificate)
{
    return (double)certificate->traffic.bound;
}

static double step_time(const struct plan_figures *figures)
{
    return figures->iteration_seconds;
}

static double time_bound(const struct certificate *certificate)
{
    return (double)certificate->time.bound * 1e-9;
}

const struct sweep_measure sweep_traffic = {.stem = "sweep",
                                            .title = "Traffic by chunk size and policy",
                                            .name = "traffic an iteration",
                                            .value = traffic,
                                            .bound = traffic_bound};

const struct sweep_measure sweep_time = {.stem = "sweep-time",
                                         .title = "Step time by chunk size and policy",
                                         .name = "step time",
                                         .seconds = true,
                                         .value = step_time,
                                         .bound = time_bound};

struct sweep_grid sweep_grid_new(const struct sweep_file *sweep,
                                 const struct sweep_measure *measure)
{
    return (struct sweep_grid){measure, sweep_file_budgets(sweep), sweep_file_makers(sweep),
                               sweep_file_sizes(sweep)};
}

void sweep_grid_clear(struct sweep_grid *grid)
{
    g_array_unref(grid->budgets);
    g_ptr_array_unref(grid->makers);
    g_array_unref(grid->sizes);
}

const struct sweep_file_entry *sweep_grid_best(const struct sweep_file *sweep,
                                               const struct sweep_grid *grid, uint64_t budget,
                                               const char *maker, uint64_t size, bool *known)
{
    double (*value)(const struct plan_figures *) = grid->measure->value;
    const struct sweep_file_entry *least = NULL;
    *known = false;
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (entry->configuration.device_bytes != budget ||
            entry->configuration.chunk_bytes != size ||
            (maker && strcmp(entry->configuration.maker, maker) != 0))
            continue;
        *known = true;
        if (entry->fits && (!least || value(&entry->figures) < value(&least->figures)))
            least = entry;
    }
    return least;
}

/* gnuplot counts blocks: an empty one still needs a row. */
static void begin_block(GString *data, const struct sweep_grid *grid, uint64_t budget,
                        const char *what)
{
    g_autofree char *name = text_printable(what);
    g_string_append_printf(data,
                           "%s# device memory %" G_GUINT64_FORMAT " bytes, %s: chunk_bytes, "
                           "%s, fits\nNaN NaN 1\n",
                           data->len ? "\n\n" : "", budget, name,
                           grid->measure->seconds ? "iteration_seconds" : "h2d_bytes + d2h_bytes");
}

static void append_line(GString *data, const struct sweep_file *sweep,
                        const struct sweep_grid *grid, uint64_t budget, const char *maker)
{
    begin_block(data, grid, budget, maker);
    for (guint s = 0; s < grid->sizes->len; s++) {
        uint64_t size = g_array_index(grid->sizes, uint64_t, s);
        bool known;
        const struct sweep_file_entry *entry = sweep_grid_best(sweep, grid, budget, maker, size,
                                                               &known);
        if (!known)
            continue;
        g_string_append_printf(data, "%" G_GUINT64_FORMAT " ", size);
        axis_append(data, entry ? grid->measure->value(&entry->figures) : NAN);
        g_string_append(data, entry ? " 1\n" : " 0\n");
    }
}

static void append_plans(GString *data, const struct sweep_grid *grid, const GPtrArray *plans,
                         uint64_t budget)
{
    begin_block(data, grid, budget, "plans");
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        double value = grid->measure->value(&input->plan->predicted);
        if (input->configuration.device_bytes != budget || (grid->measure->seconds && value <= 0))
            continue;
        g_string_append_printf(data, "%" G_GUINT64_FORMAT " ", input->configuration.chunk_bytes);
        axis_append(data, value);
        g_string_append(data, " 1\n");
    }
}

/* From one side of the panel to the other, with a gap before the next bound. */
static void append_bounds(GString *data, const struct sweep_grid *grid, const GPtrArray *plans,
                          uint64_t budget)
{
    begin_block(data, grid, budget, "lower bounds of plans");
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        if (input->configuration.device_bytes != budget || !input->plan->certificate)
            continue;
        double bound = grid->measure->bound(input->plan->certificate);
        for (guint end = 0; end < 2 && bound > 0; end++) {
            uint64_t size = g_array_index(grid->sizes, uint64_t, end ? grid->sizes->len - 1 : 0);
            axis_append(data, (double)size * (end ? 1.3 : 1 / 1.3));
            g_string_append_c(data, ' ');
            axis_append(data, bound);
            g_string_append(data, end ? " 1\nNaN NaN 1\n" : " 1\n");
        }
    }
}

void sweep_grid_append_data(GString *data, const struct sweep_file *sweep,
                            const struct sweep_grid *grid, const GPtrArray *plans)
{
    for (guint b = 0; b < grid->budgets->len; b++)
        for (guint m = 0; m < grid->makers->len; m++)
            append_line(data, sweep, grid, g_array_index(grid->budgets, uint64_t, b),
                        g_ptr_array_index(grid->makers, m));
    for (guint b = 0; b < grid->budgets->len; b++)
        append_plans(data, grid, plans, g_array_index(grid->budgets, uint64_t, b));
    for (guint b = 0; b < grid->budgets->len; b++)
        append_bounds(data, grid, plans, g_array_index(grid->budgets, uint64_t, b));
}
