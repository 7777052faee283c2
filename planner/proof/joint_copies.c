#include "planner/proof/joint_copies.h"

#include "chunks/parts.h"

/* A cost that needs more sets of chunks at once is given up, and one that evicts more often. */
enum { SETS_MOST = 2000, EVICTIONS_MOST = 400000 };

/* Sets are compared with so many of the cheapest ones. */
enum { RIVALS = 64 };

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
    guint at;                           /* the step at hand */
    uint32_t used;                      /* by it; 0 in a gap */
    uint32_t dirty;                     /* chunks that their last use has left dirty */
    uint64_t budget;                    /* of the device, for these chunks */
    guint last[CERTIFICATE_JOINT_MOST]; /* the step of the last use of each chunk */
};

static uint64_t bytes_of(const struct joint_model *model, uint32_t set)
{
    uint64_t bytes = 0;
    for (; set; set &= set - 1)
        bytes += model->chunks[__builtin_ctz(set)].bytes;
    return bytes;
}

/* Returns the most that evicting these chunks can cost, with waits for all of their write-backs. */
static scaled_ns most_of_evicting(const struct joint_walk *w, uint32_t set)
{
    scaled_ns cost = 0;
    for (; set; set &= set - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(set);
        uint64_t waits_ns = w->dirty >> i & 1 ? w->model->chunks[i].d2h_ns : 0;
        cost += w->evicting[i] + (scaled_ns)w->prices->h2d * waits_ns;
    }
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

/* Write-backs of chunks that leave before the step at hand, all of them after the step `from`. */
struct write_backs {
    guint from;
    uint64_t ns, least_bytes;
};

/* Returns the longest time that counted fetches take of chunks that are used after the step `from`
 * and before the one at hand. */
static uint64_t used_ns(const struct joint_walk *w, guint from)
{
    const struct joint_step *steps = (const struct joint_step *)(void *)w->model->steps->data;
    uint64_t ns = steps[w->at].gap_ns;
    for (guint s = from + 1; s < w->at; s++)
        ns += steps[s].fetch_ns + steps[s].gap_ns;
    return ns;
}

/* Returns the longest time that counted fetches take of chunks that are used later. When the last
 * write-back ends they have room beside the chunks that have stayed since the step `from`, and
 * beside the non-model data. Those that are over have room beside the chunk that leaves, too. One
 * more may follow it in the same room, but its last part has not come then. */
static uint64_t unused_ns(const struct joint_walk *w, const struct write_backs *leaving,
                          uint32_t kept)
{
    const struct joint_step *steps = (const struct joint_step *)(void *)w->model->steps->data;
    uint64_t held = 0, non_model = UINT64_MAX;
    for (guint s = leaving->from + 1; s <= w->at; s++)
        non_model = MIN(non_model, steps[s].non_model);
    for (; kept; kept &= kept - 1)
        if (w->last[__builtin_ctz(kept)] <= leaving->from)
            held += w->model->chunks[__builtin_ctz(kept)].bytes;
    held += non_model;
    uint64_t all_ns = joint_fetches_ns(w->model, w->budget - MIN(held, w->budget));
    held += leaving->least_bytes;
    uint64_t over_ns = joint_fetches_ns(w->model, w->budget - MIN(held, w->budget));
    return MIN(all_ns, over_ns + w->model->longest_ns - w->model->longest_ns / COPY_PARTS);
}

/* Returns the chunk of the set whose last use is the latest. */
static uint32_t latest(const struct joint_walk *w, uint32_t set)
{
    uint32_t found = (uint32_t)__builtin_ctz(set);
    for (; set; set &= set - 1)
        if (w->last[__builtin_ctz(set)] > w->last[found])
            found = (uint32_t)__builtin_ctz(set);
    return found;
}

/* Returns the cost of the time in which nothing can be fetched, because the dirty chunks of `left`
 * hold their room until their write-backs are over. What is counted are those of the latest uses,
 * as many as make the longest time. */
static scaled_ns cost_of_waiting(const struct joint_walk *w, uint32_t left, uint32_t kept)
{
    struct write_backs leaving = {.least_bytes = UINT64_MAX};
    uint64_t longest = 0;
    for (left &= w->dirty; left && w->prices->h2d;) {
        uint32_t i = latest(w, left);
        left &= ~(UINT32_C(1) << i);
        leaving.from = w->last[i];
        leaving.ns += w->model->chunks[i].d2h_ns;
        leaving.least_bytes = MIN(leaving.least_bytes, w->model->chunks[i].bytes);
        uint64_t fetched_ns = used_ns(w, leaving.from) + unused_ns(w, &leaving, kept);
        longest = MAX(longest, leaving.ns - MIN(leaving.ns, fetched_ns));
    }
    return (scaled_ns)longest * (scaled_ns)w->prices->h2d;
}

/* Adds all sets that remain when enough chunks of `evictable` leave `before`, the larger ones
 * first; more than enough only if that saves time. Chunks that the step at hand uses may also leave
 * and come back, which makes no room for the step. */
static void evict(struct joint_walk *w, uint32_t before, uint32_t kept, scaled_ns cost,
                  uint64_t excess, uint32_t evictable)
{
    scaled_ns waiting = excess ? 0 : cost_of_waiting(w, before & ~kept, kept);
    if (!excess)
        add_set(w, kept | w->used, cost + waiting);
    while (!is_given_up(w) && evictable && (waiting || excess) &&
           bytes_of(w->model, evictable & ~w->used) >= excess) {
        uint32_t i = (uint32_t)__builtin_ctz(evictable), one = UINT32_C(1) << i;
        uint64_t bytes = w->used & one ? 0 : w->model->chunks[i].bytes;
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
            dear = sets[k].cost + most_of_evicting(w, sets[k].set & ~sets[i].set) <= sets[i].cost;
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
        evict(w, item.set, item.set, item.cost, bytes - MIN(bytes, room), item.set);
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
        w->last[i] = w->at;
        w->dirty = (w->dirty & ~one) | (step->dirty & one);
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
        w->at = i;
        if (step->gap_room != UINT64_MAX)
            done = fit(w, 0, step->gap_room - MIN(step->gap_room, kept));
        done = done && fit(w, step->used, step->room - MIN(step->room, kept));
        note_costs(w, step);
        leave(w, step->over);
    }
    return done;
}

bool joint_copies_cost(const struct joint_model *model, const struct certificate_joint *prices,
                       uint64_t kept, scaled_ns *cost)
{
    struct joint_walk w = {.model = model,
                           .prices = prices,
                           .sets = g_array_new(FALSE, FALSE, sizeof(struct joint_set)),
                           .next = g_array_new(FALSE, FALSE, sizeof(struct joint_set)),
                           .numbers = g_hash_table_new(NULL, NULL)};
    bool done = walk(&w, kept);
    *cost = w.sets->len ? g_array_index(w.sets, struct joint_set, 0).cost : JOINT_IMPOSSIBLE;
    g_array_unref(w.sets);
    g_array_unref(w.next);
    g_hash_table_unref(w.numbers);
    return done;
}
