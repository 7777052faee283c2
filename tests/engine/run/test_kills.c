/* A run of one process or of two ranks, one of which is killed at any instant, which goes on from
 * its newest checkpoint and is killed again, has the losses of one that is not. The number of kills
 * may be given. */
#include "launch.h"
#include "tests/sanitized.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 60, KILLS = UNLESS_SANITIZED(12, 6), KILLS_OF_RANKS = UNLESS_SANITIZED(4, 3) };

static int asked;         /* how many kills; 0 if not given */
static uint32_t launched; /* ranks; 1: without a launcher */

/* Returns the command of a run, whose processes say their numbers in files. */
static char **command_of(const char *options)
{
    g_auto(GStrv) program = run_folder_command(options), command = NULL;
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all =
        g_strdup_printf("%s sh -c 'echo $$ >pid.${OMPI_COMM_WORLD_RANK:-0}; exec %s'",
                        launched > 1 ? "mpirun --oversubscribe -n 2" : "env", line);
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    return g_steal_pointer(&command);
}

static int run(const struct run_folder *folder, const char *options)
{
    g_auto(GStrv) command = command_of(options);
    return run_folder_spawn(folder, command, NULL, NULL, NULL, NULL);
}

static GPid start(const struct run_folder *folder, const char *options)
{
    g_auto(GStrv) command = command_of(options);
    GPid child;
    GError *error = NULL;
    for (uint32_t r = 0; r < launched; r++) {
        g_autofree char *name = g_strdup_printf("pid.%u", r);
        g_autofree char *path = run_folder_path(folder, name);
        unlink(path);
    }
    g_spawn_async(folder->path, command, NULL, G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH,
                  NULL, NULL, &child, &error);
    g_assert_no_error(error);
    return child;
}

/* Compares each whole line of a log. Returns the number of its steps. */
static uint32_t compare_losses(const struct run_folder *folder, const GArray *whole)
{
    g_autofree char *path = run_folder_path(folder, "log.jsonl"), *text = NULL;
    uint32_t compared = 0;
    if (!g_file_get_contents(path, &text, NULL, NULL))
        return 0;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line && line[1]; line++, compared++) {
        json_t *step = json_loads(*line, 0, NULL);
        json_int_t number = json_integer_value(json_object_get(step, "step"));
        g_assert_cmpfloat(json_number_value(json_object_get(step, "loss")), ==,
                          g_array_index(whole, double, (guint)number - 1));
        json_decref(step);
    }
    g_assert_cmpint(unlink(path), ==, 0);
    return compared;
}

/* Returns the step of the newest complete checkpoint, or 0 if there is none. The link to it may be
 * older, if a process died before it moved it. */
static json_int_t newest_step(const struct run_folder *folder)
{
    g_autofree char *path = run_folder_path(folder, "saved");
    GDir *directory = g_dir_open(path, 0, NULL);
    unsigned newest = 0, last = 0;
    for (const char *name; directory && (name = g_dir_read_name(directory));) {
        unsigned number, step;
        if (sscanf(name, "checkpoint-%u-step-%u", &number, &step) != 2 || number < newest)
            continue;
        newest = number;
        last = step;
    }
    if (directory)
        g_dir_close(directory);
    return last;
}

/* Takes a step from the newest checkpoint, which all of its checksums must allow. Returns the step
 * after which it was saved, or 0 if none is complete. */
static json_int_t expect_whole(const struct run_folder *folder, const GArray *whole)
{
    json_int_t step = newest_step(folder);
    if (step == 0 || step == STEPS)
        return step;
    g_autofree char *one = g_strdup_printf("--resume saved --log log.jsonl --steps %d",
                                           (int)step + 1);
    g_assert_cmpint(run(folder, one), ==, 0);
    g_assert_cmpuint(compare_losses(folder, whole), ==, 1);
    return step;
}

/* The links lead to the newest checkpoint as soon as a run that saves there begins, also one that
 * has no more steps to do. */
static void expect_links(const struct run_folder *folder)
{
    g_autofree char *path = run_folder_path(folder, "saved/newest");
    g_autofree char *target = g_file_read_link(path, NULL);
    const char *step = target ? strstr(target, "-step-") : NULL;
    g_assert_nonnull(step);
    g_assert_cmpint(atoi(step + strlen("-step-")), ==, newest_step(folder));
}

static void remove_saved(const struct run_folder *folder)
{
    char *command[] = {(char *)"rm", (char *)"-r", (char *)"saved", NULL};
    run_folder_spawn(folder, command, NULL, NULL, NULL, NULL);
}

/* Returns whether the child has ended; its status is not taken. */
static bool has_ended(GPid child)
{
    siginfo_t info = {0};
    g_assert_cmpint(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT), ==, 0);
    return info.si_pid == child;
}

/* Kills one of the processes, drawn, as soon as it is there. */
static void kill_one(const struct run_folder *folder, GPid child)
{
    g_autofree char *name = g_strdup_printf("pid.%d", g_test_rand_int_range(0, (gint32)launched));
    g_autofree char *path = run_folder_path(folder, name), *text = NULL;
    while (!g_file_get_contents(path, &text, NULL, NULL) || !strchr(text, '\n')) {
        if (has_ended(child))
            return;
        g_clear_pointer(&text, g_free);
        g_usleep(1000);
    }
    kill(atoi(text), SIGKILL);
}

