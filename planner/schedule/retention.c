#include "planner/schedule/retention.h"

#include <math.h>
#include <string.h>

enum {
    ORDER_WINDOW = 32, /* intervals that fit, which a round may shuffle */
    WEIGHTS_A_PART = 4,
};

/* The share of additional traffic, relative to the best state, that a round may leave. It falls to
 * 0 towards the end. */
#define TOLERANCE 0.002

#define GOLDEN_RATIO 0.6180339887498949
#define BIAS_FACTOR  4

/* The price of moments with free room falls, again and again. */
enum { PRICE_ROUNDS = 6 };
#define PRICE_DECAY 0.1
#define PRICE_LEAST 1e-5

struct ranked_reuse {
    double worth; /* >= 0: bytes saved for the price of the room */
    double place; /* >= 0: orders intervals of equal worth */
    uint32_t reuse;
};

/* Spreads chunks evenly over [0, 1), in whatever range of chunks. */
static double place_of(chunk_id chunk)
{
    double turns = chunk * GOLDEN_RATIO;
    return turns - floor(turns);
}

static uint64_t weigh(const struct retention *retention, chunk_id chunk, struct reuse_copies copies)
{
    int way = reuses_is_gathered(retention->reuses, chunk) ? 2 : 0;
    return (copies.fetches * (uint64_t)retention->weights[way] +
            copies.writes * (uint64_t)retention->weights[1]) *
           retention->reuses->worth[chunk];
}

/* Returns what retaining the interval saves beside the retained ones. */
static double value_of(const struct retention *retention, uint32_t g,
                       const struct retention_bias *bias)
{
    const double parameter_share = (double)bias->parameter_share / BIAS_PARTS;
    const struct reuse *reuse = &retention->reuses->items[g];
    bool preferred = !(reuse->flags & REUSE_DIRTIES) && place_of(reuse->chunk) < parameter_share;
    struct reuse_copies saved = reuses_saved(retention->reuses, g, retention->retained);
    double value = (double)weigh(retention, reuse->chunk, saved);
    uint32_t epoch = saved.writes ? 0 : retention->epoch[g];
    if (epoch)
        value += (double)weigh(retention, reuse->chunk, (struct reuse_copies){.writes = 1}) / epoch;
    return value * (preferred ? BIAS_FACTOR : 1);
}

/* The keys by which intervals are sorted. The bits of doubles that are not negative are in the
 * order of their values. */
static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t most_worth_first(const struct ranked_reuse *item)
{
    return ~bits_of(item->worth);
}

static uint64_t lowest_place_first(const struct ranked_reuse *item)
{
    return bits_of(item->place);
}

enum { DIGIT_BITS = 8, DIGITS = 1 << DIGIT_BITS };

/* Sorts by one digit of the key, from `items` into `sorted`, and keeps the order of equal digits.
 * Returns false, and sorts nothing, if all are equal. */
static bool sort_by_digit(const struct ranked_reuse *items, uint32_t count, unsigned shift,
                          uint64_t (*key)(const struct ranked_reuse *), struct ranked_reuse *sorted)
{
    uint32_t begin[DIGITS + 1] = {0};
    for (uint32_t i = 0; i < count; i++)
        begin[(key(&items[i]) >> shift) % DIGITS + 1]++;
    if (begin[(key(&items[0]) >> shift) % DIGITS + 1] == count)
        return false;
    for (uint32_t digit = 0; digit < DIGITS; digit++)
        begin[digit + 1] += begin[digit];
    for (uint32_t i = 0; i < count; i++)
        sorted[begin[(key(&items[i]) >> shift) % DIGITS]++] = items[i];
    return true;
}

/* Sorts digit by digit, which takes a third of the time that comparisons do. Items with equal keys
 * keep their order. `scratch` has room for as many. */
static void sort_ranked(GArray *ranked, uint64_t (*key)(const struct ranked_reuse *),
                        struct ranked_reuse *scratch)
{
    struct ranked_reuse *items = (struct ranked_reuse *)(void *)ranked->data, *other = scratch;
    if (!ranked->len)
        return;
    for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS)
        if (sort_by_digit(items, ranked->len, shift, key, other)) {
            struct ranked_reuse *sorted = other;
            other = items;
            items = sorted;
        }
    if (items == scratch)
        memcpy(ranked->data, scratch, ranked->len * sizeof *scratch);
}

