/* Declarations that the files behind include/pstar.h share. */
#ifndef PSTAR_API_API_H
#define PSTAR_API_API_H

#include "chunks/plan.h"
#include "include/pstar.h"
#include "platforms/platform.h"

struct pstar_trace {
    struct trace *trace;
    char *path; /* of its file; NULL if it has none */
};

struct pstar_platform {
    struct platform *platform;
    char *text; /* contents of its file */
};

/* A struct pstar_layout is a struct layout, and a struct pstar_plan is a struct plan. */
static inline struct pstar_layout *api_layout_out(struct layout *layout)
{
    return (struct pstar_layout *)layout;
}

static inline const struct layout *api_layout(const struct pstar_layout *layout)
{
    return (const struct layout *)layout;
}

static inline struct pstar_plan *api_plan_out(struct plan *plan)
{
    return (struct pstar_plan *)plan;
}

static inline const struct plan *api_plan(const struct pstar_plan *plan)
{
    return (const struct plan *)plan;
}

/* Frees `failure`, which may be NULL, after copying it into `error`, which may be NULL. Memory that
 * is too small and failures of running are marked as such; all others become `kind`. Returns
 * whether there was no failure. */
bool api_finish(GError *failure, enum pstar_error_kind kind, struct pstar_error *error);

/* Takes `trace` and a copy of `path`, which may be NULL. NULL gives NULL. */
struct pstar_trace *api_trace_new(struct trace *trace, const char *path);

/* Returns the platform's own struct; NULL gives NULL. */
static inline const struct platform *api_platform(const struct pstar_platform *platform)
{
    return platform ? platform->platform : NULL;
}

/* Returns what the device's budget leaves for the arena, beside the driver and its libraries. */
uint64_t api_arena_budget(const struct pstar_budgets *budgets, const struct trace *trace);

#endif
