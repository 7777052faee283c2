/* Collects one trace from a run with everything resident. pstar-sim makes every strategy's plan
 * from it, and pstar-run trains with each plan, without flags for what the plan chose. */
#include "chunks/figures.h"
#include "tests/programs/workshop.h"

#include <string.h>

#define JOB "pstar-run --model model --data text.txt --steps 4 --batch 2 --seq 32 --threads 1"

static const char *const names[] = {
    "resident",     "patrickstar",   "gemini-static:0.3", "gemini-auto:2",
    "zero-offload", "zero3-offload", "twinflow:0.6",      "superoffload:0.3",
    "interleave:3", "fsdp-offload",  "megatrain",
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
static json_t *simulate_trace(const struct workshop *workshop, const char *trace, const char *name,
                              const char *options)
{
    g_autofree char *command =
        g_strdup_printf("pstar-sim %s --strategy %s --device-memory 8MiB --chunk-size 48KiB "
                        "--json sweep.json --emit-plan plan.json --phases %s",
                        trace, name, options);
    workshop_must_run(workshop, command);
    json_t *root = workshop_read_json(workshop, "sweep.json");
    json_t *row = json_incref(json_array_get(json_object_get(root, "results"), 0));
    g_assert_cmpuint(json_array_size(json_object_get(root, "results")), ==, 1);
    g_assert_cmpstr(json_string_value(json_object_get(row, "strategy")), ==, name);
    g_assert_true(json_is_null(json_object_get(row, "policy")));
    json_decref(root);
    return row;
}

static json_t *simulate(const struct workshop *workshop, const char *name)
{
    return simulate_trace(workshop, "run.pstar", name, "");
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

/* Figures that both lack are 0. */
static bool differ(const json_t *a, const json_t *b, const char *figure)
{
    const json_t *of_a = json_object_get(a, figure), *of_b = json_object_get(b, figure);
    return (of_a || of_b) && !json_equal(of_a, of_b);
}

static void check_run(const json_t *row, const json_t *steps, const json_t *resident)
{
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i), *same = json_array_get(resident, i);
        g_assert_cmpfloat(json_real_value(json_object_get(step, "loss")), ==,
                          json_real_value(json_object_get(same, "loss")));
        for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
            if (figure->unit != FIGURE_SECONDS && differ(step, row, figure->name))
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

static json_t *collect_unclipped(const struct workshop *workshop, const char *trace,
                                 const char *options)
{
    g_autofree char *collect = g_strdup_printf("pstar-collect -o %s --iterations 1:2 -- " JOB
                                               " --precision bf16 --clip 0 --log run.jsonl %s",
                                               trace, options);
    workshop_must_run(workshop, collect);
    return steps_of(workshop, "run.jsonl");
}

/* Without clipping, superoffload updates within backward. Its run trains bit for bit as one with
 * everything resident. The trace of that run serves all strategies and the planner like any other.
 */
static void test_unclipped(void)
{
    struct workshop *workshop = workshop_new();
    json_t *resident = collect_unclipped(workshop, "run.pstar", "");
    json_t *row = simulate_trace(workshop, "run.pstar", "superoffload:0.2", "--no-clip");
    check_phases(row);
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    check_refusal(workshop, JOB " --precision bf16 --plan plan.json", 2,
                  "updates before it knows the gradient's norm; use --clip 0");
    json_t *steps = collect_unclipped(workshop, "early.pstar", "--plan plan.json");
    check_run(row, steps, resident);
    struct outcome info = workshop_run(workshop, "pstar-trace info --json early.pstar");
    g_assert_nonnull(strstr(info.out, "\"early_updates\": true"));
    outcome_clear(&info);
    json_decref(row);
    json_decref(steps);

    static const char *const others[] = {"zero-offload", "interleave:3", "superoffload:0.2"};
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        json_t *from_late = simulate(workshop, others[i]);
        json_t *from_early = simulate_trace(workshop, "early.pstar", others[i], "");
        for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
            if (figure->unit != FIGURE_SECONDS)
                g_assert_false(differ(from_late, from_early, figure->name));
        json_decref(from_late);
        json_decref(from_early);
    }
    workshop_must_run(workshop, "pstar-plan early.pstar --device-memory 30% -o plan.json");
    workshop_must_run(workshop, "pstar-plan --verify plan.json early.pstar");
    workshop_must_run(workshop, JOB " --precision bf16 --plan plan.json");
    json_decref(resident);
    workshop_free(workshop);
}

static double least_seconds(const struct workshop *workshop)
{
    json_t *root = workshop_read_json(workshop, "sweep.json"), *row;
    double least = G_MAXDOUBLE;
    size_t index;
    json_array_foreach (json_object_get(root, "results"), index, row)
        if (json_is_true(json_object_get(row, "fits")))
            least = MIN(least, number(row, "iteration_seconds"));
    json_decref(root);
    return least;
}

/* Over a slow link, updates within backward are hard to beat. The plan of a run that does not clip
 * is no slower, even if it is that strategy's, and its bound can be checked. */
static void test_planner(void)
{
    static const char *const machine = "--device-memory 25% --link h2d=1GB/s,d2h=1GB/s "
                                       "--platform " PROJECT_DIR "/platforms/v100-yard.json";
    struct workshop *workshop = workshop_new();
    g_autofree char *sweep =
        g_strdup_printf("pstar-sim g.pstar %s --strategy superoffload,superoffload:0 --no-clip "
                        "--json sweep.json",
                        machine);
    g_autofree char *plan = g_strdup_printf("pstar-plan g.pstar %s --recompute traced "
                                            "--offload-activations traced --no-clip -o plan.json",
                                            machine);
    workshop_must_run(workshop,
                      "pstar-trace synth --model " PROJECT_DIR "/models/configs/gpt2.json "
                      "--batch 32 --seq 1024 --precision bf16 --recompute all "
                      "--platform " PROJECT_DIR "/platforms/v100-yard.json -o g.pstar");
    workshop_must_run(workshop, sweep);
    workshop_must_run(workshop, plan);
    workshop_must_run(workshop, "pstar-plan --verify plan.json g.pstar");
    json_t *root = workshop_read_json(workshop, "plan.json");
    bool early = json_object_get(json_object_get(root, "choices"), "update_after");
    double seconds = number(json_object_get(root, "predicted"), "iteration_seconds");
    g_assert_cmpfloat(seconds, <=, least_seconds(workshop) * (1 + 1e-9)); /* rounded in files */
    g_assert_true(early == g_str_has_prefix(json_string_value(json_object_get(root, "made_by")),
                                            "superoffload"));
    json_decref(root);
    workshop_free(workshop);
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
                  "there is no strategy 'zero'; choose one of resident, ");
    check_refusal(workshop, "pstar-sim run.pstar --device-memory 5XB", 2,
                  "--device-memory: '5XB' is not a size");
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
    g_test_add_func("/strategies/programs/unclipped", test_unclipped);
    g_test_add_func("/strategies/programs/planner", test_planner);
    g_test_add_func("/strategies/programs/contradictions", test_contradictions);
    g_test_add_func("/strategies/programs/refused", test_refused);
    return g_test_run();
}
