/* Attention in fp32 arithmetic has the CPU's bits. On tensor cores it is within the rounding of the
 * probabilities and their gradients to bf16. */
#include "kernel_runs.h"
#include "tests/engine/kernels/fixture.h"
#include "twins.h"

struct shape {
    uint32_t B, T, A, D;
};

struct arrays {
    struct twin *qkv, *dout, *o, *lse, *dqkv;
};

static struct arrays arrays_of(struct twins *t, enum model_precision precision, struct shape s,
                               double deviation)
{
    uint64_t elements = (uint64_t)s.B * s.T * s.A * s.D, bytes = twin_element_bytes(precision);
    return (struct arrays){
        .qkv = twin_random(t, "qkv", precision, 3 * elements, deviation),
        .dout = twin_random(t, "dout", precision, elements, 1),
        .o = twin_unset(t, "o", elements * bytes),
        .lse = twin_unset(t, "lse", (uint64_t)s.B * s.A * s.T * sizeof(float)),
        .dqkv = twin_unset(t, "dqkv", 3 * elements * bytes),
    };
}

static void cpu_forward(struct twins *t, enum model_precision precision, struct shape s,
                        const struct kernel_dropout *dropout, const struct arrays *a)
{
    cpu_attention_forward(t->cpu, precision, s.B, s.T, s.A, s.D, a->qkv->cpu, dropout, a->o->cpu,
                          a->lse->cpu);
}

static void cpu_backward(struct twins *t, enum model_precision precision, struct shape s,
                         const struct kernel_dropout *dropout, const struct arrays *a)
{
    cpu_attention_backward(t->cpu, precision, s.B, s.T, s.A, s.D, a->dout->cpu, a->qkv->cpu,
                           a->o->cpu, a->lse->cpu, dropout, a->dqkv->cpu);
}

static void cuda_forward(struct twins *t, enum model_precision precision, struct shape s,
                         const struct kernel_dropout *dropout, const struct arrays *a)
{
    cuda_attention_forward(&t->cuda, precision, s.B, s.T, s.A, s.D, a->qkv->cuda, dropout,
                           a->o->cuda, a->lse->cuda);
}

static void cuda_backward(struct twins *t, enum model_precision precision, struct shape s,
                          const struct kernel_dropout *dropout, const struct arrays *a)
{
    cuda_attention_backward(&t->cuda, precision, s.B, s.T, s.A, s.D, a->dout->cuda, a->qkv->cuda,
                            a->o->cuda, a->lse->cuda, dropout, a->dqkv->cuda);
}

static void check_exact(enum model_precision precision, struct shape s, double deviation,
                        const struct kernel_dropout *dropout)
{
    struct twins t = twins_new();
    struct arrays a = arrays_of(&t, precision, s, deviation);
    cpu_forward(&t, precision, s, dropout, &a);
    cuda_forward(&t, precision, s, dropout, &a);
    twins_assert_same(&t, "attention forward");
    cpu_backward(&t, precision, s, dropout, &a);
    cuda_backward(&t, precision, s, dropout, &a);
    twins_assert_same(&t, "attention backward");
    twins_free(&t);
}

static void exact(enum model_precision precision)
{
    static const struct shape shapes[] = {{1, 1, 1, 1},   {2, 17, 3, 5},   {1, 64, 2, 64},
                                          {1, 65, 1, 33}, {2, 130, 2, 20}, {1, 70, 1, 127}};
    for (unsigned i = 0; i < G_N_ELEMENTS(shapes); i++) {
        struct kernel_dropout dropout = random_dropout();
        if (precision == MODEL_BF16 && shapes[i].D % 8 == 0)
            continue; /* on tensor cores */
        check_exact(precision, shapes[i], 1, NULL);
        check_exact(precision, shapes[i], 1, &dropout);
    }
    check_exact(precision, (struct shape){1, 80, 1, 15}, 12, NULL);
}

