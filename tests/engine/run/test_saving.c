/* Where pstar-run saves: through links, onto mount points, on file systems that cannot swap
 * folders, and at places that cannot work, which are refused before the first step. */
#include "run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The user and the group of a new process in its name space. */
struct mount_maps {
    const char *users, *groups;
};

#define EVERY "--steps 3 --save-every 1 "

static int64_t saved_step(const struct run_folder *folder, const char *name)
{
    g_autofree char *file = g_build_filename(name, "trainer.json", NULL);
    json_t *state = run_folder_json(folder, file);
    int64_t step = json_integer_value(json_object_get(state, "step"));
    json_decref(state);
    return step;
}

static void test_link(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *link = run_folder_path(folder, "link");
    g_assert_cmpint(run_folder_run(folder, "--steps 1 --save real", NULL, NULL), ==, 0);
    run_folder_write(folder, "real/notes.txt", "mine");
    g_assert_cmpint(symlink("real", link), ==, 0);
    g_assert_cmpint(run_folder_run(folder, EVERY "--save link", NULL, NULL), ==, 0);
    g_assert_true(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
    g_assert_true(run_folder_has(folder, "real/notes.txt"));
    g_assert_cmpint(saved_step(folder, "real"), ==, 3);
    g_assert_cmpint(run_folder_run(folder, "--resume link --steps 4", NULL, NULL), ==, 0);

    g_autofree char *dangling = run_folder_path(folder, "dangling");
    g_assert_cmpint(symlink("later", dangling), ==, 0);
    g_assert_cmpint(run_folder_run(folder, EVERY "--save dangling", NULL, NULL), ==, 0);
    g_assert_true(g_file_test(dangling, G_FILE_TEST_IS_SYMLINK));
    g_assert_cmpint(saved_step(folder, "later"), ==, 3);
}

/* A run keeps others out of the folder to which it saves. */
static void test_lock(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *path = run_folder_path(folder, "saved"), *err = NULL, *within = NULL;
    g_assert_cmpint(run_folder_run(folder, "--steps 1 --save saved", NULL, NULL), ==, 0);
    int held = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    g_assert_cmpint(flock(held, LOCK_EX), ==, 0);
    g_assert_cmpint(run_folder_run(folder, "--steps 2 --save saved", NULL, &err), ==, 1);
    run_folder_expect(err, "saved: another run saves there");
    close(held);
    g_assert_cmpint(run_folder_run(folder, "--steps 2 --save saved", NULL, NULL), ==, 0);
    g_assert_cmpint(saved_step(folder, "saved"), ==, 2);

    g_assert_cmpint(run_folder_run(folder, "--steps 2 --save saved/newest", NULL, &within), ==, 1);
    run_folder_expect(within, "this is one checkpoint");
}

/* What lies beside the model goes with what a run saves, also when the model is gone. */
static void test_model_files(struct run_folder *folder, gconstpointer data)
{
    static const char *const names[] = {"generation_config.json", "chat_template.jinja",
                                        "tokenizer_config.json"};
    (void)data;
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *text = g_strdup_printf("{\"%s\": [1, 2.50, null]}\n", names[i]);
        run_folder_write(folder, names[i], text);
    }
    run_folder_write(folder, "notes.txt", "not of the model");
    g_assert_cmpint(run_folder_run(folder, EVERY "--save saved", NULL, NULL), ==, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *copy = g_build_filename("saved", names[i], NULL);
        run_folder_same_file(folder, names[i], copy);
        g_autofree char *path = run_folder_path(folder, names[i]);
        g_assert_cmpint(g_unlink(path), ==, 0);
    }
    g_assert_false(run_folder_has(folder, "saved/notes.txt"));

    g_assert_cmpint(
        run_folder_run(folder, "--resume saved --save saved --keep 1 --steps 5", NULL, NULL), ==,
        0);
    g_assert_cmpint(saved_step(folder, "saved"), ==, 5);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *copy = g_build_filename("saved", names[i], NULL);
        g_assert_true(run_folder_has(folder, copy));
    }

    g_autofree char *err = NULL;
    run_folder_write(folder, "saved/newest/chat_template.jinja", "{\"another\": 0}\n");
    g_assert_cmpint(run_folder_run(folder, "--resume saved --steps 6", NULL, &err), ==, 2);
    run_folder_expect(err, "chat_template.jinja");
}

