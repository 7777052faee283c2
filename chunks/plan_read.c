/* Reads plan.json, which docs/formats.md describes. */
#include "chunks/plan.h"

#include "base/files.h"
#include "chunks/certificate.h"

#include <jansson.h>

struct plan_reader {
    const char *path;
    GError **error;
};

static bool refuse(struct plan_reader *reader, const char *key, const char *reason)
{
    if (reader->error && !*reader->error)
        g_set_error(reader->error, PLAN_ERROR, PLAN_ERROR_INVALID, "%s: %s: %s", reader->path, key,
                    reason);
    return false;
}

static bool read_number(struct plan_reader *reader, const json_t *value, const char *key,
                        uint64_t maximum, uint64_t *number)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > maximum)
        return refuse(reader, key, "must be an integer in the allowed range");
    *number = (uint64_t)json_integer_value(value);
    return true;
}

static bool read_number_or_null(struct plan_reader *reader, const json_t *value, const char *key,
                                uint64_t *number)
{
    *number = UINT64_MAX;
    return json_is_null(value) || read_number(reader, value, key, INT64_MAX, number);
}

static bool read_member(struct plan_reader *reader, const json_t *object, const char *key,
                        uint64_t maximum, uint64_t *number)
{
    return read_number(reader, json_object_get(object, key), key, maximum, number);
}

static bool read_u32(struct plan_reader *reader, const json_t *object, const char *key,
                     uint32_t *number)
{
    uint64_t wide;
    bool ok = read_member(reader, object, key, UINT32_MAX - 2, &wide);
    *number = ok ? (uint32_t)wide : 0;
    return ok;
}

static bool read_numbers(struct plan_reader *reader, const json_t *root, const char *key,
                         uint32_t count, uint64_t **values)
{
    const json_t *array = json_object_get(root, key);
    if (!json_is_array(array) || json_array_size(array) != count)
        return refuse(reader, key, "must be an array with one entry per chunk");
    *values = g_new(uint64_t, count);
    for (uint32_t i = 0; i < count; i++)
        if (!read_number_or_null(reader, json_array_get(array, i), key, &(*values)[i]))
            return false;
    return true;
}

static bool read_chunk(struct plan_reader *reader, const json_t *entry, struct chunk *chunk)
{
    const char *list = json_string_value(json_array_get(entry, 0));
    uint64_t group;
    if (!list || !trace_access_list_parse(list, &chunk->list))
        return refuse(reader, "layout.chunks", "an entry does not name a list");
    bool ok = read_number(reader, json_array_get(entry, 1), "layout.chunks", INT64_MAX / 4,
                          &chunk->slot_bytes) &&
              read_number(reader, json_array_get(entry, 2), "layout.chunks", INT64_MAX / 4,
                          &chunk->copy_bytes) &&
              read_number(reader, json_array_get(entry, 3), "layout.chunks", UINT32_MAX, &group);
    chunk->group = ok ? (uint32_t)group : 0;
    return ok;
}

static bool read_chunks(struct plan_reader *reader, const json_t *array, struct layout *layout)
{
    if (!json_is_array(array) || json_array_size(array) >= UINT32_MAX)
        return refuse(reader, "layout.chunks", "must be an array");
    layout->chunk_count = (uint32_t)json_array_size(array);
    layout->chunks = g_new0(struct chunk, layout->chunk_count);
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        if (!read_chunk(reader, json_array_get(array, c), &layout->chunks[c]))
            return false;
        if (layout->chunks[c].group >= layout->chunk_count)
            return refuse(reader, "layout.chunks", "an entry names a group that does not exist");
        layout->group_count = MAX(layout->group_count, layout->chunks[c].group + 1);
    }
    return true;
}

static bool read_places(struct plan_reader *reader, const json_t *array, int list,
                        struct layout *layout)
{
    uint32_t count = (uint32_t)json_array_size(array);
    if (!json_is_array(array) || !count ||
        (layout->tensor_count && layout_place_count(layout, list) != count))
        return refuse(reader, "layout.tensors",
                      "every list must have one entry per tensor or block");
    if (!layout->tensor_count)
        layout->tensor_count = count;
    layout->places[list] = g_new0(struct layout_place, count);
    for (uint32_t t = 0; t < count; t++) {
        const json_t *entry = json_array_get(array, t);
        uint64_t chunk;
        if (!read_number(reader, json_array_get(entry, 0), "layout.tensors", UINT32_MAX, &chunk) ||
            !read_number(reader, json_array_get(entry, 1), "layout.tensors", INT64_MAX / 4,
                         &layout->places[list][t].offset))
            return false;
        if (chunk >= layout->chunk_count)
            return refuse(reader, "layout.tensors", "an entry names a chunk that does not exist");
        layout->places[list][t].chunk = (uint32_t)chunk;
    }
    return true;
}

