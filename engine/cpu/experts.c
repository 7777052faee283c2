/* Mixtures of experts on the CPU. A thread has whole rows, and goes through them in order. */
#include "engine/experts.h"

#include "engine/bf16.h"
#include "engine/cpu/context.h"
#include "engine/exponential.h"

#include <string.h>

/* What a loop over rows works on. */
struct rows {
    const struct expert_shape *shape;
    const struct expert_routes *routes;
    const void *in, *more; /* rows [N,..] and [N*S,..], by the kernel */
    void *out;
    float *numbers; /* [N,E] or [N,S] */
    const struct expert_balance *balance;
};

static float load(const struct expert_shape *shape, const void *values, uint64_t i)
{
    return shape->precision == MODEL_BF16 ? bf16_widen(((const uint16_t *)values)[i])
                                          : ((const float *)values)[i];
}

static void store(const struct expert_shape *shape, void *values, uint64_t i, float value)
{
    if (shape->precision == MODEL_BF16)
        ((uint16_t *)values)[i] = bf16_round(value);
    else
        ((float *)values)[i] = value;
}

/* ---- routes ---- */

static void softmax(const struct expert_shape *shape, const void *logits, uint64_t row, float *p)
{
    float greatest = load(shape, logits, row * shape->E), sum = 0;
    for (uint32_t e = 1; e < shape->E; e++) {
        float logit = load(shape, logits, row * shape->E + e);
        greatest = logit > greatest ? logit : greatest;
    }
    for (uint32_t e = 0; e < shape->E; e++)
        sum += p[e] = exponential(load(shape, logits, row * shape->E + e) - greatest);
    for (uint32_t e = 0; e < shape->E; e++)
        p[e] /= sum;
}

static bool is_behind(const float *p, uint32_t e, uint32_t last)
{
    return (e > last && p[e] == p[last]) || p[e] < p[last];
}

/* Returns the expert with the greatest probability of those that come behind `last`: smaller ones,
 * and of equal ones those with higher numbers. `last` is E for the first. */
static uint32_t next_expert(const float *p, uint32_t experts, uint32_t last)
{
    uint32_t best = experts;
    for (uint32_t e = 0; e < experts; e++) {
        if ((last == experts || is_behind(p, e, last)) && (best == experts || p[e] > p[best]))
            best = e;
    }
    return best;
}

/* Probabilities that are no numbers have no order; the experts then are the first ones. */
static void choose(const struct expert_shape *shape, const float *p, uint32_t *experts,
                   float *weights)
{
    float sum = 0;
    uint32_t last = shape->E;
    for (uint32_t s = 0; s < shape->S; s++) {
        last = next_expert(p, shape->E, last);
        experts[s] = last == shape->E ? s : last;
        sum += weights[s] = p[experts[s]];
    }
    for (uint32_t s = 0; shape->shared && s < shape->S; s++)
        weights[s] /= sum;
}

static void route_rows(const void *arguments, uint64_t first, uint64_t end)
{
    const struct rows *rows = arguments;
    const struct expert_shape *shape = rows->shape;
    for (uint64_t n = first; n < end; n++) {
        float *p = rows->numbers + n * shape->E;
        softmax(shape, rows->in, n, p);
        choose(shape, p, rows->routes->experts + n * shape->S,
               rows->routes->weights + n * shape->S);
    }
}

/* Gives each expert's rows their places, in the order of the rows. */
static void place_rows(const struct expert_shape *shape, const struct expert_routes *routes)
{
    uint64_t all = (uint64_t)shape->N * shape->S;
    memset(routes->first, 0, (shape->E + 1) * sizeof *routes->first);
    for (uint64_t i = 0; i < all; i++)
        routes->first[routes->experts[i] + 1]++;
    for (uint32_t e = 0; e < shape->E; e++)
        routes->first[e + 1] += routes->first[e];
    for (uint64_t i = 0; i < all; i++)
        routes->places[i] = routes->first[routes->experts[i]]++;
    memmove(routes->first + 1, routes->first, shape->E * sizeof *routes->first);
    routes->first[0] = 0;
}

