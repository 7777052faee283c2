/* Matrix products by cuBLASLt, all matrices row-major: c[M,N] = a[M,K] b[K,N], with an epilogue.
 * The library's heuristic chooses an algorithm once for each shape, and the choice is kept, so that
 * it depends on the shape and the GPU alone; or the quickest of its first choices is found once and
 * kept in a file. fp32 is computed without TF32; sums are in fp32 in
 * either precision. */
#include "engine/cuda/operators.h"

#include "engine/cuda/choices.h"
#include "engine/cuda/kernels.h"

#include <cublasLt.h>
#include <errno.h>
#include <math.h>
#include <string.h>

enum product_epilogue {
    PRODUCT_PLAIN,
    PRODUCT_ADD,      /* adds to what c holds */
    PRODUCT_BIAS,     /* adds a bias of `in` to each row */
    PRODUCT_RESIDUAL, /* c = residual + the product with the bias, if any, rounded once */
    PRODUCT_GELU,     /* stores pre, the product with the bias, and c = gelu(pre) of pre before its
                         rounding */
    PRODUCT_SLOPE     /* c = gelu'(pre) times the product, without a bias */
};

struct product_shape {
    uint32_t M, N, K;
    uint32_t a_row, c_row; /* elements from one stored row to the next; 0 if rows are contiguous */
    uint8_t transposed_a, transposed_b; /* a is stored as [K,M], b as [N,K] */
    uint8_t in, out; /* enum model_precision: of a, b and bias; of c, residual and pre */
    uint8_t epilogue;
    uint8_t unbiased; /* PRODUCT_RESIDUAL without a bias */
};

struct product_operands {
    const void *a, *b, *residual;
    const void *bias, *pre; /* which the product writes where its epilogue says so */
    void *c;
};

/* cuBLASLt's matrices are column-major, so a row-major matrix is a transposed one there. It
 * therefore computes c^T = b^T a^T: b comes first, and M and N are exchanged. */
struct product_plan {
    struct product_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t b, a, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    cublasLtMatmulHeuristicResult_t *candidates; /* to be timed; NULL if that is over */
    int candidate_count;
    bool found;            /* whether there is an algorithm */
    cublasStatus_t status; /* of the search for it */
};

struct cuda_products {
    cublasLtHandle_t handle;
    cudaStream_t stream;
    void *workspace;
    uint64_t workspace_bytes;
    GArray *plans;           /* of struct product_plan */
    struct choices *choices; /* NULL if products are not timed */
    bool fixed;              /* no more choices are made */
    char *error;             /* the first since the last cuda_products_take_error; NULL for none */
};

static void plan_clear(void *data)
{
    struct product_plan *plan = data;
    cublasLtMatmulDescDestroy(plan->operation);
    cublasLtMatrixLayoutDestroy(plan->b);
    cublasLtMatrixLayoutDestroy(plan->a);
    cublasLtMatrixLayoutDestroy(plan->c);
    g_free(plan->candidates);
}

struct cuda_products *cuda_products_new(cudaStream_t stream, void *workspace,
                                        uint64_t workspace_bytes)
{
    cublasLtHandle_t handle;
    if (cublasLtCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        return NULL;
    struct cuda_products *products = g_new0(struct cuda_products, 1);
    products->handle = handle;
    products->stream = stream;
    products->workspace = workspace;
    products->workspace_bytes = workspace_bytes;
    products->plans = g_array_new(FALSE, TRUE, sizeof(struct product_plan));
    g_array_set_clear_func(products->plans, plan_clear);
    return products;
}

void cuda_products_free(struct cuda_products *products)
{
    if (!products)
        return;
    g_array_free(products->plans, TRUE);
    g_free(products->error);
    choices_free(products->choices);
    cublasLtDestroy(products->handle);
    g_free(products);
}

bool cuda_products_time(struct cuda_products *products, const char *path, GError **error)
{
    struct cudaDeviceProp properties;
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: the GPU does not say its name",
                    path);
        return false;
    }
    products->choices = choices_open(path, properties.name, cublasLtGetVersion(), error);
    return products->choices != NULL;
}

void cuda_products_fix(struct cuda_products *products)
{
    products->fixed = true;
}

