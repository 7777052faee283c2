#include "models/derive.h"

#include "models/synth.h"

#include <string.h>

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

/* What an operator does again that begins so. */
static const struct {
    const char *verb, *twin;
} twins[] = {{"", ""},
             {"backward again ", "backward "},
             {"recompute again ", "recompute "},
             {"recompute again ", "forward "},
             {"recompute ", "forward "}};

/* The trace's operator that does the same work. */
static const struct trace_operator *find_twin(GHashTable *index, const struct trace_operator *op)
{
    for (size_t i = 0; i < G_N_ELEMENTS(twins); i++) {
        if (!g_str_has_prefix(op->name, twins[i].verb))
            continue;
        g_autofree char *key = key_of(twins[i].twin, op->name + strlen(twins[i].verb),
                                      op->micro_batch);
        const struct trace_operator *twin = g_hash_table_lookup(index, key);
        if (twin)
            return twin;
    }
    g_assert_not_reached();
}

static bool is_operator_synthesised(const struct recognised *recognised, const struct trace *trace,
                                    const struct trace_operator *op,
                                    const struct platform *platform)
{
    uint32_t m = (uint32_t)(op - trace->operators);
    return op->duration_ns == model_operator_ns(recognised->iteration, m, platform);
}

/* Returns whether the duration is not that of this operator, where and over the bytes it is. */
static bool take_duration(GHashTable *index, const struct recognised *recognised,
                          const struct trace *trace, const struct model_iteration *iteration,
                          uint32_t m, const struct platform *platform)
{
    struct trace_operator *op = &iteration->trace->operators[m];
    const struct trace_operator *twin = find_twin(index, op);
    bool same = g_str_equal(twin->name, op->name), moved = same && twin->place != op->place;
    bool other_bytes = twin->bytes != op->bytes;
    bool anew = platform && twin->duration_ns &&
                (moved ||
                 (other_bytes && is_operator_synthesised(recognised, trace, twin, platform)));

    op->duration_ns = anew ? model_operator_ns(iteration, m, platform) : twin->duration_ns;
    return !same || moved || other_bytes;
}

static void describe_alike(struct trace *derived, const struct trace *trace)
{
    g_free(derived->machine);
    derived->machine = g_strdup(trace->machine);
    derived->producer = g_strdup(trace->producer);
    derived->library_bytes = trace->library_bytes;
    derived->partial = trace->partial;
}

static struct model_job job_of(const struct recognised *recognised, struct model_choice choice)
{
    struct model_job job = recognised->iteration->job;

    job.recompute = choice.recompute;
    job.offload = choice.offload;
    job.host_embedding = choice.host_embedding;
    if (choice.twice)
        job.split_masters = job.clip = true;
    else if (model_second_backward(&job))
        job.split_masters = job.clip = false;
    return job;
}

/* Two backwards are for gradients in buffers. */
static bool is_possible(const struct model_job *job, struct model_choice choice)
{
    return model_second_backward(job) == choice.twice;
}

struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           struct model_choice choice, const struct platform *platform)
{
    const struct model_job job = job_of(recognised, choice);
    struct model_iteration *iteration = is_possible(&job, choice)
                                            ? model_iteration_new(recognised->config, &job, NULL)
                                            : NULL;
    if (!iteration)
        return NULL;
    g_autoptr(GHashTable) index = index_operators(trace);
    bool borrowed = false;

    for (uint32_t m = 0; m < iteration->trace->operator_count; m++)
        borrowed |= take_duration(index, recognised, trace, iteration, m, platform);
    struct trace *derived = g_steal_pointer(&iteration->trace);
    model_iteration_free(iteration);
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
                            struct model_choice choice)
{
    struct model_job job = job_of(recognised, choice);
    job.batch = batch;
    job.micro_batches = micro_batches;
    struct trace *rebatched = is_possible(&job, choice)
                                  ? model_synthesise(recognised->config, &job, platform, NULL)
                                  : NULL;

    if (rebatched)
        describe_alike(rebatched, trace);
    return rebatched;
}
