/* Law 3: placement never changes arithmetic. Losses, the gradient's norms, and every weight and
 * moment at the end are bit for bit those of a run with everything resident, whatever the chunk
 * size, policy, budgets, recomputation, look-ahead, places of operators, link and plan, whether
 * masters are whole or split, states whole or in blocks, with evaluations in between, and after
 * saving and resuming with another placement. */
#include "tests/drawn.h"
#include "tests/sanitized.h"
#include "trial.h"

#define TRIALS ((size_t)draws(UNLESS_SANITIZED(72, 24), 216))

/* From GLib's seed, which it prints, so that a failure can be repeated with --seed; GLib starts
 * from it again in every test. */
static GRand *random_of_job(const struct trial_job *job)
{
    const guint32 seed[] = {
        (guint32)g_test_rand_int(), job->precision,      job->micro_batches, job->tied,
        job->dropout > 0,           job->family != NULL, job->delay,         job->train != NULL};
    return g_rand_new_with_seed_array(seed, G_N_ELEMENTS(seed));
}

static const struct trial_job jobs[] = {
    {MODEL_FP32, 1, true, 0, 1, NULL, false, NULL},
    {MODEL_FP32, 2, false, 0.2, 1, NULL, false, NULL},
    {MODEL_BF16, 1, true, 0.2, 1, NULL, false, NULL},
    {MODEL_BF16, 1, false, 0, 1, NULL, false, NULL},
    {MODEL_BF16, 2, true, 0, 1, NULL, false, NULL},
    {MODEL_BF16, 2, true, 0.2, 1, NULL, false, NULL},
    {MODEL_FP32, 1, false, 0.2, 1, NULL, false, NULL},
    {MODEL_FP32, 2, true, 0, 1, NULL, false, NULL},
    {MODEL_BF16, 1, true, 0.2, 0, NULL, false, NULL},
    {MODEL_BF16, 1, false, 0, 0, NULL, false, NULL},
    {MODEL_FP32, 1, false, 0.2, 1, &family_llama, false, NULL},
    {MODEL_BF16, 2, true, 0, 1, &family_mistral, false, NULL},
    {MODEL_BF16, 1, true, 0.2, 1, &family_qwen2, false, NULL},
    {MODEL_FP32, 2, true, 0, 1, &family_qwen3, false, NULL},
    {MODEL_BF16, 1, false, 0, 0, &family_qwen3, false, NULL},
    {MODEL_BF16, 2, true, 0, 1, &family_gemma, false, NULL},
    {MODEL_FP32, 1, true, 0, 1, &family_smollm3, false, NULL},
    {MODEL_BF16, 1, false, 0.2, 1, &family_phi3, false, NULL},
    {MODEL_FP32, 2, true, 0.2, 1, &family_olmo2, false, NULL},
    {MODEL_BF16, 2, true, 0, 1, &family_gemma3, false, NULL},
    {MODEL_FP32, 1, false, 0.2, 0, &family_gemma2, false, NULL},
    {MODEL_FP32, 1, true, 0, 1, NULL, true, NULL},
    {MODEL_FP32, 2, false, 0.2, 1, NULL, true, NULL},
    {MODEL_BF16, 1, true, 0.2, 1, NULL, true, NULL},
    {MODEL_BF16, 1, false, 0, 0, NULL, true, NULL},
    {MODEL_BF16, 2, true, 0.2, 1, NULL, true, NULL},
    {MODEL_FP32, 1, false, 0.2, 0, &family_qwen3, true, NULL},
    {MODEL_FP32, 1, true, 0.2, 1, NULL, false, "lora:3"},
    {MODEL_FP32, 2, true, 0, 1, &family_llama, true, "lora:2"},
    {MODEL_BF16, 2, false, 0.2, 1, NULL, true, "*.mlp.*,wpe.*"},
    {MODEL_BF16, 2, false, 0, 1, &family_llama, false, "lora:4"},
    {MODEL_BF16, 1, true, 0, 0, &family_phi3, false, "lora:4"},
    {MODEL_BF16, 1, false, 0, 1, &family_gemma2, false, "lora:2"},
    {MODEL_FP32, 2, true, 0.2, 1, NULL, false, "h.1.*.bias,h.0.ln_2.weight"},
    {MODEL_BF16, 1, false, 0.2, 1, NULL, false, "lm_head.*,*.c_fc.*,wpe.*"},
    {MODEL_BF16, 1, false, 0, 0, &family_qwen2, false, "*.q_proj.*,*norm*"},
    {MODEL_BF16, 1, false, 0.2, 1, &family_phi, false, NULL},
    {MODEL_FP32, 2, true, 0, 1, &family_gpt_neox, false, NULL},
    {MODEL_BF16, 2, true, 0.2, 1, &family_gpt_neox, false, NULL},
    {MODEL_BF16, 1, false, 0.2, 1, &family_phi, false, "lora:3"},
    {MODEL_FP32, 2, false, 0.2, 0, &family_gpt_neox, true, "lora:2"},
    {MODEL_BF16, 2, false, 0, 1, &family_gpt_neox, false, "lora:4"},
    {MODEL_FP32, 1, false, 0.2, 1, &family_phi, false, "*.1.mlp.fc2.weight,*.2.*_proj.bias"},
    {MODEL_BF16, 1, false, 0, 0, &family_gpt_neox, false, "*.1.*dense.weight,*.2.*layernorm.bias"},
    {MODEL_BF16, 1, true, 0.2, 1, &family_gpt_neox, false, "*.0.mlp.*,*.query_key_value.bias"},
    {MODEL_BF16, 2, false, 0, 1, &family_phi, true, "*.0.self_attn.q_proj.*,*.fc1.bias"},
    {MODEL_FP32, 1, false, 0, 1, &family_phi, false, "*.input_layernorm.*,lm_head.bias"},
    {MODEL_FP32, 2, false, 0.2, 1, &family_mixtral, false, NULL},
    {MODEL_BF16, 1, false, 0, 0, &family_mixtral, true, NULL},
    {MODEL_BF16, 1, true, 0, 1, &family_qwen3_moe, false, NULL},
    {MODEL_BF16, 2, false, 0, 1, &family_qwen3_moe, false, "lora:3"},
    {MODEL_BF16, 1, false, 0, 1, &family_mixtral, false, "*.experts.2.*,*.1.mlp.gate.*"},
    {MODEL_FP32, 2, false, 0.2, 1, &family_qwen3_moe, false, NULL},
    {MODEL_FP32, 1, true, 0, 0, &family_qwen3_moe, true, "*.1.mlp.gate.*,*.q_proj.*"},
};

