#include "chunks/nvme_visits.h"

#include "chunks/gathering.h"
#include "chunks/residency/residency_state.h"

/* One use of the host's copy. */
struct host_use {
    uint32_t item;
    bool reads, writes;
    enum residency_state then; /* of the chunk behind the item */
};

struct nvme_uses {
    const struct plan *plan;
    GArray **of; /* [chunk_count] of struct host_use, in order; NULL if nothing uses it */
    bool *moves; /* [chunk_count] it is copied to or from the device, or gathered from */
    bool *dies;  /* [chunk_count] its bytes are not needed at some time */
    bool *first; /* [chunk_count] what is gathered before the iteration begins needs it */
};

/* An iteration that is walked through. */
struct plan_walk {
    struct nvme_uses *uses;
    const struct accesses *accesses;
    const struct gathering *gathering; /* NULL if nothing is gathered */
    enum residency_state *state;       /* [chunk_count] */
    GArray *used;                      /* chunk_id of those that the item uses */
    uint32_t item;
};

static void add(struct plan_walk *walk, chunk_id chunk, const struct host_use *use)
{
    GArray **of = &walk->uses->of[chunk];
    if (!*of)
        *of = g_array_new(FALSE, FALSE, sizeof(struct host_use));
    g_array_append_val(*of, *use);
    g_array_append_val(walk->used, chunk);
}

static void change(struct plan_walk *walk, chunk_id chunk, enum residency_event event)
{
    bool legal = residency_state_next(walk->state[chunk], event, &walk->state[chunk]);
    g_assert(legal);
}

gint nvme_visit_by_need(gconstpointer left, gconstpointer right)
{
    const struct nvme_visit *a = left, *b = right;
    if (a->needed != b->needed)
        return a->needed < b->needed ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

/* ---- what uses them ---- */

/* A gather reads the shards that are not on the device. */
static void add_gather(struct plan_walk *walk, chunk_id chunk, const struct host_use *use)
{
    const struct gathering *gathering = walk->gathering;
    for (uint32_t p = gathering->first[chunk]; p < gathering->first[chunk + 1]; p++) {
        chunk_id source = gathering->parts[p].source;
        walk->uses->moves[source] = true;
        if (!residency_on_device(walk->state[source]))
            add(walk, source, use);
    }
}

static void add_action(struct plan_walk *walk, const struct plan_action *action)
{
    chunk_id chunk = action->chunk;
    bool writes = action->kind == PLAN_WRITE_BACK || action->kind == PLAN_FLUSH;
    const struct host_use use = {.item = walk->item, .reads = !writes, .writes = writes};
    if (action->kind == PLAN_WAIT)
        return;
    walk->uses->moves[chunk] = true;
    if (action->kind == PLAN_FETCH &&
        walk->uses->plan->layout->chunks[chunk].list == TRACE_GATHERED)
        add_gather(walk, chunk, &use);
    else if (writes || action->kind == PLAN_FETCH)
        add(walk, chunk, &use);
    change(walk, chunk, residency_event_of_action(action->kind));
}

static void add_operator(struct plan_walk *walk, moment_id moment)
{
    const struct accesses *accesses = walk->accesses;
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        enum residency_event event = residency_event_of(access->flags);
        const struct host_use use = {.item = walk->item,
                                     .reads = event != RESIDENCY_HOST_FRESH_WRITE,
                                     .writes = event != RESIDENCY_HOST_READ};
        if (access->flags & ACCESS_ON_HOST)
            add(walk, access->chunk, &use);
        else
            walk->uses->moves[access->chunk] = true;
        change(walk, access->chunk, event);
        if (access->flags & ACCESS_LAST) {
            change(walk, access->chunk, RESIDENCY_DIE);
            walk->uses->dies[access->chunk] = true;
        }
    }
}

