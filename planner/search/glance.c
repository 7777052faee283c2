#include "planner/search/glance.h"

#include "planner/search/trials.h"

struct plan *plan_quickly(const struct trace *trace, const struct layout *layout, struct plan *best,
                          const struct search_options *options)
{
    struct non_model *non_model = non_model_place(trace);
    const struct candidate_job job = {.trace = trace,
                                      .non_model = non_model,
                                      .costs = options->costs,
                                      .platform = options->platform,
                                      .device_budget = options->device_budget,
                                      .host_budget = options->host_budget};
    const gint stop = 0;
    const struct trial known = {.plan = best,
                                .lower_bound = objective_of_plan(options->objective, best)};
    const struct trial_context context = {
        .job = &job, .objective = options->objective, .stop = &stop, .incumbent = &known};
    const struct layout_spec spec = {.given = layout};
    bool timed = options->objective != OBJECTIVE_TRAFFIC;
    struct trial trial = {.placement = {PLACEMENT_TRACED, 0, 0, NULL},
                          .bias = {.parameter_share = timed ? BIAS_PARTS / 2 : 0},
                          .effort = EFFORT_1};

    trial_run(&context, &spec, options->seed, &trial);
    g_clear_error(&trial.error);
    moment_times_free(trial.times);
    non_model_free(non_model);
    return trial.plan;
}
