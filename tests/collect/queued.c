/* queued SEED STEPS: "trains" on the random trace of a seed on a CUDA device. Of every three
 * operators, the first asks for two kernels and waits for them, the second asks for one without
 * waiting, and the third for none. */
#include "tests/collect/queued.h"
#include "engine/annotate.h"
#include "tests/traces/random_trace.h"

#include <cuda.h>
#include <stdlib.h>
#include <unistd.h>

static void launch(unsigned microseconds)
{
    static const char name[] = "kernel";
    cuLaunchKernel((CUfunction)(void *)name, microseconds, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void run(uint32_t moment)
{
    switch (queued_kind(moment)) {
    case QUEUED_WAITED:
        launch(QUEUED_MICROSECONDS);
        launch(QUEUED_MICROSECONDS);
        cuStreamSynchronize(NULL);
        break;
    case QUEUED_LEFT:
        launch(QUEUED_LONG_MICROSECONDS);
        break;
    default:
        usleep(QUEUED_LONG_MICROSECONDS);
    }
}

int main(int argc, char **argv)
{
    g_assert(argc == 3);
    CUcontext context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxPushCurrent(context);
    GRand *random = g_rand_new_with_seed((guint32)atoi(argv[1]));
    struct trace *trace = random_trace(random, QUEUED_OPERATORS);
    struct annotate *annotate = annotate_new(trace);
    for (int step = 0; step < atoi(argv[2]); step++) {
        annotate_iteration_begin(annotate, (uint64_t)step);
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            annotate_operator_begin(annotate, m);
            run(m);
            annotate_operator_end(annotate);
        }
        annotate_iteration_end(annotate);
    }
    annotate_free(annotate);
    trace_free(trace);
    g_rand_free(random);
    return 0;
}
