#include "engine/host/host_operators.h"

#include "engine/cpu/kernels.h"
#include "engine/operators.h"

#include <glib.h>

struct host_operators {
    struct cpu_context *cpu;
    bool begun; /* the threads are there */
    struct operators operators;
};

struct host_operators *host_operators_new(unsigned threads, uint8_t *memory,
                                          const struct nodes *nodes)
{
    struct host_operators *host = g_new0(struct host_operators, 1);
    host->cpu = cpu_context_new(threads);
    cpu_context_keep_near(host->cpu, nodes);
    host->operators.kernels = &cpu_kernels;
    host->operators.context = host->cpu;
    host->operators.memory = memory;
    return host;
}

void host_operators_share(struct host_operators *host, struct ranks *ranks)
{
    host->operators.reduction = reduction_new(ranks, NULL);
}

void host_operators_connect(struct host_operators *host, struct ranks *stages)
{
    host->operators.stages = stages;
}

void host_operators_free(struct host_operators *host)
{
    if (!host)
        return;
    cpu_context_free(host->cpu);
    reduction_free(host->operators.reduction);
    g_free(host->operators.order);
    g_free(host->operators.rotary);
    g_free(host);
}

void host_operators_begin(struct host_operators *host)
{
    if (!host->begun)
        cpu_context_make_threads(host->cpu);
    host->begun = true;
}

void host_operators_run(struct host_operators *host, const struct operation *operation)
{
    host_operators_begin(host);
    operators_run(&host->operators, operation);
}

void host_operators_share_update(struct host_operators *host, const struct operation *operation)
{
    operators_share_update(&host->operators, operation);
}
