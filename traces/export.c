#include "traces/export.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* Process of the iteration. Recorded processes have their own ids, which are never this low. */
enum { ITERATION_PROCESS = 0 };

struct writer {
    FILE *out;
    bool begun;
};

/* Takes the reference. */
static void draw_event(struct writer *writer, json_t *event)
{
    fputs(writer->begun ? ",\n" : "\n", writer->out);
    writer->begun = true;
    json_dumpf(event, writer->out, JSON_COMPACT);
    json_decref(event);
}

/* Names a process, or a row of it if `kind` names a thread. */
static void draw_name(struct writer *writer, const char *kind, uint32_t process, uint32_t thread,
                      const char *name)
{
    draw_event(writer,
               json_pack("{s:s, s:s, s:I, s:I, s:{s:s}}", "ph", "M", "name", kind, "pid",
                         (json_int_t)process, "tid", (json_int_t)thread, "args", "name", name));
}

static double microseconds(uint64_t ns)
{
    return (double)ns / 1e3;
}

/* An unknown duration is drawn as one microsecond. */
static uint64_t drawn_ns(const struct trace_operator *op)
{
    return op->duration_ns == 0 ? 1000 : op->duration_ns;
}

static void draw_operator(struct writer *writer, const struct trace_operator *op, uint32_t moment,
                          uint64_t start_ns)
{
    json_t *arguments = json_pack("{s:I, s:s, s:i, s:I, s:I, s:I, s:b}", "moment",
                                  (json_int_t)moment, "place", trace_place_name(op->place), "layer",
                                  op->layer, "micro_batch", (json_int_t)op->micro_batch, "flops",
                                  (json_int_t)op->flops, "bytes", (json_int_t)op->bytes,
                                  "duration_known", op->duration_ns > 0);
    draw_event(writer,
               json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X", "name", op->name,
                         "cat", trace_phase_name(op->phase), "pid", ITERATION_PROCESS, "tid",
                         op->phase + 1, "ts", microseconds(start_ns), "dur",
                         microseconds(drawn_ns(op)), "args", arguments));
}

static void draw_iteration(struct writer *writer, const struct trace *trace)
{
    draw_name(writer, "process_name", ITERATION_PROCESS, 0,
              trace->estimated ? "iteration, estimated" : "iteration, median durations");
    for (uint32_t phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++)
        draw_name(writer, "thread_name", ITERATION_PROCESS, phase + 1,
                  trace_phase_name((enum trace_phase)phase));
    uint64_t now_ns = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        draw_operator(writer, &trace->operators[m], m, now_ns);
        draw_event(writer,
                   json_pack("{s:s, s:s, s:i, s:f, s:{s:I}}", "ph", "C", "name", "non-model bytes",
                             "pid", ITERATION_PROCESS, "ts", microseconds(now_ns), "args", "bytes",
                             (json_int_t)trace->non_model_bytes[m]));
        now_ns += drawn_ns(&trace->operators[m]);
    }
}

static void draw_range(struct writer *writer, const struct records *records,
                       const struct record *event, uint64_t origin_ns)
{
    bool range = event->end_ns != 0;
    json_t *drawn = json_pack("{s:s, s:s, s:I, s:I, s:f}", "ph", range ? "X" : "i", "name",
                              records_text(records, event->text), "pid", (json_int_t)event->process,
                              "tid", (json_int_t)event->thread, "ts",
                              microseconds(event->start_ns - origin_ns));
    if (range)
        json_object_set_new(drawn, "dur", json_real(microseconds(event->end_ns - event->start_ns)));
    else
        json_object_set_new(drawn, "s", json_string("t"));
    draw_event(writer, drawn);
}

static bool is_drawn(const struct record *event)
{
    return event->type == RECORD_PUSH_POP || event->type == RECORD_START_END ||
           event->type == RECORD_MARK;
}

