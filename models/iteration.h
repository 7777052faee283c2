/* Describes one training iteration of a model, operator by operator, for the engine that runs it
 * and for traces that are synthesised from it.
 *
 * Dimensions: B sequences a micro-batch, T tokens a sequence, N = B*T rows, H width, F inner width,
 * A heads, K heads of keys, D columns of a head, V vocabulary. Activations are [N, ...] row-major,
 * of the precision's element (4 bytes fp32, 2 bf16) unless said otherwise. Weights of linear layers
 * lie as the family's files have them: GPT-2's are [inputs, outputs] row-major (y = x W + b), all
 * others [outputs, inputs]. The table of words is [V, H]. */
#ifndef PSTAR_MODELS_ITERATION_H
#define PSTAR_MODELS_ITERATION_H

#include "models/config.h"
#include "traces/choices.h"

enum model_precision { MODEL_FP32, MODEL_BF16 };

struct model_job {
    struct run_choices choices; /* batch, micro_batches >= 1; arrays that are NULL stand for zeros,
                                   and the numbers of layers and tensors are the model's; of
                                   several ranks, a stage of 0 stands for 2
                                   unless sums are fast */
    uint32_t sequence;          /* tokens a sequence, at most the model's positions */
    enum model_precision precision;
    uint32_t ranks;  /* that share the micro-batches, which must be a multiple of them; rank r
                        computes micro-batches r, r + ranks, ... 0 stands for 1 */
    bool delay;      /* parameters are a step older than masters: gradients are those of the
                        weights before the last update, as a pipeline computes them that never
                        drains (docs/pipelines.md). In fp32, too, there are masters then. An
                        update leaves the old master as the parameter. Not with split masters
                      */
    bool split;      /* backward is split in two, for pipelines: behind everything else of a
                        micro-batch's backward come the gradients of the weights of linear layers in
                        the layers (Qi et al., "Zero Bubble Pipeline Parallelism"). Biases, norms,
                        classifier and embedding are in the first half. Sums are the same */
    bool unfused;    /* like a framework that fuses nothing: attention's scores lie in
                      memory, every pair of tokens is computed, the loss is computed in
                      fp32 copies of the logits, and a recomputed layer runs whole; only
                      for synthesis, the engine always fuses */
    bool gelu_apart; /* GELU's derivative is never joined to the product behind GELU (see
                        MODEL_RESIDUAL_BACKWARD), as in other frameworks, and in traces that were
                        recorded before that existed; only for these, the engine joins it */
};

/* The kinds of operators, with their tensors `t` and their buffers `in` and `out`, in this order.
 * `tokens` is the micro-batch: 32-bit integers [2,N], inputs and then targets, or [3,N] with the
 * types of the tokens behind them. It crosses the link with the batch, which no figure counts. The
 * gradients of tensors lie where enum model_gradient says. */
