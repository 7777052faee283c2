/* From a trace to a plan and to the mover: step by step as chunks/dry_run.h lists it, and by
 * dry_run at once. */
#include "chunks/dry_run.h"

#include "chunks/place.h"
#include "tests/chunks/adversary.h"
#include "tests/chunks/check_figures.h"
#include "tests/chunks/random_iteration.h"

#include <string.h>

static void check_actions(const struct plan *a, const struct plan *b)
{
    g_assert_cmpuint(a->action_count, ==, b->action_count);
    for (uint32_t i = 0; i < a->action_count; i++) {
        g_assert_cmpuint(a->actions[i].chunk, ==, b->actions[i].chunk);
        g_assert_cmpuint(a->actions[i].kind, ==, b->actions[i].kind);
        g_assert_cmpuint(a->actions[i].address, ==, b->actions[i].address);
    }
}

/* The mover counts what the plan predicts. */
static void execute(const struct plan *plan, const struct accesses *accesses,
                    const struct trace *trace, GRand *random)
{
    struct adversary *mover = adversary_new(plan, accesses, trace, random);
    struct residency *residency = residency_new(plan, accesses, trace, &adversary_ops, mover);
    residency_load(residency);
    adversary_take_figures(mover);
    for (uint32_t m = 0; m < plan->moment_count; m++)
        residency_step(residency, m);
    struct plan_figures figures = adversary_take_figures(mover);
    check_figures(&figures, &plan->predicted);
    g_assert_cmpuint(adversary_finish(mover), ==, 0);
    residency_free(residency);
    adversary_free(mover);
}

static void test_every_step(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 50; i++) {
        struct trace *trace = random_iteration(random);
        struct layout *layout = layout_pack_uniform(trace, 2048, NULL);
        struct non_model *non_model = non_model_place(trace);
        struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
        struct homes *homes = homes_choose(trace, layout, accesses, UINT64_MAX, UINT64_MAX, NULL);
        uint64_t budget = accesses_least_arena_bytes(accesses, layout, NULL);
        const struct plan_inputs inputs = {.trace = trace,
                                           .layout = layout,
                                           .accesses = accesses,
                                           .homes = homes,
                                           .device_budget = budget,
                                           .host_budget = UINT64_MAX};
        const struct decide_options policy = {.policy = &policy_opt, .look_ahead = 2};
        struct decisions *decisions = decide(&inputs, &policy);
        struct addresses *addresses = place_decisions(decisions, &inputs, PLACE_QUICKLY);
        struct plan *plan = plan_make(&inputs, addresses);
        g_assert_true(plan_check(plan, trace, NULL));
        execute(plan, accesses, trace, random);

        const struct dry_run_options options = {.device_budget = budget,
                                                .host_budget = UINT64_MAX,
                                                .policy = &policy_opt,
                                                .look_ahead = 2};
        struct plan *at_once = dry_run_accesses(trace, layout, NULL, accesses, &options, NULL);
        check_actions(plan, at_once);
        check_figures(&plan->predicted, &at_once->predicted);
        plan_free(at_once);
        plan_free(plan);
        decisions_free(decisions);
        homes_free(homes);
        accesses_free(accesses);
        non_model_free(non_model);
        layout_free(layout);
        trace_free(trace);
    }
    g_rand_free(random);
}

/* If everything fits, nothing moves, and the arena is as large as what it holds. */
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

/* The message names the memory, the moment and the bytes. The budget that it says would fit does
 * fit, and one byte less does not. */
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

/* Reads "N bytes would fit" and, if it is there, ", with M bytes of device memory". Returns whether
 * N is the least of host memory. */
static bool take_advice(struct dry_run_options *options, const struct trace *trace,
                        const char *message)
{
    const char *what = strrchr(message, ';'), *beside = strstr(message, ", with ");
    bool host = g_str_has_prefix(message, "host memory");
    g_assert_nonnull(what);
    uint64_t first = g_ascii_strtoull(what + 2, NULL, 10), device = first;
    if (beside)
        device = g_ascii_strtoull(beside + strlen(", with "), NULL, 10);
    if (host)
        options->host_budget = first;
    if (!host || beside)
        options->device_budget = device - trace->library_bytes;
    return host && !beside;
}

