#include "planner/answers/requests.h"

#include "base/failure.h"
#include "base/printable.h"
#include "base/seconds.h"
#include "base/size.h"
#include "planner/answers/emit.h"
#include "planner/answers/explain.h"
#include "planner/answers/nvme_search.h"
#include "planner/answers/recorded.h"
#include "planner/answers/verify.h"
#include "planner/proof/certificate.h"
#include "planner/schedule/placement.h"
#include "sim/operator_times.h"
#include "sim/replay.h"

#include <math.h>
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

/* Reads the platform that the paths name or, if they name none, the certificate's; and the costs,
 * with the link that the paths or else the certificate name. *platform stays NULL if there is
 * neither. */
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
        link = link ? link : certificate->link;
    }
    if (!ok)
        return false;
    if (certificate && !paths->platform && !paths->link)
        *costs = certificate_costs(certificate, error);
    else
        *costs = costs_new(*platform, paths->link, error);
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

static void print_valid(const struct plan_paths *paths, const struct trace *trace,
                        const struct plan_figures *figures)
{
    g_autofree char *seconds = seconds_format(figures->iteration_seconds);
    g_autofree char *stall = seconds_format(figures->stall_seconds);
    g_autofree char *step =
        replay_is_timed(trace)
            ? g_strdup_printf("a step takes %s s, %s s of it stalled", seconds, stall)
            : g_strdup("how long a step takes is unknown, because the trace has no durations");
    text_print_line(stdout, "%s: valid, and moves the bytes that it predicts; %s", paths->plan,
                    step);
}

/* Without --platform, a link alone may replace that of the certificate. */
static bool names_another_machine(const struct plan_paths *paths,
                                  const struct certificate *certificate)
{
    g_autofree char *text = NULL;
    if (!paths->platform && !paths->link)
        return false;
    if (paths->platform && !g_file_get_contents(paths->platform, &text, NULL, NULL))
        return true;
    return (paths->platform && g_strcmp0(text, certificate->platform) != 0) ||
           g_strcmp0(paths->link, certificate->link) != 0;
}

/* Says it if the step's time is for another machine than the proof. */
static void print_machine(const struct plan_paths *paths, const struct certificate *certificate)
{
    if (!names_another_machine(paths, certificate))
        return;
    const char *link = certificate->link;
    struct platform *platform = certificate->platform ? certificate_platform(certificate, NULL)
                                                      : NULL;
    text_print_line(stdout,
                    "That time is for the --platform and --link given here. The plan was made, and "
                    "is proved below, with others: %s%s%s",
                    platform ? platform->name : "no platform", link ? ", --link " : "",
                    link ? link : "");
    platform_free(platform);
}

