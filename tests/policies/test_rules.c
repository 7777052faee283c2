/* Known properties of single policies. */
#include "tests/policies/cache.h"

#include <string.h>

static struct requests *loop(uint32_t chunks, bool and_back)
{
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < chunks; i++)
        g_string_append_printf(text, "%u\n", i);
    for (uint32_t i = chunks; and_back && i-- > 0;)
        g_string_append_printf(text, "%u\n", i);
    struct requests *requests = requests_parse(text->str);
    g_string_free(text, TRUE);
    return requests;
}

/* Misses of the third iteration. */
static uint32_t steady_misses(const struct pstar_policy_ops *policy,
                              const struct requests *requests, uint32_t room)
{
    struct cache cache;
    cache_open(&cache, policy, requests, room);
    while (cache.iteration < 2)
        cache_request(&cache, requests);
    uint32_t before = cache.misses;
    while (cache.iteration < 3)
        cache_request(&cache, requests);
    cache_close(&cache);
    return cache.misses - before;
}

/* A loop over n chunks with room for c: forward only, FIFO and LRU miss every time; the optimum
 * misses n - c + (what the wrap costs). Forward then backward, LRU is optimal. */
static void test_loops(void)
{
    struct requests *forward = loop(100, false), *there_and_back = loop(100, true);
    g_assert_cmpuint(steady_misses(&policy_fifo, forward, 25), ==, 100);
    g_assert_cmpuint(steady_misses(&policy_lru, forward, 25), ==, 100);
    g_assert_cmpuint(steady_misses(&policy_opt, forward, 25), <=, 77);
    g_assert_cmpuint(steady_misses(&policy_opt, there_and_back, 25), ==, 150);
    g_assert_cmpuint(steady_misses(&policy_lru, there_and_back, 25), ==, 150);
    requests_free(forward);
    requests_free(there_and_back);
}

/* Of a loop too large for the cache SIEVE and S3-FIFO keep a part once it was used again, while
 * what passes by once leaves first. */
static void test_scan_resistance(void)
{
    GString *text = g_string_new(NULL);
    for (uint32_t i = 0; i < 200; i++)
        g_string_append_printf(text, "%u\n%u\n%u\n", i % 10, (i + 3) % 10, 10 + i);
    struct requests *requests = requests_parse(text->str);
    g_string_free(text, TRUE);
    const struct pstar_policy_ops *resistant[] = {&policy_lfu, &policy_arc, &policy_s3fifo,
                                                  &policy_sieve, &policy_opt};
    for (uint32_t i = 0; i < G_N_ELEMENTS(resistant); i++)
        g_assert_cmpuint(steady_misses(resistant[i], requests, 20), <=, 210);
    g_assert_cmpuint(steady_misses(&policy_fifo, requests, 20), >, 250);
    requests_free(requests);
}

static uint32_t next_victim(struct cache *cache, const struct requests *requests)
{
    while (cache->resident_count < cache->room)
        cache_request(cache, requests);
    uint32_t victim = cache_victim(cache);
    cache_remove(cache, victim);
    return victim;
}

/* In the warm-up PatrickStar knows no next use: the lowest number leaves. */
static void test_patrickstar_warm_up(void)
{
    struct requests *requests = requests_parse("4\n2\n5\n1\n3\n0\n");
    static const uint32_t expected[] = {2, 1, 3};
    struct cache cache;
    cache_open(&cache, &policy_patrickstar, requests, 3);
    for (uint32_t i = 0; i < G_N_ELEMENTS(expected); i++)
        g_assert_cmpuint(next_victim(&cache, requests), ==, expected[i]);
    cache_close(&cache);
    requests_free(requests);
}

/* Each of four equals leaves about as often as another, pinned ones never, and every run draws the
 * same. */
static void test_random_is_fair(void)
{
    struct requests *requests = requests_parse("0\n1\n2\n3\n4\n5\n");
    uint32_t counts[2][6] = {{0}};
    for (int run = 0; run < 2; run++) {
        struct cache cache;
        cache_open(&cache, &policy_random, requests, 6);
        for (uint32_t i = 0; i < 6; i++)
            cache_request(&cache, requests);
        cache.pinned[0] = cache.pinned[5] = 1;
        for (uint32_t i = 0; i < 4000; i++)
            counts[run][cache_victim(&cache)]++;
        cache_close(&cache);
    }
    g_assert_cmpmem(counts[0], sizeof counts[0], counts[1], sizeof counts[1]);
    g_assert_cmpuint(counts[0][0] + counts[0][5], ==, 0);
    for (uint32_t c = 1; c < 5; c++) {
        g_assert_cmpuint(counts[0][c], >, 850);
        g_assert_cmpuint(counts[0][c], <, 1150);
    }
    requests_free(requests);
}

/* A chunk that was admitted ahead of its use has not been used again when that use comes. */
static void test_awaited_use_is_no_reuse(void)
{
    struct requests *requests = requests_parse("0\n1\n2\n3\n");
    const struct pstar_policy_ops *policies[] = {&policy_lfu, &policy_clock, &policy_sieve};
    for (uint32_t p = 0; p < G_N_ELEMENTS(policies); p++) {
        struct cache cache;
        cache_open(&cache, policies[p], requests, 3);
        for (uint32_t c = 0; c < 3; c++) {
            cache.resident[c] = 1;
            policies[p]->admit(cache.state, c);
        }
        cache.resident_count = 3;
        for (uint32_t i = 0; i < 3; i++)
            g_assert_false(cache_request(&cache, requests));
        g_assert_cmpuint(cache_victim(&cache), ==, 0);
        cache_close(&cache);
    }
    requests_free(requests);
}

/* A chunk that leaves without being chosen is not remembered. When it comes back it is new, and the
 * oldest of the new chunks leaves first. */
static void test_unasked_leaves_no_ghost(void)
{
    struct requests *requests = requests_parse("0\n0\n1\n2\n3\n");
    const struct pstar_policy_ops *policies[] = {&policy_arc, &policy_s3fifo};
    for (uint32_t p = 0; p < G_N_ELEMENTS(policies); p++) {
        struct cache cache;
        cache_open(&cache, policies[p], requests, 3);
        cache_request(&cache, requests);
        cache_remove(&cache, 0);
        for (uint32_t i = 0; i < 3; i++)
            g_assert_true(cache_request(&cache, requests));
        g_assert_cmpuint(cache_victim(&cache), ==, 0);
        cache_close(&cache);
    }
    requests_free(requests);
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
    g_test_add_func("/policies/loops", test_loops);
    g_test_add_func("/policies/scan-resistance", test_scan_resistance);
    g_test_add_func("/policies/patrickstar-warm-up", test_patrickstar_warm_up);
    g_test_add_func("/policies/random-is-fair", test_random_is_fair);
    g_test_add_func("/policies/awaited-use", test_awaited_use_is_no_reuse);
    g_test_add_func("/policies/unasked", test_unasked_leaves_no_ghost);
    g_test_add_func("/policies/names", test_names);
    return g_test_run();
}
