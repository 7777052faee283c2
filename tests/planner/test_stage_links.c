/* What the link of a stage makes of its passes, beside every residency of a stage of two layers:
 * none takes less, and the best one is not much longer. Each layer has two whole chunks, which the
 * bound takes in parts. */
#include "planner/pipelines/stage_links.h"

#include <math.h>

enum { DRAWS = 400, LAYERS = 2, MOST_FETCHED = 8, MOST_STORED = 6 };

#define CURVE(name, rate) ", \"" name "\": {\"source\": \"s\", \"points\": [[" rate ", 1]]}"

/* ---- a stage of two layers ---- */

/* Gradients in the host's memory, on the device and there, on the device alone. */
enum { GRADIENT_AWAY, GRADIENT_CLEAN, GRADIENT_DIRTY, GRADIENTS };

/* Which parameters are on the device, and where gradients are. */
struct residency {
    int parameters[LAYERS], gradients[LAYERS];
};

enum { RESIDENCIES = 36 };

static struct residency residency_of(int index)
{
    return (struct residency){{index % 2, index / 2 % 2}, {index / 4 % GRADIENTS, index / 12}};
}

static int index_of(const struct residency *r)
{
    return r->parameters[0] + 2 * r->parameters[1] + 4 * r->gradients[0] + 12 * r->gradients[1];
}

struct drawn_stage {
    struct pipeline_unit layers[LAYERS];
    struct units units;
    struct pipeline_job job;
    struct platform *platform;
    struct costs *costs;
    int parameter, gradient; /* sizes of a layer's, in units of `unit` bytes */
    double unit, up_ns, down_ns;
};

static double rate_ns(const struct drawn_stage *d, enum mover_queue queue)
{
    return d->unit * 1e9 / costs_link_rate(d->costs, queue);
}

static void draw(struct drawn_stage *d)
{
    static const enum pipeline_schedule schedules[] = {PIPELINE_1F1B, PIPELINE_GPIPE};
    bool bf16 = g_test_rand_int_range(0, 2);
    uint64_t elements = 1 << 20;
    GError *error = NULL;
    *d = (struct drawn_stage){.parameter = 1, .gradient = bf16 ? 2 : 1};
    d->unit = (double)elements * (bf16 ? 2 : 4);
    static const char rates[] = CURVE("compute_fp32", "1e8") CURVE("compute_bf16", "1e8")
        CURVE("memory", "1e8") CURVE("host_update", "1e7");
    g_autofree char *text = g_strdup_printf(
        "{\"name\": \"m\", \"source\": \"s\", \"device_bytes\": 1, \"host_bytes\": 1" CURVE(
            "h2d", "%de8") CURVE("d2h", "%de8") "%s}",
        g_test_rand_int_range(1, 40), g_test_rand_int_range(1, 40), rates);
    d->platform = platform_parse(text, "drawn", &error);
    g_assert_no_error(error);
    d->costs = costs_new(d->platform, NULL, &error);
    g_assert_no_error(error);
    d->up_ns = rate_ns(d, MOVER_H2D);
    d->down_ns = rate_ns(d, MOVER_D2H);
    bool whole = g_test_rand_int_range(0, 2); /* room for whole chunks */
    uint64_t saved = whole ? 0 : (uint64_t)(d->unit * g_test_rand_double_range(0, 0.4));
    for (int l = 0; l < LAYERS; l++) {
        struct pipeline_unit *unit = &d->layers[l];
        *unit =
            (struct pipeline_unit){.elements = elements, .trained = elements, .shard = elements};
        unit->way[UNIT_KEPT] = unit->way[UNIT_RECOMPUTED] =
            (struct unit_way){.backward_elements = elements, .saved_bytes = saved};
        for (int turn = 0; turn < UNIT_TURNS; turn++) {
            unit->forward_ns[turn] = (uint64_t)(d->up_ns * g_test_rand_double_range(0, 0.5));
            uint64_t ns = (uint64_t)(d->up_ns * g_test_rand_double_range(0, 1));
            unit->way[UNIT_KEPT].backward_ns[turn] = ns;
            unit->way[UNIT_KEPT].reductions[UNIT_BACKWARD][turn].behind_ns = ns;
        }
    }
    d->units = (struct units){
        .layers = LAYERS, .layer = d->layers, .element_bytes = bf16 ? 2 : 4, .micro_batch = 1};
    int layer = d->parameter + d->gradient;
    double units = whole ? g_test_rand_int_range(layer, 2 * layer + 1)
                         : g_test_rand_double_range(layer + 0.5, 2 * layer + 1);
    uint64_t room = (uint64_t)(d->unit * units);
    d->job = (struct pipeline_job){.units = &d->units,
                                   .stages = 1,
                                   .width = 1,
                                   .parts = 1,
                                   .micro_batches = (uint32_t)g_test_rand_int_range(2, 4),
                                   .schedule = schedules[g_test_rand_int_range(0, 2)],
                                   .moves = true,
                                   .device_budget = room,
                                   .device_bytes = room,
                                   .costs = d->costs};
}

