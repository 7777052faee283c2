/* Every strategy on random traces and on synthesised models. Its plan is sound, moves what it
 * predicts, and finds the right bytes under any timing. If it does not fit, it fits with the memory
 * that its refusal names. */
#include "chunks/residency/residency.h"
#include "models/synth.h"
#include "sim/replay.h"
#include "strategies/strategy.h"
#include "tests/chunks/adversary.h"
#include "tests/chunks/check_figures.h"
#include "tests/chunks/random_iteration.h"

enum { TRIALS = 120, ITERATIONS = 3 };

struct fixture {
    struct trace *trace, *placed;
    struct layout *layout;
    struct non_model *non_model;
    struct plan *plan;
};

static void open_fixture(struct fixture *f, struct trace *trace, uint64_t chunk_bytes)
{
    *f = (struct fixture){.trace = trace};
    f->layout = layout_pack_uniform(trace, chunk_bytes, NULL);
    f->non_model = non_model_place(trace);
}

static void close_fixture(struct fixture *f)
{
    plan_free(f->plan);
    trace_free(f->placed);
    non_model_free(f->non_model);
    layout_free(f->layout);
}

static const struct nvme_budget nvme_unlimited = {.host_bytes = UINT64_MAX,
                                                  .nvme_bytes = UINT64_MAX};

/* Returns [chunk_count] marks of states that are used, but not by operators on the device. */
static uint8_t *find_states(const struct fixture *f)
{
    struct accesses *accesses = accesses_new(f->placed, f->layout, f->non_model->extent);
    uint8_t *marks = g_new0(uint8_t, f->layout->chunk_count);
    for (uint32_t a = 0; a < accesses->count; a++) {
        uint8_t list = f->layout->chunks[accesses->items[a].chunk].list;
        marks[accesses->items[a].chunk] = list >= TRACE_MASTER && list <= TRACE_EXP_AVG_SQ;
    }
    for (uint32_t a = 0; a < accesses->count; a++)
        if (!(accesses->items[a].flags & ACCESS_ON_HOST))
            marks[accesses->items[a].chunk] = 0;
    accesses_free(accesses);
    return marks;
}

/* All optimizer states live in NVMe, and each of their bytes is read once and written once. */
static void check_nvme(const struct fixture *f)
{
    const struct plan *plan = f->plan;
    g_autofree uint8_t *state = find_states(f);
    uint64_t bytes = 0, loads = 0, stores = 0;
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++) {
        g_assert_true(plan_in_nvme(plan, c) == state[c]);
        bytes += state[c] ? plan_nvme_slot(plan->layout, c) : 0;
    }
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct plan_action *action = &plan->actions[i];
        if (action->kind == PLAN_LOAD)
            loads += plan_nvme_slot(plan->layout, action->chunk);
        if (action->kind == PLAN_STORE)
            stores += plan_nvme_slot(plan->layout, action->chunk);
    }
    g_assert_cmpuint(loads, ==, bytes);
    g_assert_cmpuint(stores, ==, bytes);
    g_assert_cmpuint(plan->predicted.nvme_read_bytes, ==, bytes);
    g_assert_cmpuint(plan->predicted.nvme_write_bytes, ==, bytes);
    g_assert_cmpuint(plan->predicted.peak_nvme_bytes, ==, bytes);
}

/* Raises the device's budget to what the refusal says would fit, and that does. */
static void plan_within(struct fixture *f, const struct strategy *strategy, uint64_t device_budget,
                        uint64_t host_budget)
{
    struct strategy_job job = {.trace = f->trace,
                               .layout = f->layout,
                               .non_model = f->non_model->extent,
                               .device_budget = device_budget,
                               .host_budget = host_budget,
                               .nvme = strategy->ops->in_nvme ? &nvme_unlimited : NULL,
                               .unclipped = g_test_rand_bit()};
    GError *error = NULL;
    uint64_t needed;
    f->plan = strategy_plan(strategy, &job, &f->placed, &needed, &error);
    if (!f->plan) {
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
        g_assert_null(f->placed);
        g_assert_cmpuint(needed, >, job.device_budget);
        job.device_budget = needed;
        g_clear_error(&error);
        f->plan = strategy_plan(strategy, &job, &f->placed, &needed, &error);
        g_assert_no_error(error);
    }
    g_assert_cmpuint(needed, <=, job.device_budget);
    plan_check(f->plan, f->placed, &error);
    g_assert_no_error(error);
    g_assert_cmpstr(f->plan->made_by, ==, strategy->name);
    if (strategy->ops->in_nvme)
        check_nvme(f);
    non_model_free(f->non_model);
    f->non_model = non_model_place(f->placed);
}

