/* The whole loop over the real programs: train with a policy, collect, simulate, plan, train with
 * the plan. What was predicted is what was measured, and placement changes no loss. */
#include "chunks/figures.h"
#include "traces/annotations.h"
#include "traces/records.h"
#include "traces/trace_file.h"
#include "workshop.h"

#include <math.h>
#include <string.h>

enum { STEPS = 6, STEADY = 2 };

struct job {
    const char *name;
    const char *options; /* of pstar-run */
    const char *policy;
    const char *chunk;
};

static const struct job jobs[] = {
    {"fp32", "--batch 2 --seq 32 --precision fp32", "opt", "32KiB"},
    {"bf16", "--batch 2 --seq 32 --precision bf16", "lru", "16KiB"},
    {"recomputed", "--batch 2 --seq 64 --precision fp32 --recompute all", "patrickstar", "24KiB"},
    {"offloaded",
     "--batch 2 --seq 64 --micro-batches 2 --precision bf16 --recompute 0 --offload-activations "
     "all",
     "opt", "24KiB"},
    {"accumulated", "--batch 1 --seq 32 --micro-batches 3 --precision bf16", "fifo", "48KiB"},
};

/* A budget that leaves room for 30 % of the model data beside the activations. */
static uint64_t small_budget(const struct workshop *workshop)
{
    GError *error = NULL;
    char *path = workshop_path(workshop, "run.pstar");
    struct trace *trace = trace_read(path, &error);
    g_assert_no_error(error);
    uint64_t peak = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        peak = MAX(peak, trace->non_model_bytes[m]);
    uint64_t bytes = peak + trace_model_bytes(trace) * 3 / 10;
    trace_free(trace);
    g_free(path);
    return bytes;
}

static void run(const struct workshop *workshop, const struct job *job, const char *prefix,
                const char *options)
{
    char *command = g_strdup_printf("%s pstar-run --model model --data text.txt --steps %d %s %s",
                                    prefix, STEPS, job->options, options);
    workshop_must_run(workshop, command);
    g_free(command);
}

/* The steps of a log, without its header. */
static json_t *steps_of(const struct workshop *workshop, const char *log)
{
    json_t *objects = workshop_read_json_lines(workshop, log);
    json_t *steps = json_array();
    size_t i;
    json_t *object;
    json_array_foreach (objects, i, object)
        if (json_object_get(object, "step"))
            json_array_append(steps, object);
    json_decref(objects);
    g_assert_cmpuint(json_array_size(steps), ==, STEPS);
    return steps;
}

static json_int_t count(const json_t *figures, const char *name)
{
    const json_t *value = json_object_get(figures, name);
    if (!json_is_integer(value))
        g_error("no figure %s", name);
    return json_integer_value(value);
}

static void assert_same_counts(const json_t *predicted, const json_t *steps)
{
    struct plan_figures of_plan, measured;
    const struct plan_figure *bad;
    g_assert_true(figures_from_json(predicted, &of_plan, &bad));
    for (size_t step = STEADY; step < STEPS; step++) {
        g_assert_true(figures_from_json(json_array_get(steps, step), &measured, &bad));
        bad = figures_first_difference(&of_plan, &measured);
        g_test_message("step %zu", step);
        g_assert_cmpstr(bad ? bad->name : NULL, ==, NULL);
    }
}

static void assert_same_losses(const json_t *a, const json_t *b)
{
    for (size_t step = 0; step < STEPS; step++) {
        double first = json_real_value(json_object_get(json_array_get(a, step), "loss"));
        double second = json_real_value(json_object_get(json_array_get(b, step), "loss"));
        g_assert_true(isfinite(first) && first > 0);
        g_assert_cmpfloat(first, ==, second);
    }
}

static json_int_t chunk_bytes(const struct job *job)
{
    return g_ascii_strtoll(job->chunk, NULL, 10) << 10;
}

