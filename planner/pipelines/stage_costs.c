#include "planner/pipelines/stage_costs.h"

#include <math.h>

/* ---- micro-batches in flight ---- */

/* A pipeline that never drains has slots, of which there may be more (models/pipeline.h). */
uint32_t stage_in_flight(const struct pipeline_job *job, uint32_t stage)
{
    uint32_t behind = job->stages - stage, all = job->micro_batches;
    if (job->schedule == PIPELINE_GPIPE)
        return all;
    if (job->schedule == PIPELINE_1F1B || behind == 1)
        return MIN(behind, all);
    uint32_t rounds = all / behind;
    return behind + (all % behind + rounds - 1) / rounds;
}

enum stage_tied stage_tied(const struct pipeline_job *job)
{
    if (job->stages == 1 || !job->units->tied_bytes)
        return STAGE_UNTIED;
    return job->width == 1 ? STAGE_TIED_EACH : STAGE_TIED_ONCE;
}

/* ---- model data ---- */

/* Whether the stage has the newest parameters in buffers, as models/pipeline_cutting.h says. */
static bool has_newest(const struct pipeline_job *job, uint32_t stage)
{
    return job->schedule == PIPELINE_2BW && stage + 1 < job->stages &&
           (job->units->element_bytes == 2 || job->width > 1);
}

/* Parameters and gradients are whole, and states are shared by the ranks. A pipeline that never
 * drains has masters; where a step's gradients are summed over the ranks while the next one's
 * arise, there are two lists of them. */
static uint64_t state_bytes(const struct pipeline_job *job, uint64_t elements)
{
    bool delays = job->schedule == PIPELINE_2BW, bf16 = job->units->element_bytes == 2;
    uint64_t shard = (elements + job->width - 1) / job->width;
    uint64_t whole = job->units->element_bytes + sizeof(float), shared = 2 * sizeof(float);
    if (bf16 || delays)
        shared += sizeof(float);
    if (delays && !job->clips && job->width > 1)
        whole += sizeof(float);
    return whole * elements + shared * shard;
}

static void add_data(const struct pipeline_job *job, uint32_t stage,
                     const struct pipeline_unit *unit, struct stage_cost *cost)
{
    cost->elements += unit->elements;
    if (!has_newest(job, stage))
        return;
    cost->newest_ns += unit->newest_ns;
    cost->state_bytes += unit->newest_room;
}

/* ---- activations ---- */

bool stage_recomputes(const struct pipeline_job *job, const struct stage_cost *cost, uint32_t layer)
{
    return job->recompute ? job->recompute[layer] : layer - cost->first < cost->recomputed;
}

/* Adds up activations unit by unit. */
struct stage_activations {
    uint64_t saved, most, working;
};

static void add_unit(struct stage_activations *sum, const struct unit_way *way)
{
    sum->most = MAX(sum->most, sum->saved + way->most_bytes);
    sum->working = MAX(sum->working, way->working_bytes);
    sum->saved += way->saved_bytes;
}

/* A gradient of tied weights lies beside what the classifier's backward needs; with several
 * ranks it is the list in which the last stage sums them. */
static struct unit_way head_with_tied(const struct units *units)
{
    struct unit_way way = units->head.way[UNIT_KEPT];
    way.most_bytes += units->tied_gradient_room;
    way.working_bytes += units->tied_gradient_room;
    return way;
}

/* The first stage adds it right before the embedding's backward, beside the gradient of the stream.
 */
static struct unit_way embedding_with_tied(const struct units *units)
{
    struct unit_way way = units->embedding.way[UNIT_KEPT];
    uint64_t bytes = units->stream_room + units->tied_gradient_room;
    way.most_bytes = MAX(way.most_bytes, way.saved_bytes + bytes);
    way.working_bytes = MAX(way.working_bytes, bytes);
    return way;
}

static uint64_t activation_bytes(const struct pipeline_job *job, uint32_t stage,
                                 const struct stage_cost *cost)
{
    const struct units *units = job->units;
    struct stage_activations sum = {0};
    uint32_t in_flight = stage_in_flight(job, stage);
    bool is_last = stage + 1 == job->stages;
    bool passes = job->stages > 1;
    uint64_t copy = is_last && passes ? units->tied_room : 0;
    if (stage == 0) {
        const struct unit_way way = passes ? embedding_with_tied(units)
                                           : units->embedding.way[UNIT_KEPT];
        add_unit(&sum, &way);
    }
    for (uint32_t l = cost->first; l < cost->end; l++)
        add_unit(&sum, &units->layer[l].way[stage_recomputes(job, cost, l)]);
    if (is_last) {
        const struct unit_way way = passes ? head_with_tied(units) : units->head.way[UNIT_KEPT];
        add_unit(&sum, &way);
    }
    if (job->schedule == PIPELINE_2BW && stage + 1 < job->stages)
        return copy + in_flight * sum.saved + sum.working;
    return copy + (in_flight - 1) * sum.saved + sum.most;
}

