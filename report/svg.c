#include "report/svg.h"

#include "report/palette.h"
#include "report/text.h"

#include <string.h>

/* Replaces all matches. The patterns are ours and valid. */
static void replace(char **text, const char *pattern, const char *by)
{
    GError *error = NULL;
    GRegex *regex = g_regex_new(pattern, 0, 0, &error);
    g_assert_no_error(error);
    char *result = g_regex_replace(regex, *text, -1, 0, by, 0, &error);
    g_assert_no_error(error);
    g_regex_unref(regex);
    g_free(*text);
    *text = result;
}

/* gnuplot writes colours as rgb(r, g, b), padded or not. */
static void replace_colour(char **text, const char *colour, const char *by)
{
    guint64 rgb = g_ascii_strtoull(colour + 1, NULL, 16);
    g_autofree char *pattern = g_strdup_printf("rgb\\( *%u, *%u, *%u\\)",
                                               (unsigned)(rgb >> 16 & 255),
                                               (unsigned)(rgb >> 8 & 255), (unsigned)(rgb & 255));
    replace(text, pattern, by);
}

static void follow_page(char **text)
{
    replace_colour(text, PALETTE_INK, "var(--ink)");
    replace_colour(text, PALETTE_MUTED, "var(--muted)");
    replace_colour(text, PALETTE_GRID, "var(--grid)");
    replace(text, "<rect [^>]*fill=\"" PALETTE_PAPER "\"/>", "");
    replace(text, "(color|fill)=\"black\"", "\\1=\"var(--ink)\"");
    replace(text, " font-family=\"[^\"]*\"", "");
}

static void make_own(char **text, const char *prefix)
{
    g_autofree char *id = g_strdup_printf("id=\\1%s-", prefix);
    g_autofree char *reference = g_strdup_printf("href='#%s-", prefix);
    g_autofree char *url = g_strdup_printf("url(#%s-", prefix);
    replace(text, "\\bid=(['\"])", id);
    replace(text, "xlink:href='#", reference);
    replace(text, "url\\(#", url);
}

static void shorten(char **text)
{
    replace(text, "<title>[^<]*</title>", "");
    replace(text, "<desc>[^<]*</desc>", "");
    replace(text, "\\s*\\n\\s*", "\n");
    replace(text, "<g fill=[^>]*>\\n</g>\\n", "");
}

void svg_append_inline(GString *html, const char *svg, const char *prefix, const char *alt)
{
    const char *element = strstr(svg, "<svg");
    const char *content = element ? strchr(element, '>') : NULL;
    g_assert(content);
    const char *box = g_strstr_len(element, content - element, "viewBox=\"");
    g_assert(box);
    const char *box_end = strchr(box + strlen("viewBox=\""), '"');
    char *body = g_strdup(content + 1);
    follow_page(&body);
    make_own(&body, prefix);
    shorten(&body);
    g_string_append(html, "<svg ");
    g_string_append_len(html, box, box_end + 1 - box);
    g_string_append(html, " role=\"img\" aria-label=\"");
    text_append_html(html, alt);
    g_string_append(html, "\">");
    g_string_append(html, body);
    g_free(body);
}
