#include "report/tracks.h"

#include "report/text.h"

#include <string.h>

/* Shorter gaps between operators are not waiting. */
#define SHORTEST_WAIT 20e-6

/* The time of a smaller copy is mostly latency. */
#define SMALL_COPY (1 << 20)

const char *track_label(enum track track)
{
    static const char *const labels[TRACKS] = {
        [TRACK_COMPUTE] = "device computes", [TRACK_H2D] = "H2D copies",
        [TRACK_D2H] = "D2H copies",          [TRACK_HOST] = "host optimizer",
        [TRACK_NETWORK] = "network",         [TRACK_NVME_READ] = "NVMe reads",
        [TRACK_NVME_WRITE] = "NVMe writes",  [TRACK_WAIT] = "device waits",
    };
    return labels[track];
}

bool track_is_rare(enum track track)
{
    return track >= TRACK_NETWORK && track <= TRACK_NVME_WRITE;
}

char *tracks_title(const char *what, const struct tracks *tracks)
{
    const char *how = tracks->operators_only ? "operators only"
                      : tracks->measured     ? "measured"
                                             : "simulated";
    g_autofree char *name = g_path_get_basename(tracks->origin);
    g_autofree char *file = text_shortened(name, 40);
    return g_strdup_printf("%s: %s (%s)", what, how, file);
}

struct tracks *tracks_new(const char *origin)
{
    struct tracks *tracks = g_new0(struct tracks, 1);
    tracks->origin = g_strdup(origin);
    for (int s = 0; s < TRACKS; s++) {
        tracks->spans[s] = g_array_new(FALSE, FALSE, sizeof(struct track_span));
        tracks->profiles[s] = g_array_new(FALSE, FALSE, sizeof(struct track_point));
    }
    for (int c = 0; c < CURVES; c++)
        tracks->curves[c] = g_array_new(FALSE, FALSE, sizeof(struct curve_point));
    tracks->names = g_string_chunk_new(4096);
    tracks->phases = g_array_new(FALSE, FALSE, sizeof(struct track_phase));
    return tracks;
}

void tracks_free(struct tracks *tracks)
{
    if (!tracks)
        return;
    g_free(tracks->origin);
    g_free(tracks->model);
    g_free(tracks->link);
    configuration_clear(&tracks->configuration);
    for (int s = 0; s < TRACKS; s++) {
        g_array_unref(tracks->spans[s]);
        g_array_unref(tracks->profiles[s]);
    }
    for (int c = 0; c < CURVES; c++)
        g_array_unref(tracks->curves[c]);
    g_string_chunk_free(tracks->names);
    g_array_unref(tracks->phases);
    g_free(tracks);
}

struct track_span *tracks_add(struct tracks *tracks, enum track track, double start, double end,
                              const char *name)
{
    const struct track_span span = {.start = start,
                                    .end = end,
                                    .name = g_string_chunk_insert_const(tracks->names, name),
                                    .cause = TRACK_UNKNOWN,
                                    .phase = TRACK_NO_PHASE};
    GArray *spans = tracks->spans[track];
    g_array_append_val(spans, span);
    return &g_array_index(spans, struct track_span, spans->len - 1);
}

/* ---- completion ---- */

