#include "planner/search/glance.h"

#include "planner/search/tries.h"

struct plan *glance(const struct trace *trace, const struct layout *layout, struct plan *best,
                    const struct search_options *options)
{
    struct non_model *non_model = non_model_place(trace);
    const struct candidate_job job = {.trace = trace,
                                      .non_model = non_model,
                                      .costs = options->costs,
                                      .platform = options->platform,
                                      .device_bytes = options->device_bytes,
                                      .host_bytes = options->host_bytes};
    const gint stop = 0;
    const struct outcome known = {.plan = best,
                                  .promise = objective_of_plan(options->objective, best)};
    const struct tries tries = {
        .job = &job, .objective = options->objective, .stop = &stop, .best = &known};
    const struct layout_spec spec = {.given = layout};
    bool timed = options->objective != OBJECTIVE_TRAFFIC;
    struct outcome outcome = {.placement = {PLACEMENT_TRACED, 0, 0, NULL},
                              .taste = {.favour = timed ? FAVOUR_PARTS / 2 : 0},
                              .effort = EFFORT_GLANCE};

    tries_plans(&tries, &spec, options->seed, &outcome);
    g_clear_error(&outcome.error);
    pace_free(outcome.pace);
    non_model_free(non_model);
    return outcome.plan;
}
