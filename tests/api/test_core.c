/* pstar.h without the simulator and the planner: this program links neither. */
#include <glib.h>
#include <glib/gstdio.h>
#include <pstar.h>
#include <string.h>

#define MODEL PROJECT_DIR "/models/configs/demo-11m.json"

static const struct pstar_job job = {.model = MODEL, .batch = 1, .sequence = 32};

static struct pstar_trace *synthesise(void)
{
    struct pstar_error error = {0};
    struct pstar_trace *trace = pstar_trace_synthesise(&job, NULL, &error);
    g_assert_cmpstr(error.message, ==, "");
    g_assert_nonnull(trace);
    return trace;
}

static struct pstar_budgets half_of(const struct pstar_trace *trace,
                                    const struct pstar_layout *layout)
{
    return (struct pstar_budgets){pstar_layout_least_arena_bytes(layout, trace) +
                                      pstar_trace_model_bytes(trace) / 4,
                                  PSTAR_UNLIMITED};
}

static double figure_of(const struct pstar_plan *plan, const char *name)
{
    double value = -1;
    g_assert_true(pstar_plan_figure(plan, name, &value));
    return value;
}

static void test_sizes(void)
{
    struct pstar_error error;
    uint64_t bytes = 0;
    char text[16];
    g_assert_true(pstar_size_parse("1.5GiB", &bytes, &error));
    g_assert_cmpuint(bytes, ==, 3u << 29);
    g_assert_cmpstr(pstar_size_format(bytes, text, sizeof text), ==, "1.50 GiB");
    g_assert_false(pstar_size_parse("many", &bytes, &error));
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
    g_assert_false(pstar_size_parse("many", &bytes, NULL));
    g_assert_cmpstr(pstar_version(), !=, "");
}

static void test_platform(void)
{
    struct pstar_error error;
    struct pstar_platform *platform = pstar_platform_read(PROJECT_DIR "/platforms/a100-40gb.json",
                                                          &error);
    g_assert_cmpuint(pstar_platform_device_capacity(platform), >, UINT64_C(1) << 35);
    g_assert_cmpuint(pstar_platform_host_capacity(platform), >, 0);
    struct pstar_trace *trace = pstar_trace_synthesise(&job, platform, &error);
    g_assert_cmpfloat(pstar_trace_operator(trace, 0).seconds, >, 0);
    pstar_trace_free(trace);
    pstar_platform_free(platform);
    g_assert_null(pstar_platform_read("missing.json", &error));
    g_assert_nonnull(strstr(error.message, "missing.json"));
}

static void test_trace(void)
{
    struct pstar_error error;
    struct pstar_trace *trace = synthesise();
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "pstar-api.pstar", NULL);
    uint32_t moments = pstar_trace_moments(trace), writes = 0;
    for (uint32_t m = 0; m < moments; m++) {
        struct pstar_operator op = pstar_trace_operator(trace, m);
        g_assert_nonnull(op.name);
        g_assert_cmpfloat(op.seconds, ==, 0);
        for (uint32_t i = 0; i < op.access_count; i++) {
            struct pstar_access access = pstar_trace_access(trace, m, i);
            g_assert_true(access.reads || access.writes);
            g_assert_cmpuint(access.tensor, <, pstar_trace_tensors(trace));
            g_assert_nonnull(pstar_trace_tensor_name(trace, access.tensor));
            writes += access.writes;
        }
    }
    g_assert_cmpuint(writes, >, pstar_trace_tensors(trace));
    g_assert_cmpuint(pstar_trace_non_model_bytes(trace), >, 0);

    g_assert_true(pstar_trace_write(trace, path, &error));
    struct pstar_trace *back = pstar_trace_read(path, &error);
    g_assert_cmpuint(pstar_trace_moments(back), ==, moments);
    g_assert_cmpuint(pstar_trace_model_bytes(back), ==, pstar_trace_model_bytes(trace));
    pstar_trace_free(back);
    pstar_trace_free(trace);
    g_unlink(path);
    g_assert_null(pstar_trace_read(path, &error));
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
}

