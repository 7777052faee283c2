/* The embedding's kernels. Eight threads compute a tile of a row. */
#include "engine/cuda/kernel_code.h"

enum { THREADS = 256 };

/* The tile that a thread works on, of rows with `tiles` tiles each, and the thread's place within
 * it. */
struct tile_place {
    uint64_t row;
    uint32_t tile;
    unsigned t;
};

__device__ static inline struct tile_place place_of(uint32_t tiles)
{
    uint64_t item = ((uint64_t)blockIdx.x * THREADS + threadIdx.x) / TILE_THREADS;
    return {item / tiles, (uint32_t)(item % tiles), threadIdx.x % TILE_THREADS};
}

static unsigned blocks_of(uint64_t rows, uint32_t columns)
{
    return launch_blocks(rows * tiles_of(columns) * TILE_THREADS, THREADS);
}

template <typename T> struct embed_forward {
    uint32_t N, positions, H; /* positions: of a sequence */
    const uint32_t *tokens;
    const T *wte, *wpe; /* wpe may be NULL */
    struct tile_dropout dropout;
    T *x;
};

template <typename T, bool WHOLE>
__global__ void __launch_bounds__(THREADS) embed_forward_kernel(struct embed_forward<T> a)
{
    uint32_t tiles = tiles_of(a.H);
    struct tile_place p = place_of(tiles);
    if (p.row >= a.N)
        return;
    const T *token = a.wte + (uint64_t)a.tokens[p.row] * a.H;
    struct tile_part x = tile_part_load<WHOLE>(token, p.tile, p.t, a.H);
    if (a.wpe) {
        const T *position = a.wpe + p.row % a.positions * a.H;
        tile_part_add(x, tile_part_load<WHOLE>(position, p.tile, p.t, a.H));
    }
    tile_part_drop(a.dropout, p.row, tiles, p.tile, p.t, x);
    tile_part_store<WHOLE>(a.x + p.row * a.H, p.tile, p.t, a.H, x);
}

template <typename T>
static void embed_forward_launch(const struct cuda_context *cuda, uint32_t N, uint32_t positions,
                                 uint32_t H, const uint32_t *tokens, const void *wte,
                                 const void *wpe, const struct kernel_dropout *dropout, void *x)
{
    struct embed_forward<T> arguments = {
        N, positions, H, tokens, (const T *)wte, (const T *)wpe, tile_dropout_of(dropout), (T *)x
    };
    launch(H % TILE == 0 ? embed_forward_kernel<T, true> : embed_forward_kernel<T, false>,
           blocks_of(N, H), THREADS, 0, cuda->stream, arguments);
}

void cuda_embed_forward(const void *context, enum model_precision precision, uint32_t N, uint32_t T,
                        uint32_t H, const uint32_t *tokens, const void *wte, const void *wpe,
                        const struct kernel_dropout *dropout, void *x)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    BY_PRECISION(precision, embed_forward_launch, cuda, N, T, H, tokens, wte, wpe, dropout, x);
}

struct embed_order {
    uint32_t N;
    const uint32_t *tokens;
    uint64_t *order;
};

struct embed_order_shared {
    uint32_t tokens[THREADS];
};

/* Returns how many of THREADS tokens come before one: those that are smaller, and of its equals the
 * ones at the first `earlier` places. */
__device__ static inline uint32_t tokens_before(const uint32_t *tokens, uint32_t token,
                                                uint32_t earlier)
{
    uint32_t count = 0;
#pragma unroll 4
    for (uint32_t i = 0; i < THREADS; i += 4) {
        uint4 at = *(const uint4 *)&tokens[i];
        count += (at.x < token || (at.x == token && i < earlier)) +
                 (at.y < token || (at.y == token && i + 1 < earlier)) +
                 (at.z < token || (at.z == token && i + 2 < earlier)) +
                 (at.w < token || (at.w == token && i + 3 < earlier));
    }
    return count;
}

/* A row's rank is the number of rows before it: all rows of smaller tokens, and earlier rows of its
 * own token. */
__global__ static void __launch_bounds__(THREADS) embed_order_kernel(struct embed_order a)
{
    struct embed_order_shared *shared = (struct embed_order_shared *)shared_memory();
    uint32_t row = blockIdx.x * THREADS + threadIdx.x, rank = 0;
    uint32_t token = row < a.N ? a.tokens[row] : 0;
    for (uint32_t first = 0; first < a.N; first += THREADS) {
        uint32_t own = first + threadIdx.x;
        shared->tokens[threadIdx.x] = own < a.N ? a.tokens[own] : UINT32_MAX;
        __syncthreads();
        rank += tokens_before(shared->tokens, token, row < first ? 0 : row - first);
        __syncthreads();
    }
    if (row < a.N)
        a.order[rank] = (uint64_t)token << 32 | row;
}

void cuda_embed_order(const void *context, uint32_t N, const uint32_t *tokens, uint64_t *order)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct embed_order arguments = {N, tokens, order};
    launch(embed_order_kernel, launch_blocks(N, THREADS), THREADS,
           sizeof(struct embed_order_shared), cuda->stream, arguments);
}

template <typename T> struct embed_backward {
    uint32_t B, N, H, positions;
    const uint64_t *order; /* of tokens */
    const T *dx;
    struct tile_dropout dropout;
    enum kernel_gradient gradient;
    void *dtable;
};

template <typename T>
__device__ inline void store_gradient(const struct embed_backward<T> &a, uint64_t row,
                                      uint32_t tile, unsigned t, const struct tile_part &sum)
{
    for (int w = 0; w < TILE_PAIRS; w++)
        gradient_store_pair(a.gradient, a.dtable, row, tile_column(tile, t, w), a.H, sum.at[w]);
}

