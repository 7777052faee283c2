/* Where and when updates run: the part of models/derive.h that needs no description of the model.
 */
#include "models/derive.h"

#include "traces/choices.h"

#include <math.h>
#include <string.h>

/* ---- where updates run ---- */

/* Seconds per element of the trace's own updates, by side; 0 if no update there has a duration. */
struct own_rates {
    double seconds[TRACE_ON_HOST + 1];
};

/* An update uses several lists of its tensors, and not always all of them. Several ranks update
 * shards, even where their parameters are whole, and blocks are updated one by one. */
static double updated_elements(const struct trace *trace, const struct trace_operator *op)
{
    double elements[TRACE_LISTS] = {0}, most = 0;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[op->first_access + i];
        bool whole = access->list == TRACE_PARAM || access->list == TRACE_GATHERED;
        bool cut = access->list < TRACE_MASTER && trace_is_cut(trace, access->tensor);
        if ((whole && trace->ranks > 1) || cut)
            continue;
        elements[access->list] += (double)trace_block_elements(trace, access->list, access->tensor,
                                                               access->block);
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
        elements[op->place] += updated_elements(trace, op);
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
        seconds = platform_update_seconds(platform, updated_elements(trace, op));
    else if (platform)
        seconds = platform_seconds(&platform->memory, (double)op->bytes);
    else if (rates->seconds[place] > 0)
        seconds = rates->seconds[place] * updated_elements(trace, op);
    return trace_duration_ns(seconds, trace->operator_count);
}

/* Returns the bytes of gradients outside of the lists, which an update on the host receives. */
static uint64_t gradient_bytes(const struct trace *trace, const struct trace_operator *op)
{
    return run_gradients_in_buffers(trace)
               ? (uint64_t)updated_elements(trace, op) * trace->list_element_bytes[TRACE_PARAM]
               : 0;
}

static bool choose_place(const struct trace *trace, const struct trace_operator *op,
                         const uint8_t *on_host, enum trace_place *place, GError **error)
{
    bool host = on_host[trace->accesses[op->first_access].tensor];
    for (uint32_t i = 1; i < op->access_count; i++) {
        if (!!on_host[trace->accesses[op->first_access + i].tensor] == host)
            continue;
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "operator '%s' updates several tensors at once: placing them separately needs "
                    "a trace with one update operator per tensor",
                    op->name);
        return false;
    }
    *place = host ? TRACE_ON_HOST : TRACE_ON_DEVICE;
    return true;
}

/* ---- their order ---- */

/* Returns the last operator that is no update, or NO_INDEX. */
static uint32_t last_of_passes(const struct trace *trace)
{
    uint32_t m = trace->operator_count;
    while (m > 0 && is_update(&trace->operators[m - 1]))
        m--;
    return m > 0 ? m - 1 : NO_INDEX;
}

/* Returns whether the buffer lives from the first operator to the last, whichever these are. Then
 * neither begins or ends its life. */
static bool always_lives(const struct trace *trace, const struct trace_buffer *buffer)
{
    return buffer->first == 0 && buffer->last + 1 == trace->operator_count;
}

/* Marks the operators at which a buffer's life begins or ends. */
static uint8_t *find_buffer_uses(const struct trace *trace)
{
    uint8_t *uses = g_new0(uint8_t, trace->operator_count);
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (!always_lives(trace, &trace->buffers[b]))
            uses[trace->buffers[b].first] = uses[trace->buffers[b].last] = 1;
    return uses;
}

/* Returns whether the operator finds no update of its tensors before it, but for other blocks of a
 * cut tensor; an update marks them. */
static bool precedes_updates(const struct trace *trace, const struct trace_operator *op,
                             uint32_t moment, uint32_t *updated_at)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[op->first_access + i];
        if (access->list == TRACE_ACTIVATION)
            continue;
        uint32_t *at = &updated_at[access->tensor];
        bool again = is_update(op) && trace_is_cut(trace, access->tensor);
        if (*at != NO_INDEX && *at != moment && !again)
            return false;
        if (is_update(op))
            *at = moment;
    }
    return true;
}

/* Returns whether each tensor has one update, or one a block, which uses no buffers and which no
 * operator of the passes follows that uses the tensor. The order of updates then changes no result.
 */
static bool are_independent(const struct trace *trace)
{
    g_autofree uint32_t *updated_at = g_new(uint32_t, trace->tensor_count);
    g_autofree uint8_t *uses_buffer = find_buffer_uses(trace);
    uint32_t last = last_of_passes(trace);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        updated_at[t] = NO_INDEX;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool early = is_update(op) && m < last;
        if (op->phase == TRACE_UPDATE_PHASE && !is_update(op))
            return false;
        bool unknown = !trace->buffer_count && (early || trace->non_model_bytes[m] > 0);
        if (is_update(op) && (uses_buffer[m] || unknown))
            return false;
        if (!precedes_updates(trace, op, m, updated_at))
            return false;
    }
    return last != NO_INDEX;
}

