/* pstar-plan chooses what several ranks share. The planned run, on 2 and 4 ranks, moves exactly
 * what the plan says, and its losses are those of one process. */
#include "chunks/figures.h"
#include "tests/drawn.h"
#include "workshop.h"

#include <math.h>
#include <string.h>

enum { STEPS = 3, USAGE = 2, ANY_STAGE = -1 };

/* A node of four ranks with this rate between them, and nothing else in common but the host. */
#define NODE                                                                     \
    "{\"source\": \"made for a test\", \"gpus\": 4, \"bytes_per_second\": 2e9, " \
    "\"latency_seconds\": 1e-6}"

struct job {
    const char *name;
    int ranks, micro_batches;
    const char *precision, *memory;
    int stage;     /* that is best; ANY_STAGE if that depends on what was measured */
    bool measured; /* the trace is of a run, else synthesised */
    int layers;    /* as few as need the stage: a search takes as long as they are many */
};

static const struct job jobs[] = {
    {"2-ranks-stage-2", 2, 4, "fp32", "1MiB", 2, false, 2},
    {"2-ranks-stage-3", 2, 2, "fp32", "1700KiB", 3, false, 2},
    {"4-ranks-stage-2", 4, 4, "fp32", "1MiB", 2, false, 2},
    {"4-ranks-stage-3", 4, 4, "bf16", "1200KiB", 3, true, 2},
};

static bool can_run(void)
{
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    return mpirun && g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS);
}

/* Writes machine.json: the two cores of platforms/cpu-2core.json, as a node of four ranks. */
static void write_machine(const struct workshop *workshop)
{
    json_t *machine = json_load_file(PROJECT_DIR "/platforms/cpu-2core.json", 0, NULL);
    json_object_set_new(machine, "node", json_loads(NODE, 0, NULL));
    g_autofree char *path = workshop_path(workshop, "machine.json");
    g_assert_cmpint(json_dump_file(machine, path, 0), ==, 0);
    json_decref(machine);
}

static struct workshop *begin(int layers)
{
    struct workshop *workshop = workshop_new();
    g_autofree char *model = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 64, \"n_embd\": 64, "
        "\"n_layer\": %d, \"n_head\": 4, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, "
        "\"attn_pdrop\": 0.1}\n",
        layers);
    workshop_write(workshop, "model/config.json", model);
    write_machine(workshop);
    return workshop;
}

static void trace(const struct workshop *workshop, const struct job *job)
{
    int each = job->micro_batches / job->ranks;
    if (job->measured)
        workshop_must_run_format(
            workshop,
            "pstar-collect -o run.pstar --iterations 1:3 -- pstar-run --model model --data "
            "text.txt "
            "--steps %d --threads 1 --batch 2 --seq 64 --precision %s --micro-batches %d",
            STEPS, job->precision, each);
    else
        workshop_must_run_format(
            workshop,
            "pstar-trace synth --model model --batch 2 --seq 64 --precision %s --micro-batches %d "
            "--platform machine.json -o run.pstar",
            job->precision, each);
}

static json_t *steps_of(const struct workshop *workshop, const char *log)
{
    json_t *objects = workshop_read_json_lines(workshop, log), *steps = json_array(), *object;
    size_t i;
    json_array_foreach (objects, i, object)
        if (json_object_get(object, "step"))
            json_array_append(steps, object);
    json_decref(objects);
    g_assert_cmpuint(json_array_size(steps), ==, STEPS);
    return steps;
}

static void assert_same_losses(const json_t *a, const json_t *b)
{
    for (size_t step = 0; step < STEPS; step++) {
        const json_t *first = json_object_get(json_array_get(a, step), "loss");
        g_assert_true(isfinite(json_real_value(first)) && json_real_value(first) > 0);
        g_assert_true(json_equal(first, json_object_get(json_array_get(b, step), "loss")));
    }
}

static void assert_measured(const json_t *plan, const json_t *steps)
{
    struct plan_figures of_plan, of_step;
    const struct plan_figure *bad;
    g_assert_true(figures_from_json(json_object_get(plan, "predicted"), &of_plan, &bad));
    g_assert_true(figures_from_json(json_array_get(steps, STEPS - 1), &of_step, &bad));
    bad = figures_first_difference(&of_plan, &of_step);
    g_assert_cmpstr(bad ? bad->name : NULL, ==, NULL);
    g_assert_cmpuint(of_plan.sent_bytes, >, 0);
}

static json_int_t stage_of(const json_t *choices)
{
    return json_integer_value(json_object_get(choices, "stage"));
}

