/* Copies in parts. Copies over the link of the chunks that a plan cuts are pieces of work of their
 * own, one for each of COPY_PARTS parts of equal size, so that one chunk follows another through
 * the same room (chunks/residency/address_map.h). */
#ifndef PSTAR_CHUNKS_PARTS_H
#define PSTAR_CHUNKS_PARTS_H

#include <stdbool.h>
#include <stdint.h>

enum { COPY_PARTS = 8 };

/* Returns whether a chunk of which so many bytes are copied is cut, where chunks are from this size
 * on (cut_from_bytes of struct plan); 0 cuts none. */
static inline bool copy_is_cut(uint64_t cut_from_bytes, uint64_t bytes)
{
    return cut_from_bytes && bytes >= cut_from_bytes;
}

/* Returns where a part begins in a chunk of so many bytes; for part COPY_PARTS, its end. */
static inline uint64_t copy_part_offset(uint64_t bytes, uint32_t part)
{
    return bytes / COPY_PARTS * part + bytes % COPY_PARTS * part / COPY_PARTS;
}

static inline uint64_t copy_part_bytes(uint64_t bytes, uint32_t part)
{
    return copy_part_offset(bytes, part + 1) - copy_part_offset(bytes, part);
}

#endif
