/* Signals end pstar-run with a whole step, a log of as many, a checkpoint to go on from, and the
 * shell's status for the signal. */
#include "run_folder.h"
#include "tests/heard_signals.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { POLL_MICROSECONDS = 10000, LOG_BYTES = 2000 };

/* `setup` is called in the child with `number`, and may be NULL. */
static GPid start_as(const struct run_folder *folder, const char *options,
                     GSpawnChildSetupFunc setup, int number, int *err)
{
    g_auto(GStrv) command = run_folder_command(options);
    GPid child;
    GError *error = NULL;
    g_spawn_async_with_pipes(folder->path, command, NULL,
                             G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL, setup,
                             GINT_TO_POINTER(number), &child, NULL, NULL, err, &error);
    g_assert_no_error(error);
    return child;
}

static GPid start(const struct run_folder *folder, const char *options, int *err)
{
    return start_as(folder, options, NULL, 0, err);
}

static gsize log_bytes(const struct run_folder *folder)
{
    g_autofree char *path = run_folder_path(folder, "log.jsonl");
    GStatBuf file;
    return g_stat(path, &file) == 0 ? (gsize)file.st_size : 0;
}

static void await_log(const struct run_folder *folder, GPid child, gsize bytes)
{
    int status;
    while (log_bytes(folder) < bytes) {
        g_assert_cmpint(waitpid(child, &status, WNOHANG), ==, 0);
        g_usleep(POLL_MICROSECONDS);
    }
}

static double last_step(const struct run_folder *folder)
{
    GArray *steps = run_folder_log(folder, "log.jsonl", "step");
    double last = g_array_index(steps, double, steps->len - 1);
    g_assert_cmpfloat(last, ==, steps->len);
    g_array_unref(steps);
    return last;
}

static void test_saves(struct run_folder *folder, gconstpointer data)
{
    int number = GPOINTER_TO_INT(data), status, err;
    GPid child = start(folder, "--steps 1000000 --save saved --log log.jsonl", &err);
    await_log(folder, child, LOG_BYTES);
    g_assert_cmpint(kill(child, number), ==, 0);
    g_autofree char *text = run_folder_await_end(child, err, &status);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, number == SIGTERM ? 0 : 128 + number);

    double last = last_step(folder);
    g_autofree char *said = g_strdup_printf("interrupted at %.0f of 1000000 steps; --resume saved",
                                            last);
    run_folder_expect(text, said);
    json_t *state = run_folder_json(folder, "saved/trainer.json");
    g_assert_cmpfloat(json_number_value(json_object_get(state, "step")), ==, last);
    json_decref(state);
}

static void test_nothing_saved(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    int status, err;
    GPid child = start(folder, "--steps 1000000 --log log.jsonl", &err);
    await_log(folder, child, LOG_BYTES);
    g_assert_cmpint(kill(child, SIGINT), ==, 0);
    g_autofree char *text = run_folder_await_end(child, err, &status);
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT);
    run_folder_expect(text, "nothing was saved");
}

static void hold_signal(gpointer data)
{
    sigset_t signals;
    (void)data;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    kill(getpid(), SIGTERM); /* of the process, not of this thread */
}

/* A signal that comes before the first step loses nothing: the checkpoint is as it was. The large
 * text is read for a while before that step. */
static void test_nothing_lost(struct run_folder *folder, gconstpointer data)
{
    enum { BYTES = 40 << 20 };
    (void)data;
    int status, err;
    char *errors;
    g_autofree char *path = run_folder_path(folder, "text.txt"), *text = g_malloc(BYTES);
    memset(text, 'a', BYTES);
    g_assert_true(g_file_set_contents(path, text, BYTES, NULL));
    g_assert_cmpint(run_folder_run(folder, "--steps 1 --save saved", NULL, &errors), ==, 0);
    g_free(errors);
    GPid child = start_as(folder, "--steps 9 --resume saved", hold_signal, 0, &err);
    g_autofree char *said = run_folder_await_end(child, err, &status);
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
    run_folder_expect(said, "interrupted at 1 of 9 steps\n");
}

/* Waits until the program handles the signal itself, so that it is blocked, or has taken note of
 * it: until it is pending no more. */