static void draw_end(struct drawn_stage *d)
{
    costs_free(d->costs);
    platform_free(d->platform);
}

/* ---- every residency ---- */

/* The least time until now, by the residency and what was copied in this window: fetched in its
 * first pass and in its second, and stored. */
struct window_counts {
    double ns[RESIDENCIES][MOST_FETCHED][MOST_FETCHED][MOST_STORED];
};

static struct window_counts *counts_new(void)
{
    struct window_counts *counts = g_new(struct window_counts, 1);
    double *all = &counts->ns[0][0][0][0];
    for (size_t i = 0; i < sizeof *counts / sizeof *all; i++)
        all[i] = INFINITY;
    return counts;
}

static double bytes_of(const struct drawn_stage *d, const struct residency *r)
{
    int sum = 0;
    for (int l = 0; l < LAYERS; l++)
        sum += r->parameters[l] * d->parameter + (r->gradients[l] > 0) * d->gradient;
    return sum * d->unit;
}

/* Counts the copies that lead from one residency to the other. Returns false if none do. */
static bool count_copies(const struct drawn_stage *d, const struct residency *from,
                         const struct residency *to, int *fetched, int *stored)
{
    *fetched = *stored = 0;
    for (int l = 0; l < LAYERS; l++) {
        int before = from->gradients[l], after = to->gradients[l];
        if (after == GRADIENT_DIRTY && before != GRADIENT_DIRTY)
            return false;
        *fetched += (to->parameters[l] > from->parameters[l]) * d->parameter +
                    (before == GRADIENT_AWAY && after == GRADIENT_CLEAN) * d->gradient;
        *stored += (before == GRADIENT_DIRTY && after != GRADIENT_DIRTY) * d->gradient;
    }
    return true;
}

/* A moment at which a residency has to be one that has room and what an operator needs. */
struct moment {
    double room;
    int layer;                    /* of the operator; -1 between passes */
    bool backward, first, second; /* second: of the window's passes */
};

/* Sets *after to the residency when the moment's operator is over. Returns whether it may run. */
static bool run_operator(const struct drawn_stage *d, const struct moment *m,
                         const struct residency *r, struct residency *after)
{
    *after = *r;
    double bytes = bytes_of(d, r);
    if (m->layer >= 0 && !r->parameters[m->layer])
        return false;
    if (m->layer >= 0 && m->backward) {
        bool there = r->gradients[m->layer] != GRADIENT_AWAY;
        if (!there && !m->first)
            return false;
        bytes += there ? 0 : d->gradient * d->unit;
        after->gradients[m->layer] = GRADIENT_DIRTY;
    }
    return bytes <= m->room * (1 + 1e-12);
}

static struct window_counts *pass_moment(const struct drawn_stage *d, struct window_counts *counts,
                                         const struct moment *m)
{
    struct window_counts *next = counts_new();
    for (int i = 0; i < RESIDENCIES; i++)
        for (int j = 0; j < RESIDENCIES; j++) {
            const struct residency from = residency_of(i), to = residency_of(j);
            struct residency after;
            int fetched, stored;
            if (!count_copies(d, &from, &to, &fetched, &stored) || !run_operator(d, m, &to, &after))
                continue;
            int k = index_of(&after), first = m->second ? 0 : fetched,
                second = m->second ? fetched : 0;
            for (int a = 0; a + first < MOST_FETCHED; a++)
                for (int b = 0; b + second < MOST_FETCHED; b++)
                    for (int c = 0; c + stored < MOST_STORED; c++) {
                        double *ns = &next->ns[k][a + first][b + second][c + stored];
                        *ns = fmin(*ns, counts->ns[i][a][b][c]);
                    }
        }
    g_free(counts);
    return next;
}

/* Ends a window of one or two passes, which take so long without copies. Stores only count in a
 * window of two. */
