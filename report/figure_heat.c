#include "report/axis.h"
#include "report/figures.h"
#include "report/palette.h"
#include "report/text.h"
#include "traces/size.h"

#include <math.h>

#define MOST_LABELS 120 /* more cells are too small for their numbers */

/* Cividis, whose order people with any colour vision see: the best is dark. */
static const char colours[] = "    set palette defined (0 '#00224e', 1 '#35456c', 2 '#666970', "
                              "3 '#948e77', 4 '#c8b866', 5 '#fee838')\n";

static void append_data(GString *data, const struct sweep_file *sweep,
                        const struct sweep_grid *grid)
{
    g_string_append_printf(data,
                           "# chunk size and device memory, by number; %s of the best policy, "
                           "as text\nNaN NaN NaN \"\"\n",
                           grid->measure->seconds ? "seconds" : "bytes");
    for (guint b = 0; b < grid->budgets->len; b++)
        for (guint s = 0; s < grid->sizes->len; s++) {
            bool known;
            const struct sweep_file_entry *best =
                sweep_grid_best(sweep, grid, g_array_index(grid->budgets, uint64_t, b), NULL,
                                g_array_index(grid->sizes, uint64_t, s), &known);
            if (!best)
                continue;
            double value = grid->measure->value(&best->figures);
            g_autofree char *text = grid->measure->seconds ? text_seconds(value)
                                                           : size_format((uint64_t)value);
            g_string_append_printf(data, "%u %u ", s + 1, b + 1);
            axis_append(data, value);
            g_string_append_printf(data, " \"%s\"\n", text);
        }
}

/* The row of the plan's budget, between the sizes that its own lies between. */
static void append_plans(GString *data, const struct sweep_grid *grid, const GPtrArray *plans)
{
    g_string_append(data, "\n\n# plans, likewise\nNaN NaN\n");
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        uint64_t size = input->configuration.chunk_bytes;
        guint place = 0;
        while (place + 1 < grid->sizes->len &&
               g_array_index(grid->sizes, uint64_t, place + 1) <= size)
            place++;
        bool between = place + 1 < grid->sizes->len &&
                       size > g_array_index(grid->sizes, uint64_t, place);
        for (guint b = 0; b < grid->budgets->len; b++)
            if (g_array_index(grid->budgets, uint64_t, b) == input->configuration.device_bytes)
                g_string_append_printf(data, "%u%s %u\n", place + 1, between ? ".5" : "", b + 1);
    }
}

static void append_tics(GString *drawing, const char *axis, const GArray *sizes, guint most)
{
    guint step = (sizes->len + most - 1) / most;
    g_string_append_printf(drawing, "set %stics (", axis);
    for (guint i = 0; i < sizes->len; i += step) {
        g_autofree char *size = size_format(g_array_index(sizes, uint64_t, i));
        g_string_append_printf(drawing, "%s'%s' %u", i ? ", " : "", size, i + 1);
    }
    g_string_append(drawing, ")\n");
}

static void append_drawing(struct figure *figure, const struct sweep_grid *grid)
{
    GString *drawing = figure->drawing;
    bool labels = grid->sizes->len * grid->budgets->len <= MOST_LABELS && grid->sizes->len <= 12;
    g_string_append(drawing, "    if (phone) { ");
    append_tics(drawing, "x", grid->sizes, 4);
    g_string_append(drawing, "    } else { ");
    append_tics(drawing, "x", grid->sizes, 10);
    g_string_append(drawing, "    }\n    ");
    append_tics(drawing, "y", grid->budgets, 12);
    g_string_append(drawing, colours);
    g_string_append_printf(
        drawing,
        "    unset grid; unset colorbox; set border 0; set tics scale 0\n"
        "    set xrange [0.5:%u.5]; set yrange [0.5:%u.5]\n"
        "    set xlabel 'chunk size' offset 0,0.3 textcolor rgb ink\n"
        "    set ylabel 'device memory' textcolor rgb ink\n"
        "    plot data index 0 using 1:2:($1-0.49):($1+0.49):($2-0.48):($2+0.48):3 with boxxyerror "
        "lc palette fs solid noborder notitle",
        grid->sizes->len, grid->budgets->len);
    if (labels)
        g_string_append(
            drawing, ", \\\n        data index 0 using (phone || $3 > middle ? NaN : $1):2:4 with "
                     "labels textcolor rgb '#ffffff' notitle, \\\n"
                     "        data index 0 using (phone || $3 <= middle ? NaN : $1):2:4 with "
                     "labels textcolor rgb '#101418' notitle");
    g_string_append(drawing,
                    ", \\\n        data index 1 using 1:2 with points pt 3 ps 2 lw 3 lc rgb "
                    "'" PALETTE_PLAN "' notitle\n");
}

struct figure *figure_heat(const struct sweep_file *sweep, const struct sweep_measure *measure,
                           const GPtrArray *plans, unsigned number)
{
    struct figure *figure =
        figure_new(figure_name("heat", number),
                   g_strdup_printf("The best %s by chunk size and device memory", measure->name));
    struct sweep_grid grid = sweep_grid_new(sweep, measure);
    double least = INFINITY, most = 0;
    append_data(figure->data, sweep, &grid);
    append_plans(figure->data, &grid, plans);
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (entry->fits) {
            least = MIN(least, measure->value(&entry->figures));
            most = MAX(most, measure->value(&entry->figures));
        }
    }
    axis_append_variable(figure->setup, "middle", isinf(least) ? 0 : (least + most) / 2);
    figure->wide_height = 120 + 48 * (int)grid.budgets->len;
    figure->phone_height = figure->wide_height;
    append_drawing(figure, &grid);
    figure->alt = g_strdup_printf("A grid of %u chunk sizes by %u device memories, darker where %s "
                                  "is less; what does not fit is empty.",
                                  grid.sizes->len, grid.budgets->len, measure->name);
    figure->caption =
        g_strdup_printf("Of all policies and strategies of %s the best; darker is "
                        "less. What does not fit is left empty. The star is the plan.",
                        sweep->origin);
    sweep_grid_clear(&grid);
    return figure;
}
