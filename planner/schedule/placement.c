#include "planner/schedule/placement.h"
#include "models/derivation.h"

#include <math.h>
#include <string.h>

/* Ignores where updates run. A plan for another model is refused elsewhere. */
static bool chooses_alike(const struct plan *plan, const struct trace *trace)
{
    struct run_choices *own = run_choices_of(trace);
    const struct run_choices *choices = plan->choices;
    bool other_model = !choices || choices->layer_count != own->layer_count ||
                       choices->tensor_count != own->tensor_count ||
                       plan->batch * plan->micro_batches != trace->batch * trace->micro_batches;
    bool alike = other_model || !(run_choices_differ(choices, own) & ~(unsigned)RUN_UPDATES);
    run_choices_free(own);
    return alike;
}

struct trace *derived_for_plan(const struct plan *plan, const struct trace *trace,
                               const struct platform *platform, GError **error)
{
    if (chooses_alike(plan, trace))
        return trace_copy(trace);
    struct derivation *derivation = derivation_new(trace, error);
    struct trace *derived = derivation
                                ? derivation_trace(derivation, plan->choices, platform, error)
                                : NULL;
    if (!derived)
        g_prefix_error(
            error, "the plan has other recomputed or offloaded layers, another embedding, other "
                   "masters, other state blocks or other micro-batches than the trace: ");
    derivation_free(derivation);
    return derived;
}

static bool updates_at(const struct trace *trace, enum trace_place place)
{
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->phase == TRACE_UPDATE_PHASE && op->access_count && op->place == place &&
            op->duration_ns)
            return true;
    }
    return false;
}

/* Returns whether each operator updates one tensor only, so that tensors can be placed separately.
 */
static bool are_apart(const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        const struct trace_access *access = &trace->accesses[op->first_access];
        for (uint32_t i = 1; op->phase == TRACE_UPDATE_PHASE && i < op->access_count; i++)
            if (access[i].tensor != access[0].tensor)
                return false;
    }
    return true;
}

/* Returns whether updates take the newest parameters from buffers that several ranks have whole
 * (models/pipeline_cutting.h). Those on the host gather them instead, and the buffers end sooner,
 * which the trace does not tell. */
static bool take_newest(const struct trace *trace)
{
    for (uint32_t b = 0; trace->stages > 1 && trace->ranks > 1 && b < trace->buffer_count; b++)
        if (g_str_has_prefix(trace->buffers[b].name, "newest "))
            return true;
    return false;
}

bool placement_is_possible(const struct trace *trace, const struct platform *platform)
{
    bool on_device = updates_at(trace, TRACE_ON_DEVICE), on_host = updates_at(trace, TRACE_ON_HOST);
    bool timed = platform ? on_device || on_host : on_device && on_host;
    return timed && trace->list_element_bytes[TRACE_PARAM] && are_apart(trace) &&
           !take_newest(trace);
}

static uint64_t *count_elements(const struct trace *trace, const struct layout *layout,
                                const uint32_t *group_of, uint64_t *total)
{
    uint64_t *elements = g_new0(uint64_t, layout->group_count);
    *total = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        elements[group_of[t]] += trace->tensors[t].elements;
        *total += trace->tensors[t].elements;
    }
    return elements;
}

/* Marks groups with tensors from all over the model, such as biases and norms packed together. If
 * the host updated them, the first operators of forward would wait for the last update. */
static uint8_t *find_scattered(const struct trace *trace, const struct layout *layout,
                               const uint32_t *group_of)
{
    uint8_t *scattered = g_new0(uint8_t, layout->group_count);
    g_autofree uint32_t *last = g_new0(uint32_t, layout->group_count);
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        uint32_t g = group_of[t];
        scattered[g] |= last[g] && last[g] < t;
        last[g] = t + 1;
    }
    return scattered;
}

bool placement_same(const struct placement *a, const struct placement *b)
{
    return a->pattern == b->pattern && a->parts == b->parts && a->tail == b->tail &&
           a->mix == b->mix && a->first == b->first;
}

/* State while the groups of a layout are placed, from the first on. */
struct placement_walk {
    const struct placement *placement;
    double total, begin; /* elements of all groups, and of those before this one */
    double on_host;      /* elements that the host has so far */
    double scale;        /* factor of the mix that yields the requested share */
    double owed;         /* elements of the mix that the host still lacks */
};

