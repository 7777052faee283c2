#include "engine/nvme_chunks.h"

#include "engine/chunk_mover.h"

/* A chunk at home in NVMe. */
struct nvme_chunk {
    char *subject;     /* of errors */
    uint64_t checksum; /* of what was stored last */
    bool stored;       /* a fresh file has zeros, of which there is no checksum yet */
    bool held, changed;
};

struct nvme_chunks {
    const struct plan *plan;
    struct chunk_mover *mover;
    struct nvme_chunk *of; /* [chunk_count] */
};

struct nvme_chunks *nvme_chunks_new(const struct plan *plan, struct chunk_mover *mover)
{
    if (!plan->nvme_bytes)
        return NULL;
    struct nvme_chunks *chunks = g_new0(struct nvme_chunks, 1);
    chunks->plan = plan;
    chunks->mover = mover;
    chunks->of = g_new0(struct nvme_chunk, plan->layout->chunk_count);
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++)
        if (plan_in_nvme(plan, c))
            chunks->of[c].subject = g_strdup_printf("chunk %u (%s)", c,
                                                    trace_list_name(plan->layout->chunks[c].list));
    return chunks;
}

void nvme_chunks_free(struct nvme_chunks *chunks)
{
    if (!chunks)
        return;
    for (chunk_id c = 0; c < chunks->plan->layout->chunk_count; c++)
        g_free(chunks->of[c].subject);
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
                                    .host_address = chunks->plan->host_address[chunk]};
    const struct mover_after none = {.queue = {0}};
    const struct mover_ops *ops = &chunk_mover_ops;
    (queue == MOVER_NVME_READ ? ops->load : ops->store)(chunks->mover, &copy, &none);
    chunks->mover->device->ops->drain(chunks->mover->device);
}

static void let_go(struct nvme_chunks *chunks, chunk_id chunk)
{
    struct nvme_chunk *of = &chunks->of[chunk];
    if (of->held && of->changed)
        transfer(chunks, chunk, MOVER_NVME_WRITE);
    of->held = of->changed = false;
}

static bool overlap(const struct plan *plan, chunk_id a, chunk_id b)
{
    return plan->host_address[a] < plan->host_address[b] + plan_nvme_slot(plan->layout, b) &&
           plan->host_address[b] < plan->host_address[a] + plan_nvme_slot(plan->layout, a);
}

void nvme_chunks_hold(struct nvme_chunks *chunks, chunk_id chunk, bool writes)
{
    const struct plan *plan = chunks->plan;
    struct nvme_chunk *of = &chunks->of[chunk];
    if (!of->held) {
        for (chunk_id c = 0; c < plan->layout->chunk_count; c++)
            if (chunks->of[c].held && overlap(plan, c, chunk))
                let_go(chunks, c);
        transfer(chunks, chunk, MOVER_NVME_READ);
    }
    of->held = true;
    of->changed |= writes;
}

void nvme_chunks_let_go(struct nvme_chunks *chunks)
{
    for (chunk_id c = 0; chunks && c < chunks->plan->layout->chunk_count; c++)
        let_go(chunks, c);
}

void nvme_chunks_begin(struct nvme_chunks *chunks)
{
    nvme_chunks_let_go(chunks);
    for (chunk_id c = 0; chunks && c < chunks->plan->layout->chunk_count; c++)
        if (plan_in_nvme(chunks->plan, c) && !chunks->of[c].stored) {
            nvme_chunks_hold(chunks, c, true);
            let_go(chunks, c);
        }
}
