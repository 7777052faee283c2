/* Storage with real files: what is written is read again, both ways, and what the kernel and the
 * file system refuse. */
#include "engine/storage/checksum.h"
#include "storage_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Many transfers of random sizes at once, in random order; the file then has what was written. */
static void test_round_trip(struct fixture *f, const void *unused)
{
    enum { PAGES = FILE_BYTES / STORAGE_ALIGNMENT };
    uint32_t seed = g_test_rand_int();
    GRand *random = g_rand_new_with_seed(seed);
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autofree uint8_t *written = g_malloc(FILE_BYTES);
    g_autofree char *contents = NULL;
    gsize length;
    (void)unused;
    if (is_missing(f))
        return;
    g_test_message("seed %u", seed);
    open_storage(f);
    g_assert_cmpint(storage_mode(f->storage).uring, ==, f->options.way == STORAGE_URING);
    fill_randomly(f->memory, FILE_BYTES, seed);
    memcpy(written, f->memory, FILE_BYTES);
    for (uint32_t page = 0; page < PAGES; page += (uint32_t)g_rand_int_range(random, 1, 200))
        g_array_append_val(starts, page);
    g_autofree uint64_t *checksums = g_new0(uint64_t, starts->len);
    g_autofree struct storage_job **jobs = g_new(struct storage_job *, starts->len);
    for (int writes = 1; writes >= 0; writes--) {
        for (uint32_t i = 0; i < starts->len; i++) {
            uint64_t begin = g_array_index(starts, uint32_t, i);
            uint64_t end = i + 1 < starts->len ? g_array_index(starts, uint32_t, i + 1) : PAGES;
            const struct storage_transfer what = transfer_of(f, writes, begin * STORAGE_ALIGNMENT,
                                                             (end - begin) * STORAGE_ALIGNMENT,
                                                             &checksums[i]);
            jobs[i] = storage_begin(f->storage, &what);
        }
        for (uint32_t i = starts->len; i-- > 0;) {
            g_autoptr(GError) error = NULL;
            storage_finish(jobs[i], &error);
            g_assert_no_error(error);
        }
        if (writes)
            memset(f->memory, 0, FILE_BYTES);
    }
    g_assert_cmpmem(f->memory, FILE_BYTES, written, FILE_BYTES);
    g_assert_true(g_file_get_contents(f->path, &contents, &length, NULL));
    g_assert_cmpmem(contents, length, written, FILE_BYTES);
    const struct storage_traffic traffic = storage_traffic(f->storage);
    for (int writes = 0; writes < 2; writes++) {
        g_assert_cmpuint(traffic.bytes[writes], ==, FILE_BYTES);
        g_assert_cmpuint(traffic.transfers[writes], ==, starts->len);
    }
    g_rand_free(random);
}

/* Memory that was not registered serves as well. */
static void test_other_memory(struct fixture *f, const void *unused)
{
    (void)unused;
    if (is_missing(f))
        return;
    f->options.memory = (struct storage_memory){NULL, 0};
    open_storage(f);
    g_assert_false(storage_mode(f->storage).registered);
    fill_randomly(f->memory, 2 * BLOCK, 1);
    g_autofree uint8_t *written = g_memdup2(f->memory, 2 * BLOCK);
    g_assert_true(transfer(f, true, 0, 2 * BLOCK, NULL, NULL));
    memset(f->memory, 0, 2 * BLOCK);
    g_assert_true(transfer(f, false, 0, 2 * BLOCK, NULL, NULL));
    g_assert_cmpmem(f->memory, 2 * BLOCK, written, 2 * BLOCK);
}

