/* The tracks of one iteration that a trace has recorded. */
#include "report/tracks.h"
#include "traces/activity/guess.h"
#include "traces/annotations.h"
#include "traces/records.h"

#include <string.h>

/* A part of the recording, in nanoseconds of its clock. */
struct ns_range {
    uint64_t start_ns, end_ns;
};

/* The state of reading one recording. */
struct recorded_step {
    const struct records *records;
    const struct activity *activity;
    const struct trace *trace; /* may be NULL */
    uint32_t domain;           /* of our annotations; 0 if there are none */
    struct tracks *tracks;
    struct ns_range host;   /* the iteration, by the ranges of the host */
    bool marked;            /* the iteration is annotated; otherwise it is the whole recording */
    struct ns_range window; /* the iteration, by the device's work, which runs behind the host */
};

/* When the host asked for a kernel, and when it ran. */
struct launch_time {
    uint64_t asked_ns, start_ns;
};

/* Returns whether the event has a duration. */
static bool recording_is_range(const struct record *event)
{
    return event->end_ns > event->start_ns &&
           (event->type == RECORD_PUSH_POP || event->type == RECORD_START_END);
}

/* ---- which iteration ---- */

static bool is_iteration(const struct recorded_step *recording, const struct record *event)
{
    if (recording->domain)
        return event->domain == recording->domain && event->category == ANNOTATION_ITERATION;
    return g_str_has_prefix(records_text(recording->records, event->text), "ProfilerStep#");
}