static void plan_from(struct fixture *f, const struct strategy *strategy, uint64_t device_budget)
{
    plan_within(f, strategy, device_budget, UINT64_MAX);
}

static void run_under_any_timing(const struct fixture *f, GRand *random)
{
    struct accesses *accesses = accesses_new(f->placed, f->layout, f->non_model->extent);
    struct adversary *adversary = adversary_new(f->plan, accesses, f->placed, random);
    struct residency *residency = residency_new(f->plan, accesses, f->placed, &adversary_ops,
                                                adversary);
    residency_load(residency);
    adversary_take_figures(adversary);
    for (int i = 0; i < ITERATIONS; i++) {
        for (uint32_t m = 0; m < f->plan->moment_count; m++)
            residency_step(residency, m);
        struct plan_figures figures = adversary_take_figures(adversary);
        check_figures(&figures, &f->plan->predicted);
    }
    g_assert_cmpuint(adversary_finish(adversary), ==, 0);
    residency_free(residency);
    adversary_free(adversary);
    accesses_free(accesses);
}

static void replay_plan(const struct fixture *f)
{
    struct accesses *accesses = accesses_new(f->placed, f->layout, f->non_model->extent);
    struct costs *costs = costs_new(NULL, NULL, NULL);
    struct replay_view view = {f->placed, accesses, costs};
    struct replay_figures figures = replay(f->plan, &view);
    check_figures(&figures.steady, &f->plan->predicted);
    costs_free(costs);
    accesses_free(accesses);
}

static GPtrArray *strategies(void)
{
    return strategy_parse_list(
        "all,twinflow:0,twinflow:1,superoffload:0,interleave:1,interleave:3,gemini-auto:3,"
        "zero-infinity,zero-infinity:1,zero-infinity:5",
        NULL);
}

static void test_random_traces(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    GPtrArray *all = strategies();
    for (int i = 0; i < TRIALS; i++) {
        struct trace *trace = random_iteration(random);
        uint64_t chunk_bytes = 256 * (uint64_t)g_rand_int_range(random, 1, 40);
        uint64_t most = 2 * trace_model_bytes(trace);
        for (guint s = 0; s < all->len; s++) {
            const struct strategy *strategy = g_ptr_array_index(all, s);
            struct fixture f;
            open_fixture(&f, trace, chunk_bytes);
            plan_from(&f, strategy, (uint64_t)(g_rand_double(random) * (double)most));
            run_under_any_timing(&f, random);
            replay_plan(&f);
            close_fixture(&f);
        }
        trace_free(trace);
    }
    g_ptr_array_unref(all);
    g_rand_free(random);
}

static struct trace *synthesise(const char *name, enum model_precision precision,
                                uint32_t micro_batches)
{
    g_autofree char *path = g_strdup_printf(PROJECT_DIR "/models/configs/%s.json", name);
    struct model_config *config = model_config_read(path, NULL);
    struct platform *platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL);
    g_autofree uint8_t *recompute = g_malloc(config->layers);
    memset(recompute, 1, config->layers);
    const struct model_job job = {
        .choices = {.batch = 4, .micro_batches = micro_batches, .recompute = recompute},
        .sequence = 512,
        .precision = precision};
    struct trace *trace = model_synthesise(config, &job, platform, NULL);
    platform_free(platform);
    model_config_free(config);
    return trace;
}

static void check_model(const char *name, enum model_precision precision, uint32_t micro_batches,
                        uint64_t chunk_bytes)
{
    struct trace *trace = synthesise(name, precision, micro_batches);
    GPtrArray *all = strategies();
    for (guint s = 0; s < all->len; s++) {
        struct fixture f;
        open_fixture(&f, trace, chunk_bytes);
        plan_from(&f, g_ptr_array_index(all, s), 0);
        replay_plan(&f);
        close_fixture(&f);
    }
    g_ptr_array_unref(all);
    trace_free(trace);
}

static void test_models(void)
{
    check_model("gpt2", MODEL_BF16, 1, 16 << 20);
    check_model("gpt2-medium", MODEL_FP32, 1, 32 << 20);
    check_model("patrickstar-6b", MODEL_BF16, 2, 256 << 20);
}

