/* What a run chose that its trace is of: recomputation, offloading, what runs on the host, and how
 * masters lie. */
#ifndef PSTAR_TRACES_CHOICES_H
#define PSTAR_TRACES_CHOICES_H

#include "traces/trace.h"

struct run_choices {
    uint32_t layer_count, tensor_count;
    uint8_t *recompute;   /* [layer_count] 1: the layer's activations are computed again */
    uint8_t *offload;     /* [layer_count] 1: chunks hold what the layer saves for backward */
    uint8_t *host_update; /* [tensor_count] 1: the tensor's optimizer runs on the host */
    bool host_embedding;  /* the embedding runs on the host */
    bool split_masters;   /* masters lie in halves, of which the parameter is one */
    bool second_backward; /* first for the gradient's norm, then for the updates */
};

/* Nothing chosen: all 0. */
struct run_choices *run_choices_new(uint32_t layer_count, uint32_t tensor_count);

/* As the operators show them: a layer is recomputed where an operator of it is named
 * "recompute ..."; it is offloaded where an operator of its backward accesses activations; the
 * place of a tensor's update is its operator's; an operator of the forward phase on the host is the
 * embedding; masters of 2 bytes are halves; one named "backward again ..." is of a second backward.
 * The caller frees the result with run_choices_free. */
struct run_choices *run_choices_of(const struct trace *trace);
void run_choices_free(struct run_choices *choices); /* NULL is allowed */
bool run_choices_equal(const struct run_choices *a, const struct run_choices *b);

/* Layers as --recompute and --offload-activations take them: "all", "none", or numbers and ranges,
 * "0,2,5-7". The caller frees the text with g_free. Parsing sets `marks` [count]; false where the
 * text is no such list.
 */
char *run_layers_format(const uint8_t *marks, uint32_t count);
bool run_layers_parse(const char *text, uint8_t *marks, uint32_t count);

/* "recomputes 2 of 12 layers, updates all on the host", for people; free with g_free. */
char *run_choices_describe(const struct run_choices *choices);

#endif
