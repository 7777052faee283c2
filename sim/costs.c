#include "sim/costs.h"

#include "base/size.h"
#include "chunks/parts.h"
#include "traces/choices.h"

#include <gsl/gsl_fit.h>
#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>

G_DEFINE_QUARK(pstar_costs_error, costs_error)

/* ---- fits ---- */

enum { LEAST_POINTS = 3, RESAMPLINGS = 1000 };

struct samples {
    double *bytes, *seconds, *weights; /* [count] */
    uint32_t count;
};

static struct samples samples_new(uint32_t count)
{
    return (struct samples){g_new(double, count), g_new(double, count), g_new(double, count),
                            count};
}

static void samples_clear(struct samples *samples)
{
    g_free(samples->bytes);
    g_free(samples->seconds);
    g_free(samples->weights);
}

static void set_sample(struct samples *samples, uint32_t i, const struct platform_point *point)
{
    samples->bytes[i] = point->amount;
    samples->seconds[i] = point->seconds;
    samples->weights[i] = 1 / (point->seconds * point->seconds);
}

/* Fits a line through the origin if the best one would have a negative latency. */
static void fit_line(const struct samples *s, double *latency, double *slope)
{
    double c00, c01, c11, chi;
    gsl_fit_wlinear(s->bytes, 1, s->weights, 1, s->seconds, 1, s->count, latency, slope, &c00, &c01,
                    &c11, &chi);
    if (!(*latency >= 0) || !(*slope > 0)) {
        *latency = 0;
        gsl_fit_wmul(s->bytes, 1, s->weights, 1, s->seconds, 1, s->count, slope, &c11, &chi);
    }
}

static bool all_equal(const struct samples *s)
{
    for (uint32_t i = 1; i < s->count; i++)
        if (s->bytes[i] != s->bytes[0])
            return false;
    return true;
}

static struct fit_interval interval_of(double *values)
{
    gsl_sort(values, 1, RESAMPLINGS);
    return (struct fit_interval){
        gsl_stats_quantile_from_sorted_data(values, 1, RESAMPLINGS, 0.025),
        gsl_stats_quantile_from_sorted_data(values, 1, RESAMPLINGS, 0.975)};
}

static void bootstrap(const struct platform_curve *curve, struct fit *fit)
{
    gsl_rng *random = gsl_rng_alloc(gsl_rng_taus);
    struct samples drawn = samples_new(curve->count);
    double *latencies = g_new(double, RESAMPLINGS), *rates = g_new(double, RESAMPLINGS);
    for (int r = 0; r < RESAMPLINGS; r++) {
        double slope;
        do
            for (uint32_t i = 0; i < curve->count; i++)
                set_sample(&drawn, i, &curve->points[gsl_rng_uniform_int(random, curve->count)]);
        while (all_equal(&drawn));
        fit_line(&drawn, &latencies[r], &slope);
        rates[r] = 1 / slope;
    }
    fit->latency_interval = interval_of(latencies);
    fit->rate_interval = interval_of(rates);
    g_free(rates);
    g_free(latencies);
    samples_clear(&drawn);
    gsl_rng_free(random);
}

struct fit fit_copies(const struct platform_curve *curve)
{
    struct fit fit = {0};
    double slope;
    if (curve->count < LEAST_POINTS)
        return fit;
    struct samples samples = samples_new(curve->count);
    for (uint32_t i = 0; i < curve->count; i++)
        set_sample(&samples, i, &curve->points[i]);
    fit_line(&samples, &fit.latency, &slope);
    samples_clear(&samples);
    fit.points = curve->count;
    fit.rate = 1 / slope;
    for (uint32_t i = 0; i < curve->count; i++) {
        const struct platform_point *point = &curve->points[i];
        double error = fabs(fit_seconds(&fit, point->amount) / point->seconds - 1);
        fit.mean_error += error / curve->count;
        fit.worst_error = fmax(fit.worst_error, error);
    }
    bootstrap(curve, &fit);
    return fit;
}

double fit_seconds(const struct fit *fit, double bytes)
{
    return fit->latency + bytes / fit->rate;
}

/* ---- costs ---- */

static void set_rate(struct cost *cost, double bytes_per_second)
{
    g_free(cost->curve.points);
    cost->curve.points = g_new(struct platform_point, 1);
    cost->curve.points[0] = (struct platform_point){bytes_per_second, 1.0};
    cost->curve.count = 1;
    cost->fit = (struct fit){0};
}

