/* gnuplot's SVG becomes part of the page: it takes the page's colours, has unique identifiers and
 * refers to nothing outside. */
#include "report/output.h"
#include "report/plot.h"

#include <string.h>

extern const char page_css[];

static const char drawn[] =
    "<?xml version=\"1.0\" encoding=\"utf-8\"  standalone=\"no\"?>\n"
    "<svg \n viewBox=\"0 0 960 500\"\n xmlns=\"http://www.w3.org/2000/svg\"\n"
    " xmlns:xlink=\"http://www.w3.org/1999/xlink\"\n>\n"
    "<title>Gnuplot</title>\n<desc>Produced by GNUPLOT 5.4 patchlevel 4 </desc>\n"
    "<g id=\"gnuplot_canvas\">\n"
    "<rect x=\"0\" y=\"0\" width=\"960\" height=\"500\" fill=\"#ffffff\"/>\n"
    "<defs><circle id='gpDot' r='0.5' stroke='currentColor'/></defs>\n"
    "<g fill=\"none\" color=\"black\" stroke=\"currentColor\">\n</g>\n"
    "<g fill=\"none\" color=\"black\" stroke=\"currentColor\">\n"
    "<path stroke='rgb( 27,  31,  36)' d='M0,0'/><path stroke='rgb(103, 112, 123)' d='M1,1'/>\n"
    "<text fill=\"rgb(27,31,36)\" font-family=\"sans-serif\">peak &lt;b></text>\n"
    "<path stroke='rgb(  0, 114, 178)' d='M2,2'/>\n"
    "<use xlink:href='#gpDot' clip-path='url(#gpClip)'/></g></g>\n</svg>\n";

static void test_inline(void)
{
    GString *html = g_string_new(NULL);
    svg_append_inline(html, drawn, "memory-phone", "a \"picture\" <of> it");
    g_assert_true(g_str_has_prefix(html->str,
                                   "<svg viewBox=\"0 0 960 500\" role=\"img\" aria-label=\"a "
                                   "&quot;picture&quot; &lt;of&gt; it\">"));
    static const char *const absent[] = {"http", "xmlns",      "Gnuplot", "#ffffff",
                                         "<?",   "xlink:href", "black",   "sans-serif",
                                         "'#gp", "id='gpDot'", "rgb( 27", "rgb(27"};
    for (size_t i = 0; i < G_N_ELEMENTS(absent); i++)
        if (strstr(html->str, absent[i]))
            g_error("\"%s\" is left in %s", absent[i], html->str);
    static const char *const present[] = {"id='memory-phone-gpDot'",
                                          "href='#memory-phone-gpDot'",
                                          "url(#memory-phone-gpClip)",
                                          "stroke='var(--ink)'",
                                          "fill=\"var(--ink)\"",
                                          "stroke='var(--muted)'",
                                          "rgb(  0, 114, 178)",
                                          "peak &lt;b>",
                                          "</svg>"};
    for (size_t i = 0; i < G_N_ELEMENTS(present); i++)
        if (!strstr(html->str, present[i]))
            g_error("no \"%s\" in %s", present[i], html->str);
    g_string_free(html, TRUE);
}

/* Known makers have distinct colours and points. */
static void check_differ(const char *const *makers, size_t count)
{
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < a; b++) {
            g_assert_cmpstr(palette_maker(makers[a]), !=, palette_maker(makers[b]));
            g_assert_cmpint(palette_maker_point(makers[a]), !=, palette_maker_point(makers[b]));
        }
}

static void test_palette(void)
{
    static const char *const policies[] = {
        "policy fifo", "policy lru",         "policy lfu",   "policy clock",
        "policy arc",  "policy s3fifo",      "policy sieve", "policy random",
        "policy opt",  "policy patrickstar", "planner",      "policy opt-dirty"};
    static const char *const strategies[] = {"resident",      "patrickstar",  "gemini-static:0.5",
                                             "gemini-auto:2", "planner",      "zero-offload",
                                             "zero3-offload", "twinflow:0.3", "interleave:2",
                                             "fsdp-offload",  "megatrain",    "superoffload:0.2"};
    check_differ(policies, G_N_ELEMENTS(policies));
    check_differ(strategies, G_N_ELEMENTS(strategies));
    g_assert_cmpstr(palette_maker("policy mine"), ==, palette_maker("policy mine"));
    for (int a = 0; a < TRACE_ACCESS_LISTS; a++) {
        g_assert_cmpstr(palette_list((enum trace_list)a), !=, PALETTE_NON_MODEL);
        for (int b = 0; b < a; b++)
            g_assert_cmpstr(palette_list((enum trace_list)a), !=, palette_list((enum trace_list)b));
    }
}

/* The style sheet repeats the light colours that plots take over by name. */
static void test_style_sheet(void)
{
    g_assert_nonnull(strstr(page_css, "--ink: " PALETTE_INK ";"));
    g_assert_nonnull(strstr(page_css, "--muted: " PALETTE_MUTED ";"));
    g_assert_nonnull(strstr(page_css, "--grid: " PALETTE_GRID ";"));
    g_assert_nonnull(strstr(page_css, "--paper: " PALETTE_PAPER ";"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/page/inline", test_inline);
    g_test_add_func("/report/page/palette", test_palette);
    g_test_add_func("/report/page/style_sheet", test_style_sheet);
    return g_test_run();
}
