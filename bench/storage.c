/* Reads or writes a file once from its beginning to its end, as a training run reads and writes
 * chunks, and prints the bytes a second. bench/storage runs it beside fio.
 *
 *   bench_storage FILE [--size SIZE] [--block SIZE] [--depth N] [--write] [--threads] [--checksums]
 *
 * Transfers of 16 MiB walk through a memory of 64 MiB: the next one begins when the oldest has
 * ended. The memory is in large pages, as the engine asks for it, so that a call has few segments.
 * With --checksums each gets one, which a read compares if the same call wrote before. Prints "RATE
 * WAY", such as "2.1e+09 io_uring". Exit status 1 if something fails. */
#include "engine/storage/storage.h"
#include "traces/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WINDOW = 4, TRANSFER = 16 << 20, SUM_LIMIT = 1 << 16 };

static gchar *size_text, *block_text;
static gint depth = 8;
static gboolean writes, by_threads, with_checksums;

static const GOptionEntry entries[] = {
    {"size", 0, 0, G_OPTION_ARG_STRING, &size_text, "Bytes of the file (512MiB)", "SIZE"},
    {"block", 0, 0, G_OPTION_ARG_STRING, &block_text, "Bytes of a call (1MiB)", "SIZE"},
    {"depth", 0, 0, G_OPTION_ARG_INT, &depth, "Calls under way (8)", "N"},
    {"write", 0, 0, G_OPTION_ARG_NONE, &writes, "Write instead of reading", NULL},
    {"threads", 0, 0, G_OPTION_ARG_NONE, &by_threads, "pread and pwrite by threads", NULL},
    {"checksums", 0, 0, G_OPTION_ARG_NONE, &with_checksums,
     "Write and read, with checksums; the rate is of the direction that was asked for", NULL},
    {0},
};

static bool pass(struct store *store, const struct storage_options *options, bool write,
                 uint64_t *sums, GError **error)
{
    struct storage_job *jobs[WINDOW] = {NULL};
    uint64_t count = options->bytes / TRANSFER;
    bool ok = true;
    for (uint64_t i = 0; i < count + WINDOW; i++) {
        struct storage_job **job = &jobs[i % WINDOW];
        if (*job)
            ok = storage_finish(*job, ok ? error : NULL) && ok;
        *job = NULL;
        const struct storage_transfer next = {.writes = write,
                                              .offset = i * TRANSFER,
                                              .bytes = TRANSFER,
                                              .memory = (uint8_t *)options->memory.start +
                                                        i % WINDOW * TRANSFER,
                                              .checksum = with_checksums ? &sums[i] : NULL};
        if (i < count && ok)
            *job = storage_begin(store, &next);
    }
    return ok;
}

static bool measure(struct store *store, const struct storage_options *options, GError **error)
{
    g_autofree uint64_t *sums = g_new0(uint64_t, SUM_LIMIT);
    if (with_checksums && !writes && !pass(store, options, true, sums, error))
        return false;
    gint64 start = g_get_monotonic_time();
    if (!pass(store, options, writes, sums, error))
        return false;
    double seconds = (double)(g_get_monotonic_time() - start) * 1e-6;
    const struct storage_mode mode = storage_mode(store);
    printf("%.4g %s%s%s\n", (double)options->bytes / seconds, mode.uring ? "io_uring" : "threads",
           mode.direct ? ",direct" : "", mode.registered ? ",registered" : "");
    return true;
}

static bool run(const char *path, GError **error)
{
    struct storage_options options = {
        .path = path,
        .bytes = (uint64_t)512 << 20,
        .block_bytes = 1 << 20,
        .depth = (uint32_t)CLAMP(depth, 1, STORAGE_DEPTH_LIMIT),
        .way = by_threads ? STORAGE_THREADS : STORAGE_BEST,
        .memory = {aligned_alloc(2 << 20, WINDOW * TRANSFER), WINDOW * TRANSFER}};
    if ((size_text && !size_parse(size_text, &options.bytes, error)) ||
        (block_text && !size_parse(block_text, &options.block_bytes, error)))
        return false;
    options.bytes = CLAMP(options.bytes / TRANSFER, 1, SUM_LIMIT) * TRANSFER;
    madvise(options.memory.start, options.memory.bytes, MADV_HUGEPAGE);
    memset(options.memory.start, 1, options.memory.bytes);
    struct store *store = storage_open(&options, error);
    bool ok = store && measure(store, &options, error);
    storage_close(store);
    free(options.memory.start);
    return ok;
}

int main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    GOptionContext *context = g_option_context_new("FILE");
    g_option_context_add_main_entries(context, entries, NULL);
    bool ok = g_option_context_parse(context, &argc, &argv, &error);
    g_option_context_free(context);
    if (ok && argc != 2) {
        fprintf(stderr, "bench_storage: needs a file\n");
        return 2;
    }
    ok = ok && run(argv[1], &error);
    if (!ok)
        fprintf(stderr, "bench_storage: %s\n", error->message);
    g_free(size_text);
    g_free(block_text);
    return ok ? 0 : 1;
}
