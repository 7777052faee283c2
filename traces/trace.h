/* One training iteration: tensors, operators, accesses and non-model memory.
 *
 * Time is counted in moments: moment m is the start of operator m. A trace has one moment per
 * operator. The trace owns its arrays, which are the data of GLib arrays. */
#ifndef PSTAR_TRACES_TRACE_H
#define PSTAR_TRACES_TRACE_H

#include "traces/ids.h"

#include <glib.h>
#include <stdbool.h>

/* The lists of model data. A tensor has the same number of elements in each list, unless several
 * ranks share it, or a list lacks it: frozen parameters have neither gradients nor states.
 * list_element_bytes says which lists exist and how wide their elements are.
 *
 * Masters and moments are the optimizer's states. If the trace has state blocks, the states of a
 * large tensor are cut into blocks, which lie in chunks, move and are updated one by one; its
 * parameter and its gradient stay whole. */
enum trace_list {
    TRACE_PARAM,      /* read by forward and backward. With one micro-batch in bf16, the gradient
                         overwrites its bytes after the last read */
    TRACE_GRAD,       /* absent where the gradient reuses the parameter's bytes */
    TRACE_MASTER,     /* fp32 copy of the parameter; absent when parameters are fp32 themselves */
    TRACE_EXP_AVG,    /* AdamW's first moment, fp32 */
    TRACE_EXP_AVG_SQ, /* AdamW's second moment, fp32 */
    TRACE_GATHERED,   /* several ranks with shared parameters: copies of whole parameters, which
                         forward and backward read; gathered from the shards of all ranks. An update
                         writes the shard, so it ends the copy: its access is TRACE_UPDATE */
    TRACE_LISTS,
    TRACE_ACTIVATION = TRACE_LISTS, /* not model data: buffers that chunks hold, so that they can
                                       leave the device (trace_held_buffers) */
    TRACE_ACCESS_LISTS
};

enum trace_mode {
    TRACE_READ,
    TRACE_UPDATE,   /* reads and writes, or writes only a part; the old bytes are needed */
    TRACE_OVERWRITE /* writes every byte of the tensor in this list, reads none. The updates of a
                       tensor's blocks may do so together: the first one then overwrites the
                       parameter, and the others update it */
};

/* A tensor of more than TRACE_UNCUT_BLOCKS state blocks is cut, into at most TRACE_MOST_BLOCKS. A
 * block has a multiple of TRACE_BLOCK_STEP elements, so that each begins at a multiple of 256 bytes
 * in every list. */
enum { TRACE_UNCUT_BLOCKS = 4, TRACE_MOST_BLOCKS = 4096, TRACE_BLOCK_STEP = 1024 };

enum trace_phase { TRACE_FORWARD, TRACE_BACKWARD, TRACE_UPDATE_PHASE };

enum trace_place { TRACE_ON_DEVICE, TRACE_ON_HOST };

/* What the ranks of a run exchange: each gets the parts of all others; each gets the values of all
 * others for its own part, which it sums; or, in a pipeline, a stage passes something to the next
 * one, or gets it from there. */
enum trace_collective { TRACE_GATHER, TRACE_REDUCE, TRACE_PASS, TRACE_COLLECTIVES };

struct trace_tensor {
    char *name;        /* as in the model's file: "h.0.attn.c_attn.weight" */
    uint64_t elements; /* > 0 */
    uint8_t absent;    /* bit 1 << list: the list lacks the tensor. The parameters lack none */
};

struct trace_access {
    tensor_id tensor; /* index into tensors; into buffers if the list is TRACE_ACTIVATION */
    uint8_t list;     /* enum trace_list */
    uint8_t mode;     /* enum trace_mode */
    uint16_t block;   /* of a state of a cut tensor: which block; else 0 */
};

/* What one rank exchanges with the others, without what it sends to itself. */
struct trace_exchange {
    uint64_t sent_bytes, received_bytes;
};

/* No layer has a higher number, so that what is counted by layers stays small. */
enum { TRACE_LAST_LAYER = 999999 };

struct trace_operator {
    char *name;    /* "forward h.0.attn.c_attn", "recompute ...", "backward ...", "update ..."; if
                      backward runs twice, also "recompute again ..." and "backward again ..." */
    uint8_t phase; /* enum trace_phase; recomputation belongs to backward */
    uint8_t place; /* enum trace_place, where the operator runs */
    int32_t layer; /* up to TRACE_LAST_LAYER; -1 if it belongs to no layer */
    uint32_t micro_batch;  /* from 0; 0 in the update */
    uint32_t first_access; /* its accesses are [first_access, first_access + access_count) */
    uint32_t access_count;
    uint64_t flops;     /* floating-point operations of its arithmetic */
    uint64_t bytes;     /* bytes read and written, each operand counted once */
    uint64_t h2d_bytes; /* activations that cross the link after an operator on the host, */
    uint64_t d2h_bytes; /* and before it; both are 0 for operators on the device */
    uint64_t
        duration_ns; /* measured (median over the traced iterations) or estimated; 0 if unknown */
    struct trace_exchange exchange[TRACE_COLLECTIVES]; /* with other ranks; 0 if there is none */
};

