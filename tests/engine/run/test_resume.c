/* --resume takes what is not given from the checkpoint, takes what is given where that makes sense,
 * and refuses the rest in one message. */
#include "run_folder.h"

#include <string.h>

#define JOB                                                                                        \
    "--batch 3 --seq 12 --micro-batches 2 --precision bf16 --lr 0.001 --min-lr 0.0002 --clip 0.5 " \
    "--data-order sequential --held-out 0.1 --seed 7 --warmup-steps 2 --beta1 0.8 "

/* Runs pstar-run with these options alone. */
static int run_alone(const struct run_folder *folder, const char *options, char **err)
{
    g_autofree char *line = g_strconcat(PROGRAM_DIR "/pstar-run --threads 1 ", options, NULL);
    g_auto(GStrv) command = NULL;
    g_assert_true(g_shell_parse_argv(line, NULL, &command, NULL));
    return run_folder_spawn(folder, command, NULL, NULL, NULL, err);
}

/* Makes of a saved checkpoint one of an earlier version: without checksums, and with its files in
 * the folder itself. */
static void make_earlier(struct run_folder *folder)
{
    static const char script[] = "if [ -e half/newest ]; then cp -rL half/newest earlier && rm -r "
                                 "half && mv earlier half && "
                                 "rm half/checkpoint.json && sed -i 's/\"version\": 2/\"version\": "
                                 "1/' half/trainer.json; fi";
    char *command[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL};
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, NULL), ==, 0);
}

/* Replaces a text in the state of a checkpoint, which then is one of an earlier version. */
static void edit_state(struct run_folder *folder, const char *from, const char *to)
{
    make_earlier(folder);
    g_autofree char *path = run_folder_path(folder, "half/trainer.json"), *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    GString *edited = g_string_new(text);
    g_assert_cmpuint(g_string_replace(edited, from, to, 1), ==, 1);
    g_assert_true(g_file_set_contents(path, edited->str, -1, NULL));
    g_string_free(edited, TRUE);
}

static void expect_rest(const struct run_folder *folder)
{
    GArray *whole = run_folder_log(folder, "whole.jsonl", "loss");
    GArray *rest = run_folder_log(folder, "rest.jsonl", "loss");
    g_assert_cmpuint(rest->len, ==, 3);
    g_assert_cmpmem(whole->data + 3 * sizeof(double), 3 * sizeof(double), rest->data,
                    rest->len * sizeof(double));
    g_array_unref(whole);
    g_array_unref(rest);
}

static void test_takes_all(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *errors = NULL;
    g_assert_cmpint(run_folder_run(folder, JOB "--steps 6 --log whole.jsonl", NULL, NULL), ==, 0);
    g_assert_cmpint(
        run_folder_run(folder, JOB "--steps 3 --schedule-steps 6 --save half", NULL, NULL), ==, 0);
    g_assert_cmpint(run_alone(folder, "--resume half", &errors), ==, 2);
    run_folder_expect(errors, "has already done 3 steps; more --steps train longer");
    g_assert_cmpint(run_alone(folder, "--resume half --steps 6 --log rest.jsonl", NULL), ==, 0);
    expect_rest(folder);
    /* As after a run of 6 steps that was interrupted. */
    edit_state(folder, "\"steps\": 3", "\"steps\": 6");
    g_assert_cmpint(run_alone(folder, "--resume half --log rest.jsonl", NULL), ==, 0);
    expect_rest(folder);
    /* After the schedule's end the least learning rate holds. */
    g_assert_cmpint(run_alone(folder, "--resume half --steps 8 --log longer.jsonl", NULL), ==, 0);
    GArray *rates = run_folder_log(folder, "longer.jsonl", "learning_rate");
    g_assert_cmpfloat(g_array_index(rates, double, 4), ==, 0.0002);
    g_array_unref(rates);
}

static void append(const struct run_folder *folder, const char *name, const char *text)
{
    g_autofree char *path = run_folder_path(folder, name);
    FILE *file = fopen(path, "a");
    g_assert_cmpint(fputs(text, file), >=, 0);
    fclose(file);
}

