/* Settings of other systems that come closest to a plan, for those who do not run our engine. */
#ifndef PSTAR_PLANNER_ANSWERS_EMIT_H
#define PSTAR_PLANNER_ANSWERS_EMIT_H

#include "chunks/plan.h"

#include <stdio.h>

/* A plan in the few figures that other systems' settings have. */

struct plan_summary {
    bool parameters_leave;      /* some parameter is not on the device all the time */
    double states_on_host;      /* share of the optimizer states' bytes whose home is the host */
    double updated_on_host;     /* share of the elements */
    uint64_t group_elements;    /* of the largest chunk group */
    uint64_t live_elements;     /* most parameters on the device at a time */
    uint64_t gathered_elements; /* parameters that come to the device in an iteration */
    uint64_t held_bytes;        /* most of parameters and gradients on the device at a time */
    uint64_t
        stay_elements; /* every parameter with at most this many elements stays on the device */
    uint64_t ahead_elements; /* most parameters that were fetched and not used yet */
    uint32_t layers, recomputed_layers;
    uint64_t offloaded_bytes; /* activations that come back to the device */
    bool host_embedding;
};

/* Summarises a plan that has passed plan_check against the trace. */
struct plan_summary plan_summary_of(const struct plan *plan, const struct trace *trace);

/* A module of the model that other systems gather, move and update as one. */
struct emit_unit {
    char *module;       /* "model.layers.3"; "" for what no numbered layer has */
    uint64_t elements;  /* parameters */
    uint32_t first_use; /* moment */
    bool offload;      /* some of its parameters or states are on the host, for a while or always */
    bool recompute;    /* backward computes its activations again */
    GArray *offloaded; /* uint64_t: the bytes of each tensor that a forward pass saves and the host
                          keeps until backward, the largest first */
};

/* Returns the units (struct emit_unit): first what no layer has, then the layers, as tensors' names
 * number them, in the order of forward. Free with g_ptr_array_unref. */
GPtrArray *emit_units(const struct plan *plan, const struct trace *trace);

/* Returns Python that shards a model into these units. Free with g_free. */
char *emit_fsdp2_text(const GPtrArray *units, bool ahead);

/* Marks in [chunk_count] the chunks that are not on the device at some time. Free with g_free. */
uint8_t *plan_chunks_that_leave(const struct plan *plan);

struct emitted {
    char *text;      /* JSON, or Python */
    char *predicted; /* a line about what the system will do with the settings; NULL if unknown */
    GPtrArray
        *lost; /* char *: one line for each property of the plan that the settings cannot express */
};

/* Returns whether the format is known: "deepspeed" (a ds_config.json of ZeRO with offloading),
 * "fsdp" (a configuration of Hugging Face Accelerate for PyTorch's FSDP2) or "fsdp2" (Python that
 * calls fully_shard). */
bool emit_knows(const char *format);

/* The format is known, and the plan has passed plan_check against the trace. Free the result with
 * emitted_free. */
struct emitted *emit_settings(const char *format, const struct plan *plan,
                              const struct trace *trace);
void emitted_free(struct emitted *emitted);

/* Returns the path of the settings in the plan's folder. The format is known. Free with g_free. */
char *emit_path(const char *plan_path, const char *format);

/* Writes the settings there. Other settings that are there first become FILE.old, unless there is
 * such a file. Prints to `out` where all of them are and what the settings cannot express. */
bool emit_beside(const char *plan_path, const char *format, const struct plan *plan,
                 const struct trace *trace, FILE *out, GError **error);

#endif
