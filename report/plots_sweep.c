/* Plots of a sweep: lines by chunk size, and a map by chunk size and device memory. */
#include "base/size.h"
#include "chunks/figures.h"
#include "report/plot.h"
#include "report/plots.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

static double traffic(const struct plan_figures *figures)
{
    return (double)figures_traffic(figures);
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
                                            .name = "traffic per iteration",
                                            .value = traffic,
                                            .bound = traffic_bound};

const struct sweep_measure sweep_time = {.stem = "sweep-time",
                                         .title = "Step time by chunk size and policy",
                                         .name = "step time",
                                         .seconds = true,
                                         .value = step_time,
                                         .bound = time_bound};

/* More panels, lines and points cannot be told apart. */
enum { MOST_PANELS = 12, MOST_LINES = 24, MOST_SIZES = 64 };

struct sweep_cell {
    const struct sweep_file_entry *best; /* NULL if none fits */
    bool known;
};

/* Leaves at most `most` values, at equal distances. The first and the last stay. */
static guint thin_out(GArray *values, guint most)
{
    guint all = values->len;
    for (guint i = 0; all > most && i < most; i++)
        g_array_index(values, uint64_t, i) = g_array_index(values, uint64_t,
                                                           (guint64)i * (all - 1) / (most - 1));
    g_array_set_size(values, MIN(all, most));
    return all;
}

/* Returns the index of a value in an ascending array, or its length. */
static guint place_of(const GArray *values, uint64_t value)
{
    guint low = 0, high = values->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(values, uint64_t, middle) < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < values->len && g_array_index(values, uint64_t, low) == value ? low : values->len;
}

static int by_value(const void *left, const void *right, void *best)
{
    const double *a = g_hash_table_lookup(best, *(const char *const *)left);
    const double *b = g_hash_table_lookup(best, *(const char *const *)right);
    return (!a - !b) ? !a - !b : a ? (*a > *b) - (*a < *b) : 0;
}

/* Leaves the MOST_LINES makers with the least values. Returns how many there were. */
static guint leave_best(GPtrArray *makers, const struct sweep_file *sweep,
                        const struct sweep_measure *measure)
{
    guint all = makers->len;
    if (all <= MOST_LINES)
        return all;
    g_autoptr(GHashTable) best = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        const double value = entry->fits ? measure->value(&entry->figures) : INFINITY;
        const double *least = g_hash_table_lookup(best, entry->configuration.maker);
        if (entry->fits && (!least || value < *least))
            g_hash_table_insert(best, entry->configuration.maker, g_memdup2(&value, sizeof value));
    }
    g_ptr_array_sort_with_data(makers, by_value, best);
    g_ptr_array_set_size(makers, MOST_LINES);
    return all;
}

static struct sweep_cell *cell_of(const struct sweep_grid *grid, guint budget, guint maker,
                                  guint size)
{
    size_t row = (size_t)budget * (grid->makers->len + 1) + maker;
    return &grid->cells[row * grid->sizes->len + size];
}

static void offer(const struct sweep_grid *grid, struct sweep_cell *cell,
                  const struct sweep_file_entry *entry)
{
    double (*value)(const struct plan_figures *) = grid->measure->value;
    cell->known = true;
    if (entry->fits && (!cell->best || value(&entry->figures) < value(&cell->best->figures)))
        cell->best = entry;
}

static void fill(struct sweep_grid *grid, const struct sweep_file *sweep)
{
    g_autoptr(GHashTable) lines = g_hash_table_new(g_str_hash, g_str_equal);
    for (guint m = 0; m < grid->makers->len; m++)
        g_hash_table_insert(lines, g_ptr_array_index(grid->makers, m), GUINT_TO_POINTER(m + 1));
    grid->cells = g_new0(struct sweep_cell,
                         (size_t)grid->budgets->len * (grid->makers->len + 1) * grid->sizes->len);
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        guint budget = place_of(grid->budgets, entry->configuration.device_budget);
        guint size = place_of(grid->sizes, entry->configuration.chunk_bytes);
        guint line = GPOINTER_TO_UINT(g_hash_table_lookup(lines, entry->configuration.maker));
        if (budget == grid->budgets->len || size == grid->sizes->len)
            continue;
        offer(grid, cell_of(grid, budget, grid->makers->len, size), entry);
        if (line)
            offer(grid, cell_of(grid, budget, line - 1, size), entry);
    }
}

