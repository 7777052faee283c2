#include "chunks/objective.h"

#include <string.h>

static const char *const names[OBJECTIVES] = {"time", "traffic", "memory"};

const char *objective_name(enum objective objective)
{
    return names[objective];
}

bool objective_find(const char *name, enum objective *objective)
{
    for (int i = 0; i < OBJECTIVES; i++)
        if (strcmp(name, names[i]) == 0) {
            *objective = (enum objective)i;
            return true;
        }
    return false;
}

static int by_time(const struct plan_figures *a, const struct plan_figures *b)
{
    return (a->iteration_seconds > b->iteration_seconds) -
           (a->iteration_seconds < b->iteration_seconds);
}

static int by_traffic(const struct plan_figures *a, const struct plan_figures *b)
{
    uint64_t x = figures_traffic(a), y = figures_traffic(b);
    return (x > y) - (x < y);
}

static int by_memory(const struct plan_figures *a, const struct plan_figures *b)
{
    return (a->peak_device_bytes > b->peak_device_bytes) -
           (a->peak_device_bytes < b->peak_device_bytes);
}

int objective_compare(enum objective objective, const struct plan_figures *a,
                      const struct plan_figures *b)
{
    int order = objective == OBJECTIVE_TRAFFIC  ? by_traffic(a, b)
                : objective == OBJECTIVE_MEMORY ? by_memory(a, b)
                                                : 0;
    if (!order)
        order = by_time(a, b);
    return order ? order : by_traffic(a, b);
}
