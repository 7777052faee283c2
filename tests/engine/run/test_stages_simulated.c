/* What the simulator says that each stage of a pipeline moves, sends and holds is what its process
 * counts under mpirun, whatever lies where. It cuts the trace of the whole model itself, or gets
 * the collected trace of each stage. */
#include "launch.h"

enum { LAYERS = 4, DRAWS = 5, ENDLESS = 2 };

struct drawn {
    uint32_t stages, width;
    char *job;       /* of pstar-run and of pstar-trace synth */
    char *placement; /* of pstar-run and of pstar-sim */
    char *schedule;  /* of both */
};

static void write_model(const struct run_folder *folder)
{
    g_autofree char *text = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": %s, \"n_head\": 2, "
        "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": %s, "
        "\"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}",
        LAYERS, PICK("32", "48", "80"), PICK("true", "false"));
    run_folder_write(folder, "config.json", text);
}

/* A pipeline that never drains. Its activations stay. */
static struct drawn draw_endless(uint32_t width)
{
    bool bf16 = g_test_rand_int_range(0, 2);
    struct drawn d = {.width = width,
                      .stages = (uint32_t)g_test_rand_int_range(2, width > 1 ? 4 : LAYERS + 1)};
    d.job = g_strdup_printf(
        "--batch 2 --seq 16 --micro-batches %d %s --precision %s --recompute %s %s %s",
        (gint32)width * g_test_rand_int_range(LAYERS, 9),
        width > 1 ? PICK("--stage 2", "--stage 3") : "", bf16 ? "bf16" : "fp32",
        PICK("none", "all", "0,2"), PICK("", "--host-update"),
        width > 1 || bf16 ? "" : PICK("", "", "--host-embedding"));
    g_autofree char *layers = launch_draw_layers(LAYERS, d.stages);
    d.schedule = g_strdup_printf("%s --schedule 2bw", layers);
    return d;
}

static struct drawn draw_drained(uint32_t width)
{
    struct drawn d = {.width = width,
                      .stages = (uint32_t)g_test_rand_int_range(2, width > 1 ? 4 : LAYERS + 1)};
    const char *shares = width > 1 ? PICK("--stage 2", "--stage 3") : "";
    d.job = g_strdup_printf(
        "--batch 2 --seq 16 --micro-batches %d %s %s %s --recompute %s %s %s",
        2 * g_test_rand_int_range(3, 6), shares,
        PICK("--precision fp32", "--precision bf16", "--precision bf16 --bytes-per-parameter 16"),
        PICK("", "--host-update"), PICK("none", "all", "0,2"),
        PICK("", "", "--offload-activations all"),
        width > 1 ? "" : PICK("", "", "--host-embedding"));
    g_autofree char *layers = launch_draw_layers(LAYERS, d.stages);
    bool may_interleave = width == 1 && d.stages == 2;
    d.schedule = may_interleave && g_test_rand_int_range(0, 2)
                     ? g_strdup("--stages 2 --schedule interleaved --stage-parts 2")
                     : g_strdup_printf("%s --schedule %s", layers, PICK("1f1b", "gpipe", "zb-h1"));
    return d;
}

static struct drawn draw(bool endless, uint32_t width)
{
    struct drawn d = endless ? draw_endless(width) : draw_drained(width);
    d.placement = g_strdup_printf("--chunk-size %s --policy %s --look-ahead %s",
                                  PICK("4KiB", "16KiB", "64KiB"), PICK("opt", "lru", "fifo"),
                                  PICK("0", "2", "9"));
    return d;
}

static void clear(struct drawn *d)
{
    g_free(d->job);
    g_free(d->placement);
    g_free(d->schedule);
}

/* Runs a program of the build with options in the folder. */
static void must_run(const struct run_folder *folder, const char *program, const char *options)
{
    g_autofree char *line = g_strdup_printf(PROGRAM_DIR "/%s %s", program, options);
    g_autofree char *err = NULL;
    g_auto(GStrv) command = NULL;
    g_assert_true(g_shell_parse_argv(line, NULL, &command, NULL));
    int status = run_folder_spawn(folder, command, NULL, NULL, NULL, &err);
    if (status != 0)
        g_error("%s: status %d: %s", line, status, err);
}

/* Returns device memory between what the neediest stage needs and what the largest could use. */
static long long draw_memory(const json_t *look)
{
    json_int_t least = 0, most = 0;
    const json_t *rows = json_object_get(look, "stages");
    for (size_t s = 0; s < json_array_size(rows); s++) {
        const json_t *row = json_array_get(rows, s);
        least = MAX(least, json_integer_value(json_object_get(row, "least_device_bytes")));
        most = MAX(most, json_integer_value(json_object_get(row, "device_bytes")));
    }
    return least + (json_int_t)(g_test_rand_double() * (double)(most - least));
}

