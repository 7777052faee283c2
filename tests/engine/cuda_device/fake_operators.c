/* The CUDA device's operators without a GPU: those of the CPU, queued on the stream. */
#include "fake_operators.h"

#include "engine/cpu/kernels.h"
#include "engine/device.h"
#include "engine/host/host_operators.h"
#include "fake_cuda.h"

struct cuda_operators {
    struct host_operators *cpu;
    cudaStream_t stream;
    void *loaded;                 /* what libraries take at their first use */
    bool called[MODEL_KINDS + 1]; /* the last: clipping */
};

bool cuda_operators_support(const struct model_config *config, GError **error)
{
    return device_cpu.supports(config, error);
}

struct cuda_operators *cuda_operators_new(uint8_t *arena, cudaStream_t stream, GError **error)
{
    struct cuda_operators *operators = g_new0(struct cuda_operators, 1);
    (void)error;
    operators->cpu = host_operators_new(1, arena, NULL);
    operators->stream = stream;
    return operators;
}

void cuda_operators_free(struct cuda_operators *operators)
{
    cudaFree(operators->loaded);
    host_operators_free(operators->cpu);
    g_free(operators);
}

struct launch {
    struct cuda_operators *operators;
    struct operation operation;
};

static void run(void *data)
{
    struct launch *launch = data;
    host_operators_run(launch->operators->cpu, &launch->operation);
}

struct clip {
    const double *squares;
    uint32_t count;
    double clip, *scale;
};

static void run_clip(void *data)
{
    const struct clip *clip = data;
    cpu_clip(NULL, clip->count, clip->squares, clip->clip, clip->scale);
}

cudaError_t cuda_operators_clip(struct cuda_operators *operators, const double *squares,
                                uint32_t count, double clip, double *scale)
{
    struct clip *launch = g_new0(struct clip, 1);
    if (!operators->called[MODEL_KINDS])
        fake_cuda_load();
    operators->called[MODEL_KINDS] = true;
    *launch = (struct clip){squares, count, clip, scale};
    return fake_cuda_launch(operators->stream, run_clip, launch);
}

/* The tokens in the operation belong to the caller; on a GPU they are gone when the kernel runs. */
cudaError_t cuda_operators_run(struct cuda_operators *operators, const struct operation *operation)
{
    if (!operators->loaded) {
        cudaError_t error = cudaMalloc(&operators->loaded, FAKE_OPERATORS_BYTES);
        if (error != cudaSuccess)
            return error;
    }
    if (!operators->called[operation->op->kind])
        fake_cuda_load();
    operators->called[operation->op->kind] = true;
    struct launch *launch = g_new0(struct launch, 1);
    *launch = (struct launch){operators, *operation};
    launch->operation.tokens = NULL;
    return fake_cuda_launch(operators->stream, run, launch);
}
