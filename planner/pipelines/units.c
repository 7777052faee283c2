#include "planner/pipelines/units.h"

#include "models/derive.h"
#include "models/pipeline.h"
#include "models/synth.h"
#include "traces/shard.h"

#include <math.h>
#include <string.h>

/* An iteration while its units are read. */
struct unit_reading {
    const struct model_iteration *iteration;
    const struct costs *costs;
    struct units *units;
    int way;
    uint32_t *unit_of; /* [operator_count] place of the operator's unit: embedding, layers, head */
    uint64_t *saved_alive; /* [operator_count] bytes of saved buffers */
    uint64_t *left_alive;  /* [operator_count] of these, what the unit leaves to units behind it */
    uint8_t *second;       /* [operator_count] marks of the second half of a backward */
    uint8_t *made;         /* [tensor_count] marks of the newest parameters that are made */
    uint32_t *last_read;  /* [tensor_count] the last operator of its unit's forward that reads it */
    uint64_t newest_room; /* of those that are made for the unit that is read */
    uint64_t left_room;   /* of those that the pass does not read any more */
    uint64_t *saved_before, *pending_before; /* [layers + 3] by the units before one */
    uint64_t reduced; /* bytes of the gradients of the last reduction, until the next one begins */
    bool second_reduced; /* a reduction of the second half has begun */
};

static struct pipeline_unit *unit_at(struct units *units, uint32_t place)
{
    return place == 0               ? &units->embedding
           : place <= units->layers ? &units->layer[place - 1]
                                    : &units->head;
}

static uint32_t place_of(const struct model_iteration *iteration, const struct model_operator *op)
{
    if (op->layer >= 0)
        return (uint32_t)op->layer + 1;
    return op->embeds ? 0 : iteration->config->layers + 1;
}

/* Returns the places of the units to which the tensors belong: the first that read them, so tied
 * weights are the embedding's. The caller frees them with g_free. */
static uint32_t *places_of_tensors(const struct unit_reading *r)
{
    const struct model_iteration *iteration = r->iteration;
    uint32_t *of_tensor = g_new0(uint32_t, iteration->trace->tensor_count);
    for (uint32_t m = iteration->forward_end; m-- > 0;)
        for (int i = 0; i < MODEL_TENSORS; i++)
            if (iteration->operators[m].t[i] != NO_INDEX)
                of_tensor[iteration->operators[m].t[i]] = place_of(iteration,
                                                                   &iteration->operators[m]);
    return of_tensor;
}

static void find_places(struct unit_reading *r)
{
    const struct model_iteration *iteration = r->iteration;
    const struct trace *trace = iteration->trace;
    g_autofree uint32_t *of_tensor = places_of_tensors(r);
    r->unit_of = g_new(uint32_t, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        r->unit_of[m] = op->kind == MODEL_UPDATE ? of_tensor[op->t[0]] : place_of(iteration, op);
    }
    for (tensor_id t = 0; r->way == UNIT_KEPT && t < trace->tensor_count; t++) {
        struct pipeline_unit *unit = unit_at(r->units, of_tensor[t]);
        unit->elements += trace->tensors[t].elements;
        unit->trained += iteration->choices->frozen[t] ? 0 : trace->tensors[t].elements;
        unit->shard += trace_list_bytes(trace, TRACE_GRAD, t) / sizeof(float);
    }
}

/* ---- times ---- */

/* The second half of a micro-batch's backward comes behind everything else of it. */
static void find_halves(struct unit_reading *r)
{
    const struct model_iteration *iteration = r->iteration;
    uint32_t of = NO_INDEX; /* the micro-batch whose second half has begun */
    r->second = g_new0(uint8_t, iteration->trace->operator_count);
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++) {
        const struct trace_operator *op = &iteration->trace->operators[m];
        if (iteration->operators[m].kind == MODEL_WEIGHT_BACKWARD)
            of = op->micro_batch;
        r->second[m] = op->phase == TRACE_BACKWARD && op->micro_batch == of;
    }
}