/* A piece of non-model data, such as an activation or a workspace. It occupies the device in the
 * moments [first, last], both included. If a chunk holds it, it must be there only when an operator
 * accesses it. */
struct trace_buffer {
    char *name;
    uint64_t bytes;           /* > 0 */
    uint32_t first;           /* moment of the operator that makes it */
    uint32_t last;            /* moment of the last operator that uses it; >= first */
    bool saved;               /* kept from forward for backward */
    uint64_t recompute_flops; /* cost of computing it again; 0 for workspaces */
};

/* How an operator uses a buffer that may leave the device between forward and backward. */
enum trace_use_kind {
    TRACE_USES,  /* in forward the buffer as it was made, if only because a variable of the program
                    has it; in backward what an earlier operator has restored */
    TRACE_SAVES, /* saves it for backward, and may use it; one operator of forward does */
    TRACE_RESTORES /* an operator of backward that gets what was saved */
};

/* An operator's use of a buffer. If a trace knows a use of a buffer, it knows all of them. */
struct trace_use {
    uint32_t buffer;
    moment_id moment;
    uint8_t kind; /* enum trace_use_kind */
};

struct trace {
    /* Metadata. A string is NULL if it is unknown. */
    char *producer;  /* program and version that wrote the trace */
    char *model;     /* "gpt2 12x768 vocabulary 50257" */
    char *precision; /* "fp32", "bf16" */
    char *machine;
    uint32_t batch;         /* sequences per micro-batch */
    uint32_t sequence;      /* tokens per sequence */
    uint32_t micro_batches; /* micro-batches per step, of all ranks */
    uint32_t ranks; /* that share them, a multiple; gradients, masters and moments are then a rank's
                       shards (traces/shard.h). 0 stands for 1 */
    bool shared_parameters; /* several ranks: parameters are shards, too */
    uint32_t stages, stage; /* of a pipeline: how many there are, and which one this is, from 0. 0
                               stages stand for 1, the whole model */
    bool whole_gradients, whole_states; /* several ranks: each has all gradients; all masters and
                                           moments */
    uint8_t list_element_bytes[TRACE_LISTS]; /* 0 if the list does not exist */
    uint64_t state_block;                    /* elements of a state block; 0 if no tensor is cut */
    uint64_t library_bytes; /* device memory held by driver and libraries; subtract it from the
                               capacity */
    bool estimated;         /* durations were computed for a platform, not measured */
    bool partial;           /* the traced run ended within the window */

    uint32_t tensor_count, operator_count, access_count, buffer_count, use_count;
    struct trace_tensor *tensors;
    struct trace_operator *operators;
    struct trace_access *accesses;
    struct trace_buffer *buffers; /* NULL with count 0 if only the sums below are known */
    struct trace_use *uses; /* of buffers that may leave the device, by buffer and then by moment;
                               NULL with count 0 if none is known */
    uint64_t *non_model_bytes; /* [operator_count] peak of live non-model bytes within the moment,
                                  without the buffers that chunks hold */
};

enum trace_error {
    TRACE_ERROR_IO,       /* cannot be read or written */
    TRACE_ERROR_NOT_OURS, /* not a trace, or damaged */
    TRACE_ERROR_VERSION,  /* a version that this program cannot read */
    TRACE_ERROR_INVALID   /* a trace that contradicts itself */
};
#define TRACE_ERROR trace_error_quark()
GQuark trace_error_quark(void);

/* Frees a trace and everything it owns. `trace` may be NULL. */
void trace_free(struct trace *trace);

/* Returns a deep copy. */
struct trace *trace_copy(const struct trace *trace);

/* Marks in [buffer_count] the buffers that chunks hold, which operators access in the list
 * TRACE_ACTIVATION. The first operator that accesses such a buffer overwrites it; after the last
 * one it is dead. Returns NULL if there is none. Free with g_free. */
uint8_t *trace_held_buffers(const struct trace *trace);

/* Sets non_model_bytes from the lifetimes of the buffers. Call it when buffers and accesses are
 * complete. */
void trace_sum_buffers(struct trace *trace);

/* Returns the duration of one of `operator_count` operators in nanoseconds: at least 1 if it is
 * above 0, and at most the longest that trace_check accepts. */
uint64_t trace_duration_ns(double seconds, uint32_t operator_count);

/* Checks that the trace has an operator; that indices, modes, lists and lifetimes are in range;
 * that the accesses of the operators follow each other without gaps; that an operator accesses a
 * list of a tensor at most once, in one block; that an access names an existing list; that held
 * buffers are accessed from their first moment to their last, by operators on the device; that uses
 * of buffers are in order, and that what is restored was saved; that
 * non_model_bytes are the sums of the buffers, if there are buffers; and that operators exchange
 * nothing where there is one rank and one stage. The message begins with
 * `origin`, usually a file name. */
