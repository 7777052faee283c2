#include "planner/proof/joint.h"

#include "planner/proof/bound.h"

#include <string.h>

/* A bound that needs more sets of chunks at once is given up, and one that evicts more often. */
enum { SETS_MOST = 2000, EVICTIONS_MOST = 400000 };

/* Chunks of less than this part of the device are not taken together, and states of less than this
 * part of it stay for nothing. */
enum { LARGE_PART = 64 };

/* Sets are compared with so many of the cheapest ones. */
enum { RIVALS = 64 };

/* States that stay take the device in at most about so many steps. */
enum { KEPT_STEPS = 12 };

#define IMPOSSIBLE ((scaled_ns)1 << 120)

/* A moment of forward or backward whose operator uses chunks that are taken together. Each field is
 * a set of them: those that are used, and of these those that leave dirty afterwards, those whose
 * next use needs their bytes, and those that are not used again. */
struct joint_step {
    uint32_t used, dirty, fetched, over;
    uint64_t room;     /* for chunks that are taken together */
    uint64_t gap_room; /* the least room at the moments since the step before */
};

/* A chunk that forward and backward do not use. The device's update fetches and writes it, unless
 * it stays for the whole of forward and backward. */
struct joint_state {
    uint64_t bytes, h2d_ns, d2h_ns;
};

/* What a group takes if its updates run on one side. */
struct joint_work {
    uint64_t compute_ns, host_ns, h2d_ns, d2h_ns;
    GArray *states; /* struct joint_state */
};

struct joint_chunk {
    chunk_id chunk;
    uint64_t bytes, h2d_ns, d2h_ns;
};

struct joint_model {
    const struct time_job *job;
    struct joint_chunk chunks[CERTIFICATE_JOINT_MOST]; /* the largest first */
    uint32_t chunk_count, group_count, side_count;
    GArray *steps;                        /* struct joint_step */
    struct joint_work always;             /* wherever updates run */
    struct joint_work *works[TIME_SIDES]; /* [group_count] */
    uint64_t state_least, state_bytes;    /* of states that do not stay for nothing: the smallest
                                             one, and all of them */
    uint64_t slowest_ns, slowest_bytes;   /* of the counted chunk whose fetch takes the longest for
                                             its size */
};

/* ---- building ---- */

/* How forward and backward use a chunk, and then the updates. */
struct joint_use {
    uint32_t first, last;               /* flags in forward and backward; NO_INDEX without a use */
    uint32_t update_first, update_last; /* flags in the updates */
    bool other_host;                    /* an update uses it on the host */
    bool is_mixed;                      /* others than the device or its group use it */
};

/* Returns whether all updates that can be placed follow forward and backward, of one rank and the
 * whole model. */
static bool is_simple(const struct time_job *job, moment_id update)
{
    const struct trace *trace = job->sides[0];
    if (trace->ranks > 1 || trace->stages > 1 || update == 0)
        return false;
    for (uint32_t m = 0; m < update; m++)
        if (time_is_placed(&trace->operators[m]) || trace_operator_reduces(&trace->operators[m]))
            return false;
    return !job->sides[TIME_HOST] || time_find_update(job->sides[TIME_HOST]) == update;
}

static void note_use(struct joint_use *use, uint32_t flags, bool in_update, bool own)
{
    if (!in_update) {
        use->is_mixed |= (flags & ACCESS_ON_HOST) != 0;
        use->first = use->first == NO_INDEX ? flags : use->first;
        use->last = flags;
        return;
    }
    use->is_mixed |= !own;
    use->other_host |= (flags & ACCESS_ON_HOST) != 0;
    use->update_first = use->update_first == NO_INDEX ? flags : use->update_first;
    use->update_last = flags;
}

/* Returns the uses of all chunks on one side: [chunk_count], which the caller frees. */
static struct joint_use *find_uses(const struct time_job *job, const struct accesses *accesses,
                                   int side, moment_id update)
{
    const struct layout *layout = job->plan->layout;
    const struct trace *trace = job->sides[side];
    struct joint_use *uses = g_new(struct joint_use, layout->chunk_count);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        uses[c] = (struct joint_use){NO_INDEX, NO_INDEX, NO_INDEX, NO_INDEX,
                                     .is_mixed = layout->chunks[c].list == TRACE_GATHERED};
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint32_t group = time_group_of(trace, layout, m);
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            note_use(&uses[access->chunk], access->flags, m >= update,
                     layout->chunks[access->chunk].group == group);
        }
    }
    return uses;
}