static void test_refused_jobs(void)
{
    const struct pstar_job refused[] = {
        {.model = "missing.json", .batch = 1, .sequence = 32},
        {.model = MODEL, .batch = 0, .sequence = 32},
        {.model = MODEL, .batch = 1, .sequence = 1 << 20},
        {.model = MODEL, .batch = 1, .sequence = 32, .precision = "fp8"},
        {.model = MODEL, .batch = 1, .sequence = 32, .recompute = "some"},
        {.model = MODEL, .batch = 1, .sequence = 32, .bytes_per_parameter = 13},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        struct pstar_error error = {0};
        g_assert_null(pstar_trace_synthesise(&refused[i], NULL, &error));
        g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
        g_assert_cmpstr(error.message, !=, "");
    }
}

static void test_layout(void)
{
    struct pstar_error error;
    struct pstar_trace *trace = synthesise();
    struct pstar_layout *layout = pstar_layout_pack(trace, 1 << 20, &error);
    uint64_t all = 0, offset;
    uint32_t chunk;
    for (uint32_t c = 0; c < pstar_layout_chunks(layout); c++) {
        struct pstar_chunk found = pstar_layout_chunk(layout, c);
        g_assert_cmpuint(found.copy_bytes, <=, found.slot_bytes);
        all += found.copy_bytes;
    }
    g_assert_cmpuint(all, >=, pstar_trace_model_bytes(trace));
    for (uint32_t t = 0; t < pstar_trace_tensors(trace); t++) {
        g_assert_true(pstar_layout_find(layout, "param", t, 0, &chunk, &offset));
        g_assert_cmpstr(pstar_layout_chunk(layout, chunk).list, ==, "param");
        g_assert_cmpuint(offset, <, pstar_layout_chunk(layout, chunk).copy_bytes);
    }
    g_assert_false(pstar_layout_find(layout, "momentum", 0, 0, &chunk, &offset));
    g_assert_false(pstar_layout_find(layout, "activation", 0, 0, &chunk, &offset));
    pstar_layout_free(layout);
    g_assert_null(pstar_layout_pack(trace, 1000, &error));
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
    pstar_trace_free(trace);
}

static void test_policies(void)
{
    struct pstar_error error;
    uint32_t count = 0;
    while (pstar_policy_at(count)) {
        const struct pstar_policy_ops *policy = pstar_policy_at(count++);
        g_assert_true(pstar_policy_find(policy->name, &error) == policy);
    }
    g_assert_cmpuint(count, >=, 11);
    g_assert_null(pstar_policy_at(1000));
    g_assert_null(pstar_policy_find("mru", &error));
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
}

static void test_figures(void)
{
    struct pstar_figure figure;
    uint32_t count = 0, peaks = 0;
    for (; pstar_figure_at(count, &figure); count++) {
        peaks += figure.peak;
        g_assert_true(g_str_has_suffix(figure.name, "_seconds") ==
                      (strcmp(figure.unit, "seconds") == 0));
    }
    g_assert_cmpuint(count, >=, 12);
    g_assert_cmpuint(peaks, ==, 4);
    g_assert_false(pstar_figure_at(1000, &figure));
}

/* ---- execution ---- */

/* Counts what moves, and checks that chunks are where the plan has them. */
struct counting {
    const struct pstar_plan *plan;
    uint8_t *there; /* [chunk_count] */
    double h2d_bytes, d2h_bytes, evictions, moves;
    uint64_t next_ticket;
    uint32_t operators;
};

static pstar_ticket count_fetch(void *self, const struct pstar_copy *copy,
                                const struct pstar_after *after)
{
    struct counting *c = self;
    (void)after;
    g_assert_false(c->there[copy->chunk]);
    g_assert_cmpuint(copy->host_address, ==, pstar_plan_host_address(c->plan, copy->chunk));
    g_assert_cmpuint(copy->device_address + copy->slot_bytes, <=, pstar_plan_arena_bytes(c->plan));
    c->there[copy->chunk] = 1;
    c->h2d_bytes += (double)copy->copy_bytes;
    return ++c->next_ticket;
}

static pstar_ticket count_write_back(void *self, const struct pstar_copy *copy, bool leaves,
                                     const struct pstar_after *after)
{
    struct counting *c = self;
    (void)after;
    g_assert_true(c->there[copy->chunk]);
    c->there[copy->chunk] = !leaves;
    c->evictions += leaves;
    c->d2h_bytes += (double)copy->copy_bytes;
    return ++c->next_ticket;
}

