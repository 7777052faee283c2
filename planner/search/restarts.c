/* Searches that begin anew. What a search finds depends on where chance leads it, and a local
 * search does not get far from there. So where the plan stays far above its bound, and a search is
 * quick, others begin with other random numbers, and the best plan of all is kept. */
#include "planner/search/variants.h"

/* The most searches that follow the first one, and by how much their seeds differ. */
enum { RESTARTS = 2, SEED_STEP = 1000003 };

static bool may_begin_anew(const struct search_options *options, const struct search_result *best)
{
    return options->objective == OBJECTIVE_TIME && best->far && !best->stopped &&
           !(options->hurry && g_atomic_int_get(options->hurry));
}

/* Keeps the better result, with what both have tried, and frees the other one, which may be NULL.
 */
static struct variants_result *take_better(enum objective objective, struct variants_result *result,
                                           struct variants_result *other)
{
    if (!other)
        return result;
    struct variants_result *best = result, *worse = other;
    if (objective_prefers(objective, other->best->plan, result->best->plan)) {
        best = other;
        worse = result;
    }
    search_baselines_take_better(objective, best->best, worse->best);
    best->best->plans_tried += worse->best->plans_tried;
    best->best->layouts_tried = MAX(best->best->layouts_tried, worse->best->layouts_tried);
    best->best->stopped |= worse->best->stopped;
    variants_result_free(worse);
    return best;
}

/* Sets what is left of a limited time. Returns false if nothing is. */
static bool take_rest(double time_limit, gint64 begin, double *rest)
{
    if (time_limit > 0)
        *rest = time_limit - (double)(g_get_monotonic_time() - begin) * 1e-6;
    return time_limit <= 0 || *rest > 0;
}

struct variants_result *variants_search_anew(const struct trace *trace,
                                             const struct search_options *options, unsigned scope,
                                             GError **error)
{
    struct search_options again = *options;
    gint64 begin = g_get_monotonic_time();
    struct variants_result *result = variants_search(trace, options, scope, error);
    again.alone = true; /* the baselines are known */
    for (int i = 0; i < RESTARTS && result && may_begin_anew(options, result->best) &&
                    take_rest(options->time_limit, begin, &again.time_limit);
         i++) {
        again.seed += SEED_STEP;
        result = take_better(options->objective, result,
                             variants_search(trace, &again, scope, NULL));
    }
    return result;
}
