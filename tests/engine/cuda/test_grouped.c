/* Attention of groups of heads, with rotary positions and windows. In fp32 arithmetic it has the
 * CPU's bits. On tensor cores it is within the rounding to bf16 of turned queries and keys, of the
 * probabilities and of their gradients. */
#include "engine/rotary.h"
#include "kernel_runs.h"
#include "tests/drawn.h"
#include "tests/engine/kernels/fixture.h"
#include "tests/engine/kernels/weave.h"
#include "twins.h"

struct arrays {
    struct twin *q, *k, *v, *dout, *o, *lse, *dq, *dk, *dv;
};

/* Rows of [B, T] of `heads` heads. */
static uint64_t elements_of(const struct kernel_heads *h, uint32_t heads)
{
    return (uint64_t)h->B * h->T * heads * h->D;
}

static struct twin *results(struct twins *t, const char *name, enum model_precision precision,
                            uint64_t elements)
{
    return twin_unset(t, name, elements * twin_element_bytes(precision));
}

static struct arrays arrays_of(struct twins *t, enum model_precision precision,
                               const struct kernel_heads *h)
{
    uint64_t queries = elements_of(h, h->A), keys = elements_of(h, h->K);
    return (struct arrays){
        .q = twin_random(t, "q", precision, queries, 1),
        .k = twin_random(t, "k", precision, keys, 1),
        .v = twin_random(t, "v", precision, keys, 1),
        .dout = twin_random(t, "dout", precision, queries, 1),
        .o = results(t, "o", precision, queries),
        .lse = results(t, "lse", MODEL_FP32, queries / h->D),
        .dq = results(t, "dq", precision, queries),
        .dk = results(t, "dk", precision, keys),
        .dv = results(t, "dv", precision, keys),
    };
}

static void on_cpu(struct twins *t, enum model_precision precision, const struct kernel_heads *h,
                   const struct kernel_dropout *dropout, const struct arrays *a)
{
    cpu_grouped_forward(t->cpu, precision, h, a->q->cpu, a->k->cpu, a->v->cpu, dropout, a->o->cpu,
                        a->lse->cpu);
    cpu_grouped_backward(t->cpu, precision, h, a->dout->cpu, a->q->cpu, a->k->cpu, a->v->cpu,
                         a->o->cpu, a->lse->cpu, dropout, a->dq->cpu, a->dk->cpu, a->dv->cpu);
}

static void cuda_forward(struct twins *t, enum model_precision precision,
                         const struct kernel_heads *h, const struct kernel_dropout *dropout,
                         const struct arrays *a)
{
    cuda_grouped_forward(&t->cuda, precision, h, a->q->cuda, a->k->cuda, a->v->cuda, dropout,
                         a->o->cuda, a->lse->cuda);
}

static void cuda_backward(struct twins *t, enum model_precision precision,
                          const struct kernel_heads *h, const struct kernel_dropout *dropout,
                          const struct arrays *a)
{
    cuda_grouped_backward(&t->cuda, precision, h, a->dout->cuda, a->q->cuda, a->k->cuda, a->v->cuda,
                          a->o->cuda, a->lse->cuda, dropout, a->dq->cuda, a->dk->cuda, a->dv->cuda);
}

static void check_exact(enum model_precision precision, const struct kernel_heads *h,
                        const struct kernel_dropout *dropout)
{
    struct twins t = twins_new();
    struct arrays a = arrays_of(&t, precision, h);
    on_cpu(&t, precision, h, dropout, &a);
    cuda_forward(&t, precision, h, dropout, &a);
    cuda_backward(&t, precision, h, dropout, &a);
    twins_assert_same(&t, "attention of groups");
    twins_free(&t);
}

static void take_from_cpu(const struct twin *twin)
{
    memcpy(twin->cuda, twin->cpu, twin->bytes);
}

/* Runs twice from the CPU's o and lse. The second run has blocks as small as on a device that is
 * far larger than the model, and must give the same bits. */
