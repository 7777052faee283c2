#include "models/derive.h"

#include "models/synth.h"

#include <string.h>

static char *key_of(const char *verb, const char *rest, uint32_t micro_batch)
{
    return g_strdup_printf("%u %s%s", micro_batch, verb, rest);
}

/* Indexes the trace's operators by name and micro-batch. */
static GHashTable *index_operators(const struct trace *trace)
{
    GHashTable *index = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        g_hash_table_insert(index, key_of("", op->name, op->micro_batch), op);
    }
    return index;
}

/* An operator whose name begins with `verb` repeats the work of the one that begins with `twin`. */
static const struct {
    const char *verb, *twin;
} twins[] = {{"", ""},
             {"backward again ", "backward "},
             {"recompute again ", "recompute "},
             {"recompute again ", "forward "},
             {"recompute ", "forward "}};

/* Returns the trace's operator that does the same work. */
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

/* Takes the duration of the trace's operator that does the same work. Returns false if that is
 * this very operator, in the same place, over as many bytes. */
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

void model_choose_backward(struct run_choices *choices, const struct run_choices *traced,
                           bool second_backward)
{
    choices->second_backward = second_backward;
    choices->split_masters = second_backward || (traced->split_masters && !traced->second_backward);
}

/* Returns whether a run of the traced one's kind can make these choices. */
static bool is_possible(const struct recognised *recognised, const struct run_choices *choices)
{
    const struct run_choices *traced = &recognised->iteration->job.choices;
    struct run_choices masters = *traced;
    model_choose_backward(&masters, traced, choices->second_backward);
    return choices->layer_count == recognised->config->layers &&
           choices->split_masters == masters.split_masters && choices->batch > 0 &&
           (uint64_t)choices->batch * choices->micro_batches ==
               (uint64_t)traced->batch * traced->micro_batches;
}

/* Describes the job with the durations of the trace, which has as many micro-batches. */
static struct trace *describe_anew(const struct recognised *recognised, const struct trace *trace,
                                   const struct model_job *job, const struct platform *platform)
{
    struct model_iteration *iteration = model_iteration_new(recognised->config, job, NULL);
    if (!iteration)
        return NULL;
    g_autoptr(GHashTable) index = index_operators(trace);
    bool borrowed = false;
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++)
        borrowed |= take_duration(index, recognised, trace, iteration, m, platform);
    struct trace *derived = g_steal_pointer(&iteration->trace);
    model_iteration_free(iteration);
    derived->estimated = trace->estimated || borrowed;
    return derived;
}

struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           const struct run_choices *choices, const struct platform *platform,
                           GError **error)
{
    struct model_job job = recognised->iteration->job;
    struct trace *derived = NULL;
    job.choices = *choices;
    job.choices.host_update = recognised->iteration->job.choices.host_update;
    if (is_possible(recognised, choices)) {
        if (choices->batch == trace->batch)
            derived = describe_anew(recognised, trace, &job, platform);
        else if (platform && model_is_synthesised(recognised, trace, platform))
            derived = model_synthesise(recognised->config, &job, platform, NULL);
    }
    if (derived)
        describe_alike(derived, trace);
    else
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "micro-batches of %u with the embedding on the %s%s cannot be derived from "
                    "a trace of %u",
                    choices->batch, choices->host_embedding ? "host" : "device",
                    choices->second_backward ? " and two backwards" : "", trace->batch);
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
