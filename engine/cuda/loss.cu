/* Cross-entropy of a softmax, a block a row at a time (see engine/cpu/simd/elements.c). One pass
 * finds the greatest logit and the sum of exponentials together; a second writes the gradient. */
#include "engine/cuda/kernel_code.h"
#include "engine/exponential.h"
#include "engine/soft_cap.h"

/* The most blocks. Each stores the sum of its rows' losses. */
enum { THREADS = 512, WARPS = THREADS / WARP, BLOCKS = 1024 };

template <typename T> struct loss_arguments {
    uint32_t N, V, row; /* row: elements from one to the next */
    const uint32_t *targets;
    const T *logits;
    T *gradient; /* the logits again; NULL if not wanted */
    float scale; /* of the gradient */
    float cap;   /* that the logits have been given; 0: none */
    double *parts;
    uint32_t *counter;
    double *loss;
};

/* The greatest of some logits, and the sum of the exponentials relative to it. */
struct softmax_part {
    float max, sum;
};

struct loss_shared {
    double sums[THREADS];
    struct softmax_part warps[WARPS];
    uint32_t last;
};

/* Joins two parts of a row. A part without numbers has maximum -infinity; its sum is 0, or no
 * number where it has logits that are none. */
__device__ static inline struct softmax_part softmax_join(struct softmax_part p,
                                                          struct softmax_part q)
{
    float max = p.max > q.max ? p.max : q.max;
    if (max == -INFINITY)
        return {max, p.sum + q.sum};
    return {max, p.sum * exponential(p.max - max) + q.sum * exponential(q.max - max)};
}

/* e^x for logits of a type: in bf16 by the GPU's instruction, whose error is far below that of the
 * logits. */
template <typename T> __device__ inline float exponential_of(float x)
{
    return sizeof(T) == sizeof(uint16_t) ? power_of_two(x * LOG2_E) : exponential(x);
}

/* Octets of a thread whose loads overlap. */
enum { AHEAD = 4, STRIDE = THREADS * OCTET };

template <typename T>
__device__ inline struct softmax_part softmax_of(const struct octet logits[AHEAD])
{
    struct softmax_part s = {-INFINITY, 0};
#pragma unroll
    for (int i = 0; i < AHEAD * OCTET; i++)
        s.max = fmaxf(s.max, logits[i / OCTET].at[i % OCTET]);
    float origin = s.max > -INFINITY ? s.max : 0; /* a logit that is no number stays one */
#pragma unroll
    for (int i = 0; i < AHEAD * OCTET; i++)
        s.sum += exponential_of<T>(logits[i / OCTET].at[i % OCTET] - origin);
    return s;
}

/* The row's octets go to the threads in turn. */
__device__ static inline uint64_t first_octet(uint64_t begin)
{
    return begin + threadIdx.x * OCTET;
}

/* Returns a row's softmax, in all threads. */
template <typename T>
__device__ inline struct softmax_part row_softmax(const struct loss_arguments<T> &a, uint64_t begin,
                                                  uint64_t end, struct loss_shared *shared)
{
    struct softmax_part s = {-INFINITY, 0};
    for (uint64_t e = first_octet(begin); e < end; e += AHEAD * STRIDE) {
        struct octet ahead[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++)
            ahead[i] = octet_load(a.logits, e + i * STRIDE, end, -INFINITY);
        s = softmax_join(s, softmax_of<T>(ahead));
    }
    for (int apart = 1; apart < WARP; apart *= 2) {
        struct softmax_part other = {__shfl_xor_sync(WHOLE_WARP, s.max, apart),
                                     __shfl_xor_sync(WHOLE_WARP, s.sum, apart)};
        s = threadIdx.x & apart ? softmax_join(other, s) : softmax_join(s, other);
    }
    if (threadIdx.x % WARP == 0)
        shared->warps[threadIdx.x / WARP] = s;
    __syncthreads();
    s = shared->warps[0];
    for (int w = 1; w < WARPS; w++)
        s = softmax_join(s, shared->warps[w]);
    return s;
}

