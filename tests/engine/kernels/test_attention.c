#include "fixture.h"

#include <math.h>

struct attention {
    enum model_precision precision;
    uint32_t B, T, A, D;
    const struct kernel_dropout *dropout;
    struct tensor *qkv, *o, *lse, *dout, *dqkv;
};

/* Returns the index of element d of part p (0 for q, 1 for k, 2 for v) in a row of qkv. */
static uint64_t at(const struct attention *c, uint32_t b, uint32_t a, uint32_t t, uint32_t p,
                   uint32_t d)
{
    return (((uint64_t)b * c->T + t) * 3 + p) * c->A * c->D + a * c->D + d;
}

/* Computes the probabilities of one query. Returns the logarithm of the sum of exponentials. */
static double probabilities_of(const struct attention *c, const double *qkv, uint32_t b, uint32_t a,
                               uint32_t i, double *p)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t j = 0; j <= i; j++) {
        p[j] = 0;
        for (uint32_t d = 0; d < c->D; d++)
            p[j] += qkv[at(c, b, a, i, 0, d)] * qkv[at(c, b, a, j, 1, d)] / sqrt(c->D);
        max = fmax(max, p[j]);
    }
    for (uint32_t j = 0; j <= i; j++) {
        p[j] = exp(p[j] - max);
        sum += p[j];
    }
    for (uint32_t j = 0; j <= i; j++)
        p[j] /= sum;
    return max + log(sum);
}

static void reference_forward(const struct attention *c, const double *qkv, const double *mask,
                              double *o, double *lse)
{
    double *p = zeros(c->T);
    for (uint32_t b = 0; b < c->B; b++)
        for (uint32_t a = 0; a < c->A; a++)
            for (uint32_t i = 0; i < c->T; i++) {
                uint64_t row = ((uint64_t)b * c->A + a) * c->T + i;
                lse[row] = probabilities_of(c, qkv, b, a, i, p);
                for (uint32_t d = 0; d < c->D; d++) {
                    double sum = 0;
                    for (uint32_t j = 0; j <= i; j++)
                        sum += mask[row * c->T + j] * p[j] * qkv[at(c, b, a, j, 2, d)];
                    o[((uint64_t)b * c->T + i) * c->A * c->D + a * c->D + d] = sum;
                }
            }
    g_free(p);
}

/* Computes one query's part and adds it to dqkv. dout, o and mask are the query's rows. */
static void reference_query(const struct attention *c, const double *qkv, const double *mask,
                            const double *dout, const double *o, uint32_t b, uint32_t a, uint32_t i,
                            double *p, double *dp, double *dqkv)
{
    double delta = 0;
    probabilities_of(c, qkv, b, a, i, p);
    for (uint32_t j = 0; j <= i; j++) {
        dp[j] = 0;
        for (uint32_t d = 0; d < c->D; d++) {
            dp[j] += mask[j] * dout[d] * qkv[at(c, b, a, j, 2, d)];
            dqkv[at(c, b, a, j, 2, d)] += mask[j] * p[j] * dout[d];
        }
    }
    for (uint32_t d = 0; d < c->D; d++)
        delta += dout[d] * o[d];
    for (uint32_t j = 0; j <= i; j++)
        for (uint32_t d = 0; d < c->D; d++) {
            double ds = p[j] * (dp[j] - delta) / sqrt(c->D);
            dqkv[at(c, b, a, i, 0, d)] += ds * qkv[at(c, b, a, j, 1, d)];
            dqkv[at(c, b, a, j, 1, d)] += ds * qkv[at(c, b, a, i, 0, d)];
        }
}

/* Takes o as it is stored, because with o rounded to bf16 the gradient is another than with exact
 * values. */
static void reference_backward(const struct attention *c, const double *qkv, const double *mask,
                               const double *dout, const double *o, double *dqkv)
{
    double *p = zeros(c->T), *dp = zeros(c->T);
    for (uint32_t b = 0; b < c->B; b++)
        for (uint32_t a = 0; a < c->A; a++)
            for (uint32_t i = 0; i < c->T; i++) {
                uint64_t row = ((uint64_t)b * c->A + a) * c->T + i;
                uint64_t first = (((uint64_t)b * c->T + i) * c->A + a) * c->D;
                reference_query(c, qkv, mask + row * c->T, dout + first, o + first, b, a, i, p, dp,
                                dqkv);
            }
    g_free(p);
    g_free(dp);
}

struct attention_loss {
    const struct attention *attention;
    const double *mask, *dout;
};