static cudaDataType_t data_type(uint8_t precision)
{
    return precision == MODEL_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Describes the row-major matrix [rows, columns] as the library sees it. `row` is the elements from
 * one row to the next; 0 if rows are contiguous. */
static bool make_layout(cublasLtMatrixLayout_t *layout, uint8_t precision, uint32_t rows,
                        uint32_t columns, uint32_t row)
{
    return cublasLtMatrixLayoutCreate(layout, data_type(precision), columns, rows,
                                      row ? row : columns) == CUBLAS_STATUS_SUCCESS;
}

static bool set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                const void *value, size_t bytes)
{
    return cublasLtMatmulDescSetAttribute(operation, attribute, value, bytes) ==
           CUBLAS_STATUS_SUCCESS;
}

static bool has_bias(const struct product_shape *shape)
{
    return shape->epilogue >= PRODUCT_BIAS && shape->epilogue != PRODUCT_SLOPE && !shape->unbiased;
}

static bool has_pre(const struct product_shape *shape)
{
    return shape->epilogue == PRODUCT_GELU || shape->epilogue == PRODUCT_SLOPE;
}

/* Returns what the library computes behind the product; it adds a residual as c. It also has a
 * form of GELU's derivative that sums the columns (CUBLASLT_EPILOGUE_DGELU_BGRAD), which takes 1.7
 * to 2.3 times as long as the product with a kernel of ours behind it (docs/devices.md). */
static cublasLtEpilogue_t epilogue_of(const struct product_shape *shape)
{
    switch ((enum product_epilogue)shape->epilogue) {
    case PRODUCT_GELU:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case PRODUCT_SLOPE:
        return CUBLASLT_EPILOGUE_DGELU;
    default:
        return has_bias(shape) ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    }
}

/* A bias is of the type of c. */
static bool set_epilogue(struct product_plan *plan)
{
    const struct product_shape *shape = &plan->shape;
    cublasLtEpilogue_t epilogue = epilogue_of(shape);
    cudaDataType_t bias = data_type(shape->out);
    int64_t columns = shape->N;
    return set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) &&
           (!has_bias(shape) ||
            set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, sizeof bias)) &&
           (!has_pre(shape) ||
            set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &columns, sizeof columns));
}

static bool set_pointers(struct product_plan *plan, const struct product_operands *product)
{
    return (!has_bias(&plan->shape) || set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                           &product->bias, sizeof product->bias)) &&
           (!has_pre(&plan->shape) ||
            set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &product->pre,
                sizeof product->pre));
}

static bool describe(struct product_plan *plan)
{
    const struct product_shape *shape = &plan->shape;
    uint32_t M = shape->M, N = shape->N, K = shape->K;
    cublasOperation_t of_b = shape->transposed_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t of_a = shape->transposed_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    return cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F) ==
               CUBLAS_STATUS_SUCCESS &&
           set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof of_b) &&
           set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a) &&
           set_epilogue(plan) &&
           make_layout(&plan->b, shape->in, shape->transposed_b ? N : K,
                       shape->transposed_b ? K : N, 0) &&
           make_layout(&plan->a, shape->in, shape->transposed_a ? K : M,
                       shape->transposed_a ? M : K, shape->a_row) &&
           make_layout(&plan->c, shape->out, M, N, shape->c_row);
}

/* Parts of a split sum are added in the workspace, in fp32, without atomics and without rounding
 * between. */
static bool limit(cublasLtMatmulPreference_t preference, uint64_t workspace_bytes)
{
    size_t bytes = workspace_bytes;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    return cublasLtMatmulPreferenceSetAttribute(preference,
                                                CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                sizeof bytes) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatmulPreferenceSetAttribute(
               preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
               sizeof reductions) == CUBLAS_STATUS_SUCCESS;
}

enum { CANDIDATES = 8, TIMED_RUNS = 3 };

G_STATIC_ASSERT(sizeof(cublasLtMatmulAlgo_t) == CHOICE_WORDS * sizeof(uint64_t));

/* A product that adds to its result would change it each time. */
static bool is_timed(const struct cuda_products *products, const struct product_shape *shape)
{
    return products->choices && !products->fixed && shape->epilogue != PRODUCT_ADD;
}

static char *key_of(const struct product_shape *shape)
{
    return g_strdup_printf("%u %u %u %u %u %u%u %u %u %u.%u", shape->M, shape->N, shape->K,
                           shape->a_row, shape->c_row, shape->transposed_a, shape->transposed_b,
                           shape->in, shape->out, shape->epilogue, (unsigned)epilogue_of(shape));
}

