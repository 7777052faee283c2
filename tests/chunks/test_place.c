/* Compares the arena with an obvious one, and checks what placing adds to the decisions.
 * tests/sim/test_replay.c checks that plans are sound and predict what is counted. */
#include "chunks/arena.h"
#include "chunks/dry_run.h"
#include "chunks/place.h"
#include "chunks/place_internal.h"
#include "tests/chunks/random_iteration.h"

enum { BLOCKS = 12, SIZE = 64, STEPS = 4000 };

/* The smallest free run of cells in [floor, ceiling) that holds `bytes`, the lowest among equals.
 */
static uint64_t obvious_fit(const int *cells, uint64_t bytes, uint64_t floor, uint64_t ceiling)
{
    uint64_t best = NO_ADDRESS, least = UINT64_MAX, begin = floor;
    for (uint64_t end = floor; end <= ceiling; end++) {
        if (end < ceiling && cells[end] < 0)
            continue;
        if (end - begin >= bytes && end - begin < least) {
            best = begin;
            least = end - begin;
        }
        begin = end + 1;
    }
    return best;
}

static bool is_free(const int *cells, uint64_t begin, uint64_t end, int chunk)
{
    for (uint64_t cell = begin; cell < end; cell++)
        if (cells[cell] >= 0 && cells[cell] != chunk)
            return false;
    return true;
}

static void fill(int *cells, uint64_t begin, uint64_t bytes, int chunk)
{
    for (uint64_t cell = begin; cell < begin + bytes; cell++)
        cells[cell] = chunk;
}

static void test_arena(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    uint64_t bytes[BLOCKS];
    int cells[2 * SIZE];
    for (int b = 0; b < BLOCKS; b++)
        bytes[b] = (uint64_t)g_rand_int_range(random, 1, 9);
    fill(cells, 0, G_N_ELEMENTS(cells), -1);
    struct arena *arena = arena_new(BLOCKS, bytes);
    for (int step = 0; step < STEPS; step++) {
        uint32_t chunk = (uint32_t)g_rand_int_range(random, 0, BLOCKS);
        uint64_t at = (uint64_t)g_rand_int_range(random, 0, SIZE), end = at + bytes[chunk], top = 0;
        bool room = is_free(cells, at, end, (int)chunk);
        g_assert_cmpint(arena_has_room(arena, chunk, at), ==, room);
        bool there = arena->address[chunk] != NO_ADDRESS;
        if (there)
            fill(cells, arena->address[chunk], bytes[chunk], -1);
        if (room)
            fill(cells, at, bytes[chunk], (int)chunk);
        if (there && room)
            arena_move(arena, chunk, at);
        else if (there)
            arena_take(arena, chunk);
        else if (room)
            arena_put(arena, chunk, at);
        uint64_t floor = (uint64_t)g_rand_int_range(random, 0, SIZE / 2);
        uint64_t ceiling = floor + (uint64_t)g_rand_int_range(random, 0, SIZE / 2);
        g_assert_cmpuint(arena_best_fit(arena, bytes[chunk], floor, ceiling), ==,
                         obvious_fit(cells, bytes[chunk], floor, ceiling));
        for (uint64_t cell = 0; cell < G_N_ELEMENTS(cells); cell++)
            top = cells[cell] >= 0 ? cell + 1 : top;
        g_assert_cmpuint(arena_end(arena), ==, top);
        uint64_t above = at;
        while (above < G_N_ELEMENTS(cells) && cells[above] < 0)
            above++;
        uint32_t first = above < G_N_ELEMENTS(cells) ? (uint32_t)cells[above] : BLOCKS;
        g_assert_cmpuint(arena_first_above(arena, at, BLOCKS), ==, first);
        for (uint32_t from = 0; from < BLOCKS; from++)
            if (arena->address[from] != NO_ADDRESS && arena->address[from] + bytes[from] <= at)
                g_assert_cmpuint(arena_first_above(arena, at, from), ==, first);
    }
    arena_free(arena);
}

static const struct plan_action *action_at(const struct decisions *decisions, uint32_t index)
{
    return &g_array_index(decisions->actions, struct plan_action, index);
}

