/* --explain prints the plan's own figures, and more with the trace. */
#include "base/size.h"
#include "planner/answers/explain.h"
#include "planner/proof/certificate.h"
#include "planner/search/search.h"
#include "sim/sizes.h"
#include "tests/chunks/random_iteration.h"

#include <stdlib.h>
#include <string.h>

enum { CASES = 10 };

static char *explained(const struct plan *plan, const struct trace *trace)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    explain_plan(plan, trace, out);
    fclose(out);
    return text;
}

static void check_size(const char *text, const char *label, uint64_t bytes)
{
    g_autofree char *size = size_format(bytes);
    const char *line = strstr(text, label);
    g_assert_nonnull(line);
    const char *end = strchr(line + 1, '\n'), *found = strstr(line, size);
    g_assert_nonnull(found);
    g_assert_true(found < end);
}

static void check_text(const struct plan *plan, const struct trace *trace)
{
    char *text = explained(plan, trace);
    check_size(text, "host to device", plan->predicted.h2d_bytes);
    check_size(text, "device to host", plan->predicted.d2h_bytes);
    check_size(text, "peak device memory", plan->predicted.peak_device_bytes);
    check_size(text, "\n  host memory", plan->predicted.peak_host_bytes);
    check_size(text, "device budget", plan->device_budget);
    g_assert_cmpint(strstr(text, "copied in parts from") != NULL, ==, plan->cut_from_bytes > 0);
    if (plan->cut_from_bytes)
        check_size(text, "copied in parts from", plan->cut_from_bytes);
    g_assert_cmpint(strstr(text, "Proved") != NULL, ==, plan->certificate != NULL);
    if (plan->certificate) {
        check_size(text, "traffic: bound", plan->certificate->traffic.bound);
        check_size(text, "traffic: bound", plan->certificate->traffic.achieved);
    }
    g_assert_cmpint(strstr(text, "Fetches are issued") != NULL, ==, trace != NULL);
    free(text);
}

static void test_figures(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct trace *trace = random_iteration(random);
        struct costs *costs = costs_new(NULL, NULL, NULL);
        struct search_options options = {
            .host_budget = UINT64_MAX, .costs = costs, .seed = g_rand_int(random)};
        g_assert_true(sizes_parse_budget("60%", trace, &options.device_budget, NULL));
        struct search_result *result = search_plan(trace, &options, NULL);
        if (result) {
            result->plan->cut_from_bytes = 4096 * (uint64_t)(i % 2);
            check_text(result->plan, NULL);
            certificate_make(result->plan, result->trace,
                             &(struct certificate_source){.objective = "time", .traced = trace},
                             NULL);
            check_text(result->plan, trace);
        }
        search_result_free(result);
        costs_free(costs);
        trace_free(trace);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/explain/figures", test_figures);
    return g_test_run();
}
