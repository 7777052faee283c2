#include "base/size.h"
#include "models/derive.h"
#include "planner/answers/budgets.h"
#include "planner/answers/questions.h"
#include "planner/search/variants.h"
#include "sim/operator_times.h"

#include <string.h>

enum { GPUS_MOST = 1024 };

static const unsigned scope = RUN_RECOMPUTE | RUN_OFFLOAD | RUN_EMBEDDING | RUN_MASTERS |
                              RUN_STATE_BLOCKS;

/* What so many GPUs need for a step. */
struct attempt {
    uint32_t gpus, nodes;
    uint8_t stage;
    bool fast; /* its sums are */
    bool tried, fits;
    double seconds, stall_seconds;                  /* of a step */
    uint64_t device_bytes, host_bytes, host_budget; /* of each GPU */
};

struct fewest {
    const struct question *question;
    GArray *attempts; /* struct attempt, by GPUs */
    bool stopped;
};

/* ---- one number of GPUs ---- */

/* Returns how ranks train together in the trace that a search begins with. */
static struct run_stage began(const struct question *question)
{
    const struct trace *trace = question->trace;
    bool any = question->stage == RUN_ANY_STAGE;
    struct run_stage traced = run_stage_of(trace);
    uint8_t stage = !any ? (uint8_t)question->stage : trace->ranks > 1 ? traced.stage : 3;
    return (struct run_stage){stage, question->fast || (any && traced.fast)};
}

static void describe(struct attempt *attempt, const struct plan *plan)
{
    attempt->fits = true;
    attempt->seconds = plan->predicted.iteration_seconds;
    attempt->stall_seconds = plan->predicted.stall_seconds;
    attempt->stage = plan->choices ? plan->choices->stage : 0;
    attempt->fast = plan->choices && plan->choices->fast;
    attempt->device_bytes = min_memory_taken(plan, MIN_DEVICE_MEMORY);
    attempt->host_bytes = min_memory_taken(plan, MIN_HOST_MEMORY);
}

/* Searches for a plan of one of the ranks. Fails if that is not known to be impossible. */
static bool search(struct fewest *fewest, struct attempt *attempt, const struct trace *trace,
                   const struct platform *platform, const struct costs *costs, GError **error)
{
    const struct question *question = fewest->question;
    g_autoptr(GError) own = NULL;
    struct search_options options = *question->search;
    bool several = attempt->gpus > 1;
    bool stages = question->stage == RUN_ANY_STAGE && several && platform_knows_exchanges(platform);
    unsigned together = (stages ? RUN_STAGE : 0) | (several && question->fast ? RUN_SUMS : 0);
    options.platform = platform;
    options.costs = costs;
    if (!question->host_given)
        options.host_budget = platform_host_room(platform);
    attempt->host_budget = options.host_budget;
    struct variants_result *result = variants_search_anew(trace, &options, scope | together, &own);
    fewest->stopped = result && result->best->stopped;
    if (result)
        describe(attempt, result->best->plan);
    variants_result_free(result);
    if (fewest->stopped)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
    else if (own && !g_error_matches(own, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT))
        g_propagate_error(error, g_steal_pointer(&own));
    return !error || !*error;
}

static bool try(struct fewest *fewest, struct attempt *attempt, GError **error)
{
    const struct question *question = fewest->question;
    struct platform *platform = NULL;
    struct costs *costs = NULL;
    struct trace *trace = NULL;
    bool ok = attempt->tried || (question_read_machine(question, attempt->gpus, attempt->nodes,
                                                       &platform, &costs, error) &&
                                 (trace = model_trace_of_rank(question->trace, attempt->gpus,
                                                              began(question), platform, error)));
    if (ok && !attempt->tried) {
        operator_times_leave_exchanges(trace, costs);
        ok = search(fewest, attempt, trace, platform, costs, error);
        attempt->tried = ok;
    }
    trace_free(trace);
    costs_free(costs);
    platform_free(platform);
    return ok;
}

/* ---- how few ---- */

/* Returns what the layers compute in a step, whatever is chosen, in seconds. */
static double computing_seconds(const struct trace *trace)
{
    double ns = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool once = !g_str_has_prefix(op->name, "recompute ") && !strstr(op->name, " again ");
        if (op->layer >= 0 && op->place == TRACE_ON_DEVICE && op->phase != TRACE_UPDATE_PHASE &&
            once && !trace_operator_reduces(op))
            ns += (double)op->duration_ns;
    }
    return ns * 1e-9;
}

/* A GPU computes for as long as one of the traced ranks, however many there are. */
static bool can_serve(const struct question *question, GError **error)
{
    double seconds = computing_seconds(question->trace);
    if (seconds <= question->asked->min_gpus)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "--min-gpus %g: each GPU computes for %.4g s a step, however many there are",
                question->asked->min_gpus, seconds);
    return false;
}

/* Lists the numbers of GPUs that the platform can hold: those of a node, and whole nodes; or those
 * that can be spread evenly over the nodes that are given. */
