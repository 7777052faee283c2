/* Finds non-model data: what the allocator handed out within the step, without gradients. */
#include "traces/import/kineto.h"

#include <string.h>

enum { BEFORE = UINT32_MAX };

/* PyTorch's CUDA allocator rounds sizes up to this. */
#define GRANULE UINT64_C(512)

struct block {
    uint64_t begin_ns, end_ns;
    uint64_t bytes;
    uint32_t first; /* work in which it was allocated; BEFORE if before the step */
    uint32_t last;  /* work in which it was freed; the last one if it was freed later or never */
    bool outlives;  /* freed after the step or never */
};

struct finding {
    struct kineto_parts *parts;
    const struct kineto_memory *like; /* any event of the device that is examined */
    GHashTable *live;                 /* address to 1 + index in blocks */
    GArray *blocks;                   /* struct block */
};

static uint64_t start_of(const struct finding *finding, uint32_t work)
{
    return kineto_work_at(finding->parts->step, work)->start_ns;
}

/* Returns an event of the device with the most events, preferring CUDA to the host. NULL if nothing
 * was recorded. */
static const struct kineto_memory *find_device(const struct kineto *kineto)
{
    const struct kineto_memory *found = NULL;
    GHashTable *counts = g_hash_table_new(NULL, NULL);
    guint most = 0;
    for (guint i = 0; i < kineto->memory->len; i++) {
        const struct kineto_memory *event = &g_array_index(kineto->memory, struct kineto_memory, i);
        gpointer key = GUINT_TO_POINTER(event->device << 8 | (uint32_t)(event->device_type & 0xff));
        guint count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, key)) + 1;
        g_hash_table_insert(counts, key, GUINT_TO_POINTER(count));
        bool better = !found || event->device_type > found->device_type ||
                      (event->device_type == found->device_type && count > most);
        if (better && (event->device_type == 0 || event->device_type == 1)) {
            found = event;
            most = count;
        }
    }
    g_hash_table_unref(counts);
    return found;
}

static void hand_out(struct finding *finding, const struct kineto_memory *event, uint32_t work)
{
    struct block block = {.begin_ns = event->time_ns,
                          .end_ns = UINT64_MAX,
                          .bytes = (uint64_t)event->bytes,
                          .first = work,
                          .last = finding->parts->step->works->len - 1,
                          .outlives = true};
    g_array_append_val(finding->blocks, block);
    g_hash_table_insert(finding->live, GSIZE_TO_POINTER(event->address),
                        GUINT_TO_POINTER(finding->blocks->len));
}

static void take_back(struct finding *finding, const struct kineto_memory *event, uint32_t work)
{
    gpointer address = GSIZE_TO_POINTER(event->address);
    guint index = GPOINTER_TO_UINT(g_hash_table_lookup(finding->live, address));
    g_hash_table_remove(finding->live, address);
    if (index > 0 && work != BEFORE) {
        struct block *block = &g_array_index(finding->blocks, struct block, index - 1);
        block->end_ns = event->time_ns;
        block->last = work;
        block->outlives = false;
    } else if (index > 0) {
        g_array_index(finding->blocks, struct block, index - 1).bytes =
            0; /* freed before the step */
    } else if (work != BEFORE) {
        struct block block = {.end_ns = event->time_ns,
                              .bytes = (uint64_t)-event->bytes,
                              .first = BEFORE,
                              .last = work};
        g_array_append_val(finding->blocks, block);
    }
}

static void find_blocks(struct finding *finding)
{
    const struct kineto_parts *parts = finding->parts;
    const GArray *memory = parts->kineto->memory;
    uint32_t works = parts->step->works->len, work = 0;
    for (guint i = 0; i < memory->len; i++) {
        const struct kineto_memory *event = &g_array_index(memory, struct kineto_memory, i);
        if (event->device != finding->like->device ||
            event->device_type != finding->like->device_type)
            continue;
        if (event->time_ns >= parts->step->end_ns)
            return;
        while (work + 1 < works && start_of(finding, work + 1) <= event->time_ns)
            work++;
        bool before = event->time_ns < start_of(finding, 0);
        if (event->bytes > 0)
            hand_out(finding, event, before ? BEFORE : work);
        else
            take_back(finding, event, before ? BEFORE : work);
    }
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + GRANULE - 1) / GRANULE * GRANULE;
}

