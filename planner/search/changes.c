/* A local search over what a trial decides: the places of single groups, its layout, the order of
 * the host's updates, and its bias. */
#include "planner/search/trials.h"

#include <string.h>

/* Changes tried with the same best trials, how many of these there are, and the most halves of a
 * typical chunk that are left free. */
enum { CHANGES = 16, PARENTS = 8, RESERVE_MOST = 4 };

/* Rounds at most, and rounds in a row that may find nothing better. */
static const struct patience {
    uint32_t rounds, idle;
} patience_short = {24, 8}, patience_long = {6, 2};

/* The groups of the best plan, in the order of the model. */
struct groups {
    uint32_t count, tensor_count;
    uint32_t *of_tensor; /* [tensor_count] */
    double *elements;    /* [count] of tensors that are trained */
    uint8_t *on_host;    /* [count] */
    double all;
};

static void groups_open(struct groups *groups, const struct trace *trace, const struct plan *plan)
{
    const struct layout *layout = plan->layout;
    *groups = (struct groups){.count = layout->group_count, .tensor_count = trace->tensor_count};
    groups->of_tensor = g_new(uint32_t, trace->tensor_count);
    groups->elements = g_new0(double, layout->group_count);
    groups->on_host = g_new0(uint8_t, layout->group_count);
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        uint32_t group = layout->chunks[layout->places[TRACE_PARAM][t].chunk].group;
        double trained = plan->choices->frozen[t] ? 0 : (double)trace->tensors[t].elements;
        groups->of_tensor[t] = group;
        groups->elements[group] += trained;
        groups->all += trained;
        groups->on_host[group] = plan->choices->host_update[t];
    }
}

static void groups_close(struct groups *groups)
{
    g_free(groups->of_tensor);
    g_free(groups->elements);
    g_free(groups->on_host);
}

/* Returns the shares of the tensors on the host, with these sides of the groups. */
static double *shares_of(const struct groups *groups, const uint8_t *on_host)
{
    double *shares = g_new(double, groups->tensor_count);
    for (uint32_t t = 0; t < groups->tensor_count; t++)
        shares[t] = on_host[groups->of_tensor[t]];
    return shares;
}

static uint32_t draw(GRand *random, uint32_t below)
{
    return (uint32_t)g_rand_int_range(random, 0, (gint32)below);
}

/* Draws a group in proportion to its elements. */
static uint32_t draw_group(const struct groups *groups, GRand *random)
{
    double place = g_rand_double(random) * groups->all;
    uint32_t group = 0;
    while (group + 1 < groups->count && place >= groups->elements[group])
        place -= groups->elements[group++];
    return group;
}

/* Lets groups change their sides, drawn at random, until the host has about as many elements as
 * before. */
static void balance(const struct groups *groups, uint32_t moved, GRand *random, uint8_t *on_host)
{
    double owed = groups->elements[moved];
    for (uint32_t tries = 0; tries < groups->count; tries++) {
        uint32_t other = draw_group(groups, random);
        if (on_host[other] != on_host[moved] || other == moved ||
            groups->elements[other] > 1.5 * owed || on_host[other] != groups->on_host[other])
            continue;
        on_host[other] ^= 1;
        owed -= groups->elements[other];
    }
}

/* Returns the shares of a placement in which one group changes its side and, mostly, others do the
 * other way round. */
static double *change(const struct groups *groups, GRand *random)
{
    g_autofree uint8_t *on_host = g_memdup2(groups->on_host, groups->count);
    uint32_t moved = draw_group(groups, random);
    on_host[moved] ^= 1;
    if (draw(random, 4))
        balance(groups, moved, random, on_host);
    return shares_of(groups, on_host);
}

/* What is changed: one of the best trials or, if they are varied, now and then the best one of a
 * layout, because the best trials are often alike. A change may also take the layout of another. */
struct parents {
    bool varied;
    uint32_t best[PARENTS], best_count;         /* trials */
    uint32_t of_layouts[PARENTS], layout_count; /* trials */
};

static struct parents list_parents(const struct search *search)
{
    struct parents parents = {.varied = search->context.thorough};
    enum objective objective = search->options.objective;
    parents.best_count = trials_rank(search->trials, objective, false, parents.best, PARENTS);
    parents.layout_count = trials_rank(search->trials, objective, true, parents.of_layouts,
                                       PARENTS);
    return parents;
}

/* Draws the best trial of a layout. */
static uint32_t draw_of_layouts(const struct parents *parents, GRand *random)
{
    return parents->of_layouts[draw(random, parents->layout_count)];
}

static uint32_t draw_parent(const struct parents *parents, GRand *random)
{
    uint32_t rank = 0;
    if (parents->varied && draw(random, 3) == 0)
        return draw_of_layouts(parents, random);
    while (rank + 1 < parents->best_count && draw(random, 3) == 0)
        rank++;
    return parents->best[rank];
}

