/* Device activity in the trace file: which column holds which field, writing, checking, and the
 * device times of operators. Internal to traces/. */
#ifndef PSTAR_TRACES_ACTIVITY_ACTIVITY_FILE_H
#define PSTAR_TRACES_ACTIVITY_ACTIVITY_FILE_H

#include "traces/activity/activity.h"
#include "traces/database.h"
#include "traces/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum column_kind {
    COLUMN_64,
    COLUMN_64_OR_NULL, /* NULL stands for 0 */
    COLUMN_32,
    COLUMN_32_OR_NULL,
    COLUMN_PROCESS, /* process number * 2^24 */
    COLUMN_THREAD,  /* process number * 2^24 + thread number; the thread is the next field */
    COLUMN_TEXT     /* a string stored in the column; may be NULL */
};

struct activity_column {
    const char *name;
    uint16_t offset; /* in the record */
    uint8_t kind;    /* enum column_kind */
    uint32_t below;  /* number of values of an enumeration; 0 allows any number */
};

/* Columns of a table that fill one array of records. If a table has times, start_ns is the first
 * field of its first slice, and end_ns (if there is one) is the second. */
struct activity_slice {
    uint32_t part;       /* enum activity_part */
    size_t array_offset; /* in struct activity */
    size_t record_bytes;
    const struct activity_column *columns;
    uint32_t column_count;
};

enum { ACTIVITY_SLICES = 2 };

struct activity_table {
    const char *name;
    const char
        *columns; /* for CREATE TABLE; all columns of Nsight Systems that known scripts use */
    size_t count_offset; /* in struct activity */
    uint32_t times;      /* 2 for start and end, 1 for start only, 0 for none */
    uint32_t slice_count;
    struct activity_slice slices[ACTIVITY_SLICES];
};

enum { ACTIVITY_TABLES = 10 };
extern const struct activity_table activity_tables[ACTIVITY_TABLES];

/* Counts of missing records, stored in the meta table if they are not 0. */
struct activity_count {
    const char *key;
    size_t offset; /* in struct activity */
};

enum { ACTIVITY_COUNTS = 4 };
extern const struct activity_count activity_counts[ACTIVITY_COUNTS];

#define ACTIVITY_CHOSEN_CALLS "chosen_calls" /* a key of meta with value 1 */

/* SQL for the tables that explain the numbers in the other tables, with their contents. */
extern const char activity_enumerations[];

/* Writes activity records into a growing trace. */

struct activity_store;

/* `database` must outlive the store. */
struct activity_store *activity_store_new(const struct database *database);

/* Adds all records within the caller's transaction. Creates a table with its first row. */
bool activity_store_add(struct activity_store *store, const struct activity *activity,
                        GError **error);

void activity_store_free(struct activity_store *store); /* may be NULL */

/* Checks device activity against itself and the rest of the trace. Every name must be a recorded
 * string and every device a described one (if any device is described). If calls were recorded, no
 * record was dropped and the run was not cut short, every kernel, copy and memset must have its
 * call. All parts except ACTIVITY_LAUNCHES must have been read. `path` begins the message. */
bool activity_verify(const struct activity *activity, const struct records *records, bool partial,
                     const char *path, GError **error);

/* Assigns each call that no range is known to have made to the innermost range of its thread at its
 * begin, and sets *added to how many calls that were. CUPTI may keep silent about ranges if only
 * chosen calls are recorded. */
bool correlate_by_time(const struct database *database, uint32_t *added, GError **error);

/* Replaces the host's times in durations_ns [operator_count] by the device's times: for operators
 * whose ranges asked a device for work, the median over the ranges of what that work took.
 *
 * The time of a range is the time in which any of its kernels, memsets and copies within the device
 * ran, plus one gap for each of them. The gap is the median gap that the device leaves between two
 * pieces of queued work. A range in which the host waited for the device lasted longer by the way
 * to the device and back, which an operator does not pay if it is queued behind another. For a
 * range without a wait, the host's time stays if it is longer. It also stays if work of unknown
 * origin ran during the range; *doubtful is set to the number of operators with such ranges.
 *
 * If `queued`, ranges of operators on the device only queue their work: only the device's times
 * count for them, and where it has none, the duration is 0 (unknown) and the operator doubtful.
 * Returns false if the file cannot be read. */
bool device_times_take(const struct database *database, bool queued, uint64_t *durations_ns,
                       uint32_t operator_count, uint32_t *doubtful, GError **error);

#endif
