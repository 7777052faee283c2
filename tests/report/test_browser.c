/* Opens the page in a headless Chromium, in light and dark mode, wide and as narrow as a phone.
 * Skipped without Chromium. */
#include "tests/report/drawn.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>
#include <utime.h>

#define PHONE 360
#define WIDE  1000

static const char *const figures[] = {"bars",        "timeline",  "link",       "memory",
                                      "sensitivity", "sweep",     "sweep-time", "heat",
                                      "loss",        "predicted", "run-time",   NULL};

static char *find_browser(void)
{
    static const char *const names[] = {"chromium-headless-shell", "chromium", "chromium-browser",
                                        "google-chrome", "google-chrome-stable"};
    char *path = NULL;
    for (size_t i = 0; !path && i < G_N_ELEMENTS(names); i++)
        path = g_find_program_in_path(names[i]);
    if (!path)
        g_test_skip("no Chromium");
    return path;
}

/* Writes a page that holds the report in a frame, because a frame can be narrower than a window. */
static char *write_harness(const struct sample *sample, int width)
{
    g_autofree char *script = sample_read(BROWSER_SCRIPT);
    g_autofree char *html = g_strdup_printf(
        "<!DOCTYPE html><meta charset=\"utf-8\"><style>iframe { border: 0; height: 6000px; width: "
        "%dpx; }</style><iframe src=\"out/index.html\"></iframe><pre id=\"found\"></pre>"
        "<script>%s</script>",
        width, script);
    return sample_file(sample, "harness.html", html);
}

/* Returns what the script found: the unescaped contents of <pre>. */
static json_t *found_in(const char *dump)
{
    const char *start = strstr(dump, "<pre id=\"found\">");
    const char *end = start ? strstr(start, "</pre>") : NULL;
    if (!end)
        g_error("the browser has not dumped the page: %s", dump);
    start += strlen("<pre id=\"found\">");
    GString *text = g_string_new_len(start, end - start);
    g_string_replace(text, "&lt;", "<", 0);
    g_string_replace(text, "&gt;", ">", 0);
    g_string_replace(text, "&nbsp;", "\u00a0", 0);
    g_string_replace(text, "&amp;", "&", 0);
    json_error_t wrong;
    json_t *found = json_loads(text->str, 0, &wrong);
    if (!found || json_object_get(found, "error"))
        g_error("%s: %s", wrong.text, text->str);
    g_string_free(text, TRUE);
    return found;
}

/* Returns the address that a line of the browser's log says a page has asked for, or NULL. The
 * browser also asks for things by itself, for example the time. Such requests have no page as
 * initiator. */
static char *asked_by_page(const char *line)
{
    size_t length = strlen(line);
    json_t *event = json_loadb(line, length - g_str_has_suffix(line, ","), 0, NULL);
    const json_t *what = json_object_get(event, "params");
    const char *url = json_string_value(json_object_get(what, "url"));
    const char *initiator = json_string_value(json_object_get(what, "initiator"));
    bool net = url && (g_str_has_prefix(url, "http") || g_str_has_prefix(url, "ws"));
    char *asked = net && initiator && strcmp(initiator, "not an origin") != 0 ? g_strdup(url)
                                                                              : NULL;
    json_decref(event);
    return asked;
}

/* Returns the first address that a page has asked for, or NULL. `log` has an event in each line. */
static char *asked_in(const char *log)
{
    g_autofree char *text = sample_read(log);
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    char *asked = NULL;
    for (size_t i = 0; lines[i] && !asked; i++)
        asked = asked_by_page(lines[i]);
    return asked;
}

/* Opens a file. Returns its DOM afterwards, and in *asked the address that a page has asked for, or
 * NULL. */
