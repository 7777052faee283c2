/* pstar-plan --stages: its step is what pstar-sim says of the same stages, its file has all that
 * its table has, and what cannot be planned is refused with one line. */
#include "tests/drawn.h"
#include "workshop.h"

#include <math.h>
#include <string.h>

enum { USAGE = 2, DOES_NOT_FIT = 3 };

#define MODEL    PROJECT_DIR "/models/configs/gpt2.json"
#define PLATFORM PROJECT_DIR "/platforms/dgx-a100.json"

static json_t *plan(const struct workshop *workshop, const char *options)
{
    g_autofree char *line =
        g_strdup_printf("pstar-plan --platform " PLATFORM " --json answer.json %s", options);
    workshop_must_run(workshop, line);
    return workshop_read_json(workshop, "answer.json");
}

static json_int_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    g_assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static double real(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    g_assert_true(json_is_real(value));
    return json_real_value(value);
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    g_assert_nonnull(value);
    return value;
}

/* Returns the options that cut a model as the candidate does. The caller frees them with g_free. */
static char *cut_of(const json_t *candidate)
{
    GString *layers = g_string_new("--stage-layers ");
    json_t *stage;
    size_t s;
    json_array_foreach (json_object_get(candidate, "stages"), s, stage) {
        g_string_append_printf(layers, "%s%d", s ? "," : "", (int)number(stage, "layers"));
    }
    if (strcmp(text(candidate, "schedule"), "interleaved") == 0)
        g_string_printf(layers, "--stages %d --stage-parts %d", (int)number(candidate, "depth"),
                        (int)number(candidate, "stage_parts"));
    return g_string_free(layers, FALSE);
}

/* Simulates a candidate with everything resident, and compares its step and its memory. */
static void compare_at(const struct workshop *workshop, const json_t *candidate,
                       const char *precision, int sequence)
{
    g_autofree char *cut = cut_of(candidate);
    workshop_must_run_format(
        workshop,
        "pstar-trace synth --model " MODEL " --batch %d --micro-batches %d "
        "--seq %d --precision %s --recompute %s --platform " PLATFORM " -o run.pstar",
        (int)number(candidate, "micro_batch"), (int)number(candidate, "micro_batches"), sequence,
        precision, text(candidate, "recompute"));
    workshop_must_run_format(workshop,
                             "pstar-sim run.pstar --platform " PLATFORM
                             " --nodes 1 --device-memory 30GiB "
                             "--chunk-size 16MiB --policy opt %s --schedule %s --json sweep.json",
                             cut, text(candidate, "schedule"));
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    const json_t *row = json_array_get(json_object_get(sweep, "results"), 0);
    double seconds = real(row, "iteration_seconds");
    g_assert_cmpfloat(fabs(seconds - real(candidate, "step_seconds")), <, 2e-9);
    json_decref(sweep);
}

static void compare(const struct workshop *workshop, const json_t *candidate, const char *precision)
{
    compare_at(workshop, candidate, precision, 128);
}

static void test_simulated(void)
{
    struct workshop *workshop = workshop_new();
    const char *const jobs[] = {
        "--precision bf16 --schedule any --device-memory 2GiB",
        "--precision fp32 --schedule any",
        "--precision fp32 --schedule 2bw --device-memory 1500MiB",
        "--precision bf16 --schedule interleaved",
        "--precision bf16 --schedule zb-h1",
        "--precision fp32 --schedule interleaved --stage-parts 3 --device-memory 1400MiB",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        g_autofree char *options = g_strdup_printf(
            "--model " MODEL " --batch 1 --micro-batches 8 --seq 128 --gpus 4 --nodes 1 "
            "--stages 4 %s",
            jobs[i]);
        json_t *answer = plan(workshop, options);
        const json_t *candidates = json_object_get(answer, "candidates");
        const json_t *best = json_array_get(candidates, 0);
        double bound = real(answer, "bound_seconds"), step = real(best, "step_seconds");
        bool bf16 = strstr(jobs[i], "bf16") != NULL;
        const json_t *candidate;
        size_t c;
        g_assert_cmpfloat(bound, <=, step);
        g_assert_cmpfloat(step, <, 1.2 * bound);
        json_array_foreach (candidates, c, candidate) {
            bool fits = json_is_true(json_object_get(candidate, "fits"));
            bool timed = json_object_get(candidate, "step_seconds") != NULL;
            g_assert_true(c == 0 || json_is_string(json_object_get(candidate, "lost")));
            bool splits = strcmp(text(candidate, "schedule"), "zb-h1") == 0;
            const json_t *first = json_array_get(json_object_get(candidate, "stages"), 0);
            g_assert_cmpint(real(first, "weights_seconds") > 0, ==, splits);
            g_assert_cmpfloat(real(first, "weights_seconds"), <, real(first, "backward_seconds"));
            g_assert_true(!timed || fits);
            if (timed && (c < 2 || c + 1 == json_array_size(candidates)) &&
                !(bf16 &&
                  strcmp(json_string_value(json_object_get(candidate, "schedule")), "2bw") == 0))
                compare(workshop, candidate, bf16 ? "bf16" : "fp32");
        }
        json_decref(answer);
    }
    workshop_free(workshop);
}

