#include "traces/import/json_events.h"
#include "traces/import/kineto.h"

#include <math.h>
#include <string.h>

/* Later times count as unknown, so that a start plus a duration is below 2^63 ns. */
#define MOST_US 4.6e15

/* Converts whole and fraction separately, because a double cannot hold times since 1970 in
 * nanoseconds. */
static uint64_t to_ns(double microseconds)
{
    if (!(microseconds > 0 && microseconds < MOST_US))
        return 0;
    double whole = floor(microseconds);
    return (uint64_t)whole * 1000 + (uint64_t)llround((microseconds - whole) * 1000);
}

uint64_t kineto_event_ns(const json_t *event, const char *key)
{
    return to_ns(json_number_value(json_object_get(event, key)));
}

uint64_t kineto_event_end_ns(const json_t *event)
{
    return kineto_event_ns(event, "ts") + kineto_event_ns(event, "dur");
}

uint64_t kineto_event_number(const json_t *object, const char *key)
{
    double value = json_number_value(json_object_get(object, key));
    return value > 0 && value < 0x1p63 ? (uint64_t)value : 0;
}

uint32_t kineto_event_number32(const json_t *object, const char *key)
{
    uint64_t value = kineto_event_number(object, key);
    return value <= UINT32_MAX ? (uint32_t)value : 0;
}

const char *kineto_event_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return !text ? "" : text;
}

/* Sets the fields that all stream records have, whatever their type. */
#define SET_IN_STREAM(record, event, args)                                 \
    do {                                                                   \
        (record).start_ns = kineto_event_ns(event, "ts");                  \
        (record).end_ns = kineto_event_end_ns(event);                      \
        (record).device = kineto_event_number32(args, "device");           \
        (record).context = kineto_event_number32(args, "context");         \
        (record).stream = kineto_event_number32(args, "stream");           \
        (record).correlation = kineto_event_number32(args, "correlation"); \
    } while (0)

static void take_three(const json_t *args, const char *key, uint32_t *three)
{
    const json_t *array = json_object_get(args, key);
    for (size_t i = 0; i < 3; i++)
        three[i] = (uint32_t)CLAMP(json_number_value(json_array_get(array, i)), 0, UINT32_MAX);
}

/* "scale" of "void ours::scale<float>(float*, int)". */
static uint32_t short_name(struct string_table *strings, const char *name)
{
    size_t end = strcspn(name, "<(");
    size_t begin = end;
    while (begin > 0 && !strchr(" :", name[begin - 1]))
        begin--;
    g_autofree char *text = g_strndup(name + begin, end - begin);
    return string_table_id(strings, *text == '\0' ? name : text);
}

static uint32_t bytes_of_type(const char *type)
{
    static const struct {
        const char *type;
        uint32_t bytes;
    } types[] = {{"Float", 4}, {"BFloat16", 2}, {"Half", 2}, {"Double", 8}, {"Int", 4},
                 {"Long", 8},  {"Byte", 1},     {"Char", 1}, {"Bool", 1}};
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        if (g_ascii_strcasecmp(type, types[i].type) == 0)
            return types[i].bytes;
    return 0;
}

