#include "chunks/certificate_json.h"
#include "chunks/plan.h"
#include "chunks/plan_format.h"
#include "traces/output_file.h"

#include <jansson.h>

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* An address, or a budget; null for none. */
static json_t *number_or_null(uint64_t value)
{
    return value == UINT64_MAX ? json_null() : number(value);
}

static json_t *numbers(const uint64_t *values, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, number_or_null(values[i]));
    return array;
}

static json_t *text(const char *value)
{
    return value ? json_string(value) : json_null();
}

/* The chunk that holds each buffer; null: none does. */
static json_t *buffers_json(const struct layout *layout)
{
    const struct layout_place *places = layout->places[TRACE_ACTIVATION];
    json_t *array = json_array();
    for (uint32_t b = 0; b < layout->buffer_count; b++)
        json_array_append_new(array,
                              places[b].chunk == NO_INDEX ? json_null() : number(places[b].chunk));
    return array;
}

static json_t *layout_json(const struct layout *layout)
{
    json_t *sizes = json_object(), *places = json_object(), *chunks = json_array();
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        const struct chunk *chunk = &layout->chunks[c];
        json_array_append_new(chunks,
                              json_pack("[s,I,I,I]", trace_list_name(chunk->list),
                                        (json_int_t)chunk->slot_bytes,
                                        (json_int_t)chunk->copy_bytes, (json_int_t)chunk->group));
    }
    for (int list = 0; list < TRACE_LISTS; list++) {
        if (!layout->places[list])
            continue;
        json_t *of_list = json_array();
        for (uint32_t t = 0; t < layout->tensor_count; t++)
            json_array_append_new(of_list,
                                  json_pack("[I,I]", (json_int_t)layout->places[list][t].chunk,
                                            (json_int_t)layout->places[list][t].offset));
        json_object_set_new(places, trace_list_name(list), of_list);
        json_object_set_new(sizes, trace_list_name(list), number(layout->chunk_bytes[list]));
    }
    json_t *json = json_pack("{s:o,s:o,s:o}", "chunk_bytes", sizes, "chunks", chunks, "tensors",
                             places);
    if (layout->buffer_count)
        json_object_set_new(json, "buffers", buffers_json(layout));
    return json;
}

static json_t *action_json(const struct plan_action *action)
{
    const char *name = plan_action_name(action->kind);
    if (action->kind == PLAN_WAIT)
        return json_pack("[s]", name);
    return json_pack("[s,I,o]", name, (json_int_t)action->chunk, number_or_null(action->address));
}

static json_t *schedule_json(const struct plan *plan)
{
    json_t *moments = json_array();
    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        json_t *actions = json_array();
        for (uint32_t i = plan->first_action[m]; i < plan->first_action[m + 1]; i++) {
            const struct plan_action *action = &plan->actions[i];
            json_array_append_new(actions, action_json(action));
        }
        json_array_append_new(moments, actions);
    }
    return moments;
}

static json_t *flags(const uint8_t *values, uint32_t count)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(array, json_boolean(values[i]));
    return array;
}

static json_t *choices_json(const struct run_choices *choices)
{
    if (!choices)
        return json_null();
    return json_pack(
        "{s:o,s:o,s:b,s:o,s:b,s:b}", "recompute", flags(choices->recompute, choices->layer_count),
        "offload", flags(choices->offload, choices->layer_count), "host_embedding",
        choices->host_embedding, "host_update", flags(choices->host_update, choices->tensor_count),
        "split_master", choices->split_masters, "backward_twice", choices->second_backward);
}

static json_t *plan_json(const struct plan *plan)
{
    json_t *made_for = json_pack("{s:o,s:o,s:o,s:I,s:I,s:I}", "digest", text(plan->digest), "model",
                                 text(plan->model), "precision", text(plan->precision), "batch",
                                 (json_int_t)plan->batch, "sequence", (json_int_t)plan->sequence,
                                 "micro_batches", (json_int_t)plan->micro_batches);
    uint32_t chunks = plan->layout->chunk_count;
    return json_pack("{s:i,s:o,s:o,s:o,s:o,s:I,s:o,s:o,s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o}",
                     "pstar_plan", PLAN_FORMAT, "made_for", made_for, "choices",
                     choices_json(plan->choices), "made_by", text(plan->made_by), "policy",
                     text(plan->policy), "look_ahead", (json_int_t)plan->look_ahead,
                     "device_budget_bytes", number_or_null(plan->device_budget),
                     "host_budget_bytes", number_or_null(plan->host_budget), "device_bytes",
                     (json_int_t)plan->arena_bytes, "host_bytes", (json_int_t)plan->host_pool_bytes,
                     "staging_address", (json_int_t)plan->staging_address, "layout",
                     layout_json(plan->layout), "host_address", numbers(plan->host_address, chunks),
                     "initial_address", numbers(plan->initial_address, chunks), "moments",
                     schedule_json(plan), "predicted", figures_to_json(&plan->predicted));
}

bool plan_write(const struct plan *plan, const char *path, GError **error)
{
    json_t *root = plan_json(plan);
    if (plan->certificate)
        json_object_set_new(root, "certificate", certificate_to_json(plan->certificate));
    char *contents = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (plan->certificate)
        certificate_seal(contents);
    bool written = output_file_write(path, contents, error);
    free(contents);
    json_decref(root);
    return written;
}