/* An update, and the operator of the passes that it follows. */
struct placed_update {
    uint32_t after, moment;
    enum trace_place place;
    tensor_id tensor;
    tensor_id turn; /* of its side: the tensor, counted from the one with which the side begins */
};

/* Updates that follow the same operator: the host's come first, each side's in turn, and a tensor's
 * blocks in their order. */
static int by_place(const void *left, const void *right)
{
    const struct placed_update *a = left, *b = right;
    if (a->after != b->after)
        return a->after < b->after ? -1 : 1;
    if (a->place != b->place)
        return a->place == TRACE_ON_HOST ? -1 : 1;
    if (a->turn != b->turn)
        return a->turn < b->turn ? -1 : 1;
    return a->moment < b->moment ? -1 : a->moment > b->moment;
}

/* Returns for each tensor the last operator of the passes that uses it; 0 if none does. */
static uint32_t *find_last_uses(const struct trace *trace)
{
    uint32_t *last = g_new0(uint32_t, trace->tensor_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        for (uint32_t i = 0; !is_update(op) && i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            if (access->list != TRACE_ACTIVATION)
                last[access->tensor] = m;
        }
    }
    return last;
}

static GArray *list_updates(const struct trace *trace, const tensor_id *after, tensor_id first)
{
    GArray *updates = g_array_new(FALSE, FALSE, sizeof(struct placed_update));
    g_autofree uint32_t *last_use = after ? find_last_uses(trace) : NULL;
    uint32_t last = last_of_passes(trace);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (!is_update(op))
            continue;
        struct placed_update update = {.after = last,
                                       .moment = m,
                                       .place = (enum trace_place)op->place,
                                       .tensor = trace->accesses[op->first_access].tensor};
        update.turn = update.place == TRACE_ON_HOST
                          ? (update.tensor + trace->tensor_count - first) % trace->tensor_count
                          : update.tensor;
        if (after && after[update.tensor] != NO_INDEX)
            update.after = MAX(last_use[after[update.tensor]], last_use[update.tensor]);
        g_array_append_val(updates, update);
    }
    g_array_sort(updates, by_place);
    return updates;
}

/* Returns the operators in their new order, as moments of the old one. */
static uint32_t *merge_updates(const struct trace *trace, const GArray *updates)
{
    uint32_t *order = g_new(uint32_t, trace->operator_count), count = 0;
    guint next = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (is_update(&trace->operators[m]))
            continue;
        order[count++] = m;
        for (; next < updates->len; next++) {
            const struct placed_update *update = &g_array_index(updates, struct placed_update,
                                                                next);
            if (update->after != m)
                break;
            order[count++] = update->moment;
        }
    }
    return order;
}

/* An update uses no memory of its own beside the chunks. Without a list of buffers, the bytes that
 * are alive around it are at most those of either neighbour. */
static void move_memory(struct trace *trace, const uint32_t *order)
{
    uint32_t count = trace->operator_count, last = last_of_passes(trace);
    g_autofree uint32_t *now = g_new(uint32_t, count);
    g_autofree uint64_t *before = g_memdup2(trace->non_model_bytes, count * sizeof *before);
    for (uint32_t m = 0; m < count; m++)
        now[order[m]] = m;
    for (uint32_t b = 0; b < trace->buffer_count; b++) {
        if (always_lives(trace, &trace->buffers[b]))
            continue;
        trace->buffers[b].first = now[trace->buffers[b].first];
        trace->buffers[b].last = now[trace->buffers[b].last];
    }
    for (uint32_t i = 0; i < trace->use_count; i++)
        trace->uses[i].moment = now[trace->uses[i].moment];
    for (uint32_t m = count; m-- > 0;) {
        bool update = is_update(&trace->operators[m]);
        trace->non_model_bytes[m] = !update    ? before[order[m]]
                                    : m < last ? trace->non_model_bytes[m + 1]
                                               : 0;
    }
    for (uint32_t m = 1; m < last; m++)
        if (is_update(&trace->operators[m]))
            trace->non_model_bytes[m] = MIN(trace->non_model_bytes[m],
                                            trace->non_model_bytes[m - 1]);
    if (trace->buffer_count)
        trace_sum_buffers(trace);
}

/* The host begins with the update of tensor `first`, and goes round. */
static void order_updates(struct trace *trace, const tensor_id *after, tensor_id first)
{
    uint32_t count = trace->operator_count, next = 0;
    if (!are_independent(trace))
        return;
    g_autoptr(GArray) updates = list_updates(trace, after, first);
    g_autofree uint32_t *order = merge_updates(trace, updates);
    g_autofree struct trace_operator *operators = g_memdup2(trace->operators,
                                                            count * sizeof *operators);
    g_autofree struct trace_access *accesses = g_memdup2(trace->accesses,
                                                         trace->access_count * sizeof *accesses);
    for (uint32_t m = 0; m < count; m++) {
        struct trace_operator *op = &trace->operators[m];
        *op = operators[order[m]];
        memcpy(trace->accesses + next, accesses + op->first_access,
               op->access_count * sizeof *accesses);
        op->first_access = next;
        next += op->access_count;
    }
    move_memory(trace, order);
}

