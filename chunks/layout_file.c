#include "chunks/layout_file.h"

#include "base/files.h"
#include "chunks/plan.h"
#include "chunks/slots.h"

#include <jansson.h>

#define LAYOUT_FORMAT 1 /* value of the key "pstar_layout" */

/* A layout file while it is being read. */
struct reading {
    const char *path;
    const struct trace *trace;
    GHashTable *tensors; /* name to index + 1 */
    struct layout *layout;
    GArray *chunks; /* struct chunk, of all lists so far */
    GError **error;
};

G_GNUC_PRINTF(2, 3)
static bool refuse(const struct reading *reading, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(reading->error, LAYOUT_ERROR, LAYOUT_ERROR_INVALID, "%s: %s", reading->path,
                reason);
    return false;
}

/* Finds what a name stands for: a tensor with all of its blocks in the list, or "NAME[3]", one of
 * several. */
static bool find_blocks(const struct reading *reading, int list, const char *name,
                        tensor_id *tensor, uint32_t *first, uint32_t *end)
{
    const char *bracket = name ? strrchr(name, '[') : NULL;
    g_autofree char *of = bracket ? g_strndup(name, (gsize)(bracket - name)) : g_strdup(name);
    g_autofree char *number = bracket ? g_strdup(bracket + 1) : NULL;
    guint found = GPOINTER_TO_UINT(name ? g_hash_table_lookup(reading->tensors, name) : NULL);
    uint64_t block = 0;
    if (!found && bracket && g_str_has_suffix(number, "]")) {
        number[strlen(number) - 1] = '\0';
        found = GPOINTER_TO_UINT(g_hash_table_lookup(reading->tensors, of));
        uint32_t blocks = found ? trace_blocks(reading->trace, (enum trace_list)list, found - 1)
                                : 1;
        if (blocks == 1 || !g_ascii_string_to_unsigned(number, 10, 0, blocks - 1, &block, NULL))
            return false;
        *tensor = found - 1;
        *first = (uint32_t)block;
        *end = *first + 1;
        return true;
    }
    *tensor = found - 1;
    *first = 0;
    *end = found ? trace_blocks(reading->trace, (enum trace_list)list, found - 1) : 0;
    return found;
}

/* Appends a tensor, or blocks of it, to the last chunk. */
static bool add_tensor(struct reading *reading, int list, const char *name)
{
    struct layout *layout = reading->layout;
    struct chunk *chunk = &g_array_index(reading->chunks, struct chunk, reading->chunks->len - 1);
    tensor_id tensor;
    uint32_t first, end;
    if (!find_blocks(reading, list, name, &tensor, &first, &end))
        return refuse(reading, "list %s: there is no tensor '%s'", trace_list_name(list),
                      name ? name : "");
    for (uint32_t b = first; b < end; b++) {
        struct layout_place *place =
            &layout->places[list][layout_place_index(layout, list, tensor, b)];
        if (place->chunk != NO_INDEX)
            return refuse(reading, "list %s: tensor %s appears twice", trace_list_name(list), name);
        *place = (struct layout_place){.chunk = reading->chunks->len - 1,
                                       .offset = chunk->copy_bytes};
        chunk->copy_bytes += layout_align(trace_block_bytes(reading->trace, list, tensor, b));
        chunk->copy_bytes = MAX(chunk->copy_bytes, LAYOUT_ALIGNMENT); /* as layout_pack */
        chunk->slot_bytes = chunk->copy_bytes;
    }
    return true;
}

static bool add_chunk(struct reading *reading, int list, size_t index, const json_t *names)
{
    struct layout *layout = reading->layout;
    struct chunk empty = {.list = (uint8_t)list};
    if (!json_array_size(names))
        return refuse(reading, "list %s: chunk %zu must be a non-empty list of tensors",
                      trace_list_name(list), index);
    g_array_append_val(reading->chunks, empty);
    for (size_t i = 0; i < json_array_size(names); i++)
        if (!add_tensor(reading, list, json_string_value(json_array_get(names, i))))
            return false;
    uint64_t used =
        g_array_index(reading->chunks, struct chunk, reading->chunks->len - 1).copy_bytes;
    if (layout->chunk_bytes[list] && used > layout->chunk_bytes[list])
        return refuse(reading,
                      "list %s: chunk %zu takes %" G_GUINT64_FORMAT
                      " bytes; chunk_bytes allows %" G_GUINT64_FORMAT,
                      trace_list_name(list), index, used, layout->chunk_bytes[list]);
    return true;
}