static double traffic(const json_t *sweep, size_t r)
{
    const json_t *row = json_array_get(json_object_get(sweep, "results"), r);
    g_assert_true(json_is_true(json_object_get(row, "fits")));
    return (double)number(row, "h2d_bytes") + (double)number(row, "d2h_bytes");
}

/* ZeRO-Offload copies each gradient and each parameter once a step, so it moves as much in all
 * stages together as in one process. */
static void test_strategies(void)
{
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 64, \"n_embd\": 64,"
        " \"n_layer\": 4, \"n_head\": 4, \"tie_word_embeddings\": false}";
    static const char sim[] = "pstar-sim run.pstar --platform " PLATFORM
                              " --device-memory 1GiB --chunk-size 64KiB --strategy "
                              "zero-offload --json sweep.json";
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "model/config.json", config);
    workshop_must_run(workshop,
                      "pstar-trace synth --model model --batch 1 --micro-batches 4 --seq 64 "
                      "--precision bf16 --platform " PLATFORM " -o run.pstar");
    workshop_must_run(workshop, sim);
    json_t *whole = workshop_read_json(workshop, "sweep.json");
    const char *const schedules[] = {"1f1b", "gpipe"};
    for (size_t i = 0; i < G_N_ELEMENTS(schedules); i++) {
        workshop_must_run_format(workshop, "%s --stage-layers 1,2,1 --schedule %s", sim,
                                 schedules[i]);
        json_t *stages = workshop_read_json(workshop, "sweep.json");
        g_assert_cmpfloat(traffic(stages, 0), ==, traffic(whole, 0));
        json_decref(stages);
    }
    workshop_must_end(workshop,
                      "pstar-sim run.pstar --platform " PLATFORM
                      " --stages 2 --strategy zero3 --device-memory 1GiB",
                      USAGE, "", "stage of ZeRO of its own");
    json_decref(whole);
    workshop_free(workshop);
}

/* The best of several budgets is drawn, though the smallest fits nothing. No command is printed,
 * for none states the stages. */
static void test_reported(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model " MODEL " --batch 1 --micro-batches 4 "
                                "--seq 64 --precision fp32 --platform " PLATFORM " -o run.pstar");
    workshop_must_run(workshop,
                      "pstar-sim run.pstar --platform " PLATFORM
                      " --device-memory 1MiB,64GiB --stages 2 --policy opt --json s.json");
    g_autofree char *text = workshop_must_print(workshop, "pstar-report run.pstar s.json --text");
    g_assert_nonnull(strstr(text, "What each stage of the pipeline does when"));
    g_assert_null(strstr(text, "pstar-sim run.pstar"));
    g_assert_null(strstr(text, "pstar-plan run.pstar"));
    workshop_free(workshop);
}

/* A measured trace is planned for with its own times, and one micro-batch. */
static void test_traced(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model " MODEL " --batch 2 --micro-batches 8 --seq 128 "
                      "--precision fp32 --platform " PLATFORM " -o run.pstar");
    json_t *answer = plan(workshop, "run.pstar --gpus 2 --stages 2 --schedule 1f1b --nodes 1");
    const json_t *candidates = json_object_get(answer, "candidates");
    g_assert_cmpuint(json_array_size(candidates), ==, 1);
    g_assert_cmpint(number(json_array_get(candidates, 0), "micro_batch"), ==, 2);
    compare(workshop, json_array_get(candidates, 0), "fp32");
    json_decref(answer);
    answer = plan(workshop, "run.pstar --gpus 2 --stages any --micro-batch any");
    g_assert_cmpuint(json_array_size(json_object_get(answer, "candidates")), >, 4);
    json_decref(answer);
    workshop_free(workshop);
}

