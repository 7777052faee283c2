/* With a delay, step t computes the gradient of the weights W(t - 1) and applies it to W(t). Here
 * this rule is followed without the delay's code: a plain engine with beta1 0, which leaves each
 * gradient, clipped, in the first moment, is filled with the weights before the last update, and
 * the test itself updates the newest. Losses, norms, weights and moments must be the same bits. */
#include "chunks/dry_run.h"
#include "engine/adamw.h"
#include "engine/engine.h"
#include "models/family.h"

#include <string.h>

enum {
    STEPS = 50,
    BATCH = 2,
    SEQUENCE = 8,
    ROWS = BATCH * SEQUENCE,
    MICRO_BATCHES = 2,
    VOCABULARY = 61
};

struct delay_job {
    enum model_precision precision;
    uint32_t micro_batches;
    bool tied, on_host;
    double clip;
};

static const struct model_config config_of_job = {
    .name = "delay",
    .layers = 2,
    .width = 16,
    .heads = 2,
    .inner = 32,
    .positions = 8,
    .vocabulary = VOCABULARY,
    .residual_dropout = 0.1,
    .norm_epsilon = 1e-5,
    .initializer_range = 0.2,
};

static const double rates = 0.01, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.1;

struct run {
    struct model_config config;
    struct model_iteration *iteration;
    struct non_model *places;
    struct plan *plan;
    struct engine *engine;
};

static void open_run(struct run *run, const struct delay_job *job, bool delay)
{
    GError *error = NULL;
    run->config = config_of_job;
    run->config.tied = job->tied;
    g_autofree uint8_t *every = model_every_tensor(&run->config);
    const struct model_job model_job = {.choices = {.batch = BATCH,
                                                    .micro_batches = job->micro_batches,
                                                    .host_update = job->on_host ? every : NULL},
                                        .sequence = SEQUENCE,
                                        .precision = job->precision,
                                        .delay = delay};
    run->iteration = model_iteration_new(&run->config, &model_job, &error);
    g_assert_no_error(error);
    const struct trace *trace = run->iteration->trace;
    struct layout *layout = layout_pack_uniform(trace, 4096, &error);
    const struct dry_run_options options = {
        .device_budget = 1 << 24, .host_budget = UINT64_MAX, .policy = &policy_opt};
    run->plan = dry_run(trace, layout, &options, &error);
    g_assert_no_error(error);
    layout_free(layout);
    run->places = non_model_place(trace);
    const struct engine_options opened = {.iteration = run->iteration,
                                          .places = run->places,
                                          .plan = run->plan,
                                          .device = &device_cpu,
                                          .threads = 1};
    run->engine = engine_open(&opened, &error);
    g_assert_no_error(error);
}

static void close_run(struct run *run)
{
    engine_close(run->engine);
    plan_free(run->plan);
    non_model_free(run->places);
    model_iteration_free(run->iteration);
}

static struct engine_result take_step(struct run *run, const struct delay_job *job, uint32_t step,
                                      double of_beta1)
{
    GError *error = NULL;
    struct engine_result result;
    uint32_t tokens[MICRO_BATCHES * 2 * ROWS];
    GRand *random = g_rand_new_with_seed(step % 5);
    for (size_t i = 0; i < G_N_ELEMENTS(tokens); i++)
        tokens[i] = (uint32_t)g_rand_int_range(random, 0, VOCABULARY);
    g_rand_free(random);
    const struct engine_step options = {.step = step,
                                        .tokens = tokens,
                                        .targets = (uint64_t)job->micro_batches * ROWS,
                                        .seed = 3,
                                        .learning_rate = rates,
                                        .beta1 = of_beta1,
                                        .beta2 = beta2,
                                        .epsilon = epsilon,
                                        .weight_decay = decay,
                                        .clip = job->clip};
    engine_step(run->engine, &options, &result, &error);
    g_assert_no_error(error);
    return result;
}

static void read_list(struct run *run, enum trace_list list, float **values)
{
    const struct weights_store store = engine_store(run->engine);
    engine_flush(run->engine);
    for (tensor_id t = 0; t < run->iteration->trace->tensor_count; t++)
        store.read(store.self, t, list, 0, run->iteration->trace->tensors[t].elements, values[t],
                   NULL);
}