static void set_curve(struct cost *cost, const struct platform_curve *from)
{
    cost->curve.points = g_memdup2(from->points, from->count * sizeof *from->points);
    cost->curve.count = from->count;
}

static void set_copies(struct cost *cost, const struct platform_curve *from)
{
    set_curve(cost, from);
    cost->fit = fit_copies(from);
}

static double cost_seconds(const struct cost *cost, double amount)
{
    double seconds = cost->fit.points ? fit_seconds(&cost->fit, amount)
                                      : platform_seconds(&cost->curve, amount);
    return cost->most_rate > 0 ? fmax(seconds, amount / cost->most_rate) : seconds;
}

static void clear(struct cost *cost)
{
    g_free(cost->curve.points);
    *cost = (struct cost){0};
}

/* A --link has the same rate beside the other direction, and from any memory. */
static void set_direction(struct costs *costs, int direction, double rate)
{
    set_rate(direction ? &costs->d2h : &costs->h2d, rate);
    clear(&costs->both[direction]);
    clear(&costs->pageable[direction]);
}

/* A move reads and writes every byte. */
static void set_default_move(struct costs *costs)
{
    set_curve(&costs->move, &costs->memory.curve);
    for (uint32_t i = 0; i < costs->move.curve.count; i++)
        costs->move.curve.points[i].amount /= 2;
}

static bool spreads(const struct platform *platform)
{
    return platform->spread.ranks > 1 || platform->spread.stages > 1;
}

/* A rank's threads share its cores if nothing keeps some of them for the host, or if it has but
 * one. */
static bool compute_together(const struct platform *platform, const char *link)
{
    return spreads(platform) && platform->threads.cores > 0 &&
           (!link || platform->threads.cores == 1);
}

/* A copy takes as much time of a core as it lasts at the speed of memory, beside compute if that
 * was measured and is not on the same core. */
static void set_threads(struct costs_threads *threads, const struct platform *platform,
                        const char *link)
{
    static const struct platform_curve none;
    const struct platform_curve *extra = platform->extra;
    threads->known = true;
    threads->together = compute_together(platform, link);
    threads->constants = platform->threads;
    threads->constants.source = NULL;
    threads->cores = threads->together ? platform->threads.cores
                                       : MAX(1, platform->threads.host_cores);
    if (!link) /* no copy sleeps until it is due */
        threads->constants.late_seconds = 0;
    const struct platform_curve *up = threads->together ? &none : &extra[PLATFORM_H2D_BESIDE];
    const struct platform_curve *down = threads->together ? &none : &extra[PLATFORM_D2H_BESIDE];
    set_copies(&threads->copy[0], platform_curve_or(up, &platform->h2d));
    set_copies(&threads->copy[1], platform_curve_or(down, &platform->d2h));
    for (int precision = 0; precision < 2; precision++)
        set_curve(&threads->products[precision],
                  platform_curve_or(&extra[PLATFORM_COMPUTE_FP32_APART + precision],
                                    &platform->compute[precision]));
    set_curve(&threads->memory,
              platform_curve_or(&extra[PLATFORM_MEMORY_APART], &platform->memory));
}

/* The ranks of a node read and write its disk at the same time. */
static void set_nvme(struct costs *costs, const struct platform *platform)
{
    struct platform_disk_way way;
    bool known = platform && platform_disk_best(&platform->disk, &way);
    uint32_t sharing = platform ? MAX(platform_host_ranks(platform), 1) : 1;
    for (int writes = 0; writes < 2; writes++)
        set_rate(&costs->nvme[writes],
                 (known ? way.bytes_per_second[writes] : COSTS_DEFAULT_NVME_RATE) / sharing);
}

static void set_platform(struct costs *costs, const struct platform *platform)
{
    const struct platform_curve *move = &platform->extra[PLATFORM_MOVE];
    set_copies(&costs->h2d, &platform->h2d);
    set_copies(&costs->d2h, &platform->d2h);
    for (int d = 0; d < 2; d++) {
        set_copies(&costs->both[d], &platform->extra[PLATFORM_H2D_BOTH + d]);
        set_copies(&costs->pageable[d], &platform->extra[PLATFORM_H2D_PAGEABLE + d]);
    }
    set_curve(&costs->memory, &platform->memory);
    if (move->count > 0)
        set_curve(&costs->move, move);
    else
        set_default_move(costs);
    if (platform->extra[PLATFORM_MOVE_WITHIN].count > 0)
        set_curve(&costs->within, &platform->extra[PLATFORM_MOVE_WITHIN]);
}

