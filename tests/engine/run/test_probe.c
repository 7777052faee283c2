/* The probe's file, as any program would read it. */
#include "engine/probe/probe.h"
#include "platforms/platform.h"
#include "traces/failure.h"

#include <glib/gstdio.h>

static void check_curve(const struct platform_curve *curve, const char *name)
{
    if (curve->count < 1 || !curve->source || !*curve->source)
        g_error("%s: no points, or no source", name);
}

static void test_file(void)
{
    g_autofree char *folder = g_dir_make_tmp("pstar-probe-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "machine.json", NULL);
    GError *error = NULL;
    bool ok = probe_run(&device_cpu, path, NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_true(ok);
    struct platform *platform = platform_read(path, &error);
    g_assert_no_error(error);
    check_curve(&platform->h2d, "h2d");
    check_curve(&platform->d2h, "d2h");
    check_curve(&platform->host_update, "host_update");
    for (int i = 0; i < PLATFORM_EXTRAS; i++)
        /* The launch curve describes other frameworks, and the CPU device has no pageable memory.
         */
        if (i != PLATFORM_H2D_PAGEABLE && i != PLATFORM_D2H_PAGEABLE && i != PLATFORM_LAUNCH) {
            g_autofree char *name = g_strdup_printf("extra curve %d", i);
            check_curve(&platform->extra[i], name);
        }
    g_assert_cmpuint(platform->product_count, >=, 10);
    g_assert_nonnull(platform->threads.source);
    g_assert_cmpuint(platform->threads.host_cores, >=, 1);
    g_assert_cmpfloat(platform->threads.put_seconds, >, 0);
    g_assert_cmpfloat(platform->threads.wake_seconds, >, 0);
    g_assert_cmpfloat(platform->threads.gap_seconds, >, 0);
    /* Both directions at once are measured for the sizes of one. Their times are the machine's: on
     * a busy one any may be the longer. */
    const struct platform_curve *both = &platform->extra[PLATFORM_H2D_BOTH];
    g_assert_cmpuint(both->count, ==, platform->h2d.count);
    for (uint32_t i = 0; i < both->count; i++)
        g_assert_cmpfloat(both->points[i].amount, ==, platform->h2d.points[i].amount);
    platform_free(platform);
    g_unlink(path);
    g_rmdir(folder);
}

static void test_refused(void)
{
    GError *error = NULL;
    g_assert_false(probe_run(&device_cpu, "/nowhere/at/all/machine.json", NULL, NULL, &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    g_error_free(error);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/probe/file", test_file);
    g_test_add_func("/probe/refused", test_refused);
    return g_test_run();
}