/* NFS, 9p and others answer a swap of two names so. */
static void refuse_swaps(gpointer data)
{
    (void)data;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {G_N_ELEMENTS(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

static void test_no_swaps(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_auto(GStrv) command = run_folder_command(EVERY "--save saved");
    int status = run_folder_spawn(folder, command, refuse_swaps, NULL, NULL, NULL);
    if (status == 77) {
        g_test_skip("system calls cannot be filtered here");
        return;
    }
    g_assert_cmpint(status, ==, 0);
    g_assert_cmpint(saved_step(folder, "saved"), ==, 3);
}

static bool write_text(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0)
        close(file);
    return ok;
}

/* Mounts an empty file system on the folder "saved", which only the new process sees. */
static void mount_saved(gpointer data)
{
    const struct mount_maps *maps = data;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !write_text("/proc/self/setgroups", "deny") ||
        !write_text("/proc/self/uid_map", maps->users) ||
        !write_text("/proc/self/gid_map", maps->groups) ||
        mount("none", "saved", "tmpfs", 0, "size=16m") != 0)
        _exit(77);
}

/* Runs a shell's command with an empty file system of its own on the folder "saved". Returns 77 if
 * nothing can be mounted here. */
static int run_mounted(const struct run_folder *folder, const char *shell_command, char **err)
{
    g_autofree char *mounted = run_folder_path(folder, "saved");
    g_autofree char *users = g_strdup_printf("0 %u 1", (unsigned)getuid());
    g_autofree char *groups = g_strdup_printf("0 %u 1", (unsigned)getgid());
    g_autofree char *line = g_strdup(shell_command);
    struct mount_maps maps = {users, groups};
    char *command[] = {(char *)"/bin/sh", (char *)"-c", line, NULL};
    g_assert_cmpint(g_mkdir(mounted, 0777), ==, 0);
    return run_folder_spawn(folder, command, mount_saved, &maps, NULL, err);
}

#define RUN_HERE \
    PROGRAM_DIR "/pstar-run --model config.json --data text.txt --batch 2 --seq 16 --threads 1 "

static void test_mount_point(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    int status = run_mounted(folder, RUN_HERE EVERY "--save saved && cp -r saved copy", NULL);
    if (status == 77) {
        g_test_skip("nothing can be mounted here");
        return;
    }
    g_assert_cmpint(status, ==, 0);
    g_assert_cmpint(saved_step(folder, "copy"), ==, 3);
}

/* An image of a container has a checkpoint in its lower layer. Its folder can then not be renamed
 * (EXDEV), and a folder on it not be swapped. */
static void test_overlay(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const char script[] =
        "cd saved && mkdir lower upper work both && cp ../config.json ../text.txt . && " RUN_HERE
        "--steps 1 --save lower/saved && echo mine > lower/saved/notes.txt && "
        "{ mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work both || "
        "exit 77; } && " RUN_HERE
        "--resume both/saved --steps 3 --save-every 1 --save both/saved && " RUN_HERE
        "--steps 2 --save-every 1 --save both/new && " RUN_HERE
        "--resume both/new --steps 3 --save both/new && "
        "test $(ls -A both | wc -l) = 2 && "
        "cp -r both/saved ../copy && cp -r both/new ../new";
    g_autofree char *errors = NULL;
    int status = run_mounted(folder, script, &errors);
    if (status == 77) {
        g_test_skip("no overlay can be mounted here");
        return;
    }
    g_test_message("%s", errors);
    g_assert_cmpint(status, ==, 0);
    g_assert_cmpint(saved_step(folder, "copy"), ==, 3);
    g_assert_cmpint(saved_step(folder, "new"), ==, 3);
    g_assert_true(run_folder_has(folder, "copy/notes.txt"));
    g_assert_cmpint(run_folder_run(folder, "--resume copy --steps 4 --dry-run", NULL, NULL), ==, 0);
}

/* No step is taken, so the log has none. */
static void expect_refused(const struct run_folder *folder, const char *save, const char *reason)
{
    g_autofree char *options = g_strdup_printf("--steps 3 --log log.jsonl --save '%s'", save);
    g_autofree char *errors = NULL;
    g_assert_cmpint(run_folder_run(folder, options, NULL, &errors), ==, 1);
    run_folder_expect(errors, "--save: ");
    run_folder_expect(errors, reason);
    g_assert_false(run_folder_has(folder, "log.jsonl"));
}

static void test_impossible_places(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *long_name = g_strnfill(300, 'x'),
                    *made = run_folder_path(folder, "empty-state");
    expect_refused(folder, "text.txt/saved", "Not a directory");
    expect_refused(folder, "text.txt", "Not a directory");
    expect_refused(folder, ".", "neither empty nor a checkpoint");
    expect_refused(folder, "", "empty");
    expect_refused(folder, long_name, "File name too long");
    expect_refused(folder, "/proc/self/saved", "No such file or directory");
    /* A file of the name trainer.json alone makes no checkpoint. */
    g_assert_cmpint(g_mkdir(made, 0777), ==, 0);
    run_folder_write(folder, "empty-state/trainer.json", "{}");
    run_folder_write(folder, "empty-state/config.json", "mine");
    expect_refused(folder, "empty-state", "neither empty nor a checkpoint");
    g_assert_true(run_folder_has(folder, "empty-state/config.json"));
    /* What is refused leaves no folder, nor any above it. */
    g_assert_cmpint(run_folder_run(folder, "--save a/new/one --eval none --steps 1", NULL, NULL),
                    ==, 2);
    g_assert_false(run_folder_has(folder, "a"));
    g_assert_cmpint(run_folder_run(folder, "--save fresh --resume none --steps 1", NULL, NULL), ==,
                    2);
    g_assert_false(run_folder_has(folder, "fresh"));
}

static void test_too_little_room(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *errors = NULL;
    int status = run_mounted(folder,
                             "mount -o remount,size=64k saved && exec " RUN_HERE
                             "--steps 3 --log log.jsonl --save saved",
                             &errors);
    if (status == 77) {
        g_test_skip("nothing can be mounted here");
        return;
    }
    g_assert_cmpint(status, ==, 1);
    run_folder_expect(errors, "a checkpoint takes");
    g_assert_false(run_folder_has(folder, "log.jsonl"));
}

/* What cannot be written at the end is found before the first step: a checkpoint with a file larger
 * than files may be (ulimit -f), and a merged model for which the disk has no room. */
static void test_end_that_fails(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const char limited[] = "ulimit -f 20; exec " RUN_HERE "--log log.jsonl --save limited ";
    const char *const more[] = {"", "--dry-run"};
    for (size_t i = 0; i < G_N_ELEMENTS(more); i++) {
        g_autofree char *line = g_strconcat(limited, more[i], NULL), *errors = NULL;
        char *command[] = {(char *)"/bin/sh", (char *)"-c", line, NULL};
        g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, &errors), ==, 1);
        run_folder_expect(errors, "--save: limited: a checkpoint has a file of ");
        run_folder_expect(errors, "(ulimit -f)");
        g_assert_false(run_folder_has(folder, "log.jsonl"));
    }
    g_autofree char *errors = NULL;
    int status = run_mounted(folder,
                             "mount -o remount,size=8k saved && exec " RUN_HERE
                             "--train lora:2 --log log.jsonl --merge saved/merged",
                             &errors);
    if (status == 77) {
        g_test_skip("nothing can be mounted here");
        return;
    }
    g_assert_cmpint(status, ==, 1);
    run_folder_expect(errors, "--merge: saved/merged: the merged model takes ");
    g_assert_false(run_folder_has(folder, "log.jsonl"));
}

