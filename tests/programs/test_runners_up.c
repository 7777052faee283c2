/* The result of pstar-plan for programs (--json), and what lost to the plan, with the reason
 * (--top). */
#include "workshop.h"

#include <string.h>

#define PLAN                                                           \
    "pstar-plan run.pstar --device-memory 40% --platform " PROJECT_DIR \
    "/platforms/cpu-2core.json -o plan.json "

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    g_assert_nonnull(text);
    return text;
}

static struct workshop *open_workshop(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model model --batch 4 --seq 64 --precision "
                      "bf16 --platform " PROJECT_DIR "/platforms/cpu-2core.json -o run.pstar");
    return workshop;
}

/* Returns the lines below "Runners-up" and its heading that name one. */
static unsigned count_rows(const char *text, const json_t *list)
{
    unsigned count = 0;
    const char *at = strstr(text, "Runners-up\n");
    g_assert_nonnull(at);
    g_auto(GStrv) lines = g_strsplit(at, "\n", -1);
    for (char **line = lines + 2; *line && !g_str_has_prefix(*line, "Operators'"); line++) {
        const json_t *rival = json_array_get(list, count);
        if (!rival || !strstr(*line, text_of(rival, "what")))
            break;
        g_assert_true(g_str_has_suffix(*line, text_of(rival, "why")));
        count++;
    }
    return count;
}

/* Files differ in how many digits times have. */
static void expect_same(const json_t *figures, json_t *expected)
{
    const char *name;
    json_t *value;
    json_object_foreach (expected, name, value) {
        g_assert_cmpfloat_with_epsilon(number(figures, name), json_number_value(value), 1e-9);
    }
    g_assert_cmpuint(json_object_size(figures), ==, json_object_size(expected));
}

/* Returns the name in the first row of the table of what was tried: the best policy's. */
static char *best_policy(const char *text)
{
    const char *at = strstr(text, "step s\n");
    g_assert_nonnull(at);
    at += strlen("step s\n  ");
    return g_strndup(at, strcspn(at, " "));
}

static void test_result(void)
{
    struct workshop *workshop = open_workshop();
    g_autofree char *three = workshop_must_print(workshop, PLAN "--top 3 --json result.json");
    json_t *result = workshop_read_json(workshop, "result.json"),
           *plan = workshop_read_json(workshop, "plan.json");
    const json_t *list = json_object_get(result, "runners_up"), *rival;
    const json_t *predicted = json_object_get(result, "predicted"),
                 *bounds = json_object_get(result, "lower_bounds");
    expect_same(predicted, json_object_get(plan, "predicted"));
    g_assert_cmpstr(text_of(result, "plan"), ==, "plan.json");
    g_assert_cmpstr(text_of(result, "objective"), ==, "time");
    g_assert_cmpfloat(number(bounds, "iteration_seconds"), <=,
                      number(predicted, "iteration_seconds"));
    g_assert_cmpfloat(number(bounds, "traffic_bytes"), <=,
                      number(predicted, "h2d_bytes") + number(predicted, "d2h_bytes"));

    double before = number(predicted, "iteration_seconds");
    g_autofree char *best = best_policy(three);
    bool policy = false, found = true;
    size_t i;
    json_array_foreach (list, i, rival) {
        double seconds = number(rival, "iteration_seconds");
        g_assert_cmpuint(strlen(text_of(rival, "why")), >, 0);
        g_assert_true(found || seconds == 0); /* what has no plan comes last */
        found = seconds > 0;
        if (found) {
            g_assert_cmpfloat(seconds, >=, before);
            before = seconds;
        }
        policy |= g_str_has_prefix(text_of(rival, "what"), best);
    }
    g_assert_true(policy);
    g_assert_cmpuint(json_array_size(list), >, 3);
    g_assert_cmpuint(count_rows(three, list), ==, 3);
    g_autofree char *more = g_strdup_printf("  %zu more; --top all shows them\n",
                                            json_array_size(list) - 3);
    g_assert_nonnull(strstr(three, more));

    g_autofree char *all = workshop_must_print(workshop, PLAN "--top all");
    g_assert_cmpuint(count_rows(all, list), ==, json_array_size(list));
    g_assert_nonnull(strstr(all, " s longer"));
    g_autofree char *none = workshop_must_print(workshop, PLAN);
    g_assert_null(strstr(none, "Runners-up"));
    json_decref(result);
    json_decref(plan);
    workshop_free(workshop);
}

/* A rival that is slower by little and moves fewer bytes did not lose because of its bytes. */
static void test_close(void)
{
    struct workshop *workshop = open_workshop();
    workshop_must_run(workshop, "pstar-plan run.pstar --device-memory 100% --platform " PROJECT_DIR
                                "/platforms/v100-yard.json -o plan.json --json result.json");
    json_t *result = workshop_read_json(workshop, "result.json");
    const json_t *rival;
    double plan = number(json_object_get(result, "predicted"), "iteration_seconds");
    unsigned slower = 0;
    size_t i;
    json_array_foreach (json_object_get(result, "runners_up"), i, rival) {
        if (number(rival, "iteration_seconds") <= plan)
            continue; /* or without a plan */
        g_assert_nonnull(strstr(text_of(rival, "why"), " s longer"));
        slower++;
    }
    g_assert_cmpuint(slower, >, 0);
    json_decref(result);
    workshop_free(workshop);
}

static void test_refused(void)
{
    static const struct {
        const char *command, *says;
        int status;
    } bad[] = {
        {PLAN "--json missing/result.json", "missing", 1},
        {PLAN "--top none", "--top none: must be all, or an integer above 0", 2},
        {"pstar-plan --explain plan.json --json result.json", "--json: not with --explain", 2},
        {"pstar-plan --verify plan.json run.pstar --top 3", "--top: not with --verify", 2},
        {"pstar-plan --verify plan.json run.pstar -o other.json", "--output: not with --verify", 2},
        {"pstar-plan --verify plan.json run.pstar --device-memory 1B",
         "--device-memory: not with --verify", 2},
        {"pstar-plan --explain plan.json run.pstar --gpus 4", "--gpus: not with --explain", 2},
        {"pstar-plan --model model --platform a100-40gb --chunk-size 1MiB",
         "--chunk-size: not with --model, --torch or another question", 2},
        {"pstar-plan --model model --platform a100-40gb --batch 0", "--batch", 2},
        {"pstar-plan --model model --platform a100-40gb --device-memory 30%",
         "--device-memory 30%: is a share of a TRACE's model data, which is not given", 2},
        {"pstar-plan run.pstar --min-memory 5% --device-memory 1MiB --json result.json",
         "--json, --nvme-memory and --time-limit: of the questions only with --model and --torch",
         2}};
    struct workshop *workshop = open_workshop();
    g_autofree char *before = workshop_listing(workshop);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct outcome outcome = workshop_run(workshop, bad[i].command);
        g_assert_cmpint(outcome.status, ==, bad[i].status);
        g_assert_nonnull(strstr(outcome.err, bad[i].says));
        outcome_clear(&outcome);
    }
    g_autofree char *after = workshop_listing(workshop);
    g_assert_cmpstr(after, ==, before);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/runners-up/result", test_result);
    g_test_add_func("/runners-up/close", test_close);
    g_test_add_func("/runners-up/refused", test_refused);
    return g_test_run();
}