static void await_signal(GPid child, const char *field, int number, bool present)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status", (int)child);
    bool found = !present;
    while (found != present) {
        g_autofree char *status = NULL;
        g_assert_true(g_file_get_contents(path, &status, NULL, NULL));
        const char *at = strstr(status, field);
        g_assert_nonnull(at);
        found = g_ascii_strtoull(at + strlen(field), NULL, 16) >> (number - 1) & 1;
        g_usleep(POLL_MICROSECONDS);
    }
}

/* One step takes minutes, and the second signal comes within it. */
static void test_second_signal(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    int status, err;
    GPid child = start(folder, "--steps 2 --batch 256 --seq 32 --micro-batches 4000 --save saved",
                       &err);
    await_signal(child, "SigBlk:", SIGTERM, true);
    g_assert_cmpint(kill(child, SIGTERM), ==, 0);
    await_signal(child, "ShdPnd:", SIGTERM, false);
    g_assert_cmpint(waitpid(child, &status, WNOHANG), ==, 0);
    g_assert_cmpint(kill(child, SIGTERM), ==, 0);
    g_free(run_folder_await_end(child, err, &status));
    g_assert_true(WIFSIGNALED(status));
    g_assert_cmpint(WTERMSIG(status), ==, SIGTERM);
}

/* A sample may take long. */
static void test_sampling(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    int status, err;
    GPid child = start(folder, "--steps 1 --sample 100000000 --log log.jsonl", &err);
    await_log(folder, child, 1);
    g_usleep(G_USEC_PER_SEC / 4);
    g_assert_cmpint(kill(child, SIGINT), ==, 0);
    g_free(run_folder_await_end(child, err, &status));
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT);
}

/* Data that is cut off ends the run with a message and a checkpoint, not with SIGBUS. */
static void test_shorter_data(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    int status, err;
    g_autofree char *path = run_folder_path(folder, "text.txt");
    GPid child = start(folder, "--steps 1000000 --save saved --log log.jsonl", &err);
    await_log(folder, child, LOG_BYTES);
    g_assert_cmpint(truncate(path, 100), ==, 0);
    g_autofree char *text = run_folder_await_end(child, err, &status);
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    run_folder_expect(text, "text.txt: has become shorter while it is read");
    g_assert_true(run_folder_has(folder, "saved/trainer.json"));
}

/* Data that somebody writes to while they are read are other data. */
static void test_changed_data(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    int status, err;
    g_autofree char *path = run_folder_path(folder, "text.txt");
    GPid child = start(folder, "--steps 1000000 --save saved --log log.jsonl", &err);
    await_log(folder, child, LOG_BYTES);
    FILE *file = fopen(path, "r+b");
    g_assert_cmpint(fputs("No bottles", file), >=, 0);
    fclose(file);
    g_autofree char *text = run_folder_await_end(child, err, &status);
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    run_folder_expect(text, "text.txt: has been changed while it is read");
    g_assert_true(run_folder_has(folder, "saved/trainer.json"));
}

/* Whenever it is cut off: a large file is read for a while before the first step. */
static void test_soon_shorter_data(struct run_folder *folder, gconstpointer data)
{
    enum { TRIES = 8, BYTES = 40 << 20, PAUSE_US = 25000 };
    (void)data;
    g_autofree char *path = run_folder_path(folder, "text.txt"), *text = g_malloc(BYTES);
    memset(text, 'a', BYTES);
    for (int i = 0; i < TRIES; i++) {
        int status, err;
        g_assert_true(g_file_set_contents(path, text, BYTES, NULL));
        GPid child = start(folder, "--steps 1000000", &err);
        g_usleep((gulong)i * PAUSE_US);
        g_assert_cmpint(truncate(path, 0), ==, 0);
        g_autofree char *said = run_folder_await_end(child, err, &status);
        g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) >= 1 && WEXITSTATUS(status) <= 2);
        run_folder_expect(said, "text.txt: ");
    }
}

static void ignore(gpointer number)
{
    signal(GPOINTER_TO_INT(number), SIG_IGN);
}

/* As under nohup, or in the background of a script: the signal changes nothing. */
static void test_ignored(struct run_folder *folder, gconstpointer data)
{
    int number = GPOINTER_TO_INT(data), status, err;
    int other = number == SIGTERM ? SIGHUP : SIGTERM;
    GPid child = start_as(folder, "--steps 1000000 --log log.jsonl", ignore, number, &err);
    await_log(folder, child, LOG_BYTES);
    g_assert_cmpint(kill(child, number), ==, 0);
    await_log(folder, child, log_bytes(folder) + 4 * LOG_BYTES);
    g_assert_cmpint(kill(child, other), ==, 0);
    g_free(run_folder_await_end(child, err, &status));
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 128 + other);
}

