/* Every way of running a step must train alike: the same losses and the same gradients, whatever is
 * recomputed or offloaded, wherever the embedding and the optimizer run, wherever gradients lie,
 * and whether backward runs once or twice. */
#include "models/train_choice.h"
#include "small_model.h"
#include "symbolic.h"
#include "tests/sanitized.h"

#include <string.h>

static struct symbolic_result run(const struct model_config *config, const struct model_job *job)
{
    struct model_iteration *iteration = new_iteration(config, job);
    GError *error = NULL;
    trace_check(iteration->trace, "replay", &error);
    g_assert_no_error(error);
    struct symbolic_result result = symbolic_run(iteration);
    model_iteration_free(iteration);
    return result;
}

static void assert_same(const struct symbolic_result *a, const struct symbolic_result *b)
{
    g_assert_cmpmem(a->losses, a->micro_batches * sizeof(symbol), b->losses,
                    b->micro_batches * sizeof(symbol));
    g_assert_cmpmem(a->gradients, a->tensor_count * sizeof(symbol), b->gradients,
                    b->tensor_count * sizeof(symbol));
}

static void assert_run(const struct model_config *config, const struct model_job *job,
                       const struct symbolic_result *expected)
{
    struct symbolic_result result = run(config, job);
    assert_same(expected, &result);
    symbolic_free(&result);
}

/* All combinations of the choices that must not matter, against fp32 with everything kept. `frozen`
 * may be NULL. With sanitizers these are six, in which every choice is made and is not made. */
static void compare_variants(const struct model_config *config, const uint8_t *frozen,
                             uint32_t micro_batches)
{
    struct model_job plain = small_job(MODEL_FP32, micro_batches);
    plain.choices.frozen = (uint8_t *)frozen;
    struct symbolic_result expected = run(config, &plain);
    g_autofree uint8_t *every = model_every_tensor(config);
    for (unsigned choice = 0; choice < 256; choice += UNLESS_SANITIZED(1, 51)) {
        uint8_t recompute[3] = {choice & 1, choice >> 1 & 1, choice >> 2 & 1};
        uint8_t offload[3] = {1, choice & 1, 1};
        struct model_job job = small_job(choice & 8 ? MODEL_BF16 : MODEL_FP32, micro_batches);
        job.choices.frozen = plain.choices.frozen;
        job.choices.recompute = recompute;
        job.choices.offload = choice & 64 ? offload : NULL;
        job.choices.host_embedding = choice & 16;
        job.choices.host_update = choice & 32 ? every : NULL;
        job.choices.split_masters = choice & 64 && job.precision == MODEL_BF16;
        job.choices.second_backward = choice & 128 &&
                                      model_gradient_layout(&job) == MODEL_GRADIENT_BUFFER;
        if (model_gradient_layout(&job) == MODEL_GRADIENT_BUFFER)
            job.choices.host_embedding = false;
        assert_run(config, &job, &expected);
        job.gelu_apart = true;
        if (job.precision == MODEL_BF16)
            assert_run(config, &job, &expected);
    }
    symbolic_free(&expected);
}

static void test_variants(void)
{
    for (int tied = 0; tied < 2; tied++)
        for (uint32_t micro_batches = 1; micro_batches <= 3; micro_batches++) {
            struct model_config plain = small_model(tied, 0), dropping = small_model(tied, 0.1);
            compare_variants(&plain, NULL, micro_batches);
            compare_variants(&dropping, NULL, micro_batches);
        }
}

/* Of 3 layers of 4 experts. */
static const uint64_t some_loads[] = {1, 1, 0, 0, 0, 3, 1, 2, 7, 0, 7, 1};

/* The same of every family, whose parts differ. */
static void test_families(void)
{
    for (const struct model_family *const *family = model_families(); *family; family++)
        for (int tied = 0; tied < 2; tied++) {
            struct model_config config = small_decoder(*family, tied);
            config.attention_dropout = tied ? 0.1 : 0;
            if (*family == &family_bert && tied)
                config.residual_dropout = config.embedding_dropout = 0.1;
            if (config.experts && tied) {
                config.expert_loads = (uint64_t *)some_loads;
                config.balance = 0.01;
            }
            compare_variants(&config, NULL, 1 + (uint32_t)tied);
        }
}

static bool is_used_after(const struct trace *trace, uint32_t buffer, uint32_t moment)
{
    return buffer != NO_INDEX && trace->buffers[buffer].last > moment;
}

/* Returns whether a backward operator trains a tensor, or leaves a gradient that another one reads:
 * in a buffer of its own, or in place of what comes in. */
static bool is_needed(const struct model_iteration *iteration, uint32_t moment)
{
    const struct model_operator *op = &iteration->operators[moment];
    bool in_place = op->kind == MODEL_GELU_BACKWARD || op->kind == MODEL_GATED_BACKWARD;
    bool needed = is_used_after(iteration->trace, op->masked, moment) ||
                  (in_place && is_used_after(iteration->trace, op->in[0], moment));
    for (int i = 0; i < MODEL_TENSORS; i++)
        needed |= op->t[i] != NO_INDEX && !op->frozen[i];
    for (int i = 0; i < MODEL_OUTPUTS; i++)
        needed |= is_used_after(iteration->trace, op->out[i], moment);
    return needed;
}

