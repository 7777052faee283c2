/* Where things begin in a plan's host pool. */
#ifndef PSTAR_ENGINE_POOL_CUTS_H
#define PSTAR_ENGINE_POOL_CUTS_H

#include "chunks/plan.h"

/* The beginnings of tensors, of chunks and of what lies behind each chunk: uint64_t addresses in
 * ascending order, none twice. Free with g_array_unref. */
GArray *pool_cuts(const struct plan *plan);

#endif