/* Draws the records from the first visible event on. Events are ordered by time. */
static void draw_records(struct writer *writer, const struct records *records)
{
    uint64_t origin_ns = 0;
    uint32_t process = 0;
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        if (!is_drawn(event))
            continue;
        if (origin_ns == 0)
            origin_ns = event->start_ns;
        if (event->process != process)
            draw_name(writer, "process_name", event->process, 0, "recorded NVTX ranges");
        process = event->process;
        draw_range(writer, records, event, origin_ns);
    }
}

void export_chrome(const struct trace *trace, const struct records *records, FILE *out)
{
    struct writer writer = {.out = out};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    if (trace)
        draw_iteration(&writer, trace);
    draw_records(&writer, records);
    fputs("\n]}\n", out);
}

/* Takes the reference. */
static void write_line(json_t *object, FILE *out)
{
    json_dumpf(object, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(object);
}

static void write_meta(const struct trace *trace, FILE *out)
{
    json_t *element_bytes = json_object();
    for (int list = 0; list < TRACE_LISTS; list++)
        if (trace->list_element_bytes[list] > 0)
            json_object_set_new(element_bytes, trace_list_name((enum trace_list)list),
                                json_integer(trace->list_element_bytes[list]));
    json_t *meta = json_pack(
        "{s:s, s:s?, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:I, s:b, s:o, s:I, s:b, s:b}", "kind",
        "meta", "producer", trace->producer, "model", trace->model, "precision", trace->precision,
        "machine", trace->machine, "batch", (json_int_t)trace->batch, "sequence",
        (json_int_t)trace->sequence, "micro_batches", (json_int_t)trace->micro_batches, "ranks",
        (json_int_t)MAX(trace->ranks, 1), "shared_parameters", trace->shared_parameters,
        "element_bytes", element_bytes, "library_bytes", (json_int_t)trace->library_bytes,
        "estimated", trace->estimated, "partial", trace->partial);
    if (trace->stages > 1)
        json_object_update_new(meta, json_pack("{s:I, s:I}", "stages", (json_int_t)trace->stages,
                                               "stage", (json_int_t)trace->stage));
    if (trace->state_block)
        json_object_set_new(meta, "state_block", json_integer((json_int_t)trace->state_block));
    write_line(meta, out);
}

static json_t *accesses_json(const struct trace *trace, const struct trace_operator *op)
{
    json_t *accesses = json_array();
    for (uint32_t i = op->first_access; i < op->first_access + op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[i];
        json_t *json = json_pack("{s:I, s:s, s:s}", "tensor", (json_int_t)access->tensor, "list",
                                 trace_list_name(access->list), "mode",
                                 trace_mode_name(access->mode));
        if (trace->state_block)
            json_object_set_new(json, "block", json_integer(access->block));
        json_array_append_new(accesses, json);
    }
    return accesses;
}

static json_t *exchanges_json(const struct trace_operator *op)
{
    json_t *exchanges = json_array();
    for (int c = 0; c < TRACE_COLLECTIVES; c++)
        if (op->exchange[c].sent_bytes || op->exchange[c].received_bytes)
            json_array_append_new(
                exchanges, json_pack("{s:s, s:I, s:I}", "collective",
                                     trace_collective_name((enum trace_collective)c), "sent_bytes",
                                     (json_int_t)op->exchange[c].sent_bytes, "received_bytes",
                                     (json_int_t)op->exchange[c].received_bytes));
    return exchanges;
}

static json_t *or_null(uint64_t number)
{
    return number == 0 ? json_null() : json_integer((json_int_t)number);
}

static void write_operator(const struct trace *trace, uint32_t moment, FILE *out)
{
    const struct trace_operator *op = &trace->operators[moment];
    write_line(
        json_pack("{s:s, s:I, s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:o}",
                  "kind", "operator", "moment", (json_int_t)moment, "name", op->name, "phase",
                  trace_phase_name(op->phase), "place", trace_place_name(op->place), "layer",
                  op->layer < 0 ? json_null() : json_integer(op->layer), "micro_batch",
                  (json_int_t)op->micro_batch, "flops", (json_int_t)op->flops, "bytes",
                  (json_int_t)op->bytes, "h2d_bytes", (json_int_t)op->h2d_bytes, "d2h_bytes",
                  (json_int_t)op->d2h_bytes, "duration_ns", or_null(op->duration_ns),
                  "non_model_bytes", (json_int_t)trace->non_model_bytes[moment], "accesses",
                  accesses_json(trace, op), "exchanges", exchanges_json(op)),
        out);
}

/* Writes a buffer with its uses, which begin at row *use. */
static void write_buffer(const struct trace *trace, uint32_t b, uint32_t *use, FILE *out)
{
    const struct trace_buffer *buffer = &trace->buffers[b];
    json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:I, s:b, s:I}", "kind", "buffer", "name",
                             buffer->name, "bytes", (json_int_t)buffer->bytes, "first",
                             (json_int_t)buffer->first, "last", (json_int_t)buffer->last, "saved",
                             buffer->saved, "recompute_flops", (json_int_t)buffer->recompute_flops);
    json_t *uses = json_array();
    for (; *use < trace->use_count && trace->uses[*use].buffer == b; ++*use)
        json_array_append_new(uses, json_pack("{s:I, s:s}", "operator",
                                              (json_int_t)trace->uses[*use].moment, "kind",
                                              trace_use_name(trace->uses[*use].kind)));
    if (json_array_size(uses))
        json_object_set(json, "uses", uses);
    json_decref(uses);
    write_line(json, out);
}

