/* The lower bound of an iteration's time is below every plan of policies, of the planner, and of
 * every retention, wherever the optimizer runs. */
#include "chunks/pipeline.h"
#include "planner/proof/bound.h"
#include "planner/proof/joint.h"
#include "planner/proof/prices.h"
#include "planner/search/candidate.h"
#include "sim/replay.h"
#include "tests/chunks/random_iteration.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#include <math.h>
#include <string.h>

/* The kinds of clocks: queues, threads that share cores, directions that slow each other, and a
 * host's memory that is shared. */
enum { QUEUES, THREADS, DIRECTIONS, MEMORY, CLOCKS };
static const char *const clocks[CLOCKS] = {"queues", "threads", "directions", "memory"};

#define CLOSE 1.01
/* Until the draws had what a test is about, it goes on. */
enum { MOST_CASES = 5000 };
#define CASES      draws(UNLESS_SANITIZED(40, 6), 120)
#define WILD_CASES draws(UNLESS_SANITIZED(150, 15), 500)
enum { FINER = 400, REUSES_ENUMERATED = 7, PLACEMENTS = 2 };

/* One layout and budget, and their bounds. */
struct fixture {
    struct trace *trace;
    struct costs *costs;
    int clock;
    double finer;              /* times are divided by this, so that their rounding matters */
    struct platform *platform; /* may be NULL; then updates stay where they are */
    struct layout_spec spec;
    uint64_t device_budget, host_budget;
    bool either_side;
    tensor_id first; /* with which the host begins its updates, if they may run on either side */
    guint32 windows_seed; /* of the windows that the bound has, of those that it may have */
    struct layout *layout;
    struct trace *sides[TIME_SIDES];
    uint64_t bound_ns; /* with the best prices */
    bool chained;      /* some of them are of chains */
    bool priced;       /* the host's memory has a price */
    bool slow_memory;  /* its rate has one */
    bool alike;        /* some blocks are of one kind */
    bool joint;        /* the bound of the largest chunks together is above 0 */
};

/* Returns the trace with every update on the host, or on the device. */
static struct trace *place_all(const struct fixture *f, bool on_host)
{
    const struct placement placement = {PLACEMENT_SPREAD, on_host ? PLACEMENT_PARTS : 0, 0, NULL,
                                        f->first};
    return placement_trace(&placement, f->trace, f->layout, f->platform);
}

static uint64_t bound_of(const struct time_model *model, const struct certificate_window *windows,
                         const GArray *chains, uint64_t host_bytes)
{
    const struct time_prices prices = {windows, (const struct time_chain *)(void *)chains->data,
                                       chains->len, host_bytes};
    scaled_ns bound = time_model_bound(model, &prices, NULL);
    return bound > 0 ? (uint64_t)(bound / BOUND_PRICE_SCALE) : 0;
}

static GArray *new_chains(void)
{
    GArray *chains = g_array_new(FALSE, FALSE, sizeof(struct time_chain));
    g_array_set_clear_func(chains, chain_clear);
    return chains;
}

/* Returns up to four chains with random ends and prices, which sum to at most a third of the scale.
 * They begin and end with an operator of the device, so most random ends are none. */
