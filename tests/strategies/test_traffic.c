/* A few tensors, each with a forward operator, a backward operator and an update. Every byte and
 * every nanosecond is counted by hand. The link takes 1 ns for 100 bytes in either direction. */
#include "sim/replay.h"
#include "strategies/strategy.h"

enum { ELEMENTS = 12800, FORWARD_NS = 1000, BACKWARD_NS = 2000, DEVICE_NS = 500, HOST_NS = 4000 };

/* bf16 over the parameter: 25600 bytes a parameter chunk, 256 ns a copy; 51200 bytes a state. */
enum { PARAM_BYTES = 2 * ELEMENTS, STATE_BYTES = 4 * ELEMENTS, PARAM_NS = 256, STATE_NS = 512 };

/* What is simulated: two tensors in bf16 with room for everything, or as it says here. */
struct shape {
    bool fp32;
    uint32_t tensors;
    uint64_t device_budget;
    bool embeds;            /* tensor 0 belongs to no layer */
    uint32_t micro_batches; /* with several, gradients are summed in a list in fp32; 0: one */
    bool unclipped;         /* updates need not wait for the norm of all gradients */
};

static const struct shape usual = {.tensors = 2, .device_budget = 1 << 20};

struct builder {
    const struct shape *shape;
    struct trace *trace;
    GArray *operators, *accesses;
    uint32_t micro_batch;
};

static void add_operator(struct builder *b, const char *name, enum trace_phase phase,
                         uint32_t tensor, uint64_t ns)
{
    struct trace_operator op = {.name = g_strdup_printf("%s %u", name, tensor),
                                .phase = (uint8_t)phase,
                                .layer = (int32_t)tensor - (b->shape->embeds ? 1 : 0),
                                .micro_batch = b->micro_batch,
                                .first_access = b->accesses->len,
                                .duration_ns = ns};
    g_array_append_val(b->operators, op);
}

static void add_access(struct builder *b, uint32_t tensor, enum trace_list list,
                       enum trace_mode mode)
{
    struct trace_access access = {tensor, (uint8_t)list, (uint8_t)mode, 0};
    g_array_append_val(b->accesses, access);
    g_array_index(b->operators, struct trace_operator, b->operators->len - 1).access_count++;
}

static void add_backward(struct builder *b, uint32_t tensor)
{
    bool list = b->trace->list_element_bytes[TRACE_GRAD];
    add_operator(b, "backward", TRACE_BACKWARD, tensor, BACKWARD_NS);
    add_access(b, tensor, TRACE_PARAM, list ? TRACE_READ : TRACE_UPDATE);
    if (list)
        add_access(b, tensor, TRACE_GRAD, b->micro_batch ? TRACE_UPDATE : TRACE_OVERWRITE);
}

static void add_update(struct builder *b, uint32_t tensor)
{
    add_operator(b, "update", TRACE_UPDATE_PHASE, tensor, DEVICE_NS);
    for (int list = 0; list < TRACE_LISTS; list++)
        if (b->trace->list_element_bytes[list])
            add_access(b, tensor, (enum trace_list)list,
                       list == TRACE_GRAD ? TRACE_READ : TRACE_UPDATE);
}

/* fp32: parameters and gradients of 4 bytes, no master copy. */
static void describe_lists(struct trace *trace, const struct shape *shape)
{
    trace->list_element_bytes[TRACE_PARAM] = shape->fp32 ? 4 : 2;
    trace->list_element_bytes[TRACE_GRAD] = shape->fp32 || shape->micro_batches > 1 ? 4 : 0;
    trace->list_element_bytes[TRACE_MASTER] = shape->fp32 ? 0 : 4;
    trace->list_element_bytes[TRACE_EXP_AVG] = trace->list_element_bytes[TRACE_EXP_AVG_SQ] = 4;
}

static void add_micro_batch(struct builder *b, uint32_t micro_batch)
{
    b->micro_batch = micro_batch;
    for (uint32_t t = 0; t < b->shape->tensors; t++) {
        add_operator(b, "forward", TRACE_FORWARD, t, FORWARD_NS);
        add_access(b, t, TRACE_PARAM, TRACE_READ);
    }
    for (uint32_t t = b->shape->tensors; t-- > 0;)
        add_backward(b, t);
}

