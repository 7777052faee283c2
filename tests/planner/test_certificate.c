/* Certificates: what is written is read back, every byte of plan and trace is sealed, and bounds
 * are recomputed from their prices. */
#include "models/derive.h"
#include "planner/answers/requests.h"
#include "planner/answers/verify.h"
#include "planner/proof/bound.h"
#include "planner/proof/certificate.h"
#include "planner/proof/prices.h"
#include "planner/schedule/placement.h"
#include "planner/search/search.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>

enum { FLIPS = 200 };
#define CASES draws(UNLESS_SANITIZED(4, 2), 8)

#define LINK "h2d=900MB/s,d2h=700MB/s"

struct fixture {
    char *folder, *trace_path, *plan_path;
    struct trace *traced, *trace; /* with updates where the plan has them */
    struct plan *plan;            /* as it was read back */
};

static struct plan *search_within(const struct trace *trace, const char *share,
                                  uint64_t host_budget, GRand *random, struct trace **placed)
{
    struct costs *costs = costs_new(NULL, LINK, NULL);
    struct search_options options = {
        .host_budget = host_budget, .costs = costs, .seed = g_rand_int(random), .threads = 1};
    g_assert_true(sizes_parse_budget(share, trace, &options.device_budget, NULL));
    struct search_result *result = search_plan(trace, &options, NULL);
    struct plan *plan = result ? g_steal_pointer(&result->plan) : NULL;
    *placed = result ? g_steal_pointer(&result->trace) : NULL;
    search_result_free(result);
    costs_free(costs);
    return plan;
}

static struct plan *search(const struct trace *trace, const char *share, GRand *random,
                           struct trace **placed)
{
    return search_within(trace, share, UINT64_MAX, random, placed);
}

/* Writes a trace and a plan that fits to files. */
static void set_up(struct fixture *f, GRand *random)
{
    struct plan *plan;
    f->folder = g_dir_make_tmp("pstar-certificate-XXXXXX", NULL);
    f->trace_path = g_build_filename(f->folder, "run.pstar", NULL);
    f->plan_path = g_build_filename(f->folder, "plan.json", NULL);
    g_autofree char *share = g_strdup_printf("%d%%", g_rand_int_range(random, 20, 90));
    while (f->traced = random_iteration(random),
           !(plan = search(f->traced, share, random, &f->trace)))
        trace_free(f->traced);
    g_assert_true(trace_write(f->traced, f->trace_path, NULL));
    g_autofree char *hash = certificate_hash_file(f->trace_path, NULL);
    const struct certificate_source source = {
        .objective = "time", .trace_sha256 = hash, .link = LINK, .traced = f->traced};
    g_assert_true(certificate_make(plan, f->trace, &source, NULL));
    g_assert_true(plan_write(plan, f->plan_path, NULL));
    plan_free(plan);
    f->plan = plan_read(f->plan_path, NULL);
    g_assert_nonnull(f->plan);
}

static void tear_down(struct fixture *f)
{
    plan_free(f->plan);
    trace_free(f->trace);
    trace_free(f->traced);
    g_unlink(f->plan_path);
    g_unlink(f->trace_path);
    g_rmdir(f->folder);
    g_free(f->folder);
    g_free(f->plan_path);
    g_free(f->trace_path);
}

/* Verifies as pstar-plan --verify does. */
static bool verify_files(const struct fixture *f, GError **error)
{
    struct plan *plan = plan_read(f->plan_path, error);
    struct trace *traced = plan ? trace_read(f->trace_path, error) : NULL;
    struct trace *trace = traced ? model_place_chosen(traced, plan->choices, NULL, error) : NULL;
    struct costs *costs = costs_new(NULL, NULL, NULL);
    bool ok = trace && verify_plan(plan, trace, costs, NULL, error) && plan->certificate &&
              verify_certificate(plan, f->plan_path, trace, f->trace_path, error);
    costs_free(costs);
    trace_free(trace);
    trace_free(traced);
    plan_free(plan);
    return ok;
}

