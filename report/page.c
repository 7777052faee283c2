#include "report/output.h"
#include "report/plot.h"
#include "report/text.h"

#include <string.h>

/* Replaces all matches of a valid pattern, which matches bytes: with UTF-8, GLib looks at the whole
 * text again for each match. */
static void replace(char **text, const char *pattern, const char *by)
{
    GError *error = NULL;
    GRegex *regex = g_regex_new(pattern, G_REGEX_RAW | G_REGEX_OPTIMIZE, 0, &error);
    g_assert_no_error(error);
    char *result = g_regex_replace(regex, *text, -1, 0, by, 0, &error);
    g_assert_no_error(error);
    g_regex_unref(regex);
    g_free(*text);
    *text = result;
}

/* gnuplot writes colours as rgb(r, g, b), with or without padding. */
static void replace_colour(char **text, const char *colour, const char *by)
{
    guint64 rgb = g_ascii_strtoull(colour + 1, NULL, 16);
    g_autofree char *pattern = g_strdup_printf("rgb\\( *%u, *%u, *%u\\)",
                                               (unsigned)(rgb >> 16 & 255),
                                               (unsigned)(rgb >> 8 & 255), (unsigned)(rgb & 255));
    replace(text, pattern, by);
}

static void follow_page(char **text)
{
    replace_colour(text, PALETTE_INK, "var(--ink)");
    replace_colour(text, PALETTE_MUTED, "var(--muted)");
    replace_colour(text, PALETTE_GRID, "var(--grid)");
    replace(text, "<rect [^>]*fill=\"" PALETTE_PAPER "\"/>", "");
    replace(text, "(color|fill)=\"black\"", "\\1=\"var(--ink)\"");
    replace(text, " font-family=\"[^\"]*\"", "");
}

static void make_own(char **text, const char *prefix)
{
    g_autofree char *id = g_strdup_printf("id=\\1%s-", prefix);
    g_autofree char *reference = g_strdup_printf("href='#%s-", prefix);
    g_autofree char *url = g_strdup_printf("url(#%s-", prefix);
    replace(text, "\\bid=(['\"])", id);
    replace(text, "xlink:href='#", reference);
    replace(text, "url\\(#", url);
}

static void shorten(char **text)
{
    replace(text, "<title>[^<]*</title>", "");
    replace(text, "<desc>[^<]*</desc>", "");
    replace(text, "\\s*\\n\\s*", "\n");
    replace(text, "<g fill=[^>]*>\\n</g>\\n", "");
}

void svg_append_inline(GString *html, const char *svg, const char *prefix, const char *alt)
{
    const char *element = strstr(svg, "<svg");
    const char *content = element ? strchr(element, '>') : NULL;
    g_assert(content);
    const char *box = g_strstr_len(element, content - element, "viewBox=\"");
    g_assert(box);
    const char *box_end = strchr(box + strlen("viewBox=\""), '"');
    char *body = g_strdup(content + 1);
    follow_page(&body);
    make_own(&body, prefix);
    shorten(&body);
    g_string_append(html, "<svg ");
    g_string_append_len(html, box, box_end + 1 - box);
    g_string_append(html, " role=\"img\" aria-label=\"");
    text_append_html(html, alt);
    g_string_append(html, "\">");
    g_string_append(html, body);
    g_free(body);
}

/* The files page.css and page.js, embedded at build time. */
extern const char page_css[], page_js[];

#define ADVICE_FIRST 3u /* shown at once; the rest can be opened */

static void append_element(GString *html, const char *open, const char *text, const char *close)
{
    g_string_append(html, open);
    text_append_html(html, text);
    g_string_append(html, close);
}

/* Returns what ran: a model or, where none is named, a file. */
static const char *model_of(const struct report_inputs *inputs)
{
    if (inputs->traces->len) {
        const struct input_trace *input = g_ptr_array_index(inputs->traces, 0);
        return input->trace->model ? input->trace->model : input->path;
    }
    if (inputs->plans->len) {
        const struct input_plan *input = g_ptr_array_index(inputs->plans, 0);
        return input->plan->model ? input->plan->model : input->path;
    }
    if (inputs->runs->len) {
        const struct logged_run *run = g_ptr_array_index(inputs->runs, 0);
        return run->model ? run->model : run->origin;
    }
    if (inputs->tracks->len) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, 0);
        return tracks->model ? tracks->model : tracks->origin;
    }
    const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, 0);
    return sweep->trace ? sweep->trace : sweep->origin;
}

