#include "planner/answers/traits.h"

/* Walks the schedule with what is on the device. */
struct summary_walk {
    const struct plan *plan;
    const struct trace *trace;
    uint64_t *elements; /* [chunk_count] parameters; 0 of other lists */
    uint8_t *there;     /* [chunk_count] on the device */
    uint8_t *leaves;    /* [chunk_count] at some time it is not */
    uint8_t *unused;    /* [chunk_count] fetched, and not used since */
    uint64_t live, ahead;
    struct plan_summary *summary;
};

static uint64_t *count_elements(const struct plan *plan, const struct trace *trace)
{
    uint64_t *elements = g_new0(uint64_t, plan->layout->chunk_count);

    for (uint32_t t = 0; plan->layout->places[TRACE_PARAM] && t < trace->tensor_count; t++)
        elements[plan->layout->places[TRACE_PARAM][t].chunk] += trace->tensors[t].elements;
    return elements;
}

static void enter(struct summary_walk *walk, uint32_t chunk, bool fetched)
{
    walk->there[chunk] = 1;
    walk->unused[chunk] = fetched;
    walk->live += walk->elements[chunk];
    walk->ahead += fetched ? walk->elements[chunk] : 0;
}

static void use(struct summary_walk *walk, uint32_t chunk)
{
    if (walk->unused[chunk])
        walk->ahead -= walk->elements[chunk];
    walk->unused[chunk] = 0;
}

static void leave(struct summary_walk *walk, uint32_t chunk)
{
    use(walk, chunk);
    walk->there[chunk] = 0;
    walk->leaves[chunk] = 1;
    walk->live -= walk->elements[chunk];
}

static void act(struct summary_walk *walk, const struct plan_action *action)
{
    switch ((enum plan_action_kind)action->kind) {
    case PLAN_FETCH:
    case PLAN_ALLOCATE:
        enter(walk, action->chunk, action->kind == PLAN_FETCH);
        break;
    case PLAN_WRITE_BACK:
    case PLAN_DROP:
        leave(walk, action->chunk);
        break;
    case PLAN_FLUSH:
    case PLAN_MOVE:
    case PLAN_WAIT:
        break;
    case PLAN_ACTIONS:
        g_assert_not_reached();
    }
}

static void use_operator(struct summary_walk *walk, const struct trace_operator *op)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &walk->trace->accesses[op->first_access + i];
        use(walk, walk->plan->layout->places[access->list][access->tensor].chunk);
    }
}

/* One iteration. What is fetched for the next one is still unused when the second pass begins. */
static void walk_iteration(struct summary_walk *walk)
{
    const struct plan *plan = walk->plan;

    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        for (uint32_t a = plan->first_action[m]; a < plan->first_action[m + 1]; a++)
            act(walk, &plan->actions[a]);
        walk->summary->live_elements = MAX(walk->summary->live_elements, walk->live);
        if (m == plan->moment_count)
            break;
        use_operator(walk, &walk->trace->operators[m]);
        walk->summary->ahead_elements = MAX(walk->summary->ahead_elements, walk->ahead);
    }
}

static void find_tensors_that_stay(const struct summary_walk *walk)
{
    const struct layout_place *places = walk->plan->layout->places[TRACE_PARAM];
    uint64_t least_that_leaves = UINT64_MAX, most = 0;

    for (uint32_t t = 0; places && t < walk->trace->tensor_count; t++)
        if (walk->leaves[places[t].chunk])
            least_that_leaves = MIN(least_that_leaves, walk->trace->tensors[t].elements);
    for (uint32_t t = 0; t < walk->trace->tensor_count; t++)
        if (walk->trace->tensors[t].elements < least_that_leaves)
            most = MAX(most, walk->trace->tensors[t].elements);
    walk->summary->parameters_leave = least_that_leaves != UINT64_MAX;
    walk->summary->stay_elements = most;
}

static void find_homes(const struct plan *plan, const struct trace *trace,
                       struct plan_summary *summary)
{
    uint64_t states = 0, on_host = 0, elements = 0, updated = 0;

    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        const struct chunk *chunk = &plan->layout->chunks[c];
        if (chunk->list < TRACE_MASTER || chunk->list == TRACE_ACTIVATION)
            continue;
        states += chunk->copy_bytes;
        on_host += plan->host_address[c] != NO_ADDRESS ? chunk->copy_bytes : 0;
    }
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        elements += trace->tensors[t].elements;
        if (plan->choices && plan->choices->host_update[t])
            updated += trace->tensors[t].elements;
    }
    summary->states_on_host = states ? (double)on_host / (double)states : 0;
    summary->updated_on_host = elements ? (double)updated / (double)elements : 0;
}

static void find_groups(const struct plan *plan, const uint64_t *elements,
                        struct plan_summary *summary)
{
    g_autofree uint64_t *of_group = g_new0(uint64_t, plan->layout->group_count);

    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        uint64_t *group = &of_group[plan->layout->chunks[c].group];
        *group += elements[c];
        summary->group_elements = MAX(summary->group_elements, *group);
    }
}

struct plan_summary plan_summary_of(const struct plan *plan, const struct trace *trace)
{
    uint32_t chunks = plan->layout->chunk_count;
    struct plan_summary summary = {0};
    g_autofree uint64_t *elements = count_elements(plan, trace);
    g_autofree uint8_t *there = g_new0(uint8_t, chunks), *leaves = g_new0(uint8_t, chunks);
    g_autofree uint8_t *unused = g_new0(uint8_t, chunks);
    struct summary_walk walk = {.plan = plan,
                                .trace = trace,
                                .elements = elements,
                                .there = there,
                                .leaves = leaves,
                                .unused = unused,
                                .summary = &summary};

    for (uint32_t c = 0; c < chunks; c++) {
        if (plan->initial_address[c] != NO_ADDRESS)
            enter(&walk, c, false);
        else
            leaves[c] = 1;
    }
    walk_iteration(&walk);
    walk_iteration(&walk);
    find_tensors_that_stay(&walk);
    find_homes(plan, trace, &summary);
    find_groups(plan, elements, &summary);
    for (uint32_t l = 0; plan->choices && l < plan->choices->layer_count; l++)
        summary.recomputed_layers += plan->choices->recompute[l];
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->actions[i].kind == PLAN_FETCH &&
            plan->layout->chunks[plan->actions[i].chunk].list == TRACE_ACTIVATION)
            summary.offloaded_bytes += plan->layout->chunks[plan->actions[i].chunk].copy_bytes;
    summary.layers = plan->choices ? plan->choices->layer_count : 0;
    summary.host_embedding = plan->choices && plan->choices->host_embedding;
    return summary;
}
