/* The chunks that the operator of each moment accesses: a trace seen through a layout. */
#ifndef PSTAR_CHUNKS_ACCESSES_H
#define PSTAR_CHUNKS_ACCESSES_H

#include "chunks/layout.h"
#include "traces/choices.h"

enum {
    ACCESS_WRITES = 1, /* the operator writes the chunk, or a part of it */
    ACCESS_FRESH = 2,  /* nothing in the chunk is alive before, so its bytes need not be fetched */
    ACCESS_LAST =
        4, /* nothing in it is alive after, until a FRESH access: it leaves without a copy */
    ACCESS_ON_HOST = 8, /* the operator uses the host's copy: it runs on the host, or it updates the
                           shards of a gathered chunk. The latter are a moment's last accesses */
};

struct chunk_access {
    chunk_id chunk;
    uint32_t flags;
};

struct accesses {
    char *digest; /* trace_digest of the trace, which every plan needs; NULL: plan_make takes it */
    struct run_choices *choices; /* of the trace, which every plan needs */
    uint32_t moment_count, count, chunk_count;
    uint32_t *first;            /* [moment_count + 1] into items */
    struct chunk_access *items; /* [count] by moment; a chunk has at most one in a moment */
    uint32_t *next_device_use; /* [count] moment of the same chunk's next access on the device, from
                                  the start of this iteration (in the next one if >= moment_count);
                                  NO_INDEX if there is none */
    uint8_t *ahead; /* [count] PSTAR_AHEAD_... (policies/policy.h) until the same chunk's next
                       access on the device */
    uint32_t *first_device_use; /* [chunk_count] moment of the first in an iteration; NO_INDEX */
    uint64_t *non_model; /* [moment_count] bytes of the arena's top that non-model data takes */
    uint64_t resting; /* the same between two iterations: buffers that live through all moments */
};

/* Merges each operator's tensor accesses by chunk. `non_model` is the extent of struct non_model.
 * Never fails if the trace was checked and the layout was made for it. The caller frees the result
 * with accesses_free. */
struct accesses *accesses_new(const struct trace *trace, const struct layout *layout,
                              const uint64_t *non_model);
/* Does the same with a known digest of the trace, for callers with many plans; it may be NULL. */
struct accesses *accesses_new_digested(const struct trace *trace, const char *digest,
                                       const struct layout *layout, const uint64_t *non_model);
void accesses_free(struct accesses *accesses);

/* Returns the moment at which the device next uses what this access wrote, counted as in
 * next_device_use. Returns NO_INDEX if it never does: if the access writes nothing, if the device
 * does not use the chunk, or if its next use overwrites all that is alive, so that it waits for
 * nothing. */
uint32_t accesses_next_need(const struct accesses *accesses, uint32_t access);

/* Returns the least device memory in bytes with which every operator finds its chunks and its
 * non-model data at once. Sets *moment, which may be NULL, to the moment that needs it. */
uint64_t accesses_least_arena_bytes(const struct accesses *accesses, const struct layout *layout,
                                    uint32_t *moment);

#endif
