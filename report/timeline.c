#include "report/timeline.h"

#include "report/text.h"

#include <string.h>

/* Gaps below this are between one operator and the next, not waiting. */
#define SHORTEST_WAIT 20e-6

/* A copy of fewer bytes is ruled by latency. */
#define SMALL_COPY (1 << 20)

const char *strip_label(enum strip strip)
{
    static const char *const labels[STRIPS] = {
        [STRIP_COMPUTE] = "device computes", [STRIP_H2D] = "H2D copies",
        [STRIP_D2H] = "D2H copies",          [STRIP_HOST] = "host optimizer",
        [STRIP_NETWORK] = "network",         [STRIP_WAIT] = "device waits",
    };
    return labels[strip];
}

char *strips_title(const char *what, const struct strips *strips)
{
    const char *how = strips->alone      ? "the operators, one behind the other"
                      : strips->measured ? "measured"
                                         : "simulated";
    g_autofree char *name = g_path_get_basename(strips->origin);
    g_autofree char *file = text_shortened(name, 40);
    return g_strdup_printf("%s: %s (%s)", what, how, file);
}

struct strips *strips_new(const char *origin)
{
    struct strips *strips = g_new0(struct strips, 1);
    strips->origin = g_strdup(origin);
    for (int s = 0; s < STRIPS; s++) {
        strips->spans[s] = g_array_new(FALSE, FALSE, sizeof(struct strip_span));
        strips->reach[s] = g_array_new(FALSE, FALSE, sizeof(double));
    }
    for (int c = 0; c < CURVES; c++)
        strips->curves[c] = g_array_new(FALSE, FALSE, sizeof(struct curve_point));
    strips->names = g_string_chunk_new(4096);
    strips->phases = g_array_new(FALSE, FALSE, sizeof(struct strip_phase));
    return strips;
}

void strips_free(struct strips *strips)
{
    if (!strips)
        return;
    g_free(strips->origin);
    g_free(strips->model);
    configuration_clear(&strips->configuration);
    for (int s = 0; s < STRIPS; s++) {
        g_array_unref(strips->spans[s]);
        g_array_unref(strips->reach[s]);
    }
    for (int c = 0; c < CURVES; c++)
        g_array_unref(strips->curves[c]);
    g_string_chunk_free(strips->names);
    g_array_unref(strips->phases);
    g_free(strips);
}

struct strip_span *strips_add(struct strips *strips, enum strip strip, double start, double end,
                              const char *name)
{
    const struct strip_span span = {.start = start,
                                    .end = end,
                                    .name = g_string_chunk_insert_const(strips->names, name),
                                    .cause = STRIP_UNKNOWN,
                                    .phase = STRIP_NO_PHASE};
    GArray *spans = strips->spans[strip];
    g_array_append_val(spans, span);
    return &g_array_index(spans, struct strip_span, spans->len - 1);
}

/* ---- completion ---- */

