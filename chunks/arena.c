#include "chunks/arena.h"

static const struct arena_block *block_at(const struct arena *arena, uint32_t index)
{
    return &g_array_index(arena->blocks, struct arena_block, index);
}

/* Index of the first block at `address` or above. */
static uint32_t first_from(const struct arena *arena, uint64_t address)
{
    uint32_t low = 0, high = arena->blocks->len;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (block_at(arena, middle)->address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct arena *arena_new(void)
{
    struct arena *arena = g_new(struct arena, 1);
    arena->blocks = g_array_new(FALSE, FALSE, sizeof(struct arena_block));
    return arena;
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    g_array_free(arena->blocks, TRUE);
    g_free(arena);
}

uint64_t arena_find(const struct arena *arena, uint64_t bytes, uint64_t ceiling)
{
    uint64_t candidate = 0;
    for (uint32_t i = 0; i < arena->blocks->len; i++) {
        const struct arena_block *block = block_at(arena, i);
        if (block->address >= candidate + bytes)
            break;
        candidate = block->address + block->bytes;
    }
    return candidate + bytes <= ceiling ? candidate : ARENA_NO_ROOM;
}

gboolean arena_is_free(const struct arena *arena, uint64_t address, uint64_t bytes, uint32_t chunk)
{
    uint32_t i = first_from(arena, address);
    /* The one before may reach into the range; the ones after may begin in it. */
    for (i = i ? i - 1 : 0; i < arena->blocks->len; i++) {
        const struct arena_block *block = block_at(arena, i);
        if (block->address >= address + bytes)
            break;
        if (block->address + block->bytes > address && block->chunk != chunk)
            return FALSE;
    }
    return TRUE;
}

void arena_insert(struct arena *arena, uint32_t chunk, uint64_t address, uint64_t bytes)
{
    struct arena_block block = {.address = address, .bytes = bytes, .chunk = chunk};
    g_assert(arena_is_free(arena, address, bytes, UINT32_MAX));
    g_array_insert_val(arena->blocks, first_from(arena, address), block);
}

void arena_remove(struct arena *arena, uint64_t address)
{
    uint32_t i = first_from(arena, address);
    g_assert(i < arena->blocks->len && block_at(arena, i)->address == address);
    g_array_remove_index(arena->blocks, i);
}

uint64_t arena_end(const struct arena *arena)
{
    if (!arena->blocks->len)
        return 0;
    const struct arena_block *last = block_at(arena, arena->blocks->len - 1);
    return last->address + last->bytes;
}
