/* Storage whose calls do less than they were asked for, fail, or take long. */
#include "storage_fixture.h"

#include <errno.h>

/* One fault, of the calls that write or of those that read. */
struct fault {
    bool writes;
    uint64_t from, until; /* offsets in the file */
    int64_t instead;      /* bytes, or the negative of an errno */
    gint left;            /* calls that it still befalls; atomic */
    gint calls;           /* atomic */
    gulong sleep_us;
};

static int64_t issue(void *self, bool writes, uint64_t offset, uint64_t bytes)
{
    struct fault *fault = self;
    g_atomic_int_inc(&fault->calls);
    if (writes != fault->writes || offset < fault->from || offset >= fault->until ||
        g_atomic_int_add(&fault->left, -1) <= 0)
        return (int64_t)bytes;
    g_usleep(fault->sleep_us);
    return MIN((int64_t)bytes, fault->instead);
}

static void open_faulty(struct fixture *f, struct fault *fault)
{
    f->seam.issue = issue;
    f->seam.self = fault;
    open_storage(f);
}

/* Writes and reads everything, and compares. */
static void check_round_trip(struct fixture *f)
{
    uint64_t checksum = 0;
    g_autoptr(GError) error = NULL;
    fill_randomly(f->memory, FILE_BYTES, 5);
    g_autofree uint8_t *written = g_memdup2(f->memory, FILE_BYTES);
    transfer(f, true, 0, FILE_BYTES, &checksum, &error);
    g_assert_no_error(error);
    memset(f->memory, 0, FILE_BYTES);
    transfer(f, false, 0, FILE_BYTES, &checksum, &error);
    g_assert_no_error(error);
    g_assert_cmpmem(f->memory, FILE_BYTES, written, FILE_BYTES);
}

/* Calls that stop after a page: the rest is asked for again. */
static void check_short(struct fixture *f, bool writes)
{
    struct fault fault = {
        .writes = writes, .until = UINT64_MAX, .instead = STORAGE_ALIGNMENT, .left = 500};
    if (is_missing(f))
        return;
    open_faulty(f, &fault);
    check_round_trip(f);
    g_assert_cmpint(fault.calls, >, 2 * FILE_BYTES / BLOCK + 400);
}

static void test_short_reads(struct fixture *f, const void *unused)
{
    (void)unused;
    check_short(f, false);
}

static void test_short_writes(struct fixture *f, const void *unused)
{
    (void)unused;
    check_short(f, true);
}

/* Interruptions are no errors, unless nothing else happens. */
static void test_interrupted(struct fixture *f, const void *unused)
{
    struct fault fault = {.writes = true, .until = BLOCK, .instead = -EINTR, .left = 50};
    g_autoptr(GError) error = NULL;
    (void)unused;
    if (is_missing(f))
        return;
    open_faulty(f, &fault);
    check_round_trip(f);
    g_atomic_int_set(&fault.left, G_MAXINT);
    g_assert_false(transfer(f, true, 0, BLOCK, NULL, &error));
    g_assert_error(error, STORAGE_ERROR, STORAGE_ERROR_IO);
}

/* A failure names the file, the offset and what was there; other transfers go on. */
static void check_failure(struct fixture *f, bool writes, int failure, enum storage_error code)
{
    struct fault fault = {.writes = writes,
                          .from = 5 * BLOCK,
                          .until = 6 * BLOCK,
                          .instead = -failure,
                          .left = G_MAXINT};
    g_autoptr(GError) error = NULL;
    if (is_missing(f))
        return;
    open_faulty(f, &fault);
    const struct storage_transfer bad = transfer_of(f, writes, 4 * BLOCK, 4 * BLOCK, NULL);
    const struct storage_transfer good = transfer_of(f, writes, 8 * BLOCK, 4 * BLOCK, NULL);
    struct storage_job *first = storage_begin(f->storage, &bad);
    struct storage_job *second = storage_begin(f->storage, &good);
    g_assert_true(storage_finish(second, NULL));
    g_assert_false(storage_finish(first, &error));
    g_assert_error(error, STORAGE_ERROR, (int)code);
    g_autofree char *says = g_strdup_printf("%s: cannot %s %d bytes at offset %d, of chunk 7: %s",
                                            f->path, writes ? "write" : "read", BLOCK, 5 * BLOCK,
                                            g_strerror(failure));
    g_assert_cmpstr(error->message, ==, says);
    g_assert_cmpuint(storage_traffic(f->storage).transfers[writes], ==, 1);
}

static void test_read_fails(struct fixture *f, const void *unused)
{
    (void)unused;
    check_failure(f, false, EIO, STORAGE_ERROR_IO);
}

static void test_write_fails(struct fixture *f, const void *unused)
{
    (void)unused;
    check_failure(f, true, EIO, STORAGE_ERROR_IO);
}

static void test_disk_full(struct fixture *f, const void *unused)
{
    (void)unused;
    check_failure(f, true, ENOSPC, STORAGE_ERROR_FULL);
}

/* A block that takes long holds up its own transfer only if others find room in the queue. */
static void test_slow(struct fixture *f, const void *unused)
{
    struct fault fault = {
        .writes = true, .until = BLOCK, .instead = BLOCK, .left = 1, .sleep_us = 50000};
    (void)unused;
    if (is_missing(f))
        return;
    open_faulty(f, &fault);
    check_round_trip(f);
    g_assert_cmpint(fault.left, <=, 0);
}

/* A file that cannot be opened by io_uring is by threads, unless io_uring was asked for. */
static void test_no_uring(struct fixture *f, const void *unused)
{
    g_autoptr(GError) error = NULL;
    (void)unused;
    f->seam.no_uring = true;
    open_storage(f);
    g_assert_false(storage_mode(f->storage).uring);
    g_assert_cmpstr(storage_mode(f->storage).reason, ==, g_strerror(EPERM));
    check_round_trip(f);
    storage_close(f->storage);
    f->options.way = STORAGE_URING;
    f->storage = storage_open(&f->options, &error);
    g_assert_null(f->storage);
    g_autofree char *says = g_strdup_printf("%s: cannot be used by io_uring: %s", f->path,
                                            g_strerror(EPERM));
    g_assert_cmpstr(error->message, ==, says);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD_BOTH("short-reads", test_short_reads);
    ADD_BOTH("short-writes", test_short_writes);
    ADD_BOTH("interrupted", test_interrupted);
    ADD_BOTH("read-fails", test_read_fails);
    ADD_BOTH("write-fails", test_write_fails);
    ADD_BOTH("disk-full", test_disk_full);
    ADD_BOTH("slow", test_slow);
    g_test_add("/storage/no-uring", struct fixture, GINT_TO_POINTER(STORAGE_BEST), set_up,
               test_no_uring, tear_down);
    return g_test_run();
}
