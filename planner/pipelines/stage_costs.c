#include "planner/pipelines/stage_costs.h"

#include <math.h>

/* ---- layers ---- */

struct pipeline_shape stage_shape(const struct pipeline_job *job)
{
    return (struct pipeline_shape){
        .stages = job->stages, .schedule = job->schedule, .parts = job->parts};
}

struct stage_layers stage_part_of(const struct pipeline_shape *shape, uint32_t layers,
                                  const struct stage_cost *cost, uint32_t part)
{
    uint32_t piece = part * shape->stages + cost->stage;
    if (shape->parts == 1)
        return (struct stage_layers){cost->first, cost->end};
    return (struct stage_layers){pipeline_first_layer(shape, layers, piece),
                                 pipeline_first_layer(shape, layers, piece + 1)};
}

struct stage_layers stage_part(const struct pipeline_job *job, const struct stage_cost *cost,
                               uint32_t part)
{
    const struct pipeline_shape shape = stage_shape(job);
    return stage_part_of(&shape, job->units->layers, cost, part);
}

uint32_t stage_layer_count(const struct pipeline_job *job, const struct stage_cost *cost)
{
    uint32_t count = 0;
    for (uint32_t part = 0; part < job->parts; part++) {
        const struct stage_layers layers = stage_part(job, cost, part);
        count += layers.end - layers.first;
    }
    return count;
}

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
    if (job->stages == 1 || !job->units->tied_gradient_bytes)
        return STAGE_UNTIED;
    return job->width == 1 || stage_reduces_each(job) ? STAGE_TIED_EACH : STAGE_TIED_ONCE;
}

/* ---- model data ---- */

bool stage_has_newest(const struct pipeline_job *job, uint32_t stage)
{
    return job->schedule == PIPELINE_2BW && stage + 1 < job->stages &&
           (job->units->element_bytes == 2 || job->width > 1);
}

/* Parameters are whole, and states are shared by the ranks; so are gradients, unless sums are fast.
 * A pipeline that never drains has masters; where a step's gradients are summed over the ranks
 * while the next one's arise, there are two lists of them. Frozen tensors have parameters alone. */
static uint64_t state_bytes(const struct pipeline_job *job, const struct stage_cost *cost)
{
    bool delays = job->schedule == PIPELINE_2BW, bf16 = job->units->element_bytes == 2;
    uint64_t shard = (cost->trained + job->width - 1) / job->width;
    uint64_t gradients = sizeof(float), shared = 2 * sizeof(float);
    if (bf16 || delays)
        shared += sizeof(float);
    if (stage_reduces_each(job))
        return job->units->element_bytes * cost->elements + (gradients + shared) * cost->shard;
    if (delays && !job->clips && job->width > 1)
        gradients += sizeof(float);
    return job->units->element_bytes * cost->elements + gradients * cost->trained + shared * shard;
}

static void add_data(const struct pipeline_job *job, uint32_t stage,
                     const struct pipeline_unit *unit, struct stage_cost *cost)
{
    cost->elements += unit->elements;
    cost->trained += unit->trained;
    cost->shard += unit->shard;
    bool newest = stage_has_newest(job, stage);
    if (!job->moves)
        cost->update_ns += unit->update_ns + (newest ? 0 : unit->update_gather_ns);
    if (!newest)
        return;
    cost->newest_ns += unit->newest_ns + unit->update_gather_ns;
    if (job->width > 1 || stage + 2 < job->stages)
        cost->newest_bytes += unit->newest_room;
}

/* ---- activations ---- */

bool stage_recomputes(const struct pipeline_job *job, const struct stage_cost *cost, uint32_t layer)
{
    uint32_t before = 0;
    if (job->recompute)
        return job->recompute[layer];
    for (uint32_t part = 0; part < job->parts; part++) {
        const struct stage_layers layers = stage_part(job, cost, part);
        if (layer < layers.end)
            return before + layer - layers.first < cost->recomputed;
        before += layers.end - layers.first;
    }
    return false;
}

void stage_mark_recomputed(const struct pipeline_job *job, const struct stage_cost *cost,
                           uint8_t *marks)
{
    for (uint32_t part = 0; part < job->parts; part++) {
        const struct stage_layers layers = stage_part(job, cost, part);
        for (uint32_t l = layers.first; l < layers.end; l++)
            marks[l] = stage_recomputes(job, cost, l);
    }
}

