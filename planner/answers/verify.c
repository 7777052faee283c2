#include "planner/answers/verify.h"
#include "chunks/accesses.h"
#include "chunks/non_model.h"
#include "models/derivation.h"
#include "planner/answers/recorded.h"
#include "planner/proof/bound.h"
#include "planner/proof/certificate.h"
#include "planner/schedule/placement.h"
#include "planner/search/search.h"
#include "planner/search/variants.h"

#include <math.h>

/* With least memory as the objective, a plan that needs more of the device may be faster. */
static bool is_better(const struct certificate_alternative *a,
                      const struct certificate *certificate)
{
    if (!g_strcmp0(certificate->objective, objective_name(OBJECTIVE_TIME)))
        return a->achieved < certificate->time.achieved;
    return !g_strcmp0(certificate->objective, objective_name(OBJECTIVE_TRAFFIC)) &&
           a->achieved_traffic < certificate->traffic.achieved;
}

static const char *what_is_wrong(const struct plan *plan, const struct certificate_alternative *a,
                                 const struct trace *trace, const struct platform *platform)
{
    if (a->host_price > BOUND_PRICE_SCALE || work_bound(trace, platform, a->host_price) != a->bound)
        return "its lower bound does not follow from its price";
    if (a->achieved && a->achieved < a->bound)
        return "its plan is below its bound";
    if (a->achieved && is_better(a, plan->certificate))
        return "its plan is better than this one";
    switch ((enum certificate_outcome)a->outcome) {
    case CERTIFICATE_SEARCHED:
        return NULL;
    case CERTIFICATE_BOUNDED:
        return a->bound < plan->certificate->time.achieved ? "it was left out, but may be better"
                                                           : NULL;
    case CERTIFICATE_DOES_NOT_FIT:
        return bound_excludes(trace, platform, plan->device_budget, plan->host_budget)
                   ? NULL
                   : "it was left out, but may fit";
    }
    return "its outcome is unknown";
}

static bool refuse(const struct certificate_alternative *a, const char *wrong, GError **error)
{
    const struct run_choices *c = a->choices;
    g_autofree char *recompute = run_layers_format(c->recompute, c->layer_count);
    g_autofree char *offload = run_layers_format(c->offload, c->layer_count);
    g_autofree char *blocks = c->state_block ? g_strdup_printf(" with state blocks of "
                                                               "%" G_GUINT64_FORMAT,
                                                               c->state_block)
                                             : g_strdup("");
    g_autofree char *together = c->stage || c->fast ? g_strdup_printf(" in stage %u", c->stage)
                                                    : NULL;
    g_set_error(
        error, PLAN_ERROR, PLAN_ERROR_INVALID,
        "certificate: the alternative that recomputes layers %s, offloads layers %s, embeds "
        "on the %s and runs backward %s%s%s%s: %s",
        recompute, offload, c->host_embedding ? "host" : "device",
        c->second_backward ? "twice" : "once", together ? together : "",
        c->fast ? " with fast reductions" : "", blocks, wrong);
    return false;
}

static bool check_alternative(const struct plan *plan, const struct certificate_alternative *a,
                              const struct derivation *derivation, const struct run_choices *traced,
                              const struct platform *platform, GError **error)
{
    struct run_choices choices = *a->choices;
    if (choices.layer_count != traced->layer_count)
        return refuse(a, "the model has another number of layers", error);
    model_choose_backward(&choices, traced, choices.second_backward);
    struct trace *derived = derivation_trace(derivation, &choices, platform, error);
    if (!derived)
        return false;
    const char *wrong = what_is_wrong(plan, a, derived, platform);
    trace_free(derived);
    return !wrong || refuse(a, wrong, error);
}

bool verify_alternatives(const struct plan *plan, const struct trace *trace,
                         const struct platform *platform, GError **error)
{
    const struct certificate *certificate = plan->certificate;
    bool ok = true;
    if (!certificate->alternative_count)
        return true;
    struct derivation *derivation = derivation_new(trace, error);
    struct run_choices *traced = run_choices_of(trace);
    for (uint32_t i = 0; derivation && ok && i < certificate->alternative_count; i++)
        ok = check_alternative(plan, &certificate->alternatives[i], derivation, traced, platform,
                               error);
    ok = ok && derivation;
    run_choices_free(traced);
    derivation_free(derivation);
    return ok;
}

