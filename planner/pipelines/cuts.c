#include "planner/pipelines/cuts.h"

#include "planner/pipelines/pass_clock.h"
#include "planner/pipelines/stage_links.h"

#include <math.h>
#include <string.h>

/* ---- chains ---- */

/* What the stages before one take of a micro-batch, for every number of layers in them. */
struct chains {
    const struct pipeline_job *job;
    uint64_t *forward_ns, *backward_ns; /* [layers + 1] of the first, and of the last micro-batch */
    uint64_t *sent_ns, *returned_ns;    /* [stages] messages to the stage, and from it */
    uint64_t *onward_ns; /* [layers + 1] what a micro-batch takes from a layer on, and back to it */
    /* Of the first stage, with one layer. The last are gradients of weights of one micro-batch. */
    uint64_t first_update_ns, first_reduce_ns, first_weights_ns;
    uint64_t through_ns; /* a micro-batch, forward and backward */
    uint64_t back_ns;    /* the same from where it comes to the last stage, which has one layer */
    uint64_t shown_ns;
    uint64_t way_ns; /* a micro-batch forward through all stages */
    double *trained; /* [layers + 2] parameters of the embedding and of the layers before; of all */
    bool uniform;    /* layers are alike */
};

static bool are_alike(const struct units *units)
{
    for (uint32_t l = 1; l < units->layers; l++)
        if (memcmp(&units->layer[l], &units->layer[0], sizeof units->layer[0]) != 0)
            return false;
    return true;
}

static void sum_layers(struct chains *chains)
{
    const struct pipeline_job *job = chains->job;
    const struct units *units = job->units;
    int last = job->micro_batches > 1 ? UNIT_LATER : UNIT_FIRST;
    chains->forward_ns = g_new(uint64_t, units->layers + 1);
    chains->backward_ns = g_new(uint64_t, units->layers + 1);
    chains->forward_ns[0] = units->embedding.forward_ns[UNIT_FIRST];
    chains->backward_ns[0] = units->embedding.way[UNIT_KEPT].backward_ns[last];
    if (stage_tied(job) == STAGE_TIED_EACH)
        chains->backward_ns[0] += units->tied_gradient_ns + units->tied_add_ns[last];
    for (uint32_t l = 0; l < units->layers; l++) {
        int way = job->recompute && job->recompute[l] ? UNIT_RECOMPUTED : UNIT_KEPT;
        chains->forward_ns[l + 1] = chains->forward_ns[l] + units->layer[l].forward_ns[UNIT_FIRST];
        chains->backward_ns[l + 1] = chains->backward_ns[l] +
                                     units->layer[l].way[way].backward_ns[last];
    }
}

static void sum_messages(struct chains *chains)
{
    const struct pipeline_job *job = chains->job;
    chains->sent_ns = g_new0(uint64_t, job->stages);
    chains->returned_ns = g_new0(uint64_t, job->stages);
    for (uint32_t s = 1; s < job->stages; s++) {
        uint64_t copies = (s > 1 ? 2 : 1) * job->units->stream_ns;
        chains->sent_ns[s] = chains->sent_ns[s - 1] + copies + stage_message(job, s - 1, s).all_ns;
        chains->returned_ns[s] = chains->returned_ns[s - 1] + copies +
                                 stage_message(job, s, s - 1).all_ns;
    }
}

static void sum_trained(struct chains *chains)
{
    const struct units *units = chains->job->units;
    chains->trained = g_new(double, units->layers + 2);
    chains->trained[0] = (double)units->embedding.trained;
    for (uint32_t l = 0; l < units->layers; l++)
        chains->trained[l + 1] = chains->trained[l] + (double)units->layer[l].trained;
    chains->trained[units->layers + 1] = chains->trained[units->layers] +
                                         (double)units->head.trained;
}

static uint64_t lesser(const uint64_t turns[UNIT_TURNS])
{
    return MIN(turns[UNIT_FIRST], turns[UNIT_LATER]);
}