/* A layout may lack blocks. */
static bool read_blocks(struct plan_reader *reader, const json_t *array, struct layout *layout)
{
    uint32_t count = (uint32_t)json_array_size(array);
    if (!array)
        return true;
    if (!json_is_array(array) || !count)
        return refuse(reader, "layout.blocks", "must be an array with one entry per tensor");
    layout->tensor_count = count;
    layout->first_block = g_new0(uint32_t, (size_t)count + 1);
    for (uint32_t t = 0; t < count; t++) {
        uint64_t blocks;
        if (!read_number(reader, json_array_get(array, t), "layout.blocks", TRACE_MOST_BLOCKS,
                         &blocks))
            return false;
        if (blocks == 0 || blocks > UINT32_MAX - layout->first_block[t])
            return refuse(reader, "layout.blocks", "every tensor has at least one block");
        layout->first_block[t + 1] = layout->first_block[t] + (uint32_t)blocks;
    }
    return true;
}

/* A layout may lack buffers. */
static bool read_buffers(struct plan_reader *reader, const json_t *array, struct layout *layout)
{
    uint32_t count = (uint32_t)json_array_size(array);
    if (!array)
        return true;
    if (!json_is_array(array) || !count)
        return refuse(reader, "layout.buffers", "must be an array with one entry per buffer");
    layout->buffer_count = count;
    layout->places[TRACE_ACTIVATION] = g_new0(struct layout_place, count);
    for (uint32_t b = 0; b < count; b++) {
        uint64_t chunk;
        if (!read_number_or_null(reader, json_array_get(array, b), "layout.buffers", &chunk))
            return false;
        if (chunk != UINT64_MAX && chunk >= layout->chunk_count)
            return refuse(reader, "layout.buffers", "an entry names a chunk that does not exist");
        layout->places[TRACE_ACTIVATION][b].chunk = (uint32_t)MIN(chunk, NO_INDEX);
    }
    return true;
}

/* Returns the list of that name, -1 if there is none. */
static int list_of(const char *name)
{
    for (int list = 0; list < TRACE_LISTS; list++)
        if (!g_strcmp0(trace_list_name(list), name))
            return list;
    return -1;
}

static bool read_layout(struct plan_reader *reader, const json_t *root, struct layout **result)
{
    const json_t *object = json_object_get(root, "layout");
    struct layout *layout = *result = g_new0(struct layout, 1);
    if (!read_chunks(reader, json_object_get(object, "chunks"), layout))
        return false;
    if (!read_blocks(reader, json_object_get(object, "blocks"), layout))
        return false;
    json_t *places = json_object_get(object, "tensors");
    const char *name;
    json_t *array;
    json_object_foreach (places, name, array) {
        int list = list_of(name);
        if (list < 0)
            return refuse(reader, "layout.tensors", "a key does not name a list");
        if (!read_places(reader, array, list, layout) ||
            !read_member(reader, json_object_get(object, "chunk_bytes"), name, INT64_MAX / 4,
                         &layout->chunk_bytes[list]))
            return false;
    }
    return (layout->tensor_count || refuse(reader, "layout.tensors", "missing")) &&
           read_buffers(reader, json_object_get(object, "buffers"), layout);
}

static bool read_action(struct plan_reader *reader, const json_t *entry, const struct plan *plan,
                        struct plan_action *action)
{
    const char *name = json_string_value(json_array_get(entry, 0));
    uint64_t chunk;
    int kind = 0;
    while (kind < PLAN_ACTIONS && g_strcmp0(plan_action_name(kind), name))
        kind++;
    if (kind == PLAN_ACTIONS)
        return refuse(reader, "moments", "an action has an unknown kind");
    action->kind = (uint8_t)kind;
    action->address = NO_ADDRESS;
    if (kind == PLAN_WAIT)
        return true;
    if (!read_number(reader, json_array_get(entry, 1), "moments", plan->layout->chunk_count - 1ULL,
                     &chunk) ||
        !read_number_or_null(reader, json_array_get(entry, 2), "moments", &action->address))
        return false;
    action->chunk = (uint32_t)chunk;
    return true;
}

