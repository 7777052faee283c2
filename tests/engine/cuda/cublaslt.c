/* A model of cuBLASLt's products on the host, as its documentation describes them: column-major
 * matrices with leading dimensions, transpositions, epilogues. A wrong transposition, dimension,
 * type or pointer in engine/cuda/linear.c gives other numbers, or stops here. It also has the part
 * of the CUDA runtime that the operators use. */
#include "tests/engine/cuda/cublaslt.h"

#include "engine/bf16.h"
#include "engine/gelu.h"
#include "tests/engine/cuda/counted.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <glib.h>
#include <stdbool.h>

enum { ALIGNMENT = 256, ALGORITHM = 0x5eed, WORKSPACE = 1 << 20 };

struct operation {
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue;
    cudaDataType_t bias_type;
    void *bias, *aux;
    int64_t aux_ld;
};

struct matrix {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t ld;
};

struct preference {
    uint64_t workspace_bytes;
    uint32_t reductions;
};

bool cublaslt_refuses;
uint32_t cublaslt_lacks;
uint32_t cublaslt_searches;
uint32_t cublaslt_products;
float cublaslt_milliseconds[CUBLASLT_ALGORITHMS];
static float clock_ms;

size_t cublasLtGetVersion(void)
{
    return 130000;
}
uint32_t cublaslt_synchronised;

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                    : "CUBLAS_STATUS_NOT_SUPPORTED";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = g_malloc0(1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    g_free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description,
                                        cublasComputeType_t compute, cudaDataType_t scale)
{
    g_assert(compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F);
    struct operation *operation = g_new0(struct operation, 1);
    operation->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    *description = (cublasLtMatmulDesc_t)operation;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description)
{
    g_free(description);
    return CUBLAS_STATUS_SUCCESS;
}