static bool fits(const struct pipeline_job *job, uint32_t stage, struct stage_cost *cost)
{
    cost->device_bytes = cost->state_bytes + activation_bytes(job, stage, cost);
    return cost->device_bytes <= job->device_budget;
}

/* Recomputes as few layers as fit: more never need more. */
static bool choose_recomputed(const struct pipeline_job *job, uint32_t stage,
                              struct stage_cost *cost)
{
    uint32_t least = 1, most = cost->end - cost->first;
    if (fits(job, stage, cost) || job->recompute)
        return cost->device_bytes <= job->device_budget;
    cost->recomputed = most;
    if (!fits(job, stage, cost))
        return false;
    while (least < most) {
        cost->recomputed = least + (most - least) / 2;
        if (fits(job, stage, cost))
            most = cost->recomputed;
        else
            least = cost->recomputed + 1;
    }
    cost->recomputed = least;
    return fits(job, stage, cost);
}

/* ---- times ---- */

static void add_pass_times(const struct pipeline_unit *unit, int way, struct stage_cost *cost)
{
    for (int turn = 0; turn < UNIT_TURNS; turn++) {
        cost->forward_ns[turn] += unit->forward_ns[turn];
        cost->backward_ns[turn] += unit->way[way].backward_ns[turn];
    }
}

/* A stage copies what it receives and what it sends. */
static void add_copies(const struct pipeline_job *job, uint32_t stage, struct stage_cost *cost)
{
    const struct units *units = job->units;
    bool is_last = stage + 1 == job->stages;
    uint64_t copies = (stage > 0) + !is_last;
    for (int turn = 0; turn < UNIT_TURNS; turn++) {
        cost->forward_ns[turn] += copies * units->stream_ns;
        cost->backward_ns[turn] += copies * units->stream_ns;
        if (stage_tied(job) == STAGE_TIED_EACH && stage == 0)
            cost->backward_ns[turn] += units->tied_gradient_ns + units->tied_add_ns[turn];
        if (stage_tied(job) == STAGE_TIED_EACH && is_last)
            cost->backward_ns[turn] += units->tied_gradient_ns;
    }
}

static uint64_t exchange_ns(const struct pipeline_job *job, enum platform_collective collective,
                            uint64_t bytes)
{
    if (job->width == 1 || !job->platform || !platform_knows_exchanges(job->platform))
        return 0;
    double seconds = platform_exchange_seconds(job->platform, collective, (double)bytes);
    return (uint64_t)llround(seconds * 1e9);
}

static void set_times(const struct pipeline_job *job, uint32_t stage, struct stage_cost *cost)
{
    const struct units *units = job->units;
    uint64_t update_ns = 0;
    if (stage == 0) {
        add_pass_times(&units->embedding, UNIT_KEPT, cost);
        update_ns += units->embedding.update_ns;
    }
    for (uint32_t l = cost->first; l < cost->end; l++) {
        add_pass_times(&units->layer[l], stage_recomputes(job, cost, l), cost);
        update_ns += units->layer[l].update_ns;
    }
    if (stage + 1 == job->stages) {
        add_pass_times(&units->head, UNIT_KEPT, cost);
        update_ns += units->head.update_ns;
    }
    add_copies(job, stage, cost);
    cost->work_ns = cost->newest_ns + cost->forward_ns[UNIT_FIRST] + cost->backward_ns[UNIT_FIRST] +
                    (job->micro_batches - 1) *
                        (cost->forward_ns[UNIT_LATER] + cost->backward_ns[UNIT_LATER]);
    cost->reduce_ns = exchange_ns(job, PLATFORM_REDUCE, cost->elements * sizeof(float));
    cost->update_ns = (update_ns + job->width - 1) / job->width +
                      exchange_ns(job, PLATFORM_GATHER, cost->elements * units->element_bytes);
}

bool stage_cost(const struct pipeline_job *job, uint32_t stage, uint32_t first, uint32_t end,
                struct stage_cost *cost)
{
    const struct units *units = job->units;
    *cost = (struct stage_cost){.first = first, .end = end};
    for (uint32_t l = first; l < end; l++)
        add_data(job, stage, &units->layer[l], cost);
    if (stage == 0)
        add_data(job, stage, &units->embedding, cost);
    if (stage + 1 == job->stages)
        add_data(job, stage, &units->head, cost);
    cost->state_bytes += state_bytes(job, cost->elements);
    bool ok = choose_recomputed(job, stage, cost);
    set_times(job, stage, cost);
    return ok;
}

/* ---- messages ---- */

struct costs_message stage_message(const struct pipeline_job *job, uint32_t from, uint32_t to)
{
    return costs_message(job->costs, from, to, job->units->stream_bytes);
}

uint64_t stage_shown_ns(const struct pipeline_job *job)
{
    if (!job->clips || job->stages == 1)
        return 0;
    uint64_t numbers = (uint64_t)job->micro_batches * job->width + 1 + job->units->tensors;
    return costs_message(job->costs, 0, job->stages - 1,
                         (job->stages - 1) * numbers * sizeof(double))
        .all_ns;
}