struct sweep_grid sweep_grid_new(const struct sweep_file *sweep,
                                 const struct sweep_measure *measure)
{
    struct sweep_grid grid = {.measure = measure,
                              .budgets = sweep_file_budgets(sweep),
                              .makers = sweep_file_makers(sweep),
                              .sizes = sweep_file_sizes(sweep)};
    guint budgets = thin_out(grid.budgets, MOST_PANELS), sizes = thin_out(grid.sizes, MOST_SIZES);
    guint makers = leave_best(grid.makers, sweep, measure);
    bool all = budgets == grid.budgets->len && sizes == grid.sizes->len &&
               makers == grid.makers->len;
    grid.left_out = all ? g_strdup("")
                        : g_strdup_printf(" Of %u memories, %u policies and %u sizes, %u, the best "
                                          "%u and %u are drawn.",
                                          budgets, makers, sizes, grid.budgets->len,
                                          grid.makers->len, grid.sizes->len);
    fill(&grid, sweep);
    return grid;
}

void sweep_grid_clear(struct sweep_grid *grid)
{
    g_array_unref(grid->budgets);
    g_ptr_array_unref(grid->makers);
    g_array_unref(grid->sizes);
    g_free(grid->left_out);
    g_free(grid->cells);
}

const struct sweep_file_entry *sweep_grid_best(const struct sweep_grid *grid, guint budget,
                                               guint maker, guint size, bool *known)
{
    const struct sweep_cell *cell = cell_of(grid, budget, maker, size);
    *known = cell->known;
    return cell->best;
}

/* gnuplot counts blocks, so an empty block still needs a row. */
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

static void append_line(GString *data, const struct sweep_grid *grid, guint budget, guint maker)
{
    begin_block(data, grid, g_array_index(grid->budgets, uint64_t, budget),
                g_ptr_array_index(grid->makers, maker));
    for (guint s = 0; s < grid->sizes->len; s++) {
        bool known;
        const struct sweep_file_entry *entry = sweep_grid_best(grid, budget, maker, s, &known);
        if (!known)
            continue;
        g_string_append_printf(data, "%" G_GUINT64_FORMAT " ",
                               g_array_index(grid->sizes, uint64_t, s));
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
        if (input->configuration.device_budget != budget || (grid->measure->seconds && value <= 0))
            continue;
        g_string_append_printf(data, "%" G_GUINT64_FORMAT " ",
                               chunk_spread_size(&input->configuration.chunks));
        axis_append(data, value);
        g_string_append(data, " 1\n");
    }
}

/* Each bound goes from one side of the panel to the other, with a gap before the next. */
static void append_bounds(GString *data, const struct sweep_grid *grid, const GPtrArray *plans,
                          uint64_t budget)
{
    begin_block(data, grid, budget, "lower bounds of plans");
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        if (input->configuration.device_budget != budget || !input->plan->certificate)
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

void sweep_grid_append_data(GString *data, const struct sweep_grid *grid, const GPtrArray *plans)
{
    for (guint b = 0; b < grid->budgets->len; b++)
        for (guint m = 0; m < grid->makers->len; m++)
            append_line(data, grid, b, m);
    for (guint b = 0; b < grid->budgets->len; b++)
        append_plans(data, grid, plans, g_array_index(grid->budgets, uint64_t, b));
    for (guint b = 0; b < grid->budgets->len; b++)
        append_bounds(data, grid, plans, g_array_index(grid->budgets, uint64_t, b));
}

/* Returns the number of panels in a row on a page. */
static guint columns_of(const struct sweep_grid *grid)
{
    return grid->budgets->len == 4 ? 2 : MIN(grid->budgets->len, 3);
}

/* The width of a letter in pixels, on a page and on a phone. */
#define WIDE_LETTER  8.4
#define PHONE_LETTER 7.2

/* Characters of a name in the key. */
enum { NAME_LENGTH = 24 };

static char *name_of(const char *maker)
{
    const char *shown = g_str_has_prefix(maker, "policy ") ? maker + strlen("policy ") : maker;
    return text_shortened(shown, NAME_LENGTH);
}

/* Appends gnuplot arrays: names and styles of the lines and panels. */
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

/* Returns where the axis begins: at 0, unless all lines would lie in its upper third. */
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
    bool equal = least > 0.98 * greatest; /* noise must not look like a difference */
    return equal || least < 0.67 * greatest ? 0 : least - 0.2 * (greatest - least);
}