/* Changes some of the numbers that are not places. */
static void change_settings(const struct search *search, GRand *random,
                            struct trial_settings *settings)
{
    struct retention_bias *bias = &settings->bias;
    if (draw(random, 3) == 0)
        bias->parameter_share = (uint8_t)draw(random, BIAS_PARTS + 1);
    if (draw(random, 3) == 0)
        bias->d2h_share = (uint8_t)draw(random, BIAS_PARTS + 1);
    if (draw(random, 4) == 0)
        bias->reserve = (uint8_t)draw(random, RESERVE_MOST + 1);
    if (draw(random, 6) == 0)
        bias->spread = !bias->spread;
    if (draw(random, 4) == 0 && search->job.trace->stages <= 1)
        settings->first_update = search_order(search, draw(random, SEARCH_ORDERS));
    if (search->context.thorough && draw(random, 4) == 0)
        settings->little_slack = !settings->little_slack;
}

static void add_change(struct search *search, const struct parents *parents, GRand *random)
{
    const struct trial parent = *search_trial(search, draw_parent(parents, random));
    struct placement placement = parent.placement;
    struct trial_settings settings = trial_settings_of(&parent);
    uint32_t layout = parent.layout;
    if (draw(random, 2)) {
        struct groups groups;
        groups_open(&groups, search->job.trace, parent.plan);
        double *shares = change(&groups, random);
        groups_close(&groups);
        placement = search_chosen(search, shares);
    }
    if (draw(random, 4) == 0)
        layout = search_trial(search, draw_of_layouts(parents, random))->layout;
    change_settings(search, random, &settings);
    search_add_once(search, layout, placement, &settings);
}

static void add_changes(struct search *search, GRand *random)
{
    const struct parents parents = list_parents(search);
    for (int i = 0; i < CHANGES; i++)
        add_change(search, &parents, random);
}

/* ---- all sides of the largest groups ---- */

/* Of so many layouts, at most LARGEST groups change their sides, and only those with at least one
 * LEAST_PART-th of the elements. */
enum { SIDED_LAYOUTS = 4, LARGEST = 6, LEAST_PART = 50 };

/* Writes the largest groups; returns how many they are. */
static uint32_t find_largest(const struct groups *groups, uint32_t largest[LARGEST])
{
    g_autofree uint8_t *taken = g_new0(uint8_t, groups->count);
    for (uint32_t n = 0; n < LARGEST; n++) {
        uint32_t best = NO_INDEX;
        for (uint32_t g = 0; g < groups->count; g++)
            if (!taken[g] && (best == NO_INDEX || groups->elements[g] > groups->elements[best]))
                best = g;
        if (best == NO_INDEX || groups->elements[best] * LEAST_PART < groups->all)
            return n;
        taken[best] = 1;
        largest[n] = best;
    }
    return LARGEST;
}

static void add_sides(struct search *search, const struct trial *trial)
{
    struct groups groups;
    uint32_t largest[LARGEST];
    groups_open(&groups, search->job.trace, trial->plan);
    const struct trial_settings settings = trial_settings_of(trial);
    uint32_t count = find_largest(&groups, largest);
    for (uint32_t sides = 0; sides < UINT32_C(1) << count; sides++) {
        for (uint32_t i = 0; i < count; i++)
            groups.on_host[largest[i]] = sides >> i & 1;
        search_add_once(search, trial->layout,
                        search_chosen(search, shares_of(&groups, groups.on_host)), &settings);
    }
    groups_close(&groups);
}

void search_try_sides(struct search *search)
{
    uint32_t best[SIDED_LAYOUTS];
    if (search_is_over(search))
        return;
    uint32_t count = trials_rank(search->trials, search->options.objective, true, best,
                                 search->context.thorough ? SIDED_LAYOUTS : 1);
    for (uint32_t i = 0; i < count; i++) {
        const struct trial trial = *search_trial(search, best[i]); /* adding trials moves it */
        if (trial.plan->choices)
            add_sides(search, &trial);
    }
    search_run(search, search_run_plans);
}

void search_change(struct search *search)
{
    uint32_t operators = search->job.trace->operator_count, idle = 0;
    const struct patience *patience = operators > THOROUGH_MOST ? &patience_long : &patience_short;
    for (uint32_t round = 0; round < patience->rounds && idle < patience->idle; round++) {
        const struct trial *best = search->context.incumbent;
        const struct plan *plan = best ? best->plan : NULL;
        if (!plan || !plan->choices || search_is_over(search))
            return;
        double before = objective_of_plan(search->options.objective, plan);
        add_changes(search, search->random);
        search_run(search, search_run_plans);
        double now = objective_of_plan(search->options.objective, search->context.incumbent->plan);
        if (operators > VERY_LONG_ITERATION && now > before * (1 - LEAST_GAIN))
            return;
        idle = search->context.incumbent->plan == plan ? idle + 1 : 0;
    }
}