static GArray *random_chains(const struct time_model *model, GRand *random)
{
    GArray *chains = new_chains();
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
    uint64_t bound = bound_of(model, windows, chains, host_bytes);
    uint64_t of_blocks = bound_of(&apart, windows, chains, host_bytes);
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
    g_autoptr(GArray) one = new_chains();
    for (guint i = 0; i < proposed->len; i++) {
        struct time_chain *chain = &g_array_index(proposed, struct time_chain, i);
        chain->ends.price = BOUND_PRICE_SCALE;
        g_array_append_val(one, *chain);
        chain->host_ns = NULL;
        uint64_t of_one = bound_of(model, nothing, one, 0);
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
static struct time_model *new_model(const struct fixture *f, const uint32_t *branches,
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
    g_autoptr(GArray) none = new_chains();
    return bound_of(model, nothing, none, 0);
}

/* Returns what the host's memory is needed for, however fast all else is. */
static uint64_t memory_bound(const struct time_model *model)
{
    uint32_t count = model->windows->count;
    g_autofree struct certificate_window *memory = g_new0(struct certificate_window, count);
    g_autoptr(GArray) none = new_chains();
    for (uint32_t w = 0; w < count; w++)
        memory[w].memory = BOUND_PRICE_SCALE;
    return bound_of(model, memory, none, 0);
}

/* Returns the best bound of a model, and of some other prices. The search, which may give up before
 * it is close to the best, is never below compute, or below what all of the host's memory takes. */
static uint64_t best_bound(const struct time_model *model, GRand *random, struct fixture *f)
{
    uint64_t host_price;
    g_autoptr(GArray) chains = new_chains();
    g_autofree struct certificate_window *prices =
        time_prices_find(model, TIME_PRICES_CLOSE, UINT64_MAX, chains, &host_price, NULL, true);
    uint64_t bound = bound_of(model, prices, chains, host_price), of_chains = chain_bound(model);
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
static uint64_t branch_bound(struct fixture *f, GRand *random)
{
    uint32_t group = (uint32_t)g_rand_int_range(random, 0, (gint32)f->layout->group_count);
    uint64_t bound = UINT64_MAX;
    for (uint32_t on_host = 0; on_host < 2; on_host++) {
        struct time_model *model = new_model(f, &group, 1, on_host);
        uint64_t of_case = best_bound(model, random, f);
        bound = MIN(bound, of_case);
        time_model_free(model);
    }
    return bound;
}

/* Returns the larger bound of the largest chunks together, with the best prices found and with
 * random ones. */
static uint64_t joint_bound_of(struct fixture *f, GRand *random)
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

static void find_bound(struct fixture *f, GRand *random)
{
    uint64_t of_joint = joint_bound_of(f, random);
    struct time_model *model = new_model(f, NULL, 0, 0);
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

/* Nanoseconds a byte: from a link that everything waits for to one that hardly matters. */
static double random_times(const struct fixture *f, GRand *random)
{
    return 5 * pow(0.01, g_rand_double(random)) / f->finer;
}

static char *curve(const char *name, double ns)
{
    return g_strdup_printf(", \"%s\": {\"source\": \"chance\", \"points\": [[1, %ge-9]]}", name,
                           ns);
}

/* Makes a platform of this kind of clock, with rates that do not depend on the amount. */
static struct platform *random_platform(const struct fixture *f, GRand *random)
{
    g_autofree char *threads = g_strdup_printf(
        ", \"threads\": {\"source\": \"a test\", \"host_cores\": 1, \"put_seconds\": %g, "
        "\"wake_seconds\": %g, \"late_seconds\": %g, \"gap_seconds\": %g, "
        "\"slow_down\": [[0.1, 0.2, 0], [0, 0.1, 0.3], [0.5, 0.4, 0.1]]}",
        1e-8 / f->finer, 3e-8 / f->finer, 5e-8 / f->finer, 2e-8 / f->finer);
    double h2d = random_times(f, random), d2h = random_times(f, random);
    g_autoptr(GString) text = g_string_new("{\"name\": \"a test's\", \"source\": \"chance\", "
                                           "\"device_bytes\": 1000, \"host_bytes\": 1000");
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) curves = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(curves, curve("h2d", h2d));
    g_ptr_array_add(curves, curve("d2h", d2h));
    g_ptr_array_add(curves, curve("compute_fp32", 1e-3));
    g_ptr_array_add(curves, curve("compute_bf16", 1e-3));
    g_ptr_array_add(curves, curve("memory", 0.1));
    g_ptr_array_add(curves, curve("host_update", 1 + 9 * g_rand_double(random)));
    if (f->clock == DIRECTIONS || (f->clock == MEMORY && g_rand_boolean(random))) {
        g_ptr_array_add(curves, curve("h2d_both", h2d * (1 + g_rand_double(random))));
        g_ptr_array_add(curves, curve("d2h_both", d2h * (1 + g_rand_double(random))));
    }
    for (guint i = 0; i < curves->len; i++)
        g_string_append(text, g_ptr_array_index(curves, i));
    if (f->clock == MEMORY)
        g_string_append_printf(text,
                               ", \"host\": {\"source\": \"chance\", \"ranks\": 3, "
                               "\"bytes_per_second\": %g}",
                               3e9 / random_times(f, random));
    if (f->trace->ranks > 1)
        g_string_append_printf(text,
                               ", \"node\": {\"source\": \"chance\", \"gpus\": %u, "
                               "\"bytes_per_second\": %g, \"latency_seconds\": %g, "
                               "\"exchanges_share_link\": %s}",
                               f->trace->ranks, 1e9 / random_times(f, random), 1e-8 / f->finer,
                               g_rand_boolean(random) ? "true" : "false");
    g_string_append_printf(text, "%s}", f->clock == THREADS ? threads : "");
    struct platform *platform = platform_parse(text->str, "the test's platform", &error);
    g_assert_no_error(error);
    g_assert_true(platform_spread_ranks(platform, MAX(f->trace->ranks, 1), 1, NULL));
    return platform;
}

static char *random_link(const struct fixture *f, GRand *random)
{
    return g_strdup_printf("h2d=%.0fMB/s,d2h=%.0fMB/s", 1e3 / random_times(f, random),
                           1e3 / random_times(f, random));
}

/* Returns a limit with which some chunks must live on the device. */
static uint64_t random_host_budget(const struct fixture *f, GRand *random)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < f->layout->chunk_count; c++)
        bytes += f->layout->chunks[c].copy_bytes;
    return (uint64_t)((0.4 + 0.6 * g_rand_double(random)) * (double)bytes);
}

static void set_up(struct fixture *f, struct trace *trace, GRand *random)
{
    f->clock = g_rand_int_range(random, 0, CLOCKS);
    f->finer = g_rand_boolean(random) ? FINER : 1;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns =
            (uint64_t)ceil((double)trace->operators[m].duration_ns / f->finer);
    g_autofree char *link = f->clock == DIRECTIONS ? NULL : random_link(f, random);

    f->trace = trace;
    bool known = g_rand_boolean(random) || f->clock != QUEUES || trace->ranks > 1;
    f->platform = known ? random_platform(f, random) : NULL;
    f->costs = costs_new(f->platform, link, NULL);
    g_assert_nonnull(f->costs);
    g_assert_cmpint(f->costs->threads.known, ==, f->clock == THREADS);
    g_assert_cmpint(costs_is_shared(f->costs), ==,
                    f->clock == DIRECTIONS || f->clock == MEMORY ||
                        costs_exchanges_share_link(f->costs));
    f->spec = (struct layout_spec){0};
    for (int list = 0; list < TRACE_LISTS; list++)
        f->spec.chunk_bytes[list] = LAYOUT_ALIGNMENT * (uint64_t)g_rand_int_range(random, 1, 40);
    f->layout = layout_pack(f->trace, &f->spec, NULL);
    struct non_model *non_model = non_model_place(f->trace);
    struct accesses *accesses = accesses_new(f->trace, f->layout, non_model->extent);
    uint64_t least = accesses_least_arena_bytes(accesses, f->layout, NULL);
    uint64_t room = layout_slot_bytes(f->layout) + non_model->peak_bytes;
    f->device_budget = least +
                       (uint64_t)(g_rand_double(random) * (double)(MAX(room, least) - least));
    f->host_budget = g_rand_boolean(random) ? UINT64_MAX : random_host_budget(f, random);
    f->either_side = placement_is_possible(f->trace, f->platform) && g_rand_boolean(random);
    f->first = f->either_side && g_rand_boolean(random)
                   ? (tensor_id)g_rand_int_range(random, 0, (gint32)f->trace->tensor_count)
                   : 0;
    f->sides[0] = f->either_side ? place_all(f, false) : f->trace;
    f->sides[1] = f->either_side ? place_all(f, true) : NULL;
    f->windows_seed = g_rand_int(random);
    find_bound(f, random);
    accesses_free(accesses);
    non_model_free(non_model);
}

static void tear_down(struct fixture *f)
{
    if (f->either_side) {
        trace_free(f->sides[0]);
        trace_free(f->sides[1]);
    }
    layout_free(f->layout);
    costs_free(f->costs);
    platform_free(f->platform);
    trace_free(f->trace);
}

static void check(const struct fixture *f, struct plan *plan, uint64_t *least)
{
    uint64_t ns = (uint64_t)llround(plan->predicted.iteration_seconds * 1e9);
    if (f->bound_ns > ns)
        g_test_message("%s plan, look-ahead %u, %s, %s", plan->made_by, plan->look_ahead,
                       clocks[f->clock], f->either_side ? "either side" : "as traced");
    g_assert_cmpuint(f->bound_ns, <=, ns);
    *least = MIN(*least, ns);
    plan_free(plan);
}

/* Retains one more interval; returns false if it does not fit. */
static bool retain_reuse(struct retention *retention, uint32_t g)
{
    const struct reuses *reuses = retention->reuses;
    const struct reuse *reuse = &reuses->items[g];
    bool fits = true;
    retention->retained[g] = 1;
    for (uint32_t i = 1; i <= reuse_span(reuses, reuse); i++) {
        uint32_t m = (reuse->from + i) % reuses->moment_count;
        headroom_take(retention->headroom, m, 1, (int64_t)reuses->slot_bytes[reuse->chunk]);
        fits &= headroom_at(retention->headroom, m) >= 0;
    }
    retention->traffic = reuses_traffic(reuses, retention->retained);
    return fits;
}

/* Retains a set of intervals; returns false if it does not fit. */
static bool retain_set(struct candidate *candidate, uint32_t set)
{
    bool fits = true;
    retention_free(candidate->retention);
    candidate->retention = retention_new(candidate->reuses);
    for (guint i = 0; i < candidate->retention->order->len && fits; i++)
        fits = !(set >> i & 1) ||
               retain_reuse(candidate->retention,
                            g_array_index(candidate->retention->order, uint32_t, i));
    return fits;
}

/* Tries every retention if there are few, otherwise some of local search, each with several
 * schedules. */
static void check_schedules(const struct fixture *f, struct candidate *candidate, GRand *random,
                            uint64_t *least)
{
    static const uint32_t look_aheads[] = {0, 2, 1000};
    guint reuses = candidate->retention->order->len;
    uint32_t sets = reuses <= REUSES_ENUMERATED ? 1u << reuses : 4;
    for (uint32_t set = 0; set < sets; set++) {
        bool fits = true;
        if (reuses <= REUSES_ENUMERATED)
            fits = retain_set(candidate, set);
        else
            retention_improve(candidate->retention, random, 20, NULL);
        for (size_t a = 0; fits && a < G_N_ELEMENTS(look_aheads); a++)
            for (int late = 0; late < 2; late++)
                check(f,
                      candidate_plan(candidate,
                                     &(struct interval_options){.look_ahead = look_aheads[a],
                                                                .flush_early = !late},
                                     NULL),
                      least);
    }
}

static struct plan *random_policy_plan(const struct fixture *f, const struct candidate *candidate,
                                       GRand *random)
{
    const struct dry_run_options options = {.device_budget = f->device_budget,
                                            .host_budget = f->host_budget,
                                            .policy = random_policy(random),
                                            .look_ahead = (uint32_t)g_rand_int_range(random, 0, 8)};
    const struct replay_view view = {candidate->trace, candidate->accesses, f->costs};
    struct plan *plan = dry_run_accesses(candidate->trace, candidate->layout, NULL,
                                         candidate->accesses, &options, NULL);
    if (plan)
        plan->predicted = replay(plan, &view).steady;
    return plan;
}

/* Returns whether each group has one place, which the bound for either side needs. */
static bool groups_are_whole(const struct layout *layout, const struct trace *trace)
{
    g_autofree uint8_t *seen = g_new0(uint8_t, layout->group_count);
    struct run_choices *choices = run_choices_of(trace);
    bool whole = true;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        uint32_t group = layout->chunks[layout->places[TRACE_PARAM][t].chunk].group;
        seen[group] |= choices->host_update[t] ? 2 : 1;
        whole &= seen[group] != 3;
    }
    run_choices_free(choices);
    return whole;
}

