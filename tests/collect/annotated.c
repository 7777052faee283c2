/* annotated SEED STEPS [ACTION STEP]: "trains" on the random trace of a seed, an operator taking
 * SPIN_NS times 1 to 3. ACTION happens in the middle of the step: kill (SIGKILL), exit (status 9),
 * fork (a child that annotates as well and exits), stray (ranges of operators that were not
 * declared: the first one after the last, the largest of 32 and of 64 bits). */
#include "tests/collect/annotated.h"
#include "engine/annotate.h"
#include "tests/traces/random_trace.h"
#include "traces/annotations.h"

#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void spin(uint64_t nanoseconds)
{
    gint64 end = g_get_monotonic_time() + (gint64)(nanoseconds / 1000) + 1;
    while (g_get_monotonic_time() < end)
        ;
}

static void make_stray_ranges(void)
{
    const uint64_t moments[] = {ANNOTATED_OPERATORS, UINT32_MAX, UINT64_MAX};
    nvtxDomainHandle_t domain = nvtxDomainCreateA(ANNOTATION_DOMAIN);
    for (size_t i = 0; i < G_N_ELEMENTS(moments); i++) {
        const nvtxEventAttributes_t event = {
            .version = NVTX_VERSION,
            .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
            .category = ANNOTATION_OPERATOR,
            .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
            .payload.ullValue = moments[i],
            .messageType = NVTX_MESSAGE_TYPE_ASCII,
            .message.ascii = "stray",
        };
        nvtxDomainRangePushEx(domain, &event);
        nvtxDomainRangePop(domain);
        nvtxDomainRangeEnd(domain, nvtxDomainRangeStartEx(domain, &event));
    }
}

static void act(struct annotate *annotate, const char *action)
{
    if (strcmp(action, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(action, "exit") == 0)
        exit(9);
    if (strcmp(action, "stray") == 0)
        make_stray_ranges();
    if (strcmp(action, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            annotate_operator_begin(annotate, 0);
            annotate_operator_end(annotate);
            annotate_iteration_end(annotate);
            annotate_iteration_begin(annotate, 0);
            annotate_iteration_end(annotate);
            exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    g_assert(argc == 3 || argc == 5);
    GRand *random = g_rand_new_with_seed((guint32)atoi(argv[1]));
    struct trace *trace = random_trace(random, ANNOTATED_OPERATORS);
    struct annotate *annotate = annotate_new(trace, ANNOTATE_RANGES);
    int steps = atoi(argv[2]);
    for (int step = 0; step < steps; step++) {
        annotate_iteration_begin(annotate, (uint64_t)step);
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            annotate_operator_begin(annotate, m);
            spin(annotated_duration_ns(m));
            annotate_operator_end(annotate);
            if (argc == 5 && step == atoi(argv[4]) && m == trace->operator_count / 2)
                act(annotate, argv[3]);
        }
        annotate_iteration_end(annotate);
    }
    annotate_free(annotate);
    trace_free(trace);
    g_rand_free(random);
    return 0;
}
