#include "chunks/slots.h"

/* Chunks below this share of the largest are small. */
#define SMALL_SHARE 64

/* Rounding may waste this share of the bytes of the chunks that are rounded. */
#define WASTE_SHARE 256

/* A grain may be wider than the divided size by this share, a quarter of the waste, so that chunks
 * which are a little larger than a multiple fit too. */
#define MARGIN_SHARE (4 * WASTE_SHARE)

enum {
    DIVISORS = 256, /* the largest number that a size is divided by */
    HEAVIEST = 4    /* how many sizes are divided, those with the most bytes in all */
};

/* Chunks of one size. */
struct size {
    uint64_t bytes, all; /* of one chunk, and of all of them */
};

static int by_bytes(const void *left, const void *right)
{
    const struct size *a = left, *b = right;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int heaviest_first(const void *left, const void *right)
{
    const struct size *a = left, *b = right;
    return a->all != b->all ? (a->all < b->all) - (a->all > b->all) : by_bytes(left, right);
}

/* Lists the sizes of chunks with at least `least` and less than `most` bytes. Those with the most
 * bytes in all come first. */
static GArray *list_sizes(const struct layout *layout, uint64_t least, uint64_t most)
{
    GArray *sizes = g_array_new(FALSE, FALSE, sizeof(struct size));
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        const struct size size = {layout->chunks[c].slot_bytes, layout->chunks[c].slot_bytes};
        if (least <= size.bytes && size.bytes < most)
            g_array_append_val(sizes, size);
    }
    g_array_sort(sizes, by_bytes);
    guint count = 0;
    for (guint i = 0; i < sizes->len; i++) {
        const struct size *size = &g_array_index(sizes, struct size, i);
        if (count && g_array_index(sizes, struct size, count - 1).bytes == size->bytes)
            g_array_index(sizes, struct size, count - 1).all += size->bytes;
        else
            g_array_index(sizes, struct size, count++) = *size;
    }
    g_array_set_size(sizes, count);
    g_array_sort(sizes, heaviest_first);
    return sizes;
}

static uint64_t round_up(uint64_t bytes, uint64_t grain)
{
    return (bytes + grain - 1) / grain * grain;
}

static bool wastes_little(const GArray *sizes, uint64_t grain, uint64_t limit)
{
    uint64_t waste = 0;
    for (guint i = 0; i < sizes->len && waste <= limit; i++) {
        const struct size *size = &g_array_index(sizes, struct size, i);
        waste += (round_up(size->bytes, grain) - size->bytes) * (size->all / size->bytes);
    }
    return waste <= limit;
}

/* Returns the grain for chunks with at least `least` and less than `most` bytes; LAYOUT_ALIGNMENT
 * if every larger one wastes too much. */
static uint64_t choose_grain(const struct layout *layout, uint64_t least, uint64_t most)
{
    g_autoptr(GArray) sizes = list_sizes(layout, least, most);
    uint64_t best = LAYOUT_ALIGNMENT, all = 0;
    for (guint i = 0; i < sizes->len; i++)
        all += g_array_index(sizes, struct size, i).all;
    for (guint i = 0; i < MIN(sizes->len, HEAVIEST); i++) {
        uint64_t bytes = g_array_index(sizes, struct size, i).bytes;
        for (uint64_t divisor = 1; divisor <= DIVISORS; divisor++) {
            uint64_t part = layout_align((bytes + divisor - 1) / divisor);
            uint64_t wider = layout_align(part + part / MARGIN_SHARE);
            if (wider <= best)
                break;
            if (wastes_little(sizes, part, all / WASTE_SHARE))
                best = MAX(best, part);
            else if (wastes_little(sizes, wider, all / WASTE_SHARE))
                best = wider;
        }
    }
    return best;
}

uint64_t slots_largest(const struct layout *layout)
{
    uint64_t largest = 0;
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        largest = MAX(largest, layout->chunks[c].slot_bytes);
    return largest;
}

uint64_t slots_small(const struct layout *layout)
{
    return slots_largest(layout) / SMALL_SHARE;
}

struct layout *slots_round(const struct layout *layout)
{
    uint64_t small = slots_small(layout);
    uint64_t of_small = choose_grain(layout, 0, small);
    uint64_t of_large = choose_grain(layout, small, UINT64_MAX);
    struct layout *slots = layout_copy(layout);
    for (uint32_t c = 0; c < slots->chunk_count; c++) {
        uint64_t *bytes = &slots->chunks[c].slot_bytes;
        *bytes = round_up(*bytes, *bytes < small ? of_small : of_large);
    }
    return slots;
}

void slots_tighten(struct layout *layout)
{
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        layout->chunks[c].slot_bytes = layout_align(layout->chunks[c].copy_bytes);
}
