/* Reads the JSON of PyTorch's profiler (Kineto) and makes a training iteration of it. Chakra
 * execution traces are read into the same structs. Internal to traces/import/. */
#ifndef PSTAR_TRACES_IMPORT_KINETO_H
#define PSTAR_TRACES_IMPORT_KINETO_H

#include "traces/activity/activity.h"
#include "traces/records.h"
#include "traces/trace.h"

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define KINETO_NO_SEQUENCE UINT64_MAX

/* Prefixes of range names: the execution of an autograd node, and the optimizer's step. */
#define KINETO_NODE      "autograd::engine::evaluate_function: "
#define KINETO_OPTIMIZER "Optimizer.step#"

/* A range of a host thread: a PyTorch operator or an annotation of the program. */
struct kineto_range {
    uint64_t start_ns, end_ns;
    uint64_t number; /* of the operator in its process; an execution trace has the same number. 0 if
                        unknown */
    uint64_t sequence; /* of the autograd node that it creates or executes, or KINETO_NO_SEQUENCE */
    uint32_t process, thread;
    uint32_t name; /* string */
    uint32_t
        shape; /* string, "[512, 64]", shape of its first input if shapes were recorded, else 0 */
    uint32_t second_shape; /* shape of its second input */
    uint32_t type;         /* string, "float", type of its first input */
    uint64_t elements;     /* of its first input; 0 if shapes were not recorded */
    bool annotation;
};

/* An allocation or a deallocation of PyTorch's allocator. */
struct kineto_memory {
    uint64_t time_ns;
    uint64_t address;
    int64_t bytes; /* < 0 for a deallocation */
    uint64_t
        total_bytes;     /* allocated at that time; on some devices counted since profiling began */
    int32_t device_type; /* 0 for the host, 1 for CUDA */
    uint32_t device;
    uint32_t process;
};

/* Use of a storage as an input or output of an operator. */
struct kineto_use {
    uint64_t time_ns; /* start of the operator */
    uint64_t storage;
    uint64_t bytes; /* of the storage, as far as this use reaches */
    bool output;    /* the operator returned it */
};

/* What a collective does with the parts of all ranks: nobody knows; all ranks get the sums of all
 * parts; all ranks get all parts; each rank gets the sum of its part. */
enum kineto_exchange { KINETO_UNKNOWN, KINETO_SUM, KINETO_GATHER, KINETO_SCATTER };

/* A kernel of NCCL or RCCL, with what PyTorch says of its collective. */
struct kineto_collective {
    uint64_t start_ns, end_ns;
    uint64_t elements; /* of all parts together */
    uint64_t bytes;    /* of these */
    uint32_t ranks;
    uint8_t exchange; /* enum kineto_exchange; if it is unknown, so are elements, bytes and ranks */
};

struct kineto {
    struct string_table *strings;
    GArray *ranges;      /* struct kineto_range, ordered by start, longer ones first */
    GArray *memory;      /* struct kineto_memory, ordered by time */
    GArray *kernels;     /* struct kernel_record, ordered by start; the next arrays hold other
                            activity records */
    GArray *collectives; /* struct kineto_collective, in the order of the file */
    GArray *launches;
    GArray *copies;
    GArray *sets;
    GArray *syncs;
    GArray *calls;
    GArray *allocations; /* struct memory_record, the part of `memory` on devices */
    GArray *gpus;        /* struct gpu_record, which own their strings */
    GArray *uses;     /* struct kineto_use, ordered by time; empty if storages were not recorded */
    bool shapes;      /* shapes were recorded */
    bool untimed;     /* times only give the order of starts and ends */
    GPtrArray *notes; /* char *, what the file says that it lacks */
    GHashTable *ignored; /* ignored categories of ranges (char *) with their counts */
};

struct kineto *kineto_new(void);

/* Fails with TRACE_ERROR if the file is not such a file. Free with kineto_free. */
struct kineto *kineto_read(const char *path, GError **error);
void kineto_free(struct kineto *kineto);

/* Returns the device activity. `kineto` keeps the arrays. */
struct activity kineto_activity(const struct kineto *kineto);

/* Sorts ranges and memory events, which arrive in file order. */
void kineto_sort(struct kineto *kineto);

/* Return the string id of the shape in shapes[index], such as "[512, 64]", and its number of
 * elements. 0 if there is no shape. */
uint32_t kineto_shape(struct kineto *kineto, const json_t *shapes, size_t index);
uint64_t kineto_elements(const json_t *shapes, size_t index);

/* Converts a member in microseconds to ns; 0 if it is missing. */
uint64_t kineto_event_ns(const json_t *event, const char *key);

/* Returns the end of the event. */
uint64_t kineto_event_end_ns(const json_t *event);

/* Return a non-negative integer; 0 if it is missing or too large. */
uint64_t kineto_event_number(const json_t *object, const char *key);
uint32_t kineto_event_number32(const json_t *object, const char *key);

/* Returns "" if the text is missing. */
const char *kineto_event_text(const json_t *object, const char *key);