/* Without a checksum, bytes that changed on the disk would pass. */
static void test_damage(struct fixture *f, const void *unused)
{
    uint64_t checksum = 0, at = 2 * BLOCK + 12345;
    g_autoptr(GError) error = NULL;
    (void)unused;
    if (is_missing(f))
        return;
    open_storage(f);
    fill_randomly(f->memory, FILE_BYTES, 2);
    g_assert_true(transfer(f, true, BLOCK, 4 * BLOCK, &checksum, NULL));
    g_assert_true(transfer(f, false, BLOCK, 4 * BLOCK, &checksum, NULL));
    uint8_t changed = f->memory[at] ^ 0x10;
    int file = g_open(f->path, O_WRONLY, 0);
    g_assert_cmpint(pwrite(file, &changed, 1, (off_t)at), ==, 1);
    g_assert_cmpint(fsync(file), ==, 0);
    close(file);
    g_assert_false(transfer(f, false, BLOCK, 4 * BLOCK, &checksum, &error));
    g_assert_error(error, STORAGE_ERROR, STORAGE_ERROR_DAMAGED);
    g_autofree char *says = g_strdup_printf(
        "%s: damaged: chunk 7, %d bytes at offset %d, not as written", f->path, 4 * BLOCK, BLOCK);
    g_assert_true(g_str_has_prefix(error->message, says));
}

/* A file that became shorter is named, with where it ends. */
static void test_truncated(struct fixture *f, const void *unused)
{
    g_autoptr(GError) error = NULL;
    (void)unused;
    if (is_missing(f))
        return;
    f->options.depth = 1;
    open_storage(f);
    g_assert_true(transfer(f, true, 0, FILE_BYTES, NULL, NULL));
    g_assert_cmpint(truncate(f->path, 3 * BLOCK + 4096), ==, 0);
    g_assert_false(transfer(f, false, 2 * BLOCK, 2 * BLOCK, NULL, &error));
    g_assert_error(error, STORAGE_ERROR, STORAGE_ERROR_IO);
    g_autofree char *says =
        g_strdup_printf("%s: cannot read %d bytes at offset %d, of chunk 7: the file ends there",
                        f->path, BLOCK - 4096, 3 * BLOCK + 4096);
    g_assert_cmpstr(error->message, ==, says);
}

/* More than the file system has is refused before anything is written. */
static void test_full(struct fixture *f, const void *unused)
{
    g_autoptr(GError) error = NULL;
    (void)unused;
    f->options.bytes = (uint64_t)1 << 44;
    f->storage = storage_open(&f->options, &error);
    g_assert_null(f->storage);
    g_assert_error(error, STORAGE_ERROR, STORAGE_ERROR_FULL);
    g_assert_nonnull(strstr(error->message, "there is no room for 16 TiB"));
    g_assert_nonnull(strstr(error->message, "; free there: "));
}

static void test_no_folder(struct fixture *f, const void *unused)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *folder = g_build_filename(f->folder, "none", NULL);
    (void)unused;
    f->options.path = NULL;
    f->options.folder = folder;
    f->storage = storage_open(&f->options, &error);
    g_assert_null(f->storage);
    g_assert_error(error, STORAGE_ERROR, STORAGE_ERROR_OPEN);
    g_assert_nonnull(strstr(error->message, folder));
}

/* A file in a folder has no name, so that nothing is left behind. */
static void test_nameless(struct fixture *f, const void *unused)
{
    (void)unused;
    f->options.path = NULL;
    f->options.folder = f->folder;
    open_storage(f);
    g_autoptr(GDir) folder = g_dir_open(f->folder, 0, NULL);
    g_assert_null(g_dir_read_name(folder));
    fill_randomly(f->memory, BLOCK, 3);
    g_autofree uint8_t *written = g_memdup2(f->memory, BLOCK);
    g_assert_true(transfer(f, true, 0, BLOCK, NULL, NULL));
    memset(f->memory, 0, BLOCK);
    g_assert_true(transfer(f, false, 0, BLOCK, NULL, NULL));
    g_assert_cmpmem(f->memory, BLOCK, written, BLOCK);
}

/* Forbids io_uring_setup, as container runtimes do. */
static void forbid_uring(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {G_N_ELEMENTS(filter), filter};
    g_assert_cmpint(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), ==, 0);
    g_assert_cmpint(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), ==, 0);
}

