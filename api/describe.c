/* Errors, sizes, platforms, traces and layouts. */
#include "api/api.h"
#include "base/failure.h"
#include "base/size.h"
#include "chunks/accesses.h"
#include "models/synth.h"
#include "traces/choices.h"
#include "traces/trace_file.h"

#include <stdio.h>

const char *pstar_version(void)
{
    return PSTAR_VERSION;
}

/* ---- errors and sizes ---- */

static enum pstar_error_kind kind_of(const GError *failure, enum pstar_error_kind otherwise)
{
    if (g_error_matches(failure, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT) ||
        g_error_matches(failure, FAILURE, FAILURE_DOES_NOT_FIT))
        return PSTAR_ERROR_DOES_NOT_FIT;
    return g_error_matches(failure, FAILURE, FAILURE_RUNNING) ? PSTAR_ERROR_FAILED : otherwise;
}

bool api_finish(GError *failure, enum pstar_error_kind kind, struct pstar_error *error)
{
    if (!failure)
        return true;
    if (error) {
        error->kind = kind_of(failure, kind);
        g_strlcpy(error->message, failure->message, sizeof error->message);
    }
    g_error_free(failure);
    return false;
}

bool pstar_size_parse(const char *text, uint64_t *bytes, struct pstar_error *error)
{
    GError *failure = NULL;
    size_parse(text, bytes, &failure);
    return api_finish(failure, PSTAR_ERROR_INPUT, error);
}

char *pstar_size_format(uint64_t bytes, char *text, size_t size)
{
    g_autofree char *formatted = size_format(bytes);
    g_strlcpy(text, formatted, size);
    return text;
}

uint64_t api_arena_budget(const struct pstar_budgets *budgets, const struct trace *trace)
{
    return budgets->device > trace->library_bytes ? budgets->device - trace->library_bytes : 0;
}

/* ---- platforms ---- */

struct pstar_platform *pstar_platform_read(const char *path, struct pstar_error *error)
{
    GError *failure = NULL;
    char *text = NULL;
    struct platform *platform = platform_read(path, &failure);
    if (platform && !g_file_get_contents(path, &text, NULL, &failure))
        g_clear_pointer(&platform, platform_free);
    if (!api_finish(failure, PSTAR_ERROR_INPUT, error))
        return NULL;
    struct pstar_platform *result = g_new(struct pstar_platform, 1);
    *result = (struct pstar_platform){platform, text};
    return result;
}

void pstar_platform_free(struct pstar_platform *platform)
{
    if (!platform)
        return;
    platform_free(platform->platform);
    g_free(platform->text);
    g_free(platform);
}

uint64_t pstar_platform_device_capacity(const struct pstar_platform *platform)
{
    return platform->platform->device_capacity;
}

uint64_t pstar_platform_host_capacity(const struct pstar_platform *platform)
{
    return platform->platform->host_capacity;
}

/* ---- traces ---- */

struct pstar_trace *api_trace_new(struct trace *trace, const char *path)
{
    if (!trace)
        return NULL;
    struct pstar_trace *result = g_new(struct pstar_trace, 1);
    *result = (struct pstar_trace){trace, g_strdup(path)};
    return result;
}

struct pstar_trace *pstar_trace_read(const char *path, struct pstar_error *error)
{
    GError *failure = NULL;
    struct trace *trace = trace_read(path, &failure);
    if (trace && !trace->operator_count) {
        g_set_error(&failure, TRACE_ERROR, TRACE_ERROR_INVALID, "%s: the trace has no operators",
                    path);
        g_clear_pointer(&trace, trace_free);
    }
    api_finish(failure, PSTAR_ERROR_INPUT, error);
    return api_trace_new(trace, path);
}

/* *marks is NULL if no layers are named; free it with g_free. */
static bool read_layers(const char *what, const char *text, uint32_t layers, uint8_t **marks,
                        GError **error)
{
    *marks = text ? g_new0(uint8_t, layers) : NULL;
    if (!text || run_layers_parse(text, *marks, layers))
        return true;
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG,
                "%s %s: must be all, none, or layers in [0, %u], such as 0,3,8-11", what, text,
                layers - 1);
    return false;
}

static bool read_precision(const char *text, enum model_precision *precision, GError **error)
{
    *precision = g_strcmp0(text, "fp32") == 0 ? MODEL_FP32 : MODEL_BF16;
    if (!text || *precision == MODEL_FP32 || g_strcmp0(text, "bf16") == 0)
        return true;
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "precision %s: must be fp32 or bf16", text);
    return false;
}

static struct trace *synthesise(const struct pstar_job *job, const struct platform *platform,
                                GError **error)
{
    g_autofree uint8_t *recompute = NULL, *offload = NULL, *host_update = NULL;
    enum model_precision precision;
    struct trace *trace = NULL;
    struct model_config *config = model_config_read(job->model, error);
    if (config && read_precision(job->precision, &precision, error) &&
        read_layers("recompute", job->recompute, config->layers, &recompute, error) &&
        read_layers("offload", job->offload, config->layers, &offload, error)) {
        host_update = job->host_update ? model_every_tensor(config) : NULL;
        struct model_job described = {.choices = {.batch = job->batch,
                                                  .micro_batches = MAX(job->micro_batches, 1),
                                                  .recompute = recompute,
                                                  .offload = offload,
                                                  .host_embedding = job->host_embedding,
                                                  .host_update = host_update,
                                                  .state_block = job->state_block},
                                      .sequence = job->sequence,
                                      .precision = precision};
        struct run_choices *choices = &described.choices;
        bool ok = !job->bytes_per_parameter ||
                  model_split_masters(&described, job->bytes_per_parameter, &choices->split_masters,
                                      error);
        choices->second_backward = job->clip &&
                                   model_gradient_layout(&described) == MODEL_GRADIENT_BUFFER;
        trace = ok ? model_synthesise(config, &described, platform, error) : NULL;
    }
    if (trace && !trace->producer)
        trace->producer = g_strdup("pstar " PSTAR_VERSION);
    model_config_free(config);
    return trace;
}

