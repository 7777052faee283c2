/* Ranks save together: each writes its part of the model, and a rank that cannot write harms
 * nothing. */
#include "launch.h"
#include "saved.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#include <glib/gstdio.h>
#include <string.h>

#define JOB "--micro-batches 12 --seed 3 "

static void write_model(const struct run_folder *folder)
{
    run_folder_write(folder, "config.json",
                     "{\"model_type\": \"gpt2\", \"n_layer\": 4, \"n_embd\": 32, \"n_head\": 2, "
                     "\"n_positions\": 32, \"vocab_size\": 256}");
}

/* Every rank or stage writes a file of weights and one of moments, whatever it holds, and any
 * number of them goes on. A run on one rank then saves one file of each. */
static void test_files(struct run_folder *folder, gconstpointer data)
{
    static const struct {
        uint32_t processes;
        const char *options;
    } shared[] = {{4, "--stage 3"}, {2, "--stages 2"},           {3, "--host-update"},
                  {1, ""},          {4, "--stages 2 --stage 3"}, {1, ""}};
    g_autofree char *first = g_strdup_printf(JOB "%s --steps 1 --schedule-steps 9 --save 0",
                                             (const char *)data);
    write_model(folder);
    launch_must_run(folder, 1, first);
    for (uint32_t i = 0; i < G_N_ELEMENTS(shared); i++) {
        g_autofree char *alone = g_strdup_printf("--resume %u --steps %u --save one", i, i + 2);
        g_autofree char *together = g_strdup_printf("%s --resume %u --steps %u --save %u",
                                                    shared[i].options, i, i + 2, i + 1);
        g_autofree char *saved = g_strdup_printf("%u", i + 1);
        launch_must_run(folder, 1, alone);
        launch_must_run(folder, shared[i].processes, together);
        g_assert_cmpuint(saved_count_files(folder, saved, "model"), ==, shared[i].processes);
        g_assert_cmpuint(saved_count_files(folder, saved, "optimizer"), ==, shared[i].processes);
        g_assert_cmpuint(saved_count_files(folder, "one", "model"), ==, 1);
        saved_must_be_same(folder, "one", saved);
    }
}

/* Files of one number of ranks replace those of another. */
static void test_replaced(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const uint32_t ranks[] = {3, 2, 1, 4};
    write_model(folder);
    for (size_t i = 0; i < G_N_ELEMENTS(ranks); i++) {
        launch_must_run(folder, ranks[i], JOB "--steps 2 --save-every 1 --save saved");
        g_assert_cmpuint(saved_count_files(folder, "saved", "model"), ==, ranks[i]);
        g_assert_cmpuint(saved_count_files(folder, "saved", "optimizer"), ==, ranks[i]);
        g_assert_false(run_folder_has(folder, "saved/next.partial"));
        launch_must_run(folder, 1, JOB "--steps 2 --save one");
        saved_must_be_same(folder, "one", "saved");
    }
}

/* Returns the command of three ranks, of which the second runs `before` in its shell first. Free
 * with g_strfreev. */
static char **command_after(const char *before, const char *options)
{
    g_auto(GStrv) program = run_folder_command(options);
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all = g_strdup_printf(
        "mpirun -n 3 --oversubscribe sh -c 'test $OMPI_COMM_WORLD_RANK != 1 || { %s; }; exec %s'",
        before, line);
    char **command = NULL;
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    return command;
}

/* The second rank can write less than its part, as on a full disk: an error of the run if it saves
 * nothing later, otherwise a warning. What was saved before stays. */
static void test_cannot_write(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *err = NULL;
    write_model(folder);
    launch_must_run(folder, 2, JOB "--steps 1 --schedule-steps 3 --save saved");
    launch_must_run(folder, 1, JOB "--steps 1 --schedule-steps 3 --save one");
    g_auto(GStrv) command = command_after("ulimit -f 8", "--resume saved --steps 2 --save saved");
    launch_refuse(folder, command, 1, "rank 1 on ");
    g_auto(GStrv) twice = command_after(
        "ulimit -f 8", "--resume saved --steps 3 --save-every 1 --save saved --log log.jsonl");
    g_assert_cmpint(run_folder_spawn(folder, twice, NULL, NULL, NULL, &err), ==, 1);
    g_assert_cmpuint(launch_count_messages(err), ==, 2);
    run_folder_expect(err, "-of-00003.safetensors: File too large; the run goes on without this");
    saved_must_be_same(folder, "one", "saved");
    g_assert_false(run_folder_has(folder, "saved/next.partial"));
    launch_must_run(folder, 3, "--resume saved --steps 3 --save later");
}

