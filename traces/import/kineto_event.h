/* The fields of one event of a PyTorch profiler's JSON. */
#ifndef PSTAR_TRACES_IMPORT_KINETO_EVENT_H
#define PSTAR_TRACES_IMPORT_KINETO_EVENT_H

#include <glib.h>
#include <jansson.h>
#include <stdint.h>

/* ns of a member in microseconds; 0 where there is none. */
uint64_t kineto_event_ns(const json_t *event, const char *key);

/* Where the event ends. */
uint64_t kineto_event_end_ns(const json_t *event);

/* A whole number; 0 where there is none, or none that fits. */
uint64_t kineto_event_number(const json_t *object, const char *key);
uint32_t kineto_event_number32(const json_t *object, const char *key);

/* "" where there is none. */
const char *kineto_event_text(const json_t *object, const char *key);

#endif
