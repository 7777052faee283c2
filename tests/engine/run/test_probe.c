/* The probe's file, as any program would read it. */
#include "base/failure.h"
#include "engine/probe/probe.h"
#include "engine/probe/probe_steps.h"
#include "platforms/platform.h"

#include <glib/gstdio.h>

/* The linker lets calls of probe_seconds from other files come here (--wrap). What is measured is
 * not looked at, so only the first quantity is repeated as often as the probe repeats all. */
double __real_probe_seconds(probe_work *work, void *data);
double __wrap_probe_seconds(probe_work *work, void *data);

static uint32_t measured;

double __wrap_probe_seconds(probe_work *work, void *data)
{
    if (measured++ == 0)
        return __real_probe_seconds(work, data);
    double start = probe_now();
    work(data);
    return probe_now() - start;
}

static void check_curve(const struct platform_curve *curve, const char *name)
{
    if (curve->count < 1 || !curve->source || !*curve->source)
        g_error("%s: no points, or no source", name);
}

/* Every block and depth is measured both ways, and the best is one of them. */
static void check_disk(const struct platform_disk *disk, const char *folder)
{
    struct platform_disk_way best;
    bool among = false;
    g_assert_nonnull(disk->source);
    g_assert_nonnull(strstr(disk->source, folder));
    g_assert_cmpuint(disk->count[0], ==, 9);
    g_assert_cmpuint(disk->count[1], ==, 9);
    g_assert_true(platform_disk_best(disk, &best));
    for (uint32_t i = 0; i < disk->count[0]; i++) {
        const struct platform_disk_point *reads = &disk->points[0][i];
        g_assert_cmpuint(reads->block_bytes, ==, disk->points[1][i].block_bytes);
        g_assert_cmpuint(reads->depth, ==, disk->points[1][i].depth);
        among |= reads->block_bytes == best.block_bytes && reads->depth == best.depth;
    }
    g_assert_true(among);
}

static void test_file(void)
{
    g_autofree char *folder = g_dir_make_tmp("pstar-probe-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "machine.json", NULL);
    GError *error = NULL;
    const struct probe_request request = {.device = &device_cpu, .path = path, .nvme = folder};
    int elsewhere;
    bool ok = probe_run(&request, &elsewhere, &error);
    g_assert_no_error(error);
    g_assert_true(ok);
    g_assert_cmpuint(measured, >, 1);
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
    check_disk(&platform->disk, folder);
    g_assert_nonnull(platform->threads.source);
    g_assert_cmpuint(platform->threads.host_cores, >=, 1);
    g_assert_cmpuint(platform->threads.cores, >=, platform->threads.host_cores);
    g_assert_null(platform->node.level.source); /* one rank exchanges nothing */
    g_assert_null(platform->host.source);
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
    const struct probe_request request = {.device = &device_cpu,
                                          .path = "/nowhere/at/all/machine.json"};
    int elsewhere;
    g_assert_false(probe_run(&request, &elsewhere, &error));
    g_assert_error(error, FAILURE, FAILURE_RUNNING);
    g_clear_error(&error);

    g_autofree char *folder = g_dir_make_tmp("pstar-probe-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "machine.json", NULL);
    const struct probe_request no_disk = {.device = &device_cpu, .path = path, .nvme = "/nowhere"};
    g_assert_false(probe_run(&no_disk, &elsewhere, &error));
    g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
    g_assert_cmpstr(error->message, ==,
                    "--nvme /nowhere: no files can be created there: No such file or directory");
    g_error_free(error);
    g_rmdir(folder);
}

/* ---- copies in both directions at once ---- */

struct span {
    uint64_t begin, end; /* equal if nothing was copied */
};

/* A CPU device whose copies only note what they would touch between two waits. */
static struct {
    struct device_ops ops;
    uint64_t bytes[2];                   /* of both memories */
    struct span copied[2][MOVER_QUEUES]; /* by memory and direction */
    uint32_t trains;                     /* in both directions */
} noting;

static struct device *open_noting(const struct device_options *options, GError **error)
{
    struct device *device = device_cpu.open(options, error);
    noting.bytes[DEVICE_ARENA] = options->arena_bytes;
    noting.bytes[DEVICE_HOST_POOL] = options->host_pool_bytes;
    if (device)
        device->ops = &noting.ops;
    return device;
}

static mover_ticket note_copy(struct device *device, enum mover_queue queue,
                              uint64_t device_address, uint64_t host_address, uint64_t bytes,
                              const struct mover_after *after)
{
    const uint64_t address[] = {[DEVICE_ARENA] = device_address, [DEVICE_HOST_POOL] = host_address};
    (void)device;
    (void)after;
    for (int m = 0; m < 2; m++) {
        struct span *span = &noting.copied[m][queue];
        bool first = span->begin == span->end;
        g_assert_cmpuint(bytes, <=, noting.bytes[m]);
        g_assert_cmpuint(address[m], <=, noting.bytes[m] - bytes);
        span->begin = first ? address[m] : MIN(span->begin, address[m]);
        span->end = first ? address[m] + bytes : MAX(span->end, address[m] + bytes);
    }
    return 0; /* nothing to wait for */
}

static mover_ticket note_move(struct device *device, uint64_t to, uint64_t from, uint64_t bytes,
                              const struct mover_after *after)
{
    (void)device;
    (void)after;
    g_assert_cmpuint(MAX(to, from) + bytes, <=, noting.bytes[DEVICE_ARENA]);
    return 0;
}

static void end_train(struct device *device, const struct mover_after *after)
{
    for (int m = 0; m < 2; m++) {
        const struct span *in = &noting.copied[m][MOVER_H2D], *out = &noting.copied[m][MOVER_D2H];
        if (in->begin == in->end || out->begin == out->end)
            continue;
        g_assert_true(in->end <= out->begin || out->end <= in->begin);
        noting.trains++;
    }
    memset(noting.copied, 0, sizeof noting.copied);
    device_cpu.wait(device, after);
}

static void test_directions_do_not_meet(void)
{
    struct platform *platform = g_new0(struct platform, 1);
    GError *error = NULL;
    noting.ops = device_cpu;
    noting.ops.open = open_noting;
    noting.ops.copy = note_copy;
    noting.ops.move = note_move;
    noting.ops.wait = end_train;
    bool ok = probe_copies(&noting.ops, platform, &error);
    g_assert_no_error(error);
    g_assert_true(ok);
    g_assert_cmpuint(noting.trains, >, 0);
    platform_free(platform);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/probe/file", test_file);
    g_test_add_func("/probe/directions-do-not-meet", test_directions_do_not_meet);
    g_test_add_func("/probe/refused", test_refused);
    return g_test_run();
}
