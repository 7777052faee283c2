/* Areas over the time of a step, drawn as characters. */
#include "base/size.h"
#include "report/plot.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

enum { HEAD = 11, COLUMNS = PLOT_COLUMNS - HEAD - 1, ROWS = 16, TIC_ROWS = 4 };

/* Appends text from the column `at` of the line on. */
static void append_at(GString *line, gsize at, const char *text)
{
    gsize length = (gsize)g_utf8_strlen(line->str, -1);
    if (at > length)
        g_string_append_printf(line, "%*s", (int)(at - length), "");
    g_string_append(line, text);
}

void text_append_phases(GString *text, const GArray *phases, double duration, int head, int columns)
{
    g_autoptr(GString) line = g_string_new(NULL);
    for (guint i = 0; i < phases->len; i++) {
        const struct track_phase *phase = &g_array_index(phases, struct track_phase, i);
        gsize at = (gsize)head + (gsize)(columns * phase->start / duration);
        gsize end = (gsize)head + (gsize)(columns * phase->end / duration);
        const char *name = trace_phase_name(phase->phase);
        if (line->len > at || at + 1 + strlen(name) > end)
            continue;
        append_at(line, at, "|");
        g_string_append(line, name);
    }
    if (line->len)
        g_string_append_printf(text, "%s\n", line->str);
}

struct areas *areas_new(unsigned count, double duration, double top)
{
    struct areas *areas = g_new0(struct areas, 1);
    g_assert(count <= AREAS_MOST);
    areas->count = count;
    areas->duration = duration > 0 ? duration : 1;
    areas->top = top > 0 ? top : 1;
    areas->line = -1;
    areas->edges = g_new0(double, COLUMNS *count);
    return areas;
}

void areas_free(struct areas *areas)
{
    g_free(areas->edges);
    g_free(areas);
}

static int column_of(const struct areas *areas, double time)
{
    return CLAMP((int)(COLUMNS * time / areas->duration), 0, COLUMNS - 1);
}

static double greatest(const double *edges, unsigned count)
{
    double most = 0;
    for (unsigned a = 0; a < count; a++)
        most = fmax(most, edges[a]);
    return most;
}

void areas_add(struct areas *areas, double start, double end, const double *edges)
{
    double most = greatest(edges, areas->count);
    int last = column_of(areas, start + fmax(0, (end - start) * (1 - 1e-9)));
    for (int c = column_of(areas, start); c <= last; c++) {
        double *column = areas->edges + (gsize)c * areas->count;
        if (most >= greatest(column, areas->count))
            memcpy(column, edges, areas->count * sizeof *column);
    }
}

static const char *glyph_at(const struct areas *areas, int column, double height)
{
    const double *edges = areas->edges + (gsize)column * areas->count;
    for (unsigned a = 0; a < areas->count; a++)
        if (edges[a] >= height)
            return areas->glyphs[a];
    return " ";
}

static void append_rows(GString *text, const struct areas *areas)
{
    double step = areas->top / ROWS;
    /* The first row whose middle no area below the line reaches. */
    int line = areas->line >= 0 ? (int)ceil(areas->line / step - 0.5) : -1;
    for (int row = ROWS - 1; row >= 0; row--) {
        bool labelled = row % TIC_ROWS == TIC_ROWS - 1;
        g_autofree char *size = labelled ? axis_size((uint64_t)((row + 1) * step)) : g_strdup("");
        g_string_append_printf(text, "%*s |", HEAD - 2, size);
        for (int c = 0; c < COLUMNS; c++) {
            const char *glyph = glyph_at(areas, c, (row + 0.5) * step);
            g_string_append(text, row == line && *glyph == ' ' ? "=" : glyph);
        }
        while (text->str[text->len - 1] == ' ')
            g_string_truncate(text, text->len - 1);
        g_string_append_c(text, '\n');
    }
}

/* Appends a line in which `label` points at its column from above. */
static void append_mark(GString *text, const struct areas *areas)
{
    if (!areas->mark)
        return;
    g_autoptr(GString) line = g_string_new(NULL);
    g_autofree char *label = text_shortened(areas->mark, COLUMNS / 2 - 2);
    gsize at = HEAD + (gsize)column_of(areas, areas->mark_at);
    gsize length = (gsize)g_utf8_strlen(label, -1);
    bool before = at > HEAD + COLUMNS / 2;
    append_at(line, before ? at - length - 1 : at, before ? label : "v ");
    g_string_append(line, before ? " v" : label);
    g_string_append_printf(text, "%s\n", line->str);
}

static void append_key(GString *text, const struct areas *areas)
{
    g_string_append_printf(text, "%*s", HEAD, "");
    for (unsigned a = 0; a < areas->count; a++)
        g_string_append_printf(text, "%s%s %s", a ? "  " : "", areas->glyphs[a], areas->names[a]);
    if (areas->line >= 0) {
        g_autofree char *size = size_format((uint64_t)areas->line);
        g_string_append_printf(text, "  = %s, %s", areas->line_name, size);
    }
    g_string_append_c(text, '\n');
}

void areas_append_text(GString *text, const struct areas *areas, const GArray *phases, bool timed)
{
    g_autofree char *length = timed ? text_seconds(areas->duration)
                                    : g_strdup_printf("%.0f moments", areas->duration);
    text_append_phases(text, phases, areas->duration, HEAD, COLUMNS);
    append_mark(text, areas);
    append_rows(text, areas);
    g_string_append_printf(text, "%*s0%*s\n", HEAD, "",
                           COLUMNS - 1 + (int)(strlen(length) - (gsize)g_utf8_strlen(length, -1)),
                           length);
    append_key(text, areas);
}
