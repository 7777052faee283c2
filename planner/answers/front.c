#include "planner/answers/front.h"

#include "base/size.h"
#include "models/derivation.h"
#include "models/synth.h"
#include "models/train_choice.h"
#include "planner/answers/requests.h"

#include <string.h>

enum {
    USUAL_SEQUENCE = 2048,
    USUAL_TOKENS = 8192 /* of a micro-batch */
};

#define EVERYTHING \
    (RUN_RECOMPUTE | RUN_OFFLOAD | RUN_EMBEDDING | RUN_MASTERS | RUN_STATE_BLOCKS | RUN_STAGE)

/* Returns the trace with all layers recomputed. Takes ownership of `trace`, which may be NULL. */
static struct trace *recompute_all(struct trace *trace, const struct platform *platform,
                                   GError **error)
{
    struct derivation *derivation = trace ? derivation_new(trace, error) : NULL;
    struct trace *derived = NULL;
    if (derivation) {
        struct run_choices *run = run_choices_of(trace);
        memset(run->recompute, 1, run->layer_count);
        derived = derivation_trace(derivation, run, platform, error);
        run_choices_free(run);
    }
    derivation_free(derivation);
    trace_free(trace);
    return derived;
}

/* Returns the trace of one rank of a step that is given as a trace. */
static struct trace *given_trace(const struct front_step *step, bool recompute, GError **error)
{
    struct trace *trace = step->ranks == MAX(step->given->ranks, 1)
                              ? trace_copy(step->given)
                              : model_trace_of_rank(step->given, step->ranks,
                                                    (struct run_stage){step->stage, step->fast},
                                                    step->search->platform, error);
    return recompute && step->choices & RUN_RECOMPUTE
               ? recompute_all(trace, step->search->platform, error)
               : trace;
}

struct trace *front_trace(const struct front_step *step, bool recompute, GError **error)
{
    if (step->given)
        return given_trace(step, recompute, error);
    g_autofree uint8_t *all = g_new(uint8_t, step->config->layers);
    memset(all, 1, step->config->layers);
    const struct model_job job = {.choices = {.batch = step->batch,
                                              .micro_batches = step->ranks,
                                              .stage = step->stage,
                                              .fast = step->fast,
                                              .recompute = recompute ? all : NULL,
                                              .frozen = step->frozen},
                                  .sequence = step->sequence,
                                  .ranks = step->ranks,
                                  .precision = step->precision};
    return model_synthesise(step->config, &job, step->search->platform, error);
}

uint64_t front_least_bytes(const struct front_step *step)
{
    struct trace *trace = front_trace(step, false, NULL);
    uint64_t bytes = trace ? least_device_bytes(trace, step->search, EVERYTHING) : UINT64_MAX;
    trace_free(trace);
    return bytes;
}

bool front_fits(const struct front_step *step)
{
    struct trace *trace = front_trace(step, false, NULL);
    bool fits = trace && least_fits(trace, step->search, EVERYTHING);
    trace_free(trace);
    return fits;
}

/* Returns whether the step fits with nothing but recomputation, as if NVMe were host memory. */
static bool fits_recomputed(const struct front_step *step)
{
    struct search_options search = *step->search;
    struct trace *trace = front_trace(step, true, NULL);
    search.host_budget += MIN(step->nvme_bytes, UINT64_MAX - search.host_budget);
    bool fits = trace && requirement_is_met(trace, &search, NULL);
    trace_free(trace);
    return fits;
}

/* Chooses the largest power of two with few enough tokens that fits. */
static void choose_batch(struct front_step *step)
{
    step->batch = 1;
    while (2 * (uint64_t)step->batch * step->sequence <= USUAL_TOKENS)
        step->batch *= 2;
    while (step->batch > 1 && !fits_recomputed(step))
        step->batch /= 2;
}

static void way_free(void *data)
{
    struct front_way *way = data;
    g_free(way->name);
    g_free(way->choices);
    g_free(way);
}

static void remedy_free(void *data)
{
    struct front_remedy *remedy = data;
    g_free(remedy->option);
    g_free(remedy->gain);
    g_free(remedy);
}

static bool examine(struct front *front, const struct question *question, bool *stopped,
                    GError **error)
{
    if (front->batch_chosen)
        choose_batch(&front->step);
    front->least_bytes = front_least_bytes(&front->step);
    if (!front_find_ways(front, error))
        return false;
    if (front_fastest(front))
        return true;
    if (front->least_bytes <= front->step.search->device_budget) { /* so there is a plan */
        *stopped = true;
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "stopped before any plan was found");
        return false;
    }
    front_find_remedies(front, question);
    return true;
}

