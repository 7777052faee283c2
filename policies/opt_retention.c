#include "policies/opt_retention.h"

#include "policies/headroom.h"
#include "policies/next_use.h"

#include <string.h>

/* An epoch is the intervals of a chunk from one use that writes it to the next such use. If the
 * chunk leaves in any of them, one write-back is due. If the host uses the chunk in any of them, it
 * is due in any case. */
struct retention_plan {
    const struct pstar_policy_view *view;
    struct policy_interval *intervals;
    uint32_t count;
    uint32_t *epoch;   /* [count] the first interval of the epoch if the write-back can be avoided,
                          else NO_INDEX */
    uint32_t *longest; /* [count] for an epoch, its longest interval that costs a fetch */
    uint32_t *order; /* [saving] intervals that save something; those that save most for their room
                        come first */
    uint32_t saving;
    int64_t *room; /* [moment_count] bytes that are free beside the chunks in use */
};

/* Returns whether retention saves a copy. */
static bool saves(const struct policy_interval *interval)
{
    return interval->next != NO_INDEX && interval->ahead & PSTAR_AHEAD_READ;
}

/* Returns the number of moments strictly between the uses. */
static uint32_t span(const struct policy_interval *interval)
{
    return interval->next - interval->moment - 1;
}

/* ---- what staying is worth ---- */

/* Goes round twice, so that the first interval of a chunk follows its last one. */
static void find_epochs(struct retention_plan *plan)
{
    g_autofree uint32_t *last = g_new(uint32_t, plan->view->chunk_count);
    g_autofree uint8_t *used_by_host = g_new0(uint8_t, plan->count);
    memset(last, 0xff, plan->view->chunk_count * sizeof *last);
    for (uint32_t i = 0; i < 2 * plan->count; i++) {
        uint32_t g = i % plan->count, before = last[plan->intervals[g].chunk];
        if (before == NO_INDEX)
            plan->epoch[g] = NO_INDEX;
        else if (plan->intervals[before].ahead & PSTAR_AHEAD_WRITE)
            plan->epoch[g] = g;
        else
            plan->epoch[g] = plan->epoch[before];
        last[plan->intervals[g].chunk] = g;
    }
    for (uint32_t g = 0; g < plan->count; g++)
        if (plan->epoch[g] != NO_INDEX && plan->intervals[g].ahead & PSTAR_AHEAD_HOST)
            used_by_host[plan->epoch[g]] = 1;
    for (uint32_t g = 0; g < plan->count; g++)
        if (plan->epoch[g] != NO_INDEX && used_by_host[plan->epoch[g]])
            plan->epoch[g] = NO_INDEX;
}

/* An epoch's write-back is assigned to its longest interval, which is the last to find room. */
static bool saves_write_back(const struct retention_plan *plan, uint32_t interval)
{
    return plan->epoch[interval] != NO_INDEX && plan->longest[plan->epoch[interval]] == interval;
}

static void find_longest(struct retention_plan *plan)
{
    for (uint32_t g = 0; g < plan->count; g++)
        plan->longest[g] = NO_INDEX;
    for (uint32_t g = 0; g < plan->count; g++) {
        if (plan->epoch[g] == NO_INDEX || !saves(&plan->intervals[g]))
            continue;
        uint32_t *longest = &plan->longest[plan->epoch[g]];
        if (*longest == NO_INDEX || span(&plan->intervals[g]) > span(&plan->intervals[*longest]))
            *longest = g;
    }
}

/* The price of an interval is lower the fewer moments of room it takes for each copy saved. Of
 * equals, two copies come before one. */
static uint32_t price(const struct retention_plan *plan, uint32_t interval)
{
    uint32_t moments = span(&plan->intervals[interval]);
    return saves_write_back(plan, interval) ? 2 * moments : 4 * moments + 1;
}

/* Sorts the intervals by counting, because there are few prices. */
static void rank(struct retention_plan *plan)
{
    uint32_t prices = 4 * plan->view->moment_count + 2;
    g_autofree uint32_t *before =
        g_new0(uint32_t, prices + 1); /* the number of intervals with lower prices */
    for (uint32_t g = 0; g < plan->count; g++)
        if (saves(&plan->intervals[g]))
            before[price(plan, g) + 1]++;
    for (uint32_t i = 0; i < prices; i++)
        before[i + 1] += before[i];
    plan->saving = before[prices];
    for (uint32_t g = 0; g < plan->count; g++)
        if (saves(&plan->intervals[g]))
            plan->order[before[price(plan, g)]++] = g;
}

