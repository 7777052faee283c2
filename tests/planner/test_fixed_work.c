/* The lower bound of an iteration's time counts what every schedule has, wherever the optimizer
 * runs: operators, activations, and copies for which operators wait. */
#include "best_bounds.h"
#include "planner/proof/bound.h"
#include "tests/chunks/random_iteration.h"

static bool exceeds_device(const struct time_fixture *f, const struct accesses *accesses,
                           uint32_t m)
{
    uint64_t bytes = 0;
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
        bytes += f->layout->chunks[accesses->items[a].chunk].slot_bytes;
    return bytes > f->device_budget;
}

/* Returns the time of operators that are on the host wherever the optimizer runs: those of the
 * passes, and updates whose chunks do not fit into the device. */
static uint64_t fixed_host_ns(const struct time_fixture *f, int *updates)
{
    uint64_t ns = 0;
    const struct trace *trace = f->sides[TIME_HOST];
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, f->layout, non_model->extent);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool exceeds = time_is_placed(op) && exceeds_device(f, accesses, m);
        if (op->place == TRACE_ON_HOST && (exceeds || op->phase != TRACE_UPDATE_PHASE))
            ns += op->duration_ns;
        *updates += exceeds;
    }
    accesses_free(accesses);
    non_model_free(non_model);
    return ns;
}

/* If only the host's time has a price, the bound is at least that work, even if the optimizer may
 * run on either side. */
static void test_host_operators_count(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int counted = 0, updates = 0;
    for (int i = 0; i < CASES || ((counted == 0 || updates == 0) && i < MOST_CASES); i++) {
        struct time_fixture f;
        time_set_up(&f, random_iteration(random), random);
        f.device_budget = f.device_budget * 2 / 3; /* into which some updates do not fit */
        struct time_model *model = bounds_model(&f, NULL, 0, 0);
        if (f.either_side && model && fixed_host_ns(&f, &updates)) {
            g_autofree struct certificate_window *prices = g_new0(struct certificate_window,
                                                                  model->windows->count);
            for (uint32_t w = 0; w < model->windows->count; w++)
                prices[w].host = BOUND_PRICE_SCALE;
            g_autoptr(GArray) none = bounds_chains();
            g_assert_cmpuint(bounds_of_prices(model, prices, none, 0) + f.trace->operator_count, >=,
                             fixed_host_ns(&f, &updates));
            counted++;
        }
        time_model_free(model);
        time_tear_down(&f);
    }
    g_test_message("%d iterations with operators on the host in any case, and %d updates", counted,
                   updates);
    g_assert_cmpint(counted, >, 0);
    g_assert_cmpint(updates, >, 0);
}

/* Returns what the host has to do before its next operator, behind its activations that moved last,
 * if nothing else happens meanwhile. */
static uint64_t host_behind(const struct time_job *job, const struct trace_operator *op,
                            uint64_t behind)
{
    uint64_t own = time_job_at_least(job, op->duration_ns);
    if (op->place == TRACE_ON_DEVICE || time_is_placed(op) || op->h2d_bytes)
        return 0;
    return op->d2h_bytes ? own : behind + own;
}

/* Returns the time for which the device computes, or waits for activations that the host receives
 * or sends, if updates stay where they are. */
static uint64_t device_ns(const struct time_fixture *f, int *waits, int *behinds)
{
    const struct time_job job = {.sides = {f->trace}, .costs = f->costs};
    uint64_t ns = 0, behind = 0;
    for (uint32_t m = 0; m < f->trace->operator_count; m++) {
        const struct trace_operator *op = &f->trace->operators[m];
        if (op->place == TRACE_ON_DEVICE)
            ns += time_job_device_ns(&job, op);
        ns += time_job_copy_ns(&job, &f->costs->d2h, op->d2h_bytes);
        if (op->h2d_bytes)
            ns += time_job_at_least(&job, op->duration_ns) +
                  time_job_copy_ns(&job, &f->costs->h2d, op->h2d_bytes);
        if (op->h2d_bytes && !op->d2h_bytes) {
            ns += behind;
            *behinds += behind > 0;
        }
        *waits += op->d2h_bytes || op->h2d_bytes;
        behind = host_behind(&job, op, behind);
    }
    return ns;
}

/* If nothing but the device's time has a price, the bound is its work and its waits for activations
 * of the host. */