static void refuse(const struct front *front, GError **error)
{
    const struct front_step *step = &front->step;
    g_autofree char *device = size_format(step->search->device_budget);
    g_autofree char *host = size_format(step->search->host_budget);
    if (front->least_bytes == UINT64_MAX || front_plan(front)->lacks_host) {
        g_autofree char *nvme = size_format(step->nvme_bytes);
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "%s does not fit: %s of host memory%s%s is too little", step->name, host,
                    step->nvme_bytes ? " with NVMe of " : "", step->nvme_bytes ? nvme : "");
        return;
    }
    g_autofree char *least = size_format(front->least_bytes);
    g_set_error(
        error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
        "%s does not fit: beside %s of host memory it needs at least %s of device memory, and "
        "there are %s",
        step->name, step->search->host_budget == UINT64_MAX ? "any amount" : host, least, device);
}

/* Describes the step of a model's config. */
static void describe_model(const struct question_options *asked, struct front *front)
{
    struct front_step *step = &front->step;
    bool fp32 = asked->precision && strcmp(asked->precision, "fp32") == 0;
    step->name = step->config->name;
    step->parameters = model_config_parameters(step->config);
    step->batch = asked->batch;
    step->sequence = asked->sequence ? asked->sequence
                                     : MIN(step->config->positions, USUAL_SEQUENCE);
    step->precision = fp32 ? MODEL_FP32 : MODEL_BF16;
    step->choices = EVERYTHING;
    front->batch_chosen = !asked->batch;
    front->sequence_chosen = !asked->sequence;
}

/* Describes the step of a trace that is given. */
static void describe_trace(const struct trace *trace, const char *name, struct front *front)
{
    struct front_step *step = &front->step;
    step->given = trace;
    step->choices = derivation_scope_of(trace);
    step->name = name;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        step->parameters += trace->tensors[t].elements;
    step->batch = trace->batch;
    step->sequence = trace->sequence;
    step->precision = g_strcmp0(trace->precision, "fp32") == 0 ? MODEL_FP32 : MODEL_BF16;
}

static bool answer(struct front *front, const struct question *question, FILE *out, bool *stopped,
                   GError **error)
{
    bool ok = examine(front, question, stopped, error);
    if (ok)
        front_print(front, question, out);
    ok = ok && (!question->json || front_write_json(front, question, question->json, error));
    if (ok && !front_fastest(front)) {
        refuse(front, error);
        ok = false;
    }
    return ok;
}

bool question_model(const struct question *question, FILE *out, bool *stopped, GError **error)
{
    const struct question_options *asked = question->asked;
    if (question->nvme_bytes && question->search->host_budget == UINT64_MAX) {
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "--nvme-memory: needs a limit of --host-memory, below which it lies");
        return false;
    }
    struct model_config *config = asked->model ? model_config_read(asked->model, error) : NULL;
    g_autofree uint8_t *frozen = NULL;
    if (asked->model &&
        (!config || !model_choose_trained(config, asked->train, 0, &frozen, error))) {
        model_config_free(config);
        return false;
    }
    const char *model = question->trace && question->trace->model ? question->trace->model : "?";
    g_autofree char *name = g_strndup(model, strcspn(model, ",")); /* without its size */
    uint32_t ranks = MAX(question->gpus, 1);
    uint8_t stage = question->stage == RUN_ANY_STAGE ? 3 : (uint8_t)question->stage;
    struct front front = {.step = {.config = config,
                                   .frozen = frozen,
                                   .search = question->search,
                                   .nvme_bytes = question->nvme_bytes,
                                   .ranks = ranks,
                                   .stage = ranks > 1 ? stage : 0,
                                   .fast = question->fast},
                          .ways = g_ptr_array_new_with_free_func(way_free),
                          .remedies = g_ptr_array_new_with_free_func(remedy_free)};
    if (config)
        describe_model(asked, &front);
    else
        describe_trace(question->trace, name, &front);
    *stopped = false;
    bool ok = answer(&front, question, out, stopped, error);
    g_ptr_array_unref(front.ways);
    g_ptr_array_unref(front.remedies);
    model_config_free(config);
    return ok;
}
