#include "traces/import/json_events.h"
#include "traces/import/kineto.h"
#include "traces/trace.h"

#include <string.h>

/* Scopes of RecordFunction. */
enum { SCOPE_BACKWARD = 1, SCOPE_USER = 7 };

/* Distance of two positions in the order, so that others fit between them. */
enum { TICK_NS = 1000 };

struct node {
    uint64_t id, parent;
    uint64_t order; /* position of its start among all */
    uint64_t thread, scope;
    struct kineto_range range;
    guint first_use, use_count; /* in file order */
};

struct chakra_reading {
    struct kineto *kineto;
    GArray *nodes; /* struct node */
    GArray *uses;  /* struct kineto_use */
};

/* Returns the value of an attribute; NULL if there is none. */
static const json_t *attribute(const json_t *node, const char *name)
{
    const json_t *attributes = json_object_get(node, "attrs");
    for (size_t i = 0; i < json_array_size(attributes); i++) {
        const json_t *found = json_array_get(attributes, i);
        if (strcmp(kineto_event_text(found, "name"), name) == 0)
            return json_object_get(found, "value");
    }
    return NULL;
}

static uint64_t number_of(const json_t *node, const char *name)
{
    double value = json_number_value(attribute(node, name));
    return value > 0 && value < 0x1p53 ? (uint64_t)value : 0;
}

/* Returns "float" for "Tensor(float)"; 0 if it is not a tensor. */
static uint32_t element_type(struct kineto *kineto, const json_t *types)
{
    const char *type = json_string_value(json_array_get(types, 0));
    if (!type || !g_str_has_prefix(type, "Tensor("))
        return 0;
    g_autofree char *element = g_strndup(type + strlen("Tensor("),
                                         strcspn(type + strlen("Tensor("), ")"));
    return string_table_id(kineto->strings, element);
}

/* A tensor is [tensor, storage, offset, elements, bytes per element, device]. Tensors come alone or
 * in lists. */
static void take_uses(struct chakra_reading *reading, const json_t *value, bool output)
{
    bool tensor = json_array_size(value) == 6 && json_is_string(json_array_get(value, 5));
    for (size_t i = 0; !tensor && i < json_array_size(value); i++)
        take_uses(reading, json_array_get(value, i), output);
    if (!tensor)
        return;
    double offset = json_number_value(json_array_get(value, 2));
    double elements = json_number_value(json_array_get(value, 3));
    double bytes = (offset + elements) * json_number_value(json_array_get(value, 4));
    double storage = json_number_value(json_array_get(value, 1));
    struct kineto_use use = {.storage = storage > 0 && storage < 0x1p53 ? (uint64_t)storage : 0,
                             .bytes = bytes > 0 && bytes < 0x1p53 ? (uint64_t)bytes : 0,
                             .output = output};
    if (use.storage > 0 && use.bytes > 0)
        g_array_append_val(reading->uses, use);
}

static uint64_t sequence_of(const json_t *node)
{
    const json_t *value = attribute(node, "seq_id");
    double number = json_number_value(value);
    return value && number >= 0 && number < 0x1p53 ? (uint64_t)number : KINETO_NO_SEQUENCE;
}

static bool take_node(void *data, const json_t *object, GError **error)
{
    struct chakra_reading *reading = (struct chakra_reading *)data;
    struct kineto *kineto = reading->kineto;
    const json_t *inputs = json_object_get(object, "inputs");
    const json_t *outputs = json_object_get(object, "outputs");
    const json_t *shapes = json_object_get(inputs, "shapes");
    struct node node = {.id = kineto_event_number(object, "id"),
                        .parent = kineto_event_number(object, "ctrl_deps"),
                        .order = number_of(object, "rf_id"),
                        .thread = number_of(object, "tid"),
                        .scope = number_of(object, "scope"),
                        .first_use = reading->uses->len};
    (void)error;
    if (node.order == 0) /* it is the process or a thread */
        return true;
    node.range = (struct kineto_range){
        .sequence = sequence_of(object),
        .thread = (uint32_t)(node.thread & 0xffffff),
        .name = string_table_id(kineto->strings, kineto_event_text(object, "name")),
        .shape = kineto_shape(kineto, shapes, 0),
        .second_shape = kineto_shape(kineto, shapes, 1),
        .type = element_type(kineto, json_object_get(inputs, "types")),
        .elements = kineto_elements(shapes, 0),
        .annotation = node.scope == SCOPE_USER};
    kineto->shapes = kineto->shapes || node.range.shape != 0;
    take_uses(reading, json_object_get(inputs, "values"), false);
    take_uses(reading, json_object_get(outputs, "values"), true);
    node.use_count = reading->uses->len - node.first_use;
    g_array_append_val(reading->nodes, node);
    return true;
}

