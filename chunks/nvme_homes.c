#include "chunks/nvme_homes.h"

#include "base/size.h"
#include "chunks/lack.h"
#include "chunks/nvme_choice.h"

#include <string.h>

static const struct nvme_visit *visit_at(const GArray *visits, uint32_t i)
{
    return &g_array_index(visits, struct nvme_visit, i);
}

/* ---- actions ---- */

static gint by_taking(gconstpointer left, gconstpointer right)
{
    const struct nvme_visit *a = left, *b = right;
    return a->taken != b->taken ? (a->taken > b->taken) - (a->taken < b->taken)
                                : nvme_visit_by_need(left, right);
}

static gint by_leaving(gconstpointer left, gconstpointer right)
{
    const struct nvme_visit *a = left, *b = right;
    return a->left != b->left ? (a->left > b->left) - (a->left < b->left)
                              : nvme_visit_by_need(left, right);
}

static GArray *sorted(const GArray *visits, GCompareFunc order)
{
    GArray *copy = g_array_new(FALSE, FALSE, sizeof(struct nvme_visit));
    g_array_append_vals(copy, visits->data, visits->len);
    g_array_sort(copy, order);
    return copy;
}

/* What becomes of the plan's actions, and the visits that are to come. */
struct insertion {
    GArray *actions; /* struct plan_action */
    GArray *taking, *leaving;
    uint32_t next_taking, next_leaving;
};

static void append(struct insertion *insertion, chunk_id chunk, enum plan_action_kind kind,
                   uint64_t address)
{
    const struct plan_action action = {.chunk = chunk, .kind = (uint8_t)kind, .address = address};
    g_array_append_val(insertion->actions, action);
}

/* Room is left before it is taken. */
static void append_instant(struct insertion *insertion, uint32_t instant)
{
    for (; insertion->next_leaving < insertion->leaving->len; insertion->next_leaving++) {
        const struct nvme_visit *visit = visit_at(insertion->leaving, insertion->next_leaving);
        if (visit->left > instant)
            break;
        append(insertion, visit->chunk, visit->stores ? PLAN_STORE : PLAN_RELEASE, NO_ADDRESS);
    }
    for (; insertion->next_taking < insertion->taking->len; insertion->next_taking++) {
        const struct nvme_visit *visit = visit_at(insertion->taking, insertion->next_taking);
        if (visit->taken > instant)
            break;
        append(insertion, visit->chunk, visit->loads ? PLAN_LOAD : PLAN_RESERVE,
               visit->host_address);
    }
}

/* `ends`: the step ends when all is stored. */
static void add_actions(struct plan *plan, const GArray *visits, bool ends)
{
    g_autoptr(GArray) taking = sorted(visits, by_taking), leaving = sorted(visits, by_leaving);
    struct insertion insertion = {.actions = g_array_new(FALSE, FALSE, sizeof(struct plan_action)),
                                  .taking = taking,
                                  .leaving = leaving};
    uint32_t item = 0, begin = 0;
    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        for (uint32_t end = plan->first_action[m + 1]; begin < end; begin++) {
            append_instant(&insertion, item++);
            g_array_append_val(insertion.actions, plan->actions[begin]);
        }
        append_instant(&insertion, item++); /* before the operator, or at the end */
        plan->first_action[m + 1] = insertion.actions->len;
    }
    if (ends) {
        append(&insertion, 0, PLAN_WAIT, NO_ADDRESS);
        plan->first_action[plan->moment_count + 1]++;
    }
    g_free(plan->actions);
    plan->action_count = insertion.actions->len;
    plan->actions = (struct plan_action *)(void *)g_array_free(insertion.actions, FALSE);
}

/* ---- the plan ---- */

