/* A trace derived by placing updates equals the trace of a run that places them so. Its durations
 * come from the platform, or from the trace itself. */
#include "models/derive.h"
#include "models/synth.h"
#include "traces/choices.h"

#include <string.h>

static struct model_config config = {.name = (char *)"small",
                                     .layers = 2,
                                     .heads = 2,
                                     .width = 32,
                                     .inner = 128,
                                     .positions = 16,
                                     .vocabulary = 64,
                                     .tied = true,
                                     .norm_epsilon = 1e-5,
                                     .initializer_range = 0.02};

static struct platform *machine(void)
{
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    g_assert_nonnull(platform);
    return platform;
}

static struct model_job job_of(uint8_t *host_update, tensor_id *update_after)
{
    static uint8_t recompute[2] = {0, 1};
    return (struct model_job){.choices = {.layer_count = 2,
                                          .tensor_count = model_tensor_count(&config),
                                          .batch = 2,
                                          .micro_batches = 1,
                                          .recompute = recompute,
                                          .host_embedding = true,
                                          .host_update = host_update,
                                          .update_after = update_after},
                              .sequence = 16,
                              .precision = MODEL_BF16};
}

static struct trace *synthesise_job(const struct model_job *job, const struct platform *platform)
{
    GError *error = NULL;
    struct trace *trace = model_synthesise(&config, job, platform, &error);
    g_assert_no_error(error);
    return trace;
}

static struct trace *synthesise_after(uint8_t *host_update, tensor_id *update_after,
                                      const struct platform *platform)
{
    const struct model_job job = job_of(host_update, update_after);
    return synthesise_job(&job, platform);
}

/* The host begins with tensor `first`. */
static struct trace *synthesise_from(uint8_t *host_update, tensor_id first,
                                     const struct platform *platform)
{
    struct model_job job = job_of(host_update, NULL);
    job.choices.first_update = first;
    return synthesise_job(&job, platform);
}

static struct trace *synthesise(uint8_t *host_update, const struct platform *platform)
{
    return synthesise_after(host_update, NULL, platform);
}

static uint8_t *draw_places(GRand *random)
{
    uint8_t *places = model_every_tensor(&config);
    for (uint32_t t = 0; t < model_tensor_count(&config); t++)
        places[t] = (uint8_t)g_rand_int_range(random, 0, 2);
    return places;
}

static void assert_same(const struct trace *a, const struct trace *b)
{
    g_autofree char *left = trace_digest(a), *right = trace_digest(b);
    g_assert_cmpstr(left, ==, right);
    for (uint32_t m = 0; m < a->operator_count; m++)
        g_assert_cmpuint(a->operators[m].duration_ns, ==, b->operators[m].duration_ns);
}

/* Orders the host's updates first, and each side's by tensor. */
static void assert_in_order(const struct trace *trace)
{
    for (uint32_t m = trace->operator_count - trace->tensor_count + 1; m < trace->operator_count;
         m++) {
        const struct trace_operator *op = &trace->operators[m], *before = op - 1;
        if (before->place == op->place)
            g_assert_cmpuint(trace->accesses[before->first_access].tensor, <,
                             trace->accesses[op->first_access].tensor);
        else
            g_assert_cmpint(before->place, ==, TRACE_ON_HOST);
    }
}

/* From any places to any others, with a platform. */
static void test_as_synthesised(void)
{
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct platform *platform = machine();
    for (int i = 0; i < 50; i++) {
        g_autofree uint8_t *from = draw_places(random), *to = draw_places(random);
        struct trace *before = synthesise(from, platform), *expected = synthesise(to, platform);
        struct trace *placed = model_place_updates(before, to, platform, NULL);
        GError *error = NULL;
        trace_check(placed, "placed", &error);
        g_assert_no_error(error);
        assert_same(placed, expected);
        assert_in_order(placed);
        trace_free(before);
        trace_free(expected);
        trace_free(placed);
    }
    platform_free(platform);
    g_rand_free(random);
}