static void count_gradient(GHashTable *counts, const struct trace *trace, uint64_t elements)
{
    gpointer key = GSIZE_TO_POINTER(rounded(elements * trace->list_element_bytes[TRACE_GRAD]));
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, key)) + 1;
    g_hash_table_insert(counts, key, GUINT_TO_POINTER(count));
}

/* Counts the gradients of each size. Those that ranks sum in parts are what a rank gets. */
static GHashTable *count_gradients(const struct kineto_parts *parts)
{
    const struct trace *trace = parts->trace;
    GHashTable *counts = g_hash_table_new(NULL, NULL);
    bool in_parts = trace->ranks > 1 && !trace->whole_gradients;
    for (uint32_t t = 0; !in_parts && t < parts->trained; t++)
        count_gradient(counts, trace, trace->tensors[t].elements);
    for (guint i = 0; in_parts && i < parts->exchanges->len; i++) {
        const struct kineto_collective *exchange = kineto_exchange_at(parts, i);
        if (exchange->exchange == KINETO_SCATTER)
            count_gradient(counts, trace, exchange->elements / exchange->ranks);
    }
    return counts;
}

static bool take_gradient(GHashTable *counts, const struct block *block)
{
    gpointer key = GSIZE_TO_POINTER(rounded(block->bytes));
    guint count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, key));
    if (count > 0)
        g_hash_table_insert(counts, key, GUINT_TO_POINTER(count - 1));
    return count > 0;
}

static uint8_t phase_of(const struct finding *finding, uint32_t work)
{
    return kineto_work_at(finding->parts->step, work)->phase;
}

/* Removes model data. Gradients begin in backward and outlive it. Gradients of the previous step
 * that are freed only now are freed before new ones are made. Blocks that existed before the step
 * and stay are model data. */
static void drop_model_data(const struct finding *finding)
{
    GHashTable *made = count_gradients(finding->parts);
    GHashTable *left = count_gradients(finding->parts);
    for (guint i = 0; i < finding->blocks->len; i++) {
        struct block *block = &g_array_index(finding->blocks, struct block, i);
        bool here = block->first != BEFORE;
        bool model = false;
        if (!here && block->outlives)
            model = true;
        else if (!here)
            model = phase_of(finding, block->last) == TRACE_FORWARD && take_gradient(left, block);
        else if (phase_of(finding, block->first) == TRACE_BACKWARD &&
                 (block->outlives || phase_of(finding, block->last) == TRACE_UPDATE_PHASE))
            model = take_gradient(made, block);
        if (model)
            block->bytes = 0;
    }
    g_hash_table_unref(made);
    g_hash_table_unref(left);
}

struct byte_change {
    uint64_t time_ns;
    int64_t bytes;
};

