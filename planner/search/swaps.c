/* A local search over the places of single groups. */
#include "planner/search/trials.h"

#include <string.h>

/* Changes tried with the same incumbent, and rounds in a row that may find nothing better. */
enum { CHANGES = 16, IDLE_ROUNDS = 2 };

/* In very long iterations, where a round takes long, it must gain more than this, or it is the last
 * one. */
#define LEAST_GAIN 5e-4

/* The groups of the best plan, in the order of the model. */
struct groups {
    uint32_t count, tensor_count;
    uint32_t *of_tensor; /* [tensor_count] */
    double *elements;    /* [count] */
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
        groups->of_tensor[t] = group;
        groups->elements[group] += (double)trace->tensors[t].elements;
        groups->all += (double)trace->tensors[t].elements;
        groups->on_host[group] = plan->choices->host_update[t];
    }
}

static void groups_close(struct groups *groups)
{
    g_free(groups->of_tensor);
    g_free(groups->elements);
    g_free(groups->on_host);
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
    double *shares = g_new(double, groups->tensor_count);
    uint32_t moved = draw_group(groups, random);
    on_host[moved] ^= 1;
    if (g_rand_int_range(random, 0, 4))
        balance(groups, moved, random, on_host);
    for (uint32_t t = 0; t < groups->tensor_count; t++)
        shares[t] = on_host[groups->of_tensor[t]];
    return shares;
}

static void add_changes(struct search *search, const struct trial *best, GRand *random)
{
    struct groups groups;
    uint32_t layout = best->layout;
    groups_open(&groups, search->job.trace, best->plan);
    search->bias = best->bias;
    for (int i = 0; i < CHANGES; i++) {
        double *shares = change(&groups, random);
        g_ptr_array_add(search->mixes, shares);
        search_add_once(search, layout,
                        (struct placement){PLACEMENT_CHOSEN, PLACEMENT_PARTS / 2, 0, shares});
    }
    groups_close(&groups);
}

void search_swap_groups(struct search *search, uint32_t rounds)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(search->options.seed);
    bool very_long = search->job.trace->operator_count > VERY_LONG_ITERATION;
    uint32_t idle = 0;
    for (uint32_t round = 0; round < rounds && idle < IDLE_ROUNDS; round++) {
        const struct trial *best = search->context.incumbent;
        const struct plan *plan = best ? best->plan : NULL;
        if (!plan || !plan->choices || search_is_over(search))
            return;
        double before = objective_of_plan(search->options.objective, plan);
        add_changes(search, best, random);
        search_run(search, search_run_plans);
        double now = objective_of_plan(search->options.objective, search->context.incumbent->plan);
        if (very_long && now > before * (1 - LEAST_GAIN))
            return;
        idle = search->context.incumbent->plan == plan ? idle + 1 : 0;
    }
}
