#include "engine/probe/probe_steps.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { LEAST_RUNS = 5, MOST_RUNS = 200 };
#define LEAST_SECONDS 0.1

double probe_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double probe_median(double *values, uint32_t count)
{
    g_assert(count > 0);
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double probe_seconds(probe_work *work, void *data)
{
    double taken[MOST_RUNS], begin;
    uint32_t runs = 0;
    work(data);
    begin = probe_now();
    do {
        double start = probe_now();
        work(data);
        taken[runs++] = probe_now() - start;
    } while (runs < LEAST_RUNS || (runs < MOST_RUNS && probe_now() - begin < LEAST_SECONDS));
    return probe_median(taken, runs);
}

void probe_add(struct platform_curve *curve, double amount, double seconds)
{
    g_assert(curve->count == 0 || curve->points[curve->count - 1].amount < amount);
    curve->points = g_renew(struct platform_point, curve->points, curve->count + 1);
    curve->points[curve->count++] = (struct platform_point){amount, seconds};
}

void probe_source(struct platform_curve *curve, char *source)
{
    g_free(curve->source);
    curve->source = source;
}

/* ---- a matrix product ---- */

static uint64_t matrix_bytes(enum model_precision precision, uint32_t rows, uint32_t columns)
{
    uint64_t element = precision == MODEL_BF16 ? sizeof(uint16_t) : sizeof(float);
    return ((uint64_t)rows * columns * element + 255) / 256 * 256;
}

uint64_t probe_product_bytes(enum model_precision precision, uint32_t rows, uint32_t inputs,
                             uint32_t outputs)
{
    return matrix_bytes(precision, rows, inputs) + matrix_bytes(precision, inputs, outputs) +
           matrix_bytes(precision, rows, outputs) + matrix_bytes(precision, 1, outputs);
}

/* x, the weight, the bias, y. */
void probe_product_init(struct probe_product *product, struct device *device,
                        enum model_precision precision, uint32_t rows, uint32_t inputs,
                        uint32_t outputs)
{
    *product = (struct probe_product){
        .device = device,
        .config = {.width = inputs, .heads = 1},
        .job = {.choices = {.batch = 1, .micro_batches = 1},
                .sequence = rows,
                .precision = precision},
        .op = {.kind = MODEL_LINEAR_FORWARD,
               .dropout_site = NO_INDEX,
               .expert = NO_INDEX,
               .inputs = inputs,
               .outputs = outputs},
    };
    uint64_t weight = matrix_bytes(precision, rows, inputs);
    uint64_t bias = weight + matrix_bytes(precision, inputs, outputs);
    product->operation = (struct operation){
        .op = &product->op,
        .name = "of the probe",
        .config = &product->config,
        .job = &product->job,
        .in = {0, NO_ADDRESS, NO_ADDRESS, NO_ADDRESS},
        .out = {bias + matrix_bytes(precision, 1, outputs), NO_ADDRESS},
        .workspace = NO_ADDRESS,
        .masked = NO_ADDRESS,
    };
    product->operation.tensor[0].address[TRACE_PARAM] = weight;
    product->operation.tensor[1].address[TRACE_PARAM] = bias;
}

static struct mover_after queue(const struct probe_product *product, uint32_t count)
{
    const struct mover_after none = {{0}};
    struct mover_after last = {{0}};
    struct device *device = product->device;
    for (uint32_t i = 0; i < count; i++)
        last.queue[MOVER_COMPUTE] = device->ops->compute(device, &product->operation, &none);
    return last;
}

static double seconds_of(const struct probe_product *product, uint32_t count)
{
    double start = probe_now();
    struct mover_after last = queue(product, count);
    product->device->ops->wait(product->device, &last);
    return (probe_now() - start) / count;
}

/* The first finds its algorithm; the second says how many make the shortest time worth measuring.
 */
double probe_product_measure(struct probe_product *product)
{
    enum { TRIES = 5, MOST = 1000 };
    const double worth = 5e-3;
    double taken[TRIES];
    seconds_of(product, 1);
    double wanted = worth / seconds_of(product, 1);
    uint32_t count = (uint32_t)CLAMP(wanted, 1, MOST);
    for (int i = 0; i < TRIES; i++)
        taken[i] = seconds_of(product, count);
    return product->seconds = probe_median(taken, TRIES);
}

void probe_product_queue(struct probe_product *product, double seconds)
{
    if (product->seconds == 0)
        probe_product_measure(product);
    queue(product, (uint32_t)ceil(seconds / product->seconds));
}
