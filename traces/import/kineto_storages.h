/* Which storages parameters lie in, where the trace tells storages. */
#ifndef PSTAR_TRACES_IMPORT_KINETO_STORAGES_H
#define PSTAR_TRACES_IMPORT_KINETO_STORAGES_H

#include "traces/import/kineto_parts.h"

struct kineto_storages;

/* `parts` outlives it. Free with kineto_storages_free. */
struct kineto_storages *kineto_storages_new(const struct kineto_parts *parts);
void kineto_storages_free(struct kineto_storages *storages);

/* Finds the storage of so many bytes that an operator reads, which no operator ever yielded and no
 * other parameter has, and adds the tensor's reads in forward and backward. False: there is none.
 */
bool kineto_storages_add_reads(struct kineto_storages *storages, uint32_t work, uint64_t bytes,
                               uint32_t tensor);

#endif