/* Returns one line that says what ran, from the first file that states it. */
static char *subject_of(const struct report_inputs *inputs)
{
    char *model = caption_name(model_of(inputs));
    if (!inputs->traces->len)
        return model;
    g_autofree char *name = model;
    const struct trace *trace = ((const struct input_trace *)inputs->traces->pdata[0])->trace;
    g_autofree char *precision = caption_name(trace->precision ? trace->precision
                                                               : "unknown precision");
    return g_strdup_printf("%s, %s, %u × %u tokens per micro-batch", name, precision, trace->batch,
                           trace->sequence);
}

/* Returns how the page's Content-Security-Policy names the script: "'sha256-...'". */
static char *script_hash(void)
{
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    guint8 digest[32];
    gsize length = sizeof digest;
    g_checksum_update(checksum, (const guchar *)page_js, (gssize)strlen(page_js));
    g_checksum_get_digest(checksum, digest, &length);
    g_autofree char *text = g_base64_encode(digest, length);
    return g_strdup_printf("'sha256-%s'", text);
}

static void append_head(GString *html, const char *subject, const char *verdict)
{
    g_autofree char *script = script_hash();
    g_string_append_printf(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'; script-src %s\">\n",
        script);
    append_element(html, "<title>", subject, " – pstar report</title>\n<style>\n");
    g_string_append(html, page_css);
    append_element(html, "</style>\n</head>\n<body>\n<header>\n<h1>",
                   verdict ? verdict : "One training iteration and its memory", "</h1>\n<p>");
    append_element(html, "", subject, "</p>\n</header>\n<main>\n");
}

/* Appends a link that zooms the timeline to the longest wait. */
static void append_zoom(GString *html, const struct advice *advice)
{
    if (!advice->timeline)
        return;
    g_autofree char *from = text_number("%.9g", advice->from);
    g_autofree char *to = text_number("%.9g", advice->to);
    g_string_append_printf(html,
                           " · <a href=\"#%s\" data-in=\"%s-box\" data-from=\"%s\" "
                           "data-to=\"%s\">Longest wait</a>",
                           advice->timeline, advice->timeline, from, to);
}

/* Ends an item of a list with its command, which may be NULL. */
static void append_command(GString *html, const char *command)
{
    if (command)
        append_element(html, "<code>", command, "</code>");
    g_string_append(html, "</li>\n");
}

/* Advice comes first, because readers look for it first. */
static void append_advice(GString *html, const GPtrArray *all)
{
    if (!all->len)
        return;
    g_string_append(html, "<section id=\"advice\">\n<h2>What to change</h2>\n<ol "
                          "class=\"advice\">\n");
    for (guint i = 0; i < all->len; i++) {
        const struct advice *advice = g_ptr_array_index(all, i);
        append_element(html, "<li><strong>", advice->claim, ".</strong> ");
        append_element(html, "", advice->detail, "");
        g_string_append_printf(html, " <a href=\"#%s\">Show</a>", advice->plot);
        append_zoom(html, advice);
        append_command(html, advice->command);
        if (i + 1 == ADVICE_FIRST && i + 1 < all->len)
            g_string_append_printf(html,
                                   "</ol>\n<details><summary>%u more</summary>\n<ol "
                                   "class=\"advice\" start=\"%u\">\n",
                                   all->len - ADVICE_FIRST, ADVICE_FIRST + 1);
    }
    g_string_append(html, all->len > ADVICE_FIRST ? "</ol>\n</details>\n</section>\n"
                                                  : "</ol>\n</section>\n");
}

