/* Settings of other systems: what they say is true of the plan, and what they cannot express is
 * named. */
#include "models/synth.h"
#include "planner/answers/emit.h"
#include "planner/answers/zero3.h"
#include "planner/search/search.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"

#include <jansson.h>
#include <string.h>

enum { CASES = 12, LAYERS = 4 };

struct fixture {
    struct trace *trace;
    struct costs *costs;
    struct platform *platform;
    struct search_result *result;
};

static void tear_down(struct fixture *f)
{
    search_result_free(f->result);
    costs_free(f->costs);
    platform_free(f->platform);
    trace_free(f->trace);
}

/* Makes a plan for `share` of the model data on the device, if the iteration has one. */
static bool try_set_up(struct fixture *f, GRand *random, const char *share)
{
    f->trace = random_iteration(random);
    f->platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    f->costs = costs_new(f->platform, NULL, NULL);
    struct search_options options = {.platform = f->platform,
                                     .host_budget = UINT64_MAX,
                                     .costs = f->costs,
                                     .seed = g_rand_int(random)};
    g_assert_true(sizes_parse_budget(share, f->trace, &options.device_budget, NULL));
    f->result = search_plan(f->trace, &options, NULL);
    return f->result != NULL;
}

static void set_up(struct fixture *f, GRand *random, const char *share)
{
    while (!try_set_up(f, random, share))
        tear_down(f);
}

static json_t *settings(const struct fixture *f, const char *format)
{
    struct emitted *emitted = emit_settings(format, f->result->plan, f->result->trace);
    json_t *root = json_loads(emitted->text, 0, NULL);
    g_assert_nonnull(root);
    g_assert_cmpuint(emitted->lost->len, >=, 2);
    emitted_free(emitted);
    return root;
}

static json_int_t count(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    g_assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* Returns the most parameters that any operator of the device uses. */
static uint64_t most_used(const struct trace *trace)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        uint64_t used = 0;
        for (uint32_t i = 0; op->place == TRACE_ON_DEVICE && i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            used += access->list == TRACE_PARAM ? trace->tensors[access->tensor].elements : 0;
        }
        most = MAX(most, used);
    }
    return most;
}

static void check_deepspeed(const struct fixture *f)
{
    const struct plan_summary summary = plan_summary_of(f->result->plan, f->result->trace);
    json_t *root = settings(f, "deepspeed");
    const json_t *zero = json_object_get(root, "zero_optimization");
    const json_t *optimizer = json_object_get(zero, "offload_optimizer");
    double ratio = optimizer ? 1 : 0;
    g_assert_cmpfloat(ratio, >=, summary.updated_on_host);
    g_assert_cmpfloat(ratio, >=, summary.states_on_host);
    if (count(zero, "stage") == 3) {
        g_assert_cmpint(count(zero, "stage3_prefetch_bucket_size"), <=,
                        (json_int_t)summary.ahead_elements);
        g_assert_cmpint(count(zero, "stage3_model_persistence_threshold"), <=,
                        (json_int_t)summary.live_elements);
    } else {
        g_assert_false(summary.parameters_leave);
        g_assert_true(ratio == 0 || ratio == 1);
    }
    json_decref(root);
}

/* What stage 3 does is between gathering everything at each use and keeping everything. */
static void check_zero3(const struct trace *trace)
{
    const struct zero3_settings none = {0};
    const struct zero3_settings all = {.stay_each = UINT64_MAX, .stay_all = UINT64_MAX};
    struct zero3 *zero3 = zero3_new(trace);
    const struct zero3_counts most = zero3_count(zero3, &none), least = zero3_count(zero3, &all);
    uint64_t elements = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        elements += trace->tensors[t].elements;
    g_assert_cmpuint(most.live, >=, most_used(trace));
    g_assert_cmpuint(least.live, ==, elements);
    g_assert_cmpuint(least.gathered, ==, elements);
    const struct zero3_settings near = {.reuse_distance = UINT64_MAX};
    const struct zero3_counts kept = zero3_count(zero3, &near);
    g_assert_cmpuint(kept.gathered, <=, most.gathered);
    g_assert_cmpuint(kept.live, >=, most.live);
    const struct zero3_settings fitted = zero3_fit(zero3, &most, 0);
    g_assert_cmpuint(zero3_count(zero3, &fitted).live, ==, most.live);
    g_assert_cmpuint(zero3_count(zero3, &fitted).gathered, ==, most.gathered);
    zero3_free(zero3);
}

static void check_fsdp(const struct fixture *f)
{
    json_t *root = settings(f, "fsdp");
    const json_t *fsdp = json_object_get(root, "fsdp_config");
    if (!f->result->plan->host_pool_bytes)
        g_assert_false(json_is_true(json_object_get(fsdp, "fsdp_offload_params")));
    g_assert_cmpint(count(fsdp, "fsdp_min_num_params"), >, 0);
    json_decref(root);
}

static void test_any_plan(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random, i % 2 ? "40%" : "70%");
        check_deepspeed(&f);
        check_fsdp(&f);
        check_zero3(f.result->trace);
        tear_down(&f);
    }
}

