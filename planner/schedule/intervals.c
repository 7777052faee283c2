#include "planner/schedule/intervals.h"

#include "planner/schedule/dispatch.h"
#include "planner/schedule/prefetch.h"

static int32_t moments(const struct intervals *intervals)
{
    return (int32_t)intervals->reuses->moment_count;
}

static struct interval *interval_at(const struct intervals *intervals, guint index)
{
    return &g_array_index(intervals->items, struct interval, index);
}

/* State while the reuse intervals of one chunk are visited. */
struct interval_builder {
    struct intervals *intervals;
    const struct interval_options *options;
    const uint8_t *retained;
    chunk_id chunk;
    struct interval interval;
    bool dirty;
    int32_t last_write;
};

static void flush_for_host(struct interval_builder *builder, const struct reuse *reuse)
{
    struct interval_flush flush = {builder->chunk,
                                   reuse->host_first % builder->intervals->reuses->moment_count};
    g_array_append_val(builder->intervals->flushes, flush);
    builder->dirty = false;
}

/* Visits a use, and the reuse interval after it if the chunk stays. */
static void use(struct interval_builder *builder, uint32_t g, int32_t moment)
{
    const struct reuse *reuse = &builder->intervals->reuses->items[g];
    if (reuse->flags & REUSE_DIRTIES) {
        builder->dirty = true;
        builder->last_write = moment;
    }
    if (reuse->flags & REUSE_DEAD)
        builder->dirty = false;
    if (builder->retained[g] && reuse->flags & REUSE_FLUSH && builder->dirty)
        flush_for_host(builder, reuse);
}

/* `reuse` is the interval in which the chunk is absent. */
static void close_interval(struct interval_builder *builder, const struct reuse *reuse,
                           int32_t moment)
{
    uint32_t n = builder->intervals->reuses->moment_count;
    struct interval *interval = &builder->interval;
    interval->last_use = moment;
    interval->leave = moment + 1;
    interval->write_back = builder->dirty;
    if (builder->dirty && builder->options->flush_early &&
        builder->last_write + 1 < interval->leave) {
        interval->flush = builder->last_write + 1;
        interval->write_back = false;
    }
    uint32_t next = reuse->to > reuse->from ? reuse->to : reuse->to + n;
    uint32_t wanted = reuse->flags & REUSE_FLUSH ? reuse->host_first : next;
    interval->release = interval->flush != INTERVAL_NEVER ? interval->flush : interval->leave;
    interval->deadline = moment + (int32_t)(wanted - reuse->from);
    g_array_append_val(builder->intervals->items, *interval);
}

/* `before` is the reuse interval that ends here. */
static void open_interval(struct interval_builder *builder, const struct reuse *before,
                          int32_t moment)
{
    int32_t n = moments(builder->intervals), left = (int32_t)before->from + 1;
    while (left + n <= moment)
        left += n;
    while (left > moment)
        left -= n;
    builder->interval = (struct interval){.chunk = builder->chunk,
                                          .enter = moment,
                                          .first_use = moment,
                                          .ready = left,
                                          .flush = INTERVAL_NEVER,
                                          .fetch = before->flags & REUSE_REFETCH};
    if (before->flags & REUSE_FLUSH) {
        int32_t host = (int32_t)before->host_last + 1;
        while (host > moment)
            host -= n;
        builder->interval.ready = MAX(left, host);
    }
    builder->dirty = false;
}

/* Handles a chunk that never leaves: only host operators may need its bytes. It is visited twice,
 * because only the second round knows whether the iteration begins with it dirty. */
static void build_permanent(struct interval_builder *builder)
{
    const struct reuses *reuses = builder->intervals->reuses;
    guint flushes = builder->intervals->flushes->len;
    builder->intervals->permanent[builder->chunk] = 1;
    for (int round = 0; round < 2; round++) {
        g_array_set_size(builder->intervals->flushes, flushes);
        for (uint32_t g = reuses->first[builder->chunk]; g < reuses->first[builder->chunk + 1]; g++)
            use(builder, g, (int32_t)reuses->items[g].from);
    }
}

static void build_chunk(struct interval_builder *builder)
{
    const struct reuses *reuses = builder->intervals->reuses;
    uint32_t first = reuses->first[builder->chunk],
             count = reuses->first[builder->chunk + 1] - first;
    uint32_t start = 0;
    /* Begins with the first interval in which the chunk leaves. */
    while (start < count && builder->retained[first + start])
        start++;
    if (start == count) {
        build_permanent(builder);
        return;
    }
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t at = start + i, g = first + at % count, before = first + (at - 1) % count;
        int32_t moment = (int32_t)reuses->items[g].from +
                         (at >= count ? moments(builder->intervals) : 0);
        if (!builder->retained[before])
            open_interval(builder, &reuses->items[before], moment);
        use(builder, g, moment);
        if (!builder->retained[g])
            close_interval(builder, &reuses->items[g], moment);
    }
}

