/* Writes plan.json, which docs/formats.md describes. */
#include "chunks/plan.h"

#include "base/output_file.h"
#include "chunks/certificate.h"

#include <jansson.h>

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Writes an address or a budget; null if there is none. */
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

/* Writes the chunk that holds each buffer, or null. */
static json_t *buffers_json(const struct layout *layout)
{
    const struct layout_place *places = layout->places[TRACE_ACTIVATION];
    json_t *array = json_array();
    for (uint32_t b = 0; b < layout->buffer_count; b++)
        json_array_append_new(array,
                              places[b].chunk == NO_INDEX ? json_null() : number(places[b].chunk));
    return array;
}

/* Writes into how many blocks each tensor is cut. */
static json_t *blocks_json(const struct layout *layout)
{
    json_t *array = json_array();
    for (uint32_t t = 0; t < layout->tensor_count; t++)
        json_array_append_new(array, number(layout->first_block[t + 1] - layout->first_block[t]));
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
        for (uint32_t i = 0; i < layout_place_count(layout, list); i++)
            json_array_append_new(of_list,
                                  json_pack("[I,I]", (json_int_t)layout->places[list][i].chunk,
                                            (json_int_t)layout->places[list][i].offset));
        json_object_set_new(places, trace_list_name(list), of_list);
        json_object_set_new(sizes, trace_list_name(list), number(layout->chunk_bytes[list]));
    }
    json_t *json = json_pack("{s:o,s:o,s:o}", "chunk_bytes", sizes, "chunks", chunks, "tensors",
                             places);
    if (layout->first_block)
        json_object_set_new(json, "blocks", blocks_json(layout));
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

/* Returns one entry per tensor, null at the end of backward; NULL if there is nothing to say. */
static json_t *update_after_json(const struct run_choices *choices)
{
    json_t *array = run_updates_early(choices) ? json_array() : NULL;
    for (tensor_id t = 0; array && t < choices->tensor_count; t++)
        json_array_append_new(array, choices->update_after[t] == NO_INDEX
                                         ? json_null()
                                         : json_integer(choices->update_after[t]));
    return array;
}

static json_t *choices_json(const struct run_choices *choices)
{
    if (!choices)
        return json_null();
    return json_pack(
        "{s:o,s:o,s:b,s:o,s:b,s:b,s:o*,s:o*,s:o*,s:o*,s:o*,s:o*}", "recompute",
        flags(choices->recompute, choices->layer_count), "offload",
        flags(choices->offload, choices->layer_count), "host_embedding", choices->host_embedding,
        "host_update", flags(choices->host_update, choices->tensor_count), "split_master",
        choices->split_masters, "backward_twice", choices->second_backward, "update_after",
        update_after_json(choices), "first_update",
        choices->first_update ? json_integer(choices->first_update) : NULL, "stage",
        choices->stage || choices->fast ? json_integer(choices->stage) : NULL, "reduction",
        choices->fast ? json_string("fast") : NULL, "state_block",
        choices->state_block ? json_integer((json_int_t)choices->state_block) : NULL, "frozen",
        run_freezes(choices) ? flags(choices->frozen, choices->tensor_count) : NULL);
}

static json_t *plan_json(const struct plan *plan)
{
    json_t *made_for = json_pack("{s:o,s:o,s:o,s:I,s:I,s:I}", "digest", text(plan->digest), "model",
                                 text(plan->model), "precision", text(plan->precision), "batch",
                                 (json_int_t)plan->batch, "sequence", (json_int_t)plan->sequence,
                                 "micro_batches", (json_int_t)plan->micro_batches);
    uint32_t chunks = plan->layout->chunk_count;
    if (plan->ranks > 1)
        json_object_set_new(made_for, "ranks", json_integer(plan->ranks));
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
    if (plan->nvme_address) {
        json_object_set_new(root, "nvme_bytes", number(plan->nvme_bytes));
        json_object_set_new(root, "nvme_address",
                            numbers(plan->nvme_address, plan->layout->chunk_count));
    }
    if (plan->nvme_depth) {
        json_object_set_new(root, "nvme_block_bytes", number(plan->nvme_block_bytes));
        json_object_set_new(root, "nvme_depth", number(plan->nvme_depth));
    }
    if (plan->cut_from_bytes)
        json_object_set_new(root, "cut_from_bytes", number(plan->cut_from_bytes));
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
