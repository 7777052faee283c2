/* The stages of a pipeline under mpirun train with the bits of one process, whatever lies where,
 * and end together. */
#include "launch.h"
#include "saved.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define STEPS "--steps 3 "

/* Copies that last longer than operators, so that what does not wait for them shows. */
#define SLOW_LINK "--link h2d=10MB/s,d2h=5MB/s"

enum { LAYERS = 4 };

static void write_gpt2(const struct run_folder *folder, const char *tied)
{
    g_autofree char *config = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": %s, \"n_head\": 2, "
        "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": %s, "
        "\"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}",
        LAYERS, PICK("32", "48", "80"), tied);
    run_folder_write(folder, "config.json", config);
    launch_draw_mask(folder);
}

/* Draws a family. Phi's embedding is not tied. */
static void write_model(const struct run_folder *folder, const char *tied)
{
    const char *family = PICK(NULL, NULL, "\"llama\", \"num_key_value_heads\": 2",
                              "\"gpt_neox\", \"hidden_dropout\": 0.1, \"rotary_pct\": 0.5",
                              "\"phi\", \"resid_pdrop\": 0.1");
    write_gpt2(folder, tied);
    if (!family)
        return;
    bool may_tie = strstr(family, "phi") == NULL;
    g_autofree char *config = g_strdup_printf(
        "{\"model_type\": %s, \"num_hidden_layers\": %d, \"hidden_size\": 48, "
        "\"num_attention_heads\": 4, \"intermediate_size\": 96, "
        "\"max_position_embeddings\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": %s}",
        family, LAYERS, may_tie ? tied : "false");
    run_folder_write(folder, "config.json", config);
}

/* What is trained: all, adapters, or tensors of all layers. */
static const char *draw_trained(void)
{
    return PICK("", "", "--train lora:3", "--train '*.mlp.*'", "--train '*.weight'");
}

/* Where the optimizer's states live: on the device, on the host, or, as many as can, in NVMe. */
static const char *draw_update(void)
{
    return PICK("", "--host-update", "--host-update --nvme . --nvme-memory 64MiB");
}

/* What a step computes, without where. */
static char *draw_job(void)
{
    return g_strdup_printf(STEPS "--micro-batches %d --clip %s %s %s --seed %d ",
                           2 * g_test_rand_int_range(3, 6), PICK("0", "1"),
                           PICK("", "--delay 1", "--precision bf16",
                                "--precision bf16 --bytes-per-parameter 16",
                                "--precision bf16 --delay 1"),
                           draw_trained(), g_test_rand_int_range(0, 1000));
}

static char *draw_placement(uint32_t stages, uint32_t width)
{
    g_autofree char *layers = launch_draw_layers(LAYERS, stages);
    return g_strdup_printf(
        "%s --stage %s --schedule %s %s %s %s %s %s --recompute %s %s %s ", layers, PICK("2", "3"),
        PICK("1f1b", "gpipe", "zb-h1", "zb-h1"), PICK("", "--look-ahead 2", "--look-ahead 9"),
        draw_update(), PICK("", "--chunk-size 4KiB", "--chunk-size 16KiB"),
        PICK("--policy opt", "--policy lru", "--policy fifo"), PICK("", "", SLOW_LINK),
        PICK("none", "all", "0,2"), PICK("", "", "--offload-activations all"),
        width > 1 ? "" : PICK("", "", "--host-embedding"));
}

/* What every stage moved, sent, received and held is what its plan says. Figures of NVMe that are 0
 * are left out of both. */
