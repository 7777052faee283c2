/* Certificates: what is written is read back, every byte of plan and trace is sealed, and bounds
 * are recomputed from their prices. */
#include "planner/answers/verify.h"
#include "planner/proof/certificate.h"
#include "planner/schedule/placement.h"
#include "planner/search/search.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>

enum { CASES = 8, FLIPS = 200 };

#define LINK "h2d=900MB/s,d2h=700MB/s"

struct fixture {
    char *folder, *trace_path, *plan_path;
    struct trace *traced, *trace; /* with updates where the plan has them */
    struct plan *plan;            /* as it was read back */
};

static struct plan *search(const struct trace *trace, GRand *random, struct trace **placed)
{
    struct costs *costs = costs_new(NULL, LINK, NULL);
    struct search_options options = {
        .host_budget = UINT64_MAX, .costs = costs, .seed = g_rand_int(random), .threads = 1};
    g_autofree char *share = g_strdup_printf("%d%%", g_rand_int_range(random, 20, 90));
    g_assert_true(sizes_parse_budget(share, trace, &options.device_budget, NULL));
    struct search_result *result = search_plan(trace, &options, NULL);
    struct plan *plan = result ? g_steal_pointer(&result->plan) : NULL;
    *placed = result ? g_steal_pointer(&result->trace) : NULL;
    search_result_free(result);
    costs_free(costs);
    return plan;
}

/* Writes a trace and a plan that fits to files. */
static void set_up(struct fixture *f, GRand *random)
{
    struct plan *plan;
    f->folder = g_dir_make_tmp("pstar-certificate-XXXXXX", NULL);
    f->trace_path = g_build_filename(f->folder, "run.pstar", NULL);
    f->plan_path = g_build_filename(f->folder, "plan.json", NULL);
    while (f->traced = random_iteration(random), !(plan = search(f->traced, random, &f->trace)))
        trace_free(f->traced);
    g_assert_true(trace_write(f->traced, f->trace_path, NULL));
    g_autofree char *hash = certificate_hash_file(f->trace_path, NULL);
    const struct certificate_source source = {hash, NULL, LINK, f->traced};
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
    struct trace *trace = traced ? placement_of_plan(plan, traced, NULL, error) : NULL;
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

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/certificate/what_is_written_is_verified", test_what_is_written_is_verified);
    g_test_add_func("/certificate/changed_bytes_are_caught", test_changed_bytes_are_caught);
    g_test_add_func("/certificate/figures_are_recomputed", test_figures_are_recomputed);
    return g_test_run();
}
