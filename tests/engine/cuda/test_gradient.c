/* The loss, and what becomes of gradients. All have the CPU's bits except the loss, whose sums run
 * in another order. */
#include "engine/cuda/reduction.h"
#include "kernel_runs.h"
#include "tests/engine/kernels/fixture.h"
#include "traces/shard.h"
#include "twins.h"
#include <math.h>

static void assert_near(double cuda, double cpu, double tolerance)
{
    if (!(fabs(cuda - cpu) <= tolerance * fmax(1, fabs(cpu))))
        g_error("%.17g is not %.17g", cuda, cpu);
}

/* A number that a kernel reads or writes. */
static double *nan_of_kernel(void)
{
    double *number = kernel_runs_new(sizeof *number);
    *number = NAN;
    return number;
}

static double take(double *number)
{
    double value = *number;
    kernel_runs_free(number);
    return value;
}

static double run_loss(struct twins *t, enum model_precision precision, uint32_t N, uint32_t V,
                       const struct twin *targets, struct twin *logits, bool backward, float cap)
{
    double *loss = nan_of_kernel();
    if (backward)
        cuda_loss_backward(&t->cuda, precision, N, V, targets->cuda, 3.0 * N, cap, logits->cuda,
                           loss);
    else
        cuda_loss(&t->cuda, precision, N, V, targets->cuda, logits->cuda, loss);
    return take(loss);
}

static void check_loss(enum model_precision precision, uint32_t N, uint32_t V, double deviation,
                       float cap, bool masked)
{
    struct twins t = twins_new();
    struct twin *targets = twin_tokens(&t, "targets", N, V);
    for (uint32_t n = N / 3; masked && n < N; n += 2)
        ((uint32_t *)targets->cpu)[n] = ((uint32_t *)targets->cuda)[n] = KERNEL_NO_TARGET;
    struct twin *logits = twin_random(&t, "logits", precision, (uint64_t)N * model_logits_row(V),
                                      deviation);
    struct twin *again = twin_from(&t, "logits again", logits->cpu, logits->bytes);
    double cpu, again_cpu;
    cpu_loss(t.cpu, precision, N, V, targets->cpu, logits->cpu, &cpu);
    double cuda = run_loss(&t, precision, N, V, targets, logits, false, 0);
    assert_near(cuda, cpu, 1e-6);
    twins_assert_same(&t, "loss");
    cpu_loss_backward(t.cpu, precision, N, V, targets->cpu, 3.0 * N, cap, logits->cpu, &again_cpu);
    g_assert_true(again_cpu == cpu);
    g_assert_true(run_loss(&t, precision, N, V, targets, logits, true, cap) == cuda);
    g_assert_true(run_loss(&t, precision, N, V, targets, again, true, cap) == cuda);
    g_assert_cmpmem(logits->cuda, logits->bytes, again->cuda, again->bytes);
    twins_assert_guards(&t, "loss backward");
    /* Where a probability is almost 1, its gradient at the target is the difference of two numbers
     * near 1/(3 N). */
    twin_assert_close(logits, precision, precision == MODEL_BF16 ? 1e-4 : 2e-6, sqrt(N) / (3.0 * N),
                      "loss backward");
    twins_free(&t);
}

static void check_caps(enum model_precision precision)
{
    enum { N = 5, V = 131 };
    struct twins t = twins_new();
    struct twin *logits = twin_random(&t, "logits", precision, N * model_logits_row(V), 20);
    cpu_cap_logits(t.cpu, precision, N, V, 30, logits->cpu);
    cuda_cap_logits(&t.cuda, precision, N, V, 30, logits->cuda);
    twins_assert_same(&t, "capped logits");
    twins_free(&t);
}

