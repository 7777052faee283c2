/* The budgets of pstar-sim and pstar-plan: as given or, where they are not, what the platform has
 * for a step. */
#ifndef PSTAR_CLI_BUDGETS_H
#define PSTAR_CLI_BUDGETS_H

#include "cli/console.h"
#include "platforms/platform.h"
#include "traces/trace.h"

struct budget_request {
    const struct console *console;           /* for the notes */
    const char *device_memory, *host_memory; /* as given; NULL if they are not */
    uint64_t nvme_memory;                    /* 0 if it is not given */
    const struct platform *platform;         /* may be NULL */
    const struct trace *trace;               /* of which "30%" is a share; may be NULL */
};

/* Returns the budgets of device memory in the order given, as sizes_parse_budgets does, and sets
 * *host_budget (UINT64_MAX is unlimited: "unlimited", or neither given nor known). Notes on
 * standard error say which budgets are the platform's and what was left out of them, which of the
 * given ones are more than the platform has, and what is assumed of a disk that it does not know.
 * Fails if there is neither a budget of device memory nor a platform, or if one does not read. The
 * caller unrefs the result. */
GArray *budgets_read(const struct budget_request *request, uint64_t *host_budget, GError **error);

#endif
