/* Sequences of requests for one chunk each. */
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
    uint32_t
        *next; /* [count] index of the same chunk's next request, cyclic: 1 to count after it */
};

/* A line a request: a chunk's number, and `w` after it where it is written; `#` begins a comment.
 */
struct requests *requests_parse(const char *text);
struct requests *requests_read(const char *path);
/* Loops, popular chunks and passers-by mixed, over at most `chunks` chunks. */
struct requests *requests_draw(GRand *random, uint32_t count, uint32_t chunks);
void requests_free(struct requests *requests);

/* Seed of the test program's random cases, printed. */
uint32_t requests_seed(void);

#endif