/* Adds up a micro-batch's way through all stages and back. Of its two turns the lesser counts. */
static void sum_ways(struct chains *chains)
{
    const struct pipeline_job *job = chains->job;
    const struct units *units = job->units;
    const uint64_t *head_ns = units->head.way[UNIT_KEPT].backward_ns;
    uint64_t forward_ns = lesser(units->embedding.forward_ns);
    uint64_t backward_ns = lesser(units->embedding.way[UNIT_KEPT].backward_ns);
    uint64_t last_ns = lesser(units->head.forward_ns) +
                       lesser(units->layer[units->layers - 1].forward_ns);
    chains->onward_ns = g_new(uint64_t, units->layers + 1);
    chains->onward_ns[units->layers] = lesser(units->head.forward_ns) + lesser(head_ns);
    for (uint32_t l = units->layers; l-- > 0;) {
        int way = job->recompute && job->recompute[l] ? UNIT_RECOMPUTED : UNIT_KEPT;
        uint64_t layer_ns[] = {lesser(units->layer[l].forward_ns),
                               lesser(units->layer[l].way[way].backward_ns)};
        forward_ns += layer_ns[0];
        backward_ns += layer_ns[1];
        chains->onward_ns[l] = chains->onward_ns[l + 1] + layer_ns[0] + layer_ns[1];
    }
    forward_ns += lesser(units->head.forward_ns);
    backward_ns += lesser(head_ns);
    if (job->stages > 1) {
        uint32_t last = job->stages - 1;
        last_ns += units->stream_ns;
        forward_ns += chains->sent_ns[last] + units->stream_ns;
        backward_ns += chains->returned_ns[last] + units->stream_ns;
    }
    chains->way_ns = forward_ns;
    chains->through_ns = forward_ns + backward_ns;
    chains->back_ns = last_ns + backward_ns;
}

static void open_chains(struct chains *chains, const struct pipeline_job *job)
{
    struct stage_cost first;
    *chains = (struct chains){.job = job, .uniform = are_alike(job->units)};
    stage_cost(job, 0, 0, 1, &first);
    chains->first_update_ns = first.update_ns + (job->stages > 1 ? job->units->tied_ns : 0);
    chains->first_reduce_ns = first.reduce_ns;
    chains->first_weights_ns = lesser(first.weights_ns);
    chains->shown_ns = stage_shown_ns(job);
    sum_layers(chains);
    sum_messages(chains);
    sum_ways(chains);
    sum_trained(chains);
}

static void close_chains(struct chains *chains)
{
    g_free(chains->forward_ns);
    g_free(chains->backward_ns);
    g_free(chains->sent_ns);
    g_free(chains->returned_ns);
    g_free(chains->onward_ns);
    g_free(chains->trained);
}

/* Returns whether the layer is one of the stage's, and recomputed. */
static bool is_recomputed_here(const struct pipeline_job *job, const struct stage_cost *cost,
                               uint32_t layer)
{
    for (uint32_t part = 0; part < job->parts; part++) {
        const struct stage_layers layers = stage_part(job, cost, part);
        if (layer >= layers.first && layer < layers.end)
            return stage_recomputes(job, cost, layer);
    }
    return false;
}

/* Where layers differ, others than those that were chosen might be recomputed. */
static struct stage_cost least_cost(const struct chains *chains, const struct stage_cost *cost)
{
    const struct pipeline_job *job = chains->job;
    struct stage_cost least = *cost;
    uint32_t needed = chains->uniform ? stage_least_recomputed(job, cost) : 0;
    if (job->recompute || needed == cost->recomputed)
        return least;
    for (uint32_t l = cost->first, more = cost->recomputed - needed; more > 0; l++) {
        const struct unit_way *way = job->units->layer[l].way;
        g_assert(l < cost->end);
        if (!is_recomputed_here(job, cost, l))
            continue;
        more--;
        for (int turn = 0; turn < UNIT_TURNS; turn++) {
            uint64_t more_ns = way[UNIT_RECOMPUTED].backward_ns[turn] -
                               way[UNIT_KEPT].backward_ns[turn];
            least.backward_ns[turn] -= more_ns;
            least.work_ns -= (turn == UNIT_FIRST ? 1 : job->micro_batches - 1) * more_ns;
        }
    }
    return least;
}

/* What a stage does of its passes behind the last micro-batch's backward, the first half of it if
 * it is split: gradients of weights of one micro-batch more than stages precede. */
