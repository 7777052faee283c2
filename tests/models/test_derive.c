/* From a trace of some layers recomputed and offloaded to that of others: exactly what describing
 * or synthesising those makes; and what is no model of ours is not taken for one. */
#include "models/derive.h"
#include "models/synth.h"
#include "models/train_choice.h"
#include "small_model.h"

#include <string.h>

enum { LAYERS = 3, TRIALS = 60 };

static uint32_t seed(void)
{
    const char *given = g_getenv("PSTAR_SEED");
    uint32_t seed = given ? (uint32_t)g_ascii_strtoull(given, NULL, 10) : g_random_int();
    g_test_message("PSTAR_SEED=%u", seed);
    return seed;
}

static double some_dropout(GRand *random)
{
    return g_rand_boolean(random) ? 0.25 : 0;
}

static enum model_activation some_activation(GRand *random)
{
    return g_rand_boolean(random) ? MODEL_GELU_EXACT : MODEL_GELU_TANH;
}

/* What configs of phi and GPT-NeoX vary. */
static void vary_layer_norm(GRand *random, struct model_config *config)
{
    config->activation = some_activation(random);
    config->embedding_dropout = some_dropout(random);
    config->residual_dropout = some_dropout(random);
    if (config->branches == MODEL_PARALLEL && g_rand_boolean(random))
        config->branches = MODEL_SEQUENTIAL;
}

/* Any experts, and balanced or other loads, with experts that have none. */
static void vary_experts(GRand *random, struct model_config *config)
{
    enum { MOST = 6 };
    static uint64_t loads[LAYERS * MOST];
    config->experts = (uint32_t)g_rand_int_range(random, 1, MOST + 1);
    config->experts_per_token = (uint32_t)g_rand_int_range(random, 1, (gint32)config->experts + 1);
    config->balance = g_rand_boolean(random) ? 0.01 : 0;
    if (config->family == &family_qwen3_moe)
        config->shared_weight = g_rand_boolean(random);
    for (uint32_t i = 0; i < config->layers * config->experts; i++)
        loads[i] = (uint64_t)g_rand_int_range(random, 0, 4) +
                   (i % config->experts < config->experts_per_token);
    config->expert_loads = g_rand_boolean(random) ? loads : NULL;
}

/* Any family but GPT-2, with any heads, windows and biases. */
static struct model_config random_decoder(GRand *random)
{
    const struct model_family *const families[] = {
        &family_llama, &family_mistral,  &family_qwen2,   &family_qwen3,    &family_smollm3,
        &family_gemma, &family_phi3,     &family_olmo2,   &family_gemma3,   &family_gemma2,
        &family_phi,   &family_gpt_neox, &family_mixtral, &family_qwen3_moe};
    struct model_config config = small_decoder(
        families[g_rand_int_range(random, 0, G_N_ELEMENTS(families))], g_rand_boolean(random));
    config.key_heads = (uint32_t)g_rand_int_range(random, 1, 4);
    config.heads = config.key_heads * (uint32_t)g_rand_int_range(random, 1, 4);
    if (config.interleaved)
        config.key_heads = config.heads;
    config.head_size = 2 * (uint32_t)g_rand_int_range(random, 1, 20);
    config.rotary.columns = config.head_size;
    if (config.family->partly_turned)
        config.rotary.columns = 2 * (uint32_t)g_rand_int_range(random, 1,
                                                               1 + (gint32)config.head_size / 2);
    config.width = (uint32_t)g_rand_int_range(random, 1, 90);
    config.inner = (uint32_t)g_rand_int_range(random, 1, 200);
    config.positions = (uint32_t)g_rand_int_range(random, 4, 40);
    config.vocabulary = (uint32_t)g_rand_int_range(random, 1, 300);
    config.attention_dropout = some_dropout(random);
    config.window = !config.unturned_every && g_rand_boolean(random)
                        ? (uint32_t)g_rand_int_range(random, 1, 20)
                        : 0;
    config.first_window = config.window && !config.full_every
                              ? (uint32_t)g_rand_int_range(random, 0, LAYERS)
                              : 0;
    config.unbiased_output = g_rand_boolean(random);
    config.unbiased_mlp = config.experts || (config.gated && g_rand_boolean(random));
    if (config.experts)
        vary_experts(random, &config);
    if (config.norm == MODEL_LAYER_NORM)
        vary_layer_norm(random, &config);
    return config;
}

