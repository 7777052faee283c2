/* What was recorded while a traced program ran, in the trace file beside its iteration: NVTX
 * events, in the tables of Nsight Systems' export, samples of counters, and what the device did. */
#ifndef PSTAR_TRACES_RECORDS_H
#define PSTAR_TRACES_RECORDS_H

#include "traces/activity/activity.h"
#include "traces/trace.h"

/* As in Nsight Systems' ENUM_NSYS_EVENT_TYPE. */
enum record_type {
    RECORD_CATEGORY = 33, /* names a category of a domain */
    RECORD_MARK = 34,
    RECORD_PUSH_POP = 59,
    RECORD_START_END = 60,
    RECORD_DOMAIN = 75 /* names a domain */
};

/* As in NVTX's nvtxPayloadType_t. */
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
    uint64_t end_ns;  /* 0: it has none */
    uint64_t payload; /* its bytes, the first in memory first */
    uint64_t range_id;
    uint64_t parent; /* range_id of the range around it; 0: none, or not known. Not read back */
    uint32_t process, thread;
    uint32_t domain;   /* 0: the default one */
    uint32_t category; /* 0: none */
    uint32_t text;     /* id of a string; 0: none */
    uint8_t type;      /* enum record_type */
    uint8_t payload_type;
};

struct record_string {
    uint32_t id; /* > 0 */
    char *text;  /* UTF-8 */
};

struct record_sample {
    uint64_t time_ns;
    const char *counter; /* "resident_bytes": a literal or g_intern_string */
    uint64_t value;
};

/* All that a program recorded; `strings` in order of id. */
struct records {
    struct record *events; /* by start */
    struct record_string *strings;
    struct record_sample *samples;   /* by time */
    const struct activity *activity; /* for writing; NULL: none. It is read by activity_read */
    char
        *iterations_by; /* how the collector found iterations; NULL: they were annotated, or none */
    char *unknown;      /* what an import could not know, a line each; NULL: not imported */
    uint32_t event_count, string_count, sample_count;
    bool has_iteration; /* the file holds one, which trace_read reads */
};

/* Reads what was recorded: all counts are 0 for a trace that was not collected. It may hold no
 * iteration: trace_read refuses such a file, this does not. */
struct records *records_read(const char *path, GError **error);
void records_free(struct records *records);

/* Adds what an import could not know (char *). */
void records_missing(const struct records *records, GPtrArray *missing);

/* "" for 0 and for ids that are not there. */
const char *records_text(const struct records *records, uint32_t string);

/* A trace that grows while the program runs. */
struct record_file;

/* Writes the trace at `path` as trace_write does, marked partial, and keeps it open. `trace` NULL:
 * the program did not annotate an iteration. */
struct record_file *record_file_new(const char *path, const struct trace *trace, GError **error);

/* The run that is recorded. */
struct record_session {
    int64_t realtime_ns; /* the time of day, since 1970, when the trace's clock was at 0 */
    uint32_t process;
    const char *program; /* its name */
};

/* Says so in the file: once, at its beginning. */
bool record_file_describe(struct record_file *file, const struct record_session *session,
                          GError **error);

/* Adds all that `more` holds in one transaction: a program that is killed leaves all of it or
 * nothing. */
bool record_file_add(struct record_file *file, const struct records *more, GError **error);

/* Sets a text in meta. */
bool record_file_note(struct record_file *file, const char *key, const char *text, GError **error);

/* Puts what operators took of a device in place of the host's times in durations_ns
 * [operator_count], where the file tells (traces/activity/device_times.h). */
bool record_file_device_times(struct record_file *file, uint64_t *durations_ns,
                              uint32_t operator_count, GError **error);

/* Sets the operators' durations (0: unknown) and whether the trace is partial. */
bool record_file_complete(struct record_file *file, const uint64_t *durations_ns,
                          uint32_t operator_count, bool partial, GError **error);

/* NULL is allowed. */
void record_file_free(struct record_file *file);

/* Texts that occur again and again, each once, as the trace file's StringIds. */

struct string_table;

struct string_table *string_table_new(void);
void string_table_free(struct string_table *table);

/* The id of a text, > 0: the same for the same text. What is no UTF-8 is made so. */
uint32_t string_table_id(struct string_table *table, const char *text);

const char *string_table_text(const struct string_table *table, uint32_t id);

/* All of them, in order of id; their texts stay the table's, the array is the caller's. */
struct record_string *string_table_strings(const struct string_table *table, uint32_t *count);

#endif