static const json_t *entry_of(const json_t *results, const struct job *job)
{
    size_t i;
    json_t *entry;
    json_array_foreach (results, i, entry)
        if (count(entry, "chunk_bytes") == chunk_bytes(job) &&
            !strcmp(json_string_value(json_object_get(entry, "policy")), job->policy))
            return entry;
    g_error("no entry for %s, %s", job->policy, job->chunk);
}

/* The first line of a log says what the run was, so that a report can pair it. */
static void assert_described(const json_t *first, const struct job *job, uint64_t budget)
{
    char *made_by = g_strconcat("policy ", job->policy, NULL);
    g_assert_cmpstr(json_string_value(json_object_get(first, "made_by")), ==, made_by);
    g_assert_cmpint(count(first, "chunk_bytes"), ==, chunk_bytes(job));
    g_assert_cmpint(count(first, "device_memory_bytes"), ==, (json_int_t)budget);
    g_assert_true(json_real_value(json_object_get(first, "unigram_entropy")) > 0);
    g_free(made_by);
}

static json_int_t least_traffic(const json_t *results)
{
    size_t i;
    json_t *entry;
    json_int_t least = G_MAXINT64;
    json_array_foreach (results, i, entry)
        if (json_is_true(json_object_get(entry, "fits")))
            least = MIN(least, count(entry, "h2d_bytes") + count(entry, "d2h_bytes"));
    g_assert_cmpint(least, <, G_MAXINT64);
    return least;
}

static void plan_and_train(const struct workshop *workshop, const struct job *job, uint64_t budget,
                           const json_t *policy_steps, const json_t *results)
{
    char *plan = g_strdup_printf(
        "pstar-plan run.pstar --objective traffic --device-memory %" G_GUINT64_FORMAT
        " -o plan.json",
        budget);
    workshop_must_run(workshop, plan);
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    workshop_must_run(workshop, "pstar-plan --explain plan.json");
    run(workshop, job, "", "--plan plan.json --log plan.jsonl");

    json_t *made = workshop_read_json(workshop, "plan.json");
    const json_t *predicted = json_object_get(made, "predicted");
    json_t *steps = steps_of(workshop, "plan.jsonl");
    assert_same_counts(predicted, steps);
    assert_same_losses(policy_steps, steps);
    g_assert_cmpint(count(predicted, "h2d_bytes") + count(predicted, "d2h_bytes"), <=,
                    least_traffic(results));
    g_assert_cmpint(count(predicted, "peak_device_bytes"), <=, (json_int_t)budget);

    json_decref(steps);
    json_decref(made);
    g_free(plan);
}

/* Bytes of the copies of one direction that the trace has recorded. */
static uint64_t copied(const struct records *records, const char *direction)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        if (event->type == RECORD_PUSH_POP && event->category == ANNOTATION_COPY &&
            !strcmp(records_text(records, event->text), direction))
            bytes += event->payload;
    }
    return bytes;
}

/* Of steady steps all copies are recorded but those that the last one leaves in the queues; beside
 * them, those that the step before the first has left there. */
static void assert_copies_recorded(const struct workshop *workshop, const json_t *last)
{
    GError *error = NULL;
    char *path = workshop_path(workshop, "policy.pstar");
    struct records *records = records_read(path, &error);
    g_assert_no_error(error);
    const uint64_t steps = STEPS - STEADY, h2d = (uint64_t)count(last, "h2d_bytes"),
                   d2h = (uint64_t)count(last, "d2h_bytes");
    g_assert_cmpuint(copied(records, ANNOTATION_H2D), <=, (steps + 1) * h2d);
    g_assert_cmpuint(copied(records, ANNOTATION_H2D), >=, (steps - 1) * h2d);
    g_assert_cmpuint(copied(records, ANNOTATION_D2H), <=, (steps + 1) * d2h);
    g_assert_cmpuint(copied(records, ANNOTATION_D2H), >=, (steps - 1) * d2h);
    records_free(records);
    g_free(path);
}