/* The names are those of PyTorch's ProcessGroupNCCL and ProcessGroupXCCL. */
static enum kineto_exchange exchange_of(const char *name)
{
    static const struct {
        const char *name;
        enum kineto_exchange exchange;
    } names[] = {{"allreduce", KINETO_SUM},
                 {"_allgather_base", KINETO_GATHER},
                 {"all_gather", KINETO_GATHER},
                 {"allgather_into_tensor_coalesced", KINETO_GATHER},
                 {"_reduce_scatter_base", KINETO_SCATTER},
                 {"reduce_scatter", KINETO_SCATTER},
                 {"reduce_scatter_tensor_coalesced", KINETO_SCATTER}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
        if (strcmp(name, names[i].name) == 0)
            return names[i].exchange;
    return KINETO_UNKNOWN;
}

/* An all-gather puts out what all ranks put in, and a reduction to parts takes in what all ranks
 * get. Other numbers are not those of equal parts. */
static void take_collective(struct kineto *kineto, const json_t *args,
                            const struct kernel_record *kernel)
{
    enum kineto_exchange exchange = exchange_of(kineto_event_text(args, "Collective name"));
    uint64_t in = kineto_event_number(args, "In msg nelems");
    uint64_t out = kineto_event_number(args, "Out msg nelems");
    uint64_t bytes = bytes_of_type(kineto_event_text(args, "dtype"));
    uint32_t ranks = kineto_event_number32(args, "Group size");
    uint64_t whole = exchange == KINETO_GATHER ? out : in;
    uint64_t part = exchange == KINETO_GATHER ? in : exchange == KINETO_SCATTER ? out : 0;
    bool even = exchange == KINETO_SUM || (ranks && whole / ranks == part && whole % ranks == 0);
    struct kineto_collective collective = {.start_ns = kernel->start_ns, .end_ns = kernel->end_ns};
    if (exchange != KINETO_UNKNOWN && even && whole && whole < UINT64_C(1) << 48 && bytes &&
        ranks > 1) {
        collective.exchange = (uint8_t)exchange;
        collective.elements = whole;
        collective.bytes = whole * bytes;
        collective.ranks = ranks;
    }
    g_array_append_val(kineto->collectives, collective);
}

static void take_kernel(struct kineto *kineto, const json_t *event, const json_t *args)
{
    const char *name = kineto_event_text(event, "name");
    struct kernel_record kernel = {.name = string_table_id(kineto->strings, name),
                                   .short_name = short_name(kineto->strings, name)};
    struct launch_record launch = {
        .registers = kineto_event_number32(args, "registers per thread"),
        .static_shared_bytes = kineto_event_number32(args, "shared memory")};
    SET_IN_STREAM(kernel, event, args);
    take_three(args, "grid", launch.grid);
    take_three(args, "block", launch.block);
    g_array_append_val(kineto->kernels, kernel);
    if (kernel_is_collective(string_table_text(kineto->strings, kernel.short_name)))
        take_collective(kineto, args, &kernel);
    g_array_append_val(kineto->launches, launch);
}

static enum memory_kind memory_kind_of(const char *text, size_t bytes)
{
    for (uint32_t kind = 0; kind < MEMORY_KINDS; kind++)
        if (strlen(memory_kind_label(kind)) == bytes &&
            strncmp(memory_kind_label(kind), text, bytes) == 0)
            return (enum memory_kind)kind;
    return MEMORY_UNKNOWN;
}

/* "Memcpy HtoD (Pageable -> Device)". */
static void take_copy(struct kineto *kineto, const json_t *event, const json_t *args)
{
    static const struct {
        const char *text;
        enum copy_kind kind;
    } kinds[] = {{"HtoD", COPY_HOST_TO_DEVICE},
                 {"DtoH", COPY_DEVICE_TO_HOST},
                 {"DtoD", COPY_DEVICE_TO_DEVICE},
                 {"HtoH", COPY_HOST_TO_HOST},
                 {"PtoP", COPY_PEER_TO_PEER}};
    const char *name = kineto_event_text(event, "name");
    const char *from = strchr(name, '('), *to = !from ? NULL : strstr(from, " -> ");
    struct copy_record copy = {.bytes = kineto_event_number(args, "bytes"),
                               .source = MEMORY_UNKNOWN,
                               .destination = MEMORY_UNKNOWN};
    SET_IN_STREAM(copy, event, args);
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (strstr(name, kinds[i].text))
            copy.kind = kinds[i].kind;
    if (to) {
        copy.source = memory_kind_of(from + 1, (size_t)(to - from - 1));
        copy.destination = memory_kind_of(to + 4, strcspn(to + 4, ")"));
    }
    g_array_append_val(kineto->copies, copy);
}

static void take_set(struct kineto *kineto, const json_t *event, const json_t *args)
{
    const char *memory = strchr(kineto_event_text(event, "name"), '(');
    struct set_record set = {
        .bytes = kineto_event_number(args, "bytes"),
        .memory = !memory ? MEMORY_UNKNOWN : memory_kind_of(memory + 1, strcspn(memory + 1, ")"))};
    SET_IN_STREAM(set, event, args);
    g_array_append_val(kineto->sets, set);
}

static void take_sync(struct kineto *kineto, const json_t *event, const json_t *args)
{
    static const struct {
        const char *text;
        enum sync_type type;
    } types[] = {{"Stream Wait", SYNC_STREAM_WAITS_EVENT},
                 {"Event Sync", SYNC_EVENT},
                 {"Stream Sync", SYNC_STREAM},
                 {"Context Sync", SYNC_CONTEXT}};
    const char *name = kineto_event_text(event, "name");
    struct sync_record sync = {.type = SYNC_UNKNOWN};
    SET_IN_STREAM(sync, event, args);
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        if (strstr(name, types[i].text))
            sync.type = types[i].type;
    g_array_append_val(kineto->syncs, sync);
}

static void take_call(struct kineto *kineto, const json_t *event, const json_t *args,
                      enum call_class call_class)
{
    struct call_record call = {
        .start_ns = kineto_event_ns(event, "ts"),
        .end_ns = kineto_event_end_ns(event),
        .process = kineto_event_number32(event, "pid") & 0xffffff,
        .thread = kineto_event_number32(event, "tid") & 0xffffff,
        .correlation = kineto_event_number32(args, "correlation"),
        .call_class = call_class,
        .name = string_table_id(kineto->strings, kineto_event_text(event, "name")),
    };
    g_array_append_val(kineto->calls, call);
}

/* Adds an event of a device category. Returns false if the category is unknown. */
static bool kineto_take_device(struct kineto *kineto, const char *category, const json_t *event)
{
    const json_t *args = json_object_get(event, "args");
    if (g_ascii_strcasecmp(category, "kernel") == 0)
        take_kernel(kineto, event, args);
    else if (strcmp(category, "gpu_memcpy") == 0 || strcmp(category, "Memcpy") == 0)
        take_copy(kineto, event, args);
    else if (strcmp(category, "gpu_memset") == 0 || strcmp(category, "Memset") == 0)
        take_set(kineto, event, args);
    else if (strcmp(category, "cuda_sync") == 0)
        take_sync(kineto, event, args);
    else if (strcmp(category, "cuda_runtime") == 0 || strcmp(category, "Runtime") == 0)
        take_call(kineto, event, args, CALL_RUNTIME);
    else if (strcmp(category, "cuda_driver") == 0)
        take_call(kineto, event, args, CALL_DRIVER);
    else
        return false;
    return true;
}

static void clear_gpu(gpointer data)
{
    struct gpu_record *gpu = (struct gpu_record *)data;
    g_free(gpu->name);
    g_free(gpu->uuid);
}

struct kineto *kineto_new(void)
{
    struct kineto *kineto = g_new0(struct kineto, 1);
    kineto->strings = string_table_new();
    kineto->ranges = g_array_new(FALSE, FALSE, sizeof(struct kineto_range));
    kineto->memory = g_array_new(FALSE, FALSE, sizeof(struct kineto_memory));
    kineto->kernels = g_array_new(FALSE, FALSE, sizeof(struct kernel_record));
    kineto->collectives = g_array_new(FALSE, FALSE, sizeof(struct kineto_collective));
    kineto->launches = g_array_new(FALSE, FALSE, sizeof(struct launch_record));
    kineto->copies = g_array_new(FALSE, FALSE, sizeof(struct copy_record));
    kineto->sets = g_array_new(FALSE, FALSE, sizeof(struct set_record));
    kineto->syncs = g_array_new(FALSE, FALSE, sizeof(struct sync_record));
    kineto->calls = g_array_new(FALSE, FALSE, sizeof(struct call_record));
    kineto->allocations = g_array_new(FALSE, FALSE, sizeof(struct memory_record));
    kineto->uses = g_array_new(FALSE, FALSE, sizeof(struct kineto_use));
    kineto->gpus = g_array_new(FALSE, FALSE, sizeof(struct gpu_record));
    g_array_set_clear_func(kineto->gpus, clear_gpu);
    kineto->notes = g_ptr_array_new_with_free_func(g_free);
    kineto->ignored = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return kineto;
}

void kineto_free(struct kineto *kineto)
{
    if (!kineto)
        return;
    GArray *arrays[] = {kineto->ranges, kineto->memory, kineto->kernels,     kineto->launches,
                        kineto->copies, kineto->sets,   kineto->syncs,       kineto->calls,
                        kineto->gpus,   kineto->uses,   kineto->allocations, kineto->collectives};
    for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_array_unref(arrays[i]);
    g_hash_table_unref(kineto->ignored);
    g_ptr_array_unref(kineto->notes);
    string_table_free(kineto->strings);
    g_free(kineto);
}

uint32_t kineto_shape(struct kineto *kineto, const json_t *shapes, size_t index)
{
    const json_t *shape = json_array_get(shapes, index);
    if (!json_is_array(shape))
        return 0;
    GString *text = g_string_new("[");
    for (size_t i = 0; i < json_array_size(shape); i++)
        g_string_append_printf(text, "%s%.0f", i > 0 ? ", " : "",
                               json_number_value(json_array_get(shape, i)));
    g_string_append_c(text, ']');
    uint32_t id = string_table_id(kineto->strings, text->str);
    g_string_free(text, TRUE);
    return id;
}

uint64_t kineto_elements(const json_t *shapes, size_t index)
{
    const json_t *shape = json_array_get(shapes, index);
    double elements = json_is_array(shape) ? 1 : 0;
    for (size_t i = 0; i < json_array_size(shape); i++)
        elements *= json_number_value(json_array_get(shape, i));
    return elements > 0 && elements < 0x1p53 ? (uint64_t)elements : 0;
}

/* Nodes that accumulate gradients have the highest possible number, or none. */
static uint64_t sequence_of(const json_t *args)
{
    double value = json_number_value(json_object_get(args, "Sequence number"));
    return json_object_get(args, "Sequence number") && value >= 0 && value < 0x1p53
               ? (uint64_t)value
               : KINETO_NO_SEQUENCE;
}

static void take_range(struct kineto *kineto, const json_t *event, bool annotation)
{
    const json_t *args = json_object_get(event, "args");
    const json_t *shapes = json_object_get(args, "Input Dims");
    const json_t *types = json_object_get(args, "Input type");
    const char *type = json_string_value(json_array_get(types, 0));
    struct kineto_range range = {
        .start_ns = kineto_event_ns(event, "ts"),
        .end_ns = kineto_event_end_ns(event),
        .number = kineto_event_number(args, "Record function id"),
        .sequence = sequence_of(args),
        .process = kineto_event_number32(event, "pid") & 0xffffff,
        .thread = kineto_event_number32(event, "tid"),
        .name = string_table_id(kineto->strings, kineto_event_text(event, "name")),
        .shape = kineto_shape(kineto, shapes, 0),
        .second_shape = kineto_shape(kineto, shapes, 1),
        .type = !type ? 0 : string_table_id(kineto->strings, type),
        .elements = kineto_elements(shapes, 0),
        .annotation = annotation,
    };
    kineto->shapes = kineto->shapes || shapes;
    g_array_append_val(kineto->ranges, range);
}

/* Returns the allocated bytes, negative for a free. */
static int64_t changed_bytes(const json_t *args)
{
    double bytes = json_number_value(json_object_get(args, "Bytes"));
    return fabs(bytes) < 0x1p53 ? (int64_t)bytes : 0;
}

static void take_memory(struct kineto *kineto, const json_t *event)
{
    const json_t *args = json_object_get(event, "args");
    struct kineto_memory memory = {
        .time_ns = kineto_event_ns(event, "ts"),
        .address = kineto_event_number(args, "Addr"),
        .bytes = changed_bytes(args),
        .total_bytes = kineto_event_number(args, "Total Allocated"),
        .device_type = (int32_t)kineto_event_number32(args, "Device Type"),
        .device = kineto_event_number32(args, "Device Id"),
        .process = kineto_event_number32(event, "pid") & 0xffffff,
    };
    struct memory_record record = {
        .start_ns = memory.time_ns,
        .address = memory.address,
        .bytes = (uint64_t)ABS(memory.bytes),
        .device = memory.device,
        .process = memory.process,
        .kind = MEMORY_DEVICE,
        .operation = memory.bytes < 0 ? MEMORY_FREE : MEMORY_ALLOCATE,
    };
    g_array_append_val(kineto->memory, memory);
    if (memory.device_type == 1)
        g_array_append_val(kineto->allocations, record);
}

/* Counts ranges that are not read. The profiler's own span and repeated annotations are no loss. */
static void ignore(struct kineto *kineto, const char *category)
{
    if (strcmp(category, "Trace") == 0 || strcmp(category, "gpu_user_annotation") == 0)
        return;
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(kineto->ignored, category));
    g_hash_table_insert(kineto->ignored, g_utf8_make_valid(category, -1),
                        GUINT_TO_POINTER(count + 1));
}