static int by_length(const void *left, const void *right)
{
    const struct ns_range *a = left, *b = right;
    uint64_t x = a->end_ns - a->start_ns, y = b->end_ns - b->start_ns;
    if (x != y)
        return x < y ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* Finds the annotated iteration of median length. Returns false if none is annotated. */
static bool find_iteration(struct recorded_step *recording)
{
    g_autoptr(GArray) windows = g_array_new(FALSE, FALSE, sizeof(struct ns_range));
    for (uint32_t i = 0; i < recording->records->event_count; i++) {
        const struct record *event = &recording->records->events[i];
        const struct ns_range window = {event->start_ns, event->end_ns};
        if (recording_is_range(event) && is_iteration(recording, event))
            g_array_append_val(windows, window);
    }
    g_array_sort(windows, by_length);
    if (windows->len)
        recording->host = g_array_index(windows, struct ns_range, (windows->len - 1) / 2);
    return windows->len > 0;
}

static void extend(struct ns_range *window, uint64_t start_ns, uint64_t end_ns)
{
    window->start_ns = MIN(window->start_ns, start_ns);
    window->end_ns = MAX(window->end_ns, end_ns);
}

static void take_everything(struct recorded_step *recording)
{
    const struct activity *activity = recording->activity;
    struct ns_range window = {UINT64_MAX, 0};
    for (uint32_t k = 0; k < activity->kernel_count; k++)
        extend(&window, activity->kernels[k].start_ns, activity->kernels[k].end_ns);
    for (uint32_t c = 0; c < activity->copy_count; c++)
        extend(&window, activity->copies[c].start_ns, activity->copies[c].end_ns);
    recording->host = window;
}

/* Returns seconds from the start of the window, negative before it. */
static double recording_seconds(const struct recorded_step *recording, uint64_t ns)
{
    /* Subtract first: a double holds nanoseconds since 1970 only to 256 ns. */
    return (double)(int64_t)(ns - recording->window.start_ns) * 1e-9;
}

/* Adds a span unless it lies outside the window. */
static void recording_add_span(const struct recorded_step *recording, enum track track,
                               const struct ns_range *span, const char *name, uint8_t phase,
                               uint64_t bytes)
{
    if (span->end_ns <= recording->window.start_ns || span->start_ns >= recording->window.end_ns)
        return;
    struct track_span *added = tracks_add(recording->tracks, track,
                                          recording_seconds(recording, span->start_ns),
                                          recording_seconds(recording, span->end_ns), name);
    added->phase = phase;
    added->bytes = bytes;
}

/* The part of the recording that is shown. */
struct shown {
    uint64_t begin_ns, end_ns;
    GArray *const *curves;
};

static void add_point(const struct shown *shown, enum curve curve, uint64_t time_ns, double value)
{
    GArray *points = shown->curves[curve];
    bool before = time_ns < shown->begin_ns;
    const struct curve_point point = {before ? 0 : (double)(time_ns - shown->begin_ns) * 1e-9,
                                      value};
    if (time_ns >= shown->end_ns)
        return;
    if (before)
        g_array_set_size(points, 0);
    g_array_append_val(points, point);
}

/* ---- allocations ---- */

static int curve_of_memory(uint32_t kind)
{
    switch (kind) {
    case MEMORY_DEVICE:
    case MEMORY_ARRAY:
    case MEMORY_DEVICE_STATIC:
        return CURVE_ALLOCATED;
    case MEMORY_PINNED:
        return CURVE_PINNED;
    case MEMORY_MANAGED:
    case MEMORY_MANAGED_STATIC:
        return CURVE_MANAGED;
    default:
        return CURVES;
    }
}

/* Follows allocations by address. */
static void follow_allocations(const struct activity *activity, const struct shown *shown)
{
    g_autoptr(GHashTable) live = g_hash_table_new(g_int64_hash, g_int64_equal);
    double levels[CURVES + 1] = {0};
    for (uint32_t i = 0; i < activity->memory_count; i++) {
        const struct memory_record *record = &activity->memory[i];
        const struct memory_record *before = g_hash_table_lookup(live, &record->address);
        int curve = curve_of_memory(before ? before->kind : record->kind);
        if (before)
            levels[curve] -= (double)before->bytes;
        if (record->operation == MEMORY_ALLOCATE) {
            g_hash_table_replace(live, (gpointer)&record->address, (gpointer)record);
            curve = curve_of_memory(record->kind);
            levels[curve] += (double)record->bytes;
        } else {
            g_hash_table_remove(live, &record->address);
        }
        if (curve < CURVES)
            add_point(shown, (enum curve)curve, record->start_ns, levels[curve]);
    }
}

/* ---- samples ---- */

/* Counters of bytes become rates. A sample after an overflow is ignored. */
static void add_rate(const struct shown *shown, enum curve curve,
                     const struct record_sample *sample, struct record_sample *last)
{
    if (last->time_ns && sample->time_ns > last->time_ns && sample->value >= last->value)
        add_point(shown, curve, sample->time_ns,
                  (double)(sample->value - last->value) /
                      (double)(sample->time_ns - last->time_ns) * 1e9);
    *last = *sample;
}

static void follow_samples(const struct records *records, const struct shown *shown)
{
    struct record_sample received = {0}, sent = {0};
    for (uint32_t i = 0; i < records->sample_count; i++) {
        const struct record_sample *sample = &records->samples[i];
        if (!strcmp(sample->counter, "resident_bytes"))
            add_point(shown, CURVE_RESIDENT, sample->time_ns, (double)sample->value);
        else if (!strcmp(sample->counter, "device0_used_bytes"))
            add_point(shown, CURVE_DEVICE_USED, sample->time_ns, (double)sample->value);
        else if (!strcmp(sample->counter, "device0_pcie_received_bytes"))
            add_rate(shown, CURVE_H2D, sample, &received);
        else if (!strcmp(sample->counter, "device0_pcie_sent_bytes"))
            add_rate(shown, CURVE_D2H, sample, &sent);
    }
}

/* Appends the points of [begin_ns, end_ns) to curves [CURVES] (struct curve_point), preceded by the
 * last earlier point, at time 0. Reads device 0 only. Curves without data stay empty. */
static void curves_find(const struct records *records, const struct activity *activity,
                        uint64_t begin_ns, uint64_t end_ns, GArray *const *curves)
{
    const struct shown shown = {begin_ns, end_ns, curves};
    follow_allocations(activity, &shown);
    follow_samples(records, &shown);
}

/* Returns the phase that the name of a range suggests. */
static uint8_t phase_by_name(const char *name)
{
    static const struct {
        const char *part;
        enum trace_phase phase;
    } words[] = {{"backward", TRACE_BACKWARD},   {"forward", TRACE_FORWARD},
                 {"optim", TRACE_UPDATE_PHASE},  {"adam", TRACE_UPDATE_PHASE},
                 {"update", TRACE_UPDATE_PHASE}, {".step", TRACE_UPDATE_PHASE}};
    g_autofree char *lower = g_ascii_strdown(name, -1);
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (strstr(lower, words[i].part) && !strstr(lower, "zero_grad"))
            return (uint8_t)words[i].phase;
    return TRACK_NO_PHASE;
}

static uint8_t phase_of_range(const struct recorded_step *recording, const struct record *event)
{
    const struct trace *trace = recording->trace;
    if (recording->domain && event->domain == recording->domain)
        return trace && event->category == ANNOTATION_OPERATOR &&
                       event->payload < trace->operator_count
                   ? trace->operators[event->payload].phase
                   : TRACK_NO_PHASE;
    /* Annotations of operators state their phase; the collector's marks of iterations do not. */
    return trace ? TRACK_NO_PHASE : phase_by_name(records_text(recording->records, event->text));
}

static int by_asking(const void *left, const void *right)
{
    const struct launch_time *a = left, *b = right;
    return (a->asked_ns > b->asked_ns) - (a->asked_ns < b->asked_ns);
}

/* Returns the launches in order of asking. start_ns is the earliest start of all that were asked
 * for then or later. The array is empty if no calls were recorded. Free with g_array_unref. */
static GArray *recording_launches(const struct activity *activity)
{
    GArray *launches = g_array_new(FALSE, FALSE, sizeof(struct launch_time));
    g_autoptr(GHashTable) asked = g_hash_table_new(NULL, NULL);
    for (uint32_t c = 0; c < activity->call_count; c++)
        g_hash_table_insert(asked, GUINT_TO_POINTER(activity->calls[c].correlation),
                            &activity->calls[c]);
    for (uint32_t k = 0; k < activity->kernel_count; k++) {
        const struct kernel_record *kernel = &activity->kernels[k];
        const struct call_record *call = g_hash_table_lookup(asked,
                                                             GUINT_TO_POINTER(kernel->correlation));
        const struct launch_time launch = {call ? call->start_ns : 0, kernel->start_ns};
        if (call)
            g_array_append_val(launches, launch);
    }
    g_array_sort(launches, by_asking);
    for (guint i = launches->len; i-- > 1;) {
        struct launch_time *before = &g_array_index(launches, struct launch_time, i - 1);
        before->start_ns = MIN(before->start_ns,
                               g_array_index(launches, struct launch_time, i).start_ns);
    }
    return launches;
}

/* Returns the index of the first launch that was asked for at `host_ns` or later. */
static guint first_launch(const GArray *launches, uint64_t host_ns)
{
    guint low = 0, high = launches->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(launches, struct launch_time, middle).asked_ns < host_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns when the device began the work that the host asked for at `host_ns` or later. */
static uint64_t recording_device_time(const GArray *launches, uint64_t host_ns)
{
    guint low = first_launch(launches, host_ns);
    return low < launches->len
               ? MAX(host_ns, g_array_index(launches, struct launch_time, low).start_ns)
               : host_ns;
}

static void add_phase(const struct recorded_step *recording, uint8_t phase, uint64_t start_ns)
{
    struct tracks *tracks = recording->tracks;
    struct track_phase next = {(enum trace_phase)phase, recording_seconds(recording, start_ns),
                               tracks->seconds};
    if (tracks->phases->len) {
        struct track_phase *last = &g_array_index(tracks->phases, struct track_phase,
                                                  tracks->phases->len - 1);
        if (last->phase == next.phase || next.start <= last->start)
            return;
        last->end = next.start;
    } else {
        next.start = 0;
    }
    if (next.start < tracks->seconds)
        g_array_append_val(tracks->phases, next);
}

/* Adds the outermost ranges that state a phase. Ranges of the update are the optimizer on the host.
 */
static void add_named_phases(const struct recorded_step *recording, const GArray *launches)
{
    uint64_t until = 0;
    for (uint32_t i = 0; i < recording->records->event_count; i++) {
        const struct record *event = &recording->records->events[i];
        if (!recording_is_range(event) || event->start_ns < MAX(until, recording->host.start_ns) ||
            event->start_ns >= recording->host.end_ns)
            continue;
        uint8_t phase = phase_of_range(recording, event);
        if (phase == TRACK_NO_PHASE)
            continue;
        until = event->end_ns;
        add_phase(recording, phase, recording_device_time(launches, event->start_ns));
        const struct ns_range span = {event->start_ns, event->end_ns};
        if (phase == TRACE_UPDATE_PHASE)
            recording_add_span(recording, TRACK_HOST, &span,
                               records_text(recording->records, event->text), phase, 0);
        recording->tracks->known[TRACK_HOST] = true;
    }
}

/* If no range states a phase, guesses the phases from kernel names and allocations
 * (traces/activity/guess.h). The guess counts kernels from the first launch of its iteration.
 * Iterations are alike, so the count also holds for this one. */
static void guess_phases(const struct recorded_step *recording, const GArray *launches)
{
    struct guessed_iteration *guessed = guess_iteration(recording->activity, recording->records);
    guint base = first_launch(launches, recording->host.start_ns);
    for (guint i = 0; guessed && i < guessed->phases->len; i++) {
        const struct guessed_phase *phase = &g_array_index(guessed->phases, struct guessed_phase,
                                                           i);
        if (base + phase->first < launches->len)
            add_phase(recording, phase->phase,
                      g_array_index(launches, struct launch_time, base + phase->first).start_ns);
    }
    guess_free(guessed);
}

/* Finds the phases of the device's work from the names of ranges. Without such names it guesses
 * them, if the iteration is annotated. */
static void recording_add_phases(const struct recorded_step *recording, const GArray *launches)
{
    add_named_phases(recording, launches);
    if (!recording->tracks->phases->len && recording->marked)
        guess_phases(recording, launches);
}

static int track_of_copy(uint32_t kind)
{
    switch (kind) {
    case COPY_HOST_TO_DEVICE:
    case COPY_HOST_TO_ARRAY:
    case COPY_UNIFIED_HOST_TO_DEVICE:
        return TRACK_H2D;
    case COPY_DEVICE_TO_HOST:
    case COPY_ARRAY_TO_HOST:
    case COPY_UNIFIED_DEVICE_TO_HOST:
        return TRACK_D2H;
    case COPY_PEER_TO_PEER:
        return TRACK_NETWORK;
    default:
        return TRACK_UNKNOWN;
    }
}

/* Adds kernels, copies and collectives that a profiler recorded. */
static void recording_add_device(const struct recorded_step *recording)
{
    const struct activity *activity = recording->activity;
    for (uint32_t k = 0; k < activity->kernel_count; k++) {
        const struct kernel_record *kernel = &activity->kernels[k];
        const struct ns_range span = {kernel->start_ns, kernel->end_ns};
        const char *name = records_text(recording->records, kernel->short_name);
        recording_add_span(recording, kernel_is_collective(name) ? TRACK_NETWORK : TRACK_COMPUTE,
                           &span, name, TRACK_NO_PHASE, 0);
    }
    for (uint32_t c = 0; c < activity->copy_count; c++) {
        const struct copy_record *copy = &activity->copies[c];
        const struct ns_range span = {copy->start_ns, copy->end_ns};
        int track = track_of_copy(copy->kind);
        if (track != TRACK_UNKNOWN)
            recording_add_span(recording, (enum track)track, &span, copy_kind_label(copy->kind),
                               TRACK_NO_PHASE, copy->bytes);
    }
    recording->tracks->gpu = true;
    recording->tracks->known[TRACK_COMPUTE] = true;
    recording->tracks->known[TRACK_H2D] = recording->tracks->known[TRACK_D2H] = true;
    recording->tracks->known[TRACK_NETWORK] = recording->tracks->spans[TRACK_NETWORK]->len > 0;
}

/* Returns TRACK_UNKNOWN for copies that do not cross the link. */
static int track_of_annotation(const char *text)
{
    return !strcmp(text, ANNOTATION_H2D)   ? TRACK_H2D
           : !strcmp(text, ANNOTATION_D2H) ? TRACK_D2H
                                           : TRACK_UNKNOWN;
}

static void add_copy(const struct recorded_step *recording, const struct record *event)
{
    const char *text = records_text(recording->records, event->text);
    const struct ns_range span = {event->start_ns, event->end_ns};
    int track = track_of_annotation(text);
    if (track == TRACK_UNKNOWN)
        return;
    recording_add_span(recording, (enum track)track, &span, text, TRACK_NO_PHASE, event->payload);
    recording->tracks->known[TRACK_H2D] = recording->tracks->known[TRACK_D2H] = true;
}

/* Returns where an operator ran. One that only exchanges something with other ranks or stages also
 * waits for them, so it is the network's, as in a simulation. */
static enum track track_of_operator(const struct trace_operator *op)
{
    const struct trace_exchange *pass = &op->exchange[TRACE_PASS];
    if (op->place == TRACE_ON_HOST)
        return TRACK_HOST;
    return trace_operator_reduces(op) || pass->sent_bytes + pass->received_bytes > 0
               ? TRACK_NETWORK
               : TRACK_COMPUTE;
}

static void add_operator(const struct recorded_step *recording, const struct record *event)
{
    const struct trace *trace = recording->trace;
    if (!trace || event->payload >= trace->operator_count)
        return;
    const struct trace_operator *ran = &trace->operators[event->payload];
    const struct ns_range span = {event->start_ns, event->end_ns};
    enum track track = track_of_operator(ran);
    recording_add_span(recording, track, &span, ran->name, ran->phase, 0);
    if (track == TRACK_NETWORK)
        recording->tracks->known[TRACK_NETWORK] = true;
}

static void add_exchange(const struct recorded_step *recording, const struct record *event)
{
    const struct ns_range span = {event->start_ns, event->end_ns};
    const char *text = records_text(recording->records, event->text);
    if (strcmp(text, ANNOTATION_QUEUED_GATHER) == 0)
        return; /* that is the host's time */
    recording_add_span(recording, TRACK_NETWORK, &span, text, TRACK_NO_PHASE, event->payload);
    recording->tracks->known[TRACK_NETWORK] = true;
}

/* Adds operators, copies and exchanges from the program's annotations. */
static void recording_add_annotated(const struct recorded_step *recording)
{
    for (uint32_t i = 0; i < recording->records->event_count; i++) {
        const struct record *event = &recording->records->events[i];
        if (!recording_is_range(event) || event->domain != recording->domain)
            continue;
        if (event->category == ANNOTATION_OPERATOR)
            add_operator(recording, event);
        else if (event->category == ANNOTATION_COPY)
            add_copy(recording, event);
        else if (event->category == ANNOTATION_EXCHANGE)
            add_exchange(recording, event);
    }
    recording->tracks->known[TRACK_COMPUTE] = recording->tracks->known[TRACK_HOST] = true;
}

/* ---- all of it ---- */

static void add_recorded(struct recorded_step *recording)
{
    g_autoptr(GArray) launches = recording_launches(recording->activity);
    struct tracks *tracks = recording->tracks;
    recording->window = (struct ns_range){recording_device_time(launches, recording->host.start_ns),
                                          recording_device_time(launches, recording->host.end_ns)};
    tracks->seconds = (double)(recording->window.end_ns - recording->window.start_ns) * 1e-9;
    curves_find(recording->records, recording->activity, recording->window.start_ns,
                recording->window.end_ns, tracks->curves);
    if (recording->activity->kernel_count || recording->activity->copy_count) {
        recording_add_device(recording);
        recording_add_phases(recording, launches);
    } else {
        recording_add_annotated(recording);
    }
}

static bool find_window(struct recorded_step *recording)
{
    bool device = recording->activity->kernel_count || recording->activity->copy_count;
    recording->marked = find_iteration(recording);
    if (recording->marked)
        return true;
    if (device)
        take_everything(recording);
    return device;
}

static struct tracks *tracks_of(struct recorded_step *recording, const char *path)
{
    recording->domain = records_domain(recording->records, ANNOTATION_DOMAIN);
    if (!find_window(recording))
        return NULL;
    struct tracks *tracks = recording->tracks = tracks_new(path);
    tracks->measured = true;
    tracks->model = g_strdup(recording->trace ? recording->trace->model : NULL);
    add_recorded(recording);
    if (tracks->spans[TRACK_COMPUTE]->len && tracks->seconds > 0) {
        tracks_complete(tracks);
        return tracks;
    }
    tracks_free(tracks);
    return NULL;
}

bool tracks_of_records(const char *path, const struct trace *trace, struct tracks **tracks,
                       GError **error)
{
    const uint32_t parts = ACTIVITY_KERNELS | ACTIVITY_COPIES | ACTIVITY_CALLS | ACTIVITY_MEMORY;
    struct records *records = records_read(path, error);
    struct activity *activity = records ? activity_read(path, parts, error) : NULL;
    bool read = activity != NULL;
    if (read) {
        struct recorded_step recording = {.records = records, .activity = activity, .trace = trace};
        *tracks = tracks_of(&recording, path);
    }
    activity_free(activity);
    if (records)
        records_free(records);
    return read;
}
