#include "sim/occupancy.h"

#include <glib.h>

void occupancy_init(struct occupancy *occupancy, uint32_t chunk_count)
{
    *occupancy = (struct occupancy){.chunk_count = chunk_count,
                                    .end = g_new0(uint64_t, chunk_count),
                                    .slot_bytes = g_new0(uint64_t, chunk_count)};
}

void occupancy_clear(struct occupancy *occupancy)
{
    g_free(occupancy->end);
    g_free(occupancy->slot_bytes);
}

void occupancy_leave(struct occupancy *o, uint32_t chunk)
{
    o->stale |= o->end[chunk] && o->end[chunk] == o->highest_end;
    o->resident_bytes -= o->slot_bytes[chunk];
    o->end[chunk] = o->slot_bytes[chunk] = 0;
}

void occupancy_enter(struct occupancy *o, const struct mover_copy *copy)
{
    uint64_t end = copy->device_address + copy->slot_bytes;

    occupancy_leave(o, copy->chunk);
    o->end[copy->chunk] = end;
    o->slot_bytes[copy->chunk] = copy->slot_bytes;
    o->resident_bytes += copy->slot_bytes;
    o->highest_end = MAX(o->highest_end, end);
}

uint64_t occupancy_highest_end(struct occupancy *o)
{
    if (o->stale) {
        o->highest_end = 0;
        for (uint32_t c = 0; c < o->chunk_count; c++)
            o->highest_end = MAX(o->highest_end, o->end[c]);
        o->stale = false;
    }
    return o->highest_end;
}

uint64_t occupancy_most(const struct occupancy *o)
{
    return o->highest_end;
}
