/* Chunk sizes, layouts and device budgets as people write them on the command line. */
#ifndef PSTAR_SIM_SIZES_H
#define PSTAR_SIM_SIZES_H

#include "chunks/layout.h"

enum sizes_error { SIZES_ERROR_INVALID };
#define SIZES_ERROR sizes_error_quark()
GQuark sizes_error_quark(void);

/* Returns chunk sizes in bytes: ascending, rounded up to multiples of LAYOUT_ALIGNMENT, without
 * duplicates. `text` is a range "1MiB:64MiB" in steps of the square root of 2, both ends included;
 * a list "1MiB,3MB"; or NULL for 13 sizes from a quarter of the trace's mean tensor to 16 times the
 * mean. The result is a GArray of uint64_t, which the caller unrefs. */
GArray *sizes_parse_chunks(const char *text, const struct trace *trace, GError **error);

/* Returns device budgets in the order given. Each is a size, or a percentage of the model data on
 * top of all non-model data: "30%" is the greatest extent of the non-model data plus 30 % of
 * trace_model_bytes. The result is a GArray of uint64_t, which the caller unrefs. */
GArray *sizes_parse_budgets(const char *text, const struct trace *trace, GError **error);

/* Parses one such budget. */
bool sizes_parse_budget(const char *text, const struct trace *trace, uint64_t *bytes,
                        GError **error);

/* Returns small integers, "0,2,8", in the order given; for NULL only 0. The result is a GArray of
 * uint32_t, which the caller unrefs. */
GArray *sizes_parse_counts(const char *text, GError **error);

/* Returns what a device budget leaves for the arena, without what driver and libraries hold. */
uint64_t sizes_arena(uint64_t device_budget, const struct trace *trace);

struct named_layout {
    struct layout *layout;
    char *name; /* a file's name, or "param=64MiB,grad=32MiB"; NULL if all lists have one size */
};

/* Returns the layouts that --chunk-size and --layout ask for; one or both may be NULL, but not both
 * given. A layout file is one layout. Chunk sizes are separated by ';'; each is what
 * sizes_parse_chunks takes, or one size for each list, as chunk_sizes_parse takes it. The result
 * has at least one struct named_layout; the caller unrefs it. */
GPtrArray *layout_list_parse(const char *chunk_sizes, const char *layout_file,
                             const struct trace *trace, GError **error);

/* Returns layouts with the same chunk sizes and names for another trace. A list that the layouts do
 * not have gets the chunk size of the parameters. Fails as layout_pack does. */
GPtrArray *layout_list_like(const GPtrArray *layouts, const struct trace *trace, GError **error);

#endif
