#include "planner/schedule/stays.h"

#include "planner/schedule/fetches.h"

/* A chunk while its gaps are walked. */
struct walk {
    struct stays *stays;
    const struct stays_options *options;
    const uint8_t *kept;
    uint32_t chunk;
    struct stay stay;
    bool dirty;
    int32_t last_write;
};

static int32_t moments(const struct stays *stays)
{
    return (int32_t)stays->gaps->moment_count;
}

static void flush_for_host(struct walk *walk, const struct gap *gap)
{
    struct stays_flush flush = {walk->chunk, gap->host_first % walk->stays->gaps->moment_count};
    g_array_append_val(walk->stays->flushes, flush);
    walk->dirty = false;
}

/* A use, and the gap after it if the chunk stays in it. */
static void use(struct walk *walk, uint32_t g, int32_t moment)
{
    const struct gap *gap = &walk->stays->gaps->items[g];

    if (gap->flags & GAP_DIRTIES) {
        walk->dirty = true;
        walk->last_write = moment;
    }
    if (gap->flags & GAP_DEAD)
        walk->dirty = false;
    if (walk->kept[g] && gap->flags & GAP_FLUSH && walk->dirty)
        flush_for_host(walk, gap);
}

static void close_stay(struct walk *walk, int32_t moment)
{
    struct stay *stay = &walk->stay;

    stay->last_use = moment;
    stay->leave = moment + 1;
    stay->write_back = walk->dirty;
    if (walk->dirty && walk->options->flush_early && walk->last_write + 1 < stay->leave) {
        stay->flush = walk->last_write + 1;
        stay->write_back = false;
    }
    g_array_append_val(walk->stays->items, *stay);
}

/* `before` is the gap that the stay ends. */
static void open_stay(struct walk *walk, const struct gap *before, int32_t moment)
{
    int32_t n = moments(walk->stays), left = (int32_t)before->from + 1;

    while (left + n <= moment)
        left += n;
    while (left > moment)
        left -= n;
    walk->stay = (struct stay){.chunk = walk->chunk,
                               .enter = moment,
                               .first_use = moment,
                               .ready = left,
                               .flush = STAY_NEVER,
                               .fetch = before->flags & GAP_REFETCH};
    if (before->flags & GAP_FLUSH) {
        int32_t host = (int32_t)before->host_last + 1;
        while (host > moment)
            host -= n;
        walk->stay.ready = MAX(left, host);
    }
    walk->dirty = false;
}

/* Never leaves; only host operators may ask for its bytes. Walked twice: the second round knows
 * whether the iteration begins with it dirty. */
static void walk_permanent(struct walk *walk)
{
    const struct gaps *gaps = walk->stays->gaps;
    guint flushes = walk->stays->flushes->len;

    walk->stays->permanent[walk->chunk] = 1;
    for (int round = 0; round < 2; round++) {
        g_array_set_size(walk->stays->flushes, flushes);
        for (uint32_t g = gaps->first[walk->chunk]; g < gaps->first[walk->chunk + 1]; g++)
            use(walk, g, (int32_t)gaps->items[g].from);
    }
}

static void walk_chunk(struct walk *walk)
{
    const struct gaps *gaps = walk->stays->gaps;
    uint32_t first = gaps->first[walk->chunk], count = gaps->first[walk->chunk + 1] - first;
    uint32_t start = 0;

    /* From the first gap in which it leaves. */
    while (start < count && walk->kept[first + start])
        start++;
    if (start == count) {
        walk_permanent(walk);
        return;
    }
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t at = start + i, g = first + at % count, before = first + (at - 1) % count;
        int32_t moment = (int32_t)gaps->items[g].from + (at >= count ? moments(walk->stays) : 0);
        if (!walk->kept[before])
            open_stay(walk, &gaps->items[before], moment);
        use(walk, g, moment);
        if (!walk->kept[g])
            close_stay(walk, moment);
    }
}

/* First uses come to lie within the iteration. */
static void normalise(struct stays *stays)
{
    for (guint i = 0; i < stays->items->len; i++) {
        struct stay *stay = &g_array_index(stays->items, struct stay, i);
        int32_t shift = stay->first_use >= moments(stays) ? moments(stays) : 0;
        stay->enter -= shift;
        stay->first_use -= shift;
        stay->last_use -= shift;
        stay->leave -= shift;
        stay->gone = stay->leave;
        stay->ready -= shift;
        if (stay->flush != STAY_NEVER)
            stay->flush -= shift;
    }
}