/* Frozen tensors have no gradients, no states and no sums. */
static void test_frozen(void)
{
    struct workshop *workshop = workshop_new();
    const char *const jobs[] = {"bf16 --train lora:4", "fp32 --train '*.mlp.*'",
                                "bf16 --train '*.weight'"};
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        workshop_must_run_format(workshop,
                                 "pstar-trace synth --model " MODEL " --batch 1 --micro-batches 4 "
                                 "--seq 64 --precision %s --platform " PLATFORM " -o run.pstar",
                                 jobs[i]);
        json_t *answer = plan(workshop, "run.pstar --gpus 2 --stages 2 --schedule any --nodes 1");
        const json_t *candidates = json_object_get(answer, "candidates"), *candidate;
        size_t c;
        g_assert_cmpuint(json_array_size(candidates), >, 4);
        json_array_foreach (candidates, c, candidate) {
            bool endless = strcmp(text(candidate, "schedule"), "2bw") == 0;
            if (json_object_get(candidate, "step_seconds") && !endless)
                compare_at(workshop, candidate, jobs[i], 64);
        }
        g_autofree char *of_model = g_strdup_printf(
            "--model " MODEL " --batch 1 --micro-batches 4 --micro-batch traced --seq 64 "
            "--gpus 2 --stages 2 --nodes 1 --precision %s",
            jobs[i]);
        json_t *same = plan(workshop, of_model);
        const json_t *other = json_object_get(same, "candidates");
        g_assert_cmpfloat(real(json_array_get(candidates, 0), "step_seconds"), ==,
                          real(json_array_get(other, 0), "step_seconds"));
        json_decref(same);
        json_decref(answer);
    }
    workshop_free(workshop);
}

/* ---- the printed command ---- */

static bool can_launch(void)
{
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    return mpirun && g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS);
}

/* Returns the command that the plan prints for a small model, but for the CPU device, with a text
 * to train on, one step and the rate. */
static char *planned_command(const struct workshop *workshop, const char *options)
{
    g_autofree char *line = g_strdup_printf(
        "pstar-plan --model model --platform " PLATFORM " --gpus 2 --nodes 1 --stages 2 --batch 1 "
        "--micro-batches 4 --micro-batch traced --seq 32 --precision fp32 %s",
        options);
    g_autofree char *answer = workshop_must_print(workshop, line);
    const char *command = strstr(answer, "\nmpirun -n ");
    g_assert_nonnull(command);
    g_autoptr(GString) full = g_string_new(command + 1);
    g_string_truncate(full, (gsize)(strstr(full->str, "--data TEXT") - full->str));
    g_assert_cmpuint(g_string_replace(full, " --device cuda", "", 0), ==, 1);
    g_string_append(full, "--data text.txt --steps 1 --log run.jsonl");
    return g_strdup(full->str);
}

/* What is printed trains, with every schedule, with as many parts as the plan has and as many ranks
 * a stage, and the losses are those of 1f1b. */
static void test_command(void)
{
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 32, \"n_embd\": 32,"
        " \"n_layer\": 6, \"n_head\": 4}";
    static const char *const options[] = {"--schedule 1f1b",
                                          "--schedule gpipe",
                                          "--schedule 2bw",
                                          "--schedule interleaved",
                                          "--schedule interleaved --stage-parts 3",
                                          "--micro-batch traced",
                                          "--gpus 4 --schedule 1f1b",
                                          "--gpus 4 --schedule 2bw",
                                          "--gpus 4 --schedule zb-h1",
                                          "--stages 1"};
    struct workshop *workshop = workshop_new();
    g_autoptr(GString) data = g_string_new(NULL);
    double first = NAN;
    if (!can_launch()) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        workshop_free(workshop);
        return;
    }
    for (int i = 0; i < 200; i++)
        g_string_append_printf(data, "line %d of a text to train on\n", i * i);
    workshop_write(workshop, "model/config.json", config);
    workshop_write(workshop, "text.txt", data->str);
    for (size_t i = 0; i < G_N_ELEMENTS(options); i++) {
        g_autofree char *command = planned_command(workshop, options[i]);
        workshop_must_run(workshop, command);
        json_t *step = workshop_read_json(workshop, "run.jsonl");
        double loss = real(step, "loss");
        g_assert_true(isnan(first) || loss == first);
        first = loss;
        json_decref(step);
    }
    workshop_free(workshop);
}