static int largest_first(const void *left, const void *right)
{
    const struct joint_chunk *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

static struct joint_chunk describe_chunk(const struct time_job *job, chunk_id c)
{
    const struct chunk *chunk = &job->plan->layout->chunks[c];
    return (struct joint_chunk){c, chunk->slot_bytes,
                                time_job_copy_ns(job, &job->costs->h2d, chunk->copy_bytes),
                                time_job_copy_ns(job, &job->costs->d2h, chunk->copy_bytes)};
}

/* Chooses the largest of the chunks that only the device uses in forward and backward. */
static void choose_chunks(struct joint_model *model, const struct joint_use *uses, uint32_t most)
{
    const struct plan *plan = model->job->plan;
    g_autoptr(GArray) chunks = g_array_new(FALSE, FALSE, sizeof(struct joint_chunk));
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        const struct joint_chunk chunk = describe_chunk(model->job, c);
        if (!uses[c].is_mixed && uses[c].first != NO_INDEX &&
            chunk.bytes >= plan->device_budget / LARGE_PART)
            g_array_append_val(chunks, chunk);
    }
    g_array_sort(chunks, largest_first);
    model->chunk_count = MIN(most, chunks->len);
    for (uint32_t i = 0; i < model->chunk_count; i++)
        model->chunks[i] = g_array_index(chunks, struct joint_chunk, i);
}

/* Appends the steps without `fetched` and `over`, which depend on what follows. */
static void add_steps(struct joint_model *model, const struct accesses *accesses,
                      const uint64_t *non_model, moment_id update)
{
    const struct layout *layout = model->job->plan->layout;
    g_autofree uint32_t *sets = g_new0(uint32_t, layout->chunk_count);
    uint64_t gap_room = UINT64_MAX;
    for (uint32_t i = 0; i < model->chunk_count; i++)
        sets[model->chunks[i].chunk] = UINT32_C(1) << i;
    for (uint32_t m = 0; m < update; m++) {
        struct joint_step step = {.gap_room = gap_room};
        uint64_t others = non_model[m];
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            uint32_t set = sets[access->chunk];
            bool dirty = access->flags & ACCESS_WRITES && !(access->flags & ACCESS_LAST);
            step.used |= set;
            step.dirty |= dirty ? set : 0;
            step.fetched |= access->flags & ACCESS_FRESH ? 0 : set; /* shifted to the use before */
            if (!set && !(access->flags & ACCESS_ON_HOST))
                others += layout->chunks[access->chunk].slot_bytes;
        }
        step.room = model->job->plan->device_budget - MIN(others, model->job->plan->device_budget);
        gap_room = step.used ? UINT64_MAX : MIN(gap_room, step.room);
        if (step.used)
            g_array_append_val(model->steps, step);
    }
}

/* Tells each step whether the next uses of its chunks need their bytes. */
static void look_ahead(GArray *steps)
{
    uint32_t later = 0, fetched = 0;
    for (guint i = steps->len; i-- > 0;) {
        struct joint_step *step = &g_array_index(steps, struct joint_step, i);
        uint32_t own = step->fetched;
        step->fetched = fetched & step->used;
        step->over = step->used & ~later;
        later |= step->used;
        fetched = (fetched & ~step->used) | own;
    }
}

static bool is_left_dirty(uint32_t flags)
{
    return flags != NO_INDEX && flags & ACCESS_WRITES && !(flags & ACCESS_LAST);
}

/* Adds the copies between forward and backward and the updates of the host, which find the host's
 * bytes up to date and make the device's useless. */
