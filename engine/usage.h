/* Who occupies the arena, counted as chunks come and go and operators claim their buffers, and the
 * most that was ever occupied at once. Bytes count as free when the departure is decided. */
#ifndef PSTAR_ENGINE_USAGE_H
#define PSTAR_ENGINE_USAGE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct usage;

enum usage_error { USAGE_ERROR_BUDGET };
#define USAGE_ERROR usage_error_quark()
GQuark usage_error_quark(void);

struct usage *usage_new(uint32_t chunk_count, uint64_t arena_bytes);
void usage_free(struct usage *usage);

/* A chunk's slot is occupied from now on; one that was elsewhere on the device has moved. */
void usage_occupy(struct usage *usage, uint32_t chunk, uint64_t address, uint64_t slot_bytes);
void usage_leave(struct usage *usage, uint32_t chunk);

/* An operator starts, beside chunks, with `live` bytes of non-model data that reach `extent` bytes
 * down from the arena's top. Where they meet the chunks: USAGE_ERROR_BUDGET, naming moment,
 * operator, the bytes asked for and the bytes there. */
bool usage_start(struct usage *usage, uint32_t moment, const char *name, uint64_t extent,
                 uint64_t live, GError **error);

/* Greatest, over the operators started since the last reset, of: end of the highest chunk plus
 * extent; and sum of slots and live bytes. */
struct usage_peaks {
    uint64_t bytes, live_bytes;
};
struct usage_peaks usage_peaks(const struct usage *usage);
void usage_reset_peaks(struct usage *usage);

#endif
