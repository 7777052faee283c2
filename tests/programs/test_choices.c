/* Which layers are computed again is the planner's choice: the run takes it from the plan, moves
 * what was predicted, and its losses are those of the recorded run. */
#include "chunks/figures.h"
#include "tests/drawn.h"
#include "workshop.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { STEPS = 4, LAYERS = 4 };

#define CHUNKS "--chunk-size 64KiB" /* less to search */

static const char model[] =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 64, \"n_embd\": 64,\n"
    " \"n_layer\": 4, \"n_head\": 4, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1,\n"
    " \"attn_pdrop\": 0.1}\n";

#define PLATFORM "--platform " PROJECT_DIR "/platforms/cpu-2core.json "

struct job {
    const char *name, *options, *recorded; /* --recompute of the recorded run */
    const char *search;                    /* of pstar-plan */
    const char *model;                     /* its config.json */
};

static const struct job jobs[] = {
    {"kept", "--batch 4 --seq 64 --precision bf16", "none", "--objective traffic", model},
    {"recomputed", "--batch 4 --seq 64 --precision fp32", "all", "--objective memory", model},
    {"some", "--batch 2 --seq 64 --micro-batches 2 --precision bf16", "1,3",
     "--link h2d=60MB/s,d2h=60MB/s", model},
    {"embedded", "--batch 4 --seq 64 --precision bf16 --host-embedding", "none",
     PLATFORM "--link h2d=60MB/s,d2h=60MB/s", model},
};

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

static void assert_measured(const json_t *predicted, const json_t *steps)
{
    struct plan_figures of_plan, of_step;
    const struct plan_figure *bad;
    g_assert_true(figures_from_json(predicted, &of_plan, &bad));
    g_assert_true(figures_from_json(json_array_get(steps, STEPS - 1), &of_step, &bad));
    bad = figures_first_difference(&of_plan, &of_step);
    g_assert_cmpstr(bad ? bad->name : NULL, ==, NULL);
}

/* `choice` is "recompute" or "offload". */
static uint32_t count_layers(const json_t *plan, const char *choice)
{
    const json_t *layers = json_object_get(json_object_get(plan, "choices"), choice);
    uint32_t count = 0;
    g_assert_cmpuint(json_array_size(layers), ==, LAYERS);
    for (size_t l = 0; l < LAYERS; l++)
        count += json_is_true(json_array_get(layers, l));
    return count;
}

static json_int_t count(const json_t *plan, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(plan, "made_for"), name));
}

static void assert_listed(const json_t *plan)
{
    const json_t *list = json_object_get(json_object_get(plan, "certificate"), "alternatives");
    g_assert_cmpuint(json_array_size(list), >=, 1);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *bound = json_object_get(json_array_get(list, i), "lower_bound_ns");
        g_assert_cmpint(json_integer_value(bound), >, 0);
    }
}

/* Both sides were looked at, the plan's own included. */
static void assert_embedding_weighed(const json_t *plan)
{
    const json_t *list = json_object_get(json_object_get(plan, "certificate"), "alternatives");
    const json_t *own = json_object_get(json_object_get(plan, "choices"), "host_embedding");
    bool other = false;
    for (size_t i = 0; i < json_array_size(list); i++)
        other |= !json_equal(own, json_object_get(json_array_get(list, i), "host_embedding"));
    g_assert_true(other);
}

/* A recorded run, and the same by its plan: as predicted, with equal losses. The plan. */
static json_t *plan_and_run(const struct workshop *workshop, const struct job *job)
{
    /* Which choice is faster depends on the machine; then times are those of a platform. */
    bool on_platform = strstr(job->search, PLATFORM) != NULL;
    workshop_write(workshop, "model/config.json", job->model);
    workshop_must_run_format(
        workshop,
        "pstar-collect -o %s --iterations 1:3 -- pstar-run --model model --data text.txt "
        "--steps %d %s --recompute %s --log recorded.jsonl",
        on_platform ? "recorded.pstar" : "run.pstar", STEPS, job->options, job->recorded);
    if (on_platform)
        workshop_must_run(workshop, "pstar-trace retime recorded.pstar " PLATFORM "-o run.pstar");
    workshop_must_run_format(workshop,
                             "pstar-plan run.pstar --device-memory 25%% %s " CHUNKS " -o plan.json",
                             job->search);
    workshop_must_run_format(workshop, "pstar-plan --verify plan.json run.pstar");
    workshop_must_run_format(workshop, "pstar-plan --explain plan.json run.pstar");
    /* An option that says otherwise is what a run without a plan would do. */
    workshop_must_run_format(
        workshop,
        "pstar-run --model model --data text.txt --steps %d %s --recompute %s --plan plan.json "
        "--log planned.jsonl",
        STEPS, job->options, job->recorded);

    json_t *plan = workshop_read_json(workshop, "plan.json");
    json_t *recorded = steps_of(workshop, "recorded.jsonl");
    json_t *planned = steps_of(workshop, "planned.jsonl");
    assert_listed(plan);
    if (strstr(job->search, "--platform"))
        assert_embedding_weighed(plan);
    assert_measured(json_object_get(plan, "predicted"), planned);
    assert_same_losses(recorded, planned);
    json_decref(planned);
    json_decref(recorded);
    return plan;
}

