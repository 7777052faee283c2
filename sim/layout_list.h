/* The layouts that a person asks for on the command line. */
#ifndef PSTAR_SIM_LAYOUT_LIST_H
#define PSTAR_SIM_LAYOUT_LIST_H

#include "chunks/layout.h"

struct named_layout {
    struct layout *layout;
    char *name; /* a file's, or "param=64MiB,grad=32MiB"; NULL: one size for all lists */
};

/* What --chunk-size and --layout say; either may be NULL. A layout file is one layout, and leaves
 * no chunk sizes. Chunk sizes are separated by ';': each is what sizes_parse_chunks takes, where
 * NULL is its default, or a size a list, as chunk_sizes_parse takes it. Returns an array of struct
 * named_layout, one at least, which the caller unrefs. */
GPtrArray *layout_list_parse(const char *chunk_sizes, const char *layout_file,
                             const struct trace *trace, GError **error);

#endif