template <typename T>
__device__ inline void row_gradient(const struct loss_arguments<T> &a, uint64_t begin, uint64_t end,
                                    uint64_t target, struct softmax_part softmax)
{
    float inverse = 1 / softmax.sum;
    for (uint64_t first = first_octet(begin); first < end; first += AHEAD * STRIDE) {
        struct octet ahead[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++)
            ahead[k] = octet_load(a.logits, first + k * STRIDE, end, -INFINITY);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            struct octet &l = ahead[k];
            uint64_t e = first + k * STRIDE;
            for (int i = 0; i < OCTET; i++) {
                float p = exponential_of<T>(l.at[i] - softmax.max) * inverse;
                float slope = a.cap > 0 ? soft_cap_slope(l.at[i], a.cap) : 1;
                l.at[i] = (e + i == target ? p - 1 : p) * a.scale * slope;
            }
            octet_store(a.gradient, e, end, l);
        }
    }
}

/* The row's target does not count. */
template <typename T>
__device__ inline void row_clear(const struct loss_arguments<T> &a, uint64_t begin, uint64_t end)
{
    const struct octet zeros = {};
    for (uint64_t e = first_octet(begin); a.gradient && e < end; e += STRIDE)
        octet_store(a.gradient, e, end, zeros);
}

template <typename T>
__device__ inline double row_loss(const struct loss_arguments<T> &a, uint64_t n,
                                  struct loss_shared *shared)
{
    uint64_t begin = n * a.row, target = begin + a.targets[n];
    if (a.targets[n] == KERNEL_NO_TARGET) {
        row_clear(a, begin, begin + a.V);
        return 0;
    }
    struct softmax_part softmax = row_softmax(a, begin, begin + a.V, shared);
    float logit = element_load(a.logits + target);
    __syncthreads(); /* the logit at the target, and shared->warps, have been read */
    if (a.gradient)
        row_gradient(a, begin, begin + a.V, target, softmax);
    return log((double)softmax.sum) + (double)softmax.max - (double)logit;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) loss_kernel(struct loss_arguments<T> a)
{
    struct loss_shared *shared = (struct loss_shared *)shared_memory();
    uint64_t begin = (uint64_t)blockIdx.x * a.N / gridDim.x;
    uint64_t end = ((uint64_t)blockIdx.x + 1) * a.N / gridDim.x;
    double sum = 0;
    for (uint64_t n = begin; n < end; n++)
        sum += row_loss(a, n, shared);
    if (threadIdx.x == 0)
        a.parts[blockIdx.x] = sum;
    if (!last_block(a.counter, &shared->last))
        return;
    sum = pairwise_sum(THREADS, BLOCKS, shared->sums, [&](unsigned i) {
        return i < gridDim.x ? *(volatile double *)&a.parts[i] : 0;
    });
    if (threadIdx.x == 0)
        *a.loss = sum;
}

template <typename T>
static void loss_launch(const struct cuda_context *cuda, uint32_t N, uint32_t V,
                        const uint32_t *targets, const void *logits, void *gradient, float scale,
                        float cap, double *loss)
{
    struct loss_arguments<T> arguments = {
        N, V, model_logits_row(V), targets, (const T *)logits, (T *)gradient, scale, cap,
            (double *)cuda->scratch, cuda->counter, loss
    };
    launch(loss_kernel<T>, N < BLOCKS ? N : (uint32_t)BLOCKS, THREADS, sizeof(struct loss_shared),
           cuda->stream, arguments);
}

void cuda_loss(const void *context, enum model_precision precision, uint32_t N, uint32_t V,
               const uint32_t *targets, const void *logits, double *loss)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, loss_launch, cuda, N, V, targets, logits, NULL, 0, 0, loss);
}

void cuda_loss_backward(const void *context, enum model_precision precision, uint32_t N, uint32_t V,
                        const uint32_t *targets, double divisor, float cap, void *logits,
                        double *loss)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, loss_launch, cuda, N, V, targets, logits, logits, (float)(1 / divisor),
                 cap, loss);
}
