#include "chunks/figures.h"

#include <glib.h>
#include <string.h>

const struct plan_figure plan_figure_table[] = {
#define FIGURE(name, label, unit, kind, presence)                       \
    {#name,         label,         offsetof(struct plan_figures, name), \
     FIGURE_##unit, FIGURE_##kind, FIGURE_##presence},
    PLAN_FIGURES(FIGURE)
#undef FIGURE
        {0},
};

const struct plan_figure *figures_find(const char *name)
{
    const struct plan_figure *figure = plan_figure_table;
    while (figure->name && strcmp(figure->name, name) != 0)
        figure++;
    return figure->name ? figure : NULL;
}

uint64_t figures_count(const struct plan_figures *figures, const struct plan_figure *figure)
{
    g_assert(figure->unit != FIGURE_SECONDS);
    return *(const uint64_t *)((const char *)figures + figure->offset);
}

double figures_value(const struct plan_figures *figures, const struct plan_figure *figure)
{
    if (figure->unit == FIGURE_SECONDS)
        return *(const double *)((const char *)figures + figure->offset);
    return (double)figures_count(figures, figure);
}

void figures_set_seconds(struct plan_figures *figures, const struct plan_figure *figure,
                         double seconds)
{
    g_assert(figure->unit == FIGURE_SECONDS);
    *(double *)((char *)figures + figure->offset) = seconds;
}

uint64_t figures_traffic(const struct plan_figures *figures)
{
    return figures->h2d_bytes + figures->d2h_bytes;
}

const struct plan_figure *figures_first_difference(const struct plan_figures *a,
                                                   const struct plan_figures *b)
{
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
        if (figure->unit != FIGURE_SECONDS && figures_count(a, figure) != figures_count(b, figure))
            return figure;
    return NULL;
}

bool figures_equal(const struct plan_figures *a, const struct plan_figures *b)
{
    return !figures_first_difference(a, b);
}

bool figures_lack(const struct plan_figures *a, const struct plan_figures *b,
                  const struct plan_figure *figure)
{
    return figure->presence == FIGURE_OPTIONAL && figures_value(a, figure) == 0 &&
           figures_value(b, figure) == 0;
}

json_t *figures_to_json(const struct plan_figures *figures)
{
    json_t *object = json_object();
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++)
        if (!figures_lack(figures, figures, figure))
            json_object_set_new(object, figure->name,
                                figure->unit == FIGURE_SECONDS
                                    ? json_real(figures_value(figures, figure))
                                    : json_integer((json_int_t)figures_count(figures, figure)));
    return object;
}

static bool read_figure(const json_t *value, struct plan_figures *figures,
                        const struct plan_figure *figure)
{
    if (!value && figure->presence == FIGURE_OPTIONAL)
        return true;
    if (figure->unit == FIGURE_SECONDS) {
        if (!json_is_number(value) || json_number_value(value) < 0)
            return false;
        figures_set_seconds(figures, figure, json_number_value(value));
        return true;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *(uint64_t *)((char *)figures + figure->offset) = (uint64_t)json_integer_value(value);
    return true;
}

bool figures_from_json(const json_t *object, struct plan_figures *figures,
                       const struct plan_figure **bad)
{
    struct plan_figures read = {0};
    for (const struct plan_figure *figure = plan_figure_table; figure->name; figure++) {
        if (!read_figure(json_object_get(object, figure->name), &read, figure)) {
            *bad = figure;
            return false;
        }
    }
    *figures = read;
    *bad = NULL;
    return true;
}
