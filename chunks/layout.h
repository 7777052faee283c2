/* Where each tensor lies: chunk and offset, in every list.
 *
 * Lists nest. All chunks have the same bytes by default, so a chunk of the parameter list in bf16
 * covers as many tensors as two chunks of an fp32 list; every boundary of the parameter list is a
 * boundary of the others. The parameter chunk and the finer chunks inside it form a group.
 *
 * Behind the lists' chunks come those of buffers that chunks hold (trace_held_buffers), each a
 * group of its own: one buffer a chunk, or several of one name and size that live one after the
 * other, as those of different micro-batches do. */
#ifndef PSTAR_CHUNKS_LAYOUT_H
#define PSTAR_CHUNKS_LAYOUT_H

#include "traces/trace.h"

#define LAYOUT_ALIGNMENT 256 /* bytes; every tensor's offset and every chunk's size */

/* The next multiple of LAYOUT_ALIGNMENT. */
uint64_t layout_align(uint64_t bytes);

struct layout;

/* What a layout is made from. */
struct layout_spec {
    uint64_t chunk_bytes[TRACE_LISTS]; /* multiples of LAYOUT_ALIGNMENT */
    const uint32_t *order;             /* [tensor_count] a permutation; NULL: the model's order */
    const struct layout *given;        /* taken as it is, whatever the others say; NULL: none */
};

/* A chunk is filled up to its list's chunk_bytes and then cut to what it holds: memory and link are
 * spent on tensors, not on padding. */
struct chunk {
    uint64_t slot_bytes; /* its slot on the device: what it holds, or more (chunks/slots.h) */
    uint64_t copy_bytes; /* bytes that hold tensors, alignment included: what a copy moves, and its
                      slot on the host */
    uint32_t group;      /* the chunk of the coarsest list that covers the same tensors */
    uint8_t list;        /* enum trace_list */
};

struct layout_place {
    uint32_t chunk;
    uint64_t offset; /* bytes */
};

struct layout {
    uint64_t chunk_bytes[TRACE_LISTS];
    uint32_t tensor_count, chunk_count, group_count;
    uint32_t buffer_count; /* of the trace; 0 where chunks hold none of them */
    struct chunk *chunks;  /* list by list, in the order of enum trace_list */
    struct layout_place
        *places[TRACE_ACCESS_LISTS]; /* [tensor_count]; NULL where the list does not
                                        exist; of TRACE_ACTIVATION, [buffer_count] */
};

enum layout_error { LAYOUT_ERROR_INVALID };
#define LAYOUT_ERROR layout_error_quark()
GQuark layout_error_quark(void);

/* Packs the trace's tensors in order: a tensor goes into the last chunk of its list if it fits
 * whole, and opens a new one otherwise; one larger than a chunk gets a chunk of its own size. Fails
 * on sizes that are no multiples of the alignment and on an order that is no permutation. A layout
 * that is given is copied, but for the chunks of buffers, which are this trace's. */
struct layout *layout_pack(const struct trace *trace, const struct layout_spec *spec,
                           GError **error);

/* Whether every tensor lies in the same chunk at the same offset: sizes that no tensor tells apart
 * give the same chunks. */
bool layout_same_chunks(const struct layout *a, const struct layout *b);

/* The list with the fewest chunks, within which those of the others lie: a group has one of them.
 * -1 where there are no lists. */
int layout_coarsest_list(const struct layout *layout);

/* The chunks of buffers become those that this trace's buffers take; lists stay what they are. For
 * a layout that was made for another choice of the same model. */
void layout_hold_buffers(struct layout *layout, const struct trace *trace);
/* From now on there are none. */
void layout_drop_buffers(struct layout *layout);

/* The same chunk size for every list. */
struct layout *layout_pack_uniform(const struct trace *trace, uint64_t chunk_bytes, GError **error);

void layout_free(struct layout *layout);
struct layout *layout_copy(const struct layout *layout);

/* Sum of the chunks' slots: what holding everything takes. */
uint64_t layout_slot_bytes(const struct layout *layout);

#endif