static void add_host_copies(struct joint_work *work, const struct joint_use *use,
                            const struct joint_chunk *chunk)
{
    bool reads = use->update_first & ACCESS_ON_HOST && !(use->update_first & ACCESS_FRESH);
    bool writes = use->update_last & ACCESS_ON_HOST && is_left_dirty(use->update_last);
    work->d2h_ns += reads && is_left_dirty(use->last) ? chunk->d2h_ns : 0;
    work->h2d_ns += writes && !(use->first & ACCESS_FRESH) ? chunk->h2d_ns : 0;
}

static void add_state(struct joint_model *model, struct joint_work *work,
                      const struct joint_use *use, const struct joint_chunk *chunk)
{
    const struct joint_state state = {chunk->bytes,
                                      use->update_first & ACCESS_FRESH ? 0 : chunk->h2d_ns,
                                      is_left_dirty(use->update_last) ? chunk->d2h_ns : 0};
    if (use->other_host)
        return;
    g_array_append_val(work->states, state);
    model->state_least = MIN(model->state_least, chunk->bytes);
    model->state_bytes += chunk->bytes;
}

static void add_operator(struct joint_model *model, int side, moment_id m)
{
    const struct time_job *job = model->job;
    const struct trace *trace = job->sides[side];
    const struct trace_operator *op = &trace->operators[m];
    uint32_t group = time_group_of(trace, job->plan->layout, m);
    struct joint_work *work = group == NO_INDEX ? &model->always : &model->works[side][group];
    if (group == NO_INDEX && side > 0) /* it is the same on both */
        return;
    if (op->place == TRACE_ON_DEVICE) {
        work->compute_ns += time_job_device_ns(job, op);
        return;
    }
    work->host_ns += time_job_at_least(job, op->duration_ns);
    work->d2h_ns += time_job_copy_ns(job, &job->costs->d2h, op->d2h_bytes);
}

static void note_slowest(struct joint_model *model, const struct joint_chunk *chunk)
{
    if ((scaled_ns)chunk->h2d_ns * model->slowest_bytes >=
        (scaled_ns)model->slowest_ns * chunk->bytes) {
        model->slowest_ns = chunk->h2d_ns;
        model->slowest_bytes = chunk->bytes;
    }
}

static void add_side(struct joint_model *model, const struct joint_use *uses, int side)
{
    const struct layout *layout = model->job->plan->layout;
    model->works[side] = g_new0(struct joint_work, model->group_count);
    for (uint32_t g = 0; g < model->group_count; g++)
        model->works[side][g].states = g_array_new(FALSE, FALSE, sizeof(struct joint_state));
    for (uint32_t m = 0; m < model->job->sides[side]->operator_count; m++)
        add_operator(model, side, m);
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        const struct joint_chunk chunk = describe_chunk(model->job, c);
        struct joint_work *work = &model->works[side][layout->chunks[c].group];
        if (uses[c].is_mixed || chunk.bytes < model->job->plan->device_budget / LARGE_PART)
            continue;
        note_slowest(model, &chunk);
        if (uses[c].update_first == NO_INDEX)
            continue;
        if (uses[c].first == NO_INDEX)
            add_state(model, work, &uses[c], &chunk);
        else
            add_host_copies(work, &uses[c], &chunk);
    }
}

static struct joint_model *joint_model_new(const struct time_job *job, uint32_t most)
{
    moment_id update = time_find_update(job->sides[0]);
    if (!is_simple(job, update))
        return NULL;
    struct joint_model *model = g_new0(struct joint_model, 1);
    struct non_model *non_model = non_model_place(job->sides[0]);
    model->job = job;
    model->group_count = job->plan->layout->group_count;
    model->side_count = job->sides[TIME_HOST] ? 2 : 1;
    model->steps = g_array_new(FALSE, FALSE, sizeof(struct joint_step));
    model->state_least = UINT64_MAX;
    model->slowest_bytes = 1;
    for (int side = 0; side < (int)model->side_count; side++) {
        struct accesses *accesses = accesses_new(job->sides[side], job->plan->layout,
                                                 non_model->extent);
        g_autofree struct joint_use *uses = find_uses(job, accesses, side, update);
        if (side == 0) {
            choose_chunks(model, uses, most);
            add_steps(model, accesses, non_model->extent, update);
            look_ahead(model->steps);
        }
        add_side(model, uses, side);
        accesses_free(accesses);
    }
    non_model_free(non_model);
    return model;
}