/* Checks a placement of the groups' updates, if the bound covers it. */
static void check_placement(const struct fixture *f, const struct placement *placement,
                            GRand *random, uint64_t *least)
{
    struct non_model *non_model = non_model_place(f->trace);
    const struct candidate_job job = {.trace = f->trace,
                                      .non_model = non_model,
                                      .costs = f->costs,
                                      .platform = f->platform,
                                      .device_budget = f->device_budget,
                                      .host_budget = f->host_budget};
    uint64_t needed;
    struct candidate *candidate = candidate_new(&job, &f->spec, placement, &needed, NULL);
    if (candidate && (!f->either_side || groups_are_whole(f->layout, candidate->trace))) {
        for (int i = 0; i < 3; i++) {
            struct plan *plan = random_policy_plan(f, candidate, random);
            if (plan) /* its chunks may not leave enough room at home on the device */
                check(f, plan, least);
        }
        check_schedules(f, candidate, random, least);
    }
    candidate_free(candidate);
    non_model_free(non_model);
}

static void check_schedules_of(struct trace *(*make)(GRand *random), int cases)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    double sum = 0;
    int bounded = 0, close = 0, chained = 0, priced = 0, slow = 0, alike = 0, joint = 0;
    /* Few draws have too little host memory, and a run may have none of them at first. */
    for (int i = 0; i < cases || ((priced == 0 || slow == 0 || alike == 0) && i < MOST_CASES);
         i++) {
        struct placement placement = {.pattern = PLACEMENT_TRACED};
        uint64_t least = UINT64_MAX;
        struct fixture f;
        set_up(&f, make(random), random);
        if (!f.first)
            check_placement(&f, &placement, random, &least);
        for (int p = 0; f.either_side && p < PLACEMENTS; p++) {
            placement.pattern = PLACEMENT_SPREAD;
            placement.first = f.first;
            placement.parts = (uint16_t)g_rand_int_range(random, 0, PLACEMENT_PARTS + 1);
            placement.tail = (uint16_t)g_rand_int_range(random, 0, placement.parts + 1);
            check_placement(&f, &placement, random, &least);
        }
        if (least < UINT64_MAX && f.bound_ns > 0) {
            sum += (double)least / (double)f.bound_ns - 1;
            close += (double)least <= CLOSE * (double)f.bound_ns;
            bounded++;
        }
        chained += f.chained;
        slow += f.slow_memory;
        alike += f.alike;
        joint += f.joint;
        priced += f.priced && least < UINT64_MAX;
        tear_down(&f);
    }
    g_test_message(
        "%d bounds have chains, %d a price of the host's memory, %d of its rate; in %d some "
        "blocks are alike; %d are of the largest chunks together, too",
        chained, priced, slow, alike, joint);
    g_test_message(
        "%d bounds; the fastest schedules are %.1f %% above them on average, %d within 1 %%",
        bounded, 100 * sum / bounded, close);
    g_assert_cmpint(bounded, >=, cases / 3);
    g_assert_cmpint(priced, >, 0);
    g_assert_cmpint(slow, >, 0);
    g_assert_cmpint(alike, >, 0);
}

