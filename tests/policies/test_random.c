/* Every policy under random treatment: pinned chunks, chunks that leave without being chosen, a
 * changing capacity. cache_victim checks every answer; a broken structure shows as a wrong answer,
 * or under the address sanitizer. */
#include "tests/policies/cache.h"

static uint32_t any_resident(const struct cache *cache, GRand *random)
{
    uint32_t chunk = (uint32_t)g_rand_int_range(random, 0, (gint32)cache->chunk_count);
    for (uint32_t i = 0; i < cache->chunk_count; i++)
        if (cache->resident[(chunk + i) % cache->chunk_count])
            return (chunk + i) % cache->chunk_count;
    return NO_INDEX;
}

static void pin_some(struct cache *cache, GRand *random)
{
    int share = g_rand_int_range(random, 0, 4);
    for (uint32_t c = 0; c < cache->chunk_count; c++)
        cache->pinned[c] = g_rand_int_range(random, 0, 4) < share;
}

/* At least room for one more chunk, because chunks that are pinned and resident stay. */
static void change_room(struct cache *cache, GRand *random)
{
    uint64_t least = 1;
    for (uint32_t c = 0; c < cache->chunk_count; c++)
        least += cache->resident[c] && cache->pinned[c];
    cache->room = least + (uint64_t)g_rand_int_range(random, 0, (gint32)cache->chunk_count);
    cache->capacity[cache->moment] = cache->room;
    while (cache->resident_count > cache->room)
        cache_remove(cache, cache_victim(cache));
}

/* Checks that no unpinned chunk is used later than opt's victim. */
static void assert_farthest(const struct cache *cache, uint32_t victim)
{
    for (uint32_t c = 0; c < cache->chunk_count && cache->policy == &policy_opt; c++)
        if (cache->resident[c] && !cache->pinned[c])
            g_assert_cmpuint(cache->next_use[c], <=, cache->next_use[victim]);
}

/* Asks for a victim and does not evict it, as if there is no room for a prefetch. */
static void ask_in_vain(struct cache *cache, GRand *random)
{
    uint32_t chunk = (uint32_t)g_rand_int_range(random, 0, (gint32)cache->chunk_count);
    cache->incoming = cache->resident[chunk] ? NO_INDEX : chunk;
    assert_farthest(cache, cache_victim(cache));
    cache->incoming = NO_INDEX;
}

static void disturb(struct cache *cache, GRand *random)
{
    uint32_t chunk;
    switch (g_rand_int_range(random, 0, 8)) {
    case 0:
        chunk = any_resident(cache, random);
        if (chunk != NO_INDEX)
            cache_remove(cache, chunk);
        break;
    case 1:
        change_room(cache, random);
        break;
    case 2:
        ask_in_vain(cache, random);
        break;
    case 3: /* the host reads a chunk, which is clean from now on, and the policy is not told */
        chunk = any_resident(cache, random);
        if (chunk != NO_INDEX)
            cache->dirty[chunk] = 0;
        break;
    default:
        break;
    }
}

static void treat(const struct pstar_policy_ops *policy, GRand *random)
{
    uint32_t chunks = (uint32_t)g_rand_int_range(random, 1, 40);
    struct requests *requests = requests_draw(random, 100, chunks);
    struct cache cache;
    cache_open(&cache, policy, requests, 1 + chunks / 3);
    for (uint32_t i = 0; i < 5 * requests->count; i++) {
        disturb(&cache, random);
        pin_some(&cache, random);
        ask_in_vain(&cache, random);
        change_room(&cache, random);
        cache_request(&cache, requests);
    }
    for (uint32_t c = 0; c < cache.chunk_count; c++)
        cache.pinned[c] = 0;
    while (cache.resident_count)
        cache_remove(&cache, cache_victim(&cache));
    g_assert_cmpuint(cache_victim(&cache), ==, NO_INDEX);
    cache_close(&cache);
    requests_free(requests);
}

static void test_treatment(void)
{
    GRand *random = g_rand_new_with_seed(requests_seed());
    for (int i = 0; i < 40; i++)
        for (int p = 0; policy_all[p]; p++)
            treat(policy_all[p], random);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/policies/any-treatment", test_treatment);
    return g_test_run();
}