static void joint_model_free(struct joint_model *model)
{
    if (!model)
        return;
    for (uint32_t side = 0; side < model->side_count; side++) {
        for (uint32_t g = 0; g < model->group_count; g++)
            g_array_unref(model->works[side][g].states);
        g_free(model->works[side]);
    }
    g_array_unref(model->steps);
    g_free(model);
}

/* ---- the cheapest way from set to set ---- */

/* A set of chunks that are on the device after a step, and the least cost of getting there. What
 * was evicted has paid for its write-back and for its next fetch. */
struct joint_set {
    scaled_ns cost;
    uint32_t set;
};

struct joint_walk {
    const struct joint_model *model;
    const struct certificate_joint *prices;
    scaled_ns evicting[CERTIFICATE_JOINT_MOST]; /* costs, since the last use of each chunk */
    GArray *sets, *next;                        /* struct joint_set */
    GHashTable *numbers;                        /* of the sets in `next`, from 1 */
    uint32_t evictions;
    uint32_t written; /* the dirty chunks that the operator of the step before wrote */
    uint32_t used;    /* by the step at hand; 0 in a gap */
    uint64_t budget;  /* of the device, for these chunks */
};

static uint64_t bytes_of(const struct joint_model *model, uint32_t set)
{
    uint64_t bytes = 0;
    for (; set; set &= set - 1)
        bytes += model->chunks[__builtin_ctz(set)].bytes;
    return bytes;
}

static scaled_ns cost_of_evicting(const struct joint_walk *w, uint32_t set)
{
    scaled_ns cost = 0;
    for (; set; set &= set - 1)
        cost += w->evicting[__builtin_ctz(set)];
    return cost;
}

static void add_set(struct joint_walk *w, uint32_t set, scaled_ns cost)
{
    guint number = GPOINTER_TO_UINT(g_hash_table_lookup(w->numbers, GUINT_TO_POINTER(set)));
    const struct joint_set item = {cost, set};
    if (number) {
        struct joint_set *known = &g_array_index(w->next, struct joint_set, number - 1);
        known->cost = MIN(known->cost, cost);
        return;
    }
    g_array_append_val(w->next, item);
    g_hash_table_insert(w->numbers, GUINT_TO_POINTER(set), GUINT_TO_POINTER(w->next->len));
}

static bool is_given_up(const struct joint_walk *w)
{
    return w->next->len > SETS_MOST || w->evictions > EVICTIONS_MOST;
}

/* Returns the cost of the time in which nothing can be fetched. What the operator before wrote, and
 * leaves now, holds its room until its write-back is over. If what the next operator uses has no
 * room beside it, only `spare` bytes can be fetched meanwhile. */
static scaled_ns cost_of_waiting(const struct joint_walk *w, uint32_t before, uint32_t kept)
{
    const struct joint_model *model = w->model;
    uint32_t leaving = before & ~kept & w->written, missing = w->used & ~kept;
    uint64_t held = bytes_of(model, kept | leaving), d2h_ns = UINT64_MAX;
    uint64_t spare = w->budget - MIN(held, w->budget);
    if (!leaving || bytes_of(model, missing) <= spare)
        return 0;
    for (; leaving; leaving &= leaving - 1)
        d2h_ns = MIN(d2h_ns, model->chunks[__builtin_ctz(leaving)].d2h_ns);
    scaled_ns fetched_ns = (scaled_ns)spare * model->slowest_ns / model->slowest_bytes + 1;
    return d2h_ns > fetched_ns ? (d2h_ns - fetched_ns) * (scaled_ns)w->prices->h2d : 0;
}

/* Adds all sets that remain when enough chunks of `evictable` leave `before`, the larger ones
 * first; more than enough only if that saves time. */
