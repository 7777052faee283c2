#include "report/figures.h"

#include "report/axis.h"
#include "report/palette.h"
#include "report/sweep_grid.h"
#include "report/text.h"
#include "traces/size.h"

#include <math.h>
#include <string.h>

/* How many chunk sizes find room below a panel on a phone, and on a page with one, two or three
 * panels in a row. */
static const guint tics_phone = 4, tics_wide[] = {0, 9, 6, 4};

/* Panels in a row on a page. */
static guint columns_of(const struct sweep_grid *grid)
{
    return grid->budgets->len == 4 ? 2 : MIN(grid->budgets->len, 3);
}

/* Characters of a line's name in the key. */
enum { NAME_LENGTH = 24 };

static char *name_of(const char *maker)
{
    const char *shown = g_str_has_prefix(maker, "policy ") ? maker + strlen("policy ") : maker;
    return text_shortened(shown, NAME_LENGTH);
}

/* gnuplot arrays: what each line and each panel is called and looks like. */
static void append_names(GString *setup, const struct sweep_grid *grid)
{
    g_string_append_printf(setup, "panels = %u; lines = %u\narray budget[panels]\n",
                           grid->budgets->len, grid->makers->len);
    for (guint b = 0; b < grid->budgets->len; b++) {
        g_autofree char *size = size_format(g_array_index(grid->budgets, uint64_t, b));
        g_string_append_printf(setup, "budget[%u] = '%s device memory'\n", b + 1, size);
    }
    g_string_append(setup, "array name[lines]; array colour[lines]; array point[lines]\n");
    for (guint m = 0; m < grid->makers->len; m++) {
        const char *maker = g_ptr_array_index(grid->makers, m);
        g_autofree char *label = name_of(maker);
        g_autofree char *quoted = text_gnuplot(label);
        g_string_append_printf(setup, "name[%u] = %s; colour[%u] = '%s'; point[%u] = %d\n", m + 1,
                               quoted, m + 1, palette_maker(maker), m + 1,
                               palette_maker_point(maker));
    }
}

static double greatest_of(const struct sweep_file *sweep, const struct sweep_measure *measure,
                          const GPtrArray *plans)
{
    double greatest = 0;
    for (guint i = 0; i < sweep->entries->len; i++)
        greatest =
            MAX(greatest,
                measure->value(&g_array_index(sweep->entries, struct sweep_file_entry, i).figures));
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        greatest = MAX(greatest, measure->value(&input->plan->predicted));
    }
    return greatest;
}

static void take_least(double value, double *least)
{
    if (value > 0)
        *least = MIN(*least, value);
}

/* Where the axis begins: at 0, unless all lines would lie in its upper third, one on another. */
static double floor_of(const struct sweep_file *sweep, const struct sweep_measure *measure,
                       const GPtrArray *plans, double greatest)
{
    double least = greatest;
    for (guint i = 0; i < sweep->entries->len; i++)
        take_least(
            measure->value(&g_array_index(sweep->entries, struct sweep_file_entry, i).figures),
            &least);
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        take_least(measure->value(&input->plan->predicted), &least);
        if (input->plan->certificate)
            take_least(measure->bound(input->plan->certificate), &least);
    }
    bool equal = least > 0.98 * greatest; /* noise is not to look like more */
    return equal || least < 0.67 * greatest ? 0 : least - 0.2 * (greatest - least);
}

static void append_axes(struct figure *figure, const struct sweep_grid *grid, double greatest,
                        double floor)
{
    struct axis_unit byte = grid->measure->seconds ? axis_seconds(greatest) : axis_bytes(greatest);
    axis_append_variable(figure->setup, "byte", byte.size);
    axis_append_variable(figure->setup, "greatest", greatest > 0 ? greatest : 1);
    axis_append_variable(figure->setup, "floor_at", floor);
    uint64_t least = g_array_index(grid->sizes, uint64_t, 0);
    uint64_t most = g_array_index(grid->sizes, uint64_t, grid->sizes->len - 1);
    g_string_append_printf(
        figure->setup, "least_size = %" G_GUINT64_FORMAT ".; most_size = %" G_GUINT64_FORMAT ".\n",
        least, most);
    g_string_append(figure->drawing,
                    "    set logscale x 2\n"
                    "    set xrange [least_size/1.3:most_size*1.3]\n"
                    "    set yrange [floor_at/byte:(greatest+0.08*(greatest-floor_at))/byte]\n"
                    "    if (phone) {\n        ");
    axis_append_size_tics(figure->drawing, grid->sizes, tics_phone);
    g_string_append(figure->drawing, "    } else {\n        ");
    axis_append_size_tics(figure->drawing, grid->sizes, tics_wide[columns_of(grid)]);
    g_string_append_printf(figure->drawing,
                           "    }\n"
                           "    measure = '%s, %s'\n",
                           grid->measure->name, byte.name);
}