/* Returns the price of a byte over the moments of the interval. `before` [moment_count + 1] is the
 * sum of the prices before each moment. */
static double span_cost(const struct reuses *reuses, const struct reuse *reuse,
                        const double *before)
{
    if (reuse->to > reuse->from)
        return before[reuse->to] - before[reuse->from + 1];
    return before[reuses->moment_count] - before[reuse->from + 1] + before[reuse->to];
}

/* Sorts by value per price of the room; `price` [moment_count] is per byte and positive. With
 * `spread`, intervals that last for a whole iteration but one moment have equal worth. */
static void rank_reuses(struct retention *retention, const double *price,
                        const struct retention_bias *bias)
{
    const struct reuses *reuses = retention->reuses;
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(struct ranked_reuse));
    g_autofree double *before = g_new0(double, reuses->moment_count + 1);
    for (uint32_t m = 0; m < reuses->moment_count; m++)
        before[m + 1] = before[m] + price[m];
    for (uint32_t g = 0; g < reuses->count; g++) {
        const struct reuse *reuse = &reuses->items[g];
        if (!reuse_can_retain(reuse) || !reuse_span(reuses, reuse))
            continue;
        double value = value_of(retention, g, bias),
               bytes = (double)reuses->slot_bytes[reuse->chunk];
        struct ranked_reuse item = {value / (bytes * span_cost(reuses, reuse, before)), 0, g};
        if (bias->spread && reuse->to == reuse->from)
            item = (struct ranked_reuse){value / bytes / before[reuses->moment_count],
                                         place_of(reuse->chunk), g};
        g_array_append_val(ranked, item);
    }
    g_autofree struct ranked_reuse *scratch = g_new(struct ranked_reuse, ranked->len);
    if (bias->spread)
        sort_ranked(ranked, lowest_place_first, scratch);
    sort_ranked(ranked, most_worth_first, scratch);
    g_array_set_size(retention->order, 0);
    for (guint i = 0; i < ranked->len; i++)
        g_array_append_val(retention->order, g_array_index(ranked, struct ranked_reuse, i).reuse);
}

static uint32_t next_moment(const struct reuses *reuses, moment_id moment)
{
    return moment + 1 == reuses->moment_count ? 0 : moment + 1;
}

/* Retains only intervals that take no room, and chunks that must stay. */
static void retain_nothing(struct retention *retention)
{
    const struct reuses *reuses = retention->reuses;
    for (uint32_t g = 0; g < reuses->count; g++)
        retention->retained[g] = reuses->items[g].flags & REUSE_STAYS ||
                                 (reuse_can_retain(&reuses->items[g]) &&
                                  !reuse_span(reuses, &reuses->items[g]));
}

/* Weighs a way of copies by its share. At the end of the scale a copy counts for a 32nd of one of
 * the other way: enough to tell that no copy is better. */
static uint32_t weight_of(uint32_t share)
{
    return share ? share * WEIGHTS_A_PART : 1;
}

/* Must follow retain_nothing. */
static void weigh_directions(struct retention *retention, const struct retention_bias *bias)
{
    const struct reuses *reuses = retention->reuses;
    retention->weights[0] = weight_of(BIAS_PARTS - bias->d2h_share);
    retention->weights[1] = weight_of(bias->d2h_share);
    retention->weights[2] = weight_of(bias->gather_share);
    retention->cost_most = 0;
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        retention->cost_most += weigh(retention, c,
                                      reuses_chunk_copies(reuses, c, retention->retained));
    retention->cost = retention->cost_most;
}

/* Returns 1 for each moment. Free with g_free. */
static double *equal_prices(uint32_t moments)
{
    double *price = g_new(double, moments);
    for (uint32_t m = 0; m < moments; m++)
        price[m] = 1;
    return price;
}