static void test_no_schedule_is_faster(void)
{
    check_schedules_of(random_iteration, CASES);
}

static void test_no_schedule_of_ranks_is_faster(void)
{
    check_schedules_of(ranks_iteration, CASES);
}

static void test_no_wild_schedule_is_faster(void)
{
    check_schedules_of(wild_iteration, WILD_CASES);
}

static bool exceeds_device(const struct fixture *f, const struct accesses *accesses, uint32_t m)
{
    uint64_t bytes = 0;
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++)
        bytes += f->layout->chunks[accesses->items[a].chunk].slot_bytes;
    return bytes > f->device_budget;
}

/* Returns the time of operators that are on the host wherever the optimizer runs: those of the
 * passes, and updates whose chunks do not fit into the device. */
static uint64_t fixed_host_ns(const struct fixture *f, int *updates)
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
        struct fixture f;
        set_up(&f, random_iteration(random), random);
        f.device_budget = f.device_budget * 2 / 3; /* into which some updates do not fit */
        struct time_model *model = new_model(&f, NULL, 0, 0);
        if (f.either_side && model && fixed_host_ns(&f, &updates)) {
            g_autofree struct certificate_window *prices = g_new0(struct certificate_window,
                                                                  model->windows->count);
            for (uint32_t w = 0; w < model->windows->count; w++)
                prices[w].host = BOUND_PRICE_SCALE;
            g_autoptr(GArray) none = new_chains();
            g_assert_cmpuint(bound_of(model, prices, none, 0) + f.trace->operator_count, >=,
                             fixed_host_ns(&f, &updates));
            counted++;
        }
        time_model_free(model);
        tear_down(&f);
    }
    g_test_message("%d iterations with operators on the host in any case, and %d updates", counted,
                   updates);
    g_assert_cmpint(counted, >, 0);
    g_assert_cmpint(updates, >, 0);
}

