/* The choices of a run: what moves work and data to other times and places without changing what
 * training computes. Plans, derived traces, the planner's search and training runs all use this
 * struct.
 *
 * A new choice, such as pipeline stages, is a field here, a bit of enum run_choice, a line in
 * run_choices_differ and in run_choices_describe, and a key in the plan's file. */
#ifndef PSTAR_TRACES_CHOICES_H
#define PSTAR_TRACES_CHOICES_H

#include "traces/trace.h"

#define RUN_ANY_STAGE UINT32_MAX /* of an option that is not given */

struct run_choices {
    uint32_t layer_count, tensor_count;
    uint8_t *recompute;     /* [layer_count] 1: backward computes the layer's activations
                               again */
    uint8_t *offload;       /* [layer_count] 1: chunks hold what the layer saves for backward,
                               so that it may leave the device */
    uint8_t *host_update;   /* [tensor_count] 1: the tensor's optimizer runs on the host */
    tensor_id first_update; /* with which the host begins its updates behind backward; it goes on in
                               the order of the model, and ends with the tensors before this one. 0
                               if that is the order of the model */

    /* [tensor_count] NO_INDEX: the tensor's update follows backward. Else it follows the operator
     * that completes the gradient of this tensor, at which its own gradient must be complete. */
    tensor_id *update_after;

    uint8_t *frozen; /* [tensor_count] 1: the tensor is not trained, and has neither a gradient nor
                        states nor an update. No choice of a planner's: it changes what is computed,
                        as another model does */

    bool host_embedding;           /* the embedding's forward and backward run on the host */
    bool split_masters;            /* bf16: the parameter is the upper half of its master, and the
                                      list of masters holds the lower halves (engine/bf16.h): 12
                                      bytes a parameter instead of 14, or 16 instead of 18 */
    bool second_backward;          /* backward runs once for the gradient's norm, and again for the
                                      updates: what clipping takes with 12 bytes a parameter */
    uint32_t batch, micro_batches; /* sequences a micro-batch, micro-batches a step; the only choice
                                      that changes results, in their rounding */
    uint8_t stage; /* of several ranks, that of ZeRO: 3 if they share parameters, too, else 2; 0 and
                      1 only with `fast`; 0 with one rank */
    bool fast;     /* of several ranks: gradients are summed as other systems sum them
                      (models/iteration.h), so their rounding depends on the number of ranks */
    uint64_t state_block; /* elements: masters and moments of tensors of more than
                             TRACE_UNCUT_BLOCKS blocks are cut into blocks, each of which has an
                             update; 0: none are. With several ranks, 0 */
};

/* How ranks sum gradients, as options name it. */
enum run_reduction { RUN_REDUCTION_EXACT, RUN_REDUCTION_FAST, RUN_ANY_REDUCTION = UINT8_MAX };

/* How several ranks train together; 0 and false with one rank. */
struct run_stage {
    uint8_t stage;
    bool fast;
};

/* Returns how the ranks of a trace train together (see run_choices_of). */
struct run_stage run_stage_of(const struct trace *trace);

/* Names a choice in a set of choices. */
enum run_choice {
    RUN_RECOMPUTE = 1 << 0,
    RUN_OFFLOAD = 1 << 1,
    RUN_EMBEDDING = 1 << 2,
    RUN_MASTERS = 1 << 3, /* split_masters and second_backward */
    RUN_MICRO_BATCHES = 1 << 4,
    RUN_UPDATES = 1 << 5, /* host_update, first_update and update_after */
    RUN_STAGE = 1 << 6,   /* stage and fast */
    RUN_STATE_BLOCKS = 1 << 7,
    RUN_SUMS = 1 << 8, /* with RUN_STAGE: sums may be fast */
    RUN_EVERY_CHOICE = (1 << 8) - 1
};

/* Returns choices that are all 0, with no update within backward. The caller frees them with
 * run_choices_free. */
struct run_choices *run_choices_new(uint32_t layer_count, uint32_t tensor_count);

/* Reads the choices off a trace's operators. A layer is recomputed if one of its operators is named
 * "recompute ..."; it is offloaded if an operator of its backward accesses activations. A tensor's
 * update is where its operator is, and follows the operator before it, which is named by the first
 * tensor that it accesses; updates that consume gradients in buffers are no choice. If the host's
 * updates ascend by tensor but for one step back, the first of them says where they begin. An
 * operator of the forward phase on the host is the embedding. Masters of 2 bytes are split. An
 * operator named "backward again ..." belongs to a second backward. Ranks that share parameters are
 * in stage 3, those with all gradients in stage 1, and those with all states in stage 0. Their sums
 * are fast if they have all gradients, or no list of them. Blocks that cut no tensor are none.
 * Tensors that the list of first moments lacks are frozen. The caller frees the result with
 * run_choices_free. */
struct run_choices *run_choices_of(const struct trace *trace);

/* Returns whether gradients lie in buffers, as with split masters and one micro-batch: each update
 * then follows the operator that completes its gradient. */
bool run_gradients_in_buffers(const struct trace *trace);

/* Returns a copy in which arrays that are NULL are as in run_choices_new. */
struct run_choices *run_choices_copy(const struct run_choices *choices);

void run_choices_free(struct run_choices *choices); /* NULL is allowed */

/* Returns the set of choices (bits of enum run_choice) that differ. If the numbers of layers or
 * tensors differ, or other tensors are frozen, the choices are of different models and the result
 * is RUN_EVERY_CHOICE. */
unsigned run_choices_differ(const struct run_choices *a, const struct run_choices *b);
bool run_choices_equal(const struct run_choices *a, const struct run_choices *b);

/* Returns whether an update runs within backward, unless it consumes a gradient in a buffer. */
bool run_updates_early(const struct run_choices *choices);

/* Returns whether a tensor is not trained. */
bool run_freezes(const struct run_choices *choices);

/* Returns a text for people, such as "recomputes 2 of 12 layers; updates all tensors on the host".
 * The caller frees it with g_free. */
char *run_choices_describe(const struct run_choices *choices);

/* Returns what ranks share in a stage of ZeRO, 0 to 3: "gradients and optimizer states". */
const char *run_stage_describe(uint32_t stage);

/* Writes and reads layers as --recompute and --offload-activations take them: "all", "none", or
 * numbers and ranges such as "0,2,5-7". The caller frees the text with g_free. Parsing overwrites
 * marks[count] and returns false if the text is not such a list. */
char *run_layers_format(const uint8_t *marks, uint32_t count);
bool run_layers_parse(const char *text, uint8_t *marks, uint32_t count);

#endif
