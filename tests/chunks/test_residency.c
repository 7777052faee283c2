/* Under random traces, layouts, policies, budgets and timings, every operator finds the right
 * bytes, and every iteration moves what the plan says. */
#include "chunks/dry_run.h"
#include "chunks/nvme_homes.h"
#include "tests/chunks/adversary.h"
#include "tests/chunks/check_figures.h"
#include "tests/chunks/random_iteration.h"

#define TRIALS     400
#define ITERATIONS 4

struct trial {
    struct trace *trace;
    struct layout *layout;
    struct non_model *non_model;
    struct accesses *accesses;
    struct plan *plan;
};

static uint64_t between(GRand *random, uint64_t low, uint64_t high)
{
    return low + (uint64_t)(g_rand_double(random) * (double)(high - low));
}

/* Waits for all copies, before some of the operators. */
static void add_waits(struct plan *plan, GRand *random)
{
    const struct plan_action wait = {.kind = PLAN_WAIT, .address = NO_ADDRESS};
    GArray *actions = g_array_new(FALSE, FALSE, sizeof wait);
    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        uint32_t begin = actions->len;
        g_array_append_vals(actions, plan->actions + plan->first_action[m],
                            plan->first_action[m + 1] - plan->first_action[m]);
        if (g_rand_int_range(random, 0, 4) == 0)
            g_array_append_val(actions, wait);
        plan->first_action[m] = begin;
    }
    plan->first_action[plan->moment_count + 1] = plan->action_count = actions->len;
    g_free(plan->actions);
    plan->actions = (struct plan_action *)(void *)g_array_free(actions, FALSE);
}

/* Some plans have states that can live in NVMe, and some budgets have room for that. */
static void give_nvme(const struct trial *trial, GRand *random)
{
    GError *error = NULL;
    struct plan *plan = trial->plan;
    const struct nvme_budget budget = {
        .host_bytes = g_rand_boolean(random) ? UINT64_MAX
                                             : between(random, plan->host_pool_bytes / 4,
                                                       plan->host_pool_bytes + 8192),
        .nvme_bytes = between(random, 4096, 1 << 20),
        .passing_first = g_rand_boolean(random)};
    if (nvme_homes_give(plan, trial->trace, trial->accesses, &budget, &error)) {
        g_assert_cmpuint(plan->host_pool_bytes, <=, budget.host_bytes);
        g_assert_cmpuint(plan->nvme_bytes, <=, budget.nvme_bytes);
        return;
    }
    g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
    g_assert_null(plan->nvme_address);
    g_error_free(error);
}

static void open_trial(struct trial *trial, GRand *random)
{
    GError *error = NULL;
    trial->trace = g_rand_boolean(random) ? random_iteration(random) : shared_iteration(random);
    trace_check(trial->trace, "random", &error);
    g_assert_no_error(error);
    uint64_t chunk_bytes = 256 * (uint64_t)g_rand_int_range(random, 1, 40);
    trial->layout = layout_pack_uniform(trial->trace, chunk_bytes, &error);
    g_assert_no_error(error);
    trial->non_model = non_model_place(trial->trace);
    trial->accesses = accesses_new(trial->trace, trial->layout, trial->non_model->extent);

    uint64_t least = accesses_least_arena_bytes(trial->accesses, trial->layout, NULL);
    uint64_t most = layout_slot_bytes(trial->layout) + trial->non_model->peak_bytes;
    struct dry_run_options options = {
        .device_budget = g_rand_boolean(random) ? least : between(random, least, MAX(least, most)),
        .host_budget = g_rand_boolean(random) ? UINT64_MAX : between(random, most / 2, most),
        .policy = random_policy(random),
        .look_ahead = (uint32_t)g_rand_int_range(random, 0, 6)};
    trial->plan = dry_run(trial->trace, trial->layout, &options, &error);
    if (!trial->plan) /* the host budget may be out of reach */
        g_assert_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT);
    g_clear_error(&error);
    if (trial->plan)
        give_nvme(trial, random);
    if (trial->plan && g_rand_boolean(random))
        add_waits(trial->plan, random);
    if (trial->plan && g_rand_boolean(random))
        trial->plan->cut_from_bytes = between(random, 1, 2 * chunk_bytes);
}