static double loss_of(const double *qkv, const void *argument)
{
    const struct attention_loss *l = argument;
    const struct attention *c = l->attention;
    uint64_t elements = (uint64_t)c->B * c->T * c->A * c->D;
    double *o = zeros(elements), *lse = zeros((uint64_t)c->B * c->A * c->T), loss = 0;
    reference_forward(c, qkv, l->mask, o, lse);
    for (uint64_t i = 0; i < elements; i++)
        loss += o[i] * l->dout[i];
    g_free(o);
    g_free(lse);
    return loss;
}

static void reference_agrees_with_differences(void)
{
    struct kernel_dropout dropout = {{1, 2, 3}, 0.2};
    struct attention c = {.B = 2, .T = 6, .A = 2, .D = 3, .dropout = &dropout};
    uint64_t elements = (uint64_t)c.B * c.T * c.A * c.D;
    struct tensor *qkv = tensor_random(MODEL_FP32, 3 * elements, 1);
    struct tensor *dout = tensor_random(MODEL_FP32, elements, 1);
    double *mask = dropout_mask(&dropout, c.B * c.A * c.T, c.T), *dqkv = zeros(3 * elements);
    double *o = zeros(elements), *lse = zeros(c.B * c.A * c.T);
    struct attention_loss argument = {&c, mask, dout->value};
    reference_forward(&c, qkv->value, mask, o, lse);
    reference_backward(&c, qkv->value, mask, dout->value, o, dqkv);
    assert_gradient(loss_of, &argument, qkv->value, dqkv, 3 * elements);
    tensor_free(qkv);
    tensor_free(dout);
    g_free(mask);
    g_free(o);
    g_free(lse);
    g_free(dqkv);
}

static void run_forward(struct cpu_context *cpu, void *argument)
{
    struct attention *c = argument;
    cpu_attention_forward(cpu, c->precision, c->B, c->T, c->A, c->D, c->qkv->data, c->dropout,
                          c->o->data, c->lse->data);
}

static void run_backward(struct cpu_context *cpu, void *argument)
{
    struct attention *c = argument;
    cpu_attention_backward(cpu, c->precision, c->B, c->T, c->A, c->D, c->dout->data, c->qkv->data,
                           c->o->data, c->lse->data, c->dropout, c->dqkv->data);
}

static void check(struct attention c, double deviation, double tolerance)
{
    uint64_t elements = (uint64_t)c.B * c.T * c.A * c.D, rows = (uint64_t)c.B * c.A * c.T;
    c.qkv = tensor_random(c.precision, 3 * elements, deviation);
    c.dout = tensor_random(c.precision, elements, 1);
    c.o = tensor_unset(c.precision, elements);
    c.lse = tensor_unset(MODEL_FP32, rows);
    c.dqkv = tensor_unset(c.precision, 3 * elements);
    double *mask = dropout_mask(c.dropout, rows, c.T);
    double *o = zeros(elements), *lse = zeros(rows), *dqkv = zeros(3 * elements);
    reference_forward(&c, c.qkv->value, mask, o, lse);
    run_everywhere(run_forward, &c, (struct tensor *[]){c.o, c.lse}, 2);
    assert_close(c.o, o, tolerance, "o");
    assert_close(c.lse, lse, tolerance, "lse");
    reference_backward(&c, c.qkv->value, mask, c.dout->value, c.o->value, dqkv);
    run_everywhere(run_backward, &c, &c.dqkv, 1);
    assert_close(c.dqkv, dqkv, tolerance, "dqkv");
    struct tensor *all[] = {c.qkv, c.dout, c.o, c.lse, c.dqkv};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(mask);
    g_free(o);
    g_free(lse);
    g_free(dqkv);
}

static void attentions(enum model_precision precision)
{
    static const uint32_t sizes[][4] = {{1, 1, 1, 1},   {2, 17, 3, 5},   {1, 64, 2, 64},
                                        {1, 65, 1, 33}, {2, 130, 2, 16}, {1, 70, 1, 100}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        struct kernel_dropout dropout = {{(uint64_t)g_test_rand_int(), random_token(99), i}, 0.1};
        struct attention c = {
            .precision = precision,
            .B = sizes[i][0],
            .T = sizes[i][1],
            .A = sizes[i][2],
            .D = sizes[i][3],
        };
        check(c, 1, 5e-6);
        c.dropout = &dropout;
        check(c, 1, 5e-6);
    }
}

/* Scores of hundreds: exponentials overflow unless the greatest score is subtracted. An error of
 * half a unit in the last place of such a score is an error of 3e-5 in its exponential. */
static void great_scores(enum model_precision precision)
{
    check((struct attention){.precision = precision, .B = 1, .T = 80, .A = 1, .D = 16}, 12, 1e-4);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/attention/reference", reference_agrees_with_differences);
    add_precision_test("/attention", attentions);
    add_precision_test("/attention/great", great_scores);
    return g_test_run();
}
