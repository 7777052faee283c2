#include "policies/next_use.h"

#include <glib.h>

/* PatrickStar evicts by farthest next use, but knows next uses only after the warm-up iteration; in
 * it, every chunk has the same priority and the lowest number leaves. (Fang et al., IEEE TPDS 2022;
 * Tencent/PatrickStar v0.4.6.) */
struct patrickstar {
    const struct pstar_policy_view *view;
    struct policy_next_use *set;            /* resident chunks */
    struct policy_next_use *blind;          /* for the warm-up: all next uses are equal */
    struct pstar_policy_view view_of_blind; /* its next_use is all 0 */
    uint32_t *no_next_use;                  /* [chunk_count] all 0 */
};

static void *patrickstar_open(const struct pstar_policy_view *view)
{
    struct patrickstar *state = g_new(struct patrickstar, 1);
    state->view = view;
    state->no_next_use = g_new0(uint32_t, view->chunk_count);
    state->view_of_blind = *view;
    state->view_of_blind.next_use = state->no_next_use;
    state->set = policy_next_use_open(view);
    state->blind = policy_next_use_open(&state->view_of_blind);
    return state;
}

static void patrickstar_close(void *opaque)
{
    struct patrickstar *state = opaque;
    policy_next_use_close(state->set);
    policy_next_use_close(state->blind);
    g_free(state->no_next_use);
    g_free(state);
}

static bool warming_up(const struct patrickstar *state)
{
    return *state->view->iteration == 0;
}

static void patrickstar_admit(void *opaque, chunk_id chunk)
{
    struct patrickstar *state = opaque;
    policy_next_use_admit(state->set, chunk);
    if (warming_up(state))
        policy_next_use_admit(state->blind, chunk);
}

static void patrickstar_touch(void *opaque, chunk_id chunk)
{
    struct patrickstar *state = opaque;
    policy_next_use_touch(state->set, chunk);
}

static void patrickstar_remove(void *opaque, chunk_id chunk)
{
    struct patrickstar *state = opaque;
    policy_next_use_remove(state->set, chunk);
    if (warming_up(state))
        policy_next_use_remove(state->blind, chunk);
}

static uint32_t patrickstar_victim(void *opaque)
{
    const struct patrickstar *state = opaque;
    return policy_next_use_farthest(warming_up(state) ? state->blind : state->set);
}

const struct pstar_policy_ops policy_patrickstar = {
    .name = "patrickstar",
    .summary = "PatrickStar: lowest number in the warm-up, then farthest next use",
    .open = patrickstar_open,
    .close = patrickstar_close,
    .admit = patrickstar_admit,
    .touch = patrickstar_touch,
    .remove = patrickstar_remove,
    .victim = patrickstar_victim,
};
