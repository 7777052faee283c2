/* A layout from a file: which tensors lie in which chunk. docs/formats.md describes it. */
#ifndef PSTAR_CHUNKS_LAYOUT_FILE_H
#define PSTAR_CHUNKS_LAYOUT_FILE_H

#include "chunks/layout.h"

/* Reads a layout file, or the layout of a plan.json, for the tensors of a trace. LAYOUT_ERROR (of a
 * damaged plan PLAN_ERROR) names the file, the list and the tensor or chunk: a tensor that is
 * missing, twice in a list, or not the trace's; a list that is missing or unknown; a chunk larger
 * than the file allows; lists that do not nest. */
struct layout *layout_read(const char *path, const struct trace *trace, GError **error);

#endif