static struct trace *make_trace(const struct shape *shape)
{
    struct trace *trace = g_new0(struct trace, 1);
    struct builder b = {shape, trace, g_array_new(FALSE, TRUE, sizeof(struct trace_operator)),
                        g_array_new(FALSE, TRUE, sizeof(struct trace_access)), 0};
    trace->batch = trace->sequence = 1;
    trace->micro_batches = MAX(1, shape->micro_batches);
    describe_lists(trace, shape);
    trace->tensor_count = shape->tensors;
    trace->tensors = g_new0(struct trace_tensor, shape->tensors);
    for (uint32_t t = 0; t < shape->tensors; t++)
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("t%u", t),
                                                  .elements = ELEMENTS};
    for (uint32_t m = 0; m < trace->micro_batches; m++)
        add_micro_batch(&b, m);
    b.micro_batch = 0;
    for (uint32_t t = 0; t < shape->tensors; t++)
        add_update(&b, t);
    trace->operator_count = b.operators->len;
    trace->access_count = b.accesses->len;
    trace->operators = (void *)g_array_free(b.operators, FALSE);
    trace->accesses = (void *)g_array_free(b.accesses, FALSE);
    trace->non_model_bytes = g_new0(uint64_t, trace->operator_count);
    GError *error = NULL;
    trace_check(trace, "by hand", &error);
    g_assert_no_error(error);
    return trace;
}

static struct platform make_platform(struct platform_point *points)
{
    points[0] = (struct platform_point){ELEMENTS, HOST_NS * 1e-9};
    points[1] = (struct platform_point){1, 1e-12};
    return (struct platform){.host_update = {.points = points, .count = 1},
                             .memory = {.points = points + 1, .count = 1}};
}

/* A strategy's plan with chunks of one tensor. */
struct fixture {
    struct trace *trace, *placed;
    struct layout *layout;
    struct non_model *non_model;
    struct plan *plan;
};

/* Returns the least device memory that fits. If that exceeds the budget, there is no plan. */
static uint64_t open_fixture(struct fixture *f, const char *name, const struct shape *shape)
{
    struct platform_point points[2];
    const struct platform platform = make_platform(points);
    GPtrArray *list = strategy_parse_list(name, NULL);
    f->trace = make_trace(shape);
    f->layout = layout_pack_uniform(f->trace, PARAM_BYTES, NULL);
    f->non_model = non_model_place(f->trace);
    const struct nvme_budget nvme = {.host_bytes = UINT64_MAX, .nvme_bytes = UINT64_MAX};
    const struct strategy *strategy = g_ptr_array_index(list, 0);
    struct strategy_job job = {.trace = f->trace,
                               .platform = &platform,
                               .layout = f->layout,
                               .non_model = f->non_model->extent,
                               .device_budget = shape->device_budget,
                               .host_budget = UINT64_MAX,
                               .nvme = strategy->ops->in_nvme ? &nvme : NULL,
                               .unclipped = shape->unclipped};
    uint64_t needed;
    f->plan = strategy_plan(strategy, &job, &f->placed, &needed, NULL);
    g_assert_true(!f->plan == (needed > shape->device_budget));
    g_ptr_array_unref(list);
    return needed;
}

static void close_fixture(struct fixture *f)
{
    plan_free(f->plan);
    trace_free(f->placed);
    non_model_free(f->non_model);
    layout_free(f->layout);
    trace_free(f->trace);
}

/* The steady iteration. */
static struct plan_figures simulate_shape(const char *name, const struct shape *shape)
{
    struct fixture f;
    open_fixture(&f, name, shape);
    g_assert_nonnull(f.plan);
    struct costs *costs = costs_new(NULL, "h2d=100GB/s,d2h=100GB/s", NULL);
    struct accesses *accesses = accesses_new(f.placed, f.layout, f.non_model->extent);
    struct replay_view view = {f.placed, accesses, costs};
    struct plan_figures figures = replay(f.plan, &view).steady;
    accesses_free(accesses);
    costs_free(costs);
    close_fixture(&f);
    return figures;
}