static bool is_second_half(const struct unit_reading *r, uint32_t m)
{
    return r->second[m];
}

static enum unit_pass half_of(const struct unit_reading *r, uint32_t m)
{
    return is_second_half(r, m) ? UNIT_WEIGHTS : UNIT_BACKWARD;
}

/* Adds up the parameters of each unit that the second micro-batch's backward reads. The classifier
 * reads tied weights in a copy, if stages are cut. */
static void add_backward_elements(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    g_autofree uint32_t *of_tensor = places_of_tensors(r);
    g_autofree uint8_t *read = g_new0(uint8_t, trace->tensor_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->phase != TRACE_BACKWARD || op->micro_batch != 1)
            continue;
        for (uint32_t i = 0; i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            if (access->list != TRACE_PARAM || read[access->tensor] ||
                of_tensor[access->tensor] != r->unit_of[m])
                continue;
            read[access->tensor] = 1;
            unit_at(r->units, r->unit_of[m])->way[r->way].backward_elements +=
                trace->tensors[access->tensor].elements;
        }
    }
}

/* Finds the least time that an update takes an element, on each side. */
static void find_update_rates(struct units *units, const struct trace *trace,
                              const struct platform *platform)
{
    static const enum trace_place places[] = {TRACE_ON_DEVICE, TRACE_ON_HOST};
    for (size_t side = 0; side < G_N_ELEMENTS(places); side++) {
        g_autofree uint64_t *ns = model_update_times(trace, places[side], platform);
        double least = INFINITY;
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            const struct trace_operator *op = &trace->operators[m];
            if (op->phase != TRACE_UPDATE_PHASE)
                continue;
            tensor_id tensor = trace->accesses[op->first_access].tensor;
            least = fmin(least, (double)ns[m] / (double)trace->tensors[tensor].elements);
        }
        units->update_ns[side] = isinf(least) ? 0 : least;
    }
}

static uint64_t exchange_ns(const struct unit_reading *r, const struct trace_operator *op)
{
    return r->units->ranks > 1 ? costs_exchanges(r->costs, op).alone_ns : 0;
}

static void add_update(const struct unit_reading *r, const struct trace_operator *op,
                       struct pipeline_unit *unit)
{
    unit->update_ns += op->duration_ns;
    unit->update_gather_ns += exchange_ns(r, op);
}

/* The network's queue also adds what it has received. */
static void add_reduction(const struct unit_reading *r, const struct trace_operator *op,
                          struct unit_reductions *reductions)
{
    if (reductions->count++ == 0)
        reductions->before_ns = reductions->behind_ns;
    else
        reductions->inner_ns += MAX(reductions->behind_ns, reductions->last_ns);
    reductions->last_ns = exchange_ns(r, op) + op->duration_ns;
    reductions->behind_ns = 0;
}

/* Adds an operator of a backward pass, or a reduction behind it. */
static void add_backward(const struct unit_reading *r, uint32_t m, struct unit_way *way)
{
    const struct trace_operator *op = &r->iteration->trace->operators[m];
    enum unit_pass half = half_of(r, m);
    uint32_t turn = op->micro_batch;
    struct unit_reductions *reductions = &way->reductions[half][turn];
    if (trace_operator_reduces(op)) {
        add_reduction(r, op, reductions);
        return;
    }
    reductions->behind_ns += op->duration_ns;
    if (turn < UNIT_TURNS)
        (half == UNIT_WEIGHTS ? way->weights_ns : way->backward_ns)[turn] += op->duration_ns;
}

/* Adds the times of the first micro-batches, and of updates. */
static void add_times(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        struct pipeline_unit *unit = unit_at(r->units, r->unit_of[m]);
        if (op->phase == TRACE_UPDATE_PHASE) {
            if (r->way == UNIT_KEPT)
                add_update(r, op, unit);
        } else if (op->phase == TRACE_BACKWARD && op->micro_batch < UNIT_REDUCED_TURNS) {
            add_backward(r, m, &unit->way[r->way]);
        } else if (r->way == UNIT_KEPT && op->micro_batch < UNIT_TURNS) {
            unit->forward_ns[op->micro_batch] += op->duration_ns;
        }
    }
}

