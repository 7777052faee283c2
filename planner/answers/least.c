#include "planner/answers/requests.h"

#include "base/size.h"
#include "models/derivation.h"
#include "planner/schedule/placement.h"
#include "planner/search/variant.h"
#include "sim/replay.h"

#include <string.h>

/* The variant of a run that needs the least device memory of those tried. */
struct least {
    const struct trace *trace;
    const struct search_options *options;
    struct derivation *derivation; /* NULL if no variants can be derived */
    struct run_choices *traced;
    uint64_t enough; /* once bytes are so few, no other variant is tried */
    uint64_t bytes;  /* of the arena; UINT64_MAX if host memory lacks */
    char *choices;   /* in words */
};

/* Takes ownership of `run`. */
static void consider(struct least *least, struct run_choices *run)
{
    struct trace *trace = least->bytes <= least->enough
                              ? NULL
                              : derivation_trace(least->derivation, run, least->options->platform,
                                                 NULL);
    uint64_t bytes = trace ? variants_requirement(trace, least->trace, least->options) : UINT64_MAX;
    if (bytes < least->bytes) {
        g_autofree char *recompute = run_layers_format(run->recompute, run->layer_count);
        g_autofree char *offload = run_layers_format(run->offload, run->layer_count);
        least->bytes = bytes;
        g_free(least->choices);
        least->choices = g_strdup_printf("recomputed layers: %s, offloaded layers: %s%s", recompute,
                                         offload,
                                         run->second_backward ? ", 12 bytes a parameter" : "");
        if (run->stage != least->traced->stage) {
            g_autofree char *rest = g_steal_pointer(&least->choices);
            least->choices = g_strdup_printf("%s, stage %u", rest, run->stage);
        }
        if (run->batch != least->traced->batch) {
            g_autofree char *rest = g_steal_pointer(&least->choices);
            least->choices = g_strdup_printf("%s, micro-batches of %u", rest, run->batch);
        }
    }
    trace_free(trace);
    run_choices_free(run);
}

/* Returns the traced choices, or those of ranks that share parameters, too. */
static struct run_choices *begin_lean(const struct least *least, unsigned scope)
{
    struct run_choices *run = run_choices_copy(least->traced);
    if (scope & RUN_STAGE && run->stage)
        run->stage = 3;
    return run;
}

static struct run_choices *make_lean(const struct least *least, unsigned scope,
                                     const struct lean_choice *lean)
{
    struct run_choices *run = begin_lean(least, scope);
    if (scope & RUN_RECOMPUTE)
        memset(run->recompute, lean->recompute, run->layer_count);
    if (lean->offload)
        memset(run->offload, 1, run->layer_count);
    run->host_embedding &= !lean->second_backward;
    run->micro_batches *= run->batch / lean->batch;
    run->batch = lean->batch;
    model_choose_backward(run, least->traced, lean->second_backward);
    return run;
}

/* Considers what the search tries where the traced run does not fit. */
static void consider_lean(struct least *least, unsigned scope)
{
    struct lean_choice lean[LEAN_MOST];
    uint32_t count = variants_list_lean(least->traced, derivation_model(least->derivation), scope,
                                        lean);
    if (scope & RUN_STAGE)
        consider(least, begin_lean(least, scope));
    for (uint32_t i = 0; i < count; i++)
        consider(least, make_lean(least, scope, &lean[i]));
}

static struct least least_in(const struct trace *trace, const struct search_options *options,
                             unsigned scope, uint64_t enough)
{
    struct least least = {.trace = trace,
                          .options = options,
                          .enough = enough,
                          .traced = run_choices_of(trace),
                          .bytes = requirement_device_bytes(trace, options, NULL),
                          .choices = g_strdup("as traced")};
    if (least.bytes > enough && scope & (RUN_RECOMPUTE | RUN_OFFLOAD) && replay_is_timed(trace))
        least.derivation = derivation_new(trace, NULL);
    unsigned chosen = scope & derivation_scope(least.derivation);
    if (least.derivation)
        consider_lean(&least, scope & RUN_RECOMPUTE ? chosen : chosen & RUN_OFFLOAD);
    derivation_free(least.derivation);
    run_choices_free(least.traced);
    return least;
}

uint64_t least_device_bytes(const struct trace *trace, const struct search_options *options,
                            unsigned scope)
{
    struct least least = least_in(trace, options, scope, 0);
    g_free(least.choices);
    return least.bytes;
}

bool least_fits(const struct trace *trace, const struct search_options *options, unsigned scope)
{
    struct least least = least_in(trace, options, scope, options->device_budget);
    g_free(least.choices);
    return least.bytes <= options->device_budget;
}

/* Returns device memory, which includes what libraries hold, in whole MiB, GiB if it is large, or
 * KiB if it is small, rounded up. */
static char *round_up(const struct trace *trace, uint64_t bytes)
{
    enum { FEW_MIB = 10, MANY_GIB = 100 };
    const uint64_t kib = UINT64_C(1) << 10, mib = kib << 10, gib = mib << 10;
    bytes += trace->library_bytes;
    uint64_t unit = bytes < FEW_MIB * mib ? kib : bytes < MANY_GIB * gib ? mib : gib;
    return g_strdup_printf("%" G_GUINT64_FORMAT " %s", (bytes + unit - 1) / unit,
                           unit == kib   ? "KiB"
                           : unit == mib ? "MiB"
                                         : "GiB");
}