static void check_rows(const json_t *dry, const json_t *run)
{
    const char *const keys[] = {"sent_bytes",     "received_bytes",    "h2d_bytes",
                                "d2h_bytes",      "peak_device_bytes", "peak_live_device_bytes",
                                "evictions",      "gathers",           "in_flight",
                                "device_bytes",   "nvme_read_bytes",   "nvme_write_bytes",
                                "peak_nvme_bytes"};
    const json_t *planned = json_object_get(dry, "stages"),
                 *measured = json_object_get(run, "stages");
    g_assert_cmpuint(json_array_size(planned), ==, json_array_size(measured));
    for (size_t s = 0; s < json_array_size(planned); s++)
        for (size_t k = 0; k < G_N_ELEMENTS(keys); k++)
            g_assert_cmpint(
                json_integer_value(json_object_get(json_array_get(planned, s), keys[k])), ==,
                json_integer_value(json_object_get(json_array_get(measured, s), keys[k])));
}

/* Returns device memory between the least (0) and the most (1) that any stage needs. */
static long long memory_at(const json_t *dry, double part)
{
    json_int_t least = json_integer_value(json_object_get(dry, "least_device_bytes"));
    json_int_t most = least;
    const json_t *rows = json_object_get(dry, "stages");
    for (size_t s = 0; s < json_array_size(rows); s++) {
        const json_t *row = json_array_get(rows, s);
        least = MAX(least, json_integer_value(json_object_get(row, "least_device_bytes")));
        most = MAX(most, json_integer_value(json_object_get(row, "device_bytes")));
    }
    return least + (json_int_t)(part * (double)(most - least));
}

/* Trains the job in one process, and placed on so many processes with such a part of the memory
 * that is useful. */
static void compare_with(double part, const struct run_folder *folder, uint32_t processes,
                         const char *job, const char *placement)
{
    g_autofree char *placed = g_strconcat(job, placement, NULL);
    g_autofree char *one = g_strconcat(job, "--log one.jsonl --save one", NULL);
    json_t *loose = launch_look(folder, processes, placed);
    g_autofree char *fitted = g_strdup_printf("%s --device-memory %lld ", placed,
                                              memory_at(loose, part));
    g_autofree char *several = g_strconcat(fitted, "--log stages.jsonl --save stages", NULL);
    g_test_message("%u processes: %s", processes, several);
    json_t *dry = launch_look(folder, processes, fitted);
    launch_must_run(folder, 1, one);
    json_t *run = launch_json(folder, processes, several);
    run_folder_same_log(folder, "one.jsonl", "stages.jsonl", "loss");
    run_folder_same_log(folder, "one.jsonl", "stages.jsonl", "gradient_norm");
    run_folder_same_log(folder, "one.jsonl", "stages.jsonl", "weights_version");
    if (strstr(job, "--eval-every"))
        run_folder_same_log(folder, "one.jsonl", "stages.jsonl", "eval_loss");
    saved_must_be_same(folder, "one", "stages");
    check_rows(dry, run);
    json_decref(loose);
    json_decref(dry);
    json_decref(run);
}

static void compare(const struct run_folder *folder, uint32_t processes, const char *job,
                    const char *placement)
{
    compare_with(g_test_rand_double(), folder, processes, job, placement);
}

static void test_bits(struct run_folder *folder, gconstpointer data)
{
    for (int i = 0; i < draws(1, 2); i++) {
        uint32_t width = i == 1 ? 2 : (uint32_t)g_test_rand_int_range(1, 3);
        uint32_t most = width > 1 ? 3 : LAYERS;
        uint32_t stages = (uint32_t)g_test_rand_int_range(2, (gint32)most + 1);
        g_autofree char *job = draw_job(), *placement = draw_placement(stages, width);
        write_model(folder, data);
        compare(folder, stages * width, job, placement);
    }
}

/* The tokens of a micro-batch are sent to where the gradient of the embedding's output was, which a
 * copy to the host may still be reading. */
static void test_host_embedding(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    run_folder_write(folder, "config.json",
                     "{\"model_type\": \"llama\", \"num_hidden_layers\": 4, \"hidden_size\": 48, "
                     "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
                     "\"intermediate_size\": 96, \"max_position_embeddings\": 32, "
                     "\"vocab_size\": 256, \"tie_word_embeddings\": false, "
                     "\"rms_norm_eps\": 1e-5}");
    compare(folder, 2, STEPS "--micro-batches 8 ", "--stages 2 --host-embedding " SLOW_LINK " ");
}

