/* What the device did, and the calls that asked for it. */
#include "traces/import/kineto.h"
#include "traces/import/kineto_event.h"

#include <string.h>

/* The fields with which the records of what runs in a stream begin are alike, but not their
 * types. */
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

bool kineto_take_device(struct kineto *kineto, const char *category, const json_t *event)
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
