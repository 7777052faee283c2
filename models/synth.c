#include "models/synth.h"

#include "models/matrix_product.h"
#include "models/operator_cost.h"
#include "models/retime.h"

#include <math.h>

static double host_seconds(const struct platform *platform, const struct trace *trace,
                           const struct model_operator *op, const struct trace_operator *traced)
{
    double elements = op->kind == MODEL_UPDATE
                          ? (double)trace_block_elements(trace, TRACE_EXP_AVG, op->t[0], op->block)
                          : 0;
    return retime_host_seconds(platform, elements, (double)traced->bytes);
}

/* One kernel updates; one copies or adds what processes exchange. */
static bool is_one_step(enum model_kind kind)
{
    return kind == MODEL_UPDATE || kind == MODEL_SEND || kind == MODEL_RECEIVE ||
           kind == MODEL_ADD || kind == MODEL_NEWEST || model_kind_reduces(kind);
}

/* In a framework, the steps around an operator pass over its bytes, too. */
static double framework_seconds(const struct platform_framework *framework,
                                const struct model_operator *op, double memory, double compute)
{
    double share = operator_is_attention(op->kind) ? framework->attention : framework->products;
    double passes = is_one_step((enum model_kind)op->kind) ? 1 : framework->passes;
    return passes * memory + compute / share;
}

/* Products read their operands while they compute. Steps that are not fused take additional time.
 */
static double device_seconds(const struct platform *platform,
                             const struct model_iteration *iteration,
                             const struct model_operator *op, const struct trace_operator *traced)
{
    const struct model_job *job = &iteration->job;
    double memory = platform_seconds(&platform->memory, (double)traced->bytes), compute = 0;
    if (operator_is_matrix_product(op->kind))
        compute = platform_seconds(&platform->compute[job->precision], (double)traced->flops) +
                  product_excess(platform, iteration, op);
    if (job->unfused)
        return memory + compute;
    if (platform->framework.source)
        return framework_seconds(&platform->framework, op, memory, compute);
    return fmax(memory, compute);
}

/* ---- kernels that the host launches one by one ---- */

static bool is_update(const struct model_iteration *iteration, uint32_t moment)
{
    return iteration->operators[moment].kind == MODEL_UPDATE;
}

/* Returns whether two operators belong to the same pass through a layer. */
static bool is_same_pass(const struct model_iteration *iteration, uint32_t a, uint32_t b)
{
    const struct model_operator *x = &iteration->operators[a], *y = &iteration->operators[b];
    return a == b || (x->layer >= 0 && x->layer == y->layer && x->micro_batch == y->micro_batch &&
                      model_operator_is_forward(x) == model_operator_is_forward(y));
}

/* Returns the time that the device waits for a kernel to be launched, on average over the pass
 * through the operator's layer. The host runs ahead within a pass, so only their sums matter. */
static double wait_of_kernel(const struct model_iteration *iteration, uint32_t moment,
                             const struct platform *platform)
{
    const struct trace *trace = iteration->trace;
    double device = 0, kernels = 0;
    uint32_t m = moment;
    while (m > 0 && (is_update(iteration, m - 1) || is_same_pass(iteration, m - 1, moment)))
        m--;
    for (; m < trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        if (is_update(iteration, m))
            continue;
        if (!is_same_pass(iteration, m, moment))
            break;
        device += device_seconds(platform, iteration, op, &trace->operators[m]);
        kernels += (double)operator_kernels(iteration->config, op);
    }
    double launches = platform_seconds(&platform->extra[PLATFORM_LAUNCH], kernels);
    return fmax(0, launches - device) / kernels;
}

static double launched_seconds(const struct model_iteration *iteration, uint32_t moment,
                               const struct platform *platform)
{
    const struct model_operator *op = &iteration->operators[moment];
    double seconds = device_seconds(platform, iteration, op, &iteration->trace->operators[moment]);
    if (!iteration->job.unfused || !platform->extra[PLATFORM_LAUNCH].count ||
        op->kind == MODEL_UPDATE)
        return seconds;
    return seconds + (double)operator_kernels(iteration->config, op) *
                         wait_of_kernel(iteration, moment, platform);
}

uint64_t model_operator_ns(const struct model_iteration *iteration, uint32_t moment,
                           const struct platform *platform)
{
    const struct model_operator *op = &iteration->operators[moment];
    const struct trace_operator *traced = &iteration->trace->operators[moment];
    double seconds = traced->place == TRACE_ON_HOST
                         ? host_seconds(platform, iteration->trace, op, traced)
                         : launched_seconds(iteration, moment, platform);
    uint64_t ns = trace_duration_ns(seconds, iteration->trace->operator_count);
    return MAX(ns, 1);
}

void model_estimate(struct model_iteration *iteration, const struct platform *platform)
{
    struct trace *trace = iteration->trace;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns = model_operator_ns(iteration, m, platform);
    trace->machine = g_strdup(platform->name);
    trace->estimated = true;
}

struct trace *model_synthesise(const struct model_config *config, const struct model_job *job,
                               const struct platform *platform, GError **error)
{
    struct model_iteration *iteration = model_iteration_new(config, job, error);
    if (!iteration)
        return NULL;
    if (platform)
        model_estimate(iteration, platform);
    struct trace *trace = g_steal_pointer(&iteration->trace);
    model_iteration_free(iteration);
    return trace;
}
