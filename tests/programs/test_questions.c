/* Questions to pstar-plan, answered as a user would check them: with the commands that the answer
 * gives, and with a size more. */
#include "tests/drawn.h"
#include "workshop.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PLATFORM "--platform " PROJECT_DIR "/platforms/cpu-2core.json"

enum { DONE = 0, FAILED = 1, USAGE = 2, DOES_NOT_FIT = 3 };

G_GNUC_PRINTF(2, 3)
static struct outcome run(const struct workshop *workshop, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *command = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    return workshop_run(workshop, command);
}

static void expect(struct outcome outcome, int status, const char *text)
{
    if (outcome.status != status || !strstr(status == DONE ? outcome.out : outcome.err, text))
        g_test_message("status %d\n%s%s", outcome.status, outcome.out, outcome.err);
    g_assert_cmpint(outcome.status, ==, status);
    g_assert_nonnull(strstr(status == DONE ? outcome.out : outcome.err, text));
    outcome_clear(&outcome);
}

/* The number after `label`. */
static double number_after(const char *text, const char *label)
{
    const char *at = strstr(text, label);
    g_assert_nonnull(at);
    return g_ascii_strtod(at + strlen(label), NULL);
}

/* Runs the two commands that the answer ends with. */
static void make_its_plan(const struct workshop *workshop, const char *answer)
{
    const char *synth = strstr(answer, "pstar-trace synth"), *plan = strstr(answer, "pstar-plan ");
    g_assert_true(synth && plan);
    g_autofree char *first = g_strndup(synth, strcspn(synth, "\n"));
    g_autofree char *second = g_strndup(plan, strcspn(plan, "\n"));
    workshop_must_run(workshop, first);
    workshop_must_run(workshop, second);
}

/* Neither with its activations saved nor with them computed again, nor offloaded besides. */
static void expect_too_large(const struct workshop *workshop, const char *model, unsigned batch,
                             const char *budgets)
{
    static const char *const ways[] = {"none", "all", "all --offload-activations all",
                                       "none --offload-activations all"};
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        expect(run(workshop,
                   "pstar-trace synth --model %s --batch %u --seq 64 --precision bf16 "
                   "--recompute %s " PLATFORM " -o larger.pstar",
                   model, batch, ways[i]),
               DONE, "larger.pstar");
        expect(run(workshop,
                   "pstar-plan larger.pstar %s --recompute traced " PLATFORM " -o larger.json",
                   budgets),
               DOES_NOT_FIT, "memory");
    }
}

static void test_max_batch(void)
{
    static const char budgets[] = "--device-memory 2MiB --host-memory 1GiB";
    struct workshop *workshop = workshop_new();
    struct outcome answer = run(workshop, "pstar-plan --max-batch model %s " PLATFORM, budgets);
    g_assert_cmpint(answer.status, ==, DONE);
    unsigned batch = (unsigned)number_after(answer.out, "The largest micro-batch that fits: ");
    g_assert_cmpuint(batch, >=, 2);
    g_assert_nonnull(strstr(answer.out, "all layers offloaded"));
    make_its_plan(workshop, answer.out);
    expect_too_large(workshop, "model", batch + 1, budgets);
    outcome_clear(&answer);
    expect(run(workshop, "pstar-plan --max-batch model --device-memory 10kB " PLATFORM),
           DOES_NOT_FIT, "device memory");
    workshop_free(workshop);
}

static void write_model(const struct workshop *workshop, const char *name, int layers, int width)
{
    g_autofree char *text = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], \"vocab_size\": "
        "256,\n"
        " \"n_positions\": 64, \"n_embd\": %d, \"n_layer\": %d, \"n_head\": 4,\n"
        " \"activation_function\": \"gelu_new\", \"resid_pdrop\": 0.0, \"embd_pdrop\": 0.0,\n"
        " \"attn_pdrop\": 0.0, \"layer_norm_epsilon\": 1e-05, \"initializer_range\": 0.02}\n",
        width, layers);
    workshop_write(workshop, name, text);
}