/* Backward does nothing in vain, and reads a frozen weight only for the gradient of an input. */
static void check_needed(const struct model_config *config, const struct model_job *job)
{
    struct model_iteration *iteration = new_iteration(config, job);
    const struct trace *trace = iteration->trace;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        if (op->kind <= MODEL_BALANCE_LOSS || op->kind == MODEL_UPDATE)
            continue;
        g_assert_true(is_needed(iteration, m));
        for (uint32_t a = 0;
             op->out[0] == NO_INDEX && op->frozen[0] && a < trace->operators[m].access_count; a++)
            g_assert_cmpuint(trace->accesses[trace->operators[m].first_access + a].tensor, !=,
                             op->t[0]);
    }
    model_iteration_free(iteration);
}

/* Whatever is frozen, the other tensors have the gradients that they have where all are trained. */
static void compare_frozen(const struct model_config *config, enum model_precision precision,
                           const uint8_t *frozen)
{
    struct model_job job = small_job(precision, 2);
    struct symbolic_result all = run(config, &job);
    job.choices.frozen = (uint8_t *)frozen;
    struct symbolic_result some = run(config, &job);
    check_needed(config, &job);
    g_assert_cmpmem(all.losses, 2 * sizeof(symbol), some.losses, 2 * sizeof(symbol));
    for (uint32_t t = 0; t < all.tensor_count; t++) {
        g_assert_cmpuint(some.gradients[t], ==, frozen[t] ? 0 : all.gradients[t]);
        g_assert_cmpuint(some.norms[t], ==, frozen[t] ? 0 : all.norms[t]);
    }
    symbolic_free(&all);
    symbolic_free(&some);
}

/* Every tensor alone, every tensor but one, and drawn sets. With sanitizers these are some of the
 * tensors, so that each kind is among those of some family. */
static void test_frozen(void)
{
    enum { STEP = UNLESS_SANITIZED(1, 5) };
    for (const struct model_family *const *family = model_families(); *family; family++)
        for (int tied = 0; tied < 2; tied++) {
            struct model_config config = small_decoder(*family, tied);
            uint32_t count = model_tensor_count(&config);
            for (uint32_t t = 0; t < count; t += STEP) {
                g_autofree uint8_t *frozen = model_every_tensor(&config);
                g_autofree uint8_t *but_one = g_new0(uint8_t, count);
                frozen[t] = 0;
                but_one[t] = 1;
                compare_frozen(&config, t % 2 ? MODEL_FP32 : MODEL_BF16, but_one);
                for (int precision = MODEL_FP32; precision <= MODEL_BF16; precision++)
                    compare_frozen(&config, precision, frozen);
                for (uint32_t i = 0; i < count; i++)
                    frozen[i] = i != t && g_test_rand_int_range(0, 3) > 0;
                compare_frozen(&config, t % 2 ? MODEL_BF16 : MODEL_FP32, frozen);
                if (t / STEP == count / 2 / STEP)
                    compare_variants(&config, frozen, 1 + (uint32_t)tied);
            }
        }
}

/* Of what adapters made, recomputed layers keep nothing. */
static void check_recomputed(const struct model_config *config, struct model_job job)
{
    uint8_t every[] = {1, 1, 1};
    job.choices.recompute = every;
    struct model_iteration *iteration = new_iteration(config, &job);
    for (uint32_t b = 0; b < iteration->trace->buffer_count; b++)
        if (strstr(iteration->trace->buffers[b].name, ".lora"))
            g_assert_false(iteration->trace->buffers[b].saved);
    model_iteration_free(iteration);
}

/* Adapters train alike, too, and none of them trains as another. */
static void test_adapters(void)
{
    for (const struct model_family *const *family = model_families(); *family; family++)
        for (int tied = 0; tied < 2; tied++) {
            struct model_config config = small_decoder(*family, tied);
            uint8_t *frozen;
            config.residual_dropout = tied && *family == &family_gpt2 ? 0.1 : 0;
            g_assert_true(model_choose_trained(&config, "lora:2", 0, &frozen, NULL));
            compare_variants(&config, frozen, 1 + (uint32_t)tied);
            struct model_job job = small_job(MODEL_BF16, 1);
            job.choices.frozen = frozen;
            check_needed(&config, &job);
            check_recomputed(&config, job);
            struct symbolic_result result = run(&config, &job);
            for (uint32_t t = 0; t < result.tensor_count; t++)
                for (uint32_t other = 0; !frozen[t] && other < t; other++)
                    g_assert_cmpuint(result.gradients[t], !=, result.gradients[other]);
            symbolic_free(&result);
            g_free(frozen);
        }
}

/* The comparison must be able to fail: no two tensors have one gradient, and dropout matters. */
static void test_symbols_differ(void)
{
    struct model_config plain = small_model(true, 0), dropping = small_model(true, 0.1);
    struct model_job job = small_job(MODEL_FP32, 2);
    struct symbolic_result a = run(&plain, &job), b = run(&dropping, &job);
    for (uint32_t t = 0; t < a.tensor_count; t++) {
        g_assert_cmpuint(a.gradients[t], !=, b.gradients[t]);
        for (uint32_t other = 0; other < t; other++)
            g_assert_cmpuint(a.gradients[t], !=, a.gradients[other]);
    }
    g_assert_cmpuint(a.losses[0], !=, a.losses[1]);
    symbolic_free(&a);
    symbolic_free(&b);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/replay/variants", test_variants);
    g_test_add_func("/replay/families", test_families);
    g_test_add_func("/replay/frozen", test_frozen);
    g_test_add_func("/replay/adapters", test_adapters);
    g_test_add_func("/replay/symbols-differ", test_symbols_differ);
    return g_test_run();
}
