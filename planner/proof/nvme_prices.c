#include "planner/proof/nvme_prices.h"

#include "planner/proof/nvme_reuses.h"
#include "planner/proof/prices.h"

#include <math.h>

/* How often the weights of reads and writes are changed. */
enum { WEIGHINGS = 10 };

struct disk_job {
    const struct reuses *reuses;
    const struct costs *costs;
};

/* Returns the most bytes that take no more than so many nanoseconds. */
static uint64_t bytes_within(const struct cost *cost, uint64_t ns)
{
    uint64_t low = 0, high = INT64_MAX / 2;
    while (low < high) {
        uint64_t middle = high - (high - low) / 2;
        if (costs_ns(cost, middle) <= ns)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Returns the least nanoseconds in which the disk can move bytes that count so much. Each transfer
 * may end half a nanosecond early, and there are at most two of each interval. */
static uint64_t least_ns(const struct disk_job *job, const struct copy_weights *weights,
                         scaled_bytes count)
{
    uint64_t low = 0, high = INT64_MAX / 2, early = job->reuses->count;
    while (low < high && count > 0) {
        uint64_t middle = low + (high - low) / 2;
        scaled_bytes moved =
            (scaled_bytes)bytes_within(&job->costs->nvme[0], middle) * weights->fetched +
            (scaled_bytes)bytes_within(&job->costs->nvme[1], middle) * weights->written;
        if (moved >= count)
            high = middle;
        else
            low = middle + 1;
    }
    return low - MIN(low, early);
}

static uint64_t bound_of(const struct disk_job *job, const struct copy_weights *weights,
                         const uint64_t *price)
{
    return least_ns(job, weights, bound_copies(job->reuses, weights, price));
}

/* ---- the proof ---- */

/* Returns the weights of bytes where reading has this share of the time, and writing the rest. */
static struct copy_weights weights_of(const struct costs *costs, double share)
{
    double read = share / costs_link_rate(costs, MOVER_NVME_READ),
           written = (1 - share) / costs_link_rate(costs, MOVER_NVME_WRITE);
    double scale = BOUND_PRICE_SCALE / fmax(read, written);
    return (struct copy_weights){(uint32_t)(read * scale), (uint32_t)(written * scale)};
}

/* Returns the bound with this share of reading, and keeps its prices if it is the largest. */
static uint64_t try_share(const struct disk_job *job, double share, uint64_t *most_ns,
                          struct certificate_nvme *found)
{
    const struct copy_weights weights = weights_of(job->costs, share);
    g_autofree uint64_t *price = traffic_prices_find(job->reuses, &weights);
    uint64_t ns = bound_of(job, &weights, price);
    if (ns > *most_ns) {
        *most_ns = ns;
        g_free(found->prices);
        found->read_weight = weights.fetched;
        found->write_weight = weights.written;
        found->prices = certificate_room_prices(price, job->reuses->moment_count,
                                                &found->price_count);
    }
    return ns;
}

/* The bound is concave in the share, so parts of its range can be discarded. */
static uint64_t find_share(const struct disk_job *job, uint64_t most_ns,
                           struct certificate_nvme *found)
{
    const double golden = (sqrt(5) - 1) / 2;
    double low = 0, high = 1, left = 1 - golden, right = golden;
    uint64_t of_left = try_share(job, left, &most_ns, found),
             of_right = try_share(job, right, &most_ns, found);
    for (int i = 0; i < WEIGHINGS; i++) {
        if (of_left >= of_right) {
            high = right;
            right = left;
            of_right = of_left;
            left = high - golden * (high - low);
            of_left = try_share(job, left, &most_ns, found);
        } else {
            low = left;
            left = right;
            of_left = of_right;
            right = low + golden * (high - low);
            of_right = try_share(job, right, &most_ns, found);
        }
    }
    try_share(job, low, &most_ns, found);
    try_share(job, high, &most_ns, found);
    return most_ns;
}

uint64_t nvme_prices_prove(const struct plan *plan, const struct trace *trace,
                           const struct costs *costs, uint64_t least_ns,
                           struct certificate_nvme *found)
{
    *found = (struct certificate_nvme){0};
    if (!plan->nvme_bytes)
        return least_ns;
    struct reuses *reuses = nvme_reuses_new(plan, trace);
    const struct disk_job job = {reuses, costs};
    uint64_t most_ns = find_share(&job, least_ns, found);
    reuses_free(reuses);
    return most_ns;
}

/* ---- the check ---- */

const char *nvme_prices_recompute(const struct plan *plan, const struct trace *trace,
                                  const struct costs *costs, const struct certificate_nvme *stated,
                                  uint64_t *bound)
{
    *bound = 0;
    if (!stated->prices)
        return NULL;
    struct reuses *reuses = nvme_reuses_new(plan, trace);
    const struct copy_weights weights = {stated->read_weight, stated->write_weight};
    const struct disk_job job = {reuses, costs};
    g_autofree uint64_t *price = certificate_spread_prices(stated->prices, stated->price_count,
                                                           reuses->moment_count);
    if (price)
        *bound = bound_of(&job, &weights, price);
    reuses_free(reuses);
    return price ? NULL : "a price of memory above NVMe names a moment that the run does not have";
}
