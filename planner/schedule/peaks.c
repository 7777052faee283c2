#include "planner/schedule/peaks.h"

#include <glib.h>

/* most[l][m]: over 2^l moments from m on, cyclic. */
struct peaks {
    uint32_t moment_count, levels;
    uint64_t **most;
};

struct peaks *peaks_new(const uint64_t *amount, uint32_t moment_count)
{
    struct peaks *peaks = g_new(struct peaks, 1);
    uint32_t levels = (uint32_t)g_bit_storage(moment_count);

    *peaks = (struct peaks){moment_count, levels, g_new(uint64_t *, levels)};
    peaks->most[0] = g_memdup2(amount, moment_count * sizeof *amount);
    for (uint32_t level = 1; level < levels; level++) {
        const uint64_t *half = peaks->most[level - 1];
        uint64_t *whole = peaks->most[level] = g_new(uint64_t, moment_count);
        uint32_t ahead = 1u << (level - 1);
        for (uint32_t m = 0; m < moment_count - ahead; m++)
            whole[m] = MAX(half[m], half[m + ahead]);
        for (uint32_t m = moment_count - ahead; m < moment_count; m++)
            whole[m] = MAX(half[m], half[m + ahead - moment_count]);
    }
    return peaks;
}

void peaks_free(struct peaks *peaks)
{
    if (!peaks)
        return;
    for (uint32_t level = 0; level < peaks->levels; level++)
        g_free(peaks->most[level]);
    g_free(peaks->most);
    g_free(peaks);
}

uint64_t peaks_over(const struct peaks *peaks, uint32_t begin, uint32_t length)
{
    length = MIN(length, peaks->moment_count);
    if (length == 0)
        return 0;
    uint32_t level = (uint32_t)g_bit_storage(length) - 1;
    uint32_t last = (begin + length - (1u << level)) % peaks->moment_count;
    return MAX(peaks->most[level][begin], peaks->most[level][last]);
}