static uint64_t late_weights_ns(const struct chains *chains, uint32_t s,
                                const struct stage_cost *cost)
{
    const struct pipeline_job *job = chains->job;
    uint32_t late = MIN(s + 1, job->micro_batches);
    if (late == job->micro_batches)
        return cost->weights_ns[UNIT_FIRST] + (late - 1) * cost->weights_ns[UNIT_LATER];
    return late * cost->weights_ns[UNIT_LATER];
}

/* What is done before the first micro-batch comes to a stage, and when the last one has left it.
 */
struct chain_ends {
    uint64_t before_ns, behind_ns;
};

static struct chain_ends ends_of(const struct chains *chains, uint32_t s,
                                 const struct stage_cost *cost)
{
    struct chain_ends ends = {0};
    if (s > 0 && chains->job->schedule != PIPELINE_2BW)
        ends.before_ns = chains->first_update_ns + chains->sent_ns[s] +
                         chains->forward_ns[cost->first];
    if (s > 0)
        ends.behind_ns = chains->first_reduce_ns + chains->first_weights_ns +
                         chains->returned_ns[s] + chains->backward_ns[cost->first];
    return ends;
}

/* What a stage does while the first micro-batch comes to it, and while the last one leaves it. */
static uint64_t passed_ns(const struct chains *chains, uint32_t s, const struct stage_cost *cost)
{
    const struct pipeline_job *job = chains->job;
    const struct chain_ends ends = ends_of(chains, s, cost);
    uint64_t late_ns = late_weights_ns(chains, s, cost), work_ns = cost->work_ns - late_ns;
    if (job->clips)
        return MAX(cost->update_ns, ends.before_ns) + work_ns +
               MAX(late_ns + cost->reduce_ns, ends.behind_ns) + chains->shown_ns;
    uint64_t own_ns = cost->update_ns + cost->work_ns + cost->reduce_ns;
    bool drains = job->schedule != PIPELINE_2BW;
    return drains ? MAX(own_ns, ends.before_ns + work_ns + ends.behind_ns) : own_ns;
}

/* A micro-batch that goes through all stages and back, and what the stage does of the others before
 * it has come back, or after. With 1f1b a stage runs stages - s forward passes before the first
 * backward pass, and as many backward passes behind the last forward pass. */
static uint64_t through_ns(const struct chains *chains, uint32_t s, const struct stage_cost *cost)
{
    const struct pipeline_job *job = chains->job;
    uint64_t others = job->micro_batches - 1, most = job->stages - s - 1;
    uint64_t fewer = others > most ? others - most : 0;
    uint64_t forward_ns = lesser(cost->forward_ns), backward_ns = lesser(cost->backward_ns);
    uint64_t ends_ns = chains->shown_ns + chains->first_reduce_ns;
    if (job->schedule == PIPELINE_2BW)
        return job->clips ? chains->back_ns + others * (forward_ns + backward_ns) + ends_ns : 0;
    ends_ns += chains->first_update_ns + chains->through_ns;
    if (job->parts > 1)
        return ends_ns;
    if (job->schedule == PIPELINE_GPIPE)
        return ends_ns + others * (forward_ns + backward_ns);
    return ends_ns + MAX(others * backward_ns + fewer * forward_ns,
                         others * forward_ns + fewer * backward_ns);
}

/* A stage has only so many micro-batches in flight: it runs the next one when the first of these
 * has been through all later stages and has come back. */
static uint64_t rounds_ns(const struct chains *chains, uint32_t s, const struct stage_cost *cost)
{
    const struct pipeline_job *job = chains->job;
    uint32_t last = job->stages - 1, in_flight = job->stages - s;
    if (s == last || job->schedule == PIPELINE_GPIPE || job->parts > 1)
        return 0;
    uint64_t round_ns = chains->onward_ns[cost->first] + 2 * job->units->stream_ns +
                        chains->sent_ns[last] - chains->sent_ns[s] + chains->returned_ns[last] -
                        chains->returned_ns[s];
    uint64_t rounds = (job->micro_batches - 1) / in_flight;
    uint64_t behind_ns = chains->first_reduce_ns + chains->returned_ns[s] +
                         chains->backward_ns[cost->first] + chains->shown_ns;
    if (s == 0)
        behind_ns = chains->shown_ns;
    if (job->schedule == PIPELINE_2BW)
        return job->clips ? rounds * round_ns + behind_ns
                          : job->micro_batches * round_ns / in_flight;
    uint64_t before_ns = chains->first_update_ns + chains->sent_ns[s] +
                         chains->forward_ns[cost->first];
    return (s ? before_ns : chains->first_update_ns) + (rounds + 1) * round_ns + behind_ns;
}

