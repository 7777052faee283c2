#include "traces/merge.h"

#include <stdlib.h>

/* ---- checks ---- */

static bool are_other_stages(const struct trace *a, const struct trace *b)
{
    return a->stages > 1 && a->stages == b->stages && a->stage != b->stage;
}

static bool check_structure(struct trace *const *traces, char *const *paths, uint32_t count,
                            GError **error)
{
    g_autofree char *first = trace_digest(traces[0]);
    for (uint32_t i = 1; i < count; i++) {
        g_autofree char *other = trace_digest(traces[i]);
        if (g_str_equal(first, other))
            continue;
        if (are_other_stages(traces[0], traces[i]))
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                        "%s: is of stage %u of a pipeline, and %s of stage %u: only ranks of the "
                        "same stage can be merged",
                        paths[i], traces[i]->stage, paths[0], traces[0]->stage);
        else
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                        "%s: another structure than %s: ranks of one run have the same", paths[i],
                        paths[0]);
        return false;
    }
    return true;
}

static bool check_count(const struct trace *trace, const char *path, uint32_t count, GError **error)
{
    uint32_t ranks = MAX(1, trace->ranks);
    if (ranks > 1 && count == ranks)
        return true;
    if (ranks == 1)
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID, "%s: the run had one rank", path);
    else
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: the run had %u ranks, but there are %u traces", path, ranks, count);
    return false;
}

/* ---- durations ---- */

static bool exchanges(const struct trace_operator *op)
{
    for (int c = 0; c < TRACE_COLLECTIVES; c++)
        if (op->exchange[c].sent_bytes || op->exchange[c].received_bytes)
            return true;
    return false;
}

static uint64_t received_by(const struct trace_operator *op)
{
    uint64_t bytes = 0;
    for (int c = 0; c < TRACE_COLLECTIVES; c++)
        bytes += op->exchange[c].received_bytes;
    return bytes;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Returns the median of ascending durations, rounded down between two. */
static uint64_t median(const uint64_t *sorted, uint32_t count)
{
    uint64_t low = sorted[(count - 1) / 2], high = sorted[count / 2];
    return low + (high - low) / 2;
}

/* Adds an exchange of these durations, of which `least` is the shortest. */
static void add_exchange(struct merge *merge, const uint64_t *duration_ns, uint64_t least,
                         uint64_t bytes)
{
    bool found = false;
    merge->exchanges++;
    merge->network_ns += least;
    merge->received_bytes += bytes;
    for (uint32_t r = 0; r < merge->count; r++) {
        bool last = !found && duration_ns[r] == least;
        merge->rank[r].exchanging_ns += least;
        merge->rank[r].waiting_ns += duration_ns[r] - least;
        merge->rank[r].last += last;
        found |= last;
    }
}

static void merge_operator(struct merge *merge, struct trace *const *traces, uint32_t moment,
                           bool slowest)
{
    struct trace_operator *op = &merge->trace->operators[moment];
    g_autofree uint64_t *duration_ns = g_new(uint64_t, merge->count);
    for (uint32_t r = 0; r < merge->count; r++)
        duration_ns[r] = traces[r]->operators[moment].duration_ns;
    g_autofree uint64_t *sorted = g_memdup2(duration_ns, merge->count * sizeof *duration_ns);
    qsort(sorted, merge->count, sizeof *sorted, compare);
    op->duration_ns = 0;
    if (sorted[0] == 0)
        return;
    if (exchanges(op)) {
        op->duration_ns = sorted[0];
        add_exchange(merge, duration_ns, sorted[0], received_by(op));
        return;
    }
    op->duration_ns = slowest ? sorted[merge->count - 1] : median(sorted, merge->count);
    for (uint32_t r = 0; r < merge->count; r++)
        merge->rank[r].computing_ns += duration_ns[r];
}

static bool all_gather_alike(struct gathers *const *gathers, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++)
        if (!gathers[r] || gathers[r]->count != gathers[0]->count)
            return false;
    return true;
}

/* Gathers run beside operators, so they are no part of the trace's durations. */
static void merge_gathers(struct merge *merge, struct gathers *const *gathers)
{
    g_autofree uint64_t *duration_ns = g_new(uint64_t, merge->count);
    if (!all_gather_alike(gathers, merge->count))
        return;
    merge->gathers = gathers[0]->count;
    for (uint32_t g = 0; g < merge->gathers; g++) {
        uint64_t least = UINT64_MAX, bytes = 0;
        for (uint32_t r = 0; r < merge->count; r++) {
            duration_ns[r] = gathers[r]->duration_ns[g];
            least = MIN(least, duration_ns[r]);
            bytes = MAX(bytes, gathers[r]->bytes[g]);
        }
        add_exchange(merge, duration_ns, least, bytes);
    }
}

/* ---- the first rank ---- */

/* Returns the bytes that grow with a rank's own shards: it sends them, or receives others' values
 * for them. */
static uint64_t of_own_shards(const struct trace *trace)
{
    return trace_exchanged(trace, TRACE_GATHER).sent_bytes +
           trace_exchanged(trace, TRACE_REDUCE).received_bytes;
}

/* The first rank's shards are the longest. */
static const struct trace *first_rank(struct trace *const *traces, uint32_t count)
{
    const struct trace *first = traces[0];
    for (uint32_t r = 1; r < count; r++)
        if (of_own_shards(traces[r]) > of_own_shards(first))
            first = traces[r];
    return first;
}

struct merge *merge_traces(struct trace *const *traces, struct gathers *const *gathers,
                           char *const *paths, uint32_t count, bool slowest, GError **error)
{
    if (!check_structure(traces, paths, count, error) ||
        !check_count(traces[0], paths[0], count, error))
        return NULL;
    struct merge *merge = g_new0(struct merge, 1);
    merge->trace = trace_copy(first_rank(traces, count));
    merge->count = count;
    merge->rank = g_new0(struct merge_rank, count);
    for (uint32_t m = 0; m < merge->trace->operator_count; m++)
        merge_operator(merge, traces, m, slowest);
    merge_gathers(merge, gathers);
    for (uint32_t r = 0; r < count; r++)
        merge->trace->partial |= traces[r]->partial;
    return merge;
}

void merge_free(struct merge *merge)
{
    if (!merge)
        return;
    trace_free(merge->trace);
    g_free(merge->rank);
    g_free(merge);
}
