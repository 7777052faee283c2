/* Where each field of an activity record lies in the trace file. */
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
    COLUMN_64_OR_NULL, /* 0: NULL */
    COLUMN_32,
    COLUMN_32_OR_NULL,
    COLUMN_PROCESS, /* a process's number * 2^24 */
    COLUMN_THREAD,  /* the same, plus the thread's number, which is the next field */
    COLUMN_TEXT     /* a string of its own; NULL allowed */
};

struct activity_column {
    const char *name;
    uint16_t offset; /* in the record */
    uint8_t kind;    /* enum column_kind */
    uint32_t below;  /* of an enumeration: its size; 0: any number */
};

/* Columns of a table that are in one array of records. The first field of the first slice of a
 * table that has a time is start_ns, the next end_ns if there is one. */
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
    const char *columns; /* of CREATE TABLE: all of Nsight Systems' that scripts are known to use */
    size_t count_offset; /* in struct activity */
    uint32_t times;      /* 2: start and end, 1: start, 0: none */
    uint32_t slice_count;
    struct activity_slice slices[ACTIVITY_SLICES];
};

enum { ACTIVITY_TABLES = 10 };
extern const struct activity_table activity_tables[ACTIVITY_TABLES];

/* Numbers of what is not in the tables, in meta, where they are not 0. */
struct activity_count {
    const char *key;
    size_t offset; /* in struct activity */
};

enum { ACTIVITY_COUNTS = 4 };
extern const struct activity_count activity_counts[ACTIVITY_COUNTS];

#define ACTIVITY_CHOSEN_CALLS "chosen_calls" /* a key of meta; its value is 1 */

/* The tables that spell out the numbers of the others, with their contents. */
extern const char activity_enumerations[];

/* Activity records, into a trace that grows. */

struct activity_store;

/* The database outlives the store. */
struct activity_store *activity_store_new(const struct database *database);

/* Adds all records, within the caller's transaction. A table is created with its first row. */
bool activity_store_add(struct activity_store *store, const struct activity *activity,
                        GError **error);

void activity_store_free(struct activity_store *store); /* NULL is allowed */

/* Whether what the device did agrees with itself and with the rest of the trace. */

/* Every name is a string that was recorded, every device one that is described, if any is; where
 * calls were recorded, no record was dropped and the run was not cut short, every kernel, copy and
 * memset has the call that asked for it. All parts but ACTIVITY_LAUNCHES, which is not needed, must
 * have been read. `path` begins the message. */
bool activity_verify(const struct activity *activity, const struct records *records, bool partial,
                     const char *path, GError **error);

/* What annotated operators take of a device, from the activity that was recorded of it. */

/* Puts the device's times in place of the host's in durations_ns [operator_count]: for operators
 * whose ranges asked a device for work, the median over the ranges of what that took.
 *
 * That is the time in which any of a range's kernels, memsets and copies within the device ran, and
 * for each of them the gap that the device leaves between two that wait in its queue (the median of
 * those in the file). A range in which the host waited for the device took longer, by the way to
 * the device and back, which no operator has that is queued behind another; of a range without a
 * wait the host's time stays where it is longer. So it does where work ran in the range's time of
 * which nobody knows who asked for it. False: the file cannot be read. */
bool device_times_take(const struct database *database, uint64_t *durations_ns,
                       uint32_t operator_count, GError **error);

#endif
