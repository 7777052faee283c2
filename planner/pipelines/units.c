#include "planner/pipelines/units.h"

#include "models/derive.h"
#include "models/pipeline.h"
#include "models/synth.h"

#include <math.h>
#include <string.h>

/* An iteration while its units are read. */
struct unit_reading {
    const struct model_iteration *iteration;
    struct units *units;
    int way;
    uint32_t *unit_of; /* [operator_count] place of the operator's unit: embedding, layers, head */
    uint64_t *saved_alive; /* [operator_count] bytes of saved buffers */
    uint64_t *left_alive;  /* [operator_count] of these, what the unit leaves to units behind it */
    uint8_t *made;         /* [tensor_count] marks of the newest parameters that are made */
    uint32_t *last_read;  /* [tensor_count] the last operator of its unit's forward that reads it */
    uint64_t newest_room; /* of those that are made for the unit that is read */
    uint64_t left_room;   /* of those that the pass does not read any more */
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
    }
}

/* ---- times ---- */

static bool is_second_half(const struct unit_reading *r, uint32_t m)
{
    return r->iteration->operators[m].kind == MODEL_WEIGHT_BACKWARD;
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

/* Adds the times of the first micro-batch, of the second, and of updates. */
static void add_times(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        struct pipeline_unit *unit = unit_at(r->units, r->unit_of[m]);
        uint32_t turn = op->micro_batch;
        if (op->phase == TRACE_UPDATE_PHASE)
            unit->update_ns += r->way == UNIT_KEPT ? op->duration_ns : 0;
        else if (turn >= UNIT_TURNS)
            continue;
        else if (is_second_half(r, m))
            unit->way[r->way].weights_ns[turn] += op->duration_ns;
        else if (op->phase == TRACE_BACKWARD)
            unit->way[r->way].backward_ns[turn] += op->duration_ns;
        else if (r->way == UNIT_KEPT)
            unit->forward_ns[turn] += op->duration_ns;
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

/* Adds up what lies from the first half of a backward to the second. */
static void add_pending(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        const struct trace_buffer *buffer = &trace->buffers[b];
        if (trace->operators[buffer->first].micro_batch == 0 && is_second_half(r, buffer->last) &&
            !is_second_half(r, buffer->first))
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

/* Finds the peaks of the units, within the first micro-batch. */
static void find_peaks(struct unit_reading *r)
{
    const struct trace *trace = r->iteration->trace;
    uint32_t places = r->units->layers + 2;
    g_autofree uint64_t *saved = g_new0(uint64_t, places + 1); /* by the units before */
    g_autofree uint64_t *pending = g_new0(uint64_t, places + 1);
    for (uint32_t p = 0; p < places; p++) {
        const struct unit_way *way = &unit_at(r->units, p)->way[r->way];
        saved[p + 1] = saved[p] + way->saved_bytes;
        pending[p + 1] = pending[p] + way->pending_bytes;
    }
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        struct unit_way *way = &unit_at(r->units, r->unit_of[m])->way[r->way];
        uint64_t bytes = trace->non_model_bytes[m];
        uint32_t place = r->unit_of[m];
        if (m > 0 && place != r->unit_of[m - 1])
            r->newest_room = r->left_room = 0;
        if (op->phase == TRACE_FORWARD && place > 0 && place <= r->units->layers)
            bytes -= r->units->passing_bytes;
        if (op->phase == TRACE_UPDATE_PHASE || op->micro_batch != 0)
            continue;
        enum unit_pass pass = op->phase == TRACE_FORWARD ? UNIT_FORWARD
                              : is_second_half(r, m)     ? UNIT_WEIGHTS
                                                         : UNIT_BACKWARD;
        uint64_t beside = pass == UNIT_WEIGHTS ? pending[place] : saved[place];
        if (pass == UNIT_BACKWARD)
            beside += pending[places] - pending[place + 1];
        way->most_bytes[pass] = MAX(way->most_bytes[pass], bytes > beside ? bytes - beside : 0);
        note_working(r, m, bytes - r->saved_alive[m], way);
    }
}

static void read_way(struct units *units, const struct model_iteration *iteration, int way)
{
    struct unit_reading r = {.iteration = iteration, .units = units, .way = way};
    r.made = g_new0(uint8_t, iteration->trace->tensor_count);
    find_places(&r);
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

/* They are made from the masters, and lie in buffers of their own. */
static void add_newest(struct pipeline_unit *unit, const struct units *units, uint64_t elements,
                       const struct platform *platform, uint32_t operators)
{
    uint64_t bytes = elements * units->element_bytes;
    unit->newest_room += room_of(bytes);
    unit->newest_ns += copy_ns(platform, bytes + elements * sizeof(float), operators);
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
    units->tied_add_ns[UNIT_FIRST] = copy_ns(platform, 2 * units->tied_gradient_bytes, operators);
    units->tied_add_ns[UNIT_LATER] = copy_ns(platform, 3 * units->tied_gradient_bytes, operators);
}

struct units *units_new(const struct model_iteration *kept,
                        const struct model_iteration *recomputed, const struct platform *platform)
{
    const struct model_job *job = &kept->job;
    struct units *units = g_new0(struct units, 1);
    units->layers = kept->config->layers;
    units->layer = g_new0(struct pipeline_unit, units->layers);
    units->micro_batch = job->choices.batch;
    units->tensors = kept->trace->tensor_count;
    units->element_bytes = kept->trace->list_element_bytes[TRACE_PARAM];
    units->stream_bytes = (uint64_t)job->choices.batch * job->sequence * kept->config->width *
                          units->element_bytes;
    units->stream_room = room_of(units->stream_bytes);
    units->stream_ns = copy_ns(platform, units->stream_bytes, kept->trace->operator_count);
    add_all_newest(units, kept, platform);
    read_way(units, kept, UNIT_KEPT);
    read_way(units, recomputed, UNIT_RECOMPUTED);
    add_tied(units, kept, platform);
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