struct retention *retention_new(const struct reuses *reuses)
{
    struct retention *retention = g_new0(struct retention, 1);
    retention->reuses = reuses;
    retention->retained = g_new0(uint8_t, reuses->count);
    retention->headroom = headroom_new(reuses->room, reuses->moment_count);
    retention->order = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    retention->listed = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    retain_nothing(retention);
    retention->epoch = reuses_epochs(reuses);
    retention->blocked_at = g_new(uint32_t, reuses->count);
    for (uint32_t g = 0; g < reuses->count; g++)
        retention->blocked_at[g] = next_moment(reuses, reuses->items[g].from);
    g_autofree double *price = equal_prices(reuses->moment_count);
    const struct retention_bias alike = {.d2h_share = BIAS_PARTS / 2,
                                         .gather_share = BIAS_PARTS / 2};
    rank_reuses(retention, price, &alike);
    retention->traffic = retention->traffic_most = reuses_traffic(reuses, retention->retained);
    weigh_directions(retention, &alike);
    return retention;
}

void retention_free(struct retention *retention)
{
    if (!retention)
        return;
    g_free(retention->retained);
    headroom_free(retention->headroom);
    g_free(retention->blocked_at);
    g_free(retention->epoch);
    g_array_unref(retention->order);
    g_array_unref(retention->listed);
    g_free(retention);
}

/* An interval that did not fit mostly fails again for the same reason, so that moment is tested
 * first. */
static bool fits(struct retention *retention, uint32_t g)
{
    const struct reuses *reuses = retention->reuses;
    const struct reuse *reuse = &reuses->items[g];
    int64_t bytes = (int64_t)reuses->slot_bytes[reuse->chunk];
    if (headroom_at(retention->headroom, retention->blocked_at[g]) < bytes)
        return false;
    uint32_t blocked_at = headroom_first_below(
        retention->headroom, next_moment(reuses, reuse->from), reuse_span(reuses, reuse), bytes);
    if (blocked_at == NO_INDEX)
        return true;
    retention->blocked_at[g] = blocked_at;
    return false;
}

static void set(struct retention *retention, uint32_t g, bool retained)
{
    const struct reuses *reuses = retention->reuses;
    const struct reuse *reuse = &reuses->items[g];
    int64_t bytes = (int64_t)reuses->slot_bytes[reuse->chunk] * (retained ? 1 : -1);
    struct reuse_copies saved = reuses_saved(reuses, g, retention->retained);
    uint64_t copied = (saved.fetches + saved.writes) * reuses->copy_bytes[reuse->chunk];
    uint64_t cost = weigh(retention, reuse->chunk, saved);
    retention->traffic = retained ? retention->traffic - copied : retention->traffic + copied;
    retention->cost = retained ? retention->cost - cost : retention->cost + cost;
    retention->retained[g] = retained;
    headroom_take(retention->headroom, next_moment(reuses, reuse->from), reuse_span(reuses, reuse),
                  bytes);
}

static bool try_to_retain(struct retention *retention, uint32_t g)
{
    if (retention->retained[g] || !fits(retention, g))
        return false;
    set(retention, g, true);
    return true;
}

/* Retains whatever still fits and saves something, the most valuable first. */
static void fill(struct retention *retention)
{
    for (guint i = 0; i < retention->order->len; i++)
        try_to_retain(retention, g_array_index(retention->order, uint32_t, i));
}

static void clear(struct retention *retention)
{
    retain_nothing(retention);
    headroom_reset(retention->headroom, retention->reuses->room);
    headroom_take(retention->headroom, 0, retention->reuses->moment_count,
                  (int64_t)retention->reserve);
    retention->traffic = retention->traffic_most;
    retention->cost = retention->cost_most;
}

/* Retains exactly the intervals of `retained`. */
static void restore(struct retention *retention, const uint8_t *retained)
{
    for (int adding = 0; adding < 2; adding++)
        for (guint i = 0; i < retention->order->len; i++) {
            uint32_t g = g_array_index(retention->order, uint32_t, i);
            if (retention->retained[g] != retained[g] && retained[g] == adding)
                set(retention, g, adding);
        }
}

static int64_t largest_chunk(const struct reuses *reuses)
{
    uint64_t largest = 0;
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        largest = MAX(largest, reuses->slot_bytes[c]);
    return (int64_t)largest;
}

static int larger_first(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return *a == *b ? 0 : *a > *b ? -1 : 1;
}