/* GPT-2, or BERT, which has no labels. */
static struct model_config random_learned(GRand *random)
{
    bool encodes = g_rand_boolean(random);
    struct model_config config = small_decoder(encodes ? &family_bert : &family_gpt2,
                                               g_rand_boolean(random));
    config.heads = (uint32_t)g_rand_int_range(random, 1, 5);
    config.width = config.heads * (uint32_t)g_rand_int_range(random, 1, 40);
    config.inner = (uint32_t)g_rand_int_range(random, 1, 200);
    config.positions = (uint32_t)g_rand_int_range(random, 4, 40);
    config.vocabulary = (uint32_t)g_rand_int_range(random, 1, 300);
    config.labels = config.tied || encodes ? 0 : (uint32_t)g_rand_int_range(random, 0, 4);
    config.token_types = encodes ? (uint32_t)g_rand_int_range(random, 1, 4) : 0;
    if (encodes)
        config.activation = some_activation(random);
    config.embedding_dropout = some_dropout(random);
    config.attention_dropout = some_dropout(random);
    config.residual_dropout = some_dropout(random);
    return config;
}

static struct model_config random_config(GRand *random)
{
    return g_rand_boolean(random) ? random_decoder(random) : random_learned(random);
}

static struct model_job random_job(const struct model_config *config, GRand *random)
{
    struct model_job job = small_job(g_rand_boolean(random) ? MODEL_BF16 : MODEL_FP32,
                                     (uint32_t)g_rand_int_range(random, 1, 4));
    job.choices.batch = (uint32_t)g_rand_int_range(random, 1, 5);
    job.sequence = (uint32_t)g_rand_int_range(random, 1, (gint32)config->positions + 1);
    job.choices.host_embedding = g_rand_boolean(random);
    job.unfused = g_rand_boolean(random);
    job.gelu_apart = g_rand_boolean(random);
    job.choices.state_block = (uint64_t)g_rand_int_range(random, 0, 3) * TRACE_BLOCK_STEP;
    job.delay = job.precision == MODEL_FP32 && g_rand_boolean(random);
    job.choices.split_masters = job.precision == MODEL_BF16 && g_rand_boolean(random);
    job.choices.host_embedding &= model_gradient_layout(&job) != MODEL_GRADIENT_BUFFER;
    job.choices.second_backward = g_rand_boolean(random) &&
                                  model_gradient_layout(&job) == MODEL_GRADIENT_BUFFER;
    return job;
}

static void random_layers(GRand *random, uint8_t layers[LAYERS])
{
    for (int l = 0; l < LAYERS; l++)
        layers[l] = (uint8_t)g_rand_boolean(random);
}

static void assert_same_text(const char *a, const char *b)
{
    g_assert_cmpstr(a, ==, b);
}

static void assert_same(const struct trace *a, const struct trace *b)
{
    g_autofree char *of_a = trace_digest(a), *of_b = trace_digest(b);
    assert_same_text(of_a, of_b);
    assert_same_text(a->model, b->model);
    assert_same_text(a->machine, b->machine);
    g_assert_cmpuint(a->operator_count, ==, b->operator_count);
    for (uint32_t m = 0; m < a->operator_count; m++) {
        g_assert_cmpuint(a->operators[m].duration_ns, ==, b->operators[m].duration_ns);
        g_assert_cmpuint(a->operators[m].flops, ==, b->operators[m].flops);
        g_assert_cmpuint(a->operators[m].bytes, ==, b->operators[m].bytes);
        g_assert_cmpuint(a->non_model_bytes[m], ==, b->non_model_bytes[m]);
    }
    for (uint32_t i = 0; i < a->buffer_count; i++) {
        assert_same_text(a->buffers[i].name, b->buffers[i].name);
        g_assert_cmpint(a->buffers[i].saved, ==, b->buffers[i].saved);
        g_assert_cmpuint(a->buffers[i].recompute_flops, ==, b->buffers[i].recompute_flops);
    }
}

