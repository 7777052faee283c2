/* gnuplot's SVG inside a page. */
#ifndef PSTAR_REPORT_SVG_H
#define PSTAR_REPORT_SVG_H

#include <glib.h>

/* Appends the picture of a figure to HTML as an inline element: ink, grid and paper in the page's
 * colours, so that it follows light and dark; identifiers made the page's own by `prefix`; no
 * reference to anything outside; `alt` as its alternative text. */
void svg_append_inline(GString *html, const char *svg, const char *prefix, const char *alt);

#endif