/* A checkpoint that finds no room is left out; the run goes on, and the next one may find some. */
static void test_full_meanwhile(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const char script[] = RUN_HERE
        "--steps 1000000 --save-every 1 --save saved 2> errors & "
        "until [ -e saved/trainer.json ]; do sleep 0.05; done; "
        "until grep -q 'goes on without this checkpoint' errors; do "
        "head -c 15M /dev/zero >> saved/ballast; sleep 0.05; done 2> head-errors; "
        "rm saved/ballast; sleep 0.2; kill -TERM $!; wait $!; echo $? > status; "
        "cp -r saved copy";
    int status = run_mounted(folder, script, NULL);
    if (status == 77) {
        g_test_skip("nothing can be mounted here");
        return;
    }
    g_autofree char *path = run_folder_path(folder, "status"), *ended = NULL;
    g_assert_true(g_file_get_contents(path, &ended, NULL, NULL));
    g_assert_cmpstr(g_strchomp(ended), ==, "0");
    g_assert_cmpint(run_folder_run(folder, "--resume copy --steps 1000000 --dry-run", NULL, NULL),
                    ==, 0);
    g_assert_cmpint(saved_step(folder, "copy"), >, 1);
    g_assert_false(run_folder_has(folder, "copy/next.partial"));
}

