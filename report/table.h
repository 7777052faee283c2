/* A table, shown alike in the page and in the terminal. */
#ifndef PSTAR_REPORT_TABLE_H
#define PSTAR_REPORT_TABLE_H

#include <glib.h>
#include <stdbool.h>

struct table {
    char *title;
    char *note;         /* a sentence below it; NULL: none */
    GPtrArray *columns; /* char *; figures are aligned right in all but the first */
    GPtrArray *rows;    /* GPtrArray of char *, as many as columns */
};

/* Column titles end with NULL. */
struct table *table_new(const char *title, const char *column, ...) G_GNUC_NULL_TERMINATED;
void table_free(struct table *table);

/* Adds a row of as many cells as there are columns, each a string that the table takes over. */
void table_add(struct table *table, char *cell, ...);

/* Untrusted cells come out escaped, or with control characters replaced. */
void table_append_html(const struct table *table, GString *html);
void table_append_text(const struct table *table, GString *text);

#endif