/* Stages that are larger than their devices train with the plans that are written, and every stage
 * moves as much as the answer says, and takes as much memory. So do stages that fit, with plans. */
static void test_plans(void)
{
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 32, \"n_embd\": 64,"
        " \"n_layer\": 4, \"n_head\": 4, \"tie_word_embeddings\": false}";
    static const struct {
        const char *options, *part;
    } asked[] = {{"--device-memory 1500KiB --precision fp32", "moving"},
                 {"--device-memory 1MiB --precision bf16 --schedule 1f1b", "moving"},
                 {"--device-memory 1300KiB --precision fp32 --schedule 2bw", "moving"},
                 {"--device-memory 1MiB --precision bf16 --schedule interleaved", "moving"},
                 {"--device-memory 900KiB --precision bf16 --schedule 2bw", "moving"},
                 {"--device-memory 1GiB --precision fp32 --schedule 2bw", "plans"},
                 {"--device-memory 1GiB --precision bf16 --schedule 2bw", "plans"},
                 {"--device-memory 1GiB --precision fp32 --schedule gpipe", "plans"},
                 {"--gpus 4 --device-memory 1MiB --precision fp32", "moving"},
                 {"--gpus 4 --device-memory 800KiB --precision bf16 --schedule 1f1b", "moving"},
                 {"--gpus 4 --device-memory 1GiB --precision bf16 --schedule 1f1b", "plans"},
                 {"--gpus 4 --device-memory 1GiB --precision fp32 --schedule 2bw", "plans"},
                 {"--gpus 4 --device-memory 900KiB --precision fp32 --schedule 2bw", "moving"}};
    static const char *const keys[] = {"device_bytes", "host_bytes", "h2d_bytes",
                                       "d2h_bytes",    "evictions",  "peak_device_bytes",
                                       "sent_bytes"};
    struct workshop *workshop = workshop_new();
    if (!can_launch()) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        workshop_free(workshop);
        return;
    }
    g_autoptr(GString) data = g_string_new(NULL);
    for (int i = 0; i < 200; i++)
        g_string_append_printf(data, "line %d of a text to train on\n", i * i);
    workshop_write(workshop, "model/config.json", config);
    workshop_write(workshop, "text.txt", data->str);
    for (size_t i = 0; i < G_N_ELEMENTS(asked); i++) {
        if (!draws_row(3, G_N_ELEMENTS(asked)))
            continue;
        g_autofree char *options = g_strdup_printf("%s -o plan-%%s.json --json answer.json",
                                                   asked[i].options);
        g_autofree char *command = planned_command(workshop, options);
        g_autofree char *run = g_strdup_printf("%s --json", command);
        g_autofree char *printed = workshop_must_print(workshop, run);
        json_t *answer = workshop_read_json(workshop, "answer.json");
        json_t *measured = json_loads(strchr(printed, '{'), 0, NULL);
        const json_t *moving = json_object_get(answer, asked[i].part);
        const json_t *planned = json_object_get(moving, "stages");
        const json_t *counted = json_object_get(measured, "stages");
        g_assert_cmpuint(json_array_size(planned), ==, 2);
        for (size_t s = 0; s < 2; s++)
            for (size_t k = 0; k < G_N_ELEMENTS(keys); k++)
                g_assert_cmpint(number(json_array_get(planned, s), keys[k]), ==,
                                number(json_array_get(counted, s), keys[k]));
        g_assert_true(strcmp(asked[i].part, "plans") == 0 ||
                      real(moving, "bound_seconds") <= real(moving, "step_seconds"));
        json_decref(answer);
        json_decref(measured);
    }
    workshop_free(workshop);
}