static struct plan_figures simulate(const char *name)
{
    return simulate_shape(name, &usual);
}

static void check_traffic(const struct plan_figures *f, uint64_t h2d, uint64_t d2h)
{
    g_assert_cmpuint(f->h2d_bytes, ==, h2d);
    g_assert_cmpuint(f->d2h_bytes, ==, d2h);
}

static void check_time(const struct plan_figures *f, uint64_t ns)
{
    g_assert_cmpfloat_with_epsilon(f->iteration_seconds, (double)ns * 1e-9, 1e-12);
}

enum { PASSES_NS = 2 * FORWARD_NS + 2 * BACKWARD_NS };

static void test_resident(void)
{
    struct plan_figures f = simulate("resident");
    check_traffic(&f, 0, 0);
    check_time(&f, PASSES_NS + 2 * DEVICE_NS);
    g_assert_cmpuint(f.peak_device_bytes, ==, 2 * (PARAM_BYTES + 3 * STATE_BYTES));
    g_assert_cmpuint(f.peak_host_bytes, ==, 0);
}

/* Each gradient goes down once and each parameter comes up once. Gradient 1 goes down beside the
 * last backward, parameter 0 comes up beside the last update; the others are waited for. */
static void test_zero_offload(void)
{
    struct plan_figures f = simulate("zero-offload");
    check_traffic(&f, 2 * PARAM_BYTES, 2 * PARAM_BYTES);
    check_time(&f, PASSES_NS + PARAM_NS + 2 * HOST_NS + PARAM_NS);
    g_assert_cmpuint(f.peak_device_bytes, ==, 2 * PARAM_BYTES);
    g_assert_cmpuint(f.peak_host_bytes, ==, 2 * (PARAM_BYTES + 3 * STATE_BYTES));
}

/* The same bytes. The last backward waits for gradient 1, the second update for parameter 0, and
 * the next forward for parameter 1. */
static void test_zero3_offload(void)
{
    struct plan_figures f = simulate("zero3-offload");
    check_traffic(&f, 2 * PARAM_BYTES, 2 * PARAM_BYTES);
    check_time(&f, PASSES_NS + 2 * PARAM_NS + 2 * (HOST_NS + PARAM_NS));
}

/* Gradients are summed on the host: each is on the device only while a micro-batch adds to it. Only
 * the last micro-batch's copies are waited for; in the first, gradient 0 waits for the place of
 * gradient 1. */
static void test_accumulation(void)
{
    const uint64_t least = 2 * PARAM_BYTES + STATE_BYTES;
    const struct shape roomy = {.tensors = 2, .device_budget = 1 << 20, .micro_batches = 2};
    const struct shape tight = {.tensors = 2, .device_budget = least, .micro_batches = 2};
    struct plan_figures f = simulate_shape("zero3-offload", &roomy);
    check_traffic(&f, 2 * STATE_BYTES + 2 * PARAM_BYTES, 4 * STATE_BYTES);
    check_time(&f, 2 * PASSES_NS + 3 * STATE_NS + 2 * (HOST_NS + PARAM_NS));

    struct fixture fixture;
    g_assert_cmpuint(open_fixture(&fixture, "zero3-offload", &tight), ==, least);
    close_fixture(&fixture);
    struct plan_figures twinflow = simulate_shape("twinflow:0.5", &roomy);
    check_traffic(&twinflow, STATE_BYTES + PARAM_BYTES, 2 * STATE_BYTES);
}

/* What is updated on the device takes 16 bytes a parameter beside the parameter: three states and a
 * gradient in fp32, which is in a list with several micro-batches or in fp32. */
