#include "engine/cuda/products.h"

#include <cublasLt.h>

/* cuBLASLt's matrices are column-major, and a row-major matrix is the transposed one there: so it
 * is asked for c^T = b^T a^T, b first, of M and N exchanged. */
struct plan {
    struct product_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t b, a, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
    bool found; /* the algorithm */
};

struct cuda_products {
    cublasLtHandle_t handle;
    cudaStream_t stream;
    void *workspace;
    uint64_t workspace_bytes;
    GArray *plans;     /* of struct plan */
    cudaError_t error; /* the first since the last cuda_products_take_error */
};

static void plan_clear(void *data)
{
    struct plan *plan = data;
    cublasLtMatmulDescDestroy(plan->operation);
    cublasLtMatrixLayoutDestroy(plan->b);
    cublasLtMatrixLayoutDestroy(plan->a);
    cublasLtMatrixLayoutDestroy(plan->c);
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
    products->plans = g_array_new(FALSE, TRUE, sizeof(struct plan));
    g_array_set_clear_func(products->plans, plan_clear);
    return products;
}

void cuda_products_free(struct cuda_products *products)
{
    if (!products)
        return;
    g_array_free(products->plans, TRUE);
    cublasLtDestroy(products->handle);
    g_free(products);
}

static cudaDataType_t data_type(uint8_t precision)
{
    return precision == MODEL_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* The row-major matrix [rows, columns] as the library sees it; `row` elements from one row to the
 * next, 0: as many as columns. */
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
    return shape->epilogue == PRODUCT_BIAS || shape->epilogue == PRODUCT_RESIDUAL ||
           shape->epilogue == PRODUCT_GELU;
}

static bool set_epilogue(struct plan *plan)
{
    const struct product_shape *shape = &plan->shape;
    bool gelu = shape->epilogue == PRODUCT_GELU;
    cublasLtEpilogue_t epilogue = gelu ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_BIAS;
    cudaDataType_t bias = data_type(shape->in);
    int64_t columns = shape->N;
    if (!has_bias(shape))
        return true;
    return set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) &&
           set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, sizeof bias) &&
           (!gelu ||
            set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &columns, sizeof columns));
}

static bool set_pointers(struct plan *plan, const struct product *product)
{
    return (!has_bias(&plan->shape) || set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                           &product->bias, sizeof product->bias)) &&
           (plan->shape.epilogue != PRODUCT_GELU ||
            set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &product->pre,
                sizeof product->pre));
}

static bool describe(struct plan *plan)
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

/* Split sums are added in the workspace, in fp32: neither by atomics nor rounded between. */
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

static bool choose(const struct cuda_products *products, struct plan *plan)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    int count = 0;
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS)
        return false;
    bool chosen = limit(preference, products->workspace_bytes) &&
                  cublasLtMatmulAlgoGetHeuristic(products->handle, plan->operation, plan->b,
                                                 plan->a, plan->c, plan->c, preference, 1, &result,
                                                 &count) == CUBLAS_STATUS_SUCCESS &&
                  count > 0 && result.state == CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulPreferenceDestroy(preference);
    if (!chosen)
        return false;
    plan->algorithm = result.algo;
    plan->workspace_bytes = result.workspaceSize;
    return true;
}

static bool same(const struct product_shape *p, const struct product_shape *q)
{
    return p->M == q->M && p->N == q->N && p->K == q->K && p->a_row == q->a_row &&
           p->c_row == q->c_row && p->transposed_a == q->transposed_a &&
           p->transposed_b == q->transposed_b && p->in == q->in && p->out == q->out &&
           p->epilogue == q->epilogue;
}

/* The shape's plan, made when it is first met. The heuristic assumes pointers at multiples of 256
 * bytes, which all tensors and buffers are: an algorithm does not depend on where they lie. Those
 * of the epilogue it may look at, so that it is given one as good as theirs. */
static struct plan *plan_of(struct cuda_products *products, const struct product_shape *shape)
{
    for (guint i = 0; i < products->plans->len; i++) {
        struct plan *plan = &g_array_index(products->plans, struct plan, i);
        if (same(&plan->shape, shape))
            return plan;
    }
    struct plan plan = {.shape = *shape};
    const struct product aligned = {.bias = products->workspace, .pre = products->workspace};
    plan.found = describe(&plan) && set_pointers(&plan, &aligned) && choose(products, &plan);
    g_array_append_val(products->plans, plan);
    return &g_array_index(products->plans, struct plan, products->plans->len - 1);
}

bool cuda_products_have(struct cuda_products *products, const struct product_shape *shape)
{
    return plan_of(products, shape)->found;
}

static cudaError_t queue(struct cuda_products *products, const struct product_shape *shape,
                         const struct product *product)
{
    struct plan *plan = plan_of(products, shape);
    const void *added = shape->epilogue == PRODUCT_RESIDUAL ? product->residual : product->c;
    const float one = 1,
                beta = shape->epilogue == PRODUCT_ADD || shape->epilogue == PRODUCT_RESIDUAL;
    if (!plan->found)
        return cudaErrorNotSupported;
    if (!set_pointers(plan, product))
        return cudaErrorUnknown;
    cublasStatus_t status =
        cublasLtMatmul(products->handle, plan->operation, &one, product->b, plan->b, product->a,
                       plan->a, &beta, added, plan->c, product->c, plan->c, &plan->algorithm,
                       products->workspace, plan->workspace_bytes, products->stream);
    return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorUnknown;
}

void cuda_products_run(struct cuda_products *products, const struct product_shape *shape,
                       const struct product *product)
{
    cudaError_t error = queue(products, shape, product);
    if (products->error == cudaSuccess)
        products->error = error;
}

cudaError_t cuda_products_take_error(struct cuda_products *products)
{
    cudaError_t error = products->error;
    products->error = cudaSuccess;
    return error;
}
