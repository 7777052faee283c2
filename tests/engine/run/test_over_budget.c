/* An arena smaller than what its operators claim: the step fails at the moment, and says so. */
#include "chunks/dry_run.h"
#include "engine/engine.h"
#include "engine/usage.h"

#include <string.h>

static const struct model_config config = {.name = "over",
                                           .layers = 2,
                                           .width = 16,
                                           .heads = 2,
                                           .inner = 64,
                                           .positions = 8,
                                           .vocabulary = 32,
                                           .tied = true,
                                           .norm_epsilon = 1e-5,
                                           .initializer_range = 0.02};

static void test_over_budget(void)
{
    const struct model_job job = {.choices = {.batch = 2, .micro_batches = 1}, .sequence = 8};
    GError *error = NULL;
    struct model_iteration *iteration = model_iteration_new(&config, &job, &error);
    struct layout *layout = layout_pack_uniform(iteration->trace, 4096, &error);
    const struct dry_run_options options = {.device_budget = 1 << 24, .policy = &policy_opt};
    struct plan *plan = dry_run(iteration->trace, layout, &options, &error);
    g_assert_no_error(error);

    /* No plan like this passes plan_check: what the engine counts for itself is what refuses. */
    plan->arena_bytes -= 256;
    struct non_model *places = non_model_place(iteration->trace);
    const struct engine_options with = {.iteration = iteration,
                                        .places = places,
                                        .plan = plan,
                                        .device = &device_cpu,
                                        .threads = 1};
    struct engine *engine = engine_open(&with, &error);
    g_assert_no_error(error);
    const struct weights_store store = engine_store(engine);
    g_assert_true(weights_initialise(&config, iteration->trace, 1, &store, &error));
    engine_start(engine);
    const uint32_t tokens[2 * 2 * 8] = {1, 2, 3};
    const struct engine_step step = {.tokens = tokens,
                                     .targets = 16,
                                     .learning_rate = 1e-3,
                                     .beta1 = 0.9,
                                     .beta2 = 0.9,
                                     .epsilon = 1e-8};
    struct engine_result result;
    g_assert_false(engine_step(engine, &step, &result, &error));
    g_assert_error(error, USAGE_ERROR, USAGE_ERROR_BUDGET);
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, "backward"));
    g_clear_error(&error);
    engine_close(engine);
    plan_free(plan);
    non_model_free(places);
    layout_free(layout);
    model_iteration_free(iteration);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/over-budget/step", test_over_budget);
    return g_test_run();
}