/* Returns whether the process is there, and no zombie. */
static bool is_alive(const char *pid)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/stat", atoi(pid)), *text = NULL;
    const char *name_end = g_file_get_contents(path, &text, NULL, NULL) ? strrchr(text, ')') : NULL;
    return name_end && strncmp(name_end, ") Z", 3) != 0;
}

static bool ranks_are_gone(const struct run_folder *folder)
{
    for (uint32_t r = 0; r < launched; r++) {
        g_autofree char *name = g_strdup_printf("pid.%u", r);
        g_autofree char *path = run_folder_path(folder, name), *text = NULL;
        if (g_file_get_contents(path, &text, NULL, NULL) && is_alive(text))
            return false;
    }
    return true;
}

/* Waits for the child. If a rank is killed while it joins the others, Open MPI's launcher may wait
 * for ever at its end, for a lock that an ended thread has (PMIx_server_finalize). So a launcher
 * without ranks is killed after a while; how it ended does not decide the test. */
static int wait_for(const struct run_folder *folder, GPid child)
{
    enum { POLL = 20000, PATIENCE = 1500 }; /* microseconds; polls */
    int status = 0;
    for (int idle = 0; waitpid(child, &status, WNOHANG) != child;) {
        g_usleep(POLL);
        idle = launched > 1 && ranks_are_gone(folder) ? idle + 1 : 0;
        if (idle == PATIENCE)
            kill(child, SIGKILL);
    }
    return status;
}

/* Kills a run, which begins after the given step, at a drawn instant. Every second one dies after
 * it has written a checkpoint, so that however slow a start is, some runs go on. Returns how it
 * ended. */
static int kill_run(const struct run_folder *folder, GPid child, json_int_t step, bool late,
                    gint64 takes)
{
    int status = 0;
    pid_t ended = 0;
    while (late && ended == 0 && newest_step(folder) == step) {
        g_usleep(1000);
        ended = waitpid(child, &status, WNOHANG);
    }
    if (ended == child)
        return status;
    g_usleep((gulong)g_test_rand_double_range(0, (double)takes));
    kill_one(folder, child);
    return wait_for(folder, child);
}

static void test_kills(struct run_folder *folder, gconstpointer data)
{
    static const char *const begin =
        "--steps 60 --micro-batches 2 --log log.jsonl --save saved --save-every 1";
    static const char *const go_on =
        "--resume saved --steps 60 --log log.jsonl --save saved --save-every 1";
    launched = GPOINTER_TO_UINT(data);
    int kills = asked ? asked : launched > 1 ? KILLS_OF_RANKS : KILLS;
    gint64 began = g_get_monotonic_time();
    g_assert_cmpint(run(folder, begin), ==, 0);
    gint64 takes = g_get_monotonic_time() - began;
    g_autoptr(GArray) whole = run_folder_log(folder, "log.jsonl", "loss");
    g_assert_cmpuint(whole->len, ==, STEPS);
    remove_saved(folder);
    uint32_t resumed = 0;
    json_int_t saved = 0, before = 0;
    for (int killed = 0; killed < kills;) {
        bool late = killed % 2 == 1;
        int status = kill_run(folder, start(folder, saved ? go_on : begin), saved, late,
                              late ? takes / 4 : takes);
        bool ended_well = WIFEXITED(status) && WEXITSTATUS(status) == 0, was_killed = !ended_well;
        g_assert_true(ended_well || launched > 1 ||
                      (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        killed += was_killed;
        compare_losses(folder, whole);
        saved = expect_whole(folder, whole);
        g_assert_cmpint(saved, >=, before); /* what was complete stays */
        resumed += saved > 0 && saved < STEPS;
        if (saved == STEPS) {
            g_assert_cmpint(run(folder, go_on), ==, 2);
            expect_links(folder);
            remove_saved(folder);
        }
        before = saved = saved == STEPS ? 0 : saved;
    }
    g_test_message("%d kills, %u runs went on", kills, resumed);
    g_assert_cmpuint(resumed, >, 0);
    g_assert_cmpint(run(folder, saved ? go_on : begin), ==, 0);
    compare_losses(folder, whole);
    g_assert_cmpint(expect_whole(folder, whole), ==, STEPS);
    expect_links(folder);
    char *left[] = {(char *)"sh", (char *)"-c", (char *)"ls -d saved/*.partial", NULL};
    g_assert_cmpint(run_folder_spawn(folder, left, NULL, NULL, NULL, NULL), !=, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (argc > 1)
        asked = atoi(argv[1]);
    g_test_add("/kills/one", struct run_folder, GUINT_TO_POINTER(1), run_folder_set_up, test_kills,
               run_folder_tear_down);
    if (launch_is_possible())
        g_test_add("/kills/ranks", struct run_folder, GUINT_TO_POINTER(2), run_folder_set_up,
                   test_kills, run_folder_tear_down);
    return g_test_run();
}