static void find_ends(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct model_operator *op = &r->iteration->operators[m];
        if (op->micro_batch >= UNIT_TURNS)
            continue;
        if (op->kind == MODEL_CLASSIFIER_BACKWARD)
            r->units->head_first_ns[op->micro_batch] = trace->operators[m].duration_ns;
        if (op->kind == MODEL_EMBED_BACKWARD)
            r->units->embed_last_ns[op->micro_batch] = trace->operators[m].duration_ns;
        if (op->kind == MODEL_REDUCE && op->rows)
            r->units->embed_last_ns[op->micro_batch] = exchange_ns(r, &trace->operators[m]) +
                                                       trace->operators[m].duration_ns;
    }
}

/* ---- memory ---- */

/* Buffers take multiples of 256 bytes (models/iteration.h). */
static uint64_t room_of(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Adds up the saved buffers, as those of the unit that uses them last. */
static void add_saved(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    g_autofree int64_t *change = g_new0(int64_t, trace->operator_count + 1);
    int64_t alive = 0;
    r->left_alive = g_new0(uint64_t, trace->operator_count);
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        if (!buffer->saved || trace->operators[buffer->first].micro_batch != 0)
            continue;
        unit_at(r->units, r->unit_of[buffer->last])->way[r->way].saved_bytes += buffer->bytes;
        if (r->way == UNIT_KEPT &&
            r->iteration->operators[buffer->last].kind == MODEL_EMBED_BACKWARD)
            r->units->embed_saved_bytes += buffer->bytes;
        change[buffer->first] += (int64_t)buffer->bytes;
        change[buffer->last + 1] -= (int64_t)buffer->bytes;
        for (uint32_t m = buffer->first;
             r->unit_of[m] == r->unit_of[buffer->first] && r->unit_of[m] < r->unit_of[buffer->last];
             m++)
            r->left_alive[m] += buffer->bytes;
    }
    r->saved_alive = g_new0(uint64_t, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        r->saved_alive[m] = (uint64_t)(alive += change[m]);
}

/* Adds up what lies from the first half of a backward to the second. Gradients that the last
 * reduction of the first half leaves are not among it. */
static void add_pending(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        if (trace->operators[buffer->first].micro_batch == 0 && is_second_half(r, buffer->last) &&
            !is_second_half(r, buffer->first) &&
            !trace_operator_reduces(&trace->operators[buffer->last]))
            unit_at(r->units, r->unit_of[buffer->last])->way[r->way].pending_bytes += buffer->bytes;
    }
}

/* Returns the bytes that lie from the embedding's forward to the head's, and that no layer uses:
 * tokens, if the embedding has no backward. Stages have them only where they are used. */
static uint64_t passing_bytes(const struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        if (trace->operators[buffer->first].micro_batch == 0 && !buffer->saved &&
            r->unit_of[buffer->first] == 0 && r->unit_of[buffer->last] > r->units->layers)
            bytes += buffer->bytes;
    }
    return bytes;
}

/* Returns the room that the tensor's newest parameter takes; 0 if it never changes. */
static uint64_t newest_room(const struct unit_reading *r, uint32_t tensor)
{
    const struct trace *trace = r->iteration->trace;
    if (tensor == NO_INDEX || r->iteration->choices->frozen[tensor])
        return 0;
    return room_of(trace->tensors[tensor].elements * trace->list_element_bytes[TRACE_PARAM]);
}

/* Marks the tensor's newest parameter as made, before the first operator that reads it, and returns
 * the room that it takes; 0 if it is there already or never changes. */
static uint64_t take_newest_room(struct unit_reading *r, uint32_t tensor)
{
    uint64_t room = newest_room(r, tensor);
    if (room == 0 || r->made[tensor])
        return 0;
    r->made[tensor] = 1;
    return room;
}