/* Adds up activations unit by unit. */
struct stage_activations {
    uint64_t saved, pending, most[UNIT_PASSES], working, backward_working;
    uint64_t first[UNIT_PASSES]; /* until the pass's first reduction begins */
    uint64_t left[UNIT_PASSES];  /* of gradients behind the pass, until then */
    uint64_t newest;             /* of the units so far */
    struct unit_newest ahead;    /* with these, at the peaks of a forward of the next step */
    uint64_t head, behind_head;  /* at the peaks of backward, in the head and after it */
};

/* Backward has been through a unit before it comes to the units before, where something of the
 * unit may be pending. */
static void add_unit(struct stage_activations *sum, const struct unit_way *way,
                     uint64_t newest_room)
{
    uint64_t *most = sum->most;
    most[UNIT_FORWARD] = MAX(most[UNIT_FORWARD], sum->saved + way->most_bytes[UNIT_FORWARD]);
    most[UNIT_BACKWARD] = MAX(most[UNIT_BACKWARD] + way->pending_bytes,
                              sum->saved + way->most_bytes[UNIT_BACKWARD]);
    most[UNIT_WEIGHTS] = MAX(most[UNIT_WEIGHTS], sum->pending + way->most_bytes[UNIT_WEIGHTS]);
    sum->first[UNIT_BACKWARD] = sum->saved + way->first_bytes[UNIT_BACKWARD];
    sum->first[UNIT_WEIGHTS] = sum->pending + way->first_bytes[UNIT_WEIGHTS];
    for (int half = UNIT_BACKWARD; half <= UNIT_WEIGHTS; half++)
        sum->left[half] = sum->left[half] ? sum->left[half] : way->left_bytes[half];
    sum->working = MAX(sum->working, way->working_bytes);
    sum->backward_working = MAX(sum->backward_working, way->backward_working);
    sum->ahead.made = MAX(sum->ahead.made, sum->newest + way->newest.made);
    sum->ahead.needed = MAX(sum->ahead.needed + newest_room, way->newest.needed);
    sum->ahead.both = MAX(sum->ahead.both, way->newest.both);
    sum->newest += newest_room;
    sum->saved += way->saved_bytes;
    sum->pending += way->pending_bytes;
}

/* With one rank, a gradient of tied weights lies beside what the classifier's backward needs. */
static struct unit_way head_with_tied(const struct pipeline_job *job)
{
    const struct units *units = job->units;
    struct unit_way way = units->head.way[UNIT_KEPT];
    if (job->width > 1)
        return way;
    way.most_bytes[UNIT_BACKWARD] += units->tied_gradient_room;
    way.working_bytes += units->tied_gradient_room;
    way.backward_working += units->tied_gradient_room;
    return way;
}

/* The first stage adds it right before the embedding's backward, beside the gradient of the stream.
 */
static struct unit_way embedding_with_tied(const struct units *units)
{
    struct unit_way way = units->embedding.way[UNIT_KEPT];
    uint64_t bytes = units->stream_room + units->tied_gradient_room;
    uint64_t *most_bytes = &way.most_bytes[UNIT_BACKWARD];
    if (!units->tied_gradient_bytes || units->waiting_bytes)
        return way;
    *most_bytes = MAX(*most_bytes, units->embed_saved_bytes + bytes);
    way.working_bytes = MAX(way.working_bytes, bytes);
    way.backward_working = MAX(way.backward_working, bytes);
    return way;
}

/* Returns what a unit saves and needs if one stage has all of them. */
static struct unit_way way_alone(const struct units *units, const struct unit_way *of,
                                 uint64_t passing)
{
    struct unit_way way = *of;
    way.most_bytes[UNIT_FORWARD] += passing;
    way.most_bytes[UNIT_BACKWARD] += units->waiting_bytes;
    return way;
}

