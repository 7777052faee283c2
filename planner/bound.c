#include "planner/bound.h"

#include <math.h>
#include <string.h>

enum { PATIENCE = 20 /* rounds without progress before steps are halved */ };

/* Share of the latest overload in the course of the prices: the mean of many goes straighter. */
#define LATEST 0.2

struct pricing {
    const struct gaps *gaps;
    double *price;    /* [moment_count] bytes of traffic a byte of room */
    double *paid;     /* [moment_count + 1] sum of the prices before the moment */
    double *overload; /* [moment_count] room taken by the chunks' choices, less the room there */
    double *course;   /* [moment_count] mean of the overloads so far, the latest weigh most */
    double *best;     /* [moment_count] prices of the best bound so far */
    uint8_t *choice;  /* [gaps->count] scratch: kept in the chunk's cheapest cycle */
};

/* What the moments of the gap's span cost, a byte. */
static double span_price(const struct pricing *p, const struct gap *gap)
{
    uint32_t moments = p->gaps->moment_count;
    if (gap->to > gap->from)
        return p->paid[gap->to] - p->paid[gap->from + 1];
    return p->paid[moments] - p->paid[gap->from + 1] + p->paid[gap->to];
}

/* The cheapest way through the gaps of a chunk from state `start` (1: dirty) back to it. `from`
 * [gap][state] remembers the way: 2 * kept + state before. Returns infinity where there is none. */
static double cheapest_cycle(const struct pricing *p, uint32_t chunk, int start, uint8_t (*from)[2])
{
    const struct gaps *gaps = p->gaps;
    double used = (double)gaps->used[chunk], bytes = (double)gaps->bytes[chunk];
    double cost[2] = {start ? INFINITY : 0, start ? 0 : INFINITY};

    for (uint32_t g = gaps->first[chunk]; g < gaps->first[chunk + 1]; g++) {
        const struct gap *gap = &gaps->items[g];
        double next[2] = {INFINITY, INFINITY};
        for (int before = 0; before < 2; before++) {
            bool dirty = (before || gap->flags & GAP_DIRTIES) && !(gap->flags & GAP_DEAD);
            for (int kept = 0; kept < (gaps_can_keep(gap) ? 2 : 1); kept++) {
                bool cleans = dirty && (!kept || gap->flags & GAP_FLUSH);
                int after = dirty && !cleans;
                double total = cost[before] + (cleans ? used : 0) +
                               (kept ? bytes * span_price(p, gap)
                                     : (gap->flags & GAP_REFETCH ? used : 0));
                if (total < next[after]) {
                    next[after] = total;
                    from[g - gaps->first[chunk]][after] = (uint8_t)(2 * kept + before);
                }
            }
        }
        cost[0] = next[0];
        cost[1] = next[1];
    }
    return cost[start];
}

/* The chunk's least cost; its choices are added to the overload. */
static double price_chunk(struct pricing *p, uint32_t chunk, uint8_t (*from)[2])
{
    const struct gaps *gaps = p->gaps;
    double clean = cheapest_cycle(p, chunk, 0, from);
    double dirty = cheapest_cycle(p, chunk, 1, from);
    int state = dirty < clean;

    if (!state)
        cheapest_cycle(p, chunk, 0, from);
    for (uint32_t g = gaps->first[chunk + 1]; g-- > gaps->first[chunk];) {
        uint8_t way = from[g - gaps->first[chunk]][state];
        p->choice[g] = way >> 1;
        state = way & 1;
    }
    return MIN(clean, dirty);
}

static void add_choices(struct pricing *p)
{
    const struct gaps *gaps = p->gaps;

    for (uint32_t m = 0; m < gaps->moment_count; m++)
        p->overload[m] = -(double)gaps->room[m];
    for (uint32_t g = 0; g < gaps->count; g++) {
        const struct gap *gap = &gaps->items[g];
        if (!p->choice[g] || !gaps_span(gaps, gap))
            continue;
        for (uint32_t m = (gap->from + 1) % gaps->moment_count; m != gap->to;
             m = (m + 1) % gaps->moment_count)
            p->overload[m] += (double)gaps->bytes[gap->chunk];
    }
}

