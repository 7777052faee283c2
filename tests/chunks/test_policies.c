/* The policies against slow ones that keep a plain list, and against known counts. */
#include "policies/policy.h"
#include "tests/chunks/random_iteration.h"

/* A cache of chunks of one size, each request a moment of its own. */
struct cache {
    uint32_t chunk_count, room, resident_count;
    uint8_t *resident, *pinned, *dirty;
    uint64_t *bytes;
    uint32_t *next_use;
    uint32_t moment, iteration;
    struct policy_view view;
};

static void open_cache(struct cache *cache, uint32_t chunks, uint32_t room, uint32_t moments)
{
    *cache = (struct cache){.chunk_count = chunks, .room = room};
    cache->resident = g_new0(uint8_t, chunks);
    cache->pinned = g_new0(uint8_t, chunks);
    cache->dirty = g_new0(uint8_t, chunks);
    cache->bytes = g_new0(uint64_t, chunks);
    cache->next_use = g_new(uint32_t, chunks);
    cache->view = (struct policy_view){chunks,         moments,          cache->bytes,
                                       cache->pinned,  cache->dirty,     cache->next_use,
                                       &cache->moment, &cache->iteration};
}

static void close_cache(struct cache *cache)
{
    g_free(cache->resident);
    g_free(cache->pinned);
    g_free(cache->dirty);
    g_free(cache->bytes);
    g_free(cache->next_use);
}

/* Next use of requests[i]'s chunk after i, cyclic. */
static uint32_t use_after(const uint32_t *requests, uint32_t count, uint32_t i)
{
    for (uint32_t j = i + 1; j <= i + count; j++)
        if (requests[j % count] == requests[i])
            return j;
    g_assert_not_reached();
}

struct misses {
    uint32_t last, all; /* of the last iteration, of all */
};

/* *victims (may be NULL) receives the order of departures. */
static struct misses replay(const struct policy_ops *policy, const uint32_t *requests,
                            uint32_t count, uint32_t chunks, uint32_t room, uint32_t iterations,
                            GArray *victims)
{
    struct cache cache;
    struct misses misses = {0, 0};
    open_cache(&cache, chunks, room, count);
    memset(cache.next_use, 0xff, chunks * sizeof(uint32_t));
    for (uint32_t i = count; i-- > 0;)
        cache.next_use[requests[i]] = i;
    void *state = policy->open(&cache.view);
    for (cache.iteration = 0; cache.iteration < iterations; cache.iteration++) {
        misses.last = 0;
        for (cache.moment = 0; cache.moment < count; cache.moment++) {
            uint32_t chunk = requests[cache.moment];
            cache.pinned[chunk] = 1;
            if (!cache.resident[chunk]) {
                misses.last++;
                misses.all++;
                if (cache.resident_count == room) {
                    uint32_t victim = policy->victim(state);
                    g_assert_true(cache.resident[victim] && !cache.pinned[victim]);
                    policy->remove(state, victim);
                    cache.resident[victim] = 0;
                    cache.resident_count--;
                    if (victims)
                        g_array_append_val(victims, victim);
                }
                cache.resident[chunk] = 1;
                cache.resident_count++;
                policy->admit(state, chunk);
            }
            cache.next_use[chunk] = use_after(requests, count, cache.moment);
            if (policy->touch)
                policy->touch(state, chunk);
            cache.pinned[chunk] = 0;
        }
        for (uint32_t c = 0; c < chunks; c++)
            if (cache.next_use[c] != POLICY_NONE)
                cache.next_use[c] -= count;
    }
    policy->close(state);
    close_cache(&cache);
    return misses;
}

