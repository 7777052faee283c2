/* What pstar-sim and pstar-plan say of where operators' times come from: of another device than the
 * platform's, or of a data sheet, which a band then allows for. Times that are far too long. */
#include "workshop.h"

#include <string.h>

#define A100       PROJECT_DIR "/platforms/a100-40gb.json"
#define RTX        PROJECT_DIR "/platforms/rtx-3090.json"
#define H100       PROJECT_DIR "/platforms/h100-80gb.json"
#define CPU        PROJECT_DIR "/platforms/cpu-2core.json"
#define SYNTHESISE "pstar-trace synth --model model --batch 4 --seq 64 --precision bf16 --platform "
#define SIMULATE   "pstar-sim run.pstar --device-memory 40% --policy opt --chunk-size 64KiB "

enum { SHARE = 26 }; /* of nominal rates, in percent */

/* Runs a command that prints the note, or none if it is NULL. */
static void expect_note(const struct workshop *workshop, const char *command, const char *note)
{
    struct outcome outcome = workshop_run_well(workshop, command);
    const char *found = strstr(outcome.err, "operators' times are the trace's, ");
    g_test_message("%s\n%s", command, outcome.err);
    g_assert_cmpint(found != NULL, ==, note != NULL);
    if (note)
        g_assert_true(g_str_has_prefix(found + strlen("operators' times are the trace's, "), note));
    outcome_clear(&outcome);
}

static void test_other_device(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-collect -o run.pstar -- pstar-run --model model --data "
                                "text.txt --batch 2 --seq 32 --steps 3");
    expect_note(workshop, SIMULATE "--platform " CPU, NULL);
    expect_note(workshop, SIMULATE, NULL);
    expect_note(workshop, SIMULATE "--platform " A100, "measured on ");
    expect_note(workshop,
                "pstar-plan run.pstar --device-memory 40% --platform " A100 " -o plan.json",
                "measured on ");
    workshop_must_run(workshop, SYNTHESISE A100 " -o run.pstar");
    expect_note(workshop, SIMULATE "--platform " A100, NULL);
    expect_note(workshop, SIMULATE "--platform " H100,
                "computed for A100-SXM4-40GB: H100-SXM5-80GB changes those of copies");
    workshop_free(workshop);
}

/* What a note advises can be done: an import cannot be retimed. */
static void test_no_times(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model model --batch 4 --seq 64 --precision bf16 "
                      "-o run.pstar");
    struct outcome outcome = workshop_run_well(workshop, SIMULATE);
    g_assert_nonnull(strstr(outcome.err, "the trace has no durations: times are those of copies "
                                         "alone; pstar-trace retime computes them"));
    outcome_clear(&outcome);
    workshop_must_run(workshop, "pstar-trace import " PROJECT_DIR
                                "/tests/data/kineto/gpt.et.json.gz -o run.pstar");
    outcome = workshop_run_well(workshop, "pstar-sim run.pstar --device-memory 50% --policy opt");
    g_assert_nonnull(strstr(outcome.err, "the trace has no durations: times are those of copies "
                                         "alone\n"));
    outcome_clear(&outcome);
    workshop_free(workshop);
}

#define NOMINAL                                                                             \
    "Operators' times are nominal (data sheet). Published runs reached 26 % of such rates " \
    "and more: a step takes "
#define FITTED                                                                                 \
    "Operators' times are those of PyTorch, fitted to published steps. Other published steps " \
    "took "                                                                                    \
    "0.9 to 1.4 times as long: a step takes "

/* Reads the two ends of the band behind the sentence. */
static void read_band(const char *text, const char *sentence, double *from, double *to)
{
    const char *at = strstr(text, sentence);
    char *end = NULL;
    if (!at)
        g_error("no band \"%s\" in %s", sentence, text);
    *from = g_ascii_strtod(at + strlen(sentence), &end);
    g_assert_true(g_str_has_prefix(end, " to "));
    *to = g_ascii_strtod(end + strlen(" to "), NULL);
}

static double step_of(const struct workshop *workshop, const char *command)
{
    workshop_must_run(workshop, command);
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    const json_t *row = json_array_get(json_object_get(sweep, "results"), 0);
    double seconds = json_number_value(json_object_get(row, "iteration_seconds"));
    json_decref(sweep);
    return seconds;
}

/* Writes machine.json: the platform, but with operators that take so many times as long. It does
 * not say how many multiprocessors it has, because the start of a kernel takes as long at any rate.
 */
static void write_machine(const struct workshop *workshop, const char *platform, double times)
{
    static const char *const curves[] = {"compute_fp32", "compute_bf16", "memory"};
    json_t *machine = json_load_file(platform, 0, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(curves); i++) {
        json_t *points = json_object_get(json_object_get(machine, curves[i]), "points"), *point;
        size_t p;
        json_array_foreach (points, p, point) {
            json_array_set_new(point, 1,
                               json_real(json_number_value(json_array_get(point, 1)) * times));
        }
    }
    json_object_del(machine, "multiprocessors");
    g_autofree char *path = workshop_path(workshop, "machine.json");
    g_assert_cmpint(json_dump_file(machine, path, 0), ==, 0);
    json_decref(machine);
}

