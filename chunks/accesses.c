#include "chunks/accesses.h"

#include "policies/policy.h"

/* A tensor's bytes in a list are dead from a last read to the overwrite that follows. A chunk is
 * dead when all its tensors are. Gathering reads shared parameters, so an access to a gathered
 * tensor keeps the parameter alive as a read would, and that access decides when the parameter
 * dies; gathered tensors themselves do not die. */
struct liveness {
    const struct trace *trace;
    const struct layout *layout;
    uint8_t *next_overwrites; /* [access_count] the tensor's next access, cyclic, is an overwrite */
    uint32_t *alive;          /* [chunk_count] tensors of the chunk that are alive */
};

/* Returns the places that a list may have at most; no list has more than the lists of states. */
static uint32_t most_places(const struct layout *layout)
{
    return layout_place_index(layout, TRACE_MASTER, layout->tensor_count, 0);
}

/* Buffers are behind all lists. */
static uint32_t key_of(const struct layout *layout, const struct trace_access *access)
{
    uint32_t list = access->list == TRACE_GATHERED ? TRACE_PARAM : access->list;
    return list * most_places(layout) +
           layout_place_index(layout, access->list, access->tensor, access->block);
}

/* An update ends the gathered copy, and its access to the parameter is another one. */
static bool ends_copy(const struct trace_access *access)
{
    return access->list == TRACE_GATHERED && access->mode != TRACE_READ;
}

/* Visits the accesses backwards, twice: the first pass tells the second what follows the
 * iteration's last accesses. */
static void look_forward(struct liveness *live)
{
    const struct trace *trace = live->trace;
    const struct layout *layout = live->layout;
    uint32_t most = most_places(layout), keys = TRACE_LISTS * most + trace->buffer_count;
    g_autofree uint8_t *overwrites_next = g_new0(uint8_t, keys);
    for (int round = 0; round < 2; round++) {
        for (uint32_t a = trace->access_count; a-- > 0;) {
            if (ends_copy(&trace->accesses[a]))
                continue;
            uint32_t key = key_of(layout, &trace->accesses[a]);
            live->next_overwrites[a] = overwrites_next[key];
            overwrites_next[key] = trace->accesses[a].mode == TRACE_OVERWRITE;
        }
    }
    /* Counts at the start of the iteration, when no buffer is alive. A tensor that is never
     * accessed keeps its bytes. */
    for (int list = 0; list < TRACE_GATHERED; list++)
        for (uint32_t i = 0; layout->places[list] && i < layout_place_count(layout, list); i++)
            if (!overwrites_next[(uint32_t)list * most + i])
                live->alive[layout->places[list][i].chunk]++;
}

static uint32_t chunk_of(const struct layout *layout, const struct trace_access *access)
{
    return layout_place_of(layout, access)->chunk;
}

/* Updates what is alive. */
static void pass_access(struct liveness *live, uint32_t index)
{
    const struct trace_access *access = &live->trace->accesses[index];
    struct trace_access kept = *access;
    if (access->list == TRACE_GATHERED)
        kept.list = TRACE_PARAM;
    if (ends_copy(access))
        return;
    bool was_alive = access->mode != TRACE_OVERWRITE;
    bool is_alive = !live->next_overwrites[index];
    live->alive[chunk_of(live->layout, &kept)] += (uint32_t)is_alive - (uint32_t)was_alive;
}

static bool is_alive(const struct liveness *live, chunk_id chunk)
{
    return live->alive[chunk] || live->layout->chunks[chunk].list == TRACE_GATHERED;
}

/* Appends one moment's accesses. `slot` is scratch: [chunk_count] index + 1 of the chunk's item. */
static void add_moment(struct accesses *accesses, struct liveness *live, uint32_t moment,
                       uint32_t *slot)
{
    const struct trace *trace = live->trace;
    const struct trace_operator *op = &trace->operators[moment];
    uint32_t place_flag = op->place == TRACE_ON_HOST ? ACCESS_ON_HOST : 0;
    uint32_t begin = accesses->count;
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[op->first_access + i];
        chunk_id chunk = chunk_of(live->layout, access);
        if (!slot[chunk]) {
            uint32_t fresh = is_alive(live, chunk) ? 0 : ACCESS_FRESH;
            uint32_t on_host = ends_copy(access) ? ACCESS_ON_HOST : place_flag;
            accesses->items[accesses->count] = (struct chunk_access){chunk, on_host | fresh};
            slot[chunk] = ++accesses->count;
        }
        if (access->mode != TRACE_READ)
            accesses->items[slot[chunk] - 1].flags |= ACCESS_WRITES;
    }
    for (uint32_t i = 0; i < op->access_count; i++)
        pass_access(live, op->first_access + i);
    for (uint32_t i = begin; i < accesses->count; i++) {
        chunk_id chunk = accesses->items[i].chunk;
        slot[chunk] = 0;
        if (!is_alive(live, chunk))
            accesses->items[i].flags |= ACCESS_LAST;
    }
}

