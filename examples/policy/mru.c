/* A policy of one's own: the chunk used last leaves first. docs/policies.md says how to write one.
 * These commands compile it in pstar's folder, describe a training step, and compare it there:
 *     cc -O2 -shared -fPIC -Iinclude examples/policy/mru.c -o mru.so
 *     pstar-trace synth --model models/configs/demo-11m.json --batch 4 --seq 64 --precision fp32 \
 *         -o run.pstar
 *     pstar-sim run.pstar --device-memory 30% --policy opt,lru,./mru.so
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

static uint32_t mru_victim(void *state)
{
    const struct mru *mru = state;
    uint32_t victim = PSTAR_NO_INDEX;
    for (uint32_t c = 0; c < mru->view->chunk_count; c++)
        if (mru->used[c] && !mru->view->pinned[c] &&
            (victim == PSTAR_NO_INDEX || mru->used[c] > mru->used[victim]))
            victim = c;
    return victim;
}

const uint32_t pstar_policy_abi = PSTAR_POLICY_ABI;
const struct pstar_policy_ops pstar_policy = {.name = "mru",
                                              .summary = "most recently used",
                                              .open = mru_open,
                                              .close = mru_close,
                                              .admit = mru_use,
                                              .touch = mru_use,
                                              .remove = mru_remove,
                                              .victim = mru_victim};