static void losses(enum model_precision precision)
{
    static const uint32_t sizes[][2] = {{1, 1}, {3, 2}, {5, 257}, {2, 4096}, {7, 65}, {2, 50257}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        check_loss(precision, sizes[i][0], sizes[i][1], 2, i % 2 ? 9 : 0, false);
        check_loss(precision, sizes[i][0], sizes[i][1], 2, i % 2 ? 9 : 0, true);
    }
    check_loss(precision, 4, 1000, 60, 0, false);
    check_caps(precision);
}

static void put_logit(struct twin *logits, enum model_precision precision, uint64_t i,
                      uint32_t bits)
{
    const uint16_t half = (uint16_t)(bits >> 16);
    uint64_t bytes = twin_element_bytes(precision);
    const void *from = precision == MODEL_BF16 ? (const void *)&half : &bits;
    memcpy((uint8_t *)logits->cpu + i * bytes, from, bytes);
    memcpy((uint8_t *)logits->cuda + i * bytes, from, bytes);
}

/* Returns the loss of rows in which a logit that is nobody's target has these bits. */
static double loss_with(enum model_precision precision, uint32_t bits, bool backward)
{
    enum { N = 3, V = 4200 };
    struct twins t = twins_new();
    struct twin *targets = twin_tokens(&t, "targets", N, 5);
    struct twin *logits = twin_random(&t, "logits", precision, N * model_logits_row(V), 1);
    double cpu, cuda;
    put_logit(logits, precision, model_logits_row(V) + 4100, bits);
    cpu_loss(t.cpu, precision, N, V, targets->cpu, logits->cpu, &cpu);
    cuda = run_loss(&t, precision, N, V, targets, logits, backward, 0);
    g_assert_true(isnan(cpu) == isnan(cuda));
    if (!isnan(cpu))
        assert_near(cuda, cpu, 1e-6);
    twins_free(&t);
    return cuda;
}

/* A GPU's own NaN has all bits of its number set. */
static void odd_logits(enum model_precision precision)
{
    static const uint32_t nans[] = {0x7fffffff, 0x7fc00000, 0xffc00000, 0x7fff0000};
    for (int backward = 0; backward < 2; backward++) {
        for (size_t i = 0; i < G_N_ELEMENTS(nans); i++)
            g_assert_true(isnan(loss_with(precision, nans[i], backward)));
        g_assert_true(isfinite(loss_with(precision, 0xff800000, backward))); /* -infinity */
    }
}

/* More rows than the kernel has blocks for. */
static void many_rows(void)
{
    struct twins t = twins_new();
    struct twin *targets = twin_tokens(&t, "targets", 1030, 5);
    struct twin *logits = twin_random(&t, "logits", MODEL_BF16, 1030 * model_logits_row(5), 1);
    double cpu;
    cpu_loss(t.cpu, MODEL_BF16, 1030, 5, targets->cpu, logits->cpu, &cpu);
    assert_near(run_loss(&t, MODEL_BF16, 1030, 5, targets, logits, false, 0), cpu, 1e-6);
    twins_free(&t);
}

/* Numbers of elements: fewer than a tile, one block, several blocks, more than 1,024 tiles. */
static const uint64_t lengths[] = {1, 63, 64, 130, 1000, 64 * 1024, 64 * 1024 + 1, 130003};

static void squares(enum model_precision precision)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++) {
        struct twins t = twins_new();
        double cpu = NAN, *cuda = nan_of_kernel();
        struct twin *gradient = twin_random(&t, "gradient", precision, lengths[i], 1);
        cpu_sum_squares(t.cpu, precision, lengths[i], gradient->cpu, &cpu);
        cuda_sum_squares(&t.cuda, precision, lengths[i], gradient->cuda, cuda);
        g_assert_true(take(cuda) == cpu);
        twins_assert_same(&t, "sum of squares");
        twins_free(&t);
    }
}