enum model_kind {
    MODEL_EMBED_FORWARD,    /* t wte, and then wpe and types if the model has them; in tokens; out
                               x[N,H] = dropout(wte[token] + wpe[position] + types[type]); rotary
                               models have no wpe */
    MODEL_NORM_FORWARD,     /* t weight bias; in x residual; out y, stats fp32 [2,N] (mean,
                               1/deviation). RMS norms have no bias, and stats fp32 [N] (1/root mean
                               square). With `parts`, each row is so many rows. With a residual,
                               which may be NO_INDEX, y = residual + norm. The embedding's norm may
                               have dropout: y = dropout(norm) */
    MODEL_LINEAR_FORWARD,   /* t weight bias, which may be missing; in x; in[2], of this and the
                               linear layers below, what an adapter adds to the product; out y */
    MODEL_GELU_FORWARD,     /* a linear layer with GELU: out pre, y = gelu(pre) */
    MODEL_RESIDUAL_FORWARD, /* a linear layer: in x residual; out y = residual + dropout(x W + b) */
    MODEL_ATTENTION_FORWARD, /* of queries, keys and values in one row, with rotary positions if the
                                model has any: in qkv[N,(A+2K)*D]; out o[N,A*D], lse fp32 [B,A,T]
                                (log of the sum of exps).
                                Unfused: workspace [2,B,A,T,T], the scores before and after a pass;
                                instead of lse the probabilities [B,A,T,T], with dropout its mask
                                of bytes and what it leaves too */
    MODEL_GATED_FORWARD,   /* a linear layer behind a gate: in x gate; out up, y = activation(gate)
                              up.   Without a buffer `gate` the layer makes both: out gate and up
                              [N,2F]
                            */
    MODEL_GROUPED_FORWARD, /* attention of groups of heads, with rotary positions: in q[N,A*D]
                              k[N,K*D] v[N,K*D]; out and workspace as ATTENTION */
    MODEL_ADAPTER_FORWARD, /* beside a linear layer: t A B; in x; out u[N,rank] = alpha/rank x A^T,
                              and u B^T[N, outputs], which the layer adds to its product; NO_INDEX
                              where backward recomputes u alone */
    MODEL_ROUTE_FORWARD, /* t router[E,H]; in x, balance or NO_INDEX; out probabilities fp32 [N,E],
                            routes (below); workspace the logits [N,E]. balance, fp32 [2,E], sums
                            over all layers how many rows an expert has, and its probabilities */
    MODEL_DISPATCH_FORWARD, /* in x routes; out xs[N*S,H]: each row of x once for each of the S
                               experts that it goes through, an expert's behind the other's */
    MODEL_COMBINE_FORWARD,  /* in ys[N*S,H] routes residual; out y[N,H] = residual + each row's sum
                               over its experts, weighted */
    MODEL_CLASSIFIER_FORWARD, /* t wte, lm_head or score, [V,H], where V is the labels if the model
                                 has any, and its bias, which may be missing; in x; out logits[N,V].
                                 In a stage that has no wte: in x and a copy of it */
    MODEL_LOSS,               /* in logits tokens: logits become their gradient in place, divided by
                                 the targets that count; the loss goes to the host. Unfused: workspace
                                 fp32 [3,N,V], the logits, their log-softmax and its gradient */
    MODEL_BALANCE_LOSS,       /* in balance: the experts' imbalance is added to the loss */
    MODEL_CLASSIFIER_BACKWARD, /* t as forward; in dlogits x; out dx; workspace. In a stage that has
                                  no wte: in dlogits, x and a copy of it; gradient[0] */
    MODEL_NORM_BACKWARD,       /* t weight bias; in dy x stats; out dx: `add` to it, or overwritten;
                                  the dropout is forward's */
    MODEL_LINEAR_BACKWARD, /* t weight bias; in dy x; out dx, `add` to it or overwritten; workspace
                            */
    MODEL_GELU_BACKWARD, /* as LINEAR: in dy (becomes the gradient of pre in place) x pre; out dx */
    MODEL_RESIDUAL_BACKWARD,  /* as LINEAR: in dresidual x; out dx; masked[N,H]: dresidual under the
                                 forward's dropout mask, NO_INDEX without dropout. If backward is
                                 split, always: later operators change dresidual. Where x = gelu(pre)
                                 and GELU's derivative is joined to the product: in dresidual x pre;
                                 out the gradient of pre; and unless gradients are a list, t[2] the
                                 bias in pre, whose gradient is the sum over its rows. GELU's own
                                 layer then has LINEAR_BACKWARD, without a bias that is here */
    MODEL_ATTENTION_BACKWARD, /* in do qkv o lse; out dqkv. Unfused: workspace as forward's */
    MODEL_GATED_BACKWARD,   /* as LINEAR: in dy (becomes the gradient of up in place) x up gate; out
                               dx, dgate. If forward made gate and up: in dy x gate-and-up; out dx,
                               and their gradient [N,2F] */
    MODEL_GROUPED_BACKWARD, /* in do q k v o lse; out dq dk dv; workspace as ATTENTION */
    MODEL_ADAPTER_BACKWARD, /* t A B; in dy x u; out dx, which is added to, or NO_INDEX; du[N,rank];
                               workspace for the gradients of both, one after the other */
    MODEL_COMBINE_BACKWARD, /* in dresidual ys routes; out dys[N*S,H], or NO_INDEX; dweights fp32
                               [N,S], or NO_INDEX */
    MODEL_DISPATCH_BACKWARD, /* in dxs routes; out dx[N,H]: each row's sum */
    MODEL_ROUTE_BACKWARD,  /* t router; in dweights x probabilities routes balance; out dx, `add` to
                              it, or NO_INDEX; dlogits[N,E]; workspace as LINEAR */
    MODEL_EMBED_BACKWARD,  /* t as forward; in dx tokens; workspace. Sums row by row, so that bf16
                              needs no copy of the tables in fp32. The gradient of tied weights is
                              added to what the classifier's backward wrote */
    MODEL_WEIGHT_BACKWARD, /* a job that splits backward: t weight of a linear layer, of which the
                              backward operator computes the input's gradient only; in dy x */
    MODEL_REDUCE,          /* several ranks: t as the backward operator before it; gradient: this
                              rank's micro-batch; in of_classifier or NO_INDEX, and the gradients
                              of the reduction before it, which may be under way until this one
                              begins. Each rank receives
                              its shard of the gradients of all ranks, and adds them to the list in
                              the order of their micro-batches. Rows of the embedding that no
                              token names hold -0, which adds nothing. The gradient of tied
                              weights consists of the classifier's, t[0], and then the
                              embedding's */
    MODEL_REDUCE_BUCKET,   /* several ranks: `bucket` names the tensors, whose gradients each rank
                              has summed by itself. The owner of a shard receives it from all ranks
                              and leaves their sum in its place; in stage 0 all ranks receive the
                              sum then */
    MODEL_SEND,    /* a stage of a pipeline: in, or the parameter t, goes to stage `peer`; in[1] to
                      in[4] are those of a reduction before it, which may be under way until this one
                      begins */
    MODEL_RECEIVE, /* out comes from stage `peer` */
    MODEL_ADD,     /* t; in, fp32: a micro-batch's gradient of t, which another stage has
                      computed, is added to the list */
    MODEL_NEWEST,  /* t; out: the master in the parameter's precision. With several ranks each
                      receives the shards of the others */
    MODEL_UPDATE,  /* t tensor: AdamW on it, or on a block of it. With several ranks on the rank's
                      shard; then each rank receives the other shards of the parameter, unless
                      parameters are shared, or all ranks update everything (stage 0) */
    MODEL_KINDS
};