/* Appends what an option would lower the need to, if it would. */
static void append_lever(GString *text, const struct trace *trace, const char *lever,
                         uint64_t bytes, uint64_t than)
{
    if (bytes >= than)
        return;
    g_autofree char *size = round_up(trace, bytes);
    g_string_append_printf(text, "; with %s %s would fit", lever, size);
}

/* Says how much of the need as traced are activations, which only the program can offload or make
 * fewer: for a trace whose model is not known. */
static void append_saved(GString *text, const struct trace *trace)
{
    unsigned chosen = derivation_scope_of(trace);
    g_autofree int64_t *change = g_new0(int64_t, trace->operator_count + 1);
    int64_t saved = 0, most = 0;
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (trace->buffers[b].saved) {
            change[trace->buffers[b].first] += (int64_t)trace->buffers[b].bytes;
            change[trace->buffers[b].last + 1] -= (int64_t)trace->buffers[b].bytes;
        }
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if ((saved += change[m]) > most)
            most = saved;
    if (chosen & RUN_OFFLOAD || !most)
        return;
    g_autofree char *size = size_format((uint64_t)most);
    g_string_append_printf(text,
                           "; as traced, up to %s are activations that backward needs: the program "
                           "can %soffload them, or take a smaller batch",
                           size, chosen & RUN_RECOMPUTE ? "" : "recompute them (checkpointing), ");
}

/* Returns the options of these choices with the value any. The caller frees it. */
static char *name_options(unsigned choices)
{
    static const struct {
        unsigned choice;
        const char *option;
    } options[] = {{RUN_RECOMPUTE, "--recompute"},
                   {RUN_OFFLOAD, "--offload-activations"},
                   {RUN_EMBEDDING, "--embedding"},
                   {RUN_MASTERS, "--bytes-per-parameter"}};
    GString *text = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(options); i++) {
        if (!(choices & options[i].choice))
            continue;
        bool last = !(choices & ~(2 * options[i].choice - 1));
        g_string_append_printf(text, "%s%s",
                               text->len == 0 ? ""
                               : last         ? " and "
                                              : ", ",
                               options[i].option);
    }
    g_string_append(text, " any");
    return g_string_free(text, FALSE);
}

static void append_levers(GString *text, const struct trace *trace,
                          const struct search_options *options, unsigned scope, uint64_t least)
{
    const unsigned usual = RUN_RECOMPUTE | RUN_OFFLOAD | RUN_EMBEDDING | RUN_MASTERS;
    struct search_options unlimited = *options;
    const unsigned missing = usual & ~scope & derivation_scope_of(trace);
    unlimited.host_budget = UINT64_MAX;
    if (missing) {
        g_autofree char *named = name_options(missing);
        append_lever(text, trace, named, least_device_bytes(trace, options, scope | usual), least);
    }
    if (!(scope & RUN_MICRO_BATCHES) && trace->batch > 1)
        append_lever(text, trace, "--micro-batch any",
                     least_device_bytes(trace, options, scope | RUN_MICRO_BATCHES), least);
    if (options->host_budget != UINT64_MAX)
        append_lever(text, trace, "--host-memory unlimited",
                     least_device_bytes(trace, &unlimited, scope), least);
    if (!placement_is_possible(trace, options->platform))
        g_string_append(text, "; with a --platform, or a trace of --host-update, the optimizer may "
                              "run on the host");
    if (!replay_is_timed(trace))
        g_string_append(text, "; of a trace with durations, other layers may be recomputed");
}

void least_name_choices(const struct trace *trace, const struct search_options *options,
                        GError **error)
{
    const unsigned usual = RUN_RECOMPUTE | RUN_OFFLOAD | RUN_EMBEDDING | RUN_MASTERS;
    if (!error || !g_error_matches(*error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT))
        return;
    uint64_t least = least_device_bytes(trace, options, usual);
    if (least >= requirement_device_bytes(trace, options, NULL))
        return;
    g_autofree char *size = round_up(trace, least);
    g_autofree char *text = g_strdup_printf(
        "%s; this question takes the trace's choices: with others, such as pstar-plan -o finds, %s "
        "would fit",
        (*error)->message, size);
    g_clear_error(error);
    g_set_error_literal(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT, text);
}

void least_explain(const struct trace *trace, const struct search_options *options, unsigned scope,
                   GError **error)
{
    if (!error || !g_error_matches(*error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT))
        return;
    struct least least = least_in(trace, options, scope, 0);
    if (least.bytes != UINT64_MAX && least.bytes > options->device_budget) {
        uint64_t traced = requirement_device_bytes(trace, options, NULL);
        g_autofree char *budget = size_format(options->device_budget + trace->library_bytes);
        g_autofree char *fits = round_up(trace, least.bytes);
        g_autofree char *as_traced = round_up(trace, traced);
        g_autoptr(GString) text = g_string_new(NULL);
        g_string_printf(text,
                        "nothing fits: %s of device memory would fit (%s), and the budget is %s",
                        fits, least.choices, budget);
        if (least.bytes < traced)
            g_string_append_printf(text, "; as traced, %s", as_traced);
        append_levers(text, trace, options, scope, least.bytes);
        append_saved(text, trace);
        g_clear_error(error);
        g_set_error_literal(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT, text->str);
    }
    g_free(least.choices);
}
