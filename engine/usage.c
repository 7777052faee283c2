#include "engine/usage.h"

struct slot {
    uint64_t end, slot_bytes; /* 0 if not on the device */
};

struct usage {
    uint32_t chunk_count;
    uint64_t arena_bytes;
    struct slot *slots; /* [chunk_count] */
    uint64_t highest;   /* end of the highest slot; valid unless stale */
    bool stale;
    uint64_t slot_bytes; /* sum over the slots */
    struct usage_peaks peaks;
};

G_DEFINE_QUARK(pstar_usage_error, usage_error)

struct usage *usage_new(uint32_t chunk_count, uint64_t arena_bytes)
{
    struct usage *usage = g_new0(struct usage, 1);
    usage->chunk_count = chunk_count;
    usage->arena_bytes = arena_bytes;
    usage->slots = g_new0(struct slot, chunk_count);
    return usage;
}

void usage_free(struct usage *usage)
{
    if (!usage)
        return;
    g_free(usage->slots);
    g_free(usage);
}

void usage_leave(struct usage *usage, chunk_id chunk)
{
    struct slot *slot = &usage->slots[chunk];
    usage->stale |= slot->end == usage->highest;
    usage->slot_bytes -= slot->slot_bytes;
    *slot = (struct slot){0, 0};
}

void usage_occupy(struct usage *usage, chunk_id chunk, uint64_t address, uint64_t slot_bytes)
{
    g_assert(address + slot_bytes <= usage->arena_bytes);
    usage_leave(usage, chunk);
    usage->slots[chunk] = (struct slot){address + slot_bytes, slot_bytes};
    usage->slot_bytes += slot_bytes;
    usage->highest = MAX(usage->highest, address + slot_bytes);
}

static uint64_t highest(struct usage *usage)
{
    if (usage->stale) {
        usage->highest = 0;
        for (uint32_t c = 0; c < usage->chunk_count; c++)
            usage->highest = MAX(usage->highest, usage->slots[c].end);
        usage->stale = false;
    }
    return usage->highest;
}

bool usage_start(struct usage *usage, moment_id moment, const char *name, uint64_t extent,
                 uint64_t live, GError **error)
{
    uint64_t there = usage->arena_bytes - highest(usage);
    if (extent > there) {
        g_set_error(error, USAGE_ERROR, USAGE_ERROR_BUDGET,
                    "device memory: moment %u (%s) needs %" G_GUINT64_FORMAT
                    " bytes of activations and workspaces, but only %" G_GUINT64_FORMAT
                    " bytes are free above the chunks",
                    moment, name, extent, there);
        return false;
    }
    usage->peaks.bytes = MAX(usage->peaks.bytes, highest(usage) + extent);
    usage->peaks.live_bytes = MAX(usage->peaks.live_bytes, usage->slot_bytes + live);
    return true;
}

struct usage_peaks usage_peaks(const struct usage *usage)
{
    return usage->peaks;
}

void usage_reset_peaks(struct usage *usage)
{
    usage->peaks = (struct usage_peaks){0, 0};
}
