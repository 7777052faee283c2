/* Layout files, which say which tensors lie in which chunk; docs/formats.md describes them. */
#ifndef PSTAR_CHUNKS_LAYOUT_FILE_H
#define PSTAR_CHUNKS_LAYOUT_FILE_H

#include "chunks/layout.h"

/* Reads a layout file, or the layout of a plan.json, for the tensors of a trace. Fails with
 * LAYOUT_ERROR, or with PLAN_ERROR if a plan is damaged, and names the file, the list and the
 * tensor or chunk. A tensor can be missing, twice in a list, or unknown; a list can be missing or
 * unknown; a chunk can be larger than the file allows; and lists can fail to nest. */
struct layout *layout_read(const char *path, const struct trace *trace, GError **error);

#endif
