#include "engine/cpu/matmul.h"

#include "base/failure.h"
#include "engine/bf16.h"

#include <dnnl.h>
#include <omp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Elements from one stored row to the next. */
static uint32_t matmul_a_row(const struct matmul_shape *shape)
{
    return shape->a_row ? shape->a_row : shape->transposed_a ? shape->M : shape->K;
}

static uint32_t matmul_b_row(const struct matmul_shape *shape)
{
    return shape->transposed_b ? shape->K : shape->N;
}

static uint32_t matmul_c_row(const struct matmul_shape *shape)
{
    return shape->c_row ? shape->c_row : shape->N;
}

/* ---- oneDNN: versions 2 and 3 of its C interface differ here and nowhere else ---- */

/* Ends the program if oneDNN fails: only our arguments can cause that, or a system without memory.
 */
static void onednn_check(dnnl_status_t status)
{
    if (status == dnnl_out_of_memory)
        g_log(FAILURE_MEMORY_DOMAIN, G_LOG_LEVEL_ERROR,
              "oneDNN failed to allocate what a matrix product needs");
    if (status != dnnl_success)
        g_error("oneDNN failed with status %d", (int)status);
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t describe(dnnl_memory_desc_t *matrix, const dnnl_dims_t dims,
                              dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(matrix, 2, dims, type, strides);
}

static void onednn_matrix_free(dnnl_memory_desc_t *matrix)
{
    onednn_check(dnnl_memory_desc_destroy(*matrix));
}

static dnnl_memory_t onednn_memory(dnnl_engine_t engine, const dnnl_memory_desc_t *matrix)
{
    dnnl_memory_t memory;
    onednn_check(dnnl_memory_create(&memory, *matrix, engine, DNNL_MEMORY_NONE));
    return memory;
}

static dnnl_status_t create_matmul(dnnl_engine_t engine, const dnnl_memory_desc_t *a,
                                   const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                                   const dnnl_memory_desc_t *c, dnnl_primitive_attr_t attributes,
                                   dnnl_primitive_desc_t *matmul)
{
    return dnnl_matmul_primitive_desc_create(matmul, engine, *a, *b, bias ? *bias : NULL, *c,
                                             attributes);
}

static dnnl_status_t append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1, 0, dnnl_data_type_undef);
}

#else

typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;

static dnnl_status_t describe(dnnl_memory_desc_t *matrix, const dnnl_dims_t dims,
                              dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(matrix, 2, dims, type, strides);
}

/* In version 2 a description is a value, which needs no freeing. */
static void onednn_matrix_free(dnnl_memory_desc_t *matrix)
{
    (void)matrix;
}

static dnnl_memory_t onednn_memory(dnnl_engine_t engine, const dnnl_memory_desc_t *matrix)
{
    dnnl_memory_t memory;
    onednn_check(dnnl_memory_create(&memory, matrix, engine, DNNL_MEMORY_NONE));
    return memory;
}

static dnnl_status_t create_matmul(dnnl_engine_t engine, const dnnl_memory_desc_t *a,
                                   const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                                   const dnnl_memory_desc_t *c, dnnl_primitive_attr_t attributes,
                                   dnnl_primitive_desc_t *matmul)
{
    dnnl_matmul_desc_t description;
    onednn_check(dnnl_matmul_desc_init(&description, a, b, bias, c));
    return dnnl_primitive_desc_create(matmul, &description, attributes, engine, NULL);
}

static dnnl_status_t append_sum(dnnl_post_ops_t after)
{
    return dnnl_post_ops_append_sum(after, 1);
}

#endif

/* Describes a row-major matrix [rows, columns] that may be stored transposed. Stored rows are `row`
 * elements apart. Free with onednn_matrix_free. */
static dnnl_memory_desc_t onednn_matrix(uint32_t rows, uint32_t columns, uint32_t row,
                                        bool transposed, dnnl_data_type_t type)
{
    dnnl_memory_desc_t matrix;
    dnnl_dims_t dims = {rows, columns};
    dnnl_dims_t strides = {transposed ? 1 : row, transposed ? row : 1};
    onednn_check(describe(&matrix, dims, type, strides));
    return matrix;
}

