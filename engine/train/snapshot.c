#include "engine/train/snapshot.h"

#include "base/size.h"
#include "engine/host/machine.h"
#include "engine/train/checkpoint.h"

#include <string.h>
#include <sys/mman.h>

#define PIECE (UINT64_C(1) << 20)

/* What a writer writes. The first one writes the weights of all adapters, too. */
struct writer_share {
    tensor_id first, end;
    bool adapters;
};

struct snapshot {
    const struct trace *trace;
    bool delay;
    struct writer_share share;
    uint64_t bytes;
    float *values;
    uint64_t (*offset)[TRACE_LISTS]; /* [tensor_count]: of the first element; if it is saved */
};

/* ---- what a writer has ---- */

/* With more writers than tensors, some have none. */
static struct writer_share share_of(const struct trace *trace, struct weights_writer writer)
{
    g_autoptr(GArray) files = weights_files(trace, writer.count, sizeof(float), UINT64_MAX);
    struct writer_share share = {.adapters = writer.index == 0};
    for (guint f = 0; f < files->len; f++) {
        const struct weights_file *file = &g_array_index(files, struct weights_file, f);
        if (file->writer != writer.index)
            continue;
        share.first = file->first;
        share.end = file->end;
    }
    return share;
}

/* Returns how many lists of a tensor are in the share, and sets which. */
static size_t lists_of(const struct trace *trace, const struct writer_share *share,
                       tensor_id tensor, bool delay, enum trace_list lists[CHECKPOINT_LISTS])
{
    if (tensor >= share->first && tensor < share->end)
        return checkpoint_lists(trace, tensor, delay, lists);
    if (!share->adapters || !weights_is_adapter(trace->tensors[tensor].name))
        return 0;
    lists[0] = weights_list_of(trace, tensor);
    return 1;
}

uint64_t snapshot_bytes(const struct trace *trace, bool delay, struct weights_writer writer)
{
    const struct writer_share share = share_of(trace, writer);
    uint64_t bytes = 0;
    for (tensor_id i = 0; i < trace->tensor_count; i++) {
        enum trace_list lists[CHECKPOINT_LISTS];
        bytes += lists_of(trace, &share, i, delay, lists) * trace->tensors[i].elements *
                 sizeof(float);
    }
    return bytes;
}

/* ---- memory ---- */

/* The kernel kills some process if more is touched than there is, so that is asked first. */
static bool take_memory(struct snapshot *snapshot, uint32_t processes, GError **error)
{
    void *memory = MAP_FAILED;
    if (snapshot->bytes <= available_bytes() / processes)
        memory = mmap(NULL, MAX(snapshot->bytes, 1), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        g_autofree char *size = size_format(snapshot->bytes);
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOMEM,
                    "the machine does not have the %s of a snapshot", size);
        return false;
    }
    snapshot->values = memory;
    return true;
}

static void lay_out(struct snapshot *snapshot)
{
    uint64_t at = 0;
    snapshot->offset = g_malloc0_n(snapshot->trace->tensor_count, sizeof *snapshot->offset);
    for (tensor_id i = 0; i < snapshot->trace->tensor_count; i++) {
        enum trace_list lists[CHECKPOINT_LISTS];
        size_t count = lists_of(snapshot->trace, &snapshot->share, i, snapshot->delay, lists);
        for (size_t l = 0; l < count; l++) {
            snapshot->offset[i][lists[l]] = at;
            at += snapshot->trace->tensors[i].elements;
        }
    }
    g_assert(at * sizeof(float) == snapshot->bytes);
}

struct snapshot *snapshot_new(const struct trace *trace, bool delay, struct weights_writer writer,
                              uint32_t processes, GError **error)
{
    struct snapshot *snapshot = g_new0(struct snapshot, 1);
    *snapshot = (struct snapshot){.trace = trace,
                                  .delay = delay,
                                  .share = share_of(trace, writer),
                                  .bytes = snapshot_bytes(trace, delay, writer)};
    if (take_memory(snapshot, processes, error)) {
        lay_out(snapshot);
        return snapshot;
    }
    snapshot_free(snapshot);
    return NULL;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    if (snapshot->values)
        munmap(snapshot->values, MAX(snapshot->bytes, 1));
    g_free(snapshot->offset);
    g_free(snapshot);
}

/* ---- values ---- */

static float *place_of(const struct snapshot *snapshot, tensor_id tensor, enum trace_list list)
{
    enum trace_list lists[CHECKPOINT_LISTS];
    g_assert(lists_of(snapshot->trace, &snapshot->share, tensor, snapshot->delay, lists) > 0);
    return snapshot->values + snapshot->offset[tensor][list];
}

static bool take_list(struct snapshot *snapshot, const struct weights_store *store,
                      tensor_id tensor, enum trace_list list, GError **error)
{
    uint64_t elements = snapshot->trace->tensors[tensor].elements;
    float *values = place_of(snapshot, tensor, list);
    bool taken = true;
    for (uint64_t at = 0; taken && at < elements; at += PIECE)
        taken = store->read(store->self, tensor, list, at, MIN(PIECE, elements - at), values + at,
                            error);
    return taken;
}

bool snapshot_take(struct snapshot *snapshot, const struct weights_store *store, GError **error)
{
    bool taken = true;
    for (tensor_id i = 0; taken && i < snapshot->trace->tensor_count; i++) {
        enum trace_list lists[CHECKPOINT_LISTS];
        size_t count = lists_of(snapshot->trace, &snapshot->share, i, snapshot->delay, lists);
        for (size_t l = 0; taken && l < count; l++)
            taken = take_list(snapshot, store, i, lists[l], error);
    }
    return taken;
}

static bool read_values(void *self, tensor_id tensor, enum trace_list list, uint64_t first,
                        uint64_t count, float *values, GError **error)
{
    (void)error;
    memcpy(values, place_of(self, tensor, list) + first, count * sizeof *values);
    return true;
}

struct weights_store snapshot_store(struct snapshot *snapshot)
{
    return (struct weights_store){.self = snapshot, .read = read_values};
}
