#include "sim/simulation.h"

#include "base/failure.h"
#include "base/size.h"
#include "sim/operator_times.h"
#include "sim/replay.h"
#include "sim/sweep_report.h"
#include "sim/timeline.h"
#include "traces/choices.h"

bool simulation_looks_at_best(const struct simulation *s)
{
    return s->emit_plan || s->timeline || s->stalls || s->sweep.phases;
}

/* ---- why a sweep is no success ---- */

/* Returns what a policy answered wrongly first, or NULL. */
static const char *find_failure(const struct sweep *sweep)
{
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (sweep->rows[r].failed)
            return sweep->rows[r].reason;
    return NULL;
}

static const struct sweep_row *row_of_least_need(const struct sweep *sweep)
{
    const struct sweep_row *least = &sweep->rows[0];
    for (uint32_t r = 1; r < sweep->row_count; r++)
        if (!least->least_device_bytes ||
            (sweep->rows[r].least_device_bytes &&
             sweep->rows[r].least_device_bytes < least->least_device_bytes))
            least = &sweep->rows[r];
    return least;
}

/* Returns what else may lower the need, for the end of a message. */
static char *levers(const struct trace *trace)
{
    struct run_choices *choices = run_choices_of(trace);
    uint32_t recomputed = 0, updated = 0;
    for (uint32_t l = 0; l < choices->layer_count; l++)
        recomputed += choices->recompute[l];
    for (uint32_t t = 0; t < choices->tensor_count; t++)
        updated += choices->host_update[t];
    GString *text = g_string_new(NULL);
    if (updated < choices->tensor_count)
        g_string_append(text, ", updates on the host (a trace of --host-update, or --strategy "
                              "zero-offload)");
    if (recomputed < choices->layer_count)
        g_string_append(text, ", recomputed layers (a trace of --recompute all)");
    g_string_prepend(text, "; less may do with smaller chunks");
    g_string_append(text, ", or with a plan of pstar-plan, which chooses all of these");
    run_choices_free(choices);
    return g_string_free(text, FALSE);
}

static bool refuse(const struct sweep *sweep, const struct trace *trace, GError **error)
{
    g_autofree char *less = levers(trace);
    const struct sweep_row *least = row_of_least_need(sweep);
    if (least->least_device_bytes <= least->device_budget || least->host_lacks) {
        g_set_error(error, FAILURE, FAILURE_DOES_NOT_FIT, "nothing fits; %s%s", least->reason,
                    less);
        return false;
    }
    g_autofree char *device = size_format(least->least_device_bytes);
    g_autofree char *chunk = size_format(least->chunk_bytes);
    g_set_error(error, FAILURE, FAILURE_DOES_NOT_FIT,
                "nothing fits; the least device memory is %s, with chunks of %s%s", device, chunk,
                less);
    return false;
}

static bool is_complete(const struct sweep *sweep)
{
    for (uint32_t r = 0; r < sweep->row_count; r++)
        if (!sweep->rows[r].done)
            return false;
    return true;
}

static bool check(const struct sweep *sweep, const struct trace *trace, GError **error)
{
    const char *failure = find_failure(sweep);
    if (failure) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "%s", failure);
        return false;
    }
    if (!is_complete(sweep)) {
        g_set_error(error, FAILURE, FAILURE_RUNNING, "interrupted; what was done is above");
        return false;
    }
    return sweep_fits(sweep) || refuse(sweep, trace, error);
}

/* ---- what is shown ---- */

/* Returns the step of a configuration if operators take so many times as long; 0 if it has no plan.
 */
static double scaled_step(const struct simulation *s, const struct sweep_row *row, double times)
{
    struct trace *scaled = operator_times_scale(sweep_row_trace(s->trace, &s->sweep, row), times);
    struct plan *plan = sweep_plan(scaled, &s->sweep, row, NULL);
    double seconds = plan ? plan->predicted.iteration_seconds : 0;
    plan_free(plan);
    trace_free(scaled);
    return seconds;
}

