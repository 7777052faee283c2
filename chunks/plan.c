#include "chunks/plan.h"

#include "base/size.h"
#include "chunks/gathering.h"
#include "chunks/lack.h"
#include "chunks/place.h"

void plan_lacks_memory(GError **error, const struct trace *trace, moment_id moment,
                       uint64_t need_bytes, const char *remark, uint64_t budget)
{
    g_autofree char *need = size_format(need_bytes), *given = size_format(budget);
    g_autofree char *more = size_format(need_bytes - budget);
    g_autofree char *held = size_format(trace->library_bytes);
    g_autofree char *excess =
        trace->library_bytes ? g_strdup_printf(" beside %s that driver and libraries hold", held)
                             : g_strdup_printf(", %s more than the budget of %s", more, given);
    g_autofree char *why = g_strdup_printf("device memory: moment %u (%s) needs %s%s%s", moment,
                                           trace->operators[moment].name, need, remark, excess);
    const struct plan_lack lack = {.memory = PLAN_MEMORY_DEVICE,
                                   .bytes = need_bytes + trace->library_bytes};
    plan_lack_set(error, &lack, why);
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    if (plan->sharers) {
        plan->sharers--;
        return;
    }
    g_free(plan->digest);
    g_free(plan->model);
    g_free(plan->precision);
    run_choices_free(plan->choices);
    g_free(plan->made_by);
    g_free(plan->policy);
    layout_free(plan->layout);
    g_free(plan->host_address);
    g_free(plan->nvme_address);
    g_free(plan->initial_address);
    g_free(plan->first_action);
    g_free(plan->actions);
    certificate_free(plan->certificate);
    g_free(plan);
}

struct plan *plan_copy(const struct plan *plan)
{
    g_assert(!plan->certificate);
    struct plan *copy = g_memdup2(plan, sizeof *plan);
    size_t addresses = plan->layout->chunk_count * sizeof(uint64_t);
    copy->sharers = 0;
    copy->digest = g_strdup(plan->digest);
    copy->model = g_strdup(plan->model);
    copy->precision = g_strdup(plan->precision);
    copy->choices = plan->choices ? run_choices_copy(plan->choices) : NULL;
    copy->made_by = g_strdup(plan->made_by);
    copy->policy = g_strdup(plan->policy);
    copy->layout = layout_copy(plan->layout);
    copy->host_address = g_memdup2(plan->host_address, addresses);
    copy->nvme_address = g_memdup2(plan->nvme_address, addresses); /* NULL stays NULL */
    copy->initial_address = g_memdup2(plan->initial_address, addresses);
    copy->first_action = g_memdup2(plan->first_action,
                                   (plan->moment_count + 2) * sizeof *plan->first_action);
    copy->actions = g_memdup2(plan->actions, plan->action_count * sizeof *plan->actions);
    return copy;
}

void plan_set_digest(struct plan *plan, const struct trace *trace)
{
    g_free(plan->digest);
    plan->digest = trace_digest(trace);
}

struct plan *plan_share(struct plan *plan)
{
    plan->sharers++;
    return plan;
}

uint64_t plan_nvme_room(const struct plan *plan)
{
    uint64_t end = 0;
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++)
        if (plan->host_address[c] != NO_ADDRESS)
            end = MAX(end, plan->host_address[c] + plan->layout->chunks[c].copy_bytes);
    return (end + PLAN_NVME_ALIGNMENT - 1) / PLAN_NVME_ALIGNMENT * PLAN_NVME_ALIGNMENT;
}

const char *plan_action_name(enum plan_action_kind kind)
{
    static const char *const names[] = {"fetch",   "allocate", "write-back", "drop",
                                        "flush",   "move",     "wait",       "load",
                                        "reserve", "store",    "release"};
    return names[kind];
}

/* ---- making a plan ---- */

static void count_gather(struct plan_figures *figures, const struct trace *trace,
                         const struct gathering *gathering, const uint8_t *on_device,
                         chunk_id chunk)
{
    struct gathering_traffic traffic = {0};
    for (uint32_t p = gathering->first[chunk]; p < gathering->first[chunk + 1]; p++)
        gathering_count(&traffic, trace, gathering->parts[p].tensor, 0,
                        on_device[gathering->parts[p].source]);
    figures->gathers++;
    figures->h2d_bytes += traffic.link_bytes;
    figures->h2d_copies += traffic.link_bytes > 0;
    figures->sent_bytes += traffic.exchange.sent_bytes;
    figures->received_bytes += traffic.exchange.received_bytes;
}