static void close_trial(struct trial *trial)
{
    plan_free(trial->plan);
    accesses_free(trial->accesses);
    non_model_free(trial->non_model);
    layout_free(trial->layout);
    trace_free(trial->trace);
}

static void run_trial(const struct trial *trial, GRand *random)
{
    GError *error = NULL;
    const struct plan *plan = trial->plan;
    plan_check(plan, trial->trace, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(plan->arena_bytes, <=, plan->device_budget);
    g_assert_cmpuint(plan->predicted.peak_device_bytes, <=, plan->arena_bytes);
    g_assert_cmpuint(plan->predicted.peak_live_device_bytes, <=, plan->predicted.peak_device_bytes);

    struct adversary *adversary = adversary_new(plan, trial->accesses, trial->trace, random);
    struct residency *residency = residency_new(plan, trial->accesses, trial->trace, &adversary_ops,
                                                adversary);
    residency_load(residency);
    adversary_take_figures(adversary);
    for (int i = 0; i < ITERATIONS; i++) {
        for (uint32_t m = 0; m < plan->moment_count; m++)
            residency_step(residency, m);
        struct plan_figures figures = adversary_take_figures(adversary);
        check_figures(&figures, &plan->predicted);
        if (g_rand_boolean(random)) { /* evaluation: a part of the iteration, then back */
            uint32_t stop = trial->trace->tensor_count;
            residency_flush(residency);
            for (uint32_t m = 0; m < stop; m++)
                residency_step(residency, m);
            residency_rewind(residency);
        }
        if (g_rand_boolean(random))
            residency_flush(residency);
        adversary_take_figures(adversary);
    }
    g_assert_cmpuint(adversary_finish(adversary), ==, 0);
    residency_free(residency);
    adversary_free(adversary);
}

static void test_trials(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    int ran = 0, in_nvme = 0;
    for (int i = 0; i < TRIALS; i++) {
        struct trial trial;
        open_trial(&trial, random);
        if (trial.plan) {
            run_trial(&trial, random);
            ran++;
            in_nvme += trial.plan->nvme_bytes > 0;
        }
        close_trial(&trial);
    }
    g_test_message("%d of %d trials had a budget that fits", ran, TRIALS);
    g_test_message("%d had chunks at home in NVMe", in_nvme);
    g_assert_cmpint(ran, >, TRIALS / 4);
    g_assert_cmpint(in_nvme, >, TRIALS / 50);
    g_rand_free(random);
}

static chunk_id first_homed(const struct plan *plan)
{
    chunk_id c = 0;
    while (c < plan->layout->chunk_count && !plan_is_homed(plan, c))
        c++;
    return c;
}

/* Chunks at home on the device never move: after a forward pass alone nothing says in which order
 * those that had changed places could go back. */
static void test_homed(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int refused = 0;
    for (int i = 0; i < TRIALS; i++) {
        struct trial trial;
        open_trial(&trial, random);
        struct plan *plan = trial.plan;
        chunk_id homed = plan ? first_homed(plan) : 0;
        if (plan && homed < plan->layout->chunk_count) {
            g_autoptr(GError) error = NULL;
            plan->actions = g_renew(struct plan_action, plan->actions, plan->action_count + 1);
            plan->actions[plan->action_count++] = (struct plan_action){
                .chunk = homed, .kind = PLAN_MOVE, .address = plan->initial_address[homed]};
            plan->first_action[plan->moment_count + 1]++;
            g_assert_false(plan_check(plan, trial.trace, &error));
            g_assert_nonnull(strstr(error->message, "cannot leave its address"));
            refused++;
        }
        close_trial(&trial);
    }
    g_test_message("%d of %d plans had chunks at home on the device", refused, TRIALS);
    g_assert_cmpint(refused, >, TRIALS / 50);
}

/* ---- who waits for the host ---- */

/* A mover that only looks at what its work waits for. */
struct onlooker {
    const struct trace *trace;
    mover_ticket last;
    uint32_t fetches, operators; /* that wait for an operator on the host */
};

static mover_ticket look_at_fetch(void *self, const struct mover_copy *copy,
                                  const struct mover_after *after)
{
    struct onlooker *onlooker = self;
    (void)copy;
    onlooker->fetches += after->queue[MOVER_HOST] > 0;
    return ++onlooker->last;
}

static mover_ticket look_at_write_back(void *self, const struct mover_copy *copy, bool leaves,
                                       const struct mover_after *after)
{
    (void)copy;
    (void)leaves;
    (void)after;
    return ++((struct onlooker *)self)->last;
}

static mover_ticket look_at_gather(void *self, const struct mover_gather *gather,
                                   const struct mover_after *after)
{
    return look_at_fetch(self, &gather->to, after);
}

static void look_at_allocate(void *self, const struct mover_copy *copy)
{
    (void)self;
    (void)copy;
}

static void look_at_drop(void *self, uint32_t chunk)
{
    (void)self;
    (void)chunk;
}

static mover_ticket look_at_move(void *self, const struct mover_copy *to, uint64_t from,
                                 const struct mover_after *after)
{
    struct onlooker *onlooker = self;
    (void)to;
    (void)from;
    onlooker->operators += after->queue[MOVER_HOST] > 0;
    return ++onlooker->last;
}

static mover_ticket look_at_nvme(void *self, const struct mover_copy *copy,
                                 const struct mover_after *after)
{
    (void)copy;
    (void)after;
    return ++((struct onlooker *)self)->last;
}

static mover_ticket look_at_run(void *self, uint32_t moment, const struct mover_after *after,
                                mover_ticket *received)
{
    struct onlooker *onlooker = self;
    const struct trace_operator *op = &onlooker->trace->operators[moment];
    onlooker->operators += op->place == TRACE_ON_DEVICE && after->queue[MOVER_HOST] > 0;
    if (op->d2h_bytes)
        *received = ++onlooker->last;
    return ++onlooker->last;
}

static const struct mover_ops onlooker_ops = {.fetch = look_at_fetch,
                                              .gather = look_at_gather,
                                              .write_back = look_at_write_back,
                                              .allocate = look_at_allocate,
                                              .drop = look_at_drop,
                                              .load = look_at_nvme,
                                              .store = look_at_nvme,
                                              .move = look_at_move,
                                              .run = look_at_run};

static bool host_only_updates(const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].place == TRACE_ON_HOST &&
            trace->operators[m].phase != TRACE_UPDATE_PHASE)
            return false;
    return true;
}

