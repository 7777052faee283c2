/* A search of few trials. It takes its decisions in the order in which they matter: where the
 * optimizer runs, how large chunks are, and what stays first. */
#include "planner/search/trials.h"

enum {
    FIRST_SHARES = 4,  /* steps from all updates on the device to all on the host */
    MIDDLE_LAYOUT = 4, /* of a sweep; its chunks are as large as the mean tensor */
    COARSE_STEP = PLACEMENT_PARTS / 8,
    FINE_STEP = PLACEMENT_PARTS / 32,
    DESCENTS_MOST = 3, /* for each step */
};

static const struct placement as_traced = {.pattern = PLACEMENT_TRACED};
static const struct placement all_on_host = {.pattern = PLACEMENT_SPREAD, .parts = PLACEMENT_PARTS};

static const struct layout_choice *choice_at(const struct search *search, guint index)
{
    return &g_array_index(search->choices->items, struct layout_choice, index);
}

static bool is_first_of_its_kind(const struct search *search, guint index)
{
    return choice_at(search, index)->swept && !choice_at(search, index)->duplicate;
}

/* Returns the middle one of the sweep's layouts, or the last one before it. */
static uint32_t middle_layout(const struct search *search)
{
    uint32_t middle = 0, swept = 0;
    for (guint i = 0; i < search->choices->items->len && swept <= MIDDLE_LAYOUT; i++) {
        swept += choice_at(search, i)->swept;
        if (is_first_of_its_kind(search, i))
            middle = i;
    }
    return middle;
}

static void try_shares(struct search *search, uint32_t layout)
{
    if (!search->context.strategies)
        search_add_once(search, layout, as_traced, &search->settings);
    for (uint16_t share = 0; search->context.strategies && share <= FIRST_SHARES; share++)
        search_add_once(
            search, layout,
            (struct placement){.pattern = PLACEMENT_SPREAD,
                               .parts = (uint16_t)(share * (PLACEMENT_PARTS / FIRST_SHARES))},
            &search->settings);
    search_run(search, search_run_plans);
}

/* Looks for anything that fits. */
static void try_everything(struct search *search)
{
    for (guint i = 0; i < search->choices->items->len; i++) {
        if (choice_at(search, i)->duplicate)
            continue;
        search_add_once(search, i, as_traced, &search->settings);
        if (search->context.strategies)
            search_add_once(search, i, all_on_host, &search->settings);
    }
    search_run(search, search_run_plans);
}

/* Tries the best trial with a little more and a little less on the host, of all groups or of the
 * last. */
static void shift_share(struct search *search, int step)
{
    static const struct {
        int8_t parts, tail;
    } ways[] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
    const struct trial *best = search->context.incumbent;
    if (!best || best->placement.pattern != PLACEMENT_SPREAD)
        return;
    const struct placement placement = best->placement;
    const struct trial_settings settings = trial_settings_of(best);
    uint32_t layout = best->layout;
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        int parts = placement.parts + step * ways[i].parts;
        int tail = placement.tail + step * ways[i].tail;
        if (parts >= 0 && parts <= (int)PLACEMENT_PARTS && tail >= 0 && tail <= parts)
            search_add_once(search, layout,
                            (struct placement){.pattern = PLACEMENT_SPREAD,
                                               .parts = (uint16_t)parts,
                                               .tail = (uint16_t)tail},
                            &settings);
    }
    search_run(search, search_run_plans);
}

/* Tries the best trial with other weights of copies to the host, and with other shares of the
 * parameters first. */
static void try_other_biases(struct search *search)
{
    static const uint8_t weights[] = {1, BIAS_PARTS - 1}, shares[] = {0, BIAS_PARTS};
    if (!search->context.incumbent)
        return;
    const struct trial best = *search->context.incumbent;
    for (size_t i = 0; i < G_N_ELEMENTS(weights); i++) {
        struct trial_settings settings = trial_settings_of(&best);
        settings.bias.d2h_share = weights[i];
        search_add_once(search, best.layout, best.placement, &settings);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(shares); i++) {
        struct trial_settings settings = trial_settings_of(&best);
        settings.bias.parameter_share = shares[i];
        search_add_once(search, best.layout, best.placement, &settings);
    }
    search_run(search, search_run_plans);
}

static void try_other_layouts(struct search *search)
{
    if (!search->context.incumbent)
        return;
    const struct placement placement = search->context.incumbent->placement;
    for (guint i = 0; i < search->choices->items->len; i++)
        if (is_first_of_its_kind(search, i))
            search_add_once(search, i, placement, &search->settings);
    search_run(search, search_run_plans);
}

/* Goes on to the best share beside the best one, a few times at most. */
static void descend(struct search *search, int step)
{
    const struct plan *before = NULL;
    for (int i = 0; i < DESCENTS_MOST; i++) {
        const struct trial *best = search->context.incumbent;
        if (!best || best->plan == before)
            return;
        before = best->plan;
        shift_share(search, step);
    }
}

struct search_result *search_briefly(const struct trace *trace,
                                     const struct search_options *options, GError **error)
{
    struct search *search = search_new(trace, options);
    struct retention_bias *bias = &search->settings.bias;
    bias->parameter_share = bias->d2h_share = bias->gather_share = BIAS_PARTS / 2;
    try_shares(search, middle_layout(search));
    if (!search->context.incumbent)
        try_everything(search);
    try_other_biases(search);
    descend(search, COARSE_STEP);
    try_other_layouts(search);
    for (int step = COARSE_STEP; step >= FINE_STEP; step /= 2)
        descend(search, step);
    try_other_biases(search);
    struct search_result *result = search_result_of(search, error);
    search_free(search);
    return result;
}