/* Returns the payload of an NVTX event, or null. */
static json_t *payload_json(const struct record *event)
{
    double real;
    float single;
    int32_t narrow;
    memcpy(&real, &event->payload, sizeof real);
    memcpy(&single, &event->payload, sizeof single);
    memcpy(&narrow, &event->payload, sizeof narrow);
    switch (event->payload_type) {
    case RECORD_UINT64:
    case RECORD_INT64:
        return json_integer((json_int_t)event->payload);
    case RECORD_UINT32:
        return json_integer((uint32_t)narrow);
    case RECORD_INT32:
        return json_integer(narrow);
    case RECORD_DOUBLE:
        return isfinite(real) ? json_real(real) : json_null();
    case RECORD_FLOAT:
        return isfinite(single) ? json_real((double)single) : json_null();
    default:
        return json_null();
    }
}

static void write_event(const struct records *records, const struct record *event, FILE *out)
{
    write_line(json_pack("{s:s, s:i, s:I, s:o, s:s, s:o, s:I, s:I, s:I, s:I}", "kind", "nvtx",
                         "event_type", event->type, "start_ns", (json_int_t)event->start_ns,
                         "end_ns", or_null(event->end_ns), "text",
                         records_text(records, event->text), "payload", payload_json(event),
                         "domain", (json_int_t)event->domain, "category",
                         (json_int_t)event->category, "process", (json_int_t)event->process,
                         "thread", (json_int_t)event->thread),
               out);
}

static void write_iteration(const struct trace *trace, FILE *out)
{
    write_meta(trace, out);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        json_t *tensor = json_pack("{s:s, s:I, s:s, s:I}", "kind", "tensor", "tensor",
                                   (json_int_t)i, "name", trace->tensors[i].name, "elements",
                                   (json_int_t)trace->tensors[i].elements);
        g_autofree char *lists = trace_lists_of(trace, i);
        if (trace->tensors[i].absent)
            json_object_set_new(tensor, "lists", json_string(lists));
        write_line(tensor, out);
    }
    for (uint32_t m = 0; m < trace->operator_count; m++)
        write_operator(trace, m, out);
    for (uint32_t i = 0, use = 0; i < trace->buffer_count; i++)
        write_buffer(trace, i, &use, out);
}

void export_json_lines(const struct trace *trace, const struct records *records, FILE *out)
{
    if (trace)
        write_iteration(trace, out);
    for (uint32_t i = 0; i < records->event_count; i++)
        write_event(records, &records->events[i], out);
    for (uint32_t i = 0; i < records->sample_count; i++)
        write_line(json_pack("{s:s, s:I, s:s, s:I}", "kind", "sample", "time_ns",
                             (json_int_t)records->samples[i].time_ns, "counter",
                             records->samples[i].counter, "value",
                             (json_int_t)records->samples[i].value),
                   out);
}
