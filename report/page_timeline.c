/* The timeline in the page, and the file for Perfetto. */
#include "base/size.h"
#include "report/output.h"
#include "report/plot.h"
#include "report/report.h"
#include "report/text.h"

#include <errno.h>
#include <jansson.h>
#include <zlib.h>

#define WIDE       100000. /* units across the SVG, for the whole iteration */
#define ROW        42      /* pixels from one row to the next */
#define BAR_TOP    18      /* the name of the row is above it */
#define BAR        22
#define FEW        2000 /* rows with at most this many spans are drawn span by span */
#define RESOLUTION 2000 /* in other rows, spans below this part of the iteration are joined */

char *timeline_name(unsigned number)
{
    return number ? g_strdup_printf("timeline-%u", number + 1) : g_strdup("timeline");
}

char *timeline_title(const struct tracks *tracks)
{
    return tracks_title("What each resource does when", tracks);
}

/* One or more spans that are drawn as one bar. */
struct timeline_bar {
    double start, end, busy;
    guint first, count;
    guint longest; /* index of the longest span */
};

static double length_of(const struct track_span *span)
{
    return span->end - span->start;
}

static void begin_bar(struct timeline_bar *bar, const GArray *spans, guint index)
{
    const struct track_span *span = &g_array_index(spans, struct track_span, index);
    *bar = (struct timeline_bar){span->start, span->end, length_of(span), index, 1, index};
}

/* Returns whether the next span is so narrow and so near that it joins this bar. */
static bool joins(const struct timeline_bar *bar, const struct track_span *next, double resolution)
{
    return length_of(next) < resolution && bar->end - bar->start < resolution &&
           next->start - bar->end < resolution;
}

static void join(struct timeline_bar *bar, const GArray *spans, guint index)
{
    const struct track_span *span = &g_array_index(spans, struct track_span, index);
    bar->busy += MAX(0, span->end - MAX(span->start, bar->end));
    bar->end = MAX(bar->end, span->end);
    bar->count++;
    if (length_of(span) > length_of(&g_array_index(spans, struct track_span, bar->longest)))
        bar->longest = index;
}

static void append_number(GString *html, const char *attribute, double value)
{
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(digits, sizeof digits, "%.2f", value);
    g_string_append_printf(html, " %s=\"%s\"", attribute, digits);
}

/* Characters of a name that a bar shows. */
#define MOST_OF_NAME 200

/* Appends "backward h.3.mlp · 12.3 ms, from 401 ms on, 4 MiB". The page takes the text before " · "
 * as the name. */
static void append_name(GString *html, const struct timeline_bar *bar,
                        const struct track_span *longest)
{
    g_autofree char *length = text_seconds(bar->end - bar->start);
    g_autofree char *start = text_seconds(bar->start);
    g_autofree char *name = text_shortened(longest->name, MOST_OF_NAME);
    text_append_html(html, name);
    if (bar->count > 1)
        g_string_append_printf(html, " and %u more", bar->count - 1);
    g_string_append_printf(html, " · %s, from %s on", length, start);
    if (bar->count > 1)
        g_string_append_printf(html, ", busy for %.0f %% of it",
                               100 * bar->busy / (bar->end - bar->start));
    if (bar->count == 1 && longest->bytes) {
        g_autofree char *bytes = size_format(longest->bytes);
        g_string_append_printf(html, ", %s", bytes);
    }
}

static void append_bar(GString *html, const struct tracks *tracks, enum track track,
                       const struct timeline_bar *bar, unsigned top)
{
    double scale = WIDE / tracks->seconds;
    g_string_append(html, "<rect");
    append_number(html, "x", bar->start * scale);
    append_number(html, "width", MAX((bar->end - bar->start) * scale, 0.01));
    g_string_append_printf(html, " y=\"%u\" height=\"%d\"", top + BAR_TOP, BAR);
    const struct track_span *longest = &g_array_index(tracks->spans[track], struct track_span,
                                                      bar->longest);
    if (track == TRACK_WAIT)
        g_string_append_printf(html, " fill=\"%s\"", palette_wait(longest->cause));
    if (track == TRACK_WAIT && longest->cause == TRACK_HOST) /* its name is white */
        g_string_append(html, " class=\"dark\"");
    if (bar->count > 1 && bar->busy < 0.99 * (bar->end - bar->start))
        append_number(html, "fill-opacity", 0.25 + 0.75 * bar->busy / (bar->end - bar->start));
    g_string_append(html, "><title>");
    append_name(html, bar, longest);
    g_string_append(html, "</title></rect>\n");
}

