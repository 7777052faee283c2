#include "policies/lists.h"

#include <glib.h>

/* S3-FIFO (Yang et al., SOSP 2023), three FIFO queues. A new chunk enters SMALL, which has a tenth
 * of the room (`small`). The oldest chunk of SMALL moves to MAIN if it was used at least twice
 * more (`promote`). Otherwise it leaves and is remembered in GHOST; if it comes back, it enters
 * MAIN. The oldest chunk of MAIN is reinserted once for each of its uses, at most three times
 * (`uses`). Victims come from SMALL, unless MAIN has more than its share.
 *
 * Adapted: sizes are bytes, and the capacity is the current moment's. Pinned chunks are skipped and
 * keep their places; if one queue has only pinned chunks, the victim comes from the other. A chunk
 * that leaves without being evicted (dead, or written by the host) leaves no ghost. A chunk larger
 * than SMALL's share is admitted too, because the operator needs it. */
enum { SMALL, MAIN, GHOST };
enum { SMALL_SHARE, GHOSTS_SHARE, PROMOTION, MOST_USES }; /* parameters */

struct s3fifo {
    struct policy_lists lists;
    int8_t *reuse;        /* [chunk_count] see lists.h */
    uint32_t victim;      /* the last answer */
    uint32_t returning;   /* the incoming chunk, if it was a ghost; NO_INDEX */
    double small, ghosts; /* shares of the room */
    int8_t promotion, most_uses;
};

static const struct pstar_policy_parameter s3fifo_parameters[] = {
    [SMALL_SHARE] = {"small", "share of the room for new chunks", 0.1, 0.001, 0.999, false},
    [GHOSTS_SHARE] = {"ghosts", "share of the room that remembered chunks would take", 0.9, 0, 100,
                      false},
    [PROMOTION] = {"promote", "uses after which a new chunk goes on to the others", 2, 1, 100,
                   true},
    [MOST_USES] = {"uses", "that count, at most", 3, 1, 100, true},
    {NULL, NULL, 0, 0, 0, false}};

static void *s3fifo_open(const struct pstar_policy_view *view)
{
    struct s3fifo *s3 = g_new0(struct s3fifo, 1);
    policy_lists_init(&s3->lists, view);
    s3->reuse = g_new(int8_t, view->chunk_count);
    s3->victim = s3->returning = NO_INDEX;
    s3->small = policy_value(view, s3fifo_parameters, SMALL_SHARE);
    s3->ghosts = policy_value(view, s3fifo_parameters, GHOSTS_SHARE);
    s3->promotion = (int8_t)policy_value(view, s3fifo_parameters, PROMOTION);
    s3->most_uses = (int8_t)policy_value(view, s3fifo_parameters, MOST_USES);
    return s3;
}

static void s3fifo_close(void *state)
{
    struct s3fifo *s3 = state;
    policy_lists_clear(&s3->lists);
    g_free(s3->reuse);
    g_free(s3);
}

static uint64_t share_of_room(const struct s3fifo *s3, double share)
{
    return (uint64_t)((double)policy_lists_capacity(&s3->lists) * share);
}

static void forget_ghosts(struct s3fifo *s3)
{
    while (s3->lists.bytes[GHOST] > share_of_room(s3, s3->ghosts))
        policy_lists_put(&s3->lists, policy_lists_oldest(&s3->lists, GHOST), POLICY_NO_LIST);
}

/* A ghost that returns makes way for the ghosts of the chunks that leave for it. */
static void recall(struct s3fifo *s3, chunk_id chunk)
{
    if (s3->lists.list[chunk] != GHOST)
        return;
    policy_lists_put(&s3->lists, chunk, POLICY_NO_LIST);
    s3->returning = chunk;
}

static void s3fifo_admit(void *state, chunk_id chunk)
{
    struct s3fifo *s3 = state;
    recall(s3, chunk);
    policy_lists_put(&s3->lists, chunk, chunk == s3->returning ? MAIN : SMALL);
    s3->reuse[chunk] = POLICY_AWAITED;
    s3->victim = s3->returning = NO_INDEX;
}

static void s3fifo_touch(void *state, chunk_id chunk)
{
    struct s3fifo *s3 = state;
    policy_reuse_touch(&s3->reuse[chunk], MAX(s3->most_uses, s3->promotion));
}

static void s3fifo_remove(void *state, chunk_id chunk)
{
    struct s3fifo *s3 = state;
    bool remembered = chunk == s3->victim && s3->lists.list[chunk] == SMALL;
    policy_lists_put(&s3->lists, chunk, remembered ? GHOST : POLICY_NO_LIST);
    s3->victim = NO_INDEX;
    forget_ghosts(s3);
}

/* Chunks used often go on to MAIN, where their count starts again. */
static uint32_t victim_of_small(struct s3fifo *s3)
{
    chunk_id chunk;
    while ((chunk = policy_lists_oldest_unpinned(&s3->lists, SMALL)) != NO_INDEX &&
           s3->reuse[chunk] >= s3->promotion) {
        s3->reuse[chunk] = 0;
        policy_lists_put(&s3->lists, chunk, MAIN);
    }
    return chunk;
}

static uint32_t victim_of_main(struct s3fifo *s3)
{
    chunk_id chunk;
    while ((chunk = policy_lists_oldest_unpinned(&s3->lists, MAIN)) != NO_INDEX &&
           s3->reuse[chunk] > 0) {
        s3->reuse[chunk] = (int8_t)(MIN(s3->reuse[chunk], s3->most_uses) - 1);
        policy_lists_put(&s3->lists, chunk, MAIN);
    }
    return chunk;
}

static uint32_t s3fifo_victim(void *state)
{
    struct s3fifo *s3 = state;
    uint32_t incoming = *s3->lists.view->incoming;
    if (incoming != NO_INDEX)
        recall(s3, incoming);
    s3->victim = NO_INDEX;
    if (s3->lists.bytes[MAIN] > policy_lists_capacity(&s3->lists) - share_of_room(s3, s3->small))
        s3->victim = victim_of_main(s3);
    if (s3->victim == NO_INDEX)
        s3->victim = victim_of_small(s3);
    if (s3->victim == NO_INDEX)
        s3->victim = victim_of_main(s3);
    return s3->victim;
}

const struct pstar_policy_ops policy_s3fifo = {
    .name = "s3fifo",
    .summary = "S3-FIFO: three queues; chunks that are used once leave early",
    .open = s3fifo_open,
    .close = s3fifo_close,
    .admit = s3fifo_admit,
    .touch = s3fifo_touch,
    .remove = s3fifo_remove,
    .victim = s3fifo_victim,
    .parameters = s3fifo_parameters,
};
