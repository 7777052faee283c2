/* The bound of the largest chunks together, where copies and waits can be counted by hand. That it
 * is below every schedule is part of test_time_bound.c. */
#include "chunks/parts.h"
#include "planner/proof/bound.h"
#include "planner/proof/certificate.h"
#include "planner/proof/joint.h"
#include "planner/search/search.h"
#include "traces/trace.h"

#define LINK "h2d=1000MB/s,d2h=1000MB/s"

/* Tensors of 4 MB, of which a device has room for one, or for both; or for one and another tensor
 * of 0.13 MB. */
enum {
    ELEMENTS = 1000000,
    COPY_NS = 4000000,
    TURNS = 12,
    SMALL = 4100000,
    MIDDLE = 5800000,
    LARGE = 9000000,
    PART_NS = COPY_NS / COPY_PARTS,
    THIRD_ELEMENTS = 33280,
    THIRD_NS = 4 * THIRD_ELEMENTS
};

/* To the device alone. */
static const struct certificate_joint h2d_alone = {.chunks = CERTIFICATE_JOINT_MOST,
                                                   .h2d = BOUND_PRICE_SCALE};

static void add_operator(struct trace *trace, enum trace_phase phase, enum trace_place place,
                         struct trace_access access)
{
    uint32_t m = trace->operator_count++;
    trace->accesses[m] = access;
    trace->access_count = m + 1;
    trace->operators[m] = (struct trace_operator){.name = g_strdup_printf("operator %u", m),
                                                  .phase = (uint8_t)phase,
                                                  .place = (uint8_t)place,
                                                  .layer = -1,
                                                  .first_access = m,
                                                  .access_count = 1,
                                                  .duration_ns = 1000};
}

/* Returns a trace with two tensors, a smaller third one, and no operator yet. */
static struct trace *trace_of_tensors(void)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->producer = g_strdup("a test");
    trace->precision = g_strdup("fp32");
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = trace->list_element_bytes[TRACE_GRAD] = 4;
    trace->tensor_count = 3;
    trace->tensors = g_new0(struct trace_tensor, 3);
    for (uint32_t t = 0; t < 3; t++)
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("t%u", t),
                                                  .elements = t < 2 ? ELEMENTS : THIRD_ELEMENTS};
    trace->operators = g_new0(struct trace_operator, 4 * TURNS + 1);
    trace->accesses = g_new0(struct trace_access, 4 * TURNS + 1);
    return trace;
}

static void add_device_operator(struct trace *trace, struct trace_access access)
{
    add_operator(trace, trace->operator_count ? TRACE_BACKWARD : TRACE_FORWARD, TRACE_ON_DEVICE,
                 access);
}

/* The host updates a parameter. */
static struct trace *end_with_update(struct trace *trace)
{
    add_operator(trace, TRACE_UPDATE_PHASE, TRACE_ON_HOST,
                 (struct trace_access){0, TRACE_PARAM, TRACE_UPDATE, 0});
    trace_sum_buffers(trace);
    return trace;
}

/* The device uses two tensors of a list in turn, TURNS times each. */
static struct trace *trace_in_turn(enum trace_list list, enum trace_mode mode)
{
    struct trace *trace = trace_of_tensors();
    for (uint32_t turn = 0; turn < 2 * TURNS; turn++)
        add_device_operator(trace,
                            (struct trace_access){turn % 2, (uint8_t)list, (uint8_t)mode, 0});
    return end_with_update(trace);
}

/* The same with gradients, and after each of them the device reads the third tensor's parameter. */
static struct trace *trace_with_third(void)
{
    struct trace *trace = trace_of_tensors();
    for (uint32_t turn = 0; turn < 2 * TURNS; turn++) {
        add_device_operator(trace, (struct trace_access){turn % 2, TRACE_GRAD, TRACE_UPDATE, 0});
        add_device_operator(trace, (struct trace_access){2, TRACE_PARAM, TRACE_READ, 0});
    }
    return end_with_update(trace);
}

/* Returns the bound with these prices on a device of so many bytes, or what is wrong. Frees the
 * trace. */
static const char *find_bound(struct trace *trace, uint64_t device_bytes,
                              const struct certificate_joint *prices, uint64_t *bound)
{
    struct layout_spec spec = {0};
    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = LAYOUT_ALIGNMENT;
    struct layout *layout = layout_pack(trace, &spec, NULL);
    const struct plan plan = {.layout = layout, .device_budget = device_bytes};
    struct costs *costs = costs_new(NULL, LINK, NULL);
    const struct time_job job = {.plan = &plan, .sides = {trace}, .costs = costs};
    const char *wrong = joint_recompute(&job, prices, bound);
    costs_free(costs);
    layout_free(layout);
    trace_free(trace);
    return wrong;
}

