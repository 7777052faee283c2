/* The best of a sweep by chunk size and device memory, as a map. */
#include "base/size.h"
#include "report/plot.h"
#include "report/plots.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

#define MOST_LABELS  200 /* labels do not fit into more cells */
#define MOST_COLUMNS 14

/* The values that the scale covers. */
struct heat_scale {
    double least, most;
    struct axis_unit unit;
};

/* Cividis: people with any colour vision see its order. The best is dark. */
static const char colours[] = "    set palette defined (0 '#00224e', 1 '#35456c', 2 '#666970', "
                              "3 '#948e77', 4 '#c8b866', 5 '#fee838')\n";

static void append_heat_data(GString *data, const struct sweep_grid *grid,
                             const struct heat_scale *scale)
{
    g_string_append_printf(data,
                           "# chunk size and device memory, by number; %s of the best policy, "
                           "as text\nNaN NaN NaN \"\"\n",
                           grid->measure->seconds ? "seconds" : "bytes");
    for (guint b = 0; b < grid->budgets->len; b++)
        for (guint s = 0; s < grid->sizes->len; s++) {
            bool known;
            const struct sweep_file_entry *best = sweep_grid_best(grid, b, grid->makers->len, s,
                                                                  &known);
            if (!best)
                continue;
            double value = grid->measure->value(&best->figures);
            g_autofree char *text = text_number("%.3g", value / scale->unit.size);
            g_string_append_printf(data, "%u %u ", s + 1, b + 1);
            axis_append(data, value);
            g_string_append_printf(data, " \"%s\"\n", text);
        }
}

/* Marks each plan in the row of its budget. A plan whose chunk size is between two sizes is drawn
 * between their columns. */
static void append_heat_plans(GString *data, const struct sweep_grid *grid, const GPtrArray *plans)
{
    g_string_append(data, "\n\n# plans, in the same columns\nNaN NaN\n");
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        uint64_t size = chunk_spread_size(&input->configuration.chunks);
        guint place = 0;
        while (place + 1 < grid->sizes->len &&
               g_array_index(grid->sizes, uint64_t, place + 1) <= size)
            place++;
        bool between = place + 1 < grid->sizes->len &&
                       size > g_array_index(grid->sizes, uint64_t, place);
        for (guint b = 0; b < grid->budgets->len; b++)
            if (g_array_index(grid->budgets, uint64_t, b) == input->configuration.device_budget)
                g_string_append_printf(data, "%u%s %u\n", place + 1, between ? ".5" : "", b + 1);
    }
}

static void append_tics(GString *drawing, const char *axis, const GArray *sizes, guint most)
{
    guint step = (sizes->len + most - 1) / most;
    g_string_append_printf(drawing, "set %stics (", axis);
    for (guint i = 0; i < sizes->len; i += step) {
        g_autofree char *size = axis_size(g_array_index(sizes, uint64_t, i));
        g_string_append_printf(drawing, "%s'%s' %u", i ? ", " : "", size, i + 1);
    }
    g_string_append(drawing, ")\n");
}

static void append_drawing(struct plot *plot, const struct sweep_grid *grid,
                           const struct heat_scale *scale)
{
    GString *drawing = plot->drawing;
    bool labels = grid->sizes->len * grid->budgets->len <= MOST_LABELS &&
                  grid->sizes->len <= MOST_COLUMNS;
    g_string_append(drawing, "    if (phone) { ");
    append_tics(drawing, "x", grid->sizes, 4);
    g_string_append(drawing, "    } else { ");
    append_tics(drawing, "x", grid->sizes, 10);
    g_string_append(drawing, "    }\n    ");
    append_tics(drawing, "y", grid->budgets, 12);
    g_string_append(drawing, colours);
    if (scale->least >= scale->most)
        g_string_append(drawing, "    set cbrange [0:*]\n");
    g_string_append_printf(
        drawing,
        "    unset grid; set border 0; set tics scale 0\n"
        "    set colorbox; set cbtics textcolor rgb ink\n"
        "    set cblabel '%s, %s' textcolor rgb ink\n"
        "    set xrange [0.5:%u.5]; set yrange [0.5:%u.5]\n"
        "    set xlabel 'chunk size' offset 0,0.3 textcolor rgb ink\n"
        "    set ylabel 'device memory' textcolor rgb ink\n"
        "    plot data index 0 using 1:2:($1-0.49):($1+0.49):($2-0.48):($2+0.48):($3/unit) with "
        "boxxyerror lc palette fs solid noborder notitle",
        grid->measure->name, scale->unit.name, grid->sizes->len, grid->budgets->len);
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

static struct heat_scale scale_of(const struct sweep_grid *grid)
{
    struct heat_scale scale = {INFINITY, 0, {"", 1}};
    for (guint b = 0; b < grid->budgets->len; b++)
        for (guint s = 0; s < grid->sizes->len; s++) {
            bool known;
            const struct sweep_file_entry *best = sweep_grid_best(grid, b, grid->makers->len, s,
                                                                  &known);
            if (best) {
                scale.least = MIN(scale.least, grid->measure->value(&best->figures));
                scale.most = MAX(scale.most, grid->measure->value(&best->figures));
            }
        }
    if (isinf(scale.least))
        scale.least = 0;
    scale.unit = grid->measure->seconds ? axis_seconds(scale.most) : axis_bytes(scale.most);
    return scale;
}

/* ---- as characters ---- */

#define HEAD 14 /* characters before the cells */

/* From the least, which is the best, to the most. */
static const char shades[] = "@%#*+=-.";

enum { SHADES = sizeof shades - 1 };

static char shade_of(const struct heat_scale *scale, double value)
{
    double share = scale->most > scale->least
                       ? (value - scale->least) / (scale->most - scale->least)
                       : 0;
    return shades[MIN((int)(share * SHADES), SHADES - 1)];
}

static char *value_text(const struct sweep_grid *grid, double value)
{
    return grid->measure->seconds ? text_seconds(value) : size_format((uint64_t)value);
}

/* Appends a text in the middle of `width` characters of `fill`; a text that is too long is left
 * out. */
static void append_middle(GString *text, const char *middle, char fill, int width)
{
    int length = (int)g_utf8_strlen(middle, -1) + 2;
    int before = length <= width && length > 2 ? (width - length) / 2 : width;
    for (int i = 0; i < before; i++)
        g_string_append_c(text, fill);
    if (before == width)
        return;
    g_string_append_printf(text, " %s ", middle);
    for (int i = before + length; i < width; i++)
        g_string_append_c(text, fill);
}

static bool has_plan(const struct sweep_grid *grid, const GPtrArray *plans, guint budget,
                     guint size)
{
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        uint64_t bytes = chunk_spread_size(&input->configuration.chunks);
        bool last = size + 1 == grid->sizes->len;
        if (input->configuration.device_budget == g_array_index(grid->budgets, uint64_t, budget) &&
            (size == 0 || bytes >= g_array_index(grid->sizes, uint64_t, size)) &&
            (last || bytes < g_array_index(grid->sizes, uint64_t, size + 1)))
            return true;
    }
    return false;
}