bool trace_check(const struct trace *trace, const char *origin, GError **error);

/* Returns the SHA-256 of the structure in hexadecimal: tensors, names and places of operators,
 * accesses, buffers or their sums, precision, batch, sequence, micro-batches, state blocks, ranks
 * and what they share, stages; not what a rank exchanges, which depends on its number. Two runs of
 * one job have the same digest on any machine, whatever their times. Free with g_free. */
char *trace_digest(const struct trace *trace);

/* Returns whether the list exists and has the tensor. */
bool trace_has(const struct trace *trace, enum trace_list list, tensor_id tensor);

/* Returns the names of the lists that have the tensor, with spaces between them. Free with g_free.
 */
char *trace_lists_of(const struct trace *trace, tensor_id tensor);

/* Returns whether a rank has whole tensors in the list. If false, it has shards of them. */
bool trace_list_is_whole(const struct trace *trace, enum trace_list list);

/* Returns into how many blocks a list cuts a tensor: 1 unless the list is one of states and the
 * tensor, which has states, is cut. */
uint32_t trace_blocks(const struct trace *trace, enum trace_list list, tensor_id tensor);
/* Returns whether the states of the tensor are cut into blocks. */
bool trace_is_cut(const struct trace *trace, tensor_id tensor);
/* Returns how many blocks of `state_block` elements a tensor has: 1 if it is not cut. */
uint32_t trace_blocks_of(uint64_t elements, uint64_t state_block);

/* Returns the elements that a block has in a list; without blocks those of the tensor. The last
 * block of a tensor may have fewer than the others. */
uint64_t trace_block_elements(const struct trace *trace, enum trace_list list, tensor_id tensor,
                              uint32_t block);
/* The same in bytes; 0 if the list does not exist. */
uint64_t trace_block_bytes(const struct trace *trace, enum trace_list list, tensor_id tensor,
                           uint32_t block);

/* Returns the name of a tensor or of one of its blocks, "wte.weight" or "wte.weight[3]". The caller
 * frees it with g_free. */
char *trace_block_name(const struct trace *trace, enum trace_list list, tensor_id tensor,
                       uint32_t block);

/* Returns the elements of a tensor for which a rank has room in a list: all, or a shard's; none if
 * the list lacks the tensor. */
uint64_t trace_list_elements(const struct trace *trace, enum trace_list list, tensor_id tensor);
/* The same in bytes; 0 if the list does not exist. */
uint64_t trace_list_bytes(const struct trace *trace, enum trace_list list, tensor_id tensor);

/* Returns what the rank exchanges in the iteration's operators, in one collective. */
struct trace_exchange trace_exchanged(const struct trace *trace, enum trace_collective collective);
/* Returns what the rank exchanges in an operator, in all collectives. */
struct trace_exchange trace_operator_exchange(const struct trace_operator *op);

/* Returns whether the operator is a reduction: an operator of the device that the network's queue
 * runs (chunks/residency/mover.h). */
bool trace_operator_reduces(const struct trace_operator *op);

/* Returns the most micro-batches that are between their first operator and the last one of their
 * backward at a time. Those whose backward comes first are in flight when the iteration begins. */
uint32_t trace_most_in_flight(const struct trace *trace);

/* Returns the bytes of model data in all lists, without the padding of chunks and without gathered
 * copies. */
uint64_t trace_model_bytes(const struct trace *trace);

/* Return short names for tables, files and messages: "param", "grad", "master", "exp_avg",
 * "exp_avg_sq", "gathered", "activation"; "read", "update", "overwrite"; "forward", "backward",
 * "update"; "device", "host"; "gather", "reduce", "pass"; "use", "save", "restore". */
const char *trace_list_name(enum trace_list list);
/* Returns the names of all lists of model data, with ", " between them. Free with g_free. */
char *trace_list_names(void);
const char *trace_mode_name(enum trace_mode mode);
const char *trace_phase_name(enum trace_phase phase);
const char *trace_place_name(enum trace_place place);
const char *trace_collective_name(enum trace_collective collective);
const char *trace_use_name(enum trace_use_kind kind);

/* Convert a name to its number. Return false and leave the number unchanged if the name is unknown.
 * trace_list_parse knows the lists of model data; trace_access_list_parse knows "activation", too.
 */
bool trace_list_parse(const char *name, uint8_t *list);
bool trace_access_list_parse(const char *name, uint8_t *list);
bool trace_mode_parse(const char *name, uint8_t *mode);
bool trace_phase_parse(const char *name, uint8_t *phase);
bool trace_place_parse(const char *name, uint8_t *place);
bool trace_collective_parse(const char *name, uint8_t *collective);
bool trace_use_parse(const char *name, uint8_t *kind);

#endif
