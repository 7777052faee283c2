/* Which chunk sizes, layouts and device budgets a person means on the command line. */
#ifndef PSTAR_SIM_SIZES_H
#define PSTAR_SIM_SIZES_H

#include "chunks/layout.h"

enum sizes_error { SIZES_ERROR_INVALID };
#define SIZES_ERROR sizes_error_quark()
GQuark sizes_error_quark(void);

/* Chunk sizes in bytes, ascending, each a multiple of LAYOUT_ALIGNMENT (rounded up), none twice.
 * `text`: a range "1MiB:64MiB", in steps of the square root of 2, both ends included; a list
 * "1MiB,3MB"; or NULL: from a quarter of the trace's mean tensor to 16 times as much, 13 sizes.
 * Returns a GArray of uint64_t, which the caller unrefs. */
GArray *sizes_parse_chunks(const char *text, const struct trace *trace, GError **error);

/* Device budgets, in the order given. Each is a size, or a percentage of the model data beside the
 * whole of the non-model data: "30%" is the non-model data's greatest extent and 30 % of
 * trace_model_bytes. Returns a GArray of uint64_t, which the caller unrefs. */
GArray *sizes_parse_budgets(const char *text, const struct trace *trace, GError **error);

/* One budget of the same kind. */
bool sizes_parse_budget(const char *text, const struct trace *trace, uint64_t *bytes,
                        GError **error);

/* Small whole numbers, "0,2,8", in the order given; NULL: 0 alone. Returns a GArray of uint32_t,
 * which the caller unrefs. */
GArray *sizes_parse_counts(const char *text, GError **error);

/* What of a device's memory is left for the arena: less what driver and libraries hold. */
uint64_t sizes_arena(uint64_t device_budget, const struct trace *trace);

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