/* The stages of a mixture of experts, of one rank or two. */
static void test_experts(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    uint32_t stages = (uint32_t)g_test_rand_int_range(2, 4);
    uint32_t width = (uint32_t)g_test_rand_int_range(1, 3);
    g_autofree char *job = draw_job(), *placement = draw_placement(stages, width);
    launch_draw_experts(folder, LAYERS, "");
    compare(folder, stages * width, job, placement);
}

/* A pipeline that never drains trains like one process with delayed updates, over steps that are
 * evaluated and saved in between. */
static void test_endless(struct run_folder *folder, gconstpointer data)
{
    for (uint32_t width = 1; width < 3; width++) {
        if (!draws_row(1, 2))
            continue;
        uint32_t most = width > 1 ? 3 : LAYERS;
        uint32_t stages = (uint32_t)g_test_rand_int_range(2, (gint32)most + 1);
        bool bf16 = g_test_rand_int_range(0, 2);
        g_autofree char *job = g_strdup_printf(
            "--delay 1 --steps 7 --micro-batches %d --clip %s --seed %d %s %s %s ",
            (gint32)width * ((gint32)stages + g_test_rand_int_range(0, 6)), PICK("0", "0.1"),
            g_test_rand_int_range(0, 1000), bf16 ? "--precision bf16" : "",
            PICK("", "--held-out 0.2 --eval-every 1 --sample 5"), draw_trained());
        g_autofree char *layers = launch_draw_layers(LAYERS, stages);
        g_autofree char *placement = g_strdup_printf(
            "%s --stage %s --schedule 2bw %s %s %s %s --recompute %s %s %s ", layers,
            PICK("2", "3"), PICK("", "--look-ahead 2", "--look-ahead 9"), draw_update(),
            PICK("", "--chunk-size 4KiB", "--chunk-size 16KiB"),
            PICK("--policy opt", "--policy lru", "--policy fifo"), PICK("none", "all", "0,2"),
            width > 1 || bf16 ? "" : PICK("", "", "--host-embedding"),
            PICK("", "--save-every 3 --save stages"));
        write_model(folder, data);
        compare(folder, stages * width, job, placement);
    }
}

/* Stages of two parts each, of one rank or two, whose evaluations pass through both parts. */
static void test_interleaved(struct run_folder *folder, gconstpointer data)
{
    for (uint32_t width = 1; width < 3; width++) {
        if (!draws_row(1, 2))
            continue;
        g_autofree char *job = g_strdup_printf(
            STEPS "--micro-batches %d --clip %s %s --seed %d %s ",
            (gint32)(2 * width) * g_test_rand_int_range(1, 4), PICK("0", "1"),
            PICK("", "--delay 1", "--precision bf16"), g_test_rand_int_range(0, 1000),
            PICK("", "--held-out 0.2 --eval-every 1 --sample 5"));
        g_autofree char *placement = g_strdup_printf(
            "--stages 2 --schedule interleaved --stage-parts 2 --stage %s %s %s %s %s "
            "--recompute %s %s ",
            PICK("2", "3"), PICK("", "--look-ahead 9"), draw_update(),
            PICK("", "--chunk-size 4KiB", "--chunk-size 16KiB"),
            PICK("--policy opt", "--policy lru", "--policy fifo"), PICK("none", "all", "0,2"),
            PICK("", "", "--offload-activations all"));
        write_model(folder, data);
        compare(folder, 2 * width, job, placement);
    }
}

