/* The work of one step over time: a track of spans for each resource, and curves of recorded
 * counters. */
#ifndef PSTAR_REPORT_TRACKS_H
#define PSTAR_REPORT_TRACKS_H

#include "report/configuration.h"
#include "traces/records.h"
#include "traces/trace.h"

#include <jansson.h>
#include <stdbool.h>

enum curve {
    CURVE_ALLOCATED,   /* device memory allocated by the program during the recording */
    CURVE_DEVICE_USED, /* device memory in use by all processes, from NVML */
    CURVE_PINNED,      /* host memory */
    CURVE_MANAGED,
    CURVE_RESIDENT, /* of the process */
    CURVE_H2D,      /* rate over PCIe from NVML, bytes per second */
    CURVE_D2H,
    CURVES
};

struct curve_point {
    double time; /* seconds from the start of the step */
    double value;
};

enum track {
    TRACK_COMPUTE, /* the device computes */
    TRACK_H2D,
    TRACK_D2H,
    TRACK_HOST,    /* operators on the host: the CPU's optimizer */
    TRACK_NETWORK, /* other devices: collectives and copies between peers */
    TRACK_NVME_READ,
    TRACK_NVME_WRITE,
    TRACK_WAIT, /* the device has nothing to compute and waits */
    TRACKS
};

#define TRACK_UNKNOWN TRACKS

struct track_span {
    double start, end; /* seconds from the start of the iteration */
    uint64_t bytes;    /* of a copy; otherwise 0 */
    const char *name;  /* owned by `names` */
    uint8_t cause;     /* enum track; of a wait, the resource that it waits for */
    uint8_t phase;     /* enum trace_phase of an operator, or TRACK_NO_PHASE if unknown */
};

/* Where spans of a track begin or end: the busy seconds and the bytes up to this time. Between two
 * points both are linear, so that sums over any part of the step need no pass over its spans. */
struct track_point {
    double time, busy, bytes;
};

#define TRACK_NO_PHASE (TRACE_UPDATE_PHASE + 1)

/* Phases cover the iteration without gaps. */
struct track_phase {
    enum trace_phase phase;
    double start, end;
};

struct tracks {
    char *origin;        /* the name of the file */
    char *model;         /* may be NULL */
    bool measured;       /* otherwise simulated */
    bool operators_only; /* only the operators of a trace, one after another; their waiting is
                            unknown */
    double link_rate[2]; /* what the link can do: H2D and D2H, bytes per second; 0 if unknown */
    char *link; /* of a simulation, as --link gave it; "" if it was not given, NULL if unknown */
    double network_rate; /* what a rank can receive from others, bytes per second; 0 if unknown */
    const char *link_said_by; /* the file that states the rate; may be NULL. Interned */
    bool gpu; /* recorded by a profiler of the device: kernels and copies, not operators */
    struct configuration configuration; /* of a simulation */
    double seconds;                     /* of the iteration */
    GArray *spans[TRACKS];              /* struct track_span, by start */
    GArray *profiles[TRACKS];           /* struct track_point, by time */
    bool known[TRACKS];                 /* the file can tell; otherwise there are no spans */
    GArray *curves[CURVES];             /* struct curve_point */
    GStringChunk *names;
    GArray *phases; /* struct track_phase; empty if unknown */
};

struct tracks *tracks_new(const char *origin);
void tracks_free(struct tracks *tracks);

/* Adds a span. The caller may complete the result until the next call. */
struct track_span *tracks_add(struct tracks *tracks, enum track track, double start, double end,
                              const char *name);

/* Must be called when all spans are added. Sorts them and clips them to the iteration. Shortens
 * waits that overlap, because the device waits once at a time. Makes the phases, if there are none,
 * from the spans of device and host. Makes waits of the gaps in the device's compute, if the waits
 * are unknown. */
void tracks_complete(struct tracks *tracks);

/* Returns the seconds within [start, end) in which the track has at least one span. */
double tracks_busy(const struct tracks *tracks, enum track track, double start, double end);

/* Computes the busy seconds of `columns` equal parts of the iteration in one pass. */
void tracks_busy_columns(const struct tracks *tracks, enum track track, double *busy,
                         guint columns);

/* Computes the bytes that the track moved in each of `columns` equal parts of the iteration. The
 * bytes of a copy are spread evenly over its time. */
void tracks_byte_columns(const struct tracks *tracks, enum track track, double *bytes,
                         guint columns);

/* Returns the bytes that the track moved within [start, end). */
double tracks_bytes(const struct tracks *tracks, enum track track, double start, double end);

/* Returns the rate of the fastest copy that is not small, in bytes per second, or 0 without copies.
 */
double tracks_peak_rate(const struct tracks *tracks, enum track track);

/* Sums over one phase or over the whole iteration. Unknown values are 0. */
struct track_sums {
    double seconds;
    double busy[TRACKS];
    double wait_for[TRACKS + 1]; /* by cause, TRACK_UNKNOWN included */
    double bytes[TRACKS];
};
struct track_sums tracks_sum(const struct tracks *tracks, enum trace_phase phase);

struct track_sums tracks_sum_all(const struct tracks *tracks);

/* Returns "What it shows: measured (run.pstar)"; "simulated" or "operators alone" as they apply.
 * Free with g_free. */
char *tracks_title(const char *what, const struct tracks *tracks);

/* Returns "device computes", "H2D copies", "D2H copies", "host optimizer", "network", "NVMe reads",
 * "NVMe writes" or "device waits". */
const char *track_label(enum track track);

/* Returns whether tables and figures leave the track out where a file does not know it, because few
 * runs have such a resource. */
bool track_is_rare(enum track track);

/* Reads the Chrome trace events that pstar-sim --timeline wrote. Returns NULL with
 * REPORT_ERROR_INPUT, which names the bad event. */
struct tracks *tracks_of_timeline(const json_t *root, const char *origin, GError **error);

/* Reads what the trace at `path` has recorded of one iteration, the one of median length: kernels
 * and copies from a profiler or, without these, the ranges of operators. *tracks is NULL if neither
 * was recorded. `trace` is the iteration of the trace and may be NULL. Fails as activity_read does.
 */
bool tracks_of_records(const char *path, const struct trace *trace, struct tracks **tracks,
                       GError **error);

/* Makes tracks of a trace without a recording: its operators, one after another. Returns NULL if
 * the trace has no durations. */
struct tracks *tracks_of_operators(const char *path, const struct trace *trace);

#endif