static int by_start(const void *left, const void *right)
{
    const struct track_span *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static void clip(GArray *spans, double seconds)
{
    guint kept = 0;
    for (guint i = 0; i < spans->len; i++) {
        struct track_span span = g_array_index(spans, struct track_span, i);
        if (span.end <= 0 || span.start >= seconds)
            continue;
        double length = span.end - span.start;
        span.start = MAX(span.start, 0);
        span.end = MIN(span.end, seconds);
        if (length > 0)
            span.bytes = (uint64_t)((double)span.bytes * (span.end - span.start) / length);
        g_array_index(spans, struct track_span, kept++) = span;
    }
    g_array_set_size(spans, kept);
}

static double first_start(const struct tracks *tracks)
{
    double first = tracks->seconds;
    for (int s = TRACK_COMPUTE; s <= TRACK_HOST; s += TRACK_HOST - TRACK_COMPUTE)
        for (guint i = 0; i < tracks->spans[s]->len; i++) {
            const struct track_span *span = &g_array_index(tracks->spans[s], struct track_span, i);
            if (span->phase == TRACE_FORWARD || span->phase == TRACE_BACKWARD)
                first = MIN(first, span->start);
        }
    return first < tracks->seconds ? first : 0;
}

/* Moves everything before `first` to one iteration later, where it repeats. */
static void wrap(GArray *spans, double first, double seconds)
{
    for (guint i = 0, count = spans->len; i < count; i++) {
        struct track_span early = g_array_index(spans, struct track_span, i), late = early;
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
        g_array_index(spans, struct track_span, i) = early;
    }
}

/* A simulated iteration repeats itself. The waiting of its first operator belongs to the end of the
 * iteration before, so it is shown at the end. */
static void begin_with_first_operator(struct tracks *tracks)
{
    double first = first_start(tracks);
    for (int s = 0; first > 0 && s < TRACKS; s++) {
        wrap(tracks->spans[s], first, tracks->seconds);
        for (guint i = 0; i < tracks->spans[s]->len; i++) {
            struct track_span *span = &g_array_index(tracks->spans[s], struct track_span, i);
            span->start -= first;
            span->end -= first;
        }
        g_array_sort(tracks->spans[s], by_start);
    }
}

/* The start or the end of a span. */
struct track_edge {
    double time, rate; /* of its bytes a second; an end takes away what its start adds */
    int spans;         /* 1 or -1 */
};

static int by_time(const void *left, const void *right)
{
    const struct track_edge *a = left, *b = right;
    return (a->time > b->time) - (a->time < b->time);
}

static GArray *edges_of(const GArray *spans)
{
    GArray *edges = g_array_sized_new(FALSE, FALSE, sizeof(struct track_edge), 2 * spans->len);
    for (guint i = 0; i < spans->len; i++) {
        const struct track_span *span = &g_array_index(spans, struct track_span, i);
        if (span->end <= span->start)
            continue;
        double rate = (double)span->bytes / (span->end - span->start);
        const struct track_edge both[] = {{span->start, rate, 1}, {span->end, -rate, -1}};
        g_array_append_vals(edges, both, 2);
    }
    g_array_sort(edges, by_time);
    return edges;
}

/* Copies of one direction may overlap, and so may operators of several streams. */
static void make_profile(struct tracks *tracks, enum track track)
{
    g_autoptr(GArray) edges = edges_of(tracks->spans[track]);
    GArray *profile = tracks->profiles[track];
    struct track_point point = {0};
    double rate = 0;
    int open = 0;
    g_array_set_size(profile, 0);
    for (guint i = 0; i < edges->len; i++) {
        const struct track_edge *edge = &g_array_index(edges, struct track_edge, i);
        double passed = edge->time - point.time;
        point = (struct track_point){edge->time, point.busy + (open ? passed : 0),
                                     point.bytes + (open ? passed * rate : 0)};
        open += edge->spans;
        rate = open ? rate + edge->rate : 0; /* rounding errors end with the last open span */
        g_array_append_val(profile, point);
    }
}

/* Returns the sums from the start of the step to `time`. */
static struct track_point sums_until(const struct tracks *tracks, enum track track, double time)
{
    const GArray *profile = tracks->profiles[track];
    guint low = 0, high = profile->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(profile, struct track_point, middle).time <= time)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return (struct track_point){time, 0, 0};
    const struct track_point *before = &g_array_index(profile, struct track_point, low - 1);
    if (low == profile->len)
        return *before;
    double share = (time - before->time) / (before[1].time - before->time);
    return (struct track_point){time, before->busy + share * (before[1].busy - before->busy),
                                before->bytes + share * (before[1].bytes - before->bytes)};
}

/* Shortens each wait that begins before the one before it ends, and removes those that nothing is
 * left of. */
static void separate_waits(GArray *waits)
{
    double until = 0;
    guint kept = 0;
    for (guint i = 0; i < waits->len; i++) {
        struct track_span wait = g_array_index(waits, struct track_span, i);
        wait.start = MAX(wait.start, until);
        if (wait.end <= wait.start)
            continue;
        until = wait.end;
        g_array_index(waits, struct track_span, kept++) = wait;
    }
    g_array_set_size(waits, kept);
}

