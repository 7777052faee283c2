#include "sim/operator_times.h"

#include "models/retime.h"
#include "sim/replay.h"

#include <math.h>
#include <string.h>

/* A recording may name a GPU with its maker: "NVIDIA A100-SXM4-40GB". */
static bool same_device(const char *machine, const char *platform)
{
    if (platform_names_processors(machine) || platform_names_processors(platform))
        return platform_names_processors(machine) && platform_names_processors(platform);
    return strstr(machine, platform) || strstr(platform, machine);
}

char *operator_times_note(const struct trace *trace, const struct platform *platform)
{
    bool retimes = trace_can_be_retimed(trace);
    if (!replay_is_timed(trace))
        return g_strconcat("the trace has no durations: times are those of copies alone",
                           retimes ? "; pstar-trace retime computes them for a platform" : NULL,
                           NULL);
    if (!platform || !trace->machine || same_device(trace->machine, platform->name))
        return NULL;
    return g_strdup_printf(
        "operators' times are the trace's, %s %s: %s changes those of copies and "
        "of updates that move%s",
        trace->estimated ? "computed for" : "measured on", trace->machine, platform->name,
        retimes ? "; pstar-trace retime computes them for it" : "");
}

static bool is_nominal(const struct platform_curve *curve)
{
    return curve->source && g_str_has_prefix(curve->source, "nominal");
}

static bool has_nominal_rate(const struct platform *platform)
{
    return is_nominal(&platform->compute[0]) || is_nominal(&platform->compute[1]) ||
           is_nominal(&platform->memory);
}

/* Published steps took 1 to 3.8 times as long as nominal rates say. */
static const struct operator_times_band nominal = {
    "Operators' times are nominal (data sheet). Published runs reached 26 % of such rates and more",
    1, 1 / 0.26};

/* Those that the constants of platforms/ were not fitted to. */
static const struct operator_times_band fitted = {
    "Operators' times are those of PyTorch, fitted to published steps. Other published steps took "
    "0.9 to 1.4 times as long",
    0.9, 1.4};

bool operator_times_band(const struct trace *trace, const struct platform *platform,
                         struct operator_times_band *band)
{
    if (!platform || !trace->estimated || !trace->machine ||
        strcmp(trace->machine, platform->name) != 0)
        return false;
    *band = platform->framework.source ? fitted : nominal;
    return has_nominal_rate(platform);
}

void operator_times_print_band(const struct operator_times_band *band, double least, double most,
                               FILE *out)
{
    fprintf(out, "%s: a step takes %.4g to %.4g s.\n", band->source, least, most);
}

struct trace *operator_times_scale(const struct trace *trace, double times)
{
    struct trace *scaled = trace_copy(trace);
    for (uint32_t m = 0; m < scaled->operator_count; m++) {
        struct trace_operator *op = &scaled->operators[m];
        if (op->place == TRACE_ON_DEVICE)
            op->duration_ns = (uint64_t)llround((double)op->duration_ns * times);
    }
    return scaled;
}

static uint64_t computing_ns(const struct trace_operator *op, const struct costs *costs)
{
    const struct platform *ranks = costs->ranks;
    const struct platform_level *level = ranks->spread.nodes > 1 ? &ranks->network
                                                                 : &ranks->node.level;
    bool measured = level->point_count[PLATFORM_REDUCE] > 0;
    if (measured && op->phase != TRACE_UPDATE_PHASE)
        return 1;
    return op->place == TRACE_ON_HOST ? op->duration_ns
                                      : MIN(op->duration_ns, costs_ns(&costs->memory, op->bytes));
}

void operator_times_leave_exchanges(struct trace *trace, const struct costs *costs)
{
    bool exchange = costs->ranks && costs->ranks->spread.ranks > 1;
    for (uint32_t m = 0; !trace->estimated && m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        bool exchanges = op->exchange[TRACE_GATHER].sent_bytes ||
                         op->exchange[TRACE_REDUCE].sent_bytes;
        if (op->duration_ns && exchange && exchanges)
            op->duration_ns = computing_ns(op, costs);
        if (op->exchange[TRACE_PASS].received_bytes)
            op->duration_ns = MIN(op->duration_ns, costs_ns(&costs->memory, op->bytes));
    }
}