/* Reads until the text has been printed; returns everything until then. */
static char *await_text(int from, const char *text)
{
    enum { MOST = 512 };
    GString *seen = g_string_new(NULL);
    while (!strstr(seen->str, text)) {
        char part[MOST];
        ssize_t length = read(from, part, MOST);
        g_assert_cmpint(length, >, 0);
        g_string_append_len(seen, part, length);
    }
    return g_string_free(seen, FALSE);
}

/* Without a terminal, lines say from time to time where the run is, evaluations included. */
static void test_progress_lines(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    int status, err;
    GPid child = start(folder, "--steps 1000000 --eval text.txt --eval-every 1 --log log.jsonl",
                       &err);
    g_autofree char *seen = await_text(err, ", evaluating ");
    run_folder_expect(seen, " of 1000000 steps, loss ");
    run_folder_expect(seen, " left\n");
    g_assert_cmpint(kill(child, SIGTERM), ==, 0);
    g_free(run_folder_await_end(child, err, &status));
    last_step(folder);
}

/* Runs a shell's command line in which RUN stands for pstar-run and its usual options. */
static void run_shell(const struct run_folder *folder, const char *line)
{
    g_auto(GStrv) run = run_folder_command("");
    g_autofree char *joined = g_strjoinv(" ", run);
    g_autoptr(GString) script = g_string_new(line);
    g_string_replace(script, "RUN", joined, 0);
    char *command[] = {(char *)"/bin/sh", (char *)"-c", script->str, NULL};
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, NULL), ==, 0);
}

static void expect_text(const struct run_folder *folder, const char *name, const char *part)
{
    g_autofree char *path = run_folder_path(folder, name), *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    run_folder_expect(text, part);
}

/* A reader of the log that goes away ends the run as a full disk does: with a checkpoint. */
static void test_log_without_reader(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    run_shell(folder, "{ RUN --steps 1000000 --log - --save saved 2> errors; echo $? > status; } | "
                      "head -1 > first");
    expect_text(folder, "first", "{\"step\":1,");
    expect_text(folder, "status", "1\n");
    expect_text(folder, "errors", "pstar-run: standard output: Broken pipe\n");
    g_assert_true(run_folder_has(folder, "saved/newest/trainer.json"));
}

/* Nobody need read where a run is: it goes on until a signal, after which it saves. */
static void test_progress_without_reader(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    run_shell(folder, "mkfifo lines; "
                      "RUN --steps 1000000 --verbose --log log.jsonl --save saved 2> lines & "
                      "grep -m 1 ' of 1000000 steps' < lines > first; "
                      "sleep 2.5; " /* for two more lines of progress */
                      "kill -TERM $!; wait $!; echo $? > status");
    expect_text(folder, "first", "loss ");
    expect_text(folder, "status", "0\n");
    g_assert_true(run_folder_has(folder, "saved/newest/trainer.json"));
    last_step(folder);
}

#define ADD(path, data, function)                                                             \
    g_test_add("/signals/" path, struct run_folder, GINT_TO_POINTER(data), run_folder_set_up, \
               function, run_folder_tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    hear_signals();
    ADD("interrupt", SIGINT, test_saves);
    ADD("terminate", SIGTERM, test_saves);
    ADD("hang-up", SIGHUP, test_saves);
    ADD("nothing-saved", 0, test_nothing_saved);
    ADD("nothing-lost", 0, test_nothing_lost);
    ADD("second", 0, test_second_signal);
    ADD("sampling", 0, test_sampling);
    ADD("shorter-data", 0, test_shorter_data);
    ADD("changed-data", 0, test_changed_data);
    ADD("soon-shorter-data", 0, test_soon_shorter_data);
    ADD("ignored-hang-up", SIGHUP, test_ignored);
    ADD("ignored-interrupt", SIGINT, test_ignored);
    ADD("ignored-termination", SIGTERM, test_ignored);
    ADD("progress-lines", 0, test_progress_lines);
    ADD("log-without-reader", 0, test_log_without_reader);
    ADD("progress-without-reader", 0, test_progress_without_reader);
    return g_test_run();
}
