/* A table, shown alike in the page and in the terminal. */
#ifndef PSTAR_REPORT_TABLE_H
#define PSTAR_REPORT_TABLE_H

#include <glib.h>
#include <stdbool.h>

struct table {
    char *title;
    char *note;         /* a sentence below it; NULL: none */
    bool prose;         /* cells are text, not figures: aligned left, and may wrap */
    GPtrArray *columns; /* char *; figures are aligned right in all but the first */
    GPtrArray *rows;    /* GPtrArray of char *, as many as columns */
};

/* `columns`: titles, "|" between them. */
struct table *table_new(const char *title, const char *columns);
void table_free(struct table *table);

/* Adds a row of as many cells as there are columns, each a string that the table takes over. */
void table_add(struct table *table, char *cell, ...);

/* Untrusted cells come out escaped, or with control characters replaced. */
void table_append_html(const struct table *table, GString *html);
void table_append_text(const struct table *table, GString *text);

#endif
