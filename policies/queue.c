#include "policies/queue.h"

#include <glib.h>

void *policy_queue_open(const struct pstar_policy_view *view)
{
    struct policy_queue *queue = g_new(struct policy_queue, 1);
    queue->view = view;
    queue->links = g_new(struct policy_link, view->chunk_count + 1);
    queue->head = view->chunk_count;
    policy_ring_init(queue->links, queue->head);
    return queue;
}

void policy_queue_close(void *state)
{
    struct policy_queue *queue = state;
    g_free(queue->links);
    g_free(queue);
}

void policy_queue_push(void *state, uint32_t chunk)
{
    struct policy_queue *queue = state;
    policy_ring_insert(queue->links, queue->head, chunk);
}

void policy_queue_remove(void *state, uint32_t chunk)
{
    struct policy_queue *queue = state;
    policy_ring_remove(queue->links, chunk);
}

uint32_t policy_queue_oldest(void *state)
{
    const struct policy_queue *queue = state;
    uint32_t chunk = policy_ring_oldest(queue->links, queue->head);
    while (chunk != queue->head && queue->view->pinned[chunk])
        chunk = queue->links[chunk].younger;
    return chunk == queue->head ? NO_INDEX : chunk;
}
