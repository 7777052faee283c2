/* Stays in the host pool of what lives in NVMe: by hand, and in drawn plans, which must be
 * executable and move no more than if nothing stayed. */
#include "chunks/dry_run.h"
#include "chunks/nvme_homes.h"
#include "planner/proof/nvme_bound.h"
#include "planner/schedule/nvme_stays.h"
#include "planner/schedule/retention.h"
#include "tests/chunks/random_iteration.h"

enum { PLANS = 300, TENSORS = 3, ELEMENTS = 1024 * 1024, BYTES = 4 * ELEMENTS };

struct fixture {
    struct trace *trace;
    struct layout *layout;
    struct non_model *non_model;
    struct accesses *accesses;
    struct nvme_uses *uses;
    struct plan *plan;
};

/* Makes a plan for a host that has enough memory. */
static bool open_plan(struct fixture *f, struct trace *trace, uint64_t chunk_bytes,
                      uint64_t more_device, const struct pstar_policy_ops *policy)
{
    f->trace = trace;
    f->layout = layout_pack_uniform(trace, chunk_bytes, NULL);
    f->non_model = non_model_place(trace);
    f->accesses = accesses_new(trace, f->layout, f->non_model->extent);
    const struct dry_run_options options = {
        .device_budget = accesses_least_arena_bytes(f->accesses, f->layout, NULL) + more_device,
        .host_budget = UINT64_MAX,
        .policy = policy};
    f->plan = dry_run(trace, f->layout, &options, NULL);
    f->uses = f->plan ? nvme_uses_new(f->plan, f->accesses) : NULL;
    return f->plan;
}

static void close_plan(struct fixture *f)
{
    nvme_uses_free(f->uses);
    plan_free(f->plan);
    accesses_free(f->accesses);
    non_model_free(f->non_model);
    layout_free(f->layout);
    trace_free(f->trace);
}

/* Returns a copy of the plan with homes as `stays` says; NULL if it does not fit. */
static struct plan *with_homes(const struct fixture *f, uint64_t host_bytes,
                               const struct nvme_stays *stays)
{
    const struct nvme_budget budget = {
        .host_bytes = host_bytes, .nvme_bytes = UINT64_MAX, .stays = stays};
    struct plan *plan = plan_copy(f->plan);
    if (!nvme_homes_give(plan, f->trace, f->accesses, &budget, NULL))
        g_clear_pointer(&plan, plan_free);
    return plan;
}

static void read_parameter(struct trace *trace, uint32_t tensor, enum trace_phase phase)
{
    uint32_t m = trace->operator_count++;
    trace->accesses[m] = (struct trace_access){tensor, TRACE_PARAM, TRACE_READ, 0};
    trace->access_count = m + 1;
    trace->operators[m] = (struct trace_operator){.name = g_strdup_printf("operator %u", m),
                                                  .phase = (uint8_t)phase,
                                                  .layer = -1,
                                                  .first_access = m,
                                                  .access_count = 1,
                                                  .duration_ns = 1000};
}

/* Forward reads three parameters of 4 MiB, and backward reads them from the last to the first. */
static struct trace *forth_and_back(void)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->producer = g_strdup("a test");
    trace->precision = g_strdup("fp32");
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = 4;
    trace->tensor_count = TENSORS;
    trace->tensors = g_new0(struct trace_tensor, TENSORS);
    trace->operators = g_new0(struct trace_operator, 2 * TENSORS);
    trace->accesses = g_new0(struct trace_access, 2 * TENSORS);
    for (uint32_t t = 0; t < TENSORS; t++) {
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("t%u", t),
                                                  .elements = ELEMENTS};
        read_parameter(trace, t, TRACE_FORWARD);
    }
    for (uint32_t t = TENSORS; t-- > 0;)
        read_parameter(trace, t, TRACE_BACKWARD);
    trace_sum_buffers(trace);
    return trace;
}

/* The device has room for one. It keeps the last one between forward and backward, and the first
 * one between iterations. So the second one is fetched twice in an iteration, and the others once.
 * With one slot on the host all of that is loaded. A second slot is worth the most for the second
 * parameter. */