static void set_defaults(struct costs *costs)
{
    set_rate(&costs->h2d, COSTS_DEFAULT_COPY_RATE);
    set_rate(&costs->d2h, COSTS_DEFAULT_COPY_RATE);
    set_rate(&costs->memory, COSTS_DEFAULT_MEMORY_RATE);
    set_default_move(costs);
}

/* With slower rates, an iteration's nanoseconds could exceed 64 bits. */
static bool check_rates(const struct costs *costs, GError **error)
{
    const struct {
        const char *name;
        const struct cost *cost;
    } rates[] = {{"h2d", &costs->h2d},
                 {"d2h", &costs->d2h},
                 {"h2d_both", &costs->both[0]},
                 {"d2h_both", &costs->both[1]},
                 {"h2d_pageable", &costs->pageable[0]},
                 {"d2h_pageable", &costs->pageable[1]},
                 {"nvme.read", &costs->nvme[0]},
                 {"nvme.write", &costs->nvme[1]},
                 {"memory", &costs->memory},
                 {"move", &costs->move}};
    const double bytes = 1e12;
    for (size_t i = 0; i < G_N_ELEMENTS(rates); i++)
        if (rates[i].cost->curve.count &&
            cost_seconds(rates[i].cost, bytes) > bytes / COSTS_LEAST_RATE) {
            g_set_error(error, COSTS_ERROR, COSTS_ERROR_INVALID,
                        "%s: below 100 kB/s, which is too slow to simulate", rates[i].name);
            return false;
        }
    return true;
}

/* No copy is faster than its memory on the host, or the rank's part of a link that ranks share. */
static void set_most_rate(struct costs *costs, double rate, double of_switch)
{
    struct cost *copies[] = {&costs->h2d,     &costs->d2h,         &costs->both[0],
                             &costs->both[1], &costs->pageable[0], &costs->pageable[1]};
    costs->host_rate = rate;
    for (size_t i = 0; i < G_N_ELEMENTS(copies); i++)
        copies[i]->most_rate = of_switch > 0 && rate > 0 ? fmin(rate, of_switch)
                                                         : fmax(rate, of_switch);
}

struct costs *costs_new(const struct platform *platform, const char *link, GError **error)
{
    struct costs *costs = g_new0(struct costs, 1);
    costs->pinned_bytes = UINT64_MAX;
    costs->link = g_strdup(link);
    costs->nodes = platform ? platform->spread.nodes : 0;
    if (platform)
        set_platform(costs, platform);
    else
        set_defaults(costs);
    set_nvme(costs, platform);
    if (platform && platform->threads.source && (link || compute_together(platform, link)))
        set_threads(&costs->threads, platform, link);
    double h2d = 0, d2h = 0;
    bool ok = !link || link_parse(link, &h2d, &d2h, error);
    if (h2d > 0)
        set_direction(costs, 0, h2d);
    if (d2h > 0)
        set_direction(costs, 1, d2h);
    if (platform && !costs->threads.known)
        set_most_rate(costs, platform_host_rate(platform), platform_switch_rate(platform));
    if (platform && spreads(platform) && platform_knows_exchanges(platform))
        costs->ranks = platform_copy_exchanges(platform);
    if (ok && check_rates(costs, error))
        return costs;
    costs_free(costs);
    return NULL;
}

struct costs *costs_read(const char *platform_path, const char *link, GError **error)
{
    struct platform *platform = NULL;
    if (platform_path && !(platform = platform_read(platform_path, error)))
        return NULL;
    struct costs *costs = costs_new(platform, link, error);
    platform_free(platform);
    return costs;
}

