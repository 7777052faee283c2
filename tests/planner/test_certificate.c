/* Certificates: what is written is read back, every byte of plan and trace is sealed, and bounds
 * are recomputed from their prices. test_counted_bounds.c has bounds that are counted by hand. */
#include "link_plan.h"
#include "models/derive.h"
#include "planner/answers/requests.h"
#include "planner/answers/verify.h"
#include "planner/proof/certificate.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>

enum { FLIPS = 200 };
#define CASES draws(UNLESS_SANITIZED(4, 2), 8)

struct fixture {
    char *folder, *trace_path, *plan_path;
    struct trace *traced, *trace; /* with updates where the plan has them */
    struct plan *plan;            /* as it was read back */
};

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
              verify_certificate(plan, f->plan_path, f->trace_path, error);
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

/* A bound from what passes NVMe, or none. Weights are at most 1, and moments ascend. */
static void test_nvme_prices_are_read_back(void)
{
    struct certificate_price prices[] = {{2, 7}, {5, BOUND_PRICE_SCALE}};
    struct certificate certificate = {
        .time = {.case_count = 1, .nvme = {BOUND_PRICE_SCALE, 9, prices, 2}}};
    const char *reason = NULL;
    json_t *json = certificate_to_json(&certificate);
    struct certificate *read = certificate_from_json(json, 1, &reason);
    g_assert_null(reason);
    g_assert_cmpuint(read->time.nvme.read_weight, ==, BOUND_PRICE_SCALE);
    g_assert_cmpuint(read->time.nvme.write_weight, ==, 9);
    g_assert_cmpuint(read->time.nvme.price_count, ==, 2);
    g_assert_cmpuint(read->time.nvme.prices[1].moment, ==, 5);
    g_assert_cmpuint(read->time.nvme.prices[1].price, ==, BOUND_PRICE_SCALE);
    certificate_free(read);
    json_t *nvme = json_object_get(json_object_get(json, "time"), "nvme_prices");
    json_object_set_new(nvme, "read_weight", json_integer((json_int_t)BOUND_PRICE_SCALE + 1));
    g_assert_null(certificate_from_json(json, 1, &reason));
    g_assert_nonnull(strstr(reason, "out of range"));
    json_object_set_new(nvme, "read_weight", json_integer(0));
    json_array_set_new(json_array_get(json_object_get(nvme, "room_prices"), 1), 0, json_integer(2));
    reason = NULL;
    g_assert_null(certificate_from_json(json, 1, &reason));
    g_assert_nonnull(strstr(reason, "ascend"));
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

/* A trace that a disk cannot read has no hash, as Linux cannot read the beginning of this file. */
static void test_unreadable_traces(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(certificate_hash_file("/proc/self/mem", &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_IO);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/certificate/what_is_written_is_verified", test_what_is_written_is_verified);
    g_test_add_func("/certificate/stopped_proofs_hold", test_stopped_proofs_hold);
    g_test_add_func("/certificate/changed_bytes_are_caught", test_changed_bytes_are_caught);
    g_test_add_func("/certificate/figures_are_recomputed", test_figures_are_recomputed);
    g_test_add_func("/certificate/below_bound", test_below_bound);
    g_test_add_func("/certificate/cases_are_read_back", test_cases_are_read_back);
    g_test_add_func("/certificate/nvme-prices-are-read-back", test_nvme_prices_are_read_back);
    g_test_add_func("/certificate/cases-cover-all-sides", test_cases_cover_all_sides);
    g_test_add_func("/certificate/unreadable-traces", test_unreadable_traces);
    g_test_add_func("/certificate/faults_are_not_written", test_faults_are_not_written);
    return g_test_run();
}
