/* What a stage of a pipeline takes: time of its passes, bytes of its device.
 *
 * Each stage has `width` ranks, which compute a micro-batch each at the same time and share the
 * optimizer's states. As pstar-run trains, they reduce the gradients of each micro-batch beside its
 * backward, and share them. With `fast` sums each rank first sums those of its own micro-batches,
 * and they reduce these when a step's last backward is done. */
#ifndef PSTAR_PLANNER_PIPELINES_STAGE_COSTS_H
#define PSTAR_PLANNER_PIPELINES_STAGE_COSTS_H

#include "models/pipeline.h"
#include "planner/pipelines/units.h"
#include "sim/costs.h"

/* Everything about a plan but where the model is cut. */
struct pipeline_job {
    const struct units *units; /* of the micro-batch */
    uint32_t stages, width;
    bool fast;              /* of several ranks: how they sum */
    uint32_t parts;         /* of each stage; more than 1 with PIPELINE_INTERLEAVED only */
    uint32_t micro_batches; /* of a step, on each rank */
    enum pipeline_schedule schedule;
    bool clips;               /* updates wait for the norm of all gradients; always if several ranks
                                 do not sum fast */
    const uint8_t *recompute; /* [layers] as it was asked; NULL: as few as fit */
    uint64_t device_budget;
    bool moves; /* chunks come and go, so that only activations must fit at the same time, and
                   updates may run on the host, so that they take no time on the device */
    uint64_t device_bytes; /* with `moves`, the device's memory, of which activations may take the
                              budget */
    const struct platform *platform; /* spread for these stages; NULL if it is not known */
    const struct costs *costs;       /* of this platform */
};

/* Returns whether the first stage sends the last one a copy of tied weights. */
static inline bool stage_copies_tied(const struct pipeline_job *job)
{
    return job->stages > 1 && job->units->tied_bytes > 0;
}

/* Returns whether ranks reduce the gradients of each micro-batch. The job's units then are those of
 * so many ranks. */
static inline bool stage_reduces_each(const struct pipeline_job *job)
{
    return job->width > 1 && !job->fast;
}

/* When the last stage sends the first one the gradient of tied weights: as pstar-run does, for each
 * micro-batch; with fast sums of several ranks once a step, before the ranks sum it. */
enum stage_tied { STAGE_UNTIED, STAGE_TIED_EACH, STAGE_TIED_ONCE };
enum stage_tied stage_tied(const struct pipeline_job *job);

struct stage_cost {
    uint32_t stage;
    uint32_t first, end; /* layers; of several parts, where the first begins and the last ends */
    uint32_t recomputed; /* so many of them, the first ones, unless it was asked which */
    uint64_t elements, trained; /* parameters, and those of them that are trained */
    uint64_t shard;             /* what a rank holds of the trained ones' gradients and states */
    uint64_t forward_ns[UNIT_TURNS], backward_ns[UNIT_TURNS]; /* with copies of messages */
    uint64_t weights_ns[UNIT_TURNS]; /* of a backward that is split, the second half */
    uint64_t newest_ns; /* of making the newest parameters, before the next step's first pass */
    uint64_t work_ns;   /* all passes of a step */
    uint64_t waits_ns;  /* of these for reductions */
    uint64_t reduce_ns; /* gradients, behind the last backward */
    uint64_t update_ns; /* with what ranks gather */
    uint64_t device_bytes, state_bytes;
    uint64_t newest_bytes; /* of these, newest parameters in buffers that stay from pass to pass */
};

/* A run of layers. */
struct stage_layers {
    uint32_t first, end;
};

/* Returns the shape of the pipeline, whose stages have as many layers as each other, or one more.
 */
struct pipeline_shape stage_shape(const struct pipeline_job *job);

/* Returns the layers of one part of a stage of this shape, in a model of `layers`. */
struct stage_layers stage_part_of(const struct pipeline_shape *shape, uint32_t layers,
                                  const struct stage_cost *cost, uint32_t part);

/* Returns the layers of one of the stage's parts, and how many all parts have. */
struct stage_layers stage_part(const struct pipeline_job *job, const struct stage_cost *cost,
                               uint32_t part);
uint32_t stage_layer_count(const struct pipeline_job *job, const struct stage_cost *cost);

/* Returns the piece of the model that is a part of the stage. */
static inline uint32_t stage_piece(const struct pipeline_job *job, uint32_t stage, uint32_t part)
{
    return part * job->stages + stage;
}

/* Returns how many micro-batches a stage of one part keeps activations of. */
uint32_t stage_in_flight(const struct pipeline_job *job, uint32_t stage);

/* Returns whether forward passes of the next step read the newest parameters from buffers, as
 * models/pipeline_cutting.h says. */
bool stage_has_newest(const struct pipeline_job *job, uint32_t stage);

/* Computes what the stage costs with these layers, which are ignored if stages have several parts.
 * Returns whether it fits its device; if not, the cost is that with all layers recomputed, if that
 * may be chosen. */
bool stage_cost(const struct pipeline_job *job, uint32_t stage, uint32_t first, uint32_t end,
                struct stage_cost *cost);

/* Changes how many layers of the stage are recomputed, its first ones, and with that its times. The
 * rest of the cost stays. With one rank a stage. */
void stage_recompute(const struct pipeline_job *job, uint32_t recomputed, struct stage_cost *cost);

/* What a pass through one of the stage's parts reads and leaves. */
struct stage_pass_bytes {
    uint64_t forward, backward; /* parameters that it reads */
    uint64_t gradients;         /* to which a backward pass adds */
    uint64_t saved;             /* of a micro-batch, from its forward to its backward */
};
struct stage_pass_bytes stage_pass_bytes(const struct pipeline_job *job,
                                         const struct stage_cost *cost, uint32_t part);

/* Computes what a pass through one of the stage's parts takes. */
struct stage_pass_times {
    /* With copies of messages. What follows at once may begin beside the last reduction of a
     * backward that is split, which is not counted then. */
    uint64_t forward_ns[UNIT_TURNS], backward_ns[UNIT_TURNS], weights_ns[UNIT_TURNS];
    /* Without these copies: */
    struct unit_reductions halves[UNIT_PASSES][UNIT_REDUCED_TURNS];
    uint64_t computed_ns[UNIT_PASSES][UNIT_TURNS]; /* of backward passes, without any wait */
};
struct stage_pass_times stage_pass_times(const struct pipeline_job *job,
                                         const struct stage_cost *cost, uint32_t part);

/* Returns the least number of layers that any choice recomputes which fits the stage's device. With
 * layers that are alike only. */
uint32_t stage_least_recomputed(const struct pipeline_job *job, const struct stage_cost *cost);

/* Returns the time of a message of an activation between two stages. */
struct costs_message stage_message(const struct pipeline_job *job, uint32_t from, uint32_t to);

/* Returns how long all stages take to show each other losses and norms; 0 without clipping. */
uint64_t stage_shown_ns(const struct pipeline_job *job);

/* Returns whether a layer of the stage is recomputed. */
bool stage_recomputes(const struct pipeline_job *job, const struct stage_cost *cost,
                      uint32_t layer);

/* Sets marks [layers of the model] for the layers of the stage, 1 if it is recomputed. */
void stage_mark_recomputed(const struct pipeline_job *job, const struct stage_cost *cost,
                           uint8_t *marks);

#endif
