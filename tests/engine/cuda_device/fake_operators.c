/* The CUDA device's operators without a GPU: those of the CPU, queued on the stream. */
#include "fake_operators.h"

#include "engine/cpu/kernels.h"
#include "engine/device.h"
#include "engine/host/host_operators.h"
#include "engine/operators.h"
#include "fake_cuda.h"

struct cuda_operators {
    struct host_operators *cpu;
    uint8_t *arena;
    cudaStream_t stream;
    void *loaded;                 /* what libraries take at their first use */
    bool called[MODEL_KINDS + 1]; /* the last: clipping */
    bool joins;
    GPtrArray *updates; /* that wait: of struct launch */
    GHashTable *loads;  /* text of the kernels that operators have called */
    /* Several ranks. */
    struct operators own; /* for operators_share_update only */
    struct operators reductions;
    float *received;
};

bool cuda_operators_support(const struct model_config *config, GError **error)
{
    return device_cpu.supports(config, error);
}

struct cuda_operators *cuda_operators_new(uint8_t *arena, uint64_t table_bytes, cudaStream_t stream,
                                          GError **error)
{
    struct cuda_operators *operators = g_new0(struct cuda_operators, 1);
    (void)table_bytes, (void)error;
    operators->cpu = host_operators_new(1, arena, NULL);
    operators->arena = arena;
    operators->stream = stream;
    operators->updates = g_ptr_array_new();
    operators->loads = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    return operators;
}