/* A deep, narrow model and a wide one: the largest is not the one with most parameters. */
static void test_max_model(void)
{
    static const char budgets[] = "--device-memory 2MiB --host-memory 6MB";
    struct workshop *workshop = workshop_new();
    write_model(workshop, "kin-small.json", 2, 64);
    write_model(workshop, "kin-deep.json", 6, 64);
    write_model(workshop, "kin-deeper.json", 12, 64);
    write_model(workshop, "kin-wide.json", 1, 512);
    write_model(workshop, "other.json", 1, 32);
    struct outcome answer = run(workshop, "pstar-plan --max-model kin- %s " PLATFORM, budgets);
    g_assert_cmpint(answer.status, ==, DONE);
    g_assert_nonnull(strstr(answer.out, "The largest model that fits: kin-deep\n"));
    g_assert_nonnull(strstr(answer.out, "kin-deeper would not fit: "));
    make_its_plan(workshop, answer.out);
    expect_too_large(workshop, "kin-deeper.json", 1, budgets);
    expect_too_large(workshop, "kin-wide.json", 1, budgets);
    outcome_clear(&answer);

    answer = run(workshop, "pstar-plan --max-model kin-deep.json %s " PLATFORM, budgets);
    g_assert_cmpint(answer.status, ==, DONE);
    int layers = (int)number_after(answer.out, "The largest model that fits: ");
    g_assert_cmpint(layers, >=, 6);
    write_model(workshop, "made.json", layers, 64);
    expect(run(workshop, "pstar-trace synth --model made.json --batch 1 --seq 64 --precision bf16 "
                         "--recompute all " PLATFORM " -o made.pstar"),
           DONE, "made.pstar");
    expect(run(workshop, "pstar-plan made.pstar %s " PLATFORM " -o made.json.plan", budgets), DONE,
           "plan");
    write_model(workshop, "made.json", layers + 1, 64);
    expect_too_large(workshop, "made.json", 1, budgets);
    outcome_clear(&answer);
    expect(run(workshop, "pstar-plan --max-model nobody- " PLATFORM), USAGE, "nobody-*.json");
    workshop_free(workshop);
}

/* Writes machine.json: the two cores of platforms/cpu-2core.json as nodes of four GPUs that
 * exchange so many bytes a second. */
static void write_linked_nodes(const struct workshop *workshop, const char *rate)
{
    g_autofree char *node =
        g_strdup_printf("{\"source\": \"made for a test\", \"gpus\": 4, \"bytes_per_second\": "
                        "%s, \"latency_seconds\": 1e-8}",
                        rate);
    static const char network[] = "{\"source\": \"made for a test\", \"bytes_per_second\": 1e11, "
                                  "\"latency_seconds\": 1e-8}";
    json_t *machine = json_load_file(PROJECT_DIR "/platforms/cpu-2core.json", 0, NULL);
    json_object_set_new(machine, "node", json_loads(node, 0, NULL));
    json_object_set_new(machine, "network", json_loads(network, 0, NULL));
    g_autofree char *path = workshop_path(workshop, "machine.json");
    g_assert_cmpint(json_dump_file(machine, path, 0), ==, 0);
    json_decref(machine);
}

static void write_nodes(const struct workshop *workshop)
{
    write_linked_nodes(workshop, "1e11");
}

static double seconds_of_plan(const struct workshop *workshop, const char *plan)
{
    json_t *root = workshop_read_json(workshop, plan);
    const json_t *predicted = json_object_get(root, "predicted");
    double seconds = json_real_value(json_object_get(predicted, "iteration_seconds"));
    json_decref(root);
    return seconds;
}

