#include "chunks/nvme_choice.h"

#include "base/size.h"
#include "chunks/lack.h"
#include "chunks/nvme_slots.h"

/* ---- who can live there ---- */

static struct nvme_candidate *candidate_at(const GArray *candidates, uint32_t i)
{
    return &g_array_index(candidates, struct nvme_candidate, i);
}

static bool cost_the_same(const struct nvme_candidate *a, const struct nvme_candidate *b)
{
    return a->first == b->first && a->transfers == b->transfers && a->kind == b->kind;
}

static gint by_cost(gconstpointer left, gconstpointer right)
{
    const struct nvme_candidate *a = left, *b = right;
    if (a->first != b->first)
        return b->first - a->first;
    if (!cost_the_same(a, b))
        return a->transfers < b->transfers || (a->transfers == b->transfers && a->kind < b->kind)
                   ? -1
                   : 1;
    if (a->needed != b->needed)
        return a->needed < b->needed ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

static struct nvme_candidate candidate_of(const struct nvme_choice *choice, chunk_id chunk,
                                          bool passing_first)
{
    struct nvme_candidate candidate = {.chunk = chunk,
                                       .kind = nvme_uses_kind(choice->uses, chunk),
                                       .first = passing_first &&
                                                nvme_uses_passes(choice->uses, chunk)};
    g_autoptr(GArray) visits = g_array_new(FALSE, FALSE, sizeof(struct nvme_visit));
    nvme_uses_visits(choice->uses, chunk, 0, visits);
    for (uint32_t i = 0; i < visits->len; i++) {
        const struct nvme_visit *visit = &g_array_index(visits, struct nvme_visit, i);
        candidate.needed = i ? candidate.needed : visit->needed;
        candidate.transfers += visit->loads + visit->stores;
    }
    return candidate;
}

static void find_candidates(struct nvme_choice *choice, bool passing_first)
{
    for (chunk_id c = 0; c < choice->plan->layout->chunk_count; c++) {
        const struct nvme_candidate candidate = candidate_of(choice, c, passing_first);
        if (candidate.kind != NVME_NEVER)
            g_array_append_val(choice->candidates, candidate);
        if (candidate.kind == NVME_STATES)
            g_array_append_val(choice->states, candidate);
    }
    g_array_sort(choice->candidates, by_cost);
    g_array_sort(choice->states, by_cost);
}

/* Loads for backward and the update begin after forward, so that evaluation, which ends there, does
 * without. */
static uint32_t first_backward(const struct plan *plan, const struct trace *trace)
{
    uint32_t m = 0;
    while (m < trace->operator_count && trace->operators[m].phase == TRACE_FORWARD)
        m++;
    return nvme_instant(plan, m);
}

struct nvme_choice *nvme_choice_new(const struct plan *plan, const struct trace *trace,
                                    const struct accesses *accesses, bool passing_first)
{
    struct nvme_choice *choice = g_new0(struct nvme_choice, 1);
    choice->plan = plan;
    choice->uses = nvme_uses_new(plan, accesses);
    choice->chosen = g_array_new(FALSE, FALSE, sizeof(chunk_id));
    choice->visits = g_array_new(FALSE, FALSE, sizeof(struct nvme_visit));
    choice->late = first_backward(plan, trace);
    choice->candidates = g_array_new(FALSE, FALSE, sizeof(struct nvme_candidate));
    choice->states = g_array_new(FALSE, FALSE, sizeof(struct nvme_candidate));
    find_candidates(choice, passing_first);
    return choice;
}

void nvme_choice_free(struct nvme_choice *choice)
{
    g_array_unref(choice->candidates);
    g_array_unref(choice->states);
    g_array_unref(choice->chosen);
    g_array_unref(choice->visits);
    nvme_uses_free(choice->uses);
    g_free(choice);
}

/* ---- what they take ---- */

/* Chooses `count` of the candidates [first, end), spread evenly over the iteration. */
static void spread(struct nvme_choice *choice, const GArray *candidates, uint32_t first,
                   uint32_t end, uint64_t count)
{
    uint64_t all = end - first;
    for (uint64_t i = 0; i < all; i++)
        if ((i + 1) * count / all > i * count / all)
            g_array_append_val(choice->chosen,
                               candidate_at(candidates, first + (uint32_t)i)->chunk);
}

/* Replaces what is chosen by the cheapest `count` of the candidates. Uses with at most `near` items
 * between them are one visit. */
static void choose(struct nvme_choice *choice, const GArray *candidates, uint32_t count,
                   uint32_t near)
{
    g_array_set_size(choice->chosen, 0);
    g_array_set_size(choice->visits, 0);
    for (uint32_t first = 0, end; first < candidates->len && count; first = end) {
        for (end = first + 1; end < candidates->len; end++)
            if (!cost_the_same(candidate_at(candidates, first), candidate_at(candidates, end)))
                break;
        uint32_t of_run = MIN(count, end - first);
        spread(choice, candidates, first, end, of_run);
        count -= of_run;
    }
    for (uint32_t i = 0; i < choice->chosen->len; i++)
        nvme_uses_visits(choice->uses, g_array_index(choice->chosen, chunk_id, i), near,
                         choice->visits);
    g_array_sort(choice->visits, nvme_visit_by_need);
}

static uint64_t slot_of(const struct nvme_choice *choice, uint32_t i)
{
    return plan_nvme_slot(choice->plan->layout, g_array_index(choice->chosen, chunk_id, i));
}

static uint64_t bytes_of_chosen(const struct nvme_choice *choice)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < choice->chosen->len; i++)
        bytes += slot_of(choice, i);
    return bytes;
}

