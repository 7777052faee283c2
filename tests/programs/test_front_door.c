/* pstar-plan --model: what it says of the ways to train is what pstar-sim and pstar-plan say of the
 * traces that it makes, the commands that it prints work, and what would make a model fit does. */
#include "tests/drawn.h"
#include "workshop.h"

#include <stdio.h>
#include <string.h>

#define PLATFORM "--platform cpu-2core "
#define SHAPE    "--batch 2 --seq 64 --precision bf16 "
#define TIGHT    "--device-memory 900kB "
#define ADAPTERS "--train lora:4 --device-memory 500kB "
#define LLAMA    PROJECT_DIR "/models/configs/llama-3.1-8b.json"

enum { DONE = 0, USAGE = 2, DOES_NOT_FIT = 3 };

static json_t *ask(const struct workshop *workshop, const char *options)
{
    g_autofree char *command =
        g_strdup_printf("pstar-plan --model model %s --time-limit 300 --json answer.json", options);
    workshop_must_run(workshop, command);
    return workshop_read_json(workshop, "answer.json");
}

static const json_t *way_of(const json_t *answer, const char *name)
{
    size_t i;
    const json_t *way;
    json_array_foreach (json_object_get(answer, "ways"), i, way)
        if (strcmp(json_string_value(json_object_get(way, "way")), name) == 0)
            return way;
    g_error("there is no way %s", name);
}

static double figure(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    g_assert_true(json_is_number(value));
    return json_number_value(value);
}

/* Returns the least step of the strategy in a sweep's results; 0 if none fits. */
static double fastest(const json_t *sweep, const char *strategy)
{
    double least = 0;
    size_t i;
    const json_t *row;
    json_array_foreach (json_object_get(sweep, "results"), i, row) {
        const char *name = json_string_value(json_object_get(row, "strategy"));
        if (!name || strcmp(name, strategy) != 0 || json_is_false(json_object_get(row, "fits")))
            continue;
        double seconds = figure(row, "iteration_seconds");
        least = least > 0 ? MIN(least, seconds) : seconds;
    }
    return least;
}

/* Every strategy is at its best over chunk sizes, with activations kept or recomputed. */
static void test_strategies(void)
{
    struct workshop *workshop = workshop_new();
    json_t *answer = ask(workshop, SHAPE PLATFORM TIGHT), *sweeps[2];
    static const char *const recompute[] = {"none", "all"};
    for (int i = 0; i < 2; i++) {
        workshop_must_run_format(workshop,
                                 "pstar-trace synth --model model " SHAPE PLATFORM
                                 "--recompute %s -o run.pstar",
                                 recompute[i]);
        workshop_must_run(workshop,
                          "pstar-sim run.pstar " PLATFORM TIGHT "--strategy all --json sweep.json");
        sweeps[i] = workshop_read_json(workshop, "sweep.json");
    }
    size_t i, fitting = 0;
    const json_t *way;
    json_array_foreach (json_object_get(answer, "ways"), i, way) {
        const char *name = json_string_value(json_object_get(way, "way"));
        if (strcmp(name, "pstar's plan") == 0)
            continue;
        double kept = fastest(sweeps[0], name), recomputed = fastest(sweeps[1], name);
        double least = kept > 0 && recomputed > 0 ? MIN(kept, recomputed) : MAX(kept, recomputed);
        g_assert_cmpint(json_is_true(json_object_get(way, "fits")), ==, least > 0);
        if (least <= 0)
            continue;
        fitting++;
        g_assert_cmpfloat_with_epsilon(
            figure(json_object_get(way, "figures"), "iteration_seconds") / least, 1, 1e-6);
        g_assert_cmpfloat_with_epsilon(figure(way, "tokens_per_second") * least, 128, 1e-6);
        g_assert_cmpfloat(figure(way_of(answer, "pstar's plan"), "tokens_per_second"), >=,
                          figure(way, "tokens_per_second") * (1 - 1e-9));
    }
    g_assert_cmpuint(fitting, >=, 3);
    g_assert_cmpuint(fitting + 1, <, i); /* some do not fit: everything resident */
    g_assert_true(json_is_false(json_object_get(way_of(answer, "resident"), "fits")));
    json_decref(sweeps[0]);
    json_decref(sweeps[1]);
    json_decref(answer);
    workshop_free(workshop);
}