static void append_highlights(GString *html, const GPtrArray *highlights)
{
    if (!highlights->len)
        return;
    g_string_append(html, "<dl class=\"highlights\">\n");
    for (guint i = 0; i < highlights->len; i++) {
        const struct highlight *highlight = g_ptr_array_index(highlights, i);
        append_element(html, "<div><dt>", highlight->question, "</dt>");
        append_element(html, "<dd class=\"answer\">", highlight->answer, "</dd>");
        append_element(html, "<dd>", highlight->detail, "</dd></div>\n");
    }
    g_string_append(html, "</dl>\n");
}

/* The name is a stem and a number, so it needs no escaping. */
void files_append_html(GString *html, const struct plot *plot)
{
    static const char *const files[][2] = {
        {"png", "PNG"}, {"svg", "SVG"}, {"gp", "gnuplot script"}, {"dat", "data"}};
    g_string_append(html, " <span class=\"files\">");
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        g_string_append_printf(html, "%s<a href=\"figures/%s.%s\">%s</a>", i ? " · " : "",
                               plot->name, files[i][0], files[i][1]);
    g_string_append(html, "</span>");
}

static void append_figure(GString *html, const struct plot *plot)
{
    g_autofree char *phone = g_strconcat(plot->name, "-phone", NULL);
    g_string_append_printf(html, "<section id=\"%s\">\n", plot->name);
    append_element(html, "<h2>", plot->title, "</h2>\n<figure>\n<div class=\"wide\">");
    svg_append_inline(html, plot->svg, plot->name, plot->alt);
    g_string_append(html, "</div>\n<div class=\"phone\">");
    svg_append_inline(html, plot->phone_svg, phone, plot->alt);
    append_element(html, "</div>\n<figcaption>", plot->caption, "");
    files_append_html(html, plot);
    g_string_append(html, "</figcaption>\n</figure>\n</section>\n");
}

/* Appends the figures. A timeline stands where the picture of the same rows would be, so that the
 * page shows them once. Timelines without such a picture come last. */
static void append_figures(GString *html, const struct contents *contents)
{
    const GPtrArray *all = contents->inputs->tracks;
    g_autofree bool *shown = g_new0(bool, all->len + 1);
    for (guint i = 0; i < contents->plots->len; i++) {
        const struct plot *plot = g_ptr_array_index(contents->plots, i);
        if (plot->timeline < 0) {
            append_figure(html, plot);
            continue;
        }
        shown[plot->timeline] = true;
        timeline_append_html(html, g_ptr_array_index(all, plot->timeline), (unsigned)plot->timeline,
                             plot);
    }
    for (guint i = 0; i < all->len; i++)
        if (!shown[i])
            timeline_append_html(html, g_ptr_array_index(all, i), i, NULL);
}

static void append_tables(GString *html, const GPtrArray *tables)
{
    if (!tables->len)
        return;
    g_string_append(html, "<section id=\"tables\">\n<h2>Tables</h2>\n");
    for (guint i = 0; i < tables->len; i++) {
        g_string_append_printf(html, "<div id=\"table-%u\">\n", i + 1);
        table_append_html(g_ptr_array_index(tables, i), html);
        g_string_append(html, "</div>\n");
    }
    g_string_append(html, "</section>\n");
}

static void append_missing(GString *html, const GArray *missing)
{
    if (!missing->len)
        return;
    g_string_append(html, "<section id=\"missing\" class=\"missing\">\n<h2>Not shown</h2>\n<ul>\n");
    for (guint i = 0; i < missing->len; i++) {
        const struct missing *item = &g_array_index(missing, struct missing, i);
        append_element(html, "<li>", item->plot, ": ");
        append_element(html, "", item->reason, ".");
        append_command(html, item->command);
    }
    g_string_append(html, "</ul>\n</section>\n");
}

static void append_link(GString *html, const char *id, const char *title)
{
    g_string_append_printf(html, "<li><a href=\"#%s\">", id);
    append_element(html, "", title, "</a></li>\n");
}