/* routes says where the rows of a layer go, S experts each: weights, fp32 [N,S]; experts, 32-bit
 * integers [N,S]; places, 32-bit integers [N,S], in the buffers [N*S,...]; and the place of each
 * expert's first row, 32-bit integers [E+1], with N*S at the end. */
static inline uint64_t model_routes_bytes(uint64_t rows, uint64_t each, uint64_t experts)
{
    return 4 * (3 * rows * each + experts + 1);
}

/* Returns a name for messages, such as "linear forward". */
const char *model_kind_name(enum model_kind kind);

/* Returns whether operators of the kind are reductions, which the network's queue runs. */
static inline bool model_kind_reduces(uint8_t kind)
{
    return kind == MODEL_REDUCE || kind == MODEL_REDUCE_BUCKET;
}

/* The most tensors of an operator, and the most buffers that it reads and that it writes. */
enum { MODEL_TENSORS = 3, MODEL_INPUTS = 6, MODEL_OUTPUTS = 3 };

struct model_operator {
    uint8_t kind;    /* enum model_kind */
    bool accumulate; /* its gradients are added to what earlier micro-batches left */
    bool add;        /* NORM_BACKWARD, LINEAR_BACKWARD: dx is added to */
    bool rows;       /* REDUCE: the gradients are the embedding's */
    bool embeds;     /* it belongs to the embedding, which a pipeline's first stage has */
    bool finishes[MODEL_TENSORS]; /* after it the gradient of t[i] is complete, for its update */
    bool frozen[MODEL_TENSORS]; /* backward: t[i] has no gradient. A frozen weight is read if out[0]
                       is not NO_INDEX, which it is if no tensor below is trained, so that nobody
                       wants the gradient of the input. Other frozen tensors are missing */
    bool norms[MODEL_TENSORS];  /* it takes the norm of the gradient of t[i], which is then complete
                                 */
    bool more;                  /* UPDATE: later blocks of the tensor have updates of their own */
    int32_t layer;              /* -1 outside of layers */
    uint32_t block;             /* UPDATE: of a cut tensor, which block; else 0 */
    uint32_t micro_batch;       /* among the rank's */
    uint32_t t[MODEL_TENSORS];  /* tensors; NO_INDEX */
    uint32_t newest[MODEL_TENSORS];   /* buffers with the newest parameters of t, which forward
                             operators   read instead of the list's, and an update makes the list's;
                             NO_INDEX */
    uint32_t in[MODEL_INPUTS];        /* buffers; NO_INDEX */
    uint32_t out[MODEL_OUTPUTS];      /* buffers; NO_INDEX */
    uint32_t gradient[MODEL_TENSORS]; /* buffers of the gradients of t, or NO_INDEX; of a frozen
                             bias or norm whose gradient is computed with another's, scratch */
    uint32_t workspace; /* buffer: the weight's gradient in fp32 before its one rounding; NO_INDEX
                           where the gradient list is fp32 itself. EMBED_BACKWARD: 64-bit integers
                           [N], the rows sorted by token; NO_INDEX where it runs on the host */
    uint32_t masked;    /* buffer; NO_INDEX */
    uint32_t inputs, outputs; /* columns of x and of y: linear layers, norms (inputs), classifier */
    uint32_t parts;           /* NORM: the heads of a row, each of which is normalised; 0 for 1 */
    uint32_t expert;          /* linear layers of an expert, otherwise NO_INDEX: their buffers are
                                 those of all experts, of which they have the expert's rows; in[5]
                                 is routes */
    uint64_t routed;          /* so many rows, as the loads have it: where a model runs, its routers
                                 say how many */
    uint32_t peer;            /* SEND, RECEIVE: the other stage, */
    uint32_t channel;         /* what goes there (enum pipeline_channel), */
    uint64_t bytes;           /* and how much */
    const tensor_id *bucket;  /* REDUCE_BUCKET: [bucket_count] tensors, whose gradients it completes
                               */
    uint32_t bucket_count;
    uint32_t dropout_site; /* key of the dropout's counter, unique in the model: recomputation uses
                              the forward's; NO_INDEX without dropout */
};