static bool has_waits(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->actions[i].kind == PLAN_WAIT)
            return true;
    return false;
}

/* Updates on the host may be late. Only fetches of what they wrote wait for them. */
static void test_late_updates(void)
{
    GRand *random = g_rand_new_with_seed(random_seed());
    uint32_t fetches = 0;
    for (int i = 0; i < TRIALS; i++) {
        struct trial trial;
        open_trial(&trial, random);
        if (trial.plan && host_only_updates(trial.trace) && !has_waits(trial.plan)) {
            struct onlooker onlooker = {.trace = trial.trace};
            struct residency *residency = residency_new(trial.plan, trial.accesses, trial.trace,
                                                        &onlooker_ops, &onlooker);
            residency_load(residency);
            for (uint32_t m = 0; m < 2 * trial.plan->moment_count; m++)
                residency_step(residency, m % trial.plan->moment_count);
            g_assert_cmpuint(onlooker.operators, ==, 0);
            fetches += onlooker.fetches;
            residency_free(residency);
        }
        close_trial(&trial);
    }
    g_assert_cmpuint(fetches, >, 0);
    g_rand_free(random);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/residency/any-timing", test_trials);
    g_test_add_func("/residency/late-updates", test_late_updates);
    g_test_add_func("/residency/homed", test_homed);
    return g_test_run();
}