static int by_order(const void *left, const void *right)
{
    const struct node *a = (const struct node *)left, *b = (const struct node *)right;
    return (a->order > b->order) - (a->order < b->order);
}

/* An autograd node is executed within a range without a number; gives the range the node's number.
 */
static void number_executions(GArray *nodes)
{
    for (guint i = 1; i < nodes->len; i++) {
        const struct node *node = &g_array_index(nodes, struct node, i);
        struct node *before = &g_array_index(nodes, struct node, i - 1);
        if (node->scope == SCOPE_BACKWARD && before->id == node->parent &&
            before->range.sequence == KINETO_NO_SEQUENCE)
            before->range.sequence = node->range.sequence;
    }
}

/* Ends the open nodes that do not contain the thread's next node. */
static void close_others(GPtrArray *open, uint64_t parent, uint64_t *now_ns)
{
    while (open->len > 0) {
        struct node *last = (struct node *)g_ptr_array_index(open, open->len - 1);
        if (last->id == parent)
            return;
        last->range.end_ns = *now_ns += TICK_NS;
        g_ptr_array_set_size(open, (gint)open->len - 1);
    }
}

static GPtrArray *open_of(GHashTable *threads, uint64_t thread)
{
    gpointer key = GSIZE_TO_POINTER(thread);
    GPtrArray *open = (GPtrArray *)g_hash_table_lookup(threads, key);
    if (!open) {
        open = g_ptr_array_new();
        g_hash_table_insert(threads, key, open);
    }
    return open;
}

/* The file is ordered by ends. Numbers give the order of starts, and parents tell where nodes end.
 */
static void set_places(GArray *nodes)
{
    GHashTable *threads = g_hash_table_new_full(NULL, NULL, NULL,
                                                (GDestroyNotify)g_ptr_array_unref);
    GHashTableIter each;
    gpointer open;
    uint64_t now_ns = TICK_NS;
    g_array_sort(nodes, by_order);
    for (guint i = 0; i < nodes->len; i++) {
        struct node *node = &g_array_index(nodes, struct node, i);
        GPtrArray *mine = open_of(threads, node->thread);
        close_others(mine, node->parent, &now_ns);
        node->range.start_ns = now_ns += TICK_NS;
        g_ptr_array_add(mine, node);
    }
    g_hash_table_iter_init(&each, threads);
    while (g_hash_table_iter_next(&each, NULL, &open))
        close_others((GPtrArray *)open, 0, &now_ns);
    g_hash_table_unref(threads);
}

static GHashTable *ranges_by_number(const struct kineto *times)
{
    GHashTable *ranges = g_hash_table_new(g_int64_hash, g_int64_equal);
    for (guint i = 0; i < times->ranges->len; i++) {
        struct kineto_range *range = &g_array_index(times->ranges, struct kineto_range, i);
        if (range->number > 0)
            g_hash_table_insert(ranges, &range->number, range);
    }
    return ranges;
}

/* Sets each node's times by its number. Nodes without times are dropped. */
static void set_times(const struct chakra_reading *reading, const struct kineto *times)
{
    GHashTable *ranges = ranges_by_number(times);
    guint kept = 0, all = reading->nodes->len;
    g_array_sort(reading->nodes, by_order);
    for (guint i = 0; i < all; i++) {
        struct node node = g_array_index(reading->nodes, struct node, i);
        const struct kineto_range *range =
            (const struct kineto_range *)g_hash_table_lookup(ranges, &node.order);
        if (!range)
            continue;
        node.range.start_ns = range->start_ns;
        node.range.end_ns = range->end_ns;
        node.range.process = range->process;
        node.range.thread = range->thread;
        g_array_index(reading->nodes, struct node, kept++) = node;
    }
    g_array_set_size(reading->nodes, kept);
    if (kept < all)
        g_ptr_array_add(reading->kineto->notes,
                        g_strdup_printf("%u of %u operators: the profiler has no times of them",
                                        all - kept, all));
    g_hash_table_unref(ranges);
}