/* Takes the algorithm that an earlier run has chosen. */
static bool take_choice(const struct cuda_products *products, struct product_plan *plan)
{
    g_autofree char *key = key_of(&plan->shape);
    const struct choice *choice = products->choices ? choices_find(products->choices, key) : NULL;
    if (!choice || choice->workspace_bytes > products->workspace_bytes)
        return false;
    memcpy(&plan->algorithm, choice->algorithm, sizeof plan->algorithm);
    plan->workspace_bytes = choice->workspace_bytes;
    return true;
}

static bool choose(const struct cuda_products *products, struct product_plan *plan)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    bool timed = is_timed(products, &plan->shape);
    int count = 0;
    if (take_choice(products, plan))
        return true;
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS)
        return false;
    bool ok = limit(preference, products->workspace_bytes);
    if (ok)
        plan->status = cublasLtMatmulAlgoGetHeuristic(products->handle, plan->operation, plan->b,
                                                      plan->a, plan->c, plan->c, preference,
                                                      timed ? CANDIDATES : 1, results, &count);
    if (plan->status == CUBLAS_STATUS_SUCCESS && count > 0)
        plan->status = results[0].state;
    ok = ok && plan->status == CUBLAS_STATUS_SUCCESS && count > 0;
    cublasLtMatmulPreferenceDestroy(preference);
    if (!ok)
        return false;
    plan->algorithm = results[0].algo;
    plan->workspace_bytes = results[0].workspaceSize;
    if (timed) {
        plan->candidates = g_memdup2(results, (gsize)count * sizeof *results);
        plan->candidate_count = count;
    }
    return true;
}

static bool same(const struct product_shape *p, const struct product_shape *q)
{
    return p->M == q->M && p->N == q->N && p->K == q->K && p->a_row == q->a_row &&
           p->c_row == q->c_row && p->transposed_a == q->transposed_a &&
           p->transposed_b == q->transposed_b && p->in == q->in && p->out == q->out &&
           p->epilogue == q->epilogue && p->unbiased == q->unbiased;
}

/* Returns the shape's plan, which is made at its first use. The heuristic assumes that pointers are
 * multiples of 256 bytes, which is true for all tensors and buffers, so the algorithm does not
 * depend on addresses. The heuristic may look at the epilogue's pointers, so it receives a pointer
 * with the same alignment. */
static struct product_plan *plan_of(struct cuda_products *products,
                                    const struct product_shape *shape)
{
    for (guint i = 0; i < products->plans->len; i++) {
        struct product_plan *plan = &g_array_index(products->plans, struct product_plan, i);
        if (same(&plan->shape, shape))
            return plan;
    }
    struct product_plan plan = {.shape = *shape};
    const struct product_operands aligned = {.bias = products->workspace,
                                             .pre = products->workspace};
    plan.found = describe(&plan) && set_pointers(&plan, &aligned) && choose(products, &plan);
    g_array_append_val(products->plans, plan);
    return &g_array_index(products->plans, struct product_plan, products->plans->len - 1);
}

/* Returns whether the library has an algorithm for the shape. PRODUCT_GELU and PRODUCT_SLOPE do not
 * exist for all shapes. */
static bool have(struct cuda_products *products, const struct product_shape *shape)
{
    return plan_of(products, shape)->found;
}

static char *explain(const struct product_shape *shape, const char *what, cublasStatus_t status)
{
    static const char *const epilogues[] = {
        [PRODUCT_PLAIN] = "",
        [PRODUCT_ADD] = ", adds",
        [PRODUCT_BIAS] = ", bias",
        [PRODUCT_RESIDUAL] = ", residual",
        [PRODUCT_GELU] = ", bias and GELU",
        [PRODUCT_SLOPE] = ", GELU's derivative",
    };
    return g_strdup_printf(
        "%s: %s, product [%u,%u]%s [%u,%u]%s in %s to %s%s", what, cublasLtGetStatusName(status),
        shape->M, shape->K, shape->transposed_a ? "^T" : "", shape->K, shape->N,
        shape->transposed_b ? "^T" : "", shape->in == MODEL_BF16 ? "bf16" : "fp32",
        shape->out == MODEL_BF16 ? "bf16" : "fp32", epilogues[shape->epilogue]);
}

