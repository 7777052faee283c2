#include "chunks/plan.h"

G_DEFINE_QUARK(pstar_plan_error, plan_error)

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    if (plan->sharers) {
        plan->sharers--;
        return;
    }
    g_free(plan->digest);
    g_free(plan->model);
    g_free(plan->precision);
    run_choices_free(plan->choices);
    g_free(plan->made_by);
    g_free(plan->policy);
    layout_free(plan->layout);
    g_free(plan->host_address);
    g_free(plan->initial_address);
    g_free(plan->first_action);
    g_free(plan->actions);
    certificate_free(plan->certificate);
    g_free(plan);
}

struct plan *plan_share(struct plan *plan)
{
    plan->sharers++;
    return plan;
}

const char *plan_action_name(enum plan_action_kind kind)
{
    static const char *const names[] = {"fetch", "allocate", "write-back", "drop",
                                        "flush", "move",     "wait"};
    return names[kind];
}
