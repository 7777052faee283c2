/* The JSON of PyTorch's profiler (Kineto): Chrome trace events whose categories tell operators,
 * kernels, copies, calls and allocations apart. */
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

/* How names of ranges begin: the execution of a node of autograd, the optimizer's step. */
#define KINETO_NODE      "autograd::engine::evaluate_function: "
#define KINETO_OPTIMIZER "Optimizer.step#"

/* A range of a host thread: an operator of PyTorch, or what the program annotated. */
struct kineto_range {
    uint64_t start_ns, end_ns;
    uint64_t number; /* of the operator in its process, by which an execution trace has it, too; 0:
                        unknown */
    uint64_t sequence; /* of the autograd node that it makes or executes; or KINETO_NO_SEQUENCE */
    uint32_t process, thread;
    uint32_t name; /* string */
    uint32_t
        shape; /* string, "[512, 64]": of its first input, where shapes were recorded; else 0 */
    uint32_t second_shape; /* of its second */
    uint32_t type;         /* string, "float": of its first input */
    uint64_t elements;     /* of its first input; 0 where no shapes were recorded */
    bool annotation;
};

/* A change of what PyTorch's allocator hands out. */
struct kineto_memory {
    uint64_t time_ns;
    uint64_t address;
    int64_t bytes;        /* < 0: a deallocation */
    uint64_t total_bytes; /* handed out then; counted since profiling began, on some devices */
    int32_t device_type;  /* 0: the host, 1: CUDA */
    uint32_t device;
    uint32_t process;
};

/* An operator's input or output lies in a storage. */
struct kineto_use {
    uint64_t time_ns; /* of the operator's start */
    uint64_t storage;
    uint64_t bytes; /* of the storage, as far as it is used here */
    bool output;    /* the operator made the storage */
};

struct kineto {
    struct string_table *strings;
    GArray *ranges;  /* struct kineto_range, by start, the longer first */
    GArray *memory;  /* struct kineto_memory, by time */
    GArray *kernels; /* struct kernel_record, by start; and so on */
    GArray *launches;
    GArray *copies;
    GArray *sets;
    GArray *syncs;
    GArray *calls;
    GArray *allocations; /* struct memory_record: of `memory`, those on devices */
    GArray *gpus;        /* struct gpu_record, which own their strings */
    GArray *uses;        /* struct kineto_use, by time; empty where storages were not recorded */
    bool shapes;         /* were recorded */
    bool untimed;        /* times are places in the order of starts and ends alone */
    GPtrArray *notes;    /* char *: what the file says that it lacks */
    GHashTable *ignored; /* categories of ranges that are not read (char *), and how many */
};

struct kineto *kineto_new(void);

/* Fails with TRACE_ERROR on what is no such file. Free with kineto_free. */
struct kineto *kineto_read(const char *path, GError **error);
void kineto_free(struct kineto *kineto);

/* What the device did; the arrays stay those of `kineto`. */
struct activity kineto_activity(const struct kineto *kineto);

/* Sorts the ranges and the memory's events, whose order is that of a file. */
void kineto_sort(struct kineto *kineto);

/* The id of the text of a list's member of a list, "[512, 64]", and how many elements that shape
 * has; 0: there is none. */
uint32_t kineto_shape(struct kineto *kineto, const json_t *shapes, size_t index);
uint64_t kineto_elements(const json_t *shapes, size_t index);

/* The fields of one event of a PyTorch profiler's JSON. */

/* ns of a member in microseconds; 0 where there is none. */
uint64_t kineto_event_ns(const json_t *event, const char *key);

/* Where the event ends. */
uint64_t kineto_event_end_ns(const json_t *event);

/* A whole number; 0 where there is none, or none that fits. */
uint64_t kineto_event_number(const json_t *object, const char *key);
uint32_t kineto_event_number32(const json_t *object, const char *key);

/* "" where there is none. */
const char *kineto_event_text(const json_t *object, const char *key);

