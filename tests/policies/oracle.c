#include "tests/policies/oracle.h"

#include <stdlib.h>
#include <string.h>

uint32_t oracle_find(const GArray *list, uint32_t chunk)
{
    for (uint32_t i = 0; i < list->len; i++)
        if (g_array_index(list, uint32_t, i) == chunk)
            return i;
    return NO_INDEX;
}

uint32_t oracle_take(GArray *list, uint32_t place)
{
    uint32_t chunk = g_array_index(list, uint32_t, place);
    g_array_remove_index(list, place);
    return chunk;
}

/* ---- rules that compare all residents by a number: the smallest leaves ---- */

static double by_entry(const struct oracle *oracle, uint32_t chunk)
{
    return oracle->entered[chunk];
}

static double by_last_use(const struct oracle *oracle, uint32_t chunk)
{
    return oracle->last[chunk];
}

static double by_frequency(const struct oracle *oracle, uint32_t chunk)
{
    return oracle->uses[chunk] + (double)oracle->last[chunk] / (oracle->time + 1.0);
}

static double by_next_use(const struct oracle *oracle, uint32_t chunk)
{
    const struct requests *requests = oracle->requests;
    uint32_t distance = 1;
    while (requests->items[(oracle->time + distance) % requests->count].chunk != chunk)
        distance++;
    return -(double)distance;
}

static double by_patrickstar(const struct oracle *oracle, uint32_t chunk)
{
    return oracle->time < oracle->requests->count ? chunk : by_next_use(oracle, chunk);
}

/* Chunks that should have left come first. */
static double by_plan(const struct oracle *oracle, uint32_t chunk)
{
    bool stays = !oracle->stays || oracle->last[chunk] < oracle->requests->count ||
                 oracle->stays[oracle->last[chunk] % oracle->requests->count];
    return by_next_use(oracle, chunk) - (stays ? 0 : 1e9);
}

static bool compare_all(struct oracle *oracle,
                        double (*rank)(const struct oracle *oracle, uint32_t chunk))
{
    GArray *resident = oracle->lists[0];
    uint32_t leaves = 0;
    if (oracle_find(resident, oracle->chunk) != NO_INDEX)
        return false;
    for (uint32_t i = 1; i < resident->len; i++)
        if (rank(oracle, g_array_index(resident, uint32_t, i)) <
            rank(oracle, g_array_index(resident, uint32_t, leaves)))
            leaves = i;
    if (resident->len == oracle->room)
        oracle_take(resident, leaves);
    g_array_append_val(resident, oracle->chunk);
    return true;
}

static bool serve_fifo(struct oracle *oracle)
{
    return compare_all(oracle, by_entry);
}

static bool serve_lru(struct oracle *oracle)
{
    return compare_all(oracle, by_last_use);
}

static bool serve_lfu(struct oracle *oracle)
{
    return compare_all(oracle, by_frequency);
}

static bool serve_opt(struct oracle *oracle)
{
    return compare_all(oracle, by_next_use);
}

static bool serve_patrickstar(struct oracle *oracle)
{
    return compare_all(oracle, by_patrickstar);
}

static bool serve_opt_dirty(struct oracle *oracle)
{
    if (oracle->time == oracle->requests->count)
        oracle->stays = oracle_plan_stays(oracle->requests, oracle->room);
    return compare_all(oracle, by_plan);
}

/* ---- a real clock: frames in a circle, a hand, a bit each ---- */

static bool serve_clock(struct oracle *oracle)
{
    GArray *frames = oracle->lists[0];
    if (oracle_find(frames, oracle->chunk) != NO_INDEX)
        return false;
    if (frames->len < oracle->room) {
        g_array_append_val(frames, oracle->chunk);
        return true;
    }
    uint32_t *frame = &g_array_index(frames, uint32_t, oracle->hand);
    while (oracle->uses[*frame] > 1) {
        uint32_t most = 1 + MAX(oracle->most_uses, 1);
        oracle->uses[*frame] = MIN(oracle->uses[*frame], most) - 1;
        oracle->hand = (oracle->hand + 1) % oracle->room;
        frame = &g_array_index(frames, uint32_t, oracle->hand);
    }
    *frame = oracle->chunk;
    oracle->hand = (oracle->hand + 1) % oracle->room;
    return true;
}

static bool serve_random(struct oracle *oracle)
{
    GArray *resident = oracle->lists[0];
    if (oracle_find(resident, oracle->chunk) != NO_INDEX)
        return false;
    if (resident->len == oracle->room) {
        uint64_t x = ++oracle->draws * UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
        g_array_remove_index_fast(resident, (guint)(((x >> 32) * resident->len) >> 32));
    }
    g_array_append_val(resident, oracle->chunk);
    return true;
}

/* ---- */

static const struct {
    const char *policy;
    bool (*serve)(struct oracle *oracle);
} rules[] = {
    {"fifo", serve_fifo},
    {"lru", serve_lru},
    {"lfu", serve_lfu},
    {"clock", serve_clock},
    {"arc", oracle_arc},
    {"s3fifo", oracle_s3fifo},
    {"sieve", oracle_sieve},
    {"random", serve_random},
    {"opt", serve_opt},
    {"opt-dirty", serve_opt_dirty},
    {"patrickstar", serve_patrickstar},
};

/* Returns the number behind `key` in the name of a policy, or 0. */
static uint32_t parameter(const char *policy, const char *key)
{
    const char *found = strstr(policy, key);
    return found ? (uint32_t)strtoul(found + strlen(key), NULL, 10) : 0;
}

void oracle_open(struct oracle *oracle, const char *policy, const struct requests *requests,
                 uint32_t room)
{
    uint32_t chunks = requests->chunk_count;
    g_auto(GStrv) words = g_strsplit(policy, ":", 2);
    *oracle = (struct oracle){.requests = requests,
                              .room = room,
                              .draws = (uint64_t)parameter(policy, ":seed=") << 32,
                              .most_uses = parameter(policy, ":uses="),
                              .promotion = parameter(policy, ":promote=")};
    for (uint32_t i = 0; i < G_N_ELEMENTS(rules); i++)
        if (g_str_equal(rules[i].policy, words[0]))
            oracle->serve = rules[i].serve;
    g_assert_nonnull(oracle->serve);
    for (int i = 0; i < ORACLE_LISTS; i++)
        oracle->lists[i] = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    oracle->entered = g_new0(uint32_t, chunks);
    oracle->last = g_new0(uint32_t, chunks);
    oracle->uses = g_new0(uint32_t, chunks);
    oracle->dirty = g_new0(uint8_t, chunks);
    oracle->hand = oracle->serve == oracle_sieve ? NO_INDEX : 0;
}

void oracle_close(struct oracle *oracle)
{
    for (int i = 0; i < ORACLE_LISTS; i++)
        g_array_free(oracle->lists[i], TRUE);
    g_free(oracle->entered);
    g_free(oracle->last);
    g_free(oracle->uses);
    g_free(oracle->dirty);
    g_free(oracle->stays);
}

bool oracle_request(struct oracle *oracle)
{
    const struct request *request =
        &oracle->requests->items[oracle->time % oracle->requests->count];
    oracle->chunk = request->chunk;
    bool missed = oracle->serve(oracle);
    if (missed) {
        oracle->entered[request->chunk] = oracle->time;
        oracle->uses[request->chunk] = oracle->dirty[request->chunk] = 0;
    }
    oracle->uses[request->chunk]++;
    oracle->last[request->chunk] = oracle->time++;
    oracle->dirty[request->chunk] |= request->writes != 0;
    return missed;
}