static void test_twinflow_memory(void)
{
    static const struct {
        struct shape shape;
        uint64_t parameter;
    } expected[] = {{{.tensors = 2, .device_budget = 1}, PARAM_BYTES},
                    {{.tensors = 2, .device_budget = 1, .micro_batches = 2}, PARAM_BYTES},
                    {{.tensors = 2, .device_budget = 1, .fp32 = true}, 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        struct fixture f;
        uint64_t on_device = 2 * expected[i].parameter + 4 * STATE_BYTES;
        uint64_t host = open_fixture(&f, "zero3-offload", &expected[i].shape);
        close_fixture(&f);
        g_assert_cmpuint(open_fixture(&f, "twinflow:0", &expected[i].shape), ==,
                         2 * (expected[i].parameter + 4 * STATE_BYTES));
        close_fixture(&f);
        g_assert_cmpuint(open_fixture(&f, "twinflow:0.5", &expected[i].shape), >=,
                         MAX(host, on_device));
        close_fixture(&f);
    }
}

/* Tensor 0 on the host, tensor 1 all on the device, in any order of the two. */
static void test_twinflow(void)
{
    struct plan_figures f = simulate("twinflow:0.5");
    check_traffic(&f, PARAM_BYTES, PARAM_BYTES);
    g_assert_cmpuint(f.peak_device_bytes, ==, 2 * PARAM_BYTES + 3 * STATE_BYTES);
    g_assert_cmpuint(f.peak_host_bytes, ==, PARAM_BYTES + 3 * STATE_BYTES);
    struct plan_figures none = simulate("twinflow:0"), all = simulate("twinflow:1");
    struct plan_figures zero3 = simulate("zero3-offload");
    check_traffic(&none, 0, 0);
    check_time(&none, PASSES_NS + 2 * DEVICE_NS);
    check_traffic(&all, zero3.h2d_bytes, zero3.d2h_bytes);
    g_assert_cmpfloat(all.iteration_seconds, ==, zero3.iteration_seconds);
}

/* Each update on the host begins when its gradient has arrived, so three backwards of four are
 * hidden. If the run clips gradients, the host waits for all of them, as in zero-offload. */
static void test_superoffload(void)
{
    const struct shape shape = {.tensors = 4, .device_budget = 1 << 20, .unclipped = true};
    const struct shape clipped = {.tensors = 4, .device_budget = 1 << 20};
    struct plan_figures early = simulate_shape("superoffload:0", &shape);
    struct plan_figures late = simulate_shape("superoffload:0", &clipped);
    struct plan_figures zero = simulate_shape("zero-offload", &clipped);
    check_traffic(&early, 4 * PARAM_BYTES, 4 * PARAM_BYTES);
    check_time(&early, 4 * FORWARD_NS + BACKWARD_NS + PARAM_NS + 4 * HOST_NS + PARAM_NS);
    g_assert_cmpuint(early.peak_device_bytes, ==, 4 * PARAM_BYTES);
    check_time(&late, 2 * PASSES_NS + PARAM_NS + 4 * HOST_NS + PARAM_NS);
    g_assert_cmpmem(&late, sizeof late, &zero, sizeof zero);
}

/* The device updates the tensor whose gradient comes last, if there is room for its states and for
 * the gradient in fp32, which no chunk holds. */
static void test_superoffload_share(void)
{
    struct shape shape = {
        .tensors = 4, .device_budget = 4 * PARAM_BYTES + 4 * STATE_BYTES, .unclipped = true};
    struct plan_figures share = simulate_shape("superoffload:0.25", &shape);
    check_traffic(&share, 3 * PARAM_BYTES, 3 * PARAM_BYTES);
    check_time(&share, 4 * FORWARD_NS + BACKWARD_NS + PARAM_NS + 3 * HOST_NS + PARAM_NS);
    g_assert_cmpuint(share.peak_device_bytes, ==, shape.device_budget - STATE_BYTES);
    g_assert_cmpuint(share.peak_host_bytes, ==, 3 * (PARAM_BYTES + 3 * STATE_BYTES));
    shape.device_budget--;
    struct plan_figures none = simulate_shape("superoffload:0.25", &shape);
    check_traffic(&none, 4 * PARAM_BYTES, 4 * PARAM_BYTES);
}

static void test_gemini_static(void)
{
    struct plan_figures f = simulate("gemini-static:0.5");
    check_traffic(&f, PARAM_BYTES, PARAM_BYTES);
}

/* Tensor 0 as in zero-offload; tensor 1's three states go up and come down again. */
static void test_interleave(void)
{
    struct plan_figures f = simulate("interleave:2");
    check_traffic(&f, PARAM_BYTES + 3 * STATE_BYTES, PARAM_BYTES + 3 * STATE_BYTES);
}

/* Appends "param 0 " for each fetch, in the order of the queue. */
static char *list_fetches(const struct plan *plan)
{
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < plan->first_action[plan->moment_count + 1]; i++) {
        const struct chunk *chunk = &plan->layout->chunks[plan->actions[i].chunk];
        if (plan->actions[i].kind == PLAN_FETCH)
            g_string_append_printf(text, "%s %u ", trace_list_name((enum trace_list)chunk->list),
                                   chunk->group);
    }
    return g_string_free(text, FALSE);
}