/* Frozen tensors and adapters, in every schedule. Tied weights, `data`, are frozen. */
static void test_trained(struct run_folder *folder, gconstpointer data)
{
    static const struct {
        uint32_t processes;
        const char *job, *placement;
    } runs[] = {
        {4, "--micro-batches 6 --clip 1 --train lora:3 ", "--stages 2 --stage 3 "},
        {4, "--micro-batches 6 --delay 1 --clip 0 --precision bf16 --train lora:3 ",
         "--stages 2 --schedule 2bw "},
        {2, "--micro-batches 4 --delay 1 --clip 1 --train '*.0.*,ln_f.*' ",
         "--stages 2 --schedule 2bw --recompute all "},
        {2, "--micro-batches 4 --clip 1 --train 'wpe.*,*.mlp.*' ",
         "--stages 2 --schedule interleaved --host-update "},
    };
    g_autofree char *config = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": 48, \"n_head\": 2, "
        "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": %s}",
        LAYERS, (const char *)data);
    run_folder_write(folder, "config.json", config);
    for (size_t i = 0; i < G_N_ELEMENTS(runs); i++) {
        if (!draws_row(1, G_N_ELEMENTS(runs)))
            continue;
        g_autofree char *job = g_strconcat(STEPS, runs[i].job, NULL);
        compare(folder, runs[i].processes, job, runs[i].placement);
    }
}

/* 50 steps in fp32, with one rank a stage. */
static void test_endless_steps(struct run_folder *folder, gconstpointer data)
{
    const char *const job = "--steps 50 --micro-batches 4 --clip 0.2 --weight-decay 0.3 ";
    g_autofree char *alone = g_strconcat(job, "--delay 1 --log one.jsonl --save one", NULL);
    g_autofree char *stages =
        g_strconcat(job, "--stages 3 --schedule 2bw --log stages.jsonl --save all", NULL);
    write_model(folder, data);
    launch_must_run(folder, 1, alone);
    launch_must_run(folder, 3, stages);
    run_folder_same_log(folder, "one.jsonl", "stages.jsonl", "loss");
    saved_must_be_same(folder, "one", "all");
}

/* Stages, of one rank or two, go on where others, or one process, have stopped. */
static void test_endless_resume(struct run_folder *folder, gconstpointer data)
{
    const char *const job = "--schedule-steps 50 --micro-batches 4 --clip 0.2 --weight-decay 0.3 "
                            "--delay 1 ";
    g_autofree char *alone = g_strconcat(job, data, " --steps 50 --save one", NULL);
    g_autofree char *first = g_strconcat(job, data,
                                         " --steps 11 --stages 2 --schedule 2bw "
                                         "--save a",
                                         NULL);
    write_model(folder, "true");
    launch_must_run(folder, 1, alone);
    launch_must_run(folder, 4, first);
    launch_must_run(folder, 4, "--steps 20 --resume a --stages 4 --schedule 2bw --save b");
    launch_must_run(folder, 1, "--steps 25 --resume b --save c");
    launch_must_run(folder, 3, "--steps 30 --resume c --save d --stages 3 --schedule 1f1b");
    launch_must_run(folder, 4,
                    "--steps 40 --resume d --save e --stages 2 --schedule 2bw --stage 3");
    launch_must_run(folder, 2, "--steps 50 --resume e --save f --stages 2 --schedule 2bw");
    saved_must_be_same(folder, "one", "f");
}

/* A checkpoint goes on with any number of stages and of ranks in each. */
static void test_resume(struct run_folder *folder, gconstpointer data)
{
    write_model(folder, data);
    launch_must_run(folder, 1, "--steps 8 --micro-batches 4 --save one");
    launch_must_run(folder, 2,
                    "--steps 2 --schedule-steps 8 --micro-batches 4 --stages 2 --save a");
    launch_must_run(folder, 4, "--steps 4 --resume a --stages 4 --save b");
    launch_must_run(folder, 4, "--steps 6 --resume b --save c --stage 3 --stages 2");
    launch_must_run(folder, 3, "--steps 8 --resume c --save d --stages 3 --schedule gpipe");
    saved_must_be_same(folder, "one", "d");
}

