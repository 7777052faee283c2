/* pstar-run --probe of several ranks: its points are those of the ranks' own collectives, and
 * pstar-sim reads them. */
#include "platforms/platform.h"
#include "tests/drawn.h"
#include "workshop.h"

#include <math.h>
#include <string.h>

#define RANKS "mpirun -n 2 --oversubscribe "

static bool can_run(void)
{
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    if (mpirun && g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS))
        return true;
    g_test_skip("there is no mpirun, or the build has no MPI");
    return false;
}

/* The first and the last size say that the collective really moved the bytes: no machine has a
 * terabyte a second between two processes. */
static void check_points(const struct platform_level *level, enum platform_collective c)
{
    const struct platform_exchange *points = level->points[c];
    uint32_t count = level->point_count[c];
    g_assert_cmpuint(count, >=, 3);
    for (uint32_t i = 0; i < count; i++) {
        g_assert_cmpuint(points[i].ranks, ==, 2);
        g_assert_true(isfinite(points[i].seconds) && isfinite(points[i].core_seconds));
        g_assert_cmpfloat(points[i].seconds, >, 0);
        g_assert_cmpfloat(points[i].core_seconds, >, 0);
        g_assert_cmpfloat(points[i].bytes / points[i].seconds, <, 1e12);
        if (i > 0) {
            g_assert_cmpfloat(points[i].bytes, >, points[i - 1].bytes);
            g_assert_cmpfloat(points[i].seconds, >=, points[i - 1].seconds);
            g_assert_cmpfloat(points[i].core_seconds, >=, points[i - 1].core_seconds);
        }
    }
    g_assert_cmpfloat(points[count - 1].seconds, >, points[0].seconds);
}

static void check_platform(const struct workshop *workshop)
{
    g_autofree char *path = workshop_path(workshop, "machine.json");
    g_autoptr(GError) error = NULL;
    struct platform *platform = platform_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(platform->node.gpus, ==, 2);
    g_assert_nonnull(strstr(platform->node.level.source, "2 ranks"));
    check_points(&platform->node.level, PLATFORM_GATHER);
    check_points(&platform->node.level, PLATFORM_REDUCE);
    g_assert_null(platform->network.source); /* there is one host */
    g_assert_cmpuint(platform->host.ranks, ==, 2);
    g_assert_cmpfloat(platform->host.bytes_per_second, >, 0);
    platform_free(platform);
}

/* Returns the step's time on two ranks, as the platform's points say. */
static double simulate(const struct workshop *workshop)
{
    struct outcome outcome = workshop_run_well(
        workshop, "pstar-sim run.pstar --platform machine.json --gpus 2 --device-memory 1GiB "
                  "--strategy resident --json sweep.json");
    g_assert_null(strstr(outcome.err, "does not say how"));
    outcome_clear(&outcome);
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    const json_t *result = json_array_get(json_object_get(sweep, "results"), 0);
    double seconds = json_number_value(json_object_get(result, "iteration_seconds"));
    json_decref(sweep);
    return seconds;
}

/* Ten times slower points make a slower step: the simulator's network is the file's. */
static void slow_down(const struct workshop *workshop)
{
    g_autofree char *path = workshop_path(workshop, "machine.json");
    struct platform *platform = platform_read(path, NULL);
    for (int c = 0; c < PLATFORM_COLLECTIVES; c++)
        for (uint32_t i = 0; i < platform->node.level.point_count[c]; i++)
            platform->node.level.points[c][i].seconds *= 10;
    g_assert_true(platform_write(platform, path, NULL));
    platform_free(platform);
}

static void test_file(void)
{
    if (!can_run())
        return;
    struct workshop *workshop = workshop_new();
    struct outcome outcome = workshop_run_well(workshop, RANKS "pstar-run --probe -o machine.json");
    const char *said = strstr(outcome.out, "machine.json: ");
    g_assert_nonnull(said);
    g_assert_null(strstr(said + 1, "machine.json: ")); /* one rank wrote it */
    outcome_clear(&outcome);
    check_platform(workshop);
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                "fp32 --platform machine.json -o run.pstar");
    double seconds = simulate(workshop);
    slow_down(workshop);
    g_assert_cmpfloat(simulate(workshop), >, seconds);
    workshop_free(workshop);
}

/* The first rank alone writes; if it cannot, all end with its status. */
static void test_refused(void)
{
    if (!can_run())
        return;
    struct workshop *workshop = workshop_new();
    struct outcome outcome = workshop_run(workshop, RANKS "pstar-run --probe -o /dev/full");
    const char *said = strstr(outcome.err, "pstar-run: ");
    g_assert_cmpint(outcome.status, ==, 1);
    g_assert_nonnull(said);
    g_assert_nonnull(strstr(said, "/dev/full: "));
    g_assert_null(strstr(said + 1, "pstar-run: "));
    outcome_clear(&outcome);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    /* mpirun does not run for root unless asked twice; the tests run in containers as root. */
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    g_test_init(&argc, &argv, NULL);
    draws_test(1, 3, "/ranks-probe/refused", test_refused);
    g_test_add_func("/ranks-probe/file", test_file);
    return g_test_run();
}