static void append_row(GString *text, const struct sweep_grid *grid, const GPtrArray *plans,
                       const struct heat_scale *scale, guint budget, int width)
{
    g_autofree char *memory = size_format(g_array_index(grid->budgets, uint64_t, budget));
    g_string_append_printf(text, "%*s ", HEAD - 1, memory);
    for (guint s = 0; s < grid->sizes->len; s++) {
        bool known;
        const struct sweep_file_entry *best = sweep_grid_best(grid, budget, grid->makers->len, s,
                                                              &known);
        double value = best ? grid->measure->value(&best->figures) : 0;
        g_autofree char *number = best ? value_text(grid, value) : g_strdup("");
        bool numbers = (int)g_utf8_strlen(number, -1) + 2 <= width;
        const char *mark = has_plan(grid, plans, budget, s) ? "P" : "";
        append_middle(text,
                      *mark     ? mark
                      : numbers ? number
                                : "",
                      best ? shade_of(scale, value) : ' ', width);
    }
    g_string_append_c(text, '\n');
}

/* Appends the chunk sizes below the cells, as many as fit. */
static void append_sizes(GString *text, const struct sweep_grid *grid, int width)
{
    GString *line = g_string_new(NULL);
    for (guint s = 0; s < grid->sizes->len; s++) {
        gsize at = HEAD + s * (gsize)width;
        if (line->len && line->len + 1 > at)
            continue;
        g_autofree char *size = axis_size(g_array_index(grid->sizes, uint64_t, s));
        g_string_append_printf(line, "%*s%s", (int)(at - line->len), "", size);
    }
    g_string_append_printf(text, "%s  chunk size\n", line->str);
    g_string_free(line, TRUE);
}

/* Appends a map in which dense characters stand for less, and the scale. */
static void append_text(GString *text, const struct sweep_grid *grid, const GPtrArray *plans,
                        const struct heat_scale *scale)
{
    int width = MAX(1, (PLOT_COLUMNS - HEAD) / (int)grid->sizes->len);
    for (guint b = grid->budgets->len; b-- > 0;)
        append_row(text, grid, plans, scale, b, width);
    append_sizes(text, grid, width);
    g_string_append_printf(text, "%*s", HEAD, "");
    int used = scale->most > scale->least ? SHADES : 1;
    for (int shade = 0; shade < used; shade++) {
        g_autofree char *from =
            value_text(grid, scale->least + shade * (scale->most - scale->least) / SHADES);
        g_string_append_printf(text, "%s%c %s", shade ? "  " : "", shades[shade], from);
    }
    g_string_append(text, plans->len ? "  P plan\n" : "\n");
}

struct plot *plot_heat(const struct sweep_file *sweep, const struct sweep_measure *measure,
                       const GPtrArray *plans, unsigned number)
{
    struct plot *plot =
        plot_new(plot_name("heat", number),
                 g_strdup_printf("The best %s by chunk size and device memory", measure->name));
    struct sweep_grid grid = sweep_grid_new(sweep, measure);
    struct heat_scale scale = scale_of(&grid);
    append_heat_data(plot->data, &grid, &scale);
    append_heat_plans(plot->data, &grid, plans);
    axis_append_variable(plot->setup, "middle", (scale.least + scale.most) / 2);
    axis_append_variable(plot->setup, "unit", scale.unit.size);
    plot->wide_height = 120 + 48 * (int)grid.budgets->len;
    plot->phone_height = plot->wide_height;
    append_drawing(plot, &grid, &scale);
    append_text(plot->text, &grid, plans, &scale);
    plot->alt = g_strdup_printf("A grid of %u chunk sizes by %u device memories. Cells are darker "
                                "where %s is less, and empty where nothing fits.",
                                grid.sizes->len, grid.budgets->len, measure->name);
    g_autofree char *origin = caption_name(sweep->origin);
    plot->caption = g_strdup_printf(
        "The best of all policies and strategies of %s. Darker is less. Cells are "
        "empty where nothing fits. The star is the plan, at its typical chunk size.%s",
        origin, grid.left_out);
    plot->text_caption = g_strdup_printf(
        "The best of all policies and strategies of %s. The denser the characters, the less. "
        "Cells are empty where nothing fits.%s%s",
        origin, plans->len ? " P is the plan, at its typical chunk size." : "", grid.left_out);
    sweep_grid_clear(&grid);
    return plot;
}