/* Returns the first wait that ends after `start`, or the number of waits. */
static guint first_wait(const struct tracks *tracks, double start)
{
    const GArray *waits = tracks->spans[TRACK_WAIT];
    guint low = 0, high = waits->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(waits, struct track_span, middle).end <= start)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void begin_phase(struct tracks *tracks, enum trace_phase phase, double start)
{
    GArray *phases = tracks->phases;
    struct track_phase *last = phases->len
                                   ? &g_array_index(phases, struct track_phase, phases->len - 1)
                                   : NULL;
    if (last && last->phase == phase)
        return;
    if (last)
        last->end = start;
    const struct track_phase next = {phase, last ? start : 0, tracks->seconds};
    g_array_append_val(phases, next);
}

/* A phase lasts from the start of its first operator to the start of the next phase's. Late work of
 * the host does not begin the update again. */
static void make_phases(struct tracks *tracks)
{
    const GArray *compute = tracks->spans[TRACK_COMPUTE], *host = tracks->spans[TRACK_HOST];
    guint c = 0, h = 0;
    while (c < compute->len || h < host->len) {
        const struct track_span *a = c < compute->len
                                         ? &g_array_index(compute, struct track_span, c)
                                         : NULL;
        const struct track_span *b = h < host->len ? &g_array_index(host, struct track_span, h)
                                                   : NULL;
        bool device = a && (!b || a->start <= b->start);
        const struct track_span *next = device ? a : b;
        c += device;
        h += !device;
        /* The host may begin the update while backward goes on. */
        bool early = !device && a && next->phase == TRACE_UPDATE_PHASE;
        if (next->phase != TRACK_NO_PHASE && !early)
            begin_phase(tracks, (enum trace_phase)next->phase, next->start);
    }
}

static void add_gap(struct tracks *tracks, double start, double end)
{
    if (end - start >= SHORTEST_WAIT)
        tracks_add(tracks, TRACK_WAIT, start, end, "the device waits");
}

static void wait_in_gaps(struct tracks *tracks)
{
    double free = 0;
    for (guint i = 0; i < tracks->spans[TRACK_COMPUTE]->len; i++) {
        const struct track_span *span = &g_array_index(tracks->spans[TRACK_COMPUTE],
                                                       struct track_span, i);
        add_gap(tracks, free, span->start);
        free = MAX(free, span->end);
    }
    add_gap(tracks, free, tracks->seconds);
    tracks->known[TRACK_WAIT] = true;
}

/* Attributes a wait to the resource that was busy for most of it, if that is at least half of it. A
 * stated cause may itself have waited: a copy waits for the optimizer on the host. */
static void find_cause(const struct tracks *tracks, struct track_span *wait)
{
    double most = (wait->end - wait->start) / 2;
    if (wait->cause != TRACK_UNKNOWN &&
        tracks_busy(tracks, (enum track)wait->cause, wait->start, wait->end) >= most)
        return;
    for (int s = TRACK_H2D; s < TRACK_WAIT; s++) {
        double busy = tracks_busy(tracks, (enum track)s, wait->start, wait->end);
        if (busy > most) {
            most = busy;
            wait->cause = (uint8_t)s;
        }
    }
}

void tracks_complete(struct tracks *tracks)
{
    if (!tracks->measured) /* in old timelines the first wait may have begun before 0 */
        wrap(tracks->spans[TRACK_WAIT], 0, tracks->seconds);
    for (int s = 0; s < TRACKS; s++) {
        g_array_sort(tracks->spans[s], by_start);
        clip(tracks->spans[s], tracks->seconds);
    }
    if (!tracks->measured)
        begin_with_first_operator(tracks);
    for (int s = 0; s < TRACK_WAIT; s++)
        make_profile(tracks, (enum track)s);
    if (!tracks->phases->len)
        make_phases(tracks);
    if (!tracks->known[TRACK_WAIT])
        wait_in_gaps(tracks);
    separate_waits(tracks->spans[TRACK_WAIT]);
    for (guint i = 0; i < tracks->spans[TRACK_WAIT]->len; i++)
        find_cause(tracks, &g_array_index(tracks->spans[TRACK_WAIT], struct track_span, i));
    make_profile(tracks, TRACK_WAIT);
}

