#include "planner/schedule/fetches.h"

static int32_t moments(const struct stays *stays)
{
    return (int32_t)stays->gaps->moment_count;
}

static struct stay *stay_at(const struct stays *stays, guint index)
{
    return &g_array_index(stays->items, struct stay, index);
}

/* ---- what a pace tells ---- */

/* A copy down. */
struct drain {
    int32_t issue;
    uint32_t chunk;
    struct stay *stay; /* that it ends; NULL: it stays */
};

static int by_issue(const void *left, const void *right)
{
    const struct drain *a = left, *b = right;
    if (a->issue != b->issue)
        return a->issue < b->issue ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

static int32_t issue_of(const struct stay *stay)
{
    return stay->flush != STAY_NEVER ? stay->flush : stay->leave;
}

/* In the order of their moments within an iteration. */
static GArray *list_drains(const struct stays *stays)
{
    GArray *drains = g_array_new(FALSE, FALSE, sizeof(struct drain));

    for (guint i = 0; i < stays->items->len; i++) {
        struct stay *stay = stay_at(stays, i);
        const struct drain item = {(int32_t)stays_moment(stays, issue_of(stay)), stay->chunk, stay};
        if (stay->flush != STAY_NEVER || stay->write_back)
            g_array_append_val(drains, item);
    }
    for (guint i = 0; i < stays->flushes->len; i++) {
        const struct stays_flush *flush = &g_array_index(stays->flushes, struct stays_flush, i);
        const struct drain item = {(int32_t)flush->moment, flush->chunk, NULL};
        g_array_append_val(drains, item);
    }
    g_array_sort(drains, by_issue);
    return drains;
}

/* Sets `gone` of every stay that is copied back. The first pass finds how late the link is at the
 * end of an iteration. */
static void find_gone(struct stays *stays, const struct stays_options *options)
{
    const struct pace *pace = options->pace;
    g_autoptr(GArray) drains = list_drains(stays);
    int64_t link_ns = -(int64_t)pace->period_ns;

    for (int pass = 0; pass < 2; pass++) {
        for (guint i = 0; i < drains->len; i++) {
            const struct drain *item = &g_array_index(drains, struct drain, i);
            struct stay *stay = item->stay;
            link_ns = MAX(link_ns, pace_ns(pace, item->issue)) +
                      (int64_t)options->copy_ns[1][item->chunk];
            if (!stay)
                continue;
            int32_t over = pace_moment(pace, link_ns) + 1 + issue_of(stay) - item->issue;
            stay->gone = CLAMP(over, stay->leave, stay->leave + moments(stays) / 2);
        }
        link_ns -= (int64_t)pace->period_ns;
    }
}

/* [stays] when each fetch must begin for all uses to come in time. */
static int64_t *find_latest(const struct stays *stays, const struct stays_options *options)
{
    int64_t *latest = g_new0(int64_t, stays->items->len);
    int64_t period = (int64_t)options->pace->period_ns, next = 2 * period;

    for (int pass = 0; pass < 2; pass++) {
        for (guint i = stays->items->len; i-- > 0;) {
            const struct stay *stay = stay_at(stays, i);
            if (!stay->fetch)
                continue;
            next = MIN(next, pace_ns(options->pace, stay->first_use)) -
                   (int64_t)options->copy_ns[0][stay->chunk];
            next = MAX(next, -period);
            latest[i] = next;
        }
        next += period;
    }
    return latest;
}

/* ---- room ---- */

static int64_t bytes_of(const struct stays *stays, const struct stay *stay)
{
    return (int64_t)stays->gaps->bytes[stay->chunk];
}

static void take(const struct stays *stays, const struct stay *stay, int32_t from, int32_t to,
                 int64_t *slack)
{
    for (int32_t m = from; m < to; m++)
        slack[stays_moment(stays, m)] -= bytes_of(stays, stay);
}

/* The earliest moment, not before `limit`, from which there is room until the first use. */
static int32_t earliest(const struct stays *stays, const struct stay *stay, int32_t limit,
                        const int64_t *slack)
{
    int32_t enter = stay->first_use;

    while (enter > limit && slack[stays_moment(stays, enter - 1)] >= bytes_of(stays, stay))
        enter--;
    return enter;
}

static void begin_slack(const struct stays *stays, const struct keep *keep, int64_t *slack)
{
    for (uint32_t m = 0; m < stays->gaps->moment_count; m++)
        slack[m] = slack_at(keep->slack, m) + (int64_t)keep->reserve;
    for (guint i = 0; i < stays->items->len; i++) {
        const struct stay *stay = stay_at(stays, i);
        take(stays, stay, stay->leave, stay->gone, slack);
    }
}

/* ---- all fetches ---- */

/* Where the fetches so far have come to. */
struct front {
    int32_t moment; /* in which the last was issued */
    int64_t ns;     /* when the link has done them */
};

static int32_t limit_of(const struct stay *stay, const struct stays_options *options,
                        const struct front *front, int32_t depth, int64_t latest)
{
    int32_t limit = MAX(MAX(stay->ready, stay->first_use - depth), front->moment);

    if (options->pace)
        limit = MAX(limit, pace_moment(options->pace,
                                       MAX(front->ns, latest - (int64_t)options->margin_ns)));
    return MIN(limit, stay->first_use);
}

/* The first pass finds how far the last fetch of an iteration reaches back, before which the first
 * of the next one is not issued. */
void fetches_issue(struct stays *stays, const struct keep *keep,
                   const struct stays_options *options)
{
    const struct pace *pace = options->pace;
    g_autofree int64_t *slack = g_new(int64_t, stays->gaps->moment_count);
    g_autofree int64_t *latest = pace ? find_latest(stays, options) : NULL;
    int32_t depth = (int32_t)MIN(options->look_ahead, stays->gaps->moment_count - 1);
    struct front front = {-depth, pace ? -(int64_t)pace->period_ns : 0};

    if (pace)
        find_gone(stays, options);
    for (int pass = 0; pass < 2; pass++) {
        begin_slack(stays, keep, slack);
        for (guint i = 0; i < stays->items->len; i++) {
            struct stay *stay = stay_at(stays, i);
            if (!stay->fetch)
                continue;
            int32_t limit = limit_of(stay, options, &front, depth, pace ? latest[i] : 0);
            stay->enter = earliest(stays, stay, limit, slack);
            take(stays, stay, stay->enter, stay->first_use, slack);
            front.moment = stay->enter;
            if (pace)
                front.ns = MAX(front.ns, pace_ns(pace, stay->enter)) +
                           (int64_t)options->copy_ns[0][stay->chunk];
        }
        front.moment -= moments(stays);
        front.ns -= pace ? (int64_t)pace->period_ns : 0;
    }
}