static GArray *list_attempts(const struct question *question)
{
    uint32_t most = question->gpus ? question->gpus : GPUS_MOST, nodes = question->nodes;
    uint32_t of_node = MAX(1, question->search->platform->node.gpus);
    GArray *attempts = g_array_new(FALSE, TRUE, sizeof(struct attempt));
    uint64_t gpus = MAX(nodes, 1);
    while (gpus <= most && (!nodes || gpus <= (uint64_t)nodes * of_node)) {
        uint32_t spread = nodes ? nodes : (uint32_t)((gpus + of_node - 1) / of_node);
        const struct attempt attempt = {.gpus = (uint32_t)gpus, .nodes = spread};
        g_array_append_val(attempts, attempt);
        gpus += nodes ? nodes : gpus < of_node ? 1 : of_node;
    }
    return attempts;
}

/* Sets *serves to whether a step takes at most the time that was asked for. */
static bool judge(struct fewest *fewest, guint index, bool *serves, GError **error)
{
    struct attempt *attempt = &g_array_index(fewest->attempts, struct attempt, index);
    bool ok = try(fewest, attempt, error);
    *serves = ok && attempt->fits && attempt->seconds <= fewest->question->asked->min_gpus;
    return ok;
}

/* Returns whether the attempt is slower than two with fewer GPUs. Then the network takes longer
 * than more memory saves. Slower than one says little: that may have needed no network. */
static bool is_past_best(const struct fewest *fewest, guint index)
{
    const struct attempt *attempts = &g_array_index(fewest->attempts, struct attempt, 0);
    int faster = 0;
    for (guint i = 0; i < index; i++)
        faster += attempts[i].fits && attempts[index].fits &&
                  attempts[i].seconds < attempts[index].seconds;
    return faster > 1;
}

/* Finds the first attempt that serves, by doubling and halving: what serves with fewer GPUs serves
 * with more. Sets *found to the number of attempts if none does. */
static bool find(struct fewest *fewest, guint *found, GError **error)
{
    guint count = fewest->attempts->len, low = 0, step = 1;
    bool serves = false;
    *found = count;
    for (guint next = 0; next < count && !serves; step *= 2) {
        if (!judge(fewest, next, &serves, error))
            return false;
        if (serves)
            *found = next;
        else
            low = next + 1;
        next = next + 1 == count || is_past_best(fewest, next) ? count
                                                               : MIN(next + step, count - 1);
    }
    while (serves && low < *found) {
        guint middle = low + (*found - low) / 2;
        bool enough;
        if (!judge(fewest, middle, &enough, error))
            return false;
        if (enough)
            *found = middle;
        else
            low = middle + 1;
    }
    return true;
}

/* ---- the answer ---- */

static void print_attempts(const struct fewest *fewest, FILE *out)
{
    fprintf(out, "  %6s %6s %6s %12s %12s %10s %10s\n", "GPUs", "nodes", "stage", "device", "host",
            "stall s", "step s");
    for (guint i = 0; i < fewest->attempts->len; i++) {
        const struct attempt *a = &g_array_index(fewest->attempts, struct attempt, i);
        if (!a->tried)
            continue;
        fprintf(out, "  %6u %6u ", a->gpus, a->nodes);
        if (!a->fits) {
            fputs("      found no plan that fits\n", out);
            continue;
        }
        g_autofree char *device = size_format(a->device_bytes);
        g_autofree char *host = size_format(a->host_bytes);
        g_autofree char *stage = a->gpus > 1 ? g_strdup_printf("%u", a->stage) : g_strdup("-");
        fprintf(out, "%6s %12s %12s %10.4g %10.4g\n", stage, device, host, a->stall_seconds,
                a->seconds);
    }
}

static void print_command(const struct question *question, const struct attempt *attempt, FILE *out)
{
    uint64_t device = question->search->device_budget + question->trace->library_bytes;
    fputs("Its plan: ", out);
    question_print_plan_command(question, attempt->gpus, attempt->nodes,
                                (struct run_stage){attempt->stage, attempt->fast}, device,
                                attempt->host_budget, false, out);
}

/* Says what the fastest of those that were tried takes. */
static void refuse(const struct fewest *fewest, GError **error)
{
    const struct attempt *best = NULL;
    for (guint i = 0; i < fewest->attempts->len; i++) {
        const struct attempt *a = &g_array_index(fewest->attempts, struct attempt, i);
        if (a->fits && (!best || a->seconds < best->seconds))
            best = a;
    }
    g_autofree char *fastest = best ? g_strdup_printf("a step takes %.4g s with %u GPUs",
                                                      best->seconds, best->gpus)
                                    : g_strdup("nothing fits");
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "--min-gpus %g: no number of GPUs was found that suffices; at best %s",
                fewest->question->asked->min_gpus, fastest);
}

bool question_min_gpus(const struct question *question, FILE *out, bool *stopped, GError **error)
{
    struct fewest fewest = {.question = question};
    guint found = 0;
    if (!can_serve(question, error))
        return false;
    fewest.attempts = list_attempts(question);
    bool ok = find(&fewest, &found, error);
    *stopped = fewest.stopped;
    if (ok && found == fewest.attempts->len) {
        refuse(&fewest, error);
        ok = false;
    } else if (ok) {
        const struct attempt *least = &g_array_index(fewest.attempts, struct attempt, found);
        fprintf(out, "The fewest GPUs with steps of at most %g s: %u\n", question->asked->min_gpus,
                least->gpus);
        print_attempts(&fewest, out);
        print_command(question, least, out);
    }
    g_array_unref(fewest.attempts);
    return ok;
}
