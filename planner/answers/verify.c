#include "planner/answers/verify.h"

#include "planner/answers/plan_replay.h"
#include "planner/proof/certificate.h"
#include "planner/search/traced.h"
#include "planner/search/variants.h"
#include "traces/trace_file.h"

#include <math.h>

/* Fits may differ in their last digits from machine to machine. */
#define SAME_SECONDS 1e-9

static bool same_figures(const struct plan_figures *of_plan, const struct plan_figures *replayed,
                         GError **error)
{
    const struct plan_figure *figure = figures_first_difference(of_plan, replayed);
    if (figure)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "plan: %s is %" G_GUINT64_FORMAT " in the plan, %" G_GUINT64_FORMAT
                    " when replayed",
                    figure->name, figures_count(of_plan, figure), figures_count(replayed, figure));
    return !figure;
}

bool verify_plan(const struct plan *plan, const struct trace *trace, const struct costs *costs,
                 struct plan_figures *figures, GError **error)
{
    if (!plan_check(plan, trace, error))
        return false;
    struct plan_figures steady = plan_replay(plan, trace, costs, NULL);
    if (figures)
        *figures = steady;
    return same_figures(&plan->predicted, &steady, error);
}

/* ---- the certificate ---- */

static bool check_trace_file(const struct certificate *certificate, const char *path,
                             GError **error)
{
    g_autofree char *hash = certificate_hash_file(path, error);
    if (!hash)
        return false;
    if (!g_strcmp0(hash, certificate->trace_sha256))
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "%s: not the file that the plan's certificate is about: a byte of it has changed",
                path);
    return false;
}

static bool same_times(const struct plan_figures *of_plan, const struct plan_figures *replayed,
                       GError **error)
{
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++) {
        double a = figures_value(of_plan, figure), b = figures_value(replayed, figure);
        if (figure->unit != FIGURE_SECONDS || fabs(a - b) <= SAME_SECONDS * fmax(a, b))
            continue;
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "plan: %s is %.9f in the plan, %.9f when replayed", figure->name, a, b);
        return false;
    }
    return true;
}

static bool check_times(const struct plan *plan, const struct trace *trace, GError **error)
{
    struct costs *costs = certificate_costs(plan->certificate, error);
    if (!costs)
        return false;
    struct plan_figures steady = plan_replay(plan, trace, costs, NULL);
    costs_free(costs);
    return same_times(&plan->predicted, &steady, error);
}

/* The bounds of the plan's own choice and of the others, from the trace as it was recorded. */
static bool check_bounds(const struct plan *plan, const struct trace *trace,
                         const struct trace *recorded, GError **error)
{
    const struct certificate *certificate = plan->certificate;
    struct platform *platform = NULL;
    struct costs *costs = NULL;
    struct trace *traced = NULL;
    bool ok = (!certificate->platform || (platform = certificate_platform(certificate, error))) &&
              (costs = certificate_costs(certificate, error));

    if (ok && platform && certificate->link)
        platform_keep_apart(platform);
    ok = ok && (traced = derived_for_plan(plan, recorded, platform, error)) &&
         certificate_check(plan, trace, traced, error) &&
         verify_alternatives(plan, recorded, costs, platform, error);
    trace_free(traced);
    platform_free(platform);
    costs_free(costs);
    return ok;
}

bool verify_certificate(const struct plan *plan, const char *plan_path, const struct trace *trace,
                        const char *trace_path, GError **error)
{
    if (!certificate_check_seal(plan_path, error) ||
        !check_trace_file(plan->certificate, trace_path, error))
        return false;
    struct trace *recorded = trace_read(trace_path, error);
    bool ok = recorded && check_times(plan, trace, error) &&
              check_bounds(plan, trace, recorded, error);
    trace_free(recorded);
    return ok;
}