static void test_host_memory(void)
{
    GRand *random = g_rand_new_with_seed(1);
    struct trace *trace = random_iteration(random), *placed;
    struct fixture f;
    open_fixture(&f, trace, 4096);
    struct strategy_job job = {.trace = trace,
                               .layout = f.layout,
                               .non_model = f.non_model->extent,
                               .device_budget = UINT64_C(1) << 40,
                               .host_budget = 256};
    GPtrArray *all = strategy_parse_list("zero-offload,fsdp-offload,gemini-auto", NULL);
    for (guint s = 0; s < all->len; s++) {
        GError *error = NULL;
        uint64_t needed;
        g_assert_null(strategy_plan(g_ptr_array_index(all, s), &job, &placed, &needed, &error));
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
        g_assert_true(g_str_has_prefix(error->message, "host memory"));
        g_clear_error(&error);
    }
    g_ptr_array_unref(all);
    close_fixture(&f);
    trace_free(trace);
    g_rand_free(random);
}

/* Without NVMe, or with too little of it or of the host, zero-infinity says so, and what it says
 * fits. */
static void test_nvme_memory(void)
{
    struct trace *trace = synthesise("gpt2", MODEL_BF16, 1), *placed;
    struct fixture f;
    struct nvme_budget budget = nvme_unlimited;
    open_fixture(&f, trace, 16 << 20);
    struct strategy_job job = {.trace = trace,
                               .layout = f.layout,
                               .non_model = f.non_model->extent,
                               .device_budget = UINT64_C(1) << 40,
                               .host_budget = 256};
    GPtrArray *list = strategy_parse_list("zero-infinity:2", NULL);
    static const char *const says[] = {"NVMe: zero-infinity:2 keeps all optimizer states there",
                                       "NVMe: all optimizer states take",
                                       "host memory: with the buffers of optimizer states"};
    for (size_t i = 0; i < G_N_ELEMENTS(says); i++) {
        uint64_t *size = i == 1 ? &budget.nvme_bytes : &budget.host_bytes, needed;
        GError *error = NULL;
        job.nvme = i ? &budget : NULL;
        *size = i ? 4096 : *size;
        g_assert_null(strategy_plan(g_ptr_array_index(list, 0), &job, &placed, &needed, &error));
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
        g_assert_true(g_str_has_prefix(error->message, says[i]));
        const char *fits = strrchr(error->message, ';');
        if (i)
            *size = g_ascii_strtoull(fits + 2, NULL, 10);
        g_clear_error(&error);
    }
    uint64_t needed;
    f.plan = strategy_plan(g_ptr_array_index(list, 0), &job, &f.placed, &needed, NULL);
    g_assert_nonnull(f.plan);
    g_assert_cmpuint(f.plan->host_pool_bytes, <=, budget.host_bytes);
    g_assert_cmpuint(f.plan->nvme_bytes, ==, budget.nvme_bytes);
    g_ptr_array_unref(list);
    close_fixture(&f);
    trace_free(trace);
}

/* Training waits for every copy at once, and a chunk that leaves is copied, unless nothing in it is
 * alive. */
static void check_payloads(const struct plan *plan)
{
    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        bool copies = false, waits = false;
        for (uint32_t i = plan->first_action[m]; i < plan->first_action[m + 1]; i++) {
            uint8_t kind = plan->actions[i].kind;
            copies = copies || kind == PLAN_FETCH || kind == PLAN_WRITE_BACK;
            waits = kind == PLAN_WAIT;
            g_assert_cmpint(kind, !=, PLAN_DROP);
        }
        g_assert_true(waits || !copies);
    }
}

