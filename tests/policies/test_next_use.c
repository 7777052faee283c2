/* Compares chunks by their next use with a search through all chunks. */
#include "policies/next_use.h"
#include "tests/policies/requests.h"

#include <string.h>

enum { CHUNKS = 40, MOMENTS = 12, STEPS = 4000 };

struct model {
    GRand *random;
    struct pstar_policy_view view;
    struct policy_next_use *set;
    uint32_t next_use[CHUNKS], moment, iteration;
    uint8_t pinned[CHUNKS], in_set[CHUNKS];
};

static uint32_t any(struct model *model, uint32_t count)
{
    return (uint32_t)g_rand_int_range(model->random, 0, (gint32)count);
}

/* Few moments for many chunks, so that several share one. */
static uint32_t draw_next_use(struct model *model)
{
    return any(model, 10) == 0 ? NO_INDEX : model->moment + any(model, 2 * MOMENTS - model->moment);
}

static uint32_t farthest_of_all(const struct model *model)
{
    uint32_t found = NO_INDEX;
    for (uint32_t c = 0; c < CHUNKS; c++)
        if (model->in_set[c] && !model->pinned[c] &&
            (found == NO_INDEX || model->next_use[c] > model->next_use[found]))
            found = c;
    return found;
}

/* Lowers all next uses at once. Those before the start of the new iteration get a new next use. */
static void end_iteration(struct model *model)
{
    for (uint32_t c = 0; c < CHUNKS; c++) {
        if (model->in_set[c] && model->next_use[c] < MOMENTS) {
            model->next_use[c] = MOMENTS + any(model, MOMENTS);
            policy_next_use_touch(model->set, c);
        }
        if (model->next_use[c] != NO_INDEX && model->next_use[c] >= MOMENTS)
            model->next_use[c] -= MOMENTS;
    }
    model->moment = 0;
    model->iteration++;
}

static void step(struct model *model)
{
    uint32_t chunk = any(model, CHUNKS);
    model->pinned[any(model, CHUNKS)] = any(model, 3) == 0;
    if (any(model, 30) == 0 && ++model->moment == MOMENTS)
        end_iteration(model);
    if (!model->in_set[chunk]) {
        model->next_use[chunk] = draw_next_use(model);
        policy_next_use_admit(model->set, chunk);
        model->in_set[chunk] = 1;
    } else if (any(model, 2) == 0) {
        model->next_use[chunk] = draw_next_use(model);
        policy_next_use_touch(model->set, chunk);
    } else {
        policy_next_use_remove(model->set, chunk);
        model->in_set[chunk] = 0;
    }
}

static void open_model(struct model *model, GRand *random)
{
    *model = (struct model){.random = random};
    model->view = (struct pstar_policy_view){.chunk_count = CHUNKS,
                                             .moment_count = MOMENTS,
                                             .pinned = model->pinned,
                                             .next_use = model->next_use,
                                             .moment = &model->moment,
                                             .iteration = &model->iteration};
    model->set = policy_next_use_open(&model->view);
}

/* Removes one chunk after another until none is left. */
static void test_order(void)
{
    GRand *random = g_rand_new_with_seed(requests_seed());
    for (int round = 0; round < 100; round++) {
        struct model model;
        open_model(&model, random);
        for (int i = 0; i < 200; i++)
            step(&model);
        memset(model.pinned, 0, sizeof model.pinned);
        uint32_t chunk;
        while ((chunk = farthest_of_all(&model)) != NO_INDEX) {
            g_assert_cmpuint(policy_next_use_farthest(model.set), ==, chunk);
            policy_next_use_remove(model.set, chunk);
            model.in_set[chunk] = 0;
        }
        g_assert_cmpuint(policy_next_use_farthest(model.set), ==, NO_INDEX);
        policy_next_use_close(model.set);
    }
    g_rand_free(random);
}

static void test_any_calls(void)
{
    GRand *random = g_rand_new_with_seed(requests_seed());
    for (int round = 0; round < 20; round++) {
        struct model model;
        open_model(&model, random);
        for (int i = 0; i < STEPS; i++) {
            step(&model);
            g_assert_cmpuint(policy_next_use_farthest(model.set), ==, farthest_of_all(&model));
        }
        g_assert_cmpuint(model.iteration, >, 2);
        policy_next_use_close(model.set);
    }
    g_rand_free(random);
}

static uint32_t last_of_all(const uint8_t *member, uint32_t limit)
{
    for (uint32_t n = limit + 1; n-- > 0;)
        if (member[n])
            return n;
    return NO_INDEX;
}

/* Bounds at which another level begins, and others. */
static void test_bitset(void)
{
    static const uint32_t bounds[] = {1, 64, 65, 4096, 4097, 20000};
    GRand *random = g_rand_new_with_seed(requests_seed());
    for (size_t b = 0; b < G_N_ELEMENTS(bounds); b++) {
        gint32 bound = (gint32)bounds[b];
        struct policy_bitset set;
        g_autofree uint8_t *member = g_new0(uint8_t, bounds[b]);
        policy_bitset_init(&set, bounds[b]);
        for (int i = 0; i < 3000; i++) {
            uint32_t number = (uint32_t)g_rand_int_range(random, 0, bound);
            bool add = g_rand_int_range(random, 0, 3) == 0;
            (add ? policy_bitset_add : policy_bitset_remove)(&set, number);
            member[number] = add;
            uint32_t limit = (uint32_t)g_rand_int_range(random, 0, bound);
            g_assert_cmpuint(policy_bitset_last(&set, limit), ==, last_of_all(member, limit));
            g_assert_true(policy_bitset_has(&set, limit) == member[limit]);
        }
        policy_bitset_empty(&set);
        g_assert_cmpuint(policy_bitset_last(&set, bounds[b] - 1), ==, NO_INDEX);
        policy_bitset_clear(&set);
    }
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/next-use/order", test_order);
    g_test_add_func("/next-use/any-calls", test_any_calls);
    g_test_add_func("/next-use/bitset", test_bitset);
    return g_test_run();
}
