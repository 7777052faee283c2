#include "planner/schedule/keep.h"

#include <math.h>

enum {
    GIVEN_UP_MOST = 32, /* gaps a round; a power of 2 */
    ORDER_WINDOW = 32,  /* ranks that a round may confuse */
};

/* How much worse than the best a round may leave the traffic, at the beginning; less and less
 * towards the end. */
#define TOLERANCE 0.002

#define GOLDEN_RATIO 0.6180339887498949
#define FAVOURED     4

/* Room at moments that have some left costs less, again and again. */
enum { WEIGHINGS = 6 };
#define CHEAPER    0.1
#define LEAST_COST 1e-5

struct ranked {
    uint32_t gap;
    double worth; /* bytes saved for its room */
    double place; /* in which it comes among those worth the same */
};

/* Spreads chunks evenly over [0, 1), whatever stretch of them is looked at. */
static double place_of(uint32_t chunk)
{
    double turns = chunk * GOLDEN_RATIO;
    return turns - floor(turns);
}

/* What keeping the gap saves, beside those that are kept. */
static double value_of(const struct keep *keep, uint32_t g, const struct keep_taste *taste)
{
    const double favour = (double)taste->favour / FAVOUR_PARTS;
    const struct gap *gap = &keep->gaps->items[g];
    bool favoured = !(gap->flags & GAP_DIRTIES) && place_of(gap->chunk) < favour;

    return (double)gaps_saved(keep->gaps, g, keep->kept) * (favoured ? FAVOURED : 1);
}

static int most_worth_first(const void *left, const void *right)
{
    const struct ranked *a = left, *b = right;
    if (a->worth != b->worth)
        return a->worth > b->worth ? -1 : 1;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    return a->gap < b->gap ? -1 : 1;
}

/* What a byte of room costs at the moments that the gap spans. `before` [moment_count + 1]: at all
 * moments before each. */
static double span_cost(const struct gaps *gaps, const struct gap *gap, const double *before)
{
    if (gap->to > gap->from)
        return before[gap->to] - before[gap->from + 1];
    return before[gaps->moment_count] - before[gap->from + 1] + before[gap->to];
}

/* By the gaps' values for what their room costs: `cost` [moment_count] a byte at each moment,
 * positive. To be spread, gaps that last for an iteration, but for a moment each, are worth the
 * same. */
static void rank_gaps(struct keep *keep, const double *cost, const struct keep_taste *taste)
{
    const struct gaps *gaps = keep->gaps;
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(struct ranked));
    g_autofree double *before = g_new0(double, gaps->moment_count + 1);

    for (uint32_t m = 0; m < gaps->moment_count; m++)
        before[m + 1] = before[m] + cost[m];
    for (uint32_t g = 0; g < gaps->count; g++) {
        const struct gap *gap = &gaps->items[g];
        if (!gaps_can_keep(gap) || !gaps_span(gaps, gap))
            continue;
        double value = value_of(keep, g, taste), bytes = (double)gaps->bytes[gap->chunk];
        struct ranked item = {g, value / (bytes * span_cost(gaps, gap, before)), 0};
        if (taste->spread && gap->to == gap->from)
            item = (struct ranked){g, value / bytes / before[gaps->moment_count],
                                   place_of(gap->chunk)};
        g_array_append_val(ranked, item);
    }
    g_array_sort(ranked, most_worth_first);
    g_array_set_size(keep->order, 0);
    for (guint i = 0; i < ranked->len; i++)
        g_array_append_val(keep->order, g_array_index(ranked, struct ranked, i).gap);
}

/* The moments of a gap's span; the second of the two where it wraps round. */
struct stretches {
    uint32_t begin[2], end[2];
};

static struct stretches stretches_of(const struct gaps *gaps, const struct gap *gap)
{
    if (gap->to > gap->from)
        return (struct stretches){{gap->from + 1, 0}, {gap->to, 0}};
    return (struct stretches){{gap->from + 1, 0}, {gaps->moment_count, gap->to}};
}