/* What the key names beside the lines. */
struct marks {
    bool misfits, plans, bounds;
};

/* The size of the key below the panels, a panel of its own so that it has the whole width. */
static void append_key(GString *drawing, const struct marks *marks)
{
    g_string_append(drawing,
                    "    set origin 0,0; set size 1,(bottom-50)/height\n"
                    "    set lmargin 0; set rmargin 0; set tmargin 0; set bmargin 0\n"
                    "    unset border; unset tics; unset xlabel; unset ylabel; unset title\n"
                    "    unset grid; unset logscale; set xrange [0:1]; set yrange [0:1]\n"
                    "    set key inside center center horizontal\n"
                    "    plot for [m = 1:lines] NaN with linespoints lc rgb colour[m] lw 2 "
                    "pt point[m] ps 0.8 title name[m]");
    if (marks->plans)
        g_string_append(drawing, ", \\\n        NaN with points pt 3 ps 1.6 lw 3 lc rgb "
                                 "'" PALETTE_PLAN "' title 'plan'");
    if (marks->bounds)
        g_string_append(drawing, ", \\\n        NaN with lines lc rgb ink lw 1.5 dt (8,5) "
                                 "title 'lower bound'");
    if (marks->misfits)
        g_string_append(drawing, ", \\\n        NaN with points pt 2 ps 0.7 lw 1.5 lc rgb ink "
                                 "title 'does not fit'");
    g_string_append(drawing, "\n    unset multiplot\n");
}

/* Earlier lines are wider, so that equal ones are seen to be equal. */
static const char panel_drawing[] =
    "    set multiplot layout rows, columns \\\n"
    "        margins screen (phone ? 0.16 : 0.075), screen (phone ? 0.97 : 0.985), \\\n"
    "        screen bottom/height, screen 1 - 30/height \\\n"
    "        spacing screen 0.05, screen 75/height\n"
    "    unset key\n"
    "    do for [b = 1:panels] {\n"
    "        first = columns == 1 || b % columns == 1\n"
    "        set title budget[b] offset 0,-0.5 textcolor rgb ink\n"
    "        set ylabel (first ? measure : '') textcolor rgb ink\n"
    "        set format y (first ? '%g' : '')\n"
    "        set xlabel (b > panels - columns ? 'chunk size' : '') offset 0,0.3 "
    "textcolor rgb ink\n"
    "        plot for [m = 1:lines] data index (b-1)*lines+m-1 using 1:($2/byte) \\\n"
    "            with linespoints lc rgb colour[m] lw 1.5 + 0.2*(lines - m) pt point[m] ps 0.7 + "
    "0.06*(lines - m), "
    "\\\n"
    "            for [m = 1:lines] data index (b-1)*lines+m-1 \\\n"
    "            using 1:($3 > 0 ? NaN : (0.97*floor_at+0.03*greatest)/byte) \\\n"
    "            with points pt 2 ps 0.7 lw 1.5 lc rgb colour[m], \\\n"
    "            data index panels*(lines+1)+b-1 using 1:($2/byte) with lines lc rgb ink lw 1.5 "
    "dt (8,5), \\\n"
    "            data index panels*lines+b-1 using 1:($2/byte) \\\n"
    "            with points pt 3 ps 1.6 lw 3 lc rgb '" PALETTE_PLAN "'\n"
    "    }\n";

/* Rows of a key of so many names on so many pixels: gnuplot makes all columns as wide as the
 * longest name needs. */
static guint key_rows(const struct sweep_grid *grid, guint names, double pixels, double letter)
{
    glong longest = (glong)strlen("does not fit");
    for (guint m = 0; m < grid->makers->len; m++) {
        g_autofree char *name = name_of(g_ptr_array_index(grid->makers, m));
        longest = MAX(longest, g_utf8_strlen(name, -1));
    }
    guint columns = MAX(1, (guint)(pixels / ((double)(longest + 7) * letter)));
    return (names + columns - 1) / columns;
}

