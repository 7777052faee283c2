#include "engine/divergence.h"

#include <math.h>

char *divergence_describe(const struct model_iteration *iteration, const double *losses,
                          const double *norms)
{
    const struct trace *trace = iteration->trace;

    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct model_operator *op = &iteration->operators[m];
        const char *name = trace->operators[m].name;
        if (op->kind == MODEL_LOSS && !isfinite(losses[op->micro_batch]))
            return g_strdup_printf("'%s' of micro-batch %u left %g", name, op->micro_batch,
                                   losses[op->micro_batch]);
        for (int i = 0; i < 2; i++)
            if (op->norms[i] && !isfinite(norms[op->t[i]]))
                return g_strdup_printf("'%s' left a gradient of '%s' whose norm is %g", name,
                                       trace->tensors[op->t[i]].name, sqrt(norms[op->t[i]]));
    }
    return NULL;
}