/* Squares of small gradients wait; those of a large one do not. */
static void squares_together(enum model_precision precision)
{
    enum { GRADIENTS = CUDA_SQUARES + 9 };
    static const uint64_t small[] = {1, 63, 64, 130, 767, 3072, CUDA_SMALL_GRADIENT};
    struct twins t = twins_new();
    struct cuda_squares squares = {.count = 0};
    double cpu[GRADIENTS], *sums = kernel_runs_new(sizeof cpu);
    t.cuda.squares = &squares;
    for (uint32_t i = 0; i < GRADIENTS; i++) {
        bool large = i == 3;
        uint64_t elements = large ? CUDA_SMALL_GRADIENT + 1 : small[i % G_N_ELEMENTS(small)];
        struct twin *gradient = twin_random(&t, "gradient", precision, elements, 1);
        uint32_t waiting = squares.count;
        cpu_sum_squares(t.cpu, precision, elements, gradient->cpu, &cpu[i]);
        cuda_sum_squares(&t.cuda, precision, elements, gradient->cuda, &sums[i]);
        g_assert_cmpuint(squares.count, ==, large ? waiting : waiting % CUDA_SQUARES + 1);
    }
    cuda_flush_squares(&t.cuda);
    g_assert_cmpuint(squares.count, ==, 0);
    cuda_flush_squares(&t.cuda); /* of nothing */
    g_assert_cmpmem(cpu, sizeof cpu, sums, sizeof cpu);
    twins_assert_same(&t, "squares of several gradients");
    kernel_runs_free(sums);
    twins_free(&t);
}

/* Sums over four ranks, with one part or two, from the start or on top of a sum, or in bf16. */
static void check_reduction(uint64_t elements, bool two, bool accumulate, bool rows, bool narrow)
{
    enum { RANKS = 4 };
    enum model_precision precision = narrow ? MODEL_BF16 : MODEL_FP32;
    struct twins t = twins_new();
    struct twin *first = twin_random(&t, "first", precision, RANKS * elements, 1);
    struct twin *second = twin_random(&t, "second", precision, RANKS * elements, 1);
    struct twin *sum = twin_random(&t, "sum", precision, elements, 1);
    struct reduction_piece piece = {.received = {first->cpu, two ? second->cpu : NULL},
                                    .ranks = RANKS,
                                    .elements = elements,
                                    .accumulate = accumulate,
                                    .rows = rows,
                                    .narrow = narrow,
                                    .sum = sum->cpu};
    reduction_clear_on_host(NULL, elements / 2,
                            first->cpu); /* -0 is no number that a sum changes */
    cuda_reduction_clear(&t.cuda, elements / 2, first->cuda);
    reduction_add_on_host(NULL, &piece);
    piece.received[0] = first->cuda;
    piece.received[1] = two ? second->cuda : NULL;
    piece.sum = sum->cuda;
    cuda_reduction_add(&t.cuda, &piece);
    twins_assert_same(&t, "sum of ranks");
    twins_free(&t);
}

static void reductions(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++)
        for (int kind = 0; kind < 8; kind++)
            check_reduction(lengths[i], kind & 1, kind & 2, kind & 4, false);
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++)
        for (int two = 0; two < 2; two++)
            check_reduction(lengths[i], two, false, false, true);
}

/* The blocks of any shard are those of the whole gradient. */
static void check_squares(uint64_t elements, enum model_precision precision)
{
    struct twins t = twins_new();
    double whole = NAN, *total = nan_of_kernel();
    uint64_t block = shard_block(elements), width = precision == MODEL_BF16 ? 2 : 4;
    struct shard shard = shard_of(elements, 3, 1);
    uint64_t first = shard.count ? shard.first / block : 0;
    struct twin *gradient = twin_random(&t, "gradient", precision, elements, 1);
    struct twin *sums = twin_unset(&t, "sums", SHARD_BLOCKS * sizeof(double));
    cpu_block_squares(t.cpu, precision, shard.count, block, first,
                      (uint8_t *)gradient->cpu + shard.first * width, sums->cpu);
    cuda_block_squares(&t.cuda, precision, shard.count, block, first,
                       (uint8_t *)gradient->cuda + shard.first * width, sums->cuda);
    twins_assert_same(&t, "squares of blocks");
    cpu_sum_squares(t.cpu, precision, elements, gradient->cpu, &whole);
    cuda_block_squares(&t.cuda, precision, elements, block, 0, gradient->cuda, sums->cuda);
    cuda_total_squares(&t.cuda, sums->cuda, total);
    g_assert_true(take(total) == whole);
    twins_free(&t);
}