static void check_close(const struct kernel_heads *h, const struct kernel_dropout *dropout)
{
    struct twins t = twins_new();
    struct arrays a = arrays_of(&t, MODEL_BF16, h), again = a;
    again.o = twin_unset(&t, "o again", a.o->bytes);
    again.lse = twin_unset(&t, "lse again", a.lse->bytes);
    again.dq = twin_unset(&t, "dq again", a.dq->bytes);
    again.dk = twin_unset(&t, "dk again", a.dk->bytes);
    again.dv = twin_unset(&t, "dv again", a.dv->bytes);
    on_cpu(&t, MODEL_BF16, h, dropout, &a);
    cuda_forward(&t, MODEL_BF16, h, dropout, &a);
    t.cuda.multiprocessors = UINT32_MAX;
    cuda_forward(&t, MODEL_BF16, h, dropout, &again);
    g_assert_cmpmem(a.o->cuda, a.o->bytes, again.o->cuda, again.o->bytes);
    g_assert_cmpmem(a.lse->cuda, a.lse->bytes, again.lse->cuda, again.lse->bytes);
    twin_assert_close(a.o, MODEL_BF16, 1e-2, 0, "attention of groups, forward");
    twin_assert_close(a.lse, MODEL_FP32, 8e-3, 1,
                      "attention of groups, forward"); /* 2^-7: q and k are each rounded by 2^-8 */
    take_from_cpu(a.o);
    take_from_cpu(a.lse);
    again.o = a.o;
    again.lse = a.lse;
    cuda_backward(&t, MODEL_BF16, h, dropout, &again);
    t.cuda.multiprocessors = 1;
    cuda_backward(&t, MODEL_BF16, h, dropout, &a);
    g_assert_cmpmem(a.dq->cuda, a.dq->bytes, again.dq->cuda, again.dq->bytes);
    g_assert_cmpmem(a.dk->cuda, a.dk->bytes, again.dk->cuda, again.dk->bytes);
    g_assert_cmpmem(a.dv->cuda, a.dv->bytes, again.dv->cuda, again.dv->bytes);
    twin_assert_close(a.dq, MODEL_BF16, 1.5e-2, 1e-3, "attention of groups, backward");
    twin_assert_close(a.dk, MODEL_BF16, 1.5e-2, 1e-3, "attention of groups, backward");
    twin_assert_close(a.dv, MODEL_BF16, 1.5e-2, 0, "attention of groups, backward");
    twins_assert_guards(&t, "attention of groups on tensor cores");
    twins_free(&t);
}

/* Compares the results of heads in joined rows with those of heads apart. */
static void compare_joined(struct twins *t, enum model_precision precision,
                           const struct weave *weave, const struct kernel_dropout *dropout,
                           const struct arrays *a)
{
    size_t element = twin_element_bytes(precision);
    const struct kernel_heads *h = &weave->heads;
    uint64_t bytes = (uint64_t)h->B * h->T * h->row * element;
    const struct twin *parts[] = {a->q, a->k, a->v}, *gradients[] = {a->dq, a->dk, a->dv};
    struct twin *qkv = twin_unset(t, "qkv", bytes), *dqkv = twin_unset(t, "dqkv", bytes);
    struct twin *o = twin_unset(t, "joined o", a->o->bytes);
    struct twin *lse = twin_unset(t, "joined lse", a->lse->bytes);
    void *x[3], *dx[3];
    for (int i = KERNEL_Q; i <= KERNEL_V; i++) {
        weave_part(weave, (enum kernel_qkv)i, element, qkv->cuda, parts[i]->cuda, false);
        x[i] = weave_at(weave, (enum kernel_qkv)i, element, qkv->cuda);
        dx[i] = weave_at(weave, (enum kernel_qkv)i, element, dqkv->cuda);
    }
    cuda_grouped_forward(&t->cuda, precision, h, x[0], x[1], x[2], dropout, o->cuda, lse->cuda);
    cuda_grouped_backward(&t->cuda, precision, h, a->dout->cuda, x[0], x[1], x[2], o->cuda,
                          lse->cuda, dropout, dx[0], dx[1], dx[2]);
    g_assert_cmpmem(o->cuda, o->bytes, a->o->cuda, a->o->bytes);
    for (int i = KERNEL_Q; i <= KERNEL_V; i++) {
        g_autofree void *found = g_malloc(gradients[i]->bytes);
        weave_part(weave, (enum kernel_qkv)i, element, dqkv->cuda, found, true);
        g_assert_cmpmem(found, gradients[i]->bytes, gradients[i]->cuda, gradients[i]->bytes);
    }
    twins_assert_guards(t, "attention of joined rows");
}

static void check_joined(enum model_precision precision, const struct kernel_heads *h,
                         const struct kernel_dropout *dropout)
{
    struct twins t = twins_new();
    struct arrays a = arrays_of(&t, precision, h);
    cuda_forward(&t, precision, h, dropout, &a);
    cuda_backward(&t, precision, h, dropout, &a);
    int ways = h->A == h->K ? 2 : 1;
    for (int by_head = 0; by_head < ways; by_head++) {
        struct weave weave = weave_of(h, by_head);
        compare_joined(&t, precision, &weave, dropout, &a);
    }
    twins_free(&t);
}

