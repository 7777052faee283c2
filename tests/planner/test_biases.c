/* Where one way of the link is busy and the other one idle, plans keep chunks that would cross the
 * busy one, however often others then cross the idle one. */
#include "models/synth.h"
#include "planner/answers/verify.h"
#include "planner/search/search.h"

#include <string.h>

enum { LAYERS = 60, WIDTH = 2880 };

/* So many micro-batches that a search has time for few trials. */
static struct trace *deep_model(const struct platform *platform)
{
    uint8_t all[LAYERS];
    memset(all, 1, sizeof all);
    const struct model_config config = {.name = "deep",
                                        .layers = LAYERS,
                                        .width = WIDTH,
                                        .heads = 45,
                                        .inner = 4 * WIDTH,
                                        .positions = 4096,
                                        .vocabulary = 1099};
    const struct model_job job = {.choices = {.batch = 12, .micro_batches = 4, .recompute = all},
                                  .sequence = 4096,
                                  .precision = MODEL_BF16};
    return model_synthesise(&config, &job, platform, NULL);
}

/* The way to the host carries the gradients of what the host updates. If parameters come four times
 * as often, which the other way has time for, more states find room on the device. A plan whose
 * parameters stay takes a seventh longer. */
static void test_busy_way(void)
{
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/h100-80gb.json", NULL);
    g_assert_nonnull(platform);
    struct costs *costs = costs_new(platform, "h2d=2.06GB/s,d2h=0.534GB/s", NULL);
    struct trace *trace = deep_model(platform);
    const struct search_options options = {.device_budget = 96000000000,
                                           .host_budget = 107000000000,
                                           .costs = costs,
                                           .platform = platform,
                                           .seed = 1,
                                           .alone = true};
    g_autoptr(GError) error = NULL;
    struct search_result *result = search_plan(trace, &options, &error);
    g_assert_no_error(error);
    g_test_message("%.2f s", result->plan->predicted.iteration_seconds);
    g_assert_cmpfloat(result->plan->predicted.iteration_seconds, <, 37);
    verify_plan(result->plan, result->trace, costs, NULL, &error);
    g_assert_no_error(error);
    search_result_free(result);
    trace_free(trace);
    costs_free(costs);
    platform_free(platform);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/biases/busy-way", test_busy_way);
    return g_test_run();
}
