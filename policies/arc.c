#include "policies/lists.h"

#include <glib.h>
#include <string.h>

/* ARC (Megiddo and Modha, FAST 2003). Resident chunks are in RECENT (the paper's T1: used once
 * since they came) or FREQUENT (T2: used again, or back soon after they left); the two GHOST lists
 * (B1, B2) remember what each evicted. A miss on a ghost moves `target`, the share that RECENT is
 * to have, towards the list that should have kept it.
 *
 * Adapted: sizes are bytes, and a ghost hit moves the target by that many bytes times the paper's
 * ratio; the capacity is the current moment's. Pinned chunks are passed over, and where one list
 * holds nothing else the other gives. A chunk that leaves without being evicted (dead, or written
 * by the host) leaves no ghost. Ghosts are forgotten when the chunk is in, not while room is made,
 * which for chunks of one size is the same. */
enum { RECENT, FREQUENT, RECENT_GHOST, FREQUENT_GHOST };

struct arc {
    struct policy_lists lists;
    double target;      /* the paper's p: bytes of RECENT */
    uint32_t returning; /* the incoming chunk, if it was a ghost; NO_INDEX */
    uint8_t returning_from;
    uint32_t victim; /* the last answer */
    uint8_t
        *awaited; /* [chunk_count] nonzero if the use that admitted the chunk has not come yet */
};

static void *arc_open(const struct pstar_policy_view *view)
{
    struct arc *arc = g_new0(struct arc, 1);
    policy_lists_init(&arc->lists, view);
    arc->returning = arc->victim = NO_INDEX;
    arc->awaited = g_new(uint8_t, view->chunk_count);
    return arc;
}

static void arc_close(void *state)
{
    struct arc *arc = state;
    policy_lists_clear(&arc->lists);
    g_free(arc->awaited);
    g_free(arc);
}

/* A miss on a ghost: cases II and III of the paper, before anything is replaced. */
static void adapt(struct arc *arc, chunk_id chunk)
{
    uint8_t list = arc->lists.list[chunk];
    if (list != RECENT_GHOST && list != FREQUENT_GHOST)
        return;
    const struct pstar_policy_view *view = arc->lists.view;
    double recent = (double)arc->lists.bytes[RECENT_GHOST];
    double frequent = (double)arc->lists.bytes[FREQUENT_GHOST];
    double bytes = (double)view->chunk_bytes[chunk];
    if (list == RECENT_GHOST)
        arc->target = MIN(arc->target + bytes * MAX(frequent / recent, 1),
                          (double)policy_lists_capacity(&arc->lists));
    else
        arc->target = MAX(arc->target - bytes * MAX(recent / frequent, 1), 0);
    policy_lists_put(&arc->lists, chunk, POLICY_NO_LIST);
    arc->returning = chunk;
    arc->returning_from = list;
}

static void forget_ghosts(struct arc *arc)
{
    const uint64_t *bytes = arc->lists.bytes, capacity = policy_lists_capacity(&arc->lists);
    while (bytes[RECENT_GHOST] && bytes[RECENT] + bytes[RECENT_GHOST] > capacity)
        policy_lists_put(&arc->lists, policy_lists_oldest(&arc->lists, RECENT_GHOST),
                         POLICY_NO_LIST);
    while (bytes[FREQUENT_GHOST] &&
           bytes[RECENT] + bytes[FREQUENT] + bytes[RECENT_GHOST] + bytes[FREQUENT_GHOST] >
               2 * capacity)
        policy_lists_put(&arc->lists, policy_lists_oldest(&arc->lists, FREQUENT_GHOST),
                         POLICY_NO_LIST);
}

static void arc_admit(void *state, chunk_id chunk)
{
    struct arc *arc = state;
    adapt(arc, chunk);
    policy_lists_put(&arc->lists, chunk, chunk == arc->returning ? FREQUENT : RECENT);
    arc->awaited[chunk] = 1;
    arc->returning = arc->victim = NO_INDEX;
    forget_ghosts(arc);
}

static void arc_touch(void *state, chunk_id chunk)
{
    struct arc *arc = state;
    if (!arc->awaited[chunk])
        policy_lists_put(&arc->lists, chunk, FREQUENT);
    arc->awaited[chunk] = 0;
}

static void arc_remove(void *state, chunk_id chunk)
{
    struct arc *arc = state;
    uint8_t ghost = arc->lists.list[chunk] == RECENT ? RECENT_GHOST : FREQUENT_GHOST;
    policy_lists_put(&arc->lists, chunk, chunk == arc->victim ? ghost : POLICY_NO_LIST);
    arc->victim = NO_INDEX;
}

/* The paper's REPLACE. */
static uint32_t arc_victim(void *state)
{
    struct arc *arc = state;
    uint32_t incoming = *arc->lists.view->incoming;
    if (incoming != NO_INDEX)
        adapt(arc, incoming);
    bool tie = incoming != NO_INDEX && incoming == arc->returning &&
               arc->returning_from == FREQUENT_GHOST;
    double recent = (double)arc->lists.bytes[RECENT];
    bool from_recent = recent > arc->target || (tie && recent == arc->target);
    arc->victim = policy_lists_oldest_unpinned(&arc->lists, from_recent ? RECENT : FREQUENT);
    if (arc->victim == NO_INDEX)
        arc->victim = policy_lists_oldest_unpinned(&arc->lists, from_recent ? FREQUENT : RECENT);
    return arc->victim;
}

const struct pstar_policy_ops policy_arc = {
    .name = "arc",
    .summary = "ARC: balances recency and frequency by past misses",
    .open = arc_open,
    .close = arc_close,
    .admit = arc_admit,
    .touch = arc_touch,
    .remove = arc_remove,
    .victim = arc_victim,
};