/* Half of the bytes lie in chunks of at least this size. */
static uint64_t typical_chunk(const struct reuses *reuses)
{
    g_autofree uint64_t *bytes = g_memdup2(reuses->slot_bytes, reuses->chunk_count * sizeof *bytes);
    uint64_t all = 0, larger = 0;
    uint32_t c = 0;
    qsort(bytes, reuses->chunk_count, sizeof *bytes, larger_first);
    for (uint32_t i = 0; i < reuses->chunk_count; i++)
        all += bytes[i];
    for (; c + 1 < reuses->chunk_count && 2 * (larger + bytes[c]) < all; c++)
        larger += bytes[c];
    return bytes[c];
}

/* Returns the values of the intervals in `order`, 0 for others. */
static double *value_reuses(struct retention *retention, const struct retention_bias *bias)
{
    double *value = g_new0(double, retention->reuses->count);
    clear(retention);
    for (guint i = 0; i < retention->order->len; i++) {
        uint32_t g = g_array_index(retention->order, uint32_t, i);
        value[g] = value_of(retention, g, bias);
    }
    return value;
}

static double retained_value(const struct retention *retention, const double *value)
{
    double sum = 0;
    for (uint32_t g = 0; g < retention->reuses->count; g++)
        sum += retention->retained[g] ? value[g] : 0;
    return sum;
}

static void begin_choice(struct retention *retention, const struct retention_bias *bias)
{
    retention->reserve = bias->reserve * typical_chunk(retention->reuses) / 2;
    clear(retention);
    weigh_directions(retention, bias);
}

void retention_choose_quickly(struct retention *retention, const struct retention_bias *bias)
{
    if (retention->reuses->count == 0)
        return;
    begin_choice(retention, bias);
    g_autofree double *price = equal_prices(retention->reuses->moment_count);
    rank_reuses(retention, price, bias);
    fill(retention);
}

void retention_choose(struct retention *retention, const struct retention_bias *bias)
{
    if (retention->reuses->count == 0)
        return;
    begin_choice(retention, bias);
    uint32_t moments = retention->reuses->moment_count;
    int64_t largest = largest_chunk(retention->reuses);
    g_autofree uint8_t *best = g_memdup2(retention->retained, retention->reuses->count);
    g_autofree double *price = equal_prices(moments), *value = value_reuses(retention, bias);
    double most = -1;

    for (int round = 0; round < PRICE_ROUNDS; round++) {
        clear(retention);
        rank_reuses(retention, price, bias);
        fill(retention);
        double sum = retained_value(retention, value);
        if (sum > most) {
            most = sum;
            memcpy(best, retention->retained, retention->reuses->count);
        }
        for (uint32_t m = 0; m < moments; m++)
            price[m] =
                fmax(price[m] * (headroom_at(retention->headroom, m) >= largest ? PRICE_DECAY : 1),
                     PRICE_LEAST);
    }
    restore(retention, best);
}

static bool spans(const struct reuse *reuse, moment_id moment)
{
    if (reuse->to > reuse->from)
        return moment > reuse->from && moment < reuse->to;
    return moment > reuse->from || moment < reuse->to;
}

static bool is_over_capacity(const struct retention *retention, const struct reuse *reuse)
{
    const struct reuses *reuses = retention->reuses;
    return headroom_first_below(retention->headroom, next_moment(reuses, reuse->from),
                                reuse_span(reuses, reuse), 0) != NO_INDEX;
}

void retention_reserve(struct retention *retention, uint64_t bytes)
{
    retention->reserve += bytes;
    headroom_take(retention->headroom, 0, retention->reuses->moment_count, (int64_t)bytes);
    for (guint i = retention->order->len; i-- > 0;) {
        uint32_t g = g_array_index(retention->order, uint32_t, i);
        if (retention->retained[g] && is_over_capacity(retention, &retention->reuses->items[g]))
            set(retention, g, false);
    }
}

static void change(struct retention *retention, uint32_t g, bool retained, GArray *changed)
{
    set(retention, g, retained);
    g_array_append_val(changed, g);
}

static uint32_t draw(GRand *random, uint32_t below)
{
    return (uint32_t)((uint64_t)g_rand_int(random) * below >> 32);
}

/* Lists the retained intervals that take room at the moment. */
static void list_retained(struct retention *retention, moment_id moment)
{
    g_array_set_size(retention->listed, 0);
    for (guint i = 0; i < retention->order->len; i++) {
        uint32_t g = g_array_index(retention->order, uint32_t, i);
        if (retention->retained[g] && spans(&retention->reuses->items[g], moment))
            g_array_append_val(retention->listed, g);
    }
}

