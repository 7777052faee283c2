/* Converts CUPTI's activity records to rows of the trace's tables. It calls nothing of CUPTI
 * directly: struct device_log_source supplies what it needs, so that a test can play any run. Not
 * thread-safe. */
#ifndef PSTAR_COLLECT_DEVICE_LOG_H
#define PSTAR_COLLECT_DEVICE_LOG_H

#include "collect/recording.h"
#include "traces/activity/activity.h"

#include <cupti_activity.h>

struct device_log;

struct device_log_source {
    /* cuptiActivityGetNextRecord. */
    CUptiResult (*next_record)(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record);
    /* Returns the name of an API call, which stays valid; NULL if unknown. */
    const char *(*call_name)(enum call_class api, uint32_t callback);
    /* [CUPTI_ACTIVITY_KIND_COUNT] bytes of a record; 0 if unknown */
    const size_t *record_bytes;
};

/* CUPTI's clock and the trace's clock, read at one time. */
struct device_clock {
    uint64_t cupti_ns, monotonic_ns;
};

/* Creates a log. Names become strings of the recording, which must outlive the log. */
struct device_log *device_log_new(const struct device_log_source *source,
                                  struct recording *recording, uint32_t process);
void device_log_free(struct device_log *log); /* may be NULL */

/* Reads all records of a buffer. Buffers may come in any order. Records behind one of an unknown
 * kind cannot be read; their bytes are counted. */
void device_log_add_buffer(struct device_log *log, uint8_t *buffer, size_t valid_bytes);

void device_log_add_dropped(struct device_log *log, uint64_t records);

/* Used before a window: drops everything except allocations and frees, and of those the pairs that
 * were complete before `before_ns` of CUPTI's clock. With UINT64_MAX, the allocations that are live
 * when the window opens remain. Buffers come in any order, so until then `before_ns` must be older
 * than any buffer that may still come. */
void device_log_forget(struct device_log *log, uint64_t before_ns);

/* Drops records of calls with correlation ids in (after, upto], except allocations and frees. A
 * second call with the same `after` replaces `upto`. */
void device_log_leave_out(struct device_log *log, uint32_t after, uint32_t upto);

/* Returns whether a synchronisation that ended at `cupti_ns` or later has been read. */
bool device_log_has_sync_after(const struct device_log *log, uint64_t cupti_ns);

/* Returns everything read since the last call, each kind ordered by start. Times are converted from
 * CUPTI's clock to the trace's: exactly at the two given times, linearly elsewhere. Free with
 * activity_free. */
struct activity *device_log_take(struct device_log *log, const struct device_clock *begin,
                                 const struct device_clock *end);

/* Sets bytes[count] to the pinned host memory at the ascending times_ns[count] of the trace's
 * clock, from everything that was taken. */
void device_log_pinned(struct device_log *log, const uint64_t *times_ns, uint32_t count,
                       uint64_t *bytes);

/* Rows made of activity records, one row per record. Times are CUPTI's. A synchronisation has no
 * device yet, because only its context says which. */
struct device_rows {
    struct recording *recording; /* for strings */
    const char *(*call_name)(enum call_class api, uint32_t callback);
    uint32_t process;
    GHashTable *kernel_names; /* struct kernel_strings by mangled name */
    GHashTable *devices;      /* device of each context */
    GArray *kernels, *launches, *copies, *sets, *syncs, *calls, *overheads, *memory, *pools,
        *correlations;            /* struct kernel_record and so on */
    uint64_t unfinished, untimed; /* records without valid times */
    uint64_t last_sync_ns;        /* latest end of a synchronisation */
};

/* Sets up the fields after the first three, which the caller sets. */
void device_rows_set_up(struct device_rows *rows);
void device_rows_tear_down(struct device_rows *rows);

/* Adds a record. Kinds that were not asked for are ignored. */
void device_rows_add(struct device_rows *rows, const CUpti_Activity *record);

/* Demangles "_Z5scaleIfEvPfi" to "void scale<float>(float*, int)" if the C++ runtime is available.
 * Other names are copied. Free with g_free. */
char *kernel_name_demangle(const char *name);

/* Shortens "void ns::scale<float>(float*, int)" to "scale". Free with g_free. */
char *kernel_name_short(const char *demangled);

#endif