/* Whatever lacks, what the message says does fit, with the other budget as it was, and one byte
 * less of host memory does not. */
static void test_host_does_not_fit(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    int refused = 0;
    for (int i = 0; i < 500; i++) {
        struct trace *trace = i % 2 ? random_iteration(random) : wild_iteration(random);
        struct layout *layout = layout_pack_uniform(trace, 2048, NULL);
        uint64_t all = layout_slot_bytes(layout);
        trace->library_bytes = i % 3 ? 0 : 1000;
        struct dry_run_options options = {
            .device_budget = (uint64_t)(g_rand_double(random) * 1.5 * (double)all),
            .host_budget = (uint64_t)(g_rand_double(random) * (double)all),
            .policy = random_policy(random)};
        g_autoptr(GError) error = NULL;
        struct plan *plan = dry_run(trace, layout, &options, &error);
        if (!plan) {
            bool least = take_advice(&options, trace, error->message);
            g_clear_error(&error);
            plan = dry_run(trace, layout, &options, &error);
            g_assert_no_error(error);
            options.host_budget -= least;
            g_assert_true(!least || !dry_run(trace, layout, &options, NULL));
            refused += least;
        }
        plan_free(plan);
        layout_free(layout);
        trace_free(trace);
    }
    g_assert_cmpint(refused, >, 0);
    g_rand_free(random);
}

/* If the host is too small for everything, some chunks live on the device, and the host pool stays
 * within its budget. */
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

/* Returns whether the plan copies the chunk. */
static bool is_copied(const struct plan *plan, chunk_id chunk)
{
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->actions[i].chunk == chunk &&
            (plan->actions[i].kind == PLAN_FETCH || plan->actions[i].kind == PLAN_FLUSH ||
             plan->actions[i].kind == PLAN_WRITE_BACK))
            return true;
    return false;
}

/* Returns the bytes of host slots, and counts the chunks that are neither on the host nor on the
 * device when an iteration begins. */
static uint64_t slot_bytes(const struct plan *plan, int *transient)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        const struct chunk *chunk = &plan->layout->chunks[c];
        bytes += plan->host_address[c] != NO_ADDRESS ? chunk->copy_bytes : 0;
        if (!plan_is_transient(plan, c))
            continue;
        g_assert_true(chunk->list == TRACE_GRAD || chunk->list == TRACE_ACTIVATION);
        g_assert_false(is_copied(plan, c));
        ++*transient;
    }
    return bytes;
}

/* Gradients and activations that are never copied take no host memory. A plan whose parameters
 * would be nowhere is refused. */
static void test_transient(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    int transient = 0;
    for (int i = 0; i < 100; i++) {
        struct trace *trace = random_iteration(random);
        struct layout *layout = layout_pack_uniform(trace, 2048, NULL);
        struct dry_run_options options = {
            .device_budget = UINT64_C(1) << 40, .host_budget = UINT64_MAX, .policy = &policy_opt};
        struct plan *plan = dry_run(trace, layout, &options, NULL);
        g_assert_cmpuint(slot_bytes(plan, &transient), ==, plan->staging_address);
        g_assert_true(plan_check(plan, trace, NULL));
        plan->host_address[0] = plan->initial_address[0] = NO_ADDRESS;
        g_assert_cmpint(layout->chunks[0].list, ==, TRACE_PARAM);
        g_assert_false(plan_check(plan, trace, NULL));
        plan_free(plan);
        layout_free(layout);
        trace_free(trace);
    }
    g_assert_cmpint(transient, >, 0);
    g_rand_free(random);
}

/* The same inputs give the same plan, addresses included. */
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
    check_actions(first, second);
    plan_free(first);
    plan_free(second);
    layout_free(layout);
    trace_free(trace);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/pipeline/every-step", test_every_step);
    g_test_add_func("/dry-run/resident", test_resident);
    g_test_add_func("/dry-run/does-not-fit", test_does_not_fit);
    g_test_add_func("/dry-run/host-does-not-fit", test_host_does_not_fit);
    g_test_add_func("/dry-run/host-budget", test_host_budget);
    g_test_add_func("/dry-run/transient", test_transient);
    g_test_add_func("/dry-run/deterministic", test_deterministic);
    return g_test_run();
}