/* More GPUs hold a larger model, and its commands plan for them. */
static void test_max_model_of_ranks(void)
{
    static const char budgets[] = "--device-memory 2MiB --host-memory 3MB";
    struct workshop *workshop = workshop_new();
    int layers[2];
    write_nodes(workshop);
    write_model(workshop, "made.json", 2, 64);
    for (int several = 0; several < 2; several++) {
        struct outcome answer = run(workshop,
                                    "pstar-plan --max-model made.json %s --platform "
                                    "machine.json --gpus %d",
                                    budgets, several ? 4 : 1);
        g_assert_cmpint(answer.status, ==, DONE);
        layers[several] = (int)number_after(answer.out, "The largest model that fits: ");
        g_assert_cmpint(strstr(answer.out, "on 4 GPUs of 1 node, in stage") != NULL, ==, several);
        outcome_clear(&answer);
    }
    g_assert_cmpint(layers[1], >, layers[0]);
    struct outcome answer = run(workshop,
                                "pstar-plan --max-batch made.json %s --platform "
                                "machine.json --gpus 8 --nodes 2 --stage 3",
                                budgets);
    g_assert_cmpint(answer.status, ==, DONE);
    g_assert_nonnull(strstr(answer.out, " --gpus 8 --nodes 2 --stage 3"));
    make_its_plan(workshop, answer.out);
    outcome_clear(&answer);
    workshop_free(workshop);
}

/* Runs the command that the answer prints behind these words. */
static void follow(const struct workshop *workshop, const char *answer, const char *words)
{
    const char *plan = strstr(answer, words);
    if (!plan)
        g_error("no '%s' in: %s", words, answer);
    plan += strlen(words);
    g_autofree char *command = g_strndup(plan, strcspn(plan, "\n"));
    workshop_must_run(workshop, command);
}

/* Runs the command that plans for the answer. */
static void make_plan_of(const struct workshop *workshop, const char *answer)
{
    follow(workshop, answer, "Its plan: ");
}

/* Returns the least number of GPUs with which a step takes at most the time. */
static int fewest(const double *seconds, int most, double time)
{
    int gpus = 1;
    while (gpus < most && seconds[gpus] > time)
        gpus++;
    return gpus;
}

/* The answer is the number of GPUs with which a step takes at most the time, and its command makes
 * that plan. Fewer GPUs take longer, or the step does not fit them. */
static void test_min_gpus(void)
{
    static const char budgets[] =
        "--platform machine.json --device-memory 1MiB --host-memory 1.5MB";
    struct workshop *workshop = workshop_new();
    double seconds[5];
    write_nodes(workshop);
    write_model(workshop, "made.json", 2, 64);
    workshop_must_run(workshop,
                      "pstar-trace synth --model made.json --batch 1 --seq 64 --precision bf16 "
                      "--platform machine.json -o run.pstar");
    for (int gpus = 1; gpus <= 4; gpus++) {
        struct outcome plan = run(workshop, "pstar-plan run.pstar %s --gpus %d -o plan.json",
                                  budgets, gpus);
        seconds[gpus] = plan.status == DONE ? seconds_of_plan(workshop, "plan.json") : INFINITY;
        outcome_clear(&plan);
    }
    g_test_message("%g %g %g %g s", seconds[1], seconds[2], seconds[3], seconds[4]);
    g_assert_cmpfloat(seconds[4], <, seconds[1]);
    double time = seconds[4] * 1.0001;
    struct outcome answer = run(workshop, "pstar-plan run.pstar --min-gpus %.12f %s", time,
                                budgets);
    g_assert_cmpint(answer.status, ==, DONE);
    g_assert_cmpfloat(number_after(answer.out, " s: "), ==, fewest(seconds, 4, time));
    make_plan_of(workshop, answer.out);
    g_assert_cmpfloat(seconds_of_plan(workshop, "plan.json"), <=, time);
    outcome_clear(&answer);
    expect(run(workshop, "pstar-plan run.pstar --min-gpus 1e-9 %s", budgets), DOES_NOT_FIT,
           "however many there are");
    expect(run(workshop, "pstar-plan run.pstar --min-gpus %.12f %s --gpus 1", time, budgets),
           DOES_NOT_FIT, "no number of GPUs was found");
    expect(run(workshop, "pstar-plan run.pstar --min-gpus 1 --device-memory 2MiB"), USAGE,
           "--min-gpus needs --platform");
    workshop_free(workshop);
}

static void synthesise(const struct workshop *workshop)
{
    expect(run(workshop,
               "pstar-trace synth --model model --batch 2 --seq 64 --precision bf16 " PLATFORM
               " -o run.pstar"),
           DONE, "run.pstar");
}

