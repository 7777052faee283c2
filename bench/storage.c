/* Reads or writes a file from its beginning to its end, once or several times, as a training run
 * reads and writes chunks, and prints the bytes a second. bench/storage runs it beside fio.
 *
 *   bench_storage FILE [--size SIZE] [--block SIZE] [--depth N] [--memory SIZE] [--passes N]
 *                 [--write] [--threads] [--checksums]
 *
 * Transfers of 16 MiB walk through a memory of 64 MiB: the next one begins when the oldest has
 * ended. With less memory transfers are no larger than it, and as many are under way as before.
 * They then share its bytes, which is fast for both caches and says nothing of what is read. The
 * memory is in large pages, as the engine asks for it, so that a call has few segments. With
 * --checksums each transfer gets one, which a read compares if the same call wrote before. Prints
 * "RATE WAY", such as "2.1e+09 io_uring". Exit status 1 if something fails. */
#include "engine/storage/storage.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WINDOW = 4, TRANSFER = 16 << 20, LARGE_PAGE = 2 << 20, SUM_LIMIT = 1 << 16 };

static gchar *size_text, *block_text, *memory_text;
static gint depth = 8, passes = 1;
static gboolean writes, by_threads, with_checksums;

static const GOptionEntry entries[] = {
    {"size", 0, 0, G_OPTION_ARG_STRING, &size_text, "Bytes of the file (512MiB)", "SIZE"},
    {"block", 0, 0, G_OPTION_ARG_STRING, &block_text, "Bytes of a call (1MiB)", "SIZE"},
    {"depth", 0, 0, G_OPTION_ARG_INT, &depth, "Calls under way (8)", "N"},
    {"memory", 0, 0, G_OPTION_ARG_STRING, &memory_text, "Bytes of the buffers (64MiB)", "SIZE"},
    {"passes", 0, 0, G_OPTION_ARG_INT, &passes, "How often the file is read or written (1)", "N"},
    {"write", 0, 0, G_OPTION_ARG_NONE, &writes, "Write instead of reading", NULL},
    {"threads", 0, 0, G_OPTION_ARG_NONE, &by_threads, "pread and pwrite by threads", NULL},
    {"checksums", 0, 0, G_OPTION_ARG_NONE, &with_checksums,
     "Write and read, with checksums; the rate is of the direction that was asked for", NULL},
    {0},
};

static uint64_t transfer_bytes(const struct storage_options *options)
{
    return MIN(TRANSFER, options->memory.bytes);
}

static bool pass(struct store *store, const struct storage_options *options, bool write,
                 uint32_t times, uint64_t *sums, GError **error)
{
    struct storage_job *jobs[WINDOW] = {NULL};
    const uint64_t transfer = transfer_bytes(options), slots = options->memory.bytes / transfer;
    uint64_t in_file = options->bytes / transfer, count = times * in_file;
    bool ok = true;
    for (uint64_t i = 0; i < count + WINDOW; i++) {
        struct storage_job **job = &jobs[i % WINDOW];
        if (*job)
            ok = storage_finish(*job, ok ? error : NULL) && ok;
        *job = NULL;
        const struct storage_transfer next = {
            .writes = write,
            .offset = i % in_file * transfer,
            .bytes = transfer,
            .memory = (uint8_t *)options->memory.start + i % slots * transfer,
            .checksum = with_checksums ? &sums[i % in_file] : NULL};
        if (i < count && ok)
            *job = storage_begin(store, &next);
    }
    return ok;
}

static bool measure(struct store *store, const struct storage_options *options, GError **error)
{
    g_autofree uint64_t *sums = g_new0(uint64_t, SUM_LIMIT);
    uint32_t times = (uint32_t)CLAMP(passes, 1, 1 << 16);
    if (with_checksums && !writes && !pass(store, options, true, 1, sums, error))
        return false;
    gint64 start = g_get_monotonic_time();
    if (!pass(store, options, writes, times, sums, error))
        return false;
    double seconds = (double)(g_get_monotonic_time() - start) * 1e-6;
    const struct storage_mode mode = storage_mode(store);
    printf("%.4g %s%s%s\n", (double)options->bytes * times / seconds,
           mode.uring ? "io_uring" : "threads", mode.direct ? ",direct" : "",
           mode.registered ? ",registered" : "");
    return true;
}

static bool run(const char *path, GError **error)
{
    struct storage_options options = {.path = path,
                                      .bytes = (uint64_t)512 << 20,
                                      .block_bytes = 1 << 20,
                                      .depth = (uint32_t)CLAMP(depth, 1, STORAGE_DEPTH_LIMIT),
                                      .way = by_threads ? STORAGE_THREADS : STORAGE_BEST,
                                      .memory = {.bytes = WINDOW * TRANSFER}};
    if ((size_text && !size_parse(size_text, &options.bytes, error)) ||
        (block_text && !size_parse(block_text, &options.block_bytes, error)) ||
        (memory_text && !size_parse(memory_text, &options.memory.bytes, error)))
        return false;
    options.memory.bytes = MAX(1, options.memory.bytes / LARGE_PAGE) * LARGE_PAGE;
    const uint64_t transfer = transfer_bytes(&options);
    options.bytes = CLAMP(options.bytes / transfer, 1, SUM_LIMIT) * transfer;
    options.memory.start = aligned_alloc(LARGE_PAGE, options.memory.bytes);
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
    g_free(memory_text);
    return ok ? 0 : 1;
}