/* ---- a sweep: Belady's rule over two iterations, to find who would leave ---- */

struct belady_sweep {
    struct retention_plan *plan;
    struct pstar_policy_view view; /* the view of the two sets, for which two iterations are one */
    uint32_t iteration;            /* the iteration of that view, 0 */
    uint32_t *next;                /* [chunk_count] the end of the interval that a chunk is in */
    uint8_t *pinned;               /* [chunk_count] all 0 */
    uint32_t *interval; /* [chunk_count] the interval that a chunk is in if it takes room */
    struct policy_next_use *set[2]; /* chunks whose interval saves one copy, or two copies */
    uint64_t used;                  /* bytes of the chunks of both sets */
    uint8_t *leaves;                /* [count] the result of the second iteration */
};

static void sweep_open(struct belady_sweep *sweep, struct retention_plan *plan, uint8_t *leaves)
{
    uint32_t chunks = plan->view->chunk_count;
    *sweep = (struct belady_sweep){.plan = plan, .leaves = leaves};
    sweep->next = g_new(uint32_t, chunks);
    sweep->pinned = g_new0(uint8_t, chunks);
    sweep->interval = g_new(uint32_t, chunks);
    memset(sweep->interval, 0xff, chunks * sizeof *sweep->interval);
    sweep->view = *plan->view;
    sweep->view.moment_count *= 2;
    sweep->view.iteration = &sweep->iteration;
    sweep->view.next_use = sweep->next;
    sweep->view.pinned = sweep->pinned;
    for (int i = 0; i < 2; i++)
        sweep->set[i] = policy_next_use_open(&sweep->view);
}

static void sweep_close(struct belady_sweep *sweep)
{
    for (int i = 0; i < 2; i++)
        policy_next_use_close(sweep->set[i]);
    g_free(sweep->next);
    g_free(sweep->pinned);
    g_free(sweep->interval);
}

static int set_of(const struct belady_sweep *sweep, uint32_t interval, bool weigh)
{
    return weigh && saves_write_back(sweep->plan, interval);
}

static void leave(struct belady_sweep *sweep, chunk_id chunk, bool weigh)
{
    int set = set_of(sweep, sweep->interval[chunk], weigh);
    policy_next_use_remove(sweep->set[set], chunk);
    sweep->used -= sweep->plan->view->chunk_bytes[chunk];
    sweep->interval[chunk] = NO_INDEX;
}

static void retain(struct belady_sweep *sweep, uint32_t interval, uint32_t time, bool weigh)
{
    const struct policy_interval *item = &sweep->plan->intervals[interval];
    sweep->leaves[interval] = 0;
    if (!saves(item))
        return;
    sweep->interval[item->chunk] = interval;
    sweep->next[item->chunk] = time + (item->next - item->moment);
    sweep->used += sweep->plan->view->chunk_bytes[item->chunk];
    policy_next_use_admit(sweep->set[set_of(sweep, interval, weigh)], item->chunk);
}

/* Returns the chunk with the farthest next use, where saving two copies counts as half the
 * distance. */
static uint32_t farthest(const struct belady_sweep *sweep, uint32_t time)
{
    uint32_t one = policy_next_use_farthest(sweep->set[0]);
    uint32_t two = policy_next_use_farthest(sweep->set[1]);
    if (one == NO_INDEX || two == NO_INDEX)
        return one == NO_INDEX ? two : one;
    uint64_t distance = sweep->next[one] - time, of_two = sweep->next[two] - time;
    return 2 * distance >= of_two ? one : two;
}

static void sweep_moment(struct belady_sweep *sweep, uint32_t begin, uint32_t end, uint32_t time,
                         bool weigh)
{
    const struct retention_plan *plan = sweep->plan;
    uint64_t in_use = 0, capacity = plan->view->capacity[time % plan->view->moment_count];
    for (uint32_t g = begin; g < end; g++) {
        chunk_id chunk = plan->intervals[g].chunk;
        in_use += plan->view->chunk_bytes[chunk];
        if (sweep->interval[chunk] != NO_INDEX)
            leave(sweep, chunk, weigh);
    }
    while (sweep->used && sweep->used + in_use > capacity) {
        chunk_id chunk = farthest(sweep, time);
        sweep->leaves[sweep->interval[chunk]] = 1;
        leave(sweep, chunk, weigh);
    }
    for (uint32_t g = begin; g < end; g++)
        retain(sweep, g, time, weigh);
}