static int by_first_use(const void *left, const void *right)
{
    const struct stay *a = left, *b = right;
    if (a->first_use != b->first_use)
        return a->first_use < b->first_use ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

uint32_t stays_moment(const struct stays *stays, int32_t moment)
{
    return (uint32_t)((moment + PACE_CYCLES * moments(stays)) % moments(stays));
}

struct stays *stays_new(const struct keep *keep, const struct stays_options *options)
{
    struct stays *stays = g_new0(struct stays, 1);

    stays->gaps = keep->gaps;
    stays->items = g_array_new(FALSE, FALSE, sizeof(struct stay));
    stays->flushes = g_array_new(FALSE, FALSE, sizeof(struct stays_flush));
    stays->permanent = g_new0(uint8_t, keep->gaps->chunk_count);
    for (uint32_t c = 0; c < keep->gaps->chunk_count; c++)
        if (keep->gaps->first[c] < keep->gaps->first[c + 1]) {
            struct walk walk = {.stays = stays, .options = options, .kept = keep->kept, .chunk = c};
            walk_chunk(&walk);
        }
    normalise(stays);
    g_array_sort(stays->items, by_first_use);
    fetches_issue(stays, keep, options);
    return stays;
}

void stays_free(struct stays *stays)
{
    if (!stays)
        return;
    g_array_unref(stays->items);
    g_array_unref(stays->flushes);
    g_free(stays->permanent);
    g_free(stays);
}

/* An action with its place: departures before flushes before arrivals, these by their use. */
struct timed {
    uint32_t moment;
    uint8_t turn;
    int32_t use;
    struct plan_action action;
};

static int by_time(const void *left, const void *right)
{
    const struct timed *a = left, *b = right;
    if (a->moment != b->moment)
        return a->moment < b->moment ? -1 : 1;
    if (a->turn != b->turn)
        return (int)a->turn - (int)b->turn;
    if (a->use != b->use)
        return a->use < b->use ? -1 : 1;
    return a->action.chunk < b->action.chunk ? -1 : a->action.chunk > b->action.chunk;
}

static void append(GArray *timed, uint32_t moment, uint8_t turn, int32_t use_moment,
                   enum plan_action_kind kind, uint32_t chunk)
{
    struct timed item = {moment, turn, use_moment, {chunk, (uint8_t)kind, NO_ADDRESS}};
    g_array_append_val(timed, item);
}

/* What ends with the iteration is done after its last operator, not before the next one's first. */
static uint32_t ending(const struct stays *stays, int32_t moment)
{
    uint32_t m = stays_moment(stays, moment);
    return m ? m : stays->gaps->moment_count;
}

static void append_stay(const struct stays *stays, const struct stay *stay, GArray *timed)
{
    append(timed, stays_moment(stays, stay->enter), 2, stay->first_use,
           stay->fetch ? PLAN_FETCH : PLAN_ALLOCATE, stay->chunk);
    if (stay->flush != STAY_NEVER)
        append(timed, ending(stays, stay->flush), 1, 0, PLAN_FLUSH, stay->chunk);
    append(timed, ending(stays, stay->leave), 0, 0, stay->write_back ? PLAN_WRITE_BACK : PLAN_DROP,
           stay->chunk);
}

uint32_t stays_look_ahead(const struct stays *stays)
{
    int32_t most = 0;

    for (guint i = 0; i < stays->items->len; i++) {
        const struct stay *stay = &g_array_index(stays->items, struct stay, i);
        most = MAX(most, stay->fetch ? stay->first_use - stay->enter : 0);
    }
    return (uint32_t)most;
}

bool stays_begins(const struct stays *stays, const struct stay *stay)
{
    int32_t n = moments(stays);
    return (stay->enter < 0 && stay->leave > 0) || (stay->enter < n && stay->leave > n);
}

struct decisions *stays_decisions(const struct stays *stays, const struct homes *homes)
{
    uint32_t n = stays->gaps->moment_count;
    g_autoptr(GArray) timed = g_array_new(FALSE, FALSE, sizeof(struct timed));
    struct decisions *decisions = g_new0(struct decisions, 1);

    decisions->moment_count = n;
    decisions->initial = g_memdup2(stays->permanent, stays->gaps->chunk_count);
    for (uint32_t c = 0; c < homes->chunk_count; c++)
        decisions->initial[c] |= homes->on_device[c];
    decisions->first = g_new0(uint32_t, n + 2);
    decisions->actions = g_array_new(FALSE, FALSE, sizeof(struct plan_action));
    for (guint i = 0; i < stays->items->len; i++) {
        const struct stay *stay = &g_array_index(stays->items, struct stay, i);
        append_stay(stays, stay, timed);
        decisions->initial[stay->chunk] |= stays_begins(stays, stay);
    }
    for (guint i = 0; i < stays->flushes->len; i++) {
        const struct stays_flush *flush = &g_array_index(stays->flushes, struct stays_flush, i);
        append(timed, flush->moment, 1, 0, PLAN_FLUSH, flush->chunk);
    }
    g_array_sort(timed, by_time);
    for (guint i = 0; i < timed->len; i++) {
        const struct timed *item = &g_array_index(timed, struct timed, i);
        decisions->first[item->moment + 1]++;
        g_array_append_val(decisions->actions, item->action);
    }
    for (uint32_t m = 0; m <= n; m++)
        decisions->first[m + 1] += decisions->first[m];
    return decisions;
}
