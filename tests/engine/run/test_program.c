/* pstar-run from outside: what it writes, when it stops, and how it ends. */
#include "run_folder.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>

/* Its exit status; *out (may be NULL) is what it printed. */
static int run(const struct run_folder *folder, const char *options, char **out)
{
    return run_folder_run(folder, options, out, NULL);
}

/* A plan that was written makes the same run as the policy that it came from. */
static void test_plan(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_assert_cmpint(run(folder,
                        "--steps 3 --device-memory 300KiB --chunk-size 8KiB --policy lru "
                        "--emit-plan plan.json --log policy.jsonl",
                        NULL),
                    ==, 0);
    g_assert_cmpint(run(folder, "--steps 3 --plan plan.json --log plan.jsonl", NULL), ==, 0);
    const char *const keys[] = {"step",      "loss",       "gradient_norm",     "learning_rate",
                                "h2d_bytes", "d2h_copies", "peak_device_bytes", "evictions"};
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        run_folder_same_log(folder, "policy.jsonl", "plan.jsonl", keys[i]);
    g_assert_cmpint(run(folder, "--steps 3 --plan plan.json --precision bf16", NULL), ==, 2);
    g_assert_cmpint(run(folder, "--steps 3 --plan plan.json --device-memory 100KiB", NULL), ==, 3);
    g_assert_cmpint(run(folder, "--steps 3 --plan plan.json --policy fifo", NULL), ==, 2);
}

static void test_resume(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_assert_cmpint(run(folder, "--steps 6 --log whole.jsonl", NULL), ==, 0);
    g_assert_cmpint(run(folder, "--steps 6 --save-every 4 --save saved --log x.jsonl", NULL), ==,
                    0);
    run_folder_same_log(folder, "whole.jsonl", "x.jsonl", "loss");
    g_assert_cmpint(run(folder, "--steps 4 --schedule-steps 6 --save half", NULL), ==, 0);
    g_assert_cmpint(run(folder,
                        "--steps 6 --resume half --device-memory 300KiB --chunk-size 4KiB "
                        "--log rest.jsonl",
                        NULL),
                    ==, 0);
    GArray *whole = run_folder_log(folder, "whole.jsonl", "loss");
    GArray *rest = run_folder_log(folder, "rest.jsonl", "loss");
    g_assert_cmpmem(whole->data + 4 * sizeof(double), 2 * sizeof(double), rest->data,
                    rest->len * sizeof(double));
    g_array_unref(whole);
    g_array_unref(rest);
    g_assert_cmpint(run(folder, "--steps 4 --schedule-steps 6 --resume half", NULL), ==, 2);
}

/* Split masters train alike and leave the same files, from which either goes on; without clipping,
 * and with a second backward where it clips: data is --clip's. */
static void test_bytes_per_parameter(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *job = g_strdup_printf("--precision bf16 --clip %s", (const char *)data);
    g_autofree char *whole = g_strdup_printf("--steps 6 %s --save 14 --log 14.jsonl", job);
    g_autofree char *split =
        g_strdup_printf("--steps 6 %s --bytes-per-parameter 12 --save 12 --device-memory 300KiB "
                        "--chunk-size 4KiB --host-update --recompute 0 --log 12.jsonl",
                        job);
    g_assert_cmpint(run(folder, whole, NULL), ==, 0);
    g_assert_cmpint(run(folder, split, NULL), ==, 0);
    run_folder_same_log(folder, "14.jsonl", "12.jsonl", "loss");
    run_folder_same_log(folder, "14.jsonl", "12.jsonl", "gradient_norm");
    run_folder_same_file(folder, "14/model.safetensors", "12/model.safetensors");
    run_folder_same_file(folder, "14/optimizer.safetensors", "12/optimizer.safetensors");
    const char *const halves[] = {"", "--bytes-per-parameter 12"};
    for (int first = 0; first < 2; first++) {
        g_autofree char *begin = g_strdup_printf("--steps 3 --schedule-steps 6 %s --save half %s",
                                                 job, halves[first]);
        g_autofree char *end = g_strdup_printf("--steps 6 %s --resume half --save both %s", job,
                                               halves[!first]);
        g_assert_cmpint(run(folder, begin, NULL), ==, 0);
        g_assert_cmpint(run(folder, end, NULL), ==, 0);
        run_folder_same_file(folder, "14/model.safetensors", "both/model.safetensors");
        run_folder_same_file(folder, "14/optimizer.safetensors", "both/optimizer.safetensors");
    }
}

static void test_bytes_per_parameter_refused(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const char *const refused[] = {
        "--precision bf16 --bytes-per-parameter 13 --clip 0",
        "--precision bf16 --bytes-per-parameter 16 --clip 0",
        "--precision bf16 --bytes-per-parameter 12 --clip 0 --micro-batches 2",
        "--precision bf16 --bytes-per-parameter 12 --clip 0 --host-embedding",
        "--precision fp32 --bytes-per-parameter 12 --clip 0",
        "--bytes-per-parameter 0",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++)
        g_assert_cmpint(run(folder, refused[i], NULL), ==, 2);
    g_assert_cmpint(run(folder,
                        "--steps 1 --precision bf16 --bytes-per-parameter 12 --clip 0 "
                        "--emit-plan plan.json",
                        NULL),
                    ==, 0);
    /* The masters are the plan's, and it updates before it knows a norm. */
    const char *const runs[] = {"--clip 0", "--clip 1", "--clip 0 --bytes-per-parameter 14"};
    for (size_t i = 0; i < G_N_ELEMENTS(runs); i++) {
        g_autofree char *job = g_strdup_printf("--steps 1 --precision bf16 --plan plan.json %s",
                                               runs[i]);
        g_assert_cmpint(run(folder, job, NULL), ==, i ? 2 : 0);
    }
}