static void sweep_run(struct retention_plan *plan, bool weigh, uint8_t *leaves)
{
    struct belady_sweep sweep;
    sweep_open(&sweep, plan, leaves);
    for (uint32_t time = 0, g = 0; time < 2 * plan->view->moment_count; time++) {
        moment_id moment = time % plan->view->moment_count;
        uint32_t begin = moment ? g : 0;
        for (g = begin; g < plan->count && plan->intervals[g].moment == moment;)
            g++;
        sweep_moment(&sweep, begin, g, time, weigh);
    }
    sweep_close(&sweep);
}

/* ---- the answers ---- */

/* Returns false, and takes nothing, if a moment of the range lacks the bytes. */
static bool take_room(struct headroom *room, uint32_t first, uint32_t length, int64_t bytes)
{
    if (headroom_first_below(room, first, length, bytes) != NO_INDEX)
        return false;
    headroom_take(room, first, length, bytes);
    return true;
}

/* Retains the intervals that the sweep kept, then any others that still fit. */
static void fill(struct retention_plan *plan, const uint8_t *leaves, uint8_t *retained)
{
    struct headroom *room = headroom_new(plan->room, plan->view->moment_count);
    for (int others = 0; others < 2; others++)
        for (uint32_t i = 0; i < plan->saving; i++) {
            uint32_t g = plan->order[i];
            const struct policy_interval *interval = &plan->intervals[g];
            if (leaves[g] == others)
                retained[g] = take_room(room, (interval->moment + 1) % plan->view->moment_count,
                                        span(interval),
                                        (int64_t)plan->view->chunk_bytes[interval->chunk]);
        }
    headroom_free(room);
}

static uint64_t traffic(const struct retention_plan *plan, const uint8_t *retained)
{
    g_autofree uint8_t *written_back = g_new0(uint8_t, plan->count);
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < plan->count; g++) {
        const struct policy_interval *interval = &plan->intervals[g];
        if (retained[g] || !saves(interval))
            continue;
        bytes += plan->view->chunk_bytes[interval->chunk];
        if (plan->epoch[g] == NO_INDEX || written_back[plan->epoch[g]])
            continue;
        written_back[plan->epoch[g]] = 1;
        bytes += plan->view->chunk_bytes[interval->chunk];
    }
    return bytes;
}

/* Finds the bytes that are free beside the chunks in use. */
static void find_room(struct retention_plan *plan)
{
    const struct pstar_policy_view *view = plan->view;
    for (uint32_t m = 0; m < view->moment_count; m++)
        plan->room[m] = (int64_t)view->capacity[m];
    for (uint32_t g = 0; g < plan->count; g++)
        plan->room[plan->intervals[g].moment] -=
            (int64_t)view->chunk_bytes[plan->intervals[g].chunk];
}

static void plan_open(struct retention_plan *plan, const struct pstar_policy_view *view,
                      GArray *intervals)
{
    *plan = (struct retention_plan){.view = view,
                                    .intervals = (struct policy_interval *)intervals->data,
                                    .count = intervals->len};
    plan->epoch = g_new(uint32_t, plan->count);
    plan->longest = g_new(uint32_t, plan->count);
    plan->order = g_new(uint32_t, plan->count);
    plan->room = g_new(int64_t, view->moment_count);
    find_room(plan);
    find_epochs(plan);
    find_longest(plan);
    rank(plan);
}

static void plan_close(struct retention_plan *plan)
{
    g_free(plan->epoch);
    g_free(plan->longest);
    g_free(plan->order);
    g_free(plan->room);
}

uint64_t policy_retain(const struct pstar_policy_view *view, GArray *intervals)
{
    struct retention_plan plan;
    uint64_t least = UINT64_MAX;
    plan_open(&plan, view, intervals);
    g_autofree uint8_t *leaves = g_new0(uint8_t, plan.count);
    g_autofree uint8_t *retained = g_new(uint8_t, plan.count);
    for (int weigh = 0; weigh < 2; weigh++) {
        memset(retained, 0, plan.count);
        sweep_run(&plan, weigh, leaves);
        fill(&plan, leaves, retained);
        uint64_t bytes = traffic(&plan, retained);
        if (bytes < least)
            for (uint32_t g = 0; g < plan.count; g++)
                plan.intervals[g].retained = retained[g];
        least = MIN(least, bytes);
    }
    plan_close(&plan);
    return least;
}
