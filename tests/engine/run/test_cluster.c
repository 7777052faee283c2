/* Two ranks on two hosts, which are network namespaces (tools/cluster): they train with the bits of
 * one, and a cut link ends them. */
#include "run_folder.h"
#include "saved.h"
#include "tests/drawn.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLUSTER PROJECT_DIR "/tools/cluster"
#define JOB     "--micro-batches 4 --clip 1 --threads 1 "

enum { SKIPPED = 77 };

/* Returns the tool's command line; free with g_strfreev. */
static char **command_of(const char *tool_options, const char *options)
{
    g_auto(GStrv) program = run_folder_command(options);
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all = g_strdup_printf(CLUSTER " %s -- %s", tool_options, line);
    char **command = NULL;
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    return command;
}

static int run(const struct run_folder *folder, const char *tool_options, const char *options,
               char **err)
{
    g_auto(GStrv) command = command_of(tool_options, options);
    return run_folder_spawn(folder, command, NULL, NULL, NULL, err);
}

/* Returns whether this system has what the tool needs; says what it lacks. */
static bool can_run(const struct run_folder *folder)
{
    char *command[] = {(char *)CLUSTER, (char *)"--", (char *)"true", NULL};
    g_autofree char *err = NULL;
    if (!g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS)) {
        g_test_skip("the build has no MPI");
        return false;
    }
    int status = run_folder_spawn(folder, command, NULL, NULL, NULL, &err);
    if (status == SKIPPED)
        g_test_skip(err);
    else if (status != 0)
        g_error("status %d: %s", status, err);
    return status == 0;
}

static void test_bits(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *several = g_strconcat(JOB "--steps 3 --log ranks.jsonl --save ranks ", data,
                                           NULL);
    g_autofree char *err = NULL;
    if (!can_run(folder))
        return;
    g_assert_cmpint(run_folder_run(folder, JOB "--steps 3 --log one.jsonl --save one", NULL, &err),
                    ==, 0);
    g_clear_pointer(&err, g_free);
    if (run(folder, "--rate 100mbit", several, &err) != 0)
        g_error("%s", err);
    run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "loss");
    run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "gradient_norm");
    saved_must_be_same(folder, "one", "ranks");
}

static uint32_t count(const char *text, const char *part)
{
    uint32_t found = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        found++;
    return found;
}

/* The link of the second host is taken down after the first step. What its ranks say of the first
 * cannot be heard any more. `data` says where ranks are: several on each host follow each other in
 * turn, so that several miss the one before them. */
static void test_cut(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *err = NULL, *where = g_strconcat("--cut 2:log.jsonl ", data, NULL);
    if (!can_run(folder))
        return;
    g_setenv("OMPI_MCA_rmaps_base_mapping_policy", "node", TRUE);
    gint64 start = g_get_monotonic_time();
    int status = run(folder, where, "--steps 1000000 --log log.jsonl --save saved", &err);
    g_unsetenv("OMPI_MCA_rmaps_base_mapping_policy");
    g_test_message("start, first step, and the end after the cut: %.1f s",
                   (double)(g_get_monotonic_time() - start) * 1e-6);
    g_assert_cmpint(status, ==, 1);
    run_folder_expect(err, " on host2 has not answered for 7 seconds: it hangs, or its host is cut "
                           "off");
    g_assert_cmpuint(count(err, "pstar-run: "), ==, 1);
    g_assert_false(run_folder_has(folder, "saved/trainer.json"));
}

/* The link is taken down while MPI starts, when only mpirun can notice. */
static void test_cut_at_start(struct run_folder *folder, gconstpointer data)
{
    enum { ENOUGH_SECONDS = 30 }; /* less than ranks wait for each other */
    g_auto(GStrv) program = run_folder_command("--steps 1000000"), command = NULL;
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all =
        g_strdup_printf(CLUSTER " --cut 2:begun -- sh -c 'echo >begun; sleep 0.5; exec %s'", line);
    (void)data;
    if (!can_run(folder))
        return;
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    gint64 start = g_get_monotonic_time();
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, NULL), !=, 0);
    double seconds = (double)(g_get_monotonic_time() - start) * 1e-6;
    g_test_message("start, and the end after the cut: %.1f s", seconds);
    g_assert_cmpfloat(seconds, <, ENOUGH_SECONDS);
}

/* ---- nothing stays ---- */

static bool is_alive(const struct run_folder *folder, const char *mark)
{
    g_autofree char *out = NULL;
    char *command[] = {(char *)"pgrep", (char *)"-f", (char *)mark, NULL};
    return run_folder_spawn(folder, command, NULL, NULL, &out, NULL) == 0;
}

/* Whatever ends the tool, all that it started ends. */
static void test_killed(struct run_folder *folder, gconstpointer data)
{
    int number = GPOINTER_TO_INT(data);
    /* A number of seconds that nobody else sleeps. */
    g_autofree char *mark = g_strdup_printf("sleep 1%d00%d", (int)getpid(), number);
    g_autofree char *line = g_strdup_printf(CLUSTER " -- %s", mark);
    g_auto(GStrv) command = NULL;
    GPid child;
    if (!can_run(folder))
        return;
    g_assert_true(g_shell_parse_argv(line, NULL, &command, NULL));
    g_assert_true(g_spawn_async(folder->path, command, NULL,
                                G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
                                &child, NULL));
    g_autofree char *on_host = g_strconcat("^", mark, NULL);
    while (!is_alive(folder, on_host)) {
        g_assert_cmpint(waitpid(child, NULL, WNOHANG), ==, 0);
        g_usleep(10000);
    }
    g_assert_cmpint(kill(child, number), ==, 0);
    g_assert_cmpint(waitpid(child, NULL, 0), ==, child);
    while (is_alive(folder, mark))
        g_usleep(10000);
}

static void test_usage(struct run_folder *folder, gconstpointer data)
{
    static const char *const bad[] = {
        "", "--hosts", "--speed 3 -- true", "true", "--rate 1gbit --", "--slurm", "--slurm --"};
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *line = g_strconcat(CLUSTER " ", bad[i], NULL);
        g_autofree char *err = NULL;
        g_auto(GStrv) command = NULL;
        g_assert_true(g_shell_parse_argv(line, NULL, &command, NULL));
        g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, &err), ==, 2);
        run_folder_expect(err, "usage: tools/cluster");
    }
}

#define ADD(path, data, test) \
    g_test_add(path, struct run_folder, data, run_folder_set_up, test, run_folder_tear_down)

int main(int argc, char **argv)
{
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    g_test_init(&argc, &argv, NULL);
    ADD("/cluster/usage", NULL, test_usage);
    ADD("/cluster/bits/2", "--stage 2", test_bits);
    ADD("/cluster/bits/3", "--stage 3 --look-ahead 2", test_bits);
    if (draws_row(2, 5))
        ADD("/cluster/cut/one", "", test_cut);
    if (draws_row(2, 5))
        ADD("/cluster/cut/several", "--ranks 3", test_cut);
    if (draws_row(2, 5))
        ADD("/cluster/cut/at-start", NULL, test_cut_at_start);
    if (draws_row(2, 5))
        ADD("/cluster/killed/TERM", GINT_TO_POINTER(SIGTERM), test_killed);
    if (draws_row(2, 5))
        ADD("/cluster/killed/KILL", GINT_TO_POINTER(SIGKILL), test_killed);
    return g_test_run();
}