/* Three sizes or times of a row: "  name  1.5 MiB  2 MiB  0.1  +0.00 %". */
static double seconds_of_row(const char *text, const char *name, uint64_t *device, uint64_t *host)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    const char *at = strstr(text, name);
    double sizes[2], seconds;
    char unit[2][4];
    g_assert_nonnull(at);
    g_assert_cmpint(sscanf(at + strlen(name), "%lf %3s %lf %3s %lf", &sizes[0], unit[0], &sizes[1],
                           unit[1], &seconds),
                    ==, 5);
    for (int i = 0; i < 2; i++)
        for (size_t u = 0; u < G_N_ELEMENTS(units); u++)
            if (!strcmp(unit[i], units[u]))
                *(i ? host : device) = (uint64_t)ldexp(sizes[i], 10 * (int)u);
    return seconds;
}

static void test_min_memory(void)
{
    struct workshop *workshop = workshop_new();
    synthesise(workshop);
    struct outcome answer =
        run(workshop, "pstar-plan run.pstar --min-memory 50%% --device-memory 60%% " PLATFORM);
    uint64_t device[3], host[3];
    g_assert_cmpint(answer.status, ==, DONE);
    double best = seconds_of_row(answer.out, "best plan ", &device[0], &host[0]);
    double less = seconds_of_row(answer.out, "least device memory", &device[1], &host[1]);
    double host_less = seconds_of_row(answer.out, "least host memory", &device[2], &host[2]);
    g_assert_cmpfloat(less, <=, 1.5 * best + 1e-4);
    g_assert_cmpfloat(host_less, <=, 1.5 * best + 1e-4);
    g_assert_cmpuint(device[1], <, device[0]);
    g_assert_cmpuint(host[2], <=, host[0]);
    outcome_clear(&answer);
    workshop_free(workshop);
}

/* The commands for the least memories make plans, also where a plan takes less of the host than any
 * search would take for a budget. */
static void test_min_memory_commands(void)
{
    static const char *const budgets[] = {"--device-memory 60%", "--device-memory 90%",
                                          "--device-memory 60% --link h2d=1GB/s,d2h=1GB/s"};
    struct workshop *workshop = workshop_new();
    synthesise(workshop);
    for (int i = 0; i < draws(1, G_N_ELEMENTS(budgets)); i++) {
        struct outcome answer = run(workshop, "pstar-plan run.pstar --min-memory 20%% %s " PLATFORM,
                                    budgets[i]);
        g_assert_cmpint(answer.status, ==, DONE);
        follow(workshop, answer.out, "Plan for the least device memory: ");
        follow(workshop, answer.out, "Plan for the least host memory: ");
        outcome_clear(&answer);
    }
    workshop_free(workshop);
}

/* Where nothing fits with the trace's choices, the planner may still have a plan: the message says
 * so, and a plan with the memory that it names is found. */
static void test_choices_of_trace(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 8 --seq 64 "
                                "--precision bf16 " PLATFORM " -o run.pstar");
    const char *const questions[] = {"--min-memory 5%", "--sensitivity s.svg"};
    for (size_t q = 0; q < G_N_ELEMENTS(questions); q++) {
        g_autofree char *command = g_strdup_printf(
            "pstar-plan run.pstar --device-memory 100KiB %s " PLATFORM, questions[q]);
        struct outcome answer = run(workshop, "%s", command);
        g_assert_cmpint(answer.status, ==, DOES_NOT_FIT);
        double kib = number_after(answer.err, "pstar-plan -o finds, ");
        g_autofree char *enough = g_strdup_printf(
            "pstar-plan run.pstar --device-memory %gKiB -o plan.json " PLATFORM, kib);
        workshop_must_run(workshop, enough);
        g_autofree char *traced = g_strdup_printf(
            "pstar-plan run.pstar --device-memory %gKiB --recompute traced "
            "--offload-activations traced --embedding traced --bytes-per-parameter traced "
            "-o plan.json " PLATFORM,
            kib);
        expect(run(workshop, "%s", traced), DOES_NOT_FIT, "would fit");
        outcome_clear(&answer);
    }
    workshop_free(workshop);
}