static void count_allocate(void *self, const struct pstar_copy *copy)
{
    struct counting *c = self;
    g_assert_false(c->there[copy->chunk]);
    c->there[copy->chunk] = 1;
}

static void count_drop(void *self, uint32_t chunk)
{
    struct counting *c = self;
    g_assert_true(c->there[chunk]);
    c->there[chunk] = 0;
    c->evictions++;
}

static pstar_ticket count_move(void *self, const struct pstar_copy *to, uint64_t from,
                               const struct pstar_after *after)
{
    struct counting *c = self;
    (void)after;
    g_assert_true(c->there[to->chunk]);
    g_assert_cmpuint(to->device_address, !=, from);
    c->moves++;
    return ++c->next_ticket;
}

static pstar_ticket count_run(void *self, uint32_t moment, const struct pstar_after *after,
                              pstar_ticket *received)
{
    struct counting *c = self;
    (void)moment;
    (void)received;
    for (int q = 0; q < PSTAR_QUEUES; q++)
        g_assert_cmpuint(after->queue[q], <=, c->next_ticket);
    c->operators++;
    return ++c->next_ticket;
}

static const struct pstar_mover counting_mover = {
    .fetch = count_fetch,
    .write_back = count_write_back,
    .allocate = count_allocate,
    .drop = count_drop,
    .move = count_move,
    .run = count_run,
};

/* Every operator finds its chunks on its own side. */
static void check_there(const struct pstar_execution *execution, const struct counting *counting,
                        const struct pstar_trace *trace, uint32_t moment)
{
    struct pstar_operator op = pstar_trace_operator(trace, moment);
    for (uint32_t i = 0; i < op.access_count && !op.on_host; i++) {
        struct pstar_access access = pstar_trace_access(trace, moment, i);
        uint32_t chunk;
        uint64_t offset;
        g_assert_true(pstar_layout_find(pstar_plan_layout(counting->plan), access.list,
                                        access.tensor, access.block, &chunk, &offset));
        g_assert_true(counting->there[chunk] ||
                      moment + 1 == pstar_trace_moments(trace)); /* the end's actions follow */
        g_assert_true(!counting->there[chunk] ||
                      pstar_execution_address(execution, chunk) != PSTAR_NO_ADDRESS);
    }
}

static void execute(const struct pstar_plan *plan, const struct pstar_trace *trace)
{
    struct pstar_error error;
    uint32_t chunks = pstar_layout_chunks(pstar_plan_layout(plan));
    struct counting counting = {.plan = plan, .there = g_new0(uint8_t, chunks)};
    struct pstar_execution *execution = pstar_execution_new(plan, trace, &counting_mover, &counting,
                                                            &error);
    for (uint32_t c = 0; c < chunks; c++)
        if (pstar_plan_host_address(plan, c) == PSTAR_NO_ADDRESS)
            counting.there[c] = pstar_plan_initial_address(plan, c) != PSTAR_NO_ADDRESS;
    pstar_execution_load(execution);
    for (int iteration = 0; iteration < 3; iteration++) {
        counting.h2d_bytes = counting.d2h_bytes = counting.evictions = counting.moves = 0;
        counting.operators = 0;
        for (uint32_t m = 0; m < pstar_trace_moments(trace); m++) {
            pstar_execution_step(execution, m);
            check_there(execution, &counting, trace, m);
        }
        g_assert_cmpuint(counting.operators, ==, pstar_trace_moments(trace));
        g_assert_cmpfloat(counting.h2d_bytes, ==, figure_of(plan, "h2d_bytes"));
        g_assert_cmpfloat(counting.d2h_bytes, ==, figure_of(plan, "d2h_bytes"));
        g_assert_cmpfloat(counting.evictions, ==, figure_of(plan, "evictions"));
        g_assert_cmpfloat(counting.moves, ==, figure_of(plan, "moves"));
    }
    pstar_execution_flush(execution);
    pstar_execution_free(execution);
    g_free(counting.there);
}

static void check_actions(const struct pstar_plan *plan, const struct pstar_trace *trace)
{
    double fetches = 0;
    for (uint32_t m = 0; m <= pstar_trace_moments(trace); m++)
        for (uint32_t i = 0; i < pstar_plan_actions(plan, m); i++)
            fetches += strcmp(pstar_plan_action(plan, m, i).kind, "fetch") == 0;
    g_assert_cmpfloat(fetches, ==, figure_of(plan, "h2d_copies"));
}