void cuda_operators_free(struct cuda_operators *operators)
{
    cudaFree(operators->loaded);
    g_assert_cmpuint(operators->updates->len, ==, 0);
    g_ptr_array_unref(operators->updates);
    g_hash_table_unref(operators->loads);
    reduction_free(operators->own.reduction);
    reduction_free(operators->reductions.reduction);
    cudaFree(operators->received);
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

static uint64_t flushes;

uint64_t fake_operators_flushes(void)
{
    return flushes;
}

void cuda_operators_join(struct cuda_operators *operators)
{
    operators->joins = true;
}

char *cuda_operators_flush(struct cuda_operators *operators)
{
    cudaError_t error = cudaSuccess;
    flushes += operators->updates->len > 0;
    for (guint i = 0; i < operators->updates->len; i++) {
        cudaError_t failed = fake_cuda_launch(operators->stream, run,
                                              g_ptr_array_index(operators->updates, i));
        error = error == cudaSuccess ? failed : error;
    }
    g_ptr_array_set_size(operators->updates, 0);
    return error == cudaSuccess ? NULL : g_strdup(cudaGetErrorString(error));
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
    g_assert_cmpuint(operators->updates->len, ==, 0);
    if (!operators->called[MODEL_KINDS])
        fake_cuda_load();
    operators->called[MODEL_KINDS] = true;
    *launch = (struct clip){squares, count, clip, scale};
    return fake_cuda_launch(operators->stream, run_clip, launch);
}

/* A kernel is loaded at its first call: the sum of squares that a norm needs, the form that adds to
 * a gradient, the one that drops, the product with GELU's derivative, the sums for a bias. */
static void load(struct cuda_operators *operators, const struct operation *operation)
{
    const struct model_operator *op = operation->op;
    char *kernels = g_strdup_printf("%u %u %u %d %d %d %d %d %d %d", op->kind, op->inputs,
                                    op->outputs, operation->tensor[0].norm != NULL,
                                    operation->tensor[1].norm != NULL, op->accumulate, op->add,
                                    operation->training && op->dropout_site != NO_INDEX,
                                    op->in[2] != NO_INDEX, op->t[1] != NO_INDEX);
    if (!g_hash_table_contains(operators->loads, kernels))
        fake_cuda_load();
    g_hash_table_add(operators->loads, kernels);
}

/* The tokens in the operation belong to the caller; on a GPU they are gone when the kernel runs. */
char *cuda_operators_run(struct cuda_operators *operators, const struct operation *operation)
{
    if (!operators->loaded) {
        cudaError_t error = cudaMalloc(&operators->loaded, FAKE_OPERATORS_BYTES);
        if (error != cudaSuccess)
            return g_strdup(cudaGetErrorString(error));
    }
    load(operators, operation);
    struct launch *launch = g_new0(struct launch, 1);
    *launch = (struct launch){operators, *operation};
    launch->operation.tokens = NULL;
    if (operators->joins && operation->op->kind == MODEL_UPDATE) {
        g_ptr_array_add(operators->updates, launch);
        return NULL;
    }
    char *why = cuda_operators_flush(operators);
    cudaError_t error = fake_cuda_launch(operators->stream, run, launch);
    if (why)
        return why;
    return error == cudaSuccess ? NULL : g_strdup(cudaGetErrorString(error));
}

/* ---- several ranks: the calls of a reduction are queued on the network's stream, one by one ----
 */

enum { PIECE = 1000 }; /* so that small tensors take several */

static void run_add(void *data)
{
    reduction_add_on_host(NULL, data);
}

static void queue_add(const void *stream, const struct reduction_piece *piece)
{
    fake_cuda_launch((cudaStream_t)stream, run_add, g_memdup2(piece, sizeof *piece));
}

struct squares {
    enum model_precision precision;
    uint64_t elements, block, first;
    const void *gradient;
    double *sums, *total;
};

static void run_blocks(void *data)
{
    const struct squares *a = data;
    struct cpu_context *cpu = cpu_context_new(1);
    cpu_block_squares(cpu, a->precision, a->elements, a->block, a->first, a->gradient, a->sums);
    cpu_context_free(cpu);
}

static void queue_blocks(const void *stream, enum model_precision precision, uint64_t elements,
                         uint64_t block, uint64_t first, const void *gradient, double *sums)
{
    const struct squares a = {precision, elements, block, first, gradient, sums, NULL};
    fake_cuda_launch((cudaStream_t)stream, run_blocks, g_memdup2(&a, sizeof a));
}

static void run_total(void *data)
{
    const struct squares *a = data;
    cpu_total_squares(NULL, a->sums, a->total);
}

static void queue_total(const void *stream, double *sums, double *total)
{
    const struct squares a = {.sums = sums, .total = total};
    fake_cuda_launch((cudaStream_t)stream, run_total, g_memdup2(&a, sizeof a));
}

static const struct kernels reduction_kernels = {.block_squares = queue_blocks,
                                                 .total_squares = queue_total};

bool cuda_operators_share(struct cuda_operators *operators, struct ranks *ranks,
                          struct ranks *on_network, cudaStream_t network, GError **error)
{
    uint64_t received = 2 * (uint64_t)ranks->count * PIECE;
    (void)error;
    g_assert_true(cudaMalloc((void **)&operators->received,
                             received * sizeof(float) + REDUCTION_BLOCKS * sizeof(double)) ==
                  cudaSuccess);
    const struct reduction_place place = {.context = network,
                                          .piece = PIECE,
                                          .received = operators->received,
                                          .blocks = (double *)(operators->received + received),
                                          .add = queue_add};
    host_operators_share(operators->cpu, ranks);
    operators->own = (struct operators){.memory = operators->arena,
                                        .reduction = reduction_new(ranks, &place)};
    operators->reductions = (struct operators){.kernels = &reduction_kernels,
                                               .context = network,
                                               .memory = operators->arena,
                                               .reduction = reduction_new(on_network, &place)};
    return true;
}

char *cuda_operators_reduce(struct cuda_operators *operators, const struct operation *operation)
{
    if (!operators->called[operation->op->kind])
        fake_cuda_load();
    operators->called[operation->op->kind] = true;
    operators_run(&operators->reductions, operation);
    return NULL;
}

void cuda_operators_share_update(struct cuda_operators *operators,
                                 const struct operation *operation)
{
    operators_share_update(&operators->own, operation);
}