/* The bound at the current prices. */
static double evaluate(struct pricing *p, uint8_t (*from)[2])
{
    const struct gaps *gaps = p->gaps;
    double bound = (double)gaps->activation_bytes;

    p->paid[0] = 0;
    for (uint32_t m = 0; m < gaps->moment_count; m++) {
        p->paid[m + 1] = p->paid[m] + p->price[m];
        bound -= p->price[m] * (double)gaps->room[m];
    }
    for (uint32_t c = 0; c < gaps->chunk_count; c++)
        if (gaps->first[c] < gaps->first[c + 1])
            bound += price_chunk(p, c, from);
    add_choices(p);
    return bound;
}

/* Dearer where more is wanted than is there: a step towards `target` along the course, in which
 * what is free and stays free has no part. */
static void step(struct pricing *p, double bound, double target, double scale)
{
    double norm = 0;

    for (uint32_t m = 0; m < p->gaps->moment_count; m++) {
        double overload = p->price[m] > 0 ? p->overload[m] : MAX(p->overload[m], 0);
        p->course[m] += LATEST * (overload - p->course[m]);
        norm += p->course[m] * p->course[m];
    }
    if (norm == 0)
        return;
    double length = scale * MAX(target - bound, 0) / norm;
    for (uint32_t m = 0; m < p->gaps->moment_count; m++)
        p->price[m] = MAX(0, p->price[m] + length * p->course[m]);
}

static uint32_t most_gaps(const struct gaps *gaps)
{
    uint32_t most = 0;
    for (uint32_t c = 0; c < gaps->chunk_count; c++)
        most = MAX(most, gaps->first[c + 1] - gaps->first[c]);
    return most;
}

/* Improves the prices; returns the best bound. */
static double improve(struct pricing *p, uint8_t (*from)[2], double target, uint32_t rounds)
{
    size_t size = p->gaps->moment_count * sizeof(double);
    double best = 0, scale = 1;
    uint32_t idle = 0;

    for (uint32_t round = 0; round < rounds; round++) {
        double bound = evaluate(p, from);
        idle = bound > best * (1 + 1e-6) ? 0 : idle + 1;
        if (bound > best) {
            best = bound;
            memcpy(p->best, p->price, size);
        }
        if (idle == PATIENCE) {
            scale /= 2;
            idle = 0;
            memcpy(p->price, p->best, size);
        } else {
            step(p, bound, target, scale);
        }
    }
    return best;
}

uint64_t bound_traffic(const struct gaps *gaps, uint64_t achieved, uint32_t rounds)
{
    struct pricing p = {.gaps = gaps,
                        .price = g_new0(double, gaps->moment_count),
                        .paid = g_new0(double, gaps->moment_count + 1),
                        .overload = g_new0(double, gaps->moment_count),
                        .course = g_new0(double, gaps->moment_count),
                        .best = g_new0(double, gaps->moment_count),
                        .choice = g_new0(uint8_t, gaps->count)};
    uint8_t(*from)[2] = g_malloc0(sizeof *from * MAX(most_gaps(gaps), 1));
    double bound = improve(&p, from, (double)achieved, rounds);

    g_free(from);
    g_free(p.price);
    g_free(p.paid);
    g_free(p.overload);
    g_free(p.course);
    g_free(p.best);
    g_free(p.choice);
    /* Rounding in double precision stays far below one part in 10^9. */
    return MIN(achieved, (uint64_t)floor(bound * (1 - 1e-9)));
}

uint64_t bound_plan(const struct trace *trace, const struct plan *plan, uint32_t rounds)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    g_autofree uint8_t *on_device = g_new0(uint8_t, plan->layout->chunk_count);
    struct homes *homes = homes_assign(trace, plan->layout, on_device);
    struct gaps *gaps = gaps_new(trace, plan->layout, accesses, homes, plan->device_budget);
    uint64_t achieved = plan->predicted.h2d_bytes + plan->predicted.d2h_bytes;
    uint64_t bound = bound_traffic(gaps, achieved, rounds);

    gaps_free(gaps);
    homes_free(homes);
    accesses_free(accesses);
    non_model_free(non_model);
    return bound;
}