/* The commands work as printed, and the plan is that of the answer, whatever is trained. */
static void test_commands(const void *trained)
{
    struct workshop *workshop = workshop_new();
    g_autofree char *question = g_strconcat("pstar-plan --model model " SHAPE PLATFORM,
                                            (const char *)trained,
                                            "--time-limit 300 --json answer.json", NULL);
    g_autofree char *screen = workshop_must_print(workshop, question);
    json_t *answer = workshop_read_json(workshop, "answer.json");
    const json_t *commands = json_object_get(answer, "commands");
    g_assert_nonnull(strstr(screen, "It trains here with part of it on the host"));
    g_assert_cmpuint(json_array_size(commands), ==, 3);
    workshop_must_run(workshop, "cp text.txt tokens.bin");
    for (size_t i = 0; i < json_array_size(commands); i++) {
        const char *command = json_string_value(json_array_get(commands, i));
        g_assert_nonnull(strstr(screen, command));
        g_assert_null(strstr(command, "--device cuda"));
        workshop_must_run_format(workshop, "%s%s", command, i == 2 ? " --steps 2" : "");
    }
    json_t *plan = workshop_read_json(workshop, "plan.json");
    const json_t *way = way_of(answer, "pstar's plan");
    const json_t *predicted = json_object_get(plan, "predicted");
    const json_t *figures = json_object_get(way, "figures"), *value;
    const char *key;
    json_object_foreach ((json_t *)predicted, key, value)
        if (json_is_number(value))
            g_assert_cmpfloat_with_epsilon(figure(figures, key), json_number_value(value),
                                           1e-6 * json_number_value(value) + 1e-15);
    g_assert_cmpfloat(figure(way, "device_bytes"), ==, figure(predicted, "peak_device_bytes"));
    json_decref(plan);
    json_decref(answer);
    workshop_free(workshop);
}

/* Frozen parameters take 2 bytes each, so that a model trains where it does not with all tensors
 * (test_other_platforms). The trace, from which the plan is made, and the run train the same. */
static void test_adapters(void)
{
    struct workshop *workshop = workshop_new();
    g_autofree char *screen = workshop_must_print(
        workshop, "pstar-plan --model " LLAMA " --train lora:16 --batch 1 --seq 512 --time-limit 1 "
                  "--platform rtx-4090 --json answer.json");
    const char *model = strstr(screen, "of model data, ");
    double bytes = 0;
    g_assert_true(model && sscanf(model, "of model data, %lf bytes a parameter", &bytes) == 1);
    g_assert_cmpfloat(bytes, >, 2);
    g_assert_cmpfloat(bytes, <, 2.1);
    json_t *answer = workshop_read_json(workshop, "answer.json");
    const json_t *resident = way_of(answer, "resident");
    double parameters = figure(answer, "parameters");
    g_assert_true(json_is_true(json_object_get(resident, "fits")));
    g_assert_cmpfloat(figure(resident, "device_bytes"), >, 2 * parameters);
    g_assert_cmpfloat(figure(resident, "device_bytes"), <, 3 * parameters);
    const json_t *commands = json_object_get(answer, "commands");
    static const char *const parts[] = {"synth --model " LLAMA " --train lora:16 ",
                                        "pstar-plan model.pstar ", " --train lora:16 "};
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++)
        g_assert_nonnull(strstr(json_string_value(json_array_get(commands, i)), parts[i]));
    g_assert_nonnull(strstr(json_string_value(json_array_get(commands, 2)), " --device cuda "));
    json_decref(answer);
    workshop_free(workshop);
}

