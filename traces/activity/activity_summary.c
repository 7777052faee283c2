#include "traces/activity/activity_summary.h"

#include "traces/activity/steps.h"

/* Hashes an allocation, which is identified by process and address. */
static guint hash(const void *key)
{
    const struct memory_record *record = key;
    return (guint)((record->address >> 8) * 2654435761U) ^ record->process;
}

static gboolean same_place(const void *left, const void *right)
{
    const struct memory_record *a = left, *b = right;
    return a->address == b->address && a->process == b->process;
}

static struct device_memory *memory_of(struct memory_use *use, uint32_t device)
{
    guint place = 0;
    while (place < use->devices->len &&
           g_array_index(use->devices, struct device_memory, place).device < device)
        place++;
    if (place == use->devices->len ||
        g_array_index(use->devices, struct device_memory, place).device != device) {
        struct device_memory fresh = {.device = device};
        g_array_insert_val(use->devices, place, fresh);
    }
    return &g_array_index(use->devices, struct device_memory, place);
}

/* Returns NULL if the kind of memory is not summed up. */
static struct memory_level *level_of(struct memory_use *use, const struct memory_record *record)
{
    switch (record->kind) {
    case MEMORY_DEVICE:
    case MEMORY_ARRAY:
    case MEMORY_DEVICE_STATIC:
        return &memory_of(use, record->device)->allocated;
    case MEMORY_PINNED:
        return &use->pinned;
    case MEMORY_MANAGED:
    case MEMORY_MANAGED_STATIC:
        return &use->managed;
    default:
        return NULL;
    }
}

static void release(struct memory_use *use, const struct memory_record *allocation)
{
    struct memory_level *level = level_of(use, allocation);
    if (level)
        level->live_bytes -= allocation->bytes;
}

static void allocate(struct memory_use *use, const struct memory_record *record)
{
    struct memory_level *level = level_of(use, record);
    if (!level)
        return;
    level->live_bytes += record->bytes;
    if (level->live_bytes > level->peak_bytes) {
        level->peak_bytes = level->live_bytes;
        level->peak_ns = record->start_ns;
    }
}

/* Does not trust the size and kind of a free: profilers leave them out. */
static void follow(struct memory_use *use, GHashTable *live, const struct memory_record *record)
{
    const struct memory_record *before = g_hash_table_lookup(live, record);
    if (before) {
        release(use, before);
        g_hash_table_remove(live, record);
    }
    if (record->operation == MEMORY_FREE) {
        use->unseen += before == NULL;
    } else {
        use->reused += before != NULL;
        g_hash_table_add(live, (void *)record);
        allocate(use, record);
    }
    if (record->pool_bytes > 0) {
        struct device_memory *device = memory_of(use, record->device);
        device->pool_peak_bytes = MAX(device->pool_peak_bytes, record->pool_bytes);
    }
}

struct memory_use *memory_use_of(const struct activity *activity)
{
    struct memory_use *use = g_new0(struct memory_use, 1);
    g_autoptr(GHashTable) live = g_hash_table_new(hash, same_place);
    use->devices = g_array_new(FALSE, FALSE, sizeof(struct device_memory));
    for (uint32_t i = 0; i < activity->memory_count; i++)
        follow(use, live, &activity->memory[i]);
    return use;
}

void memory_use_free(struct memory_use *use)
{
    if (!use)
        return;
    g_array_unref(use->devices);
    g_free(use);
}

static struct device_summary *device_of(struct activity_summary *summary,
                                        const struct activity *activity, uint32_t device)
{
    guint place = 0;
    while (place < summary->devices->len &&
           g_array_index(summary->devices, struct device_summary, place).device < device)
        place++;
    if (place == summary->devices->len ||
        g_array_index(summary->devices, struct device_summary, place).device != device) {
        struct device_summary fresh = {.device = device, .first_ns = UINT64_MAX};
        for (uint32_t i = 0; i < activity->gpu_count; i++)
            if (activity->gpus[i].id == device)
                fresh.gpu = &activity->gpus[i];
        g_array_insert_val(summary->devices, place, fresh);
    }
    return &g_array_index(summary->devices, struct device_summary, place);
}

