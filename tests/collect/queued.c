/* queued SEED STEPS [device|gathers|resident]: "trains" on the random trace of a seed on a CUDA
 * device. Of every three operators, the first asks for two kernels and waits for them, the second
 * asks for one without waiting, and the third for none.
 *
 * With `device` no operator is waited for, each on the device asks for one kernel, and the host
 * lingers in the ranges. With `gathers` ranks also gather something before every third operator.
 * With `resident` each operator asks for a kernel, the host does not linger, and kernels are as
 * slow as QUEUED_SLOWER times those of the last step in the steps before it. */
#include "tests/collect/queued.h"
#include "engine/annotate.h"
#include "tests/traces/random_trace.h"

#include <cuda.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void launch_named(const char *name, unsigned microseconds)
{
    cuLaunchKernel((CUfunction)(void *)name, microseconds, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void launch(unsigned microseconds)
{
    launch_named("kernel", microseconds);
}

/* Copies a shard to its place, which is no part of the exchange, and exchanges twice. */
static void gather(const struct annotate *annotate, uint32_t number)
{
    static const char name[] = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
    annotate_queued_gather_begin(annotate, QUEUED_GATHERED_BYTES + number);
    launch(QUEUED_LONG_MICROSECONDS);
    launch_named(name, QUEUED_MICROSECONDS);
    launch_named(name, QUEUED_MICROSECONDS);
    usleep(QUEUED_LONG_MICROSECONDS);
    annotate_queued_gather_end(annotate);
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

/* Without a wait for each operator. */
static void queue(enum annotate_timing timing, bool on_host, bool last)
{
    bool resident = timing == ANNOTATE_DEVICE_RESIDENT;
    if (on_host && !resident) {
        usleep(QUEUED_LONG_MICROSECONDS);
        return;
    }
    launch(QUEUED_MICROSECONDS * (resident && !last ? QUEUED_SLOWER : 1));
    if (!resident)
        usleep(QUEUED_LONG_MICROSECONDS);
}

static enum annotate_timing timing_of(const char *name)
{
    if (!name)
        return ANNOTATE_RANGES;
    return strcmp(name, "resident") == 0 ? ANNOTATE_DEVICE_RESIDENT : ANNOTATE_DEVICE;
}

static struct trace *make_trace(const char *seed)
{
    GRand *random = g_rand_new_with_seed((guint32)atoi(seed));
    struct trace *trace = random_trace(random, QUEUED_OPERATORS);
    g_rand_free(random);
    return trace;
}

int main(int argc, char **argv)
{
    g_assert(argc == 3 || argc == 4);
    enum annotate_timing timing = timing_of(argv[3]);
    bool gathers = argc == 4 && strcmp(argv[3], "gathers") == 0;
    int steps = atoi(argv[2]);
    CUcontext context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxPushCurrent(context);
    struct trace *trace = make_trace(argv[1]);
    struct annotate *annotate = annotate_new(trace, timing);
    for (int step = 0; step < steps; step++) {
        annotate_iteration_begin(annotate, (uint64_t)step);
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            if (gathers && m % 3 == 0)
                gather(annotate, m / 3);
            annotate_operator_begin(annotate, m);
            if (timing == ANNOTATE_RANGES)
                run(m);
            else
                queue(timing, trace->operators[m].place == TRACE_ON_HOST, step + 1 == steps);
            annotate_operator_end(annotate);
        }
        if (timing != ANNOTATE_RANGES)
            cuStreamSynchronize(NULL);
        annotate_iteration_end(annotate);
    }
    annotate_free(annotate);
    trace_free(trace);
    return 0;
}
