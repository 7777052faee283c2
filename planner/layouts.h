/* The layouts that the search tries. */
#ifndef PSTAR_PLANNER_LAYOUTS_H
#define PSTAR_PLANNER_LAYOUTS_H

#include "chunks/layout.h"

struct layout_choice {
    struct layout_spec spec; /* its order points into the list that holds the choice */
    bool uniform; /* what a sweep may try: given, or one size for all lists in the model's order */
    bool swept;   /* and does, where it is not told otherwise */
};

struct layout_choices {
    GArray *items;            /* struct layout_choice */
    uint32_t *matrices_first; /* [tensor_count] an order: large tensors before small ones */
};

/* Those that are given (struct named_layout); where that is NULL, every default size of a sweep and
 * sizes between them; one chunk a tensor; sizes that hold one, two and four of the model's common
 * tensors without waste; each with the same bytes in every list and, where lists differ in width,
 * with the same tensors in every list; in the model's order and with the small tensors (biases,
 * norms) packed together behind the large ones. */
struct layout_choices *layout_choices_new(const struct trace *trace, const GPtrArray *given);
void layout_choices_free(struct layout_choices *choices);

#endif
