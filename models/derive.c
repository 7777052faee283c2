#include "models/derive.h"

#include "models/synth.h"

#define RECOMPUTE "recompute "
#define FORWARD   "forward "

static char *key_of(const char *verb, const char *rest, uint32_t micro_batch)
{
    return g_strdup_printf("%u %s%s", micro_batch, verb, rest);
}

/* The trace's operators by name and micro-batch. */
static GHashTable *index_operators(const struct trace *trace)
{
    GHashTable *index = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        g_hash_table_insert(index, key_of("", op->name, op->micro_batch), op);
    }
    return index;
}

static const struct trace_operator *find(GHashTable *index, const char *verb, const char *rest,
                                         uint32_t micro_batch)
{
    g_autofree char *key = key_of(verb, rest, micro_batch);
    return g_hash_table_lookup(index, key);
}

/* Returns whether the duration is another operator's. */
static bool take_duration(GHashTable *index, struct trace_operator *op)
{
    const struct trace_operator *same = find(index, "", op->name, op->micro_batch), *twin = same;

    if (!same) {
        g_assert(g_str_has_prefix(op->name, RECOMPUTE));
        twin = find(index, FORWARD, op->name + sizeof RECOMPUTE - 1, op->micro_batch);
        g_assert(twin);
    }
    op->duration_ns = twin->duration_ns;
    return !same;
}

static void describe_alike(struct trace *derived, const struct trace *trace)
{
    g_free(derived->machine);
    derived->machine = g_strdup(trace->machine);
    derived->producer = g_strdup(trace->producer);
    derived->library_bytes = trace->library_bytes;
    derived->partial = trace->partial;
}

struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           struct model_layers layers)
{
    struct model_job job = recognised->iteration->job;
    job.recompute = layers.recompute;
    job.offload = layers.offload;
    struct model_iteration *iteration = model_iteration_new(recognised->config, &job, NULL);
    g_assert(iteration); /* the job went with the model before */
    struct trace *derived = g_steal_pointer(&iteration->trace);
    g_autoptr(GHashTable) index = index_operators(trace);
    bool borrowed = false;

    model_iteration_free(iteration);
    for (uint32_t m = 0; m < derived->operator_count; m++)
        borrowed |= take_duration(index, &derived->operators[m]);
    describe_alike(derived, trace);
    derived->estimated = trace->estimated || borrowed;
    return derived;
}

bool model_is_synthesised(const struct recognised *recognised, const struct trace *trace,
                          const struct platform *platform)
{
    struct trace *again = model_synthesise(recognised->config, &recognised->iteration->job,
                                           platform, NULL);
    bool same = true;

    for (uint32_t m = 0; same && m < trace->operator_count; m++)
        same = trace->operators[m].duration_ns == again->operators[m].duration_ns;
    trace_free(again);
    return same;
}

struct trace *model_rebatch(const struct recognised *recognised, const struct trace *trace,
                            const struct platform *platform, uint32_t batch, uint32_t micro_batches,
                            struct model_layers layers)
{
    struct model_job job = recognised->iteration->job;
    job.batch = batch;
    job.micro_batches = micro_batches;
    job.recompute = layers.recompute;
    job.offload = layers.offload;
    struct trace *rebatched = model_synthesise(recognised->config, &job, platform, NULL);

    if (rebatched)
        describe_alike(rebatched, trace);
    return rebatched;
}
