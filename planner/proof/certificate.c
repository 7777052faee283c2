#include "planner/proof/certificate.h"

#include "planner/proof/bound.h"
#include "planner/proof/time_proof.h"
#include "planner/proof/traffic_prices.h"

static uint64_t traffic_of(const struct plan *plan)
{
    return plan->predicted.h2d_bytes + plan->predicted.d2h_bytes;
}

static void set_prices(struct certificate_traffic *traffic, const uint64_t *price,
                       uint32_t moment_count)
{
    g_autoptr(GArray) prices = g_array_new(FALSE, FALSE, sizeof(struct certificate_price));
    for (uint32_t m = 0; m < moment_count; m++) {
        const struct certificate_price item = {m, price[m]};
        if (price[m])
            g_array_append_val(prices, item);
    }
    gsize count;
    traffic->prices = g_array_steal(prices, &count);
    traffic->price_count = (uint32_t)count;
}

static void prove_traffic(const struct plan *plan, const struct trace *trace,
                          struct certificate_traffic *traffic)
{
    struct reuses *reuses = bound_reuses(trace, plan);
    g_autofree uint64_t *price = traffic_prices_find(reuses);

    traffic->achieved = traffic_of(plan);
    traffic->bound = bound_traffic(reuses, price);
    set_prices(traffic, price, reuses->moment_count);
    reuses_free(reuses);
}

/* The proof of the traffic, which needs nothing of that of the time. */
struct traffic_proof {
    const struct plan *plan;
    const struct trace *trace;
    struct certificate_traffic traffic;
};

static void *run_traffic_proof(void *data)
{
    struct traffic_proof *proof = data;

    prove_traffic(proof->plan, proof->trace, &proof->traffic);
    return NULL;
}

struct platform *certificate_platform(const struct certificate *certificate, GError **error)
{
    return platform_parse(certificate->platform, "the certificate's platform", error);
}

struct costs *certificate_costs(const struct certificate *certificate, GError **error)
{
    struct platform *platform = NULL;

    if (certificate->platform && !(platform = certificate_platform(certificate, error)))
        return NULL;
    struct costs *costs = costs_new(platform, certificate->link, error);
    platform_free(platform);
    return costs;
}

/* With what times are computed, from the certificate; false where that does not read. */
static bool begin_times(const struct plan *plan, const struct trace *trace,
                        const struct trace *traced, struct platform **platform,
                        struct costs **costs, struct time_proof_job *job, GError **error)
{
    const struct certificate *certificate = plan->certificate;

    if (certificate->platform && !(*platform = certificate_platform(certificate, error)))
        return false;
    if (*platform && certificate->link)
        platform_keep_apart(*platform);
    *costs = certificate_costs(certificate, error);
    *job = (struct time_proof_job){plan, trace, traced, *platform, *costs};
    return *costs != NULL;
}

bool certificate_make(struct plan *plan, const struct trace *trace,
                      const struct certificate_source *source, GError **error)
{
    struct platform *platform = NULL;
    struct costs *costs = NULL;
    struct time_proof_job job;
    struct traffic_proof proof = {.plan = plan, .trace = trace};

    certificate_free(plan->certificate);
    struct certificate *certificate = plan->certificate = g_new0(struct certificate, 1);
    certificate->trace_sha256 = g_strdup(source->trace_sha256);
    certificate->platform = g_strdup(source->platform);
    certificate->link = g_strdup(source->link);
    GThread *beside = g_thread_new("traffic", run_traffic_proof, &proof);
    bool ok = begin_times(plan, trace, source->traced, &platform, &costs, &job, error);
    if (ok)
        time_proof_make(&job, &certificate->time);
    g_thread_join(beside);
    certificate->traffic = proof.traffic;
    platform_free(platform);
    costs_free(costs);
    return ok;
}

/* ---- the check ---- */

static bool same(const char *what, uint64_t stated, uint64_t found, GError **error)
{
    if (stated == found)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "certificate: %s is %" G_GUINT64_FORMAT " in it, %" G_GUINT64_FORMAT
                " when recomputed",
                what, stated, found);
    return false;
}

/* Prices by moment; NULL where a price is of no moment. */
static uint64_t *spread_prices(const struct certificate_traffic *traffic, uint32_t moment_count)
{
    uint64_t *price = g_new0(uint64_t, moment_count);
    for (uint32_t i = 0; i < traffic->price_count; i++) {
        if (traffic->prices[i].moment >= moment_count) {
            g_free(price);
            return NULL;
        }
        price[traffic->prices[i].moment] = traffic->prices[i].price;
    }
    return price;
}

static bool check_traffic(const struct plan *plan, const struct trace *trace, GError **error)
{
    const struct certificate_traffic *traffic = &plan->certificate->traffic;
    struct reuses *reuses = bound_reuses(trace, plan);
    g_autofree uint64_t *price = spread_prices(traffic, reuses->moment_count);
    uint64_t bound = price ? bound_traffic(reuses, price) : 0;

    reuses_free(reuses);
    if (!price) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "certificate: a price of a moment that the run has not");
        return false;
    }
    return same("the lower bound of the traffic", traffic->bound, bound, error) &&
           same("the traffic that the plan achieves", traffic->achieved, traffic_of(plan), error);
}

bool certificate_check(const struct plan *plan, const struct trace *trace,
                       const struct trace *traced, GError **error)
{
    struct platform *platform = NULL;
    struct costs *costs = NULL;
    struct time_proof_job job;
    bool ok = check_traffic(plan, trace, error) &&
              begin_times(plan, trace, traced, &platform, &costs, &job, error) &&
              time_proof_check(&job, error);

    platform_free(platform);
    costs_free(costs);
    return ok;
}
