/* Compares which bytes of a chunk are alive with a slow look at every tensor's next access. */
#include "chunks/accesses.h"
#include "chunks/non_model.h"
#include "tests/chunks/random_iteration.h"

#define TRIALS 200

/* Returns the next access of a place in a list from moment `from` on, cyclic, or NULL. */
static const struct trace_access *next_access(const struct trace *trace,
                                              const struct layout *layout,
                                              const struct layout_place *place, int list,
                                              uint32_t from)
{
    for (uint32_t i = 0; i < trace->operator_count; i++) {
        const struct trace_operator *op = &trace->operators[(from + i) % trace->operator_count];
        for (uint32_t a = op->first_access; a < op->first_access + op->access_count; a++)
            if (trace->accesses[a].list == list &&
                layout_place_of(layout, &trace->accesses[a]) == place)
                return &trace->accesses[a];
    }
    return NULL;
}

static bool chunk_is_dead(const struct trace *trace, const struct layout *layout, uint32_t chunk,
                          uint32_t moment)
{
    int list = layout->chunks[chunk].list;
    for (uint32_t i = 0; i < layout_place_count(layout, list); i++) {
        const struct layout_place *place = &layout->places[list][i];
        if (place->chunk != chunk)
            continue;
        const struct trace_access *next = next_access(trace, layout, place, list, moment);
        if (!next || next->mode != TRACE_OVERWRITE)
            return false;
    }
    return true;
}

static uint32_t slow_next_device_use(const struct accesses *accesses, uint32_t chunk,
                                     uint32_t moment)
{
    for (uint32_t m = moment + 1; m <= moment + accesses->moment_count; m++) {
        uint32_t at = m % accesses->moment_count;
        for (uint32_t a = accesses->first[at]; a < accesses->first[at + 1]; a++)
            if (accesses->items[a].chunk == chunk && !(accesses->items[a].flags & ACCESS_ON_HOST))
                return m;
    }
    return NO_INDEX;
}

/* Returns whether the next use on the device waits for what this access wrote. */
static bool slow_is_needed(const struct trace *trace, const struct layout *layout,
                           const struct accesses *accesses, uint32_t access)
{
    const struct chunk_access *item = &accesses->items[access];
    uint32_t next = accesses->next_device_use[access];
    return item->flags & ACCESS_WRITES && next != NO_INDEX &&
           !chunk_is_dead(trace, layout, item->chunk, next % accesses->moment_count);
}

static void check_moment(const struct trace *trace, const struct layout *layout,
                         const struct accesses *accesses, uint32_t m)
{
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        g_assert_cmpint(!!(access->flags & ACCESS_FRESH), ==,
                        chunk_is_dead(trace, layout, access->chunk, m));
        g_assert_cmpint(!!(access->flags & ACCESS_LAST), ==,
                        chunk_is_dead(trace, layout, access->chunk, m + 1));
        g_assert_cmpint(!!(access->flags & ACCESS_ON_HOST), ==,
                        trace->operators[m].place == TRACE_ON_HOST);
        g_assert_cmpuint(accesses->next_device_use[a], ==,
                         slow_next_device_use(accesses, access->chunk, m));
        g_assert_cmpuint(accesses_next_need(accesses, a), ==,
                         slow_is_needed(trace, layout, accesses, a) ? accesses->next_device_use[a]
                                                                    : NO_INDEX);
        for (uint32_t b = accesses->first[m]; b < a; b++)
            g_assert_cmpuint(accesses->items[b].chunk, !=, access->chunk);
    }
}

static void test_random(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < TRIALS; i++) {
        struct trace *trace = i % 2 ? random_iteration(random) : wild_iteration(random);
        struct layout *layout =
            layout_pack_uniform(trace, 256 * (uint64_t)g_rand_int_range(random, 1, 60), NULL);
        struct non_model *non_model = non_model_place(trace);
        struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
        for (uint32_t m = 0; m < trace->operator_count; m++)
            check_moment(trace, layout, accesses, m);
        accesses_free(accesses);
        non_model_free(non_model);
        layout_free(layout);
        trace_free(trace);
    }
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/accesses/liveness", test_random);
    return g_test_run();
}
