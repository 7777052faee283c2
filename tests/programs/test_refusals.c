/* What pstar-sim and pstar-plan say where nothing fits: in units for people, what would fit under
 * the choices that the planner may take, and which options would lower it. What they say does fit.
 */
#include "tests/drawn.h"
#include "workshop.h"

#include <stdint.h>
#include <string.h>

enum { DONE = 0, DOES_NOT_FIT = 3 };

#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json "

static struct workshop *open_workshop(void)
{
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "larger.json",
                   "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"],\n"
                   " \"vocab_size\": 1024, \"n_positions\": 128, \"n_embd\": 256, \"n_layer\": 2,\n"
                   " \"n_head\": 4, \"activation_function\": \"gelu_new\", \"resid_pdrop\": 0.0,\n"
                   " \"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0, \"layer_norm_epsilon\": 1e-05,\n"
                   " \"initializer_range\": 0.02}\n");
    workshop_must_run(workshop, "pstar-trace synth --model larger.json --batch 8 --seq 128 "
                                "--precision bf16 " PLATFORM "-o run.pstar");
    return workshop;
}

/* Whether there is a plan is asked, not how good it is, so the search ends with the first one. */
static char *plan_with(const struct workshop *workshop, unsigned kibibytes, const char *options,
                       int status)
{
    g_autofree char *command = g_strdup_printf(
        "pstar-plan run.pstar --time-limit 0.001 --device-memory %uKiB %s -o plan.json", kibibytes,
        options);
    struct outcome outcome = workshop_run(workshop, command);
    if (outcome.status != status)
        g_error("%s\nstatus %d\n%s%s", command, outcome.status, outcome.out, outcome.err);
    g_free(outcome.out);
    return outcome.err;
}

/* Returns the KiB after `label`. They are rounded up to `unit`. */
static unsigned size_after(const char *text, const char *label, unsigned *unit)
{
    const char *at = strstr(text, label);
    char *end;
    if (!at)
        g_error("'%s' is not in: %s", label, text);
    guint64 size = g_ascii_strtoull(at + strlen(label), &end, 10);
    g_assert_true(g_str_has_prefix(end, " KiB ") || g_str_has_prefix(end, " MiB "));
    *unit = end[1] == 'K' ? 1 : 1024;
    end += strlen(" MiB");
    g_assert_true(g_str_has_prefix(end, " would fit") ||
                  g_str_has_prefix(end, " of device memory would fit"));
    return (unsigned)size * *unit;
}

static void test_least(void)
{
    static const struct {
        const char *options, *choices;
        const char *lever, *with_lever; /* options with it; NULL if nothing lowers the need */
    } cases[] = {
        {PLATFORM, "(recomputed layers: none, offloaded layers: all", "with --micro-batch any ",
         PLATFORM "--micro-batch any"},
        {PLATFORM "--micro-batch any", "micro-batches of 1)", NULL, NULL},
        {PLATFORM "--recompute traced", "(as traced)",
         "with --recompute and --offload-activations any ", PLATFORM},
        {PLATFORM "--recompute traced --offload-activations traced --embedding traced "
                  "--bytes-per-parameter traced",
         "(as traced)",
         "with --recompute, --offload-activations, --embedding and --bytes-per-parameter any ",
         PLATFORM},
        {PLATFORM "--host-memory 6MiB", "(recomputed layers: all", "with --host-memory unlimited ",
         PLATFORM "--host-memory unlimited"},
        {"", "(recomputed layers: none, offloaded layers: all", "", NULL}};
    struct workshop *workshop = open_workshop();
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        if (!draws_row(2, G_N_ELEMENTS(cases)))
            continue;
        g_autofree char *message = plan_with(workshop, 1024, cases[i].options, DOES_NOT_FIT);
        unsigned unit, least = size_after(message, "nothing fits: ", &unit);
        g_assert_nonnull(strstr(message, ", and the budget is 1 MiB"));
        g_assert_nonnull(strstr(message, cases[i].choices));
        g_free(plan_with(workshop, least, cases[i].options, DONE));
        g_free(plan_with(workshop, least - unit, cases[i].options, DOES_NOT_FIT));
        if (!cases[i].with_lever)
            continue;
        unsigned less = size_after(message, cases[i].lever, &unit);
        g_assert_cmpuint(less, <, least);
        g_free(plan_with(workshop, less, cases[i].with_lever, DONE));
    }
    g_autofree char *message = plan_with(workshop, 1024, "", DOES_NOT_FIT);
    g_assert_nonnull(strstr(message, "with a --platform, or a trace of --host-update, the "
                                     "optimizer may run on the host"));
    workshop_free(workshop);
}

