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
    char *summary = report_write(files ? files : all, folder, format, &error);
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

void drawn_check(const struct sample *sample, const char *name)
{
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
