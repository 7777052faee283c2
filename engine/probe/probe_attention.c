/* What attention reaches of the rate of matrix products, through a device's queue. */
#include "engine/probe/probe_steps.h"
#include "models/iteration.h"

enum { WIDTH = 1024, HEADS = 16 };
#define SLOW_SECONDS 0.02 /* a device that needs more for the first shape is spared the second */

static const struct attention_shape {
    uint32_t batch, sequence;
} shapes[] = {{1, 128}, {8, 1024}};

/* The seconds of forward and backward: by the rate of products, and in fact, without those of their
 * bytes. */
struct attention_seconds {
    double computing, taken;
};

static uint64_t place(const struct trace *trace, const uint32_t *buffers, size_t count,
                      uint64_t *addresses, uint64_t at)
{
    for (size_t i = 0; i < count; i++) {
        addresses[i] = buffers[i] == NO_INDEX ? NO_ADDRESS : at;
        at += buffers[i] == NO_INDEX ? 0 : trace->buffers[buffers[i]].bytes;
    }
    return at;
}

/* Measures the operator in the way of a product. Its operands lie one behind the other from the
 * arena's start. */
static double seconds_of(struct device *device, const struct model_iteration *iteration,
                         uint32_t moment)
{
    const struct model_operator *op = &iteration->operators[moment];
    struct probe_product probed = {.device = device,
                                   .operation = {.op = op,
                                                 .name = "attention of the probe",
                                                 .config = iteration->config,
                                                 .job = &iteration->job,
                                                 .workspace = NO_ADDRESS,
                                                 .masked = NO_ADDRESS,
                                                 .training = true}};
    uint64_t end = place(iteration->trace, op->in, G_N_ELEMENTS(op->in), probed.operation.in, 0);
    place(iteration->trace, op->out, G_N_ELEMENTS(op->out), probed.operation.out, end);
    return probe_product_measure(&probed);
}

static struct attention_seconds measure(struct device *device, const struct platform *platform,
                                        const struct attention_shape *shape)
{
    const struct model_config config = {.name = (char *)"attention",
                                        .layers = 1,
                                        .width = WIDTH,
                                        .heads = HEADS,
                                        .inner = 4 * WIDTH,
                                        .positions = shape->sequence,
                                        .vocabulary = 256,
                                        .tied = true};
    const struct model_job job = {.choices = {.batch = shape->batch, .micro_batches = 1},
                                  .sequence = shape->sequence,
                                  .precision = MODEL_BF16};
    GError *error = NULL;
    struct model_iteration *iteration = model_iteration_new(&config, &job, &error);
    struct attention_seconds sum = {0, 0};
    g_assert_no_error(error);
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++) {
        const struct trace_operator *traced = &iteration->trace->operators[m];
        uint32_t kind = iteration->operators[m].kind;
        if (kind != MODEL_ATTENTION_FORWARD && kind != MODEL_ATTENTION_BACKWARD)
            continue;
        sum.computing += platform_seconds(&platform->compute[MODEL_BF16], (double)traced->flops);
        sum.taken += seconds_of(device, iteration, m) -
                     platform_seconds(&platform->memory, (double)traced->bytes);
    }
    model_iteration_free(iteration);
    return sum;
}

void probe_attention(struct device *device, struct platform *platform)
{
    struct attention_seconds found = {0, 0};
    size_t i = 0;
    do
        found = measure(device, platform, &shapes[i]);
    while (++i < G_N_ELEMENTS(shapes) && found.taken < SLOW_SECONDS);
    double share = found.taken > found.computing ? found.computing / found.taken : 1;
    g_free(platform->framework.source);
    platform->framework = (struct platform_framework){
        .source = g_strdup_printf("pstar-run's own kernels: attention of %u x %u tokens, %d heads "
                                  "of %d columns, in bf16, beside matrix products",
                                  shapes[i - 1].batch, shapes[i - 1].sequence, HEADS,
                                  WIDTH / HEADS),
        .products = 1,
        .attention = share,
        .passes = 1};
}
