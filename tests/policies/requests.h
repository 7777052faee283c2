/* Sequences of requests. Each is for one chunk. */
#ifndef PSTAR_TESTS_POLICIES_REQUESTS_H
#define PSTAR_TESTS_POLICIES_REQUESTS_H

#include <glib.h>
#include <stdint.h>

struct request {
    uint32_t chunk;
    uint32_t writes; /* nonzero: the chunk is dirty afterwards */
};

struct requests {
    struct request *items;
    uint32_t count, chunk_count;
    uint32_t *next; /* [count] index of the same chunk's next request, 1 to `count` later, because
                       the sequence is cyclic */
};

/* Each line is a request: a chunk's number, with `w` after it if the request writes the chunk. `#`
 * begins a comment. */
struct requests *requests_parse(const char *text);
struct requests *requests_read(const char *path);
/* Draws a mixture of loops, popular chunks and chunks used once, over at most `chunks` chunks. */
struct requests *requests_draw(GRand *random, uint32_t count, uint32_t chunks);
void requests_free(struct requests *requests);

/* Returns the seed of the test program's random cases, and prints it. */
uint32_t requests_seed(void);

#endif
