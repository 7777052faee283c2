/* Who occupies which addresses of a memory, and where there is room. No bytes are touched. */
#ifndef PSTAR_CHUNKS_ARENA_H
#define PSTAR_CHUNKS_ARENA_H

#include <glib.h>
#include <stdint.h>

#define ARENA_NO_ROOM UINT64_MAX

struct arena_block {
    uint64_t address, bytes;
    uint32_t chunk;
};

struct arena {
    GArray *blocks; /* struct arena_block, ascending by address, never overlapping */
};

struct arena *arena_new(void);
void arena_free(struct arena *arena);

/* The lowest address at which `bytes` are free and end at `ceiling` or below; ARENA_NO_ROOM. */
uint64_t arena_find(const struct arena *arena, uint64_t bytes, uint64_t ceiling);
/* Whether [address, address + bytes) is free but for `chunk` itself. */
gboolean arena_is_free(const struct arena *arena, uint64_t address, uint64_t bytes, uint32_t chunk);
/* The range must be free. */
void arena_insert(struct arena *arena, uint32_t chunk, uint64_t address, uint64_t bytes);
/* The block at this address must exist. */
void arena_remove(struct arena *arena, uint64_t address);
/* End of the highest block; 0 when empty. */
uint64_t arena_end(const struct arena *arena);

#endif