/* The most non-model data from action `i` of moment `m` on, until its chunk leaves. */
static uint64_t most_until_it_leaves(const struct decisions *d, const struct accesses *accesses,
                                     uint32_t m, uint32_t i)
{
    uint32_t chunk = action_at(d, i)->chunk, operators = 0;
    uint64_t most = 0;
    for (i++; operators < accesses->moment_count; i = d->first[m]) {
        for (; i < d->first[m + 1]; i++) {
            const struct plan_action *a = action_at(d, i);
            if (a->chunk == chunk && (a->kind == PLAN_WRITE_BACK || a->kind == PLAN_DROP))
                return most;
        }
        if (m == accesses->moment_count) {
            m = 0;
        } else {
            most = MAX(most, accesses->non_model[m]);
            m++;
            operators++;
        }
    }
    return most;
}

static void check_ceilings(const struct decisions *d, const struct accesses *accesses,
                           uint64_t budget)
{
    struct ceilings *ceilings = ceilings_new(d, accesses, budget);
    for (uint32_t m = 0; m <= accesses->moment_count; m++)
        for (uint32_t i = d->first[m]; i < d->first[m + 1]; i++) {
            uint8_t kind = action_at(d, i)->kind;
            if (kind == PLAN_FETCH || kind == PLAN_ALLOCATE)
                g_assert_cmpuint(ceilings->arrival[i], ==,
                                 (budget - most_until_it_leaves(d, accesses, m, i)) /
                                     LAYOUT_ALIGNMENT * LAYOUT_ALIGNMENT);
        }
    ceilings_free(ceilings);
}

struct extra {
    uint64_t decided, returned; /* bytes over the link */
};

static uint64_t over_link(const struct plan_action *action, const struct layout *layout)
{
    bool copies = action->kind == PLAN_FETCH || action->kind == PLAN_WRITE_BACK ||
                  action->kind == PLAN_FLUSH;
    return copies ? layout->chunks[action->chunk].copy_bytes : 0;
}

static struct extra place_one(enum place_effort effort, GRand *random)
{
    struct extra extra = {0};
    struct trace *trace = random_iteration(random);
    struct layout *layout = layout_pack_uniform(
        trace, LAYOUT_ALIGNMENT * (uint64_t)g_rand_int_range(random, 1, 40), NULL);
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    struct homes *homes = homes_choose(trace, layout, accesses, UINT64_MAX, UINT64_MAX, NULL);
    uint64_t least = accesses_least_arena_bytes(accesses, layout, NULL);
    uint64_t all = MAX(least, layout_slot_bytes(layout) + non_model->peak_bytes);
    uint64_t budget = least + (uint64_t)(g_rand_double(random) * (double)(all - least));
    const struct plan_inputs inputs = {.trace = trace,
                                       .layout = layout,
                                       .accesses = accesses,
                                       .homes = homes,
                                       .device_budget = budget,
                                       .host_budget = UINT64_MAX};
    const struct decide_options options = {.policy = random_policy(random),
                                           .look_ahead = (uint32_t)g_rand_int_range(random, 0, 4)};
    struct decisions *decisions = decide(&inputs, &options);
    struct addresses *addresses = place_decisions(decisions, &inputs, effort);
    check_ceilings(decisions, accesses, budget);
    for (uint32_t i = 0; i < addresses->action_count; i++)
        extra.returned += over_link(&addresses->actions[i], layout);
    for (uint32_t i = 0; i < decisions->actions->len; i++)
        extra.decided += over_link(action_at(decisions, i), layout);
    extra.returned -= extra.decided;
    g_assert_cmpuint(addresses->arena_bytes, <=, budget);
    addresses_free(addresses);
    decisions_free(decisions);
    homes_free(homes);
    accesses_free(accesses);
    non_model_free(non_model);
    layout_free(layout);
    trace_free(trace);
    return extra;
}

/* Returns the returned bytes as a share of the decided bytes. */
static double copies_for_returning(enum place_effort effort, GRand *random)
{
    struct extra sum = {0};
    for (int i = 0; i < 2000; i++) {
        struct extra extra = place_one(effort, random);
        sum.decided += extra.decided;
        sum.returned += extra.returned;
    }
    g_test_message("%.2f %% more than decided", 100.0 * (double)sum.returned / (double)sum.decided);
    return (double)sum.returned / (double)sum.decided;
}

/* Chunks that cannot return to their start within the device cost copies that were not decided. */
static void test_few_return_through_the_host(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    g_assert_cmpfloat(copies_for_returning(PLACE_WELL, random), <, 0.05);
    g_assert_cmpfloat(copies_for_returning(PLACE_QUICKLY, random), <, 0.1);
}

enum { SLOT = LAYOUT_ALIGNMENT, USED = 3 };