static void copy(void *to, size_t expected, const void *from, size_t bytes)
{
    g_assert_cmpuint(bytes, ==, expected);
    memcpy(to, from, bytes);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    struct operation *o = (struct operation *)description;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        copy(&o->a, sizeof o->a, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        copy(&o->b, sizeof o->b, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        copy(&o->epilogue, sizeof o->epilogue, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        copy((void *)&o->bias, sizeof o->bias, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        copy(&o->bias_type, sizeof o->bias_type, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        copy((void *)&o->aux, sizeof o->aux, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        copy(&o->aux_ld, sizeof o->aux_ld, value, bytes);
        break;
    default:
        g_error("attribute %d is not modelled", attribute);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    struct matrix *matrix = g_new(struct matrix, 1);
    g_assert_cmpint(ld, >=, (int64_t)rows);
    *matrix = (struct matrix){type, rows, columns, ld};
    *layout = (cublasLtMatrixLayout_t)matrix;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    g_free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = (cublasLtMatmulPreference_t)g_new0(struct preference, 1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    g_free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    struct preference *p = (struct preference *)preference;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        copy(&p->workspace_bytes, sizeof p->workspace_bytes, value, bytes);
    else if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        copy(&p->reductions, sizeof p->reductions, value, bytes);
    else
        g_error("preference %d is not modelled", attribute);
    return CUBLAS_STATUS_SUCCESS;
}

static bool has_slope(const struct operation *operation)
{
    return operation->epilogue == CUBLASLT_EPILOGUE_DGELU;
}

static bool has_aux(const struct operation *operation)
{
    return operation->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || has_slope(operation);
}

static bool has_bias(const struct operation *operation)
{
    return operation->epilogue != CUBLASLT_EPILOGUE_DEFAULT && !has_slope(operation);
}

/* Returns no algorithm if the auxiliary matrix' leading dimension is not as documented. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int *count)
{
    const struct operation *operation = (const struct operation *)description;
    const struct preference *p = (const struct preference *)preference;
    const struct matrix *of_d = (const struct matrix *)d;
    (void)handle, (void)a, (void)b, (void)c;
    cublaslt_searches++;
    g_assert_cmpint(requested, <=, 8);
    g_assert_cmpuint(p->reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE, ==, 0);
    g_assert_cmpuint(p->workspace_bytes, >=, WORKSPACE);
    g_assert(!has_bias(operation) || operation->bias);
    g_assert(!has_bias(operation) || operation->bias_type == of_d->type);
    g_assert(!has_aux(operation) || operation->aux);
    g_assert(!has_aux(operation) || operation->aux_ld >= (int64_t)of_d->rows);
    *count = 0;
    if ((has_aux(operation) && operation->aux_ld % 8 != 0) || operation->epilogue == cublaslt_lacks)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *count = MIN(requested, CUBLASLT_ALGORITHMS);
    memset(results, 0, (size_t)*count * sizeof *results);
    for (int i = 0; i < *count; i++) {
        results[i].algo.data[0] = ALGORITHM + (uint64_t)i;
        results[i].workspaceSize = WORKSPACE;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static float value_at(cudaDataType_t type, const void *data, uint64_t i)
{
    g_assert(type == CUDA_R_16BF || type == CUDA_R_32F);
    return type == CUDA_R_16BF ? bf16_widen(((const uint16_t *)data)[i]) : ((const float *)data)[i];
}

/* Rounds to nearest, ties to even. */
static uint16_t to_even(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static void put(cudaDataType_t type, void *data, uint64_t i, float value)
{
    if (type == CUDA_R_16BF)
        ((uint16_t *)data)[i] = to_even(value);
    else
        ((float *)data)[i] = value;
}

/* Returns element [row, column] of op(matrix). */
static double operand(cublasOperation_t op, const struct matrix *matrix, const void *data,
                      uint64_t row, uint64_t column)
{
    uint64_t r = op == CUBLAS_OP_N ? row : column, c = op == CUBLAS_OP_N ? column : row;
    return (double)value_at(matrix->type, data, r + c * (uint64_t)matrix->ld);
}

static void finish(const struct operation *o, const struct matrix *d, uint64_t row, uint64_t column,
                   float sum, void *to)
{
    uint64_t of_aux = row + column * (uint64_t)o->aux_ld;
    if (has_slope(o)) {
        sum *= gelu_slope(value_at(d->type, o->aux, of_aux));
    } else if (has_bias(o)) {
        sum += value_at(o->bias_type, o->bias, row);
    }
    if (has_aux(o) && !has_slope(o)) {
        put(d->type, o->aux, of_aux, sum);
        sum = gelu(sum);
    }
    put(d->type, to, row + column * (uint64_t)d->ld, sum);
}

static void assert_aligned(const void *pointer)
{
    g_assert_cmpuint((uintptr_t)pointer % ALIGNMENT, ==, 0);
}

static void check(const struct operation *o, const struct matrix *a, const struct matrix *b,
                  const struct matrix *c, const struct matrix *d)
{
    g_assert(!has_bias(o) || has_aux(o) || o->epilogue == CUBLASLT_EPILOGUE_BIAS);
    g_assert_cmpuint(o->a == CUBLAS_OP_N ? a->rows : a->columns, ==, d->rows);
    g_assert_cmpuint(o->b == CUBLAS_OP_N ? b->columns : b->rows, ==, d->columns);
    g_assert_cmpuint(o->a == CUBLAS_OP_N ? a->columns : a->rows, ==,
                     o->b == CUBLAS_OP_N ? b->rows : b->columns);
    g_assert(c->rows == d->rows && c->columns == d->columns && c->ld == d->ld);
    g_assert(a->type == b->type && c->type == d->type);
    assert_aligned(has_bias(o) ? o->bias : NULL);
    assert_aligned(has_aux(o) ? o->aux : NULL);
    g_assert(!has_aux(o) || d->type == CUDA_R_16BF); /* its accuracy is not documented */
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const struct operation *o = (const struct operation *)description;
    const struct matrix *of_a = (const struct matrix *)a_layout,
                        *of_b = (const struct matrix *)b_layout,
                        *of_d = (const struct matrix *)d_layout;
    if (cublaslt_refuses)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    float scale = *(const float *)beta;
    uint64_t depth = o->a == CUBLAS_OP_N ? of_a->columns : of_a->rows;
    (void)handle, (void)stream;
    g_assert(*(const float *)alpha == 1 && algorithm->data[0] >= ALGORITHM &&
             algorithm->data[0] < ALGORITHM + CUBLASLT_ALGORITHMS);
    cublaslt_products++;
    if (counted_only())
        return CUBLAS_STATUS_SUCCESS;
    clock_ms += cublaslt_milliseconds[algorithm->data[0] - ALGORITHM];
    check(o, of_a, of_b, (const struct matrix *)c_layout, of_d);
    const void *aligned[] = {a, b, c, d, workspace};
    for (unsigned i = 0; i < G_N_ELEMENTS(aligned); i++)
        assert_aligned(aligned[i]);
    memset(workspace, 0xff, workspace_bytes);
    for (uint64_t column = 0; column < of_d->columns; column++)
        for (uint64_t row = 0; row < of_d->rows; row++) {
            double sum = 0;
            for (uint64_t k = 0; k < depth; k++)
                sum += operand(o->a, of_a, a, row, k) * operand(o->b, of_b, b, k, column);
            if (scale != 0)
                sum += (double)scale *
                       (double)value_at(of_d->type, c, row + column * (uint64_t)of_d->ld);
            finish(o, of_d, row, column, (float)sum, d);
        }
    return CUBLAS_STATUS_SUCCESS;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    g_assert_cmpint(attribute, ==, cudaDevAttrMultiProcessorCount);
    g_assert_cmpint(device, ==, 0);
    *value = 132;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = g_aligned_alloc(1, bytes, ALIGNMENT);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    g_aligned_free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(memory, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)stream;
    g_assert_cmpint(kind, ==, cudaMemcpyHostToDevice);
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    cublaslt_synchronised++;
    return cublaslt_refuses ? cudaErrorIllegalAddress : cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorIllegalAddress ? "an illegal memory access was encountered"
                                            : "no error";
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    g_assert_cmpint(device, ==, 0);
    g_strlcpy(properties->name, "no GPU", sizeof properties->name);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = (cudaEvent_t)g_new0(float, 1);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    g_free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)stream;
    *(float *)event = clock_ms;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    *milliseconds = *(const float *)end - *(const float *)begin;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}
