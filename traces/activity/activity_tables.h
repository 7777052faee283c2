/* Where each field of an activity record lies in the trace file. */
#ifndef PSTAR_TRACES_ACTIVITY_ACTIVITY_TABLES_H
#define PSTAR_TRACES_ACTIVITY_ACTIVITY_TABLES_H

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

#endif
