/* Execution traces of PyTorch in JSON (Chakra): operators with their tensors' storages, in the
 * order in which they ran, without times. */
#ifndef PSTAR_TRACES_IMPORT_CHAKRA_H
#define PSTAR_TRACES_IMPORT_CHAKRA_H

#include "traces/import/kineto.h"

/* As a profiler would have recorded it: a storage is handed out when an operator first yields it
 * and taken back after its last use. Operators have the times that `times`, a profiler's file of
 * the same run, has for them; those that are not in it are left out, which the notes say. `times`
 * NULL: places in the order of starts and ends stand for times. Fails with TRACE_ERROR on what is
 * no such file, and where `times` has none of its operators. Free with kineto_free. */
struct kineto *chakra_read(const char *path, const struct kineto *times, GError **error);

#endif
