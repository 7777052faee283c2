/* What the stages of a pipeline send each other in an iteration, found in their traces. */
#ifndef PSTAR_SIM_STAGE_MESSAGES_H
#define PSTAR_SIM_STAGE_MESSAGES_H

#include "traces/trace.h"

/* What an operator sends or receives. */
struct stage_message {
    uint32_t queue;    /* of messages from one stage to another of one kind, which arrive in the
                          order in which they are sent; NO_INDEX if the operator passes nothing */
    uint32_t from, to; /* stages */
    bool sends;        /* false: receives */
    uint32_t micro_batch;
    uint64_t bytes;
};

struct stage_messages {
    uint32_t stages, queues;
    struct stage_message **of; /* [stages][operator_count] */
    uint32_t *under_way;       /* [queues] messages that the step before has sent and this one
                                  receives; as many of this step's are left to the next */
    moment_id *meeting;        /* [stages] the first update, before which all stages show each other
                                  losses and norms; NO_INDEX if there is none */
    uint64_t shown_bytes;      /* that each stage shows each other one there */
};

/* Finds the messages of a pipeline's stages, which `traces` has in their order. Fails
 * (TRACE_ERROR_INVALID) if the traces are not those of all stages of one pipeline, or if a stage
 * would wait for ever. The traces need not outlive the result, which the caller frees with
 * stage_messages_free. */
struct stage_messages *stage_messages_new(const struct trace *const *traces, uint32_t stages,
                                          GError **error);
void stage_messages_free(struct stage_messages *messages); /* NULL is allowed */

#endif
