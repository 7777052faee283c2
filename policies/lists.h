/* The orders in which policies keep chunks (rings, a queue, several lists), and counts of how often
 * each was used again. */
#ifndef PSTAR_POLICIES_LISTS_H
#define PSTAR_POLICIES_LISTS_H

#include "policies/policy.h"

/* ---- rings ---- */

/* Rings are doubly linked lists of numbers, in memory of the caller. A ring has a head, which is a
 * number too. It runs from the head to the youngest member, on to the oldest, and back to the head.
 */

struct policy_link {
    uint32_t younger, older;
};

static inline void policy_ring_init(struct policy_link *links, uint32_t head)
{
    links[head] = (struct policy_link){head, head};
}

/* Inserts `item`, which must be in no ring, behind `place`. It becomes the youngest if `place` is
 * the head. */
static inline void policy_ring_insert(struct policy_link *links, uint32_t place, uint32_t item)
{
    uint32_t older = links[place].older;
    links[item] = (struct policy_link){place, older};
    links[older].younger = links[place].older = item;
}

static inline void policy_ring_remove(struct policy_link *links, uint32_t item)
{
    links[links[item].younger].older = links[item].older;
    links[links[item].older].younger = links[item].younger;
}

/* Returns the oldest member; the head if the ring is empty. */
static inline uint32_t policy_ring_oldest(const struct policy_link *links, uint32_t head)
{
    return links[head].younger;
}

/* ---- one queue ---- */

/* A queue of resident chunks, for policies that keep one order. */

struct policy_queue {
    const struct pstar_policy_view *view;
    struct policy_link *links; /* [chunk_count + 1] a ring */
    uint32_t head;             /* chunk_count */
};

void *policy_queue_open(const struct pstar_policy_view *view);
void policy_queue_close(void *queue);

/* Adds a chunk, which must not be in the queue, as the youngest. */
void policy_queue_push(void *queue, chunk_id chunk);
void policy_queue_remove(void *queue, chunk_id chunk);
/* Returns the oldest chunk that is not pinned, or NO_INDEX. */
uint32_t policy_queue_oldest(void *queue);

/* ---- several lists ---- */

/* Several lists of chunks with the bytes of each list. A chunk is in one of them at most. They are
 * for policies that keep more than one order, or remember chunks that have left (ghosts). */

enum { POLICY_LISTS = 4 };
#define POLICY_NO_LIST POLICY_LISTS

struct policy_lists {
    const struct pstar_policy_view *view;
    struct policy_link *links; /* [chunk_count + POLICY_LISTS] rings, the heads last */
    uint8_t *list;             /* [chunk_count] the list that each chunk is in, or POLICY_NO_LIST */
    uint64_t bytes[POLICY_LISTS]; /* of the chunks in each list */
};

void policy_lists_init(struct policy_lists *lists, const struct pstar_policy_view *view);
void policy_lists_clear(struct policy_lists *lists);

/* Moves the chunk from wherever it was to `list`, as its youngest. POLICY_NO_LIST removes it from
 * all lists. */
void policy_lists_put(struct policy_lists *lists, chunk_id chunk, uint8_t list);

/* Returns the bytes that the chunks may take on the device at the current moment. */
uint64_t policy_lists_capacity(const struct policy_lists *lists);

/* Returns the oldest of `list`, pinned or not; NO_INDEX if it is empty. */
uint32_t policy_lists_oldest(const struct policy_lists *lists, uint8_t list);
/* Returns the next younger chunk in the same list; NO_INDEX after the youngest. */
uint32_t policy_lists_younger(const struct policy_lists *lists, chunk_id chunk);
/* Returns the oldest of `list` that is not pinned, or NO_INDEX. */
uint32_t policy_lists_oldest_unpinned(const struct policy_lists *lists, uint8_t list);

/* ---- parameters ---- */

/* Returns the value that a user gave one of the policy's parameters, or its usual one. */
static inline double policy_value(const struct pstar_policy_view *view,
                                  const struct pstar_policy_parameter *parameters, int which)
{
    return view->values ? view->values[which] : parameters[which].usual;
}

/* ---- reuse ---- */

/* Counts of how often a resident chunk was used again, up to a limit, for policies that give chunks
 * another chance. */

/* The count of a chunk whose first use has not come yet. That use, by the moment's operator or by a
 * later one for which the chunk was prefetched, is why it was admitted, so it is no reuse. */
#define POLICY_AWAITED (-1)

/* Counts a use. `reuse` is one chunk's count, which admission sets to POLICY_AWAITED. */
static inline void policy_reuse_touch(int8_t *reuse, int8_t limit)
{
    if (*reuse < limit)
        ++*reuse;
}

#endif