/* Returns what the host pool holds beside the room for slots, whose begin is aligned. */
static uint64_t rest_bytes(const struct nvme_choice *choice)
{
    uint64_t rest = choice->plan->host_pool_bytes + PLAN_NVME_ALIGNMENT;
    for (uint32_t i = 0; i < choice->chosen->len; i++) {
        chunk_id chunk = g_array_index(choice->chosen, chunk_id, i);
        rest -= choice->plan->layout->chunks[chunk].copy_bytes;
    }
    return rest;
}

/* Returns the least room for the slots: of visits, and of each chunk between iterations. */
static uint64_t least_room(const struct nvme_choice *choice)
{
    uint64_t least = nvme_slots_least_bytes(choice->visits);
    for (uint32_t i = 0; i < choice->chosen->len; i++)
        least = MAX(least, slot_of(choice, i));
    return least;
}

/* Gives the visits slots in a ring within `most` bytes. Returns its bytes; 0 if there is none. */
static uint64_t find_ring(const struct nvme_choice *choice, uint64_t most)
{
    const struct nvme_ring ring = {least_room(choice), bytes_of_chosen(choice), most, choice->late};
    return nvme_slots_ring(choice->visits, &ring);
}

static bool refuse(GError **error, enum plan_memory memory, uint64_t need, uint64_t budget,
                   const char *why)
{
    g_autofree char *size = size_format(need), *given = size_format(budget);
    g_autofree char *text = g_strdup_printf("%s: %s %s, and the budget is %s",
                                            memory == PLAN_MEMORY_NVME ? "NVMe" : "host memory",
                                            why, size, given);
    plan_lack_set(error, &(struct plan_lack){.memory = memory, .bytes = need}, text);
    return false;
}

/* ---- states ---- */

bool nvme_choice_states(struct nvme_choice *choice, const struct nvme_budget *budget,
                        GError **error)
{
    uint32_t count = choice->states->len;
    do
        choose(choice, choice->states, count, 0);
    while (bytes_of_chosen(choice) > budget->nvme_bytes && count-- > 1);
    if (!count) /* one is chosen, but has no room */
        return refuse(error, PLAN_MEMORY_NVME, bytes_of_chosen(choice), budget->nvme_bytes,
                      "a chunk of optimizer states takes");
    choice->room_bytes = find_ring(choice, UINT64_MAX);
    return true;
}

bool nvme_choice_buffers(struct nvme_choice *choice, const struct nvme_budget *budget,
                         GError **error)
{
    choose(choice, choice->states, choice->states->len, 0);
    choice->room_bytes = nvme_slots_buffers(choice->visits, choice->plan->layout, budget->buffers);
    uint64_t host = rest_bytes(choice) + choice->room_bytes;
    if (bytes_of_chosen(choice) > budget->nvme_bytes)
        return refuse(error, PLAN_MEMORY_NVME, bytes_of_chosen(choice), budget->nvme_bytes,
                      "all optimizer states take");
    return host <= budget->host_bytes ||
           refuse(error, PLAN_MEMORY_HOST, host, budget->host_bytes,
                  "with the buffers of optimizer states in NVMe the run takes");
}

/* ---- as few as make a limited host fit ---- */

/* Chooses the cheapest `count`. Returns what the host pool then takes at least, with a ring of
 * `times` what is used at once, or with a slot for each. */
