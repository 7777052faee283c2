#include "engine/storage/checksum.h"

#include <string.h>

enum { LANES = 8 };
#define ODD 0x9e3779b97f4a7c15U /* 2^64 / golden ratio */

static uint64_t rotate(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

/* Spreads each bit over all others. Maps no two values to one. */
static uint64_t mix(uint64_t value)
{
    value ^= value >> 32;
    value *= 0xd6e8feb86659fd93U;
    value ^= value >> 29;
    value *= ODD;
    return value ^ value >> 32;
}

/* Each step of a lane maps no two lanes and no two words to one, so a word that changed changes its
 * lane to the end. */
uint64_t checksum_block(const void *block, uint64_t bytes, uint64_t index)
{
    const uint8_t *at = block, *end = at + bytes;
    uint64_t lane[LANES], word[LANES], sum = mix(index + 1);
    for (int i = 0; i < LANES; i++)
        lane[i] = ODD * (uint64_t)(i + 1);
    for (; at < end; at += sizeof word) {
        memcpy(word, at, sizeof word);
        for (int i = 0; i < LANES; i++)
            lane[i] = rotate((lane[i] ^ word[i]) * ODD, 29);
    }
    for (int i = 0; i < LANES; i++)
        sum = mix(sum ^ lane[i]) + (uint64_t)i;
    return sum;
}
