#include "traces/export.h"

#include <jansson.h>

/* The processes of the picture; recorded ones follow with their own ids, which are never this low.
 */
enum { ITERATION_PROCESS = 0 };

struct writer {
    FILE *out;
    bool begun;
};

/* Takes the reference. */
static void write_event(struct writer *writer, json_t *event)
{
    fputs(writer->begun ? ",\n" : "\n", writer->out);
    writer->begun = true;
    json_dumpf(event, writer->out, JSON_COMPACT);
    json_decref(event);
}

/* Names a process, or with its thread a row of it. */
static void write_name(struct writer *writer, const char *kind, uint32_t process, uint32_t thread,
                       const char *name)
{
    write_event(writer,
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

static void write_operator(struct writer *writer, const struct trace_operator *op, uint32_t moment,
                           uint64_t start_ns)
{
    json_t *arguments = json_pack("{s:I, s:s, s:i, s:I, s:I, s:I, s:b}", "moment",
                                  (json_int_t)moment, "place", trace_place_name(op->place), "layer",
                                  op->layer, "micro_batch", (json_int_t)op->micro_batch, "flops",
                                  (json_int_t)op->flops, "bytes", (json_int_t)op->bytes,
                                  "duration_known", op->duration_ns > 0);
    write_event(writer,
                json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f, s:o}", "ph", "X", "name", op->name,
                          "cat", trace_phase_name(op->phase), "pid", ITERATION_PROCESS, "tid",
                          op->phase + 1, "ts", microseconds(start_ns), "dur",
                          microseconds(drawn_ns(op)), "args", arguments));
}

static void write_iteration(struct writer *writer, const struct trace *trace)
{
    write_name(writer, "process_name", ITERATION_PROCESS, 0,
               trace->estimated ? "iteration, estimated" : "iteration, median durations");
    for (uint32_t phase = TRACE_FORWARD; phase <= TRACE_UPDATE_PHASE; phase++)
        write_name(writer, "thread_name", ITERATION_PROCESS, phase + 1,
                   trace_phase_name((enum trace_phase)phase));
    uint64_t now_ns = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        write_operator(writer, &trace->operators[m], m, now_ns);
        write_event(writer,
                    json_pack("{s:s, s:s, s:i, s:f, s:{s:I}}", "ph", "C", "name", "non-model bytes",
                              "pid", ITERATION_PROCESS, "ts", microseconds(now_ns), "args", "bytes",
                              (json_int_t)trace->non_model_bytes[m]));
        now_ns += drawn_ns(&trace->operators[m]);
    }
}

static void write_range(struct writer *writer, const struct records *records,
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
    write_event(writer, drawn);
}

static bool is_drawn(const struct record *event)
{
    return event->type == RECORD_PUSH_POP || event->type == RECORD_START_END ||
           event->type == RECORD_MARK;
}

/* Events are in order of time: the first that is drawn begins the picture. */
static void write_records(struct writer *writer, const struct records *records)
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
            write_name(writer, "process_name", event->process, 0, "recorded NVTX ranges");
        process = event->process;
        write_range(writer, records, event, origin_ns);
    }
}

void export_chrome(const struct trace *trace, const struct records *records, FILE *out)
{
    struct writer writer = {.out = out};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    if (trace)
        write_iteration(&writer, trace);
    write_records(&writer, records);
    fputs("\n]}\n", out);
}
