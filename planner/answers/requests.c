#include "planner/answers/requests.h"

#include "planner/answers/emit.h"
#include "planner/answers/explain.h"
#include "planner/answers/recorded.h"
#include "planner/answers/verify.h"
#include "planner/proof/certificate.h"
#include "planner/schedule/placement.h"
#include "sim/operator_times.h"
#include "sim/replay.h"
#include "traces/failure.h"
#include "traces/printable.h"

#include <stdio.h>

/* ---- what a plan was made from ---- */

/* Names the plan's file in an error about what it says. Returns `ok`. */
static bool of_plan(const struct plan_paths *paths, bool ok, GError **error)
{
    if (!ok)
        g_prefix_error(error, "%s: ", paths->plan);
    return ok;
}

/* Reads the platform that the paths name, and spreads the plan's ranks as its certificate says. */
static struct platform *read_platform(const struct plan_paths *paths, const struct plan *plan,
                                      GError **error)
{
    const struct certificate *certificate = plan->certificate;
    struct platform *platform = platform_read(paths->platform, error);
    bool spread = platform && (plan->ranks > 1 || (certificate && certificate->nodes));
    if (spread && !platform_spread_ranks(platform, MAX(plan->ranks, 1),
                                         certificate ? certificate->nodes : 0, error))
        g_clear_pointer(&platform, platform_free);
    return platform;
}

/* Reads the platform that the paths name or, if they name none, the certificate's; and the costs.
 * *platform stays NULL if there is neither. */
static bool read_machine(const struct plan_paths *paths, const struct plan *plan,
                         struct platform **platform, struct costs **costs, GError **error)
{
    const struct certificate *certificate = plan->certificate;
    const char *link = paths->link;
    bool ok = true;
    if (paths->platform) {
        ok = (*platform = read_platform(paths, plan, error)) != NULL;
    } else if (certificate && certificate->platform) {
        ok = of_plan(paths, (*platform = certificate_platform(certificate, error)) != NULL, error);
        link = certificate->link;
    }
    if (!ok)
        return false;
    if (certificate && !paths->platform && !paths->link)
        *costs = certificate_costs(certificate, error);
    else
        *costs = costs_new(paths->platform ? *platform : NULL, paths->link, error);
    if (*platform && link)
        platform_keep_apart(*platform);
    return *costs != NULL;
}

static struct trace *read_trace_of(const struct plan *plan, const struct plan_paths *paths,
                                   struct costs **costs, GError **error)
{
    struct platform *platform = NULL;
    struct trace *recorded = NULL, *trace = NULL;
    if (read_machine(paths, plan, &platform, costs, error) &&
        (recorded = recorded_read(plan, paths->trace, platform, *costs, error))) {
        trace = trace_of_plan(plan, recorded, platform, error);
        of_plan(paths, trace, error);
    }
    platform_free(platform);
    trace_free(recorded);
    return trace;
}

/* ---- the requests ---- */

bool request_explain(const struct plan_paths *paths, GError **error)
{
    struct trace *trace = NULL;
    struct costs *costs = NULL;
    struct plan *plan = plan_read(paths->plan, error);
    bool ok = plan && (!paths->trace || ((trace = read_trace_of(plan, paths, &costs, error)) &&
                                         of_plan(paths, plan_check(plan, trace, error), error)));
    if (ok)
        explain_plan(plan, trace, stdout);
    if (ok && paths->emit)
        ok = emit_beside(paths->plan, paths->emit, plan, trace, stdout, error);
    plan_free(plan);
    trace_free(trace);
    costs_free(costs);
    return ok;
}

bool request_verify(const struct plan_paths *paths, GError **error)
{
    struct trace *trace = NULL;
    struct costs *costs = NULL;
    struct plan_figures figures;
    struct plan *plan = plan_read(paths->plan, error);
    bool ok = plan && (trace = read_trace_of(plan, paths, &costs, error)) &&
              of_plan(paths, verify_plan(plan, trace, costs, &figures, error), error) &&
              (!plan->certificate ||
               verify_certificate(plan, paths->plan, trace, paths->trace, error));
    if (ok)
        text_print_line(
            stdout,
            "%s: valid, and moves the bytes that it predicts; a step takes %.4f s, %.4f s of it "
            "stalled",
            paths->plan, figures.iteration_seconds, figures.stall_seconds);
    if (ok && plan->certificate)
        explain_certificate(plan->certificate, stdout);
    else if (ok)
        puts("The plan has no certificate.");
    if (ok && paths->timeline)
        ok = plan_replay_write(plan, trace, costs, paths->timeline, error);
    plan_free(plan);
    trace_free(trace);
    costs_free(costs);
    return ok;
}

bool request_write(const struct plan_paths *paths, const struct trace *recorded,
                   const struct search_options *options, struct variants_result *result,
                   GError **error)
{
    struct plan *plan = result->best->plan;
    const struct trace *trace = result->best->trace;
    g_autofree char *platform = NULL, *hash = NULL;
    if (paths->platform && !g_file_get_contents(paths->platform, &platform, NULL, error))
        return false;
    if (!(hash = certificate_hash_file(paths->trace, error)))
        return false;
    struct certificate_source source = {.objective = objective_name(options->objective),
                                        .trace_sha256 = hash,
                                        .platform = platform,
                                        .link = paths->link,
                                        .traced = result->traced};
    if (options->platform)
        source.spread = options->platform->spread;
    source.began = run_stage_of(recorded);
    if (!certificate_make(plan, trace, &source, error))
        return false;
    variants_list(result, plan->certificate);
    return verify_found(plan, recorded, options->platform, options->costs, error) &&
           plan_write(plan, paths->plan, error) &&
           (!paths->timeline ||
            plan_replay_write(plan, trace, options->costs, paths->timeline, error));
}

double request_scaled_step(const struct search_result *best, const struct costs *costs,
                           double times)
{
    struct trace *scaled = operator_times_scale(best->trace, times);
    struct non_model *non_model = non_model_place(scaled);
    struct accesses *accesses = accesses_new(scaled, best->plan->layout, non_model->extent);
    const struct replay_view view = {scaled, accesses, costs};
    double seconds = replay(best->plan, &view).steady.iteration_seconds;
    accesses_free(accesses);
    non_model_free(non_model);
    trace_free(scaled);
    return seconds;
}

/* Says where operators' times come from if they are estimates, and how long the plan may take. */
static void print_band(const struct search_result *best, const struct trace *recorded,
                       const struct search_options *options)
{
    struct operator_times_band band;
    if (operator_times_band(recorded, options->platform, &band))
        operator_times_print_band(&band, request_scaled_step(best, options->costs, band.least),
                                  request_scaled_step(best, options->costs, band.most), stdout);
}

bool request_plan(const struct plan_paths *paths, const struct trace *trace,
                  const struct search_options *options, unsigned scope, GError **error)
{
    struct variants_result *result = variants_search(trace, options, scope, error);
    if (!result) {
        least_explain(trace, options, scope, error);
        return false;
    }
    bool ok = request_write(paths, trace, options, result, error);
    if (ok)
        explain_result(result->best, stdout);
    if (ok && paths->top)
        explain_rivals(result->best, options->objective, paths->top, stdout);
    if (ok)
        print_band(result->best, trace, options);
    ok = ok && (!paths->json || explain_write_json(result->best, options->objective, paths->plan,
                                                   paths->json, error));
    if (ok && paths->emit)
        ok = emit_beside(paths->plan, paths->emit, result->best->plan, result->best->trace, stdout,
                         error);
    variants_result_free(result);
    return ok || failure_mark(error, FAILURE_RUNNING);
}