/* With tied weights, the last stage waits for the first one's copy of them, and the first one for
 * their gradients, which follow each other on one way. */
static uint64_t tied_ns(const struct chains *chains, uint32_t s, const struct stage_cost *cost)
{
    const struct pipeline_job *job = chains->job;
    const struct units *units = job->units;
    int last = job->micro_batches > 1 ? UNIT_LATER : UNIT_FIRST;
    if (s == 0 || s + 1 < job->stages || stage_tied(job) == STAGE_UNTIED)
        return 0;
    struct costs_message weights = costs_message(job->costs, 0, s, units->tied_bytes);
    struct costs_message gradient = costs_message(job->costs, s, 0, units->tied_gradient_bytes);
    uint64_t begin_ns = chains->first_update_ns + weights.all_ns;
    uint64_t end_ns = units->tied_gradient_ns + lesser(units->tied_add_ns) +
                      chains->first_reduce_ns + chains->shown_ns;
    if (job->clips)
        begin_ns = MAX(begin_ns, cost->update_ns);
    if (stage_tied(job) == STAGE_TIED_ONCE)
        return begin_ns + units->tied_ns + cost->work_ns + units->tied_gradient_ns +
               gradient.all_ns + end_ns;
    end_ns += lesser(units->embed_last_ns);
    uint64_t behind_ns = cost->backward_ns[last] - units->head_first_ns[last] -
                         units->tied_gradient_ns;
    bool follow = job->parts > 1 || pipeline_splits(job->schedule); /* other passes */
    uint64_t worked_ns = follow ? 0 : cost->work_ns - behind_ns;
    uint64_t first_ns = lesser(cost->forward_ns) + lesser(units->head_first_ns) +
                        units->tied_gradient_ns;
    uint64_t sent_ns = first_ns + (job->micro_batches - 1) * gradient.way_ns;
    return begin_ns + units->tied_ns + MAX(worked_ns, sent_ns) + gradient.all_ns + end_ns;
}

/* ---- chains whose passes wait for the link ---- */

/* Returns the least time from the first update to the end of the first forward pass in a stage that
 * has the mean of the trained parameters of so many stages, which have the layers before `end`. One
 * of them has the mean or more. */
static double mean_begin_ns(const struct chains *chains, uint32_t stages, uint32_t end)
{
    bool known = stages > 0 && chains->job->parts == 1;
    return known ? stage_begin_ns(chains->job, chains->trained[end] / stages, 0) : 0;
}

/* A stage whose passes and updates wait for its link. */
struct moving_stage {
    const struct stage_cost *cost;
    struct stage_link_times link;
    double begin_ns; /* from the first update until link.first_ns is over */
};

/* As passed_ns. The stages before have updates, too. */
static double moving_passed_ns(const struct chains *chains, uint32_t s,
                               const struct moving_stage *stage)
{
    const struct pipeline_job *job = chains->job;
    const struct chain_ends ends = ends_of(chains, s, stage->cost);
    double late_ns = (double)late_weights_ns(chains, s, stage->cost);
    double own_ns = stage->begin_ns + stage->link.rest_ns;
    if (!job->clips || job->schedule == PIPELINE_2BW)
        return fmax((double)passed_ns(chains, s, stage->cost), own_ns);
    double before_ns = fmax((double)ends.before_ns, mean_begin_ns(chains, s, stage->cost->first));
    return fmax(own_ns, before_ns + stage->link.work_ns) - late_ns +
           fmax(late_ns, (double)ends.behind_ns) + (double)chains->shown_ns;
}