static bool read_schedule(struct plan_reader *reader, const json_t *root, struct plan *plan)
{
    const json_t *moments = json_object_get(root, "moments");
    if (json_array_size(moments) < 2 || json_array_size(moments) >= UINT32_MAX - 2)
        return refuse(reader, "moments", "must be an array with one entry per moment");
    plan->moment_count = (uint32_t)json_array_size(moments) - 1;
    plan->first_action = g_new0(uint32_t, plan->moment_count + 2);
    GArray *actions = g_array_new(FALSE, FALSE, sizeof(struct plan_action));
    bool ok = true;
    for (uint32_t m = 0; ok && m <= plan->moment_count; m++) {
        const json_t *of_moment = json_array_get(moments, m);
        ok = json_is_array(of_moment) || refuse(reader, "moments", "each moment must be an array");
        for (size_t i = 0; ok && i < json_array_size(of_moment); i++) {
            struct plan_action action = {.chunk = 0};
            ok = read_action(reader, json_array_get(of_moment, i), plan, &action);
            g_array_append_val(actions, action);
        }
        plan->first_action[m + 1] = actions->len;
    }
    plan->action_count = actions->len;
    plan->actions = (struct plan_action *)(void *)g_array_free(actions, FALSE);
    return ok;
}

static bool read_figures(struct plan_reader *reader, const json_t *root,
                         struct plan_figures *figures)
{
    const struct plan_figure *bad;
    return figures_from_json(json_object_get(root, "predicted"), figures, &bad) ||
           refuse(reader, bad->name,
                  bad->unit == FIGURE_SECONDS ? "must be a number of seconds"
                                              : "must be an integer in the allowed range");
}

static bool read_flags(struct plan_reader *reader, const json_t *array, uint32_t count,
                       uint8_t *flags)
{
    for (uint32_t i = 0; i < count; i++) {
        const json_t *flag = json_array_get(array, i);
        if (!json_is_boolean(flag))
            return refuse(reader, "choices", "each entry must be true or false");
        flags[i] = json_is_true(flag);
    }
    return true;
}

/* A plan without updates within backward lacks the array. */
static bool read_update_after(struct plan_reader *reader, const json_t *array,
                              struct run_choices *choices)
{
    if (array && json_array_size(array) != choices->tensor_count)
        return refuse(reader, "choices.update_after", "must have one entry per tensor");
    for (tensor_id t = 0; array && t < choices->tensor_count; t++) {
        const json_t *entry = json_array_get(array, t);
        uint64_t after = NO_INDEX;
        if (!json_is_null(entry) &&
            !read_number(reader, entry, "choices.update_after", choices->tensor_count - 1, &after))
            return false;
        choices->update_after[t] = (tensor_id)after;
    }
    return true;
}

/* A plan of several ranks may lack their stage, which its layout also tells, unless their sums are
 * fast. */
static bool read_stage(struct plan_reader *reader, const json_t *object, struct plan *plan)
{
    const json_t *value = json_object_get(object, "stage");
    const char *reduction = json_string_value(json_object_get(object, "reduction"));
    uint64_t stage = 0, least = reduction ? 0 : 2;
    if (reduction && strcmp(reduction, "fast") != 0)
        return refuse(reader, "choices.reduction", "must be \"fast\" if it is there");
    if ((value || reduction) &&
        (!read_number(reader, value, "choices.stage", 3, &stage) || stage < least))
        return refuse(reader, "choices.stage", "must be 2 or 3; with fast reductions 0 to 3");
    plan->choices->stage = (uint8_t)stage;
    plan->choices->fast = reduction != NULL;
    return true;
}

/* A plan whose host updates in the order of the model lacks it. */
static bool read_first_update(struct plan_reader *reader, const json_t *value,
                              struct run_choices *choices)
{
    uint64_t first = 0, most = MAX(choices->tensor_count, 1) - 1;
    if (value && !read_number(reader, value, "choices.first_update", most, &first))
        return false;
    choices->first_update = (tensor_id)first;
    return true;
}

/* A plan of a run that trains all tensors lacks the array. */
static bool read_frozen(struct plan_reader *reader, const json_t *array,
                        struct run_choices *choices)
{
    if (array && json_array_size(array) != choices->tensor_count)
        return refuse(reader, "choices.frozen", "must have one entry per tensor");
    return !array || read_flags(reader, array, choices->tensor_count, choices->frozen);
}

