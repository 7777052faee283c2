/* A message to a stage crosses while the stage computes: it has left its sender before its receiver
 * asks for it, and is counted when the receiver takes it. */
#include "engine/ranks.h"

#include <dlfcn.h>
#include <glib.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a message that the sender keeps until its receiver answers, and for how long at most. */
enum { LARGE = 8 << 20, SMALL = 64, CHANNEL = 1, LOOKS = 3000, LOOK_US = 10000 };

static struct ranks *open_two(void)
{
    struct ranks *(*open)(uint32_t count, uint32_t number, const char *variable, GError **error);
    void *library = dlopen(PROGRAM_DIR "/libpstar-mpi.so", RTLD_NOW | RTLD_GLOBAL);
    void *found = library ? dlsym(library, "pstar_ranks_open") : NULL;
    if (!found)
        g_error("%s", dlerror());
    memcpy(&open, &found, sizeof open);
    GError *error = NULL;
    struct ranks *ranks = open(2, 0, "OMPI_COMM_WORLD_RANK", &error);
    g_assert_no_error(error);
    return ranks;
}

static uint8_t byte_at(uint32_t i)
{
    return (uint8_t)(i * 2654435761U >> 13);
}

static bool await(bool (*is_so)(const void *data), const void *data)
{
    for (int i = 0; i < LOOKS && !is_so(data); i++)
        g_usleep(LOOK_US);
    return is_so(data);
}

/* Large blocks are mapped one by one, so that the process has fewer when the copy is freed. */
static bool is_freed(const void *bytes)
{
    return mallinfo2().hblkhd < *(const size_t *)bytes;
}

static void send_both(struct ranks *ranks, const char *file)
{
    g_autofree uint8_t *bytes = g_malloc(LARGE);
    const struct ranks_message small = {1, SMALL, bytes, CHANNEL},
                               large = {1, LARGE, bytes, CHANNEL};
    for (uint32_t i = 0; i < LARGE; i++)
        bytes[i] = byte_at(i);
    ranks->ops->transfer(ranks, &small, 1, NULL, 0);
    /* Is counted before the copy is made, which may be gone again by the next statement. */
    size_t least = mallinfo2().hblkhd + LARGE / 2;
    ranks->ops->post(ranks, &large, 1);
    g_assert_true(await(is_freed, &least));
    g_assert_true(g_file_set_contents(file, "", 0, NULL));
}

static bool is_there(const void *file)
{
    return g_file_test(file, G_FILE_TEST_EXISTS);
}

static void receive_both(struct ranks *ranks, const char *file)
{
    g_autofree uint8_t *bytes = g_malloc0(LARGE);
    const struct ranks_message small = {0, SMALL, bytes, CHANNEL},
                               large = {0, LARGE, bytes, CHANNEL};
    ranks->ops->transfer(ranks, NULL, 0, &small, 1);
    g_assert_true(await(is_there, file));
    g_assert_cmpuint(ranks->received_bytes, ==, SMALL);
    ranks->ops->transfer(ranks, NULL, 0, &large, 1);
    g_assert_cmpuint(ranks->received_bytes, ==, SMALL + LARGE);
    for (uint32_t i = 0; i < LARGE; i++)
        g_assert_cmpuint(bytes[i], ==, byte_at(i));
}

/* One of two processes that the launcher has started. */
static int run_rank(const char *file)
{
    struct ranks *ranks = open_two();
    (ranks->rank == 0 ? send_both : receive_both)(ranks, file);
    ranks->ops->close(ranks);
    return EXIT_SUCCESS;
}

static void test_early(gconstpointer program)
{
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    if (!mpirun || !g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS)) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        return;
    }
    g_autofree char *folder = g_dir_make_tmp("pstar-messages-XXXXXX", NULL);
    g_autofree char *file = g_build_filename(folder, "freed", NULL);
    char *words[] = {
        mpirun, (char *)"-n", (char *)"2", (char *)"--oversubscribe", (char *)(uintptr_t)program,
        file,   NULL};
    int status = -1;
    GError *error = NULL;
    g_assert_true(g_spawn_sync(NULL, words, NULL, 0, NULL, NULL, NULL, NULL, &status, &error));
    g_assert_no_error(error);
    g_assert_cmpint(status, ==, 0);
    g_assert_cmpint(remove(file), ==, 0);
    g_assert_cmpint(remove(folder), ==, 0);
}

int main(int argc, char **argv)
{
    if (g_getenv("OMPI_COMM_WORLD_SIZE"))
        return run_rank(argv[1]);
    /* mpirun does not run for root unless asked twice; the tests run in containers as root. */
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/messages/early", argv[0], test_early);
    return g_test_run();
}
