/* Checkpoints are written while training goes on, and a disk that fails does not stop it. */
#include "run_folder.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAULTS "env LD_PRELOAD=" FAULTS_LIBRARY " ASAN_OPTIONS=verify_asan_link_order=0 "
#define RUN_HERE \
    PROGRAM_DIR "/pstar-run --model config.json --data text.txt --batch 2 --seq 16 --threads 1 "

/* Runs a command of the shell in the folder. */
static int run_shell(const struct run_folder *folder, const char *line, char **err)
{
    g_autofree char *text = g_strdup(line);
    char *command[] = {(char *)"/bin/sh", (char *)"-c", text, NULL};
    return run_folder_spawn(folder, command, NULL, NULL, NULL, err);
}

/* Fails the test unless the log has the losses of the steps of the whole run. */
static void expect_losses(const struct run_folder *folder, const char *name)
{
    g_autoptr(GArray) whole = run_folder_log(folder, "whole.jsonl", "loss");
    g_autoptr(GArray) steps = run_folder_log(folder, name, "step");
    g_autoptr(GArray) losses = run_folder_log(folder, name, "loss");
    g_assert_cmpuint(losses->len, >, 0);
    for (guint i = 0; i < losses->len; i++)
        g_assert_cmpfloat(g_array_index(losses, double, i), ==,
                          g_array_index(whole, double, (guint)g_array_index(steps, double, i) - 1));
}

/* While a checkpoint of step 2 waits for the disk, training takes many steps. What the disk then
 * gets is step 2, from which a run goes on bit for bit; and the next checkpoints are late, not
 * lost. */
static void test_goes_on(struct run_folder *folder, gconstpointer data)
{
    static const char script[] = FAULTS
        "PSTAR_TEST_HOLD=hold " RUN_HERE
        "--steps 100000 --save-every 2 --keep 100000 --save saved --log log.jsonl %s & "
        "until test \"$(wc -l < log.jsonl)\" -ge 40; do sleep 0.02; done; "
        "ls saved > held; rm hold; "
        "until ls saved | grep -q checkpoint-0002; do sleep 0.02; done; "
        "kill -TERM $!; wait $!; test $? = 0";
    const char *const options = data;
    run_folder_write(folder, "hold", "");
    run_folder_write(folder, "log.jsonl", "");
    g_autofree char *line = g_strdup_printf(script, options);
    g_assert_cmpint(run_shell(folder, line, NULL), ==, 0);
    g_autofree char *path = run_folder_path(folder, "held"), *held = NULL;
    g_assert_true(g_file_get_contents(path, &held, NULL, NULL));
    g_assert_null(strstr(held, "checkpoint-"));
    run_folder_expect(held, "step-2.partial");
    json_t *state = run_folder_json(folder, "saved/checkpoint-0001-step-2/trainer.json");
    g_assert_cmpint(json_integer_value(json_object_get(state, "step")), ==, 2);
    json_decref(state);
    g_autofree char *log = run_folder_path(folder, "log.jsonl");
    g_autofree char *whole = run_folder_path(folder, "whole.jsonl");
    g_assert_cmpint(rename(log, whole), ==, 0);
    g_autofree char *rest =
        g_strconcat("--resume saved/checkpoint-0001-step-2 --steps 30 --schedule-steps 100000 "
                    "--log rest.jsonl ",
                    options, NULL);
    g_assert_cmpint(run_folder_run(folder, rest, NULL, NULL), ==, 0);
    expect_losses(folder, "rest.jsonl");
}