struct pipeline_cut;

struct model_iteration {
    const struct model_config *config;
    struct run_choices *choices;      /* complete: no array is NULL */
    struct model_job job;             /* its choices are a shallow copy of these */
    struct trace *trace;              /* tensors, operators, accesses, buffers; durations 0 */
    struct model_operator *operators; /* [trace->operator_count] */
    uint32_t forward_end;             /* moments of micro-batch 0's forward, the loss included: [0,
                                         forward_end) is what evaluation runs */
    GPtrArray *buckets;               /* the arrays of operators' buckets */
    struct pipeline_cut *cut;         /* of a stage (models/pipeline.h); NULL for the whole model */
};

/* Buffers take multiples of 256 bytes. A buffer is saved if forward makes it and backward reads it:
 * the residual stream and what the layers' backward needs. The gradient of the residual stream is
 * one buffer for the whole backward. The final norm's backward makes it, the other norms' add to
 * it, and the residual layers' and the embedding's read it. Where norms replace the stream, the
 * backward of each makes a gradient of its own, to which the products before it add. A layer that
 * is recomputed keeps only its input; its operators from ln_1 to mlp.c_fc, unfused or before a last
 * norm to its end, run again right before its backward, into buffers of their own.
 *
 * If a layer's activations are offloaded, chunks hold what it saves (trace_held_buffers): its input
 * and buffers of that size, but not the norms' statistics and what a fused attention keeps, which
 * are a few floats a row, and not an embedding's output that the host sends. The plan decides
 * whether and when they leave the device. */

/* Elements from one row of logits to the next: rows begin at multiples of 128 bytes and more. With
 * a vocabulary like 50,257 contiguous rows would begin anywhere, and matrix products could neither
 * load nor store whole vectors. The gaps are never read. On a CPU with AVX2 (256 rows, width 768,
 * two threads, a shared machine) the classifier's products took 0.92 to 1.02 of the time of
 * contiguous rows, which is noise; on a GPU it is not measured. */
static inline uint32_t model_logits_row(uint32_t vocabulary)
{
    return (vocabulary + 63) / 64 * 64;
}

/* Sets *elements to those of a state block, as options name it: a number; "auto" for what suits the
 * model, a 64th of its parameters, but at least 2^20, and a multiple of TRACE_BLOCK_STEP; or NULL
 * for 0, no blocks. Fails (MODEL_ERROR_CONFIG) if the text is none of these. */
bool model_state_block(const struct model_config *config, const char *text, uint64_t *elements,
                       GError **error);

/* Returns whether the job leaves any tensor of the model untrained. */
bool model_freezes(const struct model_config *config, const struct model_job *job);

/* Returns whether state blocks of so many elements cut any tensor of the model that is not frozen;
 * 0 cuts none. `frozen` is [tensor_count], or NULL. */
bool model_is_cut(const struct model_config *config, const uint8_t *frozen, uint64_t state_block);

/* Returns how many ranks share the job, and how many micro-batches each of them computes. */
static inline uint32_t model_ranks(const struct model_job *job)
{
    return job->ranks > 1 ? job->ranks : 1;
}

/* Returns whether each rank holds only a shard of the parameters. */
static inline bool model_shares_parameters(const struct model_job *job)
{
    return job->ranks > 1 && job->choices.stage == 3;
}

