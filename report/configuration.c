#include "report/configuration.h"

#include "base/size.h"
#include "report/plot.h"

struct configuration configuration_of_plan(const struct plan *plan)
{
    return (struct configuration){
        .maker = g_strdup(plan->made_by),
        .digest = g_strdup(plan->digest),
        .chunk_bytes = plan->layout->chunk_bytes[TRACE_PARAM],
        .chunks = chunk_spread_of(plan->layout, TRACE_PARAM),
        .device_budget = plan->device_budget,
        .host_budget = plan->host_budget,
        .nvme_budget = plan_ample_nvme(plan),
        .look_ahead = plan->look_ahead,
        .ranks = MAX(plan->ranks, 1),
        .nodes = plan->certificate ? plan->certificate->nodes : 0,
        .stage = plan->choices ? plan->choices->stage : 0,
        .fast = plan->choices && plan->choices->fast,
    };
}

/* Returns a non-negative integer, or `otherwise` if there is none. */
static int64_t integer_of(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                    : otherwise;
}

static uint64_t budget_of(const json_t *object)
{
    int64_t budget = integer_of(object, "device_memory_bytes", -1);
    return budget < 0 ? UINT64_MAX : (uint64_t)budget;
}

static uint32_t count_of(const json_t *object, const char *key)
{
    return (uint32_t)MIN(integer_of(object, key, 0), UINT32_MAX);
}

void configuration_add_machine(struct configuration *configuration, const json_t *object)
{
    const json_t *budget = json_object_get(object, "host_memory_bytes");
    configuration->host_budget = json_is_null(budget)
                                     ? UINT64_MAX
                                     : (uint64_t)integer_of(object, "host_memory_bytes", 0);
    configuration->nvme_budget = (uint64_t)integer_of(object, "nvme_memory_bytes", 0);
    configuration->ranks = count_of(object, "ranks");
    configuration->nodes = count_of(object, "nodes");
    configuration->stage = count_of(object, "stage");
    configuration->fast = !g_strcmp0(json_string_value(json_object_get(object, "reduction")),
                                     "fast");
    if (configuration->stage > 3 || (configuration->stage < 2 && !configuration->fast))
        configuration->stage = 0;
}

char *configuration_link(const json_t *object)
{
    const json_t *link = json_object_get(object, "link");
    return json_is_null(link) ? g_strdup("") : g_strdup(json_string_value(link));
}

struct configuration configuration_of_json(const json_t *object)
{
    const char *made_by = json_string_value(json_object_get(object, "made_by"));
    const char *strategy = json_string_value(json_object_get(object, "strategy"));
    const char *policy = json_string_value(json_object_get(object, "policy"));
    char *maker = NULL;
    if (made_by && *made_by)
        maker = g_strdup(made_by);
    else if (strategy && *strategy)
        maker = g_strdup(strategy);
    else if (policy && *policy)
        maker = g_strconcat("policy ", policy, NULL);
    struct configuration configuration = {
        .maker = maker,
        .digest = g_strdup(json_string_value(json_object_get(object, "digest"))),
        .chunk_bytes = (uint64_t)integer_of(object, "chunk_bytes", 0),
        .chunks = chunk_spread_from_json(object),
        .device_budget = budget_of(object),
        .look_ahead = integer_of(object, "look_ahead", -1),
    };
    configuration_add_machine(&configuration, object);
    return configuration;
}

void configuration_clear(struct configuration *configuration)
{
    g_clear_pointer(&configuration->maker, g_free);
    g_clear_pointer(&configuration->digest, g_free);
}

bool configuration_same(const struct configuration *a, const struct configuration *b)
{
    if (!a->maker || !a->chunk_bytes)
        return false;
    if (a->digest && b->digest && g_strcmp0(a->digest, b->digest))
        return false;
    if (a->look_ahead >= 0 && b->look_ahead >= 0 && a->look_ahead != b->look_ahead)
        return false;
    return !g_strcmp0(a->maker, b->maker) && a->chunk_bytes == b->chunk_bytes &&
           a->device_budget == b->device_budget;
}

char *configuration_short_label(const struct configuration *configuration)
{
    g_autofree char *maker = caption_name(configuration->maker ? configuration->maker : "unknown");
    g_autofree char *sizes = chunk_spread_format(&configuration->chunks);
    return sizes ? g_strdup_printf("%s, %s chunks", maker, sizes) : g_steal_pointer(&maker);
}

char *configuration_label(const struct configuration *configuration)
{
    char *label = configuration_short_label(configuration);
    if (configuration->device_budget == UINT64_MAX)
        return label;
    g_autofree char *start = label;
    g_autofree char *budget = size_format(configuration->device_budget);
    return g_strdup_printf("%s, %s device memory", start, budget);
}