struct pstar_trace *pstar_trace_synthesise(const struct pstar_job *job,
                                           const struct pstar_platform *platform,
                                           struct pstar_error *error)
{
    GError *failure = NULL;
    struct trace *trace = synthesise(job, api_platform(platform), &failure);
    api_finish(failure, PSTAR_ERROR_INPUT, error);
    return api_trace_new(trace, NULL);
}

bool pstar_trace_write(struct pstar_trace *trace, const char *path, struct pstar_error *error)
{
    GError *failure = NULL;
    if (trace_write(trace->trace, path, &failure)) {
        char *copy = g_strdup(path);
        g_free(trace->path);
        trace->path = copy;
    }
    return api_finish(failure, PSTAR_ERROR_FAILED, error);
}

void pstar_trace_free(struct pstar_trace *trace)
{
    if (!trace)
        return;
    trace_free(trace->trace);
    g_free(trace->path);
    g_free(trace);
}

uint32_t pstar_trace_moments(const struct pstar_trace *trace)
{
    return trace->trace->operator_count;
}

uint32_t pstar_trace_tensors(const struct pstar_trace *trace)
{
    return trace->trace->tensor_count;
}

const char *pstar_trace_tensor_name(const struct pstar_trace *trace, uint32_t tensor)
{
    g_assert(tensor < trace->trace->tensor_count);
    return trace->trace->tensors[tensor].name;
}

uint64_t pstar_trace_model_bytes(const struct pstar_trace *trace)
{
    return trace_model_bytes(trace->trace);
}

uint64_t pstar_trace_non_model_bytes(const struct pstar_trace *trace)
{
    struct non_model *non_model = non_model_place(trace->trace);
    uint64_t bytes = non_model->peak_bytes;
    non_model_free(non_model);
    return bytes;
}

struct pstar_operator pstar_trace_operator(const struct pstar_trace *trace, uint32_t moment)
{
    g_assert(moment < trace->trace->operator_count);
    const struct trace_operator *op = &trace->trace->operators[moment];
    return (struct pstar_operator){op->name, op->place == TRACE_ON_HOST,
                                   (double)op->duration_ns * 1e-9, op->access_count};
}

struct pstar_access pstar_trace_access(const struct pstar_trace *trace, uint32_t moment,
                                       uint32_t index)
{
    g_assert(moment < trace->trace->operator_count);
    const struct trace_operator *op = &trace->trace->operators[moment];
    g_assert(index < op->access_count);
    const struct trace_access *access = &trace->trace->accesses[op->first_access + index];
    return (struct pstar_access){.list = trace_list_name(access->list),
                                 .tensor = access->tensor,
                                 .reads = access->mode != TRACE_OVERWRITE,
                                 .writes = access->mode != TRACE_READ,
                                 .block = access->block};
}

/* ---- layouts ---- */

struct pstar_layout *pstar_layout_pack(const struct pstar_trace *trace, uint64_t chunk_bytes,
                                       struct pstar_error *error)
{
    GError *failure = NULL;
    struct layout *layout = layout_pack_uniform(trace->trace, chunk_bytes, &failure);
    api_finish(failure, PSTAR_ERROR_INPUT, error);
    return api_layout_out(layout);
}

void pstar_layout_free(struct pstar_layout *layout)
{
    layout_free((struct layout *)layout);
}

uint32_t pstar_layout_chunks(const struct pstar_layout *layout)
{
    return api_layout(layout)->chunk_count;
}

struct pstar_chunk pstar_layout_chunk(const struct pstar_layout *layout, uint32_t chunk)
{
    g_assert(chunk < api_layout(layout)->chunk_count);
    const struct chunk *found = &api_layout(layout)->chunks[chunk];
    return (struct pstar_chunk){trace_list_name(found->list), found->slot_bytes, found->copy_bytes};
}

bool pstar_layout_find(const struct pstar_layout *layout, const char *list, uint32_t tensor,
                       uint32_t block, uint32_t *chunk, uint64_t *offset)
{
    const struct layout *in = api_layout(layout);
    uint8_t number;
    if (!trace_access_list_parse(list, &number) || !in->places[number])
        return false;
    g_assert(tensor < (number == TRACE_ACTIVATION ? in->buffer_count : in->tensor_count));
    uint32_t index = layout_place_index(in, number, tensor, block);
    g_assert(index < layout_place_index(in, number, tensor + 1, 0));
    const struct layout_place *place = &in->places[number][index];
    if (place->chunk == NO_INDEX)
        return false;
    *chunk = place->chunk;
    *offset = place->offset;
    return true;
}

uint64_t pstar_layout_least_arena_bytes(const struct pstar_layout *layout,
                                        const struct pstar_trace *trace)
{
    struct non_model *non_model = non_model_place(trace->trace);
    struct accesses *accesses = accesses_new(trace->trace, api_layout(layout), non_model->extent);
    uint64_t least = accesses_least_arena_bytes(accesses, api_layout(layout), NULL);
    accesses_free(accesses);
    non_model_free(non_model);
    return least;
}
