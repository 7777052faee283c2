#include "base/printable.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

static bool is_shown(gunichar letter)
{
    switch (g_unichar_type(letter)) {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT: /* would reverse or hide the text around it */
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
        return false;
    default:
        return true;
    }
}

static char *printable(const char *text, const char *kept)
{
    enum { REPLACEMENT = 0xFFFD };
    g_autofree char *valid = text ? g_utf8_make_valid(text, -1) : g_strdup("");
    GString *result = g_string_sized_new(strlen(valid));
    for (const char *at = valid; *at; at = g_utf8_next_char(at)) {
        gunichar letter = g_utf8_get_char(at);
        bool shown = is_shown(letter) || (letter < 0x80 && strchr(kept, (int)letter));
        g_string_append_unichar(result, shown ? letter : REPLACEMENT);
    }
    return g_string_free(result, FALSE);
}

json_t *text_to_json(const char *text)
{
    g_autofree char *valid = text ? g_utf8_make_valid(text, -1) : NULL;
    return valid ? json_string(valid) : json_null();
}

char *text_printable(const char *text)
{
    return printable(text, "");
}

char *text_printable_lines(const char *text)
{
    return printable(text, "\n\t");
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

void text_print_line(FILE *out, const char *format, ...)
{
    enum { MOST = 1000 };
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_autofree char *line = text_shortened(text, MOST);
    fprintf(out, "%s\n", line);
}
