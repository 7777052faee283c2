/* The kernels of mixtures of experts: where rows go, and the way there and back. A device without
 * them has NULL in their place.
 *
 * N rows of H columns, E experts, S of them for each row. A row's copies lie in buffers of N*S
 * rows, those of an expert one after the other, in the order of the rows. All sums are in fp32 and
 * in a fixed order, so that every kernel gives the same bits at any number of threads. */
#ifndef PSTAR_ENGINE_EXPERTS_H
#define PSTAR_ENGINE_EXPERTS_H

#include "models/iteration.h"

struct expert_shape {
    enum model_precision precision;
    uint32_t N, H, E, S;
    bool shared; /* a row's weights add up to 1 */
};

/* The parts of a buffer `routes` (model_routes_bytes). */
struct expert_routes {
    float *weights;    /* [N,S] */
    uint32_t *experts; /* [N,S] the greatest probability first; of equal ones, the first expert's */
    uint32_t *places;  /* [N,S] */
    uint32_t *first;   /* [E+1] */
};

static inline struct expert_routes expert_routes_of(void *routes, uint64_t rows, uint64_t each)
{
    float *weights = (float *)routes;
    uint32_t *experts = (uint32_t *)routes + rows * each;
    return (struct expert_routes){weights, experts, experts + rows * each,
                                  experts + 2 * rows * each};
}

/* The gradient of each probability of an expert in the loss of imbalance: its rows, [E], times a
 * factor. */
struct expert_balance {
    const float *rows;
    double factor;
};

struct expert_kernels {
    /* probabilities fp32 [N,E], the softmax of the logits, and the routes. */
    void (*route)(const void *context, const struct expert_shape *shape, const void *logits,
                  float *probabilities, const struct expert_routes *routes);
    /* xs[N*S,H]: the rows of x[N,H]. */
    void (*dispatch)(const void *context, const struct expert_shape *shape, const void *x,
                     const struct expert_routes *routes, void *xs);
    /* y = residual + the weighted sums of the rows of ys[N*S,H], rounded once. */
    void (*combine)(const void *context, const struct expert_shape *shape, const void *ys,
                    const struct expert_routes *routes, const void *residual, void *y);
    /* dys[N*S,H], the weighted rows of dy; and dweights[N,S]. Either may be NULL. */
    void (*combine_backward)(const void *context, const struct expert_shape *shape, const void *dy,
                             const void *ys, const struct expert_routes *routes, void *dys,
                             float *dweights);
    /* dx[N,H]: the sums of the rows of dxs[N*S,H]. */
    void (*dispatch_backward)(const void *context, const struct expert_shape *shape,
                              const void *dxs, const struct expert_routes *routes, void *dx);
    /* Sets balance[2,E] to the rows of each expert and to the sums of its probabilities, or adds
     * these to it. A layer's probabilities are summed in fp64. */
    void (*sum_routes)(const void *context, const struct expert_shape *shape,
                       const float *probabilities, const struct expert_routes *routes, bool add,
                       float *balance);
    /* Adds to the loss `factor` times the sum over E experts of balance[0][e] * balance[1][e]. */
    void (*balance_loss)(const void *context, uint32_t E, const float *balance, double factor,
                         double *loss);
    /* dlogits[N,E], to which the loss of imbalance contributes unless `balance` is NULL. */
    void (*route_backward)(const void *context, const struct expert_shape *shape,
                           const float *dweights, const float *probabilities,
                           const struct expert_routes *routes, const struct expert_balance *balance,
                           void *dlogits);
    /* Fills memory with zeros. */
    void (*clear)(const void *context, uint64_t bytes, void *memory);
};

extern const struct expert_kernels cpu_expert_kernels;

#endif