bool request_verify(const struct plan_paths *paths, GError **error)
{
    struct trace *trace = NULL;
    struct costs *costs = NULL;
    struct plan_figures figures;
    struct plan *plan = plan_read(paths->plan, error);
    bool ok = plan && (trace = read_trace_of(plan, paths, &costs, error)) &&
              of_plan(paths, verify_plan(plan, trace, costs, &figures, error), error) &&
              (!plan->certificate || verify_certificate(plan, paths->plan, paths->trace, error));
    if (ok)
        print_valid(paths, trace, &figures);
    if (ok && plan->certificate)
        print_machine(paths, plan->certificate);
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

/* Bounds are proved for as long again as the search may take, or for so long if that is less; after
 * a signal for a short time. */
#define PROOF_SECONDS   15
#define STOPPED_SECONDS 3

/* Until when bounds are proved. */
struct proof_limit {
    const struct search_options *options;
    gint64 end;    /* microseconds, monotonic */
    bool signaled; /* a person has stopped the search or the proof */
    bool over;
};

static gint64 seconds_from_now(double seconds)
{
    return g_get_monotonic_time() + (gint64)(seconds * 1e6);
}

static bool may_prove(void *data)
{
    struct proof_limit *limit = data;
    const struct search_options *options = limit->options;
    if (options->proving && !options->proving(options->progress_data) && !limit->signaled) {
        limit->signaled = true;
        limit->end = MIN(limit->end, seconds_from_now(STOPPED_SECONDS));
    }
    limit->over |= g_get_monotonic_time() >= limit->end;
    return !limit->over;
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
    struct proof_limit limit = {
        .options = options,
        .end = options->time_limit > 0 ? seconds_from_now(fmax(PROOF_SECONDS, options->time_limit))
                                       : G_MAXINT64};
    const struct proof_watch watch = {may_prove, &limit};
    source.watch = &watch;
    if (!certificate_make(plan, trace, &source, error))
        return false;
    result->best->proof_stopped = limit.over;
    if (!plan->nvme_bytes) /* other choices were not weighed with homes in NVMe */
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

/* Other systems sum fast, and may be faster than any plan of a search that kept to exact sums. */
static void print_sums(const struct trace *trace, unsigned scope)
{
    if (trace->ranks > 1 && !run_stage_of(trace).fast && !(scope & RUN_SUMS))
        printf("Gradients are summed exactly, as on one rank. With --reduction fast they may be "
               "summed as by other systems, which may be faster.\n");
}

/* Writes and prints the result of a search in a scope, and frees it. */
static bool finish(const struct plan_paths *paths, const struct trace *trace,
                   const struct search_options *options, unsigned scope,
                   struct variants_result *result, GError **error)
{
    bool ok = request_write(paths, trace, options, result, error);
    if (ok)
        explain_result(result->best, stdout);
    if (ok && paths->top)
        explain_rivals(result->best, options->objective, paths->top, stdout);
    if (ok) {
        print_sums(result->best->trace, scope);
        print_band(result->best, trace, options);
    }
    ok = ok && (!paths->json || explain_write_json(result->best, options->objective, paths->plan,
                                                   paths->json, error));
    if (ok && paths->emit)
        ok = emit_beside(paths->plan, paths->emit, result->best->plan, result->best->trace, stdout,
                         error);
    variants_result_free(result);
    return ok || failure_mark(error, FAILURE_RUNNING);
}

/* ---- with NVMe ---- */

static double step_of(const struct variants_result *result)
{
    return result->best->plan->predicted.iteration_seconds;
}

static void print_alone(const struct variants_result *alone)
{
    g_autofree char *step = seconds_format(step_of(alone));
    printf("the best plan without NVMe   %12s s\n", step);
}

static void print_with_nvme(const struct nvme_answer *answer, const struct variants_result *alone)
{
    const struct plan *plan = answer->result->best->plan;
    g_autofree char *file = size_format(plan->nvme_bytes);
    g_autofree char *read = size_format(plan->predicted.nvme_read_bytes);
    g_autofree char *written = size_format(plan->predicted.nvme_write_bytes);
    g_autofree char *host = size_format(plan->host_pool_bytes);
    g_autofree char *device = size_format(plan->predicted.peak_device_bytes);
    g_autofree char *more = size_format(answer->enough_host.peak_host_bytes);
    g_autofree char *step = seconds_format(step_of(answer->result));
    g_autofree char *stall = seconds_format(plan->predicted.stall_seconds);
    g_autofree char *ample = seconds_format(answer->enough_host.iteration_seconds);
    printf("in NVMe                      %12s   %s read and %s written a step\n", file, read,
           written);
    printf("device memory                %12s\nhost memory                  %12s\n", device, host);
    printf("step                         %12s s, %s s of it stalled\n", step, stall);
    printf("with enough host memory      %12s s, in %s\n", ample, more);
    if (alone)
        print_alone(alone);
    else
        printf("the best plan without NVMe           none was found\n");
    printf("\n");
    explain_proof(answer->result->best, stdout);
}

static bool can_tier(const struct search_options *options, GError **error)
{
    if (options->host_budget == UINT64_MAX)
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "--nvme-memory: needs a size of --host-memory, below which NVMe is");
    else if (options->objective != OBJECTIVE_TIME)
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "--objective %s: with --nvme-memory the fastest plan is sought, so far",
                    objective_name(options->objective));
    else
        return true;
    return false;
}

/* Writes and prints the plan with NVMe, and frees the best one without, which may be NULL. */
static bool finish_with_nvme(const struct plan_paths *paths, const struct trace *trace,
                             const struct search_options *options, const struct nvme_answer *answer,
                             struct variants_result *alone, GError **error)
{
    struct search_result *best = answer->result->best;
    if (alone)
        best->layouts[0] = (struct search_baseline){
            .name = g_strdup("without NVMe"),
            .chunks = chunk_spread_of(alone->best->plan->layout, TRACE_PARAM),
            .figures = alone->best->plan->predicted};
    bool ok = request_write(paths, trace, options, answer->result, error);
    if (ok)
        print_with_nvme(answer, alone);
    if (ok && paths->top)
        explain_rivals(best, options->objective, paths->top, stdout);
    ok = ok && (!paths->json ||
                explain_write_json(best, options->objective, paths->plan, paths->json, error));
    if (ok && paths->emit)
        ok = emit_beside(paths->plan, paths->emit, best->plan, best->trace, stdout, error);
    variants_result_free(alone);
    return ok || failure_mark(error, FAILURE_RUNNING);
}

static bool plan_with_nvme(const struct plan_paths *paths, const struct trace *trace,
                           const struct search_options *options, unsigned scope, GError **error)
{
    g_autoptr(GError) why = NULL;
    struct nvme_answer answer = {0};
    if (!can_tier(options, error))
        return false;
    bool fits = nvme_search_run(trace, options, scope, paths->nvme_bytes, &answer, &why), ok = true;
    struct variants_result *alone = answer.alone;
    bool pays = fits && (!alone || step_of(answer.result) < step_of(alone));
    if (pays) {
        ok = finish_with_nvme(paths, trace, options, &answer, alone, error);
    } else if (alone) {
        g_autofree char *step = seconds_format(step_of(alone));
        printf("NVMe does not pay: the best plan without it takes %s s a step%s\n", step,
               fits ? ", no more than with it" : "");
        ok = finish(paths, trace, options, scope, alone, error);
    } else {
        g_propagate_error(error, g_steal_pointer(&why));
        ok = false;
    }
    variants_result_free(answer.result);
    return ok;
}

bool request_plan(const struct plan_paths *paths, const struct trace *trace,
                  const struct search_options *options, unsigned scope, GError **error)
{
    if (paths->nvme_bytes)
        return plan_with_nvme(paths, trace, options, scope, error);
    struct variants_result *result = variants_search_anew(trace, options, scope, error);
    if (!result) {
        least_explain(trace, options, scope, error);
        return false;
    }
    return finish(paths, trace, options, scope, result, error);
}
