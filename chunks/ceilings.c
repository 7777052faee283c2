#include "chunks/ceilings.h"

/* Goes backwards through two iterations, so that the first knows what the second does. */
struct search {
    const uint64_t *non_model; /* [moment_count] */
    uint64_t budget;
    uint32_t moment_count;
    /* Moments from now on, latest first, that no earlier one exceeds: the maximum up to any moment
     * is that of the first of them before it. */
    uint32_t *maxima, count;
    uint32_t *leave; /* [chunk_count] moment of its next departure; UINT32_MAX: none */
};

static void step_back(struct search *s, uint32_t moment)
{
    uint64_t bytes = s->non_model[moment % s->moment_count];
    while (s->count && s->non_model[s->maxima[s->count - 1] % s->moment_count] <= bytes)
        s->count--;
    s->maxima[s->count++] = moment;
}

/* Of now until `end`. */
static uint64_t lowest_ceiling(const struct search *s, uint32_t end)
{
    uint32_t low = 0, high = s->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (s->maxima[middle] >= end)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t most = low < s->count ? s->non_model[s->maxima[low] % s->moment_count] : 0;
    return (s->budget - most) / LAYOUT_ALIGNMENT * LAYOUT_ALIGNMENT;
}

/* `arrival` NULL: only to know what comes after the iteration before. */
static void go_back_through(struct search *s, const struct decisions *decisions, uint32_t base,
                            uint64_t *arrival)
{
    for (uint32_t m = s->moment_count + 1; m-- > 0;) {
        if (m < s->moment_count)
            step_back(s, base + m);
        for (uint32_t i = decisions->first[m + 1]; i-- > decisions->first[m];) {
            const struct plan_action *action = &g_array_index(decisions->actions,
                                                              struct plan_action, i);
            if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP)
                s->leave[action->chunk] = base + m;
            else if (arrival && (action->kind == PLAN_FETCH || action->kind == PLAN_ALLOCATE))
                arrival[i] = lowest_ceiling(s, MIN(s->leave[action->chunk], m + s->moment_count));
        }
    }
}

struct ceilings *ceilings_new(const struct decisions *decisions, const struct accesses *accesses,
                              uint64_t device_budget)
{
    uint32_t moments = accesses->moment_count, chunks = accesses->chunk_count;
    struct ceilings *ceilings = g_new(struct ceilings, 1);
    g_autofree uint32_t *maxima = g_new(uint32_t, 2 * (size_t)moments);
    g_autofree uint32_t *leave = g_new(uint32_t, chunks);
    struct search search = {.non_model = accesses->non_model,
                            .budget = device_budget,
                            .moment_count = moments,
                            .maxima = maxima,
                            .leave = leave};

    ceilings->arrival = g_new(uint64_t, decisions->actions->len);
    ceilings->initial = g_new(uint64_t, chunks);
    memset(leave, 0xff, chunks * sizeof *leave);
    go_back_through(&search, decisions, moments, NULL);
    go_back_through(&search, decisions, 0, ceilings->arrival);
    for (uint32_t c = 0; c < chunks; c++)
        ceilings->initial[c] = lowest_ceiling(&search, MIN(leave[c], moments));
    return ceilings;
}

void ceilings_free(struct ceilings *ceilings)
{
    if (!ceilings)
        return;
    g_free(ceilings->arrival);
    g_free(ceilings->initial);
    g_free(ceilings);
}