/* Returns whether there are masters beside the parameters. */
static inline bool model_has_masters(const struct model_job *job)
{
    return job->precision == MODEL_BF16 || job->delay;
}

static inline uint32_t model_rank_micro_batches(const struct model_job *job)
{
    return job->choices.micro_batches / model_ranks(job);
}

/* Returns the number of the model's tensors. */
uint32_t model_tensor_count(const struct model_config *config);
/* Returns a choice that is 1 for each tensor. The caller frees it with g_free. */
uint8_t *model_every_tensor(const struct model_config *config);

/* How several ranks sum gradients. With choices.fast they sum as other systems do, whose results
 * depend on the number of ranks: */
enum model_sums {
    MODEL_SUMS_IN_ORDER, /* each micro-batch's gradients are exchanged in fp32 and added in the
                            order of the micro-batches, as one rank would. So are fast sums where
                            gradients are shards and lie in a list */
    MODEL_SUMS_NARROW,   /* fast, stage 3, gradients over the parameters: they cross the network in
                            bf16, and their sum, in fp32 in the order of the ranks, is rounded once */
    MODEL_SUMS_BUCKETS   /* fast, stage 0, 1 or 2: a rank sums the gradients of its micro-batches by
                            itself, and buckets of them are reduced in the last one */
};
enum model_sums model_sums(const struct model_job *job);

/* The bytes of gradients that are reduced at once, unless backward ends before: those of PyTorch's
 * DDP (bucket_cap_mb) at stage 0, and the elements of DeepSpeed's other stages
 * (reduce_bucket_size). */
enum { MODEL_DDP_BUCKET_BYTES = 25 << 20, MODEL_ZERO_BUCKET_ELEMENTS = 500000000 };

/* Returns whether a rank updates tensors whole: it has all states. */
static inline bool model_updates_whole(const struct model_job *job)
{
    return job->ranks <= 1 || (job->choices.stage == 0 && job->choices.fast);
}

/* Returns whether the operator is an update behind which each rank receives the parameter's other
 * shards. Where parameters are shared it need not, nor where it has the newest one already. */
static inline bool model_update_gathers(const struct model_job *job,
                                        const struct model_operator *op)
{
    return op->kind == MODEL_UPDATE && op->newest[0] == NO_INDEX && !model_shares_parameters(job) &&
           !model_updates_whole(job);
}

/* Where gradients lie. */
enum model_gradient {
    MODEL_GRADIENT_LIST,       /* TRACE_GRAD, fp32: fp32 precision, or several micro-batches, of all
                                  ranks together unless sums are fast */
    MODEL_GRADIENT_OVER_PARAM, /* bf16 over the parameter's bytes, after its last read */
    MODEL_GRADIENT_BUFFER,     /* bf16 in a buffer of its own: with split masters, which need the
                                  parameter's bytes, and one micro-batch. The tensor's update
                                  follows the operator that finishes the gradient, in backward:
                                  nothing is known of other gradients by then, except what a first
                                  backward told (a second backward, see below) */
};
enum model_gradient model_gradient_layout(const struct model_job *job);

/* A second backward (job.choices.second_backward) is for gradients in buffers that are clipped by
 * the norm of all. What the first backward makes is summed into the norm and dropped, except the
 * gradients of the classifier and the embedding, whose updates follow it. The second runs from the
 * final norm through the layers again. */

/* Returns the bytes of model data a parameter: 16 in fp32, with a delay 20; in bf16 14 with one
 * micro-batch and 18 with several, or 12 and 16 with split masters. */
uint32_t model_bytes_per_parameter(const struct model_job *job);
/* Sets *split to whether masters are split in the layout of that many bytes a parameter. Fails
 * (MODEL_ERROR_CONFIG) if the job's precision and micro-batches have no such layout. */
bool model_split_masters(const struct model_job *job, uint32_t bytes_per_parameter, bool *split,
                         GError **error);

/* Describes the iteration: forward and backward of every micro-batch, then one update a tensor, or
 * a block of a cut one. The host's updates come first, then the device's, each in model order; the
 * host's begin with choices.first_update and go round.
 * Updates are within backward if gradients are in buffers, or where choices.update_after says so.
 * `config` must outlive the result. Fails (MODEL_ERROR_CONFIG) if the job does not fit the model.
 */
struct model_iteration *model_iteration_new(const struct model_config *config,
                                            const struct model_job *job, GError **error);
void model_iteration_free(struct model_iteration *iteration);

#endif