static cublasStatus_t launch(const struct cuda_products *products, const struct product_plan *plan,
                             const struct product_operands *product)
{
    uint8_t epilogue = plan->shape.epilogue;
    const void *added = epilogue == PRODUCT_RESIDUAL ? product->residual : product->c;
    const float one = 1, beta = epilogue == PRODUCT_ADD || epilogue == PRODUCT_RESIDUAL;
    return cublasLtMatmul(products->handle, plan->operation, &one, product->b, plan->b, product->a,
                          plan->a, &beta, added, plan->c, product->c, plan->c, &plan->algorithm,
                          products->workspace, plan->workspace_bytes, products->stream);
}

/* Returns the milliseconds of some runs behind a first one; INFINITY if the algorithm fails. */
static float milliseconds_of(const struct cuda_products *products, const struct product_plan *plan,
                             const struct product_operands *product, const cudaEvent_t events[2])
{
    float milliseconds = INFINITY;
    bool ok = launch(products, plan, product) == CUBLAS_STATUS_SUCCESS &&
              cudaEventRecord(events[0], products->stream) == cudaSuccess;
    for (int i = 0; ok && i < TIMED_RUNS; i++)
        ok = launch(products, plan, product) == CUBLAS_STATUS_SUCCESS;
    ok = ok && cudaEventRecord(events[1], products->stream) == cudaSuccess &&
         cudaEventSynchronize(events[1]) == cudaSuccess &&
         cudaEventElapsedTime(&milliseconds, events[0], events[1]) == cudaSuccess;
    return ok ? milliseconds : INFINITY;
}

static void set_candidate(struct product_plan *plan, int i)
{
    plan->algorithm = plan->candidates[i].algo;
    plan->workspace_bytes = plan->candidates[i].workspaceSize;
}

static void keep_choice(struct cuda_products *products, const struct product_plan *plan)
{
    struct choice choice = {.workspace_bytes = plan->workspace_bytes};
    g_autofree char *key = key_of(&plan->shape);
    memcpy(choice.algorithm, &plan->algorithm, sizeof choice.algorithm);
    if (!choices_add(products->choices, key, &choice) && !products->error)
        products->error = g_strdup_printf("cannot write the choice of a product's algorithm: %s",
                                          g_strerror(errno));
}

/* Every run gives the same result but for the order of its sums, so only the last one counts. The
 * stream waits for nothing that the calling thread has yet to do. */
static void find_quickest(struct cuda_products *products, struct product_plan *plan,
                          const struct product_operands *product)
{
    cudaEvent_t events[2] = {NULL, NULL};
    float least = INFINITY;
    int quickest = 0;
    bool repeatable = plan->shape.epilogue != PRODUCT_RESIDUAL || product->residual != product->c;
    bool ok = repeatable && cudaEventCreate(&events[0]) == cudaSuccess &&
              cudaEventCreate(&events[1]) == cudaSuccess;
    for (int i = 0; ok && i < plan->candidate_count; i++) {
        set_candidate(plan, i);
        float taken = milliseconds_of(products, plan, product, events);
        if (taken < least) {
            least = taken;
            quickest = i;
        }
    }
    for (int i = 0; i < 2; i++)
        if (events[i])
            cudaEventDestroy(events[i]);
    set_candidate(plan, quickest);
    g_clear_pointer(&plan->candidates, g_free);
    if (ok)
        keep_choice(products, plan);
}

/* Returns what failed; NULL if nothing did. */
static char *queue(struct cuda_products *products, const struct product_shape *shape,
                   const struct product_operands *product)
{
    struct product_plan *plan = plan_of(products, shape);
    if (!plan->found)
        return explain(shape, "cuBLASLt has no algorithm", plan->status);
    if (!set_pointers(plan, product))
        return explain(shape, "cuBLASLt refuses operands", CUBLAS_STATUS_INVALID_VALUE);
    if (plan->candidates)
        find_quickest(products, plan, product);
    cublasStatus_t status = launch(products, plan, product);
    return status == CUBLAS_STATUS_SUCCESS ? NULL : explain(shape, "cublasLtMatmul", status);
}

/* Queues one launch, or two where the library splits K; the parts are then added in the workspace
 * in one order. Keeps an error for cuda_products_take_error. */
static void run(struct cuda_products *products, const struct product_shape *shape,
                const struct product_operands *product)
{
    char *error = queue(products, shape, product);
    if (!products->error)
        products->error = g_steal_pointer(&error);
    g_free(error);
}

char *cuda_products_take_error(struct cuda_products *products)
{
    return g_steal_pointer(&products->error);
}

/* ---- the kernels of linear layers and of the classifier ---- */