static void test_job(gconstpointer data)
{
    const struct job *job = data;
    struct workshop *workshop = workshop_new();
    json_t *plan = plan_and_run(workshop, job);
    /* Both ask for room, whatever operators take: layers that were kept are not any more. */
    if (!strcmp(job->search, "--objective traffic"))
        g_assert_cmpuint(count_layers(plan, "recompute") + count_layers(plan, "offload"), >, 0);
    if (!strcmp(job->search, "--objective memory"))
        g_assert_cmpuint(count_layers(plan, "offload"), ==, LAYERS);

    workshop_must_run_format(workshop,
                             "pstar-plan run.pstar --device-memory 25%% %s " CHUNKS
                             " --recompute traced -o kept.json",
                             job->search);
    json_t *kept = workshop_read_json(workshop, "kept.json");
    json_t *info = workshop_must_print_json(workshop, "pstar-trace info --json run.pstar");
    g_assert_true(json_equal(json_object_get(json_object_get(kept, "choices"), "recompute"),
                             json_object_get(json_object_get(info, "choices"), "recompute")));
    json_decref(info);
    json_decref(kept);
    json_decref(plan);
    workshop_free(workshop);
}

/* A recorded run without state blocks is planned with them, and executed with the recorded losses.
 * Options that say otherwise are refused if the plan did not weigh them. */
static void test_state_blocks(void)
{
    static const char wide[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 100000, \"n_positions\": 16, "
        "\"n_embd\": 64, \"n_layer\": 4, \"n_head\": 4}\n";
    static const struct job job = {"state-blocks",
                                   "--batch 1 --seq 16 --precision bf16 --tokens bytes", "none",
                                   PLATFORM "--link h2d=100MB/s,d2h=100MB/s", wide};
    struct workshop *workshop = workshop_new();
    json_t *plan = plan_and_run(workshop, &job);
    const json_t *block = json_object_get(json_object_get(plan, "choices"), "state_block");
    g_assert_cmpint(json_integer_value(block), >, 0);
    workshop_must_run_format(workshop,
                             "pstar-plan run.pstar --device-memory 25%% %s " CHUNKS
                             " --recompute traced -o kept.json",
                             job.search);
    json_t *kept = workshop_read_json(workshop, "kept.json");
    g_assert_null(json_object_get(json_object_get(kept, "choices"), "state_block"));
    struct outcome other = workshop_run(workshop,
                                        "pstar-run --model model --data text.txt "
                                        "--tokens bytes --precision bf16 --state-block auto --plan "
                                        "kept.json --dry-run");
    g_assert_cmpint(other.status, ==, 2);
    g_assert_nonnull(strstr(other.err, "--state-block"));
    outcome_clear(&other);
    json_decref(kept);
    json_decref(plan);
    workshop_free(workshop);
}

/* Where the gradients of a large embedding come last, the host had better begin with other updates.
 * The plan says so, is shorter for it, and the run has the losses of a run without it. */
static void test_update_order(void)
{
    static const char options[] = "--batch 2 --seq 64 --precision fp32 ";
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "model/config.json",
                   "{\"model_type\": \"gpt2\", \"vocab_size\": 2048, \"n_positions\": 64, "
                   "\"n_embd\": 64, \"n_layer\": 6, \"n_head\": 4}\n");
    workshop_must_run_format(
        workshop, "pstar-trace synth --model model %s " PLATFORM "-o run.pstar", options);
    workshop_must_end(workshop,
                      "pstar-plan run.pstar --device-memory 40% " PLATFORM
                      "--link h2d=100MB/s,d2h=50MB/s -o plan.json",
                      0, "; the host's updates begin with ", "");
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    workshop_must_run_format(workshop,
                             "pstar-run --model model --data text.txt --tokens bytes --steps %d %s"
                             "--plan plan.json --log planned.jsonl",
                             STEPS, options);
    workshop_must_run_format(workshop,
                             "pstar-run --model model --data text.txt --tokens bytes --steps %d %s"
                             "--log alone.jsonl",
                             STEPS, options);
    json_t *plan = workshop_read_json(workshop, "plan.json");
    json_t *planned = steps_of(workshop, "planned.jsonl");
    json_t *alone = steps_of(workshop, "alone.jsonl");
    const json_t *first = json_object_get(json_object_get(plan, "choices"), "first_update");
    g_assert_cmpint(json_integer_value(first), >, 0);
    assert_measured(json_object_get(plan, "predicted"), planned);
    assert_same_losses(alone, planned);
    json_decref(alone);
    json_decref(planned);
    json_decref(plan);
    workshop_free(workshop);
}