/* While the second rank's disk hangs, training goes on, and what the first has written is no
 * checkpoint. When the disk goes on, it becomes one, of the step for which it was due. */
static void test_complete_with_all(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const char script[] =
        "mpirun -n 2 --oversubscribe sh -c 'test $OMPI_COMM_WORLD_RANK != 1 || export "
        "LD_PRELOAD=" FAULTS_LIBRARY " PSTAR_TEST_HOLD=hold "
        "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0; exec %s' & "
        "until test $(wc -l < log.jsonl) -ge 20 && "
        "test -e saved/step-2.partial/checkpoint-00001-of-00002.json; do sleep 0.05; done; "
        "ls saved > held; rm hold; wait $!";
    write_model(folder);
    run_folder_write(folder, "hold", "");
    run_folder_write(folder, "log.jsonl", "");
    g_auto(GStrv) program =
        run_folder_command(JOB "--steps 40 --save-every 2 --keep 99 --save saved --log log.jsonl");
    g_autofree char *of_rank = g_strjoinv(" ", program), *err = NULL;
    g_autofree char *line = g_strdup_printf(script, of_rank);
    char *command[] = {(char *)"/bin/sh", (char *)"-c", line, NULL};
    if (run_folder_spawn(folder, command, NULL, NULL, NULL, &err) != 0)
        g_error("%s", err);
    g_autofree char *path = run_folder_path(folder, "held"), *held = NULL;
    g_assert_true(g_file_get_contents(path, &held, NULL, NULL));
    g_assert_null(strstr(held, "checkpoint-"));
    launch_must_run(folder, 1, "--resume saved/checkpoint-0001-step-2 --steps 40 --log rest.jsonl");
    g_autoptr(GArray) whole = run_folder_log(folder, "log.jsonl", "loss");
    g_autoptr(GArray) rest = run_folder_log(folder, "rest.jsonl", "loss");
    g_assert_cmpuint(rest->len, ==, 38);
    g_assert_cmpmem(whole->data + 2 * sizeof(double), 38 * sizeof(double), rest->data,
                    rest->len * sizeof(double));
}

/* On the second rank's host the path leads to another folder, so the others write its part. */
static void test_other_folder(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *err = NULL, *elsewhere = run_folder_path(folder, "elsewhere");
    write_model(folder);
    launch_must_run(folder, 1, JOB "--steps 2 --save one");
    g_assert_cmpint(g_mkdir(elsewhere, 0777), ==, 0);
    g_auto(GStrv) command = command_after("cp config.json text.txt elsewhere && cd elsewhere",
                                          JOB "--steps 2 --save saved");
    if (run_folder_spawn(folder, command, NULL, NULL, NULL, &err) != 0)
        g_error("%s", err);
    g_assert_cmpuint(saved_count_files(folder, "saved", "model"), ==, 2);
    g_assert_false(run_folder_has(folder, "elsewhere/saved"));
    saved_must_be_same(folder, "one", "saved");
}

/* Data that change under all ranks, or under the second one alone, which has a folder of its own,
 * end the run as they end one process: with one message, and a checkpoint of the last step. */