static void shares_of_squares(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++)
        for (int precision = MODEL_FP32; precision <= MODEL_BF16; precision++)
            check_squares(lengths[i], (enum model_precision)precision);
}

static void check_clip(uint32_t count, double clip)
{
    struct twins t = twins_new();
    double *squares = kernel_runs_new(count * sizeof *squares), *scale = nan_of_kernel(), sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += squares[i] = random_token(1000) * 1e-3;
    cuda_clip(&t.cuda, count, squares, clip, scale);
    g_assert_true(*scale == adamw_clip(sum, clip));
    g_assert_true(*t.cuda.scale == take(scale));
    kernel_runs_free(squares);
    twins_free(&t);
}

/* One tensor, some tensors, and more than a block has threads, clipped and not. A NaN stays one, so
 * that the update changes nothing. */
static void clips(void)
{
    static const uint32_t counts[] = {1, 148, 512, 580, 1200};
    for (unsigned i = 0; i < G_N_ELEMENTS(counts); i++) {
        check_clip(counts[i], 1e-2);
        check_clip(counts[i], 1e4);
    }
    struct twins t = twins_new();
    double *scale = nan_of_kernel(), *nan = nan_of_kernel();
    cuda_clip(&t.cuda, 1, nan, 1, scale);
    g_assert_true(isnan(take(scale)));
    kernel_runs_free(nan);
    twins_free(&t);
}

enum layout { IN_FP32, GRADIENT_IN_PARAM, GRADIENT_APART, SPLIT, SPLIT_GRADIENT_FP32 };

/* Draws rests of any pattern, some of which look like NaNs. */
static struct twin *random_bits(struct twins *t, uint64_t elements)
{
    struct twin *rest = twin_random(t, "rest", MODEL_BF16, elements, 1);
    for (uint64_t i = 0; i < elements; i++)
        ((uint16_t *)rest->cpu)[i] = ((uint16_t *)rest->cuda)[i] = (uint16_t)(random_token(65536));
    return rest;
}

/* A tensor of each kind of memory. */
struct updated {
    struct adamw_tensor cpu, cuda;
};

static struct updated draw_update(struct twins *t, uint64_t elements, enum layout layout)
{
    enum model_precision precision = layout == IN_FP32 ? MODEL_FP32 : MODEL_BF16;
    struct twin none = {.cpu = NULL};
    struct twin *param = twin_random(t, "param", precision, elements, 1);
    struct twin *m = twin_random(t, "exp_avg", MODEL_FP32, elements, 1);
    struct twin *v = twin_random(t, "exp_avg_sq", MODEL_FP32, elements, 1);
    struct twin *master = &none, *gradient = &none, *gradient_bf16 = &none, *rest = &none;
    for (uint64_t i = 0; i < elements; i++)
        ((float *)v->cpu)[i] = ((float *)v->cuda)[i] = fabsf(((float *)v->cpu)[i]);
    if (layout == GRADIENT_IN_PARAM || layout == GRADIENT_APART)
        master = twin_random(t, "master", MODEL_FP32, elements, 1);
    if (layout == SPLIT)
        gradient_bf16 = twin_random(t, "gradient", MODEL_BF16, elements, 1);
    else if (layout != GRADIENT_IN_PARAM)
        gradient = twin_random(t, "gradient", MODEL_FP32, elements, 1);
    if (layout == SPLIT || layout == SPLIT_GRADIENT_FP32)
        rest = random_bits(t, elements);
    return (struct updated){
        .cpu = {.elements = elements,
                .param = param->cpu,
                .gradient = gradient->cpu,
                .gradient_bf16 = gradient_bf16->cpu,
                .master = master->cpu,
                .rest = rest->cpu,
                .exp_avg = m->cpu,
                .exp_avg_sq = v->cpu},
        .cuda = {.elements = elements,
                 .param = param->cuda,
                 .gradient = gradient->cuda,
                 .gradient_bf16 = gradient_bf16->cuda,
                 .master = master->cuda,
                 .rest = rest->cuda,
                 .exp_avg = m->cuda,
                 .exp_avg_sq = v->cuda},
    };
}

