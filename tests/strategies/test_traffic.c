/* Two tensors, each with a forward operator, a backward operator and an update. Every byte and
 * every nanosecond is counted by hand. The link takes 1 ns for 100 bytes in either direction. */
#include "sim/replay.h"
#include "strategies/strategy.h"

enum { ELEMENTS = 12800, FORWARD_NS = 1000, BACKWARD_NS = 2000, DEVICE_NS = 500, HOST_NS = 4000 };

/* bf16 over the parameter: 25600 bytes a parameter chunk, 256 ns a copy; 51200 bytes a state. */
enum { PARAM_BYTES = 2 * ELEMENTS, STATE_BYTES = 4 * ELEMENTS, PARAM_NS = 256, STATE_NS = 512 };

struct builder {
    struct trace *trace;
    GArray *operators, *accesses;
};

static void add_operator(struct builder *b, const char *name, enum trace_phase phase,
                         uint32_t tensor, uint64_t ns)
{
    struct trace_operator op = {.name = g_strdup_printf("%s %u", name, tensor),
                                .phase = (uint8_t)phase,
                                .layer = (int32_t)tensor,
                                .first_access = b->accesses->len,
                                .duration_ns = ns};
    g_array_append_val(b->operators, op);
}

static void add_access(struct builder *b, uint32_t tensor, enum trace_list list,
                       enum trace_mode mode)
{
    struct trace_access access = {tensor, (uint8_t)list, (uint8_t)mode};
    g_array_append_val(b->accesses, access);
    g_array_index(b->operators, struct trace_operator, b->operators->len - 1).access_count++;
}

static void add_backward(struct builder *b, uint32_t tensor)
{
    bool fp32 = b->trace->list_element_bytes[TRACE_GRAD];
    add_operator(b, "backward", TRACE_BACKWARD, tensor, BACKWARD_NS);
    add_access(b, tensor, TRACE_PARAM, fp32 ? TRACE_READ : TRACE_UPDATE);
    if (fp32)
        add_access(b, tensor, TRACE_GRAD, TRACE_OVERWRITE);
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
static void describe_lists(struct trace *trace, bool fp32)
{
    trace->list_element_bytes[TRACE_PARAM] = fp32 ? 4 : 2;
    trace->list_element_bytes[TRACE_GRAD] = fp32 ? 4 : 0;
    trace->list_element_bytes[TRACE_MASTER] = fp32 ? 0 : 4;
    trace->list_element_bytes[TRACE_EXP_AVG] = trace->list_element_bytes[TRACE_EXP_AVG_SQ] = 4;
}

static struct trace *make_trace(bool fp32)
{
    struct trace *trace = g_new0(struct trace, 1);
    struct builder b = {trace, g_array_new(FALSE, TRUE, sizeof(struct trace_operator)),
                        g_array_new(FALSE, TRUE, sizeof(struct trace_access))};
    trace->batch = trace->sequence = trace->micro_batches = 1;
    describe_lists(trace, fp32);
    trace->tensor_count = 2;
    trace->tensors = g_new0(struct trace_tensor, 2);
    for (uint32_t t = 0; t < 2; t++)
        trace->tensors[t] = (struct trace_tensor){g_strdup_printf("t%u", t), ELEMENTS};
    for (uint32_t t = 0; t < 2; t++) {
        add_operator(&b, "forward", TRACE_FORWARD, t, FORWARD_NS);
        add_access(&b, t, TRACE_PARAM, TRACE_READ);
    }
    for (uint32_t t = 2; t-- > 0;)
        add_backward(&b, t);
    add_update(&b, 0);
    add_update(&b, 1);
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

/* The steady iteration of a strategy with chunks of one tensor and room for everything. */
static struct plan_figures simulate_job(const char *name, bool fp32)
{
    struct trace *trace = make_trace(fp32), *placed;
    struct layout *layout = layout_pack_uniform(trace, PARAM_BYTES, NULL);
    struct non_model *non_model = non_model_place(trace);
    struct platform_point points[2];
    const struct platform platform = make_platform(points);
    struct costs *costs = costs_new(NULL, "h2d=100GB/s,d2h=100GB/s", NULL);
    GPtrArray *list = strategy_parse_list(name, NULL);
    struct strategy_job job = {.trace = trace,
                               .platform = &platform,
                               .layout = layout,
                               .non_model = non_model->extent,
                               .device_budget = 1 << 20,
                               .host_budget = UINT64_MAX};
    uint64_t needed;
    GError *error = NULL;
    struct plan *plan = strategy_plan(g_ptr_array_index(list, 0), &job, &placed, &needed, &error);
    g_assert_no_error(error);
    struct accesses *accesses = accesses_new(placed, layout, non_model->extent);
    struct replay_view view = {placed, accesses, costs};
    struct plan_figures figures = replay(plan, &view).steady;
    accesses_free(accesses);
    plan_free(plan);
    trace_free(placed);
    g_ptr_array_unref(list);
    costs_free(costs);
    non_model_free(non_model);
    layout_free(layout);
    trace_free(trace);
    return figures;
}

static struct plan_figures simulate(const char *name)
{
    return simulate_job(name, false);
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

/* Up for forward and for backward, down as gradients. The two tensors are two layers: tensor 1 is
 * not kept from its forward to its backward. */
static void test_fsdp_offload(void)
{
    struct plan_figures f = simulate("fsdp-offload");
    check_traffic(&f, 4 * PARAM_BYTES, 2 * PARAM_BYTES);
    /* Waited for: parameter 0 at the start, the last gradient. Parameter 1 goes for a moment, but
     * its copy for backward comes up beside its forward, into the room that 0 has left. */
    check_time(&f, PASSES_NS + 2 * PARAM_NS + 2 * HOST_NS);
}

/* Gradients of 4 bytes go down, parameters of 4 bytes come up; neither copy carries the other. */
static void test_fp32(void)
{
    struct plan_figures zero = simulate_job("zero-offload", true);
    struct plan_figures zero3 = simulate_job("zero3-offload", true);
    struct plan_figures twinflow = simulate_job("twinflow:0.5", true);
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
    g_test_add_func("/strategies/traffic/twinflow", test_twinflow);
    g_test_add_func("/strategies/traffic/gemini-static", test_gemini_static);
    g_test_add_func("/strategies/traffic/interleave", test_interleave);
    g_test_add_func("/strategies/traffic/fsdp-offload", test_fsdp_offload);
    g_test_add_func("/strategies/traffic/fp32", test_fp32);
    return g_test_run();
}