static void test_sensitivity(void)
{
    struct workshop *workshop = workshop_new();
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        g_test_skip("no gnuplot here");
        workshop_free(workshop);
        return;
    }
    synthesise(workshop);
    struct outcome answer = run(workshop, "pstar-plan run.pstar --device-memory 10%% --sensitivity "
                                          "it\\'s.svg " PLATFORM);
    g_assert_cmpint(answer.status, ==, DONE);
    double memory = number_after(answer.out, "device memory saves ");
    double link = number_after(answer.out, "times as fast ");
    double both = number_after(answer.out, "both ");
    g_assert_cmpfloat(memory, >, 0); /* a GB holds all of this model */
    g_assert_cmpfloat(link, >=, 0);
    g_assert_cmpfloat(both, >=, memory);
    g_assert_cmpfloat(both, >=, link);
    g_assert_cmpfloat(both, <, 100);
    g_autofree char *path = workshop_path(workshop, "it's.svg"), *picture = NULL;
    g_assert_true(g_file_get_contents(path, &picture, NULL, NULL));
    g_assert_nonnull(strstr(picture, "</svg>"));
    g_assert_nonnull(strstr(picture, "a link 2 times as fast"));
    outcome_clear(&answer);

    /* A name is no command of gnuplot's. */
    workshop_must_run(workshop, "pstar-plan run.pstar --device-memory 10% --sensitivity "
                                "'a\nsystem(\"touch planted\")\n.svg' " PLATFORM);
    g_autofree char *planted = workshop_path(workshop, "planted");
    g_assert_false(g_file_test(planted, G_FILE_TEST_EXISTS));
    expect(run(workshop,
               "pstar-plan run.pstar --device-memory 10%% --sensitivity /dev/full " PLATFORM),
           FAILED, "/dev/full: cannot be written: No space left");
    g_autofree char *printed = workshop_must_print(
        workshop, "pstar-plan run.pstar --device-memory 10% --sensitivity - " PLATFORM);
    g_assert_true(g_str_has_prefix(printed, "<?xml"));
    workshop_free(workshop);
}

static void test_usage(void)
{
    static const char *const commands[] = {
        "pstar-plan --max-batch model",
        "pstar-plan --max-batch model --min-memory 5% " PLATFORM,
        "pstar-plan --max-batch model run.pstar " PLATFORM,
        "pstar-plan --max-batch model --batch 3 " PLATFORM,
        "pstar-plan --max-batch model --seq -1 " PLATFORM,
        "pstar-plan --max-batch model --seq 65 " PLATFORM,
        "pstar-plan --max-batch model --precision fp8 " PLATFORM,
        "pstar-plan --max-batch model -o plan.json " PLATFORM,
        "pstar-plan --max-batch missing " PLATFORM,
        "pstar-plan --min-memory 5% " PLATFORM,
        "pstar-plan run.pstar --min-memory 5%",
        "pstar-plan run.pstar --min-memory five " PLATFORM,
        "pstar-plan run.pstar --sensitivity s.svg --seq 4 " PLATFORM,
        "pstar-plan run.pstar --batch 4 --device-memory 1MiB -o plan.json",
        "pstar-plan run.pstar --time-limit nan --device-memory 1MiB -o plan.json",
        "pstar-plan run.pstar --verify plan.json --explain plan.json",
    };
    struct workshop *workshop = workshop_new();
    synthesise(workshop);
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        expect(workshop_run(workshop, commands[i]), USAGE, "pstar-plan: ");
    workshop_free(workshop);
}

/* Fast sums of bf16 take half of the network's time and fewer bytes, so the largest model is no
 * smaller, its step and any model's is faster, and as few GPUs suffice as plans say. The commands
 * of the answers plan for them. */
