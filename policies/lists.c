#include "policies/lists.h"

#include <glib.h>
#include <string.h>

/* ---- one queue ---- */

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

void policy_queue_push(void *state, chunk_id chunk)
{
    struct policy_queue *queue = state;
    policy_ring_insert(queue->links, queue->head, chunk);
}

void policy_queue_remove(void *state, chunk_id chunk)
{
    struct policy_queue *queue = state;
    policy_ring_remove(queue->links, chunk);
}

uint32_t policy_queue_oldest(void *state)
{
    const struct policy_queue *queue = state;
    chunk_id chunk = policy_ring_oldest(queue->links, queue->head);
    while (chunk != queue->head && queue->view->pinned[chunk])
        chunk = queue->links[chunk].younger;
    return chunk == queue->head ? NO_INDEX : chunk;
}

/* ---- several lists ---- */

void policy_lists_init(struct policy_lists *lists, const struct pstar_policy_view *view)
{
    *lists = (struct policy_lists){.view = view};
    lists->links = g_new(struct policy_link, view->chunk_count + POLICY_LISTS);
    lists->list = g_malloc(view->chunk_count);
    memset(lists->list, POLICY_NO_LIST, view->chunk_count);
    for (uint32_t i = 0; i < POLICY_LISTS; i++)
        policy_ring_init(lists->links, view->chunk_count + i);
}

void policy_lists_clear(struct policy_lists *lists)
{
    g_free(lists->links);
    g_free(lists->list);
}

void policy_lists_put(struct policy_lists *lists, chunk_id chunk, uint8_t list)
{
    uint64_t bytes = lists->view->chunk_bytes[chunk];
    uint8_t old = lists->list[chunk];
    if (old != POLICY_NO_LIST) {
        policy_ring_remove(lists->links, chunk);
        lists->bytes[old] -= bytes;
    }
    if (list != POLICY_NO_LIST) {
        policy_ring_insert(lists->links, lists->view->chunk_count + list, chunk);
        lists->bytes[list] += bytes;
    }
    lists->list[chunk] = list;
}

uint64_t policy_lists_capacity(const struct policy_lists *lists)
{
    return lists->view->capacity[*lists->view->moment];
}

uint32_t policy_lists_oldest(const struct policy_lists *lists, uint8_t list)
{
    chunk_id chunk = policy_ring_oldest(lists->links, lists->view->chunk_count + list);
    return chunk < lists->view->chunk_count ? chunk : NO_INDEX;
}

uint32_t policy_lists_younger(const struct policy_lists *lists, chunk_id chunk)
{
    uint32_t younger = lists->links[chunk].younger;
    return younger < lists->view->chunk_count ? younger : NO_INDEX;
}

uint32_t policy_lists_oldest_unpinned(const struct policy_lists *lists, uint8_t list)
{
    chunk_id chunk = policy_lists_oldest(lists, list);
    while (chunk != NO_INDEX && lists->view->pinned[chunk])
        chunk = policy_lists_younger(lists, chunk);
    return chunk;
}
