/* A layout says in which chunk each tensor lies, and at which offset, in every list.
 *
 * Lists nest: every boundary of the parameter list is a boundary of the others. By default all
 * chunks have the same size, so a chunk of bf16 parameters covers the same tensors as two chunks of
 * an fp32 list. A parameter chunk and the finer chunks inside it form a group.
 *
 * What a layout places are the blocks of tensors: in the lists of states those of trace_blocks, in
 * the others whole tensors. A cut tensor shares no chunk with other tensors, and is a group of its
 * own with all of its blocks.
 *
 * After the lists' chunks come the chunks that hold buffers (trace_held_buffers). Each is a group
 * of its own. It holds one buffer, or several of one name and size that live one after the other,
 * as buffers of different micro-batches do. */
#ifndef PSTAR_CHUNKS_LAYOUT_H
#define PSTAR_CHUNKS_LAYOUT_H

#include "traces/trace.h"

#define LAYOUT_ALIGNMENT 256 /* bytes; every tensor's offset and every chunk's size */

/* Rounds up to a multiple of LAYOUT_ALIGNMENT. */
uint64_t layout_align(uint64_t bytes);

struct layout;

/* Says how tensors are packed. */
struct layout_spec {
    uint64_t chunk_bytes[TRACE_LISTS]; /* multiples of LAYOUT_ALIGNMENT */
    const uint32_t *order;             /* [tensor_count] a permutation; NULL means the model's */
    const struct layout *given;        /* copied as it is, and the rest ignored; may be NULL */
};

/* A chunk is filled up to its list's chunk_bytes and then cut to its content, so that memory and
 * link are spent on tensors and not on padding. */
struct chunk {
    uint64_t
        slot_bytes; /* what it occupies on the device; may exceed its content (chunks/slots.h) */
    uint64_t copy_bytes; /* bytes that hold tensors, alignment included: what a copy moves, and its
                      slot on the host */
    uint32_t group;      /* the chunk of the coarsest list that covers the same tensors */
    uint8_t list;        /* enum trace_list */
};

struct layout_place {
    chunk_id chunk;
    uint64_t offset; /* bytes */
};

struct layout {
    uint64_t chunk_bytes[TRACE_LISTS];
    uint32_t tensor_count, chunk_count, group_count;
    uint32_t buffer_count; /* of the trace; 0 if chunks hold none of them */
    struct chunk *chunks;  /* list by list, in the order of enum trace_list */
    uint32_t *first_block; /* [tensor_count + 1] a tensor's first block among those of all tensors,
                              in the lists of states; NULL if no tensor is cut */
    struct layout_place
        *places[TRACE_ACCESS_LISTS]; /* [layout_place_count]; NULL where the list does not exist */
};

/* Returns the number of places in a list: of blocks, tensors or buffers. */
uint32_t layout_place_count(const struct layout *layout, int list);

/* Returns the index, in a list's places, of a tensor's block, or of a buffer. */
static inline uint32_t layout_place_index(const struct layout *layout, int list, uint32_t tensor,
                                          uint32_t block)
{
    bool states = list >= TRACE_MASTER && list <= TRACE_EXP_AVG_SQ;
    return states && layout->first_block ? layout->first_block[tensor] + block : tensor;
}

/* Returns where an access finds its bytes. */
static inline const struct layout_place *layout_place_of(const struct layout *layout,
                                                         const struct trace_access *access)
{
    return &layout->places[access->list]
                          [layout_place_index(layout, access->list, access->tensor, access->block)];
}

/* Returns the name of what lies at a place of a list: a tensor, "wte.weight[3]" or a buffer. Free
 * with g_free. */
char *layout_place_name(const struct layout *layout, const struct trace *trace, int list,
                        uint32_t place);

/* Sets first_block for the trace's cut tensors. For those who make layouts. */
void layout_number_blocks(struct layout *layout, const struct trace *trace);

/* Marks in [chunk_count] the chunks that hold no first block of a tensor. Free with g_free. */
uint8_t *layout_continuations(const struct layout *layout);

enum layout_error { LAYOUT_ERROR_INVALID };
#define LAYOUT_ERROR layout_error_quark()
GQuark layout_error_quark(void);

/* Packs the trace's tensors in order. A tensor goes into the last chunk of its list if it fits
 * whole, and opens a new chunk otherwise. A tensor larger than a chunk gets a chunk of its own
 * size. The blocks of a cut tensor are packed alike, in chunks that hold nothing else. Of a layout
 * that is given, the chunks of buffers become this trace's. Fails with LAYOUT_ERROR if a size is
 * not a multiple of the alignment, or the order is not a permutation. The caller frees the result
 * with layout_free. */
struct layout *layout_pack(const struct trace *trace, const struct layout_spec *spec,
                           GError **error);

/* Returns whether every tensor lies in the same chunk at the same offset. Layouts of different
 * chunk sizes can be the same in this sense. */
bool layout_same_chunks(const struct layout *a, const struct layout *b);

/* Returns the list with the fewest chunks, or -1 if there are no lists. Every group has exactly one
 * chunk of this list, without continuations. */
int layout_coarsest_list(const struct layout *layout);

/* Replaces the chunks of buffers by those that this trace's buffers need, and keeps the lists. Use
 * it for a layout that was made for other choices of the same model. */
void layout_hold_buffers(struct layout *layout, const struct trace *trace);
/* Removes the chunks of buffers. */
void layout_drop_buffers(struct layout *layout);

/* Packs with one chunk size for every list. Fails as layout_pack does. */
struct layout *layout_pack_uniform(const struct trace *trace, uint64_t chunk_bytes, GError **error);

void layout_free(struct layout *layout);
struct layout *layout_copy(const struct layout *layout);

/* Returns the sum of all slots: the memory that holding everything takes. */
uint64_t layout_slot_bytes(const struct layout *layout);

#endif