/* A plan without state blocks lacks their size. */
static bool read_state_block(struct plan_reader *reader, const json_t *value, struct plan *plan)
{
    return !value || read_number(reader, value, "choices.state_block", INT64_MAX,
                                 &plan->choices->state_block);
}

static void complete_stage(struct plan *plan)
{
    if (plan->choices && plan->ranks > 1 && !plan->choices->stage && !plan->choices->fast)
        plan->choices->stage = plan->layout->places[TRACE_GATHERED] ? 3 : 2;
}

/* A plan may lack choices. */
static bool read_choices(struct plan_reader *reader, const json_t *root, struct plan *plan)
{
    const json_t *object = json_object_get(root, "choices");
    const json_t *recompute = json_object_get(object, "recompute");
    const json_t *host_update = json_object_get(object, "host_update");
    if (!object || json_is_null(object))
        return true;
    if (!json_is_array(recompute) || !json_is_array(host_update) ||
        !json_is_boolean(json_object_get(object, "host_embedding")))
        return refuse(reader, "choices", "recompute, host_embedding and host_update are required");
    plan->choices = run_choices_new((uint32_t)json_array_size(recompute),
                                    (uint32_t)json_array_size(host_update));
    plan->choices->batch = plan->batch;
    plan->choices->micro_batches = plan->micro_batches;
    plan->choices->host_embedding = json_is_true(json_object_get(object, "host_embedding"));
    plan->choices->split_masters = json_is_true(json_object_get(object, "split_master"));
    plan->choices->second_backward = json_is_true(json_object_get(object, "backward_twice"));
    const json_t *offload = json_object_get(object, "offload");
    if (offload &&
        (json_array_size(offload) != plan->choices->layer_count ||
         !read_flags(reader, offload, plan->choices->layer_count, plan->choices->offload)))
        return refuse(reader, "choices.offload", "must have one entry per layer");
    return read_stage(reader, object, plan) &&
           read_state_block(reader, json_object_get(object, "state_block"), plan) &&
           read_flags(reader, recompute, plan->choices->layer_count, plan->choices->recompute) &&
           read_flags(reader, host_update, plan->choices->tensor_count,
                      plan->choices->host_update) &&
           read_frozen(reader, json_object_get(object, "frozen"), plan->choices) &&
           read_first_update(reader, json_object_get(object, "first_update"), plan->choices) &&
           read_update_after(reader, json_object_get(object, "update_after"), plan->choices);
}

/* Older plans, and those that cut nothing, do not say. */
static bool read_cut(struct plan_reader *reader, const json_t *root, struct plan *plan)
{
    return !json_object_get(root, "cut_from_bytes") ||
           read_member(reader, root, "cut_from_bytes", INT64_MAX, &plan->cut_from_bytes);
}

static bool read_head(struct plan_reader *reader, const json_t *root, struct plan *plan)
{
    const json_t *made_for = json_object_get(root, "made_for");
    plan->digest = g_strdup(json_string_value(json_object_get(made_for, "digest")));
    plan->model = g_strdup(json_string_value(json_object_get(made_for, "model")));
    plan->precision = g_strdup(json_string_value(json_object_get(made_for, "precision")));
    plan->made_by = g_strdup(json_string_value(json_object_get(root, "made_by")));
    plan->policy = g_strdup(json_string_value(json_object_get(root, "policy")));
    return read_u32(reader, made_for, "batch", &plan->batch) &&
           read_u32(reader, made_for, "sequence", &plan->sequence) &&
           read_u32(reader, made_for, "micro_batches", &plan->micro_batches) &&
           (!json_object_get(made_for, "ranks") ||
            read_u32(reader, made_for, "ranks", &plan->ranks)) &&
           read_choices(reader, root, plan) &&
           read_u32(reader, root, "look_ahead", &plan->look_ahead) &&
           read_number_or_null(reader, json_object_get(root, "device_budget_bytes"),
                               "device_budget_bytes", &plan->device_budget) &&
           read_number_or_null(reader, json_object_get(root, "host_budget_bytes"),
                               "host_budget_bytes", &plan->host_budget) &&
           read_member(reader, root, "device_bytes", INT64_MAX, &plan->arena_bytes) &&
           read_member(reader, root, "host_bytes", INT64_MAX, &plan->host_pool_bytes) &&
           read_cut(reader, root, plan) &&
           read_member(reader, root, "staging_address", INT64_MAX, &plan->staging_address);
}