/* One parameter leaves for the other one. Each comes again for all of its uses but the first; the
 * host has updated one of them before that, too. */
static void test_copies_are_counted(void)
{
    uint64_t bound;
    g_assert_null(find_bound(trace_in_turn(TRACE_PARAM, TRACE_READ), SMALL, &h2d_alone, &bound));
    g_assert_cmpuint(bound, ==, (2 * (TURNS - 1) + 1) * COPY_NS);
    g_assert_null(find_bound(trace_in_turn(TRACE_PARAM, TRACE_READ), LARGE, &h2d_alone, &bound));
    g_assert_cmpuint(bound, ==, COPY_NS);
}

/* What the device has written must be on the host before the other one has room. That one may
 * follow it part by part, so all but one of its parts come meanwhile. Nobody waits for what was
 * used for the last time. */
static void test_waits_are_counted(void)
{
    const uint64_t waits = 2 * (TURNS - 1);
    uint64_t bound;
    g_assert_null(find_bound(trace_in_turn(TRACE_GRAD, TRACE_UPDATE), SMALL, &h2d_alone, &bound));
    g_assert_cmpuint(bound, ==, waits * (COPY_NS + PART_NS));
    g_assert_null(find_bound(trace_in_turn(TRACE_GRAD, TRACE_UPDATE), LARGE, &h2d_alone, &bound));
    g_assert_cmpuint(bound, ==, 0);
}

/* A gradient may still be written back when the third tensor is used. That tensor might have been
 * fetched meanwhile for this use, and once more for the next one, and so might its gradient.
 * Evicting it would take longer than the rest of the wait. */
static void test_uses_shorten_waits(void)
{
    const uint64_t waits = 2 * (TURNS - 1);
    uint64_t bound;
    g_assert_null(find_bound(trace_with_third(), MIDDLE, &h2d_alone, &bound));
    g_assert_cmpuint(bound, ==, waits * (COPY_NS + PART_NS - 3 * THIRD_NS));
}

/* Prices that sum to more than the time prove nothing. */
static void test_prices_are_shares(void)
{
    const struct certificate_joint dear = {
        .chunks = 2, .h2d = BOUND_PRICE_SCALE, .d2h = BOUND_PRICE_SCALE / 2};
    uint64_t bound;
    g_assert_nonnull(find_bound(trace_in_turn(TRACE_GRAD, TRACE_UPDATE), SMALL, &dear, &bound));
}

static struct plan *search(const struct trace *trace, struct trace **placed)
{
    struct costs *costs = costs_new(NULL, LINK, NULL);
    const struct search_options options = {
        .device_budget = SMALL, .host_budget = UINT64_MAX, .costs = costs, .seed = 1, .threads = 1};
    struct search_result *result = search_plan(trace, &options, NULL);
    g_assert_nonnull(result);
    struct plan *plan = g_steal_pointer(&result->plan);
    *placed = g_steal_pointer(&result->trace);
    search_result_free(result);
    costs_free(costs);
    return plan;
}

/* A certificate has the bound where it is the larger one, keeps it in its file, and is refused when
 * the prices do not lead to it. */
static void test_certificates_have_it(void)
{
    g_autoptr(GError) error = NULL;
    const char *reason = NULL;
    struct trace *trace = trace_in_turn(TRACE_GRAD, TRACE_UPDATE), *placed;
    struct plan *plan = search(trace, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    g_assert_cmpuint(plan->certificate->time.joint.chunks, ==, 2);
    g_assert_cmpuint(plan->certificate->time.bound, >=, 2 * (TURNS - 1) * 4450000);
    g_assert_cmpuint(plan->certificate->time.achieved, <=, 2 * TURNS * 4600000);
    g_assert_cmpuint(plan->certificate->time.bound, <=, plan->certificate->time.achieved);
    json_t *json = certificate_to_json(plan->certificate);
    certificate_free(plan->certificate);
    plan->certificate = certificate_from_json(json, 1, &reason);
    json_decref(json);
    g_assert_nonnull(plan->certificate);
    g_assert_true(certificate_check(plan, placed, trace, &error));
    plan->certificate->time.joint.h2d--;
    g_assert_false(certificate_check(plan, placed, trace, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/joint/copies_are_counted", test_copies_are_counted);
    g_test_add_func("/joint/waits_are_counted", test_waits_are_counted);
    g_test_add_func("/joint/uses_shorten_waits", test_uses_shorten_waits);
    g_test_add_func("/joint/prices_are_shares", test_prices_are_shares);
    g_test_add_func("/joint/certificates_have_it", test_certificates_have_it);
    return g_test_run();
}
