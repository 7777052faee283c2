/* Tracks from pstar-sim's timelines and from traces without a recording. */
#include "report/report.h"
#include "report/tracks.h"

#include <string.h>

static int track_by_name(const char *name)
{
    static const char *const names[TRACKS] = {[TRACK_COMPUTE] = "compute",
                                              [TRACK_H2D] = "H2D",
                                              [TRACK_D2H] = "D2H",
                                              [TRACK_HOST] = "host",
                                              [TRACK_NETWORK] = "network",
                                              [TRACK_NVME_READ] = "NVMe read",
                                              [TRACK_NVME_WRITE] = "NVMe write",
                                              [TRACK_WAIT] = "stalls"};
    for (int s = 0; name && s < TRACKS; s++)
        if (!g_strcmp0(names[s], name))
            return s;
    return TRACK_UNKNOWN;
}

static const char *string_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* `rows` maps a tid to its track plus 1. Rows are named before their events. */
static void name_row(GHashTable *rows, const json_t *event)
{
    int track = track_by_name(string_of(json_object_get(event, "args"), "name"));
    if (track == TRACK_UNKNOWN || strcmp(string_of(event, "name"), "thread_name") != 0)
        return;
    json_int_t tid = json_integer_value(json_object_get(event, "tid"));
    g_hash_table_insert(rows, GINT_TO_POINTER((int)tid), GINT_TO_POINTER(track + 1));
}

static bool add_event(struct tracks *tracks, GHashTable *rows, const json_t *event)
{
    const json_t *start = json_object_get(event, "ts"), *length = json_object_get(event, "dur");
    const json_t *arguments = json_object_get(event, "args");
    const char *name = json_string_value(json_object_get(event, "name"));
    json_int_t tid = json_integer_value(json_object_get(event, "tid"));
    int track = GPOINTER_TO_INT(g_hash_table_lookup(rows, GINT_TO_POINTER((int)tid))) - 1;
    json_int_t bytes = json_integer_value(json_object_get(arguments, "bytes"));
    if (!name || !json_is_number(start) || !json_is_number(length) || track < 0 || bytes < 0 ||
        !(json_number_value(length) >= 0))
        return false;
    double from = json_number_value(start) * 1e-6;
    struct track_span *span = tracks_add(tracks, (enum track)track, from,
                                         from + json_number_value(length) * 1e-6, name);
    bool moves = track != TRACK_COMPUTE && track != TRACK_HOST && track != TRACK_WAIT;
    span->bytes = moves ? (uint64_t)bytes : 0;
    if (track == TRACK_WAIT)
        span->cause = (uint8_t)track_by_name(string_of(arguments, "waits_for"));
    trace_phase_parse(string_of(arguments, "phase"), &span->phase);
    return true;
}

/* Only names and complete events matter to tracks. */
static bool read_events(struct tracks *tracks, const json_t *events, GError **error)
{
    g_autoptr(GHashTable) rows = g_hash_table_new(NULL, NULL);
    const json_t *event;
    size_t index;
    json_array_foreach (events, index, event) {
        const char *kind = string_of(event, "ph");
        if (!strcmp(kind, "M"))
            name_row(rows, event);
        if (!strcmp(kind, "X") && !add_event(tracks, rows, event)) {
            g_set_error(
                error, REPORT_ERROR, REPORT_ERROR_INPUT,
                "%s: traceEvents[%zu] of the timeline is not an event that pstar-sim writes",
                tracks->origin, index);
            return false;
        }
    }
    return true;
}

struct tracks *tracks_of_timeline(const json_t *root, const char *origin, GError **error)
{
    const json_t *made_of = json_object_get(root, "otherData");
    const json_t *seconds = json_object_get(made_of, "iteration_seconds");
    struct tracks *tracks = tracks_new(origin);
    tracks->model = g_strdup(json_string_value(json_object_get(made_of, "model")));
    tracks->configuration = configuration_of_json(made_of);
    tracks->link_rate[0] = json_number_value(json_object_get(made_of, "h2d_rate"));
    tracks->link_rate[1] = json_number_value(json_object_get(made_of, "d2h_rate"));
    tracks->link = configuration_link(made_of);
    tracks->link_said_by = tracks->link_rate[0] > 0 ? "the platform of the simulation" : NULL;
    tracks->network_rate = json_number_value(json_object_get(made_of, "network_rate"));
    tracks->seconds = json_number_value(seconds);
    if (!(tracks->seconds > 0))
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT,
                    "%s: not written by pstar-sim --timeline: the Chrome trace has no "
                    "\"iteration_seconds\" in \"otherData\"",
                    origin);
    else if (read_events(tracks, json_object_get(root, "traceEvents"), error)) {
        for (int s = 0; s < TRACKS; s++)
            tracks->known[s] = !track_is_rare((enum track)s) || tracks->spans[s]->len > 0;
        tracks_complete(tracks);
        return tracks;
    }
    tracks_free(tracks);
    return NULL;
}

struct tracks *tracks_of_operators(const char *path, const struct trace *trace)
{
    struct tracks *tracks = tracks_new(path);
    uint64_t ns = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *ran = &trace->operators[m];
        double start = (double)ns * 1e-9, end = (double)(ns += ran->duration_ns) * 1e-9;
        bool host = ran->place == TRACE_ON_HOST;
        if (ran->duration_ns)
            tracks_add(tracks, host ? TRACK_HOST : TRACK_COMPUTE, start, end, ran->name)->phase =
                (uint8_t)ran->phase;
    }
    tracks->seconds = (double)ns * 1e-9;
    tracks->model = g_strdup(trace->model);
    tracks->measured = tracks->operators_only = true;
    tracks->known[TRACK_COMPUTE] = tracks->known[TRACK_HOST] = tracks->known[TRACK_WAIT] = true;
    if (ns) {
        tracks_complete(tracks);
        return tracks;
    }
    tracks_free(tracks);
    return NULL;
}