/* Returns the activations of a part of the stage. */
static struct stage_activations part_activations(const struct pipeline_job *job,
                                                 const struct stage_cost *cost, uint32_t part)
{
    const struct units *units = job->units;
    const struct stage_layers layers = stage_part(job, cost, part);
    struct stage_activations sum = {0};
    bool passes = job->stages > 1;
    if (cost->stage == 0 && part == 0) {
        const struct unit_way way = passes ? embedding_with_tied(units)
                                           : way_alone(units, &units->embedding.way[UNIT_KEPT], 0);
        add_unit(&sum, &way, units->embedding.newest_room);
    }
    for (uint32_t l = layers.first; l < layers.end; l++) {
        const struct unit_way *of = &units->layer[l].way[stage_recomputes(job, cost, l)];
        struct unit_way way = passes ? *of : way_alone(units, of, units->passing_bytes);
        if (passes && l + 1 == layers.end)
            way.newest = way.newest_sent;
        add_unit(&sum, &way, units->layer[l].newest_room);
    }
    if (cost->stage + 1 == job->stages && part + 1 == job->parts) {
        const struct unit_way way = passes ? head_with_tied(job) : units->head.way[UNIT_KEPT];
        sum.head = sum.saved + way.most_bytes[UNIT_BACKWARD];
        sum.behind_head = sum.most[UNIT_BACKWARD] + way.pending_bytes;
        add_unit(&sum, &way, units->head.newest_room);
    }
    return sum;
}

/* Returns the bytes of the last stage's copy of tied weights. */
static uint64_t copy_bytes(const struct pipeline_job *job, const struct stage_cost *cost)
{
    bool is_last = cost->stage + 1 == job->stages;
    return is_last && stage_copies_tied(job) ? job->units->tied_room : 0;
}

static enum unit_pass kind_of(const struct pipeline_pass *pass)
{
    return pass->weights ? UNIT_WEIGHTS : pass->backward ? UNIT_BACKWARD : UNIT_FORWARD;
}

/* Follows what lives from pass to pass: of several parts, each saves something of other
 * micro-batches; of a backward that is split, something is pending. Returns the most that lives at
 * a time, a copy of tied weights included, which the head's last backward ends; with `saved`, of
 * what passes that are over have saved. Passes repeat themselves after the first groups of
 * micro-batches. */
static uint64_t followed_bytes(const struct pipeline_job *job, const struct stage_cost *cost,
                               bool saved)
{
    enum { GROUPS = 4 };
    const struct pipeline_shape shape = stage_shape(job);
    uint32_t count, micro_batches = MIN(job->micro_batches, GROUPS * job->stages);
    g_autofree struct pipeline_pass *passes = pipeline_stage_passes(&shape, cost->stage,
                                                                    micro_batches, &count);
    g_autofree struct stage_activations *parts = g_new(struct stage_activations, job->parts);
    uint64_t alive = 0, most = 0, left = 0, copy = saved ? 0 : copy_bytes(job, cost);
    for (uint32_t part = 0; part < job->parts; part++)
        parts[part] = part_activations(job, cost, part);
    for (uint32_t i = 0; i < count; i++) {
        const struct stage_activations *part = &parts[passes[i].part];
        enum unit_pass kind = kind_of(&passes[i]);
        bool ends_copy = copy && kind == UNIT_BACKWARD && passes[i].part + 1 == job->parts &&
                         passes[i].micro_batch + 1 == micro_batches;
        uint64_t peak = ends_copy ? MAX(part->head + copy, part->behind_head)
                                  : MAX(part->most[kind], part->first[kind] + left) + copy;
        left = kind == UNIT_FORWARD ? 0 : part->left[kind];
        alive -= kind == UNIT_BACKWARD ? part->saved : kind == UNIT_WEIGHTS ? part->pending : 0;
        most = MAX(most, alive + (saved ? 0 : peak));
        alive += kind == UNIT_FORWARD ? part->saved : kind == UNIT_BACKWARD ? part->pending : 0;
        copy = ends_copy ? 0 : copy;
        most = MAX(most, alive + copy);
    }
    return most;
}

/* Returns what of the peak is not beside all newest parameters. */
static uint64_t beside_newest(const struct stage_activations *sum, uint64_t peak)
{
    return peak - MIN(sum->newest, peak);
}

/* Returns what lives at the peak beside what is saved and all newest parameters that stay from pass
 * to pass. If only one or two micro-batches of the next step come before the last backward, the
 * first forward makes these on the way, and with one rank the last one ends them. */
