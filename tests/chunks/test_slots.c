#include "chunks/dry_run.h"
#include "chunks/slots.h"
#include "tests/chunks/random_iteration.h"

/* A layout that has only sizes. */
static struct layout *layout_of(const uint64_t *bytes, uint32_t count)
{
    struct layout *layout = g_new0(struct layout, 1);
    layout->chunk_count = count;
    layout->chunks = g_new0(struct chunk, count);
    for (uint32_t c = 0; c < count; c++)
        layout->chunks[c].slot_bytes = layout->chunks[c].copy_bytes = bytes[c] * LAYOUT_ALIGNMENT;
    return layout;
}

static void check_slots(const uint64_t *bytes, const uint64_t *expected, uint32_t count)
{
    struct layout *layout = layout_of(bytes, count), *slots = slots_round(layout);
    for (uint32_t c = 0; c < count; c++) {
        g_assert_cmpuint(slots->chunks[c].slot_bytes, ==, expected[c] * LAYOUT_ALIGNMENT);
        g_assert_cmpuint(slots->chunks[c].copy_bytes, ==, bytes[c] * LAYOUT_ALIGNMENT);
    }
    layout_free(slots);
    layout_free(layout);
}

/* In units of the alignment. */
static void test_examples(void)
{
    static const uint64_t same[] = {7000, 7000, 7000};
    check_slots(same, same, 3);
    /* Biases make matrices of a transformer a little larger than 4, 3, 1 parts. */
    static const uint64_t matrices[] = {40000, 40000, 30000, 10000, 80000, 80004, 60001};
    static const uint64_t in_slots[] = {40040, 40040, 30030, 10010, 80080, 80080, 60060};
    check_slots(matrices, in_slots, 7);
    /* Small ones have a grain of their own; what nothing divides stays as it is, nearly. */
    static const uint64_t apart[] = {70000, 70000, 50, 50, 100};
    check_slots(apart, apart, 5);
    static const uint64_t one[] = {1};
    check_slots(one, one, 1);
}

static uint64_t jitter(GRand *random, uint64_t bytes)
{
    return bytes + (uint64_t)g_rand_int_range(random, 0, 3) * (bytes / 2000);
}

/* A slot is never smaller than its chunk, and little is wasted, for large and for small chunks. */
static void test_waste(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 200; i++) {
        uint64_t bytes[40] = {0}, all[2] = {0}, wasted[2] = {0};
        uint32_t count = (uint32_t)g_rand_int_range(random, 1, 40);
        for (uint32_t c = 0; c < count; c++)
            bytes[c] = g_rand_boolean(random)
                           ? jitter(random, (uint64_t)g_rand_int_range(random, 1, 9) * 10000)
                           : (uint64_t)g_rand_int_range(random, 1, 5000);
        struct layout *layout = layout_of(bytes, count), *slots = slots_round(layout);
        for (uint32_t c = 0; c < count; c++) {
            bool small = layout->chunks[c].slot_bytes < slots_small(layout);
            uint64_t slot = slots->chunks[c].slot_bytes;
            g_assert_cmpuint(slot, >=, layout->chunks[c].slot_bytes);
            g_assert_cmpuint(slot % LAYOUT_ALIGNMENT, ==, 0);
            all[small] += layout->chunks[c].slot_bytes;
            wasted[small] += slot - layout->chunks[c].slot_bytes;
        }
        g_assert_cmpuint(wasted[0], <=, all[0] / 256);
        g_assert_cmpuint(wasted[1], <=, all[1] / 256);
        layout_free(slots);
        layout_free(layout);
    }
}

/* Tensors of a few approximate sizes, as in a transformer. */
static struct trace *regular_iteration(GRand *random)
{
    struct trace *trace = random_iteration(random);
    while (trace->state_block) { /* its accesses depend on the sizes */
        trace_free(trace);
        trace = random_iteration(random);
    }
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        trace->tensors[t].elements = jitter(random,
                                            (uint64_t)g_rand_int_range(random, 1, 5) * 100000);
    return trace;
}

static bool has_slots(const struct plan *plan)
{
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        if (plan->layout->chunks[c].slot_bytes > plan->layout->chunks[c].copy_bytes)
            return true;
    return false;
}

static struct plan *make_plan(const struct trace *trace, const struct layout *layout,
                              uint64_t device_budget, GRand *random)
{
    const struct dry_run_options options = {.device_budget = device_budget,
                                            .host_budget = UINT64_MAX,
                                            .policy = random_policy(random),
                                            .look_ahead = (uint32_t)g_rand_int_range(random, 0, 4)};
    GError *error = NULL;
    struct plan *plan = dry_run(trace, layout, &options, &error);
    g_assert_no_error(error);
    g_assert_true(plan_check(plan, trace, &error));
    g_assert_no_error(error);
    return plan;
}

/* Plans between the least budget and one for everything are sound, and some use rounded slots. The
 * least budget needs no more than without them, and a device that holds everything wastes nothing.
 */
static void test_plans(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int with_slots = 0;
    for (int i = 0; i < 200; i++) {
        struct trace *trace = regular_iteration(random);
        uint64_t chunk_bytes = (uint64_t)g_rand_int_range(random, 1, 40) << 16;
        struct layout *layout = layout_pack_uniform(trace, chunk_bytes, NULL);
        struct non_model *non_model = non_model_place(trace);
        struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
        uint64_t least = accesses_least_arena_bytes(accesses, layout, NULL);
        uint64_t all = MAX(least, layout_slot_bytes(layout) + non_model->peak_bytes);
        uint64_t between = least + (uint64_t)(g_rand_double(random) * (double)(all - least));
        struct plan *plan = make_plan(trace, layout, least, random);
        plan_free(plan);
        plan = make_plan(trace, layout, between, random);
        with_slots += has_slots(plan);
        plan_free(plan);
        plan = make_plan(trace, layout, all, random);
        g_assert_false(has_slots(plan));
        plan_free(plan);
        accesses_free(accesses);
        non_model_free(non_model);
        layout_free(layout);
        trace_free(trace);
    }
    g_assert_cmpint(with_slots, >, 0);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/slots/examples", test_examples);
    g_test_add_func("/slots/waste", test_waste);
    g_test_add_func("/slots/plans", test_plans);
    return g_test_run();
}