/* Where layers that run again need more room than their activations, offloading alone needs the
 * least. No plan for the least memory needs less than what a refusal names. */
static void test_offload_alone(void)
{
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "narrow.json",
                   "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 64, \"n_head\": 4,\n"
                   " \"n_positions\": 64, \"vocab_size\": 256}\n");
    workshop_must_run(workshop, "pstar-trace synth --model narrow.json --batch 2 --seq 32 "
                                "--precision bf16 " PLATFORM "-o run.pstar");
    g_autofree char *message = plan_with(workshop, 1, PLATFORM, DOES_NOT_FIT);
    unsigned unit, least = size_after(message, "nothing fits: ", &unit);
    g_assert_nonnull(strstr(message, "(recomputed layers: none, offloaded layers: all)"));
    g_free(plan_with(workshop, least, PLATFORM, DONE));
    g_free(plan_with(workshop, least - unit, PLATFORM, DOES_NOT_FIT));
    g_free(plan_with(workshop, 1024, PLATFORM "--objective memory --time-limit 600", DONE));
    json_t *plan = workshop_read_json(workshop, "plan.json");
    g_assert_cmpint(json_integer_value(json_object_get(plan, "device_budget_bytes")), >,
                    (least - unit) * 1024);
    json_decref(plan);
    workshop_free(workshop);
}

/* Sizes of a model that takes less than a MiB differ as they are printed. */
static void test_small(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 1 --seq 8 --precision "
                                "fp32 " PLATFORM "-o run.pstar");
    g_autofree char *message = plan_with(workshop, 20, PLATFORM, DOES_NOT_FIT);
    unsigned unit, least = size_after(message, "nothing fits: ", &unit);
    g_assert_nonnull(strstr(message, ", and the budget is 20 KiB"));
    g_assert_cmpuint(unit, ==, 1);
    g_free(plan_with(workshop, least, PLATFORM, DONE));
    g_free(plan_with(workshop, least - 1, PLATFORM, DOES_NOT_FIT));
    workshop_free(workshop);
}

static void test_simulated(void)
{
    struct workshop *workshop = open_workshop();
    workshop_must_end(
        workshop, "pstar-sim run.pstar --device-memory 1MiB", DOES_NOT_FIT, "",
        "updates on the host (a trace of --host-update, or --strategy zero-offload), "
        "recomputed layers (a trace of --recompute all), or with a plan of pstar-plan");
    workshop_must_end(workshop,
                      "pstar-sim run.pstar --device-memory 25MiB --host-memory 1MiB --policy opt",
                      DOES_NOT_FIT, "", " MiB more than the budget of 25 MiB; ");
    struct outcome all = workshop_run(workshop, "pstar-sim run.pstar --device-memory 25MiB "
                                                "--host-memory 1MiB --policy opt");
    g_assert_nonnull(strstr(all.out, " do not fit: device memory: "));
    g_assert_nonnull(strstr(all.out, " MiB)\n")); /* bytes that would fit, for people */
    outcome_clear(&all);
    workshop_must_end(workshop,
                      "pstar-sim run.pstar --device-memory 1GiB --host-memory 1MiB --strategy "
                      "fsdp-offload --chunk-size 1MiB " PLATFORM,
                      DOES_NOT_FIT, "", " MiB, and the budget is 1 MiB; ");
    workshop_must_run(workshop,
                      "pstar-trace synth --model larger.json --batch 8 --seq 128 "
                      "--precision bf16 --recompute all --host-update " PLATFORM "-o run.pstar");
    workshop_must_end(workshop, "pstar-sim run.pstar --device-memory 1MiB", DOES_NOT_FIT, "",
                      "less may do with smaller chunks, or with a plan of pstar-plan");
    workshop_free(workshop);
}

/* Returns the number before `unit`, or 0 if there is none. */
static guint64 number_before(const char *text, const char *unit)
{
    const char *at = strstr(text, unit);
    while (at && at > text && g_ascii_isdigit(at[-1]))
        at--;
    return at ? g_ascii_strtoull(at, NULL, 10) : 0;
}