static uint64_t working_beside_newest(const struct pipeline_job *job, uint32_t stage,
                                      const struct stage_activations *sum)
{
    uint32_t ahead = job->stages - stage - 1;
    bool ends = job->width == 1;
    if (!stage_has_newest(job, stage) || ahead > 2 || (ahead == 2 && !ends))
        return sum->working;
    if (ahead == 1)
        return MAX(sum->backward_working,
                   ends ? sum->ahead.both : beside_newest(sum, sum->ahead.made));
    return MAX(sum->backward_working, beside_newest(sum, MAX(sum->ahead.made, sum->ahead.needed)));
}

/* The last stage has a copy of tied weights, and with fast sums of several ranks a list in which it
 * sums their gradients. */
static uint64_t activation_bytes(const struct pipeline_job *job, const struct stage_cost *cost)
{
    bool is_last = cost->stage + 1 == job->stages;
    uint64_t copy = copy_bytes(job, cost);
    bool sums = copy && stage_tied(job) == STAGE_TIED_ONCE;
    uint64_t list = sums ? job->units->tied_gradient_room : 0;
    if (job->parts > 1 || pipeline_splits(job->schedule))
        return list + followed_bytes(job, cost, false);
    copy += list;
    const struct stage_activations sum = part_activations(job, cost, 0);
    uint32_t in_flight = stage_in_flight(job, cost->stage);
    if (job->schedule == PIPELINE_2BW && !is_last)
        return copy + in_flight * sum.saved + working_beside_newest(job, cost->stage, &sum);
    uint64_t most = (in_flight - 1) * sum.saved +
                    MAX(sum.most[UNIT_FORWARD], sum.most[UNIT_BACKWARD]);
    /* At the end of a step backward passes follow each other. */
    if (in_flight > 1 && job->schedule != PIPELINE_2BW)
        most = MAX(most, (in_flight - 2) * sum.saved + sum.first[UNIT_BACKWARD] +
                             sum.left[UNIT_BACKWARD]);
    return copy + most;
}

static uint64_t staying_bytes(const struct pipeline_job *job, const struct stage_cost *cost)
{
    return job->moves ? cost->newest_bytes : cost->state_bytes;
}

static bool fits(const struct pipeline_job *job, struct stage_cost *cost)
{
    cost->device_bytes = staying_bytes(job, cost) + activation_bytes(job, cost);
    return cost->device_bytes <= job->device_budget;
}

/* Recomputes as few layers as fit: more never need more. */
static bool choose_recomputed(const struct pipeline_job *job, struct stage_cost *cost)
{
    uint32_t least = 1, most = stage_layer_count(job, cost);
    if (fits(job, cost) || job->recompute)
        return cost->device_bytes <= job->device_budget;
    cost->recomputed = most;
    if (!fits(job, cost))
        return false;
    while (least < most) {
        cost->recomputed = least + (most - least) / 2;
        if (fits(job, cost))
            most = cost->recomputed;
        else
            least = cost->recomputed + 1;
    }
    cost->recomputed = least;
    return fits(job, cost);
}

/* Of parts with layers that are alike, a micro-batch passes the first ones first forward and last
 * backward, so they save at least as many as the others whenever: nothing lowers what is saved by
 * more than recomputing the first layers. */
uint32_t stage_least_recomputed(const struct pipeline_job *job, const struct stage_cost *cost)
{
    struct stage_cost least = *cost;
    if (job->parts == 1 || job->recompute)
        return cost->recomputed;
    for (least.recomputed = 0; least.recomputed < cost->recomputed; least.recomputed++)
        if (staying_bytes(job, cost) + followed_bytes(job, &least, true) <= job->device_budget)
            break;
    return least.recomputed;
}

/* ---- times ---- */

/* Adds what comes next. */
static void follow(struct unit_reductions *sum, const struct unit_reductions *next)
{
    uint64_t device_ns = sum->behind_ns + (next->count ? next->before_ns : next->behind_ns);
    if (!next->count) {
        sum->behind_ns = device_ns;
        return;
    }
    if (sum->count)
        sum->inner_ns += MAX(device_ns, sum->last_ns);
    else
        sum->before_ns = device_ns;
    sum->count += next->count;
    sum->inner_ns += next->inner_ns;
    sum->last_ns = next->last_ns;
    sum->behind_ns = next->behind_ns;
}

