/* Untrusted text comes out harmless, and numbers come out short. */
#include "report/plot.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

static void check(char *text, const char *expected)
{
    g_assert_cmpstr(text, ==, expected);
    g_free(text);
}

static void test_printable(void)
{
    check(text_printable(NULL), "");
    check(text_printable("h.0.attn µ"), "h.0.attn µ");
    check(text_printable("a\x1b[31mb\nc"), "a\uFFFD[31mb\uFFFDc");
    check(text_printable("bad \xff byte"), "bad \uFFFD byte");
    /* A right-to-left override would reverse the rest of the line. */
    check(text_printable("a\u202Eb"), "a\uFFFDb");
    check(text_shortened("abcdefghij", 10), "abcdefghij");
    check(text_shortened("abcdefghijk", 7), "abc…ijk");
    check(text_shortened("äöüäöüäöü", 5), "äö…öü");
}

static void test_html(void)
{
    GString *html = g_string_new(NULL);
    text_append_html(html, "<a href=\"x\" b='y'>&\n");
    g_assert_cmpstr(html->str, ==, "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;\uFFFD");
    g_string_free(html, TRUE);
}

static void test_quotes(void)
{
    check(text_gnuplot("it's `id` @x"), "('it'.apostrophe.'s `id` @x')");
    check(text_gnuplot(""), "''");
    check(text_gnuplot("two\nlines"), "('two\uFFFDlines')");
    check(text_shell("runs/a-1.pstar"), "runs/a-1.pstar");
    check(text_shell("a b"), "'a b'");
    check(text_shell("$(id)"), "'$(id)'");
    check(text_shell(""), "''");
}

/* Returns what gnuplot prints for an expression. */
static char *said_by_gnuplot(const char *expression)
{
    g_autofree char *script = g_strdup_printf("a = 'b'; set print '-'; print %s", expression);
    char *command[] = {(char *)"gnuplot", (char *)"-e", (char *)TEXT_GNUPLOT_SETUP,
                       (char *)"-e",      script,       NULL};
    char *out = NULL;
    GError *error = NULL;
    g_spawn_sync(NULL, command, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &out, NULL, NULL, &error);
    g_assert_no_error(error);
    return out;
}

/* Names begin and end with quotes, and have several in a row. gnuplot reads what was written. */
static void test_gnuplot_reads(void)
{
    static const char letters[] = "''''a\"`$\\ @@";
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        g_test_skip("no gnuplot");
        return;
    }
    for (unsigned i = 0; i < 60; i++) {
        char name[8] = "";
        for (int at = 0, length = g_test_rand_int_range(1, 7); at < length; at++)
            name[at] = letters[g_test_rand_int_range(0, (int)sizeof letters - 1)];
        g_autofree char *quoted = text_gnuplot(name), *said = said_by_gnuplot(quoted);
        g_autofree char *expected = g_strconcat(name, "\n", NULL);
        g_assert_cmpstr(said, ==, expected);
    }
}

static void test_figures(void)
{
    check(text_seconds(0), "0 s");
    check(text_seconds(1.4567), "1.46 s");
    check(text_seconds(99.96), "100 s");
    check(text_seconds(0.3124), "312 ms");
    check(text_seconds(0.99999), "1.00 s");
    check(text_seconds(8.123e-6), "8.12 µs");
    check(text_seconds(NAN), "–");
    check(text_rate(0), "nothing");
    check(text_rate(340.2e6), "340 MB/s");
    check(text_rate(12.34e9), "12.3 GB/s");
    check(text_rate(1558e9), "1.56 TB/s");
    check(text_operation_rate(0.5e9), "0.5 GFLOP/s");
    check(text_operation_rate(297e12), "297 TFLOP/s");
    check(text_count(0), "0");
    check(text_count(999), "999");
    check(text_count(1234567), "1,234,567");
    check(text_count(UINT64_MAX), "18,446,744,073,709,551,615");
    check(text_difference(3, 3), "equal");
    check(text_difference(101.3, 100), "+1.3 %");
    check(text_difference(80, 100), "−20 %");
    check(text_difference(1, 0), "–");
}

static void test_numbers_for_gnuplot(void)
{
    const double values[] = {0.1, 1.0 / 3, 120586240, 1e300, 5e-324, NAN};
    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        GString *text = g_string_new(NULL);
        axis_append(text, values[i]);
        if (isnan(values[i]))
            g_assert_cmpstr(text->str, ==, "NaN");
        else
            g_assert_true(g_ascii_strtod(text->str, NULL) == values[i]);
        g_string_free(text, TRUE);
    }
    g_assert_cmpstr(axis_bytes(0x1p31).name, ==, "GiB");
    g_assert_cmpstr(axis_bytes(0x1p30).name, ==, "MiB");
    g_assert_cmpstr(axis_seconds(0.5).name, ==, "ms");
    g_assert_cmpstr(axis_seconds(0).name, ==, "s");
}

static void test_size_tics(void)
{
    GArray *sizes = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint64_t size = 1024; size <= 16384; size *= 2)
        g_array_append_val(sizes, size);
    GString *script = g_string_new(NULL);
    axis_append_size_tics(script, sizes, 160, 8);
    g_assert_cmpstr(script->str, ==, "set xtics ('16 KiB' 16384, '4 KiB' 4096, '1 KiB' 1024)\n");
    g_string_free(script, TRUE);
    g_array_unref(sizes);
}

static void test_table(void)
{
    struct text_table *table = table_new("A <title>", "Name|Value");
    table_add(table, g_strdup("a\x07"), g_strdup("1"));
    table_add(table, g_strdup("long <b>"), g_strdup("100"));
    GString *text = g_string_new(NULL), *html = g_string_new(NULL);
    table_append_text(table, text);
    g_assert_cmpstr(text->str, ==,
                    "A <title>\n"
                    "Name      Value\n"
                    "a\uFFFD            1\n"
                    "long <b>    100\n\n");
    table_append_html(table, html);
    g_assert_nonnull(strstr(html->str, "<h3>A &lt;title&gt;</h3>"));
    g_assert_nonnull(strstr(html->str, "<th scope=\"col\">Value</th>"));
    g_assert_nonnull(strstr(html->str, "<th scope=\"row\">long &lt;b&gt;</th><td>100</td>"));
    g_string_free(text, TRUE);
    g_string_free(html, TRUE);
    table_free(table);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/text/printable", test_printable);
    g_test_add_func("/report/text/html", test_html);
    g_test_add_func("/report/text/quotes", test_quotes);
    g_test_add_func("/report/text/gnuplot_reads", test_gnuplot_reads);
    g_test_add_func("/report/text/figures", test_figures);
    g_test_add_func("/report/text/numbers_for_gnuplot", test_numbers_for_gnuplot);
    g_test_add_func("/report/text/size_tics", test_size_tics);
    g_test_add_func("/report/text/table", test_table);
    return g_test_run();
}