/* Of four tensors, the host updates 0 and 2, and the device 1 and 3. Copies to the device come in
 * the order of the tensors. Each parameter waits for the host's update, but no states wait for a
 * parameter after them, not even where there is room for the states of one tensor only. */
static void test_interleave_order(void)
{
    static const uint64_t budgets[] = {1 << 20, 4 * PARAM_BYTES + 3 * STATE_BYTES};
    for (size_t i = 0; i < G_N_ELEMENTS(budgets); i++) {
        const struct shape shape = {.tensors = 4, .device_budget = budgets[i]};
        struct fixture f;
        open_fixture(&f, "interleave:2", &shape);
        g_assert_nonnull(f.plan);
        g_autofree char *fetches = list_fetches(f.plan);
        g_assert_cmpstr(fetches, ==,
                        "master 1 exp_avg 1 exp_avg_sq 1 param 0 "
                        "master 3 exp_avg 3 exp_avg_sq 3 param 2 ");
        close_fixture(&f);
    }
}

/* Up for forward and for backward, down as gradients. The two tensors are two layers: tensor 1 is
 * not kept from its forward to its backward. */
static void test_fsdp_offload(void)
{
    struct plan_figures f = simulate("fsdp-offload");
    check_traffic(&f, 4 * PARAM_BYTES, 2 * PARAM_BYTES);
    /* Parameter 1 leaves after its forward, so its backward waits for it; the host waits for the
     * last gradient. Parameter 0 comes up for the next forward beside the second update. */
    check_time(&f, PASSES_NS + 2 * PARAM_NS + 2 * HOST_NS);
}

/* As fsdp-offload, but the three states of each tensor are read from NVMe and written back, at 2
 * bytes a nanosecond in slots of 13 times 4,096 bytes. Nothing is read before backward has ended.
 * With three buffers, a tensor is read while the one before it is updated, and written while the
 * one after it is; the last one's writing is waited for. With one buffer, a state is read when the
 * one before it is written, so that a third of a tensor's reading is not hidden. */
static void test_zero_infinity(void)
{
    enum { SLOTS = 3 * 13 * 4096, SLOTS_NS = SLOTS / 2, BEGIN_NS = 2 * PASSES_NS + PARAM_NS };
    const struct shape four = {.tensors = 4, .device_budget = 1 << 20};
    struct plan_figures three = simulate_shape("zero-infinity", &four);
    struct plan_figures one = simulate_shape("zero-infinity:1", &four);
    check_traffic(&three, 8 * PARAM_BYTES, 4 * PARAM_BYTES);
    g_assert_cmpuint(three.nvme_read_bytes, ==, 4 * SLOTS);
    g_assert_cmpuint(three.nvme_write_bytes, ==, 4 * SLOTS);
    g_assert_cmpuint(three.peak_nvme_bytes, ==, 4 * SLOTS);
    g_assert_cmpuint(one.nvme_read_bytes, ==, 4 * SLOTS);
    g_assert_cmpuint(three.peak_host_bytes - one.peak_host_bytes, ==, 2 * SLOTS);
    check_time(&one, BEGIN_NS + 6 * SLOTS_NS + 4 * HOST_NS);
    check_time(&three, BEGIN_NS + 5 * SLOTS_NS + HOST_NS);
}