static bool is_gather(const struct plan *plan, const struct plan_action *action)
{
    return action->kind == PLAN_FETCH && plan->layout->chunks[action->chunk].list == TRACE_GATHERED;
}

struct trace_exchange plan_exchange(const struct plan *plan, const struct trace *trace,
                                    uint32_t rank)
{
    struct gathering *gathering = gathering_new(plan->layout);
    struct gathering_traffic traffic = {0};
    for (uint32_t i = 0; gathering && i < plan->action_count; i++) {
        uint32_t chunk = plan->actions[i].chunk;
        for (uint32_t p = gathering->first[chunk];
             is_gather(plan, &plan->actions[i]) && p < gathering->first[chunk + 1]; p++)
            gathering_count(&traffic, trace, gathering->parts[p].tensor, rank, true);
    }
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_exchange exchange = trace_operator_exchange(&trace->operators[m]);
        traffic.exchange.sent_bytes += exchange.sent_bytes;
        traffic.exchange.received_bytes += exchange.received_bytes;
    }
    gathering_free(gathering);
    return traffic.exchange;
}

/* Adds up what gathers move, which depends on where the shards are. */
static void count_gathers(const struct plan *plan, const struct trace *trace,
                          struct plan_figures *figures)
{
    struct gathering *gathering = gathering_new(plan->layout);
    g_autofree uint8_t *on_device = g_new(uint8_t, plan->layout->chunk_count);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        on_device[c] = plan->initial_address[c] != NO_ADDRESS;
    for (uint32_t i = 0; gathering && i < plan->action_count; i++) {
        const struct plan_action *action = &plan->actions[i];
        if (is_gather(plan, action))
            count_gather(figures, trace, gathering, on_device, action->chunk);
        if (action->kind == PLAN_FETCH || action->kind == PLAN_ALLOCATE)
            on_device[action->chunk] = 1;
        else if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP)
            on_device[action->chunk] = 0;
    }
    gathering_free(gathering);
}

/* Adds up what the actions and operators move. */
static void count_traffic(const struct plan *plan, const struct trace *trace,
                          struct plan_figures *figures)
{
    count_gathers(plan, trace, figures);
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct plan_action *action = &plan->actions[i];
        const struct chunk *chunk = &plan->layout->chunks[action->chunk];
        bool fetch = action->kind == PLAN_FETCH && !is_gather(plan, action);
        bool write = action->kind == PLAN_WRITE_BACK || action->kind == PLAN_FLUSH;
        figures->h2d_bytes += fetch ? chunk->copy_bytes : 0;
        figures->h2d_copies += fetch;
        figures->d2h_bytes += write ? chunk->copy_bytes : 0;
        figures->d2h_copies += write;
        figures->evictions += action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP;
        figures->moves += action->kind == PLAN_MOVE;
        figures->moved_bytes += action->kind == PLAN_MOVE ? chunk->copy_bytes : 0;
    }
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        figures->h2d_bytes += trace->operators[m].h2d_bytes;
        figures->d2h_bytes += trace->operators[m].d2h_bytes;
        struct trace_exchange exchange = trace_operator_exchange(&trace->operators[m]);
        figures->sent_bytes += exchange.sent_bytes;
        figures->received_bytes += exchange.received_bytes;
    }
}

/* Adds up what the actions read from NVMe and write to it. */
static void count_nvme(const struct plan *plan, struct plan_figures *figures)
{
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct plan_action *action = &plan->actions[i];
        uint64_t bytes = plan_nvme_slot(plan->layout, action->chunk);
        figures->nvme_read_bytes += action->kind == PLAN_LOAD ? bytes : 0;
        figures->nvme_write_bytes += action->kind == PLAN_STORE ? bytes : 0;
    }
}

/* Sets the figures that the actions and the sizes of memories give: all but times and the peaks of
 * the device. */
