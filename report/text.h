/* Text for people: names from untrusted files made safe for the place where they are shown, numbers
 * with few digits, and tables. Free all strings with g_free. */
#ifndef PSTAR_REPORT_TEXT_H
#define PSTAR_REPORT_TEXT_H

#include "base/printable.h"
#include "chunks/figures.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Appends printable text to HTML with & < > " ' escaped. The result is safe in content and in
 * quoted attributes. */
void text_append_html(GString *html, const char *text);

/* The variable that holds a single quote. Every script begins with TEXT_GNUPLOT_SETUP. */
#define TEXT_APOSTROPHE    "apostrophe"
#define TEXT_GNUPLOT_SETUP TEXT_APOSTROPHE " = \"\\047\"\n"

/* Returns printable text as a gnuplot expression of strings in which gnuplot expands nothing.
 * Labels must be drawn "noenhanced", so that _ ^ { } are shown as they are. */
char *text_gnuplot(const char *text);

/* Returns a printable path as a word of a POSIX shell, quoted only if necessary. One that begins
 * with a dash begins with ./ then. */
char *text_shell(const char *text);

/* Returns "1.46 s", "312 ms", "8.1 µs" or "0 s", with three significant digits. Infinity and NAN
 * give "–". */
char *text_seconds(double seconds);

/* Returns "12.3 GB/s" or "340 MB/s", with three significant digits and powers of ten. 0 gives
 * "nothing". */
char *text_rate(double bytes_a_second);

/* Returns "312 TFLOP/s", "0.5 GFLOP/s". Free with g_free. */
char *text_operation_rate(double operations_a_second);

/* Returns "1,234,567". */
char *text_count(uint64_t count);

/* Returns a figure as text in its unit: "1.46 GiB", "1,234", "312 ms". */
char *text_figure(const struct plan_figures *figures, const struct plan_figure *figure);

/* Returns the difference from a reference in percent: "+1.3 %", "−20 %", or "equal". Gives "–" if
 * only the reference is 0. */
char *text_difference(double value, double reference);

/* Formats one double as printf does, but with a point in any locale. */
char *text_number(const char *format, double value);

struct text_table {
    char *title;
    char *note;         /* a sentence below the table; may be NULL */
    bool prose;         /* cells are text: aligned left, and they may wrap */
    GPtrArray *columns; /* char *; all but the first are aligned right */
    GPtrArray *rows;    /* GPtrArray of char *, one per column */
};

/* `columns` are titles with "|" between them. */
struct text_table *table_new(const char *title, const char *columns);
void table_free(struct text_table *table);

/* Adds a row. There must be one cell per column; the table takes ownership of the strings. */
void table_add(struct text_table *table, char *cell, ...);

/* Append the table to the page or to a terminal's text. Cells may be untrusted. */
void table_append_html(const struct text_table *table, GString *html);
void table_append_text(const struct text_table *table, GString *text);

#endif
