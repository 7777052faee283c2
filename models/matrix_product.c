#include "models/matrix_product.h"

#include <math.h>

#define KERNEL_SECONDS 5e-6

enum {
    PRODUCT_LOAD = 6, /* operations that take as long as loading an element of a tile's operands */
    PRODUCT_SPLITS = 4, /* at most so many parts of the inner dimension */
};

struct product_tile {
    uint32_t rows, outputs;
};

/* The largest is first. */
static const struct product_tile tiles[] = {{256, 128}, {128, 256}, {128, 128},
                                            {64, 128},  {128, 64},  {64, 64}};

/* Returns how long a tile's operations take with the loads beside them, 1 without loads. */
static double with_loads(const struct product_tile *tile)
{
    return 1 + PRODUCT_LOAD * (1.0 / tile->rows + 1.0 / tile->outputs);
}

static uint64_t pieces(uint64_t amount, uint64_t unit)
{
    return (amount + unit - 1) / unit;
}

/* Returns the operations that the device could do while it computes the product in these tiles. */
static double operations(const struct product_tile *tile, uint32_t splits, uint32_t multiprocessors,
                         const struct matrix_product *shape)
{
    double count =
        (double)(pieces(shape->rows, tile->rows) * pieces(shape->outputs, tile->outputs));
    double waves = ceil(count * splits / multiprocessors);
    double each = 2.0 * tile->rows * tile->outputs * (double)shape->inner / splits;
    return waves * multiprocessors * each * with_loads(tile) / with_loads(tiles);
}

static double nominal_seconds(const struct platform_curve *compute,
                              const struct matrix_product *shape)
{
    return platform_seconds(compute, 2.0 * (double)shape->rows * (double)shape->outputs *
                                         (double)shape->inner);
}

double product_seconds(const struct platform_curve *compute, uint32_t multiprocessors,
                       const struct matrix_product *shape)
{
    double least = INFINITY;
    for (size_t i = 0; i < G_N_ELEMENTS(tiles); i++)
        for (uint32_t splits = 1; splits <= PRODUCT_SPLITS; splits++) {
            double count = operations(&tiles[i], splits, multiprocessors, shape);
            double kernels = splits > 1 ? 2 : 1;
            least = fmin(least, platform_seconds(compute, count) + kernels * KERNEL_SECONDS);
        }
    return least;
}

/* Appends a product, unless nothing is to be computed. */
static void append(struct matrix_product *products, size_t *count, uint64_t rows, uint64_t outputs,
                   uint64_t inner)
{
    if (rows && outputs && inner)
        products[(*count)++] = (struct matrix_product){rows, outputs, inner};
}

static void append_backward(struct matrix_product *products, size_t *count,
                            const struct model_operator *op, uint64_t rows)
{
    if (op->out[0] != NO_INDEX)
        append(products, count, rows, op->inputs, op->outputs);
    if (!op->frozen[0])
        append(products, count, op->inputs, op->outputs, rows);
}

/* Sets the products of an operator, at most two, and returns how many these are. */
static size_t products_of(const struct model_iteration *iteration, const struct model_operator *op,
                          struct matrix_product products[2])
{
    const struct model_job *job = &iteration->job;
    uint64_t all = (uint64_t)job->choices.batch * job->sequence;
    uint64_t rows = op->expert == NO_INDEX ? all : op->routed;
    size_t count = 0;
    switch ((enum model_kind)op->kind) {
    case MODEL_LINEAR_FORWARD:
    case MODEL_GELU_FORWARD:
    case MODEL_GATED_FORWARD:
    case MODEL_RESIDUAL_FORWARD:
    case MODEL_ROUTE_FORWARD:
    case MODEL_CLASSIFIER_FORWARD:
        append(products, &count, rows, op->outputs, op->inputs);
        break;
    case MODEL_LINEAR_BACKWARD:
    case MODEL_GELU_BACKWARD:
    case MODEL_GATED_BACKWARD:
    case MODEL_RESIDUAL_BACKWARD:
    case MODEL_ROUTE_BACKWARD:
    case MODEL_CLASSIFIER_BACKWARD:
        append_backward(products, &count, op, rows);
        break;
    case MODEL_WEIGHT_BACKWARD:
        append(products, &count, op->inputs, op->outputs, rows);
        break;
    default:
        break;
    }
    return count;
}

double product_excess(const struct platform *platform, const struct model_iteration *iteration,
                      const struct model_operator *op)
{
    const struct platform_curve *compute = &platform->compute[iteration->job.precision];
    struct matrix_product products[2];
    double seconds = 0;
    if (!platform->multiprocessors.count)
        return 0;
    size_t count = products_of(iteration, op, products);
    for (size_t i = 0; i < count; i++)
        seconds += product_seconds(compute, platform->multiprocessors.count, &products[i]) -
                   nominal_seconds(compute, &products[i]);
    return seconds;
}
