/* When each moment of a plan begins: the waiting for copies belongs to a step as its operators do.
 */
#include "report/memory.h"

#include <math.h>
#include <string.h>

static void set_moments(struct memory *memory, const double *ends)
{
    double start = 0;
    for (uint32_t m = 0; m < memory->moment_count; m++) {
        memory->moments[m].start = start;
        memory->moments[m].end = start = MAX(start, ends[m]);
    }
    memory->waits = true;
}

/* ---- from a step that ran, or was simulated ---- */

/* Returns the starts of all spans of a name (GArray of double), by name. */
static GHashTable *starts_by_name(const struct tracks *tracks)
{
    static const enum track rows[] = {TRACK_COMPUTE, TRACK_HOST};
    GHashTable *names = g_hash_table_new_full(g_str_hash, g_str_equal, NULL,
                                              (GDestroyNotify)g_array_unref);
    for (size_t r = 0; r < G_N_ELEMENTS(rows); r++)
        for (guint i = 0; i < tracks->spans[rows[r]]->len; i++) {
            const struct track_span *span = &g_array_index(tracks->spans[rows[r]],
                                                           struct track_span, i);
            GArray *starts = g_hash_table_lookup(names, span->name);
            if (!starts) {
                starts = g_array_new(FALSE, FALSE, sizeof(double));
                g_hash_table_insert(names, (void *)span->name, starts);
            }
            g_array_append_val(starts, span->start);
        }
    return names;
}

bool memory_take_times(struct memory *memory, const struct trace *trace,
                       const struct tracks *tracks)
{
    g_autoptr(GHashTable) names = starts_by_name(tracks);
    g_autoptr(GHashTable) taken = g_hash_table_new(g_str_hash, g_str_equal);
    g_autofree double *ends = g_new(double, memory->moment_count + 1);
    for (uint32_t m = 0; m < memory->moment_count; m++) {
        const char *name = trace->operators[m].name;
        const GArray *starts = g_hash_table_lookup(names, name);
        guint index = GPOINTER_TO_UINT(g_hash_table_lookup(taken, name));
        if (!starts || index >= starts->len)
            return false;
        g_hash_table_insert(taken, (void *)name, GUINT_TO_POINTER(index + 1));
        if (m > 0)
            ends[m - 1] = g_array_index(starts, double, index);
    }
    ends[memory->moment_count - 1] = tracks->seconds;
    set_moments(memory, ends);
    return true;
}

/* ---- from the plan alone ---- */

/* Resources are free from these times on, in seconds. */
struct rough_clock {
    const struct trace *trace;
    const struct plan *plan;
    double rate[2]; /* of the link, H2D and D2H, bytes per second */
    double device, h2d, d2h, host;
    double *on_device,
        *on_host; /* [chunk_count] since when the chunk's latest contents are there */
};

static void copy_rough(struct rough_clock *clock, const struct plan_action *action)
{
    uint32_t c = action->chunk;
    double bytes = (double)clock->plan->layout->chunks[c].copy_bytes;
    if (action->kind == PLAN_FETCH) {
        double start = MAX(MAX(clock->h2d, clock->device), clock->on_host[c]);
        clock->on_device[c] = clock->h2d = start + bytes / clock->rate[0];
    } else if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_FLUSH) {
        double start = MAX(clock->d2h, clock->device);
        clock->on_host[c] = clock->d2h = start + bytes / clock->rate[1];
    }
}

/* Returns when everything that the operator uses is where it runs. Sets when it is done with it. */
static double use_rough(struct rough_clock *clock, const struct trace_operator *ran, double from,
                        double *done_on)
{
    const struct layout *layout = clock->plan->layout;
    bool host = ran->place == TRACE_ON_HOST;
    double *there = host ? clock->on_host : clock->on_device, start = from;
    for (uint32_t a = ran->first_access; a < ran->first_access + ran->access_count; a++) {
        const struct trace_access *access = &clock->trace->accesses[a];
        if (!layout->places[access->list])
            continue;
        double *at = &there[layout_place_of(layout, access)->chunk];
        start = MAX(start, *at);
        if (done_on)
            *at = MAX(*at, *done_on);
    }
    return start;
}

/* Returns how long the device waits before the operator. */
static double run_rough(struct rough_clock *clock, const struct trace_operator *ran)
{
    double length = (double)ran->duration_ns * 1e-9;
    if (ran->place == TRACE_ON_HOST) {
        double from = MAX(clock->host, clock->device);
        clock->host = use_rough(clock, ran, from, NULL) + length;
        use_rough(clock, ran, 0, &clock->host);
        return 0;
    }
    double start = use_rough(clock, ran, clock->device, NULL), wait = start - clock->device;
    clock->device = start + length;
    return wait;
}

/* Stretches the waits so that they and the device's operators take as long as the plan says. */
static void stretch(struct memory *memory, const struct trace *trace, double *waits, double seconds)
{
    double waited = 0, computed = 0, end = 0;
    for (uint32_t m = 0; m < memory->moment_count; m++)
        if (trace->operators[m].place != TRACE_ON_HOST)
            computed += (double)trace->operators[m].duration_ns * 1e-9;
    for (uint32_t m = 0; m <= memory->moment_count; m++)
        waited += waits[m];
    double left = MAX(0, seconds - computed);
    if (!(waited > 0))
        waits[memory->moment_count] = waited = left > 0 ? left : 1;
    for (uint32_t m = 0; m < memory->moment_count; m++) {
        bool host = trace->operators[m].place == TRACE_ON_HOST;
        end += waits[m] * left / waited +
               (host ? 0 : (double)trace->operators[m].duration_ns * 1e-9);
        waits[m] = end;
    }
    waits[memory->moment_count - 1] += waits[memory->moment_count] * left / waited;
}

void memory_add_waits(struct memory *memory, const struct trace *trace, const struct plan *plan)
{
    double seconds = plan->predicted.iteration_seconds;
    uint32_t chunks = plan->layout->chunk_count;
    uint64_t most = MAX(plan->predicted.h2d_bytes, plan->predicted.d2h_bytes);
    if (!(seconds > 0) || !memory->timed)
        return;
    g_autofree double *waits = g_new0(double, memory->moment_count + 1);
    g_autofree double *on_device = g_new0(double, chunks), *on_host = g_new0(double, chunks);
    double rate = MAX((double)most, 1) / seconds;
    struct rough_clock clock = {.trace = trace,
                                .plan = plan,
                                .rate = {rate, rate},
                                .on_device = on_device,
                                .on_host = on_host};
    for (uint32_t m = 0; m <= memory->moment_count; m++) {
        for (uint32_t a = plan->first_action[m]; a < plan->first_action[m + 1]; a++)
            copy_rough(&clock, &plan->actions[a]);
        if (m < memory->moment_count)
            waits[m] = run_rough(&clock, &trace->operators[m]);
    }
    double last = MAX(MAX(clock.h2d, clock.d2h), clock.host);
    waits[memory->moment_count] = MAX(0, last - clock.device);
    stretch(memory, trace, waits, seconds);
    set_moments(memory, waits);
}