static void multiply(const void *context, struct product_shape shape,
                     struct product_operands product)
{
    run(cuda_context_of(context)->products, &shape, &product);
}

/* y[N,O] = x[N,I] weight[I,O] + bias[O] */
static struct product_shape forward_shape(enum model_precision precision, uint32_t N, uint32_t I,
                                          uint32_t O, enum product_epilogue epilogue)
{
    return (struct product_shape){.M = N,
                                  .N = O,
                                  .K = I,
                                  .in = (uint8_t)precision,
                                  .out = (uint8_t)precision,
                                  .epilogue = (uint8_t)epilogue};
}

void cuda_linear_forward(const void *context, enum model_precision precision, uint32_t N,
                         uint32_t I, uint32_t O, const void *x, const void *weight,
                         const void *bias, void *y)
{
    multiply(context, forward_shape(precision, N, I, O, PRODUCT_BIAS),
             (struct product_operands){.a = x, .b = weight, .bias = bias, .c = y});
}

/* The accuracy of the library's GELU is not documented. It is far below the rounding to bf16, but
 * not surely below that of fp32. */
bool cuda_linear_gelu(const void *context, enum model_precision precision, uint32_t N, uint32_t I,
                      uint32_t O, const void *x, const void *weight, const void *bias, void *pre,
                      void *y)
{
    struct product_shape fused = forward_shape(precision, N, I, O, PRODUCT_GELU);
    if (precision == MODEL_FP32 || !have(cuda_context_of(context)->products, &fused))
        return false;
    multiply(context, fused,
             (struct product_operands){.a = x, .b = weight, .bias = bias, .c = y, .pre = pre});
    return true;
}

static bool multiply_residual(const void *context, struct product_shape fused, const void *x,
                              const void *weight, const void *bias, const void *residual, void *y)
{
    fused.unbiased = !bias;
    if (!have(cuda_context_of(context)->products, &fused))
        return false;
    multiply(
        context, fused,
        (struct product_operands){.a = x, .b = weight, .bias = bias, .residual = residual, .c = y});
    return true;
}

bool cuda_linear_residual(const void *context, enum model_precision precision, uint32_t N,
                          uint32_t I, uint32_t O, const void *x, const void *weight,
                          const void *bias, const void *residual, void *y)
{
    return multiply_residual(context, forward_shape(precision, N, I, O, PRODUCT_RESIDUAL), x,
                             weight, bias, residual, y);
}

static bool multiply_slope(const void *context, struct product_shape fused, const void *dy,
                           const void *weight, const void *pre, void *dpre)
{
    fused.epilogue = PRODUCT_SLOPE;
    if (!have(cuda_context_of(context)->products, &fused))
        return false;
    multiply(context, fused,
             (struct product_operands){.a = dy, .b = weight, .pre = pre, .c = dpre});
    return true;
}

/* dx[N,I] = dy[N,O] weight[I,O]^T */
static struct product_shape backward_shape(enum model_precision precision, uint32_t N, uint32_t I,
                                           uint32_t O)
{
    struct product_shape shape = forward_shape(precision, N, O, I, PRODUCT_PLAIN);
    shape.transposed_b = true;
    return shape;
}

bool cuda_linear_slope(const void *context, uint32_t N, uint32_t I, uint32_t O, const void *dy,
                       const void *weight, const void *pre, void *dpre)
{
    return multiply_slope(context, backward_shape(MODEL_BF16, N, I, O), dy, weight, pre, dpre);
}

void cuda_linear_backward_input(const void *context, enum model_precision precision, uint32_t N,
                                uint32_t I, uint32_t O, const void *dy, const void *weight,
                                void *dx)
{
    multiply(context, backward_shape(precision, N, I, O),
             (struct product_operands){.a = dy, .b = weight, .c = dx});
}

/* dweight = a^T b */
static void multiply_weight(const void *context, struct product_shape shape, const void *a,
                            const void *b, enum kernel_gradient gradient, void *dweight,
                            double *squares)
{
    enum model_precision stored = kernel_gradient_is_half(gradient) ? MODEL_BF16 : MODEL_FP32;
    shape.transposed_a = true;
    shape.out = (uint8_t)stored;
    shape.epilogue = gradient == KERNEL_GRADIENT_ADD ? PRODUCT_ADD : PRODUCT_PLAIN;
    multiply(context, shape, (struct product_operands){.a = a, .b = b, .c = dweight});
    if (squares)
        cuda_sum_squares(context, stored, (uint64_t)shape.M * shape.N, dweight, squares);
}