static void append_axes(struct plot *plot, const struct sweep_grid *grid, double greatest,
                        double floor)
{
    struct axis_unit byte = grid->measure->seconds ? axis_seconds(greatest) : axis_bytes(greatest);
    guint columns = columns_of(grid);
    axis_append_variable(plot->setup, "byte", byte.size);
    axis_append_variable(plot->setup, "greatest", greatest > 0 ? greatest : 1);
    axis_append_variable(plot->setup, "floor_at", floor);
    uint64_t least = g_array_index(grid->sizes, uint64_t, 0);
    uint64_t most = g_array_index(grid->sizes, uint64_t, grid->sizes->len - 1);
    g_string_append_printf(
        plot->setup, "least_size = %" G_GUINT64_FORMAT ".; most_size = %" G_GUINT64_FORMAT ".\n",
        least, most);
    g_string_append(plot->drawing,
                    "    set logscale x 2\n"
                    "    set xrange [least_size/1.3:most_size*1.3]\n"
                    "    set yrange [floor_at/byte:(greatest+0.08*(greatest-floor_at))/byte]\n"
                    "    if (phone) {\n        ");
    axis_append_size_tics(plot->drawing, grid->sizes, 0.7 * PLOT_PHONE, PHONE_LETTER);
    g_string_append(plot->drawing, "    }\n    if (page == 4) {\n        ");
    axis_append_size_tics(plot->drawing, grid->sizes,
                          (0.88 - 0.075 * (columns - 1)) / columns * PLOT_COLUMNS, 1);
    g_string_append(plot->drawing, "    }\n    if (page < 3) {\n        ");
    axis_append_size_tics(plot->drawing, grid->sizes,
                          (0.88 - 0.075 * (columns - 1)) / columns * PLOT_WIDE, WIDE_LETTER);
    g_string_append_printf(plot->drawing,
                           "    }\n"
                           "    measure = '%s, %s'\n",
                           grid->measure->name, byte.name);
    plot->axis = g_strdup(byte.name);
}

/* The marks that the key explains. */
struct marks {
    bool misfits, plans, bounds;
};

/* The key is a panel of its own below the others, so that it has the whole width. */
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

/* Earlier lines are wider, so that equal lines can be seen. */
static const char panel_drawing[] =
    "    set multiplot layout rows, columns \\\n"
    "        margins screen (phone ? 0.16 : 0.075), screen (phone ? 0.9 : 0.965), \\\n"
    "        screen bottom/height, screen 1 - 30/height \\\n"
    "        spacing screen 0.075, screen 75/height\n"
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

/* Returns the rows that a key of `names` names takes. gnuplot makes all columns as wide as the
 * longest name. */
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

static void append_panels(struct plot *plot, const struct sweep_grid *grid,
                          const struct marks *marks)
{
    guint panels = grid->budgets->len;
    guint names = grid->makers->len + marks->misfits + marks->plans + marks->bounds;
    guint columns = columns_of(grid), rows = (panels + columns - 1) / columns;
    guint wide_bottom = 75 + 20 * key_rows(grid, names, PLOT_WIDE, WIDE_LETTER);
    guint phone_bottom = 60 + 20 * key_rows(grid, names, PLOT_PHONE, PHONE_LETTER);
    plot->wide_height = (int)(wide_bottom + 300 * rows);
    plot->phone_height = (int)(phone_bottom + 230 * panels);
    g_string_append_printf(plot->drawing,
                           "    columns = phone ? 1 : %u; rows = phone ? panels : %u\n"
                           "    height = phone ? %d. : %d.; bottom = phone ? %u. : %u.\n",
                           columns, rows, plot->phone_height, plot->wide_height, phone_bottom,
                           wide_bottom);
    g_string_append(plot->drawing, panel_drawing);
    append_key(plot->drawing, marks);
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

/* Returns a sentence about the best entry. */
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
    return g_strdup_printf("The least is %s, with %s.", text, label);
}