/* Shifts intervals so that first uses lie within the iteration. */
static void normalise(struct intervals *intervals)
{
    for (guint i = 0; i < intervals->items->len; i++) {
        struct interval *interval = interval_at(intervals, i);
        int32_t shift = interval->first_use >= moments(intervals) ? moments(intervals) : 0;
        interval->enter -= shift;
        interval->first_use -= shift;
        interval->last_use -= shift;
        interval->leave -= shift;
        interval->vacated = interval->leave;
        interval->arrived = interval->first_use;
        interval->ready -= shift;
        interval->release -= shift;
        interval->deadline -= shift;
        if (interval->flush != INTERVAL_NEVER)
            interval->flush -= shift;
    }
}

/* Sorts the intervals, which were listed chunk by chunk, by their first use, then by chunk. Counts,
 * because comparisons are slow where an iteration is long. */
static void sort_by_first_use(struct intervals *intervals)
{
    uint32_t n = intervals->reuses->moment_count, count = intervals->items->len;
    g_autofree uint32_t *next = g_new0(uint32_t, n + 1);
    GArray *sorted = g_array_sized_new(FALSE, FALSE, sizeof(struct interval), count);
    g_array_set_size(sorted, count);
    for (guint i = 0; i < count; i++)
        next[interval_at(intervals, i)->first_use + 1]++;
    for (uint32_t m = 0; m < n; m++)
        next[m + 1] += next[m];
    for (guint i = 0; i < count; i++) {
        const struct interval *interval = interval_at(intervals, i);
        g_array_index(sorted, struct interval, next[interval->first_use]++) = *interval;
    }
    g_array_unref(intervals->items);
    intervals->items = sorted;
}

uint32_t intervals_moment(const struct intervals *intervals, int32_t moment)
{
    return (uint32_t)((moment + MOMENT_TIMES_CYCLES * moments(intervals)) % moments(intervals));
}

/* Returns the intervals before any fetch is issued. */
static struct intervals *build(const struct retention *retention,
                               const struct interval_options *options)
{
    struct intervals *intervals = g_new0(struct intervals, 1);
    intervals->reuses = retention->reuses;
    intervals->items = g_array_new(FALSE, FALSE, sizeof(struct interval));
    intervals->flushes = g_array_new(FALSE, FALSE, sizeof(struct interval_flush));
    intervals->permanent = g_new0(uint8_t, retention->reuses->chunk_count);
    for (uint32_t c = 0; c < retention->reuses->chunk_count; c++)
        if (retention->reuses->first[c] < retention->reuses->first[c + 1]) {
            struct interval_builder builder = {.intervals = intervals,
                                               .options = options,
                                               .retained = retention->retained,
                                               .chunk = c};
            build_chunk(&builder);
        }
    normalise(intervals);
    sort_by_first_use(intervals);
    return intervals;
}

struct intervals *intervals_new(const struct retention *retention,
                                const struct interval_options *options)
{
    struct intervals *intervals = build(retention, options);
    prefetch(intervals, retention, options);
    return intervals;
}

struct intervals *intervals_new_dispatched(const struct retention *retention,
                                           const struct dispatch_job *job)
{
    const struct interval_options options = {.flush_early = true};
    struct intervals *intervals = build(retention, &options);
    struct moment_times *times = dispatch(intervals, retention, job);
    intervals->period_ns = times->period_ns;
    prefetch_fit(intervals, retention, times, job->copy_ns[0], job->copy_ns[1]);
    moment_times_free(times);
    return intervals;
}

struct intervals *intervals_copy(const struct intervals *intervals)
{
    struct intervals *copy = g_memdup2(intervals, sizeof *intervals);
    copy->items = g_array_copy(intervals->items);
    copy->flushes = g_array_copy(intervals->flushes);
    copy->permanent = g_memdup2(intervals->permanent, intervals->reuses->chunk_count);
    return copy;
}

void intervals_free(struct intervals *intervals)
{
    if (!intervals)
        return;
    g_array_unref(intervals->items);
    g_array_unref(intervals->flushes);
    g_free(intervals->permanent);
    g_free(intervals);
}

