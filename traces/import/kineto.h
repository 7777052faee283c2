/* The JSON of PyTorch's profiler (Kineto): Chrome trace events whose categories tell operators,
 * kernels, copies, calls and allocations apart. */
#ifndef PSTAR_TRACES_IMPORT_KINETO_H
#define PSTAR_TRACES_IMPORT_KINETO_H

#include "traces/activity/activity.h"
#include "traces/records.h"

#include <jansson.h>
#include <stdbool.h>

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

/* Of one event, a category that kineto_read knows: adds it to `kineto`. For kineto_read alone. */
bool kineto_take_device(struct kineto *kineto, const char *category, const json_t *event);

#endif