/* As through_ns. */
static double moving_through_ns(const struct chains *chains, uint32_t s,
                                const struct moving_stage *stage)
{
    const struct pipeline_job *job = chains->job;
    const struct stage_link_times *link = &stage->link;
    if (job->schedule == PIPELINE_2BW || job->parts > 1 || !job->clips)
        return (double)through_ns(chains, s, stage->cost);
    double ends_ns = (double)(chains->shown_ns + chains->through_ns);
    double more_ns = job->micro_batches > 1 ? stage->begin_ns - link->first_ns : 0;
    if (job->schedule == PIPELINE_GPIPE)
        return ends_ns + link->before_last_ns + link->behind_first_ns + more_ns;
    double mean_ns = mean_begin_ns(chains, job->stages, job->units->layers + 1);
    return ends_ns + fmax(link->behind_first_ns + fmax(mean_ns - (double)chains->way_ns, 0),
                          link->before_last_ns + more_ns);
}

/* Computes what the link makes of a stage of which at most `most` layers are recomputed. Of several
 * parts it is not known in which these layers are, unless they are all. */
static struct stage_link_times least_link(const struct chains *chains,
                                          const struct stage_cost *cost, uint32_t most)
{
    const struct pipeline_job *job = chains->job;
    struct stage_cost fewest = *cost, saves = *cost;
    saves.recomputed = most;
    if (job->parts > 1 && cost->recomputed < stage_layer_count(job, cost))
        stage_recompute(job, 0, &fewest);
    struct stage_link_times link = stage_link_times(job, &fewest, &saves);
    link.work_ns = fmax(link.work_ns, (double)cost->work_ns);
    link.rest_ns = fmax(link.rest_ns, (double)cost->work_ns - link.first_ns);
    return link;
}

/* Returns the longest chain if from `least` to `most` layers of the stage are recomputed, with the
 * times of the first and the room of the last. */
static uint64_t moving_chain_ns(const struct chains *chains, uint32_t s, struct stage_cost *cost,
                                uint32_t least, uint32_t most)
{
    const struct pipeline_job *job = chains->job;
    stage_recompute(job, least, cost);
    struct moving_stage stage = {cost, least_link(chains, cost, most), 0};
    stage.begin_ns = stage_begin_ns(job, (double)cost->trained, stage.link.first_ns);
    uint64_t own_ns = (uint64_t)fmax(moving_passed_ns(chains, s, &stage),
                                     moving_through_ns(chains, s, &stage));
    return MAX(MAX(own_ns, rounds_ns(chains, s, cost)), tied_ns(chains, s, cost));
}

/* Returns the least of the chains of a stage, or `best` if that is less, whichever layers are
 * recomputed. If layers differ, the times are those of no recomputation. */
static uint64_t least_chain_ns(const struct chains *chains, uint32_t s, struct stage_cost *cost,
                               uint32_t least, uint32_t most, uint64_t best)
{
    uint64_t ns = moving_chain_ns(chains, s, cost, least, most);
    uint32_t middle = least + (most - least) / 2;
    if (ns >= best)
        return best;
    if (least == most || !chains->uniform)
        return ns;
    best = least_chain_ns(chains, s, cost, least, middle, best);
    return least_chain_ns(chains, s, cost, middle + 1, most, best);
}

static uint64_t chain_of_any(const struct chains *chains, uint32_t s,
                             const struct stage_cost *chosen, uint64_t best)
{
    const struct pipeline_job *job = chains->job;
    struct stage_cost cost = *chosen;
    if (job->recompute)
        return least_chain_ns(chains, s, &cost, cost.recomputed, cost.recomputed, best);
    uint32_t least = chains->uniform ? stage_least_recomputed(job, chosen) : 0;
    return least_chain_ns(chains, s, &cost, least, stage_layer_count(job, chosen), best);
}

/* Returns the longest chain of a stage. If chunks come and go, it may return `best` for a longer
 * one. */
static uint64_t chain_ns(const struct chains *chains, uint32_t s, const struct stage_cost *chosen,
                         uint64_t best)
{
    const struct pipeline_job *job = chains->job;
    if (job->moves)
        return chain_of_any(chains, s, chosen, best);
    const struct stage_cost cost = least_cost(chains, chosen);
    bool beside = job->schedule == PIPELINE_2BW && !job->clips && job->width > 1;
    uint64_t rounds = rounds_ns(chains, s, &cost);
    if (beside)
        return MAX(MAX(cost.update_ns + cost.work_ns, cost.reduce_ns), rounds);
    uint64_t own_ns = MAX(passed_ns(chains, s, &cost), through_ns(chains, s, &cost));
    return MAX(MAX(own_ns, rounds), tied_ns(chains, s, &cost));
}

