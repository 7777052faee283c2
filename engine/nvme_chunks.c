#include "engine/nvme_chunks.h"

#include "engine/chunk_mover.h"

/* A chunk at home in NVMe. */
struct nvme_chunk {
    char *subject;     /* of errors */
    uint64_t checksum; /* of what was stored last */
    bool stored;       /* a fresh file has zeros, of which there is no checksum yet */
    bool changed;      /* in the host pool */
    uint64_t held_at;  /* address in the host pool, or NO_ADDRESS */
};

struct nvme_chunks {
    const struct plan *plan;
    struct chunk_mover *mover;
    struct nvme_chunk *of; /* [chunk_count] */
    GArray *held;          /* chunk_id of those in the host pool, the last used at the end */
};

struct nvme_chunks *nvme_chunks_new(const struct plan *plan, struct chunk_mover *mover)
{
    if (!plan->nvme_bytes)
        return NULL;
    struct nvme_chunks *chunks = g_new0(struct nvme_chunks, 1);
    chunks->plan = plan;
    chunks->mover = mover;
    chunks->of = g_new0(struct nvme_chunk, plan->layout->chunk_count);
    chunks->held = g_array_new(FALSE, FALSE, sizeof(chunk_id));
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++) {
        chunks->of[c].held_at = NO_ADDRESS;
        if (!plan_in_nvme(plan, c))
            continue;
        chunks->of[c].subject = g_strdup_printf("chunk %u (%s)", c,
                                                trace_list_name(plan->layout->chunks[c].list));
    }
    return chunks;
}

void nvme_chunks_free(struct nvme_chunks *chunks)
{
    if (!chunks)
        return;
    for (chunk_id c = 0; c < chunks->plan->layout->chunk_count; c++)
        g_free(chunks->of[c].subject);
    g_array_unref(chunks->held);
    g_free(chunks->of);
    g_free(chunks);
}

struct device_transfer nvme_chunks_transfer(struct nvme_chunks *chunks, enum mover_queue queue,
                                            const struct mover_copy *copy)
{
    struct nvme_chunk *chunk = &chunks->of[copy->chunk];
    chunk->stored |= queue == MOVER_NVME_WRITE;
    return (struct device_transfer){.nvme_address = copy->nvme_address,
                                    .host_address = copy->host_address,
                                    .bytes = plan_nvme_slot(chunks->plan->layout, copy->chunk),
                                    .checksum = chunk->stored ? &chunk->checksum : NULL,
                                    .subject = chunk->subject};
}

/* ---- between iterations ---- */

static void transfer(struct nvme_chunks *chunks, chunk_id chunk, enum mover_queue queue)
{
    const struct mover_copy copy = {.chunk = chunk,
                                    .nvme_address = chunks->plan->nvme_address[chunk],
                                    .host_address = chunks->of[chunk].held_at};
    const struct mover_after none = {.queue = {0}};
    const struct mover_ops *ops = &chunk_mover_ops;
    (queue == MOVER_NVME_READ ? ops->load : ops->store)(chunks->mover, &copy, &none);
    chunks->mover->device->ops->drain(chunks->mover->device);
}

static chunk_id held_chunk(const struct nvme_chunks *chunks, uint32_t i)
{
    return g_array_index(chunks->held, chunk_id, i);
}

static void let_go_of_oldest(struct nvme_chunks *chunks)
{
    chunk_id chunk = held_chunk(chunks, 0);
    struct nvme_chunk *of = &chunks->of[chunk];
    if (of->changed)
        transfer(chunks, chunk, MOVER_NVME_WRITE);
    of->held_at = NO_ADDRESS;
    of->changed = false;
    g_array_remove_index(chunks->held, 0);
}

/* Returns whether [begin, end) lies in the room for slots, without a chunk that is held. */
static bool is_free(const struct nvme_chunks *chunks, uint64_t begin, uint64_t end)
{
    for (uint32_t i = 0; i < chunks->held->len; i++) {
        chunk_id chunk = held_chunk(chunks, i);
        uint64_t at = chunks->of[chunk].held_at;
        if (at < end && begin < at + plan_nvme_slot(chunks->plan->layout, chunk))
            return false;
    }
    return end <= chunks->plan->staging_address;
}

/* Returns where the chunk has room: where the room begins, or behind a chunk that is held.
 * NO_ADDRESS if it has none. */
static uint64_t find_room(const struct nvme_chunks *chunks, chunk_id chunk)
{
    const struct layout *layout = chunks->plan->layout;
    uint64_t bytes = plan_nvme_slot(layout, chunk), address = plan_nvme_room(chunks->plan);
    if (is_free(chunks, address, address + bytes))
        return address;
    for (uint32_t i = 0; i < chunks->held->len; i++) {
        chunk_id before = held_chunk(chunks, i);
        address = chunks->of[before].held_at + plan_nvme_slot(layout, before);
        if (is_free(chunks, address, address + bytes))
            return address;
    }
    return NO_ADDRESS;
}

/* Makes the chunk the last one used. */
static void touch(struct nvme_chunks *chunks, chunk_id chunk)
{
    uint32_t last = chunks->held->len;
    while (last > 0 && held_chunk(chunks, last - 1) != chunk)
        last--;
    if (last > 0)
        g_array_remove_index(chunks->held, last - 1);
    g_array_append_val(chunks->held, chunk);
}

/* Whoever reads or writes weights uses a few chunks in turn, of several lists and for several
 * ranks. They are held wherever there is room. */
uint64_t nvme_chunks_hold(struct nvme_chunks *chunks, chunk_id chunk, bool writes)
{
    struct nvme_chunk *of = &chunks->of[chunk];
    if (of->held_at == NO_ADDRESS) {
        uint64_t address;
        while ((address = find_room(chunks, chunk)) == NO_ADDRESS)
            let_go_of_oldest(chunks);
        of->held_at = address;
        transfer(chunks, chunk, MOVER_NVME_READ);
    }
    touch(chunks, chunk);
    of->changed |= writes;
    return of->held_at;
}

void nvme_chunks_let_go(struct nvme_chunks *chunks)
{
    while (chunks && chunks->held->len)
        let_go_of_oldest(chunks);
}

/* Gradients and activations have no values before the first iteration. */
static bool has_values(const struct nvme_chunks *chunks, chunk_id chunk)
{
    uint8_t list = chunks->plan->layout->chunks[chunk].list;
    return plan_in_nvme(chunks->plan, chunk) && list != TRACE_GRAD && list != TRACE_ACTIVATION;
}

void nvme_chunks_begin(struct nvme_chunks *chunks)
{
    for (chunk_id c = 0; chunks && c < chunks->plan->layout->chunk_count; c++)
        if (has_values(chunks, c) && !chunks->of[c].stored)
            nvme_chunks_hold(chunks, c, true);
    nvme_chunks_let_go(chunks);
}
