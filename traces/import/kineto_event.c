#include "traces/import/kineto_event.h"

#include <math.h>

/* What is later counts as unknown: a start and a duration sum to less than 2^63 ns. */
#define MOST_US 4.6e15

/* Times since 1970 in microseconds leave a double no bits for a sum in nanoseconds: whole and
 * fraction apart. */
static uint64_t to_ns(double microseconds)
{
    if (!(microseconds > 0 && microseconds < MOST_US))
        return 0;
    double whole = floor(microseconds);
    return (uint64_t)whole * 1000 + (uint64_t)llround((microseconds - whole) * 1000);
}

uint64_t kineto_event_ns(const json_t *event, const char *key)
{
    return to_ns(json_number_value(json_object_get(event, key)));
}

uint64_t kineto_event_end_ns(const json_t *event)
{
    return kineto_event_ns(event, "ts") + kineto_event_ns(event, "dur");
}

uint64_t kineto_event_number(const json_t *object, const char *key)
{
    double value = json_number_value(json_object_get(object, key));
    return value > 0 && value < 0x1p63 ? (uint64_t)value : 0;
}

uint32_t kineto_event_number32(const json_t *object, const char *key)
{
    uint64_t value = kineto_event_number(object, key);
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

const char *kineto_event_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return !text ? "" : text;
}