/* ---- the dynamic program ---- */

/* best[s][i] is the least, over all cuts of the first i layers into s + 1 stages, of their longest
 * chain; from[s][i] is where the last of these stages begins. */
struct cut_table {
    bool balances; /* instead of the longest chain, the most work of a stage is to be least */
    uint32_t layers;
    uint64_t *best;
    uint32_t *from;
};

static size_t place(const struct cut_table *table, uint32_t s, uint32_t i)
{
    return (size_t)s * (table->layers + 1) + i;
}

static bool cut_cost(const struct pipeline_job *job, uint32_t s, uint32_t first, uint32_t end,
                     struct stage_cost *cost)
{
    return (job->moves ? stage_link_cost : stage_cost)(job, s, first, end, cost);
}

/* Returns the time of a stage that is to be like the others'. */
static uint64_t balance_ns(const struct pipeline_job *job, const struct stage_cost *cost)
{
    return job->moves ? (uint64_t)stage_link_times(job, cost, cost).work_ns : cost->work_ns;
}

/* Lets the stage end at layer i. A stage that begins earlier has more to do and needs more memory,
 * so it is of no use to go on when that is too much. */
static void fill(const struct chains *chains, struct cut_table *table, uint32_t s, uint32_t i)
{
    const struct pipeline_job *job = chains->job;
    uint64_t *best = &table->best[place(table, s, i)];
    for (uint32_t j = i; j-- > s;) {
        struct stage_cost cost;
        if (s == 0)
            j = 0;
        if (s > 0 && table->best[place(table, s - 1, j)] == UINT64_MAX)
            continue;
        bool fits = table->balances ? cut_cost(job, s, j, i, &cost)
                                    : stage_cost(job, s, j, i, &cost);
        if (!fits || least_cost(chains, &cost).work_ns >= *best)
            break;
        uint64_t chain = table->balances ? balance_ns(job, &cost)
                                         : chain_ns(chains, s, &cost, *best);
        if (s > 0)
            chain = MAX(chain, table->best[place(table, s - 1, j)]);
        if (chain < *best) {
            *best = chain;
            table->from[place(table, s, i)] = j;
        }
    }
}

/* Fills the table and follows it back from the last stage. Returns the least, or UINT64_MAX if no
 * cut fits. */
static uint64_t run_table(const struct pipeline_job *job, bool balances, uint32_t *ends)
{
    uint32_t layers = job->units->layers, stages = job->stages;
    size_t size = (size_t)stages * (layers + 1);
    struct chains chains;
    struct cut_table table = {balances, layers, g_new(uint64_t, size), g_new0(uint32_t, size)};
    for (size_t k = 0; k < size; k++)
        table.best[k] = UINT64_MAX;
    open_chains(&chains, job);
    for (uint32_t s = 0; s < stages; s++)
        for (uint32_t i = s + 1 == stages ? layers : s + 1; i <= layers - (stages - 1 - s); i++)
            fill(&chains, &table, s, i);
    uint64_t least = table.best[place(&table, stages - 1, layers)];
    for (uint32_t s = stages, i = layers; least < UINT64_MAX && s-- > 0;) {
        ends[s] = i;
        i = table.from[place(&table, s, i)];
    }
    close_chains(&chains);
    g_free(table.best);
    g_free(table.from);
    return least;
}

/* Stages of several parts have one cut. Returns its longest chain, or UINT64_MAX if it does not
 * fit. */
static uint64_t parts_chain(const struct pipeline_job *job)
{
    struct chains chains;
    uint64_t most = 0;
    open_chains(&chains, job);
    for (uint32_t s = 0; s < job->stages && most < UINT64_MAX; s++) {
        struct stage_cost cost;
        most = stage_cost(job, s, 0, 0, &cost) ? MAX(most, chain_ns(&chains, s, &cost, UINT64_MAX))
                                               : UINT64_MAX;
    }
    close_chains(&chains);
    return most;
}

