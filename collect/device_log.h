/* From CUPTI's activity records to rows of the trace's tables. Calls nothing of CUPTI's: what it
 * needs to know from the library comes through struct device_log_source, so that a test can play
 * any run. Not safe for several threads. */
#ifndef PSTAR_COLLECT_DEVICE_LOG_H
#define PSTAR_COLLECT_DEVICE_LOG_H

#include "collect/recording.h"
#include "traces/activity/activity.h"

#include <cupti_activity.h>

struct device_log;

struct device_log_source {
    /* cuptiActivityGetNextRecord. */
    CUptiResult (*next_record)(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record);
    /* The name of a call of the API; NULL: not known. It stays valid. */
    const char *(*call_name)(enum call_class api, uint32_t callback);
    /* [CUPTI_ACTIVITY_KIND_COUNT] bytes of a record; 0: not known. */
    const size_t *record_bytes;
};

/* CUPTI's clock, and the one of the trace, at one time. */
struct device_clock {
    uint64_t cupti_ns, monotonic_ns;
};

/* Names become strings of the recording, which outlives the log. */
struct device_log *device_log_new(const struct device_log_source *source,
                                  struct recording *recording, uint32_t process);
void device_log_free(struct device_log *log); /* NULL is allowed */

/* Reads all records of a buffer of CUPTI's, in any order of buffers. What lies behind a record of a
 * kind that the library does not know cannot be read: it is counted. */
void device_log_add_buffer(struct device_log *log, uint8_t *buffer, size_t valid_bytes);

void device_log_add_dropped(struct device_log *log, uint64_t records);

/* Before a window: drops all but allocations, and of those, where they and their frees came before
 * a time of CUPTI's clock, what was freed. What is left in the end, with UINT64_MAX, is what is
 * allocated when the window opens. Buffers come in no order, so that until then the time must lie
 * further back than they can be late. */
void device_log_forget(struct device_log *log, uint64_t before_ns);

/* What was asked for by calls numbered (by correlation) above `after` up to `upto` is not to be
 * taken, but for allocations and frees; again with the same `after`: up to another. */
void device_log_leave_out(struct device_log *log, uint32_t after, uint32_t upto);

/* Whether a synchronisation has been read that ended at `cupti_ns` or later. */
bool device_log_has_sync_after(const struct device_log *log, uint64_t cupti_ns);

/* All that was read since the last time, each kind in order of start, times moved from CUPTI's
 * clock to the trace's: exactly at both of the given times, in proportion elsewhere. To be freed
 * with activity_free. */
struct activity *device_log_take(struct device_log *log, const struct device_clock *begin,
                                 const struct device_clock *end);

/* Bytes of the host's memory that were pinned at each of `count` times of the trace's clock, which
 * ascend, of all that was taken. */
void device_log_pinned(struct device_log *log, const uint64_t *times_ns, uint32_t count,
                       uint64_t *bytes);

/* One activity record of CUPTI's, one row of the trace's tables. Used by collect/device_log.c. */

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

/* Names of kernels for people. */

/* "_Z5scaleIfEvPfi" becomes "void scale<float>(float*, int)", where the C++ runtime is there to say
 * so; else, and where the name is none of C++, it stays as it is. Free with g_free. */
char *kernel_name_demangle(const char *name);

/* "void ns::scale<float>(float*, int)" becomes "scale". Free with g_free. */
char *kernel_name_short(const char *demangled);

#endif