/* Chunks that stay on the host come first, then the room for slots, then staging. */
static void give_addresses(struct plan *plan, const struct nvme_choice *choice)
{
    uint64_t staging = plan->host_pool_bytes - plan->staging_address, address = 0;
    plan->nvme_address = g_new(uint64_t, plan->layout->chunk_count);
    memset(plan->nvme_address, 0xff, plan->layout->chunk_count * sizeof *plan->nvme_address);
    for (uint32_t i = 0; i < choice->chosen->len; i++) {
        chunk_id chunk = g_array_index(choice->chosen, chunk_id, i);
        plan->nvme_address[chunk] = plan->nvme_bytes;
        plan->nvme_bytes += plan_nvme_slot(plan->layout, chunk);
        plan->host_address[chunk] = NO_ADDRESS;
    }
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++)
        if (plan->host_address[c] != NO_ADDRESS) {
            plan->host_address[c] = address;
            address += plan->layout->chunks[c].copy_bytes;
        }
    address = plan_nvme_room(plan);
    for (uint32_t i = 0; i < choice->visits->len; i++)
        g_array_index(choice->visits, struct nvme_visit, i).host_address += address;
    plan->staging_address = address + choice->room_bytes;
    plan->host_pool_bytes = plan->staging_address + staging;
}

static void predict(struct plan *plan, const GArray *visits)
{
    plan->predicted.nvme_read_bytes = plan->predicted.nvme_write_bytes = 0;
    for (uint32_t i = 0; i < visits->len; i++) {
        const struct nvme_visit *visit = visit_at(visits, i);
        plan->predicted.nvme_read_bytes += visit->loads ? visit->bytes : 0;
        plan->predicted.nvme_write_bytes += visit->stores ? visit->bytes : 0;
    }
    plan->predicted.peak_nvme_bytes = plan->nvme_bytes;
    plan->predicted.peak_host_bytes = plan->host_pool_bytes;
}

static bool is_limited(const struct nvme_budget *budget)
{
    return !budget->buffers && budget->host_bytes != UINT64_MAX;
}

static bool refuse(GError **error, const char *what)
{
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT, "%s", what);
    return false;
}

static bool refuse_host(GError **error, uint64_t takes, uint64_t budget)
{
    g_autofree char *size = size_format(takes), *given = size_format(budget);
    g_autofree char *why =
        g_strdup_printf("host memory: the run takes %s, and the budget is %s; this "
                        "plan has nothing on the host that could live in NVMe",
                        size, given);
    plan_lack_set(error, &(struct plan_lack){.memory = PLAN_MEMORY_HOST, .bytes = takes}, why);
    return false;
}

/* Fails if there is nothing to choose from. */
static bool choose(struct nvme_choice *choice, const struct nvme_budget *budget, GError **error)
{
    if (is_limited(budget) && budget->stays)
        return nvme_choice_stays(choice, budget, error);
    if (is_limited(budget) && !choice->candidates->len)
        return refuse_host(error, choice->plan->host_pool_bytes, budget->host_bytes);
    if (is_limited(budget))
        return nvme_choice_fewest(choice, budget, error);
    if (!choice->states->len)
        return refuse(error, "NVMe: without --host-memory it holds optimizer states that are "
                             "updated on the host, and this plan has none; a run or a trace with "
                             "--host-update has all updates there");
    return budget->buffers ? nvme_choice_buffers(choice, budget, error)
                           : nvme_choice_states(choice, budget, error);
}

static void give(struct plan *plan, const struct nvme_choice *choice,
                 const struct nvme_budget *budget)
{
    give_addresses(plan, choice);
    add_actions(plan, choice->visits, budget->buffers > 0);
    predict(plan, choice->visits);
    plan->host_budget = budget->host_bytes;
    plan->nvme_block_bytes = budget->block_bytes;
    plan->nvme_depth = budget->depth;
}

bool nvme_homes_give(struct plan *plan, const struct trace *trace, const struct accesses *accesses,
                     const struct nvme_budget *budget, GError **error)
{
    g_assert(!plan->nvme_address && !plan->certificate);
    bool fits = plan->host_pool_bytes <= budget->host_bytes;
    if (is_limited(budget) && fits)
        return true;
    struct nvme_choice *choice = nvme_choice_new(plan, trace, accesses, budget->passing_first);
    bool needs_none = budget->buffers && !choice->states->len && fits;
    bool given = !needs_none && choose(choice, budget, error);
    if (given)
        give(plan, choice, budget);
    nvme_choice_free(choice);
    return needs_none || given;
}
