#include "engine/cpu/matmul.h"
#include "engine/cpu/onednn.h"
#include "engine/cpu/widened_matmul.h"

#include <omp.h>

enum { SCRATCH_ALIGNMENT = 64, ARGUMENTS_MAX = 5 };

/* One shape's primitive with the memories that its arguments are set in; no primitive where the
 * library has none. */
struct product {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[ARGUMENTS_MAX]; /* a, b, c, scratch, bias */
    int count;
};

enum { ARGUMENT_A, ARGUMENT_B, ARGUMENT_C, ARGUMENT_SCRATCH, ARGUMENT_BIAS };

struct matmul_library {
    unsigned threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    GHashTable *products; /* struct matmul_shape -> struct product */
    void *scratch;
    uint64_t scratch_bytes;
};

uint32_t matmul_a_row(const struct matmul_shape *shape)
{
    return shape->a_row ? shape->a_row : shape->transposed_a ? shape->M : shape->K;
}

uint32_t matmul_b_row(const struct matmul_shape *shape)
{
    return shape->transposed_b ? shape->K : shape->N;
}

uint32_t matmul_c_row(const struct matmul_shape *shape)
{
    return shape->c_row ? shape->c_row : shape->N;
}

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
    struct product *product = data;
    for (int i = 0; i < product->count; i++)
        dnnl_memory_destroy(product->arguments[i].memory);
    if (product->primitive)
        dnnl_primitive_destroy(product->primitive);
    g_free(product);
}

/* A context may be made and used on different threads: the number of threads is the caller's own
 * setting in OpenMP. */
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
    free(library->scratch);
    g_free(library);
}

uint64_t matmul_library_bytes(const struct matmul_library *library)
{
    return library->scratch_bytes;
}

static void reserve_scratch(struct matmul_library *library, uint64_t bytes)
{
    if (bytes <= library->scratch_bytes)
        return;
    free(library->scratch);
    bytes = (bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT * SCRATCH_ALIGNMENT;
    library->scratch = aligned_alloc(SCRATCH_ALIGNMENT, bytes);
    g_assert(library->scratch);
    library->scratch_bytes = bytes;
}

static dnnl_data_type_t type_of(uint8_t precision)
{
    return precision == MODEL_BF16 ? dnnl_bf16 : dnnl_f32;
}

static void add_argument(struct product *product, int id, dnnl_memory_t memory)
{
    product->arguments[product->count++] = (dnnl_exec_arg_t){id, memory};
}

/* `bias` is NULL where the shape has none. */
static void make_product(struct matmul_library *library, bool add, const dnnl_memory_desc_t *a,
                         const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                         const dnnl_memory_desc_t *c, struct product *product)
{
    dnnl_primitive_desc_t matmul;
    dnnl_memory_t scratch;
    if (!onednn_matmul(library->engine, a, b, bias, c, add, &matmul))
        return;
    reserve_scratch(library, onednn_scratch(library->engine, matmul, &scratch));
    add_argument(product, DNNL_ARG_SRC, onednn_memory(library->engine, a));
    add_argument(product, DNNL_ARG_WEIGHTS, onednn_memory(library->engine, b));
    add_argument(product, DNNL_ARG_DST, onednn_memory(library->engine, c));
    add_argument(product, DNNL_ARG_SCRATCHPAD, scratch);
    if (bias)
        add_argument(product, DNNL_ARG_BIAS, onednn_memory(library->engine, bias));
    onednn_check(dnnl_primitive_create(&product->primitive, matmul));
    onednn_check(dnnl_primitive_desc_destroy(matmul));
}

static struct product *product_new(struct matmul_library *library, const struct matmul_shape *shape)
{
    struct product *product = g_new0(struct product, 1);
    dnnl_data_type_t in = type_of(shape->in), out = type_of(shape->out);
    dnnl_memory_desc_t a = onednn_matrix(shape->M, shape->K, matmul_a_row(shape),
                                         shape->transposed_a, in);
    dnnl_memory_desc_t b = onednn_matrix(shape->K, shape->N, matmul_b_row(shape),
                                         shape->transposed_b, in);
    dnnl_memory_desc_t c = onednn_matrix(shape->M, shape->N, matmul_c_row(shape), false, out);
    dnnl_memory_desc_t bias = onednn_matrix(1, shape->N, shape->N, false, in);
    make_product(library, shape->add, &a, &b, shape->bias ? &bias : NULL, &c, product);
    onednn_matrix_free(&a);
    onednn_matrix_free(&b);
    onednn_matrix_free(&c);
    onednn_matrix_free(&bias);
    return product;
}

static struct product *find_product(struct matmul_library *library,
                                    const struct matmul_shape *shape)
{
    struct product *product = g_hash_table_lookup(library->products, shape);
    if (!product) {
        product = product_new(library, shape);
        g_hash_table_insert(library->products, g_memdup2(shape, sizeof *shape), product);
    }
    return product;
}

/* oneDNN's memories take pointers to what may be written. */
static void set_argument(struct product *product, int argument, const void *data)
{
    onednn_check(dnnl_memory_set_data_handle(product->arguments[argument].memory, (void *)data));
}

static void fill_rows(uint32_t rows, uint64_t stride, uint32_t columns, const float *row, float *c)
{
#pragma omp parallel for
    for (uint32_t r = 0; r < rows; r++)
        memcpy(c + r * stride, row, columns * sizeof *row);
}

/* In fp32 oneDNN's sgemm is up to twice as fast as its matmul primitive, which reads b unpacked:
 * rows that lie a multiple of 4 KiB apart then share cache sets. */
static void run_fp32(const struct matmul_shape *s, const float *a, const float *b,
                     const float *bias, float *c)
{
    if (s->bias)
        fill_rows(s->M, matmul_c_row(s), s->N, bias, c);
    onednn_check(dnnl_sgemm(s->transposed_a ? 'T' : 'N', s->transposed_b ? 'T' : 'N', s->M, s->N,
                            s->K, 1, a, matmul_a_row(s), b, matmul_b_row(s),
                            s->add || s->bias ? 1 : 0, c, matmul_c_row(s)));
}

static void run_primitive(struct matmul_library *library, struct product *product, const void *a,
                          const void *b, const void *bias, void *c)
{
    set_argument(product, ARGUMENT_A, a);
    set_argument(product, ARGUMENT_B, b);
    set_argument(product, ARGUMENT_C, c);
    set_argument(product, ARGUMENT_SCRATCH, library->scratch);
    if (bias)
        set_argument(product, ARGUMENT_BIAS, bias);
    onednn_check(dnnl_primitive_execute(product->primitive, library->stream, product->count,
                                        product->arguments));
    onednn_check(dnnl_stream_wait(library->stream));
}

void matmul_run(struct matmul_library *library, const struct matmul_shape *shape, const void *a,
                const void *b, const void *bias, void *c)
{
    use_threads(library);
    if (shape->in == MODEL_FP32) {
        run_fp32(shape, a, b, bias, c);
        return;
    }
    struct product *product = find_product(library, shape);
    if (product->primitive) {
        run_primitive(library, product, a, b, bias, c);
    } else {
        reserve_scratch(library, WIDENED_MATMUL_BYTES);
        widened_matmul(shape, a, b, bias, c, library->scratch);
    }
}