/* Says where operators' times come from if they are estimates, and how long the best may take.
 * Rates of copies are not part of it. */
static void print_band(const struct simulation *s, const struct sweep *sweep)
{
    g_autoptr(GArray) ranked = sweep_rank(sweep);
    const struct sweep_row *best = &sweep->rows[g_array_index(ranked, uint32_t, 0)];
    struct operator_times_band band;
    if (best->fits && operator_times_band(s->trace, s->sweep.platform, &band))
        operator_times_print_band(&band, scaled_step(s, best, band.least),
                                  scaled_step(s, best, band.most), stdout);
}

/* The best configuration's plan, and what it does in time; nothing if it does not fit. */
static bool show_best(const struct simulation *s, const struct sweep *sweep, GError **error)
{
    g_autoptr(GArray) ranked = sweep_rank(sweep);
    const struct sweep_row *best = &sweep->rows[g_array_index(ranked, uint32_t, 0)];
    if (!best->fits)
        return true;
    const struct trace *trace = sweep_row_trace(s->trace, &s->sweep, best);
    struct timeline *timeline = timeline_new();
    struct plan *plan = sweep_plan(trace, &s->sweep, best, timeline);
    bool ok = (!s->emit_plan || plan_write(plan, s->emit_plan, error)) &&
              (!s->timeline ||
               timeline_write(timeline, plan, trace, s->sweep.costs, s->timeline, error));
    if (ok && s->stalls)
        timeline_print_stalls(timeline, plan, trace, s->stalls, stdout);
    if (ok && s->sweep.phases)
        phases_print(best->phases, stdout);
    plan_free(plan);
    timeline_free(timeline);
    return ok;
}

static void print_fit(const char *name, const struct fit *f)
{
    if (f->points)
        printf("%-20s %6u %8.2f (%6.2f, %6.2f) %9.3f (%7.3f, %7.3f) %9.1f %% %9.1f %%\n", name,
               f->points, f->latency * 1e6, f->latency_interval.low * 1e6,
               f->latency_interval.high * 1e6, f->rate * 1e-9, f->rate_interval.low * 1e-9,
               f->rate_interval.high * 1e-9, f->mean_error * 100, f->worst_error * 100);
}

static void print_fits(const struct costs *costs)
{
    printf("\n%-20s %6s %24s %26s %11s %11s\n", "copies", "points", "latency, us (95 %)",
           "rate, GB/s (95 %)", "mean error", "worst");
    print_fit("H2D", &costs->h2d.fit);
    print_fit("D2H", &costs->d2h.fit);
    print_fit("H2D, D2H as well", &costs->both[0].fit);
    print_fit("D2H, H2D as well", &costs->both[1].fit);
    print_fit("H2D, pageable", &costs->pageable[0].fit);
    print_fit("D2H, pageable", &costs->pageable[1].fit);
    print_fit("H2D, a core's time", &costs->threads.copy[0].fit);
    print_fit("D2H, a core's time", &costs->threads.copy[1].fit);
}

bool simulation_run(const struct simulation *s, GError **error)
{
    struct sweep *sweep = s->stages ? stage_sweep_run(s->stages) : sweep_run(s->trace, &s->sweep);
    sweep_print(sweep, s->top, stdout);
    if (is_complete(sweep) && sweep->row_count && !s->stages)
        print_band(s, sweep);
    if (s->stages)
        stage_sweep_print_best(sweep, stdout);
    bool ok = (!simulation_looks_at_best(s) || !is_complete(sweep) || show_best(s, sweep, error)) &&
              (!s->json || sweep_write_json(sweep, s->trace, s->trace_path, s->platform_path,
                                            s->sweep.costs, s->json, error)) &&
              (!s->csv || sweep_write_csv(sweep, s->csv, error));
    if (!ok)
        failure_mark(error, FAILURE_RUNNING);
    if (ok && s->fits)
        print_fits(s->sweep.costs);
    ok = ok && check(sweep, s->trace, error);
    sweep_free(sweep);
    return ok;
}