/* Returns an option, or nothing. Sizes that differ little give slots that are larger than their
 * chunks. */
static char *draw_chunk_size(void)
{
    return g_test_rand_bit()
               ? g_strdup_printf("--chunk-size %d", 256 * g_test_rand_int_range(16, 256))
               : g_strdup("");
}

static void test_dry_run(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *text = NULL, *chunks = draw_chunk_size();
    g_autofree char *look = g_strdup_printf("--dry-run --json %s", chunks);
    g_assert_cmpint(run(folder, look, &text), ==, 0);
    json_t *dry = json_loads(text, 0, NULL);
    g_assert_nonnull(dry);
    json_int_t least = json_integer_value(json_object_get(dry, "least_device_bytes"));
    g_assert_cmpint(least, >, 0);
    g_assert_cmpint(json_integer_value(json_object_get(dry, "device_bytes")), >, least);
    g_assert_cmpint(json_integer_value(json_object_get(dry, "h2d_bytes")), ==, 0);
    json_decref(dry);

    /* What it says is least is least, whichever slots the chunks have with more memory. */
    g_autofree char *fits = g_strdup_printf("--steps 2 --device-memory %lld %s", (long long)least,
                                            chunks);
    g_autofree char *too_small = g_strdup_printf(
        "--steps 2 --device-memory %lld --log none.jsonl %s", (long long)least - 1, chunks);
    g_autofree char *log = run_folder_path(folder, "none.jsonl");
    g_assert_cmpint(run(folder, fits, NULL), ==, 0);
    g_assert_cmpint(run(folder, too_small, NULL), ==, 3);
    g_assert_false(g_file_test(log, G_FILE_TEST_EXISTS));
}

static void test_evaluation(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *text = NULL;
    g_assert_cmpint(run(folder, "--steps 4 --held-out 0.2 --eval-every 1 --log held.jsonl", NULL),
                    ==, 0);
    GArray *losses = run_folder_log(folder, "held.jsonl", "eval_loss");
    g_assert_cmpuint(losses->len, ==, 4);
    g_array_unref(losses);
    g_assert_cmpint(run(folder,
                        "--steps 4 --eval text.txt --sample 9 --json --precision bf16 "
                        "--device-memory 300KiB --chunk-size 2KiB",
                        &text),
                    ==, 0);
    json_t *summary = json_loads(text, 0, NULL);
    g_assert_nonnull(summary);
    g_assert_true(json_is_real(json_object_get(summary, "eval_loss")));
    g_assert_cmpuint(json_array_size(json_object_get(summary, "sample")), ==, 16 + 9);
    json_decref(summary);
}

static int compare(gconstpointer a, gconstpointer b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* What is said of a step is the median of the steps after the first, and of which peak it is a
 * share. */
static void test_summary(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *text = NULL, *table = NULL;
    g_assert_cmpint(run(folder, "--steps 6 --log log.jsonl --json", &text), ==, 0);
    json_t *summary = json_loads(text, 0, NULL);
    g_assert_nonnull(summary);
    GArray *seconds = run_folder_log(folder, "log.jsonl", "iteration_seconds");
    g_array_remove_index(seconds, 0);
    g_array_sort(seconds, compare);
    double median = g_array_index(seconds, double, 2);
    g_assert_cmpfloat(json_number_value(json_object_get(summary, "iteration_seconds")), ==, median);
    g_assert_cmpfloat_with_epsilon(json_number_value(json_object_get(summary, "tokens_per_second")),
                                   2 * 16 / median, 1e-6);
    double rate = json_number_value(json_object_get(summary, "flops_per_second"));
    g_assert_cmpfloat(rate, >, 0);
    g_assert_cmpfloat(rate, <=,
                      json_number_value(json_object_get(summary, "peak_flops_per_second")));
    json_decref(summary);
    g_array_unref(seconds);
    g_assert_cmpint(run(folder, "--steps 3", &table), ==, 0);
    run_folder_expect(table, "median of the steps after the first");
    run_folder_expect(table, "share of the device's peak");
    run_folder_expect(table, "Gflop/s, the fastest ");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add("/program/plan", struct run_folder, NULL, run_folder_set_up, test_plan,
               run_folder_tear_down);
    g_test_add("/program/resume", struct run_folder, NULL, run_folder_set_up, test_resume,
               run_folder_tear_down);
    g_test_add("/program/bytes-per-parameter", struct run_folder, "0", run_folder_set_up,
               test_bytes_per_parameter, run_folder_tear_down);
    g_test_add("/program/bytes-per-parameter/clipped", struct run_folder, "0.05", run_folder_set_up,
               test_bytes_per_parameter, run_folder_tear_down);
    g_test_add("/program/bytes-per-parameter/refused", struct run_folder, NULL, run_folder_set_up,
               test_bytes_per_parameter_refused, run_folder_tear_down);
    g_test_add("/program/dry-run", struct run_folder, NULL, run_folder_set_up, test_dry_run,
               run_folder_tear_down);
    g_test_add("/program/evaluation", struct run_folder, NULL, run_folder_set_up, test_evaluation,
               run_folder_tear_down);
    g_test_add("/program/summary", struct run_folder, NULL, run_folder_set_up, test_summary,
               run_folder_tear_down);
    return g_test_run();
}