static struct device_summary *extend(struct activity_summary *summary,
                                     const struct activity *activity, uint32_t device,
                                     uint64_t start_ns, uint64_t end_ns)
{
    struct device_summary *found = device_of(summary, activity, device);
    found->first_ns = MIN(found->first_ns, start_ns);
    found->last_ns = MAX(found->last_ns, end_ns);
    summary->first_ns = MIN(summary->first_ns, start_ns);
    return found;
}

static struct kernel_summary *kernel_of(GHashTable *by_name, uint32_t name)
{
    struct kernel_summary *kernel = g_hash_table_lookup(by_name, GUINT_TO_POINTER(name));
    if (!kernel) {
        kernel = g_new0(struct kernel_summary, 1);
        g_hash_table_insert(by_name, GUINT_TO_POINTER(name), kernel);
    }
    return kernel;
}

/* Kernels are ordered by start and are added before copies, so last_ns is the time at which the
 * device became idle. */
static void add_kernel(struct activity_summary *summary, const struct activity *activity,
                       const struct kernel_record *kernel, struct kernel_summary *of_name)
{
    uint64_t ns = kernel->end_ns - kernel->start_ns;
    struct device_summary *device = device_of(summary, activity, kernel->device);
    uint64_t from_ns = MAX(kernel->start_ns, device->last_ns);
    device->busy_ns += kernel->end_ns > from_ns ? kernel->end_ns - from_ns : 0;
    device->kernel_ns += ns;
    device->kernel_count++;
    extend(summary, activity, kernel->device, kernel->start_ns, kernel->end_ns);
    of_name->total_ns += ns;
    of_name->longest_ns = MAX(of_name->longest_ns, ns);
    of_name->count++;
    summary->kernel_ns += ns;
}

static int most_time(const void *left, const void *right)
{
    const struct kernel_summary *a = left, *b = right;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return g_strcmp0(a->name, b->name);
}

static void add_kernels(struct activity_summary *summary, const struct activity *activity,
                        const struct records *records)
{
    g_autoptr(GHashTable) by_name = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    for (uint32_t i = 0; i < activity->kernel_count; i++)
        add_kernel(summary, activity, &activity->kernels[i],
                   kernel_of(by_name, activity->kernels[i].name));
    GHashTableIter iterator;
    void *name, *kernel;
    g_hash_table_iter_init(&iterator, by_name);
    while (g_hash_table_iter_next(&iterator, &name, &kernel)) {
        ((struct kernel_summary *)kernel)->name = records_text(records, GPOINTER_TO_UINT(name));
        g_array_append_vals(summary->kernels, kernel, 1);
    }
    g_array_sort(summary->kernels, most_time);
}

static struct traffic_summary *traffic_of(struct activity_summary *summary,
                                          const struct copy_record *copy)
{
    for (guint i = 0; i < summary->traffic->len; i++) {
        struct traffic_summary *traffic = &g_array_index(summary->traffic, struct traffic_summary,
                                                         i);
        if (traffic->kind == copy->kind && traffic->source == copy->source &&
            traffic->destination == copy->destination)
            return traffic;
    }
    struct traffic_summary fresh = {
        .kind = copy->kind, .source = copy->source, .destination = copy->destination};
    g_array_append_val(summary->traffic, fresh);
    return &g_array_index(summary->traffic, struct traffic_summary, summary->traffic->len - 1);
}