static void count(const struct plan *plan, const struct trace *trace, struct plan_figures *figures)
{
    count_traffic(plan, trace, figures);
    count_nvme(plan, figures);
    figures->peak_host_bytes = plan->host_pool_bytes;
    figures->peak_nvme_bytes = plan->nvme_bytes;
}

bool plan_check_figures(const struct plan *plan, const struct trace *trace, GError **error)
{
    const struct plan_figures *predicted = &plan->predicted;
    struct plan_figures counted = {.peak_device_bytes = predicted->peak_device_bytes,
                                   .peak_live_device_bytes = predicted->peak_live_device_bytes};
    count(plan, trace, &counted);
    counted.sent_bytes = predicted->sent_bytes;
    counted.received_bytes = predicted->received_bytes;
    const struct plan_figure *figure = figures_first_difference(predicted, &counted);
    if (figure)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "predicted: %s is %" G_GUINT64_FORMAT
                    ", but what the plan does comes to %" G_GUINT64_FORMAT,
                    figure->name, figures_count(predicted, figure),
                    figures_count(&counted, figure));
    return !figure;
}

/* Returns [chunk_count] marks of chunks that need their host slots. Gradients and activations do
 * not if they are dead when the iteration begins and are never copied; free with g_free. */
static uint8_t *find_slots(const struct plan *plan, const struct accesses *accesses)
{
    uint8_t *needed = g_new0(uint8_t, plan->layout->chunk_count);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        uint8_t list = plan->layout->chunks[c].list;
        needed[c] = (list != TRACE_GRAD && list != TRACE_ACTIVATION) ||
                    plan->initial_address[c] != NO_ADDRESS;
    }
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct plan_action *action = &plan->actions[i];
        needed[action->chunk] |= action->kind == PLAN_FETCH || action->kind == PLAN_FLUSH ||
                                 action->kind == PLAN_WRITE_BACK;
    }
    for (uint32_t a = 0; a < accesses->count; a++)
        needed[accesses->items[a].chunk] |= (accesses->items[a].flags & ACCESS_ON_HOST) != 0;
    return needed;
}

static void close_gaps(struct plan *plan, const struct accesses *accesses)
{
    g_autofree uint8_t *needed = find_slots(plan, accesses);
    uint64_t staging_bytes = plan->host_pool_bytes - plan->staging_address, address = 0;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        bool kept = needed[c] && plan->host_address[c] != NO_ADDRESS;
        plan->host_address[c] = kept ? address : NO_ADDRESS;
        address += kept ? plan->layout->chunks[c].copy_bytes : 0;
    }
    plan->staging_address = address;
    plan->host_pool_bytes = address + staging_bytes;
}

struct plan *plan_make(const struct plan_inputs *inputs, struct addresses *addresses)
{
    const struct trace *trace = inputs->trace;
    const struct homes *homes = inputs->homes;
    struct plan *plan = g_new0(struct plan, 1);
    plan->digest = inputs->accesses->digest ? g_strdup(inputs->accesses->digest)
                                            : trace_digest(trace);
    plan->model = g_strdup(trace->model);
    plan->precision = g_strdup(trace->precision);
    plan->batch = trace->batch;
    plan->sequence = trace->sequence;
    plan->micro_batches = trace->micro_batches;
    plan->ranks = trace->ranks;
    plan->choices = run_choices_copy(inputs->accesses->choices);
    plan->device_budget = inputs->device_budget;
    plan->host_budget = inputs->host_budget;
    plan->layout = layout_copy(inputs->layout);
    plan->host_pool_bytes = homes->host_pool_bytes;
    plan->staging_address = homes->staging_address;
    plan->host_address = g_memdup2(homes->host_address,
                                   homes->chunk_count * sizeof *homes->host_address);
    plan->arena_bytes = addresses->arena_bytes;
    plan->initial_address = g_steal_pointer(&addresses->initial);
    plan->moment_count = addresses->moment_count;
    plan->action_count = addresses->action_count;
    plan->first_action = g_steal_pointer(&addresses->first_action);
    plan->actions = g_steal_pointer(&addresses->actions);
    plan->predicted.peak_device_bytes = addresses->peak_device_bytes;
    plan->predicted.peak_live_device_bytes = addresses->peak_live_device_bytes;
    close_gaps(plan, inputs->accesses);
    count(plan, trace, &plan->predicted);
    addresses_free(addresses);
    return plan;
}