static void add_pass_times(const struct pipeline_unit *unit, int way,
                           struct stage_pass_times *times)
{
    for (int turn = 0; turn < UNIT_TURNS; turn++) {
        times->forward_ns[turn] += unit->forward_ns[turn];
        times->computed_ns[UNIT_BACKWARD][turn] += unit->way[way].backward_ns[turn];
        times->computed_ns[UNIT_WEIGHTS][turn] += unit->way[way].weights_ns[turn];
    }
    for (int half = UNIT_BACKWARD; half <= UNIT_WEIGHTS; half++)
        for (int turn = 0; turn < UNIT_REDUCED_TURNS; turn++)
            follow(&times->halves[half][turn], &unit->way[way].reductions[half][turn]);
}

/* Returns how long a backward pass, or a half of it, keeps the device. Messages and forward passes,
 * which follow backward passes, wait for the last reduction. Behind the first stage's first half
 * and behind second halves there may be neither. */
static uint64_t half_ns(const struct pipeline_job *job, uint32_t piece, enum unit_pass half,
                        const struct unit_reductions *of)
{
    bool waits = !pipeline_splits(job->schedule) || (half == UNIT_BACKWARD && piece > 0);
    return of->before_ns + of->inner_ns + (waits ? MAX(of->behind_ns, of->last_ns) : of->behind_ns);
}

static void add_halves(const struct pipeline_job *job, uint32_t piece,
                       struct stage_pass_times *times)
{
    for (int turn = 0; turn < UNIT_TURNS; turn++) {
        times->backward_ns[turn] = half_ns(job, piece, UNIT_BACKWARD,
                                           &times->halves[UNIT_BACKWARD][turn]);
        times->weights_ns[turn] = half_ns(job, piece, UNIT_WEIGHTS,
                                          &times->halves[UNIT_WEIGHTS][turn]);
    }
}

/* A stage copies what it receives and what it sends. */
static void add_copies(const struct pipeline_job *job, uint32_t piece,
                       struct stage_pass_times *times)
{
    const struct units *units = job->units;
    bool is_last = piece + 1 == job->stages * job->parts;
    uint64_t copies = (piece > 0) + !is_last;
    for (int turn = 0; turn < UNIT_TURNS; turn++) {
        times->forward_ns[turn] += copies * units->stream_ns;
        times->backward_ns[turn] += copies * units->stream_ns;
        if (stage_tied(job) == STAGE_TIED_EACH && piece == 0)
            times->backward_ns[turn] += units->tied_gradient_ns + units->tied_add_ns[turn];
        if (stage_tied(job) == STAGE_TIED_EACH && is_last)
            times->backward_ns[turn] += units->tied_gradient_ns;
    }
}

struct stage_pass_times stage_pass_times(const struct pipeline_job *job,
                                         const struct stage_cost *cost, uint32_t part)
{
    const struct units *units = job->units;
    const struct stage_layers layers = stage_part(job, cost, part);
    uint32_t piece = stage_piece(job, cost->stage, part);
    struct stage_pass_times times = {0};
    if (piece + 1 == job->stages * job->parts)
        add_pass_times(&units->head, UNIT_KEPT, &times);
    for (uint32_t l = layers.end; l-- > layers.first;)
        add_pass_times(&units->layer[l], stage_recomputes(job, cost, l), &times);
    if (piece == 0)
        add_pass_times(&units->embedding, UNIT_KEPT, &times);
    add_halves(job, piece, &times);
    add_copies(job, piece, &times);
    return times;
}

static uint64_t exchange_ns(const struct pipeline_job *job, enum platform_collective collective,
                            uint64_t bytes)
{
    if (job->width == 1 || !job->platform || !platform_knows_exchanges(job->platform))
        return 0;
    double seconds = platform_exchange_seconds(job->platform, collective, (double)bytes);
    return (uint64_t)llround(seconds * 1e9);
}

/* Returns what a pass through a part waits for reductions. */
static uint64_t waits_of(const struct pipeline_job *job, uint32_t piece,
                         const struct stage_pass_times *times, int turn)
{
    uint64_t ns = 0;
    for (int half = UNIT_BACKWARD; half <= UNIT_WEIGHTS; half++)
        ns += half_ns(job, piece, (enum unit_pass)half, &times->halves[half][turn]) -
              times->computed_ns[half][turn];
    return ns;
}

