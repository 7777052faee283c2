/* What happened in one training iteration: tensors, operators, accesses, non-model memory.
 *
 * A trace in memory describes one iteration. Its time is counted in moments: moment m is the start
 * of operator m, and there are as many moments as operators. Arrays are GLib arrays' data, owned by
 * the trace. */
#ifndef PSTAR_TRACES_TRACE_H
#define PSTAR_TRACES_TRACE_H

#include "traces/ids.h"

#include <glib.h>
#include <stdbool.h>

/* The lists of model data. A tensor has the same number of elements in each list that exists;
 * list_element_bytes says which exist and how wide an element is there. */
enum trace_list {
    TRACE_PARAM,      /* what forward and backward read; with one micro-batch in bf16 its bytes are
                         overwritten by the gradient after the last read */
    TRACE_GRAD,       /* absent where the gradient reuses the parameter's bytes */
    TRACE_MASTER,     /* fp32 copy of the parameter; absent when parameters are fp32 themselves */
    TRACE_EXP_AVG,    /* AdamW's first moment, fp32 */
    TRACE_EXP_AVG_SQ, /* AdamW's second moment, fp32 */
    TRACE_LISTS,
    TRACE_ACTIVATION = TRACE_LISTS, /* no list of model data: buffers that chunks hold, so that they
                                       may leave the device (trace_held_buffers) */
    TRACE_ACCESS_LISTS
};

enum trace_mode {
    TRACE_READ,
    TRACE_UPDATE,   /* reads and writes, or writes a part: the old bytes are needed */
    TRACE_OVERWRITE /* writes every byte of the tensor in this list and reads none */
};

enum trace_phase { TRACE_FORWARD, TRACE_BACKWARD, TRACE_UPDATE_PHASE };

enum trace_place { TRACE_ON_DEVICE, TRACE_ON_HOST };

struct trace_tensor {
    char *name;        /* as in the model's file: "h.0.attn.c_attn.weight" */
    uint64_t elements; /* > 0 */
};

struct trace_access {
    uint32_t tensor; /* index into tensors; of TRACE_ACTIVATION, into buffers */
    uint8_t list;    /* enum trace_list */
    uint8_t mode;    /* enum trace_mode */
};

struct trace_operator {
    char *name;    /* "forward h.0.attn.c_attn", "recompute ...", "backward ...", "update ...";
                      where backward runs twice, "recompute again ...", "backward again ..." */
    uint8_t phase; /* enum trace_phase; recomputation belongs to backward */
    uint8_t place; /* enum trace_place: where it runs */
    int32_t layer; /* -1: none */
    uint32_t micro_batch;  /* from 0; 0 in the update */
    uint32_t first_access; /* its accesses: [first_access, first_access + access_count) */
    uint32_t access_count;
    uint64_t flops;     /* floating-point operations of its arithmetic */
    uint64_t bytes;     /* read and written by it, operands once each */
    uint64_t h2d_bytes; /* activations that cross the link for an operator on the host: after it, */
    uint64_t d2h_bytes; /* and before it; 0 for operators on the device */
    uint64_t
        duration_ns; /* measured (median over the traced iterations) or estimated; 0: unknown */
};

/* A piece of non-model data: an activation, a workspace. It occupies the device in the moments
 * [first, last], both included; if a chunk holds it, it need only be there when an operator
 * accesses it. */
struct trace_buffer {
    char *name;
    uint64_t bytes;           /* > 0 */
    uint32_t first;           /* moment of the operator that makes it */
    uint32_t last;            /* moment of the last operator that uses it; >= first */
    bool saved;               /* kept from forward for backward */
    uint64_t recompute_flops; /* what making it again would cost; 0 for workspaces */
};

struct trace {
    /* meta; strings may be NULL where unknown */
    char *producer;  /* program and version that made it */
    char *model;     /* "gpt2 12x768 vocabulary 50257" */
    char *precision; /* "fp32", "bf16" */
    char *machine;
    uint32_t batch;                          /* sequences a micro-batch */
    uint32_t sequence;                       /* tokens a sequence */
    uint32_t micro_batches;                  /* micro-batches a step */
    uint8_t list_element_bytes[TRACE_LISTS]; /* 0: the list does not exist */
    uint64_t
        library_bytes; /* device memory that driver and libraries hold; subtract from capacity */
    bool estimated;    /* durations were computed for a platform, not measured */
    bool partial;      /* the traced run ended inside the window */

    uint32_t tensor_count, operator_count, access_count, buffer_count;
    struct trace_tensor *tensors;
    struct trace_operator *operators;
    struct trace_access *accesses;
    struct trace_buffer *buffers; /* NULL, count 0: only the sums below are known */
    uint64_t *non_model_bytes; /* [operator_count] greatest sum of live non-model bytes within the
                                  moment, less the buffers that chunks hold */
};

enum trace_error {
    TRACE_ERROR_IO,       /* cannot be read or written */
    TRACE_ERROR_NOT_OURS, /* no trace at all, or damaged */
    TRACE_ERROR_VERSION,  /* of a version that this program does not read */
    TRACE_ERROR_INVALID   /* a trace whose contents contradict themselves */
};
#define TRACE_ERROR trace_error_quark()
GQuark trace_error_quark(void);

/* Frees a trace and all it owns; NULL is allowed. */
void trace_free(struct trace *trace);

/* The same again, in memory of its own. */
struct trace *trace_copy(const struct trace *trace);

/* Marks, [buffer_count], the buffers that chunks hold: those that operators access, in the list
 * TRACE_ACTIVATION. Such a buffer is overwritten by the first operator that accesses it, and
 * nothing of it is alive after the last. NULL where there is none; free with g_free. */
uint8_t *trace_held_buffers(const struct trace *trace);

/* Sets non_model_bytes from the lifetimes of the buffers. Call once they and the accesses are
 * complete. */
void trace_sum_buffers(struct trace *trace);

/* Checks that there is an operator, that every index, mode, list and lifetime is in range, that the
 * operators' accesses follow each other without gaps, that each operator accesses a tensor's list
 * at most once, that an access names an existing list, that held buffers are accessed from their
 * first moment to their last by operators on the device, and that non_model_bytes are the buffers'
 * sums where there are buffers. `origin` (a file's name) begins the message. */
bool trace_check(const struct trace *trace, const char *origin, GError **error);

/* SHA-256, in hexadecimal, of the structure alone: tensors, operators' names and places, accesses,
 * buffers or their sums, precision, batch, sequence, micro-batches. Two runs of one job have the
 * same digest whatever the machine and its timings. Free with g_free. */
char *trace_digest(const struct trace *trace);

/* Bytes of model data in all lists, padding of chunks not included. */
uint64_t trace_model_bytes(const struct trace *trace);

/* Short names for tables, files and messages: "param", "grad", "master", "exp_avg", "exp_avg_sq",
 * "activation";
 * "read", "update", "overwrite"; "forward", "backward", "update"; "device", "host". */
const char *trace_list_name(enum trace_list list);
const char *trace_mode_name(enum trace_mode mode);
const char *trace_phase_name(enum trace_phase phase);
const char *trace_place_name(enum trace_place place);

/* From a name back to its number; false, and the number as it was, where there is no such name.
 * Lists are those of model data, of an access also "activation". */
bool trace_list_parse(const char *name, uint8_t *list);
bool trace_access_list_parse(const char *name, uint8_t *list);
bool trace_mode_parse(const char *name, uint8_t *mode);
bool trace_phase_parse(const char *name, uint8_t *phase);
bool trace_place_parse(const char *name, uint8_t *place);

#endif