/* A screen has at most 40 lines, which are not long but for commands, for several ranks too. */
static void test_screen(void)
{
    static const char *const options[] = {
        SHAPE PLATFORM TIGHT,
        "--platform dgx-a100 --gpus 4",
        "--seq 64 --device-memory 200kB --host-memory 300kB --platform cpu-2core",
    };
    struct workshop *workshop = workshop_new();
    for (size_t i = 0; i < G_N_ELEMENTS(options); i++) {
        g_autofree char *command = g_strconcat("pstar-plan --model model ", options[i], NULL);
        struct outcome outcome = workshop_run(workshop, command);
        g_auto(GStrv) lines = g_strsplit(outcome.out, "\n", -1);
        g_assert_cmpuint(g_strv_length(lines), >=, 20);
        g_assert_cmpuint(g_strv_length(lines), <=, 41);
        for (char **line = lines; *line; line++)
            if (!strstr(*line, "pstar-") && strlen(*line) > 165)
                g_error("too long: %s", *line);
        outcome_clear(&outcome);
    }
    workshop_free(workshop);
}

/* Returns whether the step fits with the options appended. A time limit ends no search that has not
 * found a plan yet. */
static bool fits_with(const struct workshop *workshop, const char *options, const char *more)
{
    g_autofree char *command = g_strdup_printf("pstar-plan --model model %s %s --time-limit 0.1",
                                               options, more);
    struct outcome outcome = workshop_run(workshop, command);
    if (outcome.status != DONE && outcome.status != DOES_NOT_FIT)
        g_error("%s\n%s", command, outcome.err);
    bool fits = outcome.status == DONE;
    outcome_clear(&outcome);
    return fits;
}

/* Tries every remedy for a step that does not fit. Returns how many there are. */
static size_t try_remedies(const struct workshop *workshop, const char *options)
{
    g_autofree char *command = g_strdup_printf("pstar-plan --model model %s --json answer.json",
                                               options);
    workshop_must_end(workshop, command, DOES_NOT_FIT, "It does not train here.", "does not fit");
    json_t *answer = workshop_read_json(workshop, "answer.json");
    const json_t *remedies = json_object_get(answer, "would_fit"), *remedy;
    size_t i, count = json_array_size(remedies);
    json_array_foreach (remedies, i, remedy) {
        const char *option = json_string_value(json_object_get(remedy, "option"));
        if (g_str_has_prefix(option, "--platform"))
            continue; /* the budgets of `options` are not that platform's */
        if (!fits_with(workshop, options, option))
            g_error("%s does not make it fit", option);
    }
    json_decref(answer);
    return count;
}

static void test_remedies(void)
{
    struct workshop *workshop = workshop_new();
    /* too little on the device, whatever the batch; then too little on the host */
    g_assert_cmpuint(try_remedies(workshop, "--batch 64 --seq 64 --device-memory 1MB " PLATFORM),
                     >=, 2);
    g_assert_cmpuint(
        try_remedies(workshop, SHAPE "--device-memory 500kB --host-memory 500kB " PLATFORM), >=, 2);
    workshop_free(workshop);
}

/* ---- with NVMe ---- */

#define SMALL_HOST TIGHT "--host-memory 600kB --platform disk.json "

/* Writes disk.json: the CPU's platform, and a disk. */
static void write_disk(const struct workshop *workshop)
{
    json_t *platform = json_load_file(PROJECT_DIR "/platforms/cpu-2core.json", 0, NULL);
    json_object_set_new(platform, "nvme",
                        json_pack("{s:s, s:[[i,i,f]], s:[[i,i,f]]}", "source", "a test", "read",
                                  65536, 4, 2e9, "write", 65536, 4, 1e9));
    g_autofree char *text = json_dumps(platform, 0);
    workshop_write(workshop, "disk.json", text);
    json_decref(platform);
}

static const json_t *nvme_remedy(const json_t *answer)
{
    size_t i;
    const json_t *remedy;
    json_array_foreach (json_object_get(answer, "would_fit"), i, remedy)
        if (g_str_has_prefix(json_string_value(json_object_get(remedy, "option")),
                             "--nvme-memory "))
            return remedy;
    g_error("NVMe is not offered");
}

/* What the host has no room for may lie in NVMe. As much as is offered is enough, and no strategy
 * is faster than the plan. The commands work as printed, in a folder on the disk. */