/* An outermost operator: of forward, a backward node, or of the update. */
struct kineto_work {
    const struct kineto_range *range;
    uint64_t start_ns;  /* of the host; it lasts until the next work begins */
    uint64_t end_ns;    /* when the device had finished it and everything before it, except for
                           collectives */
    uint64_t waited_ns; /* of the time since the end of the work before it: only collectives ran */
    uint64_t sequence;  /* of the autograd node, or KINETO_NO_SEQUENCE */
    uint32_t micro_batch; /* from 0 */
    uint8_t phase;        /* enum trace_phase */
    bool works;           /* it asked the device for work */
};

/* A gradient that was added to the gradient of its parameter. */
struct kineto_gradient {
    uint64_t sequence; /* of the node that computed it */
    uint64_t elements;
    uint32_t work; /* index of that node's work, or of the last work before it */
    uint32_t shape, type;
};

struct kineto_span {
    uint64_t start_ns, end_ns;
};

struct kineto_step {
    uint64_t start_ns, end_ns; /* of the host */
    uint64_t begin_ns;         /* when the device had finished everything before the step */
    uint64_t highest_forward;  /* highest sequence number in any part of forward; 0 if none has a
                                  number */
    uint32_t micro_batches;
    uint32_t inputs;        /* gradients of the inputs of reentrant checkpoints, which are no
                               parameters */
    uint32_t collectives;   /* kernels that exchange data with other ranks */
    uint64_t collective_ns; /* of these kernels together */
    GArray *works;          /* struct kineto_work */
    GArray *gradients;      /* struct kineto_gradient, in the order in which they were added */
    GArray *alone;          /* struct kineto_span, in order: when only collectives ran */
};

/* Finds the steps that have a backward pass, in order. Returns an array of struct kineto_step,
 * freed by g_ptr_array_unref. Sets *marked_by to a literal that says what marked the steps.
 * `kineto` must outlive the result. */
GPtrArray *kineto_steps(const struct kineto *kineto, const char **marked_by);

/* Sets end_ns, waited_ns and `works` of all works, begin_ns, the collectives, and when they ran
 * alone. If no kernel was recorded, the host does all the work. */
void kineto_step_times(const struct kineto *kineto, struct kineto_step *step);

/* Returns how much of a time only collectives ran. */
uint64_t kineto_step_alone_ns(const struct kineto_step *step, uint64_t from_ns, uint64_t until_ns);

static inline struct kineto_work *kineto_work_at(const struct kineto_step *step, uint32_t index)
{
    return &g_array_index(step->works, struct kineto_work, index);
}

/* An iteration that is being made from a step. Arrays [works] have one entry per element of
 * step->works. */
struct kineto_parts {
    const struct kineto *kineto;
    const struct kineto_step *step;
    struct trace *trace;
    GPtrArray *notes; /* char * */
    uint32_t *moment; /* [works] index of the operator that the work became part of; for the update,
                         the first operator of the update */
    uint64_t *time_ns; /* [works] duration */
    uint32_t update;   /* first work of the update; the number of works if there is no update */
    uint32_t trained;  /* tensors with gradients, which come first; the others are frozen */
    GArray *accesses;  /* struct kineto_access */
    GArray *exchanges; /* struct kineto_collective, by start: those of the step; empty unless all of
                          them are known */
};

struct kineto_access {
    uint32_t work;
    struct trace_access access;
};

/* Finds parameters by the gradients added to theirs, and the operators that use them. Sets tensors,
 * list widths, and the accesses of forward and backward. Returns false after a note if the sizes
 * are unknown. */
bool kineto_find_tensors(struct kineto_parts *parts);

/* Finds non-model data from allocations and deallocations. */
void kineto_find_buffers(struct kineto_parts *parts);

/* Finds the step's exchanges, if all of its collectives are those of data-parallel training and
 * PyTorch says how many bytes they have among how many ranks. The trace becomes one of several
 * ranks then, which share what the exchanges tell. */
void kineto_find_exchanges(struct kineto_parts *parts);

/* Returns the exchange, by start. */
static inline const struct kineto_collective *kineto_exchange_at(const struct kineto_parts *parts,
                                                                 guint index)
{
    return &g_array_index(parts->exchanges, struct kineto_collective, index);
}

/* Makes operators of the exchanges. */
void kineto_add_exchanges(struct kineto_parts *parts);

/* Makes an iteration of the last step, with the median times of all steps that consist of the same
 * operators. Appends to `notes` (char *) how it was found and what is missing. Returns NULL, with
 * the reason in the notes, if the recording does not allow it. Free with trace_free. */
struct trace *kineto_iteration(const struct kineto *kineto, GPtrArray *notes);

/* Reads an execution trace of PyTorch in JSON (Chakra), which has operators with the storages of
 * their tensors in execution order, but no times. A storage is allocated when an operator first
 * returns it and freed after its last use. Operators get their times from `times`, a profiler's
 * file of the same run; operators that are not in it are left out, with a note. If `times` is NULL,
 * positions in the order of starts and ends replace times. Fails with TRACE_ERROR if the file is
 * not such a file, or if `times` has none of its operators. Free with kineto_free. */
struct kineto *chakra_read(const char *path, const struct kineto *times, GError **error);

#endif
