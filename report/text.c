#include "report/text.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

char *text_printable(const char *text)
{
    if (!text)
        return g_strdup("");
    g_autofree char *valid = g_utf8_make_valid(text, -1);
    GString *result = g_string_sized_new(strlen(valid));
    for (const char *at = valid; *at; at = g_utf8_next_char(at)) {
        gunichar c = g_utf8_get_char(at);
        GUnicodeType type = g_unichar_type(c);
        /* Format characters would reverse or hide the text around them. */
        bool hidden = type == G_UNICODE_CONTROL || type == G_UNICODE_FORMAT ||
                      type == G_UNICODE_LINE_SEPARATOR || type == G_UNICODE_PARAGRAPH_SEPARATOR;
        g_string_append_unichar(result, hidden ? 0xFFFD : c);
    }
    return g_string_free(result, FALSE);
}

char *text_shortened(const char *text, size_t length)
{
    char *whole = text_printable(text);
    size_t count = (size_t)g_utf8_strlen(whole, -1);
    if (count <= length)
        return whole;
    size_t head = (length - 1) / 2, tail = length - 1 - head;
    g_autofree char *start = g_utf8_substring(whole, 0, (glong)head);
    const char *end = g_utf8_offset_to_pointer(whole, (glong)(count - tail));
    char *result = g_strconcat(start, "…", end, NULL);
    g_free(whole);
    return result;
}

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

char *text_gnuplot(const char *text)
{
    GString *quoted = g_string_new("'");
    g_autofree char *printable = text_printable(text);
    for (const char *at = printable; *at; at++) {
        if (*at == '\'')
            g_string_append_c(quoted, '\'');
        g_string_append_c(quoted, *at);
    }
    g_string_append_c(quoted, '\'');
    return g_string_free(quoted, FALSE);
}

char *text_shell(const char *text)
{
    char *printable = text_printable(text);
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

/* Three significant digits, without an exponent: 1230, 123, 12.3, 1.23. */
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
    bool giga = bytes_a_second >= 0.9995e9;
    g_autofree char *digits = text_number("%.3g", bytes_a_second / (giga ? 1e9 : 1e6));
    return g_strconcat(digits, giga ? " GB/s" : " MB/s", NULL);
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