/* Tied weights are read by another unit, too, which other stages have. */
static void find_last_reads(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    r->last_read = g_new(uint32_t, trace->tensor_count);
    memset(r->last_read, 0xff, trace->tensor_count * sizeof *r->last_read);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        for (int i = 0; i < MODEL_TENSORS; i++) {
            uint32_t tensor = r->iteration->operators[m].t[i];
            if (tensor == NO_INDEX || trace->operators[m].phase != TRACE_FORWARD ||
                trace->operators[m].micro_batch != 0)
                continue;
            uint32_t *last = &r->last_read[tensor];
            if (*last == NO_INDEX || r->unit_of[*last] == r->unit_of[m])
                *last = m;
        }
}

static void note_peaks(const struct unit_reading *r, uint32_t m, uint64_t bytes,
                       struct unit_newest *newest)
{
    uint64_t all = unit_at(r->units, r->unit_of[m])->newest_room;
    newest->made = MAX(newest->made, bytes + r->newest_room);
    newest->needed = MAX(newest->needed, bytes + all - r->left_room);
    newest->both = MAX(newest->both, bytes + r->newest_room - r->left_room);
}

/* Notes the peaks of a forward pass of the next step, of whose operators this one is. */
static void note_newest(struct unit_reading *r, uint32_t m, uint64_t bytes, struct unit_way *way)
{
    const uint32_t *tensors = r->iteration->operators[m].t;
    for (int i = 0; i < MODEL_TENSORS; i++)
        r->newest_room += take_newest_room(r, tensors[i]);
    note_peaks(r, m, bytes, &way->newest);
    note_peaks(r, m, bytes + r->left_alive[m], &way->newest_sent);
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (tensors[i] != NO_INDEX && r->last_read[tensors[i]] == m)
            r->left_room += newest_room(r, tensors[i]);
}

static void note_working(struct unit_reading *r, uint32_t m, uint64_t bytes, struct unit_way *way)
{
    way->working_bytes = MAX(way->working_bytes, bytes);
    if (r->iteration->trace->operators[m].phase == TRACE_BACKWARD) {
        way->backward_working = MAX(way->backward_working, bytes);
        return;
    }
    note_newest(r, m, bytes, way);
}

/* Returns what waits at the operator for the embedding's reduction. A stage without it has sent it
 * behind the classifier's backward, and the first stage receives it right before. */
static uint64_t waiting_at(const struct unit_reading *r, uint32_t m)
{
    const struct model_operator *op = &r->iteration->operators[m];
    bool has_it = op->kind == MODEL_CLASSIFIER_BACKWARD || (op->kind == MODEL_REDUCE && op->rows);
    bool waits = r->iteration->trace->operators[m].phase == TRACE_BACKWARD && !has_it &&
                 !is_second_half(r, m);
    return waits ? r->units->waiting_bytes : 0;
}

/* Returns the bytes of the gradients that the operator reduces. */
static uint64_t reduced_bytes(const struct unit_reading *r, uint32_t m)
{
    const struct model_operator *op = &r->iteration->operators[m];
    uint64_t bytes = op->in[0] == NO_INDEX ? 0 : r->iteration->trace->buffers[op->in[0]].bytes;
    for (int i = 0; i < MODEL_TENSORS; i++)
        if (op->gradient[i] != NO_INDEX)
            bytes += r->iteration->trace->buffers[op->gradient[i]].bytes;
    return bytes;
}

/* Sets what the units before each unit save, and what is pending of them. */
static void find_before(struct unit_reading *r)
{
    uint32_t places = r->units->layers + 2;
    r->saved_before = g_new0(uint64_t, places + 1);
    r->pending_before = g_new0(uint64_t, places + 1);
    for (uint32_t p = 0; p < places; p++) {
        const struct unit_way *way = &unit_at(r->units, p)->way[r->way];
        r->saved_before[p + 1] = r->saved_before[p] + way->saved_bytes;
        r->pending_before[p + 1] = r->pending_before[p] + way->pending_bytes;
    }
}