static uint64_t least_host_bytes(struct nvme_choice *choice, uint32_t count, uint32_t near,
                                 uint32_t times)
{
    choose(choice, choice->candidates, count, near);
    return rest_bytes(choice) + MIN(times * least_room(choice), bytes_of_chosen(choice));
}

/* Returns the least number of chunks with which the host pool may fit; more than all if none does.
 */
static uint32_t fewest(struct nvme_choice *choice, uint64_t host_budget, uint32_t times)
{
    uint32_t low = 1, high = choice->candidates->len + 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (least_host_bytes(choice, middle, 0, times) <= host_budget)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Chooses `count`, and gives them room. Returns whether they have it. */
static bool fit(struct nvme_choice *choice, uint64_t host_budget, uint32_t count, uint32_t near,
                uint32_t times)
{
    choice->room_bytes = 0;
    if (least_host_bytes(choice, count, near, times) <= host_budget)
        choice->room_bytes = find_ring(choice, host_budget - rest_bytes(choice));
    return choice->room_bytes > 0;
}

/* Chooses as few as make the host pool fit. Each stays there between uses as near as its room
 * allows, so that little is read and written. Returns whether it fits. */
static bool fit_fewest(struct nvme_choice *choice, uint64_t host_budget, uint32_t times)
{
    uint32_t all = choice->candidates->len, count = fewest(choice, host_budget, times);
    uint32_t near = nvme_instant(choice->plan, choice->plan->moment_count);
    while (count <= all && !fit(choice, host_budget, count, 0, times))
        count++;
    if (count > all)
        return false;
    while (near && !fit(choice, host_budget, count, near, times))
        near /= 2;
    return near || fit(choice, host_budget, count, 0, times);
}

/* Returns a budget of the host that fits, above the one that does not. */
static uint64_t fitting_host_bytes(struct nvme_choice *choice, const struct nvme_budget *budget)
{
    uint64_t low = budget->host_bytes + 1, high = choice->plan->host_pool_bytes;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (fit_fewest(choice, middle, 1) && bytes_of_chosen(choice) <= budget->nvme_bytes)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* Makes the ring larger, up to NVME_RING_TIMES what is used at once: room for loads that run ahead
 * is worth an eighth more than `least`, which the smallest ring lets live in NVMe. */
static void widen_ring(struct nvme_choice *choice, const struct nvme_budget *budget, uint64_t least)
{
    uint64_t most = MIN(least + least / 8, budget->nvme_bytes);
    for (uint32_t times = NVME_RING_TIMES; times > 0; times--)
        if (fit_fewest(choice, budget->host_bytes, times) && bytes_of_chosen(choice) <= most)
            return;
}

bool nvme_choice_fewest(struct nvme_choice *choice, const struct nvme_budget *budget,
                        GError **error)
{
    bool fits = fit_fewest(choice, budget->host_bytes, MAX(budget->ring_times, 1));
    uint64_t least = bytes_of_chosen(choice);
    if (fits && least <= budget->nvme_bytes) {
        if (!budget->ring_times)
            widen_ring(choice, budget, least);
        return true;
    }
    if (fits)
        return refuse(error, PLAN_MEMORY_NVME, least, budget->nvme_bytes,
                      "what the host has no room for takes");
    return refuse(error, PLAN_MEMORY_HOST, fitting_host_bytes(choice, budget), budget->host_bytes,
                  "beside what can live in NVMe the run takes");
}

/* ---- those that are named ---- */

bool nvme_choice_stays(struct nvme_choice *choice, const struct nvme_budget *budget, GError **error)
{
    const struct nvme_stays *stays = budget->stays;
    for (uint32_t i = 0; i < choice->candidates->len; i++) {
        chunk_id chunk = candidate_at(choice->candidates, i)->chunk;
        if (!stays->lives[chunk])
            continue;
        g_array_append_val(choice->chosen, chunk);
        nvme_uses_visits_that_stay(choice->uses, chunk, stays->stays + stays->first[chunk],
                                   choice->visits);
    }
    g_array_sort(choice->visits, nvme_visit_by_need);
    uint64_t rest = rest_bytes(choice), chosen = bytes_of_chosen(choice);
    if (chosen > budget->nvme_bytes)
        return refuse(error, PLAN_MEMORY_NVME, chosen, budget->nvme_bytes,
                      "what lives there takes");
    if (rest + least_room(choice) <= budget->host_bytes)
        choice->room_bytes = find_ring(choice, budget->host_bytes - rest);
    return choice->room_bytes ||
           refuse(error, PLAN_MEMORY_HOST, rest + chosen, budget->host_bytes,
                  "with a slot for each chunk that lives in NVMe the run takes");
}