static char *browse(const struct sample *sample, const char *browser, const char *file, bool dark,
                    char **asked)
{
    g_autofree char *url = g_strconcat("file://", file, NULL);
    g_autofree char *profile_path = sample_path(sample, "profile");
    g_autofree char *profile = g_strconcat("--user-data-dir=", profile_path, NULL);
    g_autofree char *log = sample_path(sample, "net.json");
    g_autofree char *log_option = g_strconcat("--log-net-log=", log, NULL);
    /* preferredColorScheme: 0 is dark, 1 is light. */
    const char *const command[] = {browser,
                                   "--headless",
                                   "--no-sandbox",
                                   "--disable-gpu",
                                   "--disable-dev-shm-usage",
                                   "--no-first-run",
                                   "--disable-background-networking",
                                   "--disable-component-update",
                                   "--disable-default-apps",
                                   "--disable-sync",
                                   "--host-resolver-rules=MAP * ~NOTFOUND",
                                   "--allow-file-access-from-files",
                                   "--window-size=1100,900",
                                   "--virtual-time-budget=5000",
                                   dark ? "--blink-settings=preferredColorScheme=0"
                                        : "--blink-settings=preferredColorScheme=1",
                                   profile,
                                   log_option,
                                   "--dump-dom",
                                   url,
                                   NULL};
    g_autofree char *err = NULL;
    char *out = NULL;
    int status;
    GError *error = NULL;
    g_spawn_sync(NULL, (char **)command, NULL, G_SPAWN_DEFAULT, NULL, NULL, &out, &err, &status,
                 &error);
    g_assert_no_error(error);
    if (!g_spawn_check_wait_status(status, NULL))
        g_error("%s: %s", browser, err);
    *asked = asked_in(log);
    return out;
}

static json_t *look(const struct sample *sample, const char *browser, int width, bool dark)
{
    g_autofree char *harness = write_harness(sample, width), *asked = NULL;
    g_autofree char *out = browse(sample, browser, harness, dark, &asked);
    if (asked)
        g_error("the page has asked for %s", asked);
    return found_in(out);
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    g_assert_true(json_is_number(value));
    return json_number_value(value);
}

static const char *string_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static void check_figures(const json_t *found, int width)
{
    const json_t *drawn = json_object_get(found, "figures"), *plot;
    size_t index;
    g_assert_cmpuint(json_array_size(drawn), ==, G_N_ELEMENTS(figures) - 1);
    json_array_foreach (drawn, index, plot) {
        g_test_message("%s: %s", string_of(plot, "id"), string_of(plot, "label"));
        g_assert_true(g_strv_contains(figures, string_of(plot, "id")));
        g_assert_cmpfloat(number_of(plot, "width"), >=, 0.85 * width);
        g_assert_cmpfloat(number_of(plot, "width"), <=, width);
        g_assert_cmpfloat(number_of(plot, "height"), >=, 150);
        g_assert_cmpfloat(number_of(plot, "shapes"), >=, 4);
        g_assert_cmpuint(strlen(string_of(plot, "label")), >=, 40);
    }
}

static void check_texts(const json_t *found)
{
    const json_t *texts = json_object_get(found, "texts");
    g_test_message("smallest %.1f px \"%s\", palest %.1f \"%s\"", number_of(texts, "smallest"),
                   string_of(texts, "smallestText"), number_of(texts, "palest"),
                   string_of(texts, "palestText"));
    g_assert_cmpfloat(number_of(texts, "count"), >, 100);
    g_assert_cmpfloat(number_of(texts, "smallest"), >=, 10.5);
    g_assert_cmpfloat(number_of(texts, "palest"), >=, 4.5); /* level AA of WCAG */
    g_assert_cmpfloat(number_of(found, "scrollWidth"), <=, number_of(found, "width"));
}

static const json_t *step_of(const json_t *seen, size_t index, const char *what)
{
    const json_t *step = json_array_get(seen, index);
    g_assert_cmpstr(string_of(step, "what"), ==, what);
    g_assert_cmpfloat_with_epsilon(
        number_of(step, "view") / 1e5,
        (number_of(step, "to") - number_of(step, "from")) / (SAMPLE_STEP_MS * 1e-3), 1e-6);
    return step;
}

static void check_span(const json_t *step, double from_ms, double to_ms)
{
    g_assert_cmpfloat_with_epsilon(number_of(step, "from"), from_ms * 1e-3, 1e-4);
    g_assert_cmpfloat_with_epsilon(number_of(step, "to"), to_ms * 1e-3, 1e-4);
}

static void check_zoom(const json_t *found)
{
    const json_t *zoom = json_object_get(found, "zoom"), *seen = json_object_get(zoom, "seen");
    check_span(step_of(seen, 0, "whole"), 0, 40);
    check_span(step_of(seen, 1, "button"), 10, 30);
    check_span(step_of(seen, 2, "wheel"), 15, 25);
    check_span(step_of(seen, 3, "left"), 10, 20);
    check_span(step_of(seen, 4, "all"), 0, 40);
    /* After zooming in, more spans are wide enough for their names. */
    const json_t *whole = json_object_get(json_array_get(seen, 0), "names");
    const json_t *near = json_object_get(json_array_get(seen, 3), "names"), *name;
    size_t index;
    bool backward = false;
    g_assert_cmpuint(json_array_size(whole), >, 0);
    json_array_foreach (near, index, name)
        backward = backward || strstr(json_string_value(name), "backward layer.");
    g_assert_true(backward);
    /* The longest wait is that of the update. */
    check_span(step_of(seen, 5, "link"), 14.8, 40);
    g_assert_nonnull(strstr(string_of(zoom, "said"), "forward"));
}