/* The choices of the job with those of the layers, which may be NULL. */
static struct run_choices choose(const struct model_job *job, uint8_t *recompute, uint8_t *offload)
{
    static uint8_t none[LAYERS];
    return (struct run_choices){.layer_count = LAYERS,
                                .recompute = recompute ? recompute : none,
                                .offload = offload ? offload : none,
                                .host_embedding = job->choices.host_embedding,
                                .split_masters = job->choices.split_masters,
                                .second_backward = job->choices.second_backward,
                                .batch = job->choices.batch,
                                .micro_batches = job->choices.micro_batches,
                                .state_block = job->choices.state_block};
}

static struct trace *synthesise(const struct model_config *config, struct model_job job,
                                struct run_choices choices, const struct platform *platform)
{
    GError *error = NULL;
    job.choices.recompute = choices.recompute;
    job.choices.offload = choices.offload;
    job.choices.host_embedding = choices.host_embedding;
    job.choices.batch = choices.batch;
    job.choices.micro_batches = choices.micro_batches;
    job.choices.state_block = choices.state_block;
    struct trace *trace = model_synthesise(config, &job, platform, &error);
    g_assert_no_error(error);
    return trace;
}

static struct trace *derive(const struct trace *trace, struct run_choices choices,
                            const struct platform *platform)
{
    GError *error = NULL;
    struct recognised *recognised = recognise(trace, &error);
    g_assert_no_error(error);
    struct trace *derived = model_derive(recognised, trace, &choices, platform, &error);
    g_assert_no_error(error);
    g_assert_true(trace_check(derived, "derived", &error));
    recognised_free(recognised);
    return derived;
}

/* Returns marks of some frozen tensors, of all but adapters, of those before one, or NULL for none.
 */
static uint8_t *random_frozen(GRand *random, struct model_config *config)
{
    uint8_t *frozen = NULL;
    int kind = g_rand_int_range(random, 0, 4);
    if (kind == 1)
        g_assert_true(model_choose_trained(config, "lora:3", 0, &frozen, NULL));
    if (kind < 2)
        return frozen;
    frozen = model_every_tensor(config);
    uint32_t trained = (uint32_t)g_rand_int_range(random, 0, (gint32)model_tensor_count(config));
    frozen[trained] = 0;
    for (uint32_t t = kind == 2 ? 0 : trained; t < model_tensor_count(config); t++)
        frozen[t] = frozen[t] && g_rand_boolean(random);
    return frozen;
}

/* From any choice to any other, as synthesis has it. */
static void test_synthesised(void)
{
    GRand *random = g_rand_new_with_seed(seed());
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", NULL);
    g_assert_nonnull(platform);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct model_config config = random_config(random);
        struct model_job job = random_job(&config, random);
        g_autofree uint8_t *frozen = random_frozen(random, &config);
        g_autofree uint8_t *on_host = model_every_tensor(&config);
        job.choices.frozen = frozen;
        uint8_t from[LAYERS], to[LAYERS], offload_from[LAYERS], offload_to[LAYERS];
        for (uint32_t t = 0; t < model_tensor_count(&config); t++)
            on_host[t] = (uint8_t)g_rand_boolean(random);
        job.choices.host_update = on_host;
        random_layers(random, from);
        random_layers(random, to);
        random_layers(random, offload_from);
        random_layers(random, offload_to);
        bool may_move = model_gradient_layout(&job) != MODEL_GRADIENT_BUFFER;
        const struct run_choices recorded = choose(&job, from, offload_from);
        struct run_choices chosen = choose(&job, to, offload_to);
        chosen.host_embedding = may_move && g_rand_boolean(random);
        chosen.state_block = (uint64_t)g_rand_int_range(random, 0, 3) * TRACE_BLOCK_STEP;
        struct trace *trace = synthesise(&config, job, recorded, platform);
        struct trace *expected = synthesise(&config, job, chosen, platform);
        struct trace *derived = derive(trace, chosen, platform);
        assert_same(derived, expected);
        trace_free(derived);
        trace_free(expected);
        trace_free(trace);
    }
    platform_free(platform);
    g_rand_free(random);
}

