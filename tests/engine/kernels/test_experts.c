/* The routers of several layers and the loss of the experts' imbalance, as load_balancing_loss_func
 * of transformers computes it. */
#include "engine/experts.h"
#include "fixture.h"

#include <math.h>
#include <string.h>

enum { LAYERS = 3, MOST = 23 };

/* The routers' loss is the sum of the weights of the chosen experts, each times its gradient, and
 * `coefficient` times the imbalance. */
struct routers {
    struct expert_shape shape;
    double coefficient;
    struct tensor *logits[LAYERS], *dweights[LAYERS];
    struct tensor *probabilities[LAYERS], *routes[LAYERS], *dlogits[LAYERS], *balance;
    double loss;
    uint32_t *chosen; /* [LAYERS,N,S], of the reference */
};

/* ---- the reference, in fp64 ---- */

static void softmax(uint32_t experts, const double *logits, double *p)
{
    double sum = 0;
    for (uint32_t e = 0; e < experts; e++)
        sum += p[e] = exp(logits[e]);
    for (uint32_t e = 0; e < experts; e++)
        p[e] /= sum;
}

/* The greatest first; of equal ones, the first. */
static void choose(const struct expert_shape *shape, const double *p, uint32_t *chosen)
{
    bool taken[MOST] = {false};
    for (uint32_t s = 0; s < shape->S; s++) {
        uint32_t best = shape->E;
        for (uint32_t e = 0; e < shape->E; e++)
            if (!taken[e] && (best == shape->E || p[e] > p[best]))
                best = e;
        taken[chosen[s] = best] = true;
    }
}

static void choose_all(struct routers *r)
{
    uint32_t *chosen = r->chosen;
    double p[MOST];
    for (int l = 0; l < LAYERS; l++)
        for (uint32_t n = 0; n < r->shape.N; n++, chosen += r->shape.S) {
            softmax(r->shape.E, r->logits[l]->value + (size_t)n * r->shape.E, p);
            choose(&r->shape, p, chosen);
        }
}

/* Returns how often an expert is chosen in all layers. */
static double count(const struct routers *r, uint32_t expert)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < (size_t)LAYERS * r->shape.N * r->shape.S; i++)
        sum += r->chosen[i] == expert;
    return sum;
}

static double imbalance_factor(const struct routers *r)
{
    double rows = (double)LAYERS * r->shape.N;
    return r->coefficient * r->shape.E / (rows * rows);
}

static double chosen_sum(const struct routers *r, const double *p, const uint32_t *chosen)
{
    double sum = 0;
    for (uint32_t s = 0; s < r->shape.S; s++)
        sum += p[chosen[s]];
    return r->shape.shared ? sum : 1;
}

/* The loss of other logits, [LAYERS,N,E], for which the same experts are chosen. */
static double loss_of(const double *logits, const void *argument)
{
    const struct routers *r = argument;
    const uint32_t *chosen = r->chosen;
    double loss = 0, p[MOST];
    for (int l = 0; l < LAYERS; l++)
        for (uint32_t n = 0; n < r->shape.N; n++, chosen += r->shape.S, logits += r->shape.E) {
            softmax(r->shape.E, logits, p);
            double sum = chosen_sum(r, p, chosen);
            for (uint32_t s = 0; s < r->shape.S; s++)
                loss += r->dweights[l]->value[n * r->shape.S + s] * p[chosen[s]] / sum;
            for (uint32_t e = 0; e < r->shape.E; e++)
                loss += imbalance_factor(r) * count(r, e) * p[e];
        }
    return loss;
}

/* The gradient of one row's logits. */
static void row_gradient(const struct routers *r, const double *logits, const double *dweights,
                         const uint32_t *chosen, double *dlogits)
{
    double p[MOST], dp[MOST], product = 0, all = 0;
    softmax(r->shape.E, logits, p);
    double sum = chosen_sum(r, p, chosen);
    for (uint32_t e = 0; e < r->shape.E; e++)
        dp[e] = imbalance_factor(r) * count(r, e);
    for (uint32_t s = 0; r->shape.shared && s < r->shape.S; s++)
        product += dweights[s] * p[chosen[s]] / sum;
    for (uint32_t s = 0; s < r->shape.S; s++)
        dp[chosen[s]] += (dweights[s] - product) / sum;
    for (uint32_t e = 0; e < r->shape.E; e++)
        all += dp[e] * p[e];
    for (uint32_t e = 0; e < r->shape.E; e++)
        dlogits[e] = p[e] * (dp[e] - all);
}

/* ---- the kernels ---- */

static struct expert_routes routes_of(const struct routers *r, int layer)
{
    return expert_routes_of(r->routes[layer]->data, r->shape.N, r->shape.S);
}

static void run_forward(struct cpu_context *cpu, void *argument)
{
    struct routers *r = argument;
    const struct expert_kernels *kernels = &cpu_expert_kernels;
    for (int l = 0; l < LAYERS; l++) {
        const struct expert_routes routes = routes_of(r, l);
        kernels->route(cpu, &r->shape, r->logits[l]->data, r->probabilities[l]->data, &routes);
        kernels->sum_routes(cpu, &r->shape, r->probabilities[l]->data, &routes, l > 0,
                            r->balance->data);
    }
    r->loss = 1;
    kernels->balance_loss(cpu, r->shape.E, r->balance->data, imbalance_factor(r), &r->loss);
}