/* Appends a link to each section, in their order. Tables are listed by name. */
static void append_contents(GString *html, const struct contents *contents)
{
    const GPtrArray *all = contents->inputs->tracks;
    g_string_append(html, "<nav aria-label=\"Contents\">\n<ul>\n");
    for (guint i = 0; i < contents->plots->len; i++) {
        const struct plot *plot = g_ptr_array_index(contents->plots, i);
        g_autofree char *timeline = plot->timeline < 0 ? NULL
                                                       : timeline_name((unsigned)plot->timeline);
        g_autofree char *title = plot->timeline < 0
                                     ? g_strdup(plot->title)
                                     : timeline_title(g_ptr_array_index(all, plot->timeline));
        append_link(html, timeline ? timeline : plot->name, title);
    }
    for (guint i = 0; i < all->len; i++) {
        const struct tracks *tracks = g_ptr_array_index(all, i);
        g_autofree char *name = timeline_name(i), *title = timeline_title(tracks);
        if (tracks->operators_only)
            append_link(html, name, title);
    }
    if (contents->missing->len)
        append_link(html, "missing", "Not shown");
    for (guint i = 0; i < contents->tables->len; i++) {
        g_autofree char *id = g_strdup_printf("table-%u", i + 1);
        append_link(html, id, ((const struct text_table *)contents->tables->pdata[i])->title);
    }
    g_string_append(html, "</ul>\n</nav>\n");
}

static void append_files(GString *html, const struct report_inputs *inputs)
{
    g_string_append(html, "<footer>Drawn by pstar-report from");
    const char *separator = " ";
    for (guint i = 0; i < inputs->traces->len; i++, separator = ", ")
        append_element(html, separator,
                       ((struct input_trace *)g_ptr_array_index(inputs->traces, i))->path,
                       " (trace)");
    for (guint i = 0; i < inputs->plans->len; i++, separator = ", ")
        append_element(html, separator,
                       ((struct input_plan *)g_ptr_array_index(inputs->plans, i))->path, " (plan)");
    for (guint i = 0; i < inputs->sweeps->len; i++, separator = ", ")
        append_element(html, separator,
                       ((struct sweep_file *)g_ptr_array_index(inputs->sweeps, i))->origin,
                       " (sweep)");
    for (guint i = 0; i < inputs->faster->len; i++, separator = ", ")
        append_element(html, separator,
                       ((struct sweep_file *)g_ptr_array_index(inputs->faster, i))->origin,
                       " (sweep of a faster link)");
    for (guint i = 0; i < inputs->runs->len; i++, separator = ", ") {
        const struct logged_run *run = g_ptr_array_index(inputs->runs, i);
        append_element(html, separator, run->origin,
                       run->cut ? " (run log, its last line incomplete)" : " (run log)");
    }
    for (guint i = 0; i < inputs->tracks->len; i++) {
        const struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        if (!inputs_trace_of(inputs, tracks)) {
            append_element(html, separator, tracks->origin,
                           tracks->measured ? " (trace)" : " (timeline)");
            separator = ", ";
        }
    }
    if (inputs->platform)
        append_element(html, separator, inputs->platform_path, " (platform)");
    g_string_append(html, ".</footer>\n");
}

GString *page_new(const struct contents *contents)
{
    GString *html = g_string_new(NULL);
    g_autofree char *subject = subject_of(contents->inputs);
    const struct tracks *first = contents->inputs->tracks->len
                                     ? g_ptr_array_index(contents->inputs->tracks, 0)
                                     : NULL;
    bool simulated = first && !first->measured;
    g_autofree char *shown = g_strconcat(subject, simulated ? ", simulated" : "", NULL);
    append_head(html, shown, contents->verdict);
    if (contents->comparison)
        append_element(html, "<p class=\"comparison\">", contents->comparison, "</p>\n");
    append_advice(html, contents->advice);
    append_highlights(html, contents->highlights);
    append_contents(html, contents);
    append_figures(html, contents);
    append_missing(html, contents->missing);
    append_tables(html, contents->tables);
    g_string_append(html, "</main>\n");
    append_files(html, contents->inputs);
    if (contents->inputs->tracks->len)
        g_string_append_printf(html, "<script>%s</script>\n", page_js);
    g_string_append(html, "</body>\n</html>\n");
    return html;
}