/* From one backward over the parameters to two over split masters, and back, as synthesis has it.
 */
static void test_second_backward(void)
{
    GRand *random = g_rand_new_with_seed(seed());
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", NULL);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct model_config config = random_config(random);
        struct model_job once = random_job(&config, random);
        uint8_t from[LAYERS], to[LAYERS];
        once.precision = MODEL_BF16;
        once.delay = false;
        once.choices.micro_batches = 1;
        once.choices.host_embedding = once.choices.split_masters = once.choices.second_backward =
            false;
        struct model_job twice = once;
        twice.choices.split_masters = twice.choices.second_backward = true;
        bool forth = g_rand_boolean(random);
        random_layers(random, from);
        random_layers(random, to);
        const struct model_job *of_trace = forth ? &once : &twice, *wanted = forth ? &twice : &once;
        const struct run_choices chosen = choose(wanted, to, NULL);
        struct trace *trace = synthesise(&config, *of_trace, choose(of_trace, from, NULL),
                                         platform);
        struct trace *expected = synthesise(&config, *wanted, chosen, platform);
        struct trace *derived = derive(trace, chosen, platform);
        assert_same(derived, expected);
        g_assert_true(derived->estimated);
        trace_free(derived);
        trace_free(expected);
        trace_free(trace);
    }
    platform_free(platform);
    g_rand_free(random);
}

static void assert_refused(const struct recognised *recognised, const struct trace *trace,
                           const struct run_choices *choices)
{
    GError *error = NULL;
    g_assert_null(model_derive(recognised, trace, choices, NULL, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_clear_error(&error);
}

/* fp32 has no masters, several micro-batches have a list of gradients, and buffers on the device
 * are none of the host's. */
static void test_no_second_backward(void)
{
    const struct model_config config = small_model(true, 0);
    struct model_job jobs[] = {small_job(MODEL_FP32, 1), small_job(MODEL_BF16, 2),
                               small_job(MODEL_BF16, 1)};
    jobs[2].choices.host_embedding = true;
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        struct trace *trace = synthesise(&config, jobs[i], choose(&jobs[i], NULL, NULL), NULL);
        struct recognised *recognised = recognise(trace, NULL);
        g_assert_nonnull(recognised);
        struct run_choices chosen = choose(&jobs[i], NULL, NULL);
        chosen.split_masters = chosen.second_backward = true;
        assert_refused(recognised, trace, &chosen);
        recognised_free(recognised);
        trace_free(trace);
    }
}

static const struct trace_operator *operator_of(const struct trace *trace, const char *name,
                                                uint32_t micro_batch)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_equal(trace->operators[m].name, name) &&
            trace->operators[m].micro_batch == micro_batch)
            return &trace->operators[m];
    g_assert_not_reached();
}

/* What was measured stays; what was not takes as long as the forward of its own micro-batch. */
static void test_measured(void)
{
    const struct model_config config = small_model(true, 0.1);
    const struct model_job job = small_job(MODEL_FP32, 2);
    uint8_t first[LAYERS] = {1, 0, 0}, both[LAYERS] = {1, 1, 0};
    struct trace *trace = synthesise(&config, job, choose(&job, first, NULL), NULL);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns = 1000 + m;
    trace->library_bytes = 77;

    struct trace *derived = derive(trace, choose(&job, both, NULL), NULL);
    g_assert_cmpuint(operator_of(derived, "recompute h.0.attn", 1)->duration_ns, ==,
                     operator_of(trace, "recompute h.0.attn", 1)->duration_ns);
    g_assert_cmpuint(operator_of(derived, "recompute h.1.attn", 1)->duration_ns, ==,
                     operator_of(trace, "forward h.1.attn", 1)->duration_ns);
    g_assert_cmpuint(operator_of(derived, "backward h.1.ln_2", 0)->duration_ns, ==,
                     operator_of(trace, "backward h.1.ln_2", 0)->duration_ns);
    g_assert_true(derived->estimated);
    g_assert_cmpuint(derived->library_bytes, ==, 77);
    trace_free(derived);

    derived = derive(trace, choose(&job, NULL, NULL), NULL);
    g_assert_false(derived->estimated);
    trace_free(derived);

    struct run_choices on_host = choose(&job, NULL, NULL);
    on_host.host_embedding = true;
    derived = derive(trace, on_host, NULL);
    g_assert_cmpuint(operator_of(derived, "forward embeddings", 1)->place, ==, TRACE_ON_HOST);
    g_assert_cmpuint(operator_of(derived, "forward embeddings", 1)->duration_ns, ==,
                     operator_of(trace, "forward embeddings", 1)->duration_ns);
    g_assert_true(derived->estimated);
    trace_free(derived);
    trace_free(trace);
}