static void append_track(GString *html, const struct tracks *tracks, enum track track, unsigned top)
{
    const GArray *spans = tracks->spans[track];
    double resolution = spans->len > FEW ? tracks->seconds / RESOLUTION : 0;
    struct timeline_bar bar = {0};
    g_string_append_printf(html, "<g data-row=\"track%d\" fill=\"%s\">\n", track,
                           palette_track(track));
    for (guint i = 0; i < spans->len; i++) {
        const struct track_span *next = &g_array_index(spans, struct track_span, i);
        if (bar.count && joins(&bar, next, resolution)) {
            join(&bar, spans, i);
            continue;
        }
        if (bar.count)
            append_bar(html, tracks, track, &bar, top);
        begin_bar(&bar, spans, i);
    }
    if (bar.count)
        append_bar(html, tracks, track, &bar, top);
    g_string_append(html, "</g>\n");
}

static void append_phases(GString *html, const struct tracks *tracks)
{
    static const char *const opacity[] = {"0.15", "0.4", "0.25"};
    double scale = WIDE / tracks->seconds;
    g_string_append(html, "<g data-row=\"phase\" fill=\"var(--muted)\">\n");
    for (guint i = 0; i < tracks->phases->len; i++) {
        const struct track_phase *phase = &g_array_index(tracks->phases, struct track_phase, i);
        if (tracks->phases->len > FEW && phase->end - phase->start < tracks->seconds / RESOLUTION)
            continue;
        g_autofree char *length = text_seconds(phase->end - phase->start);
        g_string_append(html, "<rect");
        append_number(html, "x", phase->start * scale);
        append_number(html, "width", (phase->end - phase->start) * scale);
        g_string_append_printf(html,
                               " y=\"0\" height=\"%d\" fill-opacity=\"%s\"><title>%s · %s"
                               "</title></rect>\n",
                               BAR, opacity[phase->phase], trace_phase_name(phase->phase), length);
    }
    g_string_append(html, "</g>\n");
}

/* Appends the phases and then one row per track. `row_names` receives the names of the rows. */
static void append_svg(GString *html, const struct tracks *tracks, GString *row_names)
{
    unsigned top = tracks->phases->len ? BAR + 2 : 0, height = top;
    for (int s = 0; s < TRACKS; s++)
        height += tracks->spans[s]->len ? ROW : 0;
    g_string_append_printf(html,
                           "<svg viewBox=\"0 0 %.0f %u\" style=\"height:%upx\" "
                           "preserveAspectRatio=\"none\" tabindex=\"0\" role=\"img\" "
                           "aria-label=\"Timeline of a step: what ran when on each resource. Plus "
                           "and minus zoom, arrows move.\">\n",
                           WIDE, height, height);
    append_phases(html, tracks);
    for (int s = 0; s < TRACKS; s++) {
        if (!tracks->spans[s]->len)
            continue;
        g_string_append_printf(row_names, "<span style=\"top:%upx\">%s", top,
                               track_label((enum track)s));
        if (!tracks->operators_only)
            g_string_append_printf(row_names, " %.0f %%",
                                   100 * tracks_busy(tracks, (enum track)s, 0, tracks->seconds) /
                                       tracks->seconds);
        g_string_append(row_names, "</span>");
        append_track(html, tracks, (enum track)s, top);
        top += ROW;
    }
    g_string_append(html, "</svg>\n");
}

/* Appends what the rows mean, and the links to the files. */
static void append_caption(GString *html, const struct tracks *tracks, const char *name,
                           const struct plot *plot)
{
    g_string_append(html, tracks->operators_only
                              ? "Operators one after another, each with its own duration, "
                          : tracks->measured ? "Measured, "
                                             : "Simulated, ");
    g_autofree char *origin = caption_name(tracks->origin);
    text_append_html(html, origin);
    g_string_append(html, ". ");
    if (!tracks->operators_only)
        g_string_append(html,
                        "Percentages are the share of the step in which the resource is busy. "
                        "While the device waits, it waits for the row that is busy then. ");
    g_string_append_printf(
        html,
        "Drag to move. Double-click, pinch, or turn the wheel with Ctrl to zoom. The field finds "
        "operators, kernels and tensors by a part of their name; Enter goes from one to the next. "
        "Narrow bars are joined with their neighbours and drawn paler where there are gaps. "
        "<a href=\"figures/%s.json.gz\">The Chrome trace</a> has all of them, for "
        "<span class=\"where\">ui.perfetto.dev</span>.",
        name);
    if (plot)
        files_append_html(html, plot);
}

