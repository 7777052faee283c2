/* How large the chunks of a layout are. A layout of one chunk a tensor has no chunk size worth the
 * name; its chunks spread from the smallest tensor to the largest. */
#ifndef PSTAR_CHUNKS_CHUNK_SPREAD_H
#define PSTAR_CHUNKS_CHUNK_SPREAD_H

#include "chunks/layout.h"

#include <jansson.h>

struct chunk_spread {
    uint64_t asked;       /* the layout's chunk size, to which chunks are filled */
    uint64_t least, most; /* bytes of the smallest chunk and of the largest; 0 if not known */
    uint64_t typical;     /* half of all bytes lie in chunks of at most this size; 0: not known */
};

/* Returns the spread of the chunks of one list (enum trace_list), by their content. All is 0 if the
 * list has no chunks. */
struct chunk_spread chunk_spread_of(const struct layout *layout, uint8_t list);

/* Returns the size that stands for all: the size asked for or, if every chunk is larger, the
 * typical one. 0 if it is not known. */
uint64_t chunk_spread_size(const struct chunk_spread *spread);

/* Returns that size for people, or the range if every chunk is larger than the size asked for:
 * "4 MiB", "768 B to 9 MiB". NULL if it is not known. Free with g_free. */
char *chunk_spread_format(const struct chunk_spread *spread);

/* Sets the keys chunk_bytes and, if it is known, chunk_range_bytes of an object: a list of the
 * least, the typical and the most. */
void chunk_spread_to_json(const struct chunk_spread *spread, json_t *object);

/* Reads these keys; all is 0 where they are absent or of another kind. */
struct chunk_spread chunk_spread_from_json(const json_t *object);

#endif
