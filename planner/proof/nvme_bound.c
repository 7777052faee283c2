#include "planner/proof/nvme_bound.h"

#include "chunks/accesses.h"

/* What an iteration does with a chunk. */
struct role {
    bool used, begins, lives, changes; /* it begins by reading it; it needs it afterwards */
};

static void note(struct role *role, const struct chunk_access *access)
{
    if (!role->used)
        role->begins = !(access->flags & ACCESS_FRESH);
    role->used = true;
    role->lives = !(access->flags & ACCESS_LAST);
    role->changes |= (access->flags & ACCESS_WRITES) != 0;
}

static struct role *roles_of(const struct plan *plan, const struct trace *trace)
{
    struct role *roles = g_new0(struct role, plan->layout->chunk_count);
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    for (uint32_t a = 0; a < accesses->count; a++)
        note(&roles[accesses->items[a].chunk], &accesses->items[a]);
    accesses_free(accesses);
    non_model_free(non_model);
    return roles;
}

static uint64_t beyond(const struct plan *plan, uint64_t bytes)
{
    uint64_t left = bytes - MIN(bytes, plan->device_budget);
    return left - MIN(left, plan->host_budget);
}

struct nvme_least nvme_least(const struct plan *plan, const struct trace *trace)
{
    g_autofree struct role *roles = roles_of(plan, trace);
    uint64_t read = 0, changed = 0;
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++) {
        const struct chunk *chunk = &plan->layout->chunks[c];
        if (!roles[c].begins || !roles[c].lives || chunk->list == TRACE_GATHERED)
            continue;
        read += chunk->copy_bytes;
        changed += roles[c].changes ? chunk->copy_bytes : 0;
    }
    return (struct nvme_least){beyond(plan, read), beyond(plan, changed)};
}

/* A transfer may end half a nanosecond early, and one of each chunk counts. */
uint64_t nvme_bound_ns(const struct plan *plan, const struct trace *trace,
                       const struct costs *costs)
{
    const struct nvme_least least = nvme_least(plan, trace);
    uint64_t read_ns = costs_ns(&costs->nvme[0], least.read_bytes);
    uint64_t write_ns = costs_ns(&costs->nvme[1], least.write_bytes);
    uint64_t ns = MAX(read_ns, write_ns);
    return ns - MIN(ns, plan->layout->chunk_count);
}
