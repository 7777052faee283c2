/* The numbers of a bias, tried one after the other, and the weights of the link's ways. */
#include "planner/search/trials.h"

/* One way of the link is much busier than the other if it carries copies this many times as long.
 */
#define MUCH_BUSIER 1.25

enum bias_number {
    BIAS_PARAMETER_SHARE,
    BIAS_D2H_SHARE,
    BIAS_RESERVE,
    BIAS_GATHER_SHARE,
    BIAS_NUMBERS
};
static const uint8_t bias_most[] = {BIAS_PARTS, BIAS_PARTS, 8, BIAS_PARTS};

static uint8_t *number_of(struct retention_bias *bias, enum bias_number number)
{
    return number == BIAS_PARAMETER_SHARE ? &bias->parameter_share
           : number == BIAS_D2H_SHARE     ? &bias->d2h_share
           : number == BIAS_GATHER_SHARE  ? &bias->gather_share
                                          : &bias->reserve;
}

/* Tries one other number in the biases of the best layouts: up to `most` more and less, in steps.
 */
static void try_bias(struct search *search, enum bias_number number, uint32_t layouts, int step,
                     int most)
{
    g_autofree uint32_t *best = g_new(uint32_t, layouts);
    uint32_t count = trials_rank(search->trials, search->options.objective, true, best, layouts);
    for (uint32_t i = 0; i < count; i++) {
        const struct trial trial = *search_trial(search, best[i]);
        struct trial_settings settings = trial_settings_of(&trial);
        uint8_t *value = number_of(&settings.bias, number);
        int now = *value;
        for (int change = -most; change <= most; change += step) {
            *value = (uint8_t)CLAMP(now + change, 0, bias_most[number]);
            search_add_once(search, trial.layout, trial.placement, &settings);
        }
    }
    search_run(search, search_run_plans);
}

void search_try_biases(struct search *search, uint32_t layouts, int step, int most)
{
    bool gathers = search->job.trace->list_element_bytes[TRACE_GATHERED];
    if (search->options.objective == OBJECTIVE_TRAFFIC)
        return;
    for (int number = 0; number < (gathers ? BIAS_NUMBERS : BIAS_GATHER_SHARE); number++)
        try_bias(search, (enum bias_number)number, layouts, step, most);
}

int search_busy_way_share(const struct search *search)
{
    const struct trial *best = search->context.incumbent;
    if (!best)
        return SEARCH_ANY_SHARE;
    const struct plan_figures *figures = &best->plan->predicted;
    double in = (double)figures->h2d_bytes / costs_link_rate(search->job.costs, MOVER_H2D);
    double out = (double)figures->d2h_bytes / costs_link_rate(search->job.costs, MOVER_D2H);
    return out > MUCH_BUSIER * in ? BIAS_PARTS : in > MUCH_BUSIER * out ? 0 : SEARCH_ANY_SHARE;
}
