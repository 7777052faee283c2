#include "chunks/dry_run.h"

#include "chunks/decide.h"
#include "chunks/place.h"

/* The least device memory with the device-homed chunks always there; *moment needs it. */
static uint64_t least_device_bytes(const struct accesses *accesses, const struct layout *layout,
                                   const struct homes *homes, uint32_t *moment)
{
    uint64_t least = 0;
    for (uint32_t m = 0; m < accesses->moment_count; m++) {
        uint64_t bytes = accesses->non_model[m] + homes->device_bytes;
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            if (!(access->flags & ACCESS_ON_HOST) && !homes->on_device[access->chunk])
                bytes += layout->chunks[access->chunk].bytes;
        }
        if (bytes > least) {
            least = bytes;
            *moment = m;
        }
    }
    return least;
}

static bool check_device_budget(const struct trace *trace, const struct layout *layout,
                                const struct accesses *accesses, const struct homes *homes,
                                uint64_t budget, GError **error)
{
    uint32_t moment = 0;
    uint64_t least = least_device_bytes(accesses, layout, homes, &moment);
    if (least <= budget)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "device memory: moment %u (%s) needs %" G_GUINT64_FORMAT
                " bytes, %" G_GUINT64_FORMAT " more than the budget of %" G_GUINT64_FORMAT
                "; %" G_GUINT64_FORMAT " bytes would fit",
                moment, trace->operators[moment].name, least, least - budget, budget, least);
    return false;
}

static void count_traffic(const struct trace *trace, struct plan *plan)
{
    struct plan_figures *figures = &plan->predicted;
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct plan_action *action = &plan->actions[i];
        const struct chunk *chunk = &plan->layout->chunks[action->chunk];
        bool fetch = action->kind == PLAN_FETCH;
        bool write = action->kind == PLAN_WRITE_BACK || action->kind == PLAN_FLUSH;
        figures->h2d_bytes += fetch ? chunk->used : 0;
        figures->h2d_copies += fetch;
        figures->d2h_bytes += write ? chunk->used : 0;
        figures->d2h_copies += write;
        figures->evictions += action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP;
        figures->moves += action->kind == PLAN_MOVE;
        figures->moved_bytes += action->kind == PLAN_MOVE ? chunk->used : 0;
    }
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        figures->h2d_bytes += trace->operators[m].h2d_bytes;
        figures->d2h_bytes += trace->operators[m].d2h_bytes;
    }
    figures->peak_host_bytes = plan->host_bytes;
}

static struct plan *describe(const struct trace *trace, const struct layout *layout,
                             const struct homes *homes, const struct dry_run_options *options)
{
    struct plan *plan = g_new0(struct plan, 1);
    plan->digest = trace_digest(trace);
    plan->model = g_strdup(trace->model);
    plan->precision = g_strdup(trace->precision);
    plan->batch = trace->batch;
    plan->sequence = trace->sequence;
    plan->micro_batches = trace->micro_batches;
    plan->made_by = g_strdup_printf("policy %s", options->policy->name);
    plan->policy = g_strdup(options->policy->name);
    plan->look_ahead = options->look_ahead;
    plan->device_budget = options->device_bytes;
    plan->host_budget = options->host_bytes;
    plan->layout = layout_copy(layout);
    plan->host_bytes = homes->host_bytes;
    plan->staging_address = homes->staging_address;
    plan->host_address = g_memdup2(homes->host_address,
                                   layout->chunk_count * sizeof *homes->host_address);
    return plan;
}

struct plan *dry_run_accesses(const struct trace *trace, const struct layout *layout,
                              const struct accesses *accesses,
                              const struct dry_run_options *options, GError **error)
{
    struct homes *homes = homes_choose(trace, layout, accesses, options->host_bytes, error);
    struct plan *plan = NULL;
    if (homes &&
        check_device_budget(trace, layout, accesses, homes, options->device_bytes, error)) {
        struct decisions *decisions = decide(layout, accesses, homes, options);
        plan = describe(trace, layout, homes, options);
        place_decisions(decisions, layout, accesses, homes, trace, options->device_bytes, plan);
        count_traffic(trace, plan);
        decisions_free(decisions);
    }
    homes_free(homes);
    return plan;
}

struct plan *dry_run(const struct trace *trace, const struct layout *layout,
                     const struct dry_run_options *options, GError **error)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    struct plan *plan = dry_run_accesses(trace, layout, accesses, options, error);
    accesses_free(accesses);
    non_model_free(non_model);
    return plan;
}
