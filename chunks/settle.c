#include "chunks/settle.h"

struct settling {
    struct decisions *decisions;
    const struct accesses *accesses;
    uint8_t *dirty; /* [chunk_count] the device's copy is newer and alive */
};

/* Returns whether the action does anything. */
static bool settle_action(struct settling *s, struct plan_action *action)
{
    uint8_t *dirty = &s->dirty[action->chunk], was_dirty = *dirty;
    if (action->kind == PLAN_WAIT)
        return true;
    *dirty = 0;
    if (action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP)
        action->kind = was_dirty ? PLAN_WRITE_BACK : PLAN_DROP;
    return action->kind != PLAN_FLUSH || was_dirty;
}

static void run_operator(struct settling *s, uint32_t moment)
{
    for (uint32_t a = s->accesses->first[moment]; a < s->accesses->first[moment + 1]; a++) {
        const struct chunk_access *access = &s->accesses->items[a];
        if (access->flags & ACCESS_WRITES && !(access->flags & ACCESS_ON_HOST))
            s->dirty[access->chunk] = 1;
        if (access->flags & ACCESS_LAST)
            s->dirty[access->chunk] = 0;
    }
}

/* One pass over the iteration, from what is dirty now. The first only finds what is dirty at the
 * end. */
static void settle_pass(struct settling *s, bool rewrite)
{
    struct decisions *d = s->decisions;
    struct plan_action *actions = (struct plan_action *)d->actions->data;
    uint32_t kept = 0;
    for (uint32_t m = 0; m <= d->moment_count; m++) {
        uint32_t begin = kept;
        for (uint32_t i = d->first[m]; i < d->first[m + 1]; i++) {
            struct plan_action action = actions[i];
            if (settle_action(s, &action) && rewrite)
                actions[kept++] = action;
        }
        if (rewrite)
            d->first[m] = begin;
        if (m < d->moment_count)
            run_operator(s, m);
    }
    if (rewrite) {
        d->first[d->moment_count + 1] = kept;
        g_array_set_size(d->actions, kept);
    }
}

/* What is dirty at the start of the steady iteration is what the same iteration leaves dirty. The
 * first pass starts clean and finds it: a chunk that stays throughout keeps its state, one that
 * leaves forgets it. */
void decisions_settle(struct decisions *decisions, const struct accesses *accesses)
{
    g_autofree uint8_t *dirty = g_new0(uint8_t, accesses->chunk_count);
    struct settling s = {.decisions = decisions, .accesses = accesses, .dirty = dirty};
    settle_pass(&s, false);
    settle_pass(&s, true);
}
