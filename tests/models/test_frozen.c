/* Frozen tensors and adapters: bytes, the end of backward, FLOPs, and what the option may say. */
#include "models/train_choice.h"
#include "small_model.h"

#include <string.h>

/* Elements of adapters of rank 1 beside the small model's layers: inputs and outputs of c_attn, the
 * c_proj of attention, c_fc and the c_proj of the MLP. */
enum { ADAPTERS = 3 * ((8 + 24) + (8 + 8) + (8 + 24) + (24 + 8)) };

/* Frozen parameters take the bytes of the list of parameters, and no other list has them. */
static void test_frozen_bytes(void)
{
    static const char *const trained[] = {"lora:1", "lora:5", "*.bias", "wte.*", "h.1.*,lm_head.*"};
    for (unsigned variant = 0; variant < 6 * G_N_ELEMENTS(trained); variant++) {
        struct model_config config = small_model(false, 0);
        struct model_job job = small_job(variant & 1 ? MODEL_BF16 : MODEL_FP32, 1 + variant % 3);
        uint64_t each = job.precision == MODEL_BF16 ? 2 : 4, of[2] = {0, 0};
        uint8_t *frozen;
        g_assert_true(model_choose_trained(&config, trained[variant / 6], 0, &frozen, NULL));
        job.choices.frozen = frozen;
        job.choices.split_masters = job.precision == MODEL_BF16 && variant & 2;
        struct model_iteration *iteration = new_iteration(&config, &job);
        const struct trace *trace = iteration->trace;
        for (uint32_t t = 0; t < trace->tensor_count; t++)
            of[frozen[t]] += trace->tensors[t].elements;
        g_assert_cmpuint(trace_model_bytes(trace), ==,
                         each * of[1] + model_bytes_per_parameter(&job) * of[0]);
        if (config.lora_rank)
            g_assert_cmpuint(of[0], ==, (uint64_t)config.lora_rank * ADAPTERS);
        for (uint32_t m = 0; m < trace->operator_count; m++)
            for (uint32_t i = 0; i < trace->operators[m].access_count; i++) {
                const struct trace_access *access =
                    &trace->accesses[trace->operators[m].first_access + i];
                if (frozen[access->tensor])
                    g_assert_cmpint(access->mode, ==, TRACE_READ);
            }
        model_iteration_free(iteration);
        g_free(frozen);
    }
}

/* Backward ends at the lowest tensor that is trained, which needs no gradient of its input. */
static void test_end_of_backward(void)
{
    static const struct {
        const struct model_family *family;
        const char *trained, *last;
    } expected[] = {
        {&family_gpt2, "h.2.ln_1.weight", "backward h.2.ln_1"},
        {&family_gpt2, "h.1.mlp.c_proj.bias", "backward h.1.mlp.c_proj"},
        {&family_gpt2, "ln_f.bias", "backward ln_f"},
        {&family_gpt2, "lm_head.*", "backward lm_head"},
        {&family_gpt2, "lora:2", "backward h.0.attn.c_attn.lora"},
        {&family_gpt2, "wpe.*", "backward embeddings"},
        {&family_gpt2, "wte.*,h.*", "backward embeddings"},
        {&family_phi, "lora:2", "backward layers.0.self_attn.q_proj.lora"},
        {&family_phi, "*.1.self_attn.k_proj.bias", "backward layers.1.self_attn.k_proj"},
        {&family_phi, "*.1.mlp.fc1.bias", "backward layers.1.mlp.fc1"},
        {&family_phi, "*.2.mlp.fc2.*,*.1.self_attn.dense.*", "backward layers.1.self_attn.dense"},
        {&family_gpt_neox, "*.1.mlp.*", "backward layers.1.mlp.dense_h_to_4h"},
        {&family_gpt_neox, "*.1.post_attention_layernorm.weight",
         "backward layers.1.post_attention_layernorm"},
        {&family_gpt_neox, "*.1.input_layernorm.bias", "backward layers.1.input_layernorm"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        struct model_config config = small_decoder(expected[i].family, false);
        struct model_job job = small_job(MODEL_FP32, 1);
        uint8_t *frozen;
        g_assert_true(model_choose_trained(&config, expected[i].trained, 0, &frozen, NULL));
        job.choices.frozen = frozen;
        struct model_iteration *iteration = new_iteration(&config, &job);
        uint32_t m = iteration->trace->operator_count - 1;
        while (iteration->operators[m].kind == MODEL_UPDATE)
            m--;
        g_assert_cmpstr(iteration->trace->operators[m].name, ==, expected[i].last);
        g_assert_cmpuint(iteration->operators[m].out[0], ==, NO_INDEX);
        model_iteration_free(iteration);
        g_free(frozen);
    }
}

static void expect_flops(const struct model_iteration *iteration, const char *name, uint64_t flops)
{
    const struct trace *trace = iteration->trace;
    g_assert_cmpuint(trace->operators[find_operator(trace, name, 0)].flops, ==, flops);
}

/* A frozen weight spares one of backward's two products; adapters have two and four thin ones. */
static void test_adapter_flops(void)
{
    struct model_config config = small_model(false, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    uint64_t rows = 8, rank = 2, inputs = 24, outputs = 8;
    uint8_t *frozen;
    g_assert_true(model_choose_trained(&config, "lora:2", 0, &frozen, NULL));
    job.choices.frozen = frozen;
    struct model_iteration *iteration = new_iteration(&config, &job);
    expect_flops(iteration, "forward h.1.mlp.c_proj.lora",
                 2 * rows * rank * (inputs + outputs) + rows * rank);
    expect_flops(iteration, "backward h.1.mlp.c_proj.lora",
                 4 * rows * rank * (inputs + outputs) + rows * rank + rows * inputs);
    expect_flops(iteration, "backward h.1.mlp.c_proj", 2 * rows * inputs * outputs);
    /* nobody wants the gradient of the first layer's input */
    expect_flops(iteration, "backward h.0.attn.c_attn.lora", rows * rank * (2 * 8 + 4 * 24 + 1));
    model_iteration_free(iteration);
    g_free(frozen);
}

static void test_bad_trained(void)
{
    static const struct {
        const char *text, *named;
    } bad[] = {{"lora:0", "from 1 to 65536"},  {"lora:", "from 1 to 65536"},
               {"lora:4x", "from 1 to 65536"}, {"h.9.*", "matches 'h.9.*'"},
               {"wte.*,", "matches ''"},       {"", "names no tensor"}};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct model_config config = small_model(true, 0);
        GError *error = NULL;
        uint8_t *frozen;
        g_assert_false(model_choose_trained(&config, bad[i].text, 0, &frozen, &error));
        g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
        g_assert_nonnull(strstr(error->message, bad[i].named));
        g_assert_null(frozen);
        g_error_free(error);
    }
    struct model_config config = small_model(true, 0);
    uint8_t *frozen;
    g_assert_true(model_choose_trained(&config, "*", 0, &frozen, NULL));
    g_assert_null(frozen);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/frozen/frozen-bytes", test_frozen_bytes);
    g_test_add_func("/frozen/end-of-backward", test_end_of_backward);
    g_test_add_func("/frozen/adapter-flops", test_adapter_flops);
    g_test_add_func("/frozen/bad-trained", test_bad_trained);
    return g_test_run();
}