/* A process in which the kernel forbids io_uring. */
static void test_forbidden(struct fixture *f, const void *unused)
{
    g_autoptr(GError) error = NULL;
    (void)unused;
    if (!g_test_subprocess()) {
        g_test_trap_subprocess(NULL, 0, 0);
        g_test_trap_assert_passed();
        return;
    }
    forbid_uring();
    open_storage(f);
    g_assert_false(storage_mode(f->storage).uring);
    g_assert_nonnull(storage_mode(f->storage).reason);
    g_assert_true(transfer(f, true, 0, BLOCK, NULL, NULL));
    storage_close(f->storage);
    f->options.way = STORAGE_URING;
    f->storage = storage_open(&f->options, &error);
    g_assert_null(f->storage);
    g_assert_error(error, STORAGE_ERROR, STORAGE_ERROR_OPEN);
}

/* Without direct I/O, threads do it, with what is in the file still the same. */
static void test_no_direct(struct fixture *f, const void *unused)
{
    (void)unused;
    f->seam.no_direct = true;
    open_storage(f);
    const struct storage_mode mode = storage_mode(f->storage);
    g_assert_false(mode.uring);
    g_assert_false(mode.direct);
    g_assert_cmpstr(mode.reason, ==, "the file system refuses direct I/O");
    fill_randomly(f->memory, 3 * BLOCK, 4);
    g_autofree uint8_t *written = g_memdup2(f->memory, 3 * BLOCK);
    g_assert_true(transfer(f, true, BLOCK, 2 * BLOCK, NULL, NULL));
    memset(f->memory, 0, 3 * BLOCK);
    g_assert_true(transfer(f, false, BLOCK, 2 * BLOCK, NULL, NULL));
    g_assert_cmpmem(f->memory + BLOCK, 2 * BLOCK, written + BLOCK, 2 * BLOCK);
}

/* Every single bit counts, and so do the places of blocks. */
static void test_checksum(void)
{
    uint64_t block[64], checksum;
    for (size_t i = 0; i < G_N_ELEMENTS(block); i++)
        block[i] = i * i;
    checksum = checksum_block(block, sizeof block, 0);
    for (size_t bit = 0; bit < 64 * G_N_ELEMENTS(block); bit++) {
        block[bit / 64] ^= (uint64_t)1 << bit % 64;
        g_assert_cmpuint(checksum_block(block, sizeof block, 0), !=, checksum);
        block[bit / 64] ^= (uint64_t)1 << bit % 64;
    }
    g_assert_cmpuint(checksum_block(block, sizeof block, 0), ==, checksum);
    g_assert_cmpuint(checksum_block(block, sizeof block, 1), !=, checksum);
    g_assert_cmpuint(checksum_block(block, sizeof block / 2, 0), !=, checksum);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD_BOTH("round-trip", test_round_trip);
    ADD_BOTH("other-memory", test_other_memory);
    ADD_BOTH("damage", test_damage);
    ADD_BOTH("truncated", test_truncated);
    g_test_add("/storage/full", struct fixture, GINT_TO_POINTER(STORAGE_BEST), set_up, test_full,
               tear_down);
    g_test_add("/storage/no-folder", struct fixture, GINT_TO_POINTER(STORAGE_BEST), set_up,
               test_no_folder, tear_down);
    g_test_add("/storage/nameless", struct fixture, GINT_TO_POINTER(STORAGE_BEST), set_up,
               test_nameless, tear_down);
    g_test_add("/storage/forbidden", struct fixture, GINT_TO_POINTER(STORAGE_BEST), set_up,
               test_forbidden, tear_down);
    g_test_add("/storage/no-direct", struct fixture, GINT_TO_POINTER(STORAGE_BEST), set_up,
               test_no_direct, tear_down);
    g_test_add_func("/storage/checksum", test_checksum);
    return g_test_run();
}