static bool uses_host(const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].place == TRACE_ON_HOST)
            return true;
    return false;
}

/* If everything lives on the device and nothing runs on the host, nothing ever leaves. */
static void test_resident(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct fixture f;
    set_up(&f, random, "400%");
    while (f.result->plan->action_count || uses_host(f.result->trace)) {
        tear_down(&f);
        set_up(&f, random, "400%");
    }
    const struct plan_summary summary = plan_summary_of(f.result->plan, f.result->trace);
    json_t *root = settings(&f, "deepspeed");
    g_assert_false(summary.parameters_leave);
    g_assert_cmpfloat(summary.states_on_host, ==, 0); /* whatever has a home on the host */
    g_assert_cmpuint(summary.ahead_elements, ==, 0);
    g_assert_cmpint(count(json_object_get(root, "zero_optimization"), "stage"), ==, 0);
    g_assert_null(json_object_get(json_object_get(root, "zero_optimization"), "offload_optimizer"));
    json_decref(root);
    tear_down(&f);
}

/* Returns whether the plan fetches the chunk while it holds the buffer. */
static bool is_fetched(const struct plan *plan, const struct trace_buffer *buffer, chunk_id chunk)
{
    for (uint32_t m = buffer->first + 1; m <= buffer->last; m++)
        for (uint32_t a = plan->first_action[m]; a < plan->first_action[m + 1]; a++)
            if (plan->actions[a].kind == PLAN_FETCH && plan->actions[a].chunk == chunk)
                return true;
    return false;
}

/* Returns the bytes of the buffers that the plan fetches, and of the largest. */
static uint64_t fetched_buffers(const struct plan *plan, const struct trace *trace,
                                uint64_t *largest)
{
    const struct layout_place *places = plan->layout->places[TRACE_ACTIVATION];
    g_autofree uint8_t *held = trace_held_buffers(trace);
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (held[b] && is_fetched(plan, &trace->buffers[b], places[b].chunk)) {
            bytes += trace->buffers[b].bytes;
            *largest = MAX(*largest, trace->buffers[b].bytes);
        }
    return bytes;
}

/* Layers let as many bytes of activations leave as the plan does, as nearly as whole tensors can,
 * which leave in every pass or in none. */
static void check_units(const struct fixture *f)
{
    const struct plan *plan = f->result->plan;
    g_autoptr(GPtrArray) units = emit_units(plan, f->result->trace);
    uint64_t offloaded = 0, largest = 0;
    const uint64_t fetched = fetched_buffers(plan, f->result->trace, &largest);
    for (guint i = 0; i < units->len; i++) {
        const GArray *sizes = ((const struct emit_unit *)g_ptr_array_index(units, i))->offloaded;
        for (guint k = 0; k < sizes->len; k++)
            offloaded += plan->micro_batches * g_array_index(sizes, uint64_t, k);
    }
    g_assert_cmpuint(fetched, >, 0);
    if (plan->micro_batches == 1)
        g_assert_cmpuint(offloaded, ==, fetched);
    g_assert_cmpuint(2 * MAX(offloaded, fetched) - 2 * MIN(offloaded, fetched), <=,
                     plan->micro_batches * largest);
}

/* Of a model most of whose bytes are activations, which may leave, some do. */
static void test_offloaded(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    uint8_t every[LAYERS];
    const struct model_config config = {.name = "small",
                                        .layers = LAYERS,
                                        .width = 32,
                                        .heads = 4,
                                        .inner = 128,
                                        .positions = 256,
                                        .vocabulary = 100,
                                        .tied = true};
    memset(every, 1, LAYERS);
    for (uint32_t micro_batches = 1; micro_batches < 4; micro_batches++) {
        struct model_job job = {.choices = {.batch = (uint32_t)g_rand_int_range(random, 8, 17),
                                            .micro_batches = micro_batches},
                                .sequence = 256,
                                .precision = MODEL_FP32};
        struct fixture f = {
            .platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL)};
        struct search_options options = {.platform = f.platform, .host_budget = UINT64_MAX};
        struct trace *staying = model_synthesise(&config, &job, f.platform, NULL);
        struct non_model *all = non_model_place(staying);
        options.costs = f.costs = costs_new(f.platform, NULL, NULL);
        options.device_budget = all->peak_bytes / 10 * 7;
        job.choices.offload = every;
        f.trace = model_synthesise(&config, &job, f.platform, NULL);
        f.result = search_plan(f.trace, &options, NULL);
        non_model_free(all);
        trace_free(staying);
        check_units(&f);
        tear_down(&f);
    }
}

static void test_names(void)
{
    g_assert_true(emit_knows("deepspeed") && emit_knows("fsdp") && emit_knows("fsdp2"));
    g_assert_false(emit_knows("") || emit_knows("deepspeed "));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/emit/any_plan", test_any_plan);
    g_test_add_func("/emit/resident", test_resident);
    g_test_add_func("/emit/offloaded", test_offloaded);
    g_test_add_func("/emit/names", test_names);
    return g_test_run();
}
