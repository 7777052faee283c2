/* The plan of opt-dirty beside every plan there is, on iterations small enough to try them all. */
#include "policies/opt_retention.h"
#include "tests/policies/requests.h"

#include <string.h>

enum { CHUNKS = 4, MOMENTS = 12 };

struct iteration {
    struct pstar_policy_view view;
    uint64_t bytes[CHUNKS], capacity[MOMENTS + 1];
    GArray *gaps;
};

/* Each moment uses one chunk, after which the host may use it. */
static void draw(struct iteration *iteration, GRand *random)
{
    uint32_t chunk[MOMENTS];
    *iteration = (struct iteration){.gaps = g_array_new(FALSE, FALSE, sizeof(struct policy_gap))};
    for (uint32_t c = 0; c < CHUNKS; c++)
        iteration->bytes[c] = (uint64_t)g_rand_int_range(random, 1, 4);
    for (uint32_t m = 0; m < MOMENTS; m++) {
        chunk[m] = (uint32_t)g_rand_int_range(random, 0, CHUNKS);
        iteration->capacity[m] = 3 + (uint64_t)g_rand_int_range(random, 0, 5);
    }
    iteration->capacity[MOMENTS] = iteration->capacity[MOMENTS - 1];
    for (uint32_t m = 0; m < MOMENTS; m++) {
        struct policy_gap gap = {.chunk = chunk[m], .moment = m, .next = m + 1};
        while (chunk[gap.next % MOMENTS] != chunk[m])
            gap.next++;
        gap.ahead = g_rand_int_range(random, 0, 8) ? PSTAR_AHEAD_READ : 0;
        gap.ahead |= g_rand_boolean(random) || !gap.ahead ? PSTAR_AHEAD_WRITE : 0;
        gap.ahead |= g_rand_int_range(random, 0, 8) ? 0 : PSTAR_AHEAD_HOST;
        g_array_append_val(iteration->gaps, gap);
    }
    iteration->view = (struct pstar_policy_view){.chunk_count = CHUNKS,
                                                 .moment_count = MOMENTS,
                                                 .chunk_bytes = iteration->bytes,
                                                 .capacity = iteration->capacity};
}

static bool fits(const struct iteration *iteration, uint32_t stays)
{
    const struct policy_gap *gaps = (const void *)iteration->gaps->data;
    for (uint32_t m = 0; m < MOMENTS; m++) {
        uint64_t used = iteration->bytes[gaps[m].chunk];
        for (uint32_t g = 0; g < MOMENTS; g++) {
            uint32_t after = (m + MOMENTS - gaps[g].moment) % MOMENTS;
            if (stays >> g & 1 && after > 0 && after < gaps[g].next - gaps[g].moment)
                used += iteration->bytes[gaps[g].chunk];
        }
        if (used > iteration->capacity[m])
            return false;
    }
    return true;
}

/* Bytes that move in the second of two iterations, chunk by chunk, state by state. A write-back
 * that the host makes necessary counts where it happens. */
static uint64_t move(const struct iteration *iteration, uint32_t stays)
{
    const struct policy_gap *gaps = (const void *)iteration->gaps->data;
    bool dirty[CHUNKS] = {false};
    uint64_t moved = 0;
    for (uint32_t time = 0; time < 2 * MOMENTS; time++) {
        const struct policy_gap *gap = &gaps[time % MOMENTS];
        uint64_t bytes = time < MOMENTS ? 0 : iteration->bytes[gap->chunk];
        bool stay = stays >> (time % MOMENTS) & 1, read = gap->ahead & PSTAR_AHEAD_READ;
        bool host = gap->ahead & PSTAR_AHEAD_HOST, dead = !read && !host;
        if (dirty[gap->chunk] && !dead && (host || !stay))
            moved += bytes;
        if (read && !stay)
            moved += bytes;
        if (host || !stay || dead)
            dirty[gap->chunk] = false;
        if (gap->ahead & PSTAR_AHEAD_WRITE)
            dirty[gap->chunk] = true;
    }
    return moved;
}

static uint64_t least_of_all(const struct iteration *iteration)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t stays = 0; stays < 1u << MOMENTS; stays++)
        if (fits(iteration, stays))
            least = MIN(least, move(iteration, stays));
    return least;
}

static void test_beside_all_plans(void)
{
    GRand *random = g_rand_new_with_seed(requests_seed());
    uint64_t planned = 0, least = 0;
    uint32_t optimal = 0;
    for (int i = 0; i < 300; i++) {
        struct iteration iteration;
        uint32_t stays = 0;
        draw(&iteration, random);
        uint64_t said = policy_stays_plan(&iteration.view, iteration.gaps);
        for (uint32_t g = 0; g < MOMENTS; g++) {
            const struct policy_gap *gap = &g_array_index(iteration.gaps, struct policy_gap, g);
            stays |= (uint32_t)gap->stays << g;
            g_assert_true(!gap->stays || gap->ahead & PSTAR_AHEAD_READ);
        }
        g_assert_true(fits(&iteration, stays));
        uint64_t mine = move(&iteration, stays), best = least_of_all(&iteration);
        g_assert_cmpuint(mine, >=, best);
        g_assert_cmpuint(mine, <=, move(&iteration, 0));
        /* What it says leaves out the write-backs that the host makes necessary. */
        g_assert_cmpuint(said, <=, mine);
        optimal += mine == best;
        planned += mine;
        least += best;
        g_array_free(iteration.gaps, TRUE);
    }
    g_test_message("%u of 300 are optimal; in all %.2f %% above", optimal,
                   100.0 * (double)(planned - least) / (double)least);
    g_assert_cmpuint(optimal, >, 200);
    g_assert_cmpfloat((double)planned, <, 1.05 * (double)least);
    g_rand_free(random);
}

/* Room for one of two chunks, each written at one moment and written again a whole iteration later.
 * The host uses the first in between, so its write-back is due in any case: the second stays. */
static void test_host_decides(void)
{
    uint64_t bytes[] = {1, 1}, capacity[] = {1, 1, 2, 2, 2};
    struct pstar_policy_view view = {
        .chunk_count = 2, .moment_count = 4, .chunk_bytes = bytes, .capacity = capacity};
    struct policy_gap gaps[] = {
        {.chunk = 0, .moment = 2, .next = 6, .ahead = PSTAR_AHEAD_READ | PSTAR_AHEAD_WRITE},
        {.chunk = 1, .moment = 3, .next = 7, .ahead = PSTAR_AHEAD_READ | PSTAR_AHEAD_WRITE},
    };
    for (uint32_t of_host = 0; of_host < 2; of_host++) {
        GArray *array = g_array_new(FALSE, FALSE, sizeof(struct policy_gap));
        g_array_append_vals(array, gaps, 2);
        g_array_index(array, struct policy_gap, of_host).ahead |= PSTAR_AHEAD_HOST;
        g_assert_cmpuint(policy_stays_plan(&view, array), ==, 1);
        g_assert_cmpuint(g_array_index(array, struct policy_gap, of_host).stays, ==, 0);
        g_assert_cmpuint(g_array_index(array, struct policy_gap, !of_host).stays, ==, 1);
        g_array_free(array, TRUE);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/policies/stays/beside-all-plans", test_beside_all_plans);
    g_test_add_func("/policies/stays/host-decides", test_host_decides);
    return g_test_run();
}