static void test_what_is_written_is_verified(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        g_autoptr(GError) error = NULL;
        struct fixture f;
        set_up(&f, random);
        verify_files(&f, &error);
        g_assert_no_error(error);
        g_assert_cmpuint(f.plan->certificate->traffic.bound, <=,
                         f.plan->certificate->traffic.achieved);
        g_assert_cmpuint(f.plan->certificate->time.bound, <=, f.plan->certificate->time.achieved);
        tear_down(&f);
    }
}

/* Ends the proof when it has asked so many times. */
static bool count_down(void *data)
{
    int *left = data;
    return (*left)-- > 0;
}

/* A proof that is stopped has bounds that hold, which are no higher than those of a whole one. */
static void test_stopped_proofs_hold(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        g_autofree char *hash = certificate_hash_file(f.trace_path, NULL);
        uint64_t whole = f.plan->certificate->time.bound, before = 0;
        for (int asked = 0; asked < 8; asked = 2 * asked + 1) {
            g_autoptr(GError) error = NULL;
            int left = asked;
            const struct proof_watch watch = {count_down, &left};
            const struct certificate_source source = {.objective = "time",
                                                      .trace_sha256 = hash,
                                                      .link = LINK,
                                                      .traced = f.traced,
                                                      .watch = &watch};
            g_assert_true(certificate_make(f.plan, f.trace, &source, NULL));
            g_assert_cmpuint(f.plan->certificate->time.bound, <=, whole);
            g_assert_cmpuint(f.plan->certificate->time.bound, >=, before);
            before = f.plan->certificate->time.bound;
            g_assert_true(plan_write(f.plan, f.plan_path, NULL));
            verify_files(&f, &error);
            g_assert_no_error(error);
        }
        tear_down(&f);
    }
}

/* Replaces one byte, verifies, and restores the file. */
static void flip(const struct fixture *f, const char *path, GRand *random)
{
    g_autofree char *contents = NULL;
    gsize length;
    g_assert_true(g_file_get_contents(path, &contents, &length, NULL));
    gsize where = (gsize)g_rand_int_range(random, 0, (gint32)length);
    char byte = contents[where];
    contents[where] = (char)(byte ^ g_rand_int_range(random, 1, 256));
    g_assert_true(g_file_set_contents(path, contents, (gssize)length, NULL));
    g_assert_false(verify_files(f, NULL));
    contents[where] = byte;
    g_assert_true(g_file_set_contents(path, contents, (gssize)length, NULL));
}

static void test_changed_bytes_are_caught(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct fixture f;
    set_up(&f, random);
    for (int i = 0; i < FLIPS; i++)
        flip(&f, i % 2 ? f.plan_path : f.trace_path, random);
    g_assert_true(verify_files(&f, NULL));
    tear_down(&f);
}

