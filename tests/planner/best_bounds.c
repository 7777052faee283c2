#include "best_bounds.h"

#include "planner/proof/bound.h"
#include "planner/proof/joint.h"

uint64_t bounds_of_prices(const struct time_model *model, const struct certificate_window *windows,
                          const GArray *chains, uint64_t host_bytes)
{
    const struct time_prices prices = {windows, (const struct time_chain *)(void *)chains->data,
                                       chains->len, host_bytes};
    scaled_ns bound = time_model_bound(model, &prices, NULL);
    return bound > 0 ? (uint64_t)(bound / BOUND_PRICE_SCALE) : 0;
}

GArray *bounds_chains(void)
{
    GArray *chains = g_array_new(FALSE, FALSE, sizeof(struct time_chain));
    g_array_set_clear_func(chains, chain_clear);
    return chains;
}

/* Returns up to four chains with random ends and prices, which sum to at most a third of the scale.
 * They begin and end with an operator of the device, so most random ends are none. */
static GArray *random_chains(const struct time_model *model, GRand *random)
{
    GArray *chains = bounds_chains();
    gint32 moments = (gint32)model->windows->moment_count;
    for (int i = 0; i < 64 && chains->len < 4; i++) {
        struct certificate_chain ends = {.from = (uint32_t)g_rand_int_range(random, 0, moments)};
        ends.first = ends.from + (uint32_t)g_rand_int_range(random, 0, moments);
        ends.last = ends.first + (uint32_t)g_rand_int_range(random, 0, moments);
        ends.to = ends.from + (uint32_t)g_rand_int_range(random, 0, moments + 1);
        ends.price = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 12);
        struct time_chain chain;
        if (chain_make(model->chain_operators, model->windows, &ends, &chain))
            g_array_append_val(chains, chain);
    }
    return chains;
}

/* Returns the model with a kind for each block. Free its kinds. */
static struct time_model without_kinds(const struct time_model *model)
{
    struct time_model apart = *model;
    apart.kind_count = model->block_count;
    apart.kinds = g_new(struct time_kind, MAX(model->block_count, 1));
    apart.kind_of = g_new(uint32_t, MAX(model->block_count, 1));
    for (uint32_t b = 0; b < model->block_count; b++) {
        apart.kinds[b] = (struct time_kind){.first = b, .count = 1};
        apart.kind_of[b] = b;
    }
    return apart;
}

/* Returns the bound, which is the same whether or not blocks that are alike are found. */
static uint64_t bound_of_kinds(const struct time_model *model,
                               const struct certificate_window *windows, const GArray *chains,
                               uint64_t host_bytes)
{
    struct time_model apart = without_kinds(model);
    uint64_t bound = bounds_of_prices(model, windows, chains, host_bytes);
    uint64_t of_blocks = bounds_of_prices(&apart, windows, chains, host_bytes);
    g_assert_cmpuint(bound, ==, of_blocks);
    g_free(apart.kinds);
    g_free(apart.kind_of);
    return bound;
}

/* The bound also holds for random prices. */
static uint64_t random_bound(const struct time_model *model, GRand *random)
{
    uint32_t count = model->windows->count;
    g_autofree struct certificate_window *prices = g_new0(struct certificate_window, count);
    g_autoptr(GArray) chains = random_chains(model, random);
    for (uint32_t w = 0; w < count; w++)
        prices[w] = (struct certificate_window){
            .h2d = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 8),
            .d2h = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 8),
            .host = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 8),
            .network = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 8),
            .memory = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 8),
            .room = (uint64_t)g_rand_int(random) >> g_rand_int_range(random, 0, 32),
            .unit = (uint64_t)g_rand_int(random) >> g_rand_int_range(random, 8, 32),
            .whole = (uint64_t)g_rand_int(random) >> g_rand_int_range(random, 0, 32)};
    bool limited = model->host_bytes != UINT64_MAX;
    uint64_t host_price = (uint64_t)g_rand_int(random) >> g_rand_int_range(random, 0, 32);
    return bound_of_kinds(model, prices, chains, limited ? host_price : 0);
}

/* Returns the greatest bound of a single chain whose price is the whole time of its windows, and
 * compute's elsewhere. */
static uint64_t chain_bound(const struct time_model *model)
{
    uint64_t bound = 0;
    g_autofree struct certificate_window *nothing = g_new0(struct certificate_window,
                                                           model->windows->count);
    g_autoptr(GArray) proposed = chains_propose(model->chain_operators, model->windows);
    g_autoptr(GArray) one = bounds_chains();
    for (guint i = 0; i < proposed->len; i++) {
        struct time_chain *chain = &g_array_index(proposed, struct time_chain, i);
        chain->ends.price = BOUND_PRICE_SCALE;
        g_array_append_val(one, *chain);
        chain->host_ns = NULL;
        uint64_t of_one = bounds_of_prices(model, nothing, one, 0);
        bound = MAX(bound, of_one);
        g_array_set_size(one, 0);
    }
    return bound;
}

/* A certificate may have any of the windows that can be chosen. Keeps all of them for half of the
 * seeds, and others with an even chance. */
static void drop_windows(guint32 seed, GArray *starts)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(seed);
    bool all = g_rand_boolean(random);
    for (guint w = starts->len; !all && w-- > 1;)
        if (g_rand_boolean(random))
            g_array_remove_index(starts, w);
}

/* Makes the model of a certificate for the trace's own layout and budget, or returns NULL if no
 * window can begin. */