/* The plan is in the better stage, and its certificate has a bound for the other one. */
static void assert_stages(const json_t *plan, int best)
{
    const json_t *list = json_object_get(json_object_get(plan, "certificate"), "alternatives");
    bool other = false;
    g_assert_cmpint(stage_of(json_object_get(plan, "choices")), ==, best);
    for (size_t i = 0; i < json_array_size(list); i++)
        other |= stage_of(json_array_get(list, i)) == 5 - best;
    g_assert_true(other);
}

static void check_plan(const struct workshop *workshop, const struct job *job)
{
    g_autofree char *stage = g_strdup_printf("%d, stage %d: they share", job->ranks, job->stage);
    workshop_must_run_format(
        workshop,
        "pstar-plan run.pstar --platform machine.json --gpus %d --device-memory %s "
        "--chunk-size 64KiB -o plan.json",
        job->ranks, job->memory);
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    workshop_must_end(workshop, "pstar-plan --explain plan.json run.pstar", 0, stage, "");
}

#define RUN                                                                                       \
    "pstar-run --model model --data text.txt --threads 1 --steps %d --batch 2 --seq 64 --seed 3 " \
    "--precision %s --micro-batches %d "

/* The stage is the plan's, whatever the option says, as all choices that a search has weighed. */
static void run_both(const struct workshop *workshop, const struct job *job)
{
    workshop_must_run_format(workshop,
                             "mpirun -n %d --oversubscribe " RUN
                             "--stage %d --plan plan.json --log "
                             "planned.jsonl",
                             job->ranks, STEPS, job->precision, job->micro_batches, 5 - job->stage);
    workshop_must_run_format(workshop, RUN "--log alone.jsonl", STEPS, job->precision,
                             job->micro_batches);
}

static void test_job(gconstpointer data)
{
    const struct job *job = data;
    if (!can_run()) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        return;
    }
    struct workshop *workshop = begin(job->layers);
    trace(workshop, job);
    check_plan(workshop, job);
    run_both(workshop, job);
    json_t *plan = workshop_read_json(workshop, "plan.json");
    json_t *planned = steps_of(workshop, "planned.jsonl");
    json_t *alone = steps_of(workshop, "alone.jsonl");
    assert_stages(plan, job->stage);
    assert_measured(plan, planned);
    assert_same_losses(planned, alone);
    json_decref(alone);
    json_decref(planned);
    json_decref(plan);
    workshop_free(workshop);
}

static const struct job fast_jobs[] = {
    {"2-ranks-fp32-4-micro-batches", 2, 8, "fp32", "64MiB", 1, false, 4},
    {"4-ranks-bf16", 4, 4, "bf16", "1700KiB", 0, false, 2},
    {"4-ranks-bf16-little-memory", 4, 4, "bf16", "800KiB", 3, false, 2},
    {"2-ranks-bf16-2-micro-batches-measured", 2, 4, "bf16", "64MiB", ANY_STAGE, true, 2},
};

/* No row of a sweep over the strategies of other systems, which sum fast, takes less than the plan.
 */
static void assert_fastest(const struct workshop *workshop, const struct job *job,
                           const json_t *plan)
{
    double step =
        json_real_value(json_object_get(json_object_get(plan, "predicted"), "iteration_seconds"));
    const json_t *row;
    size_t i, timed = 0;
    workshop_must_run_format(workshop,
                             "pstar-sim run.pstar --platform machine.json --gpus %d "
                             "--device-memory %s --chunk-size 32KiB,64KiB,128KiB,1MiB "
                             "--strategy all --json sweep.json",
                             job->ranks, job->memory);
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    json_array_foreach (json_object_get(sweep, "results"), i, row) {
        const json_t *seconds = json_object_get(row, "iteration_seconds");
        if (!json_is_real(seconds))
            continue;
        g_test_message("%s %g", json_string_value(json_object_get(row, "strategy")),
                       json_real_value(seconds));
        g_assert_cmpfloat(step, <=, json_real_value(seconds) + 1e-9);
        timed++;
    }
    g_assert_cmpuint(timed, >, 0);
    json_decref(sweep);
}

/* Sums in another order differ in their rounding. */
static void assert_near_losses(const json_t *a, const json_t *b)
{
    for (size_t step = 0; step < STEPS; step++) {
        double first = json_real_value(json_object_get(json_array_get(a, step), "loss"));
        double other = json_real_value(json_object_get(json_array_get(b, step), "loss"));
        g_assert_true(first > 0 && fabs(first - other) <= 1e-3 * first);
    }
}