bool cuts_find(const struct pipeline_job *job, uint32_t *ends, uint64_t *bound_ns)
{
    if (job->parts > 1) {
        *bound_ns = parts_chain(job);
        return *bound_ns < UINT64_MAX;
    }
    *bound_ns = run_table(job, false, ends);
    return *bound_ns < UINT64_MAX;
}

bool cuts_balance(const struct pipeline_job *job, uint32_t *ends)
{
    return run_table(job, true, ends) < UINT64_MAX;
}

bool cuts_cost(const struct pipeline_job *job, const uint32_t *ends, struct stage_cost *costs)
{
    bool ok = true;
    for (uint32_t s = 0; s < job->stages; s++)
        ok &= cut_cost(job, s, s ? ends[s - 1] : 0, ends[s], &costs[s]);
    return ok;
}

/* ---- neighbours ---- */

/* Tries a cut in which the border behind stage s is moved. Returns whether it is better. */
static bool try_border(const struct pipeline_job *job, struct stage_cost *costs, double *step_ns,
                       uint32_t s, int by)
{
    struct stage_cost before[2] = {costs[s], costs[s + 1]};
    uint32_t border = (uint32_t)((int)costs[s].end + by);
    if (border <= costs[s].first || border >= costs[s + 1].end)
        return false;
    bool ok = cut_cost(job, s, costs[s].first, border, &costs[s]);
    ok = cut_cost(job, s + 1, border, before[1].end, &costs[s + 1]) && ok;
    double now_ns = ok ? pass_clock_step(job, costs, false) : *step_ns;
    if (now_ns < *step_ns) {
        *step_ns = now_ns;
        return true;
    }
    costs[s] = before[0];
    costs[s + 1] = before[1];
    return false;
}

void cuts_improve(const struct pipeline_job *job, struct stage_cost *costs, double *step_ns,
                  uint32_t most, const gint *stop)
{
    bool better = job->stages > 1 && job->parts == 1;
    uint32_t tried = 0;
    while (better) {
        better = false;
        for (uint32_t s = 0; s + 1 < job->stages; s++)
            for (int by = -1; by <= 1; by += 2) {
                if (tried++ >= most || (stop && g_atomic_int_get(stop)))
                    return;
                better |= try_border(job, costs, step_ns, s, by);
            }
    }
}

/* ---- what lacks ---- */

static uint64_t parts_need(const struct pipeline_job *job)
{
    uint64_t need = 0;
    for (uint32_t s = 0; s < job->stages; s++) {
        struct stage_cost cost;
        stage_cost(job, s, 0, 0, &cost);
        need = MAX(need, cost.device_bytes);
    }
    return need;
}

/* Sets the cut whose neediest stage needs least, and returns what it needs. */
static uint64_t least_need(const struct pipeline_job *job, uint32_t *ends)
{
    uint32_t layers = job->units->layers, stages = job->stages;
    size_t size = (size_t)stages * (layers + 1);
    struct cut_table table = {false, layers, g_new(uint64_t, size), g_new0(uint32_t, size)};
    for (size_t k = 0; k < size; k++)
        table.best[k] = UINT64_MAX;
    for (uint32_t s = 0; s < stages; s++)
        for (uint32_t i = s + 1 == stages ? layers : s + 1; i <= layers - (stages - 1 - s); i++)
            for (uint32_t j = s == 0 ? 1 : i; j-- > s;) {
                struct stage_cost cost;
                uint64_t *best = &table.best[place(&table, s, i)];
                stage_cost(job, s, j, i, &cost);
                uint64_t most = MAX(cost.device_bytes, s ? table.best[place(&table, s - 1, j)] : 0);
                if (most < *best) {
                    *best = most;
                    table.from[place(&table, s, i)] = j;
                }
                if (cost.device_bytes > *best)
                    break;
            }
    uint64_t need = table.best[place(&table, stages - 1, layers)];
    for (uint32_t s = stages, i = layers; s-- > 0;) {
        ends[s] = i;
        i = table.from[place(&table, s, i)];
    }
    g_free(table.best);
    g_free(table.from);
    return need;
}

uint64_t cuts_shortage(const struct pipeline_job *job, uint32_t *ends)
{
    uint64_t need = job->parts > 1 ? parts_need(job) : least_need(job, ends);
    return need > job->device_budget ? need - job->device_budget : 0;
}
