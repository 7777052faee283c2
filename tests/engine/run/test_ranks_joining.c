/* A rank that cannot join the others, or is of another version, says so, and all end. */
#include "launch.h"
#include "tests/sanitized.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define JOB "--steps 1 --micro-batches 2"

/* Starts two ranks, of which the second runs `before` in its shell first, which may name another
 * program. */
static void expect_refusal(const struct run_folder *folder, const char *before, int status,
                           const char *why)
{
    g_auto(GStrv) program = run_folder_command(JOB), command = NULL;
    g_autofree char *options = g_strjoinv(" ", program + 1);
    g_autofree char *all = g_strdup_printf(
        "mpirun --oversubscribe -n 2 sh -c 'program=%s; [ $OMPI_COMM_WORLD_RANK != 1 ] || %s; "
        "exec $program %s'",
        program[0], before, options);
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    launch_refuse(folder, command, status, why);
}

/* Copies the program to the folder "other", with the text replaced wherever it stands alone, unless
 * it is NULL. */
static void copy_program(const struct run_folder *folder, const char *text, const char *by)
{
    g_autofree char *path = run_folder_path(folder, "other"), *bytes = NULL;
    g_autofree char *copy = g_build_filename(path, "pstar-run", NULL);
    gsize length, whole = text ? strlen(text) + 1 : 0;
    g_assert_true(g_file_get_contents(PROGRAM_DIR "/pstar-run", &bytes, &length, NULL));
    for (gsize i = 1; whole && i + whole <= length; i++)
        if (bytes[i - 1] == '\0' && memcmp(bytes + i, text, whole) == 0)
            memcpy(bytes + i, by, whole);
    g_assert_cmpint(g_mkdir(path, 0777), ==, 0);
    g_assert_true(g_file_set_contents(copy, bytes, (gssize)length, NULL));
    g_assert_cmpint(g_chmod(copy, 0755), ==, 0);
}

/* Only the second rank's program has no MPI beside it. */
static void test_without_mpi(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    copy_program(folder, NULL, NULL);
    expect_refusal(folder, "program=other/pstar-run", 2, "pstar-run: rank 1 on ");
    expect_refusal(folder, "program=other/pstar-run", 2, "was made without MPI");
}

static void test_version(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *module = run_folder_path(folder, "other/libpstar-mpi.so"), *said = NULL;
    char *command[] = {(char *)PROGRAM_DIR "/pstar-run", (char *)"--version", NULL};
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, &said, NULL), ==, 0);
    const char *version = g_strchomp(said) + strlen("pstar-run ");
    g_autofree char *other = g_strdup(version);
    other[0] = 'x';
    g_autofree char *why = g_strdup_printf("version: %s, not %s", other, version);
    copy_program(folder, version, other);
    g_assert_cmpint(symlink(PROGRAM_DIR "/libpstar-mpi.so", module), ==, 0);
    expect_refusal(folder, "program=other/pstar-run", 2, why);
}

/* MPI would end by a signal, or with messages of its own. */
static void test_addresses(struct run_folder *folder, gconstpointer data)
{
    static const char *const limits[] = {"ulimit -v 90000", "ulimit -v 100000", "ulimit -v 130000"};
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(limits); i++)
        expect_refusal(folder, limits[i], 3, "that MPI may need");
}

/* The launcher does not mind a program that ends well and never joins. */
static void test_other_program(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    expect_refusal(folder, "exit 0", 137, "pstar-run: rank 1 on ");
    expect_refusal(folder, "exit 0", 137, " has ended before it joined the others\n");
}

#define ADD(path, test) \
    g_test_add(path, struct run_folder, NULL, run_folder_set_up, test, run_folder_tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!launch_prepare())
        return 77;
    ADD("/ranks-joining/without-mpi", test_without_mpi);
    ADD("/ranks-joining/version", test_version);
    ADD("/ranks-joining/other-program", test_other_program);
    if (UNLESS_SANITIZED(true, false)) /* sanitizers take more addresses than any limit has */
        ADD("/ranks-joining/addresses", test_addresses);
    return g_test_run();
}