static void test_by_hand(void)
{
    static const uint64_t loads[] = {4, 2};
    struct fixture f;
    g_assert_true(open_plan(&f, forth_and_back(), BYTES, 0, &policy_opt));
    for (uint64_t slots = 1; slots <= G_N_ELEMENTS(loads); slots++) {
        const struct nvme_stays_job job = {.plan = f.plan,
                                           .uses = f.uses,
                                           .host_bytes = slots * BYTES + PLAN_NVME_ALIGNMENT,
                                           .write_share = BIAS_PARTS / 2};
        struct nvme_stays *stays = nvme_stays_find(&job);
        g_assert_nonnull(stays);
        struct plan *plan = with_homes(&f, job.host_bytes, stays);
        g_assert_nonnull(plan);
        g_assert_cmpuint(plan->predicted.nvme_read_bytes, ==, loads[slots - 1] * BYTES);
        g_assert_cmpuint(plan->predicted.nvme_write_bytes, ==, 0);
        plan_free(plan);
        nvme_stays_free(stays);
    }
    const struct nvme_stays_job none = {.plan = f.plan, .uses = f.uses, .host_bytes = BYTES / 2};
    g_assert_null(nvme_stays_find(&none));
    close_plan(&f);
}

static uint64_t moved(const struct plan *plan)
{
    return plan->predicted.nvme_read_bytes + plan->predicted.nvme_write_bytes;
}

/* What moves if each use of what lives there is a visit. */
static uint64_t moved_without_stays(const struct fixture *f, const struct nvme_stays *stays)
{
    uint64_t bytes = 0;
    g_autoptr(GArray) visits = g_array_new(FALSE, FALSE, sizeof(struct nvme_visit));
    g_autofree uint8_t *none = g_new0(uint8_t, stays->first[f->layout->chunk_count]);
    for (chunk_id c = 0; c < f->layout->chunk_count; c++)
        if (stays->lives[c])
            nvme_uses_visits_that_stay(f->uses, c, none + stays->first[c], visits);
    for (uint32_t i = 0; i < visits->len; i++) {
        const struct nvme_visit *visit = &g_array_index(visits, struct nvme_visit, i);
        bytes += (uint64_t)(visit->loads + visit->stores) * visit->bytes;
    }
    return bytes;
}

/* Returns 0 without a plan, 1 if nothing is saved, 2 if something is. */
static int check_drawn(const struct fixture *f, GRand *random)
{
    GError *error = NULL;
    const struct nvme_stays_job job = {
        .plan = f->plan,
        .uses = f->uses,
        .host_bytes = (uint64_t)(g_rand_double(random) * (double)f->plan->host_pool_bytes),
        .ahead_share = g_rand_int_range(random, 0, 5) / 10.0,
        .write_share = (uint8_t)g_rand_int_range(random, 1, BIAS_PARTS)};
    struct nvme_stays *stays = nvme_stays_find(&job);
    struct plan *plan = stays ? with_homes(f, job.host_bytes, stays) : NULL;
    int saves = 0;
    if (plan) {
        const struct nvme_least least = nvme_least(plan, f->trace);
        plan_check(plan, f->trace, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(plan->host_pool_bytes, <=, job.host_bytes);
        g_assert_cmpuint(plan->predicted.nvme_read_bytes, >=, least.read_bytes);
        g_assert_cmpuint(plan->predicted.nvme_write_bytes, >=, least.write_bytes);
        uint64_t without = moved_without_stays(f, stays);
        g_assert_cmpuint(moved(plan), <=, without);
        saves = moved(plan) < without ? 2 : 1;
    }
    plan_free(plan);
    nvme_stays_free(stays);
    return saves;
}

static void test_drawn(void)
{
    static struct trace *(*const draws[])(GRand *) = {random_iteration, shared_iteration,
                                                      ranks_iteration, wild_iteration};
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int with[3] = {0};
    for (int i = 0; i < PLANS || !with[2]; i++) {
        struct fixture f;
        struct trace *trace = draws[i % (int)G_N_ELEMENTS(draws)](random);
        uint64_t chunk_bytes = 256 * (uint64_t)g_rand_int_range(random, 1, 60),
                 more = (uint64_t)g_rand_int_range(random, 0, 8192);
        if (open_plan(&f, trace, chunk_bytes, more, random_policy(random)))
            with[check_drawn(&f, random)]++;
        close_plan(&f);
    }
    g_test_message("%d plans, of which stays save something in %d", with[1] + with[2], with[2]);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme-stays/by-hand", test_by_hand);
    g_test_add_func("/nvme-stays/drawn", test_drawn);
    return g_test_run();
}