static bool read_list(struct reading *reading, int list, const json_t *chunks)
{
    struct layout *layout = reading->layout;
    uint64_t largest = 0;
    guint first = reading->chunks->len;
    if (!json_is_array(chunks))
        return refuse(reading, "list %s is missing", trace_list_name(list));
    uint32_t places = layout_place_count(layout, list);
    layout->places[list] = g_new(struct layout_place, places);
    for (uint32_t i = 0; i < places; i++)
        layout->places[list][i] = (struct layout_place){.chunk = NO_INDEX};
    for (size_t i = 0; i < json_array_size(chunks); i++)
        if (!add_chunk(reading, list, i, json_array_get(chunks, i)))
            return false;
    for (uint32_t i = 0; i < places; i++)
        if (layout->places[list][i].chunk == NO_INDEX) {
            g_autofree char *name = layout_place_name(layout, reading->trace, list, i);
            return refuse(reading, "list %s: tensor %s is missing", trace_list_name(list), name);
        }
    for (guint c = first; c < reading->chunks->len; c++)
        largest = MAX(largest, g_array_index(reading->chunks, struct chunk, c).copy_bytes);
    if (!layout->chunk_bytes[list])
        layout->chunk_bytes[list] = largest;
    return true;
}

/* Returns the list's value: one that all lists share, or the list's own in an object. */
static const json_t *of_list(const json_t *value, int list)
{
    return json_is_object(value) ? json_object_get(value, trace_list_name(list)) : value;
}

static bool check_lists(const struct reading *reading, json_t *value)
{
    const char *name;
    json_t *ignored;
    json_object_foreach (value, name, ignored) {
        uint8_t list;
        if (!trace_list_parse(name, &list)) {
            g_autofree char *names = trace_list_names();
            return refuse(reading, "there is no list of chunks '%s'; the lists are %s", name,
                          names);
        }
        if (!reading->trace->list_element_bytes[list])
            return refuse(reading, "this run has no list %s", name);
    }
    return true;
}

static bool read_limit(struct reading *reading, int list, const json_t *sizes)
{
    const json_t *size = of_list(sizes, list);
    if (!size)
        return true;
    if (json_integer_value(size) <= 0)
        return refuse(reading, "chunk_bytes of list %s must be a positive integer",
                      trace_list_name(list));
    reading->layout->chunk_bytes[list] = (uint64_t)json_integer_value(size);
    return true;
}

static bool read_lists(struct reading *reading, const json_t *root)
{
    json_t *chunks = json_object_get(root, "chunks"), *sizes = json_object_get(root, "chunk_bytes");
    if (!check_lists(reading, chunks) || !check_lists(reading, sizes))
        return false;
    for (int list = 0; list < TRACE_LISTS; list++)
        if (reading->trace->list_element_bytes[list] &&
            (!read_limit(reading, list, sizes) || !read_list(reading, list, of_list(chunks, list))))
            return false;
    return true;
}

/* Puts the chunk that holds a tensor's block into the tensor's group. `first` is a tensor in each
 * chunk + 1. */
static bool group_chunk(const struct reading *reading, struct layout *layout, int list,
                        tensor_id tensor, uint32_t block, uint32_t group, uint32_t *first)
{
    chunk_id chunk = layout->places[list][layout_place_index(layout, list, tensor, block)].chunk;
    const struct trace *trace = reading->trace;
    const char *name = trace->tensors[tensor].name;
    if (first[chunk] && layout->chunks[chunk].group != group)
        return refuse(reading,
                      "lists must nest: tensors %s and %s share a chunk of list %s but are in two "
                      "groups",
                      trace->tensors[first[chunk] - 1].name, name, trace_list_name(list));
    if (first[chunk] && first[chunk] != tensor + 1 &&
        (trace_is_cut(trace, tensor) || trace_is_cut(trace, first[chunk] - 1)))
        return refuse(reading,
                      "list %s: tensors %s and %s share a chunk, but one of them is cut into state "
                      "blocks (see --state-block)",
                      trace_list_name(list), trace->tensors[first[chunk] - 1].name, name);
    first[chunk] = tensor + 1;
    layout->chunks[chunk].group = group;
    return true;
}