/* ROWS_AHEAD rows of one token load at once; a text's most frequent token has hundreds of rows. A
 * multiprocessor's blocks must leave each other registers for that, so there are at most
 * TOGETHER. */
enum { ROWS_AHEAD = 8, TOGETHER = 2 };

/* The threads at a token's first place in the order sum all its rows. In place of rows beyond the
 * last, the first is loaded again: conditional loads would come one after the other. */
template <typename T, bool WHOLE>
__global__ void __launch_bounds__(THREADS, TOGETHER) embed_tokens_kernel(struct embed_backward<T> a)
{
    uint32_t tiles = tiles_of(a.H);
    struct tile_place p = place_of(tiles);
    if (p.row >= a.N)
        return;
    uint64_t token = a.order[p.row] >> 32;
    if (p.row > 0 && a.order[p.row - 1] >> 32 == token)
        return;
    struct tile_part sum = {};
    bool there[ROWS_AHEAD];
    uint64_t first = p.row;
    do {
        uint32_t rows[ROWS_AHEAD];
        struct tile_part ahead[ROWS_AHEAD];
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++) {
            uint64_t at = a.order[first + i < a.N ? first + i : p.row];
            there[i] = first + i < a.N && at >> 32 == token;
            rows[i] = (uint32_t)at;
        }
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++)
            ahead[i] = tile_part_load<WHOLE>(a.dx + (uint64_t)(there[i] ? rows[i] : rows[0]) * a.H,
                                             p.tile, p.t, a.H);
#pragma unroll
        for (int i = 0; i < ROWS_AHEAD; i++)
            if (there[i]) {
                tile_part_drop(a.dropout, rows[i], tiles, p.tile, p.t, ahead[i]);
                tile_part_add(sum, ahead[i]);
            }
        first += ROWS_AHEAD;
    } while (there[ROWS_AHEAD - 1]);
    store_gradient(a, token, p.tile, p.t, sum);
}

template <typename T, bool WHOLE>
__global__ void __launch_bounds__(THREADS) embed_positions_kernel(struct embed_backward<T> a)
{
    struct tile_place p = place_of(tiles_of(a.H));
    if (p.row >= a.positions)
        return;
    struct tile_part sum = {};
    for (uint32_t b = 0; b < a.B; b++) {
        uint64_t row = (uint64_t)b * a.positions + p.row;
        struct tile_part dy = tile_part_load<WHOLE>(a.dx + row * a.H, p.tile, p.t, a.H);
        tile_part_drop(a.dropout, row, tiles_of(a.H), p.tile, p.t, dy);
        tile_part_add(sum, dy);
    }
    store_gradient(a, p.row, p.tile, p.t, sum);
}

/* Clears rows [first, rows) of a gradient that is overwritten. */
static void clear_rows(const struct cuda_context *cuda, enum kernel_gradient gradient,
                       uint32_t first, uint32_t rows, uint32_t H, void *table)
{
    uint64_t row_bytes = (uint64_t)H *
                         (kernel_gradient_is_half(gradient) ? sizeof(uint16_t) : sizeof(float));
    if (!kernel_gradient_adds(gradient) && first < rows)
        launch_clear((char *)table + first * row_bytes, (rows - first) * row_bytes, cuda->stream);
}

template <typename T>
static void embed_tokens_launch(const struct cuda_context *cuda, uint32_t N, uint32_t H,
                                const uint64_t *order, const void *dx,
                                const struct kernel_dropout *dropout, enum kernel_gradient gradient,
                                void *dwte)
{
    struct embed_backward<T> arguments = {
        1, N, H, 0, order, (const T *)dx, tile_dropout_of(dropout), gradient, dwte
    };
    launch(H % TILE == 0 ? embed_tokens_kernel<T, true> : embed_tokens_kernel<T, false>,
           blocks_of(N, H), THREADS, 0, cuda->stream, arguments);
}

void cuda_embed_tokens(const void *context, enum model_precision precision, uint32_t N, uint32_t H,
                       uint32_t V, const uint64_t *order, const void *dx,
                       const struct kernel_dropout *dropout, enum kernel_gradient gradient,
                       void *dwte)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    clear_rows(cuda, gradient, 0, V, H, dwte);
    BY_PRECISION(precision, embed_tokens_launch, cuda, N, H, order, dx, dropout, gradient, dwte);
}

template <typename T>
static void embed_positions_launch(const struct cuda_context *cuda, uint32_t B, uint32_t positions,
                                   uint32_t H, const void *dx, const struct kernel_dropout *dropout,
                                   enum kernel_gradient gradient, void *dwpe)
{
    struct embed_backward<T> arguments = {
        B, B *positions, H, positions, NULL, (const T *)dx, tile_dropout_of(dropout), gradient, dwpe
    };
    launch(H % TILE == 0 ? embed_positions_kernel<T, true> : embed_positions_kernel<T, false>,
           blocks_of(positions, H), THREADS, 0, cuda->stream, arguments);
}

void cuda_embed_positions(const void *context, enum model_precision precision, uint32_t B,
                          uint32_t T, uint32_t H, uint32_t P, const void *dx,
                          const struct kernel_dropout *dropout, enum kernel_gradient gradient,
                          void *dwpe)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    clear_rows(cuda, gradient, T, P, H, dwpe);
    BY_PRECISION(precision, embed_positions_launch, cuda, B, T, H, dx, dropout, gradient, dwpe);
}