static struct adamw_step third_step(void)
{
    const struct adamw_options options = {.learning_rate = 1e-2,
                                          .beta1 = 0.9,
                                          .beta2 = 0.99,
                                          .epsilon = 1e-8,
                                          .weight_decay = 0.1,
                                          .gradient_scale = 0.7};
    return adamw_step_of(&options, 3);
}

static void check_update(uint64_t elements, enum layout layout, bool clipped)
{
    struct twins t = twins_new();
    struct adamw_step step = third_step();
    struct updated tensor = draw_update(&t, elements, layout);
    cpu_adamw(t.cpu, &step, NULL, &tensor.cpu);
    *t.cuda.scale = 0.7; /* the step's */
    if (clipped)
        step.gradient_scale = NAN;
    cuda_adamw(&t.cuda, &step, clipped ? t.cuda.scale : NULL, &tensor.cuda);
    twins_assert_same(&t, "adamw");
    twins_free(&t);
}

/* Updates wait until they are flushed, or until there are as many as a launch takes. */
static void check_together(uint32_t count, enum layout layout)
{
    struct twins t = twins_new();
    struct cuda_updates updates = {.count = 0};
    const struct adamw_step step = third_step();
    t.cuda.updates = &updates;
    for (uint32_t i = 0; i < count; i++) {
        struct updated tensor = draw_update(&t, lengths[i % 6], layout);
        cpu_adamw(t.cpu, &step, NULL, &tensor.cpu);
        cuda_adamw(&t.cuda, &step, NULL, &tensor.cuda);
        g_assert_cmpuint(updates.count, ==, i % CUDA_UPDATES + 1);
    }
    cuda_flush_updates(&t.cuda);
    g_assert_cmpuint(updates.count, ==, 0);
    cuda_flush_updates(&t.cuda); /* of nothing */
    twins_assert_same(&t, "adamw of several tensors");
    twins_free(&t);
}

static void updates_together(void)
{
    static const uint32_t counts[] = {1, 2, 3, CUDA_UPDATES, CUDA_UPDATES + 5};
    for (unsigned i = 0; i < G_N_ELEMENTS(counts); i++)
        for (int layout = IN_FP32; layout <= SPLIT_GRADIENT_FP32; layout++)
            check_together(counts[i], (enum layout)layout);
}

static void updates(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(lengths); i++)
        for (int layout = IN_FP32; layout <= SPLIT_GRADIENT_FP32; layout++)
            check_update(lengths[i], (enum layout)layout, i % 2);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!kernel_runs_can())
        return 77;
    add_precision_test("/gradient/loss", losses);
    add_precision_test("/gradient/loss/odd-logits", odd_logits);
    g_test_add_func("/gradient/loss/rows", many_rows);
    add_precision_test("/gradient/squares", squares);
    add_precision_test("/gradient/squares/together", squares_together);
    g_test_add_func("/gradient/reduction", reductions);
    g_test_add_func("/gradient/squares/shards", shares_of_squares);
    g_test_add_func("/gradient/clip", clips);
    g_test_add_func("/gradient/update", updates);
    g_test_add_func("/gradient/update/together", updates_together);
    return g_test_run();
}