static int by_start(const void *left, const void *right)
{
    const struct strip_span *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static void clip(GArray *spans, double seconds)
{
    guint kept = 0;
    for (guint i = 0; i < spans->len; i++) {
        struct strip_span span = g_array_index(spans, struct strip_span, i);
        if (span.end <= 0 || span.start >= seconds)
            continue;
        double length = span.end - span.start;
        span.start = MAX(span.start, 0);
        span.end = MIN(span.end, seconds);
        if (length > 0)
            span.bytes = (uint64_t)((double)span.bytes * (span.end - span.start) / length);
        g_array_index(spans, struct strip_span, kept++) = span;
    }
    g_array_set_size(spans, kept);
}

static double first_start(const struct strips *strips)
{
    double first = strips->seconds;
    for (int s = STRIP_COMPUTE; s <= STRIP_HOST; s += STRIP_HOST - STRIP_COMPUTE)
        for (guint i = 0; i < strips->spans[s]->len; i++) {
            const struct strip_span *span = &g_array_index(strips->spans[s], struct strip_span, i);
            if (span->phase == TRACE_FORWARD || span->phase == TRACE_BACKWARD)
                first = MIN(first, span->start);
        }
    return first < strips->seconds ? first : 0;
}

/* Moves what spans do before `first` to one iteration later, where they do the same again. */
static void wrap(GArray *spans, double first, double seconds)
{
    for (guint i = 0, count = spans->len; i < count; i++) {
        struct strip_span early = g_array_index(spans, struct strip_span, i), late = early;
        if (early.start >= first)
            continue;
        early.end = MIN(early.end, first);
        if (late.end > first) {
            double share = (first - early.start) / (late.end - late.start);
            early.bytes = (uint64_t)((double)late.bytes * share);
            late.bytes -= early.bytes;
            late.start = first;
            g_array_append_val(spans, late);
        }
        early.start += seconds;
        early.end += seconds;
        g_array_index(spans, struct strip_span, i) = early;
    }
}

/* A simulated iteration repeats itself: what its first operator waits for is the end of the one
 * before, and is shown at the end. */
static void begin_with_first_operator(struct strips *strips)
{
    double first = first_start(strips);
    for (int s = 0; first > 0 && s < STRIPS; s++) {
        wrap(strips->spans[s], first, strips->seconds);
        for (guint i = 0; i < strips->spans[s]->len; i++) {
            struct strip_span *span = &g_array_index(strips->spans[s], struct strip_span, i);
            span->start -= first;
            span->end -= first;
        }
        g_array_sort(strips->spans[s], by_start);
    }
}

static void find_reach(struct strips *strips, enum strip strip)
{
    double until = 0;
    g_array_set_size(strips->reach[strip], 0);
    for (guint i = 0; i < strips->spans[strip]->len; i++) {
        until = MAX(until, g_array_index(strips->spans[strip], struct strip_span, i).end);
        g_array_append_val(strips->reach[strip], until);
    }
}

/* The first span that ends after `start`, or the number of spans. */
static guint first_reaching(const struct strips *strips, enum strip strip, double start)
{
    guint low = 0, high = strips->reach[strip]->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(strips->reach[strip], double, middle) <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void begin_phase(struct strips *strips, enum trace_phase phase, double start)
{
    GArray *phases = strips->phases;
    struct strip_phase *last = phases->len
                                   ? &g_array_index(phases, struct strip_phase, phases->len - 1)
                                   : NULL;
    if (last && last->phase == phase)
        return;
    if (last)
        last->end = start;
    const struct strip_phase next = {phase, last ? start : 0, strips->seconds};
    g_array_append_val(phases, next);
}

/* A phase lasts from the start of its first operator to the start of the next one's; what runs late
 * on the host does not begin the update again. */
static void make_phases(struct strips *strips)
{
    const GArray *compute = strips->spans[STRIP_COMPUTE], *host = strips->spans[STRIP_HOST];
    guint c = 0, h = 0;
    while (c < compute->len || h < host->len) {
        const struct strip_span *a = c < compute->len
                                         ? &g_array_index(compute, struct strip_span, c)
                                         : NULL;
        const struct strip_span *b = h < host->len ? &g_array_index(host, struct strip_span, h)
                                                   : NULL;
        bool device = a && (!b || a->start <= b->start);
        const struct strip_span *next = device ? a : b;
        c += device;
        h += !device;
        /* The host's update may begin while backward goes on. */
        bool early = !device && a && next->phase == TRACE_UPDATE_PHASE;
        if (next->phase != STRIP_NO_PHASE && !early)
            begin_phase(strips, (enum trace_phase)next->phase, next->start);
    }
}

static void add_gap(struct strips *strips, double start, double end)
{
    if (end - start >= SHORTEST_WAIT)
        strips_add(strips, STRIP_WAIT, start, end, "the device waits");
}

static void wait_in_gaps(struct strips *strips)
{
    double free = 0;
    for (guint i = 0; i < strips->spans[STRIP_COMPUTE]->len; i++) {
        const struct strip_span *span = &g_array_index(strips->spans[STRIP_COMPUTE],
                                                       struct strip_span, i);
        add_gap(strips, free, span->start);
        free = MAX(free, span->end);
    }
    add_gap(strips, free, strips->seconds);
    strips->known[STRIP_WAIT] = true;
}

/* A wait is for the resource that was busy for the most of it; for none that was busy for less than
 * half of it. What is said to be waited for may have waited itself: a copy of what the optimizer
 * on the host has not finished. */
static void find_cause(const struct strips *strips, struct strip_span *wait)
{
    double most = (wait->end - wait->start) / 2;
    if (wait->cause != STRIP_UNKNOWN &&
        strips_busy(strips, (enum strip)wait->cause, wait->start, wait->end) >= most)
        return;
    for (int s = STRIP_H2D; s < STRIP_WAIT; s++) {
        double busy = strips_busy(strips, (enum strip)s, wait->start, wait->end);
        if (busy > most) {
            most = busy;
            wait->cause = (uint8_t)s;
        }
    }
}

void strips_complete(struct strips *strips)
{
    if (!strips->measured) /* the first wait may have begun before: no other strip's spans do */
        wrap(strips->spans[STRIP_WAIT], 0, strips->seconds);
    for (int s = 0; s < STRIPS; s++) {
        g_array_sort(strips->spans[s], by_start);
        clip(strips->spans[s], strips->seconds);
    }
    if (!strips->measured)
        begin_with_first_operator(strips);
    for (int s = 0; s < STRIPS; s++)
        find_reach(strips, (enum strip)s);
    if (!strips->phases->len)
        make_phases(strips);
    if (!strips->known[STRIP_WAIT])
        wait_in_gaps(strips);
    for (guint i = 0; i < strips->spans[STRIP_WAIT]->len; i++)
        find_cause(strips, &g_array_index(strips->spans[STRIP_WAIT], struct strip_span, i));
    find_reach(strips, STRIP_WAIT);
}

/* ---- sums ---- */

/* Copies of one direction, or operators of several streams, may overlap. */
double strips_busy(const struct strips *strips, enum strip strip, double start, double end)
{
    const GArray *spans = strips->spans[strip];
    double busy = 0, until = start;
    for (guint i = first_reaching(strips, strip, start); i < spans->len; i++) {
        const struct strip_span *span = &g_array_index(spans, struct strip_span, i);
        if (span->start >= end)
            break;
        double from = MAX(span->start, until), to = MIN(span->end, end);
        if (to > from) {
            busy += to - from;
            until = to;
        }
    }
    return busy;
}

/* Adds amount a second over [start, end) to the columns that it touches. */
static void spread(double *columns, guint count, double width, double start, double end,
                   double amount_a_second)
{
    guint first = MIN((guint)(start / width), count - 1);
    guint last = MIN((guint)(end / width), count - 1);
    for (guint c = first; c <= last; c++) {
        double from = MAX(start, c * width), to = MIN(end, (c + 1) * width);
        if (to > from)
            columns[c] += (to - from) * amount_a_second;
    }
}

void strips_busy_columns(const struct strips *strips, enum strip strip, double *busy, guint columns)
{
    const GArray *spans = strips->spans[strip];
    double until = 0;
    memset(busy, 0, columns * sizeof *busy);
    for (guint i = 0; i < spans->len; i++) {
        const struct strip_span *span = &g_array_index(spans, struct strip_span, i);
        double from = MAX(span->start, until);
        if (span->end > from)
            spread(busy, columns, strips->seconds / columns, from, span->end, 1);
        until = MAX(until, span->end);
    }
}

void strips_byte_columns(const struct strips *strips, enum strip strip, double *bytes,
                         guint columns)
{
    const GArray *spans = strips->spans[strip];
    memset(bytes, 0, columns * sizeof *bytes);
    for (guint i = 0; i < spans->len; i++) {
        const struct strip_span *span = &g_array_index(spans, struct strip_span, i);
        if (span->end > span->start)
            spread(bytes, columns, strips->seconds / columns, span->start, span->end,
                   (double)span->bytes / (span->end - span->start));
    }
}

double strips_bytes(const struct strips *strips, enum strip strip, double start, double end)
{
    const GArray *spans = strips->spans[strip];
    double bytes = 0;
    for (guint i = first_reaching(strips, strip, start); i < spans->len; i++) {
        const struct strip_span *span = &g_array_index(spans, struct strip_span, i);
        double from = MAX(span->start, start), to = MIN(span->end, end);
        if (span->start >= end)
            break;
        if (to > from)
            bytes += (double)span->bytes * (to - from) / (span->end - span->start);
    }
    return bytes;
}

double strips_peak_rate(const struct strips *strips, enum strip strip)
{
    const GArray *spans = strips->spans[strip];
    uint64_t largest = 0;
    double peak = 0;
    for (guint i = 0; i < spans->len; i++)
        largest = MAX(largest, g_array_index(spans, struct strip_span, i).bytes);
    for (guint i = 0; i < spans->len; i++) {
        const struct strip_span *span = &g_array_index(spans, struct strip_span, i);
        if (span->end > span->start && span->bytes >= MIN(largest, SMALL_COPY))
            peak = MAX(peak, (double)span->bytes / (span->end - span->start));
    }
    return peak;
}

/* To its cause, less what that resource itself waited for. */
static void add_wait(const struct strips *strips, double from, double to, uint8_t cause,
                     struct strip_sums *sums)
{
    double left = to - from;
    for (int s = STRIP_WAIT - 1; cause != STRIP_UNKNOWN && s >= STRIP_H2D; s--) {
        double idle = left - strips_busy(strips, (enum strip)cause, from, to);
        double other = s == cause ? 0 : strips_busy(strips, (enum strip)s, from, to);
        double part = CLAMP(other, 0, MAX(idle, 0));
        sums->wait_for[s] += part;
        left -= part;
    }
    sums->wait_for[cause] += left;
}

static void add_part(const struct strips *strips, double start, double end, struct strip_sums *sums)
{
    sums->seconds += end - start;
    for (int s = 0; s < STRIPS; s++)
        sums->busy[s] += strips_busy(strips, (enum strip)s, start, end);
    for (int s = STRIP_H2D; s <= STRIP_D2H; s++)
        sums->bytes[s] += strips_bytes(strips, (enum strip)s, start, end);
    const GArray *waits = strips->spans[STRIP_WAIT];
    for (guint i = 0; i < waits->len; i++) {
        const struct strip_span *wait = &g_array_index(waits, struct strip_span, i);
        double from = MAX(wait->start, start), to = MIN(wait->end, end);
        if (to > from)
            add_wait(strips, from, to, wait->cause, sums);
    }
}

struct strip_sums strips_sum(const struct strips *strips, enum trace_phase phase)
{
    struct strip_sums sums = {0};
    for (guint i = 0; i < strips->phases->len; i++) {
        const struct strip_phase *part = &g_array_index(strips->phases, struct strip_phase, i);
        if (part->phase == phase)
            add_part(strips, part->start, part->end, &sums);
    }
    return sums;
}

struct strip_sums strips_sum_all(const struct strips *strips)
{
    struct strip_sums sums = {0};
    add_part(strips, 0, strips->seconds, &sums);
    return sums;
}
