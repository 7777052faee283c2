/* What the parts of a model cost a pipeline: its embedding, each of its layers, and its head.
 *
 * They are read off a described iteration, so operators' times and bytes are those that a run of
 * the stages has. A stage's layers follow each other; the first stage has the embedding, too, and
 * the last the head, which is the final norm, the classifier and the loss. */
#ifndef PSTAR_PLANNER_PIPELINES_UNITS_H
#define PSTAR_PLANNER_PIPELINES_UNITS_H

#include "models/iteration.h"
#include "platforms/platform.h"
#include "sim/costs.h"

enum { UNIT_KEPT, UNIT_RECOMPUTED, UNIT_WAYS };
enum unit_pass {
    UNIT_FORWARD,
    UNIT_BACKWARD,
    UNIT_WEIGHTS, /* if backward is split, its second half */
    UNIT_PASSES
};
/* A step's first micro-batch, and the others; with several ranks the last one's reductions also
 * share norms. */
enum { UNIT_FIRST, UNIT_LATER, UNIT_TURNS, UNIT_LAST = UNIT_TURNS, UNIT_REDUCED_TURNS };

/* What is not saved at the peak of a forward pass that reads a unit's newest parameters: */
struct unit_newest {
    uint64_t made;   /* with those that are made by then */
    uint64_t needed; /* with those that the pass still reads */
    uint64_t both;   /* with those of which both is true */
};

/* What several ranks of a stage sum in a unit's backward, or in a half of it. A reduction begins
 * when its gradient is there and the one before is over; the device computes until then for the
 * next one. So a reduction and what the device does behind it begin at the same time, and what
 * comes next begins when both are over. */
struct unit_reductions {
    uint64_t count;
    uint64_t before_ns; /* of the device, before the first one */
    uint64_t inner_ns;  /* from then until the last one begins */
    uint64_t last_ns;   /* the last one, */
    uint64_t behind_ns; /* and the device behind it */
};

/* What one way of training a unit takes. */
struct unit_way {
    uint64_t backward_ns[UNIT_TURNS]; /* of a backward that is split, the first half */
    uint64_t weights_ns[UNIT_TURNS];  /* and the second */
    struct unit_reductions reductions[UNIT_PASSES][UNIT_REDUCED_TURNS];
    uint64_t backward_elements;       /* parameters that backward reads */
    uint64_t saved_bytes;             /* of a micro-batch, from its forward to its backward */
    uint64_t pending_bytes;           /* from the first half of its backward to the second */
    uint64_t most_bytes[UNIT_PASSES]; /* at its peak, beside what the units before it save, or in
                                         the second half what is pending of them; and in backward
                                         beside what is pending of the units behind it */
    /* Of several ranks: its peak until its first reduction begins, which ends the gradients that
     * the last pass reduced last; and the bytes of those that it reduces last itself. */
    uint64_t first_bytes[UNIT_PASSES], left_bytes[UNIT_PASSES];
    uint64_t working_bytes;                 /* at its peak, of what is not saved */
    uint64_t backward_working;              /* at the peak of its backward alone */
    struct unit_newest newest, newest_sent; /* if what it leaves to the next unit is saved there,
                                               and if it is sent to another stage */
};

struct pipeline_unit {
    uint64_t elements; /* parameters */
    uint64_t trained;  /* of these; the others have no gradients and no states */
    uint64_t shard;    /* what a rank holds of the trained ones' gradients and states */
    uint64_t forward_ns[UNIT_TURNS];
    uint64_t update_ns;        /* of all its parameters by one rank, or of a rank's shard */
    uint64_t update_gather_ns; /* of gathering the parameters */
    /* Where a pipeline that never drains has the newest parameters in buffers: */
    uint64_t newest_ns;   /* making them */
    uint64_t newest_room; /* the bytes that they take */
    struct unit_way way[UNIT_WAYS];
};

struct units {
    uint32_t layers;
    struct pipeline_unit embedding, head, *layer; /* [layers] */

    uint64_t passing_bytes; /* from the embedding to the head, if one stage has both */
    uint64_t waiting_bytes; /* then with several ranks: the classifier's gradient of tied weights,
                               from its backward to the embedding's reduction */
    uint64_t stream_bytes;  /* of an activation that goes from a stage to the next */
    uint64_t stream_ns;     /* of copying it to or from a message */
    uint64_t head_first_ns[UNIT_TURNS]; /* backward of the classifier, the head's first operator */
    uint64_t embed_last_ns[UNIT_TURNS]; /* backward of the embedding's lookup, its last operator;
                                           with several ranks the reduction behind it */
    uint64_t
        embed_saved_bytes; /* of a micro-batch, by then: an encoder's norm needs no more of it */

    /* Of tied weights, which the first stage sends to the last; all 0 if there are none. Frozen
     * ones have no gradient. */
    uint64_t tied_bytes, tied_ns;                        /* the copy, and copying it */
    uint64_t tied_gradient_bytes;                        /* that the last stage sends back */
    uint64_t tied_gradient_ns;                           /* of copying it */
    uint64_t tied_add_ns[UNIT_TURNS];                    /* of adding it */
    uint64_t stream_room, tied_room, tied_gradient_room; /* the bytes that their buffers take */
    uint32_t element_bytes, tensors, micro_batch; /* of a parameter; of the model; sequences */
    uint32_t ranks;      /* that reduce each micro-batch's gradients; 1 if they do not */
    double update_ns[2]; /* by enum trace_place: of an element of the tensor that takes least */
};

/* Reads the units off two descriptions of the same step, which differ in that all layers are
 * recomputed in the second. Both have durations and UNIT_TURNS micro-batches or, of several ranks,
 * UNIT_REDUCED_TURNS on each. What stages add takes the time of its bytes in the platform's memory,
 * or none if `platform` is NULL; `costs` say what several ranks exchange, and are not read with
 * one. The caller frees the result with units_free. */
struct units *units_new(const struct model_iteration *kept,
                        const struct model_iteration *recomputed, const struct platform *platform,
                        const struct costs *costs);
void units_free(struct units *units); /* NULL is allowed */

#endif
