/* Measures the requests per second of the dry run (chunks/decide.h) on a long iteration: one
 * tensor per chunk of one unit, one chunk per operator. bench_policies runs it beside its rival
 * and holds the goals.
 *
 *   bench_decide_rate ORDER [--accesses N] --policy NAME [--count]
 *   bench_decide_rate ORDER [--accesses N] --write FILE.oracleGeneral
 *
 * ORDER is there-and-back, forward or shuffled (anew in each pass). decide() goes through an
 * iteration three times, so the iteration here makes a third of N accesses. Prints as JSON what it
 * did and how long decide() took. */
#include "chunks/decide.h"

#include <stdio.h>
#include <time.h>

enum { CHUNKS = 4000, ROOM = CHUNKS / 4, UNIT = LAYOUT_ALIGNMENT, ITERATIONS = 3 };

static gint64 accesses_wanted = 20000000;
static gchar *policy_name, *path;
static gboolean counts;

static const GOptionEntry options[] = {
    {"accesses", 0, 0, G_OPTION_ARG_INT64, &accesses_wanted, "Least number of accesses (20000000)",
     "N"},
    {"policy", 0, 0, G_OPTION_ARG_STRING, &policy_name, "Policy to run", "NAME"},
    {"count", 0, 0, G_OPTION_ARG_NONE, &counts, "Count the misses, in a second run", NULL},
    {"write", 0, 0, G_OPTION_ARG_FILENAME, &path, "Write the requests to this file", "FILE"},
    {0},
};

/* ---- the requests ---- */

static void swap(uint32_t *pass, uint32_t a, uint32_t b)
{
    uint32_t chunk = pass[a];
    pass[a] = pass[b];
    pass[b] = chunk;
}

static void there_and_back(uint32_t *pass, uint32_t index, GRand *random)
{
    (void)random;
    for (uint32_t i = 0; index > 0 && i < CHUNKS / 2; i++)
        swap(pass, i, CHUNKS - 1 - i);
}

static void forward(uint32_t *pass, uint32_t index, GRand *random)
{
    (void)pass;
    (void)index;
    (void)random;
}

static void shuffled(uint32_t *pass, uint32_t index, GRand *random)
{
    (void)index;
    for (uint32_t i = CHUNKS - 1; i > 0; i--)
        swap(pass, i, (uint32_t)g_rand_int_range(random, 0, (gint32)i + 1));
}

/* Each order makes a pass, one use of every chunk, from the pass before. The first pass uses all
 * chunks in order. */
static const struct {
    const char *name;
    void (*next)(uint32_t *pass, uint32_t index, GRand *random);
} orders[] = {{"there-and-back", there_and_back}, {"forward", forward}, {"shuffled", shuffled}};

/* Returns the requests of one iteration, an even number of passes, or NULL if the order is unknown.
 */
static uint32_t *draw(const char *order, uint32_t *count)
{
    size_t o = 0;
    while (o < G_N_ELEMENTS(orders) && strcmp(orders[o].name, order) != 0)
        o++;
    if (o == G_N_ELEMENTS(orders))
        return NULL;
    uint64_t trips = ((uint64_t)accesses_wanted + 2 * CHUNKS * ITERATIONS - 1) /
                     (2 * CHUNKS * ITERATIONS);
    *count = (uint32_t)trips * 2 * CHUNKS;
    uint32_t *chunks = g_new(uint32_t, *count), pass[CHUNKS];
    GRand *random = g_rand_new_with_seed(1);
    for (uint32_t c = 0; c < CHUNKS; c++)
        pass[c] = c;
    for (uint32_t i = 0; i < *count / CHUNKS; i++) {
        orders[o].next(pass, i, random);
        memcpy(chunks + (size_t)i * CHUNKS, pass, sizeof pass);
    }
    g_rand_free(random);
    return chunks;
}

/* ---- as the other program reads them ---- */

/* Time advances once per CHUNKS requests, at the last of them, so each of the peer's reports covers
 * about that many. */
static void write_requests(FILE *file, const uint32_t *chunks, uint32_t count)
{
    uint64_t all = (uint64_t)count * ITERATIONS;
    int64_t *next = g_new(int64_t, all), last[CHUNKS];
    memset(last, 0xff, sizeof last);
    for (uint64_t i = all; i-- > 0;) {
        next[i] = last[chunks[i % count]];
        last[chunks[i % count]] = (int64_t)i + 1;
    }
    for (uint64_t i = 0; i < all; i++) {
        uint32_t time = i == 0 ? 0 : 1 + (uint32_t)((i + 1) / CHUNKS), size = 1;
        uint64_t id = chunks[i % count] + 1;
        fwrite(&time, sizeof time, 1, file);
        fwrite(&id, sizeof id, 1, file);
        fwrite(&size, sizeof size, 1, file);
        fwrite(&next[i], sizeof next[i], 1, file);
    }
    g_free(next);
}

/* ---- as the dry run has them ---- */