/* ---- sums ---- */

double tracks_busy(const struct tracks *tracks, enum track track, double start, double end)
{
    return sums_until(tracks, track, end).busy - sums_until(tracks, track, start).busy;
}

/* Adds `amount_a_second` over [start, end) to the columns that it touches. */
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

void tracks_busy_columns(const struct tracks *tracks, enum track track, double *busy, guint columns)
{
    const GArray *spans = tracks->spans[track];
    double until = 0;
    memset(busy, 0, columns * sizeof *busy);
    for (guint i = 0; i < spans->len; i++) {
        const struct track_span *span = &g_array_index(spans, struct track_span, i);
        double from = MAX(span->start, until);
        if (span->end > from)
            spread(busy, columns, tracks->seconds / columns, from, span->end, 1);
        until = MAX(until, span->end);
    }
}

void tracks_byte_columns(const struct tracks *tracks, enum track track, double *bytes,
                         guint columns)
{
    const GArray *spans = tracks->spans[track];
    memset(bytes, 0, columns * sizeof *bytes);
    for (guint i = 0; i < spans->len; i++) {
        const struct track_span *span = &g_array_index(spans, struct track_span, i);
        if (span->end > span->start)
            spread(bytes, columns, tracks->seconds / columns, span->start, span->end,
                   (double)span->bytes / (span->end - span->start));
    }
}

double tracks_bytes(const struct tracks *tracks, enum track track, double start, double end)
{
    return sums_until(tracks, track, end).bytes - sums_until(tracks, track, start).bytes;
}

double tracks_peak_rate(const struct tracks *tracks, enum track track)
{
    const GArray *spans = tracks->spans[track];
    uint64_t largest = 0;
    double peak = 0;
    for (guint i = 0; i < spans->len; i++)
        largest = MAX(largest, g_array_index(spans, struct track_span, i).bytes);
    for (guint i = 0; i < spans->len; i++) {
        const struct track_span *span = &g_array_index(spans, struct track_span, i);
        if (span->end > span->start && span->bytes >= MIN(largest, SMALL_COPY))
            peak = MAX(peak, (double)span->bytes / (span->end - span->start));
    }
    return peak;
}

/* Attributes a wait to its cause, except for the time in which that resource waited itself. */
static void add_wait(const struct tracks *tracks, double from, double to, uint8_t cause,
                     struct track_sums *sums)
{
    double left = to - from;
    for (int s = TRACK_WAIT - 1; cause != TRACK_UNKNOWN && s >= TRACK_H2D; s--) {
        double idle = left - tracks_busy(tracks, (enum track)cause, from, to);
        double other = s == cause ? 0 : tracks_busy(tracks, (enum track)s, from, to);
        double part = CLAMP(other, 0, MAX(idle, 0));
        sums->wait_for[s] += part;
        left -= part;
    }
    sums->wait_for[cause] += left;
}

static void add_part(const struct tracks *tracks, double start, double end, struct track_sums *sums)
{
    sums->seconds += end - start;
    for (int s = 0; s < TRACKS; s++) {
        sums->busy[s] += tracks_busy(tracks, (enum track)s, start, end);
        sums->bytes[s] += tracks_bytes(tracks, (enum track)s, start, end);
    }
    const GArray *waits = tracks->spans[TRACK_WAIT];
    for (guint i = first_wait(tracks, start); i < waits->len; i++) {
        const struct track_span *wait = &g_array_index(waits, struct track_span, i);
        double from = MAX(wait->start, start), to = MIN(wait->end, end);
        if (wait->start >= end)
            break;
        if (to > from)
            add_wait(tracks, from, to, wait->cause, sums);
    }
}

struct track_sums tracks_sum(const struct tracks *tracks, enum trace_phase phase)
{
    struct track_sums sums = {0};
    for (guint i = 0; i < tracks->phases->len; i++) {
        const struct track_phase *part = &g_array_index(tracks->phases, struct track_phase, i);
        if (part->phase == phase)
            add_part(tracks, part->start, part->end, &sums);
    }
    return sums;
}

struct track_sums tracks_sum_all(const struct tracks *tracks)
{
    struct track_sums sums = {0};
    add_part(tracks, 0, tracks->seconds, &sums);
    return sums;
}
