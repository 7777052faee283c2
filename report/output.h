/* What is written of a report's contents: the page, the text and the JSON that the program prints.
 */
#ifndef PSTAR_REPORT_OUTPUT_H
#define PSTAR_REPORT_OUTPUT_H

#include "report/contents.h"
#include "report/tracks.h"

#include <glib.h>

/* The text of index.html. All figures must have been drawn. It refers to nothing but the files in
 * figures/ that its links name. */
GString *page_new(const struct contents *contents);

/* Appends the picture of a figure to HTML as an inline element: ink, grid and paper in the page's
 * colours, so that it follows light and dark; identifiers made the page's own by `prefix`; no
 * reference to anything outside; `alt` as its alternative text. */
void svg_append_inline(GString *html, const char *svg, const char *prefix, const char *alt);

/* "timeline", "timeline-2", ...: of the section, and of its file in figures/. Free with g_free. */
char *timeline_name(unsigned number);

/* Appends a section with an inline SVG. Spans that are too narrow to be seen at the first zooms are
 * joined with their neighbours, so that its size does not grow with theirs. */
void timeline_append_html(GString *html, const struct tracks *tracks, unsigned number);

/* Writes all spans as Chrome's trace events, for Perfetto: figures/NAME.json. */
bool timeline_write(const struct tracks *tracks, const char *folder, unsigned number,
                    GError **error);

/* Tables, what is missing, the verdict and the advice. `folder` is where the report is; NULL: it is
 * nowhere. Free with g_free. */
char *summary_text(const struct contents *contents, const char *folder);

/* One JSON object: "folder", "page", "verdict", "comparison", "advice", "figures", "missing",
 * "memory", "predicted_beside_measured". docs/report.md has an example. Free with g_free. */
char *summary_json(const struct contents *contents, const char *folder);

#endif