static uint32_t next_moment(const struct gaps *gaps, uint32_t moment)
{
    return moment + 1 == gaps->moment_count ? 0 : moment + 1;
}

/* But what takes no room. */
static void keep_nothing(struct keep *keep)
{
    const struct gaps *gaps = keep->gaps;

    for (uint32_t g = 0; g < gaps->count; g++)
        keep->kept[g] = gaps_can_keep(&gaps->items[g]) && !gaps_span(gaps, &gaps->items[g]);
}

struct keep *keep_new(const struct gaps *gaps)
{
    struct keep *keep = g_new0(struct keep, 1);

    keep->gaps = gaps;
    keep->kept = g_new0(uint8_t, gaps->count);
    keep->slack = slack_new(gaps->room, gaps->moment_count);
    keep->order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    keep_nothing(keep);
    keep->tight = g_new(uint32_t, gaps->count);
    for (uint32_t g = 0; g < gaps->count; g++)
        keep->tight[g] = next_moment(gaps, gaps->items[g].from);
    g_autofree double *cost = g_new(double, gaps->moment_count);
    for (uint32_t m = 0; m < gaps->moment_count; m++)
        cost[m] = 1;
    rank_gaps(keep, cost, &(struct keep_taste){0});
    keep->traffic = keep->most = gaps_traffic(gaps, keep->kept);
    return keep;
}

void keep_free(struct keep *keep)
{
    if (!keep)
        return;
    g_free(keep->kept);
    slack_free(keep->slack);
    g_free(keep->tight);
    g_array_unref(keep->order);
    g_free(keep);
}

/* What did not fit mostly does not fit again for the same reason: that moment is looked at first.
 */
static bool fits(struct keep *keep, uint32_t g)
{
    const struct gaps *gaps = keep->gaps;
    const struct gap *gap = &gaps->items[g];
    int64_t bytes = (int64_t)gaps->bytes[gap->chunk];

    const struct stretches spanned = stretches_of(gaps, gap);

    if (slack_at(keep->slack, keep->tight[g]) < bytes)
        return false;
    for (int i = 0; i < 2; i++) {
        uint32_t m = slack_lacking(keep->slack, spanned.begin[i], spanned.end[i], bytes);
        if (m < spanned.end[i]) {
            keep->tight[g] = m;
            return false;
        }
    }
    return true;
}

static void set(struct keep *keep, uint32_t g, bool kept)
{
    const struct gaps *gaps = keep->gaps;
    const struct gap *gap = &gaps->items[g];
    int64_t bytes = (int64_t)gaps->bytes[gap->chunk] * (kept ? 1 : -1);

    uint64_t saved = gaps_saved(gaps, g, keep->kept);

    keep->traffic = kept ? keep->traffic - saved : keep->traffic + saved;
    keep->kept[g] = kept;
    const struct stretches spanned = stretches_of(gaps, gap);
    for (int i = 0; i < 2; i++)
        slack_take(keep->slack, spanned.begin[i], spanned.end[i], bytes);
}

static bool try_to_keep(struct keep *keep, uint32_t g)
{
    if (keep->kept[g] || !fits(keep, g))
        return false;
    set(keep, g, true);
    return true;
}

/* Whatever still fits and saves something, the most worth first. */
static void fill(struct keep *keep)
{
    for (guint i = 0; i < keep->order->len; i++)
        try_to_keep(keep, g_array_index(keep->order, uint32_t, i));
}

static void clear(struct keep *keep)
{
    keep_nothing(keep);
    slack_reset(keep->slack, keep->gaps->room);
    slack_take(keep->slack, 0, keep->gaps->moment_count, (int64_t)keep->reserve);
    keep->traffic = keep->most;
}

