/* What ran when in one step: rows of spans, a row a resource, and curves of what counters said. */
#ifndef PSTAR_REPORT_TRACKS_H
#define PSTAR_REPORT_TRACKS_H

#include "report/configuration.h"
#include "traces/records.h"
#include "traces/trace.h"

#include <jansson.h>
#include <stdbool.h>

enum curve {
    CURVE_ALLOCATED,   /* device memory, by the program's allocations within the recording */
    CURVE_DEVICE_USED, /* the same by NVML: of all processes */
    CURVE_PINNED,      /* host memory */
    CURVE_MANAGED,
    CURVE_RESIDENT, /* of the process */
    CURVE_H2D,      /* over PCIe by NVML, bytes a second since the sample before */
    CURVE_D2H,
    CURVES
};

struct curve_point {
    double time; /* seconds from the step's begin */
    double value;
};

enum track {
    TRACK_COMPUTE, /* the device computes */
    TRACK_H2D,
    TRACK_D2H,
    TRACK_HOST,    /* operators on the host: the CPU's optimizer */
    TRACK_NETWORK, /* other devices: collectives, and copies between peers */
    TRACK_WAIT,    /* the device has nothing to compute: it waits */
    TRACKS
};

#define TRACK_UNKNOWN TRACKS

struct track_span {
    double start, end; /* seconds from the iteration's begin */
    uint64_t bytes;    /* of a copy; else 0 */
    const char *name;  /* in names */
    uint8_t cause;     /* enum track: of a wait, on which resource ran what was waited for */
    uint8_t phase;     /* enum trace_phase, of what computes; TRACK_NO_PHASE: nobody says */
};

#define TRACK_NO_PHASE (TRACE_UPDATE_PHASE + 1)

/* Phases follow each other without gaps from 0 to the iteration's end. */
struct track_phase {
    enum trace_phase phase;
    double start, end;
};

struct tracks {
    char *origin;  /* the file's name */
    char *model;   /* NULL: not said */
    bool measured; /* else simulated */
    bool alone;    /* a trace\'s operators one behind the other: what they wait for is not known */
    double link_rate[2];      /* H2D, D2H, bytes a second: what the link can do; 0: nobody says */
    const char *link_said_by; /* the file that says it, for people; NULL: none. Interned */
    bool gpu; /* recorded by a profiler of the device: kernels and copies, not operators */
    struct configuration configuration; /* of a simulation: who decided what moves */
    double seconds;                     /* the iteration's */
    GArray *spans[TRACKS];              /* struct track_span, by start */
    GArray *reach[TRACKS];              /* double: the latest end up to each span */
    bool known[TRACKS];                 /* the file can tell; else there are no spans */
    GArray *curves[CURVES];             /* struct curve_point */
    GStringChunk *names;
    GArray *phases; /* struct track_phase; empty: nobody says */
};

struct tracks *tracks_new(const char *origin);
void tracks_free(struct tracks *tracks); /* NULL is allowed */

/* Adds a span; returns it, for the caller to complete, until the next call. */
struct track_span *tracks_add(struct tracks *tracks, enum track track, double start, double end,
                              const char *name);

/* Call when all spans are there: sorts them, clips them to the iteration, makes the phases, where
 * there are none yet, from those of the spans of compute and host, and, where nothing says what the
 * device waited for, makes waits of the gaps in its compute. */
void tracks_complete(struct tracks *tracks);

/* Seconds within [start, end) in which the track has at least one span. */
double tracks_busy(const struct tracks *tracks, enum track track, double start, double end);

/* Busy seconds of `columns` equal parts of the iteration, for which one pass is enough. */
void tracks_busy_columns(const struct tracks *tracks, enum track track, double *busy,
                         guint columns);

/* Bytes that the track's copies moved in each of `columns` equal parts of the iteration, a copy's
 * evenly over its time. */
void tracks_byte_columns(const struct tracks *tracks, enum track track, double *bytes,
                         guint columns);

/* The same within [start, end). */
double tracks_bytes(const struct tracks *tracks, enum track track, double start, double end);

/* The rate of the fastest of the copies that are not small, bytes a second; 0: no copy. */
double tracks_peak_rate(const struct tracks *tracks, enum track track);

/* Sums over all parts of one phase; what is not known is 0. */
struct track_sums {
    double seconds;
    double busy[TRACKS];
    double wait_for[TRACKS + 1]; /* by cause; TRACK_UNKNOWN: nobody says */
    double bytes[TRACKS];
};
struct track_sums tracks_sum(const struct tracks *tracks, enum trace_phase phase);

/* Of the whole iteration. */
struct track_sums tracks_sum_all(const struct tracks *tracks);

/* "What it shows: measured (run.pstar)"; or simulated, or operators alone. Free with g_free. */
char *tracks_title(const char *what, const struct tracks *tracks);

/* "device computes", "H2D copies", "D2H copies", "host optimizer", "network", "device waits". */
const char *track_label(enum track track);

/* Of what pstar-sim --timeline wrote: Chrome's trace events. NULL with REPORT_ERROR_INPUT, which
 * names the event, where something is wrong. */
struct tracks *tracks_of_timeline(const json_t *root, const char *origin, GError **error);

/* One iteration of what the trace at `path` has recorded, the one of median length: kernels and
 * copies where a profiler saw them, else the operators' ranges. *tracks is NULL where it has
 * recorded neither. `trace` is its iteration; NULL: it has none. Errors as activity_read. */
bool tracks_of_records(const char *path, const struct trace *trace, struct tracks **tracks,
                       GError **error);

/* Of a trace that has recorded no tracks, but knows how long its operators take: one behind the
 * other. NULL: it does not know. */
struct tracks *tracks_of_operators(const char *path, const struct trace *trace);

#endif
