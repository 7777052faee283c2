#include "tests/policies/cache.h"

#include <string.h>

void cache_open(struct cache *cache, const struct pstar_policy_ops *policy,
                const struct requests *requests, uint64_t room)
{
    uint32_t chunks = requests->chunk_count;
    *cache = (struct cache){.policy = policy, .chunk_count = chunks, .room = room};
    cache->incoming = NO_INDEX;
    cache->resident = g_new0(uint8_t, chunks);
    cache->pinned = g_new0(uint8_t, chunks);
    cache->dirty = g_new0(uint8_t, chunks);
    cache->bytes = g_new(uint64_t, chunks);
    cache->next_use = g_new(uint32_t, chunks);
    cache->ahead = g_new0(uint8_t, chunks);
    cache->capacity = g_new(uint64_t, requests->count + 1);
    for (uint32_t i = 0; i <= requests->count; i++)
        cache->capacity[i] = room;
    memset(cache->next_use, 0xff, chunks * sizeof *cache->next_use);
    for (uint32_t c = 0; c < chunks; c++)
        cache->bytes[c] = 1;
    for (uint32_t i = requests->count; i-- > 0;)
        cache->next_use[requests->items[i].chunk] = i;
    cache->view = (struct pstar_policy_view){.chunk_count = chunks,
                                             .moment_count = requests->count,
                                             .chunk_bytes = cache->bytes,
                                             .pinned = cache->pinned,
                                             .dirty = cache->dirty,
                                             .next_use = cache->next_use,
                                             .moment = &cache->moment,
                                             .iteration = &cache->iteration,
                                             .ahead = cache->ahead,
                                             .capacity = cache->capacity,
                                             .incoming = &cache->incoming,
                                             .values = policy->values};
    cache->state = policy->open(&cache->view);
}

void cache_close(struct cache *cache)
{
    cache->policy->close(cache->state);
    g_free(cache->resident);
    g_free(cache->pinned);
    g_free(cache->dirty);
    g_free(cache->bytes);
    g_free(cache->next_use);
    g_free(cache->ahead);
    g_free(cache->capacity);
}

uint32_t cache_victim(struct cache *cache)
{
    uint32_t victim = cache->policy->victim(cache->state);
    if (victim == NO_INDEX)
        for (uint32_t c = 0; c < cache->chunk_count; c++)
            g_assert_true(!cache->resident[c] || cache->pinned[c]);
    else
        g_assert_true(victim < cache->chunk_count && cache->resident[victim] &&
                      !cache->pinned[victim]);
    return victim;
}

void cache_remove(struct cache *cache, uint32_t chunk)
{
    cache->write_backs += cache->dirty[chunk];
    cache->resident[chunk] = cache->dirty[chunk] = 0;
    cache->resident_count--;
    cache->policy->remove(cache->state, chunk);
}

static void admit(struct cache *cache, uint32_t chunk)
{
    cache->incoming = chunk;
    while (cache->resident_count + 1 > cache->room) {
        uint32_t victim = cache_victim(cache);
        g_assert_cmpuint(victim, !=, NO_INDEX);
        cache_remove(cache, victim);
    }
    cache->misses++;
    cache->resident[chunk] = 1;
    cache->resident_count++;
    cache->policy->admit(cache->state, chunk);
    cache->incoming = NO_INDEX;
}

bool cache_request(struct cache *cache, const struct requests *requests)
{
    const struct request *request = &requests->items[cache->moment];
    bool missed = !cache->resident[request->chunk];
    uint8_t pinned = cache->pinned[request->chunk];
    cache->pinned[request->chunk] = 1;
    if (missed)
        admit(cache, request->chunk);
    cache->pinned[request->chunk] = pinned;
    cache->next_use[request->chunk] = requests->next[cache->moment];
    const struct request *next = &requests->items[requests->next[cache->moment] % requests->count];
    cache->ahead[request->chunk] = PSTAR_AHEAD_READ | (next->writes ? PSTAR_AHEAD_WRITE : 0);
    cache->dirty[request->chunk] |= request->writes != 0;
    if (cache->policy->touch)
        cache->policy->touch(cache->state, request->chunk);
    if (++cache->moment < requests->count)
        return missed;
    cache->moment = 0;
    cache->iteration++;
    for (uint32_t c = 0; c < cache->chunk_count; c++)
        if (cache->next_use[c] != NO_INDEX)
            cache->next_use[c] -= requests->count;
    return missed;
}