/* The ends of the band are the steps on platforms whose operators take so many times as long. */
static void check_band(const struct workshop *workshop, const char *platform, const char *sentence,
                       const double times[2])
{
    const char *const synthesise = SYNTHESISE "machine.json -o run.pstar";
    const char *const simulate = SIMULATE "--platform machine.json";
    const char *const plan = "pstar-plan run.pstar --device-memory 40% --recompute traced "
                             "-o plan.json --platform machine.json";
    double simulated[2], planned[2];
    write_machine(workshop, platform, 1);
    workshop_must_run(workshop, synthesise);
    g_autofree char *output = workshop_must_print(workshop, simulate);
    g_autofree char *result = workshop_must_print(workshop, plan);
    read_band(output, sentence, &simulated[0], &simulated[1]);
    read_band(result, sentence, &planned[0], &planned[1]);
    g_assert_cmpfloat(planned[0], >, 0);
    g_assert_cmpfloat(planned[1], >, planned[0]);
    for (int i = 0; i < 2; i++) {
        write_machine(workshop, platform, times[i]);
        workshop_must_run(workshop, synthesise);
        g_autofree char *again = g_strconcat(simulate, " --json sweep.json", NULL);
        double expected = step_of(workshop, again);
        g_assert_cmpfloat_with_epsilon(simulated[i] / expected, 1, 2e-3); /* four digits */
    }
}

/* A probe knows what its device's kernels make of its rates, and no band is printed. */
static void test_measured(void)
{
    static const char *const curves[] = {"compute_fp32", "compute_bf16", "memory"};
    struct workshop *workshop = workshop_new();
    g_autofree char *path = workshop_path(workshop, "machine.json");
    json_t *machine = json_load_file(A100, 0, NULL);
    g_assert_nonnull(json_object_get(machine, "framework"));
    for (size_t i = 0; i < G_N_ELEMENTS(curves); i++)
        json_object_set_new(json_object_get(machine, curves[i]), "source", json_string("measured"));
    g_assert_cmpint(json_dump_file(machine, path, 0), ==, 0);
    json_decref(machine);
    workshop_must_run(workshop, SYNTHESISE "machine.json -o run.pstar");
    g_autofree char *output = workshop_must_print(workshop, SIMULATE "--platform machine.json");
    g_assert_null(strstr(output, "a step takes"));
    workshop_free(workshop);
}

static void test_band(void)
{
    struct workshop *workshop = workshop_new();
    check_band(workshop, RTX, NOMINAL, (const double[]){1, 100.0 / SHARE});
    check_band(workshop, A100, FITTED, (const double[]){0.9, 1.4});
    workshop_must_run(workshop, SYNTHESISE CPU " -o run.pstar"); /* which was measured */
    g_autofree char *measured = workshop_must_print(workshop, SIMULATE "--platform " CPU);
    g_assert_null(strstr(measured, "Operators' times are"));
    workshop_free(workshop);
}

/* Sums of such times would exceed 64 bits, which the sanitizer of undefined behaviour sees. */
static void test_years(void)
{
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "years.json",
                   "{\"name\": \"slow\", \"source\": \"invented\", \"device_bytes\": \"1GB\","
                   "\"host_bytes\": \"8GB\","
                   "\"h2d\": {\"source\": \"\", \"points\": [[8e9, 1]]},"
                   "\"d2h\": {\"source\": \"\", \"points\": [[8e9, 1]]},"
                   "\"memory\": {\"source\": \"\", \"points\": [[2e10, 1]]},"
                   "\"compute_fp32\": {\"source\": \"\", \"points\": [[1e12, 1]]},"
                   "\"compute_bf16\": {\"source\": \"\", \"points\": [[1e12, 1]]},"
                   "\"host_update\": {\"source\": \"\", \"points\": [[1024, 1e9]]}}");
    workshop_must_run(workshop, SYNTHESISE CPU " -o run.pstar");
    workshop_must_run(workshop, "pstar-plan run.pstar --device-memory 60% --platform years.json "
                                "-o plan.json");
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar --platform years.json");
    workshop_free(workshop);
}

/* Steps of less than a millisecond have as many digits as long ones, and unknown ones none. */
static void test_verified(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTHESISE A100 " -o run.pstar");
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision fp32 -o bare.pstar");
    workshop_must_run(workshop, "pstar-plan run.pstar --device-memory 60% -o plan.json");
    workshop_must_run(workshop, "pstar-plan bare.pstar --device-memory 1GiB -o bare.json");
    g_autofree char *known = workshop_must_print(workshop,
                                                 "pstar-plan --verify plan.json run.pstar");
    g_assert_true(g_regex_match_simple("a step takes 0\\.000[1-9]\\d{1,3} s, ", known, 0, 0));
    g_autofree char *unknown = workshop_must_print(workshop,
                                                   "pstar-plan --verify bare.json bare.pstar");
    g_assert_nonnull(strstr(unknown, "how long a step takes is unknown"));
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/operator-times/other-device", test_other_device);
    g_test_add_func("/operator-times/no-times", test_no_times);
    g_test_add_func("/operator-times/band", test_band);
    g_test_add_func("/operator-times/measured", test_measured);
    g_test_add_func("/operator-times/years", test_years);
    g_test_add_func("/operator-times/verified", test_verified);
    return g_test_run();
}