/* Returns the tensor of the first update on the host, or NO_INDEX. */
static tensor_id first_on_host(const struct trace *trace)
{
    const struct trace_operator *op =
        &trace->operators[trace->operator_count - trace->tensor_count];
    return op->place == TRACE_ON_HOST ? trace->accesses[op->first_access].tensor : NO_INDEX;
}

/* From any places and any order of the host's updates to any others: as a run with these choices,
 * which the trace tells. An order that the updates on the host do not show is that of the model. */
static void test_from_any_tensor(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct platform *platform = machine();
    gint32 tensors = (gint32)model_tensor_count(&config);
    int round = 0;
    for (int i = 0; i < 50; i++) {
        g_autofree uint8_t *from = draw_places(random), *to = draw_places(random);
        tensor_id began = (tensor_id)g_rand_int_range(random, 0, tensors);
        tensor_id first = (tensor_id)g_rand_int_range(random, 0, tensors);
        struct trace *before = synthesise_from(from, began, platform);
        struct trace *expected = synthesise_from(to, first, platform);
        struct trace *placed = model_place_updates_from(before, to, first, platform, NULL);
        struct run_choices *choices = run_choices_of(placed);
        struct trace *chosen = model_place_chosen(before, choices, platform, NULL);
        assert_same(placed, expected);
        assert_same(placed, chosen);
        g_assert_true(choices->first_update == 0 || choices->first_update == first_on_host(placed));
        round += choices->first_update > 0;
        run_choices_free(choices);
        trace_free(before);
        trace_free(expected);
        trace_free(placed);
        trace_free(chosen);
    }
    g_assert_cmpint(round, >, 25);
    platform_free(platform);
}

static struct trace_operator *update_of(struct trace *trace, uint32_t tensor)
{
    return &trace->operators[trace->operator_count - trace->tensor_count + tensor];
}

/* Draws the tensors behind whose last use updates come, or the end of backward. */
static tensor_id *draw_order(GRand *random)
{
    uint32_t tensors = model_tensor_count(&config);
    tensor_id *after = g_new(tensor_id, tensors);
    for (tensor_id t = 0; t < tensors; t++)
        after[t] = g_rand_boolean(random) ? NO_INDEX
                                          : (tensor_id)g_rand_int_range(random, 0, (gint32)tensors);
    return after;
}

/* Returns the trace with updates within backward as drawn. It equals a run with its choices. */
static struct trace *place_early(const struct trace *trace, GRand *random,
                                 const struct platform *platform)
{
    g_autofree uint8_t *to = draw_places(random);
    g_autofree tensor_id *after = draw_order(random);
    struct trace *placed = model_place_updates_after(trace, to, after, platform, NULL);
    struct run_choices *choices = run_choices_of(placed);
    struct trace *run = synthesise_after(choices->host_update, choices->update_after, platform);
    GError *error = NULL;
    trace_check(placed, "placed", &error);
    g_assert_no_error(error);
    assert_same(placed, run);
    run_choices_free(choices);
    trace_free(run);
    return placed;
}

/* From any order to any other: within backward, anew, and back to its end. */
static void test_early(void)
{
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    struct platform *platform = machine();
    for (int i = 0; i < 50; i++) {
        g_autofree uint8_t *from = draw_places(random), *to = draw_places(random);
        struct trace *before = synthesise(from, platform), *expected = synthesise(to, platform);
        struct trace *early = place_early(before, random, platform);
        struct trace *other = place_early(early, random, platform);
        struct trace *late = model_place_updates(other, to, platform, NULL);
        assert_same(late, expected);
        trace_free(before);
        trace_free(expected);
        trace_free(early);
        trace_free(other);
        trace_free(late);
    }
    platform_free(platform);
    g_rand_free(random);
}

