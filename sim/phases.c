#include "sim/phases.h"

#include "sim/timing.h"

#include "base/seconds.h"
#include "base/size.h"

/* A stretch of the iteration that belongs to one phase. */
struct part {
    uint8_t phase;
    uint64_t begin_ns, end_ns;
};

/* Returns the starts of the operators in the iteration shown, by moment. */
static uint64_t *operator_starts(const struct timeline *timeline, const struct trace *trace)
{
    uint64_t *starts = g_new0(uint64_t, trace->operator_count);
    const enum mover_queue queues[] = {MOVER_COMPUTE, MOVER_HOST};
    for (size_t q = 0; q < G_N_ELEMENTS(queues); q++) {
        const GArray *spans = timeline->spans[queues[q]];
        for (guint i = timeline->first[queues[q]]; i < spans->len; i++) {
            const struct timeline_span *span = &g_array_index(spans, struct timeline_span, i);
            if (span->kind == TIMELINE_OPERATOR)
                starts[span->moment] = span->start_ns;
        }
    }
    return starts;
}

/* Returns the phase of each operator's moment. While backward goes on, what the host updates is a
 * part of backward. */
static uint8_t *find_phases(const struct trace *trace)
{
    uint8_t *phases = g_new(uint8_t, trace->operator_count), next = TRACE_UPDATE_PHASE;
    for (uint32_t m = trace->operator_count; m-- > 0;) {
        const struct trace_operator *op = &trace->operators[m];
        bool early = op->phase == TRACE_UPDATE_PHASE && op->place == TRACE_ON_HOST;
        next = phases[m] = early ? next : op->phase;
    }
    return phases;
}

/* The first part, before any operator has started, belongs to the phase of the last operator. */
static GArray *list_parts(const struct timeline *timeline, const struct trace *trace,
                          const uint8_t *phases)
{
    GArray *parts = g_array_new(FALSE, FALSE, sizeof(struct part));
    g_autofree uint64_t *starts = operator_starts(timeline, trace);
    struct part part = {.phase = phases[trace->operator_count - 1], .begin_ns = timeline->begin_ns};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (m > 0 && phases[m] == part.phase)
            continue;
        part.end_ns = CLAMP(starts[m], part.begin_ns, timeline->end_ns);
        g_array_append_val(parts, part);
        part = (struct part){.phase = phases[m], .begin_ns = part.end_ns};
    }
    part.end_ns = timeline->end_ns;
    g_array_append_val(parts, part);
    return parts;
}

/* Adds a piece of a span to the parts of the iteration that the piece overlaps. The piece begins
 * when the span has run for `ran_ns` of `all_ns`. */
static void add_stretch(struct phases *phases, int queue, const struct timeline_span *span,
                        const GArray *parts, const struct timeline_stretch *piece, uint64_t ran_ns,
                        uint64_t all_ns)
{
    for (guint p = 0; p < parts->len; p++) {
        const struct part *part = &g_array_index(parts, struct part, p);
        struct phase_figures *figures = &phases->of[part->phase];
        uint64_t begin = MAX(piece->start_ns, part->begin_ns);
        uint64_t end = MIN(piece->end_ns, part->end_ns);
        if (end <= begin)
            continue;
        figures->busy_seconds[queue] += (double)(end - begin) * 1e-9;
        if (timing_resources[queue].is_link)
            figures->bytes[queue] +=
                timeline_moved(span->bytes, ran_ns + end - piece->start_ns, all_ns) -
                timeline_moved(span->bytes, ran_ns + begin - piece->start_ns, all_ns);
    }
}

/* A copy of a few bytes may take less than a nanosecond. Its bytes belong to the part that it
 * starts in. */
static void add_instant(struct phases *phases, int queue, const struct timeline_span *span,
                        const GArray *parts, uint64_t at_ns)
{
    for (guint p = 0; p < parts->len; p++) {
        const struct part *part = &g_array_index(parts, struct part, p);
        if (at_ns < part->begin_ns || at_ns >= part->end_ns)
            continue;
        if (timing_resources[queue].is_link)
            phases->of[part->phase].bytes[queue] += span->bytes;
        return;
    }
}