/* A group belongs where most of it lies. */
static bool is_in_tail(const struct placement_walk *walk, double elements)
{
    double tail = (double)walk->placement->tail / PLACEMENT_PARTS;
    return walk->begin + elements / 2 > (1 - tail) * walk->total;
}

/* Follows the mix as closely as whole groups can; `mixed` are the group's elements in the mix. */
static bool is_owed(struct placement_walk *walk, double elements, double mixed)
{
    walk->owed += fmin(walk->scale * mixed, elements);
    if (walk->owed < elements / 2)
        return false;
    walk->owed -= elements;
    return true;
}

static bool is_on_host(struct placement_walk *walk, double elements, double mixed)
{
    const struct placement *placement = walk->placement;
    double tail = (double)placement->tail / PLACEMENT_PARTS;
    double spread = (double)(placement->parts - placement->tail) / PLACEMENT_PARTS;
    if (is_in_tail(walk, elements))
        return true;
    if (placement->pattern == PLACEMENT_CHOSEN)
        return mixed > elements / 2;
    if (placement->pattern == PLACEMENT_MIXED)
        return is_owed(walk, elements, mixed);
    return walk->on_host + elements / 2 <= spread / (1 - tail) * (walk->begin + elements);
}

/* Returns for each group the elements that the host has in the mix, 0 without a mix. */
static double *mix_groups(const struct placement *placement, const struct trace *trace,
                          const uint32_t *group_of, uint32_t group_count)
{
    double *mixed = g_new0(double, group_count);
    for (uint32_t t = 0; placement->mix && t < trace->tensor_count; t++)
        mixed[group_of[t]] += placement->mix[t] * (double)trace->tensors[t].elements;
    return mixed;
}

/* Returns the factor between the requested share of the groups before the tail and their mix. */
static double find_scale(const struct placement *placement, uint64_t total,
                         const uint64_t *elements, const double *mixed, uint32_t group_count)
{
    struct placement_walk walk = {.placement = placement, .total = (double)total};
    double sum = 0;
    for (uint32_t g = 0; g < group_count; g++) {
        sum += is_in_tail(&walk, (double)elements[g]) ? 0 : mixed[g];
        walk.begin += (double)elements[g];
    }
    double spread = (double)(placement->parts - placement->tail) / PLACEMENT_PARTS;
    return sum > 0 ? spread * (double)total / sum : 0;
}

struct trace *placement_trace(const struct placement *placement, const struct trace *trace,
                              const struct layout *layout, const struct platform *platform)
{
    g_autofree uint32_t *group_of = g_new(uint32_t, trace->tensor_count);
    g_autofree uint8_t *marked = g_new0(uint8_t, layout->group_count);
    g_autofree uint8_t *on_host = g_new0(uint8_t, trace->tensor_count);
    uint64_t total;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        group_of[t] = layout->chunks[layout->places[TRACE_PARAM][t].chunk].group;
    g_autofree uint64_t *elements = count_elements(trace, layout, group_of, &total);
    g_autofree uint8_t *scattered = find_scattered(trace, layout, group_of);
    g_autofree double *mixed = mix_groups(placement, trace, group_of, layout->group_count);
    struct placement_walk walk = {.placement = placement, .total = (double)total};
    walk.scale = find_scale(placement, total, elements, mixed, layout->group_count);
    for (uint32_t g = 0; g < layout->group_count; g++) {
        marked[g] = (!scattered[g] || placement->parts == PLACEMENT_PARTS) &&
                    is_on_host(&walk, (double)elements[g], mixed[g]);
        walk.on_host += marked[g] ? (double)elements[g] : 0;
        walk.begin += (double)elements[g];
    }
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        on_host[t] = marked[group_of[t]];
    struct trace *placed = model_place_updates_from(trace, on_host, placement->first, platform,
                                                    NULL);
    g_assert(placed);
    return placed;
}

struct trace *trace_of_plan(const struct plan *plan, const struct trace *recorded,
                            const struct platform *platform, GError **error)
{
    struct trace *derived = derived_for_plan(plan, recorded, platform, error);
    struct trace *placed = derived ? model_place_chosen(derived, plan->choices, platform, error)
                                   : NULL;
    trace_free(derived);
    return placed;
}