static struct trace *trace_of(const uint32_t *chunks, uint32_t count)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->list_element_bytes[TRACE_PARAM] = 1;
    trace->tensor_count = CHUNKS;
    trace->tensors = g_new0(struct trace_tensor, CHUNKS);
    for (uint32_t t = 0; t < CHUNKS; t++)
        trace->tensors[t].elements = UNIT;
    trace->operator_count = trace->access_count = count;
    trace->operators = g_new0(struct trace_operator, count);
    trace->accesses = g_new0(struct trace_access, count);
    trace->non_model_bytes = g_new0(uint64_t, count);
    for (uint32_t i = 0; i < count; i++) {
        trace->operators[i].first_access = i;
        trace->operators[i].access_count = 1;
        trace->accesses[i] = (struct trace_access){chunks[i], TRACE_PARAM, TRACE_READ, 0};
    }
    return trace;
}

struct rate_job {
    struct layout *layout;
    struct accesses *accesses;
    struct homes *homes;
};

static struct rate_job job_of(const uint32_t *chunks, uint32_t count)
{
    struct trace *trace = trace_of(chunks, count);
    struct rate_job job = {.layout = layout_pack_uniform(trace, UNIT, NULL)};
    g_assert(job.layout->chunk_count == CHUNKS);
    job.accesses = accesses_new(trace, job.layout, trace->non_model_bytes);
    job.homes = homes_choose(trace, job.layout, job.accesses, UINT64_MAX, UINT64_MAX, NULL);
    trace_free(trace);
    return job;
}

static void job_clear(struct rate_job *job)
{
    layout_free(job->layout);
    accesses_free(job->accesses);
    homes_free(job->homes);
}

static struct decisions *run(const struct rate_job *job, const struct pstar_policy_ops *policy)
{
    const struct plan_inputs inputs = {.layout = job->layout,
                                       .accesses = job->accesses,
                                       .homes = job->homes,
                                       .device_budget = ROOM * UNIT,
                                       .host_budget = UINT64_MAX};
    return decide(&inputs, &(struct decide_options){.policy = policy});
}

/* Counts misses with a policy that counts what another admits. What decide() fetches after the last
 * operator, to end as it began, is not counted. */

static const struct pstar_policy_ops *counted;
static const struct pstar_policy_view *counted_view;
static uint64_t misses;

static void *count_open(const struct pstar_policy_view *view)
{
    counted_view = view;
    return counted->open(view);
}

static void count_admit(void *state, uint32_t chunk)
{
    misses += *counted_view->moment < counted_view->moment_count;
    counted->admit(state, chunk);
}

static void check_equal(const struct decisions *a, const struct decisions *b)
{
    g_assert(a->actions->len == b->actions->len);
    for (uint32_t i = 0; i < a->actions->len; i++) {
        const struct plan_action *of_a = &g_array_index(a->actions, struct plan_action, i);
        const struct plan_action *of_b = &g_array_index(b->actions, struct plan_action, i);
        g_assert(of_a->chunk == of_b->chunk && of_a->kind == of_b->kind);
    }
}

static void count_misses(const struct rate_job *job, const struct pstar_policy_ops *policy,
                         const struct decisions *decisions)
{
    struct pstar_policy_ops counting = *policy;
    counted = policy;
    counting.open = count_open;
    counting.admit = count_admit;
    struct decisions *again = run(job, &counting);
    check_equal(decisions, again);
    decisions_free(again);
}

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void measure(const struct rate_job *job, const struct pstar_policy_ops *policy)
{
    double cpu_start = cpu_seconds();
    gint64 start = g_get_monotonic_time();
    struct decisions *decisions = run(job, policy);
    double wall = 1e-6 * (double)(g_get_monotonic_time() - start);
    double cpu = cpu_seconds() - cpu_start;
    g_assert(!decisions->fault);
    if (counts)
        count_misses(job, policy, decisions);
    printf("{\"requests\": %" G_GUINT64_FORMAT ", \"misses\": %" G_GUINT64_FORMAT
           ", \"seconds\": %.6f, \"cpu_seconds\": %.6f}\n",
           (uint64_t)ITERATIONS * job->accesses->count, misses, wall, cpu);
    decisions_free(decisions);
}

static int run_or_write(const uint32_t *chunks, uint32_t count)
{
    if (path) {
        FILE *file = fopen(path, "wb");
        if (!file)
            return 1;
        write_requests(file, chunks, count);
        return fclose(file) ? 1 : 0;
    }
    const struct pstar_policy_ops *policy = policy_find(policy_name);
    if (!policy)
        return 2;
    struct rate_job job = job_of(chunks, count);
    measure(&job, policy);
    job_clear(&job);
    return 0;
}

int main(int argc, char **argv)
{
    GOptionContext *context = g_option_context_new("ORDER");
    g_option_context_add_main_entries(context, options, NULL);
    bool parsed = g_option_context_parse(context, &argc, &argv, NULL);
    g_option_context_free(context);
    uint32_t count = 0, *chunks = parsed && argc == 2 ? draw(argv[1], &count) : NULL;
    int status = chunks && !policy_name != !path ? run_or_write(chunks, count) : 2;
    if (status)
        fprintf(stderr, "bench_decide_rate: failed\n");
    g_free(chunks);
    g_free(policy_name);
    g_free(path);
    return status;
}
