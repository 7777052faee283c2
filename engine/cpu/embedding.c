#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"

void cpu_embed_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t T,
                       uint32_t H, const uint32_t *tokens, const void *wte, const void *wpe,
                       const struct kernel_dropout *dropout, void *x)
{
    const struct cpu_context *cpu = context;
    struct simd_embed_forward arguments = {
        precision, T, H, tokens, wte, wpe, cpu_dropout_of(dropout), x};
    cpu_parallel(cpu, cpu->simd->embed_forward, &arguments, N, 1);
}

static void sift_down(uint64_t *heap, uint32_t root, uint32_t count)
{
    uint64_t value = heap[root];
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= value)
            break;
        heap[root] = heap[child];
    }
    heap[root] = value;
}

/* Heap sort: in place, where the C library's qsort may allocate. */
void cpu_embed_order(const void *context, uint32_t N, const uint32_t *tokens, uint64_t *order)
{
    (void)context;
    for (uint32_t n = 0; n < N; n++)
        order[n] = (uint64_t)tokens[n] << 32 | n;
    for (uint32_t root = N / 2; root-- > 0;)
        sift_down(order, root, N);
    for (uint32_t end = N; end-- > 1;) {
        uint64_t greatest = order[0];
        order[0] = order[end];
        order[end] = greatest;
        sift_down(order, 0, end);
    }
}

/* Rows [first, V) of a gradient that is set become zero. */
static void clear_rows(enum kernel_gradient gradient, uint32_t first, uint32_t rows, uint32_t H,
                       void *rows_of)
{
    uint64_t row_bytes = 0;
    if (gradient == KERNEL_GRADIENT_SET)
        row_bytes = (uint64_t)H * sizeof(float);
    else if (gradient == KERNEL_GRADIENT_SET_BF16)
        row_bytes = (uint64_t)H * sizeof(uint16_t);
    memset((char *)rows_of + first * row_bytes, 0, (rows - first) * row_bytes);
}

void cpu_embed_tokens(const void *context, enum model_precision precision, uint32_t N, uint32_t H,
                      uint32_t V, const uint64_t *order, const void *dx,
                      const struct kernel_dropout *dropout, enum kernel_gradient gradient,
                      void *dwte)
{
    const struct cpu_context *cpu = context;
    struct simd_embed_tokens arguments = {precision, N,   H, order, dx, cpu_dropout_of(dropout),
                                          gradient,  dwte};
    clear_rows(gradient, 0, V, H, dwte);
    cpu_parallel(cpu, cpu->simd->embed_tokens, &arguments, simd_tiles(H), 1);
}

void cpu_embed_positions(const void *context, enum model_precision precision, uint32_t B,
                         uint32_t T, uint32_t H, uint32_t P, const void *dx,
                         const struct kernel_dropout *dropout, enum kernel_gradient gradient,
                         void *dwpe)
{
    const struct cpu_context *cpu = context;
    struct simd_embed_positions arguments = {precision, B,   T, H, dx, cpu_dropout_of(dropout),
                                             gradient,  dwpe};
    clear_rows(gradient, T, P, H, dwpe);
    cpu_parallel(cpu, cpu->simd->embed_positions, &arguments, T, 1);
}