/* Sets exactly the gaps of `kept`. */
static void restore(struct keep *keep, const uint8_t *kept)
{
    for (int adding = 0; adding < 2; adding++)
        for (guint i = 0; i < keep->order->len; i++) {
            uint32_t g = g_array_index(keep->order, uint32_t, i);
            if (keep->kept[g] != kept[g] && kept[g] == adding)
                set(keep, g, adding);
        }
}

static int64_t largest_chunk(const struct gaps *gaps)
{
    uint64_t largest = 0;

    for (uint32_t c = 0; c < gaps->chunk_count; c++)
        largest = MAX(largest, gaps->bytes[c]);
    return (int64_t)largest;
}

/* [gap count] of those that are in `order`; of others 0. */
static double *value_gaps(struct keep *keep, const struct keep_taste *taste)
{
    double *value = g_new0(double, keep->gaps->count);

    clear(keep);
    for (guint i = 0; i < keep->order->len; i++) {
        uint32_t g = g_array_index(keep->order, uint32_t, i);
        value[g] = value_of(keep, g, taste);
    }
    return value;
}

static double kept_value(const struct keep *keep, const double *value)
{
    double sum = 0;

    for (uint32_t g = 0; g < keep->gaps->count; g++)
        sum += keep->kept[g] ? value[g] : 0;
    return sum;
}

void keep_weigh(struct keep *keep, const struct keep_taste *taste)
{
    if (keep->gaps->count == 0)
        return;
    uint32_t moments = keep->gaps->moment_count;
    int64_t largest = largest_chunk(keep->gaps);
    g_autofree uint8_t *best = g_memdup2(keep->kept, keep->gaps->count);
    g_autofree double *cost = g_new(double, moments), *value = value_gaps(keep, taste);
    double most = -1;

    for (uint32_t m = 0; m < moments; m++)
        cost[m] = 1;
    for (int round = 0; round < WEIGHINGS; round++) {
        clear(keep);
        rank_gaps(keep, cost, taste);
        fill(keep);
        double sum = kept_value(keep, value);
        if (sum > most) {
            most = sum;
            memcpy(best, keep->kept, keep->gaps->count);
        }
        for (uint32_t m = 0; m < moments; m++)
            cost[m] = fmax(cost[m] * (slack_at(keep->slack, m) >= largest ? CHEAPER : 1),
                           LEAST_COST);
    }
    restore(keep, best);
}

static bool spans(const struct gap *gap, uint32_t moment)
{
    if (gap->to > gap->from)
        return moment > gap->from && moment < gap->to;
    return moment > gap->from || moment < gap->to;
}

static bool is_crowded(const struct keep *keep, const struct gap *gap)
{
    const struct gaps *gaps = keep->gaps;

    const struct stretches spanned = stretches_of(gaps, gap);
    for (int i = 0; i < 2; i++)
        if (slack_lacking(keep->slack, spanned.begin[i], spanned.end[i], 0) < spanned.end[i])
            return true;
    return false;
}

void keep_reserve(struct keep *keep, uint64_t bytes)
{
    keep->reserve += bytes;
    slack_take(keep->slack, 0, keep->gaps->moment_count, (int64_t)bytes);
    for (guint i = keep->order->len; i-- > 0;) {
        uint32_t g = g_array_index(keep->order, uint32_t, i);
        if (keep->kept[g] && is_crowded(keep, &keep->gaps->items[g]))
            set(keep, g, false);
    }
}

static void change(struct keep *keep, uint32_t g, bool kept, GArray *changed)
{
    set(keep, g, kept);
    g_array_append_val(changed, g);
}

static uint32_t draw(GRand *random, uint32_t below)
{
    return (uint32_t)g_rand_int_range(random, 0, (gint32)below);
}

/* Kept gaps that take room at the moment: a sample of `most`, each as likely as the others, in no
 * order. Returns how many. */
