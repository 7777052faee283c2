#include "planner/verify.h"

#include "sim/replay.h"

static bool same(const char *name, uint64_t of_plan, uint64_t replayed, GError **error)
{
    if (of_plan == replayed)
        return true;
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "plan: %s is %" G_GUINT64_FORMAT " in the plan, %" G_GUINT64_FORMAT
                " when replayed",
                name, of_plan, replayed);
    return false;
}

static bool same_figures(const struct plan_figures *p, const struct plan_figures *r, GError **error)
{
    return same("h2d_bytes", p->h2d_bytes, r->h2d_bytes, error) &&
           same("d2h_bytes", p->d2h_bytes, r->d2h_bytes, error) &&
           same("h2d_copies", p->h2d_copies, r->h2d_copies, error) &&
           same("d2h_copies", p->d2h_copies, r->d2h_copies, error) &&
           same("evictions", p->evictions, r->evictions, error) &&
           same("moves", p->moves, r->moves, error) &&
           same("moved_bytes", p->moved_bytes, r->moved_bytes, error) &&
           same("peak_device_bytes", p->peak_device_bytes, r->peak_device_bytes, error) &&
           same("peak_live_device_bytes", p->peak_live_device_bytes, r->peak_live_device_bytes,
                error) &&
           same("peak_host_bytes", p->peak_host_bytes, r->peak_host_bytes, error);
}

bool verify_plan(const struct plan *plan, const struct trace *trace, const struct costs *costs,
                 struct plan_figures *figures, GError **error)
{
    if (!plan_check(plan, trace, error))
        return false;
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    struct replay_view view = {trace, accesses, costs};
    struct plan_figures steady = replay(plan, &view).steady;

    accesses_free(accesses);
    non_model_free(non_model);
    if (figures)
        *figures = steady;
    return same_figures(&plan->predicted, &steady, error);
}
