/* Writes the contents of a report: the page, and the text and JSON that the program prints. */
#ifndef PSTAR_REPORT_OUTPUT_H
#define PSTAR_REPORT_OUTPUT_H

#include "report/contents.h"
#include "report/tracks.h"

#include <glib.h>

/* Returns the text of index.html. All plots must have been drawn. The page refers only to the files
 * in figures/ that its links name. */
GString *page_new(const struct contents *contents);

/* Appends a drawn plot to HTML as an inline element. Its ink, grid and paper become colours of the
 * page, so that it follows light and dark mode. `prefix` makes its identifiers unique. `alt` is the
 * alternative text. */
void svg_append_inline(GString *html, const char *svg, const char *prefix, const char *alt);

/* Returns the name of a timeline's section and of its file in figures/: "timeline", "timeline-2",
 * ... Free with g_free. */
char *timeline_name(unsigned number);

/* Returns the heading of a timeline. Free with g_free. */
char *timeline_title(const struct tracks *tracks);

/* Appends a section with an inline SVG. Spans that are too narrow to see are joined with their
 * neighbours, so that the size of the page stays bounded. `plot` shows the same as a picture, which
 * the caption links to; it may be NULL. */
void timeline_append_html(GString *html, const struct tracks *tracks, unsigned number,
                          const struct plot *plot);

/* Appends links to the files of a plot. */
void files_append_html(GString *html, const struct plot *plot);

/* Writes all spans as Chrome trace events for Perfetto, in figures/NAME.json.gz. */
bool timeline_write(const struct tracks *tracks, const char *folder, unsigned number,
                    GError **error);

/* Returns the tables, the verdict, the advice and what is missing. `folder` is where the report was
 * written and may be NULL. Free with g_free. */
char *summary_text(const struct contents *contents, const char *folder);

/* Returns one JSON object with "folder", "page", "verdict", "comparison", "advice", "figures",
 * "missing", "memory" and "predicted_beside_measured". docs/report.md has an example. Free with
 * g_free. */
char *summary_json(const struct contents *contents, const char *folder);

#endif