static void route(const void *context, const struct expert_shape *shape, const void *logits,
                  float *probabilities, const struct expert_routes *routes)
{
    struct rows rows = {shape, routes, logits, NULL, NULL, probabilities, NULL};
    cpu_parallel(context, route_rows, &rows, shape->N, 1);
    place_rows(shape, routes);
}

/* The gradients of the chosen probabilities, from those of their weights, in place. */
static void of_chosen(const struct expert_shape *shape, const float *p, const uint32_t *experts,
                      const float *weights, const float *dweights, float *dp)
{
    float sum = 0, product = 0;
    for (uint32_t s = 0; s < shape->S; s++) {
        sum += p[experts[s]];
        product += dweights[s] * weights[s];
    }
    for (uint32_t s = 0; s < shape->S; s++)
        dp[experts[s]] = shape->shared ? (dweights[s] - product) / sum : dweights[s];
}

static void route_rows_backward(const void *arguments, uint64_t first, uint64_t end)
{
    const struct rows *rows = arguments;
    const struct expert_shape *shape = rows->shape;
    float dp[MODEL_MOST_EXPERTS];
    for (uint64_t n = first; n < end; n++) {
        const float *p = (const float *)rows->in + n * shape->E;
        const uint32_t *experts = rows->routes->experts + n * shape->S;
        float product = 0;
        memset(dp, 0, shape->E * sizeof *dp);
        of_chosen(shape, p, experts, rows->routes->weights + n * shape->S,
                  rows->numbers + n * shape->S, dp);
        for (uint32_t e = 0; rows->balance && e < shape->E; e++)
            dp[e] += (float)(rows->balance->factor * rows->balance->rows[e]);
        for (uint32_t e = 0; e < shape->E; e++)
            product += dp[e] * p[e];
        for (uint32_t e = 0; e < shape->E; e++)
            store(shape, rows->out, n * shape->E + e, p[e] * (dp[e] - product));
    }
}

static void route_backward(const void *context, const struct expert_shape *shape,
                           const float *dweights, const float *probabilities,
                           const struct expert_routes *routes, const struct expert_balance *balance,
                           void *dlogits)
{
    struct rows rows = {shape, routes, probabilities, NULL, dlogits, (float *)dweights, balance};
    cpu_parallel(context, route_rows_backward, &rows, shape->N, 1);
}

/* ---- the loss of imbalance ---- */

/* What a loop over experts works on. */
struct sums {
    const struct expert_shape *shape;
    const struct expert_routes *routes;
    const float *probabilities;
    bool add;
    float *balance;
};

static void sum_experts(const void *arguments, uint64_t first, uint64_t end)
{
    const struct sums *sums = arguments;
    uint64_t N = sums->shape->N, E = sums->shape->E;
    float *rows = sums->balance, *probabilities = sums->balance + E;
    double sum[MODEL_MOST_EXPERTS] = {0};
    for (uint64_t n = 0; n < N; n++)
        for (uint64_t e = first; e < end; e++)
            sum[e] += sums->probabilities[n * E + e];
    for (uint64_t e = first; e < end; e++) {
        float chosen = (float)(sums->routes->first[e + 1] - sums->routes->first[e]);
        rows[e] = (sums->add ? rows[e] : 0) + chosen;
        probabilities[e] = (float)((sums->add ? probabilities[e] : 0) + sum[e]);
    }
}

/* A thread has whole experts, and goes through all rows in order. */
static void sum_routes(const void *context, const struct expert_shape *shape,
                       const float *probabilities, const struct expert_routes *routes, bool add,
                       float *balance)
{
    struct sums sums = {shape, routes, probabilities, add, balance};
    cpu_parallel(context, sum_experts, &sums, shape->E, 1);
}

static void balance_loss(const void *context, uint32_t E, const float *balance, double factor,
                         double *loss)
{
    double sum = 0;
    (void)context;
    for (uint32_t e = 0; e < E; e++)
        sum += (double)balance[e] * balance[E + e];
    *loss += factor * sum;
}

