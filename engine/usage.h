/* Counts what occupies the arena, as chunks come and go and operators claim their buffers, and the
 * peaks. Bytes count as free when the eviction is issued. */
#ifndef PSTAR_ENGINE_USAGE_H
#define PSTAR_ENGINE_USAGE_H

#include "traces/ids.h"
#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct usage;

enum usage_error { USAGE_ERROR_BUDGET };
#define USAGE_ERROR usage_error_quark()
GQuark usage_error_quark(void);

struct usage *usage_new(uint32_t chunk_count, uint64_t arena_bytes);
void usage_free(struct usage *usage);

/* Occupies a chunk's slot. A chunk that was elsewhere on the device has moved. */
void usage_occupy(struct usage *usage, chunk_id chunk, uint64_t address, uint64_t slot_bytes);
void usage_leave(struct usage *usage, chunk_id chunk);

/* Starts an operator with `live` bytes of non-model data that reach `extent` bytes down from the
 * arena's top. Fails (USAGE_ERROR_BUDGET) if they overlap chunks, naming the moment, the operator,
 * the bytes needed and the bytes available. */
bool usage_start(struct usage *usage, moment_id moment, const char *name, uint64_t extent,
                 uint64_t live, GError **error);

/* The peaks over the operators started since the last reset. `bytes` is the end of the highest
 * chunk plus the extent of non-model data; `live_bytes` is the sum of slots and live bytes. */
struct usage_peaks {
    uint64_t bytes, live_bytes;
};
struct usage_peaks usage_peaks(const struct usage *usage);
void usage_reset_peaks(struct usage *usage);

#endif
