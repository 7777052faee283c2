#include "policies/queue.h"

#include <glib.h>

void *policy_queue_open(const struct policy_view *view)
{
    struct policy_queue *queue = g_new(struct policy_queue, 1);
    uint32_t head = view->chunk_count;
    queue->view = view;
    queue->before = g_new(uint32_t, head + 1);
    queue->after = g_new(uint32_t, head + 1);
    queue->before[head] = queue->after[head] = head;
    return queue;
}

void policy_queue_close(void *state)
{
    struct policy_queue *queue = state;
    g_free(queue->before);
    g_free(queue->after);
    g_free(queue);
}

void policy_queue_push(void *state, uint32_t chunk)
{
    struct policy_queue *queue = state;
    uint32_t head = queue->view->chunk_count, second = queue->after[head];
    queue->before[chunk] = head;
    queue->after[chunk] = second;
    queue->before[second] = queue->after[head] = chunk;
}

void policy_queue_remove(void *state, uint32_t chunk)
{
    struct policy_queue *queue = state;
    queue->after[queue->before[chunk]] = queue->after[chunk];
    queue->before[queue->after[chunk]] = queue->before[chunk];
}

uint32_t policy_queue_oldest(void *state)
{
    const struct policy_queue *queue = state;
    uint32_t head = queue->view->chunk_count;
    uint32_t chunk = queue->before[head];
    while (chunk != head && queue->view->pinned[chunk])
        chunk = queue->before[chunk];
    return chunk == head ? POLICY_NONE : chunk;
}
