/* The machine that a trace is replayed on, or planned for: what copies cost, and the ranks that
 * share its nodes. */
#ifndef PSTAR_CLI_MACHINE_H
#define PSTAR_CLI_MACHINE_H

#include "cli/console.h"
#include "platforms/platform.h"
#include "sim/costs.h"
#include "traces/trace.h"

/* What the options say of it. */
struct machine_request {
    const struct console *console;
    const char *platform, *link; /* NULL if not given */
    uint32_t gpus, nodes;        /* 0 if not given */
    uint32_t stages;             /* of a pipeline, which share the GPUs; 0 stands for 1 */
    uint32_t stage;              /* of ZeRO; RUN_ANY_STAGE if not given */
    bool fast;                   /* ranks sum fast */
};

/* Reads the platform (*platform stays NULL if none is given), spreads the ranks over its nodes and
 * makes the costs of copies and exchanges. Ranks are those that are asked for or, if none are, the
 * trace's. Replaces *trace, which may be NULL, by that of one of these ranks; its operators take no
 * time for what they exchange, where the platform says how ranks exchange. Notes what is not known.
 * The caller frees all three. */
bool machine_read(const struct machine_request *request, struct trace **trace,
                  struct platform **platform, struct costs **costs, GError **error);

#endif