/* Notes where the chunks are that the item has used, and goes on to the next. */
static void end_item(struct plan_walk *walk)
{
    for (uint32_t i = 0; i < walk->used->len; i++) {
        chunk_id chunk = g_array_index(walk->used, chunk_id, i);
        GArray *of = walk->uses->of[chunk];
        g_array_index(of, struct host_use, of->len - 1).then = walk->state[chunk];
    }
    g_array_set_size(walk->used, 0);
    walk->item++;
}

static void note_gathered(struct plan_walk *walk, chunk_id chunk)
{
    const struct gathering *gathering = walk->gathering;
    for (uint32_t p = gathering->first[chunk]; p < gathering->first[chunk + 1]; p++)
        walk->uses->first[gathering->parts[p].source] = true;
}

/* Puts chunks where they are before the first iteration. */
static void begin(struct plan_walk *walk)
{
    const struct plan *plan = walk->uses->plan;
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++) {
        walk->state[c] = residency_state_initial(plan, c);
        if (plan->initial_address[c] == NO_ADDRESS)
            continue;
        walk->uses->moves[c] = true;
        if (!residency_on_device(walk->state[c]))
            change(walk, c, RESIDENCY_FETCH);
        if (plan->layout->chunks[c].list == TRACE_GATHERED)
            note_gathered(walk, c);
    }
}

static void iterate(struct plan_walk *walk)
{
    const struct plan *plan = walk->uses->plan;
    walk->item = 0;
    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        for (uint32_t i = plan->first_action[m]; i < plan->first_action[m + 1]; i++) {
            add_action(walk, &plan->actions[i]);
            end_item(walk);
        }
        if (m < plan->moment_count) {
            add_operator(walk, m);
            end_item(walk);
        }
    }
}

static void forget(struct nvme_uses *uses)
{
    for (chunk_id c = 0; c < uses->plan->layout->chunk_count; c++)
        g_clear_pointer(&uses->of[c], g_array_unref);
}

/* A chunk that begins on the device does not begin the first iteration as it begins the others. */
static void walk_through(struct plan_walk *walk)
{
    begin(walk);
    iterate(walk);
    forget(walk->uses);
    iterate(walk);
}

struct nvme_uses *nvme_uses_new(const struct plan *plan, const struct accesses *accesses)
{
    uint32_t chunks = plan->layout->chunk_count;
    struct nvme_uses *uses = g_new0(struct nvme_uses, 1);
    struct gathering *gathering = gathering_new(plan->layout);
    g_autofree enum residency_state *state = g_new(enum residency_state, chunks);
    g_autoptr(GArray) used = g_array_new(FALSE, FALSE, sizeof(chunk_id));
    struct plan_walk walk = {uses, accesses, gathering, state, used, 0};
    uses->plan = plan;
    uses->of = g_new0(GArray *, chunks);
    uses->moves = g_new0(bool, chunks);
    uses->dies = g_new0(bool, chunks);
    uses->first = g_new0(bool, chunks);
    walk_through(&walk);
    gathering_free(gathering);
    return uses;
}

void nvme_uses_free(struct nvme_uses *uses)
{
    if (!uses)
        return;
    forget(uses);
    g_free(uses->of);
    g_free(uses->moves);
    g_free(uses->dies);
    g_free(uses->first);
    g_free(uses);
}

/* ---- who can live there, and when it must be in the host pool ---- */

static bool is_of_states(uint8_t list)
{
    return list == TRACE_MASTER || list == TRACE_EXP_AVG || list == TRACE_EXP_AVG_SQ;
}

enum nvme_kind nvme_uses_kind(const struct nvme_uses *uses, chunk_id chunk)
{
    const struct plan *plan = uses->plan;
    bool moves = uses->moves[chunk] || uses->dies[chunk];
    if (uses->first[chunk] || plan->host_address[chunk] == NO_ADDRESS)
        return NVME_NEVER;
    if (!uses->of[chunk])
        return plan->initial_address[chunk] != NO_ADDRESS ? NVME_RESTS : NVME_NEVER;
    return !moves && is_of_states(plan->layout->chunks[chunk].list) ? NVME_STATES : NVME_COMES;
}

