#include "chunks/pipeline.h"
#include "tests/chunks/random_iteration.h"

/* Everything fits: nothing moves, and the arena is what it holds. */
static void test_resident(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 100; i++) {
        struct trace *trace = random_iteration(random);
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            trace->operators[m].place = TRACE_ON_DEVICE;
            trace->operators[m].h2d_bytes = trace->operators[m].d2h_bytes = 0;
        }
        struct layout *layout = layout_pack_uniform(trace, 4096, NULL);
        struct dry_run_options options = {.device_budget = UINT64_C(1) << 40,
                                          .host_budget = UINT64_MAX,
                                          .policy = random_policy(random)};
        struct plan *plan = dry_run(trace, layout, &options, NULL);
        g_assert_cmpuint(plan->predicted.h2d_bytes, ==, 0);
        g_assert_cmpuint(plan->predicted.d2h_bytes, ==, 0);
        g_assert_cmpuint(plan->predicted.moves, ==, 0);
        struct non_model *non_model = non_model_place(trace);
        g_assert_cmpuint(plan->arena_bytes, <=, layout_slot_bytes(layout) + non_model->peak_bytes);
        non_model_free(non_model);
        plan_free(plan);
        layout_free(layout);
        trace_free(trace);
    }
    g_rand_free(random);
}

/* The message names memory, moment and bytes; what it says would fit does, and a byte less does
 * not. */
static void test_does_not_fit(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 100; i++) {
        struct trace *trace = random_iteration(random);
        struct layout *layout = layout_pack_uniform(trace, 2048, NULL);
        struct dry_run_options options = {
            .device_budget = 1, .host_budget = UINT64_MAX, .policy = random_policy(random)};
        GError *error = NULL;
        g_assert_null(dry_run(trace, layout, &options, &error));
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
        const char *least = strrchr(error->message, ';');
        g_assert_nonnull(least);
        options.device_budget = g_ascii_strtoull(least + 2, NULL, 10);
        g_clear_error(&error);
        struct plan *plan = dry_run(trace, layout, &options, &error);
        g_assert_no_error(error);
        plan_free(plan);
        options.device_budget--;
        g_assert_null(dry_run(trace, layout, &options, &error));
        g_clear_error(&error);
        layout_free(layout);
        trace_free(trace);
    }
    g_rand_free(random);
}

/* A host too small for everything: some chunks live on the device, and the pool stays in bounds. */
static void test_host_budget(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    int homed = 0;
    for (int i = 0; i < 100; i++) {
        struct trace *trace = random_iteration(random);
        struct layout *layout = layout_pack_uniform(trace, 2048, NULL);
        struct dry_run_options options = {.device_budget = UINT64_C(1) << 40,
                                          .host_budget = layout_slot_bytes(layout) / 2,
                                          .policy = &policy_opt};
        struct plan *plan = dry_run(trace, layout, &options, NULL);
        for (uint32_t c = 0; plan && c < layout->chunk_count; c++)
            homed += plan->host_address[c] == NO_ADDRESS;
        if (plan)
            g_assert_cmpuint(plan->predicted.peak_host_bytes, <=, options.host_budget);
        plan_free(plan);
        layout_free(layout);
        trace_free(trace);
    }
    g_assert_cmpint(homed, >, 0);
    g_rand_free(random);
}

/* The same question has the same answer, to the address. */
static void test_deterministic(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    struct trace *trace = random_iteration(random);
    struct layout *layout = layout_pack_uniform(trace, 2048, NULL);
    struct dry_run_options options = {.device_budget = UINT64_C(1) << 20,
                                      .host_budget = UINT64_MAX,
                                      .policy = &policy_lru,
                                      .look_ahead = 3};
    struct plan *first = dry_run(trace, layout, &options, NULL);
    struct plan *second = dry_run(trace, layout, &options, NULL);
    g_assert_cmpuint(first->action_count, ==, second->action_count);
    for (uint32_t i = 0; i < first->action_count; i++) {
        g_assert_cmpuint(first->actions[i].chunk, ==, second->actions[i].chunk);
        g_assert_cmpuint(first->actions[i].kind, ==, second->actions[i].kind);
        g_assert_cmpuint(first->actions[i].address, ==, second->actions[i].address);
    }
    plan_free(first);
    plan_free(second);
    layout_free(layout);
    trace_free(trace);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/dry-run/resident", test_resident);
    g_test_add_func("/dry-run/does-not-fit", test_does_not_fit);
    g_test_add_func("/dry-run/host-budget", test_host_budget);
    g_test_add_func("/dry-run/deterministic", test_deterministic);
    return g_test_run();
}