static void test_refusals(void)
{
    static const struct {
        const char *options, *why;
        int status;
    } refused[] = {
        {"--stages 13 --gpus 13 --batch 1 --micro-batches 26", "the model has only 12 layers",
         USAGE},
        {"--stages 4 --gpus 6 --batch 1 --micro-batches 8", "must be a multiple of the 4 stages",
         USAGE},
        {"--stages four --gpus 4 --batch 1 --micro-batches 8", "must be any, or how many", USAGE},
        {"--stages 4 --batch 1 --micro-batches 8", "needs --gpus", USAGE},
        {"--stages 4 --gpus 4", "takes --batch and --micro-batches", USAGE},
        {"--stages 4 --gpus 4 --nodes 3 --batch 1 --micro-batches 8", "nodes", USAGE},
        {"--stages 4 --gpus 4 --batch 1 --micro-batches 8 --explain p", "--explain: not with",
         USAGE},
        {"--schedule 1f1b --batch 1", "go with --stages", USAGE},
        {"--stages 4 --gpus 4 --batch 1 --micro-batches 8 --stage-parts 2",
         "goes with --schedule interleaved", USAGE},
        {"--stages 4 --gpus 4 --batch 1 --micro-batches 8 --schedule interleaved --stage-parts 4",
         "12 layers are too few for 4 GPUs in 4 stages", USAGE},
        {"--stages 2 --gpus 2 --batch 1 --micro-batches 8 --device-memory 200MiB",
         "of device memory, ", DOES_NOT_FIT},
        {"--stages any --gpus 8 --batch 1 --micro-batches 64 --device-memory 100MiB",
         "less may do with more GPUs; ", DOES_NOT_FIT},
        {"--stages 2 --gpus 4 --batch 1 --micro-batches 8 --device-memory 100MiB --recompute "
         "traced --reduction fast",
         "less may do with more GPUs, more stages or recomputation; with --reduction fast chunks "
         "come and go within "
         "stages of one GPU only, as --stages 4 would make them",
         DOES_NOT_FIT},
        {"--stages 1 --gpus 2 --batch 1 --micro-batches 8 --device-memory 100MiB",
         "nothing fits: with 1 stage of 2 GPUs and micro-batches of 1, stage 0 ", DOES_NOT_FIT},
        {"--stages 2 --gpus 2 --batch 1 --micro-batches 8 --device-memory 100MiB",
         "with chunks that come and go, ", DOES_NOT_FIT},
        {"--stages 2 --gpus 8 --batch 1 --micro-batches 64 --device-memory 200MiB --reduction fast",
         "within stages of one GPU only", DOES_NOT_FIT},
        {"--stages 2 --gpus 2 --batch 1 --micro-batches 8 -o plan.json",
         "\"%s\" in the name stands for the stage's number", USAGE},
        {"--stages 2 --gpus 2 --batch 1 --micro-batches 8 --train 'lm_head.*'", "--train", USAGE},
        {"--stages 2 --gpus 2 --batch 1 --micro-batches 8 --train 'wte.*'",
         "train something in every layer", USAGE},
        {"--stages 2 --gpus 4 --batch 1 --micro-batches 8 --reduction fast -o plan-%s.json",
         "plans are written for several stages of one GPU", USAGE},
        {"--stages 1 --gpus 2 --batch 1 --micro-batches 8 -o plan-%s.json",
         "--gpus without --stages plans one stage", USAGE},
    };
    struct workshop *workshop = workshop_new();
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autofree char *line = g_strdup_printf(
            "pstar-plan --quiet --model " MODEL " --platform " PLATFORM " %s", refused[i].options);
        struct outcome outcome = workshop_run(workshop, line);
        const char *end = strchr(outcome.err, '\n');
        if (outcome.status != refused[i].status || !strstr(outcome.err, refused[i].why))
            g_error("%s: status %d, %s", line, outcome.status, outcome.err);
        g_assert_true(end && !end[1]);
        outcome_clear(&outcome);
    }
    /* Who asks for plans that are not written gets the answer nevertheless. */
    g_autofree char *answer = workshop_path(workshop, "answer.json");
    workshop_must_end(workshop,
                      "pstar-plan --model " MODEL " --platform " PLATFORM
                      " --stages 2 --gpus 4 --batch 1 --micro-batches 8 --reduction fast "
                      "-o plan-%s.json --json answer.json",
                      USAGE, "No cut of any of ", "plans are written for several stages");
    g_assert_true(g_file_test(answer, G_FILE_TEST_EXISTS));
    workshop_must_run(workshop, "pstar-trace synth --model model --train '*.0.*' --batch 1 --seq "
                                "16 --precision bf16 --platform " PLATFORM " -o some.pstar");
    workshop_must_end(workshop, "pstar-plan some.pstar --stages 2 --gpus 2 --platform " PLATFORM,
                      USAGE, "",
                      "plans of stages train something in every layer, so far, and some.pstar does "
                      "not");
    workshop_free(workshop);
}