static const struct host_use *use_at(const GArray *uses, uint32_t i)
{
    return &g_array_index(uses, struct host_use, i);
}

/* Bytes that are valid on the host alone are stored. Those that the device has, too, are stored if
 * they are read again from the host, or outlive the iteration. */
static bool must_store(const struct nvme_uses *uses, chunk_id chunk, uint32_t last)
{
    const GArray *of = uses->of[chunk];
    enum residency_state then = use_at(of, last)->then;
    if (then == RESIDENCY_HOST || then == RESIDENCY_WRITING_BACK)
        return true;
    return (then == RESIDENCY_FETCHING || then == RESIDENCY_BOTH) &&
           (!uses->dies[chunk] || use_at(of, (last + 1) % of->len)->reads);
}

bool nvme_uses_passes(const struct nvme_uses *uses, chunk_id chunk)
{
    const GArray *of = uses->of[chunk];
    return of && uses->dies[chunk] && !use_at(of, 0)->reads &&
           !must_store(uses, chunk, of->len - 1);
}

uint32_t nvme_uses_count(const struct nvme_uses *uses, chunk_id chunk)
{
    return uses->of[chunk] ? uses->of[chunk]->len : 0;
}

struct nvme_use nvme_uses_at(const struct nvme_uses *uses, chunk_id chunk, uint32_t number)
{
    const struct host_use *use = use_at(uses->of[chunk], number);
    return (struct nvme_use){use->item, use->reads, use->writes, must_store(uses, chunk, number)};
}

/* Appends the visit of the uses [begin, end). */
static void append_visit(const struct nvme_uses *uses, chunk_id chunk, uint32_t begin, uint32_t end,
                         GArray *visits)
{
    const GArray *of = uses->of[chunk];
    bool written = false;
    for (uint32_t i = begin; i < end; i++)
        written |= use_at(of, i)->writes;
    const struct nvme_visit visit = {.chunk = chunk,
                                     .needed = use_at(of, begin)->item,
                                     .left = use_at(of, end - 1)->item + 1,
                                     .earliest = begin ? use_at(of, begin - 1)->item + 1 : 0,
                                     .loads = use_at(of, begin)->reads,
                                     .stores = written && must_store(uses, chunk, end - 1),
                                     .bytes = plan_nvme_slot(uses->plan->layout, chunk),
                                     .taken = use_at(of, begin)->item,
                                     .host_address = NO_ADDRESS};
    g_array_append_val(visits, visit);
}

/* Returns whether nothing but at most `near` items lies between a use and the one before it. */
static bool is_near(const GArray *of, uint32_t use, uint32_t near)
{
    uint32_t apart = use_at(of, use)->item - use_at(of, use - 1)->item;
    return apart <= 1 || apart - 1 <= near;
}

void nvme_uses_visits(const struct nvme_uses *uses, chunk_id chunk, uint32_t near, GArray *visits)
{
    const GArray *of = uses->of[chunk];
    near = nvme_uses_kind(uses, chunk) == NVME_STATES ? UINT32_MAX : near;
    for (uint32_t begin = 0, end; of && begin < of->len; begin = end) {
        for (end = begin + 1; end < of->len && is_near(of, end, near); end++)
            continue;
        append_visit(uses, chunk, begin, end, visits);
    }
}

void nvme_uses_visits_that_stay(const struct nvme_uses *uses, chunk_id chunk, const uint8_t *stays,
                                GArray *visits)
{
    const GArray *of = uses->of[chunk];
    for (uint32_t begin = 0, end; of && begin < of->len; begin = end) {
        for (end = begin + 1; end < of->len && (stays[end - 1] || is_near(of, end, 0)); end++)
            continue;
        append_visit(uses, chunk, begin, end, visits);
    }
}
