/* The timeline: operators, copies and waits with their names, zoomable in the page. */
#ifndef PSTAR_REPORT_TIMELINE_H
#define PSTAR_REPORT_TIMELINE_H

#include "report/strips.h"

/* "timeline", "timeline-2", ...: of the section, and of its file in figures/. Free with g_free. */
char *timeline_name(unsigned number);

/* Appends a section with an inline SVG. Spans that are too narrow to be seen at the first zooms are
 * joined with their neighbours, so that its size does not grow with theirs. */
void timeline_append_html(GString *html, const struct strips *strips, unsigned number);

/* Writes all spans as Chrome's trace events, for Perfetto: figures/NAME.json. */
bool timeline_write(const struct strips *strips, const char *folder, unsigned number,
                    GError **error);

#endif