/* Returns the one figure that the refusal says would fit. */
static guint64 what_fits(const char *refusal)
{
    static const char fits[] = " bytes would fit";
    const char *at = strstr(refusal, fits);
    g_assert_nonnull(at);
    g_assert_null(strstr(at + strlen(fits), "would fit"));
    while (g_ascii_isdigit(at[-1]))
        at--;
    return g_ascii_strtoull(at, NULL, 10);
}

/* What a refusal says would fit does fit, to the byte, whatever the sizes round to. Where chunks do
 * not move, nothing less fits. */
static void test_fits(void)
{
    struct workshop *workshop = workshop_new();
    for (int i = 0; i < draws(3, 20); i++) {
        int stages = g_test_rand_int_range(1, 4), width = g_test_rand_int_range(1, 4);
        bool fast = g_test_rand_bit(), moves = stages > 1 && (width == 1 || !fast);
        g_autofree char *config = g_strdup_printf(
            "{\"model_type\": \"gpt2\", \"n_layer\": 4, \"n_embd\": %d, \"n_head\": 1, "
            "\"n_positions\": 32, \"vocab_size\": %d, \"tie_word_embeddings\": %s}",
            g_test_rand_int_range(20, 90), g_test_rand_int_range(200, 400),
            g_test_rand_bit() ? "true" : "false");
        g_autofree char *line = g_strdup_printf(
            "pstar-plan --quiet --model model --platform " PLATFORM
            " --stages %d --gpus %d --batch 1 --micro-batches %d --seq %d --precision %s "
            "--reduction %s",
            stages, stages * width, stages * width, g_test_rand_int_range(4, 33),
            g_test_rand_bit() ? "bf16" : "fp32", fast ? "fast" : "exact");
        g_autofree char *little = g_strdup_printf("%s --device-memory %dB", line,
                                                  g_test_rand_int_range(1000, 90000));
        workshop_write(workshop, "model/config.json", config);
        struct outcome outcome = workshop_run(workshop, little);
        if (outcome.status == 0) { /* chunks come and go */
            g_assert_true(moves);
            outcome_clear(&outcome);
            continue;
        }
        g_assert_cmpint(outcome.status, ==, DOES_NOT_FIT);
        guint64 bytes = what_fits(outcome.err);
        workshop_must_run_format(workshop, "%s --device-memory %" G_GUINT64_FORMAT "B", line,
                                 bytes);
        g_autofree char *less = g_strdup_printf("%s --device-memory %" G_GUINT64_FORMAT "B", line,
                                                bytes - 1);
        if (!moves)
            workshop_must_end(workshop, less, DOES_NOT_FIT, "", "1 B more than the budget");
        outcome_clear(&outcome);
    }
    workshop_free(workshop);
}

/* A search of stages that has no time left takes the first plans that there are, says so, and
 * claims nothing of the shapes that it has not seen. */
