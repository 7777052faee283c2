/* A policy of one's own: the chunk used last leaves first. With the parameter `spare`, so many
 * chunks that were used after it stay (--policy ./mru.so:spare=2). docs/policies.md says how to
 * write one. These commands compile it in pstar's folder, describe a training step, and use it:
 *
 *     cc -O2 -shared -fPIC -Iinclude examples/policy/mru.c -o mru.so
 *     pstar-trace synth --model models/configs/demo-11m.json --batch 4 --seq 64 --precision fp32 \
 *         -o run.pstar
 *     pstar-sim run.pstar --device-memory 30% --policy opt,lru,./mru.so
 *
 * Where pstar is installed, $(pkg-config --cflags pstar) replaces -Iinclude. */
#include <pstar.h>
#include <stdlib.h>

struct mru {
    const struct pstar_policy_view *view;
    uint64_t clock;
    uint64_t *used; /* [chunk_count] time of the last use, by the clock; 0 if not resident */
};

static void *mru_open(const struct pstar_policy_view *view)
{
    struct mru *mru = calloc(1, sizeof *mru);
    mru->view = view;
    mru->used = calloc(view->chunk_count, sizeof *mru->used);
    return mru;
}

static void mru_close(void *state)
{
    free(((struct mru *)state)->used);
    free(state);
}

static void mru_use(void *state, uint32_t chunk)
{
    struct mru *mru = state;
    mru->used[chunk] = ++mru->clock;
}

static void mru_remove(void *state, uint32_t chunk)
{
    ((struct mru *)state)->used[chunk] = 0;
}

/* Returns the chunk that was used last before a time. */
static uint32_t last_before(const struct mru *mru, uint64_t time)
{
    uint32_t last = PSTAR_NO_INDEX;
    for (uint32_t c = 0; c < mru->view->chunk_count; c++)
        if (mru->used[c] && mru->used[c] < time && !mru->view->pinned[c] &&
            (last == PSTAR_NO_INDEX || mru->used[c] > mru->used[last]))
            last = c;
    return last;
}

static uint32_t mru_victim(void *state)
{
    const struct mru *mru = state;
    double spare = mru->view->values ? mru->view->values[0] : 0;
    uint32_t victim = last_before(mru, UINT64_MAX), next = victim;
    for (; spare > 0 && next != PSTAR_NO_INDEX; spare--)
        if ((next = last_before(mru, mru->used[victim])) != PSTAR_NO_INDEX)
            victim = next;
    return victim;
}

static const struct pstar_policy_parameter parameters[] = {
    {"spare", "chunks used last that stay", 0, 0, 1000, true}, {NULL, NULL, 0, 0, 0, false}};

const uint32_t pstar_policy_abi = PSTAR_POLICY_ABI;
const struct pstar_policy_ops pstar_policy = {.name = "mru",
                                              .summary = "most recently used",
                                              .open = mru_open,
                                              .close = mru_close,
                                              .admit = mru_use,
                                              .touch = mru_use,
                                              .remove = mru_remove,
                                              .parameters = parameters,
                                              .victim = mru_victim};
