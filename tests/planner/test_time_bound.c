/* The lower bound of an iteration's time is below every plan of policies, of the planner, and of
 * every retention, wherever the optimizer runs. */
#include "planner/search/candidate.h"
#include "sim/replay.h"
#include "tests/chunks/random_iteration.h"
#include "time_fixture.h"

#include <math.h>

#define CLOSE      1.01
#define WILD_CASES draws(UNLESS_SANITIZED(150, 15), 500)
enum { REUSES_ENUMERATED = 7, PLACEMENTS = 2 };

static void check(const struct time_fixture *f, struct plan *plan, uint64_t *least)
{
    uint64_t ns = (uint64_t)llround(plan->predicted.iteration_seconds * 1e9);
    if (f->bound_ns > ns)
        g_test_message("%s plan, look-ahead %u, %s, %s", plan->made_by, plan->look_ahead,
                       time_clock(f), f->either_side ? "either side" : "as traced");
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
static void check_schedules(const struct time_fixture *f, struct candidate *candidate,
                            GRand *random, uint64_t *least)
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

static struct plan *random_policy_plan(const struct time_fixture *f,
                                       const struct candidate *candidate, GRand *random)
{
    const struct dry_run_options options = {.device_budget = f->device_budget,
                                            .host_budget = f->host_budget,
                                            .policy = random_policy(random),
                                            .look_ahead = (uint32_t)g_rand_int_range(random, 0, 8)};
    const struct replay_view view = {candidate->trace, candidate->accesses, f->costs};
    struct plan *plan = dry_run_accesses(candidate->trace, candidate->layout, NULL,
                                         candidate->accesses, &options, NULL);
    if (plan) {
        plan->cut_from_bytes = candidate->cut_from_bytes;
        plan->predicted = replay(plan, &view).steady;
    }
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
static void check_placement(const struct time_fixture *f, const struct placement *placement,
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
        /* No schedule is faster if chunks follow each other in parts, either. */
        candidate->cut_from_bytes = (uint64_t)g_rand_int_range(random, 0, 2);
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
        struct time_fixture f;
        time_set_up(&f, make(random), random);
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
        time_tear_down(&f);
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
int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/time_bound/no_schedule_is_faster", test_no_schedule_is_faster);
    g_test_add_func("/time_bound/no_schedule_of_ranks_is_faster",
                    test_no_schedule_of_ranks_is_faster);
    g_test_add_func("/time_bound/no_wild_schedule_is_faster", test_no_wild_schedule_is_faster);
    return g_test_run();
}