static bool take_event(void *data, const json_t *event, GError **error)
{
    struct kineto *kineto = (struct kineto *)data;
    const char *phase = kineto_event_text(event, "ph");
    const char *category = kineto_event_text(event, "cat");
    (void)error;
    if (strcmp(phase, "i") == 0 && strcmp(kineto_event_text(event, "name"), "[memory]") == 0)
        take_memory(kineto, event);
    if (strcmp(phase, "X") != 0)
        return true;
    if (strcmp(category, "cpu_op") == 0 || strcmp(category, "Operator") == 0)
        take_range(kineto, event, false);
    else if (strcmp(category, "user_annotation") == 0)
        take_range(kineto, event, true);
    else if (!kineto_take_device(kineto, category, event))
        ignore(kineto, category);
    return true;
}

static void take_gpus(struct kineto *kineto, const json_t *others)
{
    size_t i;
    const json_t *gpu;
    json_array_foreach (json_object_get(others, "deviceProperties"), i, gpu) {
        struct gpu_record record = {
            .id = kineto_event_number32(gpu, "id"),
            .multiprocessors = kineto_event_number32(gpu, "numSms"),
            .memory_bytes = kineto_event_number(gpu, "totalGlobalMem"),
            .name = g_strdup(kineto_event_text(gpu, "name")),
        };
        g_array_append_val(kineto->gpus, record);
    }
}