static int most_bytes(const void *left, const void *right)
{
    const struct traffic_summary *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

static void add_copies(struct activity_summary *summary, const struct activity *activity)
{
    for (uint32_t i = 0; i < activity->copy_count; i++) {
        const struct copy_record *copy = &activity->copies[i];
        struct traffic_summary *traffic = traffic_of(summary, copy);
        traffic->count++;
        traffic->bytes += copy->bytes;
        traffic->ns += copy->end_ns - copy->start_ns;
        extend(summary, activity, copy->device, copy->start_ns, copy->end_ns)->copy_count++;
    }
    g_array_sort(summary->traffic, most_bytes);
    for (uint32_t i = 0; i < activity->set_count; i++) {
        const struct set_record *set = &activity->sets[i];
        extend(summary, activity, set->device, set->start_ns, set->end_ns)->set_count++;
    }
}

/* Counts waits of the host. A stream that waits for an event does not stop it. */
static void add_waits(struct activity_summary *summary, const struct activity *activity)
{
    for (uint32_t i = 0; i < activity->sync_count; i++) {
        const struct sync_record *sync = &activity->syncs[i];
        bool host = sync->type != SYNC_STREAM_WAITS_EVENT;
        summary->wait_count += host;
        summary->wait_ns += host ? sync->end_ns - sync->start_ns : 0;
    }
    for (uint32_t i = 0; i < activity->overhead_count; i++)
        summary->overhead_ns += activity->overheads[i].end_ns - activity->overheads[i].start_ns;
}

static void add_steps(struct activity_summary *summary, const struct activity *activity,
                      const struct records *records)
{
    for (guint i = 0; i < summary->devices->len; i++) {
        struct device_summary *device = &g_array_index(summary->devices, struct device_summary, i);
        device->steps = activity_steps(activity, records, device->device, &device->step_ns);
    }
}

struct activity_summary *activity_summary_new(const struct activity *activity,
                                              const struct records *records)
{
    if (activity->recorded == 0)
        return NULL;
    struct activity_summary *summary = g_new0(struct activity_summary, 1);
    summary->first_ns = activity->memory_count > 0 ? activity->memory[0].start_ns : UINT64_MAX;
    summary->devices = g_array_new(FALSE, FALSE, sizeof(struct device_summary));
    summary->kernels = g_array_new(FALSE, FALSE, sizeof(struct kernel_summary));
    summary->traffic = g_array_new(FALSE, FALSE, sizeof(struct traffic_summary));
    summary->memory = memory_use_of(activity);
    add_kernels(summary, activity, records);
    add_copies(summary, activity);
    add_waits(summary, activity);
    add_steps(summary, activity, records);
    for (guint i = 0; i < summary->memory->devices->len; i++)
        device_of(summary, activity,
                  g_array_index(summary->memory->devices, struct device_memory, i).device);
    return summary;
}

void activity_summary_free(struct activity_summary *summary)
{
    if (!summary)
        return;
    g_array_unref(summary->devices);
    g_array_unref(summary->kernels);
    g_array_unref(summary->traffic);
    memory_use_free(summary->memory);
    g_free(summary);
}

static void add_lost(GPtrArray *missing, uint64_t count, const char *what)
{
    if (count > 0)
        g_ptr_array_add(missing, g_strdup_printf("%" G_GUINT64_FORMAT " %s", count, what));
}

void activity_summary_missing(const struct activity_summary *summary,
                              const struct activity *activity, GPtrArray *missing)
{
    static const struct {
        enum activity_part part;
        const char *what;
    } parts[] = {
        {ACTIVITY_KERNELS, "kernels: none was recorded"},
        {ACTIVITY_COPIES, "copies between host and device: none was recorded"},
        {ACTIVITY_MEMORY, "allocations of device memory: none was recorded"},
        {ACTIVITY_CALLS, "the calls that launched kernels: none was recorded"},
    };
    for (size_t i = 0; summary && i < G_N_ELEMENTS(parts); i++)
        if (!(activity->recorded & parts[i].part))
            g_ptr_array_add(missing, g_strdup(parts[i].what));
    add_lost(missing, activity->dropped,
             "records of what the device did: the profiler had no room for them");
    add_lost(missing, activity->unfinished, "records of what had not ended when the recording did");
    add_lost(missing, activity->untimed,
             "records of what the device did: the profiler could not tell when");
    add_lost(missing, activity->unreadable,
             "bytes of records: their kinds were not known to the collector");
    if (summary && summary->memory->unseen > 0)
        g_ptr_array_add(missing, g_strdup_printf("what %u frees released: it was allocated before "
                                                 "the recording began",
                                                 summary->memory->unseen));
    if (summary && summary->memory->reused > 0)
        g_ptr_array_add(missing, g_strdup_printf("%u frees: their addresses were allocated again",
                                                 summary->memory->reused));
}