static void fill(struct run *run, float *const *values)
{
    const struct trace *trace = run->iteration->trace;
    const struct weights_store store = engine_store(run->engine);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        store.write(store.self, t, weights_list(trace), 0, trace->tensors[t].elements, values[t],
                    NULL);
    engine_start(run->engine);
}

static float **values_of(const struct trace *trace)
{
    float **values = g_new0(float *, trace->tensor_count + 1);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        values[t] = g_new0(float, trace->tensors[t].elements);
    return values;
}

/* The rule's state: the newest weights, those before, and the moments of the newest. */
struct rule {
    float **weights, **before, **exp_avg, **exp_avg_sq, **gradients;
};

/* Computes one step by the rule, and returns what a plain step at the weights before says. */
static struct engine_result follow_rule(struct rule *rule, const struct delay_job *job,
                                        uint32_t step)
{
    struct run plain;
    open_run(&plain, job, false);
    const struct trace *trace = plain.iteration->trace;
    fill(&plain, rule->before);
    struct engine_result result = take_step(&plain, job, step, 0);
    read_list(&plain, TRACE_EXP_AVG, rule->gradients);
    const struct adamw_options options = {rates, beta1, beta2, epsilon, decay, 1};
    const struct adamw_step adamw = adamw_step_of(&options, step + 1);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        for (uint64_t i = 0; i < trace->tensors[t].elements; i++) {
            rule->before[t][i] = rule->weights[t][i];
            rule->weights[t][i] = adamw_element(&adamw, rule->weights[t][i], rule->gradients[t][i],
                                                &rule->exp_avg[t][i], &rule->exp_avg_sq[t][i]);
        }
    close_run(&plain);
    return result;
}

static void expect_list(struct run *run, enum trace_list list, float *const *expected)
{
    const struct trace *trace = run->iteration->trace;
    g_auto(GStrv) found = (char **)values_of(trace);
    read_list(run, list, (float **)found);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        g_assert_cmpmem(found[t], trace->tensors[t].elements * sizeof(float), expected[t],
                        trace->tensors[t].elements * sizeof(float));
}

static void test_rule(gconstpointer data)
{
    const struct delay_job *job = data;
    struct run run;
    GError *error = NULL;
    open_run(&run, job, true);
    const struct trace *trace = run.iteration->trace;
    const struct weights_store store = engine_store(run.engine);
    weights_initialise(&run.config, trace, 5, &store, &error);
    g_assert_no_error(error);
    struct rule rule = {values_of(trace), values_of(trace), values_of(trace), values_of(trace),
                        values_of(trace)};
    read_list(&run, weights_list(trace), rule.weights);
    read_list(&run, weights_list(trace), rule.before);
    engine_start(run.engine);
    for (uint32_t step = 0; step < STEPS; step++) {
        struct engine_result expected = follow_rule(&rule, job, step);
        struct engine_result result = take_step(&run, job, step, beta1);
        g_assert_true(result.loss == expected.loss);
        g_assert_true(result.gradient_norm == expected.gradient_norm);
        g_assert_cmpuint(result.version, ==, step > 0 ? step - 1 : 0);
        g_assert_true(job->clip == 0 || result.gradient_norm > job->clip);
    }
    expect_list(&run, weights_list(trace), rule.weights);
    expect_list(&run, TRACE_EXP_AVG, rule.exp_avg);
    expect_list(&run, TRACE_EXP_AVG_SQ, rule.exp_avg_sq);
    if (job->precision == MODEL_FP32)
        expect_list(&run, TRACE_PARAM, rule.before);
    close_run(&run);
    float **const all[] = {rule.weights, rule.before, rule.exp_avg, rule.exp_avg_sq,
                           rule.gradients};
    for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
        g_strfreev((char **)all[i]);
}

static const struct delay_job jobs[] = {
    {MODEL_FP32, 1, true, false, 0.05},  {MODEL_FP32, 2, false, true, 0},
    {MODEL_BF16, 1, false, false, 0.05}, {MODEL_BF16, 2, true, true, 0.05},
    {MODEL_BF16, 1, true, true, 0},
};

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        g_autofree char *path = g_strdup_printf("/delay/rule/%zu", i);
        g_test_add_data_func(path, &jobs[i], test_rule);
    }
    return g_test_run();
}