/* `plan` and `bound` name what is drawn for the plan and for its lower bound. */
static char *caption_of(const char *what, const struct marks *marks, const char *plan,
                        const char *bound, const char *rest)
{
    g_autofree char *planned = g_strdup_printf(" %s is the plan, at the typical size of its "
                                               "parameter chunks: half of the bytes lie in larger "
                                               "ones.",
                                               plan);
    g_autofree char *proven = g_strdup_printf(" %s is a lower bound: the certificate of the plan "
                                              "proves that no plan with its layout is below it.",
                                              bound);
    return g_strconcat(what, marks->plans ? planned : "", marks->bounds ? proven : "", rest, NULL);
}

static void describe_sweep(struct plot *plot, const struct sweep_file *sweep,
                           const struct sweep_grid *grid, const struct marks *marks, bool cut)
{
    g_autofree char *least = least_text(sweep, grid->measure);
    g_autofree char *origin = caption_name(sweep->origin);
    plot->alt = g_strdup_printf("Lines of %s by chunk size for %u policies, in %u panel%s, one "
                                "panel per device memory%s. %s",
                                grid->measure->name, grid->makers->len, grid->budgets->len,
                                grid->budgets->len == 1 ? "" : "s",
                                marks->plans ? ", with the plan marked" : "", least);
    g_autofree char *what =
        g_strdup_printf("%s in the %u configurations of %s. %s%s",
                        grid->measure->seconds
                            ? "The time of one iteration"
                            : "Bytes that one iteration moves over the link, in both directions,",
                        sweep->entries->len, origin, least,
                        looks_ahead(sweep) ? " The best look-ahead is drawn." : "");
    g_autofree char *rest = g_strconcat(cut ? " The axis does not begin at 0." : "", grid->left_out,
                                        NULL);
    plot->caption = caption_of(what, marks, "The star", "The dashed line", rest);
    plot->text_caption = caption_of(what, marks, "The point \"plan\"", "The line \"lower bound\"",
                                    rest);
}

static struct marks marks_of(const struct sweep_file *sweep, const struct sweep_grid *grid,
                             const GPtrArray *plans)
{
    struct marks marks = {0};
    for (guint p = 0; p < plans->len; p++)
        for (guint b = 0; b < grid->budgets->len; b++) {
            const struct input_plan *input = g_ptr_array_index(plans, p);
            const struct certificate *certificate = input->plan->certificate;
            if (input->configuration.device_budget != g_array_index(grid->budgets, uint64_t, b))
                continue;
            marks.plans = marks.plans || grid->measure->value(&input->plan->predicted) > 0;
            marks.bounds = marks.bounds || (certificate && grid->measure->bound(certificate) > 0);
        }
    for (guint i = 0; i < sweep->entries->len; i++)
        marks.misfits = marks.misfits ||
                        !g_array_index(sweep->entries, struct sweep_file_entry, i).fits;
    return marks;
}

struct plot *plot_sweep(const struct sweep_file *sweep, const struct sweep_measure *measure,
                        const GPtrArray *plans, unsigned number)
{
    struct plot *plot = plot_new(plot_name(measure->stem, number), g_strdup(measure->title));
    struct sweep_grid grid = sweep_grid_new(sweep, measure);
    const struct marks marks = marks_of(sweep, &grid, plans);
    sweep_grid_append_data(plot->data, &grid, plans);
    append_names(plot->setup, &grid);
    double greatest = greatest_of(sweep, measure, plans);
    double floor = floor_of(sweep, measure, plans, greatest);
    append_axes(plot, &grid, greatest, floor);
    append_panels(plot, &grid, &marks);
    describe_sweep(plot, sweep, &grid, &marks, floor > 0);
    sweep_grid_clear(&grid);
    return plot;
}
