#include "sim/replay.h"

#include "chunks/residency/residency.h"
#include "sim/clock.h"

#include <math.h>

enum { ITERATIONS_LEAST = 3, ITERATIONS_MOST = 8 };

/* Moves the issue times of the moments that were not replayed again by one iteration. */
static void end_lap(const struct sim_job *job, moment_id moment, double seconds)
{
    for (uint32_t m = moment; job->issue_ns && m < job->plan->moment_count; m++)
        job->issue_ns[m] += (uint64_t)llround(seconds * 1e9);
}

/* Replays an iteration. Returns false if from some moment on it repeats the iteration before; the
 * figures are then final. With a timeline, the whole iteration is replayed nevertheless. */
static bool iterate(struct residency *residency, struct sim_clock *clock, const struct sim_job *job,
                    struct plan_figures *figures)
{
    bool follows = false;
    for (uint32_t m = 0; m < job->plan->moment_count; m++) {
        residency_step(residency, m);
        follows = sim_clock_follows(clock);
        if (follows && !job->timeline) {
            *figures = sim_clock_finish(clock);
            end_lap(job, m + 1, figures->iteration_seconds);
            return false;
        }
    }
    *figures = sim_clock_lap(clock);
    return !follows;
}

/* Optional results of a clock; NULL if not requested. */
struct notes {
    struct timeline *timeline;
    uint64_t *issue_ns;
};

static struct replay_figures replay_noting(const struct plan *plan, const struct replay_view *view,
                                           const struct notes *notes)
{
    struct sim_job job = {.trace = view->trace,
                          .plan = plan,
                          .non_model = view->accesses->non_model,
                          .costs = view->costs,
                          .timeline = notes->timeline,
                          .issue_ns = notes->issue_ns};
    struct sim_clock *clock = sim_clock_new(&job);
    struct residency *residency = residency_new(plan, view->accesses, view->trace, &sim_clock_mover,
                                                clock);
    struct replay_figures figures;
    residency_load(residency);
    sim_clock_await_copies(clock);
    sim_clock_lap(clock);
    iterate(residency, clock, &job, &figures.first);
    figures.steady = figures.first;
    /* Queues that run ahead of each other settle into a period of one iteration. */
    for (int i = 2; i <= ITERATIONS_MOST; i++) {
        struct plan_figures before = figures.steady;
        bool goes_on = iterate(residency, clock, &job, &figures.steady);
        g_assert(figures_equal(&figures.steady, &figures.first));
        if (!goes_on)
            break;
        if (i >= ITERATIONS_LEAST && figures.steady.iteration_seconds == before.iteration_seconds)
            break;
    }
    figures.steady.iteration_seconds = fmax(figures.steady.iteration_seconds,
                                            (double)sim_clock_busiest_ns(clock) * 1e-9);
    residency_free(residency);
    sim_clock_free(clock);
    return figures;
}

bool replay_check_trace(const struct trace *trace, const char *origin, GError **error)
{
    if (trace->operator_count && trace->access_count)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "%s: no iteration in it: %u operators that access %u tensors", origin,
                trace->operator_count, trace->tensor_count);
    return false;
}

bool replay_is_timed(const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].duration_ns)
            return true;
    return false;
}

struct replay_figures replay(const struct plan *plan, const struct replay_view *view)
{
    return replay_noting(plan, view, &(struct notes){0});
}

struct replay_figures replay_with(const struct plan *plan, const struct replay_view *view,
                                  struct timeline *timeline)
{
    return replay_noting(plan, view, &(struct notes){.timeline = timeline});
}

struct replay_figures replay_times(const struct plan *plan, const struct replay_view *view,
                                   uint64_t *issue_ns)
{
    return replay_noting(plan, view, &(struct notes){.issue_ns = issue_ns});
}
