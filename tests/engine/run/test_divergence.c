/* What is said of a step whose numbers are no numbers any more: the first operator that shows it.
 */
#include "engine/engine.h"
#include "tests/models/small_model.h"

#include <math.h>
#include <string.h>

static uint32_t tensor_named(const struct trace *trace, const char *name)
{
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        if (g_str_equal(trace->tensors[t].name, name))
            return t;
    g_assert_not_reached();
}

static void expect(const struct model_iteration *iteration, const double *losses,
                   const double *norms, const char *operator_name, const char *tensor)
{
    g_autofree char *where = divergence_describe(iteration, losses, norms);
    g_test_message("%s", where);
    g_assert_nonnull(strstr(where, operator_name));
    g_assert_nonnull(strstr(where, tensor));
}

/* Backward goes from the last layer to the first; losses come before it, micro-batch by
 * micro-batch. */
static void test_first(void)
{
    const struct model_config config = small_model(true, 0);
    const struct model_job job = small_job(MODEL_FP32, 2);
    struct model_iteration *iteration = new_iteration(&config, &job);
    const struct trace *trace = iteration->trace;
    g_autofree double *norms = g_new0(double, trace->tensor_count);
    double losses[2] = {4, 4};
    g_assert_null(divergence_describe(iteration, losses, norms));
    norms[tensor_named(trace, "h.0.attn.c_attn.weight")] = NAN;
    expect(iteration, losses, norms, "'backward h.0.attn.c_attn'", "'h.0.attn.c_attn.weight'");
    norms[tensor_named(trace, "h.2.mlp.c_fc.bias")] = INFINITY;
    expect(iteration, losses, norms, "'backward h.2.mlp.c_fc'",
           "'h.2.mlp.c_fc.bias' whose norm is inf");
    losses[1] = NAN;
    expect(iteration, losses, norms, "'forward loss'", "micro-batch 1");
    losses[0] = INFINITY;
    expect(iteration, losses, norms, "'forward loss'", "micro-batch 0 left inf");
    model_iteration_free(iteration);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/divergence/first", test_first);
    return g_test_run();
}