static dnnl_primitive_attr_t matmul_attributes(bool onto)
{
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t after;
    onednn_check(dnnl_primitive_attr_create(&attributes));
    onednn_check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    onednn_check(dnnl_post_ops_create(&after));
    if (onto) {
        onednn_check(append_sum(after));
        onednn_check(dnnl_primitive_attr_set_post_ops(attributes, after));
    }
    onednn_check(dnnl_post_ops_destroy(after));
    return attributes;
}

/* Prepares c = a b + bias, or c += a b; `bias` may be NULL. The caller provides the scratch.
 * Returns false if oneDNN has no such product on this machine. */
static bool onednn_matmul(dnnl_engine_t engine, const dnnl_memory_desc_t *a,
                          const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                          const dnnl_memory_desc_t *c, bool onto, dnnl_primitive_desc_t *matmul)
{
    dnnl_primitive_attr_t attributes = matmul_attributes(onto);
    dnnl_status_t status = create_matmul(engine, a, b, bias, c, attributes, matmul);
    onednn_check(dnnl_primitive_attr_destroy(attributes));
    if (status == dnnl_unimplemented)
        return false;
    onednn_check(status);
    return true;
}

/* Makes a memory object for the primitive's scratch. Returns the bytes that the scratch must
 * have. */
static uint64_t onednn_scratch(dnnl_engine_t engine, const_dnnl_primitive_desc_t matmul,
                               dnnl_memory_t *scratch)
{
    const_dnnl_memory_desc_t description =
        dnnl_primitive_desc_query_md(matmul, dnnl_query_scratchpad_md, 0);
    onednn_check(dnnl_memory_create(scratch, description, engine, DNNL_MEMORY_NONE));
    return dnnl_memory_desc_get_size(description);
}

/* ---- bf16 products by fp32 products of widened tiles, where the library has no bf16 ---- */

enum { TILE = WIDENED_MATMUL_TILE };