void costs_free(struct costs *costs)
{
    if (!costs)
        return;
    g_free(costs->link);
    struct cost *all[] = {&costs->h2d,
                          &costs->d2h,
                          &costs->both[0],
                          &costs->both[1],
                          &costs->pageable[0],
                          &costs->pageable[1],
                          &costs->nvme[0],
                          &costs->nvme[1],
                          &costs->memory,
                          &costs->move,
                          &costs->within,
                          &costs->threads.copy[0],
                          &costs->threads.copy[1],
                          &costs->threads.products[0],
                          &costs->threads.products[1],
                          &costs->threads.memory};
    for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
        clear(all[i]);
    platform_free(costs->ranks);
    g_free(costs);
}

uint64_t costs_ns(const struct cost *cost, uint64_t amount)
{
    if (amount == 0)
        return 0;
    return (uint64_t)llround(cost_seconds(cost, (double)amount) * 1e9);
}

bool costs_set_pinned(struct costs *costs, uint64_t bytes, GError **error)
{
    costs->pinned_bytes = bytes;
    if (costs->pageable[0].curve.count && costs->pageable[1].curve.count)
        return true;
    g_set_error(
        error, COSTS_ERROR, COSTS_ERROR_INVALID,
        "--pinned-memory: needs a --platform with h2d_pageable and d2h_pageable, and no --link");
    return false;
}

void costs_slow_to_nvme(struct costs *costs)
{
    struct cost *copies[2][3] = {{&costs->h2d, &costs->both[0], &costs->pageable[0]},
                                 {&costs->d2h, &costs->both[1], &costs->pageable[1]}};
    for (int d = 0; d < 2; d++) {
        double rate = 1 / cost_seconds(&costs->nvme[d], 1);
        for (size_t i = 0; i < G_N_ELEMENTS(copies[d]); i++) {
            double *most = &copies[d][i]->most_rate;
            *most = *most > 0 ? fmin(*most, rate) : rate;
        }
    }
}

void costs_speed_up(struct costs *costs, double times)
{
    struct cost *copies[] = {&costs->h2d,     &costs->d2h,         &costs->both[0],
                             &costs->both[1], &costs->pageable[0], &costs->pageable[1]};
    for (size_t i = 0; i < G_N_ELEMENTS(copies); i++) {
        copies[i]->fit.rate *= times;
        for (uint32_t p = 0; p < copies[i]->curve.count; p++)
            copies[i]->curve.points[p].seconds /= times;
    }
}

struct costs_copy costs_copy(const struct costs *costs, enum mover_queue queue, uint64_t bytes,
                             uint64_t host_end)
{
    if (queue == MOVER_NVME_READ || queue == MOVER_NVME_WRITE) {
        uint64_t disk_ns = costs_ns(&costs->nvme[queue == MOVER_NVME_WRITE], bytes);
        return (struct costs_copy){.alone_ns = disk_ns, .both_ns = disk_ns};
    }
    int direction = queue == MOVER_D2H;
    const struct cost *both = &costs->both[direction];
    const struct cost *alone = host_end > costs->pinned_bytes ? &costs->pageable[direction]
                               : direction                    ? &costs->d2h
                                                              : &costs->h2d;
    uint64_t ns = costs_ns(alone, bytes);
    return (struct costs_copy){.alone_ns = ns,
                               .both_ns = both->curve.count ? MAX(ns, costs_ns(both, bytes)) : ns};
}

static uint64_t share_of(uint64_t ns)
{
    return (ns + COPY_PARTS - 1) / COPY_PARTS;
}

struct costs_copy costs_part(const struct costs *costs, enum mover_queue queue, uint64_t bytes,
                             uint64_t host_end)
{
    const struct costs_copy whole = costs_copy(costs, queue, bytes, host_end);
    struct costs_copy part = costs_copy(costs, queue, share_of(bytes), host_end);
    part.alone_ns = MAX(part.alone_ns, share_of(whole.alone_ns));
    part.both_ns = MAX(part.both_ns, share_of(whole.both_ns));
    return part;
}

uint64_t costs_copy_overhead_ns(const struct costs *costs)
{
    const struct platform_threads *threads = &costs->threads.constants;
    return costs->threads.known
               ? (uint64_t)((threads->put_seconds + threads->wake_seconds + threads->late_seconds) *
                            1e9)
               : 0;
}

/* Returns the bytes of all ranks' parts together. A rank sends its part to all others, or receives
 * theirs for its own. */