/* "layer.3" names an operator of forward, of backward and of the update: three of 1, 2 and 5 ms. */
static void check_search(const json_t *found)
{
    const json_t *search = json_object_get(found, "search");
    g_assert_cmpstr(string_of(search, "said"), ==, "3 found, 8 ms in all. Enter shows the next.");
    g_assert_cmpfloat(number_of(search, "marked"), ==, 3);
    g_assert_true(g_str_has_prefix(string_of(search, "next"), "1 of 3: "));
    g_assert_cmpfloat_with_epsilon(number_of(search, "to") - number_of(search, "from"), 5e-3, 1e-4);
    g_assert_cmpstr(string_of(search, "nothing"), ==, "Nothing has this in its name.");
    g_assert_cmpfloat(number_of(search, "left"), ==, 0);
}

static void check_page(const struct sample *sample, const char *browser, int width, bool dark)
{
    json_t *found = look(sample, browser, width, dark);
    g_assert_cmpfloat(number_of(found, "width"), ==, width);
    g_assert_cmpstr(string_of(found, "background"), ==,
                    dark ? "rgb(20, 23, 26)" : "rgb(255, 255, 255)");
    g_assert_cmpuint(json_array_size(json_object_get(found, "fetched")), ==, 0);
    check_figures(found, width);
    check_texts(found);
    check_zoom(found);
    check_search(found);
    json_decref(found);
}

static void test_browser(void)
{
    g_autofree char *browser = find_browser();
    if (!browser || !drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *run = sample_read(sample->run);
    GString *log = g_string_new(run);
    g_string_replace(log, "policy opt", "zero3-offload", 0); /* as the timeline, which says why */
    g_autofree char *same = sample_file(sample, "same.jsonl", log->str);
    const char *const files[] = {sample->trace, sample->plan, sample->sweep, sample->timeline,
                                 same,          sample->run,  NULL};
    struct utimbuf old = {1000, 1000};
    g_assert_cmpint(g_utime(sample->run, &old), ==, 0);
    g_string_free(log, TRUE);
    g_free(drawn_report(sample, files, REPORT_TEXT));
    check_page(sample, browser, WIDE, false);
    check_page(sample, browser, PHONE, true);
    check_page(sample, browser, PHONE, false);
    sample_free(sample);
}

/* What the browser asks for by itself is no request of a page, but what a page asks for is found.
 */
static void test_requests(void)
{
    g_autofree char *browser = find_browser();
    if (!browser)
        return;
    struct sample *sample = sample_new("");
    g_autofree char *quiet = sample_file(sample, "quiet.html", "<!DOCTYPE html><p>nothing");
    g_autofree char *asks = sample_file(
        sample, "asks.html", "<!DOCTYPE html><img src=\"http://127.0.0.1:9/picture.png\">");
    char *asked;
    g_free(browse(sample, browser, quiet, false, &asked));
    g_assert_null(asked);
    g_free(browse(sample, browser, asks, false, &asked));
    g_assert_cmpstr(asked, ==, "http://127.0.0.1:9/picture.png");
    g_free(asked);
    sample_free(sample);
}

/* Requests of the browser itself (an update, the time) and of a page. */
static void test_log(void)
{
    static const char own[] =
        "{\"params\":{\"initiator\":\"not an origin\",\"url\":\"http://clients2.google.com/time\"},"
        "\"type\":136},";
    static const char start[] = "{\"params\":{\"priority\":\"LOW\",\"url\":\"http://a.test/\"}},";
    static const char page[] =
        "{\"params\":{\"initiator\":\"null\",\"url\":\"https://a.test/\"},\"type\":136}";
    g_autofree char *asked = asked_by_page(page);
    g_assert_null(asked_by_page(own));
    g_assert_null(asked_by_page(start));
    g_assert_null(asked_by_page("\"events\": ["));
    g_assert_null(asked_by_page(""));
    g_assert_cmpstr(asked, ==, "https://a.test/");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/browser/log", test_log);
    g_test_add_func("/report/browser/requests", test_requests);
    g_test_add_func("/report/browser/page", test_browser);
    return g_test_run();
}