/* A plan that is sealed again with a wrong figure is refused, because figures are recomputed. */
static void check_refused(const struct fixture *f, uint64_t *figure)
{
    g_autoptr(GError) error = NULL;
    ++*figure;
    g_assert_false(certificate_check(f->plan, f->trace, f->traced, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
    g_clear_error(&error);
    g_assert_true(plan_write(f->plan, f->plan_path, NULL));
    g_assert_false(verify_files(f, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
    --*figure;
}

static void test_figures_are_recomputed(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        check_refused(&f, &f.plan->certificate->traffic.bound);
        check_refused(&f, &f.plan->certificate->traffic.achieved);
        check_refused(&f, &f.plan->certificate->time.bound);
        check_refused(&f, &f.plan->certificate->time.achieved);
        f.plan->predicted.iteration_seconds *= 1 + 1e-6;
        g_assert_true(plan_write(f.plan, f.plan_path, NULL));
        g_assert_false(verify_files(&f, NULL));
        tear_down(&f);
    }
}

static void check_below_bound(struct fixture *f, bool of_time)
{
    struct certificate *certificate = f->plan->certificate;
    g_autoptr(GError) error = NULL;
    const struct plan_figures before = f->plan->predicted;
    uint64_t time = certificate->time.achieved, traffic = certificate->traffic.achieved;
    if (of_time) {
        certificate->time.achieved = certificate->time.bound - 1;
        f->plan->predicted.iteration_seconds = (double)certificate->time.achieved * 1e-9;
    } else {
        certificate->traffic.achieved = certificate->traffic.bound - 1;
        f->plan->predicted.h2d_bytes = certificate->traffic.achieved;
        f->plan->predicted.d2h_bytes = 0;
    }
    g_assert_false(certificate_check(f->plan, f->trace, f->traced, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
    g_assert_nonnull(strstr(error->message, "less than"));
    g_assert_true(plan_write(f->plan, f->plan_path, NULL));
    g_clear_error(&error);
    g_assert_null(plan_read(f->plan_path, &error));
    g_assert_nonnull(strstr(error->message, "lower bound is above"));
    certificate->time.achieved = time;
    certificate->traffic.achieved = traffic;
    f->plan->predicted = before;
}

/* A plan that is better than its bound is refused, although bound and plan are as stated. */
static void test_below_bound(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int below = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        for (int of_time = 0; of_time < 2; of_time++) {
            uint64_t bound = of_time ? f.plan->certificate->time.bound
                                     : f.plan->certificate->traffic.bound;
            if (!bound)
                continue;
            check_below_bound(&f, of_time);
            below++;
        }
        tear_down(&f);
    }
    g_assert_cmpint(below, >, 0);
}

static void add_operator(struct trace *trace, const char *name, enum trace_phase phase,
                         enum trace_place place, uint64_t ms, struct trace_access access)
{
    uint32_t m = trace->operator_count++;
    trace->accesses[m] = access;
    trace->access_count = m + 1;
    trace->operators[m] = (struct trace_operator){.name = g_strdup(name),
                                                  .phase = (uint8_t)phase,
                                                  .place = (uint8_t)place,
                                                  .layer = -1,
                                                  .first_access = m,
                                                  .access_count = 1,
                                                  .duration_ns = ms * 1000000};
}

/* In fp32, of `tensor_count` tensors `elements` long, with room for operators and accesses. */
static struct trace *trace_of(uint32_t tensor_count, uint64_t elements, uint32_t operators,
                              uint32_t accesses)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->producer = g_strdup("a test");
    trace->precision = g_strdup("fp32");
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = trace->list_element_bytes[TRACE_GRAD] = 4;
    trace->tensor_count = tensor_count;
    trace->tensors = g_new0(struct trace_tensor, tensor_count);
    for (uint32_t t = 0; t < tensor_count; t++)
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("t%u", t),
                                                  .elements = elements};
    trace->operators = g_new0(struct trace_operator, operators);
    trace->accesses = g_new0(struct trace_access, accesses);
    return trace;
}

/* The host clears, and may then read, a gradient that the device overwrites in the next iteration.
 * So the device never waits for the host. */
static struct trace *trace_with_dead_writes(bool is_read)
{
    const struct trace_access gradient = {0, TRACE_GRAD, TRACE_OVERWRITE, 0},
                              cleared = {0, TRACE_GRAD, TRACE_UPDATE, 0},
                              read = {0, TRACE_GRAD, TRACE_READ, 0},
                              parameter = {0, TRACE_PARAM, TRACE_READ, 0};
    struct trace *trace = trace_of(1, 1024, 4, 4);
    add_operator(trace, "make", TRACE_FORWARD, TRACE_ON_DEVICE, 1, gradient);
    add_operator(trace, "use", TRACE_BACKWARD, TRACE_ON_DEVICE, 5, parameter);
    add_operator(trace, "clear", TRACE_UPDATE_PHASE, TRACE_ON_HOST, 5, cleared);
    if (is_read)
        add_operator(trace, "look", TRACE_UPDATE_PHASE, TRACE_ON_HOST, 1, read);
    trace_sum_buffers(trace);
    return trace;
}

static void test_dead_writes(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int is_read = 0; is_read < 2; is_read++) {
        g_autoptr(GError) error = NULL;
        struct trace *trace = trace_with_dead_writes(is_read), *placed;
        g_assert_true(trace_check(trace, "the test's", &error));
        struct plan *plan = search(trace, "200%", random, &placed);
        const struct certificate_source source = {
            .objective = "time", .link = LINK, .traced = trace};
        g_assert_true(certificate_make(plan, placed, &source, &error));
        const struct certificate_time *time = &plan->certificate->time;
        g_assert_cmpuint(time->bound, <=, time->achieved);
        g_assert_cmpuint(time->bound, >=, 6000000);
        g_assert_cmpuint(time->achieved, <, 7000000);
        plan_free(plan);
        trace_free(placed);
        trace_free(trace);
    }
}

/* The device waits for the host: nothing overlaps, from the gradient over the update to the
 * parameter. */
static struct trace *trace_with_chain(void)
{
    const struct trace_access read = {0, TRACE_PARAM, TRACE_READ, 0},
                              made = {0, TRACE_GRAD, TRACE_OVERWRITE, 0},
                              updated = {0, TRACE_PARAM, TRACE_UPDATE, 0};
    struct trace *trace = trace_of(1, 1000000, 3, 4);
    add_operator(trace, "use", TRACE_FORWARD, TRACE_ON_DEVICE, 1, read);
    add_operator(trace, "make", TRACE_BACKWARD, TRACE_ON_DEVICE, 2, made);
    add_operator(trace, "update", TRACE_UPDATE_PHASE, TRACE_ON_HOST, 5, updated);
    trace->accesses[trace->access_count++] = (struct trace_access){0, TRACE_GRAD, TRACE_READ, 0};
    trace->operators[2].access_count = 2;
    trace_sum_buffers(trace);
    return trace;
}

static void test_chains(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_chain(), *placed;
    g_assert_true(trace_check(trace, "the test's", &error));
    struct plan *plan = search(trace, "200%", random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    struct certificate_time *time = &plan->certificate->time;
    /* 1 + 2 + 5 ms, and 4 MB each way, but for the padding of chunks. */
    g_assert_cmpuint(time->achieved, >=, 18158000);
    g_assert_cmpuint(time->bound, <=, time->achieved);
    g_assert_cmpuint(time->bound, >=, time->achieved - time->achieved / 1000);
    g_assert_cmpuint(time->cases[0].prices.chain_count, >, 0);
    g_assert_true(certificate_check(plan, placed, trace, &error));

    struct certificate_chain *chain = &time->cases[0].prices.chains[0];
    const struct certificate_chain before = *chain;
    for (int change = 0; change < 5; change++) {
        uint32_t *const moments[] = {&chain->from, &chain->first, &chain->last, &chain->to};
        if (change < 4)
            *moments[change] += 1000;
        else
            chain->price++;
        g_assert_false(certificate_check(plan, placed, trace, &error));
        g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
        g_clear_error(&error);
        *chain = before;
    }
    time->case_count = 2; /* but updates stay where they are */
    g_assert_false(certificate_check(plan, placed, trace, &error));
    g_clear_error(&error);
    time->case_count = 1;
    time->cases[0].prices.windows[1].begins = WINDOW_AFTER_UPDATE; /* of none */
    g_assert_false(certificate_check(plan, placed, trace, &error));
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

/* The device updates two tensors, and has room for one of them. */
static struct trace *trace_with_large_updates(void)
{
    const struct trace_access read = {0, TRACE_PARAM, TRACE_READ, 0},
                              first = {0, TRACE_PARAM, TRACE_UPDATE, 0},
                              second = {1, TRACE_PARAM, TRACE_UPDATE, 0};
    struct trace *trace = trace_of(2, 1000000, 3, 3);
    trace->list_element_bytes[TRACE_GRAD] = 0;
    add_operator(trace, "use", TRACE_FORWARD, TRACE_ON_DEVICE, 1, read);
    add_operator(trace, "update t0", TRACE_UPDATE_PHASE, TRACE_ON_DEVICE, 5, first);
    add_operator(trace, "update t1", TRACE_UPDATE_PHASE, TRACE_ON_DEVICE, 5, second);
    trace_sum_buffers(trace);
    return trace;
}

/* Between two updates one tensor leaves and the other one comes. Neither overlaps an update. */
static void test_large_updates(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_large_updates(), *placed;
    g_assert_true(trace_check(trace, "the test's", &error));
    struct plan *plan = search(trace, "51%", random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    const struct certificate_time *time = &plan->certificate->time;
    /* 1 + 5 + 5 ms, and nearly twice the 4 MB to the host: 2 % of a tensor may stay. */
    g_assert_cmpuint(time->bound, <=, time->achieved);
    g_assert_cmpuint(time->bound, >=, 22000000);
    g_assert_true(certificate_check(plan, placed, trace, &error));
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

/* The device uses two tensors of 4 MB in turn for 10 ms each, and the host updates one of them. */
static struct trace *trace_with_long_uses(void)
{
    const struct trace_access first = {0, TRACE_PARAM, TRACE_READ, 0},
                              second = {1, TRACE_PARAM, TRACE_READ, 0},
                              updated = {1, TRACE_PARAM, TRACE_UPDATE, 0};
    struct trace *trace = trace_of(2, 1000000, 3, 3);
    trace->list_element_bytes[TRACE_GRAD] = 0;
    add_operator(trace, "use t0", TRACE_FORWARD, TRACE_ON_DEVICE, 10, first);
    add_operator(trace, "use t1", TRACE_BACKWARD, TRACE_ON_DEVICE, 10, second);
    add_operator(trace, "update t1", TRACE_UPDATE_PHASE, TRACE_ON_HOST, 1, updated);
    trace_sum_buffers(trace);
    return trace;
}

/* Returns the bound of a plan whose updates stay, from windows that begin with operators and, with
 * `ends`, after them. */
static uint64_t bound_with(const struct plan *plan, const struct trace *trace, uint32_t ends)
{
    struct costs *costs = costs_new(NULL, LINK, NULL);
    struct reuses *reuses = bound_reuses(trace, plan);
    struct time_job job = {.plan = plan, .sides = {trace}, .costs = costs};
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(struct window_start));
    time_job_set_order(&job, trace);
    time_windows_choose(trace, reuses, TIME_WINDOWS_MOST, starts);
    time_windows_choose_ends(&job, ends, starts);
    struct time_model *model = time_model_new(
        &job, reuses, (const struct window_start *)(void *)starts->data, starts->len);
    uint64_t host_bytes;
    g_autofree struct certificate_window *windows =
        time_prices_find(model, TIME_PRICES_CLOSE, UINT64_MAX, NULL, &host_bytes, NULL, true);
    uint64_t bound = time_model_bound_ns(model,
                                         &(struct time_prices){windows, NULL, 0, host_bytes});
    time_model_free(model);
    reuses_free(reuses);
    costs_free(costs);
    return bound;
}

/* While the device uses one tensor it has no room for the other one, which thus comes between the
 * operators. A copy that could be part of it, beside an operator, is not. */
static void test_room_beside_operators(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_long_uses(), *placed;
    g_assert_true(trace_check(trace, "the test's", &error));
    struct plan *plan = search(trace, "51%", random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    struct certificate_time *time = &plan->certificate->time;
    /* 10 + 10 ms, and nearly twice the 4 MB to the device; without windows after operators, the
     * second of them overlaps the first operator. */
    g_assert_cmpuint(time->bound, <=, time->achieved);
    g_assert_cmpuint(time->bound, >=, 28000000);
    g_assert_cmpuint(bound_with(plan, placed, 2), >=, 28000000);
    g_assert_cmpuint(bound_with(plan, placed, 0), <, 25000000);
    g_assert_true(certificate_check(plan, placed, trace, &error));
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

/* A window may begin after an operator of the device's forward and backward, but not the first
 * one, and not where threads share cores. */
static void test_windows_after_operators(void)
{
    struct trace *trace = trace_with_long_uses();
    struct costs *costs = costs_new(NULL, LINK, NULL);
    const struct time_job job = {.sides = {trace}, .costs = costs, .in_order = true};
    struct window_start starts[] = {{0, WINDOW_AT_OPERATOR},
                                    {0, WINDOW_AFTER_OPERATOR},
                                    {1, WINDOW_AT_OPERATOR},
                                    {1, WINDOW_AFTER_OPERATOR},
                                    {2, WINDOW_AT_OPERATOR}};
    g_assert_true(time_job_may_begin(&job, starts, 5));
    g_assert_false(time_job_may_begin(&job, starts + 1, 4)); /* the first one */
    starts[4].begins = WINDOW_AFTER_OPERATOR;                /* of the host */
    g_assert_false(time_job_may_begin(&job, starts, 5));
    trace->operators[2].place = TRACE_ON_DEVICE; /* an update */
    g_assert_false(time_job_may_begin(&job, starts, 5));
    g_assert_true(time_job_may_begin(&job, starts, 4));
    trace->operators[1].exchange[TRACE_REDUCE].sent_bytes = 1;
    g_assert_false(time_job_may_begin(&job, starts, 4));
    g_assert_true(time_job_may_begin(&job, starts, 2));
    costs->threads.known = true;
    g_assert_false(time_job_may_begin(&job, starts, 2));
    g_assert_true(time_job_may_begin(&job, starts, 1));
    costs_free(costs);
    trace_free(trace);
}

/* The device uses `tensors` tensors of 4 MB in turn, `rounds` times, and then as many others. */
static struct trace *trace_with_turns(uint32_t tensors, uint32_t rounds, uint32_t phases)
{
    uint32_t uses = tensors * rounds;
    struct trace *trace = trace_of(phases * tensors, 1000000, phases * uses, phases * uses);
    trace->list_element_bytes[TRACE_GRAD] = 0;
    for (uint32_t i = 0; i < phases * uses; i++)
        add_operator(
            trace, "use", TRACE_FORWARD, TRACE_ON_DEVICE, 1,
            (struct trace_access){i / uses * tensors + i % tensors, TRACE_PARAM, TRACE_READ, 0});
    trace_sum_buffers(trace);
    return trace;
}

/* The device has room for two and a half of three tensors. Beside the tensor that is used, one
 * other stays, and not one and a half. */
static void test_whole_units(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_turns(3, 1, 1), *placed;
    g_assert_true(trace_check(trace, "the test's", &error));
    struct plan *plan = search(trace, "84%", random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    struct certificate_time *time = &plan->certificate->time;
    g_assert_cmpuint(plan->predicted.h2d_bytes, >=, 8000000);
    g_assert_cmpuint(10 * time->bound, >=, 6 * time->achieved);
    g_assert_true(certificate_check(plan, placed, trace, &error));

    struct certificate_window *priced = NULL;
    for (uint32_t w = 0; w < time->cases[0].prices.window_count; w++)
        if (time->cases[0].prices.windows[w].whole)
            priced = &time->cases[0].prices.windows[w];
    g_assert_nonnull(priced);
    uint64_t *const numbers[] = {&priced->unit, &priced->whole};
    for (size_t i = 0; i < G_N_ELEMENTS(numbers); i++) {
        uint64_t before = *numbers[i];
        *numbers[i] = before / 2;
        g_assert_false(certificate_check(plan, placed, trace, &error));
        g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
        g_clear_error(&error);
        *numbers[i] = before;
    }
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

/* The device has room for four of eight tensors, and uses four of them again and again, then the
 * other four. If the host has room for five only, three never leave the device, so that not all of
 * those that it uses fit. */
static void test_memory_of_the_host(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct trace *trace = trace_with_turns(4, 5, 2), *placed;
    struct plan *plan = search_within(trace, "50%", 20000000, random, &placed);
    const struct certificate_source source = {.objective = "time", .link = LINK, .traced = trace};
    g_assert_true(certificate_make(plan, placed, &source, &error));
    struct certificate_time *time = &plan->certificate->time;
    uint64_t *price = &time->cases[0].prices.host_bytes;
    g_assert_cmpuint(plan->predicted.h2d_bytes, >, 32000000);  /* eight fetches */
    g_assert_cmpuint(3 * time->bound, >=, 2 * time->achieved); /* without the price, not half */
    g_assert_cmpuint(*price, >, 0);
    g_assert_true(certificate_check(plan, placed, trace, &error));

    for (int half = 0; half < 2; half++) {
        uint64_t before = *price, budget = plan->host_budget;
        *price = half ? before / 2 : before;
        plan->host_budget = half ? budget : UINT64_MAX;
        g_assert_false(certificate_check(plan, placed, trace, &error));
        g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
        g_clear_error(&error);
        *price = before;
        plan->host_budget = budget;
    }
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
}

static void test_cases_are_read_back(void)
{
    struct certificate_window windows[] = {
        {.moment = 1, .h2d = 5},
        {.moment = 2, .begins = WINDOW_AFTER_UPDATE, .unit = 8, .whole = 9}};
    struct certificate_chain chain = {1, 2, 3, 4, 5};
    struct certificate certificate = {
        .time = {.case_count = 3,
                 .cases = {{{windows, 2, NULL, 0, 6}, {7}, 1, 0},
                           {{windows, 1, &chain, 1, 0}, {7, 5}, 2, 1},
                           {{windows, 1, NULL, 0, 0}, {7, 5}, 2, 3}}}};
    const char *reason = NULL;
    json_t *json = certificate_to_json(&certificate);
    struct certificate *read = certificate_from_json(json, 1, &reason);
    g_assert_null(reason);
    g_assert_cmpuint(read->time.case_count, ==, 3);
    g_assert_cmpuint(read->time.cases[2].branch_count, ==, 2);
    g_assert_cmpuint(read->time.cases[2].branches[1], ==, 5);
    g_assert_cmpuint(read->time.cases[2].on_host, ==, 3);
    g_assert_cmpuint(read->time.cases[0].prices.window_count, ==, 2);
    g_assert_cmpuint(read->time.cases[0].prices.windows[0].h2d, ==, 5);
    g_assert_cmpuint(read->time.cases[0].prices.windows[1].begins, ==, WINDOW_AFTER_UPDATE);
    g_assert_cmpuint(read->time.cases[0].prices.windows[0].unit, ==, 0);
    g_assert_cmpuint(read->time.cases[0].prices.windows[1].unit, ==, 8);
    g_assert_cmpuint(read->time.cases[0].prices.windows[1].whole, ==, 9);
    g_assert_cmpuint(read->time.cases[0].prices.chain_count, ==, 0);
    g_assert_cmpuint(read->time.cases[0].prices.host_bytes, ==, 6);
    g_assert_cmpuint(read->time.cases[1].prices.window_count, ==, 1);
    g_assert_cmpuint(read->time.cases[1].prices.chains[0].to, ==, 4);
    certificate_free(read);
    json_array_remove(json_object_get(json_object_get(json, "time"), "cases"), 1);
    g_assert_null(certificate_from_json(json, 1, &reason));
    g_assert_nonnull(strstr(reason, "cases"));
    json_decref(json);
}

static void set_case(struct certificate_time *time, uint32_t i, const char *path)
{
    struct certificate_case *of_case = &time->cases[i];
    *of_case = (struct certificate_case){0};
    for (; *path; path += 2) { /* a digit of a group, and + for the host or - for the device */
        of_case->on_host |= (uint32_t)(path[1] == '+') << of_case->branch_count;
        of_case->branches[of_case->branch_count++] = (uint32_t)(path[0] - '0');
    }
}

/* Cases that leave out a side, have one twice, divide by a group twice or by none of the layout, or
 * are no tree, prove nothing. */
static void test_cases_cover_all_sides(void)
{
    static const struct {
        const char *cases[5];
        bool cover;
    } trees[] = {
        {{""}, true},
        {{"1-", "1+"}, true},
        {{"1-2-", "1-2+", "1+"}, true},
        {{"1-", "1+2-3-", "1+2-3+", "1+2+"}, true},
        {{"1-2-", "1-2+", "1+3-", "1+3+"}, true},
        {{"1-"}, false},
        {{"1+", "1-"}, false},
        {{"1-", "1-"}, false},
        {{"1-", "1+", "1+"}, false},
        {{"1-", "2+"}, false},
        {{"1-2-", "1-2+"}, false},
        {{"1-2-", "1-3+", "1+"}, false},
        {{"1-2-", "1+2+"}, false},
        {{"1-1-", "1-1+", "1+"}, false},
        {{"1-2-", "1+", "1-2+"}, false},
        {{"", "1+"}, false},
        {{"8-", "8+"}, false},
    };
    struct certificate_time time = {0};
    g_assert_false(certificate_covers_all(&time, 8));
    for (size_t t = 0; t < G_N_ELEMENTS(trees); t++) {
        time.case_count = 0;
        for (; time.case_count < 5 && trees[t].cases[time.case_count]; time.case_count++)
            set_case(&time, time.case_count, trees[t].cases[time.case_count]);
        g_test_message("tree %zu", t);
        g_assert_cmpint(certificate_covers_all(&time, 8), ==, trees[t].cover);
    }
}

/* A plan that does not verify when it was found is not written. */
static void test_faults_are_not_written(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_autoptr(GError) error = NULL;
    struct fixture f;
    set_up(&f, random);
    struct costs *costs = costs_new(NULL, LINK, NULL);
    const struct search_options options = {.device_budget = f.plan->device_budget,
                                           .host_budget = UINT64_MAX,
                                           .costs = costs,
                                           .threads = 1};
    const struct plan_paths paths = {.plan = f.plan_path, .trace = f.trace_path, .link = LINK};
    struct variants_result *result = variants_search(f.traced, &options, 0, NULL);
    g_assert_nonnull(result);
    g_assert_cmpint(g_unlink(f.plan_path), ==, 0);
    result->best->plan->predicted.evictions++;
    g_assert_false(request_write(&paths, f.traced, &options, result, &error));
    g_assert_true(g_error_matches(error, PLAN_ERROR, PLAN_ERROR_INVALID));
    g_assert_nonnull(strstr(error->message, "fault of pstar"));
    g_assert_false(g_file_test(f.plan_path, G_FILE_TEST_EXISTS));
    g_clear_error(&error);
    result->best->plan->predicted.evictions--;
    request_write(&paths, f.traced, &options, result, &error);
    g_assert_no_error(error);
    g_assert_true(verify_files(&f, NULL));
    variants_result_free(result);
    costs_free(costs);
    tear_down(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/certificate/what_is_written_is_verified", test_what_is_written_is_verified);
    g_test_add_func("/certificate/stopped_proofs_hold", test_stopped_proofs_hold);
    g_test_add_func("/certificate/changed_bytes_are_caught", test_changed_bytes_are_caught);
    g_test_add_func("/certificate/figures_are_recomputed", test_figures_are_recomputed);
    g_test_add_func("/certificate/below_bound", test_below_bound);
    g_test_add_func("/certificate/dead_writes", test_dead_writes);
    g_test_add_func("/certificate/chains", test_chains);
    g_test_add_func("/certificate/room_beside_operators", test_room_beside_operators);
    g_test_add_func("/certificate/windows_after_operators", test_windows_after_operators);
    g_test_add_func("/certificate/large_updates", test_large_updates);
    g_test_add_func("/certificate/whole_units", test_whole_units);
    g_test_add_func("/certificate/memory_of_the_host", test_memory_of_the_host);
    g_test_add_func("/certificate/cases_are_read_back", test_cases_are_read_back);
    g_test_add_func("/certificate/cases-cover-all-sides", test_cases_cover_all_sides);
    g_test_add_func("/certificate/faults_are_not_written", test_faults_are_not_written);
    return g_test_run();
}
