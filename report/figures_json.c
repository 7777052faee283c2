#include "report/figures_json.h"

#include "report/text.h"
#include "traces/size.h"

#include <stddef.h>

#define FIGURE(field, label, seconds, bytes)                                \
    {                                                                       \
#field, label, offsetof(struct plan_figures, field), seconds, bytes \
    }

const struct figure_field figure_fields[] = {
    FIGURE(h2d_bytes, "H2D", false, true),
    FIGURE(d2h_bytes, "D2H", false, true),
    FIGURE(h2d_copies, "H2D copies", false, false),
    FIGURE(d2h_copies, "D2H copies", false, false),
    FIGURE(evictions, "Evictions", false, false),
    FIGURE(moves, "Device moves", false, false),
    FIGURE(moved_bytes, "Moved on the device", false, true),
    FIGURE(peak_device_bytes, "Device peak, by address", false, true),
    FIGURE(peak_live_device_bytes, "Device peak, live bytes", false, true),
    FIGURE(peak_host_bytes, "Host peak", false, true),
    FIGURE(stall_seconds, "Stall", true, false),
    FIGURE(iteration_seconds, "Step time", true, false),
    {0},
};

static const void *place_of(const struct plan_figures *figures, const struct figure_field *field)
{
    return (const char *)figures + field->offset;
}

double figure_value(const struct plan_figures *figures, const struct figure_field *field)
{
    if (field->seconds)
        return *(const double *)place_of(figures, field);
    return (double)*(const uint64_t *)place_of(figures, field);
}

char *figure_format(const struct plan_figures *figures, const struct figure_field *field)
{
    if (field->seconds)
        return text_seconds(figure_value(figures, field));
    uint64_t value = *(const uint64_t *)place_of(figures, field);
    return field->bytes ? size_format(value) : text_count(value);
}

uint64_t figures_traffic(const struct plan_figures *figures)
{
    return figures->h2d_bytes + figures->d2h_bytes;
}

bool figures_from_json(const json_t *object, struct plan_figures *figures, const char **missing)
{
    struct plan_figures read = {0};
    for (const struct figure_field *field = figure_fields; field->name; field++) {
        const json_t *value = json_object_get(object, field->name);
        *missing = field->name;
        void *place = (char *)&read + field->offset;
        if (field->seconds && json_is_number(value) && json_number_value(value) >= 0)
            *(double *)place = json_number_value(value);
        else if (!field->seconds && json_is_integer(value) && json_integer_value(value) >= 0)
            *(uint64_t *)place = (uint64_t)json_integer_value(value);
        else
            return false;
    }
    *figures = read;
    *missing = NULL;
    return true;
}

json_t *figures_to_json(const struct plan_figures *figures)
{
    json_t *object = json_object();
    for (const struct figure_field *field = figure_fields; field->name; field++) {
        json_t *value = field->seconds ? json_real(figure_value(figures, field))
                                       : json_integer((json_int_t) *
                                                      (const uint64_t *)place_of(figures, field));
        json_object_set_new(object, field->name, value);
    }
    return object;
}