static enum unit_pass pass_of(const struct unit_reading *r, uint32_t m)
{
    return r->iteration->trace->operators[m].phase == TRACE_FORWARD ? UNIT_FORWARD : half_of(r, m);
}

/* Returns what lives at the operator and that its stage may have, whatever its layers are. */
static uint64_t alive_at(const struct unit_reading *r, uint32_t m)
{
    bool in_layers = r->unit_of[m] > 0 && r->unit_of[m] <= r->units->layers;
    bool passes = in_layers && pass_of(r, m) == UNIT_FORWARD;
    return r->iteration->trace->non_model_bytes[m] - (passes ? r->units->passing_bytes : 0) -
           waiting_at(r, m);
}

/* Returns what lives at the operator beside what the units before and behind its unit have left. */
static uint64_t own_at(const struct unit_reading *r, uint32_t m)
{
    enum unit_pass pass = pass_of(r, m);
    uint32_t place = r->unit_of[m], places = r->units->layers + 2;
    uint64_t bytes = alive_at(r, m);
    uint64_t beside = pass == UNIT_WEIGHTS ? r->pending_before[place] : r->saved_before[place];
    if (pass == UNIT_BACKWARD)
        beside += r->pending_before[places] - r->pending_before[place + 1];
    return bytes > beside ? bytes - beside : 0;
}

/* Notes an operator of backward, beside whose own bytes are those of gradients of the last
 * reduction. Of the second half, whose first unit may follow the embedding here and another one in
 * a stage, the first reduction ends those of the embedding. */
static void note_backward(struct unit_reading *r, uint32_t m, struct unit_way *way)
{
    enum unit_pass half = half_of(r, m);
    uint64_t bytes = own_at(r, m), left = MIN(r->reduced, bytes);
    bool behind_embedding = half == UNIT_WEIGHTS && !r->second_reduced;
    uint64_t most = bytes - (behind_embedding ? left : 0);
    way->most_bytes[half] = MAX(way->most_bytes[half], most);
    if (!way->left_bytes[half])
        way->first_bytes[half] = MAX(way->first_bytes[half], bytes - left);
    if (!trace_operator_reduces(&r->iteration->trace->operators[m]))
        return;
    r->reduced = way->left_bytes[half] = reduced_bytes(r, m);
    r->second_reduced |= half == UNIT_WEIGHTS;
}

/* Finds the peaks of the units, within the first micro-batch. */
static void find_peaks(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    find_before(r);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        struct unit_way *way = &unit_at(r->units, r->unit_of[m])->way[r->way];
        if (m > 0 && r->unit_of[m] != r->unit_of[m - 1])
            r->newest_room = r->left_room = 0;
        if (op->phase == TRACE_UPDATE_PHASE || op->micro_batch != 0)
            continue;
        if (op->phase == TRACE_BACKWARD)
            note_backward(r, m, way);
        else
            way->most_bytes[UNIT_FORWARD] = MAX(way->most_bytes[UNIT_FORWARD], own_at(r, m));
        note_working(r, m, alive_at(r, m) - r->saved_alive[m], way);
    }
}

static void read_way(struct units *units, const struct model_iteration *iteration,
                     const struct costs *costs, int way)
{
    struct unit_reading r = {.iteration = iteration, .costs = costs, .units = units, .way = way};
    r.made = g_new0(uint8_t, iteration->trace->tensor_count);
    find_places(&r);
    find_halves(&r);
    find_last_reads(&r);
    add_times(&r);
    add_backward_elements(&r);
    add_saved(&r);
    add_pending(&r);
    units->passing_bytes = passing_bytes(&r);
    find_peaks(&r);
    if (way == UNIT_KEPT)
        find_ends(&r);
    g_free(r.unit_of);
    g_free(r.saved_alive);
    g_free(r.left_alive);
    g_free(r.second);
    g_free(r.saved_before);
    g_free(r.pending_before);
    g_free(r.made);
    g_free(r.last_read);
}

/* ---- what stages add ---- */