/* The same by a list scanned from end to end: by time of entry, of last use, or by next use. */
static uint32_t slow_replay(char rule, const uint32_t *requests, uint32_t count, uint32_t chunks,
                            uint32_t room, uint32_t iterations)
{
    g_autofree int64_t *key = g_new(int64_t, chunks); /* the smallest leaves; -1: not resident */
    uint32_t resident = 0, misses = 0;
    for (uint32_t c = 0; c < chunks; c++)
        key[c] = -1;
    for (uint32_t t = 0; t < iterations * count; t++) {
        uint32_t chunk = requests[t % count];
        bool hit = key[chunk] >= 0;
        misses += !hit;
        if (!hit && resident++ == room) {
            uint32_t victim = UINT32_MAX;
            for (uint32_t c = 0; c < chunks; c++)
                if (key[c] >= 0 && c != chunk && (victim == UINT32_MAX || key[c] < key[victim]))
                    victim = c;
            key[victim] = -1;
            resident--;
        }
        int64_t next = t / count * count + use_after(requests, count, t % count);
        if (rule == 'l' || (rule == 'f' && !hit))
            key[chunk] = t;
        if (rule == 'o')
            key[chunk] = (INT64_C(1) << 40) - next;
    }
    return misses;
}

static void test_random(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < 300; i++) {
        uint32_t chunks = (uint32_t)g_rand_int_range(random, 3, 20);
        uint32_t room = (uint32_t)g_rand_int_range(random, 2, (gint32)chunks);
        uint32_t requests[80];
        for (uint32_t j = 0; j < 80; j++)
            requests[j] = (uint32_t)g_rand_int_range(random, 0, (gint32)chunks);
        g_assert_cmpuint(replay(&policy_fifo, requests, 80, chunks, room, 4, NULL).all, ==,
                         slow_replay('f', requests, 80, chunks, room, 4));
        g_assert_cmpuint(replay(&policy_lru, requests, 80, chunks, room, 4, NULL).all, ==,
                         slow_replay('l', requests, 80, chunks, room, 4));
        uint32_t optimal = slow_replay('o', requests, 80, chunks, room, 4);
        g_assert_cmpuint(replay(&policy_opt, requests, 80, chunks, room, 4, NULL).all, ==, optimal);
        g_assert_cmpuint(replay(&policy_patrickstar, requests, 80, chunks, room, 4, NULL).all, >=,
                         optimal);
    }
    g_rand_free(random);
}

/* A loop over n chunks with room for c: forward only, FIFO and LRU miss every time; the optimum
 * misses n - c + (what the wrap costs). Forward then backward, LRU is optimal. */
static void test_loops(void)
{
    uint32_t forward[100], there_and_back[200];
    for (uint32_t i = 0; i < 100; i++) {
        forward[i] = there_and_back[i] = i;
        there_and_back[199 - i] = i;
    }
    g_assert_cmpuint(replay(&policy_fifo, forward, 100, 100, 25, 3, NULL).last, ==, 100);
    g_assert_cmpuint(replay(&policy_lru, forward, 100, 100, 25, 3, NULL).last, ==, 100);
    g_assert_cmpuint(replay(&policy_opt, forward, 100, 100, 25, 3, NULL).last, <=, 77);
    uint32_t optimum = replay(&policy_opt, there_and_back, 200, 100, 25, 3, NULL).last;
    g_assert_cmpuint(optimum, ==, 150);
    g_assert_cmpuint(replay(&policy_lru, there_and_back, 200, 100, 25, 3, NULL).last, ==, optimum);
}

/* In the warm-up PatrickStar knows no next use: the lowest number leaves. */
static void test_patrickstar_warm_up(void)
{
    uint32_t requests[6] = {4, 2, 5, 1, 3, 0};
    GArray *victims = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    replay(&policy_patrickstar, requests, 6, 6, 3, 1, victims);
    uint32_t expected[3] = {2, 1, 3};
    g_assert_cmpmem(victims->data, victims->len * sizeof(uint32_t), expected, sizeof expected);
    g_array_free(victims, TRUE);
}

static void test_names(void)
{
    for (int i = 0; policy_all[i]; i++)
        g_assert_true(policy_find(policy_all[i]->name) == policy_all[i]);
    g_assert_null(policy_find("none such"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/policies/random", test_random);
    g_test_add_func("/policies/loops", test_loops);
    g_test_add_func("/policies/patrickstar-warm-up", test_patrickstar_warm_up);
    g_test_add_func("/policies/names", test_names);
    return g_test_run();
}
