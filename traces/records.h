/* The records of a traced run, stored beside its iteration in the trace file: NVTX events (in the
 * tables of Nsight Systems' export), samples of counters, and device activity. */
#ifndef PSTAR_TRACES_RECORDS_H
#define PSTAR_TRACES_RECORDS_H

#include "traces/activity/activity.h"
#include "traces/trace.h"

/* Values of Nsight Systems' ENUM_NSYS_EVENT_TYPE. */
enum record_type {
    RECORD_CATEGORY = 33, /* names a category of a domain */
    RECORD_MARK = 34,
    RECORD_PUSH_POP = 59,
    RECORD_START_END = 60,
    RECORD_DOMAIN = 75 /* names a domain */
};

/* Values of NVTX's nvtxPayloadType_t. */
enum record_payload {
    RECORD_NO_PAYLOAD,
    RECORD_UINT64,
    RECORD_INT64,
    RECORD_DOUBLE,
    RECORD_UINT32,
    RECORD_INT32,
    RECORD_FLOAT
};

struct record {
    uint64_t start_ns;
    uint64_t end_ns;  /* 0 if the event has no end */
    uint64_t payload; /* raw bytes in memory order */
    uint64_t range_id;
    uint64_t parent; /* range_id of the enclosing range; 0 if none or unknown. Not read back */
    uint32_t process, thread;
    uint32_t domain;   /* 0 for the default domain */
    uint32_t category; /* 0 if none */
    uint32_t text;     /* id of a string; 0 if none */
    uint8_t type;      /* enum record_type */
    uint8_t payload_type;
};

struct record_string {
    uint32_t id; /* > 0 */
    char *text;  /* UTF-8 */
};

struct record_sample {
    uint64_t time_ns;
    const char *counter; /* "resident_bytes"; a literal or from g_intern_string */
    uint64_t value;
};

/* All records of a run. */
struct records {
    struct record *events; /* ordered by start */
    struct record_string *strings;
    struct record_sample *samples;   /* ordered by time */
    const struct activity *activity; /* only for writing, may be NULL; activity_read reads it */
    char *iterations_by; /* how the collector found iterations; NULL if they were annotated or there
                            are none */
    char *unknown; /* what an import could not know, one item per line; NULL if not imported */
    uint32_t event_count, string_count, sample_count;
    bool has_iteration; /* the file also holds an iteration for trace_read */
};

/* Reads the records. All counts are 0 for a trace that was not collected. Accepts a file without an
 * iteration, which trace_read refuses. */
struct records *records_read(const char *path, GError **error);
void records_free(struct records *records);

/* Appends what an import could not know (char *) to `missing`. */
void records_missing(const struct records *records, GPtrArray *missing);

/* Returns the text of a string; "" for 0 and for unknown ids. */
const char *records_text(const struct records *records, uint32_t string);

/* Returns the domain of this name; 0 if there is none. */
uint32_t records_domain(const struct records *records, const char *name);

/* A trace file that grows while the program runs. */
struct record_file;

/* Writes the trace to `path` as trace_write does, marks it partial and keeps it open. `trace` may
 * be NULL if the program did not annotate an iteration. */
struct record_file *record_file_new(const char *path, const struct trace *trace, GError **error);

/* Describes the recorded run. */
struct record_session {
    int64_t realtime_ns; /* time of day (since 1970) at which the trace's clock was 0 */
    uint32_t process;
    const char *program; /* name of the program */
};

/* Writes the session into the file. Call it once, at the beginning. */
bool record_file_describe(struct record_file *file, const struct record_session *session,
                          GError **error);

/* Adds the records `more` in one transaction, so that a program that is killed leaves all of them
 * or none. */
bool record_file_add(struct record_file *file, const struct records *more, GError **error);

/* Sets a text of the meta table. */
bool record_file_note(struct record_file *file, const char *key, const char *text, GError **error);

/* What is uncertain about the times of operators. */
struct record_doubts {
    uint32_t calls; /* assigned to ranges by their times, because the profiler said nothing */
    uint32_t
        operators; /* without the device's times, of whose work it is not known or not recorded */
};

/* Replaces the host's times in durations_ns [operator_count] by the device's times, if the file has
 * them (correlate_by_time and device_times_take in traces/activity/activity_file.h). */
bool record_file_device_times(struct record_file *file, bool queued, uint64_t *durations_ns,
                              uint32_t operator_count, struct record_doubts *doubts,
                              GError **error);

/* Sets the durations of the operators (0 means unknown) and whether the trace is partial. */
bool record_file_complete(struct record_file *file, const uint64_t *durations_ns,
                          uint32_t operator_count, bool partial, GError **error);

/* `file` may be NULL. */
void record_file_free(struct record_file *file);

/* Stores repeated texts once, as StringIds of the trace file does. */

struct string_table;

struct string_table *string_table_new(void);
void string_table_free(struct string_table *table);

/* Returns the id (> 0) of a text; equal texts have equal ids. Invalid UTF-8 is repaired. */
uint32_t string_table_id(struct string_table *table, const char *text);

const char *string_table_text(const struct string_table *table, uint32_t id);

/* Returns all strings ordered by id. The caller frees the array; the table keeps the texts. */
struct record_string *string_table_strings(const struct string_table *table, uint32_t *count);

#endif