static void test_fast_sums(void)
{
    static const char budgets[] = "--platform machine.json --device-memory 2MiB --host-memory 3MB";
    static const char *const sums[] = {"", " --reduction fast"};
    struct workshop *workshop = workshop_new();
    double layers[2], seconds[2];
    write_linked_nodes(workshop, "2e7");
    write_model(workshop, "made.json", 2, 64);
    workshop_must_run(workshop,
                      "pstar-trace synth --model made.json --batch 1 --seq 64 --precision bf16 "
                      "--platform machine.json -o run.pstar");
    for (int fast = 0; fast < 2; fast++) {
        struct outcome answer = run(workshop, "pstar-plan --max-model made.json %s --gpus 4%s",
                                    budgets, sums[fast]);
        g_assert_cmpint(answer.status, ==, DONE);
        layers[fast] = number_after(answer.out, "The largest model that fits: ");
        g_assert_cmpint(strstr(answer.out, " with fast sums") != NULL, ==, fast);
        outcome_clear(&answer);
        workshop_must_run_format(workshop,
                                 "pstar-plan --model made.json --batch 1 --seq 64 --precision bf16 "
                                 "%s --gpus 4%s --json answer.json",
                                 budgets, sums[fast]);
        workshop_must_run_format(workshop, "pstar-plan run.pstar %s --gpus 4%s -o plan.json",
                                 budgets, sums[fast]);
        seconds[fast] = seconds_of_plan(workshop, "plan.json");
        json_t *front = workshop_read_json(workshop, "answer.json");
        const json_t *ways = json_object_get(front, "ways");
        const json_t *plan = json_array_get(ways, json_array_size(ways) - 1);
        const json_t *figures = json_object_get(plan, "figures");
        double answered = json_number_value(json_object_get(figures, "iteration_seconds"));
        g_assert_cmpfloat_with_epsilon(answered, seconds[fast], 0.02 * seconds[fast]);
        json_decref(front);
    }
    g_assert_cmpfloat(layers[1], >=, layers[0]);
    g_assert_cmpfloat(seconds[1], <, 0.9 * seconds[0]);
    struct outcome answer = run(workshop,
                                "pstar-plan run.pstar --min-gpus %.12f %s --gpus 4 "
                                "--reduction fast",
                                seconds[1] * 1.0001, budgets);
    g_assert_cmpint(answer.status, ==, DONE);
    make_plan_of(workshop, answer.out);
    g_assert_cmpfloat(seconds_of_plan(workshop, "plan.json"), <=, seconds[1] * 1.0001);
    outcome_clear(&answer);
    answer = run(workshop, "pstar-plan --max-batch made.json %s --gpus 4 --reduction fast",
                 budgets);
    g_assert_cmpint(answer.status, ==, DONE);
    g_assert_nonnull(strstr(answer.out, " --reduction fast -o plan.json"));
    make_its_plan(workshop, answer.out);
    outcome_clear(&answer);
    expect(run(workshop, "pstar-plan --model made.json %s --reduction fast", budgets), USAGE,
           "one rank reduces nothing; it needs --gpus");
    expect(run(workshop, "pstar-plan run.pstar --min-memory 5%% %s --reduction fast", budgets),
           USAGE, "one rank reduces nothing; it needs --gpus");
    expect(run(workshop, "pstar-plan run.pstar --min-gpus 1 %s --stage 1", budgets), USAGE,
           "--stage 1: needs --reduction fast");
    workshop_free(workshop);
}

/* Runs the command after `label`, whose plan takes at most the budgets of the answer's row, and
 * about its time. */
static void make_plan_of_row(const struct workshop *workshop, const char *answer, const char *row,
                             const char *label)
{
    uint64_t device, host;
    const char *at = strstr(answer, label);
    g_assert_nonnull(at);
    g_autofree char *command = g_strndup(at + strlen(label), strcspn(at + strlen(label), "\n"));
    g_assert_nonnull(strstr(command, " --reduction fast "));
    workshop_must_run(workshop, command);
    double seconds = seconds_of_row(answer, row, &device, &host);
    g_assert_cmpfloat(seconds_of_plan(workshop, "plan.json"), <=, 1.02 * seconds);
}

/* Of ranks that may sum fast, the least memory is that of any stage: no more than that of the stage
 * with the best plan, which is faster than any with exact sums. Commands plan for the answers. */
