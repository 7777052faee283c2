#include "chunks/settle.h"

struct settling {
    struct decisions *decisions;
    const struct accesses *accesses;
    uint8_t *dirty; /* [chunk_count] the device's copy is newer and alive */
    GArray *kept;   /* struct plan_action */
};

static void settle_action(struct settling *s, struct plan_action action, bool rewrite)
{
    bool leaves = action.kind == PLAN_WRITE_BACK || action.kind == PLAN_DROP;
    bool clean_flush = action.kind == PLAN_FLUSH && !s->dirty[action.chunk];
    if (leaves)
        action.kind = s->dirty[action.chunk] ? PLAN_WRITE_BACK : PLAN_DROP;
    if (action.kind != PLAN_WAIT)
        s->dirty[action.chunk] = 0;
    if (!rewrite || !clean_flush)
        g_array_append_val(s->kept, action);
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

/* One pass over the iteration, from what is dirty now. */
static void settle_pass(struct settling *s, bool rewrite)
{
    struct decisions *d = s->decisions;
    s->kept = g_array_new(FALSE, FALSE, sizeof(struct plan_action));
    for (uint32_t m = 0; m <= d->moment_count; m++) {
        uint32_t begin = s->kept->len;
        for (uint32_t i = d->first[m]; i < d->first[m + 1]; i++)
            settle_action(s, g_array_index(d->actions, struct plan_action, i), rewrite);
        if (rewrite)
            d->first[m] = begin;
        if (m < d->moment_count)
            run_operator(s, m);
    }
    if (rewrite) {
        d->first[d->moment_count + 1] = s->kept->len;
        GArray *before = d->actions;
        d->actions = s->kept;
        s->kept = before;
    }
    g_array_free(s->kept, TRUE);
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