/* Of four layers, two are on the device at a time. Each comes up for forward and for backward, and
 * goes down as a gradient. The last layer's backward waits for it, as it leaves after its forward;
 * the host waits for the last gradient. */
static void test_megatrain(void)
{
    const struct shape two = {.tensors = 4, .device_budget = 2 * PARAM_BYTES};
    const struct shape fewer = {.tensors = 4, .device_budget = two.device_budget - 1};
    struct plan_figures f = simulate_shape("megatrain", &two);
    struct fixture refused;
    check_traffic(&f, 8 * PARAM_BYTES, 4 * PARAM_BYTES);
    check_time(&f, 2 * PASSES_NS + 2 * PARAM_NS + 4 * HOST_NS);
    g_assert_cmpuint(f.peak_device_bytes, ==, 2 * PARAM_BYTES);
    g_assert_cmpuint(f.peak_host_bytes, ==, 4 * (PARAM_BYTES + 3 * STATE_BYTES));
    g_assert_cmpuint(open_fixture(&refused, "megatrain", &fewer), ==, two.device_budget);
    close_fixture(&refused);
}

/* A tensor outside of the layers stays until its gradient leaves, beside the two buffers. */
static void test_megatrain_embedding(void)
{
    const struct shape shape = {.tensors = 4, .device_budget = 3 * PARAM_BYTES, .embeds = true};
    struct plan_figures f = simulate_shape("megatrain", &shape);
    check_traffic(&f, 7 * PARAM_BYTES, 4 * PARAM_BYTES);
    g_assert_cmpuint(f.peak_device_bytes, ==, 3 * PARAM_BYTES);
}

/* Gradients of 4 bytes go down, parameters of 4 bytes come up; neither copy carries the other. */
static void test_fp32(void)
{
    const struct shape shape = {.fp32 = true, .tensors = 2, .device_budget = 1 << 20};
    struct plan_figures zero = simulate_shape("zero-offload", &shape);
    struct plan_figures zero3 = simulate_shape("zero3-offload", &shape);
    struct plan_figures twinflow = simulate_shape("twinflow:0.5", &shape);
    check_traffic(&zero, 2 * STATE_BYTES, 2 * STATE_BYTES);
    check_time(&zero, PASSES_NS + STATE_NS + 2 * HOST_NS + STATE_NS);
    check_traffic(&zero3, 2 * STATE_BYTES, 2 * STATE_BYTES);
    check_time(&zero3, PASSES_NS + 2 * STATE_NS + 2 * (HOST_NS + STATE_NS));
    check_traffic(&twinflow, STATE_BYTES, STATE_BYTES);
    g_assert_cmpuint(zero.peak_host_bytes, ==, 2 * 4 * STATE_BYTES);
    g_assert_cmpuint(twinflow.peak_host_bytes, ==, 4 * STATE_BYTES);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strategies/traffic/resident", test_resident);
    g_test_add_func("/strategies/traffic/zero-offload", test_zero_offload);
    g_test_add_func("/strategies/traffic/zero3-offload", test_zero3_offload);
    g_test_add_func("/strategies/traffic/accumulation", test_accumulation);
    g_test_add_func("/strategies/traffic/twinflow", test_twinflow);
    g_test_add_func("/strategies/traffic/twinflow-memory", test_twinflow_memory);
    g_test_add_func("/strategies/traffic/superoffload", test_superoffload);
    g_test_add_func("/strategies/traffic/superoffload-share", test_superoffload_share);
    g_test_add_func("/strategies/traffic/gemini-static", test_gemini_static);
    g_test_add_func("/strategies/traffic/interleave", test_interleave);
    g_test_add_func("/strategies/traffic/interleave-order", test_interleave_order);
    g_test_add_func("/strategies/traffic/fsdp-offload", test_fsdp_offload);
    g_test_add_func("/strategies/traffic/zero-infinity", test_zero_infinity);
    g_test_add_func("/strategies/traffic/megatrain", test_megatrain);
    g_test_add_func("/strategies/traffic/megatrain-embedding", test_megatrain_embedding);
    g_test_add_func("/strategies/traffic/fp32", test_fp32);
    return g_test_run();
}