/* Returns whether all tensors of the update have the places `on_host` that they have in `traced`.
 */
static bool stays(const struct trace *trace, const struct trace_operator *op,
                  const uint8_t *on_host, const uint8_t *traced)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        uint32_t tensor = trace->accesses[op->first_access + i].tensor;
        if (!on_host[tensor] != !traced[tensor])
            return false;
    }
    return true;
}

/* Moves the updates of the tensors whose place is not the traced one. Sets *moved if there are any.
 */
static bool move_updates(struct trace *placed, const uint8_t *on_host, const uint8_t *traced,
                         const struct platform *platform, bool *moved, GError **error)
{
    const struct own_rates rates = rates_of(placed);
    for (uint32_t m = 0; m < placed->operator_count; m++) {
        struct trace_operator *op = &placed->operators[m];
        enum trace_place place;
        if (!is_update(op) || stays(placed, op, on_host, traced))
            continue;
        if (!choose_place(placed, op, on_host, &place, error))
            return false;
        if (op->place == place)
            continue;
        op->duration_ns = duration_at(placed, op, place, platform, &rates);
        op->place = (uint8_t)place;
        op->d2h_bytes = place == TRACE_ON_HOST ? gradient_bytes(placed, op) : 0;
        placed->estimated = *moved = true;
    }
    return true;
}

/* Returns whether updates come when they were traced. */
static bool come_as_traced(const struct run_choices *traced, const tensor_id *after)
{
    return after ? !memcmp(after, traced->update_after, traced->tensor_count * sizeof *after)
                 : !run_updates_early(traced);
}

/* Returns the first tensor from `first` on that the host updates, or 0 if it updates none before
 * `first`, or none from it on: then that is the order of the model. */
static tensor_id first_on_host(const struct trace *trace, tensor_id first)
{
    tensor_id from = NO_INDEX;
    bool any_before = false;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (!is_update(op) || op->place != TRACE_ON_HOST)
            continue;
        tensor_id tensor = trace->accesses[op->first_access].tensor;
        any_before |= tensor < first;
        from = tensor >= first ? MIN(from, tensor) : from;
    }
    return any_before && from != NO_INDEX ? from : 0;
}

/* The host begins with tensor `first`; NO_INDEX stands for that of the trace. */
static struct trace *place_updates(const struct trace *trace, const uint8_t *on_host,
                                   tensor_id first, const tensor_id *after,
                                   const struct platform *platform, GError **error)
{
    struct trace *placed = trace_copy(trace);
    struct run_choices *traced = run_choices_of(trace);
    bool moved = !come_as_traced(traced, after);
    if (!move_updates(placed, on_host, traced->host_update, platform, &moved, error)) {
        g_clear_pointer(&placed, trace_free);
    } else {
        first = first_on_host(placed, first == NO_INDEX ? traced->first_update : first);
        if (moved || first != traced->first_update)
            order_updates(placed, after, first);
    }
    run_choices_free(traced);
    return placed;
}

struct trace *model_place_updates_after(const struct trace *trace, const uint8_t *on_host,
                                        const tensor_id *after, const struct platform *platform,
                                        GError **error)
{
    return place_updates(trace, on_host, after ? 0 : NO_INDEX, after, platform, error);
}

struct trace *model_place_updates_from(const struct trace *trace, const uint8_t *on_host,
                                       tensor_id first, const struct platform *platform,
                                       GError **error)
{
    return place_updates(trace, on_host, first, NULL, platform, error);
}

struct trace *model_place_chosen(const struct trace *trace, const struct run_choices *choices,
                                 const struct platform *platform, GError **error)
{
    if (!choices || choices->tensor_count != trace->tensor_count)
        return trace_copy(trace);
    return place_updates(trace, choices->host_update, choices->first_update, choices->update_after,
                         platform, error);
}

struct trace *model_place_updates(const struct trace *trace, const uint8_t *on_host,
                                  const struct platform *platform, GError **error)
{
    return model_place_updates_after(trace, on_host, NULL, platform, error);
}

struct trace *model_updates_last(struct trace *trace)
{
    struct trace *last = trace;
    if (!trace)
        return NULL;
    struct run_choices *choices = run_choices_of(trace);
    if (run_updates_early(choices)) {
        last = trace_copy(trace);
        order_updates(last, NULL, 0);
        trace_free(trace);
    }
    run_choices_free(choices);
    return last;
}

uint64_t *model_update_times(const struct trace *trace, enum trace_place place,
                             const struct platform *platform)
{
    uint64_t *times = g_new(uint64_t, trace->operator_count);
    const struct own_rates rates = rates_of(trace);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        times[m] = is_update(op) && op->place != place
                       ? duration_at(trace, op, place, platform, &rates)
                       : op->duration_ns;
    }
    return times;
}
