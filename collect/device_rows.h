/* One activity record of CUPTI's, one row of the trace's tables. Used by collect/device_log.c. */
#ifndef PSTAR_COLLECT_DEVICE_ROWS_H
#define PSTAR_COLLECT_DEVICE_ROWS_H

#include "collect/recording.h"
#include "traces/activity/activity.h"

#include <cupti_activity.h>

/* Times are CUPTI's. A synchronisation's device is missing: it is its context's. */
struct device_rows {
    struct recording *recording; /* for names */
    const char *(*call_name)(enum call_class api, uint32_t callback);
    uint32_t process;
    GHashTable *kernel_names; /* of struct kernel_strings, by mangled name */
    GHashTable *devices;      /* of contexts */
    GArray *kernels, *launches, *copies, *sets, *syncs, *calls, *overheads, *memory, *pools,
        *correlations;            /* of struct kernel_record, ... */
    uint64_t unfinished, untimed; /* records without both times */
    uint64_t last_sync_ns;        /* the latest end of a synchronisation */
};

/* The first three fields are the caller's. */
void device_rows_set_up(struct device_rows *rows);
void device_rows_tear_down(struct device_rows *rows);

/* Kinds that come along unasked are passed over. */
void device_rows_add(struct device_rows *rows, const CUpti_Activity *record);

#endif