static void expect_same_log(const struct run_folder *folder, const char *name)
{
    static const char *const keys[] = {"step", "loss", "gradient_norm", "learning_rate"};
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        g_autoptr(GArray) whole = run_folder_log(folder, "whole.jsonl", keys[i]);
        g_autoptr(GArray) log = run_folder_log(folder, name, keys[i]);
        g_assert_cmpmem(whole->data, whole->len * sizeof(double), log->data,
                        log->len * sizeof(double));
    }
}

/* A log goes on with the run: it keeps the steps of the checkpoint, and loses those that a run has
 * taken after it and that are taken again. A run that begins, and what is no log, is another. */
static void test_log_goes_on(struct run_folder *folder, gconstpointer data)
{
    static const char *const after[] = {"", "{\"step\":4,\"loss\":9}\n{\"step\":5,\"lo",
                                        "{\"step\":3,\"loss\":9}\n", "thesis\n"};
    static const char go_on[] = "--resume half --steps 6 --log log.jsonl";
    (void)data;
    g_assert_cmpint(run_folder_run(folder, JOB "--steps 6 --log whole.jsonl", NULL, NULL), ==, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(after); i++) {
        g_assert_cmpint(run_folder_run(folder,
                                       JOB "--steps 3 --schedule-steps 6 --save half "
                                           "--log log.jsonl",
                                       NULL, NULL),
                        ==, 0);
        append(folder, "log.jsonl", after[i]);
        g_assert_cmpint(run_alone(folder, go_on, NULL), ==, 0);
        expect_same_log(folder, "log.jsonl");
    }
    run_folder_write(folder, "log.jsonl", "thesis\n{\"step\":1,");
    g_assert_cmpint(run_alone(folder, go_on, NULL), ==, 0);
    g_autoptr(GArray) steps = run_folder_log(folder, "log.jsonl", "step");
    g_assert_cmpuint(steps->len, ==, 3);
    g_assert_cmpint(run_folder_run(folder, JOB "--steps 6 --log log.jsonl", NULL, NULL), ==, 0);
    expect_same_log(folder, "log.jsonl");
}

/* A checkpoint of an earlier version does not know its data. */
static void test_earlier_version(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *errors = NULL;
    g_assert_cmpint(run_folder_run(folder, JOB "--steps 6 --log whole.jsonl", NULL, NULL), ==, 0);
    g_assert_cmpint(
        run_folder_run(folder, JOB "--steps 3 --schedule-steps 6 --save half", NULL, NULL), ==, 0);
    edit_state(folder, "\"steps\":", "\"other\":");
    edit_state(folder, "\"data\":", "\"another\":");
    edit_state(folder, "\"tokens\":", "\"yet_another\":");
    g_assert_cmpint(run_alone(folder, "--resume half", &errors), ==, 2);
    run_folder_expect(errors, "--data is missing");
    g_assert_cmpint(run_alone(folder, "--resume half --data text.txt --log rest.jsonl", NULL), ==,
                    0);
    expect_rest(folder);
}

static void test_overrides(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *errors = NULL;
    g_assert_cmpint(run_folder_run(folder, "--steps 3 --save half", NULL, NULL), ==, 0);
    g_assert_cmpint(run_alone(folder,
                              "--resume half --steps 4 --lr 0.01 --batch 5 --clip 2 "
                              "--precision bf16 --log log.jsonl",
                              &errors),
                    ==, 0);
    run_folder_expect(errors, "--lr is 0.0006 in the checkpoint, but 0.01 in this run");
    run_folder_expect(errors, "--batch is 2 in the checkpoint, but 5 in this run");
    run_folder_expect(errors, "--clip is 1.0 in the checkpoint, but 2.0 in this run");
    run_folder_expect(errors,
                      "--precision is \"fp32\" in the checkpoint, but \"bf16\" in this run");
    run_folder_expect(errors, "nothing will be saved: --save is not kept in a checkpoint");
    g_autofree char *log = run_folder_path(folder, "log.jsonl"), *text = NULL;
    g_assert_true(g_file_get_contents(log, &text, NULL, NULL));
    run_folder_expect(text, "\"batch\":5");
    run_folder_expect(text, "\"sequence\":16");
}