static double whole_bytes(const struct trace_exchange *exchange, enum trace_collective collective,
                          uint32_t ranks)
{
    double sent = (double)exchange->sent_bytes, received = (double)exchange->received_bytes;
    return collective == TRACE_GATHER ? sent / (ranks - 1) + received
                                      : sent + received / (ranks - 1);
}

static uint64_t ns_of(double seconds)
{
    return (uint64_t)llround(1e9 * seconds);
}

struct costs_copy costs_exchange(const struct costs *costs, enum trace_collective collective,
                                 const struct trace_exchange *exchange)
{
    static const enum platform_collective kinds[TRACE_COLLECTIVES] = {
        [TRACE_GATHER] = PLATFORM_GATHER, [TRACE_REDUCE] = PLATFORM_REDUCE};
    if (!costs->ranks || costs->ranks->spread.ranks <= 1 || collective == TRACE_PASS ||
        (!exchange->sent_bytes && !exchange->received_bytes))
        return (struct costs_copy){0};
    double bytes = whole_bytes(exchange, collective, costs->ranks->spread.ranks);
    const struct platform_taken taken = platform_exchange_time(costs->ranks, kinds[collective],
                                                               bytes);
    return (struct costs_copy){
        .alone_ns = ns_of(taken.seconds),
        .both_ns = ns_of(taken.seconds),
        .core_ns = ns_of(taken.core_seconds),
        .link_bytes = costs_exchanges_share_link(costs)
                          ? MAX(exchange->sent_bytes, exchange->received_bytes)
                          : 0};
}

struct costs_copy costs_exchanges(const struct costs *costs, const struct trace_operator *op)
{
    struct costs_copy all = {0};
    for (int c = 0; c < TRACE_COLLECTIVES; c++) {
        const struct costs_copy one = costs_exchange(costs, (enum trace_collective)c,
                                                     &op->exchange[c]);
        all.alone_ns += one.alone_ns;
        all.both_ns += one.both_ns;
        all.core_ns += one.core_ns;
        all.link_bytes += one.link_bytes;
    }
    return all;
}

struct costs_message costs_message(const struct costs *costs, uint32_t from, uint32_t to,
                                   uint64_t bytes)
{
    if (!costs->ranks)
        return (struct costs_message){0, 0};
    struct platform_passed passed = platform_pass_time(costs->ranks, from, to, (double)bytes);
    return (struct costs_message){ns_of(passed.seconds - passed.latency_seconds),
                                  ns_of(passed.seconds)};
}

double costs_network_rate(const struct costs *costs)
{
    return costs->ranks ? platform_network_rate(costs->ranks) : 0;
}

void costs_describe(const struct costs *costs, const struct trace *trace, json_t *object)
{
    uint32_t ranks = MAX(trace->ranks, 1);
    json_object_set_new(object, "h2d_rate", json_real(costs_link_rate(costs, MOVER_H2D)));
    json_object_set_new(object, "d2h_rate", json_real(costs_link_rate(costs, MOVER_D2H)));
    json_object_set_new(object, "link", json_pack("s?", costs->link));
    json_object_set_new(object, "ranks", json_integer(ranks));
    if (costs->nodes)
        json_object_set_new(object, "nodes", json_integer(costs->nodes));
    if (ranks > 1)
        json_object_set_new(object, "stage", json_integer(run_stage_of(trace).stage));
    if (run_stage_of(trace).fast)
        json_object_set_new(object, "reduction", json_string("fast"));
}

double costs_link_rate(const struct costs *costs, enum mover_queue queue)
{
    const uint64_t large = UINT64_C(1) << 30;
    return (double)large * 1e9 / (double)costs_copy(costs, queue, large, 0).alone_ns;
}

bool costs_exchanges_share_link(const struct costs *costs)
{
    return costs->ranks && costs->ranks->node.exchanges_share_link;
}

bool costs_is_shared(const struct costs *costs)
{
    return costs->both[0].curve.count || costs->both[1].curve.count || costs->host_rate > 0 ||
           costs_exchanges_share_link(costs);
}

double costs_move_scale(const struct costs *costs, uint64_t arena_bytes)
{
    const struct platform_curve *curve = &costs->within.curve;
    if (curve->count == 0)
        return 1;
    const struct platform_point *first = curve->points, *last = first + curve->count - 1;
    double bytes = CLAMP((double)arena_bytes, first->amount, last->amount);
    return platform_seconds(curve, bytes) / last->seconds;
}