/* An action with its place in the order: departures, then flushes, then arrivals by their use. */
struct timed_action {
    moment_id moment;
    uint8_t turn;
    int32_t use;
    struct plan_action action;
    uint32_t over; /* in struct decisions */
};

static int by_time(const void *left, const void *right)
{
    const struct timed_action *a = left, *b = right;
    if (a->moment != b->moment)
        return a->moment < b->moment ? -1 : 1;
    if (a->turn != b->turn)
        return (int)a->turn - (int)b->turn;
    if (a->use != b->use)
        return a->use < b->use ? -1 : 1;
    return a->action.chunk < b->action.chunk ? -1 : a->action.chunk > b->action.chunk;
}

static void append(GArray *timed, moment_id moment, uint8_t turn, int32_t use_moment,
                   enum plan_action_kind kind, chunk_id chunk)
{
    struct timed_action item = {moment, turn, use_moment, {chunk, (uint8_t)kind, NO_ADDRESS}, 0};
    g_array_append_val(timed, item);
}

/* Actions that belong to the end of the iteration come after its last operator, not before the
 * first operator of the next one. */
static uint32_t ending(const struct intervals *intervals, int32_t moment)
{
    uint32_t m = intervals_moment(intervals, moment);
    return m ? m : intervals->reuses->moment_count;
}

static void append_interval(const struct intervals *intervals, const struct interval *interval,
                            GArray *timed)
{
    append(timed, intervals_moment(intervals, interval->enter), 2, interval->first_use,
           interval->fetch ? PLAN_FETCH : PLAN_ALLOCATE, interval->chunk);
    g_array_index(timed, struct timed_action, timed->len - 1).over =
        intervals_moment(intervals, interval->enter) +
        (uint32_t)MAX(interval->arrived - interval->enter, 0);
    if (interval->flush != INTERVAL_NEVER)
        append(timed, ending(intervals, interval->flush), 1, interval->turn, PLAN_FLUSH,
               interval->chunk);
    append(timed, ending(intervals, interval->leave), 0, interval->turn,
           interval->write_back ? PLAN_WRITE_BACK : PLAN_DROP, interval->chunk);
    g_array_index(timed, struct timed_action, timed->len - 1).over =
        ending(intervals, interval->leave) + (uint32_t)(interval->vacated - interval->leave);
}

uint32_t intervals_look_ahead(const struct intervals *intervals)
{
    int32_t most = 0;
    for (guint i = 0; i < intervals->items->len; i++) {
        const struct interval *interval = interval_at(intervals, i);
        most = MAX(most, interval->fetch ? interval->first_use - interval->enter : 0);
    }
    return (uint32_t)most;
}

bool intervals_is_initial(const struct intervals *intervals, const struct interval *interval)
{
    int32_t n = moments(intervals);
    return (interval->enter < 0 && interval->leave > 0) ||
           (interval->enter < n && interval->leave > n);
}

struct decisions *intervals_decisions(const struct intervals *intervals, const struct homes *homes)
{
    uint32_t n = intervals->reuses->moment_count;
    g_autoptr(GArray) timed = g_array_new(FALSE, FALSE, sizeof(struct timed_action));
    struct decisions *decisions = g_new0(struct decisions, 1);
    decisions->moment_count = n;
    decisions->initial = g_memdup2(intervals->permanent, intervals->reuses->chunk_count);
    for (uint32_t c = 0; c < homes->chunk_count; c++)
        decisions->initial[c] |= homes->on_device[c];
    decisions->first = g_new0(uint32_t, n + 2);
    decisions->actions = g_array_new(FALSE, FALSE, sizeof(struct plan_action));
    for (guint i = 0; i < intervals->items->len; i++) {
        const struct interval *interval = interval_at(intervals, i);
        append_interval(intervals, interval, timed);
        decisions->initial[interval->chunk] |= intervals_is_initial(intervals, interval);
    }
    for (guint i = 0; i < intervals->flushes->len; i++) {
        const struct interval_flush *flush = &g_array_index(intervals->flushes,
                                                            struct interval_flush, i);
        append(timed, flush->moment, 1, 0, PLAN_FLUSH, flush->chunk);
    }
    g_array_sort(timed, by_time);
    decisions->over = g_new(uint32_t, timed->len);
    for (guint i = 0; i < timed->len; i++) {
        const struct timed_action *item = &g_array_index(timed, struct timed_action, i);
        decisions->over[i] = item->over;
        decisions->first[item->moment + 1]++;
        g_array_append_val(decisions->actions, item->action);
    }
    for (uint32_t m = 0; m <= n; m++)
        decisions->first[m + 1] += decisions->first[m];
    return decisions;
}
