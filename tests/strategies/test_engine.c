/* Trains with every strategy in the engine. Losses, gradients' norms, weights and moments equal,
 * bit for bit, those of a run with everything resident, and every step's figures equal the plan's.
 */
#include "tests/drawn.h"
#include "trial.h"

static const char *const names[] = {
    "resident",      "patrickstar",    "gemini-static:0",  "gemini-static:0.4", "gemini-auto",
    "gemini-auto:4", "zero-offload",   "zero3-offload",    "twinflow:0.3",      "twinflow:1",
    "superoffload",  "superoffload:0", "superoffload:0.4", "interleave:1",      "interleave:2",
    "interleave:3",  "fsdp-offload",   "megatrain",        "zero-infinity",     "zero-infinity:1",
};

static const struct trial_job jobs[] = {
    {MODEL_FP32, 1, true, 0, 1, NULL, false, NULL},
    {MODEL_BF16, 1, false, 0.2, 1, NULL, false, NULL},
    {MODEL_BF16, 1, true, 0, 1, NULL, false, NULL},
    {MODEL_BF16, 1, true, 0, 0, NULL, false, NULL},
    {MODEL_BF16, 2, true, 0.2, 1, NULL, false, NULL},
    {MODEL_FP32, 1, false, 0.2, 0, NULL, false, NULL},
    {MODEL_BF16, 2, true, 0, 0, NULL, false, NULL},
};

static void compare(const struct trial_job *job, const struct trial_placement *placement,
                    const struct trial_result *resident)
{
    g_autofree char *text = trial_describe(job, placement);
    g_test_message("%s", text);
    struct trial_result result = trial_run(job, placement);
    g_assert_cmpmem(result.loss, sizeof result.loss, resident->loss, sizeof resident->loss);
    g_assert_cmpmem(result.gradient_norm, sizeof result.gradient_norm, resident->gradient_norm,
                    sizeof resident->gradient_norm);
    g_assert_cmpstr(result.weights, ==, resident->weights);
    g_free(result.weights);
}

static void test_job(gconstpointer data)
{
    const struct trial_job *job = data;
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct trial_placement everything = trial_resident();
    struct trial_result resident = trial_run(job, &everything);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        struct trial_placement placement = trial_draw(random);
        placement.strategy = names[i];
        placement.host_update = 0;
        compare(job, &placement, &resident);
    }
    g_free(resident.weights);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        if (!draws_row(3, G_N_ELEMENTS(jobs)))
            continue;
        g_autofree char *path = g_strdup_printf("/strategies/engine/%zu", i);
        g_test_add_data_func(path, &jobs[i], test_job);
    }
    return g_test_run();
}
