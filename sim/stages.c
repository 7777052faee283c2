#include "sim/stages.h"

#include "models/derive.h"
#include "sim/operator_times.h"

/* What a stage's trace is derived from. */
struct source {
    const struct trace *trace;
    const struct recognised *recognised;
    const GPtrArray *layouts;
    const struct platform *platform;
    const struct costs *costs;
};

static bool is_wanted(const GPtrArray *strategies, enum strategy_stage stage)
{
    for (guint i = 0; i < strategies->len; i++)
        if (((const struct strategy *)g_ptr_array_index(strategies, i))->ops->stage == stage)
            return true;
    return false;
}

static bool derive(const struct source *source, enum strategy_stage stage,
                   struct sweep_stage *derived, GError **error)
{
    const struct run_stage together = {(uint8_t)(stage - STRATEGY_STAGE_0), true};
    derived->trace = model_derive_ranks(source->recognised, source->trace, source->trace->ranks,
                                        together, source->platform, error);
    if (!derived->trace)
        return false;
    operator_times_leave_exchanges(derived->trace, source->costs);
    derived->layouts = layout_list_like(source->layouts, derived->trace, error);
    return derived->layouts != NULL;
}

static bool derive_all(struct source *source, const GPtrArray *strategies,
                       struct sweep_stage *stages, GError **error)
{
    struct recognised *recognised = NULL;
    bool ok = true;
    for (int s = STRATEGY_STAGE_0; ok && s < STRATEGY_STAGES; s++) {
        if (!is_wanted(strategies, (enum strategy_stage)s))
            continue;
        if (!recognised)
            source->recognised = recognised = recognise(source->trace, error);
        ok = recognised && derive(source, (enum strategy_stage)s, &stages[s], error);
    }
    recognised_free(recognised);
    return ok;
}

struct sweep_stage *stages_new(const struct trace *trace, const GPtrArray *strategies,
                               const GPtrArray *layouts, const struct platform *platform,
                               const struct costs *costs, GError **error)
{
    struct sweep_stage *stages = g_new0(struct sweep_stage, STRATEGY_STAGES);
    struct source source = {
        .trace = trace, .layouts = layouts, .platform = platform, .costs = costs};
    if (!derive_all(&source, strategies, stages, error))
        g_clear_pointer(&stages, stages_free);
    return stages;
}

void stages_free(struct sweep_stage *stages)
{
    for (int s = 0; stages && s < STRATEGY_STAGES; s++) {
        trace_free(stages[s].trace);
        g_clear_pointer(&stages[s].layouts, g_ptr_array_unref);
    }
    g_free(stages);
}