/* Evaluation and sampling, whose results the last stage has. */
static void test_forward_passes(struct run_folder *folder, gconstpointer data)
{
    const char *const job = STEPS "--micro-batches 4 --held-out 0.2 --eval-every 1 --sample 9 ";
    g_autofree char *alone = g_strconcat(job, "--log one.jsonl", NULL);
    g_autofree char *several = g_strconcat(job, "--log stages.jsonl --stages 3", NULL);
    write_model(folder, data);
    json_t *one = launch_json(folder, 1, alone), *other = launch_json(folder, 3, several);
    run_folder_same_log(folder, "one.jsonl", "stages.jsonl", "eval_loss");
    g_assert_cmpuint(json_array_size(json_object_get(one, "sample")), >, 9);
    g_assert_true(json_equal(json_object_get(one, "sample"), json_object_get(other, "sample")));
    json_decref(one);
    json_decref(other);
    /* What a step begins with is gathered again after an evaluation. */
    compare_with(0, folder, 4, job, "--stages 2 --stage 3 --look-ahead 9 --chunk-size 4KiB ");
}

/* A run with the plans that another has written places, moves and computes the same. */
static void test_plans(struct run_folder *folder, gconstpointer data)
{
    for (uint32_t width = 1; width < 3; width++) {
        if (!draws_row(1, 2))
            continue;
        uint32_t stages = width > 1 ? 2 : (uint32_t)g_test_rand_int_range(2, LAYERS + 1);
        g_autofree char *job = draw_job(), *layers = launch_draw_layers(LAYERS, stages);
        g_autofree char *cut = g_strdup_printf("%s %s --stage %s --schedule %s ", job, layers,
                                               PICK("2", "3"), PICK("1f1b", "gpipe", "zb-h1"));
        g_autofree char *placed =
            g_strdup_printf("%s %s %s %s --recompute %s %s %s %s", cut, PICK("", "--look-ahead 9"),
                            draw_update(), PICK("", "--chunk-size 4KiB", "--chunk-size 16KiB"),
                            PICK("none", "all", "0,2"), PICK("", "", "--offload-activations all"),
                            width > 1 ? "" : PICK("", "", "--host-embedding"),
                            width > 1 ? "" : PICK("", "--state-block 1024", "--state-block auto"));
        write_model(folder, data);
        json_t *loose = launch_look(folder, stages * width, placed);
        g_autofree char *fitted =
            g_strdup_printf("%s --device-memory %lld --emit-plan plan-%%s.json", placed,
                            memory_at(loose, g_test_rand_double()));
        g_autofree char *planned =
            g_strconcat(cut, "--nvme . --plan plan-%s.json --log stages.jsonl --save stages", NULL);
        g_autofree char *one = g_strconcat(job, "--log one.jsonl --save one", NULL);
        g_test_message("%u stages of %u: %s", stages, width, fitted);
        json_t *dry = launch_look(folder, stages * width, fitted);
        launch_must_run(folder, 1, one);
        json_t *run = launch_json(folder, stages * width, planned);
        run_folder_same_log(folder, "one.jsonl", "stages.jsonl", "loss");
        saved_must_be_same(folder, "one", "stages");
        check_rows(dry, run);
        json_decref(loose);
        json_decref(dry);
        json_decref(run);
    }
}

/* Returns the host memory of the stage that takes the most. */
static json_int_t most_host_bytes(const struct run_folder *folder, uint32_t processes,
                                  const char *options)
{
    json_t *dry = launch_look(folder, processes, options);
    const json_t *rows = json_object_get(dry, "stages");
    json_int_t most = 0;
    for (size_t s = 0; s < json_array_size(rows); s++)
        most = MAX(most,
                   json_integer_value(json_object_get(json_array_get(rows, s), "host_bytes")));
    json_decref(dry);
    return most;
}

/* Within a budget of the host, each stage keeps as many states in NVMe as it must, and the table
 * of the stages says how many bytes these are. */
