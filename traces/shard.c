#include "traces/shard.h"

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

uint64_t shard_block(uint64_t elements)
{
    return divide_up(divide_up(elements, SHARD_STEP), SHARD_BLOCKS) * SHARD_STEP;
}

uint64_t shard_room(uint64_t elements, uint32_t ranks)
{
    if (ranks <= 1 || elements == 0)
        return elements;
    uint64_t block = shard_block(elements);
    return divide_up(divide_up(elements, block), ranks) * block;
}

struct shard shard_of(uint64_t elements, uint32_t ranks, uint32_t rank)
{
    uint64_t room = shard_room(elements, ranks), first = rank * room;
    if (first >= elements)
        return (struct shard){elements, 0};
    return (struct shard){first, elements - first < room ? elements - first : room};
}
