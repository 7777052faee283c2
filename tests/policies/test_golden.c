/* Exact misses of every policy at four sizes on a small trace that runs twice. The oracles must
 * agree, request by request. */
#include "policies/plugin.h"
#include "tests/policies/cache.h"
#include "tests/policies/oracle.h"

enum { ITERATIONS = 2, SIZES = 4 };
static const uint32_t sizes[SIZES] = {10, 20, 40, 80};

static const struct golden {
    const char *policy;
    uint32_t misses[SIZES]; /* of all iterations */
} golden[] = {
    {"fifo", {2312, 1952, 1428, 665}},        {"lru", {2248, 1878, 1295, 589}},
    {"lfu", {2210, 1668, 1106, 546}},         {"clock", {2228, 1906, 1318, 602}},
    {"arc", {2259, 1869, 1308, 599}},         {"s3fifo", {2090, 1758, 1237, 581}},
    {"sieve", {2028, 1693, 1228, 620}},       {"random", {2366, 1993, 1406, 680}},
    {"patrickstar", {2188, 1882, 1425, 880}}, {"opt", {1693, 1226, 718, 278}},
    {"opt-dirty", {1698, 1236, 727, 284}},
};

static uint32_t misses_beside_oracle(const struct pstar_policy_ops *policy,
                                     const struct requests *requests, uint32_t room)
{
    struct cache cache;
    struct oracle oracle;
    cache_open(&cache, policy, requests, room);
    oracle_open(&oracle, policy->name, requests, room);
    for (uint32_t i = 0; i < ITERATIONS * requests->count; i++)
        if (cache_request(&cache, requests) != oracle_request(&oracle))
            g_error("%s, room %u: request %u is not what the oracle says", policy->name, room, i);
    oracle_close(&oracle);
    cache_close(&cache);
    return cache.misses;
}

static void test_golden(void)
{
    struct requests *requests = requests_read(TEST_SOURCE_DIR "/requests.txt");
    g_assert_cmpuint(requests->count, ==, 1500);
    for (int p = 0; policy_all[p]; p++) {
        g_assert_cmpstr(golden[p].policy, ==, policy_all[p]->name);
        for (int s = 0; s < SIZES; s++) {
            uint32_t misses = misses_beside_oracle(policy_all[p], requests, sizes[s]);
            g_test_message("%s %u: %u", policy_all[p]->name, sizes[s], misses);
            g_assert_cmpuint(misses, ==, golden[p].misses[s]);
        }
    }
    requests_free(requests);
}

/* Parameters that change what counts, each as the oracle has it. */
static void test_parameters(void)
{
    static const char *const policies[] = {
        "clock:uses=1",     "clock:uses=3",     "s3fifo:uses=1",
        "s3fifo:promote=1", "s3fifo:promote=3", "s3fifo:promote=1:uses=6",
        "s3fifo:promote=9", "random:seed=0",    "random:seed=1000000000"};
    struct requests *requests = requests_read(TEST_SOURCE_DIR "/requests.txt");
    for (size_t p = 0; p < G_N_ELEMENTS(policies); p++)
        for (int s = 0; s < SIZES; s++)
            misses_beside_oracle(policy_open(policies[p], NULL), requests, sizes[s]);
    uint32_t room = sizes[1];
    const struct pstar_policy_ops *seed = policy_open("random:seed=5", NULL);
    const struct pstar_policy_ops *three = policy_open("clock:uses=3", NULL);
    g_assert_cmpuint(misses_beside_oracle(seed, requests, room), !=,
                     misses_beside_oracle(&policy_random, requests, room));
    g_assert_cmpuint(misses_beside_oracle(three, requests, room), !=,
                     misses_beside_oracle(&policy_clock, requests, room));
    requests_free(requests);
}

static void test_random(void)
{
    GRand *random = g_rand_new_with_seed(requests_seed());
    for (int i = 0; i < 100; i++) {
        uint32_t chunks = (uint32_t)g_rand_int_range(random, 3, 60);
        struct requests *requests = requests_draw(random, 200, chunks);
        uint32_t room = (uint32_t)g_rand_int_range(random, 1, (gint32)chunks + 1);
        for (int p = 0; policy_all[p]; p++)
            misses_beside_oracle(policy_all[p], requests, room);
        requests_free(requests);
    }
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/policies/golden", test_golden);
    g_test_add_func("/policies/parameters", test_parameters);
    g_test_add_func("/policies/oracles", test_random);
    return g_test_run();
}