static void test_nvme(struct run_folder *folder, gconstpointer data)
{
    for (uint32_t width = 1; width < 3; width++) {
        if (!draws_row(1, 2))
            continue;
        g_autofree char *job = draw_job(), *text = NULL;
        g_autofree char *one = g_strconcat(job, "--log one.jsonl --save one", NULL);
        g_autofree char *above = g_strconcat(
            job, "--stages 2 --host-update --chunk-size 4KiB --device-memory 4MiB ", NULL);
        g_autofree char *below = g_strconcat(above, "--nvme . --nvme-memory 64MiB ", NULL);
        write_model(folder, data);
        json_int_t most = most_host_bytes(folder, 2 * width, above);
        json_int_t least = most_host_bytes(folder, 2 * width, below);
        json_int_t each = least + (json_int_t)(g_test_rand_double() * (double)(most - least));
        g_autofree char *fitted =
            g_strdup_printf("%s --log stages.jsonl --save stages --host-memory %lld ", below,
                            (long long)(2 * width * each));
        g_test_message("%u processes: %s", 2 * width, fitted);
        json_t *dry = launch_look(folder, 2 * width, fitted);
        launch_must_run(folder, 1, one);
        json_t *run = launch_json(folder, 2 * width, fitted);
        run_folder_same_log(folder, "one.jsonl", "stages.jsonl", "loss");
        saved_must_be_same(folder, "one", "stages");
        check_rows(dry, run);
        g_autofree char *shown = g_strconcat(below, "--dry-run", NULL);
        g_assert_cmpint(launch_run(folder, 2 * width, shown, &text, NULL), ==, 0);
        run_folder_expect(text, "host          NVMe          sent");
        json_decref(dry);
        json_decref(run);
    }
}

/* A stage that dies within its first steps ends all. */
static void test_death(struct run_folder *folder, gconstpointer data)
{
    write_model(folder, "false");
    g_autofree char *options = g_strconcat("--steps 1000000 --micro-batches 4 --stages 3 ", data,
                                           NULL);
    g_auto(GStrv) program = run_folder_command(options);
    g_autofree char *line = g_strjoinv(" ", program), *err = NULL;
    g_autofree char *all =
        g_strdup_printf("mpirun --oversubscribe -n 3 sh -c '[ $OMPI_COMM_WORLD_RANK != 1 ] || "
                        "{ (sleep 1; kill -9 $$) & }; exec %s'",
                        line);
    g_auto(GStrv) command = NULL;
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, &err), !=, 0);
    run_folder_expect(err, "Killed");
}

/* Adds the test; with sanitizers, which start slowly, a third of all. */
static void add(const char *path, const void *data,
                void (*test)(struct run_folder *folder, gconstpointer data))
{
    if (draws_row(UNLESS_SANITIZED(3, 1), 3))
        g_test_add(path, struct run_folder, data, run_folder_set_up, test, run_folder_tear_down);
}

/* Adds a test of a model whose embedding is tied, and of one whose is not. */
static void add_both(const char *path, void (*test)(struct run_folder *folder, gconstpointer data))
{
    g_autofree char *of_tied = g_strconcat(path, "/tied", NULL);
    if (draws_row(1, 2))
        add(path, "false", test);
    if (draws_row(1, 2))
        add(of_tied, "true", test);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!launch_prepare())
        return 77;
    add_both("/stages/bits", test_bits);
    add("/stages/host-embedding", NULL, test_host_embedding);
    add("/stages/experts", NULL, test_experts);
    add_both("/stages/trained", test_trained);
    add("/stages/resume", "true", test_resume);
    add("/stages/forward", "true", test_forward_passes);
    add_both("/stages/plans", test_plans);
    add_both("/stages/nvme", test_nvme);
    add_both("/stages/interleaved", test_interleaved);
    add_both("/stages/endless", test_endless);
    add("/stages/endless/steps", "true", test_endless_steps);
    if (draws_row(1, 2))
        add("/stages/endless/resume", "", test_endless_resume);
    if (draws_row(1, 2))
        add("/stages/endless/resume/bf16", "--precision bf16", test_endless_resume);
    add("/stages/death", "", test_death);
    add("/stages/death/endless", "--schedule 2bw", test_death);
    return g_test_run();
}
