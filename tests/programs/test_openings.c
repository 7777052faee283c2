/* Plain ZeRO-3-like offload of a model of 11 billion parameters on an A100 of 40 GB, simulated: the
 * report names the openings that a study of such steps found on that machine (arXiv 2406.10728). */
#include "workshop.h"

#include <string.h>

#define PLATFORM PROJECT_DIR "/platforms/a100-40gb.json"

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    g_assert_nonnull(text);
    return text;
}

/* The advice whose claim says so. */
static const json_t *advice_with(const json_t *report, const char *claim)
{
    const json_t *advice;
    size_t i;
    json_array_foreach (json_object_get(report, "advice"), i, advice)
        if (strstr(text_of(advice, "claim"), claim))
            return advice;
    g_error("no advice says \"%s\"", claim);
}

static bool is_drawn(const json_t *report, const char *name)
{
    const json_t *figure;
    size_t i;
    json_array_foreach (json_object_get(report, "figures"), i, figure)
        if (!strcmp(text_of(figure, "name"), name))
            return true;
    return false;
}

/* Says so, shows it in a figure that is there, and gives a command that acts on it. */
static void check(const json_t *report, const char *claim, const char *detail, const char *command)
{
    const json_t *advice = advice_with(report, claim);
    g_assert_nonnull(strstr(text_of(advice, "detail"), detail));
    g_assert_nonnull(strstr(text_of(advice, "command"), command));
    g_assert_true(is_drawn(report, text_of(advice, "figure")));
}

static void test_openings(void)
{
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        g_test_skip("no gnuplot");
        return;
    }
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model " PROJECT_DIR
                      "/models/configs/patrickstar-11b.json --batch 1 --seq 1024 "
                      "--precision bf16 --recompute all --platform " PLATFORM " -o 11b.pstar");
    workshop_must_run(workshop, "pstar-sim 11b.pstar --device-memory 40GB --platform " PLATFORM
                                " --chunk-size 256MiB --strategy zero3-offload --timeline z3.json");
    json_t *report = workshop_must_print_json(workshop, "pstar-report 11b.pstar z3.json " PLATFORM
                                                        " -o report --json");
    g_assert_true(
        g_str_has_suffix(text_of(report, "verdict"), "mostly for the optimizer on the host"));
    check(report, "The device waits for the optimizer on the host", "Interleave", "pstar-plan");
    check(report, "The link is mostly idle during the update", "of 25 GB/s that the link can carry",
          "interleave");
    check(report, "The device waits for copies to the host",
          "Copy gradients to the host asynchronously", "pstar-plan");
    const json_t *freed = advice_with(report, "that backward frees stay unused");
    g_assert_nonnull(strstr(text_of(freed, "command"), "--platform " PLATFORM));
    json_decref(report);
    workshop_free(workshop);
}

/* A profile of PyTorch alone yields a command that prints settings for PyTorch, and that works. */
static void test_torch(void)
{
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        g_test_skip("no gnuplot");
        return;
    }
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace import " PROJECT_DIR
                                "/tests/data/kineto/gpt.json.gz -o gpt.pstar");
    json_t *report = workshop_must_print_json(workshop, "pstar-report gpt.pstar -o report --json");
    const json_t *advice = advice_with(report, "A plan says what FSDP or DeepSpeed should keep");
    g_assert_true(g_str_has_suffix(text_of(advice, "command"), "--emit fsdp"));
    workshop_must_run(workshop, text_of(advice, "command"));
    json_decref(report);
    workshop_free(workshop);
}

/* How many of the bars have such a label. */
static unsigned bars_of(struct workshop *workshop, const char *label)
{
    g_autofree char *path = workshop_path(workshop, "report/figures/bars.gp"), *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, label)); at++)
        count++;
    return count;
}

/* A plan's file has sums alone; where its timeline is given, that is its bar, and the only one. */
static void test_planned_step(void)
{
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        g_test_skip("no gnuplot");
        return;
    }
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model " PROJECT_DIR
                                "/models/configs/gpt2.json --batch 4 --seq 512 --precision bf16 "
                                "--platform " PLATFORM " -o small.pstar");
    workshop_must_run(workshop, "pstar-plan small.pstar --device-memory 40% --recompute traced "
                                "--platform " PLATFORM " -o plan.json --timeline made.json");
    workshop_must_run(workshop, "pstar-plan --verify plan.json small.pstar --timeline again.json");
    workshop_must_run(workshop, "cmp made.json again.json");
    workshop_must_run(workshop, "pstar-report small.pstar plan.json -o report");
    g_assert_cmpuint(bars_of(workshop, "planner, "), ==, 1);
    workshop_must_run(workshop, "pstar-report small.pstar plan.json made.json -o report");
    g_assert_cmpuint(bars_of(workshop, "planner, "), ==, 0);
    g_assert_cmpuint(bars_of(workshop, "made.json, simulated"), ==, 1);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/openings", test_openings);
    g_test_add_func("/planned-step", test_planned_step);
    g_test_add_func("/programs/openings/torch", test_torch);
    return g_test_run();
}