/* Returns what is ahead of the access before one with `flags`, given what is ahead of that one. */
static uint8_t ahead_of(uint32_t flags, uint8_t ahead)
{
    if (!(flags & ACCESS_ON_HOST))
        return (uint8_t)((flags & ACCESS_FRESH ? 0 : PSTAR_AHEAD_READ) |
                         (flags & ACCESS_WRITES ? PSTAR_AHEAD_WRITE : 0));
    if (flags & ACCESS_WRITES)
        ahead &= (uint8_t)~PSTAR_AHEAD_READ;
    return ahead | PSTAR_AHEAD_HOST;
}

static void find_next_uses(struct accesses *accesses)
{
    uint32_t moments = accesses->moment_count;
    uint32_t *next = accesses->first_device_use;
    g_autofree uint8_t *ahead = g_new0(uint8_t, accesses->chunk_count);
    memset(next, 0xff, accesses->chunk_count * sizeof *next);
    for (int round = 0; round < 2; round++) {
        for (uint32_t m = moments; m-- > 0;) {
            for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
                uint32_t chunk = accesses->items[a].chunk, flags = accesses->items[a].flags;
                accesses->next_device_use[a] = next[chunk];
                accesses->ahead[a] = ahead[chunk];
                ahead[chunk] = ahead_of(flags, ahead[chunk]);
                if (!(flags & ACCESS_ON_HOST))
                    next[chunk] = m;
            }
        }
        for (uint32_t c = 0; round == 0 && c < accesses->chunk_count; c++)
            if (next[c] != NO_INDEX)
                next[c] += moments;
    }
}

struct accesses *accesses_new(const struct trace *trace, const struct layout *layout,
                              const uint64_t *non_model)
{
    return accesses_new_digested(trace, NULL, layout, non_model);
}

/* A buffer that lives through all moments stays where it is until the next iteration, and the room
 * above it, too, as in every moment. */
static uint64_t find_resting(const struct trace *trace, const uint64_t *non_model)
{
    bool stays = false;
    uint64_t least = UINT64_MAX;
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        stays |= trace->buffers[b].first == 0 &&
                 trace->buffers[b].last + 1 == trace->operator_count;
    for (uint32_t m = 0; stays && m < trace->operator_count; m++)
        least = MIN(least, non_model[m]);
    return stays ? least : 0;
}

struct accesses *accesses_new_digested(const struct trace *trace, const char *digest,
                                       const struct layout *layout, const uint64_t *non_model)
{
    struct liveness live = {.trace = trace, .layout = layout};
    live.next_overwrites = g_new0(uint8_t, trace->access_count);
    live.alive = g_new0(uint32_t, layout->chunk_count);
    look_forward(&live);

    struct accesses *accesses = g_new0(struct accesses, 1);
    accesses->digest = g_strdup(digest);
    accesses->choices = run_choices_of(trace);
    accesses->moment_count = trace->operator_count;
    accesses->chunk_count = layout->chunk_count;
    accesses->first = g_new(uint32_t, trace->operator_count + 1);
    accesses->items = g_new(struct chunk_access, trace->access_count);
    accesses->non_model = g_memdup2(non_model, trace->operator_count * sizeof *non_model);
    accesses->resting = find_resting(trace, non_model);
    g_autofree uint32_t *slot = g_new0(uint32_t, layout->chunk_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        accesses->first[m] = accesses->count;
        add_moment(accesses, &live, m, slot);
    }
    accesses->first[trace->operator_count] = accesses->count;
    accesses->next_device_use = g_new(uint32_t, accesses->count);
    accesses->ahead = g_new(uint8_t, accesses->count);
    accesses->first_device_use = g_new(uint32_t, layout->chunk_count);
    find_next_uses(accesses);
    g_free(live.next_overwrites);
    g_free(live.alive);
    return accesses;
}

void accesses_free(struct accesses *accesses)
{
    if (!accesses)
        return;
    g_free(accesses->digest);
    run_choices_free(accesses->choices);
    g_free(accesses->first);
    g_free(accesses->items);
    g_free(accesses->next_device_use);
    g_free(accesses->ahead);
    g_free(accesses->first_device_use);
    g_free(accesses->non_model);
    g_free(accesses);
}

static const struct chunk_access *find_access(const struct accesses *accesses, moment_id moment,
                                              chunk_id chunk)
{
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++)
        if (accesses->items[a].chunk == chunk)
            return &accesses->items[a];
    g_assert_not_reached();
}

uint32_t accesses_next_need(const struct accesses *accesses, uint32_t access)
{
    const struct chunk_access *item = &accesses->items[access];
    uint32_t next = accesses->next_device_use[access];
    if (!(item->flags & ACCESS_WRITES) || next == NO_INDEX)
        return NO_INDEX;
    const struct chunk_access *use = find_access(accesses, next % accesses->moment_count,
                                                 item->chunk);
    return use->flags & ACCESS_FRESH ? NO_INDEX : next;
}

uint64_t accesses_least_arena_bytes(const struct accesses *accesses, const struct layout *layout,
                                    uint32_t *moment)
{
    uint64_t least = 0;
    for (uint32_t m = 0; m < accesses->moment_count; m++) {
        uint64_t bytes = accesses->non_model[m];
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
            if (!(accesses->items[a].flags & ACCESS_ON_HOST))
                bytes += layout->chunks[accesses->items[a].chunk].slot_bytes;
        if (bytes > least) {
            least = bytes;
            if (moment)
                *moment = m;
        }
    }
    return least;
}
