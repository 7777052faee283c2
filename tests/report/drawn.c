#include "tests/report/drawn.h"

#include <string.h>

bool drawn_has_gnuplot(void)
{
    g_autofree char *path = g_find_program_in_path("gnuplot");
    if (!path)
        g_test_skip("no gnuplot");
    return path != NULL;
}

char *drawn_report(const struct sample *sample, const char *const *files, enum report_format format)
{
    const char *const all[] = {sample->trace, sample->plan,       sample->sweep, sample->timeline,
                               sample->run,   sample->policy_run, NULL};
    g_autofree char *folder = sample_path(sample, "out");
    GError *error = NULL;
    char *summary = report_write(files ? files : all, folder, format, NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(summary);
    return summary;
}

char *drawn_page(const struct sample *sample)
{
    g_autofree char *path = sample_path(sample, "out/index.html");
    return sample_read(path);
}

char *drawn_path(const struct sample *sample, const char *name, const char *suffix)
{
    g_autofree char *file = g_strconcat("out/figures/", name, suffix, NULL);
    return sample_path(sample, file);
}

/* Eight magic bytes are followed by the chunk IHDR of 13 bytes. It begins with the size, big
 * endian. */
static void check_png(const struct sample *sample, const char *name)
{
    g_autofree char *path = drawn_path(sample, name, ".png");
    char *bytes;
    gsize length;
    g_assert_true(g_file_get_contents(path, &bytes, &length, NULL));
    g_assert_cmpuint(length, >, 1000);
    g_assert_cmpmem(bytes, 16, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    const guint8 *size = (const guint8 *)bytes + 16;
    g_assert_cmpuint(size[2] << 8 | size[3], ==, 1920);
    g_assert_cmpuint(size[6] << 8 | size[7], >, 250);
    g_free(bytes);
}

/* Checks for well-formed XML with some content. */
static void check_svg(const struct sample *sample, const char *name, const char *suffix)
{
    g_autofree char *path = drawn_path(sample, name, suffix);
    g_autofree char *text = sample_read(path);
    GMarkupParser nothing = {0};
    GMarkupParseContext *context = g_markup_parse_context_new(&nothing, 0, NULL, NULL);
    GError *error = NULL;
    g_markup_parse_context_parse(context, text, -1, &error);
    g_assert_no_error(error);
    g_markup_parse_context_end_parse(context, &error);
    g_assert_no_error(error);
    g_markup_parse_context_free(context);
    g_assert_nonnull(strstr(text, "<svg"));
    g_assert_true(strstr(text, "<path") || strstr(text, "<polygon"));
}

/* A text of a picture, in pixels. */
struct text_box {
    double left, right, top, bottom;
    char *text;
};

static void clear_box(void *data)
{
    g_free(((struct text_box *)data)->text);
}

/* A letter is assumed to be half as wide as the font is high, which most are. */
static struct text_box box_of(const GMatchInfo *match)
{
    g_autofree char *x = g_match_info_fetch(match, 1), *y = g_match_info_fetch(match, 2);
    g_autofree char *turned = g_match_info_fetch(match, 3), *font = g_match_info_fetch(match, 4);
    g_autofree char *anchor = g_match_info_fetch(match, 5), *raw = g_match_info_fetch(match, 6);
    char *text = g_strdup(g_strstrip(raw));
    double size = g_ascii_strtod(font, NULL), high = 0.7 * size;
    double wide = 0.5 * size * (double)g_utf8_strlen(text, -1);
    double before = !strcmp(anchor, "end") ? wide : !strcmp(anchor, "middle") ? wide / 2 : 0;
    double at = g_ascii_strtod(x, NULL), base = g_ascii_strtod(y, NULL);
    if (*turned) /* upwards */
        return (struct text_box){at - high, at, base - wide + before, base + before, text};
    return (struct text_box){at - before, at - before + wide, base - high, base, text};
}

static GArray *boxes_of(const char *svg)
{
    GArray *boxes = g_array_new(FALSE, FALSE, sizeof(struct text_box));
    g_autoptr(GRegex) regex = g_regex_new(
        "<g transform=\"translate\\(([-0-9.]+),([-0-9.]+)\\)( rotate\\([-0-9.]+\\))?\"[^>]*"
        "font-size=\"([0-9.]+)\"\\s+text-anchor=\"(\\w+)\">\\s*<text>([^<]*)</text>",
        0, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;
    g_array_set_clear_func(boxes, clear_box);
    for (g_regex_match(regex, svg, 0, &match); g_match_info_matches(match);
         g_match_info_next(match, NULL)) {
        struct text_box box = box_of(match);
        if (*box.text)
            g_array_append_val(boxes, box);
        else
            g_free(box.text);
    }
    return boxes;
}

/* No text of a picture is cut, and none is over another. */
static void check_texts(const struct sample *sample, const char *name, const char *suffix)
{
    g_autofree char *path = drawn_path(sample, name, suffix), *svg = sample_read(path);
    const char *size = strstr(svg, "viewBox=\"0 0 ");
    g_assert_nonnull(size);
    char *end;
    double width = g_ascii_strtod(size + strlen("viewBox=\"0 0 "), &end);
    double height = g_ascii_strtod(end, NULL);
    g_autoptr(GArray) boxes = boxes_of(svg);
    g_assert_cmpuint(boxes->len, >, 0);
    for (guint i = 0; i < boxes->len; i++) {
        const struct text_box *a = &g_array_index(boxes, struct text_box, i);
        if (a->left < -1 || a->right > width + 1 || a->top < -1 || a->bottom > height + 1)
            g_error("%s%s: \"%s\" is cut", name, suffix, a->text);
        for (guint j = 0; j < i; j++) {
            const struct text_box *b = &g_array_index(boxes, struct text_box, j);
            if (MIN(a->right, b->right) - MAX(a->left, b->left) > 1 &&
                MIN(a->bottom, b->bottom) - MAX(a->top, b->top) > 1)
                g_error("%s%s: \"%s\" is over \"%s\"", name, suffix, a->text, b->text);
        }
    }
}

void drawn_check(const struct sample *sample, const char *name)
{
    check_texts(sample, name, ".svg");
    check_texts(sample, name, "-phone.svg");
    check_png(sample, name);
    check_svg(sample, name, ".svg");
    check_svg(sample, name, "-phone.svg");
    g_autofree char *script = drawn_path(sample, name, ".gp");
    g_autofree char *data = drawn_path(sample, name, ".dat");
    g_autofree char *script_text = sample_read(script), *data_text = sample_read(data);
    g_assert_cmpuint(strlen(script_text), >, 100);
    g_assert_cmpuint(strlen(data_text), >, 20);
}

/* Only the page's own script may run. */
static void check_script(const char *page)
{
    const char *script = strstr(page, "<script>");
    if (!script)
        return;
    script += strlen("<script>");
    const char *end = strstr(script, "</script>");
    g_assert_nonnull(end);
    g_assert_null(strstr(end, "<script"));
    g_autoptr(GChecksum) checksum = g_checksum_new(G_CHECKSUM_SHA256);
    guint8 digest[32];
    gsize length = sizeof digest;
    g_checksum_update(checksum, (const guchar *)script, end - script);
    g_checksum_get_digest(checksum, digest, &length);
    g_autofree char *base64 = g_base64_encode(digest, length);
    g_autofree char *policy = g_strdup_printf("default-src 'none'; style-src 'unsafe-inline'; "
                                              "script-src 'sha256-%s'\"",
                                              base64);
    g_assert_nonnull(strstr(page, policy));
}

void drawn_check_page(const char *page)
{
    check_script(page);
    static const char *const absent[] = {"http:",   "https:",  "src=",    "<script ", "<link",
                                         "@import", "<iframe", "<object", "<embed",   "<base",
                                         "url(//",  "xlink:",  "onload",  "file:"};
    for (size_t i = 0; i < G_N_ELEMENTS(absent); i++)
        if (strstr(page, absent[i]))
            g_error("the page has \"%s\"", absent[i]);
}
