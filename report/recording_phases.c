#include "report/recording.h"
#include "traces/annotations.h"
#include "traces/import/guess.h"

#include <string.h>

/* What the host was doing, by the names that people give their ranges. */
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
    return STRIP_NO_PHASE;
}

static uint8_t phase_of_range(const struct recording *recording, const struct record *event)
{
    const struct trace *trace = recording->trace;
    if (recording->domain && event->domain == recording->domain)
        return trace && event->category == ANNOTATION_OPERATOR &&
                       event->payload < trace->operator_count
                   ? trace->operators[event->payload].phase
                   : STRIP_NO_PHASE;
    /* Operators' annotations say phases; the collector's own marks of iterations do not. */
    return trace ? STRIP_NO_PHASE : phase_by_name(records_text(recording->records, event->text));
}

static int by_asking(const void *left, const void *right)
{
    const struct launch *a = left, *b = right;
    return (a->asked_ns > b->asked_ns) - (a->asked_ns < b->asked_ns);
}

/* In order of asking; start_ns is the earliest of all that were asked for then or later. Empty
 * where no calls were recorded. */
GArray *recording_launches(const struct activity *activity)
{
    GArray *launches = g_array_new(FALSE, FALSE, sizeof(struct launch));
    g_autoptr(GHashTable) asked = g_hash_table_new(NULL, NULL);
    for (uint32_t c = 0; c < activity->call_count; c++)
        g_hash_table_insert(asked, GUINT_TO_POINTER(activity->calls[c].correlation),
                            &activity->calls[c]);
    for (uint32_t k = 0; k < activity->kernel_count; k++) {
        const struct kernel_record *kernel = &activity->kernels[k];
        const struct call_record *call = g_hash_table_lookup(asked,
                                                             GUINT_TO_POINTER(kernel->correlation));
        const struct launch launch = {call ? call->start_ns : 0, kernel->start_ns};
        if (call)
            g_array_append_val(launches, launch);
    }
    g_array_sort(launches, by_asking);
    for (guint i = launches->len; i-- > 1;) {
        struct launch *before = &g_array_index(launches, struct launch, i - 1);
        before->start_ns = MIN(before->start_ns,
                               g_array_index(launches, struct launch, i).start_ns);
    }
    return launches;
}

/* Index of the first that was asked for from `host_ns` on. */
static guint first_launch(const GArray *launches, uint64_t host_ns)
{
    guint low = 0, high = launches->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (g_array_index(launches, struct launch, middle).asked_ns < host_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* When the device began with what the host asked for from `host_ns` on. */
uint64_t recording_device_time(const GArray *launches, uint64_t host_ns)
{
    guint low = first_launch(launches, host_ns);
    return low < launches->len ? MAX(host_ns, g_array_index(launches, struct launch, low).start_ns)
                               : host_ns;
}

static void add_phase(const struct recording *recording, uint8_t phase, uint64_t start_ns)
{
    struct strips *strips = recording->strips;
    struct strip_phase next = {(enum trace_phase)phase, recording_seconds(recording, start_ns),
                               strips->seconds};
    if (strips->phases->len) {
        struct strip_phase *last = &g_array_index(strips->phases, struct strip_phase,
                                                  strips->phases->len - 1);
        if (last->phase == next.phase || next.start <= last->start)
            return;
        last->end = next.start;
    } else {
        next.start = 0;
    }
    if (next.start < strips->seconds)
        g_array_append_val(strips->phases, next);
}

/* The outermost ranges that say a phase; those of the update are what the host's optimizer does. */
static void add_named_phases(const struct recording *recording, const GArray *launches)
{
    uint64_t until = 0;
    for (uint32_t i = 0; i < recording->records->event_count; i++) {
        const struct record *event = &recording->records->events[i];
        if (!recording_is_range(event) || event->start_ns < MAX(until, recording->host.start_ns) ||
            event->start_ns >= recording->host.end_ns)
            continue;
        uint8_t phase = phase_of_range(recording, event);
        if (phase == STRIP_NO_PHASE)
            continue;
        until = event->end_ns;
        add_phase(recording, phase, recording_device_time(launches, event->start_ns));
        const struct window span = {event->start_ns, event->end_ns};
        if (phase == TRACE_UPDATE_PHASE)
            recording_add_span(recording, STRIP_HOST, &span,
                               records_text(recording->records, event->text), phase, 0);
        recording->strips->known[STRIP_HOST] = true;
    }
}

/* Where no range says a phase, kernels' names and allocations may (traces/import/guess.h). Its
 * kernels are counted from its iteration's first launch; iterations are alike, so also from that of
 * this one.
 */
static void guess_phases(const struct recording *recording, const GArray *launches)
{
    struct guessed_iteration *guessed = guess_iteration(recording->activity, recording->records);
    guint base = first_launch(launches, recording->host.start_ns);
    for (guint i = 0; guessed && i < guessed->phases->len; i++) {
        const struct guessed_phase *phase = &g_array_index(guessed->phases, struct guessed_phase,
                                                           i);
        if (base + phase->first < launches->len)
            add_phase(recording, phase->phase,
                      g_array_index(launches, struct launch, base + phase->first).start_ns);
    }
    guess_free(guessed);
}

void recording_add_phases(const struct recording *recording, const GArray *launches)
{
    add_named_phases(recording, launches);
    if (!recording->strips->phases->len && recording->marked)
        guess_phases(recording, launches);
}