static void append_panels(struct figure *figure, const struct sweep_grid *grid,
                          const struct marks *marks)
{
    guint panels = grid->budgets->len;
    guint names = grid->makers->len + marks->misfits + marks->plans + marks->bounds;
    guint columns = columns_of(grid), rows = (panels + columns - 1) / columns;
    guint wide_bottom = 75 + 20 * key_rows(grid, names, FIGURE_WIDE, 8.4);
    guint phone_bottom = 60 + 20 * key_rows(grid, names, FIGURE_PHONE, 7.2);
    figure->wide_height = (int)(wide_bottom + 300 * rows);
    figure->phone_height = (int)(phone_bottom + 230 * panels);
    g_string_append_printf(figure->drawing,
                           "    columns = phone ? 1 : %u; rows = phone ? panels : %u\n"
                           "    height = phone ? %d. : %d.; bottom = phone ? %u. : %u.\n",
                           columns, rows, figure->phone_height, figure->wide_height, phone_bottom,
                           wide_bottom);
    g_string_append(figure->drawing, panel_drawing);
    append_key(figure->drawing, marks);
}

static bool looks_ahead(const struct sweep_file *sweep)
{
    int64_t first =
        g_array_index(sweep->entries, struct sweep_file_entry, 0).configuration.look_ahead;
    for (guint i = 1; i < sweep->entries->len; i++)
        if (g_array_index(sweep->entries, struct sweep_file_entry, i).configuration.look_ahead !=
            first)
            return true;
    return false;
}

/* A sentence. */
static char *least_text(const struct sweep_file *sweep, const struct sweep_measure *measure)
{
    const struct sweep_file_entry *best = NULL;
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (entry->fits &&
            (!best || measure->value(&entry->figures) < measure->value(&best->figures)))
            best = entry;
    }
    if (!best)
        return g_strdup("Nothing fits.");
    double value = measure->value(&best->figures);
    g_autofree char *label = configuration_label(&best->configuration);
    g_autofree char *text = measure->seconds ? text_seconds(value) : size_format((uint64_t)value);
    return g_strdup_printf("The least, %s, is with %s.", text, label);
}

static void describe(struct figure *figure, const struct sweep_file *sweep,
                     const struct sweep_grid *grid, const struct marks *marks, bool cut)
{
    g_autofree char *least = least_text(sweep, grid->measure);
    figure->alt = g_strdup_printf("Lines of %s by chunk size, one for each of %u policies, "
                                  "in %u panel%s, one for each device memory%s. %s",
                                  grid->measure->name, grid->makers->len, grid->budgets->len,
                                  grid->budgets->len == 1 ? "" : "s",
                                  marks->plans ? ", with the plan marked" : "", least);
    figure->caption = g_strdup_printf(
        "%s in the %u configurations of %s. %s%s%s%s%s",
        grid->measure->seconds ? "How long one iteration takes"
                               : "What one iteration moves over the link, both ways,",
        sweep->entries->len, sweep->origin, least,
        looks_ahead(sweep) ? " Of several look-aheads the best is drawn." : "",
        marks->plans ? " The star is the plan, at the size of its parameter chunks." : "",
        marks->bounds ? " No plan with the layout of that one can be below the dashed line: its "
                        "certificate proves it."
                      : "",
        cut ? " The axis does not begin at 0." : "");
}

static struct marks marks_of(const struct sweep_file *sweep, const struct sweep_grid *grid,
                             const GPtrArray *plans)
{
    struct marks marks = {0};
    for (guint p = 0; p < plans->len; p++)
        for (guint b = 0; b < grid->budgets->len; b++) {
            const struct input_plan *input = g_ptr_array_index(plans, p);
            const struct certificate *certificate = input->plan->certificate;
            if (input->configuration.device_bytes != g_array_index(grid->budgets, uint64_t, b))
                continue;
            marks.plans = marks.plans || grid->measure->value(&input->plan->predicted) > 0;
            marks.bounds = marks.bounds || (certificate && grid->measure->bound(certificate) > 0);
        }
    for (guint i = 0; i < sweep->entries->len; i++)
        marks.misfits = marks.misfits ||
                        !g_array_index(sweep->entries, struct sweep_file_entry, i).fits;
    return marks;
}

struct figure *figure_sweep(const struct sweep_file *sweep, const struct sweep_measure *measure,
                            const GPtrArray *plans, unsigned number)
{
    struct figure *figure = figure_new(figure_name(measure->stem, number),
                                       g_strdup(measure->title));
    struct sweep_grid grid = sweep_grid_new(sweep, measure);
    const struct marks marks = marks_of(sweep, &grid, plans);
    sweep_grid_append_data(figure->data, sweep, &grid, plans);
    append_names(figure->setup, &grid);
    double greatest = greatest_of(sweep, measure, plans);
    double floor = floor_of(sweep, measure, plans, greatest);
    append_axes(figure, &grid, greatest, floor);
    append_panels(figure, &grid, &marks);
    describe(figure, sweep, &grid, &marks, floor > 0);
    sweep_grid_clear(&grid);
    return figure;
}