/* All that is wrong is said at once, and before the first step. */
static void test_refusals(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *errors = NULL, *order = NULL;
    g_assert_cmpint(run_folder_run(folder, "--steps 3 --save half", NULL, NULL), ==, 0);
    run_folder_write(folder, "other.txt",
                     "This is another text than the one that was trained on. It is long enough for "
                     "several sequences of 16 tokens and their last targets.");
    g_assert_cmpint(run_alone(folder,
                              "--resume half --steps 4 --seed 9 --held-out 0.3 --data other.txt "
                              "--log log.jsonl",
                              &errors),
                    ==, 2);
    run_folder_expect(errors, "--seed is 0 in the checkpoint, but 9 in this run");
    run_folder_expect(errors, "--held-out is 0.0 in the checkpoint, but ");
    run_folder_expect(errors, "the digest of --data is ");
    run_folder_expect(errors,
                      "--model half/checkpoint-0001-step-3 without --resume begins a new training");
    g_assert_false(run_folder_has(folder, "log.jsonl"));
    g_assert_cmpint(run_folder_run(folder, JOB "--steps 3 --save half", NULL, NULL), ==, 0);
    g_assert_cmpint(run_alone(folder, "--resume half --steps 4 --batch 5 --seq 8", &order), ==, 2);
    run_folder_expect(order, "--batch is 3 in the checkpoint, but 5 in this run; --seq is 12");
}

/* With a delay both versions of the weights are saved. */
static void test_delay(struct run_folder *folder, gconstpointer data)
{
    const char *const precision = data;
    g_autofree char *job = g_strconcat(JOB "--delay 1 ", precision, NULL), *errors = NULL;
    g_autofree char *whole = g_strconcat(job, " --steps 6 --log whole.jsonl", NULL);
    g_autofree char *half = g_strconcat(job, " --steps 3 --schedule-steps 6 --save half", NULL);
    g_assert_cmpint(run_folder_run(folder, whole, NULL, NULL), ==, 0);
    g_assert_cmpint(run_folder_run(folder, half, NULL, NULL), ==, 0);
    g_assert_cmpint(run_alone(folder, "--resume half --steps 6 --log rest.jsonl", NULL), ==, 0);
    expect_rest(folder);
    GArray *versions = run_folder_log(folder, "rest.jsonl", "weights_version");
    for (guint i = 0; i < versions->len; i++)
        g_assert_cmpfloat(g_array_index(versions, double, i), ==, 2 + i);
    g_array_unref(versions);
    g_assert_cmpint(run_alone(folder, "--resume half --steps 6 --delay 0", &errors), ==, 2);
    run_folder_expect(errors, "--delay is 1 in the checkpoint, but 0 in this run");
    edit_state(folder, "\"delay\": 1", "\"delay\": 2");
    g_clear_pointer(&errors, g_free);
    g_assert_cmpint(run_alone(folder, "--resume half --steps 6", &errors), ==, 2);
    run_folder_expect(errors, "--delay 2: must be 0 or 1");
}

static void test_delay_refusals(struct run_folder *folder, gconstpointer data)
{
    static const struct {
        const char *options, *why;
    } refused[] = {
        {"--steps 4 --resume half --delay 1", "--delay is 0 in the checkpoint, but 1 in this run"},
        {"--steps 1 --delay 1 --bytes-per-parameter 12 --precision bf16", "needs whole masters"},
        {"--steps 1 --delay 2", "must be an integer in [0, 1]"},
        {"--steps 1 --delay 1 --bytes-per-parameter 16", "must be 20"},
    };
    (void)data;
    g_assert_cmpint(run_folder_run(folder, "--steps 3 --save half", NULL, NULL), ==, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autofree char *errors = NULL;
        g_assert_cmpint(run_folder_run(folder, refused[i].options, NULL, &errors), ==, 2);
        run_folder_expect(errors, refused[i].why);
    }
}

#define ADD(path, function)                                                           \
    g_test_add("/resume/" path, struct run_folder, NULL, run_folder_set_up, function, \
               run_folder_tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("takes-all", test_takes_all);
    ADD("log-goes-on", test_log_goes_on);
    ADD("earlier-version", test_earlier_version);
    ADD("overrides", test_overrides);
    ADD("refusals", test_refusals);
    ADD("delay/refusals", test_delay_refusals);
    g_test_add("/resume/delay/fp32", struct run_folder, "--precision fp32", run_folder_set_up,
               test_delay, run_folder_tear_down);
    g_test_add("/resume/delay/bf16", struct run_folder, "--precision bf16 --micro-batches 1",
               run_folder_set_up, test_delay, run_folder_tear_down);
    return g_test_run();
}