struct time_model *bounds_model(const struct time_fixture *f, const uint32_t *branches,
                                uint32_t branch_count, uint32_t on_host)
{
    struct run_choices choices = {.first_update = f->first};
    struct plan plan = {.layout = f->layout,
                        .choices = &choices,
                        .device_budget = f->device_budget,
                        .host_budget = f->host_budget};
    struct reuses *reuses = bound_reuses(f->trace, &plan);
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE, sizeof(struct window_start));
    struct time_job job = {.plan = &plan,
                           .sides = {f->sides[0], f->sides[1]},
                           .costs = f->costs,
                           .branches = branches,
                           .branch_count = branch_count,
                           .branches_on_host = on_host};
    struct time_model *model = NULL;
    time_job_set_order(&job, f->trace);
    time_windows_choose(f->trace, reuses, TIME_WINDOWS_MOST, starts);
    time_windows_choose_updates(&job, starts);
    time_windows_choose_ends(&job, TIME_WINDOWS_MOST, starts);
    drop_windows(f->windows_seed, starts);
    if (starts->len) {
        const struct window_start *at = (const struct window_start *)(void *)starts->data;
        g_assert_true(time_job_may_begin(&job, at, starts->len));
        model = time_model_new(&job, reuses, at, starts->len);
    }
    reuses_free(reuses);
    return model;
}

/* Returns what the device takes for what has no other place, however fast the link is. */
static uint64_t compute_bound(const struct time_model *model)
{
    g_autofree struct certificate_window *nothing = g_new0(struct certificate_window,
                                                           model->windows->count);
    g_autoptr(GArray) none = bounds_chains();
    return bounds_of_prices(model, nothing, none, 0);
}

/* Returns what the host's memory is needed for, however fast all else is. */
static uint64_t memory_bound(const struct time_model *model)
{
    uint32_t count = model->windows->count;
    g_autofree struct certificate_window *memory = g_new0(struct certificate_window, count);
    g_autoptr(GArray) none = bounds_chains();
    for (uint32_t w = 0; w < count; w++)
        memory[w].memory = BOUND_PRICE_SCALE;
    return bounds_of_prices(model, memory, none, 0);
}

/* Returns the best bound of a model, and of some other prices. The search, which may give up before
 * it is close to the best, is never below compute, or below what all of the host's memory takes. */
static uint64_t best_bound(const struct time_model *model, GRand *random, struct time_fixture *f)
{
    uint64_t host_price;
    g_autoptr(GArray) chains = bounds_chains();
    g_autofree struct certificate_window *prices =
        time_prices_find(model, TIME_PRICES_CLOSE, UINT64_MAX, chains, &host_price, NULL, true);
    uint64_t bound = bounds_of_prices(model, prices, chains, host_price),
             of_chains = chain_bound(model);
    uint64_t of_compute = compute_bound(model);
    uint64_t of_memory = memory_bound(model);
    g_assert_cmpuint(bound, >=, of_compute);
    g_assert_cmpuint(bound, >=, of_memory);
    bound = MAX(bound, of_chains);
    f->chained = chains->len > 0;
    f->priced = host_price > 0;
    f->alike = model->kind_count < model->block_count;
    for (uint32_t w = 0; w < model->windows->count; w++)
        f->slow_memory |= prices[w].memory > 0;
    for (int i = 0; i < 5; i++) {
        uint64_t of_random = random_bound(model, random);
        bound = MAX(bound, of_random);
    }
    return bound;
}

/* Returns the lesser bound of the two cases of a branch. */
static uint64_t branch_bound(struct time_fixture *f, GRand *random)
{
    uint32_t group = (uint32_t)g_rand_int_range(random, 0, (gint32)f->layout->group_count);
    uint64_t bound = UINT64_MAX;
    for (uint32_t on_host = 0; on_host < 2; on_host++) {
        struct time_model *model = bounds_model(f, &group, 1, on_host);
        uint64_t of_case = best_bound(model, random, f);
        bound = MIN(bound, of_case);
        time_model_free(model);
    }
    return bound;
}

/* Returns the larger bound of the largest chunks together, with the best prices found and with
 * random ones. */
static uint64_t joint_bound_of(struct time_fixture *f, GRand *random)
{
    struct run_choices choices = {.first_update = f->first};
    const struct plan plan = {.layout = f->layout,
                              .choices = &choices,
                              .device_budget = f->device_budget,
                              .host_budget = f->host_budget};
    const struct time_job job = {
        .plan = &plan, .sides = {f->sides[0], f->sides[1]}, .costs = f->costs};
    struct certificate_joint joint = {0};
    uint64_t again = 0, bound = joint_prove(&job, 0, &joint);
    g_assert_null(joint_recompute(&job, &joint, &again));
    g_assert_cmpuint(again, ==, bound);
    f->joint = bound > 0;
    joint = (struct certificate_joint){
        .chunks = (uint32_t)g_rand_int_range(random, 1, CERTIFICATE_JOINT_MOST + 1),
        .h2d = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 2),
        .d2h = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 3),
        .host = (uint64_t)g_rand_int_range(random, 0, BOUND_PRICE_SCALE / 6),
        .kept = (uint64_t)g_rand_int(random) >> g_rand_int_range(random, 0, 32)};
    if (!joint_recompute(&job, &joint, &again))
        bound = MAX(bound, again);
    return bound;
}

void bounds_find(struct time_fixture *f, GRand *random)
{
    uint64_t of_joint = joint_bound_of(f, random);
    struct time_model *model = bounds_model(f, NULL, 0, 0);
    f->bound_ns = 0;
    f->chained = f->priced = f->slow_memory = f->alike = false;
    if (!model)
        return;
    f->bound_ns = best_bound(model, random, f);
    if (f->either_side && g_rand_int_range(random, 0, 4) == 0) { /* it takes twice as long */
        uint64_t of_branches = branch_bound(f, random);
        f->bound_ns = MAX(f->bound_ns, of_branches);
    }
    f->bound_ns = MAX(f->bound_ns, of_joint);
    time_model_free(model);
}
