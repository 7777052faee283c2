/* Where the optimizer runs: the groups of each pattern, and how close they come to their share. */
#include "models/derive.h"
#include "planner/schedule/placement.h"
#include "tests/chunks/random_iteration.h"

#include <math.h>

enum { CASES = 200 };

struct fixture {
    struct trace *trace;
    struct platform *platform;
    struct layout *layout;
    uint64_t *elements; /* [group_count] */
    uint8_t *on_host;   /* [group_count] after placing; 2 if the group has no update */
    uint64_t total, largest;
    double *mix; /* [tensor_count] */
};

static uint32_t group_of(const struct fixture *f, uint32_t tensor)
{
    return f->layout->chunks[f->layout->places[TRACE_PARAM][tensor].chunk].group;
}

/* Makes an iteration whose updates can be placed. */
static void set_up(struct fixture *f, GRand *random)
{
    *f = (struct fixture){.platform = platform_read(PROJECT_DIR "/platforms/v100-yard.json", NULL)};
    g_assert_nonnull(f->platform);
    for (;;) {
        f->trace = random_iteration(random);
        if (placement_is_possible(f->trace, f->platform))
            break;
        trace_free(f->trace);
    }
    uint64_t bytes = (uint64_t)g_rand_int_range(random, 1, 64) * 4096;
    while (!(f->layout = layout_pack_uniform(f->trace, bytes, NULL)))
        bytes *= 2;
    f->elements = g_new0(uint64_t, f->layout->group_count);
    f->on_host = g_malloc(f->layout->group_count);
    f->mix = g_new(double, f->trace->tensor_count);
    for (uint32_t t = 0; t < f->trace->tensor_count; t++)
        f->mix[t] = g_rand_boolean(random) ? g_rand_double(random) : 0;
    for (uint32_t t = 0; t < f->trace->tensor_count; t++) {
        f->elements[group_of(f, t)] += f->trace->tensors[t].elements;
        f->total += f->trace->tensors[t].elements;
        f->largest = MAX(f->largest, f->elements[group_of(f, t)]);
    }
}

static void tear_down(struct fixture *f)
{
    layout_free(f->layout);
    trace_free(f->trace);
    platform_free(f->platform);
    g_free(f->elements);
    g_free(f->on_host);
    g_free(f->mix);
}

/* Finds the place of each group's operators, which must agree within a group. */
static void place(struct fixture *f, const struct placement *placement)
{
    struct trace *placed = placement_trace(placement, f->trace, f->layout, f->platform);
    memset(f->on_host, 2, f->layout->group_count);
    for (uint32_t m = 0; m < placed->operator_count; m++) {
        const struct trace_operator *op = &placed->operators[m];
        for (uint32_t i = 0; op->phase == TRACE_UPDATE_PHASE && i < op->access_count; i++) {
            uint8_t *group =
                &f->on_host[group_of(f, placed->accesses[op->first_access + i].tensor)];
            g_assert_true(*group == 2 || *group == (op->place == TRACE_ON_HOST));
            *group = op->place == TRACE_ON_HOST;
        }
    }
    trace_free(placed);
}

/* From some group on, all are on the host; their number follows from the share. */
static void check_tail(const struct fixture *f, const struct placement *placement)
{
    double tail = (double)placement->tail / PLACEMENT_PARTS * (double)f->total, after = 0;
    for (uint32_t g = f->layout->group_count; g-- > 0;) {
        after += (double)f->elements[g];
        if (after <= tail)
            g_assert_cmpint(f->on_host[g], !=, 0);
    }
}

/* The whole differs from its share by at most two groups, one at each end of the spread part. A
 * spread part without a tail differs by at most one anywhere. */