/* A plan whose ranks may sum fast is no slower than other systems, and runs without an option. */
static void test_fast(gconstpointer data)
{
    const struct job *job = data;
    if (!can_run()) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        return;
    }
    struct workshop *workshop = begin(job->layers);
    trace(workshop, job);
    workshop_must_run_format(workshop,
                             "pstar-plan run.pstar --platform machine.json --gpus %d "
                             "--device-memory %s --reduction fast -o plan.json",
                             job->ranks, job->memory);
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    workshop_must_run_format(
        workshop, "mpirun -n %d --oversubscribe " RUN "--plan plan.json --log planned.jsonl",
        job->ranks, STEPS, job->precision, job->micro_batches);
    workshop_must_run_format(workshop, RUN "--log alone.jsonl", STEPS, job->precision,
                             job->micro_batches);
    json_t *plan = workshop_read_json(workshop, "plan.json");
    json_t *planned = steps_of(workshop, "planned.jsonl");
    json_t *alone = steps_of(workshop, "alone.jsonl");
    const json_t *choices = json_object_get(plan, "choices");
    g_test_message("stage %d", (int)stage_of(choices));
    if (job->stage != ANY_STAGE) {
        g_assert_cmpstr(json_string_value(json_object_get(choices, "reduction")), ==, "fast");
        g_assert_cmpint(stage_of(choices), ==, job->stage);
    }
    assert_fastest(workshop, job, plan);
    assert_measured(plan, planned);
    assert_near_losses(planned, alone);
    json_decref(alone);
    json_decref(planned);
    json_decref(plan);
    workshop_free(workshop);
}

/* Changes the stage of an alternative in the plan's file. */
static void change_stage(const struct workshop *workshop, int stage)
{
    g_autofree char *path = workshop_path(workshop, "plan.json"), *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    char *list = strstr(text, "\"alternatives\"");
    char *at = list ? strstr(list, "\"stage\":") : NULL;
    g_assert_nonnull(at);
    at[strlen("\"stage\":")] = (char)('0' + stage);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

/* A stage that is named is not chosen, and a stage that nobody knows is refused. The size of the
 * model does not matter. */
static void test_told(void)
{
    struct workshop *workshop = begin(1);
    trace(workshop, &jobs[0]);
    for (int stage = 2; stage <= 3; stage++) {
        workshop_must_run_format(workshop,
                                 "pstar-plan run.pstar --platform machine.json --gpus 2 --stage %d "
                                 "--device-memory 4MiB --chunk-size 64KiB -o plan.json",
                                 stage);
        json_t *plan = workshop_read_json(workshop, "plan.json");
        const json_t *list = json_object_get(json_object_get(plan, "certificate"), "alternatives");
        g_assert_cmpint(stage_of(json_object_get(plan, "choices")), ==, stage);
        for (size_t i = 0; i < json_array_size(list); i++)
            g_assert_cmpint(stage_of(json_array_get(list, i)), ==, stage);
        json_decref(plan);
    }
    change_stage(workshop, 4);
    workshop_must_end(workshop, "pstar-plan --verify plan.json run.pstar", USAGE, "",
                      "an alternative has an invalid stage");
    workshop_free(workshop);
}

/* Other systems sum fast, so a search that keeps to exact sums says so. */
static void test_says_how_it_sums(void)
{
    struct workshop *workshop = begin(1);
    trace(workshop, &jobs[0]);
    for (int fast = 0; fast < 2; fast++) {
        g_autofree char *command =
            g_strdup_printf("pstar-plan run.pstar --platform machine.json --gpus 2 "
                            "--device-memory 4MiB --chunk-size 64KiB -o plan.json --reduction %s",
                            fast ? "fast" : "exact");
        struct outcome outcome = workshop_run(workshop, command);
        g_assert_cmpint(outcome.status, ==, 0);
        g_assert_true((strstr(outcome.out, "With --reduction fast they may be") != NULL) == !fast);
        outcome_clear(&outcome);
    }
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    /* mpirun does not run for root unless asked twice; the tests run in containers as root. */
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        if (!draws_row(2, G_N_ELEMENTS(jobs)))
            continue;
        g_autofree char *path = g_strconcat("/planned-ranks/", jobs[i].name, NULL);
        g_test_add_data_func(path, &jobs[i], test_job);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(fast_jobs); i++) {
        if (!draws_row(1, G_N_ELEMENTS(fast_jobs)))
            continue;
        g_autofree char *path = g_strconcat("/planned-ranks/fast/", fast_jobs[i].name, NULL);
        g_test_add_data_func(path, &fast_jobs[i], test_fast);
    }
    draws_test(1, 2, "/planned-ranks/told", test_told);
    draws_test(1, 2, "/planned-ranks/says-how-it-sums", test_says_how_it_sums);
    return g_test_run();
}
