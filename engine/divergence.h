/* Where a step's numbers stopped being finite. */
#ifndef PSTAR_ENGINE_DIVERGENCE_H
#define PSTAR_ENGINE_DIVERGENCE_H

#include "models/iteration.h"

/* The first operator of the step that left a loss, or a whole gradient, which is infinite or not a
 * number; in words, with the micro-batch or the gradient's tensor. Losses are [micro_batches],
 * `norms` [tensor_count] the sums of squares of the gradients, before clipping. A gradient comes
 * from the end of the model to its beginning, so the first that is not finite is that of the
 * operator where it began, or of the one before. NULL where all are finite; free with g_free. */
char *divergence_describe(const struct model_iteration *iteration, const double *losses,
                          const double *norms);

#endif