/* An output that is not also an input is new: its storage number may have belonged to an earlier
 * storage that was freed. */
static bool is_new(const struct chakra_reading *reading, const struct node *node,
                   const struct kineto_use *use)
{
    for (guint u = 0; use->output && u < node->use_count; u++) {
        const struct kineto_use *other = &g_array_index(reading->uses, struct kineto_use,
                                                        node->first_use + u);
        if (!other->output && other->storage == use->storage)
            return false;
    }
    return use->output;
}

static void add_ranges(const struct chakra_reading *reading)
{
    for (guint i = 0; i < reading->nodes->len; i++) {
        const struct node *node = &g_array_index(reading->nodes, struct node, i);
        g_array_append_val(reading->kineto->ranges, node->range);
        for (guint u = 0; u < node->use_count; u++) {
            struct kineto_use use = g_array_index(reading->uses, struct kineto_use,
                                                  node->first_use + u);
            use.time_ns = node->range.start_ns;
            use.output = is_new(reading, node, &use);
            g_array_append_val(reading->kineto->uses, use);
        }
    }
}

/* A storage since it was last new. */
struct storage {
    uint64_t first_ns, last_ns, bytes;
    bool made; /* an operator made it, so it did not exist before */
};

static void add_memory(const struct kineto *kineto, uint64_t id, const struct storage *storage)
{
    struct kineto_memory begin = {
        .time_ns = storage->first_ns + 1, .address = id, .bytes = (int64_t)storage->bytes};
    struct kineto_memory end = {
        .time_ns = storage->last_ns + 2, .address = id, .bytes = -(int64_t)storage->bytes};
    if (!storage->made)
        return;
    g_array_append_val(kineto->memory, begin);
    g_array_append_val(kineto->memory, end);
}

static struct storage *storage_of(GHashTable *storages, uint64_t id)
{
    gpointer key = GSIZE_TO_POINTER(id);
    struct storage *storage = (struct storage *)g_hash_table_lookup(storages, key);
    if (!storage) {
        storage = g_new0(struct storage, 1);
        g_hash_table_insert(storages, key, storage);
    }
    return storage;
}

static void add_storages(const struct kineto *kineto)
{
    GHashTable *storages = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    GHashTableIter each;
    gpointer id, found;
    for (guint i = 0; i < kineto->uses->len; i++) {
        const struct kineto_use *use = &g_array_index(kineto->uses, struct kineto_use, i);
        struct storage *storage = storage_of(storages, use->storage);
        if (use->output) {
            add_memory(kineto, use->storage, storage);
            *storage = (struct storage){.first_ns = use->time_ns, .made = true};
        }
        storage->last_ns = use->time_ns;
        storage->bytes = MAX(storage->bytes, use->bytes);
    }
    g_hash_table_iter_init(&each, storages);
    while (g_hash_table_iter_next(&each, &id, &found))
        add_memory(kineto, GPOINTER_TO_SIZE(id), (const struct storage *)found);
    g_hash_table_unref(storages);
}

struct kineto *chakra_read(const char *path, const struct kineto *times, GError **error)
{
    struct chakra_reading reading = {.kineto = kineto_new(),
                                     .nodes = g_array_new(FALSE, FALSE, sizeof(struct node)),
                                     .uses = g_array_new(FALSE, FALSE, sizeof(struct kineto_use))};
    json_t *others = json_events_read(path, "nodes", take_node, &reading, error);
    reading.kineto->untimed = times == NULL;
    if (others && times)
        set_times(&reading, times);
    else if (others)
        set_places(reading.nodes);
    if (others && times && reading.nodes->len == 0) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: the profiler's file has no times of its operators: both files must come "
                    "from the same run",
                    path);
        g_clear_pointer(&reading.kineto, kineto_free);
    } else if (others) {
        number_executions(reading.nodes);
        add_ranges(&reading);
        add_storages(reading.kineto);
        kineto_sort(reading.kineto);
    } else {
        g_clear_pointer(&reading.kineto, kineto_free);
    }
    json_decref(others);
    g_array_unref(reading.nodes);
    g_array_unref(reading.uses);
    return reading.kineto;
}
