#include "cli/machine.h"

#include "cli/options.h"
#include "models/derive.h"
#include "sim/operator_times.h"

static uint32_t stages_of(const struct machine_request *request)
{
    return MAX(request->stages, 1);
}

/* Returns the ranks of a stage. */
static uint32_t ranks_of(const struct machine_request *request, const struct trace *trace)
{
    return request->gpus ? request->gpus / stages_of(request) : MAX(trace ? trace->ranks : 1, 1);
}

static bool spread_over(const struct machine_request *request, uint32_t ranks,
                        struct platform *platform, GError **error)
{
    if (stages_of(request) > 1)
        return platform_spread_stages(platform, request->stages, ranks, request->nodes, error);
    return (ranks == 1 && !request->nodes) ||
           platform_spread_ranks(platform, ranks, request->nodes, error);
}

static bool spread(const struct machine_request *request, uint32_t ranks, struct platform *platform,
                   GError **error)
{
    if (request->gpus % stages_of(request) != 0)
        return options_refuse(error, "--gpus %u: must be a multiple of the %u stages",
                              request->gpus, request->stages);
    if (request->nodes && !platform)
        return options_refuse(error, "--nodes needs --platform");
    bool given = request->stage != RUN_ANY_STAGE;
    if (given && ranks == 1)
        return options_refuse(error, "--stage %u: one rank shares nothing; it needs --gpus",
                              request->stage);
    if (request->fast && ranks == 1)
        return options_refuse(error, "--reduction fast: one rank reduces nothing; it needs --gpus");
    if (given && request->stage < 2 && !request->fast)
        return options_refuse(error,
                              "--stage %u: needs --reduction fast, because exact sums need "
                              "gradients that are shards",
                              request->stage);
    return !platform || spread_over(request, ranks, platform, error);
}

/* Returns how the ranks train together. Without a stage, those of a trace of several ranks share
 * what they shared; others share parameters, too. */
static struct run_stage together(const struct machine_request *request, const struct trace *old)
{
    struct run_stage traced = run_stage_of(old);
    uint32_t stage = request->stage != RUN_ANY_STAGE ? request->stage
                     : old->ranks > 1                ? traced.stage
                                                     : 3;
    return (struct run_stage){(uint8_t)stage, request->fast || traced.fast};
}

/* Replaces the trace by that of one of the ranks. */
static bool change_trace(const struct machine_request *request, uint32_t ranks,
                         const struct platform *platform, struct trace **trace, GError **error)
{
    const struct trace *old = *trace;
    struct trace *of_rank = model_trace_of_rank(old, ranks, together(request, old), platform,
                                                error);
    if (!of_rank) {
        g_prefix_error(error, "--gpus %u: the trace: ", ranks);
        return false;
    }
    trace_free(*trace);
    *trace = of_rank;
    return true;
}

static void note_exchanges(const struct machine_request *request, uint32_t ranks,
                           const struct trace *trace, const struct platform *platform)
{
    if (ranks > 1 && !(platform && platform_knows_exchanges(platform)))
        console_note(request->console, "%s how %u ranks exchange: that takes %s",
                     platform ? "the platform does not say" : "no platform says", ranks,
                     !trace || trace->estimated ? "no time" : "the time that was measured");
}

/* Names the file in what is wrong with its rates. */
static struct costs *costs_of(const struct machine_request *request,
                              const struct platform *platform, GError **error)
{
    struct costs *costs = costs_new(platform, request->link, error);
    if (!costs && platform && !request->link)
        g_prefix_error(error, "%s: ", request->platform);
    return costs;
}

bool machine_read(const struct machine_request *request, struct trace **trace,
                  struct platform **platform, struct costs **costs, GError **error)
{
    uint32_t ranks = ranks_of(request, *trace);
    if ((request->platform && !(*platform = platform_read(request->platform, error))) ||
        !spread(request, ranks, *platform, error) ||
        !(*costs = costs_of(request, *platform, error)))
        return false;
    if (*platform && request->link)
        platform_keep_apart(*platform);
    if (*trace && !change_trace(request, ranks, *platform, trace, error))
        return false;
    if (*trace)
        operator_times_leave_exchanges(*trace, *costs);
    note_exchanges(request, ranks * stages_of(request), *trace, *platform);
    return true;
}