static struct window_counts *end_window(const struct drawn_stage *d, struct window_counts *counts,
                                        double first_ns, double second_ns)
{
    struct window_counts *next = counts_new();
    for (int i = 0; i < RESIDENCIES; i++)
        for (int a = 0; a < MOST_FETCHED; a++)
            for (int b = 0; b < MOST_FETCHED; b++)
                for (int c = 0; c < MOST_STORED; c++) {
                    double ns = fmax(first_ns, a * d->up_ns);
                    if (second_ns >= 0)
                        ns = fmax(ns + fmax(second_ns, b * d->up_ns), c * d->down_ns);
                    double *least = &next->ns[i][0][0][0];
                    *least = fmin(*least, counts->ns[i][a][b][c] + ns);
                }
    g_free(counts);
    return next;
}

/* Runs a pass. In a backward, what its first layer saved is free behind it. */
static struct window_counts *run_pass(const struct drawn_stage *d, struct window_counts *counts,
                                      uint32_t in_flight, bool backward, bool first, bool second)
{
    double saved = (double)(2 * d->layers[0].way[UNIT_KEPT].saved_bytes);
    double room = (double)d->job.device_bytes - in_flight * saved;
    for (int i = 0; i < LAYERS; i++) {
        const struct moment m = {.room = room + (backward && i > 0 ? saved : 0),
                                 .layer = backward ? LAYERS - 1 - i : i,
                                 .backward = backward,
                                 .first = first,
                                 .second = second};
        counts = pass_moment(d, counts, &m);
    }
    return counts;
}

static struct window_counts *between(const struct drawn_stage *d, struct window_counts *counts,
                                     uint32_t in_flight, bool second)
{
    double saved = (double)(2 * d->layers[0].way[UNIT_KEPT].saved_bytes);
    const struct moment m = {
        .room = (double)d->job.device_bytes - in_flight * saved, .layer = -1, .second = second};
    return pass_moment(d, counts, &m);
}

static double time_of(const struct stage_cost *cost, bool backward, uint32_t k)
{
    return (double)(backward ? cost->backward_ns : cost->forward_ns)[k ? UNIT_LATER : UNIT_FIRST];
}

/* Returns the least time of a step in which parameters begin anywhere. One stage alone has all
 * forward passes first with gpipe, and one forward and one backward in turn with 1f1b. */
static double least_ns(const struct drawn_stage *d, const struct stage_cost *cost)
{
    uint32_t count = d->job.micro_batches;
    bool pairs = d->job.schedule == PIPELINE_1F1B;
    struct window_counts *counts = counts_new();
    double least = INFINITY;
    for (int i = 0; i < 4; i++)
        if (bytes_of(d, &(struct residency){{i % 2, i / 2}, {0, 0}}) <= (double)d->job.device_bytes)
            counts->ns[i][0][0][0] = 0;
    for (uint32_t k = 0; k < (pairs ? 1 : count); k++) {
        counts = run_pass(d, counts, k, false, false, false);
        counts = end_window(d, between(d, counts, k + 1, false), time_of(cost, false, k), -1);
    }
    for (uint32_t k = 0; k < count; k++) {
        bool pair = pairs && k + 1 < count;
        uint32_t in_flight = pairs ? 1 : count - k;
        counts = between(d, run_pass(d, counts, in_flight, true, k == 0, false), in_flight - 1,
                         false);
        if (pair)
            counts = between(d, run_pass(d, counts, 0, false, false, true), 1, true);
        counts = end_window(d, counts, time_of(cost, true, k),
                            pair ? time_of(cost, false, k + 1) : -1);
    }
    for (int i = 0; i < RESIDENCIES; i++)
        least = fmin(least, counts->ns[i][0][0][0]);
    g_free(counts);
    return least;
}

static void test_residencies(void)
{
    int waits = 0, fit = 0;
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        struct drawn_stage d;
        struct stage_cost cost;
        draw(&d);
        g_assert_true(stage_cost(&d.job, 0, 0, LAYERS, &cost));
        double bound = stage_link_times(&d.job, &cost, &cost).work_ns, least = least_ns(&d, &cost);
        fit += isfinite(least);
        if (isfinite(least) && bound > 1.01 * (double)cost.work_ns) {
            waits++;
            sum += least / bound;
        }
        g_assert_cmpfloat(bound, <=, least * (1 + 1e-6) + 8);
        draw_end(&d);
    }
    g_test_message("%d of %d draws fit; passes wait in %d, which take %.2f times the bound", fit,
                   DRAWS, waits, sum / waits);
    g_assert_cmpint(waits, >, 0);
    g_assert_cmpfloat(sum, <, 2.5 * waits);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/stage-links/residencies", test_residencies);
    return g_test_run();
}
