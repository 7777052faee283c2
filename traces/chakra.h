/* Execution traces of PyTorch in JSON (Chakra): operators with their tensors' storages, in the
 * order in which they ran, without times. */
#ifndef PSTAR_TRACES_CHAKRA_H
#define PSTAR_TRACES_CHAKRA_H

#include "traces/kineto.h"

/* As a profiler would have recorded it: places in the order of starts and ends stand for times, and
 * a storage is handed out when an operator first yields it and taken back after its last use. Fails
 * with TRACE_ERROR on what is no such file. Free with kineto_free. */
struct kineto *chakra_read(const char *path, GError **error);

#endif