/* ---- rows ---- */

static void dispatch_rows(const void *arguments, uint64_t first, uint64_t end)
{
    const struct rows *rows = arguments;
    const struct expert_shape *shape = rows->shape;
    uint64_t bytes = (uint64_t)shape->H * (shape->precision == MODEL_BF16 ? 2 : 4);
    for (uint64_t n = first; n < end; n++)
        for (uint32_t s = 0; s < shape->S; s++)
            memcpy((char *)rows->out + rows->routes->places[n * shape->S + s] * bytes,
                   (const char *)rows->in + n * bytes, bytes);
}

static void dispatch(const void *context, const struct expert_shape *shape, const void *x,
                     const struct expert_routes *routes, void *xs)
{
    struct rows rows = {shape, routes, x, NULL, xs, NULL, NULL};
    cpu_parallel(context, dispatch_rows, &rows, shape->N, 1);
}

/* `more` is the residual; without it rows are added up as they are. */
static void combine_rows(const void *arguments, uint64_t first, uint64_t end)
{
    const struct rows *rows = arguments;
    const struct expert_shape *shape = rows->shape;
    uint64_t H = shape->H;
    for (uint64_t n = first; n < end; n++)
        for (uint64_t h = 0; h < H; h++) {
            float sum = 0;
            for (uint64_t i = n * shape->S; i < (n + 1) * shape->S; i++)
                sum += (rows->more ? rows->routes->weights[i] : 1) *
                       load(shape, rows->in, rows->routes->places[i] * H + h);
            if (rows->more)
                sum += load(shape, rows->more, n * H + h);
            store(shape, rows->out, n * H + h, sum);
        }
}

static void combine(const void *context, const struct expert_shape *shape, const void *ys,
                    const struct expert_routes *routes, const void *residual, void *y)
{
    struct rows rows = {shape, routes, ys, residual, y, NULL, NULL};
    cpu_parallel(context, combine_rows, &rows, shape->N, 1);
}

static void dispatch_backward(const void *context, const struct expert_shape *shape,
                              const void *dxs, const struct expert_routes *routes, void *dx)
{
    struct rows rows = {shape, routes, dxs, NULL, dx, NULL, NULL};
    cpu_parallel(context, combine_rows, &rows, shape->N, 1);
}

/* Of one copy of a row. */
static void spread_row(const struct rows *rows, uint64_t n, uint64_t i)
{
    const struct expert_shape *shape = rows->shape;
    uint64_t H = shape->H, place = rows->routes->places[i];
    float sum = 0;
    for (uint64_t h = 0; h < H; h++) {
        float dy = load(shape, rows->in, n * H + h);
        sum += dy * load(shape, rows->more, place * H + h);
        if (rows->out)
            store(shape, rows->out, place * H + h, rows->routes->weights[i] * dy);
    }
    if (rows->numbers)
        rows->numbers[i] = sum;
}

static void spread_rows(const void *arguments, uint64_t first, uint64_t end)
{
    const struct rows *rows = arguments;
    for (uint64_t n = first; n < end; n++)
        for (uint64_t i = n * rows->shape->S; i < (n + 1) * rows->shape->S; i++)
            spread_row(rows, n, i);
}

static void combine_backward(const void *context, const struct expert_shape *shape, const void *dy,
                             const void *ys, const struct expert_routes *routes, void *dys,
                             float *dweights)
{
    struct rows rows = {shape, routes, dy, ys, dys, dweights, NULL};
    cpu_parallel(context, spread_rows, &rows, shape->N, 1);
}

static void clear(const void *context, uint64_t bytes, void *memory)
{
    (void)context;
    memset(memory, 0, bytes);
}

const struct expert_kernels cpu_expert_kernels = {
    .route = route,
    .dispatch = dispatch,
    .combine = combine,
    .combine_backward = combine_backward,
    .dispatch_backward = dispatch_backward,
    .sum_routes = sum_routes,
    .balance_loss = balance_loss,
    .route_backward = route_backward,
    .clear = clear,
};
