/* The kernels of decoders other than GPT-2: RMS norm, products with transposed weights, gates, and
 * attention of groups of heads with rotary positions and windows. */
#include "fixture.h"

#include "engine/rotary.h"
#include "weave.h"
#include <math.h>

/* Gradients of queries and keys are small differences. */
static const double epsilon = 1e-5, tolerance = 5e-6, differences = 5e-5;

/* ---- RMS norm ---- */

struct rms {
    enum model_precision precision;
    uint32_t N, H;
    float offset;
    bool add;
    enum kernel_gradient gradient;
    struct tensor *x, *weight, *dy, *y, *stats, *dx, *dweight;
};

static void run_rms_forward(struct cpu_context *cpu, void *argument)
{
    struct rms *n = argument;
    cpu_rms_forward(cpu, n->precision, n->N, n->H, epsilon, n->offset, n->weight->data, n->x->data,
                    n->y->data, n->stats->data);
}

static void run_rms_backward(struct cpu_context *cpu, void *argument)
{
    struct rms *n = argument;
    cpu_rms_backward_input(cpu, n->precision, n->N, n->H, n->offset, n->weight->data, n->dy->data,
                           n->x->data, n->stats->data, n->add, n->dx->data);
    cpu_rms_backward_weight(cpu, n->precision, n->N, n->H, n->dy->data, n->x->data, n->stats->data,
                            n->gradient, n->dweight->data);
}

/* Adds one row's part to dweight, and its dx to dx. */
static double rms_row(const struct rms *n, uint32_t row, double *y, double *dx, double *dweight)
{
    const double *x = n->x->value + row * n->H, *dy = n->dy->value + row * n->H;
    const double *weight = n->weight->value;
    double squares = 0, mean = 0;
    for (uint32_t h = 0; h < n->H; h++)
        squares += x[h] * x[h];
    double inverse = 1 / sqrt(squares / n->H + epsilon);
    for (uint32_t h = 0; h < n->H; h++)
        mean += dy[h] * (weight[h] + n->offset) * x[h] * inverse / n->H;
    for (uint32_t h = 0; h < n->H; h++) {
        y[row * n->H + h] = x[h] * inverse * (weight[h] + n->offset);
        dx[row * n->H + h] += (dy[h] * (weight[h] + n->offset) - x[h] * inverse * mean) * inverse;
        dweight[h] += dy[h] * x[h] * inverse;
    }
    return inverse;
}

static void check_rms(struct rms n)
{
    uint64_t elements = (uint64_t)n.N * n.H;
    enum model_precision stored = gradient_precision(n.gradient);
    bool adds = kernel_gradient_adds(n.gradient);
    n.x = tensor_random(n.precision, elements, 2);
    n.weight = tensor_random(n.precision, n.H, 1);
    n.dy = tensor_random(n.precision, elements, 1);
    n.y = tensor_unset(n.precision, elements);
    n.stats = tensor_unset(MODEL_FP32, n.N);
    n.dx = n.add ? tensor_random(n.precision, elements, 1) : tensor_unset(n.precision, elements);
    n.dweight = adds ? tensor_random(stored, n.H, 1) : tensor_unset(stored, n.H);
    double *y = zeros(elements), *stats = zeros(n.N);
    double *dx = n.add ? g_memdup2(n.dx->value, elements * sizeof *dx) : zeros(elements);
    double *dweight = adds ? g_memdup2(n.dweight->value, n.H * sizeof *dweight) : zeros(n.H);
    for (uint32_t row = 0; row < n.N; row++)
        stats[row] = rms_row(&n, row, y, dx, dweight);
    run_everywhere(run_rms_forward, &n, (struct tensor *[]){n.y, n.stats}, 2);
    assert_close(n.y, y, tolerance, "y");
    assert_close(n.stats, stats, tolerance, "stats");
    run_everywhere(run_rms_backward, &n, (struct tensor *[]){n.dx, n.dweight}, 2);
    assert_close(n.dx, dx, tolerance, "dx");
    assert_close(n.dweight, dweight, tolerance, "dweight");
    struct tensor *all[] = {n.x, n.weight, n.dy, n.y, n.stats, n.dx, n.dweight};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(y);
    g_free(stats);
    g_free(dx);
    g_free(dweight);
}

