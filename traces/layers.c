#include "traces/choices.h"

#include <string.h>

static void append_range(GString *text, uint32_t first, uint32_t last)
{
    g_string_append_printf(text, "%s%u", text->len ? "," : "", first);
    if (last > first)
        g_string_append_printf(text, "-%u", last);
}

char *run_layers_format(const uint8_t *marks, uint32_t count)
{
    GString *text = g_string_new(NULL);
    uint32_t marked = 0;

    for (uint32_t first = 0; first < count; first++) {
        uint32_t end = first;
        while (end < count && marks[end])
            end++;
        if (end == first)
            continue;
        append_range(text, first, end - 1);
        marked += end - first;
        first = end - 1;
    }
    if (!marked || marked == count)
        g_string_assign(text, marked ? "all" : "none");
    return g_string_free(text, FALSE);
}

/* "5" or "5-7" */
static bool mark_range(const char *text, uint8_t *marks, uint32_t count)
{
    char *end;
    guint64 first = g_ascii_strtoull(text, &end, 10), last = first;

    if (!g_ascii_isdigit(*text))
        return false;
    if (*end == '-') {
        text = end + 1;
        last = g_ascii_strtoull(text, &end, 10);
        if (!g_ascii_isdigit(*text))
            return false;
    }
    if (*end || first > last || last >= count)
        return false;
    memset(marks + first, 1, last - first + 1);
    return true;
}

bool run_layers_parse(const char *text, uint8_t *marks, uint32_t count)
{
    bool all = g_str_equal(text, "all");

    memset(marks, all, count);
    if (all || g_str_equal(text, "none"))
        return true;
    g_auto(GStrv) ranges = g_strsplit(text, ",", -1);
    for (char **range = ranges; *range; range++)
        if (!mark_range(*range, marks, count))
            return false;
    return *ranges != NULL;
}