static void test_in_nvme(void)
{
    struct workshop *workshop = workshop_new();
    write_disk(workshop);
    workshop_must_end(workshop, "pstar-plan --model model " SHAPE SMALL_HOST "--json answer.json",
                      DOES_NOT_FIT, "  --nvme-memory ", "does not fit");
    json_t *refused = workshop_read_json(workshop, "answer.json");
    const json_t *remedy = nvme_remedy(refused);
    g_assert_nonnull(strstr(json_string_value(json_object_get(remedy, "gain")),
                            " s, with a disk of 2 and 1 GB/s"));
    g_autofree char *question = g_strdup_printf(
        "pstar-plan --model model " SHAPE SMALL_HOST "--time-limit 2 --json answer.json %s",
        json_string_value(json_object_get(remedy, "option")));
    g_autofree char *screen = workshop_must_print(workshop, question);
    json_t *answer = workshop_read_json(workshop, "answer.json");
    const json_t *plan = way_of(answer, "pstar's plan"), *way;
    size_t i;
    g_assert_nonnull(strstr(screen, "with part of it on the host and in NVMe, at up to"));
    g_assert_nonnull(strstr(screen, "       NVMe       moved "));
    g_assert_cmpfloat(figure(json_object_get(plan, "figures"), "peak_nvme_bytes"), <=,
                      figure(answer, "nvme_budget"));
    json_array_foreach (json_object_get(answer, "ways"), i, way)
        if (json_is_true(json_object_get(way, "fits")))
            g_assert_cmpfloat(figure(plan, "tokens_per_second"), >=,
                              figure(way, "tokens_per_second") * (1 - 1e-9));
    const json_t *commands = json_object_get(answer, "commands");
    g_assert_cmpuint(json_array_size(commands), ==, 3);
    workshop_must_run(workshop, "cp text.txt tokens.bin");
    for (i = 0; i < json_array_size(commands); i++) {
        const char *command = json_string_value(json_array_get(commands, i));
        g_assert_nonnull(strstr(screen, command));
        g_auto(GStrv) parts = g_strsplit(command, " --nvme DIR", 2);
        g_assert_cmpuint(g_strv_length(parts), ==, i == 2 ? 2 : 1);
        static const char *const ends[] = {"", " --time-limit 2", " --nvme . --steps 2"};
        workshop_must_run_format(workshop, "%s%s", parts[0], ends[i]);
    }
    json_decref(refused);
    json_decref(answer);
    workshop_free(workshop);
}

/* A time limit ends a search that has a plan. Without one it would say that nothing fits, of a step
 * that needs variants with little memory and of one that fits as it is. */
static void test_little_time(void)
{
    static const char *const budgets[] = {"", TIGHT, "--device-memory 435kB "};
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model " SHAPE PLATFORM "-o run.pstar");
    for (size_t i = 0; i < G_N_ELEMENTS(budgets); i++) {
        workshop_must_run_format(
            workshop, "pstar-plan --model model " SHAPE PLATFORM "%s--time-limit 0.000001",
            budgets[i]);
        workshop_must_run_format(workshop,
                                 "pstar-plan run.pstar " PLATFORM "%s--time-limit 0.000001 -o "
                                 "plan.json",
                                 budgets[i]);
    }
    workshop_free(workshop);
}

/* Where nothing fits but strategies whose sums are fast, the commands ask for such sums. */
static void test_fast_sums(void)
{
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "model/config.json",
                   "{\"model_type\": \"smollm3\", \"hidden_size\": 64, \"num_hidden_layers\": 1, "
                   "\"num_attention_heads\": 1, \"num_key_value_heads\": 1, \"head_dim\": 64, "
                   "\"vocab_size\": 128256, \"max_position_embeddings\": 512, "
                   "\"intermediate_size\": 777, \"tie_word_embeddings\": true}");
    json_t *answer = ask(workshop, "--platform dgx-a100 --gpus 8 --batch 1 --seq 7 --device-memory "
                                   "79MiB --host-memory 1MiB");
    const json_t *commands = json_object_get(answer, "commands");
    g_assert_false(json_boolean_value(json_object_get(way_of(answer, "pstar's plan"), "fits")));
    for (size_t i = 0; i < 2; i++)
        workshop_must_run(workshop, json_string_value(json_array_get(commands, i)));
    json_decref(answer);
    workshop_free(workshop);
}

/* A step for which the host is too small says so of the plan, too. Platforms that would hold it are
 * named with what must be left out. */
