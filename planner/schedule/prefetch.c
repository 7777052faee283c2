#include "planner/schedule/prefetch.h"

static int32_t moments(const struct intervals *intervals)
{
    return (int32_t)intervals->reuses->moment_count;
}

static struct interval *interval_at(const struct intervals *intervals, guint index)
{
    return &g_array_index(intervals->items, struct interval, index);
}

/* ---- when copies must begin and end ---- */

/* A copy from device to host. */
struct write_back_issue {
    int32_t issue;
    chunk_id chunk;
    struct interval *interval; /* the interval that it ends; NULL if the chunk stays */
};

static int by_issue(const void *left, const void *right)
{
    const struct write_back_issue *a = left, *b = right;
    if (a->issue != b->issue)
        return a->issue < b->issue ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

static int32_t issue_of(const struct interval *interval)
{
    return interval->flush != INTERVAL_NEVER ? interval->flush : interval->leave;
}

/* Lists the write-backs by their moments within an iteration. */
static GArray *list_write_backs(const struct intervals *intervals)
{
    GArray *write_backs = g_array_new(FALSE, FALSE, sizeof(struct write_back_issue));
    for (guint i = 0; i < intervals->items->len; i++) {
        struct interval *interval = interval_at(intervals, i);
        const struct write_back_issue item = {
            (int32_t)intervals_moment(intervals, issue_of(interval)), interval->chunk, interval};
        if (interval->flush != INTERVAL_NEVER || interval->write_back)
            g_array_append_val(write_backs, item);
    }
    for (guint i = 0; i < intervals->flushes->len; i++) {
        const struct interval_flush *flush = &g_array_index(intervals->flushes,
                                                            struct interval_flush, i);
        const struct write_back_issue item = {(int32_t)flush->moment, flush->chunk, NULL};
        g_array_append_val(write_backs, item);
    }
    g_array_sort(write_backs, by_issue);
    return write_backs;
}

/* Sets `vacated` of every interval that is written back. The first pass finds how late the link is
 * at the end of an iteration. */
static void find_vacated(struct intervals *intervals, const struct moment_times *times,
                         const uint64_t *copy_ns)
{
    g_autoptr(GArray) write_backs = list_write_backs(intervals);
    int64_t link_ns = -(int64_t)times->period_ns;
    for (int pass = 0; pass < 2; pass++) {
        for (guint i = 0; i < write_backs->len; i++) {
            const struct write_back_issue *item = &g_array_index(write_backs,
                                                                 struct write_back_issue, i);
            struct interval *interval = item->interval;
            link_ns = MAX(link_ns, moment_times_ns(times, item->issue)) +
                      (int64_t)copy_ns[item->chunk];
            if (!interval)
                continue;
            int32_t over = moment_times_find(times, link_ns) + 1 + issue_of(interval) - item->issue;
            interval->vacated = CLAMP(over, interval->leave,
                                      interval->leave + moments(intervals) / 2);
        }
        link_ns -= (int64_t)times->period_ns;
    }
}

/* Sets `arrived` of every interval that is fetched over the link, from the time at which its copy
 * begins. */
static void find_arrived(struct intervals *intervals, const struct moment_times *times,
                         const uint64_t *copy_ns)
{
    int64_t period = (int64_t)times->period_ns;
    for (guint i = 0; i < intervals->items->len; i++) {
        struct interval *interval = interval_at(intervals, i);
        int32_t issue = (int32_t)intervals_moment(intervals, interval->enter);
        int64_t issue_ns = moment_times_ns(times, issue);
        int64_t waits_ns = ((interval->begin_ns - issue_ns) % period + period) % period;
        int64_t over_ns = issue_ns + waits_ns + (int64_t)copy_ns[interval->chunk];
        int32_t over = moment_times_find(times, over_ns) + 1 + interval->enter - issue;
        if (interval->fetch && !reuses_is_gathered(intervals->reuses, interval->chunk))
            interval->arrived = CLAMP(over, interval->enter, interval->first_use);
    }
}

/* The queues of fetches: chunks come over the link, or are gathered over the network. */
enum { OVER_LINK, OVER_NETWORK, WAYS };

static int way_of(const struct intervals *intervals, const struct interval *interval)
{
    return reuses_is_gathered(intervals->reuses, interval->chunk) ? OVER_NETWORK : OVER_LINK;
}

static int64_t fetch_ns(const struct intervals *intervals, const struct interval_options *options,
                        const struct interval *interval)
{
    bool gathered = way_of(intervals, interval) == OVER_NETWORK;
    return (int64_t)(gathered ? options->gather_ns : options->copy_ns[0])[interval->chunk];
}

/* Returns for each interval when its fetch must begin for all later uses to be in time. */
static int64_t *find_latest(const struct intervals *intervals,
                            const struct interval_options *options)
{
    const struct moment_times *times = options->times;
    int64_t *latest = g_new0(int64_t, intervals->items->len);
    int64_t period = (int64_t)times->period_ns, of_way[WAYS] = {2 * period, 2 * period};
    for (int pass = 0; pass < 2; pass++) {
        for (guint i = intervals->items->len; i-- > 0;) {
            const struct interval *interval = interval_at(intervals, i);
            int64_t *next = &of_way[way_of(intervals, interval)];
            if (!interval->fetch)
                continue;
            *next = MIN(*next, moment_times_ns(times, interval->first_use)) -
                    fetch_ns(intervals, options, interval);
            *next = MAX(*next, -period);
            latest[i] = *next;
        }
        for (int way = 0; way < WAYS; way++)
            of_way[way] += period;
    }
    return latest;
}

/* ---- room ---- */

static int64_t bytes_of(const struct intervals *intervals, const struct interval *interval)
{
    return (int64_t)intervals->reuses->slot_bytes[interval->chunk];
}

/* Returns how many of the moments before `to`, and not before `from`, follow each other within an
 * iteration: at least one if there is any. */
static int32_t unbroken(const struct intervals *intervals, int32_t from, int32_t to)
{
    return MIN(to - from, (int32_t)intervals_moment(intervals, to - 1) + 1);
}

static void take_headroom(const struct intervals *intervals, const struct interval *interval,
                          int32_t from, int32_t to, int64_t *headroom)
{
    int64_t bytes = bytes_of(intervals, interval);
    while (from < to) {
        int32_t count = unbroken(intervals, from, to);
        int64_t *last = &headroom[intervals_moment(intervals, to - 1)];
        for (int32_t i = 0; i < count; i++)
            last[-i] -= bytes;
        to -= count;
    }
}

/* Returns the earliest moment, not before `limit`, from which there is room until `before`. */
static int32_t find_room(const struct intervals *intervals, const struct interval *interval,
                         int32_t limit, int32_t before, const int64_t *headroom)
{
    int64_t bytes = bytes_of(intervals, interval);
    while (before > limit) {
        int32_t count = unbroken(intervals, limit, before), free_count = 0;
        const int64_t *last = &headroom[intervals_moment(intervals, before - 1)];
        while (free_count < count && last[-free_count] >= bytes)
            free_count++;
        before -= free_count;
        if (free_count < count)
            break;
    }
    return before;
}

static int32_t find_entry(const struct intervals *intervals, const struct interval *interval,
                          int32_t limit, const int64_t *headroom)
{
    return find_room(intervals, interval, limit, interval->first_use, headroom);
}

static void begin_headroom(const struct intervals *intervals, const struct retention *retention,
                           int64_t *headroom)
{
    for (uint32_t m = 0; m < intervals->reuses->moment_count; m++)
        headroom[m] = headroom_at(retention->headroom, m) + (int64_t)retention->reserve;
    for (guint i = 0; i < intervals->items->len; i++) {
        const struct interval *interval = interval_at(intervals, i);
        take_headroom(intervals, interval, interval->leave, interval->vacated, headroom);
    }
}

/* ---- prefetches ---- */

/* The progress of the fetches of one queue so far. */
struct prefetch_front {
    int32_t moment; /* in which the last fetch was issued */
    int64_t ns;     /* when the queue has finished them */
};

static int32_t earliest_entry(const struct interval *interval,
                              const struct interval_options *options,
                              const struct prefetch_front *front, int32_t depth, int64_t latest)
{
    int32_t limit = MAX(MAX(interval->ready, interval->first_use - depth), front->moment);
    if (options->times)
        limit = MAX(limit, moment_times_find(options->times,
                                             MAX(front->ns, latest - (int64_t)options->margin_ns)));
    return MIN(limit, interval->first_use);
}

/* The first pass finds how far the last fetch of an iteration reaches back, since the first fetch
 * of the next one is not issued before it. */
void prefetch(struct intervals *intervals, const struct retention *retention,
              const struct interval_options *options)
{
    const struct moment_times *times = options->times;
    g_autofree int64_t *headroom = g_new(int64_t, intervals->reuses->moment_count);
    g_autofree int64_t *latest = times ? find_latest(intervals, options) : NULL;
    int32_t depth = (int32_t)MIN(options->look_ahead, intervals->reuses->moment_count - 1);
    const struct prefetch_front begin = {-depth, times ? -(int64_t)times->period_ns : 0};
    struct prefetch_front fronts[WAYS] = {begin, begin};
    if (times)
        find_vacated(intervals, times, options->copy_ns[1]);
    for (int pass = 0; pass < 2; pass++) {
        begin_headroom(intervals, retention, headroom);
        for (guint i = 0; i < intervals->items->len; i++) {
            struct interval *interval = interval_at(intervals, i);
            struct prefetch_front *front = &fronts[way_of(intervals, interval)];
            if (!interval->fetch)
                continue;
            int32_t limit = earliest_entry(interval, options, front, depth, times ? latest[i] : 0);
            interval->enter = find_entry(intervals, interval, limit, headroom);
            take_headroom(intervals, interval, interval->enter, interval->first_use, headroom);
            front->moment = interval->enter;
            if (times)
                front->ns = MAX(front->ns, moment_times_ns(times, interval->enter)) +
                            fetch_ns(intervals, options, interval);
        }
        for (int way = 0; way < WAYS; way++) {
            fronts[way].moment -= moments(intervals);
            fronts[way].ns -= times ? (int64_t)times->period_ns : 0;
        }
    }
}

/* ---- decisions that fit together ---- */

/* A chunk is not fetched before it has left. */
static void await_departures(struct intervals *intervals)
{
    g_autofree int32_t *leave = g_new(int32_t, intervals->reuses->chunk_count);
    for (uint32_t c = 0; c < intervals->reuses->chunk_count; c++)
        leave[c] = INTERVAL_NEVER;
    for (int pass = 0; pass < 2; pass++) {
        for (guint i = 0; i < intervals->items->len; i++) {
            struct interval *interval = interval_at(intervals, i);
            interval->ready = MAX(interval->ready, leave[interval->chunk]);
            leave[interval->chunk] = interval->leave;
        }
        for (uint32_t c = 0; c < intervals->reuses->chunk_count; c++)
            leave[c] = leave[c] == INTERVAL_NEVER ? leave[c] : leave[c] - moments(intervals);
    }
}

void prefetch_fit(struct intervals *intervals, const struct retention *retention,
                  const struct moment_times *times, const uint64_t *h2d_ns, const uint64_t *d2h_ns)
{
    g_autofree int64_t *headroom = g_new(int64_t, intervals->reuses->moment_count);
    for (uint32_t m = 0; m < intervals->reuses->moment_count; m++)
        headroom[m] = headroom_at(retention->headroom, m) + (int64_t)retention->reserve;
    for (guint i = 0; i < intervals->items->len; i++) {
        struct interval *interval = interval_at(intervals, i);
        if (find_room(intervals, interval, interval->last_use + 1, interval->leave, headroom) >
            interval->last_use + 1)
            interval->leave = interval->last_use + 1;
        take_headroom(intervals, interval, interval->last_use + 1, interval->leave, headroom);
        interval->vacated = interval->leave;
    }
    await_departures(intervals);
    for (guint i = 0; i < intervals->items->len; i++) {
        struct interval *interval = interval_at(intervals, i);
        if (!interval->fetch)
            continue;
        interval->enter = find_entry(intervals, interval, MAX(interval->enter, interval->ready),
                                     headroom);
        take_headroom(intervals, interval, interval->enter, interval->first_use, headroom);
    }
    find_vacated(intervals, times, d2h_ns);
    find_arrived(intervals, times, h2d_ns);
}