/* Returns the time for which the device computes, or waits for activations that the host receives
 * or sends, if updates stay where they are. */
static uint64_t device_ns(const struct fixture *f, int *waits)
{
    const struct time_job job = {.sides = {f->trace}, .costs = f->costs};
    uint64_t ns = 0;
    for (uint32_t m = 0; m < f->trace->operator_count; m++) {
        const struct trace_operator *op = &f->trace->operators[m];
        if (op->place == TRACE_ON_DEVICE)
            ns += time_job_device_ns(&job, op);
        ns += time_job_copy_ns(&job, &f->costs->d2h, op->d2h_bytes);
        if (op->h2d_bytes)
            ns += time_job_at_least(&job, op->duration_ns) +
                  time_job_copy_ns(&job, &f->costs->h2d, op->h2d_bytes);
        *waits += op->d2h_bytes || op->h2d_bytes;
    }
    return ns;
}

/* If nothing but the device's time has a price, the bound is its work and its waits for activations
 * of the host. */
static void test_activations_count(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int waits = 0;
    for (int i = 0; i < CASES || (waits == 0 && i < MOST_CASES); i++) {
        struct fixture f;
        set_up(&f, i % 2 ? wild_iteration(random) : random_iteration(random), random);
        struct time_model *model = f.either_side ? NULL : new_model(&f, NULL, 0, 0);
        if (model) {
            g_autofree struct certificate_window *nothing = g_new0(struct certificate_window,
                                                                   model->windows->count);
            g_autoptr(GArray) none = new_chains();
            g_assert_cmpuint(bound_of(model, nothing, none, 0), ==, device_ns(&f, &waits));
        }
        time_model_free(model);
        tear_down(&f);
    }
    g_test_message("the device waits for %d operators of the host", waits);
    g_assert_cmpint(waits, >, 0);
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
static void check_copy(const struct fixture *f, const struct time_model *model, uint32_t writer,
                       uint32_t m, uint32_t chunk)
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
        struct fixture f;
        set_up(&f, random_iteration(random), random);
        struct time_model *model = f.either_side ? new_model(&f, NULL, 0, 0) : NULL;
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
        tear_down(&f);
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
    g_test_add_func("/time_bound/no_schedule_is_faster", test_no_schedule_is_faster);
    g_test_add_func("/time_bound/no_schedule_of_ranks_is_faster",
                    test_no_schedule_of_ranks_is_faster);
    g_test_add_func("/time_bound/no_wild_schedule_is_faster", test_no_wild_schedule_is_faster);
    return g_test_run();
}