static void test_small_host(void)
{
    struct workshop *workshop = workshop_new();
    static const char command[] = "pstar-plan --model model " SHAPE PLATFORM
                                  "--device-memory 500kB --host-memory 500kB --json answer.json";
    workshop_must_end(workshop, command, DOES_NOT_FIT,
                      ": without --device-memory and --host-memory\n",
                      "488.28 KiB of host memory is too little");
    json_t *answer = workshop_read_json(workshop, "answer.json");
    const json_t *plan = way_of(answer, "pstar's plan");
    g_assert_cmpstr(json_string_value(json_object_get(plan, "binds")), ==, "host memory");
    g_assert_cmpfloat(figure(plan, "least_device_bytes"), <=, 500e3);
    json_decref(answer);
    workshop_free(workshop);
}

/* Data is named in words: bytes, or the tokens of the model's tokenizer. */
static void test_data(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_end(workshop, "pstar-plan --model model " SHAPE PLATFORM "--time-limit 1", DONE,
                      "the model's vocabulary is bytes", "");
    workshop_must_end(workshop,
                      "pstar-plan --model " PROJECT_DIR
                      "/models/configs/gpt2.json --seq 64 --time-limit 1 --platform rtx-4090",
                      DONE, "pstar-tokens --model DIR text.txt -o tokens.bin", "");
    workshop_free(workshop);
}

/* Names of platforms that would hold a large model are tried, too: the next smaller does not. */
static void test_other_platforms(void)
{
    struct workshop *workshop = workshop_new();
    static const char question[] = "pstar-plan --model " LLAMA " --batch 1 --seq 512 "
                                   "--time-limit 1 --platform ";
    g_autofree char *command = g_strconcat(question, "rtx-4090 --json answer.json", NULL);
    workshop_must_end(workshop, command, DOES_NOT_FIT, "--platform a10, l4", "does not fit");
    g_autofree char *other = g_strconcat(question, "a10", NULL);
    workshop_must_run(workshop, other);
    workshop_free(workshop);
}

static void test_refusals(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_end(workshop, "pstar-plan --model model", USAGE, "", "take a --platform");
    workshop_must_end(workshop, "pstar-plan --model model run.pstar " PLATFORM, USAGE, "",
                      "no TRACE");
    workshop_must_end(workshop, "pstar-plan --model model -o plan.json " PLATFORM, USAGE, "",
                      "--output: not with --model, --torch or another question");
    workshop_must_end(workshop, "pstar-plan --model model --platform CPU-2core", USAGE, "",
                      "did you mean cpu-2core?");
    workshop_must_end(workshop, "pstar-plan --model model --platform 4060", USAGE, "",
                      "did you mean laptop-rtx-4060?");
    workshop_must_end(workshop, "pstar-plan --model model --seq 1000000 " PLATFORM, USAGE, "",
                      "sequence");
    workshop_must_end(
        workshop, "pstar-plan --model model --nvme-memory 1GiB --host-memory unlimited " PLATFORM,
        USAGE, "", "--nvme-memory: needs a limit of --host-memory");
    workshop_write(workshop, "falcon.json", "{\"model_type\": \"falcon\"}");
    workshop_must_end(workshop, "pstar-plan --model falcon.json " PLATFORM, USAGE, "", "falcon");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/front-door/strategies", test_strategies);
    if (draws_row(1, 2))
        g_test_add_data_func("/front-door/commands", TIGHT, test_commands);
    if (draws_row(1, 2))
        g_test_add_data_func("/front-door/commands/adapters", ADAPTERS, test_commands);
    draws_test(2, 5, "/front-door/adapters", test_adapters);
    draws_test(2, 5, "/front-door/screen", test_screen);
    draws_test(2, 5, "/front-door/remedies", test_remedies);
    draws_test(2, 5, "/front-door/little-time", test_little_time);
    g_test_add_func("/front-door/in-nvme", test_in_nvme);
    draws_test(2, 5, "/front-door/fast-sums", test_fast_sums);
    g_test_add_func("/front-door/small-host", test_small_host);
    g_test_add_func("/front-door/data", test_data);
    draws_test(2, 5, "/front-door/other-platforms", test_other_platforms);
    g_test_add_func("/front-door/refusals", test_refusals);
    return g_test_run();
}