/* What the host cannot hold under PatrickStar stays on the device, and is updated there. */
static void test_overflow(void)
{
    struct trace *trace = synthesise("gpt2", MODEL_BF16, 1);
    uint64_t all_bytes = trace_model_bytes(trace);
    GPtrArray *list = strategy_parse_list("patrickstar", NULL);
    for (uint64_t tenths = 2; tenths <= 10; tenths += 2) {
        struct fixture f;
        uint64_t host_budget = all_bytes * tenths / 10, elements = 0;
        open_fixture(&f, trace, 16 << 20);
        plan_within(&f, g_ptr_array_index(list, 0), 0, host_budget);
        g_assert_cmpuint(f.plan->host_pool_bytes, <=, host_budget);
        for (uint32_t m = 0; m < f.placed->operator_count; m++) {
            const struct trace_operator *op = &f.placed->operators[m];
            if (op->phase == TRACE_UPDATE_PHASE && op->place == TRACE_ON_DEVICE)
                elements += f.placed->tensors[f.placed->accesses[op->first_access].tensor].elements;
        }
        g_assert_cmpuint(14 * elements, >=, all_bytes - host_budget);
        if (tenths == 10)
            g_assert_cmpuint(elements, ==, 0); /* the least device has no margin */
        check_payloads(f.plan);
        replay_plan(&f);
        close_fixture(&f);
    }
    g_ptr_array_unref(list);
    trace_free(trace);
}

/* PatrickStar uses a share of the device, so that the least device memory is in proportion to it.
 */
static void test_usable_share(void)
{
    struct trace *trace = synthesise("gpt2", MODEL_BF16, 1), *placed;
    GPtrArray *list = strategy_parse_list("patrickstar,patrickstar:0.8,patrickstar:0.9", NULL);
    uint64_t needed[3] = {0};
    struct fixture f;
    open_fixture(&f, trace, 16 << 20);
    const struct strategy_job job = {.trace = trace,
                                     .layout = f.layout,
                                     .non_model = f.non_model->extent,
                                     .device_budget = 1,
                                     .host_budget = UINT64_MAX};
    for (guint s = 0; s < list->len; s++)
        g_assert_null(strategy_plan(g_ptr_array_index(list, s), &job, &placed, &needed[s], NULL));
    g_assert_cmpuint(needed[0], ==, needed[1]);
    g_assert_cmpfloat_with_epsilon(0.9 * (double)needed[2], 0.8 * (double)needed[0], 1);
    close_fixture(&f);
    g_ptr_array_unref(list);
    trace_free(trace);
}

/* No chunk holds any of the trace's buffers, so that the test can remove them. */
static struct trace *unheld_iteration(GRand *random)
{
    for (;;) {
        struct trace *trace = random_iteration(random);
        g_autofree uint8_t *held = trace_held_buffers(trace);
        if (!held)
            return trace;
        trace_free(trace);
    }
}

/* Any number of lists and odd sums of non-model data, as in other programs' traces. */
static void test_odd_traces(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    GPtrArray *all = strategies();
    struct trace *trace = unheld_iteration(random), *placed;
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        g_free(trace->buffers[b].name);
    g_clear_pointer(&trace->buffers, g_free);
    trace->buffer_count = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->non_model_bytes[m] += (uint64_t)g_rand_int_range(random, 0, 5000);
    for (guint s = 0; s < all->len; s++) {
        struct fixture f;
        open_fixture(&f, trace, 2048);
        plan_from(&f, g_ptr_array_index(all, s), 12345);
        run_under_any_timing(&f, random);
        close_fixture(&f);
    }
    for (uint32_t a = 0; a < trace->access_count; a++)
        trace->accesses[a].list = MAX(trace->accesses[a].list, TRACE_EXP_AVG);
    trace->list_element_bytes[TRACE_PARAM] = trace->list_element_bytes[TRACE_GRAD] = 0;
    struct fixture f;
    open_fixture(&f, trace, 2048);
    struct strategy_job job = {.trace = trace,
                               .layout = f.layout,
                               .non_model = f.non_model->extent,
                               .device_budget = UINT64_C(1) << 40,
                               .host_budget = UINT64_MAX,
                               .nvme = &nvme_unlimited};
    for (guint s = 0; s < all->len; s++) {
        GError *error = NULL;
        uint64_t needed;
        g_assert_null(strategy_plan(g_ptr_array_index(all, s), &job, &placed, &needed, &error));
        g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
        g_clear_error(&error);
    }
    close_fixture(&f);
    g_ptr_array_unref(all);
    trace_free(trace);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/strategies/plans/random-traces", test_random_traces);
    g_test_add_func("/strategies/plans/models", test_models);
    g_test_add_func("/strategies/plans/host-memory", test_host_memory);
    g_test_add_func("/strategies/plans/nvme-memory", test_nvme_memory);
    g_test_add_func("/strategies/plans/overflow", test_overflow);
    g_test_add_func("/strategies/plans/usable-share", test_usable_share);
    g_test_add_func("/strategies/plans/odd-traces", test_odd_traces);
    return g_test_run();
}
