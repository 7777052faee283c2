/* A sweep: what pstar-sim --json wrote. */
#ifndef PSTAR_REPORT_SWEEP_FILE_H
#define PSTAR_REPORT_SWEEP_FILE_H

#include "report/strips.h"

struct sweep_file_entry {
    struct configuration configuration;
    bool fits;
    struct plan_figures figures; /* zeros where it does not fit */
    struct strip_sums *phases;   /* [STRIP_NO_PHASE], by phase; NULL: not said */
};

struct sweep_file {
    char *origin;        /* the file's name */
    char *trace;         /* as the file names it; NULL: not said */
    double link_rate[2]; /* H2D, D2H, bytes a second; 0: not said */
    GArray *entries;     /* struct sweep_file_entry, in the order of the file */
};

/* `root` is the file's JSON. Errors (REPORT_ERROR_INPUT) name file, entry and key. */
struct sweep_file *sweep_file_read(const json_t *root, const char *origin, GError **error);
void sweep_file_free(struct sweep_file *sweep);

/* Whether both are of one trace, the first with a slower link than the other. */
bool sweep_file_is_slower(const struct sweep_file *sweep, const struct sweep_file *than);

/* Of the entries that fit, with this budget and maker (NULL: any), the fastest; NULL: none that
 * knows its time. */
const struct sweep_file_entry *sweep_file_fastest(const struct sweep_file *sweep,
                                                  uint64_t device_bytes, const char *maker);

/* Of the entries that fit, with this budget (0: any) and maker (NULL: any), the one of least
 * traffic, the first of equals; NULL: none. */
const struct sweep_file_entry *sweep_file_best(const struct sweep_file *sweep,
                                               uint64_t device_bytes, const char *maker);

/* The different budgets and chunk sizes, ascending (uint64_t), and the different makers in order of
 * appearance (const char *, the sweep's). Free with g_array_unref and g_ptr_array_unref. */
GArray *sweep_file_budgets(const struct sweep_file *sweep);
GArray *sweep_file_sizes(const struct sweep_file *sweep);
GPtrArray *sweep_file_makers(const struct sweep_file *sweep);

#endif
