#include "report/sweep_grid.h"

#include "report/axis.h"
#include "report/quantities.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

struct sweep_grid sweep_grid_new(const struct sweep_file *sweep)
{
    return (struct sweep_grid){sweep_file_budgets(sweep), sweep_file_makers(sweep),
                               sweep_file_sizes(sweep)};
}

void sweep_grid_clear(struct sweep_grid *grid)
{
    g_array_unref(grid->budgets);
    g_ptr_array_unref(grid->makers);
    g_array_unref(grid->sizes);
}

/* Of several look-aheads, the one that moves least; NULL: none fits. *known: there are some. */
static const struct sweep_file_entry *least_of(const struct sweep_file *sweep, uint64_t budget,
                                               const char *maker, uint64_t size, bool *known)
{
    const struct sweep_file_entry *least = NULL;
    *known = false;
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (entry->configuration.device_bytes != budget ||
            entry->configuration.chunk_bytes != size ||
            strcmp(entry->configuration.maker, maker) != 0)
            continue;
        *known = true;
        if (entry->fits &&
            (!least || quantity_traffic(&entry->figures) < quantity_traffic(&least->figures)))
            least = entry;
    }
    return least;
}

/* gnuplot counts blocks: an empty one still needs a row. */
static void begin_block(GString *data, uint64_t budget, const char *what)
{
    g_autofree char *name = text_printable(what);
    g_string_append_printf(data,
                           "%s# device memory %" G_GUINT64_FORMAT " bytes, %s: chunk_bytes, "
                           "h2d_bytes + d2h_bytes, fits\nNaN NaN 1\n",
                           data->len ? "\n\n" : "", budget, name);
}

static void append_line(GString *data, const struct sweep_file *sweep,
                        const struct sweep_grid *grid, uint64_t budget, const char *maker)
{
    begin_block(data, budget, maker);
    for (guint s = 0; s < grid->sizes->len; s++) {
        uint64_t size = g_array_index(grid->sizes, uint64_t, s);
        bool known;
        const struct sweep_file_entry *entry = least_of(sweep, budget, maker, size, &known);
        if (!known)
            continue;
        g_string_append_printf(data, "%" G_GUINT64_FORMAT " ", size);
        axis_append(data, entry ? (double)quantity_traffic(&entry->figures) : NAN);
        g_string_append(data, entry ? " 1\n" : " 0\n");
    }
}

static void append_plans(GString *data, const GPtrArray *plans, uint64_t budget)
{
    begin_block(data, budget, "plans");
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        if (input->configuration.device_bytes == budget)
            g_string_append_printf(data, "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " 1\n",
                                   input->configuration.chunk_bytes,
                                   quantity_traffic(&input->plan->predicted));
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
        append_plans(data, plans, g_array_index(grid->budgets, uint64_t, b));
}