/* With too little memory for 14 bytes a parameter the run takes 12 and a second backward. */
static void test_masters(void)
{
    static const struct job job = {"masters", "--batch 4 --seq 64 --precision bf16 --clip 0.05",
                                   "all", "--host-memory 2200kB", model};
    struct workshop *workshop = workshop_new();
    json_t *plan = plan_and_run(workshop, &job);
    const json_t *choices = json_object_get(plan, "choices");
    g_assert_true(json_is_true(json_object_get(choices, "backward_twice")));
    json_decref(plan);
    workshop_free(workshop);
}

/* The run takes its micro-batches from the plan; with the same without a plan, losses are equal. */
static void test_micro_batches(void)
{
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "model/config.json", model);
    workshop_must_run_format(
        workshop, "pstar-trace synth --model model --batch 8 --seq 64 --precision bf16 " PLATFORM
                  " -o made.pstar");
    workshop_must_run_format(workshop,
                             "pstar-plan made.pstar --device-memory 1200KiB " PLATFORM CHUNKS
                             " --micro-batch any -o plan.json");
    workshop_must_run_format(workshop, "pstar-plan --verify plan.json made.pstar");
    workshop_must_run_format(
        workshop,
        "pstar-run --model model --data text.txt --steps %d --precision bf16 --plan plan.json "
        "--log planned.jsonl",
        STEPS);
    json_t *plan = workshop_read_json(workshop, "plan.json");
    json_int_t batch = count(plan, "batch"), micro_batches = count(plan, "micro_batches");
    g_assert_cmpint(batch, <, 8);
    g_assert_cmpint(batch * micro_batches, ==, 8);
    workshop_must_run_format(
        workshop,
        "pstar-run --model model --data text.txt --steps %d --precision bf16 --seq 64 "
        "--batch %d --micro-batches %d --log resident.jsonl",
        STEPS, (int)batch, (int)micro_batches);
    json_t *planned = steps_of(workshop, "planned.jsonl");
    json_t *resident = steps_of(workshop, "resident.jsonl");
    assert_listed(plan);
    assert_measured(json_object_get(plan, "predicted"), planned);
    assert_same_losses(resident, planned);

    struct outcome other = workshop_run(workshop, "pstar-run --model model --data text.txt --batch "
                                                  "8 --precision bf16 --plan plan.json");
    g_assert_cmpint(other.status, ==, 2);
    outcome_clear(&other);
    json_decref(resident);
    json_decref(planned);
    json_decref(plan);
    workshop_free(workshop);
}

/* A measured run does not tell how long other micro-batches would take. */
static void test_measured(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run_format(
        workshop, "pstar-collect -o run.pstar --iterations 1:2 -- pstar-run --model model --data "
                  "text.txt --steps 3 --batch 4");
    struct outcome outcome = workshop_run(workshop, "pstar-plan run.pstar --device-memory 2MiB "
                                                    "--micro-batch any " PLATFORM "-o plan.json");
    g_assert_cmpint(outcome.status, ==, 2);
    g_assert_nonnull(strstr(outcome.err, "micro-batches"));
    outcome_clear(&outcome);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        if (!draws_row(2, G_N_ELEMENTS(jobs)))
            continue;
        g_autofree char *path = g_strconcat("/programs/choices/", jobs[i].name, NULL);
        g_test_add_data_func(path, &jobs[i], test_job);
    }
    draws_test(2, 5, "/programs/choices/state-blocks", test_state_blocks);
    draws_test(2, 5, "/programs/choices/update-order", test_update_order);
    draws_test(2, 5, "/programs/choices/masters", test_masters);
    draws_test(2, 5, "/programs/choices/micro-batches", test_micro_batches);
    draws_test(2, 5, "/programs/choices/measured", test_measured);
    return g_test_run();
}