static void run_backward(struct cpu_context *cpu, void *argument)
{
    struct routers *r = argument;
    const struct expert_balance balance = {r->balance->data, imbalance_factor(r)};
    for (int l = 0; l < LAYERS; l++) {
        const struct expert_routes routes = routes_of(r, l);
        cpu_expert_kernels.route_backward(
            cpu, &r->shape, r->dweights[l]->data, r->probabilities[l]->data, &routes,
            r->coefficient > 0 ? &balance : NULL, r->dlogits[l]->data);
    }
}

static void check_forward(struct routers *r)
{
    run_everywhere(run_forward, r, &r->balance, 1);
    double sums[2 * MOST] = {0}, loss = 1, p[MOST];
    for (int l = 0; l < LAYERS; l++) {
        const struct expert_routes routes = routes_of(r, l);
        g_assert_cmpmem(routes.experts, r->shape.N * r->shape.S * sizeof(uint32_t),
                        r->chosen + (size_t)l * r->shape.N * r->shape.S,
                        r->shape.N * r->shape.S * sizeof(uint32_t));
        for (uint32_t n = 0; n < r->shape.N; n++) {
            softmax(r->shape.E, r->logits[l]->value + (size_t)n * r->shape.E, p);
            for (uint32_t e = 0; e < r->shape.E; e++)
                sums[r->shape.E + e] += p[e];
        }
    }
    for (uint32_t e = 0; e < r->shape.E; e++) {
        sums[e] = count(r, e);
        loss += imbalance_factor(r) * sums[e] * sums[r->shape.E + e];
    }
    assert_close(r->balance, sums, 1e-6, "rows and probabilities");
    g_assert_cmpfloat(fabs(r->loss - loss), <=, 1e-6 * loss);
}

static void check_backward(struct routers *r)
{
    uint64_t all = (uint64_t)r->shape.N * r->shape.E;
    double *logits = zeros(LAYERS * all), *expected = zeros(LAYERS * all);
    for (int l = 0; l < LAYERS; l++)
        for (uint32_t n = 0; n < r->shape.N; n++) {
            uint64_t row = l * all + (uint64_t)n * r->shape.E;
            row_gradient(r, r->logits[l]->value + (size_t)n * r->shape.E,
                         r->dweights[l]->value + (size_t)n * r->shape.S,
                         r->chosen + ((size_t)l * r->shape.N + n) * r->shape.S, expected + row);
        }
    for (int l = 0; l < LAYERS; l++)
        memcpy(logits + l * all, r->logits[l]->value, all * sizeof *logits);
    assert_gradient(loss_of, r, logits, expected, LAYERS * all);
    run_everywhere(run_backward, r, r->dlogits, LAYERS);
    for (int l = 0; l < LAYERS; l++)
        assert_close(r->dlogits[l], expected + l * all, 1e-5, "gradient of logits");
    g_free(logits);
    g_free(expected);
}

static void check(enum model_precision precision, uint32_t rows, uint32_t experts, uint32_t each,
                  bool shared, double coefficient)
{
    struct routers r = {.shape = {precision, rows, 8, experts, each, shared},
                        .coefficient = coefficient,
                        .balance = tensor_unset(MODEL_FP32, 2 * experts),
                        .chosen = g_new(uint32_t, (size_t)LAYERS * rows * each)};
    uint64_t logits = (uint64_t)rows * experts;
    for (int l = 0; l < LAYERS; l++) {
        r.logits[l] = tensor_random(precision, logits, 1);
        r.dweights[l] = tensor_random(MODEL_FP32, (uint64_t)rows * each, 1);
        r.probabilities[l] = tensor_unset(MODEL_FP32, logits);
        r.routes[l] = tensor_unset(MODEL_FP32, model_routes_bytes(rows, each, experts) / 4);
        r.dlogits[l] = tensor_unset(precision, logits);
    }
    choose_all(&r);
    check_forward(&r);
    check_backward(&r);
    for (int l = 0; l < LAYERS; l++) {
        tensor_free(r.logits[l]);
        tensor_free(r.dweights[l]);
        tensor_free(r.probabilities[l]);
        tensor_free(r.routes[l]);
        tensor_free(r.dlogits[l]);
    }
    tensor_free(r.balance);
    g_free(r.chosen);
}

static void test_imbalance(enum model_precision precision)
{
    check(precision, 1, 1, 1, false, 0.1);
    check(precision, 19, 4, 2, true, 0.5);
    check(precision, 40, MOST, 3, false, 2);
    check(precision, 33, 6, 6, true, 10);
}

/* Without a loss of imbalance. */
static void test_weights(enum model_precision precision)
{
    check(precision, 21, 5, 2, true, 0);
    check(precision, 17, 8, 3, false, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    add_precision_test("/experts/imbalance", test_imbalance);
    add_precision_test("/experts/weights", test_weights);
    return g_test_run();
}