/* Returns the time of an operator that moves so many bytes within the device, as the cut of the
 * model has it. */
static uint64_t copy_ns(const struct platform *platform, uint64_t bytes, uint32_t operators)
{
    if (!platform)
        return 0;
    double seconds = platform_seconds(&platform->memory, (double)bytes);
    return MAX(trace_duration_ns(seconds, operators), 1);
}

/* They are made from the masters, of which ranks have shards, and lie in buffers of their own. */
static void add_newest(struct pipeline_unit *unit, const struct units *units, uint64_t elements,
                       const struct platform *platform, uint32_t operators)
{
    uint64_t bytes = elements * units->element_bytes;
    uint64_t own = shard_of(elements, units->ranks, 0).count;
    unit->newest_room += room_of(bytes);
    unit->newest_ns += copy_ns(platform, bytes + own * sizeof(float), operators);
}

static void add_all_newest(struct units *units, const struct model_iteration *iteration,
                           const struct platform *platform)
{
    struct unit_reading r = {.iteration = iteration, .units = units, .way = UNIT_KEPT};
    const struct trace *trace = iteration->trace;
    g_autofree uint32_t *of_tensor = places_of_tensors(&r);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        if (!iteration->choices->frozen[t])
            add_newest(unit_at(units, of_tensor[t]), units, trace->tensors[t].elements, platform,
                       trace->operator_count);
}

/* Tied weights are the embedding's, the first tensor of the model. */
static bool trains_tied(const struct model_iteration *iteration)
{
    return !iteration->choices->frozen[0];
}

static void add_tied(struct units *units, const struct model_iteration *iteration,
                     const struct platform *platform)
{
    const struct model_config *config = iteration->config;
    uint32_t operators = iteration->trace->operator_count;
    uint64_t elements = (uint64_t)model_config_classes(config) * config->width;
    if (!config->tied)
        return;
    units->tied_bytes = elements * units->element_bytes;
    units->tied_ns = copy_ns(platform, units->tied_bytes, operators);
    units->tied_room = room_of(units->tied_bytes);
    if (!trains_tied(iteration))
        return;
    units->tied_gradient_bytes = elements * sizeof(float);
    units->tied_gradient_ns = copy_ns(platform, units->tied_gradient_bytes, operators);
    units->tied_gradient_room = room_of(units->tied_gradient_bytes);
    if (units->ranks > 1) { /* the reduction adds it */
        units->waiting_bytes = units->tied_gradient_room;
        return;
    }
    units->tied_add_ns[UNIT_FIRST] = copy_ns(platform, 2 * units->tied_gradient_bytes, operators);
    units->tied_add_ns[UNIT_LATER] = copy_ns(platform, 3 * units->tied_gradient_bytes, operators);
}

struct units *units_new(const struct model_iteration *kept,
                        const struct model_iteration *recomputed, const struct platform *platform,
                        const struct costs *costs)
{
    const struct model_job *job = &kept->job;
    struct units *units = g_new0(struct units, 1);
    units->layers = kept->config->layers;
    units->layer = g_new0(struct pipeline_unit, units->layers);
    units->micro_batch = job->choices.batch;
    units->ranks = model_ranks(job);
    units->tensors = kept->trace->tensor_count;
    units->element_bytes = kept->trace->list_element_bytes[TRACE_PARAM];
    units->stream_bytes = (uint64_t)job->choices.batch * job->sequence * kept->config->width *
                          units->element_bytes;
    units->stream_room = room_of(units->stream_bytes);
    units->stream_ns = copy_ns(platform, units->stream_bytes, kept->trace->operator_count);
    add_all_newest(units, kept, platform);
    add_tied(units, kept, platform);
    read_way(units, kept, costs, UNIT_KEPT);
    read_way(units, recomputed, costs, UNIT_RECOMPUTED);
    find_update_rates(units, kept->trace, platform);
    return units;
}

void units_free(struct units *units)
{
    if (!units)
        return;
    g_free(units->layer);
    g_free(units);
}
