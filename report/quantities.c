#include "report/quantities.h"

#include "report/text.h"
#include "traces/size.h"

#include <stddef.h>

/* clang-format off */
#define QUANTITY(field, label, unit) {#field, label, offsetof(struct plan_figures, field), unit}
/* clang-format on */

const struct quantity quantities[] = {
    QUANTITY(h2d_bytes, "H2D", QUANTITY_BYTES),
    QUANTITY(d2h_bytes, "D2H", QUANTITY_BYTES),
    QUANTITY(h2d_copies, "H2D copies", QUANTITY_COUNT),
    QUANTITY(d2h_copies, "D2H copies", QUANTITY_COUNT),
    QUANTITY(evictions, "Evictions", QUANTITY_COUNT),
    QUANTITY(moves, "Device moves", QUANTITY_COUNT),
    QUANTITY(moved_bytes, "Moved on the device", QUANTITY_BYTES),
    QUANTITY(peak_device_bytes, "Device peak, by address", QUANTITY_BYTES),
    QUANTITY(peak_live_device_bytes, "Device peak, live bytes", QUANTITY_BYTES),
    QUANTITY(peak_host_bytes, "Host peak", QUANTITY_BYTES),
    QUANTITY(stall_seconds, "Stall", QUANTITY_SECONDS),
    QUANTITY(iteration_seconds, "Step time", QUANTITY_SECONDS),
    {0},
};

static uint64_t whole_of(const struct plan_figures *figures, const struct quantity *quantity)
{
    return *(const uint64_t *)((const char *)figures + quantity->offset);
}

double quantity_value(const struct plan_figures *figures, const struct quantity *quantity)
{
    if (quantity->unit == QUANTITY_SECONDS)
        return *(const double *)((const char *)figures + quantity->offset);
    return (double)whole_of(figures, quantity);
}

char *quantity_format(const struct plan_figures *figures, const struct quantity *quantity)
{
    switch (quantity->unit) {
    case QUANTITY_BYTES:
        return size_format(whole_of(figures, quantity));
    case QUANTITY_COUNT:
        return text_count(whole_of(figures, quantity));
    case QUANTITY_SECONDS:
        break;
    }
    return text_seconds(quantity_value(figures, quantity));
}

void quantity_set_seconds(struct plan_figures *figures, const struct quantity *quantity,
                          double seconds)
{
    g_assert(quantity->unit == QUANTITY_SECONDS);
    *(double *)((char *)figures + quantity->offset) = seconds;
}

uint64_t quantity_traffic(const struct plan_figures *figures)
{
    return figures->h2d_bytes + figures->d2h_bytes;
}

static bool read_quantity(const json_t *value, struct plan_figures *figures,
                          const struct quantity *quantity)
{
    if (quantity->unit == QUANTITY_SECONDS) {
        if (!json_is_number(value) || json_number_value(value) < 0)
            return false;
        quantity_set_seconds(figures, quantity, json_number_value(value));
        return true;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *(uint64_t *)((char *)figures + quantity->offset) = (uint64_t)json_integer_value(value);
    return true;
}

bool quantities_from_json(const json_t *object, struct plan_figures *figures, const char **missing)
{
    struct plan_figures read = {0};
    *missing = NULL;
    for (const struct quantity *quantity = quantities; quantity->name; quantity++) {
        if (!read_quantity(json_object_get(object, quantity->name), &read, quantity)) {
            *missing = quantity->name;
            return false;
        }
    }
    *figures = read;
    return true;
}

json_t *quantities_to_json(const struct plan_figures *figures)
{
    json_t *object = json_object();
    for (const struct quantity *quantity = quantities; quantity->name; quantity++)
        json_object_set_new(object, quantity->name,
                            quantity->unit == QUANTITY_SECONDS
                                ? json_real(quantity_value(figures, quantity))
                                : json_integer((json_int_t)whole_of(figures, quantity)));
    return object;
}