static void rms_norms(enum model_precision precision)
{
    static const uint32_t sizes[][2] = {{1, 17}, {17, 65}, {131, 20}, {2, 1000}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        for (enum kernel_gradient g = 0; g <= KERNEL_GRADIENT_ADD_BF16; g++)
            check_rms((struct rms){.precision = precision,
                                   .N = sizes[i][0],
                                   .H = sizes[i][1],
                                   .offset = i % 2 ? 1 : 0,
                                   .add = g % 2,
                                   .gradient = g});
}

/* ---- gates ---- */

struct gate {
    enum model_precision precision;
    enum model_activation activation;
    struct tensor *gate, *up, *y, *dy, *dgate;
};

/* The same gate and what it is multiplied with in one row, and their gradients. */
struct joined_gate {
    enum model_precision precision;
    struct kernel_gate gate;
    struct tensor *both, *y, *dy, *dboth;
};

static struct kernel_gate gate_of(const struct gate *g)
{
    return (struct kernel_gate){.activation = g->activation,
                                .N = 1,
                                .F = g->gate->elements,
                                .row = g->gate->elements,
                                .gate = g->gate->data,
                                .up = g->up->data};
}

static void run_gate_forward(struct cpu_context *cpu, void *argument)
{
    struct gate *g = argument;
    const struct kernel_gate gate = gate_of(g);
    cpu_gate_forward(cpu, g->precision, &gate, g->y->data);
}

static void run_gate_backward(struct cpu_context *cpu, void *argument)
{
    struct gate *g = argument;
    const struct kernel_gate gate = gate_of(g);
    cpu_gate_backward(cpu, g->precision, &gate, g->dy->data, g->dgate->data, g->dy->data);
}

static void *column_of(const struct tensor *tensor, enum model_precision precision, uint64_t column)
{
    return (char *)tensor->data + column * (precision == MODEL_BF16 ? 2 : 4);
}

static void run_joined_gate_forward(struct cpu_context *cpu, void *argument)
{
    struct joined_gate *g = argument;
    cpu_gate_forward(cpu, g->precision, &g->gate, g->y->data);
}

static void run_joined_gate_backward(struct cpu_context *cpu, void *argument)
{
    struct joined_gate *g = argument;
    cpu_gate_backward(cpu, g->precision, &g->gate, g->dy->data, g->dboth->data,
                      column_of(g->dboth, g->precision, g->gate.F));
}

/* Returns the activation, and sets its slope. */
static double activate(enum model_activation activation, double x, double *slope)
{
    if (activation == MODEL_SILU) {
        double s = 1 / (1 + exp(-x));
        *slope = s * (1 + x * (1 - s));
        return x * s;
    }
    double inner = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = tanh(inner);
    *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

static void check_gate(enum model_precision precision, enum model_activation activation,
                       double deviation)
{
    enum { ELEMENTS = 1000 };
    double y[ELEMENTS], dup[ELEMENTS], dgate[ELEMENTS];
    struct gate g = {precision,
                     activation,
                     tensor_random(precision, ELEMENTS, deviation),
                     tensor_random(precision, ELEMENTS, 1),
                     tensor_unset(precision, ELEMENTS),
                     tensor_random(precision, ELEMENTS, 1),
                     tensor_unset(precision, ELEMENTS)};
    for (int i = 0; i < ELEMENTS; i++) {
        double slope, active = activate(activation, g.gate->value[i], &slope);
        y[i] = active * g.up->value[i];
        dup[i] = g.dy->value[i] * active;
        dgate[i] = g.dy->value[i] * g.up->value[i] * slope;
    }
    run_everywhere(run_gate_forward, &g, &g.y, 1);
    assert_close(g.y, y, tolerance, "y");
    run_everywhere(run_gate_backward, &g, (struct tensor *[]){g.dy, g.dgate}, 2);
    assert_close(g.dy, dup, tolerance, "dup");
    assert_close(g.dgate, dgate, tolerance, "dgate");
    struct tensor *all[] = {g.gate, g.up, g.y, g.dy, g.dgate};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
}

static void check_joined_gate(enum model_precision precision, enum model_activation activation,
                              uint32_t N, uint32_t F)
{
    double *y = zeros((uint64_t)N * F), *dboth = zeros((uint64_t)N * 2 * F);
    struct joined_gate g = {.precision = precision,
                            .both = tensor_random(precision, (uint64_t)N * 2 * F, 1),
                            .y = tensor_unset(precision, (uint64_t)N * F),
                            .dy = tensor_random(precision, (uint64_t)N * F, 1),
                            .dboth = tensor_unset(precision, (uint64_t)N * 2 * F)};
    g.gate = (struct kernel_gate){
        activation, N, F, 2 * F, g.both->data, column_of(g.both, precision, F)};
    for (uint32_t n = 0; n < N; n++)
        for (uint32_t f = 0; f < F; f++) {
            uint32_t at = n * 2 * F + f, dense = n * F + f;
            double slope, active = activate(activation, g.both->value[at], &slope);
            y[dense] = active * g.both->value[at + F];
            dboth[at] = g.dy->value[dense] * g.both->value[at + F] * slope;
            dboth[at + F] = g.dy->value[dense] * active;
        }
    run_everywhere(run_joined_gate_forward, &g, &g.y, 1);
    assert_close(g.y, y, tolerance, "y");
    run_everywhere(run_joined_gate_backward, &g, &g.dboth, 1);
    assert_close(g.dboth, dboth, tolerance, "the gradient of gate and up");
    struct tensor *all[] = {g.both, g.y, g.dy, g.dboth};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(y);
    g_free(dboth);
}

/* Among them numbers whose exponentials overflow. */
static void gates(enum model_precision precision)
{
    static const uint32_t sizes[][2] = {{1, 1}, {1, 70}, {17, 64}, {5, 129}, {300, 3}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        check_joined_gate(precision, i % 2 ? MODEL_SILU : MODEL_GELU_TANH, sizes[i][0],
                          sizes[i][1]);
    check_gate(precision, MODEL_SILU, 50);
    check_gate(precision, MODEL_SILU, 1);
    check_gate(precision, MODEL_GELU_TANH, 1);
}

static void run_scale(struct cpu_context *cpu, void *argument)
{
    struct tensor *x = argument;
    cpu_scale(cpu, x->precision, x->elements, 2.5f, x->data);
}

static void scales(enum model_precision precision)
{
    enum { ELEMENTS = 300 };
    double expected[ELEMENTS];
    struct tensor *x = tensor_random(precision, ELEMENTS, 1);
    for (int i = 0; i < ELEMENTS; i++)
        expected[i] = 2.5 * x->value[i];
    run_everywhere(run_scale, x, &x, 1);
    assert_close(x, expected, tolerance, "x");
    tensor_free(x);
}

/* ---- products with transposed weights ---- */

static void check_product(enum model_precision precision, uint32_t N, uint32_t I, uint32_t O,
                          bool biased)
{
    struct cpu_context *cpu = cpu_context_new(2);
    struct tensor *x = tensor_random(precision, (uint64_t)N * I, 1);
    struct tensor *weight = tensor_random(precision, (uint64_t)O * I, 1);
    struct tensor *bias = tensor_random(precision, O, 1);
    struct tensor *dy = tensor_random(precision, (uint64_t)N * O, 1);
    struct tensor *dx = tensor_random(precision, (uint64_t)N * I, 1);
    struct tensor *y = tensor_unset(precision, (uint64_t)N * O);
    struct tensor *dweight = tensor_unset(MODEL_FP32, (uint64_t)O * I);
    double *y_is = zeros((uint64_t)N * O), *dweight_is = zeros((uint64_t)O * I);
    double *dx_is = g_memdup2(dx->value, (uint64_t)N * I * sizeof *dx_is);
    for (uint32_t n = 0; n < N; n++)
        for (uint32_t o = 0; o < O; o++) {
            double slope = dy->value[n * O + o], sum = biased ? bias->value[o] : 0;
            for (uint32_t i = 0; i < I; i++) {
                sum += x->value[n * I + i] * weight->value[o * I + i];
                dx_is[n * I + i] += slope * weight->value[o * I + i];
                dweight_is[o * I + i] += slope * x->value[n * I + i];
            }
            y_is[n * O + o] = sum;
        }
    cpu_product_forward(cpu, precision, N, I, O, x->data, weight->data, biased ? bias->data : NULL,
                        y->data);
    assert_close(y, y_is, tolerance, "y");
    cpu_product_backward_input(cpu, precision, N, I, O, dy->data, weight->data, true, dx->data);
    assert_close(dx, dx_is, tolerance, "dx");
    cpu_product_backward_weight(cpu, precision, N, I, O, x->data, dy->data, KERNEL_GRADIENT_SET,
                                NULL, dweight->data, NULL);
    assert_close(dweight, dweight_is, tolerance, "dweight");
    struct tensor *all[] = {x, weight, bias, dy, dx, y, dweight};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(y_is);
    g_free(dx_is);
    g_free(dweight_is);
    cpu_context_free(cpu);
}

static void products(enum model_precision precision)
{
    static const uint32_t sizes[][3] = {{1, 1, 1}, {17, 33, 5}, {64, 48, 96}, {3, 129, 257}};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        check_product(precision, sizes[i][0], sizes[i][1], sizes[i][2], i % 2);
}

/* ---- attention ---- */

struct grouped {
    enum model_precision precision;
    struct kernel_heads heads;
    const struct kernel_dropout *dropout;
    struct tensor *q, *k, *v, *o, *lse, *dout, *dq, *dk, *dv;
};

static void run_grouped_forward(struct cpu_context *cpu, void *argument)
{
    struct grouped *g = argument;
    cpu_grouped_forward(cpu, g->precision, &g->heads, g->q->data, g->k->data, g->v->data,
                        g->dropout, g->o->data, g->lse->data);
}

static void run_grouped_backward(struct cpu_context *cpu, void *argument)
{
    struct grouped *g = argument;
    cpu_grouped_backward(cpu, g->precision, &g->heads, g->dout->data, g->q->data, g->k->data,
                         g->v->data, g->o->data, g->lse->data, g->dropout, g->dq->data, g->dk->data,
                         g->dv->data);
}

/* Turns the rows of [B * T, heads, D], or turns them back. */
static double *turned(const struct kernel_heads *h, uint32_t heads, const double *rows, int back)
{
    uint64_t all = (uint64_t)h->B * h->T * heads;
    double *result = g_memdup2(rows, all * h->D * sizeof *result);
    for (uint64_t row = 0; row < all; row++)
        for (uint32_t i = 0; i < h->pairs; i++) {
            uint64_t at = row / heads % h->T * h->pairs + i;
            double c = h->cosines[at], s = back ? -h->sines[at] : h->sines[at];
            double *x = result + row * h->D + i, *y = x + h->pairs, first = *x;
            *x = first * c - *y * s;
            *y = *y * c + first * s;
        }
    return result;
}

/* One query's probabilities and gradients; q, k, dq and dk are turned. Delta takes o as it is
 * stored: rounded to bf16 it gives another gradient. */
static void grouped_query(const struct grouped *g, const double *mask, const double *q,
                          const double *k, uint64_t query, double *o, double *lse, double *dq,
                          double *dk, double *dv)
{
    const struct kernel_heads *h = &g->heads;
    uint64_t b = query / h->T / h->A, a = query / h->T % h->A, i = query % h->T;
    uint64_t own = ((b * h->T + i) * h->A + a) * h->D;
    uint64_t first = h->window && i >= h->window ? i - h->window + 1 : 0;
    double *p = zeros(h->T), *slope = zeros(h->T), sum = 0, delta = 0;
    double scale = h->scale > 0 ? h->scale : 1 / sqrt(h->D);
    for (uint64_t j = first; j <= i; j++) {
        uint64_t key = ((b * h->T + j) * h->K + a / (h->A / h->K)) * h->D;
        for (uint32_t d = 0; d < h->D; d++)
            p[j] += q[own + d] * k[key + d] * scale;
        slope[j] = 1;
        if (h->cap > 0) {
            double tangent = tanh(p[j] / h->cap);
            slope[j] = 1 - tangent * tangent;
            p[j] = h->cap * tangent;
        }
        p[j] = exp(p[j]);
        sum += p[j];
    }
    g_assert_cmpfloat(sum, >, 0);
    lse[query] = log(sum);
    for (uint64_t j = first; j <= i; j++) {
        uint64_t key = ((b * h->T + j) * h->K + a / (h->A / h->K)) * h->D;
        p[j] /= sum;
        for (uint32_t d = 0; d < h->D; d++) {
            o[own + d] += mask[j] * p[j] * g->v->value[key + d];
            dv[key + d] += mask[j] * p[j] * g->dout->value[own + d];
        }
    }
    for (uint32_t d = 0; d < h->D; d++)
        delta += g->dout->value[own + d] * g->o->value[own + d];
    for (uint64_t j = first; j <= i; j++) {
        uint64_t key = ((b * h->T + j) * h->K + a / (h->A / h->K)) * h->D;
        double dp = 0;
        for (uint32_t d = 0; d < h->D; d++)
            dp += mask[j] * g->dout->value[own + d] * g->v->value[key + d];
        for (uint32_t d = 0; d < h->D; d++) {
            dq[own + d] += p[j] * (dp - delta) * slope[j] * scale * k[key + d];
            dk[key + d] += p[j] * (dp - delta) * slope[j] * scale * q[own + d];
        }
    }
    g_free(p);
    g_free(slope);
}

static void compare_grouped(struct grouped *g, const double *mask)
{
    const struct kernel_heads *h = &g->heads;
    uint64_t rows = (uint64_t)h->B * h->T, queries = rows * h->A;
    double *q = turned(h, h->A, g->q->value, false), *k = turned(h, h->K, g->k->value, false);
    double *o = zeros(queries * h->D), *lse = zeros(queries), *dq = zeros(queries * h->D);
    double *dk = zeros(rows * h->K * h->D), *dv = zeros(rows * h->K * h->D);
    run_everywhere(run_grouped_forward, g, (struct tensor *[]){g->o, g->lse}, 2);
    tensor_read(g->o);
    for (uint64_t query = 0; query < queries; query++)
        grouped_query(g, mask + query * h->T, q, k, query, o, lse, dq, dk, dv);
    double *dq_back = turned(h, h->A, dq, true), *dk_back = turned(h, h->K, dk, true);
    assert_close(g->o, o, tolerance, "o");
    assert_close(g->lse, lse, tolerance, "lse");
    run_everywhere(run_grouped_backward, g, (struct tensor *[]){g->dq, g->dk, g->dv}, 3);
    assert_close(g->dq, dq_back, differences, "dq");
    assert_close(g->dk, dk_back, differences, "dk");
    assert_close(g->dv, dv, tolerance, "dv");
    double *all[] = {q, k, o, lse, dq, dk, dv, dq_back, dk_back};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        g_free(all[i]);
}

static void check_joined(const struct grouped *g, const struct weave *weave)
{
    size_t element = g->precision == MODEL_BF16 ? 2 : 4;
    uint64_t rows = (uint64_t)g->heads.B * g->heads.T, joined = rows * weave->heads.row;
    struct tensor *parts[] = {g->q, g->k, g->v}, *gradients[] = {g->dq, g->dk, g->dv};
    struct tensor *qkv = tensor_unset(g->precision, joined), *o, *lse;
    struct tensor *dqkv = tensor_unset(g->precision, joined);
    struct cpu_context *cpu = cpu_context_new(2);
    o = tensor_unset(g->precision, g->o->elements);
    lse = tensor_unset(MODEL_FP32, g->lse->elements);
    void *x[3], *dx[3];
    for (int part = KERNEL_Q; part <= KERNEL_V; part++) {
        weave_part(weave, part, element, qkv->data, parts[part]->data, false);
        x[part] = weave_at(weave, part, element, qkv->data);
        dx[part] = weave_at(weave, part, element, dqkv->data);
    }
    cpu_grouped_forward(cpu, g->precision, &weave->heads, x[0], x[1], x[2], g->dropout, o->data,
                        lse->data);
    cpu_grouped_backward(cpu, g->precision, &weave->heads, g->dout->data, x[0], x[1], x[2], o->data,
                         lse->data, g->dropout, dx[0], dx[1], dx[2]);
    g_assert_cmpmem(o->data, o->elements * element, g->o->data, g->o->elements * element);
    for (int part = KERNEL_Q; part <= KERNEL_V; part++) {
        uint64_t bytes = gradients[part]->elements * element;
        g_autofree void *found = g_malloc(bytes);
        weave_part(weave, part, element, dqkv->data, found, true);
        g_assert_cmpmem(found, bytes, gradients[part]->data, bytes);
    }
    struct tensor *all[] = {qkv, o, lse, dqkv};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    cpu_context_free(cpu);
}

/* Queries, keys and values in one row give the bits that they give apart. */
static void compare_joined(const struct grouped *g)
{
    int ways = g->heads.A == g->heads.K ? 2 : 1;
    for (int by_head = 0; by_head < ways; by_head++) {
        struct weave weave = weave_of(&g->heads, by_head);
        check_joined(g, &weave);
    }
}

static void check_grouped(struct grouped g)
{
    struct kernel_heads *h = &g.heads;
    uint64_t rows = (uint64_t)h->B * h->T, queries = rows * h->A * h->D;
    uint64_t keys = rows * h->K * h->D;
    const struct model_rotary rotary = {
        .columns = 2 * h->pairs, .base = 100, .factor = 1, .magnitude = 1.25};
    float *table = g_new(float, 2 * (uint64_t)h->T * h->pairs);
    rotary_fill(&rotary, h->T, table, table + (uint64_t)h->T * h->pairs);
    h->cosines = table;
    h->sines = table + (uint64_t)h->T * h->pairs;
    g.q = tensor_random(g.precision, queries, 1);
    g.k = tensor_random(g.precision, keys, 1);
    g.v = tensor_random(g.precision, keys, 1);
    g.dout = tensor_random(g.precision, queries, 1);
    g.o = tensor_unset(g.precision, queries);
    g.lse = tensor_unset(MODEL_FP32, rows * h->A);
    g.dq = tensor_unset(g.precision, queries);
    g.dk = tensor_unset(g.precision, keys);
    g.dv = tensor_unset(g.precision, keys);
    double *mask = dropout_mask(g.dropout, rows * h->A, h->T);
    compare_grouped(&g, mask);
    compare_joined(&g);
    struct tensor *all[] = {g.q, g.k, g.v, g.dout, g.o, g.lse, g.dq, g.dk, g.dv};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        tensor_free(all[i]);
    g_free(mask);
    g_free(table);
}

/* Windows that end within a tile, at its end, and before it; heads that turn in part. */
static void groups(enum model_precision precision)
{
    static const struct kernel_heads sizes[] = {
        {.B = 1, .T = 5, .A = 1, .K = 1, .D = 2, .pairs = 1},
        {.B = 2, .T = 17, .A = 6, .K = 2, .D = 6, .pairs = 2, .window = 5},
        {.B = 1, .T = 130, .A = 2, .K = 1, .D = 16, .pairs = 8, .window = 64},
        {.B = 1, .T = 200, .A = 2, .K = 2, .D = 8, .pairs = 4, .window = 65},
        {.B = 1, .T = 200, .A = 3, .K = 1, .D = 8, .pairs = 4, .window = 3},
        {.B = 1, .T = 70, .A = 4, .K = 1, .D = 100, .pairs = 50},
        {.B = 2, .T = 70, .A = 2, .K = 1, .D = 16, .pairs = 8, .cap = 0.5f},
        {.B = 1, .T = 130, .A = 2, .K = 2, .D = 8, .window = 65, .scale = 0.7f, .cap = 3},
    };
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        struct kernel_dropout dropout = {{(uint64_t)g_test_rand_int(), random_token(99), i}, 0.1};
        check_grouped((struct grouped){
            .precision = precision, .heads = sizes[i], .dropout = i % 2 ? &dropout : NULL});
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_precision_test("/parts/rms", rms_norms);
    add_precision_test("/parts/gates", gates);
    add_precision_test("/parts/scales", scales);
    add_precision_test("/parts/products", products);
    add_precision_test("/parts/groups", groups);
    return g_test_run();
}
