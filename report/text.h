/* Text for people: names out of files that anyone may have written, made safe for the place where
 * they are shown, figures with no more digits than they deserve, and tables. All strings are the
 * caller's, to g_free. */
#ifndef PSTAR_REPORT_TEXT_H
#define PSTAR_REPORT_TEXT_H

#include "chunks/figures.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Valid UTF-8 with no control characters in it: what is neither becomes U+FFFD. NULL gives "". */
char *text_printable(const char *text);

/* The same, cut in the middle to at most `length` characters (>= 3), "…" standing for the rest. */
char *text_shortened(const char *text, size_t length);

/* Appends printable text to HTML, with & < > " ' escaped: safe in content and in quoted
 * attributes. */
void text_append_html(GString *html, const char *text);

/* Printable text as a gnuplot string in single quotes, within which gnuplot expands nothing. Labels
 * must be drawn "noenhanced", so that _ ^ { } are shown as they are. */
char *text_gnuplot(const char *text);

/* Printable text as a word of a POSIX shell, quoted only where it must be. */
char *text_shell(const char *text);

/* "1.46 s", "312 ms", "8.1 µs", "0 s": three significant digits. "–" where not a number. */
char *text_seconds(double seconds);

/* "12.3 GB/s", "340 MB/s": three significant digits, powers of ten; "nothing" of 0. */
char *text_rate(double bytes_a_second);

/* "1,234,567" */
char *text_count(uint64_t count);

/* Returns a figure as text in its unit: "1.46 GiB", "1,234", "312 ms". */
char *text_figure(const struct plan_figures *figures, const struct plan_figure *figure);

/* A difference to a reference, in percent of it: "+1.3 %", "−20 %", "equal" for no difference at
 * all; "–" where the reference is 0 and the value is not. */
char *text_difference(double value, double reference);

/* printf's conversion of one double, with a point whatever the locale. */
char *text_number(const char *format, double value);

struct text_table {
    char *title;
    char *note;         /* a sentence below it; NULL: none */
    bool prose;         /* cells are text, not figures: aligned left, and may wrap */
    GPtrArray *columns; /* char *; figures are aligned right in all but the first */
    GPtrArray *rows;    /* GPtrArray of char *, as many as columns */
};

/* `columns`: titles, "|" between them. */
struct text_table *table_new(const char *title, const char *columns);
void table_free(struct text_table *table);

/* Adds a row of as many cells as there are columns, each a string that the table takes over. */
void table_add(struct text_table *table, char *cell, ...);

/* Untrusted cells come out escaped, or with control characters replaced. */
void table_append_html(const struct text_table *table, GString *html);
void table_append_text(const struct text_table *table, GString *text);

#endif