static void evict(struct joint_walk *w, uint32_t before, uint32_t kept, scaled_ns cost,
                  uint64_t excess, uint32_t evictable)
{
    scaled_ns waiting = excess ? 0 : cost_of_waiting(w, before, kept);
    if (!excess)
        add_set(w, kept | w->used, cost + waiting);
    while (!is_given_up(w) && evictable && (waiting || excess) &&
           bytes_of(w->model, evictable) >= excess) {
        uint32_t i = (uint32_t)__builtin_ctz(evictable), one = UINT32_C(1) << i;
        uint64_t bytes = w->model->chunks[i].bytes;
        evictable &= ~one;
        w->evictions++;
        evict(w, before, kept & ~one, cost + w->evicting[i], excess - MIN(excess, bytes),
              evictable);
    }
}

static int cheapest_first(const void *left, const void *right)
{
    const struct joint_set *a = left, *b = right;
    if (a->cost != b->cost)
        return a->cost < b->cost ? -1 : 1;
    return a->set < b->set ? -1 : a->set > b->set;
}

/* Forgets sets from which nothing is cheaper than from another one, after evicting what the set
 * lacks from the other. */
static void forget_dear(struct joint_walk *w)
{
    guint kept = 0;
    struct joint_set *sets = (struct joint_set *)(void *)w->next->data;
    g_array_sort(w->next, cheapest_first);
    for (guint i = 0; i < w->next->len; i++) {
        bool dear = false;
        for (guint k = 0; k < MIN(kept, RIVALS) && !dear; k++)
            dear = sets[k].cost + cost_of_evicting(w, sets[k].set & ~sets[i].set) <= sets[i].cost;
        if (!dear)
            sets[kept++] = sets[i];
    }
    g_array_set_size(w->next, kept);
}

/* Makes the sets found the present ones. */
static void turn(struct joint_walk *w)
{
    forget_dear(w);
    GArray *sets = w->sets;
    w->sets = w->next;
    w->next = sets;
    g_array_set_size(w->next, 0);
    g_hash_table_remove_all(w->numbers);
}

/* Evicts chunks until the others, and those of `used`, have room. Returns false if that is given
 * up. */
static bool fit(struct joint_walk *w, uint32_t used, uint64_t room)
{
    w->used = used;
    for (guint i = 0; i < w->sets->len && !is_given_up(w); i++) {
        const struct joint_set item = g_array_index(w->sets, struct joint_set, i);
        uint64_t bytes = bytes_of(w->model, item.set | used);
        evict(w, item.set, item.set, item.cost, bytes - MIN(bytes, room), item.set & ~used);
    }
    bool done = !is_given_up(w);
    turn(w);
    return done;
}

static void note_costs(struct joint_walk *w, const struct joint_step *step)
{
    for (uint32_t rest = step->used; rest; rest &= rest - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(rest), one = UINT32_C(1) << i;
        const struct joint_chunk *chunk = &w->model->chunks[i];
        w->evicting[i] = 0;
        if (step->dirty & one)
            w->evicting[i] += (scaled_ns)w->prices->d2h * chunk->d2h_ns;
        if (step->fetched & one)
            w->evicting[i] += (scaled_ns)w->prices->h2d * chunk->h2d_ns;
    }
}

static void leave(struct joint_walk *w, uint32_t over)
{
    for (guint i = 0; i < w->sets->len; i++) {
        const struct joint_set *item = &g_array_index(w->sets, struct joint_set, i);
        add_set(w, item->set & ~over, item->cost);
    }
    turn(w);
}

/* Goes through all steps, while `kept` bytes are not to be had. Returns false if that is given up.
 */
static bool walk(struct joint_walk *w, uint64_t kept)
{
    const GArray *steps = w->model->steps;
    const struct joint_set nothing = {0};
    bool done = true;
    w->budget = w->model->job->plan->device_budget - MIN(kept, w->model->job->plan->device_budget);
    g_array_append_val(w->sets, nothing);
    for (guint i = 0; i < steps->len && w->sets->len && done; i++) {
        const struct joint_step *step = &g_array_index(steps, struct joint_step, i);
        if (step->gap_room != UINT64_MAX)
            done = fit(w, 0, step->gap_room - MIN(step->gap_room, kept));
        done = done && fit(w, step->used, step->room - MIN(step->room, kept));
        note_costs(w, step);
        leave(w, step->over);
        w->written = step->dirty;
    }
    return done;
}