static uint32_t sample_kept(const struct keep *keep, uint32_t moment, uint32_t most, GRand *random,
                            uint32_t *chosen)
{
    uint32_t count = 0, seen = 0;

    for (guint i = 0; i < keep->order->len; i++) {
        uint32_t g = g_array_index(keep->order, uint32_t, i);
        if (!keep->kept[g] || !spans(&keep->gaps->items[g], moment))
            continue;
        seen++;
        if (count < most)
            chosen[count++] = g;
        else {
            uint32_t place = draw(random, seen);
            if (place < most)
                chosen[place] = g;
        }
    }
    return count;
}

/* Gives up some kept gaps that take room at a moment drawn at random: few mostly, many sometimes.
 */
static void give_up(struct keep *keep, GRand *random, GArray *changed)
{
    uint32_t chosen[GIVEN_UP_MOST];
    uint32_t most = 1 + draw(random, 1u << draw(random, 6));
    uint32_t moment = draw(random, keep->gaps->moment_count);
    uint32_t count = sample_kept(keep, moment, MIN(most, GIVEN_UP_MOST), random, chosen);

    for (uint32_t i = 0; i < count; i++)
        change(keep, chosen[i], false, changed);
}

/* Keeps a gap drawn at random, whatever must be given up for it. */
static void insist(struct keep *keep, GRand *random, GArray *changed)
{
    const struct gaps *gaps = keep->gaps;
    uint32_t g = g_array_index(keep->order, uint32_t, draw(random, keep->order->len));
    const struct gap *gap = &gaps->items[g];
    int64_t bytes = (int64_t)gaps->bytes[gap->chunk];

    if (keep->kept[g])
        return;
    for (uint32_t m = next_moment(gaps, gap->from); m != gap->to; m = next_moment(gaps, m))
        while (slack_at(keep->slack, m) < bytes) {
            uint32_t victim;
            if (!sample_kept(keep, m, 1, random, &victim))
                return;
            change(keep, victim, false, changed);
        }
    change(keep, g, true, changed);
}

/* Fills in the order of worth, blurred: each place takes one of the next few. */
static void fill_blurred(struct keep *keep, GRand *random, GArray *changed)
{
    uint32_t window[ORDER_WINDOW], count = 0, width = 1u << draw(random, 6);
    guint next = 0;

    while (next < keep->order->len || count) {
        while (count < width && next < keep->order->len) {
            uint32_t g = g_array_index(keep->order, uint32_t, next++);
            if (!keep->kept[g])
                window[count++] = g;
        }
        if (!count)
            break;
        uint32_t pick = draw(random, count);
        if (fits(keep, window[pick]))
            change(keep, window[pick], true, changed);
        window[pick] = window[--count];
    }
}

static void undo(struct keep *keep, const GArray *changed)
{
    for (guint i = changed->len; i-- > 0;) {
        uint32_t g = g_array_index(changed, uint32_t, i);
        set(keep, g, !keep->kept[g]);
    }
}

void keep_improve(struct keep *keep, GRand *random, uint32_t rounds, const gint *stop)
{
    g_autoptr(GArray) changed = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autofree uint8_t *best = g_memdup2(keep->kept, keep->gaps->count);
    uint64_t least = keep->traffic;

    for (uint32_t round = 0; keep->order->len && round < rounds; round++) {
        double tolerance = 1 + TOLERANCE * (rounds - round) / rounds;
        uint64_t before = keep->traffic;
        if (stop && g_atomic_int_get(stop))
            break;
        g_array_set_size(changed, 0);
        if (draw(random, 2))
            insist(keep, random, changed);
        else
            give_up(keep, random, changed);
        fill_blurred(keep, random, changed);
        if (keep->traffic > before && (double)keep->traffic > (double)least * tolerance)
            undo(keep, changed);
        if (keep->traffic < least) {
            least = keep->traffic;
            memcpy(best, keep->kept, keep->gaps->count);
        }
    }
    restore(keep, best);
}