static void check_share(const struct fixture *f, const struct placement *placement)
{
    double share = (double)placement->parts / PLACEMENT_PARTS, before = 0, host = 0;
    bool anywhere = placement->pattern == PLACEMENT_SPREAD && !placement->tail;
    for (uint32_t g = 0; g < f->layout->group_count; g++) {
        if (f->on_host[g] == 2)
            return; /* what this group would have been cannot be seen */
        before += (double)f->elements[g];
        host += f->on_host[g] ? (double)f->elements[g] : 0;
        if (anywhere)
            g_assert_cmpfloat(fabs(host - share * before), <=, (double)f->largest);
    }
    g_assert_cmpfloat(fabs(host - share * (double)f->total), <=,
                      (anywhere ? 1 : 2) * (double)f->largest);
}

/* A mix without a tail never differs from its proportional share by more than half a group. */
static void check_mix(const struct fixture *f, const struct placement *placement)
{
    g_autofree double *mixed = g_new0(double, f->layout->group_count);
    double sum = 0, off = 0;
    for (uint32_t t = 0; t < f->trace->tensor_count; t++) {
        double elements = f->mix[t] * (double)f->trace->tensors[t].elements;
        mixed[group_of(f, t)] += elements;
        sum += elements;
    }
    double share = (double)placement->parts / PLACEMENT_PARTS;
    double scale = sum > 0 ? share * (double)f->total / sum : 0;
    for (uint32_t g = 0; g < f->layout->group_count; g++) {
        if (f->on_host[g] == 2)
            return;
        off += fmin(scale * mixed[g], (double)f->elements[g]);
        off -= f->on_host[g] ? (double)f->elements[g] : 0;
        g_assert_cmpfloat(fabs(off), <=, (double)f->largest / 2 + 1e-3);
    }
}

/* Each group whose tensors are together is where most of it is in the mix. */
static void check_chosen(const struct fixture *f)
{
    g_autofree double *mixed = g_new0(double, f->layout->group_count);
    for (uint32_t t = 0; t < f->trace->tensor_count; t++)
        mixed[group_of(f, t)] += f->mix[t] * (double)f->trace->tensors[t].elements;
    for (uint32_t g = 0; g < f->layout->group_count; g++)
        if (f->on_host[g] != 2)
            g_assert_cmpint(f->on_host[g], ==, mixed[g] > (double)f->elements[g] / 2);
}

static struct placement random_placement(const struct fixture *f, GRand *random)
{
    uint8_t pattern = (uint8_t)g_rand_int_range(random, PLACEMENT_SPREAD, PLACEMENT_PATTERNS);
    uint16_t parts = (uint16_t)g_rand_int_range(random, 0, PLACEMENT_PARTS + 1);
    uint16_t tail = g_rand_boolean(random) ? (uint16_t)g_rand_int_range(random, 0, parts + 1) : 0;
    if (pattern == PLACEMENT_CHOSEN)
        return (struct placement){pattern, PLACEMENT_PARTS / 2, 0, f->mix, 0};
    return (struct placement){pattern, parts, tail, pattern == PLACEMENT_MIXED ? f->mix : NULL, 0};
}

static void test_shares(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        struct placement placement = random_placement(&f, random);
        place(&f, &placement);
        check_tail(&f, &placement);
        if (placement.pattern == PLACEMENT_CHOSEN)
            check_chosen(&f);
        else if (placement.pattern != PLACEMENT_MIXED)
            check_share(&f, &placement);
        else if (!placement.tail)
            check_mix(&f, &placement);
        tear_down(&f);
    }
}

static void test_all_or_none(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct fixture f;
    set_up(&f, random);
    for (int all = 0; all < 2; all++)
        for (uint32_t tail = 0; tail <= (all ? PLACEMENT_PARTS : 0); tail += PLACEMENT_PARTS / 2) {
            place(&f, &(struct placement){PLACEMENT_SPREAD, all ? PLACEMENT_PARTS : 0,
                                          (uint16_t)tail, NULL, 0});
            for (uint32_t g = 0; g < f.layout->group_count; g++)
                g_assert_true(f.on_host[g] == 2 || f.on_host[g] == all);
        }
    tear_down(&f);
}