static void check_same(const struct trial_result *a, const struct trial_result *b)
{
    g_assert_cmpmem(a->loss, sizeof a->loss, b->loss, sizeof b->loss);
    g_assert_cmpmem(a->gradient_norm, sizeof a->gradient_norm, b->gradient_norm,
                    sizeof b->gradient_norm);
    g_assert_cmpstr(a->weights, ==, b->weights);
}

static void compare(const struct trial_job *job, const struct trial_placement *placement,
                    const struct trial_result *resident)
{
    g_autofree char *name = trial_describe(job, placement);
    g_test_message("%s", name);
    struct trial_result result = trial_run(job, placement);
    g_test_message("  took %" G_GUINT64_FORMAT " bytes on the device for %" G_GUINT64_FORMAT
                   " of model data",
                   result.device_budget, result.model_bytes);
    check_same(resident, &result);
    if (placement->evaluate_at < TRIAL_STEPS) {
        struct trial_placement evaluated = trial_resident();
        evaluated.evaluate_at = placement->evaluate_at;
        struct trial_result expected = trial_run(job, &evaluated);
        g_assert_cmpfloat(result.evaluated, ==, expected.evaluated);
        check_same(resident, &expected);
        g_free(expected.weights);
    }
    g_free(result.weights);
}

static void test_drawn(gconstpointer data)
{
    const struct trial_job *job = data;
    GRand *random = random_of_job(job);
    struct trial_placement everything = trial_resident();
    struct trial_result resident = trial_run(job, &everything);
    /* Something is learned, so that equal losses say something. Where little is trained, that is
     * less than what batches differ. */
    if (job->train)
        g_assert_cmpfloat(resident.gradient_norm[TRIAL_STEPS - 1], >, 0);
    else
        g_assert_cmpfloat(resident.loss[TRIAL_STEPS - 1], <, resident.loss[0]);
    for (size_t i = 0; i < TRIALS / G_N_ELEMENTS(jobs); i++) {
        struct trial_placement placement = trial_draw(random), resumed = trial_draw(random);
        if (i % 3 == 1) {
            placement.save_at = (uint32_t)g_rand_int_range(random, 1, TRIAL_STEPS);
            placement.resumed = &resumed;
        }
        compare(job, &placement, &resident);
    }
    g_free(resident.weights);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        g_autofree char *path = g_strdup_printf("/placement/%zu", i);
        g_test_add_data_func(path, &jobs[i], test_drawn);
    }
    return g_test_run();
}