/* Training that must wait does, because there is no host memory for a snapshot. */
static void test_waits(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *err = NULL, *dry = NULL, *waiting = NULL, *out = NULL, *small = NULL,
                    *room = NULL;
    const char *const job = "--steps 4 --save-every 1 --save saved ";
    g_autofree char *dry_run = g_strconcat(job, "--dry-run --json", NULL);
    g_assert_cmpint(run_folder_run(folder, dry_run, &dry, NULL), ==, 0);
    json_t *need = json_loads(dry, 0, NULL);
    json_int_t snapshot = json_integer_value(json_object_get(need, "snapshot_bytes"));
    g_assert_cmpint(snapshot, >, 12 * 30000); /* bytes of its parameters */
    json_decref(need);
    g_autofree char *wait = g_strconcat(job, "--save-wait --keep 9 --json --log whole.jsonl", NULL);
    g_assert_cmpint(run_folder_run(folder, wait, &waiting, &err), ==, 0);
    json_t *root = json_loads(waiting, 0, NULL);
    g_assert_cmpint(json_integer_value(json_object_get(root, "checkpoints")), ==, 4);
    g_assert_cmpint(json_integer_value(json_object_get(root, "checkpoints_failed")), ==, 0);
    g_assert_cmpfloat(json_real_value(json_object_get(root, "checkpoint_pause_seconds")), >, 0);
    json_decref(root);
    g_assert_true(run_folder_has(folder, "saved/checkpoint-0004-step-4"));
    g_assert_cmpstr(err, ==, "");
    /* A budget with room for the snapshot, beside which the plan makes do with the rest, and one
     * without. */
    room = g_strdup_printf("%s--device-memory 700KiB --host-memory %" G_GINT64_FORMAT
                           " --log room.jsonl",
                           job, (gint64)snapshot + 200000);
    g_clear_pointer(&err, g_free);
    g_assert_cmpint(run_folder_run(folder, room, NULL, &err), ==, 0);
    g_assert_cmpstr(err, ==, "");
    expect_losses(folder, "room.jsonl");
    small = g_strdup_printf("%s--device-memory 700KiB --host-memory %" G_GINT64_FORMAT
                            " --log small.jsonl",
                            job, (gint64)snapshot - 1);
    g_clear_pointer(&err, g_free);
    g_assert_cmpint(run_folder_run(folder, small, &out, &err), ==, 0);
    run_folder_expect(err, "too small for a snapshot of what is saved; training waits");
    expect_losses(folder, "small.jsonl");
}

/* Takes the number of what is written in a run, as a library counts it. */
static long count_changes(const struct run_folder *folder, const char *job)
{
    g_autofree char *line = g_strconcat(FAULTS "PSTAR_TEST_COUNT=count ", job, NULL);
    g_assert_cmpint(run_shell(folder, line, NULL), ==, 0);
    g_autofree char *path = run_folder_path(folder, "count"), *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    return atol(text);
}

/* Whichever of its changes of the folder fails, the run trains to its end with the same losses. It
 * says once what it could not write; its status says whether that was the last checkpoint; and the
 * newest complete checkpoint is whole. */
static void test_each_fault(struct run_folder *folder, gconstpointer data)
{
    const int trials = GPOINTER_TO_INT(data);
    const char *const job = RUN_HERE
        "--steps 4 --save-every 2 --save-wait --save saved --log log.jsonl";
    g_assert_cmpint(
        run_folder_run(folder, "--steps 9 --schedule-steps 4 --log whole.jsonl", NULL, NULL), ==,
        0);
    long changes = count_changes(folder, job);
    g_assert_cmpint(changes, >, 20);
    for (int i = 0; i < trials && i < changes; i++) {
        long fault = trials >= changes ? i + 1 : 1 + g_test_rand_int_range(0, (gint32)changes);
        g_autofree char *err = NULL;
        g_autofree char *line = g_strdup_printf("rm -r saved; " FAULTS "PSTAR_TEST_FAIL=%ld %s",
                                                fault, job);
        int status = run_shell(folder, line, &err);
        bool last = fault > changes / 2;
        g_assert_cmpint(status, ==, last);
        run_folder_expect(err, "No space left on device");
        g_assert_true((strstr(err, "the run goes on without this checkpoint") != NULL) == !last);
        expect_losses(folder, "log.jsonl");
        g_assert_cmpint(run_shell(folder, "ls -d saved/*.partial", NULL), !=, 0);
        g_assert_cmpint(
            run_folder_run(folder, "--resume saved --steps 5 --log rest.jsonl", NULL, NULL), ==, 0);
        expect_losses(folder, "rest.jsonl");
    }
}

/* A folder of which the disk cannot read all names may have a newer checkpoint than those that are
 * read: no run goes on from another one, and no new one gets a number that is taken. */
static void test_unread_names(struct run_folder *folder, gconstpointer data)
{
    static const char *const unread[] = {"checkpoint-0001-step-1", "checkpoint-0002-step-2"};
    (void)data;
    g_assert_cmpint(run_folder_run(folder, "--steps 2 --save-every 1 --save saved", NULL, NULL), ==,
                    0);
    for (size_t i = 0; i < G_N_ELEMENTS(unread); i++) {
        g_autofree char *err = NULL, *other = NULL;
        g_autofree char *resume = g_strdup_printf(
            FAULTS "PSTAR_TEST_UNREAD=%s " RUN_HERE "--resume saved --steps 3", unread[i]);
        g_autofree char *save = g_strdup_printf(
            FAULTS "PSTAR_TEST_UNREAD=%s " RUN_HERE "--steps 1 --save saved", unread[i]);
        g_assert_cmpint(run_shell(folder, resume, &err), ==, 2);
        run_folder_expect(err, "pstar-run: saved: Input/output error");
        g_assert_cmpint(run_shell(folder, save, &other), ==, 1);
        run_folder_expect(other, "saved: Input/output error");
    }
    g_assert_cmpint(run_shell(folder, "ls -d saved/*-0002-step-2", NULL), ==, 0);
    g_assert_cmpint(run_shell(folder, "ls -d saved/*-0003-*", NULL), !=, 0);
}