/* Adds up the passes through all parts. */
static void set_pass_times(const struct pipeline_job *job, struct stage_cost *cost)
{
    cost->work_ns = cost->newest_ns;
    cost->waits_ns = 0;
    for (int turn = 0; turn < UNIT_TURNS; turn++)
        cost->forward_ns[turn] = cost->backward_ns[turn] = cost->weights_ns[turn] = 0;
    for (uint32_t part = 0; part < job->parts; part++) {
        const struct stage_pass_times times = stage_pass_times(job, cost, part);
        uint32_t piece = stage_piece(job, cost->stage, part);
        for (int turn = 0; turn < UNIT_TURNS; turn++) {
            uint64_t count = turn == UNIT_FIRST ? 1 : job->micro_batches - 1;
            cost->forward_ns[turn] += times.forward_ns[turn];
            cost->backward_ns[turn] += times.backward_ns[turn];
            cost->weights_ns[turn] += times.weights_ns[turn];
            cost->work_ns +=
                count * (times.forward_ns[turn] + times.backward_ns[turn] + times.weights_ns[turn]);
            cost->waits_ns += count * waits_of(job, piece, &times, turn);
        }
    }
}

static void set_times(const struct pipeline_job *job, struct stage_cost *cost)
{
    set_pass_times(job, cost);
    if (stage_reduces_each(job))
        return;
    cost->reduce_ns = exchange_ns(job, PLATFORM_REDUCE, cost->trained * sizeof(float));
    cost->update_ns = (cost->update_ns + job->width - 1) / job->width +
                      exchange_ns(job, PLATFORM_GATHER, cost->trained * job->units->element_bytes);
}

void stage_recompute(const struct pipeline_job *job, uint32_t recomputed, struct stage_cost *cost)
{
    cost->recomputed = recomputed;
    set_pass_times(job, cost);
}

bool stage_cost(const struct pipeline_job *job, uint32_t stage, uint32_t first, uint32_t end,
                struct stage_cost *cost)
{
    const struct units *units = job->units;
    *cost = (struct stage_cost){.stage = stage, .first = first, .end = end};
    if (job->parts > 1) {
        cost->first = stage_part(job, cost, 0).first;
        cost->end = stage_part(job, cost, job->parts - 1).end;
    }
    for (uint32_t part = 0; part < job->parts; part++) {
        const struct stage_layers layers = stage_part(job, cost, part);
        for (uint32_t l = layers.first; l < layers.end; l++)
            add_data(job, stage, &units->layer[l], cost);
    }
    if (stage == 0)
        add_data(job, stage, &units->embedding, cost);
    if (stage + 1 == job->stages)
        add_data(job, stage, &units->head, cost);
    cost->state_bytes = state_bytes(job, cost) + cost->newest_bytes;
    bool ok = choose_recomputed(job, cost);
    set_times(job, cost);
    return ok;
}

/* ---- what passes read ---- */

static void add_pass_bytes(const struct pipeline_job *job, const struct pipeline_unit *unit,
                           int way, struct stage_pass_bytes *bytes)
{
    bytes->forward += unit->elements * job->units->element_bytes;
    bytes->backward += unit->way[way].backward_elements * job->units->element_bytes;
    bytes->gradients += unit->shard * sizeof(float);
    bytes->saved += unit->way[way].saved_bytes;
}

struct stage_pass_bytes stage_pass_bytes(const struct pipeline_job *job,
                                         const struct stage_cost *cost, uint32_t part)
{
    const struct units *units = job->units;
    const struct stage_layers layers = stage_part(job, cost, part);
    struct stage_pass_bytes bytes = {0};
    if (cost->stage == 0 && part == 0)
        add_pass_bytes(job, &units->embedding, UNIT_KEPT, &bytes);
    for (uint32_t l = layers.first; l < layers.end; l++)
        add_pass_bytes(job, &units->layer[l], stage_recomputes(job, cost, l), &bytes);
    if (cost->stage + 1 == job->stages && part + 1 == job->parts)
        add_pass_bytes(job, &units->head, UNIT_KEPT, &bytes);
    return bytes;
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
