/* The layouts that the search tries. */
#ifndef PSTAR_PLANNER_SEARCH_LAYOUTS_H
#define PSTAR_PLANNER_SEARCH_LAYOUTS_H

#include "chunks/layout.h"

struct layout_choice {
    struct layout_spec spec; /* given, by the list that holds the choice */
    bool swept;              /* tried first: given, or a size of a sweep in every list */
    bool alike;              /* swept, with the chunks of one before it: tried by strategies alone,
                                which may look at the size that chunks were to have */
};

struct layout_choices {
    GArray *items;            /* struct layout_choice */
    GPtrArray *layouts;       /* struct layout, of the choices */
    uint32_t *matrices_first; /* [tensor_count] an order: large tensors before small ones */
};

/* Those that are given (struct named_layout); where that is NULL, every default size of a sweep and
 * sizes between them; one chunk a tensor; sizes that hold one, two and four of the model's common
 * tensors without waste; each with the same bytes in every list and, where lists differ in width,
 * with the same tensors in every list; in the model's order and with the small tensors (biases,
 * norms) packed together behind the large ones. Where there is a `start`, of this trace, it is the
 * one that is tried first. */
struct layout_choices *layout_choices_new(const struct trace *trace, const GPtrArray *given,
                                          const struct layout *start);
void layout_choices_free(struct layout_choices *choices);

#endif