void timeline_append_html(GString *html, const struct tracks *tracks, unsigned number,
                          const struct plot *plot)
{
    static const char *const buttons[][3] = {{"in", "+", "Zoom in"},
                                             {"out", "−", "Zoom out"},
                                             {"left", "◀", "Earlier"},
                                             {"right", "▶", "Later"},
                                             {"all", "whole step", "The whole step"}};
    g_autoptr(GString) row_names = g_string_new(NULL);
    g_autofree char *name = timeline_name(number), *title = timeline_title(tracks);
    g_string_append_printf(html, "<section id=\"%s\">\n<h2>", name);
    text_append_html(html, title);
    g_string_append_printf(html,
                           "</h2>\n<figure>\n"
                           "<div class=\"timeline\" id=\"%s-box\" data-seconds=\"",
                           name);
    char seconds[G_ASCII_DTOSTR_BUF_SIZE];
    g_string_append(html, g_ascii_dtostr(seconds, sizeof seconds, tracks->seconds));
    g_string_append(html, "\">\n<p class=\"buttons\">");
    for (size_t i = 0; i < G_N_ELEMENTS(buttons); i++)
        g_string_append_printf(html,
                               "<button type=\"button\" data-act=\"%s\" title=\"%s\" "
                               "aria-label=\"%s\">%s</button>",
                               buttons[i][0], buttons[i][2], buttons[i][2], buttons[i][1]);
    g_string_append(html, "<input type=\"search\" placeholder=\"Find by name\" aria-label=\"Find "
                          "operators, kernels and tensors by name\"></p>\n<div class=\"rows\">");
    append_svg(html, tracks, row_names);
    g_string_append_printf(html,
                           "<div class=\"row-names\">%s</div><div class=\"names\"></div></div>\n"
                           "<div class=\"axis\"></div>\n"
                           "<output>Point at a bar to see what it is.</output>\n</div>\n"
                           "<figcaption>",
                           row_names->str);
    append_caption(html, tracks, name, plot);
    g_string_append(html, "</figcaption>\n</figure>\n</section>\n");
}

/* Returns the name in quotes. Equal names are one string (struct tracks), so each is quoted once.
 */
static const char *quoted(GHashTable *names, const char *name)
{
    char *known = g_hash_table_lookup(names, name);
    if (known)
        return known;
    g_autofree char *printable = text_printable(name);
    json_t *string = json_string(printable);
    char *dumped = json_dumps(string, JSON_ENCODE_ANY);
    g_hash_table_insert(names, (void *)name, dumped);
    json_decref(string);
    return dumped;
}

/* Traces hold whole nanoseconds, and writing integers is five times as fast as writing doubles. */
static uint64_t ns_of(double seconds)
{
    return (uint64_t)(MAX(seconds, 0) * 1e9 + 0.5);
}

/* The format wants microseconds. */
static void write_times(gzFile file, uint64_t start_ns, uint64_t ns)
{
    gzprintf(file, ",\"ts\":%" G_GUINT64_FORMAT ".%03u,\"dur\":%" G_GUINT64_FORMAT ".%03u",
             start_ns / 1000, (unsigned)(start_ns % 1000), ns / 1000, (unsigned)(ns % 1000));
}

static void write_track(gzFile file, const struct tracks *tracks, enum track track)
{
    g_autoptr(GHashTable) names = g_hash_table_new_full(NULL, NULL, NULL, free);
    g_autofree char *row = g_strdup_printf(",\n{\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"name\":",
                                           track);
    gzprintf(file,
             ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":%d,\"args\":{\"name\":"
             "\"%s\"}}",
             track, track_label(track));
    for (guint i = 0; i < tracks->spans[track]->len; i++) {
        const struct track_span *span = &g_array_index(tracks->spans[track], struct track_span, i);
        gzputs(file, row);
        gzputs(file,
               quoted(names, span->name)); /* gzprintf limits the length; names have no limit */
        write_times(file, ns_of(span->start), ns_of(span->end - span->start));
        if (span->bytes)
            gzprintf(file, ",\"args\":{\"bytes\":%" G_GUINT64_FORMAT "}", span->bytes);
        gzputc(file, '}');
    }
}

bool timeline_write(const struct tracks *tracks, const char *folder, unsigned number,
                    GError **error)
{
    g_autofree char *name = timeline_name(number);
    g_autofree char *base = g_strconcat(name, ".json.gz", NULL);
    g_autofree char *path = g_build_filename(folder, base, NULL);
    /* The fastest level, because a million spans are much text. */
    gzFile file = gzopen(path, "wb1");
    if (file) {
        gzputs(file,
               "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
               "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{\"name\":\"step\"}}");
        for (int s = 0; s < TRACKS; s++)
            if (tracks->spans[s]->len)
                write_track(file, tracks, (enum track)s);
        gzputs(file, "\n]}\n");
    }
    int status = Z_OK;
    bool broken = !file || (gzerror(file, &status), status != Z_OK);
    if (file && gzclose(file) != Z_OK)
        broken = true;
    if (broken)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED, "%s: %s", path, g_strerror(errno));
    return !broken;
}