/* Each operator reads one of as many tensors, which fill a slot each. */
static struct trace *one_after_the_other(void)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->list_element_bytes[TRACE_PARAM] = 4;
    trace->tensor_count = trace->operator_count = trace->access_count = USED;
    trace->tensors = g_new0(struct trace_tensor, USED);
    trace->operators = g_new0(struct trace_operator, USED);
    trace->accesses = g_new0(struct trace_access, USED);
    for (uint32_t t = 0; t < USED; t++) {
        trace->tensors[t] = (struct trace_tensor){.name = g_strdup_printf("t%u", t),
                                                  .elements = SLOT / 4};
        trace->accesses[t] = (struct trace_access){t, TRACE_PARAM, TRACE_READ, 0};
        trace->operators[t] = (struct trace_operator){
            .name = g_strdup_printf("read t%u", t), .first_access = t, .access_count = 1};
    }
    trace_sum_buffers(trace);
    return trace;
}

static void decide_on(struct decisions *d, enum plan_action_kind kind, chunk_id chunk)
{
    const struct plan_action action = {
        .chunk = chunk, .kind = (uint8_t)kind, .address = NO_ADDRESS};
    g_array_append_val(d->actions, action);
}

/* Each chunk comes for its operator and leaves after it. */
static struct decisions *come_and_leave(const struct accesses *accesses)
{
    struct decisions *d = decisions_new(accesses);
    for (uint32_t m = 0; m < USED; m++) {
        if (m > 0)
            decide_on(d, PLAN_DROP, m - 1);
        decide_on(d, PLAN_FETCH, m);
        d->first[m + 1] = d->actions->len;
    }
    decide_on(d, PLAN_DROP, USED - 1);
    d->first[USED + 1] = d->actions->len;
    return d;
}

/* Places these chunks in a device of so many slots, and checks where they come. Copies to the host
 * take `lasts` moments, those to the device none. */
static void check_places(uint32_t slots, uint32_t lasts, const uint64_t places[USED])
{
    struct trace *trace = one_after_the_other();
    struct layout *layout = layout_pack_uniform(trace, SLOT, NULL);
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, layout, non_model->extent);
    struct homes *homes = homes_choose(trace, layout, accesses, UINT64_MAX, UINT64_MAX, NULL);
    struct decisions *d = come_and_leave(accesses);
    const struct plan_inputs inputs = {.trace = trace,
                                       .layout = layout,
                                       .accesses = accesses,
                                       .homes = homes,
                                       .device_budget = slots * SLOT,
                                       .host_budget = UINT64_MAX};
    d->over = g_new0(uint32_t, d->actions->len);
    for (uint32_t m = 0; m <= USED; m++)
        for (uint32_t i = d->first[m]; i < d->first[m + 1]; i++) {
            bool leaves = g_array_index(d->actions, struct plan_action, i).kind == PLAN_DROP;
            d->over[i] = m + (leaves ? lasts : 0);
        }
    struct addresses *addresses = place_decisions(d, &inputs, PLACE_WELL);
    uint32_t found = 0;
    for (uint32_t i = 0; i < addresses->action_count; i++)
        if (addresses->actions[i].kind == PLAN_FETCH)
            g_assert_cmpuint(addresses->actions[i].address, ==, places[found++] * SLOT);
    g_assert_cmpuint(found, ==, USED);
    g_assert_cmpuint(addresses->peak_device_bytes, <=, slots * SLOT);
    addresses_free(addresses);
    decisions_free(d);
    homes_free(homes);
    accesses_free(accesses);
    non_model_free(non_model);
    layout_free(layout);
    trace_free(trace);
}

/* A chunk that comes to a range from which a copy is still leaving waits for it. So it goes
 * elsewhere or, if all ranges are taken, to the one that is free the soonest. */
static void test_chunks_avoid_those_that_leave(void)
{
    check_places(3, 0, (const uint64_t[]){0, 0, 0});
    check_places(3, 1, (const uint64_t[]){0, 1, 0});
    check_places(3, 2, (const uint64_t[]){0, 1, 2});
    check_places(2, 2, (const uint64_t[]){0, 1, 0});
    check_places(1, 2, (const uint64_t[]){0, 0, 0});
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/place/arena", test_arena);
    g_test_add_func("/place/chunks_avoid_those_that_leave", test_chunks_avoid_those_that_leave);
    g_test_add_func("/place/few_return_through_the_host", test_few_return_through_the_host);
    return g_test_run();
}