/* The training steps in a PyTorch profiler's trace: which operators each consists of. */

/* An operator that is not part of another: of forward, a node of backward, or of the update. */
struct kineto_work {
    const struct kineto_range *range;
    uint64_t start_ns;    /* of the host; it lasts until the next one's */
    uint64_t end_ns;      /* of the device's work, and of all before it */
    uint64_t sequence;    /* or KINETO_NO_SEQUENCE */
    uint32_t micro_batch; /* from 0 */
    uint8_t phase;        /* enum trace_phase */
    bool works;           /* the device had something to do for it */
};

/* A gradient that was added to its parameter's. */
struct kineto_gradient {
    uint64_t sequence; /* of the node that it came from */
    uint64_t elements;
    uint32_t work; /* that node's, or the last before it: an index */
    uint32_t shape, type;
};

struct kineto_step {
    uint64_t start_ns, end_ns; /* of the host */
    uint64_t begin_ns;         /* of the device: when it had done all that came before */
    uint64_t highest_forward;  /* sequence number in any part of forward; 0: none has a number */
    uint32_t micro_batches;
    GArray *works;     /* struct kineto_work */
    GArray *gradients; /* struct kineto_gradient, as they were added */
};

/* The steps that have a backward pass, in order: GPtrArray of struct kineto_step, which
 * g_ptr_array_unref frees. *marked_by is what told them apart, a literal. `kineto` outlives it. */
GPtrArray *kineto_steps(const struct kineto *kineto, const char **marked_by);

/* Sets end_ns and `works` of all works, and begin_ns. Where no kernel was recorded the host does
 * all work. */
void kineto_step_times(const struct kineto *kineto, struct kineto_step *step);

static inline struct kineto_work *kineto_work_at(const struct kineto_step *step, uint32_t index)
{
    return &g_array_index(step->works, struct kineto_work, index);
}

/* The parts that an iteration is put together from. For traces/kineto_*.c alone. */

/* An iteration that is being made of a step. Arrays with an entry a work have NULL-free indices of
 * step->works. */
struct kineto_parts {
    const struct kineto *kineto;
    const struct kineto_step *step;
    struct trace *trace;
    GPtrArray *notes;  /* char * */
    uint32_t *moment;  /* [works] of the operator that it became part of; the update's: the first */
    uint64_t *time_ns; /* [works] that it took */
    uint32_t update;   /* the first work of the update; the number of works: there is none */
    GArray *accesses;  /* struct kineto_access */
};

struct kineto_access {
    uint32_t work;
    struct trace_access access;
};

/* Finds the parameters by the gradients that were added to theirs, and who uses them: tensors, list
 * widths, and accesses of forward and backward. False after a note where sizes are not known. */
bool kineto_find_tensors(struct kineto_parts *parts);

/* Non-model data, by what the allocator handed out and took back. */
void kineto_find_buffers(struct kineto_parts *parts);

/* A training iteration from a PyTorch profiler's trace. */

/* The last step, with the median times of all that consist of the same operators. Adds to `notes`
 * (char *) how it was recognised and what could not be. NULL, with the reason among the notes,
 * where no iteration can be made of what was recorded. Free with trace_free. */
struct trace *kineto_iteration(const struct kineto *kineto, GPtrArray *notes);

/* Execution traces of PyTorch in JSON (Chakra): operators with their tensors' storages, in the
 * order in which they ran, without times. */

/* As a profiler would have recorded it: a storage is handed out when an operator first yields it
 * and taken back after its last use. Operators have the times that `times`, a profiler's file of
 * the same run, has for them; those that are not in it are left out, which the notes say. `times`
 * NULL: places in the order of starts and ends stand for times. Fails with TRACE_ERROR on what is
 * no such file, and where `times` has none of its operators. Free with kineto_free. */
struct kineto *chakra_read(const char *path, const struct kineto *times, GError **error);

#endif
