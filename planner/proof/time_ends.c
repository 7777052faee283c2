/* Windows of the time bound that begin at and after long operators: what is fetched while such an
 * operator runs must have room beside it. docs/bounds.md proves it. */
#include "planner/proof/prices.h"

struct long_operator {
    moment_id moment;
    uint64_t ns;
};

static int by_time(const void *left, const void *right)
{
    const struct long_operator *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return a->moment < b->moment ? -1 : a->moment > b->moment;
}

/* Returns the operators after which windows may begin, from moment `first` on, the longest first.
 */
static GArray *find_long(const struct time_job *job, moment_id first)
{
    const struct trace *trace = job->sides[0];
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct long_operator));
    for (uint32_t m = first; m < trace->operator_count; m++) {
        const struct long_operator item = {m, time_job_device_ns(job, &trace->operators[m])};
        if (time_window_may_begin_after(&trace->operators[m]))
            g_array_append_val(found, item);
    }
    g_array_sort(found, by_time);
    return found;
}

static bool has_start(const GArray *starts, const struct window_start *start)
{
    for (guint i = 0; i < starts->len; i++)
        if (window_start_compare(&g_array_index(starts, struct window_start, i), start) == 0)
            return true;
    return false;
}

bool time_windows_may_end(const struct time_job *job)
{
    return !job->costs->threads.known;
}

void time_windows_choose_ends(const struct time_job *job, uint32_t most, GArray *starts)
{
    if (!starts->len || !time_windows_may_end(job))
        return;
    g_autoptr(GArray) found = find_long(job, g_array_index(starts, struct window_start, 0).moment);
    for (guint i = 0; i < MIN(found->len, most); i++) {
        moment_id m = g_array_index(found, struct long_operator, i).moment;
        const struct window_start at = {m, WINDOW_AT_OPERATOR}, after = {m, WINDOW_AFTER_OPERATOR};
        if (!has_start(starts, &at))
            g_array_append_val(starts, at);
        g_array_append_val(starts, after);
    }
    g_array_sort(starts, window_start_compare);
}