/* An update follows the operator that completes the last of two gradients. */
static void test_early_place(void)
{
    g_autofree uint8_t *places = model_every_tensor(&config);
    struct trace *trace = synthesise(NULL, NULL);
    tensor_id *after = g_new(tensor_id, trace->tensor_count);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        after[t] = NO_INDEX;
    after[14 + 8] = 14 + 6; /* h.1.mlp.c_fc.weight behind h.1.ln_2.weight */
    after[14 + 6] = 14 + 8; /* its own last use is later */
    struct trace *placed = model_place_updates_after(trace, places, after, NULL, NULL);
    uint32_t m = 0;
    while (!g_str_equal(placed->operators[m].name, "backward h.1.ln_2"))
        m++;
    g_assert_cmpstr(placed->operators[m + 1].name, ==, "update h.1.ln_2.weight");
    g_assert_cmpstr(placed->operators[m + 2].name, ==, "update h.1.mlp.c_fc.weight");
    g_assert_cmpint(placed->operators[m + 3].phase, ==, TRACE_BACKWARD);
    trace_free(placed);
    trace_free(trace);
    g_free(after);
}

/* A run cannot update a tensor before its gradient is complete, nor choose an order for gradients
 * that lie in buffers. */
static void test_early_refused(void)
{
    uint32_t tensors = model_tensor_count(&config);
    g_autofree tensor_id *after = g_new(tensor_id, tensors);
    for (tensor_id t = 0; t < tensors; t++)
        after[t] = NO_INDEX;
    struct model_job job = job_of(NULL, after);
    GError *error = NULL;
    after[2] = tensors - 1; /* the first layer's behind the last norm's */
    g_assert_null(model_iteration_new(&config, &job, &error));
    g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    g_assert_nonnull(strstr(error->message, "before its gradient is complete"));
    g_clear_error(&error);
    after[2] = NO_INDEX;
    after[tensors - 1] = 2;
    job.choices.host_embedding = false;
    job.choices.split_masters = true;
    g_assert_null(model_iteration_new(&config, &job, &error));
    g_assert_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG);
    g_assert_nonnull(strstr(error->message, "12 bytes"));
    g_clear_error(&error);
}

/* Without a platform, an update takes as long for each element as the trace's own updates at that
 * place, if it has any. */
static void test_own_durations(void)
{
    struct platform *platform = machine();
    g_autofree uint8_t *places = model_every_tensor(&config);
    memset(places + 1, 0, model_tensor_count(&config) - 1);
    struct trace *trace = synthesise(places, platform);
    update_of(trace, 0)->duration_ns = 3 * trace->tensors[0].elements; /* 3 ns an element */
    update_of(trace, 4)->duration_ns = 12345;
    memset(places, 1, model_tensor_count(&config));
    struct trace *placed = model_place_updates(trace, places, NULL, NULL);
    g_assert_cmpuint(update_of(placed, 4)->duration_ns, ==, 3 * trace->tensors[4].elements);
    g_assert_true(placed->estimated);
    trace_free(placed);

    update_of(trace, 0)->duration_ns = 0; /* no update on the host is timed */
    placed = model_place_updates(trace, places, NULL, NULL);
    g_assert_cmpuint(update_of(placed, 4)->duration_ns, ==, 12345);
    trace_free(placed);
    trace_free(trace);
    platform_free(platform);
}

static void test_unmoved(void)
{
    struct platform *platform = machine();
    g_autofree uint8_t *places = model_every_tensor(&config);
    struct trace *trace = synthesise(places, platform);
    trace->estimated = false;
    update_of(trace, 3)->duration_ns = 777;
    struct trace *placed = model_place_updates(trace, places, platform, NULL);
    assert_same(trace, placed);
    g_assert_false(placed->estimated);
    trace_free(placed);
    trace_free(trace);
    platform_free(platform);
}