/* Simulates a strategy with the budgets that its refusal asks for. */
static void follow_refusal(const struct workshop *workshop, const json_t *row)
{
    const char *reason = json_string_value(json_object_get(row, "reason"));
    guint64 device = number_before(reason, " bytes of device memory"), host = 1 << 20;
    guint64 fits = number_before(reason, " bytes would fit");
    bool host_lacks = g_str_has_prefix(reason, "host memory: ");
    g_assert_cmpuint(fits, >, 0);
    if (!host_lacks)
        device = fits;
    else
        host = fits;
    workshop_must_run_format(
        workshop,
        "pstar-sim run.pstar " PLATFORM "--chunk-size 64KiB --strategy %s "
        "--device-memory %" G_GUINT64_FORMAT " --host-memory %" G_GUINT64_FORMAT,
        json_string_value(json_object_get(row, "strategy")), device ? device : 6 << 20, host);
}

/* A strategy may lack both memories, and then the refusal names both. */
static void test_strategies(void)
{
    struct workshop *workshop = open_workshop();
    struct outcome outcome = workshop_run(workshop,
                                          "pstar-sim run.pstar " PLATFORM "--chunk-size 64KiB "
                                          "--strategy all --device-memory 6MiB "
                                          "--host-memory 1MiB --json sweep.json");
    g_assert_cmpint(outcome.status, ==, DOES_NOT_FIT);
    json_t *root = workshop_read_json(workshop, "sweep.json"), *row;
    size_t i;
    json_array_foreach (json_object_get(root, "results"), i, row) {
        follow_refusal(workshop, row);
    }
    json_decref(root);
    outcome_clear(&outcome);
    workshop_free(workshop);
}

/* Updates that were traced on the host run on the device where the host has no room for the states,
 * and what a refusal names fits. */
static void test_small_host(void)
{
    struct workshop *workshop = open_workshop();
    workshop_must_run(workshop, "pstar-trace synth --model larger.json --batch 8 --seq 128 "
                                "--precision bf16 --host-update " PLATFORM "-o host.pstar");
    for (int i = 0; i < 2; i++) {
        g_autofree char *plan = g_strdup_printf("pstar-plan host.pstar " PLATFORM
                                                "--host-memory %s --device-memory "
                                                "64MiB --time-limit 0.01 -o plan.json",
                                                i ? "0B" : "4MiB");
        workshop_must_run(workshop, plan);
        workshop_must_run(workshop, "pstar-plan --verify plan.json host.pstar");
    }
    const char *traced = PLATFORM "--host-memory 4MiB --recompute traced "
                                  "--offload-activations traced --time-limit 0.01";
    g_autofree char *command =
        g_strdup_printf("pstar-plan host.pstar --device-memory 8MiB %s -o plan.json", traced);
    struct outcome outcome = workshop_run(workshop, command);
    g_assert_cmpint(outcome.status, ==, DOES_NOT_FIT);
    unsigned unit, fits = size_after(outcome.err, "nothing fits: ", &unit);
    workshop_must_run_format(
        workshop, "pstar-plan host.pstar --device-memory %uKiB %s -o plan.json", fits, traced);
    outcome_clear(&outcome);
    workshop_free(workshop);
}

/* What the run does not clip changes one strategy alone. */
static void test_no_clip(void)
{
    static const char refusal[] = "--no-clip: changes only --strategy superoffload";
    struct workshop *workshop = open_workshop();
    workshop_must_end(workshop, "pstar-sim run.pstar --device-memory 50% --no-clip", 2, "",
                      refusal);
    workshop_must_end(workshop,
                      "pstar-sim run.pstar --device-memory 50% --no-clip --strategy zero-offload",
                      2, "", refusal);
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 50% --no-clip --strategy "
                                "zero-offload,superoffload:0.5 --chunk-size 64KiB");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 50% --no-clip --strategy all "
                                "--chunk-size 64KiB");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/refusals/least", test_least);
    g_test_add_func("/refusals/offload-alone", test_offload_alone);
    g_test_add_func("/refusals/small", test_small);
    g_test_add_func("/refusals/simulated", test_simulated);
    g_test_add_func("/refusals/strategies", test_strategies);
    g_test_add_func("/refusals/small-host", test_small_host);
    g_test_add_func("/refusals/no-clip", test_no_clip);
    return g_test_run();
}
