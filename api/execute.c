/* A plan carried out through the caller's callbacks. */
#include "api/api.h"
#include "chunks/accesses.h"
#include "chunks/residency/residency.h"

struct pstar_execution {
    const struct pstar_mover *mover;
    void *self;
    struct plan plan; /* the caller's, but nothing is copied in parts */
    struct non_model *non_model;
    struct accesses *accesses;
    struct residency *residency;
    uint32_t moment_count, next; /* the moment that follows */
};

/* ---- the mover, as the residency manager calls it ---- */

static struct pstar_copy copy_of(const struct mover_copy *copy)
{
    return (struct pstar_copy){copy->chunk, copy->device_address, copy->host_address,
                               copy->copy_bytes, copy->slot_bytes};
}

static struct pstar_after after_of(const struct mover_after *after)
{
    return (struct pstar_after){{after->queue[MOVER_COMPUTE], after->queue[MOVER_H2D],
                                 after->queue[MOVER_D2H], after->queue[MOVER_HOST]}};
}

static mover_ticket execution_fetch(void *self, const struct mover_copy *copy,
                                    const struct mover_after *after)
{
    const struct pstar_execution *x = self;
    struct pstar_copy what = copy_of(copy);
    struct pstar_after before = after_of(after);
    return x->mover->fetch(x->self, &what, &before);
}

static mover_ticket execution_write_back(void *self, const struct mover_copy *copy, bool leaves,
                                         const struct mover_after *after)
{
    const struct pstar_execution *x = self;
    struct pstar_copy what = copy_of(copy);
    struct pstar_after before = after_of(after);
    return x->mover->write_back(x->self, &what, leaves, &before);
}

static void execution_allocate(void *self, const struct mover_copy *copy)
{
    const struct pstar_execution *x = self;
    struct pstar_copy what = copy_of(copy);
    x->mover->allocate(x->self, &what);
}

static void execution_drop(void *self, uint32_t chunk)
{
    const struct pstar_execution *x = self;
    x->mover->drop(x->self, chunk);
}

static mover_ticket execution_move(void *self, const struct mover_copy *to, uint64_t from,
                                   const struct mover_after *after)
{
    const struct pstar_execution *x = self;
    struct pstar_copy what = copy_of(to);
    struct pstar_after before = after_of(after);
    return x->mover->move(x->self, &what, from, &before);
}

static mover_ticket execution_run(void *self, uint32_t moment, const struct mover_after *after,
                                  mover_ticket *received)
{
    const struct pstar_execution *x = self;
    struct pstar_after before = after_of(after);
    return x->mover->run(x->self, moment, &before, received);
}

static const struct mover_ops execution_ops = {
    .fetch = execution_fetch,
    .write_back = execution_write_back,
    .allocate = execution_allocate,
    .drop = execution_drop,
    .move = execution_move,
    .run = execution_run,
};

/* ---- executions ---- */

/* Callbacks know neither other ranks nor NVMe. */
static bool check_places(const struct trace *trace, const struct plan *plan,
                         struct pstar_error *error)
{
    GError *failure = NULL;
    if (plan->nvme_bytes)
        failure = g_error_new_literal(PLAN_ERROR, PLAN_ERROR_INVALID,
                                      "the plan has chunks at home in NVMe, which only pstar-run "
                                      "executes");
    if (trace->ranks > 1)
        failure = g_error_new(PLAN_ERROR, PLAN_ERROR_INVALID,
                              "the trace is of one of %u ranks; only one rank alone can execute a "
                              "plan through callbacks",
                              trace->ranks);
    return api_finish(failure, PSTAR_ERROR_INPUT, error);
}

struct pstar_execution *pstar_execution_new(const struct pstar_plan *plan,
                                            const struct pstar_trace *trace,
                                            const struct pstar_mover *mover, void *self,
                                            struct pstar_error *error)
{
    if (!check_places(trace->trace, api_plan(plan), error) || !pstar_plan_check(plan, trace, error))
        return NULL;
    struct pstar_execution *x = g_new0(struct pstar_execution, 1);
    x->mover = mover;
    x->self = self;
    x->moment_count = trace->trace->operator_count;
    x->non_model = non_model_place(trace->trace);
    x->accesses = accesses_new(trace->trace, api_plan(plan)->layout, x->non_model->extent);
    x->plan = *api_plan(plan);
    x->plan.cut_from_bytes = 0;
    x->residency = residency_new(&x->plan, x->accesses, trace->trace, &execution_ops, x);
    return x;
}

void pstar_execution_free(struct pstar_execution *execution)
{
    if (!execution)
        return;
    residency_free(execution->residency);
    accesses_free(execution->accesses);
    non_model_free(execution->non_model);
    g_free(execution);
}

void pstar_execution_load(struct pstar_execution *execution)
{
    residency_load(execution->residency);
}

void pstar_execution_step(struct pstar_execution *execution, uint32_t moment)
{
    g_assert(moment == execution->next);
    residency_step(execution->residency, moment);
    execution->next = (moment + 1) % execution->moment_count;
}

void pstar_execution_flush(struct pstar_execution *execution)
{
    g_assert(execution->next == 0);
    residency_flush(execution->residency);
}

uint64_t pstar_execution_address(const struct pstar_execution *execution, uint32_t chunk)
{
    return residency_address(execution->residency, chunk);
}