static void test_fast_min_memory(void)
{
    static const char budgets[] = "--platform machine.json --device-memory 2MiB --gpus 4";
    struct workshop *workshop = workshop_new();
    double best[3];
    uint64_t device[3], host[3], unused;
    write_linked_nodes(workshop, "2e7");
    write_model(workshop, "made.json", 2, 64);
    workshop_must_run(workshop,
                      "pstar-trace synth --model made.json --batch 1 --seq 64 --precision bf16 "
                      "--platform machine.json -o run.pstar");
    static const char *const ways[] = {"", " --reduction fast", " --reduction fast --stage 0"};
    for (size_t w = 0; w < G_N_ELEMENTS(ways); w++) {
        struct outcome answer = run(workshop, "pstar-plan run.pstar --min-memory 50%% %s%s",
                                    budgets, ways[w]);
        g_assert_cmpint(answer.status, ==, DONE);
        best[w] = seconds_of_row(answer.out, "best plan ", &unused, &unused);
        seconds_of_row(answer.out, "least device memory", &device[w], &unused);
        seconds_of_row(answer.out, "least host memory", &unused, &host[w]);
        g_assert_cmpint(strstr(answer.out, " in stage 0 with fast sums\n") != NULL, ==, w > 0);
        if (w > 0) {
            make_plan_of_row(workshop, answer.out, "least device memory",
                             "Plan for the least device memory: ");
            make_plan_of_row(workshop, answer.out, "least host memory",
                             "Plan for the least host memory: ");
        }
        outcome_clear(&answer);
    }
    g_assert_cmpfloat(best[1], <, 0.9 * best[0]);
    g_assert_cmpfloat_with_epsilon(best[1], best[2], 1e-3 * best[2]);
    g_assert_cmpuint(device[1], <, device[2]);
    g_assert_cmpuint(host[1], <=, host[2]);
    expect(run(workshop, "pstar-plan run.pstar --min-memory 5%% %s --stage 1", budgets), USAGE,
           "--stage 1: needs --reduction fast");
    workshop_free(workshop);
}

/* With a GB more than little memory the answer is that of a GB, in whichever stage, although not
 * every stage fits the little, and none with exact sums. */
static void test_fast_sensitivity(void)
{
    struct workshop *workshop = workshop_new();
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        g_test_skip("no gnuplot here");
        workshop_free(workshop);
        return;
    }
    write_linked_nodes(workshop, "2e7");
    write_model(workshop, "made.json", 2, 64);
    workshop_must_run(workshop,
                      "pstar-trace synth --model made.json --batch 1 --seq 64 --precision bf16 "
                      "--platform machine.json -o run.pstar");
    double seconds[2];
    static const char *const memories[] = {"415KiB", "1GB"};
    for (size_t m = 0; m < G_N_ELEMENTS(memories); m++) {
        struct outcome answer = run(workshop,
                                    "pstar-plan run.pstar --sensitivity s.svg --device-memory %s "
                                    "--platform machine.json --gpus 4 --reduction fast",
                                    memories[m]);
        g_assert_cmpint(answer.status, ==, DONE);
        const char *row = strstr(answer.out, m ? "\n  953.67 MiB " : "\n  954.08 MiB ");
        g_assert_nonnull(row);
        seconds[m] = number_after(row, "MiB ");
        outcome_clear(&answer);
    }
    g_assert_cmpfloat_with_epsilon(seconds[0], seconds[1], 0.01 * seconds[1]);
    expect(run(workshop, "pstar-plan run.pstar --sensitivity s.svg --device-memory 415KiB "
                         "--platform machine.json --gpus 4"),
           DOES_NOT_FIT, "would fit");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/questions/usage", test_usage);
    g_test_add_func("/questions/max-batch", test_max_batch);
    draws_test(1, 6, "/questions/max-model", test_max_model);
    g_test_add_func("/questions/min-memory", test_min_memory);
    g_test_add_func("/questions/min-memory-commands", test_min_memory_commands);
    g_test_add_func("/questions/choices", test_choices_of_trace);
    g_test_add_func("/questions/sensitivity", test_sensitivity);
    draws_test(1, 6, "/questions/max-model-of-ranks", test_max_model_of_ranks);
    draws_test(1, 6, "/questions/min-gpus", test_min_gpus);
    draws_test(1, 6, "/questions/fast-sums", test_fast_sums);
    draws_test(1, 6, "/questions/fast-min-memory", test_fast_min_memory);
    draws_test(1, 6, "/questions/fast-sensitivity", test_fast_sensitivity);
    return g_test_run();
}