/* More sequences than the tests' scratch holds sums of. */
static void in_groups(void)
{
    struct kernel_dropout dropout = random_dropout();
    check_exact(MODEL_FP32, (struct shape){3, 64, 32, 1}, 1, &dropout);
}

/* Runs twice from the CPU's o and lse. The second run has blocks as small as on a device that is
 * far larger than the model, and must give the same bits. */
static void check_close(struct shape s, double deviation, const struct kernel_dropout *dropout)
{
    struct twins t = twins_new();
    struct arrays a = arrays_of(&t, MODEL_BF16, s, deviation), again = a;
    cpu_forward(&t, MODEL_BF16, s, dropout, &a);
    cuda_forward(&t, MODEL_BF16, s, dropout, &a);
    again.o = twin_unset(&t, "o again", a.o->bytes);
    again.lse = twin_unset(&t, "lse again", a.lse->bytes);
    again.dqkv = twin_unset(&t, "dqkv again", a.dqkv->bytes);
    t.cuda.multiprocessors = UINT32_MAX;
    cuda_forward(&t, MODEL_BF16, s, dropout, &again);
    g_assert_cmpmem(a.o->cuda, a.o->bytes, again.o->cuda, again.o->bytes);
    g_assert_cmpmem(a.lse->cuda, a.lse->bytes, again.lse->cuda, again.lse->bytes);
    twin_assert_close(a.o, MODEL_BF16, 1e-2, 0, "attention forward");
    twin_assert_close(a.lse, MODEL_FP32, 1e-5, 1, "attention forward");
    memcpy(a.o->cuda, a.o->cpu, a.o->bytes);
    memcpy(a.lse->cuda, a.lse->cpu, a.lse->bytes);
    cpu_backward(&t, MODEL_BF16, s, dropout, &a);
    t.cuda.multiprocessors = 1;
    cuda_backward(&t, MODEL_BF16, s, dropout, &a);
    again.o = a.o;
    again.lse = a.lse;
    t.cuda.multiprocessors = UINT32_MAX;
    cuda_backward(&t, MODEL_BF16, s, dropout, &again);
    g_assert_cmpmem(a.dqkv->cuda, a.dqkv->bytes, again.dqkv->cuda, again.dqkv->bytes);
    twin_assert_close(a.dqkv, MODEL_BF16, 1.2e-2, 0, "attention backward");
    twins_assert_guards(&t, "attention on tensor cores");
    twins_free(&t);
}

static void tensor_cores(void)
{
    static const struct shape shapes[] = {{1, 1, 1, 8},    {2, 17, 3, 16},  {1, 64, 1, 64},
                                          {1, 128, 1, 64}, {1, 130, 1, 64}, {1, 193, 1, 40},
                                          {1, 65, 1, 80},  {1, 129, 1, 128}};
    for (unsigned i = 0; i < G_N_ELEMENTS(shapes); i++) {
        struct kernel_dropout dropout = random_dropout();
        check_close(shapes[i], 1, NULL);
        check_close(shapes[i], 1, &dropout);
    }
    check_close((struct shape){1, 80, 1, 16}, 5, NULL);
}

/* Draws a length, often around the end of a block or a tile. */
static uint32_t random_length(void)
{
    uint32_t near = 64 * (1 + random_token(3)) - 2 + random_token(5);
    return random_token(2) ? near : 1 + random_token(200);
}

static void tensor_cores_random(void)
{
    for (unsigned i = 0; i < 3; i++) {
        struct shape s = {1 + random_token(2), random_length(), 1 + random_token(2),
                          8 * (1 + random_token(16))};
        struct kernel_dropout dropout = random_dropout();
        g_test_message("B %u, T %u, A %u, D %u", s.B, s.T, s.A, s.D);
        check_close(s, 1, random_token(2) ? &dropout : NULL);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!kernel_runs_can())
        return 77;
    add_precision_test("/attention/exact", exact);
    g_test_add_func("/attention/groups", in_groups);
    g_test_add_func("/attention/tensor/shapes", tensor_cores);
    g_test_add_func("/attention/tensor/random", tensor_cores_random);
    return g_test_run();
}
