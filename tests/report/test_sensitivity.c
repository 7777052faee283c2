/* What more memory or a faster link would buy, from sweeps with different links. */
#include "report/contents.h"
#include "report/report.h"
#include "tests/report/drawn.h"

#include <string.h>

/* Writes steps with 1 GiB and with 2 GiB. All but one second of each is waiting. */
static char *write_sweep(const struct sample *sample, const char *name, double rate, double small,
                         double large)
{
    g_autoptr(GString) text = g_string_new(NULL);
    const double seconds[] = {small, large};
    g_string_append_printf(text,
                           "{\"trace\": \"big.pstar\", \"h2d_rate\": %.0f, \"d2h_rate\": %.0f, "
                           "\"results\": [",
                           rate, rate);
    for (int i = 0; i < 2; i++)
        g_string_append_printf(text,
                               "%s{\"policy\": \"opt\", \"chunk_bytes\": 1024, "
                               "\"device_memory_bytes\": %" G_GINT64_FORMAT
                               ", \"fits\": true, \"h2d_bytes\": 1, "
                               "\"d2h_bytes\": 1, \"h2d_copies\": 1, \"d2h_copies\": 1, "
                               "\"evictions\": 1, \"moves\": 0, \"moved_bytes\": 0, "
                               "\"peak_device_bytes\": 1, \"peak_live_device_bytes\": 1, "
                               "\"peak_host_bytes\": 1, \"stall_seconds\": %g, "
                               "\"iteration_seconds\": %g}",
                               i ? ", " : "", (gint64)(i + 1) << 30, seconds[i] - 1, seconds[i]);
    g_string_append(text, "]}");
    return sample_file(sample, name, text->str);
}

static struct report_inputs *read_both(const char *first, const char *second)
{
    const char *const paths[] = {first, second, NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    return inputs;
}

static const struct advice *find_advice(const struct contents *contents, const char *claim)
{
    for (guint i = 0; i < contents->advice->len; i++) {
        const struct advice *advice = g_ptr_array_index(contents->advice, i);
        if (!strcmp(advice->claim, claim))
            return advice;
    }
    g_error("no advice \"%s\"", claim);
}

/* The slower link is the current one, in any order of the files. */
static void check_both(const char *first, const char *second)
{
    struct report_inputs *inputs = read_both(first, second);
    g_assert_cmpuint(inputs->sweeps->len, ==, 1);
    g_assert_cmpuint(inputs->faster->len, ==, 1);
    g_assert_true(g_str_has_suffix(
        ((const struct sweep_file *)g_ptr_array_index(inputs->sweeps, 0))->origin, "slow.json"));
    struct contents *contents = contents_new(inputs);
    find_advice(
        contents,
        "With a link of 20 GB/s instead of 10 GB/s a step would take 6.00 s, which is 40 % less");
    find_advice(contents, "With 2 GiB of device memory instead of 1 GiB a step would take 8.00 s, "
                          "which is 20 % less");
    g_assert_cmpstr(contents->verdict, ==,
                    "A step takes 8.00 s, and the device waits for 88 % of it");
    contents_free(contents);
    inputs_free(inputs);
}

static void test_links(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *slow = write_sweep(sample, "slow.json", 10e9, 10, 8);
    g_autofree char *fast = write_sweep(sample, "fast.json", 20e9, 6, 5);
    check_both(slow, fast);
    check_both(fast, slow);
    sample_free(sample);
}

static void test_drawn(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *slow = write_sweep(sample, "slow.json", 10e9, 10, 8);
    g_autofree char *fast = write_sweep(sample, "fast.json", 20e9, 6, 5);
    const char *const files[] = {fast, slow, sample->trace, NULL};
    g_free(drawn_report(sample, files, REPORT_TEXT));
    drawn_check(sample, "sensitivity");
    g_autofree char *path = drawn_path(sample, "sensitivity", ".svg");
    g_autofree char *svg = sample_read(path), *page = drawn_page(sample);
    g_assert_nonnull(strstr(svg, "link 10 GB/s"));
    g_assert_nonnull(strstr(svg, "link 20 GB/s"));
    g_assert_nonnull(strstr(page, "With 1 GiB and a link 20 GB/s it takes 6.00 s."));
    g_assert_nonnull(
        strstr(page, "With 1 GiB it takes at least 1.00 s, however fast the link is."));
    sample_free(sample);
}

/* A platform's file states the peak of a recording's link. Alone it gives no report. */
static void test_platform(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    const char *platform = PROJECT_DIR "/platforms/a100-40gb.json";
    const char *const alone[] = {platform, NULL};
    const char *const all[] = {platform, sample->timeline, sample->trace, NULL};
    GError *error = NULL;
    g_assert_null(inputs_read(alone, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_INPUT);
    g_clear_error(&error);
    g_autofree char *summary = drawn_report(sample, all, REPORT_TEXT);
    g_assert_nonnull(strstr(summary, "--platform " PROJECT_DIR "/platforms/a100-40gb.json"));
    g_autofree char *page = drawn_page(sample);
    g_assert_nonnull(strstr(page, "file states what the link can carry")); /* simulated */
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/sensitivity/links", test_links);
    g_test_add_func("/report/sensitivity/drawn", test_drawn);
    g_test_add_func("/report/sensitivity/platform", test_platform);
    return g_test_run();
}