/* A second backward takes as long as the first, and recomputes as it did or as forward does. */
static void test_measured_twice(void)
{
    const struct model_config config = small_model(true, 0.1);
    const struct model_job job = small_job(MODEL_BF16, 1);
    uint8_t first[LAYERS] = {1, 0, 0}, both[LAYERS] = {1, 1, 0};
    static const char *const alike[][2] = {{"backward h.2.attn", "backward h.2.attn"},
                                           {"backward again h.2.attn", "backward h.2.attn"},
                                           {"recompute again h.0.attn", "recompute h.0.attn"},
                                           {"recompute again h.1.attn", "forward h.1.attn"},
                                           {"recompute h.1.attn", "forward h.1.attn"},
                                           {"update wpe.weight", "update wpe.weight"}};
    struct trace *trace = synthesise(&config, job, choose(&job, first, NULL), NULL);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns = 1000 + m;

    struct run_choices twice = choose(&job, both, NULL);
    twice.split_masters = twice.second_backward = true;
    struct trace *derived = derive(trace, twice, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(alike); i++)
        g_assert_cmpuint(operator_of(derived, alike[i][0], 0)->duration_ns, ==,
                         operator_of(trace, alike[i][1], 0)->duration_ns);
    g_assert_true(derived->estimated);
    trace_free(derived);
    trace_free(trace);
}

/* Gradients in buffers lie on the device alone. */
/* Several ranks have shards and no blocks: their updates take what those of the blocks took. */
static void test_ranks_of_blocks(void)
{
    struct model_config config = small_model(true, 0);
    struct trace *derived[2];
    config.vocabulary = 700; /* 5,600 elements */
    for (int cut = 0; cut < 2; cut++) {
        struct model_job job = small_job(MODEL_FP32, 1);
        GError *error = NULL;
        job.choices.state_block = cut ? TRACE_BLOCK_STEP : 0;
        struct trace *trace = model_synthesise(&config, &job, NULL, &error);
        g_assert_no_error(error);
        for (uint32_t m = 0; m < trace->operator_count; m++)
            trace->operators[m].duration_ns = trace->operators[m].bytes;
        struct recognised *recognised = recognise(trace, &error);
        g_assert_no_error(error);
        derived[cut] = model_derive_ranks(recognised, trace, 2, (struct run_stage){2, false}, NULL,
                                          &error);
        g_assert_no_error(error);
        recognised_free(recognised);
        trace_free(trace);
    }
    assert_same(derived[0], derived[1]);
    trace_free(derived[0]);
    trace_free(derived[1]);
}

/* Adds up the updates of the table of words, and notes the longest in *most. */
static uint64_t table_ns(const struct trace *trace, uint64_t *most)
{
    uint64_t sum = 0;
    *most = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_has_prefix(trace->operators[m].name, "update wte.weight")) {
            sum += trace->operators[m].duration_ns;
            *most = MAX(*most, trace->operators[m].duration_ns);
        }
    return sum;
}

static void check_recut(uint64_t from, uint64_t to)
{
    struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_FP32, 1);
    config.vocabulary = 1280; /* ten steps of blocks */
    job.choices.state_block = from * TRACE_BLOCK_STEP;
    struct run_choices chosen = choose(&job, NULL, NULL);
    struct trace *trace = synthesise(&config, job, chosen, NULL);
    chosen.state_block = to * TRACE_BLOCK_STEP;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns = 100 * trace->operators[m].bytes;
    struct trace *derived = derive(trace, chosen, NULL);
    uint64_t most, whole = table_ns(trace, &most);
    g_assert_cmpuint(table_ns(derived, &most), ==, whole);
    g_assert_cmpuint(10 * most, ==, whole * (to ? to : 10));
    g_assert_cmpuint(derived->state_block, ==, chosen.state_block);
    g_assert_cmpint(derived->estimated, ==, from != to);
    trace_free(derived);
    trace_free(trace);
}