static void test_plans(void)
{
    struct pstar_error error;
    struct pstar_trace *trace = synthesise();
    struct pstar_layout *layout = pstar_layout_pack(trace, 1 << 20, &error);
    struct pstar_budgets budgets = half_of(trace, layout);
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "pstar-api-core.json", NULL);
    double value;
    for (uint32_t ahead = 0; ahead <= 2; ahead += 2) {
        struct pstar_plan *plan = pstar_plan_from_policy(trace, layout, pstar_policy_at(0),
                                                         &budgets, ahead, &error);
        g_assert_true(pstar_plan_check(plan, trace, &error));
        g_assert_cmpuint(pstar_plan_arena_bytes(plan), <=, budgets.device);
        g_assert_cmpfloat(figure_of(plan, "peak_host_bytes"), ==,
                          (double)pstar_plan_host_pool_bytes(plan));
        g_assert_cmpfloat(figure_of(plan, "h2d_bytes"), >, 0);
        g_assert_cmpfloat(figure_of(plan, "iteration_seconds"), ==, 0);
        g_assert_false(pstar_plan_figure(plan, "h2d", &value));
        check_actions(plan, trace);
        execute(plan, trace);

        g_assert_true(pstar_plan_write(plan, path, &error));
        struct pstar_plan *back = pstar_plan_read(path, &error);
        g_assert_true(pstar_plan_check(back, trace, &error));
        execute(back, trace);
        pstar_plan_free(back);
        pstar_plan_free(plan);
    }
    budgets.device = 1000;
    g_assert_null(pstar_plan_from_policy(trace, layout, pstar_policy_at(0), &budgets, 0, &error));
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_DOES_NOT_FIT);
    g_unlink(path);
    g_assert_null(pstar_plan_read(path, &error));
    pstar_layout_free(layout);
    pstar_trace_free(trace);
}

static void test_strategies(void)
{
    struct pstar_error error;
    struct pstar_trace *trace = synthesise(), *planned = NULL;
    struct pstar_layout *layout = pstar_layout_pack(trace, 1 << 20, &error);
    struct pstar_budgets budgets = {UINT64_C(1) << 32, PSTAR_UNLIMITED};
    struct pstar_plan *plan = pstar_plan_from_strategy(trace, layout, "zero-offload", &budgets,
                                                       NULL, &planned, &error);
    g_assert_true(pstar_plan_check(plan, planned, &error));
    g_assert_false(pstar_plan_check(plan, trace, &error)); /* its updates are on the device */
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
    execute(plan, planned);
    struct pstar_trace *again = pstar_plan_trace(plan, trace, &error);
    g_assert_true(pstar_plan_check(plan, again, &error));
    pstar_trace_free(again);
    pstar_plan_free(plan);
    pstar_trace_free(planned);
    budgets.device = 1000;
    g_assert_null(
        pstar_plan_from_strategy(trace, layout, "resident", &budgets, NULL, &planned, &error));
    g_assert_null(planned);
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_DOES_NOT_FIT);
    g_assert_null(pstar_plan_from_strategy(trace, layout, "all", &budgets, NULL, &planned, &error));
    g_assert_cmpint(error.kind, ==, PSTAR_ERROR_INPUT);
    pstar_layout_free(layout);
    pstar_trace_free(trace);
}

static void test_null(void)
{
    pstar_trace_free(NULL);
    pstar_platform_free(NULL);
    pstar_layout_free(NULL);
    pstar_plan_free(NULL);
    pstar_execution_free(NULL);
    g_assert_null(pstar_plan_read("missing.json", NULL));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/core/sizes", test_sizes);
    g_test_add_func("/core/platform", test_platform);
    g_test_add_func("/core/trace", test_trace);
    g_test_add_func("/core/refused-jobs", test_refused_jobs);
    g_test_add_func("/core/layout", test_layout);
    g_test_add_func("/core/policies", test_policies);
    g_test_add_func("/core/figures", test_figures);
    g_test_add_func("/core/plans", test_plans);
    g_test_add_func("/core/strategies", test_strategies);
    g_test_add_func("/core/null", test_null);
    return g_test_run();
}