static void add_span(struct phases *phases, int queue, guint i, const struct timeline *timeline,
                     const GArray *parts)
{
    const struct timeline_span *span = &g_array_index(timeline->spans[queue], struct timeline_span,
                                                      i);
    struct timeline_stretch all = timeline_when(timeline, (enum mover_queue)queue, i), rest = all;
    uint64_t all_ns = all.end_ns - all.start_ns;
    if (timeline->end_ns == timeline->begin_ns)
        return;
    do {
        uint64_t ran_ns = rest.start_ns - all.start_ns;
        struct timeline_stretch piece = timeline_wrap(timeline, timeline->begin_ns, &rest);
        if (all_ns)
            add_stretch(phases, queue, span, parts, &piece, ran_ns, all_ns);
        else
            add_instant(phases, queue, span, parts, piece.start_ns);
    } while (rest.start_ns < rest.end_ns);
}

struct phases phases_of(const struct timeline *timeline, const struct trace *trace)
{
    struct phases phases = {0};
    g_autofree uint8_t *phase = find_phases(trace);
    g_autoptr(GArray) parts = list_parts(timeline, trace, phase);
    for (guint p = 0; p < parts->len; p++) {
        const struct part *part = &g_array_index(parts, struct part, p);
        phases.of[part->phase].seconds += (double)(part->end_ns - part->begin_ns) * 1e-9;
    }
    for (int q = 0; q < MOVER_QUEUES; q++)
        for (guint i = timeline->first[q]; i < timeline->spans[q]->len; i++)
            add_span(&phases, q, i, timeline, parts);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct phase_figures *figures = &phases.of[phase[m]];
        figures->peak_device_bytes = MAX(figures->peak_device_bytes,
                                         g_array_index(timeline->used_device_bytes, uint64_t, m));
    }
    return phases;
}

static double rate(const struct phase_figures *figures, enum mover_queue queue)
{
    return figures->seconds > 0 ? (double)figures->bytes[queue] / figures->seconds : 0;
}

static double share(const struct phase_figures *figures, enum mover_queue queue)
{
    return figures->seconds > 0 ? figures->busy_seconds[queue] / figures->seconds * 100 : 0;
}

static bool has_network(const struct phases *phases)
{
    double seconds = 0;
    for (int p = 0; p < PHASE_COUNT; p++)
        seconds += phases->of[p].busy_seconds[MOVER_NETWORK];
    return seconds > 0;
}

void phases_print(const struct phases *phases, FILE *out)
{
    bool network = has_network(phases);
    fprintf(out, "\nPhases of an iteration\n%-9s %10s %9s %9s %9s %9s %9s %9s %11s", "phase", "s",
            "compute", "host", "H2D", "D2H", "H2D GB/s", "D2H GB/s", "peak");
    fprintf(out, network ? " %9s %12s\n" : "\n", "network", "network GB/s");
    for (int p = 0; p < PHASE_COUNT; p++) {
        const struct phase_figures *f = &phases->of[p];
        g_autofree char *peak = size_format(f->peak_device_bytes);
        g_autofree char *seconds = seconds_format(f->seconds);
        fprintf(out, "%-9s %10s %7.1f %% %7.1f %% %7.1f %% %7.1f %% %9.3f %9.3f %11s",
                trace_phase_name((enum trace_phase)p), seconds, share(f, MOVER_COMPUTE),
                share(f, MOVER_HOST), share(f, MOVER_H2D), share(f, MOVER_D2H),
                rate(f, MOVER_H2D) * 1e-9, rate(f, MOVER_D2H) * 1e-9, peak);
        fprintf(out, network ? " %7.1f %% %12.3f\n" : "\n", share(f, MOVER_NETWORK),
                rate(f, MOVER_NETWORK) * 1e-9);
    }
}

json_t *phases_json(const struct phases *phases)
{
    json_t *list = json_array();
    for (int p = 0; p < PHASE_COUNT; p++) {
        const struct phase_figures *f = &phases->of[p];
        json_t *object = json_pack(
            "{ss sf sf sf sf sf sI sI sI}", "phase", trace_phase_name((enum trace_phase)p),
            "seconds", f->seconds, "compute_seconds", f->busy_seconds[MOVER_COMPUTE],
            "host_seconds", f->busy_seconds[MOVER_HOST], "h2d_seconds", f->busy_seconds[MOVER_H2D],
            "d2h_seconds", f->busy_seconds[MOVER_D2H], "h2d_bytes", (json_int_t)f->bytes[MOVER_H2D],
            "d2h_bytes", (json_int_t)f->bytes[MOVER_D2H], "peak_device_bytes",
            (json_int_t)f->peak_device_bytes);
        if (has_network(phases)) {
            json_object_set_new(object, "network_seconds",
                                json_real(f->busy_seconds[MOVER_NETWORK]));
            json_object_set_new(object, "network_bytes",
                                json_integer((json_int_t)f->bytes[MOVER_NETWORK]));
        }
        json_array_append_new(list, object);
    }
    return list;
}
