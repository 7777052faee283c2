#include "report/recording.h"
#include "traces/annotations.h"

#include <string.h>

/* By its text; a copy between others than these two is none of the link's. */
static int strip_of_annotation(const char *text)
{
    return !strcmp(text, ANNOTATION_H2D)   ? STRIP_H2D
           : !strcmp(text, ANNOTATION_D2H) ? STRIP_D2H
                                           : STRIP_UNKNOWN;
}

static void add_copy(const struct recording *recording, const struct record *event)
{
    const char *text = records_text(recording->records, event->text);
    const struct window span = {event->start_ns, event->end_ns};
    int strip = strip_of_annotation(text);
    if (strip == STRIP_UNKNOWN)
        return;
    recording_add_span(recording, (enum strip)strip, &span, text, STRIP_NO_PHASE, event->payload);
    recording->strips->known[STRIP_H2D] = recording->strips->known[STRIP_D2H] = true;
}

static void add_operator(const struct recording *recording, const struct record *event)
{
    const struct trace *trace = recording->trace;
    if (!trace || event->payload >= trace->operator_count)
        return;
    const struct trace_operator *ran = &trace->operators[event->payload];
    const struct window span = {event->start_ns, event->end_ns};
    bool host = ran->place == TRACE_ON_HOST;
    recording_add_span(recording, host ? STRIP_HOST : STRIP_COMPUTE, &span, ran->name, ran->phase,
                       0);
}

void recording_add_annotated(const struct recording *recording)
{
    for (uint32_t i = 0; i < recording->records->event_count; i++) {
        const struct record *event = &recording->records->events[i];
        if (!recording_is_range(event) || event->domain != recording->domain)
            continue;
        if (event->category == ANNOTATION_OPERATOR)
            add_operator(recording, event);
        else if (event->category == ANNOTATION_COPY)
            add_copy(recording, event);
    }
    recording->strips->known[STRIP_COMPUTE] = recording->strips->known[STRIP_HOST] = true;
}