static void test_loop(gconstpointer data)
{
    const struct job *job = data;
    struct workshop *workshop = workshop_new();
    /* Everything resident: the reference for the losses, and the trace for the budget. */
    run(workshop, job, "pstar-collect -o run.pstar --iterations 1:2 --", "--log resident.jsonl");
    workshop_must_run(workshop, "pstar-trace check run.pstar");
    uint64_t budget = small_budget(workshop);
    json_t *resident = steps_of(workshop, "resident.jsonl");
    g_assert_cmpint(count(json_array_get(resident, STEPS - 1), "evictions"), ==, 0);

    char *options = g_strdup_printf("--policy %s --chunk-size %s --device-memory %" G_GUINT64_FORMAT
                                    " --log policy.jsonl",
                                    job->policy, job->chunk, budget);
    run(workshop, job, "pstar-collect -o policy.pstar --iterations 2:6 --", options);
    json_t *steps = steps_of(workshop, "policy.jsonl");
    assert_same_losses(resident, steps);
    assert_copies_recorded(workshop, json_array_get(steps, STEPS - 1));
    assert_described(json_array_get(steps, 0), job, budget);

    char *sweep = g_strdup_printf("pstar-sim run.pstar --device-memory %" G_GUINT64_FORMAT
                                  " --chunk-size 8KiB,%s,64KiB,128KiB --json sweep.json",
                                  budget, job->chunk);
    workshop_must_run(workshop, sweep);
    json_t *swept = workshop_read_json(workshop, "sweep.json");
    const json_t *results = json_object_get(swept, "results");
    assert_same_counts(entry_of(results, job), steps);
    g_assert_cmpint(count(entry_of(results, job), "evictions"), >, 0);

    plan_and_train(workshop, job, budget, steps, results);
    workshop_must_run(workshop, "pstar-report run.pstar sweep.json plan.json policy.jsonl "
                                "plan.jsonl -o report");

    json_decref(swept);
    g_free(sweep);
    json_decref(steps);
    g_free(options);
    json_decref(resident);
    workshop_free(workshop);
}

/* A learning rate that no training survives: the run ends, and says at which step. */
static void test_divergence(void)
{
    struct workshop *workshop = workshop_new();
    struct outcome outcome = workshop_run(
        workshop, "pstar-run --model model --data text.txt --batch 2 --seq 16 --steps 50 "
                  "--lr 1e30 --warmup-steps 0 --clip 0 --log diverging.jsonl");
    g_assert_cmpint(outcome.status, ==, 1);
    g_assert_nonnull(strstr(outcome.err, "diverged: 'forward loss' of micro-batch 0 left "));
    g_assert_nonnull(strstr(outcome.err, "a lower --lr"));
    outcome_clear(&outcome);
    workshop_free(workshop);
}

/* Weights that are not numbers are not blamed on the learning rate. */
static void test_bad_weights(void)
{
    struct workshop *workshop = workshop_new();
    guint64 header;
    char *weights;
    gsize length;
    workshop_must_run(workshop, "pstar-run --model model --data text.txt --batch 2 --seq 16 "
                                "--steps 1 --save saved");
    g_autofree char *path = workshop_path(workshop, "saved/model.safetensors");
    g_assert_true(g_file_get_contents(path, &weights, &length, NULL));
    memcpy(&header, weights, sizeof header);
    memset(weights + sizeof header + GUINT64_FROM_LE(header), 0xff, sizeof(float));
    g_assert_true(g_file_set_contents(path, weights, (gssize)length, NULL));
    workshop_must_end(workshop,
                      "pstar-run --model saved --data text.txt --batch 2 --seq 16 --steps 3", 1, "",
                      "the run has not done a step before, so the weights or optimizer states");
    g_free(weights);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        char *path = g_strconcat("/loop/", jobs[i].name, NULL);
        g_test_add_data_func(path, &jobs[i], test_loop);
        g_free(path);
    }
    g_test_add_func("/divergence", test_divergence);
    g_test_add_func("/bad-weights", test_bad_weights);
    return g_test_run();
}
