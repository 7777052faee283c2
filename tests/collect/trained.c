/* trained MARKS STEPS [ACTION STEP]: "trains" on a CUDA device.
 *
 * MARKS: none, ranges (a range "step N" around each, "forward", "backward" and "update" within),
 * batches ("my batch" around each), optimizer (PyTorch's range around the update alone), marks (a
 * mark "iteration N" at each begin), evaluated (none, and four times forward alone after every
 * sixth step), accumulated (none, and TRAINED_MICRO_BATCHES times forward and backward to an
 * update, each waited for), crossed (as ranges, and in a domain of its own one that begins in
 * forward and ends in backward). ACTION happens in the middle of the step: kill (SIGKILL), term
 * (SIGTERM), exit (status 9), leave (the only thread ends, the process is left to itself), _exit
 * (status 8, without a word), told (SIGKILL when the file TRAINED_KILL_FILE exists), fork (a child
 * that launches a kernel, annotates and exits), long (a kernel that runs for half a second, asked
 * for last in the step). */
#include "tests/collect/trained.h"

#include <cuda.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct run {
    const char *marks, *action;
    int action_step;
    bool ranges;
    nvtxDomainHandle_t other;
    CUdeviceptr parameters[TRAINED_LAYERS], gradients[TRAINED_LAYERS];
    CUdeviceptr activations[TRAINED_LAYERS + 1], input;
    void *host_input;
};

static void launch(const char *name, unsigned microseconds)
{
    cuLaunchKernel((CUfunction)(void *)name, microseconds, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

static void push(const struct run *run, const char *name)
{
    if (run->ranges)
        nvtxRangePushA(name);
}

static void pop(const struct run *run)
{
    if (run->ranges)
        nvtxRangePop();
}

static void act(const char *action)
{
    if (strcmp(action, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(action, "term") == 0)
        raise(SIGTERM);
    if (strcmp(action, "exit") == 0)
        exit(9);
    if (strcmp(action, "leave") == 0)
        pthread_exit(NULL);
    if (strcmp(action, "_exit") == 0)
        _exit(8);
    if (strcmp(action, "told") == 0) {
        while (access(TRAINED_KILL_FILE, F_OK) != 0)
            usleep(1000);
        raise(SIGKILL);
    }
    if (strcmp(action, "fork") == 0) {
        pid_t child = fork();
        if (child == 0) {
            nvtxRangePushA("in the child");
            launch("of_the_child", 1);
            nvtxRangePop();
            exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static void forward(struct run *run)
{
    push(run, "forward");
    cuMemAlloc(&run->input, TRAINED_INPUT_BYTES);
    cuMemcpyHtoDAsync(run->input, run->host_input, TRAINED_INPUT_BYTES, NULL);
    for (int layer = 0; layer < TRAINED_LAYERS; layer++) {
        cuMemAlloc(&run->activations[layer], TRAINED_ACTIVATION_BYTES);
        launch("_Z6linearIfEvPT_i", 20);
        launch("_Z4geluIfEvPT_i", 5);
        if (layer == 1 && strcmp(run->marks, "crossed") == 0) {
            nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                           .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                           .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                           .message.ascii = "crossing"};
            nvtxDomainRangePushEx(run->other, &event);
        }
    }
    cuMemAlloc(&run->activations[TRAINED_LAYERS], TRAINED_ACTIVATION_BYTES);
    launch("cross_entropy", 10);
    pop(run);
}

/* The first micro-batch makes the gradients; the others add to them. */
static void backward(struct run *run, int micro_batch)
{
    push(run, "backward");
    cuMemFree(run->activations[TRAINED_LAYERS]);
    for (int layer = TRAINED_LAYERS - 1; layer >= 0; layer--) {
        launch("_Z13gelu_backwardIfEvPT_i", 5);
        launch("_Z15linear_backwardIfEvPT_i", 20);
        launch("_Z15weight_gradientIfEvPT_i", 20);
        if (micro_batch > 0)
            launch("_Z3addIfEvPT_i", 2);
        cuMemFree(run->activations[layer]);
        if (layer == 2 && strcmp(run->marks, "crossed") == 0)
            nvtxDomainRangePop(run->other);
    }
    pop(run);
}

static void accumulate(struct run *run)
{
    for (int i = 0; i < TRAINED_MICRO_BATCHES - 1; i++) {
        forward(run);
        backward(run, i);
        cuMemFree(run->input);
        cuStreamSynchronize(NULL);
    }
}

static void update(struct run *run)
{
    push(run, "update");
    if (strcmp(run->marks, "optimizer") == 0)
        nvtxRangePushA("Optimizer.step#AdamW.step");
    for (int layer = 0; layer < TRAINED_LAYERS; layer++)
        launch("adamw", 10);
    cuMemFree(run->input);
    cuMemsetD32Async(run->gradients[0], 0, 16, NULL);
    if (strcmp(run->marks, "optimizer") == 0)
        nvtxRangePop();
    pop(run);
}

static void step(struct run *run, int number)
{
    char name[32];
    snprintf(name, sizeof name, "step %d", number);
    push(run, name);
    if (strcmp(run->marks, "batches") == 0)
        nvtxRangePushA("my batch");
    if (strcmp(run->marks, "marks") == 0) {
        snprintf(name, sizeof name, "iteration %d", number);
        nvtxMarkA(name);
    }
    bool accumulated = strcmp(run->marks, "accumulated") == 0;
    if (accumulated)
        accumulate(run);
    forward(run);
    if (number == run->action_step)
        act(run->action);
    backward(run, accumulated ? TRAINED_MICRO_BATCHES - 1 : 0);
    update(run);
    cuStreamSynchronize(NULL);
    if (number == run->action_step && strcmp(run->action, "long") == 0)
        launch("long_kernel", 500000);
    if (strcmp(run->marks, "batches") == 0)
        nvtxRangePop();
    pop(run);
}

static void evaluate(struct run *run)
{
    for (int batch = 0; batch < 4; batch++) {
        forward(run);
        cuStreamSynchronize(NULL);
        for (int layer = 0; layer <= TRAINED_LAYERS; layer++)
            cuMemFree(run->activations[layer]);
        cuMemFree(run->input);
    }
}

int main(int argc, char **argv)
{
    struct run run = {.marks = argv[1],
                      .action = argc == 5 ? argv[3] : "",
                      .action_step = argc == 5 ? atoi(argv[4]) : -1};
    CUcontext context;
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxPushCurrent(context);
    run.ranges = strcmp(run.marks, "ranges") == 0 || strcmp(run.marks, "crossed") == 0;
    if (strcmp(run.marks, "crossed") == 0)
        run.other = nvtxDomainCreateA("other");
    cuMemAllocHost(&run.host_input, TRAINED_INPUT_BYTES);
    for (int layer = 0; layer < TRAINED_LAYERS; layer++) {
        CUdeviceptr temporary;
        cuMemAlloc(&run.parameters[layer], TRAINED_PARAMETER_BYTES);
        cuMemAlloc(&temporary, 4096);
        cuMemAlloc(&run.gradients[layer], TRAINED_PARAMETER_BYTES);
        launch("initialize", 3);
        cuMemFree(temporary);
    }
    for (int number = 0; number < atoi(argv[2]); number++) {
        step(&run, number);
        if (strcmp(run.marks, "evaluated") == 0 && number % 6 == 5)
            evaluate(&run);
    }
    cuMemFreeHost(run.host_input);
    printf("trained\n");
    return 0;
}