/* Takes the notes in files made by collect/pstar_torch. */
static void take_notes(struct kineto *kineto, const json_t *others)
{
    size_t i;
    const json_t *note;
    json_array_foreach (json_object_get(others, "pstar_unknown"), i, note)
        if (json_is_string(note))
            g_ptr_array_add(kineto->notes, g_strdup(json_string_value(note)));
}

static int by_start(const void *left, const void *right)
{
    const struct kineto_range *a = (const struct kineto_range *)left;
    const struct kineto_range *b = (const struct kineto_range *)right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns < b->end_ns) - (a->end_ns > b->end_ns);
}

static int by_time(const void *left, const void *right)
{
    const struct kineto_memory *a = (const struct kineto_memory *)left;
    const struct kineto_memory *b = (const struct kineto_memory *)right;
    return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

void kineto_sort(struct kineto *kineto)
{
    g_array_sort(kineto->ranges, by_start);
    g_array_sort(kineto->memory, by_time);
}

struct kineto *kineto_read(const char *path, GError **error)
{
    struct kineto *kineto = kineto_new();
    json_t *others = json_events_read(path, "traceEvents", take_event, kineto, error);
    if (!others) {
        kineto_free(kineto);
        return NULL;
    }
    take_gpus(kineto, others);
    take_notes(kineto, others);
    json_decref(others);
    kineto_sort(kineto);
    return kineto;
}

struct activity kineto_activity(const struct kineto *kineto)
{
    return (struct activity){
        .gpus = (struct gpu_record *)(void *)kineto->gpus->data,
        .gpu_count = kineto->gpus->len,
        .kernels = (struct kernel_record *)(void *)kineto->kernels->data,
        .kernel_count = kineto->kernels->len,
        .launches = (struct launch_record *)(void *)kineto->launches->data,
        .copies = (struct copy_record *)(void *)kineto->copies->data,
        .copy_count = kineto->copies->len,
        .sets = (struct set_record *)(void *)kineto->sets->data,
        .set_count = kineto->sets->len,
        .syncs = (struct sync_record *)(void *)kineto->syncs->data,
        .sync_count = kineto->syncs->len,
        .calls = (struct call_record *)(void *)kineto->calls->data,
        .call_count = kineto->calls->len,
        .memory = (struct memory_record *)(void *)kineto->allocations->data,
        .memory_count = kineto->allocations->len,
    };
}
