/* The functions that need the simulator and the planner, which link GSL and GLPK. */
#include "api/api.h"
#include "base/failure.h"
#include "planner/answers/recorded.h"
#include "planner/answers/verify.h"
#include "planner/proof/certificate.h"
#include "planner/schedule/placement.h"
#include "planner/search/variants.h"
#include "traces/trace_file.h"

/* ---- replay ---- */

static struct costs *costs_of(const struct pstar_platform *platform, const char *link,
                              GError **error)
{
    return costs_new(api_platform(platform), link, error);
}

bool pstar_plan_replay(struct pstar_plan *plan, const struct pstar_trace *trace,
                       const struct pstar_platform *platform, const char *link,
                       struct pstar_error *error)
{
    GError *failure = NULL;
    struct plan_figures figures;
    struct costs *costs = costs_of(platform, link, &failure);
    if (costs && verify_plan(api_plan(plan), trace->trace, costs, &figures, &failure))
        ((struct plan *)plan)->predicted = figures;
    costs_free(costs);
    return api_finish(failure, PSTAR_ERROR_INPUT, error);
}

/* ---- search ---- */

/* Proves how far the plan is from the optimum at most. Does nothing without the trace's file, which
 * a certificate names by its hash. */
static bool certify(struct variants_result *result, const struct pstar_trace *trace,
                    const struct pstar_platform *platform, const char *link,
                    enum objective objective, GError **error)
{
    struct plan *plan = result->best->plan;
    if (!trace->path)
        return true;
    g_autofree char *hash = certificate_hash_file(trace->path, error);
    const struct certificate_source source = {.objective = objective_name(objective),
                                              .trace_sha256 = hash,
                                              .platform = platform ? platform->text : NULL,
                                              .link = link,
                                              .traced = result->traced};
    if (!hash || !certificate_make(plan, result->best->trace, &source, error))
        return false;
    variants_list(result, plan->certificate);
    return true;
}

/* Returns a copy of the platform, changed for use with a link (platform_keep_apart) if one is
 * given. Returns NULL without an error if `platform` is NULL. The caller frees it. */
static struct platform *platform_with_link(const struct pstar_platform *platform, const char *link,
                                           GError **error)
{
    struct platform *copy = platform ? platform_parse(platform->text, "platform", error) : NULL;
    if (copy && link)
        platform_keep_apart(copy);
    return copy;
}

static struct plan *search_with(const struct pstar_trace *trace,
                                const struct pstar_platform *platform,
                                const struct pstar_search *search,
                                const struct search_options *options, struct trace **planned,
                                GError **error)
{
    unsigned scope = RUN_RECOMPUTE | RUN_OFFLOAD | RUN_EMBEDDING | RUN_MASTERS | RUN_STATE_BLOCKS;
    struct plan *plan = NULL;
    struct trace *own = model_updates_last(trace_copy(trace->trace));
    struct variants_result *result = variants_search_anew(own, options,
                                                          search->as_traced ? 0 : scope, error);
    if (result && certify(result, trace, platform, search->link, options->objective, error) &&
        verify_found(result->best->plan, trace->trace, options->platform, options->costs, error)) {
        plan = g_steal_pointer(&result->best->plan);
        *planned = trace_copy(result->best->trace);
    }
    variants_result_free(result);
    trace_free(own);
    return plan;
}

struct pstar_plan *pstar_plan_search(const struct pstar_trace *trace,
                                     const struct pstar_platform *platform,
                                     const struct pstar_search *search,
                                     struct pstar_trace **planned, struct pstar_error *error)
{
    static const enum objective objectives[] = {[PSTAR_LEAST_TIME] = OBJECTIVE_TIME,
                                                [PSTAR_LEAST_TRAFFIC] = OBJECTIVE_TRAFFIC,
                                                [PSTAR_LEAST_MEMORY] = OBJECTIVE_MEMORY};
    GError *failure = NULL;
    struct plan *plan = NULL;
    struct trace *of_plan = NULL;
    struct costs *costs = costs_of(platform, search->link, &failure);
    struct platform *moved = costs ? platform_with_link(platform, search->link, &failure) : NULL;
    if (!failure) {
        const struct search_options options = {
            .objective = objectives[search->objective],
            .device_budget = api_arena_budget(&search->budgets, trace->trace),
            .host_budget = search->budgets.host,
            .costs = costs,
            .platform = moved,
            .seed = search->seed,
            .time_limit = search->time_limit,
            .threads = search->threads};
        plan = search_with(trace, platform, search, &options, &of_plan, &failure);
    }
    platform_free(moved);
    costs_free(costs);
    api_finish(failure, PSTAR_ERROR_INPUT, error);
    *planned = api_trace_new(of_plan, NULL);
    return api_plan_out(plan);
}

/* ---- verification ---- */

/* Reads what the certificate says of the machine, and what `given` says where it says nothing. */
static bool read_machine(const struct certificate *certificate, const struct pstar_platform *given,
                         struct platform **platform, struct costs **costs, GError **error)
{
    const char *link = certificate ? certificate->link : NULL;
    if (certificate && certificate->platform)
        *platform = certificate_platform(certificate, error);
    else
        *platform = platform_with_link(given, NULL, error);
    if (error && *error)
        return false;
    *costs = certificate ? certificate_costs(certificate, error) : costs_of(given, NULL, error);
    if (*platform && link)
        platform_keep_apart(*platform);
    return *costs;
}

bool pstar_plan_verify(const char *plan_path, const char *trace_path,
                       const struct pstar_platform *platform, struct pstar_error *error)
{
    GError *failure = NULL;
    struct platform *machine = NULL;
    struct costs *costs = NULL;
    struct trace *recorded = NULL, *trace = NULL;
    struct plan *plan = plan_read(plan_path, &failure);
    if (plan && read_machine(plan->certificate, platform, &machine, &costs, &failure) &&
        (recorded = recorded_read(plan, trace_path, machine, costs, &failure)) &&
        (trace = trace_of_plan(plan, recorded, machine, &failure)) &&
        verify_plan(plan, trace, costs, NULL, &failure) && plan->certificate)
        verify_certificate(plan, plan_path, trace_path, &failure);
    trace_free(trace);
    trace_free(recorded);
    costs_free(costs);
    platform_free(machine);
    plan_free(plan);
    return api_finish(failure, PSTAR_ERROR_INPUT, error);
}
