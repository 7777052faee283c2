#include "planner/pipelines/pipeline_question.h"

#include "models/synth.h"

#include <string.h>

struct model_iteration *pipeline_describe(const struct pipeline_question *q,
                                          const struct model_job *job, GError **error)
{
    if (q->recognised)
        return model_derive_iteration(q->recognised, q->trace, job, q->platform, error);
    struct model_iteration *iteration = model_iteration_new(q->config, job, error);
    if (iteration)
        model_estimate(iteration, q->platform);
    return iteration;
}

/* ---- units ---- */

/* The units of a micro-batch: as they are, with the delay of a pipeline that never drains, and with
 * a backward that is split. */
enum units_kind { UNITS_PLAIN, UNITS_DELAYED, UNITS_SPLIT };

struct described_units {
    uint32_t ranks; /* that reduce each micro-batch's gradients */
    uint32_t micro_batch;
    enum units_kind kind;
    struct units *units;
};

struct pipeline_units {
    const struct pipeline_question *question;
    GArray *described; /* struct described_units */
};

static void clear_described(void *data)
{
    units_free(((struct described_units *)data)->units);
}

struct pipeline_units *pipeline_units_new(const struct pipeline_question *question)
{
    struct pipeline_units *units = g_new0(struct pipeline_units, 1);
    units->question = question;
    units->described = g_array_new(FALSE, FALSE, sizeof(struct described_units));
    g_array_set_clear_func(units->described, clear_described);
    return units;
}

void pipeline_units_free(struct pipeline_units *units)
{
    g_array_unref(units->described);
    g_free(units);
}

static enum units_kind kind_of(const struct pipeline_job *job)
{
    if (job->stages > 1 && job->schedule == PIPELINE_2BW)
        return UNITS_DELAYED;
    return job->stages > 1 && pipeline_splits(job->schedule) ? UNITS_SPLIT : UNITS_PLAIN;
}

static struct model_job step_of(const struct pipeline_question *q, const struct described_units *d)
{
    return (struct model_job){
        .choices = {.batch = d->micro_batch,
                    .micro_batches = d->ranks > 1 ? d->ranks * UNIT_REDUCED_TURNS : UNIT_TURNS,
                    .frozen = (uint8_t *)q->frozen},
        .sequence = q->sequence,
        .precision = q->precision,
        .ranks = d->ranks,
        .delay = d->kind == UNITS_DELAYED,
        .split = d->kind == UNITS_SPLIT,
        .unfused = q->recognised && q->recognised->iteration->job.unfused,
        .gelu_apart = q->recognised && q->recognised->iteration->job.gelu_apart};
}

static struct units *describe(const struct pipeline_question *q, const struct described_units *d,
                              const struct costs *costs, GError **error)
{
    struct model_job step = step_of(q, d);
    g_autofree uint8_t *all = g_new(uint8_t, q->config->layers);
    memset(all, 1, q->config->layers);
    struct model_iteration *kept = pipeline_describe(q, &step, error);
    step.choices.recompute = all;
    struct model_iteration *recomputed = kept ? pipeline_describe(q, &step, error) : NULL;
    struct units *units = recomputed ? units_new(kept, recomputed, q->platform, costs) : NULL;
    model_iteration_free(kept);
    model_iteration_free(recomputed);
    return units;
}

const struct units *pipeline_units_of(struct pipeline_units *units, const struct pipeline_job *job,
                                      uint32_t micro_batch, GError **error)
{
    struct described_units wanted = {.ranks = stage_reduces_each(job) ? job->width : 1,
                                     .micro_batch = micro_batch,
                                     .kind = kind_of(job)};
    for (guint i = 0; i < units->described->len; i++) {
        const struct described_units *d = &g_array_index(units->described, struct described_units,
                                                         i);
        if (d->ranks == wanted.ranks && d->micro_batch == micro_batch && d->kind == wanted.kind)
            return d->units;
    }
    if ((wanted.units = describe(units->question, &wanted, job->costs, error)))
        g_array_append_val(units->described, wanted);
    return wanted.units;
}