/* A piece of a stored matrix. `rows` and `columns` count as it is stored. */
struct matrix_piece {
    uint32_t row, column, rows, columns;
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Returns the tile at [row, column] of a matrix [rows, columns] that may be stored transposed. */
static struct matrix_piece piece_at(uint32_t row, uint32_t column, uint32_t rows, uint32_t columns,
                                    bool transposed)
{
    uint32_t high = least(TILE, rows - row), wide = least(TILE, columns - column);
    return transposed ? (struct matrix_piece){column, row, wide, high}
                      : (struct matrix_piece){row, column, high, wide};
}

/* Widens a piece into rows of TILE elements. */
static void widen(const uint16_t *from, uint64_t stride, struct matrix_piece piece, float *to)
{
#pragma omp parallel for
    for (uint32_t r = 0; r < piece.rows; r++)
        for (uint32_t i = 0; i < piece.columns; i++)
            to[r * TILE + i] = bf16_widen(from[(piece.row + r) * stride + piece.column + i]);
}

static void store(const struct matmul_shape *shape, struct matrix_piece piece, const float *sums,
                  const uint16_t *bias, void *c)
{
    uint64_t stride = matmul_c_row(shape);
#pragma omp parallel for
    for (uint32_t r = 0; r < piece.rows; r++)
        for (uint32_t i = 0; i < piece.columns; i++) {
            uint64_t at = (piece.row + r) * stride + piece.column + i;
            float sum = sums[r * TILE + i];
            if (shape->bias)
                sum += bf16_widen(bias[piece.column + i]);
            if (shape->onto)
                sum += bf16_widen(((uint16_t *)c)[at]);
            if (shape->out == MODEL_BF16)
                ((uint16_t *)c)[at] = bf16_round(sum);
            else
                ((float *)c)[at] = shape->add ? ((float *)c)[at] + sum : sum;
        }
}

void widened_matmul(const struct matmul_shape *shape, const uint16_t *a, const uint16_t *b,
                    const uint16_t *bias, void *c, float *scratch)
{
    float *a_tile = scratch, *b_tile = a_tile + TILE * TILE, *sums = b_tile + TILE * TILE;
    uint64_t a_stride = matmul_a_row(shape), b_stride = matmul_b_row(shape);
    g_assert(!shape->add || shape->out == MODEL_FP32);
    for (uint32_t m = 0; m < shape->M; m += TILE)
        for (uint32_t n = 0; n < shape->N; n += TILE) {
            struct matrix_piece to = piece_at(m, n, shape->M, shape->N, false);
            for (uint32_t k = 0; k < shape->K; k += TILE) {
                widen(a, a_stride, piece_at(m, k, shape->M, shape->K, shape->transposed_a), a_tile);
                widen(b, b_stride, piece_at(k, n, shape->K, shape->N, shape->transposed_b), b_tile);
                dnnl_sgemm(shape->transposed_a ? 'T' : 'N', shape->transposed_b ? 'T' : 'N',
                           to.rows, to.columns, least(TILE, shape->K - k), 1, a_tile, TILE, b_tile,
                           TILE, k > 0 ? 1 : 0, sums, TILE);
            }
            store(shape, to, sums, bias, c);
        }
}

/* ---- the library ---- */

enum { SCRATCH_ALIGNMENT = 64, ARGUMENTS_MAX = 5 };

/* The primitive of one shape, with the memory objects of its arguments. `primitive` is NULL if the
 * library has none. */
struct matmul_product {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[ARGUMENTS_MAX]; /* a, b, c, scratch, bias */
    int count;
};

enum { ARGUMENT_A, ARGUMENT_B, ARGUMENT_C, ARGUMENT_SCRATCH, ARGUMENT_BIAS };

/* Memory that grows with the first use of a shape. */
struct matmul_memory {
    void *memory;
    uint64_t bytes;
};

struct matmul_library {
    unsigned threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    GHashTable *products; /* struct matmul_shape -> struct matmul_product */
    struct matmul_memory scratch;
    struct matmul_memory sums; /* a panel that is added to c */
};

/* Experts have other numbers of rows in every step. The products of a model without them are far
 * fewer. */
enum { MOST_PRODUCTS = 4096 };

static guint shape_hash(gconstpointer key)
{
    const unsigned char *bytes = key;
    guint hash = 5381;
    for (size_t i = 0; i < sizeof(struct matmul_shape); i++)
        hash = hash * 33 + bytes[i];
    return hash;
}

static gboolean shape_equal(gconstpointer a, gconstpointer b)
{
    return memcmp(a, b, sizeof(struct matmul_shape)) == 0;
}

static void product_free(gpointer data)
{
    struct matmul_product *product = data;
    for (int i = 0; i < product->count; i++)
        dnnl_memory_destroy(product->arguments[i].memory);
    if (product->primitive)
        dnnl_primitive_destroy(product->primitive);
    g_free(product);
}

/* A context may be made on one thread and used on another, but OpenMP keeps the number of threads
 * for each calling thread. */
static void use_threads(const struct matmul_library *library)
{
    omp_set_num_threads((int)library->threads);
}

struct matmul_library *matmul_library_new(unsigned threads)
{
    struct matmul_library *library = g_new0(struct matmul_library, 1);
    library->threads = threads;
    onednn_check(dnnl_engine_create(&library->engine, dnnl_cpu, 0));
    onednn_check(dnnl_stream_create(&library->stream, library->engine, dnnl_stream_default_flags));
    library->products = g_hash_table_new_full(shape_hash, shape_equal, g_free, product_free);
    return library;
}

void matmul_library_free(struct matmul_library *library)
{
    if (!library)
        return;
    g_hash_table_destroy(library->products);
    onednn_check(dnnl_stream_destroy(library->stream));
    onednn_check(dnnl_engine_destroy(library->engine));
    free(library->scratch.memory);
    free(library->sums.memory);
    g_free(library);
}

uint64_t matmul_library_bytes(const struct matmul_library *library)
{
    return library->scratch.bytes + library->sums.bytes;
}

static void reserve(struct matmul_memory *memory, uint64_t bytes)
{
    if (bytes <= memory->bytes)
        return;
    free(memory->memory);
    bytes = (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    memory->memory = aligned_alloc(SCRATCH_ALIGNMENT, bytes);
    if (!memory->memory)
        g_log(FAILURE_MEMORY_DOMAIN, G_LOG_LEVEL_ERROR,
              "failed to allocate %" G_GUINT64_FORMAT " bytes of scratch memory", bytes);
    memory->bytes = bytes;
}

static dnnl_data_type_t type_of(uint8_t precision)
{
    return precision == MODEL_BF16 ? dnnl_bf16 : dnnl_f32;
}

static void add_argument(struct matmul_product *product, int id, dnnl_memory_t memory)
{
    product->arguments[product->count++] = (dnnl_exec_arg_t){id, memory};
}

/* `bias` is NULL if the shape has none. */
static void make_product(struct matmul_library *library, const dnnl_memory_desc_t *a,
                         const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                         const dnnl_memory_desc_t *c, bool onto, struct matmul_product *product)
{
    dnnl_primitive_desc_t matmul;
    dnnl_memory_t scratch;
    if (!onednn_matmul(library->engine, a, b, bias, c, onto, &matmul))
        return;
    reserve(&library->scratch, onednn_scratch(library->engine, matmul, &scratch));
    add_argument(product, DNNL_ARG_SRC, onednn_memory(library->engine, a));
    add_argument(product, DNNL_ARG_WEIGHTS, onednn_memory(library->engine, b));
    add_argument(product, DNNL_ARG_DST, onednn_memory(library->engine, c));
    add_argument(product, DNNL_ARG_SCRATCHPAD, scratch);
    if (bias)
        add_argument(product, DNNL_ARG_BIAS, onednn_memory(library->engine, bias));
    onednn_check(dnnl_primitive_create(&product->primitive, matmul));
    onednn_check(dnnl_primitive_desc_destroy(matmul));
}

static struct matmul_product *product_new(struct matmul_library *library,
                                          const struct matmul_shape *shape)
{
    struct matmul_product *product = g_new0(struct matmul_product, 1);
    dnnl_data_type_t in = type_of(shape->in), out = type_of(shape->out);
    dnnl_memory_desc_t a = onednn_matrix(shape->M, shape->K, matmul_a_row(shape),
                                         shape->transposed_a, in);
    dnnl_memory_desc_t b = onednn_matrix(shape->K, shape->N, matmul_b_row(shape),
                                         shape->transposed_b, in);
    dnnl_memory_desc_t c = onednn_matrix(shape->M, shape->N, matmul_c_row(shape), false, out);
    dnnl_memory_desc_t bias = onednn_matrix(1, shape->N, shape->N, false, in);
    make_product(library, &a, &b, shape->bias ? &bias : NULL, &c, shape->onto, product);
    onednn_matrix_free(&a);
    onednn_matrix_free(&b);
    onednn_matrix_free(&c);
    onednn_matrix_free(&bias);
    return product;
}

static struct matmul_product *find_product(struct matmul_library *library,
                                           const struct matmul_shape *shape)
{
    struct matmul_product *product = g_hash_table_lookup(library->products, shape);
    if (!product) {
        if (g_hash_table_size(library->products) >= MOST_PRODUCTS)
            g_hash_table_remove_all(library->products);
        product = product_new(library, shape);
        g_hash_table_insert(library->products, g_memdup2(shape, sizeof *shape), product);
    }
    return product;
}

/* oneDNN's memory objects take pointers without const. */
static void set_argument(struct matmul_product *product, int argument, const void *data)
{
    onednn_check(dnnl_memory_set_data_handle(product->arguments[argument].memory, (void *)data));
}

static void fill_rows(uint32_t rows, uint64_t stride, uint32_t columns, const float *row, float *c)
{
#pragma omp parallel for
    for (uint32_t r = 0; r < rows; r++)
        memcpy(c + r * stride, row, columns * sizeof *row);
}

/* In fp32 oneDNN's sgemm is up to twice as fast as its matmul primitive. The primitive reads b
 * unpacked, and rows that lie a multiple of 4 KiB apart share cache sets. */
static void run_fp32(const struct matmul_shape *s, const float *a, const float *b,
                     const float *bias, float *c)
{
    if (s->bias)
        fill_rows(s->M, matmul_c_row(s), s->N, bias, c);
    onednn_check(dnnl_sgemm(s->transposed_a ? 'T' : 'N', s->transposed_b ? 'T' : 'N', s->M, s->N,
                            s->K, 1, a, matmul_a_row(s), b, matmul_b_row(s),
                            s->bias || s->onto ? 1 : 0, c, matmul_c_row(s)));
}

static void run_primitive(struct matmul_library *library, struct matmul_product *product,
                          const void *a, const void *b, const void *bias, void *c)
{
    set_argument(product, ARGUMENT_A, a);
    set_argument(product, ARGUMENT_B, b);
    set_argument(product, ARGUMENT_C, c);
    set_argument(product, ARGUMENT_SCRATCH, library->scratch.memory);
    if (bias)
        set_argument(product, ARGUMENT_BIAS, bias);
    onednn_check(dnnl_primitive_execute(product->primitive, library->stream, product->count,
                                        product->arguments));
    onednn_check(dnnl_stream_wait(library->stream));
}

/* Returns false if the library cannot multiply bf16 on this machine. */
static bool run_whole(struct matmul_library *library, const struct matmul_shape *shape,
                      const void *a, const void *b, const void *bias, void *c)
{
    if (shape->in == MODEL_FP32) {
        run_fp32(shape, a, b, bias, c);
        return true;
    }
    struct matmul_product *product = find_product(library, shape);
    if (product->primitive)
        run_primitive(library, product, a, b, bias, c);
    return product->primitive != NULL;
}

/* ---- products in panels of rows ---- */

/* A panel has as many rows as fit PANEL_BYTES, in steps that keep panels aligned as tensors are. */
enum { PANEL_BYTES = 4 << 20, PANEL_STEP = 64 };

static uint32_t panel_rows(const struct matmul_shape *shape)
{
    uint64_t rows = PANEL_BYTES / (shape->N * sizeof(float)) / PANEL_STEP * PANEL_STEP;
    return rows ? (uint32_t)rows : PANEL_STEP;
}

static void add_to(uint64_t elements, const float *sums, float *c)
{
#pragma omp parallel for simd
    for (uint64_t i = 0; i < elements; i++)
        c[i] += sums[i];
}

/* Runs a panel into `sums`, or if that is NULL into c. */
static bool run_panel(struct matmul_library *library, const struct matmul_shape *shape,
                      uint32_t first, uint32_t rows, const void *a, const void *b, float *sums,
                      float *c)
{
    struct matmul_shape panel = *shape;
    uint64_t element = shape->in == MODEL_BF16 ? 2 : 4, a_row = matmul_a_row(shape);
    uint64_t offset = shape->transposed_a ? first : first * a_row;
    float *to = c + (uint64_t)first * shape->N;
    panel.M = rows;
    panel.a_row = (uint32_t)a_row;
    panel.panels = panel.add = false;
    if (!run_whole(library, &panel, (const char *)a + offset * element, b, NULL, sums ? sums : to))
        return false;
    if (sums)
        add_to((uint64_t)rows * shape->N, sums, to);
    return true;
}

/* The panels are the same whether they are added or stored, so that a sum of products has the bits
 * of products that were stored and then added. */
static bool run_panels(struct matmul_library *library, const struct matmul_shape *shape,
                       const void *a, const void *b, float *c)
{
    uint32_t high = panel_rows(shape);
    g_assert(shape->out == MODEL_FP32 && !shape->bias && !shape->c_row);
    if (shape->add)
        reserve(&library->sums, (uint64_t)least(high, shape->M) * shape->N * sizeof(float));
    for (uint32_t first = 0; first < shape->M; first += high)
        if (!run_panel(library, shape, first, least(high, shape->M - first), a, b,
                       shape->add ? library->sums.memory : NULL, c))
            return false;
    return true;
}

void matmul_run(struct matmul_library *library, const struct matmul_shape *shape, const void *a,
                const void *b, const void *bias, void *c)
{
    g_assert(!shape->add || shape->panels);
    g_assert(!shape->onto || (!shape->bias && !shape->panels && shape->in == shape->out));
    use_threads(library);
    if (shape->panels ? run_panels(library, shape, a, b, c)
                      : run_whole(library, shape, a, b, bias, c))
        return;
    reserve(&library->scratch, WIDENED_MATMUL_BYTES);
    widened_matmul(shape, a, b, bias, c, library->scratch.memory);
}