/* A plan may lack a certificate, but nothing else may stand in its place. */
static bool read_certificate(struct plan_reader *reader, const json_t *root, struct plan *plan)
{
    const json_t *object = json_object_get(root, "certificate");
    const char *reason;
    if (!object)
        return true;
    plan->certificate =
        certificate_from_json(object, plan->choices ? plan->choices->layer_count : 0, &reason);
    return plan->certificate || refuse(reader, "certificate", reason);
}

static bool has_known_keys(struct plan_reader *reader, json_t *root)
{
    static const char *const known[] = {"pstar_plan",
                                        "made_for",
                                        "choices",
                                        "made_by",
                                        "policy",
                                        "look_ahead",
                                        "layout",
                                        "device_budget_bytes",
                                        "device_bytes",
                                        "host_bytes",
                                        "staging_address",
                                        "host_budget_bytes",
                                        "host_address",
                                        "initial_address",
                                        "moments",
                                        "predicted",
                                        "certificate",
                                        "nvme_bytes",
                                        "nvme_address",
                                        "nvme_block_bytes",
                                        "nvme_depth",
                                        "cut_from_bytes",
                                        NULL};
    const char *key;
    json_t *value;
    json_object_foreach (root, key, value)
        if (!g_strv_contains(known, key))
            return refuse(reader, key, "unknown key");
    return true;
}

/* A plan may leave the blocks of its file to the run. */
static bool read_nvme_blocks(struct plan_reader *reader, const json_t *root, struct plan *plan)
{
    static const char key[] = "nvme_block_bytes";
    uint64_t depth = 0;
    if (!json_object_get(root, key) && !json_object_get(root, "nvme_depth"))
        return true;
    if (!plan->nvme_bytes)
        return refuse(reader, key, "the plan has no file in NVMe, which nvme_bytes would say");
    if (!read_member(reader, root, key, PLAN_NVME_LARGEST_BLOCK, &plan->nvme_block_bytes) ||
        !read_member(reader, root, "nvme_depth", PLAN_NVME_MOST_DEPTH, &depth))
        return false;
    plan->nvme_depth = (uint32_t)depth;
    return plan_nvme_blocks_fit(plan->nvme_block_bytes, depth) ||
           refuse(reader, key, "must be a multiple of 4096 above 0, and nvme_depth at least 1");
}

/* A plan may have no homes in NVMe. */
static bool read_nvme(struct plan_reader *reader, const json_t *root, struct plan *plan)
{
    return (!json_object_get(root, "nvme_bytes") ||
            (read_member(reader, root, "nvme_bytes", INT64_MAX, &plan->nvme_bytes) &&
             read_numbers(reader, root, "nvme_address", plan->layout->chunk_count,
                          &plan->nvme_address))) &&
           read_nvme_blocks(reader, root, plan);
}

static bool read_plan(struct plan_reader *reader, const json_t *root, struct plan *plan)
{
    json_int_t format = json_integer_value(json_object_get(root, "pstar_plan"));
    if (!format)
        return refuse(reader, "pstar_plan", "missing: this file is not a plan");
    if (format != PLAN_FORMAT)
        return refuse(reader, "pstar_plan", "this program cannot read plans of this version");
    if (!has_known_keys(reader, (json_t *)root) || !read_head(reader, root, plan) ||
        !read_layout(reader, root, &plan->layout))
        return false;
    complete_stage(plan);
    return read_numbers(reader, root, "host_address", plan->layout->chunk_count,
                        &plan->host_address) &&
           read_numbers(reader, root, "initial_address", plan->layout->chunk_count,
                        &plan->initial_address) &&
           read_nvme(reader, root, plan) && read_schedule(reader, root, plan) &&
           read_figures(reader, root, &plan->predicted) && read_certificate(reader, root, plan);
}

struct plan *plan_read(const char *path, GError **error)
{
    if (!input_text_check(path, INPUT_LARGE, error))
        return NULL;
    GError *own = NULL;
    struct plan_reader reader = {.path = path, .error = &own};
    json_error_t where;
    json_t *root = input_json_load(path, JSON_REJECT_DUPLICATES, &where);
    struct plan *plan = NULL;
    if (!root) {
        g_autofree char *problem = input_json_problem(&where);
        g_set_error(&own, PLAN_ERROR, PLAN_ERROR_INVALID, "%s: %s", path, problem);
    } else {
        plan = g_new0(struct plan, 1);
        if (!read_plan(&reader, root, plan)) {
            plan_free(plan);
            plan = NULL;
        }
    }
    json_decref(root);
    if (own)
        g_propagate_error(error, own);
    return plan;
}
