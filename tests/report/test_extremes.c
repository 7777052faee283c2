/* Files with very little or very much content. */
#include "tests/report/drawn.h"

#include <string.h>

/* Files with little content, or with nothing that can be drawn to scale. */
static void test_extremes(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    static const char *const logs[] = {
        "{\"step\": 7, \"loss\": 3.5, \"eval_loss\": 3.4}\n",
        "{\"step\": 0, \"loss\": null}\n{\"step\": 1, \"loss\": null}\n",
        "{\"step\": 1, \"loss\": 1e300}\n{\"step\": 2, \"loss\": -1e300}\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(logs); i++) {
        g_autofree char *log = sample_file(sample, "extreme", logs[i]);
        const char *const files[] = {log, NULL};
        g_free(drawn_report(sample, files, REPORT_TEXT));
        drawn_check(sample, "loss");
        g_autofree char *times = drawn_path(sample, "run-time", ".svg"); /* no log has any */
        g_assert_false(g_file_test(times, G_FILE_TEST_EXISTS));
    }
    g_autofree char *misfit = sample_file(
        sample, "misfit",
        "{\"trace\": null, \"results\": [{\"chunk_bytes\": 1024, \"policy\": \"opt\", "
        "\"strategy\": null, \"device_memory_bytes\": 10, \"look_ahead\": 0, \"fits\": false}]}");
    const char *const files[] = {misfit, misfit, NULL};
    g_free(drawn_report(sample, files, REPORT_TEXT));
    drawn_check(sample, "sweep");
    drawn_check(sample, "sweep-2");
    g_autofree char *page = drawn_page(sample);
    g_assert_nonnull(strstr(page, "Nothing fits."));
    sample_free(sample);
}

/* Many budgets, policies and sizes, and a long run. */
static void test_many(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    GString *sweep = g_string_new("{\"results\": [");
    for (unsigned i = 0; i < 7 * 9 * 20; i++)
        g_string_append_printf(sweep,
                               "%s{\"chunk_bytes\": %u, \"policy\": \"p%u\", "
                               "\"device_memory_bytes\": %u, \"look_ahead\": 0, \"fits\": false}",
                               i ? ", " : "", 1024 * (1 + i % 20), i / 20 % 9,
                               100000 * (1 + i / 180));
    g_string_append(sweep, "]}");
    GString *log = g_string_new(NULL);
    for (unsigned step = 1; step <= 20000; step++)
        g_string_append_printf(log, "{\"step\": %u, \"loss\": %u.5}\n", step, step % 7);
    g_autofree char *sweep_path = sample_file(sample, "many", sweep->str);
    g_autofree char *log_path = sample_file(sample, "long", log->str);
    const char *const files[] = {sweep_path, log_path, NULL};
    g_free(drawn_report(sample, files, REPORT_TEXT));
    drawn_check(sample, "sweep");
    drawn_check(sample, "loss");
    g_autofree char *loss = drawn_path(sample, "loss", "-phone.svg"), *svg = sample_read(loss);
    g_assert_nonnull(strstr(svg, "<text> 10000</text>"));
    g_assert_nonnull(strstr(svg, "<text> 15000</text>"));
    g_autofree char *page = drawn_page(sample);
    g_assert_cmpuint(strlen(page), <, 2000000);
    g_string_free(sweep, TRUE);
    g_string_free(log, TRUE);
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/extremes/extremes", test_extremes);
    g_test_add_func("/report/extremes/many", test_many);
    return g_test_run();
}