static void test_activations_count(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int waits = 0, behinds = 0;
    for (int i = 0; i < CASES || (behinds == 0 && i < MOST_CASES); i++) {
        struct time_fixture f;
        time_set_up(&f, i % 2 ? wild_iteration(random) : random_iteration(random), random);
        struct time_model *model = f.either_side ? NULL : bounds_model(&f, NULL, 0, 0);
        if (model) {
            g_autofree struct certificate_window *nothing = g_new0(struct certificate_window,
                                                                   model->windows->count);
            g_autoptr(GArray) none = bounds_chains();
            g_assert_cmpuint(bounds_of_prices(model, nothing, none, 0), ==,
                             device_ns(&f, &waits, &behinds));
        }
        time_model_free(model);
        time_tear_down(&f);
    }
    g_test_message("the device waits for %d operators of the host, and %d times for others before",
                   waits, behinds);
    g_assert_cmpint(waits, >, 0);
    g_assert_cmpint(behinds, >, 0);
}

/* Returns the operator of the device that wrote the chunk last before the host uses it at moment
 * `m`, with no update up to then, or NO_INDEX. */
static uint32_t find_writer(const struct trace *trace, const struct accesses *accesses, uint32_t m,
                            uint32_t chunk)
{
    for (uint32_t before = m; before-- > 0;) {
        if (trace->operators[before + 1].phase == TRACE_UPDATE_PHASE)
            return NO_INDEX;
        for (uint32_t a = accesses->first[before + 1]; a-- > accesses->first[before];) {
            const struct chunk_access *access = &accesses->items[a];
            if (access->chunk == chunk)
                return access->flags & ACCESS_WRITES &&
                               !(access->flags & (ACCESS_ON_HOST | ACCESS_LAST))
                           ? before
                           : NO_INDEX;
        }
    }
    return NO_INDEX;
}

/* Returns whether the operator of the host is over within an iteration after the writer. */
static bool is_over_in_time(const struct time_model *model, uint32_t writer, uint32_t m)
{
    const struct chain_operators *operators = model->chain_operators;
    for (uint32_t k = 0; k < operators->count; k++)
        if (operators->items[k].moment == m)
            return m + operators->items[k].over <= writer + operators->moment_count;
    return false;
}

/* Checks that a chain from the writer takes the copy of the chunk, and what the operator of moment
 * `m` takes. */
static void check_copy(const struct time_fixture *f, const struct time_model *model,
                       uint32_t writer, uint32_t m, uint32_t chunk)
{
    const struct time_job job = {.sides = {f->trace}, .costs = f->costs};
    const struct trace *trace = f->sides[TIME_HOST];
    const struct trace_operator *op = &trace->operators[m];
    const struct certificate_chain ends = {writer, m, m, writer + trace->operator_count, 0};
    uint64_t least_ns = time_job_copy_ns(&job, &f->costs->d2h,
                                         f->layout->chunks[chunk].copy_bytes) +
                        time_job_copy_ns(&job, &f->costs->d2h, op->d2h_bytes) +
                        time_job_at_least(&job, op->duration_ns);
    struct time_chain chain;
    g_assert_true(chain_make(model->chain_operators, model->windows, &ends, &chain));
    g_assert_cmpuint(chain.always_ns, >=, least_ns);
    chain_clear(&chain);
}

/* What the device wrote, and an operator of the host needs wherever updates run, is part of chains
 * that go through this operator. */
static void test_chains_have_copies_in_any_case(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int copies = 0;
    for (int i = 0; i < CASES || (copies == 0 && i < MOST_CASES); i++) {
        struct time_fixture f;
        time_set_up(&f, random_iteration(random), random);
        struct time_model *model = f.either_side ? bounds_model(&f, NULL, 0, 0) : NULL;
        const struct trace *trace = f.sides[TIME_HOST];
        for (uint32_t m = 0; model && model->chain_operators && m < trace->operator_count; m++) {
            struct non_model *non_model = non_model_place(trace);
            struct accesses *accesses = accesses_new(trace, f.layout, non_model->extent);
            for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
                const struct chunk_access *access = &accesses->items[a];
                uint32_t writer = access->flags & ACCESS_ON_HOST && !(access->flags & ACCESS_FRESH)
                                      ? find_writer(trace, accesses, m, access->chunk)
                                      : NO_INDEX;
                if (writer == NO_INDEX || !is_over_in_time(model, writer, m))
                    continue;
                check_copy(&f, model, writer, m, access->chunk);
                copies++;
            }
            accesses_free(accesses);
            non_model_free(non_model);
        }
        time_model_free(model);
        time_tear_down(&f);
    }
    g_test_message("%d copies that the host waits for in any case", copies);
    g_assert_cmpint(copies, >, 0);
}
int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/time_bound/host_operators_count", test_host_operators_count);
    g_test_add_func("/time_bound/activations_count", test_activations_count);
    g_test_add_func("/time_bound/chains_have_copies_in_any_case",
                    test_chains_have_copies_in_any_case);
    return g_test_run();
}