struct plan_figures plan_replay(const struct plan *plan, const struct trace *trace,
                                const struct costs *costs, struct timeline *timeline)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    const struct replay_view view = {trace, accesses, costs};
    struct plan_figures steady = replay_with(plan, &view, timeline).steady;
    accesses_free(accesses);
    non_model_free(non_model);
    return steady;
}

bool plan_replay_write(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs, const char *path, GError **error)
{
    struct timeline *timeline = timeline_new();
    plan_replay(plan, trace, costs, timeline);
    bool ok = timeline_write(timeline, plan, trace, costs, path, error);
    timeline_free(timeline);
    return ok;
}

/* Fits may differ in their last digits between machines. */
#define SAME_SECONDS 1e-9

static bool same_figures(const struct plan_figures *of_plan, const struct plan_figures *replayed,
                         GError **error)
{
    const struct plan_figure *figure = figures_first_difference(of_plan, replayed);
    if (figure)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "%s is %" G_GUINT64_FORMAT " in the plan, %" G_GUINT64_FORMAT " when replayed",
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
                "%s: the plan's certificate is about other contents of this file", path);
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
                    "%s is %.9f in the plan, %.9f when replayed", figure->name, a, b);
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

/* Reads the platform for which the certificate predicts times; *platform stays NULL if there is
 * none.
 */
static bool read_platform(const struct certificate *certificate, struct platform **platform,
                          GError **error)
{
    bool ok = !certificate->platform || (*platform = certificate_platform(certificate, error));
    if (*platform && certificate->link)
        platform_keep_apart(*platform);
    return ok;
}

/* Checks the bounds of the plan's own choices and of the others, from the trace as it was recorded.
 */
static bool check_bounds(const struct plan *plan, const struct trace *trace,
                         const struct trace *recorded, GError **error)
{
    const struct certificate *certificate = plan->certificate;
    struct platform *platform = NULL;
    struct trace *traced = NULL;
    bool ok = read_platform(certificate, &platform, error);
    ok = ok && (traced = derived_for_plan(plan, recorded, platform, error)) &&
         certificate_check(plan, trace, traced, error) &&
         verify_alternatives(plan, recorded, platform, error);
    trace_free(traced);
    platform_free(platform);
    return ok;
}

bool verify_found(const struct plan *plan, const struct trace *recorded,
                  const struct platform *platform, const struct costs *costs, GError **error)
{
    struct trace *trace = trace_of_plan(plan, recorded, platform, error);
    bool ok = trace && verify_plan(plan, trace, costs, NULL, error) &&
              (!plan->certificate ||
               (check_times(plan, trace, error) && check_bounds(plan, trace, recorded, error)));
    trace_free(trace);
    if (!ok)
        g_prefix_error(error, "the plan that was found is not written, because it does not verify. "
                              "This is a fault of pstar. Please report it with the trace and the "
                              "command: ");
    return ok;
}

/* Reads the trace that the search began with, and makes the plan's, for the machine that the
 * certificate names. */
static bool read_traces(const struct plan *plan, const char *path, struct trace **recorded,
                        struct trace **trace, GError **error)
{
    struct platform *platform = NULL;
    struct costs *costs = certificate_costs(plan->certificate, error);
    bool ok = costs && read_platform(plan->certificate, &platform, error) &&
              (*recorded = recorded_read(plan, path, platform, costs, error)) &&
              (*trace = trace_of_plan(plan, *recorded, platform, error));
    platform_free(platform);
    costs_free(costs);
    return ok;
}

bool verify_certificate(const struct plan *plan, const char *plan_path, const char *trace_path,
                        GError **error)
{
    struct trace *recorded = NULL, *trace = NULL;
    if (!certificate_check_seal(plan_path, error) ||
        !check_trace_file(plan->certificate, trace_path, error))
        return false;
    bool ok = read_traces(plan, trace_path, &recorded, &trace, error) &&
              check_times(plan, trace, error) && check_bounds(plan, trace, recorded, error);
    if (trace && !ok)
        g_prefix_error(error, "%s: ", plan_path);
    trace_free(recorded);
    trace_free(trace);
    return ok;
}
