/* A run that is killed at any instant, and goes on from its newest checkpoint, and is killed again,
 * has the losses of one that is not. The number of kills may be given. */
#include "run_folder.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 60, KILLS = 12 };

static int kills = KILLS;

static GPid start(const struct run_folder *folder, const char *options)
{
    g_auto(GStrv) command = run_folder_command(options);
    GPid child;
    GError *error = NULL;
    g_spawn_async(folder->path, command, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL, &child,
                  &error);
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
    g_assert_cmpint(run_folder_run(folder, one, NULL, NULL), ==, 0);
    g_assert_cmpuint(compare_losses(folder, whole), ==, 1);
    return step;
}

static void remove_saved(const struct run_folder *folder)
{
    char *command[] = {(char *)"rm", (char *)"-r", (char *)"saved", NULL};
    run_folder_spawn(folder, command, NULL, NULL, NULL, NULL);
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
    kill(child, SIGKILL);
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    return status;
}

static void test_kills(struct run_folder *folder, gconstpointer data)
{
    static const char *const begin = "--steps 60 --log log.jsonl --save saved --save-every 1";
    static const char *const go_on =
        "--resume saved --steps 60 --log log.jsonl --save saved --save-every 1";
    (void)data;
    gint64 began = g_get_monotonic_time();
    g_assert_cmpint(run_folder_run(folder, begin, NULL, NULL), ==, 0);
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
        bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        g_assert_true(was_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        killed += was_killed;
        compare_losses(folder, whole);
        saved = expect_whole(folder, whole);
        g_assert_cmpint(saved, >=, before); /* what was complete stays */
        resumed += saved > 0 && saved < STEPS;
        if (saved == STEPS)
            remove_saved(folder);
        before = saved = saved == STEPS ? 0 : saved;
    }
    g_test_message("%d kills, %u runs went on", kills, resumed);
    g_assert_cmpuint(resumed, >, 0);
    g_assert_cmpint(run_folder_run(folder, saved ? go_on : begin, NULL, NULL), ==, 0);
    compare_losses(folder, whole);
    g_assert_cmpint(expect_whole(folder, whole), ==, STEPS);
    char *left[] = {(char *)"sh", (char *)"-c", (char *)"ls -d saved/*.partial", NULL};
    g_assert_cmpint(run_folder_spawn(folder, left, NULL, NULL, NULL, NULL), !=, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (argc > 1)
        kills = atoi(argv[1]);
    g_test_add("/kills", struct run_folder, NULL, run_folder_set_up, test_kills,
               run_folder_tear_down);
    return g_test_run();
}