/* Draws one of the listed intervals and takes it from the list, which must not be empty. */
static uint32_t draw_listed(struct retention *retention, GRand *random)
{
    guint place = draw(random, retention->listed->len);
    uint32_t g = g_array_index(retention->listed, uint32_t, place);
    g_array_remove_index_fast(retention->listed, place);
    return g;
}

/* Evicts some retained intervals that take room at a random moment: mostly few, sometimes many. */
static void evict_some(struct retention *retention, GRand *random, GArray *changed)
{
    uint32_t most = 1 + draw(random, 1u << draw(random, 6));
    moment_id moment = draw(random, retention->reuses->moment_count);
    list_retained(retention, moment);
    for (uint32_t i = 0; i < most && retention->listed->len; i++)
        change(retention, draw_listed(retention, random), false, changed);
}

/* Evicts random intervals until so many bytes are free at the moment. Returns false if too few can
 * be evicted. */
static bool make_room(struct retention *retention, moment_id moment, int64_t bytes, GRand *random,
                      GArray *changed)
{
    if (headroom_at(retention->headroom, moment) >= bytes)
        return true;
    list_retained(retention, moment);
    while (headroom_at(retention->headroom, moment) < bytes) {
        if (!retention->listed->len)
            return false;
        change(retention, draw_listed(retention, random), false, changed);
    }
    return true;
}

/* Retains a random interval, whatever must be evicted for it. */
static void force_one(struct retention *retention, GRand *random, GArray *changed)
{
    const struct reuses *reuses = retention->reuses;
    uint32_t g = g_array_index(retention->order, uint32_t, draw(random, retention->order->len));
    const struct reuse *reuse = &reuses->items[g];
    int64_t bytes = (int64_t)reuses->slot_bytes[reuse->chunk];
    if (retention->retained[g])
        return;
    for (uint32_t m = next_moment(reuses, reuse->from); m != reuse->to; m = next_moment(reuses, m))
        if (!make_room(retention, m, bytes, random, changed))
            return;
    change(retention, g, true, changed);
}

/* Fills in a blurred order of worth: each place takes one of the next few intervals at random. What
 * does not fit when it comes near will not fit later, because filling only takes room. */
static void fill_blurred(struct retention *retention, GRand *random, GArray *changed)
{
    uint32_t window[ORDER_WINDOW], count = 0, width = 1u << draw(random, 6);
    guint next = 0;
    while (next < retention->order->len || count) {
        while (count < width && next < retention->order->len) {
            uint32_t g = g_array_index(retention->order, uint32_t, next++);
            if (!retention->retained[g] && fits(retention, g))
                window[count++] = g;
        }
        if (!count)
            break;
        uint32_t pick = draw(random, count);
        if (fits(retention, window[pick]))
            change(retention, window[pick], true, changed);
        window[pick] = window[--count];
    }
}

static void undo(struct retention *retention, const GArray *changed)
{
    for (guint i = changed->len; i-- > 0;) {
        uint32_t g = g_array_index(changed, uint32_t, i);
        set(retention, g, !retention->retained[g]);
    }
}

void retention_improve(struct retention *retention, GRand *random, uint32_t rounds,
                       const gint *stop)
{
    g_autoptr(GArray) changed = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autofree uint8_t *best = g_memdup2(retention->retained, retention->reuses->count);
    uint64_t least = retention->cost;
    for (uint32_t round = 0; retention->order->len && round < rounds; round++) {
        double tolerance = 1 + TOLERANCE * (rounds - round) / rounds;
        uint64_t before = retention->cost;
        if (stop && g_atomic_int_get(stop))
            break;
        g_array_set_size(changed, 0);
        if (draw(random, 2))
            force_one(retention, random, changed);
        else
            evict_some(retention, random, changed);
        fill_blurred(retention, random, changed);
        if (retention->cost > before && (double)retention->cost > (double)least * tolerance)
            undo(retention, changed);
        if (retention->cost < least) {
            least = retention->cost;
            memcpy(best, retention->retained, retention->reuses->count);
        }
    }
    restore(retention, best);
}
