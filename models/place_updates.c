#include "models/place_updates.h"

#include <math.h>
#include <string.h>

/* Seconds an element of the trace's own updates, by place; 0: there are none that are timed. */
struct own_rates {
    double seconds[TRACE_ON_HOST + 1];
};

/* An update uses several lists of its tensors, and not always all of them. */
static double elements_of(const struct trace *trace, const struct trace_operator *op)
{
    double elements[TRACE_LISTS] = {0}, most = 0;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[op->first_access + i];
        elements[access->list] += (double)trace->tensors[access->tensor].elements;
        most = fmax(most, elements[access->list]);
    }
    return most;
}

static bool is_update(const struct trace_operator *op)
{
    return op->phase == TRACE_UPDATE_PHASE && op->access_count > 0;
}

static struct own_rates rates_of(const struct trace *trace)
{
    double seconds[TRACE_ON_HOST + 1] = {0}, elements[TRACE_ON_HOST + 1] = {0};
    struct own_rates rates;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (!is_update(op) || !op->duration_ns)
            continue;
        seconds[op->place] += (double)op->duration_ns * 1e-9;
        elements[op->place] += elements_of(trace, op);
    }
    for (int place = 0; place <= TRACE_ON_HOST; place++)
        rates.seconds[place] = elements[place] > 0 ? seconds[place] / elements[place] : 0;
    return rates;
}

static uint64_t duration_at(const struct trace *trace, const struct trace_operator *op,
                            enum trace_place place, const struct platform *platform,
                            const struct own_rates *rates)
{
    double seconds = (double)op->duration_ns * 1e-9;
    if (platform && place == TRACE_ON_HOST)
        seconds = platform_seconds(&platform->host_update, elements_of(trace, op));
    else if (platform)
        seconds = platform_seconds(&platform->memory, (double)op->bytes);
    else if (rates->seconds[place] > 0)
        seconds = rates->seconds[place] * elements_of(trace, op);
    return seconds > 0 ? (uint64_t)fmax(1, round(seconds * 1e9)) : 0;
}

/* What an update receives where it is on the host: gradients that no list holds. */
static uint64_t gradient_bytes(const struct trace *trace, const struct trace_operator *op)
{
    const uint8_t *element = trace->list_element_bytes;
    bool in_buffers = !element[TRACE_GRAD] && element[TRACE_MASTER] == element[TRACE_PARAM];
    return in_buffers ? (uint64_t)elements_of(trace, op) * element[TRACE_PARAM] : 0;
}

static bool choose_place(const struct trace *trace, const struct trace_operator *op,
                         const uint8_t *on_host, enum trace_place *place, GError **error)
{
    bool host = on_host[trace->accesses[op->first_access].tensor];
    for (uint32_t i = 1; i < op->access_count; i++) {
        if (!!on_host[trace->accesses[op->first_access + i].tensor] == host)
            continue;
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "operator '%s' updates several tensors at once: to place them apart takes a "
                    "trace with an operator a tensor",
                    op->name);
        return false;
    }
    *place = host ? TRACE_ON_HOST : TRACE_ON_DEVICE;
    return true;
}

/* ---- their order ---- */

static uint32_t first_update(const struct trace *trace)
{
    uint32_t m = trace->operator_count;

    while (m > 0 && is_update(&trace->operators[m - 1]))
        m--;
    return m;
}

/* Whether the updates at the end are all there are, each of tensors of its own, with no buffers:
 * then their order is of no consequence for any result. */
static bool are_independent(const struct trace *trace, uint32_t first)
{
    g_autofree uint32_t *updated_at = g_new0(uint32_t, trace->tensor_count);

    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (m < first ? is_update(op) : trace->non_model_bytes[m] > 0)
            return false;
        for (uint32_t i = 0; m >= first && i < op->access_count; i++) {
            uint32_t *at = &updated_at[trace->accesses[op->first_access + i].tensor];
            if (*at && *at != m)
                return false;
            *at = m;
        }
    }
    return first > 0;
}

/* The host's first, each side's in the order of the tensors. */
static int by_place(const void *left, const void *right, void *data)
{
    const struct trace_operator *a = left, *b = right;
    const struct trace_access *accesses = data;

    if (a->place != b->place)
        return a->place == TRACE_ON_HOST ? -1 : 1;
    uint32_t of_a = accesses[a->first_access].tensor, of_b = accesses[b->first_access].tensor;
    return of_a < of_b ? -1 : of_a > of_b;
}

static void order_updates(struct trace *trace)
{
    uint32_t first = first_update(trace), next;

    if (first == trace->operator_count || !are_independent(trace, first))
        return;
    struct trace_operator *updates = trace->operators + first;
    uint32_t count = trace->operator_count - first;
    next = updates[0].first_access;
    g_autofree struct trace_access *accesses =
        g_memdup2(trace->accesses, trace->access_count * sizeof *trace->accesses);
    g_qsort_with_data(updates, (gint)count, sizeof *updates, by_place, accesses);
    for (uint32_t u = 0; u < count; u++) {
        memcpy(trace->accesses + next, accesses + updates[u].first_access,
               updates[u].access_count * sizeof *accesses);
        updates[u].first_access = next;
        next += updates[u].access_count;
    }
}

struct trace *model_place_updates(const struct trace *trace, const uint8_t *on_host,
                                  const struct platform *platform, GError **error)
{
    struct trace *placed = trace_copy(trace);
    const struct own_rates rates = rates_of(trace);
    for (uint32_t m = 0; m < placed->operator_count; m++) {
        struct trace_operator *op = &placed->operators[m];
        enum trace_place place;
        if (!is_update(op))
            continue;
        if (!choose_place(placed, op, on_host, &place, error)) {
            trace_free(placed);
            return NULL;
        }
        if (op->place == place)
            continue;
        op->duration_ns = duration_at(placed, op, place, platform, &rates);
        op->place = (uint8_t)place;
        op->d2h_bytes = place == TRACE_ON_HOST ? gradient_bytes(placed, op) : 0;
        placed->estimated = true;
    }
    order_updates(placed);
    return placed;
}
