#include "collect/buffer_queue.h"

#include <stdlib.h>

enum { BUFFER_BYTES = 4 << 20, MOST_BUFFERS = 256, MANY = 8 };

static struct {
    GMutex lock;
    GQueue full;   /* of struct full_buffer */
    guint buffers; /* that CUPTI has, or that wait */
    void (*many)(void *data);
    void *data;
} queue = {.full = G_QUEUE_INIT};

void buffer_queue_set_up(void (*many)(void *data), void *data)
{
    queue.many = many;
    queue.data = data;
}

void CUPTIAPI buffer_queue_request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    g_mutex_lock(&queue.lock);
    bool room = queue.buffers < MOST_BUFFERS;
    *buffer = room ? aligned_alloc(8, BUFFER_BYTES) : NULL;
    queue.buffers += *buffer != NULL;
    g_mutex_unlock(&queue.lock);
    *bytes = !*buffer ? 0 : BUFFER_BYTES;
    *most_records = 0; /* as many as fit */
}

void CUPTIAPI buffer_queue_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
                                    size_t bytes, size_t valid_bytes)
{
    (void)context;
    (void)stream;
    (void)bytes;
    struct full_buffer *full = g_new(struct full_buffer, 1);
    *full = (struct full_buffer){buffer, valid_bytes};
    g_mutex_lock(&queue.lock);
    g_queue_push_tail(&queue.full, full);
    guint waiting = queue.full.length;
    g_mutex_unlock(&queue.lock);
    if (waiting >= MANY)
        queue.many(queue.data);
}

bool buffer_queue_take(struct full_buffer *buffer)
{
    g_mutex_lock(&queue.lock);
    struct full_buffer *full = g_queue_pop_head(&queue.full);
    g_mutex_unlock(&queue.lock);
    if (full)
        *buffer = *full;
    g_free(full);
    return full != NULL;
}

void buffer_queue_release(const struct full_buffer *buffer)
{
    free(buffer->bytes);
    g_mutex_lock(&queue.lock);
    queue.buffers--;
    g_mutex_unlock(&queue.lock);
}