/* Derives the chunks' groups from where the tensors lie. */
static bool group_chunks(const struct reading *reading, struct layout *layout)
{
    int coarse = layout_coarsest_list(layout);
    g_autofree uint8_t *continues = layout_continuations(layout);
    g_autofree uint32_t *first = g_new0(uint32_t, layout->chunk_count);
    g_autofree uint32_t *number = g_new(uint32_t, layout->chunk_count);
    layout->group_count = 0;
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        number[c] = layout->chunks[c].list == coarse && !continues[c] ? layout->group_count++ : 0;
    for (int list = 0; list < TRACE_LISTS; list++)
        for (uint32_t t = 0; layout->places[list] && t < layout->tensor_count; t++) {
            uint32_t head = layout_place_index(layout, coarse, t, 0);
            uint32_t group = number[layout->places[coarse][head].chunk];
            for (uint32_t b = 0; b < trace_blocks(reading->trace, list, t); b++)
                if (!group_chunk(reading, layout, list, t, b, group, first))
                    return false;
        }
    return true;
}

/* Reads the lists, then adds the chunks of buffers, which no file lists. */
static bool group_lists(const struct reading *reading, struct layout *layout)
{
    layout_drop_buffers(layout);
    bool ok = group_chunks(reading, layout);
    if (ok)
        layout_hold_buffers(layout, reading->trace);
    return ok;
}

static void name_tensors(struct reading *reading)
{
    reading->tensors = g_hash_table_new(g_str_hash, g_str_equal);
    for (uint32_t t = 0; t < reading->trace->tensor_count; t++)
        g_hash_table_insert(reading->tensors, reading->trace->tensors[t].name,
                            GUINT_TO_POINTER(t + 1));
}

static struct layout *read_layout(struct reading *reading, const json_t *root)
{
    struct layout *layout = reading->layout = g_new0(struct layout, 1);
    layout->tensor_count = reading->trace->tensor_count;
    layout_number_blocks(layout, reading->trace);
    reading->chunks = g_array_new(FALSE, FALSE, sizeof(struct chunk));
    name_tensors(reading);
    bool ok = read_lists(reading, root);
    g_hash_table_unref(reading->tensors);
    layout->chunk_count = reading->chunks->len;
    layout->chunks = (struct chunk *)(void *)g_array_free(reading->chunks, FALSE);
    if (ok && group_lists(reading, layout))
        return layout;
    layout_free(layout);
    return NULL;
}

/* A plan names no tensors, so the trace must have the same model's tensors, in the same lists. Its
 * slots are of its budget. */
static struct layout *read_plan_layout(const struct reading *reading)
{
    struct plan *plan = plan_read(reading->path, reading->error);
    struct layout *layout = NULL;
    if (!plan)
        return NULL;
    if (g_strcmp0(plan->model, reading->trace->model))
        refuse(reading, "the plan was made for model %s, but the run's model is %s", plan->model,
               reading->trace->model);
    else if (!plan_check_layout(plan, reading->trace, reading->error))
        g_prefix_error(reading->error, "%s: ", reading->path);
    else if (group_lists(reading, plan->layout))
        layout = g_steal_pointer(&plan->layout);
    if (layout)
        slots_tighten(layout);
    plan_free(plan);
    return layout;
}

struct layout *layout_read(const char *path, const struct trace *trace, GError **error)
{
    if (!input_text_check(path, INPUT_LARGE, error))
        return NULL;
    struct reading reading = {.path = path, .trace = trace, .error = error};
    struct layout *layout = NULL;
    json_error_t where;
    json_t *root = input_json_load(path, JSON_REJECT_DUPLICATES, &where);
    g_autofree char *problem = root ? NULL : input_json_problem(&where);
    if (!root)
        refuse(&reading, "%s", problem);
    else if (json_object_get(root, "pstar_plan"))
        layout = read_plan_layout(&reading);
    else if (json_integer_value(json_object_get(root, "pstar_layout")) != LAYOUT_FORMAT)
        refuse(&reading, "neither a plan nor a layout of a version that this program reads");
    else
        layout = read_layout(&reading, root);
    json_decref(root);
    return layout;
}
