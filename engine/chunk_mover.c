#include "engine/chunk_mover.h"

#include "traces/shard.h"

struct mover_after chunk_mover_bind(const struct chunk_mover *mover,
                                    const struct mover_after *after)
{
    struct mover_after bound = *after;
    bound.queue[MOVER_COMPUTE] = MAX(bound.queue[MOVER_COMPUTE], mover->computed);
    return bound;
}

static mover_ticket copy(struct chunk_mover *mover, enum mover_queue queue, uint64_t device_address,
                         uint64_t host_address, uint64_t bytes, const struct mover_after *after)
{
    uint64_t *counted = queue == MOVER_H2D ? &mover->figures->h2d_bytes
                                           : &mover->figures->d2h_bytes;
    *counted += bytes;
    mover->total.bytes[queue] += bytes;
    mover->total.copies[queue]++;
    const struct mover_after bound = chunk_mover_bind(mover, after);
    return mover->device->ops->copy(mover->device, queue, device_address, host_address, bytes,
                                    &bound);
}

static mover_ticket fetch(void *self, const struct mover_copy *chunk,
                          const struct mover_after *after)
{
    struct chunk_mover *mover = self;
    if (chunk->part == 0) {
        usage_occupy(mover->usage, chunk->chunk, chunk->device_address, chunk->slot_bytes);
        mover->figures->h2d_copies++;
    }
    return copy(mover, MOVER_H2D, chunk->device_address + chunk->offset,
                chunk->host_address + chunk->offset, chunk->copy_bytes, after);
}

/* Copies this rank's shard from the host to its place in the whole tensor. Returns 0 if there is
 * nothing to copy, because the shard is on the device or empty. */
static mover_ticket fetch_shard(struct chunk_mover *mover, const struct mover_shard *shard,
                                const struct mover_after *after)
{
    const struct trace *trace = mover->trace;
    uint64_t width = trace->list_element_bytes[TRACE_GATHERED];
    struct shard own = shard_of(trace->tensors[shard->tensor].elements, mover->ranks->count,
                                mover->ranks->rank);
    if (shard->on_device || !own.count)
        return 0;
    return copy(mover, MOVER_H2D, shard->whole_address + own.first * width, shard->shard_address,
                own.count * width, after);
}

static mover_ticket gather(void *self, const struct mover_gather *gathered,
                           const struct mover_after *after)
{
    struct chunk_mover *mover = self;
    const struct mover_copy *to = &gathered->to;
    g_autofree struct device_shard *shards = g_new(struct device_shard, gathered->shard_count);
    struct mover_after fetched = chunk_mover_bind(mover, after);
    bool fetches = false;
    uint64_t elements = 0; /* of other ranks */
    usage_occupy(mover->usage, to->chunk, to->device_address, to->slot_bytes);
    for (uint32_t i = 0; i < gathered->shard_count; i++) {
        const struct mover_shard *shard = &gathered->shards[i];
        shards[i] = (struct device_shard){.whole_address = shard->whole_address,
                                          .elements = mover->trace->tensors[shard->tensor].elements,
                                          .on_device = shard->on_device,
                                          .shard_address = shard->shard_address};
        mover_ticket ticket = fetch_shard(mover, shard, after);
        fetched.queue[MOVER_H2D] = MAX(fetched.queue[MOVER_H2D], ticket);
        fetches |= ticket > 0;
        elements += shards[i].elements -
                    shard_of(shards[i].elements, mover->ranks->count, mover->ranks->rank).count;
    }
    mover->figures->gathers++;
    mover->figures->h2d_copies += fetches;
    const struct device_gather gather = {
        .shards = shards,
        .count = gathered->shard_count,
        .element_bytes = mover->trace->list_element_bytes[TRACE_GATHERED]};
    annotate_queued_gather_begin(mover->annotate, elements * gather.element_bytes);
    mover_ticket ticket = mover->device->ops->gather(mover->device, &gather, &fetched);
    annotate_queued_gather_end(mover->annotate);
    return ticket;
}

static void leave(struct chunk_mover *mover, chunk_id chunk)
{
    usage_leave(mover->usage, chunk);
    mover->figures->evictions++;
}

static mover_ticket write_back(void *self, const struct mover_copy *chunk, bool leaves,
                               const struct mover_after *after)
{
    struct chunk_mover *mover = self;
    if (leaves)
        leave(mover, chunk->chunk);
    mover->figures->d2h_copies += chunk->part == 0;
    return copy(mover, MOVER_D2H, chunk->device_address + chunk->offset,
                chunk->host_address + chunk->offset, chunk->copy_bytes, after);
}

static mover_ticket transfer(struct chunk_mover *mover, enum mover_queue queue,
                             const struct mover_copy *chunk, const struct mover_after *after)
{
    const struct device_transfer transfer = nvme_chunks_transfer(mover->nvme, queue, chunk);
    bool writes = queue == MOVER_NVME_WRITE;
    *(writes ? &mover->figures->nvme_write_bytes
             : &mover->figures->nvme_read_bytes) += transfer.bytes;
    mover->total.bytes[queue] += transfer.bytes;
    mover->total.copies[queue]++;
    return mover->device->ops->transfer(mover->device, queue, &transfer, after);
}

static mover_ticket load(void *self, const struct mover_copy *chunk,
                         const struct mover_after *after)
{
    return transfer(self, MOVER_NVME_READ, chunk, after);
}

static mover_ticket store(void *self, const struct mover_copy *chunk,
                          const struct mover_after *after)
{
    return transfer(self, MOVER_NVME_WRITE, chunk, after);
}

static void allocate(void *self, const struct mover_copy *chunk)
{
    struct chunk_mover *mover = self;
    usage_occupy(mover->usage, chunk->chunk, chunk->device_address, chunk->slot_bytes);
}

static void drop(void *self, chunk_id chunk)
{
    leave(self, chunk);
}

static mover_ticket move(void *self, const struct mover_copy *to, uint64_t from,
                         const struct mover_after *after)
{
    struct chunk_mover *mover = self;
    usage_occupy(mover->usage, to->chunk, to->device_address, to->slot_bytes);
    mover->figures->moves++;
    mover->figures->moved_bytes += to->copy_bytes;
    return mover->computed = mover->device->ops->move(mover->device, to->device_address, from,
                                                      to->copy_bytes, after);
}

static mover_ticket run(void *self, moment_id moment, const struct mover_after *after,
                        mover_ticket *received)
{
    struct chunk_mover *mover = self;
    return mover->run(mover->executor, moment, after, received);
}

mover_ticket chunk_mover_copy_activations(struct chunk_mover *mover, enum mover_queue queue,
                                          uint64_t device_address, uint64_t host_address,
                                          uint64_t bytes, const struct mover_after *after)
{
    return copy(mover, queue, device_address, host_address, bytes, after);
}

bool chunk_mover_agrees(const struct chunk_mover *mover)
{
    mover->device->ops->drain(mover->device);
    struct device_traffic copied = mover->device->ops->traffic(mover->device);
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (copied.bytes[q] != mover->total.bytes[q] || copied.copies[q] != mover->total.copies[q])
            return false;
    return true;
}

const struct mover_ops chunk_mover_ops = {
    .fetch = fetch,
    .gather = gather,
    .write_back = write_back,
    .allocate = allocate,
    .drop = drop,
    .load = load,
    .store = store,
    .move = move,
    .run = run,
};
