#include "planner/pipelines/early_end.h"

#include <math.h>

/* Of a part of the search for which no time is left: it ends with its first plan. */
#define LEAST_SECONDS 1e-3

void early_end_init(struct early_end *end, const struct pipeline_question *question)
{
    *end = (struct early_end){.question = question};
    if (question->time_limit > 0)
        end->deadline = g_get_monotonic_time() + (gint64)(question->time_limit * 1e6);
}

bool early_end_go_on(struct early_end *end, uint32_t done, uint32_t total)
{
    const struct pipeline_question *q = end->question;
    if (end->deadline && g_get_monotonic_time() > end->deadline)
        g_atomic_int_set(&end->wanted, 1);
    if (q->progress && !q->progress(q->progress_data, done, total))
        g_atomic_int_set(&end->wanted, 1);
    return !early_end_is_wanted(end);
}

bool early_end_is_wanted(const struct early_end *end)
{
    return g_atomic_int_get(&end->wanted);
}

bool early_end_is_due(const struct early_end *end)
{
    return early_end_is_wanted(end) && g_atomic_int_get(&end->found);
}

void early_end_set_found(struct early_end *end, bool found)
{
    g_atomic_int_set(&end->found, found);
}

void early_end_note_cut(struct early_end *end)
{
    g_atomic_int_set(&end->cut, 1);
}

bool early_end_was_early(const struct early_end *end)
{
    return early_end_is_wanted(end) || g_atomic_int_get(&end->cut);
}

double early_end_share(const struct early_end *end, uint32_t parts)
{
    double left = (double)(end->deadline - g_get_monotonic_time()) * 1e-6;
    return end->deadline ? fmax(left / parts, LEAST_SECONDS) : 0;
}