/* One operator that updates two tensors can move with both, but not with one. */
static void test_fused(void)
{
    g_autofree uint8_t *places = model_every_tensor(&config);
    struct trace *trace = synthesise(NULL, NULL), *placed;
    GError *error = NULL;
    struct trace_operator *last = update_of(trace, trace->tensor_count - 1);
    last[-1].access_count += last->access_count;
    g_free(last->name);
    trace->operator_count--;
    placed = model_place_updates(trace, places, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpint(placed->operators[placed->operator_count - 1].place, ==, TRACE_ON_HOST);
    trace_free(placed);
    places[trace->tensor_count - 1] = 0;
    g_assert_null(model_place_updates(trace, places, NULL, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_clear_error(&error);
    trace_free(trace);
}

/* A tensor that is updated on both sides, say clipped on the device first, is as traced, or moves
 * to the device as a whole. */
static void test_both_sides(void)
{
    struct platform *platform = machine();
    g_autofree uint8_t *places = model_every_tensor(&config);
    struct trace *trace = synthesise(places, platform);
    struct trace_operator *ops = trace->operators + trace->operator_count - trace->tensor_count;
    ops[0].place = TRACE_ON_DEVICE;
    trace->accesses[ops[0].first_access].tensor = 1;
    for (uint32_t i = 1; i < ops[0].access_count; i++)
        trace->accesses[ops[0].first_access + i].tensor = 1;
    for (int both = 0; both < 2; both++) {
        places[1] = (uint8_t)both;
        places[2] = 0; /* another one moves in any case */
        struct trace *placed = model_place_updates(trace, places, platform, NULL);
        ops = placed->operators + placed->operator_count - placed->tensor_count;
        g_assert_cmpint(ops[0].place, ==, TRACE_ON_DEVICE);
        g_assert_cmpint(ops[1].place, ==, both ? TRACE_ON_HOST : TRACE_ON_DEVICE);
        g_assert_cmpint(ops[2].place, ==, TRACE_ON_DEVICE);
        g_assert_cmpint(ops[3].place, ==, TRACE_ON_HOST);
        trace_free(placed);
    }
    trace_free(trace);
    platform_free(platform);
}

/* Two operators for each tensor, as if gradients are clipped first, stay as they are. */
static void test_dependent(void)
{
    struct platform *platform = machine();
    g_autofree uint8_t *places = model_every_tensor(&config);
    struct trace *trace = synthesise(NULL, platform);
    struct trace_operator *last = update_of(trace, trace->tensor_count - 1);
    trace->accesses[last->first_access].tensor = 0;
    memset(places, 0, trace->tensor_count - 1);
    places[0] = 1;
    for (uint32_t i = 1; i < last->access_count; i++)
        trace->accesses[last->first_access + i].tensor = 0;
    struct trace *placed = model_place_updates(trace, places, platform, NULL);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        g_assert_cmpstr(placed->operators[m].name, ==, trace->operators[m].name);
    g_assert_cmpint(placed->operators[trace->operator_count - 1].place, ==, TRACE_ON_HOST);
    trace_free(placed);
    trace_free(trace);
    platform_free(platform);
}

/* A trace tells what its run chose. */
static void test_choices(void)
{
    GRand *random = g_rand_new_with_seed((guint32)g_test_rand_int());
    g_autofree uint8_t *places = draw_places(random);
    struct trace *trace = synthesise(places, NULL);
    struct run_choices *choices = run_choices_of(trace);
    const uint8_t recompute[2] = {0, 1};
    g_assert_cmpmem(choices->recompute, choices->layer_count, recompute, 2);
    g_assert_cmpmem(choices->host_update, choices->tensor_count, places, trace->tensor_count);
    g_assert_true(choices->host_embedding);
    run_choices_free(choices);
    trace_free(trace);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strategies/updates/as-synthesised", test_as_synthesised);
    g_test_add_func("/strategies/updates/from-any-tensor", test_from_any_tensor);
    g_test_add_func("/strategies/updates/early", test_early);
    g_test_add_func("/strategies/updates/early-place", test_early_place);
    g_test_add_func("/strategies/updates/early-refused", test_early_refused);
    g_test_add_func("/strategies/updates/own-durations", test_own_durations);
    g_test_add_func("/strategies/updates/unmoved", test_unmoved);
    g_test_add_func("/strategies/updates/fused", test_fused);
    g_test_add_func("/strategies/updates/both-sides", test_both_sides);
    g_test_add_func("/strategies/updates/dependent", test_dependent);
    g_test_add_func("/strategies/updates/choices", test_choices);
    return g_test_run();
}
