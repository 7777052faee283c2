#include "engine/cpu/onednn.h"

#include <glib.h>

void onednn_check(dnnl_status_t status)
{
    if (status != dnnl_success)
        g_error("oneDNN failed with status %d", (int)status);
}

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t describe(dnnl_memory_desc_t *matrix, const dnnl_dims_t dims,
                              dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(matrix, 2, dims, type, strides);
}

void onednn_matrix_free(dnnl_memory_desc_t *matrix)
{
    onednn_check(dnnl_memory_desc_destroy(*matrix));
}

dnnl_memory_t onednn_memory(dnnl_engine_t engine, const dnnl_memory_desc_t *matrix)
{
    dnnl_memory_t memory;
    onednn_check(dnnl_memory_create(&memory, *matrix, engine, DNNL_MEMORY_NONE));
    return memory;
}

static dnnl_status_t append_sum(dnnl_post_ops_t post_ops)
{
    return dnnl_post_ops_append_sum(post_ops, 1, 0, dnnl_data_type_undef);
}

static dnnl_status_t create_matmul(dnnl_engine_t engine, const dnnl_memory_desc_t *a,
                                   const dnnl_memory_desc_t *b, const dnnl_memory_desc_t *bias,
                                   const dnnl_memory_desc_t *c, dnnl_primitive_attr_t attributes,
                                   dnnl_primitive_desc_t *matmul)
{
    return dnnl_matmul_primitive_desc_create(matmul, engine, *a, *b, bias ? *bias : NULL, *c,
                                             attributes);
}

#else

typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;

static dnnl_status_t describe(dnnl_memory_desc_t *matrix, const dnnl_dims_t dims,
                              dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(matrix, 2, dims, type, strides);
}

/* Version 2 describes by value. */
void onednn_matrix_free(dnnl_memory_desc_t *matrix)
{
    (void)matrix;
}

dnnl_memory_t onednn_memory(dnnl_engine_t engine, const dnnl_memory_desc_t *matrix)
{
    dnnl_memory_t memory;
    onednn_check(dnnl_memory_create(&memory, matrix, engine, DNNL_MEMORY_NONE));
    return memory;
}

static dnnl_status_t append_sum(dnnl_post_ops_t post_ops)
{
    return dnnl_post_ops_append_sum(post_ops, 1);
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

#endif

dnnl_memory_desc_t onednn_matrix(uint32_t rows, uint32_t columns, uint32_t row, bool transposed,
                                 dnnl_data_type_t type)
{
    dnnl_memory_desc_t matrix;
    dnnl_dims_t dims = {rows, columns};
    dnnl_dims_t strides = {transposed ? 1 : row, transposed ? row : 1};
    onednn_check(describe(&matrix, dims, type, strides));
    return matrix;
}

static dnnl_primitive_attr_t matmul_attributes(bool add)
{
    dnnl_primitive_attr_t attributes;
    onednn_check(dnnl_primitive_attr_create(&attributes));
    onednn_check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    if (add) {
        dnnl_post_ops_t sum;
        onednn_check(dnnl_post_ops_create(&sum));
        onednn_check(append_sum(sum));
        onednn_check(dnnl_primitive_attr_set_post_ops(attributes, sum));
        onednn_check(dnnl_post_ops_destroy(sum));
    }
    return attributes;
}

bool onednn_matmul(dnnl_engine_t engine, const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b,
                   const dnnl_memory_desc_t *bias, const dnnl_memory_desc_t *c, bool add,
                   dnnl_primitive_desc_t *matmul)
{
    dnnl_primitive_attr_t attributes = matmul_attributes(add);
    dnnl_status_t status = create_matmul(engine, a, b, bias, c, attributes, matmul);
    onednn_check(dnnl_primitive_attr_destroy(attributes));
    if (status == dnnl_unimplemented)
        return false;
    onednn_check(status);
    return true;
}

uint64_t onednn_scratch(dnnl_engine_t engine, const_dnnl_primitive_desc_t matmul,
                        dnnl_memory_t *scratch)
{
    const_dnnl_memory_desc_t description =
        dnnl_primitive_desc_query_md(matmul, dnnl_query_scratchpad_md, 0);
    onednn_check(dnnl_memory_create(scratch, description, engine, DNNL_MEMORY_NONE));
    return dnnl_memory_desc_get_size(description);
}