/* Packs every other tensor first, then the rest. */
static struct layout *pack_apart(const struct fixture *f)
{
    g_autofree uint32_t *order = g_new(uint32_t, f->trace->tensor_count);
    struct layout_spec spec = {.order = order};
    uint32_t count = 0;
    memcpy(spec.chunk_bytes, f->layout->chunk_bytes, sizeof spec.chunk_bytes);
    for (uint32_t odd = 0; odd < 2; odd++)
        for (uint32_t t = odd; t < f->trace->tensor_count; t += 2)
            order[count++] = t;
    return layout_pack(f->trace, &spec, NULL);
}

/* A tensor in a group with tensors that are not its neighbours is updated on the device. */
static void test_scattered(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    uint32_t scattered = 0;
    for (int i = 0; i < CASES; i++) {
        struct placement placement = {
            .pattern = (uint8_t)g_rand_int_range(random, PLACEMENT_SPREAD, PLACEMENT_MIXED),
            .parts = (uint16_t)g_rand_int_range(random, 0, PLACEMENT_PARTS)};
        struct fixture f;
        set_up(&f, random);
        struct layout *apart = pack_apart(&f);
        layout_free(f.layout);
        f.layout = apart;
        f.on_host = g_realloc(f.on_host, apart->group_count);
        place(&f, &placement);
        for (uint32_t t = 0; t + 2 < f.trace->tensor_count; t++)
            if (group_of(&f, t) == group_of(&f, t + 2) && group_of(&f, t) != group_of(&f, t + 1)) {
                g_assert_cmpint(f.on_host[group_of(&f, t)], !=, 1);
                scattered++;
            }
        tear_down(&f);
    }
    g_assert_cmpuint(scattered, >, 0);
}

/* Without a platform, only a trace with updates on both sides tells how long they take there. */
/* Returns an update with several accesses, or NULL. */
static const struct trace_operator *wide_update(const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].phase == TRACE_UPDATE_PHASE && trace->operators[m].access_count > 1)
            return &trace->operators[m];
    return NULL;
}

/* If one operator updates two tensors, none is placed, and a plan for the trace as it is has that
 * trace. */
static void test_joined(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    int joined = 0;
    for (int i = 0; i < CASES; i++) {
        struct fixture f;
        set_up(&f, random);
        const struct trace_operator *op = wide_update(f.trace);
        if (op && f.trace->tensor_count > 1) {
            uint32_t *tensor = &f.trace->accesses[op->first_access].tensor;
            uint32_t count = f.trace->tensor_count;
            *tensor = (*tensor + (uint32_t)g_rand_int_range(random, 1, (gint32)count)) % count;
            g_assert_false(placement_is_possible(f.trace, f.platform));
            struct plan plan = {.choices = run_choices_of(f.trace)};
            struct trace *placed = model_place_chosen(f.trace, plan.choices, f.platform, NULL);
            g_assert_nonnull(placed);
            for (uint32_t m = 0; m < placed->operator_count; m++)
                g_assert_cmpint(placed->operators[m].place, ==, f.trace->operators[m].place);
            trace_free(placed);
            run_choices_free(plan.choices);
            joined++;
        }
        tear_down(&f);
    }
    g_test_message("%d of %d iterations with an update of two tensors", joined, CASES);
    g_assert_cmpint(joined, >, 0);
}

static void test_unknown_times(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct fixture f;
    set_up(&f, random);
    for (uint16_t parts = 0; parts <= PLACEMENT_PARTS; parts += PLACEMENT_PARTS) {
        struct placement one_side = {PLACEMENT_SPREAD, parts, 0, NULL, 0};
        struct trace *placed = placement_trace(&one_side, f.trace, f.layout, f.platform);
        g_assert_false(placement_is_possible(placed, NULL));
        trace_free(placed);
    }
    tear_down(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/placement/shares", test_shares);
    g_test_add_func("/placement/all_or_none", test_all_or_none);
    g_test_add_func("/placement/scattered", test_scattered);
    g_test_add_func("/placement/joined", test_joined);
    g_test_add_func("/placement/unknown_times", test_unknown_times);
    return g_test_run();
}
