/* The buffers that CUPTI writes its records into, and those it has handed back, which wait to be
 * read. CUPTI calls from threads of its own and from the program's, with locks of its own held:
 * nothing here calls CUPTI or waits for anyone who might. */
#ifndef PSTAR_COLLECT_BUFFER_QUEUE_H
#define PSTAR_COLLECT_BUFFER_QUEUE_H

#include <cupti_activity.h>
#include <glib.h>
#include <stdbool.h>

struct full_buffer {
    uint8_t *bytes;
    size_t valid_bytes;
};

/* `many` is called, from any thread, when more than a few wait to be read. */
void buffer_queue_set_up(void (*many)(void *data), void *data);

/* For cuptiActivityRegisterCallbacks, whose callbacks carry no context: there is one queue a
 * process. Where too much waits to be read none is given: CUPTI drops records then, and counts
 * them. */
void CUPTIAPI buffer_queue_request(uint8_t **buffer, size_t *bytes, size_t *most_records);
void CUPTIAPI buffer_queue_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
                                    size_t bytes, size_t valid_bytes);

/* The one that has waited longest, to be given to buffer_queue_release; false: none waits. */
bool buffer_queue_take(struct full_buffer *buffer);
void buffer_queue_release(const struct full_buffer *buffer);

#endif
