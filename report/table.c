#include "report/table.h"
#include "report/text.h"

#include <stdarg.h>

struct table *table_new(const char *title, const char *columns)
{
    struct table *table = g_new0(struct table, 1);
    table->title = g_strdup(title);
    table->columns = g_ptr_array_new_with_free_func(g_free);
    table->rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    g_auto(GStrv) names = g_strsplit(columns, "|", -1);
    for (size_t i = 0; names[i]; i++)
        g_ptr_array_add(table->columns, g_strdup(names[i]));
    return table;
}

void table_free(struct table *table)
{
    if (!table)
        return;
    g_free(table->title);
    g_free(table->note);
    g_ptr_array_unref(table->columns);
    g_ptr_array_unref(table->rows);
    g_free(table);
}

void table_add(struct table *table, char *cell, ...)
{
    GPtrArray *row = g_ptr_array_new_with_free_func(g_free);
    va_list rest;
    va_start(rest, cell);
    g_ptr_array_add(row, cell);
    for (guint i = 1; i < table->columns->len; i++)
        g_ptr_array_add(row, va_arg(rest, char *));
    va_end(rest);
    g_ptr_array_add(table->rows, row);
}

static void append_html_row(const GPtrArray *cells, const char *element, GString *html)
{
    g_string_append(html, "<tr>");
    for (guint i = 0; i < cells->len; i++) {
        /* A row's first cell names it. */
        const char *tag = i ? element : "th";
        const char *scope = *element == 't' && element[1] == 'h' ? "col" : "row";
        if (tag[1] == 'h')
            g_string_append_printf(html, "<th scope=\"%s\">", scope);
        else
            g_string_append(html, "<td>");
        text_append_html(html, g_ptr_array_index(cells, i));
        g_string_append_printf(html, "</%s>", tag);
    }
    g_string_append(html, "</tr>\n");
}

void table_append_html(const struct table *table, GString *html)
{
    /* A heading, not a caption, which would scroll sideways with the table. */
    g_string_append(html, "<h3>");
    text_append_html(html, table->title);
    g_string_append_printf(html,
                           "</h3>\n<div class=\"table%s\" tabindex=\"0\"><table aria-label=\"",
                           table->prose ? " prose" : "");
    text_append_html(html, table->title);
    g_string_append(html, "\">\n<thead>");
    append_html_row(table->columns, "th", html);
    g_string_append(html, "</thead>\n<tbody>\n");
    for (guint r = 0; r < table->rows->len; r++)
        append_html_row(g_ptr_array_index(table->rows, r), "td", html);
    g_string_append(html, "</tbody></table></div>\n");
    if (table->note) {
        g_string_append(html, "<p class=\"note\">");
        text_append_html(html, table->note);
        g_string_append(html, "</p>\n");
    }
}

static glong width_of(const char *cell)
{
    g_autofree char *printable = text_printable(cell);
    return g_utf8_strlen(printable, -1);
}

static void append_padding(GString *text, glong width)
{
    for (glong i = 0; i < width; i++)
        g_string_append_c(text, ' ');
}

static void append_text_row(const GPtrArray *cells, const glong *widths, GString *text)
{
    for (guint i = 0; i < cells->len; i++) {
        const char *cell = g_ptr_array_index(cells, i);
        g_autofree char *printable = text_printable(cell);
        glong padding = widths[i] - width_of(cell);
        if (i) {
            g_string_append(text, "  ");
            append_padding(text, padding);
        }
        g_string_append(text, printable);
        if (!i && cells->len > 1)
            append_padding(text, padding);
    }
    g_string_append_c(text, '\n');
}

void table_append_text(const struct table *table, GString *text)
{
    g_autofree glong *widths = g_new0(glong, table->columns->len);
    for (guint i = 0; i < table->columns->len; i++) {
        widths[i] = width_of(g_ptr_array_index(table->columns, i));
        for (guint r = 0; r < table->rows->len; r++) {
            const GPtrArray *row = g_ptr_array_index(table->rows, r);
            widths[i] = MAX(widths[i], width_of(g_ptr_array_index(row, i)));
        }
    }
    g_autofree char *title = text_printable(table->title);
    g_string_append_printf(text, "%s\n", title);
    append_text_row(table->columns, widths, text);
    for (guint r = 0; r < table->rows->len; r++)
        append_text_row(g_ptr_array_index(table->rows, r), widths, text);
    if (table->note) {
        g_autofree char *note = text_printable(table->note);
        g_string_append_printf(text, "(%s)\n", note);
    }
    g_string_append_c(text, '\n');
}
