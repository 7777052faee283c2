/* What is counted of the arena: exact at every moment, and refused where it does not fit. */
#include "engine/activations.h"
#include "engine/usage.h"

#include <string.h>

static const struct model_config config = {
    .name = "usage",
    .layers = 2,
    .width = 16,
    .heads = 2,
    .inner = 64,
    .positions = 8,
    .vocabulary = 32,
    .tied = true,
    .attention_dropout = 0.1,
    .residual_dropout = 0.1,
    .norm_epsilon = 1e-5,
    .initializer_range = 0.02,
};

static void test_peaks(void)
{
    struct usage *usage = usage_new(3, 1000);
    usage_occupy(usage, 0, 0, 100);
    usage_occupy(usage, 1, 300, 200);
    g_assert_true(usage_start(usage, 0, "a", 400, 350, NULL));
    struct usage_peaks peaks = usage_peaks(usage);
    g_assert_cmpuint(peaks.bytes, ==, 500 + 400);
    g_assert_cmpuint(peaks.live_bytes, ==, 300 + 350);
    usage_occupy(usage, 1, 100, 200); /* moves down */
    usage_occupy(usage, 2, 300, 500);
    usage_leave(usage, 2); /* gone before an operator starts: no peak */
    g_assert_true(usage_start(usage, 1, "b", 600, 600, NULL));
    peaks = usage_peaks(usage);
    g_assert_cmpuint(peaks.bytes, ==, 900);
    g_assert_cmpuint(peaks.live_bytes, ==, 900);
    usage_reset_peaks(usage);
    usage_leave(usage, 1);
    g_assert_true(usage_start(usage, 2, "c", 0, 0, NULL));
    peaks = usage_peaks(usage);
    g_assert_cmpuint(peaks.bytes, ==, 100);
    g_assert_cmpuint(peaks.live_bytes, ==, 100);
    usage_free(usage);
}

static void test_over_budget(void)
{
    struct usage *usage = usage_new(1, 1000);
    GError *error = NULL;
    usage_occupy(usage, 0, 0, 700);
    g_assert_true(usage_start(usage, 6, "forward x", 300, 300, NULL));
    g_assert_false(usage_start(usage, 7, "backward x", 301, 301, &error));
    g_assert_error(error, USAGE_ERROR, USAGE_ERROR_BUDGET);
    g_assert_nonnull(strstr(error->message, "moment 7"));
    g_assert_nonnull(strstr(error->message, "backward x"));
    g_assert_nonnull(strstr(error->message, "301 bytes"));
    g_assert_nonnull(strstr(error->message, "only 300 bytes are free"));
    g_clear_error(&error);
    usage_free(usage);
}

/* Claimed and released by the operators' own names of their buffers, an iteration takes in every
 * moment just what the trace said it would; nothing is left at its end, nor after a reset. */
static void test_activations(gconstpointer data)
{
    const struct model_job *job = data;
    GError *error = NULL;
    struct model_iteration *iteration = model_iteration_new(&config, job, &error);
    g_assert_no_error(error);
    struct non_model *places = non_model_place(iteration->trace);
    struct activations *activations = activations_new(iteration, places, places->peak_bytes);
    for (int pass = 0; pass < 3; pass++) {
        uint32_t end = pass == 1 ? iteration->forward_end : iteration->trace->operator_count;
        for (uint32_t m = 0; m < end; m++) {
            activations_claim(activations, m);
            g_assert_cmpuint(activations_live_bytes(activations), ==,
                             iteration->trace->non_model_bytes[m]);
            g_assert_cmpuint(activations_extent(activations), ==, places->extent[m]);
            activations_release(activations, m);
        }
        if (pass == 1)
            activations_reset(activations);
        g_assert_cmpuint(activations_live_bytes(activations), ==, 0);
        g_assert_cmpuint(activations_extent(activations), ==, 0);
    }
    activations_free(activations);
    non_model_free(places);
    model_iteration_free(iteration);
}

int main(int argc, char **argv)
{
    static uint8_t second[] = {0, 1}, both[] = {1, 1};
    static const struct model_job jobs[] = {
        {.choices = {.batch = 2, .micro_batches = 1}, .sequence = 8, .precision = MODEL_FP32},
        {.choices = {.batch = 1, .micro_batches = 2}, .sequence = 5, .precision = MODEL_BF16},
        {.choices = {.batch = 2, .micro_batches = 1, .recompute = both},
         .sequence = 8,
         .precision = MODEL_BF16},
        {.choices = {.batch = 2, .micro_batches = 2, .recompute = second, .host_embedding = true},
         .sequence = 8,
         .precision = MODEL_FP32},
    };
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/usage/peaks", test_peaks);
    g_test_add_func("/usage/over-budget", test_over_budget);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        g_autofree char *path = g_strdup_printf("/usage/activations/%zu", i);
        g_test_add_data_func(path, &jobs[i], test_activations);
    }
    return g_test_run();
}