static int by_time(const void *left, const void *right)
{
    const struct byte_change *a = (const struct byte_change *)left,
                             *b = (const struct byte_change *)right;
    return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

static GArray *list_changes(const GArray *blocks)
{
    GArray *changes = g_array_new(FALSE, FALSE, sizeof(struct byte_change));
    for (guint i = 0; i < blocks->len; i++) {
        const struct block *block = &g_array_index(blocks, struct block, i);
        struct byte_change begin = {block->begin_ns, (int64_t)block->bytes};
        struct byte_change end = {block->end_ns, -(int64_t)block->bytes};
        g_array_append_val(changes, begin);
        if (!block->outlives)
            g_array_append_val(changes, end);
    }
    g_array_sort(changes, by_time);
    return changes;
}

/* Returns [operators] the peak of allocated bytes while each operator of the trace runs. */
static uint64_t *find_peaks(const struct finding *finding)
{
    const struct kineto_parts *parts = finding->parts;
    uint64_t *peaks = g_new0(uint64_t, parts->trace->operator_count);
    g_autoptr(GArray) changes = list_changes(finding->blocks);
    int64_t live = 0;
    guint c = 0;
    for (uint32_t w = 0; w < parts->step->works->len; w++) {
        uint64_t until = w + 1 < parts->step->works->len ? start_of(finding, w + 1) : UINT64_MAX;
        uint64_t *peak = &peaks[parts->moment[w]];
        *peak = MAX(*peak, (uint64_t)live);
        for (; c < changes->len && g_array_index(changes, struct byte_change, c).time_ns < until;
             c++) {
            live += g_array_index(changes, struct byte_change, c).bytes;
            *peak = MAX(*peak, (uint64_t)live);
        }
    }
    return peaks;
}

static void add_buffer(GArray *buffers, char *name, uint64_t bytes, uint32_t first, uint32_t last,
                       bool saved)
{
    struct trace_buffer buffer = {
        .name = name, .bytes = bytes, .first = first, .last = last, .saved = saved};
    g_array_append_val(buffers, buffer);
}

/* A block that outlives its operator becomes a buffer. Adds these bytes to `covered` by moment. */
static void add_lasting(const struct finding *finding, GArray *buffers, uint64_t *covered)
{
    const struct kineto_parts *parts = finding->parts;
    const struct trace *trace = parts->trace;
    for (guint i = 0; i < finding->blocks->len; i++) {
        const struct block *block = &g_array_index(finding->blocks, struct block, i);
        uint32_t begin = block->first == BEFORE ? 0 : block->first;
        uint32_t first = parts->moment[begin], last = parts->moment[block->last];
        if (block->last >= parts->update)
            last = trace->operator_count - 1; /* for memory, the update is one operator */
        if (block->bytes == 0 || first == parts->moment[block->last])
            continue;
        bool saved = phase_of(finding, begin) == TRACE_FORWARD &&
                     phase_of(finding, block->last) != TRACE_FORWARD;
        add_buffer(buffers, g_strdup_printf("tensor %u of %s", i, trace->operators[first].name),
                   block->bytes, first, last, saved);
        for (uint32_t m = first; m <= last; m++)
            covered[m] += block->bytes;
    }
}

/* Other blocks end with their operator and become one workspace. That of the update is divided like
 * its time. */
static void add_temporary(const struct finding *finding, GArray *buffers, const uint64_t *covered,
                          const uint64_t *peaks)
{
    const struct trace *trace = finding->parts->trace;
    uint64_t elements = 0;
    uint32_t updates = finding->parts->update < finding->parts->step->works->len
                           ? trace->operator_count - finding->parts->trained
                           : trace->operator_count;
    for (uint32_t t = 0; t < finding->parts->trained; t++)
        elements += trace->tensors[t].elements;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint64_t peak = peaks[MIN(m, updates)], bytes = peak > covered[m] ? peak - covered[m] : 0;
        if (m >= updates)
            bytes = (uint64_t)((unsigned __int128)bytes * trace->tensors[m - updates].elements /
                               elements);
        if (bytes > 0)
            add_buffer(buffers, g_strdup_printf("workspace of %s", trace->operators[m].name), bytes,
                       m, m, false);
    }
}

static void make_buffers(const struct finding *finding)
{
    struct trace *trace = finding->parts->trace;
    GArray *buffers = g_array_new(FALSE, FALSE, sizeof(struct trace_buffer));
    g_autofree uint64_t *covered = g_new0(uint64_t, trace->operator_count);
    g_autofree uint64_t *peaks = find_peaks(finding);
    add_lasting(finding, buffers, covered);
    add_temporary(finding, buffers, covered, peaks);
    trace->buffer_count = buffers->len;
    trace->buffers = (struct trace_buffer *)(void *)g_array_free(buffers, buffers->len == 0);
    trace_sum_buffers(trace);
}

void kineto_find_buffers(struct kineto_parts *parts)
{
    struct finding finding = {.parts = parts, .like = find_device(parts->kineto)};
    parts->trace->non_model_bytes = g_new0(uint64_t, parts->trace->operator_count);
    if (!finding.like) {
        g_ptr_array_add(parts->notes, g_strdup("non-model data: no allocation was recorded; record "
                                               "with profile_memory=True"));
        return;
    }
    finding.live = g_hash_table_new(NULL, NULL);
    finding.blocks = g_array_new(FALSE, FALSE, sizeof(struct block));
    find_blocks(&finding);
    drop_model_data(&finding);
    make_buffers(&finding);
    g_hash_table_unref(finding.live);
    g_array_unref(finding.blocks);
}