/* With other blocks, the measured updates of a cut tensor take as long together as they did, each
 * as much as it has elements. */
static void test_measured_blocks(void)
{
    for (uint64_t from = 0; from <= 2; from++)
        for (uint64_t to = 0; to <= 2; to++)
            check_recut(from, to);
}

static void test_impossible(void)
{
    const struct model_config config = small_model(true, 0);
    struct model_job job = small_job(MODEL_BF16, 1);
    job.choices.split_masters = true;
    struct trace *trace = model_synthesise(&config, &job, NULL, NULL);
    struct recognised *recognised = recognise(trace, NULL);
    struct run_choices chosen = choose(&job, NULL, NULL);
    chosen.host_embedding = true;
    assert_refused(recognised, trace, &chosen);
    recognised_free(recognised);
    trace_free(trace);
}

/* With other micro-batches of the same step, a synthesised trace becomes what synthesis makes of
 * them. Measured durations, another step's and none are refused. */
static void test_micro_batches(void)
{
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/a100-40gb.json", NULL);
    const struct model_config config = small_model(true, 0.1);
    for (int precision = MODEL_FP32; precision <= MODEL_BF16; precision++) {
        struct model_job job = small_job((enum model_precision)precision, 2), other = job;
        job.choices.batch = 4;
        other.choices.batch = 1;
        other.choices.micro_batches = 8;
        uint8_t first[LAYERS] = {1, 0, 0};
        struct run_choices chosen = choose(&other, first, NULL);
        struct trace *trace = synthesise(&config, job, choose(&job, NULL, NULL), platform);
        struct trace *expected = synthesise(&config, other, chosen, platform);
        struct trace *derived = derive(trace, chosen, platform);
        assert_same(derived, expected);
        struct recognised *recognised = recognise(trace, NULL);
        assert_refused(recognised, trace, &chosen); /* without a platform */
        chosen.micro_batches = 7;
        g_assert_null(model_derive(recognised, trace, &chosen, platform, NULL));
        chosen.micro_batches = 8;
        trace->operators[0].duration_ns++;
        g_assert_null(model_derive(recognised, trace, &chosen, platform, NULL));
        recognised_free(recognised);
        trace_free(derived);
        trace_free(expected);
        trace_free(trace);
    }
    platform_free(platform);
}

/* Another program's trace, though it looks alike: one access, one count or one buffer differs. */
static void test_strangers(void)
{
    const struct model_config config = small_model(false, 0.1);
    const struct model_job job = small_job(MODEL_BF16, 1);
    for (int change = 0; change < 4; change++) {
        GError *error = NULL;
        struct trace *trace = synthesise(&config, job, choose(&job, NULL, NULL), NULL);
        switch (change) {
        case 0:
            trace->accesses[3].mode = TRACE_UPDATE;
            break;
        case 1:
            trace->operators[5].flops++;
            break;
        case 2:
            trace->buffers[4].last++;
            break;
        default:
            g_free(trace->tensors[2].name);
            trace->tensors[2].name = g_strdup("layers.0.weight");
        }
        g_assert_null(recognise(trace, &error));
        g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
        g_clear_error(&error);
        trace_free(trace);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/derive/synthesised", test_synthesised);
    g_test_add_func("/derive/backward-twice", test_second_backward);
    g_test_add_func("/derive/no-second-backward", test_no_second_backward);
    g_test_add_func("/derive/measured", test_measured);
    g_test_add_func("/derive/measured-twice", test_measured_twice);
    g_test_add_func("/derive/ranks-of-blocks", test_ranks_of_blocks);
    g_test_add_func("/derive/measured-blocks", test_measured_blocks);
    g_test_add_func("/derive/impossible", test_impossible);
    g_test_add_func("/derive/micro-batches", test_micro_batches);
    g_test_add_func("/derive/strangers", test_strangers);
    return g_test_run();
}
