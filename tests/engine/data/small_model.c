#include "small_model.h"

#include <string.h>

static bool read_values(void *self, uint32_t tensor, enum trace_list list, uint64_t first,
                        uint64_t count, float *values, GError **error)
{
    struct small_model *model = self;
    if (model->fail_after > 0 && ++model->reads > model->fail_after) {
        g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "the store fails");
        return false;
    }
    g_assert_cmpuint(first + count, <=, model->trace->tensors[tensor].elements);
    memcpy(values, model->values[list][tensor] + first, count * sizeof(*values));
    return true;
}

static bool write_values(void *self, uint32_t tensor, enum trace_list list, uint64_t first,
                         uint64_t count, const float *values, GError **error)
{
    (void)error;
    struct small_model *model = self;
    g_assert_cmpuint(first + count, <=, model->trace->tensors[tensor].elements);
    memcpy(model->values[list][tensor] + first, values, count * sizeof(*values));
    return true;
}

static float **new_list(const struct trace *trace, float start)
{
    float **tensors = g_new(float *, trace->tensor_count);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        tensors[i] = g_new(float, trace->tensors[i].elements);
        for (uint64_t e = 0; e < trace->tensors[i].elements; e++)
            tensors[i][e] = start + (float)i + 1e-4f * (float)e;
    }
    return tensors;
}

struct small_model *small_model_new(bool tied, enum model_precision precision, uint32_t seed)
{
    struct small_model *model = g_new0(struct small_model, 1);
    model->config = (struct model_config){.name = g_strdup("small"),
                                          .layers = 2,
                                          .width = 24,
                                          .heads = 3,
                                          .inner = 50,
                                          .positions = 16,
                                          .vocabulary = 300,
                                          .tied = tied,
                                          .norm_epsilon = 1e-5,
                                          .initializer_range = 0.02};
    const struct model_job job = {
        .choices = {.batch = 1, .micro_batches = 1}, .sequence = 16, .precision = precision};
    GError *error = NULL;
    model->iteration = model_iteration_new(&model->config, &job, &error);
    g_assert_no_error(error);
    model->trace = model->iteration->trace;
    const enum trace_list lists[] = {weights_list(model->trace), TRACE_EXP_AVG, TRACE_EXP_AVG_SQ};
    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++)
        model->values[lists[i]] = new_list(model->trace, (float)(1000 * i + seed));
    model->store = (struct weights_store){model, read_values, write_values};
    return model;
}

void small_model_free(struct small_model *model)
{
    for (int list = 0; list < TRACE_LISTS; list++) {
        for (uint32_t i = 0; model->values[list] && i < model->trace->tensor_count; i++)
            g_free(model->values[list][i]);
        g_free(model->values[list]);
    }
    model_iteration_free(model->iteration);
    g_free(model->config.name);
    g_free(model);
}

bool small_model_equal(const struct small_model *a, const struct small_model *b, bool moments)
{
    const enum trace_list lists[] = {weights_list(a->trace), TRACE_EXP_AVG, TRACE_EXP_AVG_SQ};
    for (size_t l = 0; l < (moments ? G_N_ELEMENTS(lists) : 1); l++) {
        for (uint32_t i = 0; i < a->trace->tensor_count; i++)
            if (memcmp(a->values[lists[l]][i], b->values[lists[l]][i],
                       a->trace->tensors[i].elements * sizeof(float)) != 0)
                return false;
    }
    return true;
}