/* Makes the tables of the angles. The caller frees them with kernel_runs_free. */
static float *turn(struct kernel_heads *h)
{
    const struct model_rotary rotary = {
        .columns = 2 * h->pairs, .base = 100, .factor = 1, .magnitude = 1.25};
    float *table = kernel_runs_new(2 * (uint64_t)h->T * h->pairs * sizeof *table);
    rotary_fill(&rotary, h->T, table, table + (uint64_t)h->T * h->pairs);
    h->cosines = table;
    h->sines = table + (uint64_t)h->T * h->pairs;
    return table;
}

static bool is_exact(enum model_precision precision, const struct kernel_heads *h)
{
    return precision == MODEL_FP32 || h->D % 8 || h->pairs % 8 || h->D > 128 || h->cap > 0;
}

static void check(enum model_precision precision, struct kernel_heads h)
{
    struct kernel_dropout dropout = random_dropout();
    float *table = turn(&h);
    for (int i = 0; i < 2; i++)
        if (is_exact(precision, &h))
            check_exact(precision, &h, i ? &dropout : NULL);
        else
            check_close(&h, i ? &dropout : NULL);
    check_joined(precision, &h, &dropout);
    kernel_runs_free(table);
}

/* Windows that end within a tile, at its end, and before it; heads that turn in part; wide heads.
 */
static void shapes(enum model_precision precision)
{
    static const struct kernel_heads all[] = {
        {.B = 1, .T = 5, .A = 1, .K = 1, .D = 2, .pairs = 1},
        {.B = 2, .T = 17, .A = 6, .K = 2, .D = 6, .pairs = 2, .window = 5},
        {.B = 1, .T = 130, .A = 2, .K = 1, .D = 16, .pairs = 8, .window = 64},
        {.B = 1, .T = 200, .A = 2, .K = 2, .D = 24, .pairs = 8, .window = 65},
        {.B = 1, .T = 200, .A = 3, .K = 1, .D = 8, .window = 3},
        {.B = 1, .T = 200, .A = 1, .K = 1, .D = 16, .pairs = 4, .window = 3},
        {.B = 2, .T = 70, .A = 4, .K = 2, .D = 64, .pairs = 32},
        {.B = 1, .T = 70, .A = 2, .K = 1, .D = 128, .pairs = 64, .window = 70},
        {.B = 1, .T = 70, .A = 2, .K = 1, .D = 136, .pairs = 68, .window = 69},
        {.B = 1, .T = 66, .A = 1, .K = 1, .D = 256, .pairs = 128},
        {.B = 1, .T = 70, .A = 2, .K = 1, .D = 16, .pairs = 8, .window = 5, .cap = 0.5f},
        {.B = 1, .T = 66, .A = 2, .K = 2, .D = 136, .scale = 0.7f, .cap = 3},
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        if (draws_row(4, G_N_ELEMENTS(all)))
            check(precision, all[i]);
}

/* Draws a length, often around the end of a block or a tile. */
static uint32_t random_length(void)
{
    uint32_t near = 64 * (1 + random_token(3)) - 2 + random_token(5);
    return random_token(2) ? near : 1 + random_token(200);
}

static void drawn(enum model_precision precision)
{
    for (int i = 0; i < draws(1, 2); i++) {
        struct kernel_heads h = {.B = 1 + random_token(2), .T = random_length()};
        h.K = 1 + random_token(2);
        h.A = h.K * (1 + random_token(3));
        h.D = precision == MODEL_BF16 ? 8 * (1 + random_token(16)) : 1 + random_token(140);
        h.pairs = h.D / 16 * (precision == MODEL_BF16 ? 8 : 1 + random_token(8));
        h.window = random_token(2) ? 1 + random_token(h.T) : 0;
        g_test_message("B %u, T %u, A %u, K %u, D %u, pairs %u, window %u", h.B, h.T, h.A, h.K, h.D,
                       h.pairs, h.window);
        check(precision, h);
    }
}

/* More heads than the tests' scratch holds deltas of. */
static void in_parts(void)
{
    check(MODEL_FP32, (struct kernel_heads){.B = 3, .T = 64, .A = 33, .K = 11, .D = 2});
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!kernel_runs_can())
        return 77;
    add_precision_test("/grouped/shapes", shapes);
    add_precision_test("/grouped/drawn", drawn);
    g_test_add_func("/grouped/parts", in_parts);
    return g_test_run();
}
