/* What policies keep of their chunks: rings, one queue, several lists, and how often each was used
 * again. */
#ifndef PSTAR_POLICIES_LISTS_H
#define PSTAR_POLICIES_LISTS_H

#include "policies/policy.h"

/* ---- rings ---- */

/* Rings: doubly linked lists over numbers, without memory of their own. A ring has a head, which is
 * a number too; from there it runs from the youngest member to the oldest and back to the head. */

struct policy_link {
    uint32_t younger, older;
};

static inline void policy_ring_init(struct policy_link *links, uint32_t head)
{
    links[head] = (struct policy_link){head, head};
}

/* Takes `item`, which is in no ring, in behind `place`: as the youngest where that is the head. */
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

/* The head where the ring is empty. */
static inline uint32_t policy_ring_oldest(const struct policy_link *links, uint32_t head)
{
    return links[head].younger;
}

/* ---- one queue ---- */

/* A queue of resident chunks, for the policies that keep one order. */

struct policy_queue {
    const struct pstar_policy_view *view;
    struct policy_link *links; /* [chunk_count + 1] a ring */
    uint32_t head;             /* chunk_count */
};

void *policy_queue_open(const struct pstar_policy_view *view);
void policy_queue_close(void *queue);

/* Takes a chunk that is not in the queue in as the youngest. */
void policy_queue_push(void *queue, uint32_t chunk);
void policy_queue_remove(void *queue, uint32_t chunk);
/* The oldest that is not pinned; NO_INDEX. */
uint32_t policy_queue_oldest(void *queue);

/* ---- several lists ---- */

/* Chunks in several lists, each in one at most, with the bytes of each list: for the policies that
 * keep more than one order, and remember chunks that have left (ghosts). */

enum { POLICY_LISTS = 4 };
#define POLICY_NO_LIST POLICY_LISTS

struct policy_lists {
    const struct pstar_policy_view *view;
    struct policy_link *links;    /* [chunk_count + POLICY_LISTS] rings, the heads last */
    uint8_t *list;                /* [chunk_count] that each is in; POLICY_NO_LIST */
    uint64_t bytes[POLICY_LISTS]; /* of the chunks in each */
};

void policy_lists_init(struct policy_lists *lists, const struct pstar_policy_view *view);
void policy_lists_clear(struct policy_lists *lists);

/* Makes the chunk the youngest of `list`, wherever it was; POLICY_NO_LIST: out of all. */
void policy_lists_put(struct policy_lists *lists, uint32_t chunk, uint8_t list);

/* What the lists may hold on the device at the current moment, in bytes. */
uint64_t policy_lists_capacity(const struct policy_lists *lists);

/* The oldest of `list`, pinned or not; NO_INDEX where it is empty. */
uint32_t policy_lists_oldest(const struct policy_lists *lists, uint8_t list);
/* The next younger one of its list; NO_INDEX after the youngest. */
uint32_t policy_lists_younger(const struct policy_lists *lists, uint32_t chunk);
/* The oldest of `list` that is not pinned; NO_INDEX. */
uint32_t policy_lists_oldest_unpinned(const struct policy_lists *lists, uint8_t list);

/* ---- reuse ---- */

/* How often each resident chunk was used again, up to a limit, for the policies that give chunks
 * another chance. */

/* Of a chunk that is resident for a use that has not come yet: of the moment's operator, or of a
 * later one that it was prefetched for. That use is what admitted it, and no reuse. */
#define POLICY_AWAITED (-1)

/* `reuse`: one chunk's count. Admission sets it to POLICY_AWAITED. */
static inline void policy_reuse_touch(int8_t *reuse, int8_t limit)
{
    if (*reuse < limit)
        ++*reuse;
}

#endif