/* Sets *cost to the least cost of the copies within forward and backward, if `kept` bytes are not
 * to be had; IMPOSSIBLE if the chunks of an operator do not fit then. Returns false if it is given
 * up. */
static bool copies_cost(const struct joint_model *model, const struct certificate_joint *prices,
                        uint64_t kept, scaled_ns *cost)
{
    struct joint_walk w = {.model = model,
                           .prices = prices,
                           .sets = g_array_new(FALSE, FALSE, sizeof(struct joint_set)),
                           .next = g_array_new(FALSE, FALSE, sizeof(struct joint_set)),
                           .numbers = g_hash_table_new(NULL, NULL)};
    bool done = walk(&w, kept);
    *cost = w.sets->len ? g_array_index(w.sets, struct joint_set, 0).cost : IMPOSSIBLE;
    g_array_unref(w.sets);
    g_array_unref(w.next);
    g_hash_table_unref(w.numbers);
    return done;
}

/* ---- the bound ---- */

static scaled_ns work_cost(const struct joint_work *work, const struct certificate_joint *prices)
{
    uint64_t compute = BOUND_PRICE_SCALE - prices->h2d - prices->d2h - prices->host;
    return (scaled_ns)compute * work->compute_ns + (scaled_ns)prices->host * work->host_ns +
           (scaled_ns)prices->h2d * work->h2d_ns + (scaled_ns)prices->d2h * work->d2h_ns;
}

static scaled_ns moving_cost(const struct joint_state *state,
                             const struct certificate_joint *prices)
{
    return (scaled_ns)prices->h2d * state->h2d_ns + (scaled_ns)prices->d2h * state->d2h_ns;
}

/* Returns what the group takes on the cheaper side. A state moves, or pays for its room. */
static scaled_ns group_cost(const struct joint_model *model, uint32_t g,
                            const struct certificate_joint *prices)
{
    scaled_ns least = IMPOSSIBLE;
    for (uint32_t side = 0; side < model->side_count; side++) {
        const struct joint_work *work = &model->works[side][g];
        scaled_ns cost = work_cost(work, prices);
        for (guint i = 0; i < work->states->len; i++) {
            const struct joint_state *state = &g_array_index(work->states, struct joint_state, i);
            scaled_ns moved = moving_cost(state, prices);
            scaled_ns stays = (scaled_ns)prices->kept * state->bytes;
            cost += MIN(moved, stays);
        }
        least = MIN(least, cost);
    }
    return least;
}

static uint64_t kept_step(const struct joint_model *model)
{
    return MAX(model->state_least, model->job->plan->device_budget / KEPT_STEPS);
}

/* Lowers *least, the cost of the copies if no state stays, to the least cost of the copies less the
 * price of the room of the states that stay, however much that is. Returns false if it is given up.
 */
static bool keep_states(const struct joint_model *model, const struct certificate_joint *prices,
                        scaled_ns *least)
{
    uint64_t step = kept_step(model);
    for (uint64_t from = model->state_least; from <= model->state_bytes; from += step) {
        scaled_ns copies;
        if (!copies_cost(model, prices, from, &copies))
            return false;
        if (copies == IMPOSSIBLE)
            break;
        scaled_ns cost = copies - (scaled_ns)prices->kept * MIN(from + step, model->state_bytes);
        *least = MIN(*least, cost);
    }
    return true;
}

/* Returns the bound of these prices in nanoseconds; 0 if it is given up, or if it is at most
 * `least_ns`, which shows soon. */
static uint64_t joint_bound(const struct joint_model *model, const struct certificate_joint *prices,
                            uint64_t least_ns)
{
    scaled_ns copies, works = work_cost(&model->always, prices);
    for (uint32_t g = 0; g < model->group_count; g++)
        works += group_cost(model, g, prices);
    if (!copies_cost(model, prices, 0, &copies) || copies == IMPOSSIBLE ||
        copies + works <= (scaled_ns)least_ns * BOUND_PRICE_SCALE ||
        !keep_states(model, prices, &copies))
        return 0;
    scaled_ns bound = copies + works;
    return bound > 0 ? (uint64_t)(bound / BOUND_PRICE_SCALE) : 0;
}

