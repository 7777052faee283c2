/* The stages of a pipeline over a step: a row for each, with its forward and backward passes. */
#include "report/plot.h"
#include "report/plots.h"
#include "report/text.h"

enum {
    MOST_NUMBERED = 16, /* micro-batches, so that their numbers fit into the passes */
    NAME_COLUMNS = 10,
    COLUMNS = PLOT_COLUMNS - NAME_COLUMNS - 3
};

static const struct drawn_pass *pass_at(const struct sweep_file *sweep, guint index)
{
    return &g_array_index(sweep->passes, struct drawn_pass, index);
}

static double duration_of(const struct sweep_file *sweep)
{
    double duration = 0;
    for (guint p = 0; p < sweep->passes->len; p++)
        duration = MAX(duration, pass_at(sweep, p)->end);
    return duration;
}

static uint32_t micro_batches_of(const struct sweep_file *sweep)
{
    uint32_t most = 0;
    for (guint p = 0; p < sweep->passes->len; p++)
        most = MAX(most, pass_at(sweep, p)->micro_batch);
    return most + 1;
}

/* Returns the share of the step in which a stage runs no pass. */
static double idle_share(const struct sweep_file *sweep, uint32_t stage)
{
    double busy = 0;
    for (guint p = 0; p < sweep->passes->len; p++)
        if (pass_at(sweep, p)->stage == stage)
            busy += pass_at(sweep, p)->end - pass_at(sweep, p)->start;
    return 1 - busy / duration_of(sweep);
}

static void append_data(GString *data, const struct sweep_file *sweep)
{
    for (int phase = 0; phase < TRACK_NO_PHASE; phase++) {
        g_string_append_printf(data,
                               "%s# %s: row from below, start and end in seconds, micro-batch\n"
                               "NaN NaN NaN NaN\n",
                               phase ? "\n\n" : "", trace_phase_name((enum trace_phase)phase));
        for (guint p = 0; p < sweep->passes->len; p++) {
            const struct drawn_pass *pass = pass_at(sweep, p);
            if (pass->phase != phase)
                continue;
            g_string_append_printf(data, "%u ", sweep->stages - 1 - pass->stage);
            axis_append(data, pass->start);
            g_string_append_c(data, ' ');
            axis_append(data, pass->end);
            g_string_append_printf(data, " %u\n", pass->micro_batch);
        }
    }
}

static void append_drawing(struct plot *plot, const struct sweep_file *sweep)
{
    struct axis_unit second = axis_seconds(duration_of(sweep));
    GString *drawing = plot->drawing;
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "duration", duration_of(sweep));
    g_string_append_printf(drawing,
                           "    set border 1 lc rgb muted lw 1\n    unset grid\n    unset ytics\n"
                           "    set lmargin 2; set rmargin 2; set tmargin 2\n"
                           "    set key above\n"
                           "    set xrange [0:duration/second]\n    set yrange [-0.1:%u]\n"
                           "    set xlabel 'time in the step, %s' offset 0,0.6 textcolor rgb ink\n",
                           sweep->stages, second.name);
    for (uint32_t s = 0; s < sweep->stages; s++) {
        uint32_t y = sweep->stages - 1 - s;
        g_autofree char *idle = text_number("%.0f", 100 * idle_share(sweep, s));
        g_string_append_printf(
            drawing,
            "    set label 'stage %u, idle %s %%' at graph 0, first %u.78 left textcolor rgb ink\n",
            s, idle, y);
    }
    for (int phase = 0; phase < TRACK_NO_PHASE; phase++)
        g_string_append_printf(
            drawing,
            "%s data index %d using (0):1:($2/second):($3/second):1:($1+0.6) with boxxyerror lc "
            "rgb '%s' fs solid noborder title '%s'",
            phase ? ", \\\n        " : "    plot", phase, palette_compute((enum trace_phase)phase),
            trace_phase_name((enum trace_phase)phase));
    for (int phase = 0; micro_batches_of(sweep) <= MOST_NUMBERED && phase < TRACE_UPDATE_PHASE;
         phase++)
        g_string_append_printf(
            drawing,
            ", \\\n        data index %d using (($2+$3)/2/second):($1+0.3):"
            "(phone ? '' : sprintf('%%d', $4)) with labels textcolor rgb '#ffffff' "
            "notitle",
            phase);
    g_string_append_c(drawing, '\n');
}

/* A line of letters for each stage, with dots where it waits. */
static void append_text(GString *text, const struct sweep_file *sweep)
{
    static const char letters[TRACK_NO_PHASE] = {'f', 'b', 'u'};
    double duration = duration_of(sweep), width = duration / COLUMNS;
    g_autofree char *length = text_seconds(duration);
    g_string_append(text, " f forward, b backward, u update, . waits\n");
    for (uint32_t s = 0; s < sweep->stages; s++) {
        char line[COLUMNS + 1];
        memset(line, '.', COLUMNS);
        line[COLUMNS] = '\0';
        for (guint p = 0; p < sweep->passes->len; p++) {
            const struct drawn_pass *pass = pass_at(sweep, p);
            for (int c = 0; pass->stage == s && c < COLUMNS; c++)
                if ((c + 0.5) * width >= pass->start && (c + 0.5) * width < pass->end)
                    line[c] = letters[pass->phase];
        }
        g_string_append_printf(text, " stage %-3u |%s|\n", s, line);
    }
    g_string_append_printf(text, "%*s0%*s\n", NAME_COLUMNS + 1, "", COLUMNS - 1, length);
}

struct plot *plot_stages(const struct sweep_file *sweep, unsigned number)
{
    struct plot *plot = plot_new(plot_name("stages", number),
                                 g_strdup("What each stage of the pipeline does when"));
    g_autofree char *length = text_seconds(duration_of(sweep));
    g_autofree char *origin = caption_name(sweep->origin);
    plot->wide_height = 90 + 48 * (int)sweep->stages;
    plot->phone_height = 90 + 48 * (int)sweep->stages;
    append_data(plot->data, sweep);
    append_drawing(plot, sweep);
    append_text(plot->text, sweep);
    plot->alt = g_strdup_printf("One row for each of %u stages over a step of %s, with the forward "
                                "and backward passes of %u micro-batches.",
                                sweep->stages, length, micro_batches_of(sweep));
    plot->caption = g_strdup_printf(
        "Simulated, %s, the best configuration. A box is a pass of one micro-batch. Where a row is "
        "empty, the stage waits for other stages, messages or copies.",
        origin);
    plot->text_caption = g_strdup_printf(
        "Simulated, %s, the best configuration. Letters are passes of micro-batches. At a dot, the "
        "stage waits for other stages, messages or copies.",
        origin);
    return plot;
}