static void check_stages(const struct run_folder *folder, const json_t *run)
{
    const char *const keys[] = {
        "first_layer", "layers",          "in_flight",         "device_bytes",
        "host_bytes",  "sent_bytes",      "received_bytes",    "h2d_bytes",
        "d2h_bytes",   "h2d_copies",      "d2h_copies",        "evictions",
        "moves",       "moved_bytes",     "peak_device_bytes", "peak_live_device_bytes",
        "gathers",     "peak_host_bytes",
    };
    json_t *sweep = run_folder_json(folder, "sweep.json");
    const json_t *row = json_array_get(json_object_get(sweep, "results"), 0);
    const json_t *simulated = json_object_get(row, "stages"),
                 *measured = json_object_get(run, "stages");
    g_assert_cmpuint(json_array_size(simulated), ==, json_array_size(measured));
    for (size_t s = 0; s < json_array_size(measured); s++)
        for (size_t k = 0; k < G_N_ELEMENTS(keys); k++) {
            json_int_t a =
                json_integer_value(json_object_get(json_array_get(simulated, s), keys[k]));
            json_int_t b =
                json_integer_value(json_object_get(json_array_get(measured, s), keys[k]));
            if (a != b)
                g_error("stage %zu: %s: simulated %lld, counted %lld", s, keys[k], (long long)a,
                        (long long)b);
        }
    json_decref(sweep);
}

static void simulate(const struct run_folder *folder, const char *traces, const char *placement)
{
    g_autofree char *options = g_strdup_printf("%s %s --json sweep.json", traces, placement);
    must_run(folder, "pstar-sim", options);
}

static void test_cut(struct run_folder *folder, G_GNUC_UNUSED gconstpointer data)
{
    for (int i = 0; i < DRAWS; i++) {
        struct drawn d = draw(i >= DRAWS - ENDLESS, i == 0 || i + 1 == DRAWS ? 2 : 1);
        g_autofree char *all = g_strdup_printf("--steps 3 %s %s %s", d.job, d.schedule,
                                               d.placement);
        write_model(folder);
        json_t *look = launch_look(folder, d.stages * d.width, all);
        g_autofree char *fitted = g_strdup_printf("%s --device-memory %lldB", d.placement,
                                                  draw_memory(look));
        g_autofree char *run_options = g_strdup_printf("--steps 3 %s %s %s", d.job, d.schedule,
                                                       fitted);
        g_test_message("%u ranks a stage: %s", d.width, run_options);
        g_autofree char *synth = g_strdup_printf("synth --model config.json %s --ranks %u -o "
                                                 "whole.pstar",
                                                 d.job, d.width);
        g_autofree char *cut = g_strdup_printf("whole.pstar %s", d.schedule);
        json_t *run = launch_json(folder, d.stages * d.width, run_options);
        must_run(folder, "pstar-trace", synth);
        simulate(folder, cut, fitted);
        check_stages(folder, run);
        json_decref(look);
        json_decref(run);
        clear(&d);
    }
}

/* The traces of the stages, named in any order. Of the ranks of a stage, the first is taken. */
static void test_collected(struct run_folder *folder, gconstpointer schedule)
{
    const char *const job = "--steps 4 --micro-batches 6 --chunk-size 16KiB";
    write_model(folder);
    g_autofree char *options = g_strdup_printf("%s --stages 3 --schedule %s", job,
                                               (const char *)schedule);
    g_auto(GStrv) program = run_folder_command(options);
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *collect = g_strdup_printf(
        "mpirun --oversubscribe -n 3 " PROGRAM_DIR "/pstar-collect -o stage-%%r.pstar -- %s", line);
    g_auto(GStrv) command = NULL;
    g_autofree char *err = NULL;
    g_assert_true(g_shell_parse_argv(collect, NULL, &command, NULL));
    int status = run_folder_spawn(folder, command, NULL, NULL, NULL, &err);
    if (status != 0)
        g_error("%s: status %d: %s", collect, status, err);
    json_t *look = launch_look(folder, 3, options);
    g_autofree char *fitted = g_strdup_printf("--chunk-size 16KiB --policy opt --device-memory "
                                              "%lldB",
                                              draw_memory(look));
    g_autofree char *tight = g_strdup_printf("%s %s", options, fitted);
    json_t *run = launch_json(folder, 3, tight);
    simulate(folder, "stage-2.pstar stage-0.pstar stage-1.pstar", fitted);
    json_decref(look);
    check_stages(folder, run);
    json_decref(run);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!launch_prepare())
        return 77;
    g_test_add("/stages_simulated/cut", struct run_folder, NULL, run_folder_set_up, test_cut,
               run_folder_tear_down);
    g_test_add("/stages_simulated/collected", struct run_folder, "1f1b", run_folder_set_up,
               test_collected, run_folder_tear_down);
    g_test_add("/stages_simulated/collected_2bw", struct run_folder, "2bw", run_folder_set_up,
               test_collected, run_folder_tear_down);
    return g_test_run();
}
