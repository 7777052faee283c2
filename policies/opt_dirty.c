#include "policies/next_use.h"
#include "policies/opt_retention.h"

/* Farthest next use that also knows write-backs. A clean chunk leaves for free, and a dirty one
 * that stays until it is written again is never written back. With write-backs the optimum is
 * NP-complete (Beckmann et al. 2020). Weighing distance against write-backs at each choice saves
 * less than a hundredth and loses to opt in two cases of five, because which intervals are worth
 * their room shows only over the whole iteration. So the warm-up iteration, in which the farthest
 * next use leaves, is recorded. From it, opt_retention.h plans through which intervals each chunk
 * stays in every iteration. From then on, the chunks that the plan gives up leave first.
 * docs/policies.md has the measurements. */
struct opt_dirty {
    const struct pstar_policy_view *view;
    GArray *intervals; /* struct policy_interval, recorded in the warm-up, then planned */
    uint32_t cursor;   /* the interval that the next use begins */
    uint32_t iteration;
    struct policy_next_use *set[2]; /* resident chunks that are planned to leave, and to stay */
    uint8_t *retained;              /* [chunk_count] the index of a resident chunk's set */
};

static void *opt_dirty_open(const struct pstar_policy_view *view)
{
    struct opt_dirty *state = g_new0(struct opt_dirty, 1);
    state->view = view;
    state->intervals = g_array_new(FALSE, FALSE, sizeof(struct policy_interval));
    state->retained = g_new(uint8_t, view->chunk_count);
    for (int i = 0; i < 2; i++)
        state->set[i] = policy_next_use_open(view);
    return state;
}

static void opt_dirty_close(void *opaque)
{
    struct opt_dirty *state = opaque;
    g_array_free(state->intervals, TRUE);
    g_free(state->retained);
    for (int i = 0; i < 2; i++)
        policy_next_use_close(state->set[i]);
    g_free(state);
}

static void start_iteration(struct opt_dirty *state)
{
    if (state->iteration == 0)
        policy_retain(state->view, state->intervals);
    state->iteration = *state->view->iteration;
    state->cursor = 0;
}

/* The use that the chunk came for is still ahead. Until then it stays. */
static void opt_dirty_admit(void *opaque, chunk_id chunk)
{
    struct opt_dirty *state = opaque;
    state->retained[chunk] = 1;
    policy_next_use_admit(state->set[1], chunk);
}

static void opt_dirty_remove(void *opaque, chunk_id chunk)
{
    struct opt_dirty *state = opaque;
    policy_next_use_remove(state->set[state->retained[chunk]], chunk);
}

static uint8_t begin_interval(struct opt_dirty *state, chunk_id chunk)
{
    const struct pstar_policy_view *view = state->view;
    if (*view->iteration != state->iteration)
        start_iteration(state);
    if (state->iteration > 0) {
        const struct policy_interval *interval =
            &g_array_index(state->intervals, struct policy_interval, state->cursor++);
        g_assert(interval->chunk == chunk);
        return interval->retained;
    }
    struct policy_interval interval = {.chunk = chunk,
                                       .moment = *view->moment,
                                       .next = view->next_use[chunk],
                                       .ahead = view->ahead[chunk]};
    g_array_append_val(state->intervals, interval);
    return 1;
}

static void opt_dirty_touch(void *opaque, chunk_id chunk)
{
    struct opt_dirty *state = opaque;
    uint8_t before = state->retained[chunk], after = begin_interval(state, chunk);
    state->retained[chunk] = after;
    if (before == after) {
        policy_next_use_touch(state->set[after], chunk);
    } else {
        policy_next_use_remove(state->set[before], chunk);
        policy_next_use_admit(state->set[after], chunk);
    }
}

static uint32_t opt_dirty_victim(void *opaque)
{
    struct opt_dirty *state = opaque;
    chunk_id chunk = policy_next_use_farthest(state->set[0]);
    return chunk != NO_INDEX ? chunk : policy_next_use_farthest(state->set[1]);
}

const struct pstar_policy_ops policy_opt_dirty = {
    .name = "opt-dirty",
    .summary = "farthest next use, planned with write-backs and the iteration's end",
    .open = opt_dirty_open,
    .close = opt_dirty_close,
    .admit = opt_dirty_admit,
    .touch = opt_dirty_touch,
    .remove = opt_dirty_remove,
    .victim = opt_dirty_victim,
};