const char *joint_recompute(const struct time_job *job, const struct certificate_joint *stated,
                            uint64_t *bound)
{
    *bound = 0;
    if (!stated->chunks)
        return NULL;
    if (stated->h2d + stated->d2h + stated->host > BOUND_PRICE_SCALE)
        return "the prices of the largest chunks exceed the iteration's time";
    struct joint_model *model = joint_model_new(job, stated->chunks);
    if (!model)
        return "the largest chunks have prices, but no bound";
    *bound = joint_bound(model, stated, 0);
    joint_model_free(model);
    return NULL;
}

/* ---- the search ---- */

/* Shares of the time are multiples of one in SHARES. */
enum { SHARES = 32, FIRST_STEP = 8, LAST_STEP = 2, CHUNKS_LEAST = 4, CHUNKS_FEWER = 3 };

/* The best prices so far. */
struct joint_search {
    const struct joint_model *model;
    struct certificate_joint best;
    uint64_t bound;
    int shares[4]; /* of both directions, the host and the device */
};

/* Returns the price of a byte at which it is best for every state to move. */
static uint64_t dearest_room(const struct joint_model *model,
                             const struct certificate_joint *prices)
{
    uint64_t most = 0;
    for (uint32_t g = 0; g < model->group_count; g++)
        for (guint i = 0; i < model->works[0][g].states->len; i++) {
            const struct joint_state *state = &g_array_index(model->works[0][g].states,
                                                             struct joint_state, i);
            uint64_t price = (uint64_t)(moving_cost(state, prices) / state->bytes) + 1;
            most = MAX(most, price);
        }
    return MIN(most, CERTIFICATE_ROOM_PRICE_MOST);
}

/* Tries the shares with several prices of room. Returns whether that is better. */
static bool try_shares(struct joint_search *search, const int shares[4])
{
    const uint64_t one = BOUND_PRICE_SCALE / SHARES;
    struct certificate_joint prices = {.chunks = search->model->chunk_count,
                                       .h2d = one * (uint64_t)shares[0],
                                       .d2h = one * (uint64_t)shares[1],
                                       .host = one * (uint64_t)shares[2]};
    uint64_t dearest = dearest_room(search->model, &prices);
    bool better = false;
    for (uint64_t quarters = 4; quarters > 0; quarters--) {
        prices.kept = dearest / 4 * quarters;
        uint64_t bound = joint_bound(search->model, &prices, search->bound);
        if (bound <= search->bound)
            break;
        search->bound = bound;
        search->best = prices;
        memcpy(search->shares, shares, sizeof search->shares);
        better = true;
    }
    return better;
}

/* Moves a part of the time from one resource to another. */
static bool try_move(struct joint_search *search, int from, int to, int step)
{
    int shares[4];
    memcpy(shares, search->shares, sizeof shares);
    shares[from] -= step;
    shares[to] += step;
    return shares[from] >= 0 && try_shares(search, shares);
}

static void seek_prices(struct joint_search *search)
{
    static const int first[][4] = {
        {SHARES, 0, 0, 0}, {0, SHARES, 0, 0}, {SHARES / 2, SHARES / 2, 0, 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(first); i++)
        try_shares(search, first[i]);
    for (int step = FIRST_STEP; step >= LAST_STEP && search->best.chunks; step /= 2)
        for (int way = 0; way < 16; way++)
            if (way / 4 != way % 4)
                while (try_move(search, way / 4, way % 4, step))
                    continue;
}

uint64_t joint_prove(const struct time_job *job, uint64_t least_ns, struct certificate_joint *found)
{
    struct joint_search search = {.bound = least_ns};
    for (int most = CERTIFICATE_JOINT_MOST; most >= CHUNKS_LEAST && !search.best.chunks;
         most -= CHUNKS_FEWER) {
        struct joint_model *model = joint_model_new(job, (uint32_t)most);
        if (!model)
            break;
        search.model = model;
        most = MIN(most, (int)model->chunk_count);
        if (model->chunk_count)
            seek_prices(&search);
        joint_model_free(model);
    }
    *found = search.best;
    return search.bound;
}