/* Runs a script in name spaces of its own, in which it may mount. Returns 77 if it may not. */
static int run_mounting(const struct run_folder *folder, const char *script)
{
    g_autofree char *line = g_strdup_printf("unshare -rm true || exit 77; exec unshare -rm sh -c '"
                                            "mount -t tmpfs -o size=16m none saved || exit 77; %s'",
                                            script);
    return run_shell(folder, line, NULL);
}

/* A folder that cannot be written to for a while, and one that vanishes: the run goes on and says
 * so; it saves again when it can; and if it never can again, its status says so. A checkpoint that
 * was being written when the folder went may say something else, so that the script waits for the
 * message of the next one. */
static void test_lost_folder(struct run_folder *folder, gconstpointer data)
{
    const char *const *parts = data;
    g_autofree char *script = g_strdup_printf(
        RUN_HERE
        "--steps 1000000 --save-every 3 --save saved 2> errors & "
        "until [ -e saved/newest ]; do sleep 0.02; done; %s; "
        "until grep -q \"%s.*goes on without this checkpoint\" errors; do sleep 0.02; done; %s; "
        "kill -TERM $!; wait $!; echo $? > status; cp -r saved copy",
        parts[0], parts[2], parts[1]);
    g_assert_cmpint(run_shell(folder, "mkdir saved", NULL), ==, 0);
    if (run_mounting(folder, script) == 77) {
        g_test_skip("nothing can be mounted here");
        return;
    }
    g_autofree char *path = run_folder_path(folder, "status"), *status = NULL, *errors = NULL;
    g_autofree char *err_path = run_folder_path(folder, "errors");
    g_assert_true(g_file_get_contents(path, &status, NULL, NULL));
    g_assert_true(g_file_get_contents(err_path, &errors, NULL, NULL));
    g_test_message("%.2000s", errors);
    g_assert_cmpstr(g_strchomp(status), ==, parts[3]);
    bool there = strcmp(parts[3], "0") == 0;
    g_assert_true(run_folder_has(folder, "copy/newest/trainer.json") == there);
    if (there)
        g_assert_cmpint(
            run_folder_run(folder, "--resume copy --steps 1000000 --dry-run", NULL, NULL), ==, 0);
    else /* nothing is written into the folder that the mount had covered */
        g_assert_cmpint(run_shell(folder, "rmdir copy", NULL), ==, 0);
}

#define AGAIN                      \
    "n=$(readlink saved/newest); " \
    "until [ $(readlink saved/newest) != $n ]; do sleep 0.02; done"
#define WRITABLE  ("mount -o remount,rw saved; " AGAIN)
#define MOUNTED   ("mount --bind aside saved; " AGAIN)
#define UNMOUNTED "mkdir aside; mount --bind saved aside; umount -l saved"

/* A file system is busy while a file of it is open for writing. */
#define READ_ONLY "until mount -o remount,ro saved; do sleep 0.02; done"

/* Shell commands that take the folder away and give it back; the message and the exit status. */
static const char *const read_only[] = {READ_ONLY, WRITABLE, "Read-only file system", "0"};
static const char *const vanished[] = {"umount -l saved", "true", "another file system is there",
                                       "1"};
static const char *const remounted[] = {UNMOUNTED, MOUNTED, "another file system is there", "0"};

static void add(const char *path, const void *data,
                void (*test)(struct run_folder *folder, gconstpointer data))
{
    g_test_add(path, struct run_folder, data, run_folder_set_up, test, run_folder_tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    bool is_long = argc > 1; /* every fault instead of some */
    if (is_long) {
        add("/behind/each-fault", GINT_TO_POINTER(1000), test_each_fault);
        return g_test_run();
    }
    add("/behind/goes-on/fp32", "", test_goes_on);
    add("/behind/goes-on/bf16", "--precision bf16 --device-memory 700KiB", test_goes_on);
    add("/behind/waits", NULL, test_waits);
    add("/behind/each-fault", GINT_TO_POINTER(4), test_each_fault);
    add("/behind/unread-names", NULL, test_unread_names);
    add("/behind/read-only", read_only, test_lost_folder);
    add("/behind/vanished", vanished, test_lost_folder);
    add("/behind/remounted", remounted, test_lost_folder);
    return g_test_run();
}
