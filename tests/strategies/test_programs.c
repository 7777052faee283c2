/* Collects one trace from a run with everything resident. pstar-sim makes every strategy's plan
 * from it, and pstar-run trains with each plan, without flags for what the plan chose. */
#include "chunks/figures.h"
#include "tests/programs/workshop.h"

#include <string.h>

#define JOB "pstar-run --model model --data text.txt --steps 4 --batch 2 --seq 32 --threads 1"

static const char *const names[] = {
    "resident",      "patrickstar",  "gemini-static:0.3", "gemini-auto:2", "zero-offload",
    "zero3-offload", "twinflow:0.6", "interleave:3",      "fsdp-offload",
};

static json_t *steps_of(const struct workshop *workshop, const char *log)
{
    json_t *lines = workshop_read_json_lines(workshop, log), *steps = json_array(), *line;
    size_t index;
    json_array_foreach (lines, index, line)
        if (json_object_get(line, "step"))
            json_array_append(steps, line);
    json_decref(lines);
    g_assert_cmpuint(json_array_size(steps), ==, 4);
    return steps;
}

/* Returns the only row, which is the plan's. */
static json_t *simulate(const struct workshop *workshop, const char *name)
{
    g_autofree char *command =
        g_strdup_printf("pstar-sim run.pstar --strategy %s --device-memory 8MiB --chunk-size 48KiB "
                        "--json sweep.json --emit-plan plan.json --phases",
                        name);
    workshop_must_run(workshop, command);
    json_t *root = workshop_read_json(workshop, "sweep.json");
    json_t *row = json_incref(json_array_get(json_object_get(root, "results"), 0));
    g_assert_cmpuint(json_array_size(json_object_get(root, "results")), ==, 1);
    g_assert_cmpstr(json_string_value(json_object_get(row, "strategy")), ==, name);
    g_assert_true(json_is_null(json_object_get(row, "policy")));
    json_decref(root);
    return row;
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Forward, backward and update are the iteration, wherever the optimizer runs. */
static void check_phases(const json_t *row)
{
    static const char *const phases[] = {"forward", "backward", "update"};
    const json_t *list = json_object_get(row, "phases");
    double seconds = 0, h2d = 0, d2h = 0, peak = 0;
    g_assert_cmpuint(json_array_size(list), ==, G_N_ELEMENTS(phases));
    for (size_t p = 0; p < G_N_ELEMENTS(phases); p++) {
        const json_t *phase = json_array_get(list, p);
        g_assert_cmpstr(json_string_value(json_object_get(phase, "phase")), ==, phases[p]);
        seconds += number(phase, "seconds");
        h2d += number(phase, "h2d_bytes");
        d2h += number(phase, "d2h_bytes");
        peak = MAX(peak, number(phase, "peak_device_bytes"));
    }
    g_assert_cmpfloat_with_epsilon(seconds, number(row, "iteration_seconds"), 1e-8);
    g_assert_cmpfloat_with_epsilon(h2d, number(row, "h2d_bytes"), 2); /* rounded in each phase */
    g_assert_cmpfloat_with_epsilon(d2h, number(row, "d2h_bytes"), 2);
    g_assert_cmpfloat(peak, ==, number(row, "peak_device_bytes"));
}

static void check_run(const json_t *row, const json_t *steps, const json_t *resident)
{
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i), *same = json_array_get(resident, i);
        g_assert_cmpfloat(json_real_value(json_object_get(step, "loss")), ==,
                          json_real_value(json_object_get(same, "loss")));
        for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
            if (figure->unit != FIGURE_SECONDS && !json_equal(json_object_get(step, figure->name),
                                                              json_object_get(row, figure->name)))
                g_error("%s of step %zu of %s", figure->name, i,
                        json_string_value(json_object_get(row, "strategy")));
    }
}

static void try_strategy(const struct workshop *workshop, const char *name, const char *precision,
                         const json_t *resident)
{
    g_autofree char *train =
        g_strdup_printf(JOB " --precision %s --plan plan.json --log plan.jsonl", precision);
    json_t *row = simulate(workshop, name);
    g_test_message("%s %s", precision, name);
    check_phases(row);
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    workshop_must_run(workshop, "pstar-plan --explain plan.json run.pstar");
    workshop_must_run(workshop, train);
    json_t *steps = steps_of(workshop, "plan.jsonl");
    check_run(row, steps, resident);
    json_decref(steps);
    json_decref(row);
}

static void test_strategies(gconstpointer precision)
{
    struct workshop *workshop = workshop_new();
    g_autofree char *collect = g_strdup_printf("pstar-collect -o run.pstar --iterations 1:2 -- " JOB
                                               " --precision %s --log run.jsonl",
                                               (const char *)precision);
    workshop_must_run(workshop, collect);
    json_t *resident = steps_of(workshop, "run.jsonl");
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        try_strategy(workshop, names[i], precision, resident);
    json_decref(resident);
    workshop_free(workshop);
}

static void check_refusal(const struct workshop *workshop, const char *command, int status,
                          const char *named)
{
    struct outcome outcome = workshop_run(workshop, command);
    if (outcome.status != status || !strstr(outcome.err, named))
        g_error("%s\nexits with %d: %s", command, outcome.status, outcome.err);
    outcome_clear(&outcome);
}

/* The plan's choices are used. Flags that repeat them must agree. */
static void test_contradictions(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 "
                      "--recompute 1 -o run.pstar");
    json_decref(simulate(workshop, "zero-offload"));
    workshop_must_run(workshop, JOB " --plan plan.json --recompute 1 --host-update");
    workshop_must_run(workshop, JOB " --plan plan.json");
    check_refusal(workshop, JOB " --plan plan.json --recompute all", 2, "--recompute: plan.json");
    check_refusal(workshop, JOB " --plan plan.json --host-embedding", 2,
                  "--host-embedding: plan.json");
    json_decref(simulate(workshop, "twinflow:0.5"));
    check_refusal(workshop, JOB " --plan plan.json --host-update", 2, "--host-update: plan.json");
    workshop_free(workshop);
}

static void test_refused(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 "
                      "-o run.pstar");
    check_refusal(workshop, "pstar-sim run.pstar --device-memory 1GiB --strategy zero", 2,
                  "there is no strategy 'zero'");
    check_refusal(workshop, "pstar-sim run.pstar --device-memory 1KiB --strategy all", 3,
                  "the least device memory is");
    check_refusal(workshop,
                  "pstar-sim run.pstar --device-memory 1GiB --strategy zero-offload "
                  "--host-memory 1KiB --emit-plan none.json",
                  3, "host memory");
    check_refusal(workshop,
                  "pstar-sim run.pstar --device-memory 1GiB,2GiB --strategy resident "
                  "--emit-plan none.json",
                  2, "one budget");
    g_autofree char *none = workshop_path(workshop, "none.json");
    g_assert_false(g_file_test(none, G_FILE_TEST_EXISTS));
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/strategies/programs/fp32", "fp32", test_strategies);
    g_test_add_data_func("/strategies/programs/bf16", "bf16", test_strategies);
    g_test_add_func("/strategies/programs/contradictions", test_contradictions);
    g_test_add_func("/strategies/programs/refused", test_refused);
    return g_test_run();
}