/* A log that cannot be written ends the run, but not without a checkpoint. */
static void test_full_log(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *errors = NULL;
    if (access("/dev/full", W_OK) != 0) {
        g_test_skip("no /dev/full here");
        return;
    }
    g_assert_cmpint(run_folder_run(folder, "--steps 9 --log /dev/full --save saved", NULL, &errors),
                    ==, 1);
    run_folder_expect(errors, "/dev/full: No space left on device");
    g_assert_cmpint(saved_step(folder, "saved"), ==, 1);
}

/* A state that is a pipe or a folder is refused, not waited for. */
static void test_odd_states(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_assert_cmpint(run_folder_run(folder, "--steps 1 --save saved", NULL, NULL), ==, 0);
    g_autofree char *state = run_folder_path(folder, "saved/newest/trainer.json"), *errors = NULL;
    g_autofree char *others = NULL;
    g_assert_cmpint(g_unlink(state), ==, 0);
    g_assert_cmpint(mkfifo(state, 0666), ==, 0);
    g_assert_cmpint(run_folder_run(folder, "--resume saved --steps 2", NULL, &errors), ==, 2);
    run_folder_expect(errors, "step-1/trainer.json: not a regular file");
    g_assert_cmpint(g_unlink(state), ==, 0);
    g_assert_cmpint(g_mkdir(state, 0777), ==, 0);
    g_assert_cmpint(run_folder_run(folder, "--resume saved --steps 2", NULL, &others), ==, 2);
    run_folder_expect(others, "step-1/trainer.json: is a folder");
}

/* A model's weights are read whether its folder is named or its config.json. */
static void test_config_beside_weights(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    const char *const lines[] = {
        "--steps 3 --save saved",
        "--model saved --steps 1 --log folder.jsonl",
        "--model saved/config.json --steps 1 --log file.jsonl",
        "--steps 1 --log new.jsonl",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++)
        g_assert_cmpint(run_folder_run(folder, lines[i], NULL, NULL), ==, 0);
    run_folder_same_log(folder, "folder.jsonl", "file.jsonl", "loss");
    run_folder_same_log(folder, "folder.jsonl", "file.jsonl", "weights_version");
    g_autoptr(GArray) read = run_folder_log(folder, "file.jsonl", "loss");
    g_autoptr(GArray) drawn = run_folder_log(folder, "new.jsonl", "loss");
    g_assert_cmpfloat(g_array_index(read, double, 0), !=, g_array_index(drawn, double, 0));
}

/* Adapters name the model's folder, by which PEFT loads it, and are resumed with its weights. */
static void test_adapters(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    const char *const lines[] = {
        "--steps 3 --save saved",
        "--model saved/config.json --train lora:2 --steps 4 --log whole.jsonl",
        "--model saved/config.json --train lora:2 --steps 2 --schedule-steps 4 --save tuned",
        "--model saved/config.json --resume tuned --steps 4 --log rest.jsonl",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++)
        g_assert_cmpint(run_folder_run(folder, lines[i], NULL, NULL), ==, 0);
    json_t *config = run_folder_json(folder, "tuned/adapter_config.json");
    g_autofree char *saved = run_folder_path(folder, "saved");
    g_autofree char *base = g_canonicalize_filename(
        json_string_value(json_object_get(config, "base_model_name_or_path")), folder->path);
    g_assert_cmpstr(base, ==, saved);
    json_decref(config);
    g_autoptr(GArray) whole = run_folder_log(folder, "whole.jsonl", "loss");
    g_autoptr(GArray) rest = run_folder_log(folder, "rest.jsonl", "loss");
    g_assert_cmpuint(rest->len, ==, 2);
    for (guint i = 0; i < rest->len; i++)
        g_assert_cmpfloat(g_array_index(rest, double, i), ==, g_array_index(whole, double, i + 2));
}

