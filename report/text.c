#include "report/text.h"

#include "base/size.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

void text_append_html(GString *html, const char *text)
{
    g_autofree char *printable = text_printable(text);
    for (const char *at = printable; *at; at++) {
        switch (*at) {
        case '&':
            g_string_append(html, "&amp;");
            break;
        case '<':
            g_string_append(html, "&lt;");
            break;
        case '>':
            g_string_append(html, "&gt;");
            break;
        case '"':
            g_string_append(html, "&quot;");
            break;
        case '\'':
            g_string_append(html, "&#39;");
            break;
        default:
            g_string_append_c(html, *at);
        }
    }
}

/* gnuplot 5.4 misreads two single quotes in a row, also those of an empty string. In double quotes
 * a single quote ends what protects the rest from its macros. So a variable holds it. */
char *text_gnuplot(const char *text)
{
    g_autofree char *printable = text_printable(text);
    g_auto(GStrv) parts = g_strsplit(printable, "'", -1);
    GString *joined = g_string_new(NULL);
    for (size_t i = 0; parts[i]; i++) {
        if (i)
            g_string_append(joined, joined->len ? "." TEXT_APOSTROPHE : TEXT_APOSTROPHE);
        if (*parts[i])
            g_string_append_printf(joined, "%s'%s'", joined->len ? "." : "", parts[i]);
    }
    char *quoted = joined->len ? g_strdup_printf("(%s)", joined->str) : g_strdup("''");
    g_string_free(joined, TRUE);
    return quoted;
}

char *text_shell(const char *text)
{
    g_autofree char *whole = text_printable(text);
    char *printable = g_strconcat(*whole == '-' ? "./" : "", whole, NULL); /* not an option */
    size_t plain = strspn(printable, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                     "0123456789_-+=./,:@%");
    if (plain > 0 && !printable[plain])
        return printable;
    char *quoted = g_shell_quote(printable);
    g_free(printable);
    return quoted;
}

char *text_number(const char *format, double value)
{
    char digits[G_ASCII_DTOSTR_BUF_SIZE];
    return g_strdup(g_ascii_formatd(digits, sizeof digits, format, value));
}

/* Formats three significant digits without an exponent: 1230, 123, 12.3, 1.23. */
static char *three_digits(double value)
{
    double size = fabs(value);
    const char *format = size >= 99.95 ? "%.0f" : size >= 9.995 ? "%.1f" : "%.2f";
    return text_number(format, value);
}

char *text_seconds(double seconds)
{
    if (!isfinite(seconds))
        return g_strdup("–");
    if (seconds == 0)
        return g_strdup("0 s");
    double size = fabs(seconds);
    const char *unit = "s";
    double scale = 1;
    if (size < 0.9995e-3) {
        unit = "µs";
        scale = 1e6;
    } else if (size < 0.9995) {
        unit = "ms";
        scale = 1e3;
    }
    g_autofree char *digits = three_digits(seconds * scale);
    return g_strconcat(digits, " ", unit, NULL);
}

char *text_rate(double bytes_a_second)
{
    if (bytes_a_second == 0)
        return g_strdup("nothing");
    bool giga = bytes_a_second >= 0.9995e9, tera = bytes_a_second >= 0.9995e12;
    g_autofree char *digits = text_number("%.3g", bytes_a_second / (tera   ? 1e12
                                                                    : giga ? 1e9
                                                                           : 1e6));
    return g_strconcat(digits, tera ? " TB/s" : giga ? " GB/s" : " MB/s", NULL);
}

char *text_operation_rate(double operations_a_second)
{
    bool tera = operations_a_second >= 0.9995e12;
    g_autofree char *digits = text_number("%.3g", operations_a_second / (tera ? 1e12 : 1e9));
    return g_strconcat(digits, tera ? " TFLOP/s" : " GFLOP/s", NULL);
}

char *text_count(uint64_t count)
{
    char digits[32];
    int length = g_snprintf(digits, sizeof digits, "%" G_GUINT64_FORMAT, count);
    GString *result = g_string_new(NULL);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            g_string_append_c(result, ',');
        g_string_append_c(result, digits[i]);
    }
    return g_string_free(result, FALSE);
}

char *text_figure(const struct plan_figures *figures, const struct plan_figure *figure)
{
    switch (figure->unit) {
    case FIGURE_BYTES:
        return size_format(figures_count(figures, figure));
    case FIGURE_COUNT:
        return text_count(figures_count(figures, figure));
    case FIGURE_SECONDS:
        break;
    }
    return text_seconds(figures_value(figures, figure));
}

char *text_difference(double value, double reference)
{
    if (value == reference)
        return g_strdup("equal");
    if (reference == 0 || !isfinite(value) || !isfinite(reference))
        return g_strdup("–");
    double percent = 100 * (value - reference) / fabs(reference);
    double size = fabs(percent);
    const char *format = size >= 9.95 ? "%.0f" : size >= 0.095 ? "%.1f" : "%.2g";
    g_autofree char *digits = text_number(format, size);
    return g_strconcat(percent < 0 ? "−" : "+", digits, " %", NULL);
}

struct text_table *table_new(const char *title, const char *columns)
{
    struct text_table *table = g_new0(struct text_table, 1);
    table->title = g_strdup(title);
    table->columns = g_ptr_array_new_with_free_func(g_free);
    table->rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_ptr_array_unref);
    g_auto(GStrv) names = g_strsplit(columns, "|", -1);
    for (size_t i = 0; names[i]; i++)
        g_ptr_array_add(table->columns, g_strdup(names[i]));
    return table;
}

void table_free(struct text_table *table)
{
    if (!table)
        return;
    g_free(table->title);
    g_free(table->note);
    g_ptr_array_unref(table->columns);
    g_ptr_array_unref(table->rows);
    g_free(table);
}

void table_add(struct text_table *table, char *cell, ...)
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
        /* The first cell of a row names it. */
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

void table_append_html(const struct text_table *table, GString *html)
{
    /* A heading instead of a caption, which would scroll sideways with the table. */
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

/* A name of a file that is as long as it likes would widen the column for all rows. */
static char *cell_text(const char *cell)
{
    enum { MOST = 100 };
    return text_shortened(cell, MOST);
}

static glong width_of(const char *cell)
{
    g_autofree char *shown = cell_text(cell);
    return g_utf8_strlen(shown, -1);
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
        g_autofree char *shown = cell_text(cell);
        glong padding = widths[i] - width_of(cell);
        if (i) {
            g_string_append(text, "  ");
            append_padding(text, padding);
        }
        g_string_append(text, shown);
        if (!i && cells->len > 1)
            append_padding(text, padding);
    }
    g_string_append_c(text, '\n');
}

void table_append_text(const struct text_table *table, GString *text)
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
