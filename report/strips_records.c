#include "report/recording.h"
#include "report/strips_file.h"
#include "traces/annotations.h"

#include <string.h>

bool recording_is_range(const struct record *event)
{
    return event->end_ns > event->start_ns &&
           (event->type == RECORD_PUSH_POP || event->type == RECORD_START_END);
}

static uint32_t find_domain(const struct records *records)
{
    for (uint32_t i = 0; i < records->event_count; i++)
        if (records->events[i].type == RECORD_DOMAIN &&
            !strcmp(records_text(records, records->events[i].text), ANNOTATION_DOMAIN))
            return records->events[i].domain;
    return 0;
}

/* ---- which iteration ---- */

static bool is_iteration(const struct recording *recording, const struct record *event)
{
    if (recording->domain)
        return event->domain == recording->domain && event->category == ANNOTATION_ITERATION;
    return g_str_has_prefix(records_text(recording->records, event->text), "ProfilerStep#");
}

static int by_length(const void *left, const void *right)
{
    const struct window *a = left, *b = right;
    uint64_t x = a->end_ns - a->start_ns, y = b->end_ns - b->start_ns;
    if (x != y)
        return x < y ? -1 : 1;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

/* The marked iteration of median length; false: none is marked. */
static bool find_iteration(struct recording *recording)
{
    g_autoptr(GArray) windows = g_array_new(FALSE, FALSE, sizeof(struct window));
    for (uint32_t i = 0; i < recording->records->event_count; i++) {
        const struct record *event = &recording->records->events[i];
        const struct window window = {event->start_ns, event->end_ns};
        if (recording_is_range(event) && is_iteration(recording, event))
            g_array_append_val(windows, window);
    }
    g_array_sort(windows, by_length);
    if (windows->len)
        recording->host = g_array_index(windows, struct window, (windows->len - 1) / 2);
    return windows->len > 0;
}

static void extend(struct window *window, uint64_t start_ns, uint64_t end_ns)
{
    window->start_ns = MIN(window->start_ns, start_ns);
    window->end_ns = MAX(window->end_ns, end_ns);
}

static void take_everything(struct recording *recording)
{
    const struct activity *activity = recording->activity;
    struct window window = {UINT64_MAX, 0};
    for (uint32_t k = 0; k < activity->kernel_count; k++)
        extend(&window, activity->kernels[k].start_ns, activity->kernels[k].end_ns);
    for (uint32_t c = 0; c < activity->copy_count; c++)
        extend(&window, activity->copies[c].start_ns, activity->copies[c].end_ns);
    recording->host = window;
}

double recording_seconds(const struct recording *recording, uint64_t ns)
{
    /* The difference first: a double holds times since 1970 to 256 ns only. */
    return (double)(int64_t)(ns - recording->window.start_ns) * 1e-9;
}

void recording_add_span(const struct recording *recording, enum strip strip,
                        const struct window *span, const char *name, uint8_t phase, uint64_t bytes)
{
    if (span->end_ns <= recording->window.start_ns || span->start_ns >= recording->window.end_ns)
        return;
    struct strip_span *added = strips_add(recording->strips, strip,
                                          recording_seconds(recording, span->start_ns),
                                          recording_seconds(recording, span->end_ns), name);
    added->phase = phase;
    added->bytes = bytes;
}

/* ---- all of it ---- */

static void add_recorded(struct recording *recording)
{
    g_autoptr(GArray) launches = recording_launches(recording->activity);
    struct strips *strips = recording->strips;
    recording->window = (struct window){recording_device_time(launches, recording->host.start_ns),
                                        recording_device_time(launches, recording->host.end_ns)};
    strips->seconds = (double)(recording->window.end_ns - recording->window.start_ns) * 1e-9;
    curves_find(recording->records, recording->activity, recording->window.start_ns,
                recording->window.end_ns, strips->curves);
    if (recording->activity->kernel_count || recording->activity->copy_count) {
        recording_add_device(recording);
        recording_add_phases(recording, launches);
    } else {
        recording_add_annotated(recording);
    }
}

static bool find_window(struct recording *recording)
{
    bool device = recording->activity->kernel_count || recording->activity->copy_count;
    recording->marked = find_iteration(recording);
    if (recording->marked)
        return true;
    if (device)
        take_everything(recording);
    return device;
}

static struct strips *strips_of(struct recording *recording, const char *path)
{
    recording->domain = find_domain(recording->records);
    if (!find_window(recording))
        return NULL;
    struct strips *strips = recording->strips = strips_new(path);
    strips->measured = true;
    strips->model = g_strdup(recording->trace ? recording->trace->model : NULL);
    add_recorded(recording);
    if (strips->spans[STRIP_COMPUTE]->len && strips->seconds > 0) {
        strips_complete(strips);
        return strips;
    }
    strips_free(strips);
    return NULL;
}

bool strips_of_records(const char *path, const struct trace *trace, struct strips **strips,
                       GError **error)
{
    const uint32_t parts = ACTIVITY_KERNELS | ACTIVITY_COPIES | ACTIVITY_CALLS | ACTIVITY_MEMORY;
    struct records *records = records_read(path, error);
    struct activity *activity = records ? activity_read(path, parts, error) : NULL;
    bool read = activity != NULL;
    if (read) {
        struct recording recording = {.records = records, .activity = activity, .trace = trace};
        *strips = strips_of(&recording, path);
    }
    activity_free(activity);
    if (records)
        records_free(records);
    return read;
}
