/* When the device had done what each operator asked for. */
#include "traces/import/kineto_step.h"

/* Work of the device: when the host asked for it, and when it was done. */
struct asked {
    uint64_t call_ns, end_ns;
};

static int by_call(const void *left, const void *right)
{
    const struct asked *a = (const struct asked *)left, *b = (const struct asked *)right;
    return (a->call_ns > b->call_ns) - (a->call_ns < b->call_ns);
}

/* Correlation to the start of the call, in `calls`. */
static GHashTable *index_calls(const struct kineto *kineto)
{
    GHashTable *calls = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < kineto->calls->len; i++) {
        struct call_record *call = &g_array_index(kineto->calls, struct call_record, i);
        if (call->correlation != 0)
            g_hash_table_insert(calls, GUINT_TO_POINTER(call->correlation), call);
    }
    return calls;
}

static void add_asked(GArray *all, GHashTable *calls, uint32_t correlation, uint64_t start_ns,
                      uint64_t end_ns)
{
    const struct call_record *call =
        (const struct call_record *)g_hash_table_lookup(calls, GUINT_TO_POINTER(correlation));
    struct asked asked = {!call ? start_ns : call->start_ns, end_ns};
    g_array_append_val(all, asked);
}

#define ADD_ALL(array, type)                                                          \
    for (guint i = 0; i < (array)->len; i++) {                                        \
        const type *record = &g_array_index(array, type, i);                          \
        add_asked(all, calls, record->correlation, record->start_ns, record->end_ns); \
    }

/* By the time of the call. */
static GArray *collect_asked(const struct kineto *kineto)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct asked));
    GHashTable *calls = index_calls(kineto);
    ADD_ALL(kineto->kernels, struct kernel_record)
    ADD_ALL(kineto->copies, struct copy_record)
    ADD_ALL(kineto->sets, struct set_record)
    g_array_sort(all, by_call);
    g_hash_table_unref(calls);
    return all;
}

static void set_host_times(struct kineto_step *step)
{
    uint32_t count = step->works->len;
    for (uint32_t i = 0; i < count; i++) {
        struct kineto_work *work = kineto_work_at(step, i);
        work->works = true;
        work->end_ns = i + 1 < count ? kineto_work_at(step, i + 1)->start_ns
                                     : MAX(work->range->end_ns, work->start_ns);
    }
    step->begin_ns = kineto_work_at(step, 0)->start_ns;
}

static void set_device_times(struct kineto_step *step, const GArray *all)
{
    uint64_t done_ns = 0;
    guint a = 0;
    for (; a < all->len; a++) {
        const struct asked *asked = &g_array_index(all, struct asked, a);
        if (asked->call_ns >= kineto_work_at(step, 0)->start_ns)
            break;
        done_ns = MAX(done_ns, asked->end_ns);
    }
    step->begin_ns = done_ns = MAX(done_ns, kineto_work_at(step, 0)->start_ns);
    for (uint32_t i = 0; i < step->works->len; i++) {
        struct kineto_work *work = kineto_work_at(step, i);
        uint64_t until = i + 1 < step->works->len ? kineto_work_at(step, i + 1)->start_ns
                                                  : step->end_ns;
        for (; a < all->len && g_array_index(all, struct asked, a).call_ns < until; a++) {
            work->works = true;
            done_ns = MAX(done_ns, g_array_index(all, struct asked, a).end_ns);
        }
        work->end_ns = done_ns;
    }
}

void kineto_step_times(const struct kineto *kineto, struct kineto_step *step)
{
    if (kineto->kernels->len == 0) {
        set_host_times(step);
        return;
    }
    GArray *all = collect_asked(kineto);
    set_device_times(step, all);
    g_array_unref(all);
}