static void test_time_limit(void)
{
    struct workshop *workshop = workshop_new();
    static const char ask[] =
        "pstar-plan --model model --platform " PLATFORM " --gpus 2 --nodes 1 --stages 2 --batch 1 "
        "--micro-batches 4 --micro-batch traced --seq 32 --precision fp32 --device-memory 400kB "
        "--json answer.json";
    double bound = 0;
    workshop_write(workshop, "model/config.json",
                   "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 32, "
                   "\"n_embd\": 32, \"n_layer\": 4, \"n_head\": 4}");
    for (int limited = 0; limited < 2; limited++) {
        g_autofree char *command = g_strconcat(ask, limited ? " --time-limit 0.001" : "", NULL);
        g_autofree char *answer = workshop_must_print(workshop, command);
        json_t *json = workshop_read_json(workshop, "answer.json");
        const json_t *moving = json_object_get(json, "moving");
        const json_t *proved = json_object_get(moving, "bound_seconds");
        g_assert_cmpint(strstr(answer, "stopped early") != NULL, ==, limited);
        g_assert_cmpint(json_is_true(json_object_get(moving, "stopped")), ==, limited);
        if (limited) {
            g_assert_cmpfloat(json_number_value(json_object_get(moving, "step_seconds")), >=,
                              bound);
            g_assert_null(proved);
            g_assert_nonnull(strstr(answer, "is not known"));
        } else {
            bound = json_number_value(proved);
            g_assert_cmpfloat(bound, >, 0);
        }
        json_decref(json);
    }
    workshop_free(workshop);
}

/* A step that no pipeline can share is refused with the least number of micro-batches that does,
 * from the one that was asked for. */
static void test_remedies(void)
{
    static const struct {
        const char *options;
        int asked, least;
    } refused[] = {
        {"--stages any --gpus 4 --batch 1 --micro-batch traced", 1, 4},
        {"--stages any --gpus 6 --batch 1", 2, 6},
        {"--stages any --gpus 6 --batch 3", 1, 2},
        {"--stages 4 --gpus 4 --batch 1", 3, 4},
        {"--stages 2 --gpus 4 --batch 1", 5, 6},
        {"--stages 2 --gpus 4 --batch 2 --micro-batch traced", 5, 6},
        {"--stages 4 --gpus 4 --batch 1 --schedule interleaved", 7, 8},
        {"--stages any --gpus 13 --batch 1", 14, 26},
    };
    struct workshop *workshop = workshop_new();
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++)
        for (int count = refused[i].asked; count <= refused[i].least; count++) {
            g_autofree char *remedy = g_strdup_printf("; --micro-batches %d would do\n",
                                                      refused[i].least);
            g_autofree char *line = g_strdup_printf("pstar-plan --quiet --model " MODEL
                                                    " --platform " PLATFORM
                                                    " --seq 64 --micro-batches %d %s",
                                                    count, refused[i].options);
            if (count < refused[i].least)
                workshop_must_end(workshop, line, USAGE, "", remedy);
            else
                workshop_must_run(workshop, line);
        }
    workshop_free(workshop);
}

/* The time limit is one for all shapes and stages, and the answer says that it ended the search. */
static void test_first_plans(void)
{
    static const char line[] =
        "pstar-plan --quiet --threads 1 --model model --platform " PLATFORM
        " --gpus 2 --stages 2 --batch 2 --micro-batches 8 --seq 16 --device-memory 900KiB ";
    static const char early[] = "The search was stopped early, so there may be better plans.";
    struct workshop *workshop = workshop_new();
    g_autofree char *whole = workshop_must_print(workshop, line);
    g_autofree char *limited_line = g_strconcat(line, "--time-limit 0.001", NULL);
    g_autofree char *limited = workshop_must_print(workshop, limited_line);
    g_assert_null(strstr(whole, early));
    g_assert_nonnull(strstr(limited, early));
    g_assert_null(strstr(whole, ", 1 was looked at"));
    g_assert_nonnull(strstr(limited, ", 1 was looked at"));
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    /* mpirun does not run for root unless asked twice; the tests run in containers as root. */
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", TRUE);
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/planned_stages/simulated", test_simulated);
    g_test_add_func("/planned_stages/traced", test_traced);
    g_test_add_func("/planned_stages/frozen", test_frozen);
    g_test_add_func("/planned_stages/strategies", test_strategies);
    g_test_add_func("/planned_stages/reported", test_reported);
    g_test_add_func("/planned_stages/command", test_command);
    g_test_add_func("/planned_stages/plans", test_plans);
    g_test_add_func("/planned_stages/time-limit", test_time_limit);
    g_test_add_func("/planned_stages/refusals", test_refusals);
    g_test_add_func("/planned_stages/fits", test_fits);
    g_test_add_func("/planned_stages/remedies", test_remedies);
    g_test_add_func("/planned_stages/first-plans", test_first_plans);
    return g_test_run();
}