static void test_changed_data(struct run_folder *folder, gconstpointer data)
{
    const char *changed = data;
    static const char script[] =
        "mkdir elsewhere; cp config.json text.txt elsewhere; : > log.jsonl; "
        "mpirun -n 2 --oversubscribe sh -c "
        "'test $OMPI_COMM_WORLD_RANK != 1 || test %s = text.txt || cd elsewhere; exec %s' & "
        "until test $(wc -l < log.jsonl) -ge 20; do sleep 0.05; done; "
        "printf 'No bottles' | dd of=%s conv=notrunc status=none; wait $!";
    write_model(folder);
    g_auto(GStrv) program =
        run_folder_command(JOB "--steps 1000000 --save saved --log log.jsonl --data text.txt");
    g_autofree char *of_rank = g_strjoinv(" ", program), *err = NULL;
    g_autofree char *line = g_strdup_printf(script, changed, of_rank, changed);
    char *command[] = {(char *)"/bin/sh", (char *)"-c", line, NULL};
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, &err), ==, 1);
    g_assert_cmpuint(launch_count_messages(err), ==, 1);
    run_folder_expect(err, "text.txt: has been changed while it is read");
    g_assert_true((strstr(err, "rank 1 on ") != NULL) == g_str_has_prefix(changed, "elsewhere"));
    g_autoptr(GArray) steps = run_folder_log(folder, "log.jsonl", "step");
    json_t *state = run_folder_json(folder, "saved/trainer.json");
    g_assert_cmpuint((guint)json_integer_value(json_object_get(state, "step")), ==, steps->len);
    json_decref(state);
}

/* Adapters have one file, whoever trains, and go on with any number of ranks or stages. The first
 * rank merges what all have. */
static void test_adapters(struct run_folder *folder, gconstpointer data)
{
    static const char *const places[][2] = {{"3", "--stage 3 --chunk-size 4KiB"},
                                            {"4", "--stages 2"}};
    g_autofree char *err = NULL;
    (void)data;
    write_model(folder);
    launch_must_run(folder, 1, JOB "--train lora:3 --steps 2 --schedule-steps 4 --save half");
    launch_must_run(folder, 1, "--resume half --steps 4 --save one --merge merged");
    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        if (!draws_row(1, G_N_ELEMENTS(places)))
            continue;
        uint32_t processes = (uint32_t)g_ascii_strtoull(places[i][0], NULL, 10);
        g_autofree char *begins = g_strdup_printf(
            JOB "%s --train lora:3 --steps 2 --schedule-steps 4 --save begun", places[i][1]);
        g_autofree char *goes_on = g_strdup_printf(
            "%s --resume half --steps 4 --save '%zu' --merge 'merged %zu'", places[i][1], i, i);
        g_autofree char *saved = g_strdup_printf("%zu", i);
        g_autofree char *merged = g_strdup_printf("merged %zu", i);
        launch_must_run(folder, processes, begins);
        saved_must_be_same(folder, "half", "begun");
        g_assert_cmpuint(saved_count_files(folder, "begun", "adapter_model"), ==, 1);
        launch_must_run(folder, processes, goes_on);
        saved_must_be_same(folder, "one", saved);
        saved_files_must_be_same(folder, "merged", merged, "model");
    }
    g_assert_cmpint(
        launch_run(folder, 2, "--resume half --steps 4 --save x --merge merged", NULL, &err), !=,
        0);
    g_assert_cmpuint(launch_count_messages(err), ==, 1);
    run_folder_expect(err, "--merge merged: the folder is not empty");
}

/* Adds the test; with sanitizers, which start slowly, a third of all. */
static void add(const char *path, const void *data,
                void (*test)(struct run_folder *folder, gconstpointer data))
{
    if (draws_row(UNLESS_SANITIZED(3, 1), 3))
        g_test_add(path, struct run_folder, data, run_folder_set_up, test, run_folder_tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!launch_prepare())
        return 77;
    if (draws_row(1, 2))
        add("/ranks-saving/files/fp32", "", test_files);
    if (draws_row(1, 2))
        add("/ranks-saving/files/bf16", "--precision bf16", test_files);
    add("/ranks-saving/replaced", NULL, test_replaced);
    add("/ranks-saving/adapters", NULL, test_adapters);
    add("/ranks-saving/cannot-write", NULL, test_cannot_write);
    add("/ranks-saving/changed-data", PICK("text.txt", "elsewhere/text.txt"), test_changed_data);
    add("/ranks-saving/other-folder", NULL, test_other_folder);
    add("/ranks-saving/complete-with-all", NULL, test_complete_with_all);
    return g_test_run();
}