/* Adapters do not go on beside other weights, but do beside the same ones in another place. */
static void test_other_model(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *why = NULL;
    const char *const lines[] = {
        "--steps 1 --save one",
        "--steps 1 --save other --seed 7",
        "--model one --train lora:2 --steps 2 --save tuned",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++)
        g_assert_cmpint(run_folder_run(folder, lines[i], NULL, NULL), ==, 0);
    g_assert_cmpint(run_folder_run(folder, "--model other --resume tuned --steps 3", NULL, &why),
                    ==, 2);
    run_folder_expect(why, "the digest of --model's weights is");
    g_autofree char *one = run_folder_path(folder, "one"), *to = run_folder_path(folder, "moved");
    g_assert_cmpint(g_rename(one, to), ==, 0);
    g_assert_cmpint(run_folder_run(folder, "--model moved --resume tuned --steps 3", NULL, NULL),
                    ==, 0);
}

/* A damaged checkpoint does not take the place of a whole one among those that stay, and what a
 * person has put there stays, too, without keeping others from going. */
static void test_keeps(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const char first[] = "saved/checkpoint-0001-step-1",
                      second[] = "saved/checkpoint-0002-step-2",
                      third[] = "saved/checkpoint-0003-step-3";
    g_autofree char *weights = g_strdup_printf("%s/model.safetensors", third);
    g_autofree char *notes = g_strdup_printf("%s/notes", first), *why = NULL;
    g_assert_cmpint(run_folder_run(folder,
                                   "--steps 3 --save-every 1 --save-wait --keep 3 --save saved",
                                   NULL, NULL),
                    ==, 0);
    run_folder_write(folder, weights, "short");
    g_autofree char *inside = run_folder_path(folder, notes);
    g_assert_cmpint(g_mkdir(inside, 0777), ==, 0);
    g_autofree char *go_on = g_strdup_printf("--steps 4 --keep 2 --save saved --resume %s", second);
    g_assert_cmpint(run_folder_run(folder, go_on, NULL, NULL), ==, 0);
    g_assert_true(run_folder_has(folder, notes)); /* has a folder */
    g_assert_true(run_folder_has(folder, second));
    g_assert_true(run_folder_has(folder, third)); /* lies between two that are kept */
    g_autofree char *damaged = g_strdup_printf("--steps 5 --resume %s", third);
    g_assert_cmpint(run_folder_run(folder, damaged, NULL, &why), ==, 2);
    run_folder_expect(why, "was saved with");
    g_assert_cmpint(run_folder_run(folder, "--steps 5 --save saved --resume saved", NULL, NULL), ==,
                    0);
    g_assert_true(run_folder_has(folder, notes));
    g_assert_false(run_folder_has(folder, second));
    g_assert_false(run_folder_has(folder, third));
}

/* Options of checkpoints are refused without --save, whatever else would happen. */
static void test_no_folder(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    const char *const options[] = {"--save-every 2", "--keep 3", "--save-wait"};
    for (size_t i = 0; i < G_N_ELEMENTS(options); i++) {
        g_autofree char *line = g_strdup_printf("--steps 2 %s", options[i]), *why = NULL;
        g_autofree char *expected = g_strdup_printf("%s: needs --save", options[i]);
        g_assert_cmpint(run_folder_run(folder, line, NULL, &why), ==, 2);
        run_folder_expect(why, expected);
    }
}

#define ADD(path, function)                                                           \
    g_test_add("/saving/" path, struct run_folder, NULL, run_folder_set_up, function, \
               run_folder_tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("link", test_link);
    ADD("model-files", test_model_files);
    ADD("lock", test_lock);
    ADD("no-swaps", test_no_swaps);
    ADD("mount-point", test_mount_point);
    ADD("overlay", test_overlay);
    ADD("impossible-places", test_impossible_places);
    ADD("too-little-room", test_too_little_room);
    ADD("end-that-fails", test_end_that_fails);
    ADD("full-meanwhile", test_full_meanwhile);
    ADD("full-log", test_full_log);
    ADD("other-model", test_other_model);
    ADD("no-folder", test_no_folder);
    ADD("keeps", test_keeps);
    ADD("odd-states", test_odd_states);
    ADD("config-beside-weights", test_config_beside_weights);
    ADD("adapters", test_adapters);
    return g_test_run();
}