void cuda_linear_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                                 uint32_t I, uint32_t O, const void *x, const void *dy,
                                 enum kernel_gradient gradient, float *workspace, void *dweight,
                                 double *squares)
{
    (void)workspace;
    multiply_weight(context,
                    (struct product_shape){.M = I, .N = O, .K = N, .in = (uint8_t)precision}, x, dy,
                    gradient, dweight, squares);
}

/* ---- the same with the weight transposed ---- */

static struct product_shape product_shape_of(enum model_precision precision, uint32_t N, uint32_t I,
                                             uint32_t O, enum product_epilogue epilogue)
{
    struct product_shape shape = forward_shape(precision, N, I, O, epilogue);
    shape.transposed_b = true;
    return shape;
}

void cuda_product_forward(const void *context, enum model_precision precision, uint32_t N,
                          uint32_t I, uint32_t O, const void *x, const void *weight,
                          const void *bias, void *y)
{
    multiply(context, product_shape_of(precision, N, I, O, bias ? PRODUCT_BIAS : PRODUCT_PLAIN),
             (struct product_operands){.a = x, .b = weight, .bias = bias, .c = y});
}

bool cuda_product_residual(const void *context, enum model_precision precision, uint32_t N,
                           uint32_t I, uint32_t O, const void *x, const void *weight,
                           const void *bias, const void *residual, void *y)
{
    return multiply_residual(context, product_shape_of(precision, N, I, O, PRODUCT_RESIDUAL), x,
                             weight, bias, residual, y);
}

void cuda_product_backward_input(const void *context, enum model_precision precision, uint32_t N,
                                 uint32_t I, uint32_t O, const void *dy, const void *weight,
                                 bool add, void *dx)
{
    multiply(context, forward_shape(precision, N, O, I, add ? PRODUCT_ADD : PRODUCT_PLAIN),
             (struct product_operands){.a = dy, .b = weight, .c = dx});
}

bool cuda_product_slope(const void *context, uint32_t N, uint32_t I, uint32_t O, const void *dy,
                        const void *weight, const void *pre, void *dpre)
{
    return multiply_slope(context, forward_shape(MODEL_BF16, N, O, I, PRODUCT_PLAIN), dy, weight,
                          pre, dpre);
}

void cuda_product_backward_weight(const void *context, enum model_precision precision, uint32_t N,
                                  uint32_t I, uint32_t O, const void *x, const void *dy,
                                  enum kernel_gradient gradient, float *workspace, void *dweight,
                                  double *squares)
{
    (void)workspace;
    multiply_weight(context,
                    (struct product_shape){.M = O, .N = I, .K = N, .in = (uint8_t)precision}, dy, x,
                    gradient, dweight, squares);
}

/* logits[N,V] = x[N,H] weight[V,H]^T + bias[V], rows of logits apart */
void cuda_classifier_forward(const void *context, enum model_precision precision, uint32_t N,
                             uint32_t H, uint32_t V, const void *x, const void *weight,
                             const void *bias, void *logits)
{
    struct product_shape shape = product_shape_of(precision, N, H, V,
                                                  bias ? PRODUCT_BIAS : PRODUCT_PLAIN);
    shape.c_row = model_logits_row(V);
    multiply(context, shape,
             (struct product_operands){.a = x, .b = weight, .bias = bias, .c = logits});
}

void cuda_classifier_backward_input(const void *context, enum model_precision precision, uint32_t N,
                                    uint32_t H, uint32_t V, const void *dlogits, const void *weight,
                                    void *dx)
{
    multiply(context,
             (struct product_shape){.M = N,
                                    .N = H,
                                    .K = V,
                                    .a_row = model_logits_row(V),
                                    .in = (uint8_t)precision,
                                    .out = (uint8_t)precision},
             (struct product_operands){.a = dlogits, .b = weight, .c = dx});
}

void cuda_classifier_backward_weight(const void *context, enum model_precision precision,
                                     uint32_t N, uint32_t H, uint32_t V, const void *x,
                                     const void *dlogits, enum kernel_gradient gradient,
                                     float *workspace, void *dweight, double *squares)
{
    (void)workspace;
    multiply_weight(
        context,
        (struct product_shape){
            .M = V, .N = H, .K = N, .a_row = model_logits_row(V), .in = (uint8_t)precision},
        dlogits, x, gradient, dweight, squares);
}
