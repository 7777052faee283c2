/* The files of a report: which kind each is, and which trace each plan belongs to. */
#include "report/inputs.h"

#include "base/files.h"
#include "chunks/plan.h"
#include "models/derive.h"
#include "report/report.h"
#include "report/tracks.h"
#include "traces/records.h"
#include "traces/trace_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns NULL if the model of the trace is unknown. */
static struct trace *derive_choice(const struct plan *plan, const struct trace *trace,
                                   const struct platform *platform)
{
    struct run_choices *own = run_choices_of(trace);
    bool alike = !(run_choices_differ(own, plan->choices) & ~(unsigned)RUN_UPDATES);
    run_choices_free(own);
    if (alike)
        return trace_copy(trace);
    struct recognised *recognised = recognise(trace, NULL);
    struct trace *derived = recognised
                                ? model_derive(recognised, trace, plan->choices, platform, NULL)
                                : NULL;
    recognised_free(recognised);
    return derived;
}

static bool is_made_for(const struct plan *plan, const struct trace *trace)
{
    g_autofree char *digest = trace_digest(trace);
    return !g_strcmp0(digest, plan->digest);
}

static bool has_room_for(const struct run_choices *choices, const struct trace *trace)
{
    struct run_choices *own = run_choices_of(trace);
    bool same = own->layer_count == choices->layer_count &&
                own->tensor_count == choices->tensor_count;
    run_choices_free(own);
    return same;
}

/* Returns `trace` with the recomputation, the offloading and the updates on the host that the plan
 * chooses. Returns NULL if the model is unknown or if the result is not the trace that the plan was
 * made for. Free with trace_free. */
static struct trace *plan_trace_derive(const struct plan *plan, const struct trace *trace)
{
    if (!plan->choices || !has_room_for(plan->choices, trace))
        return NULL;
    struct platform *platform = plan->certificate && plan->certificate->platform
                                    ? platform_parse(plan->certificate->platform, "", NULL)
                                    : NULL;
    struct trace *chosen = derive_choice(plan, trace, platform);
    struct trace *placed = chosen ? model_place_chosen(chosen, plan->choices, platform, NULL)
                                  : NULL;
    if (placed && !is_made_for(plan, placed)) {
        trace_free(placed);
        placed = NULL;
    }
    trace_free(chosen);
    platform_free(platform);
    return placed;
}

enum kind {
    KIND_UNKNOWN,
    KIND_TRACE,
    KIND_PLAN,
    KIND_SWEEP,
    KIND_RUN_LOG,
    KIND_TIMELINE,
    KIND_PLATFORM
};

static const char sqlite_magic[] = "SQLite format 3";

static enum kind kind_of_object(const json_t *root)
{
    if (json_is_array(json_object_get(root, "results")))
        return KIND_SWEEP;
    if (json_object_get(root, "step") || json_object_get(root, "unigram_entropy"))
        return KIND_RUN_LOG;
    if (json_object_get(root, "pstar_plan"))
        return KIND_PLAN;
    if (json_is_array(json_object_get(root, "traceEvents")))
        return KIND_TIMELINE;
    if (json_is_object(json_object_get(root, "h2d")) && json_object_get(root, "d2h"))
        return KIND_PLATFORM;
    return KIND_UNKNOWN;
}

/* The first line of a run log is a complete object that is followed by others. */
static bool is_json_lines(const char *line, size_t length, FILE *rest)
{
    json_t *first = json_loadb(line, length, 0, NULL);
    bool object = json_is_object(first);
    bool step = object && kind_of_object(first) == KIND_RUN_LOG;
    json_decref(first);
    if (!object || step)
        return step;
    int next = getc(rest);
    while (next != EOF && strchr(" \t\r\n", next))
        next = getc(rest);
    return next == '{';
}

static enum kind kind_of_text(const char *path, FILE *file, json_t **root, GError **error)
{
    char *line = NULL;
    size_t capacity = 0;
    if (!input_text_check(path, INPUT_LARGE, error))
        return KIND_UNKNOWN;
    ssize_t length = getline(&line, &capacity, file);
    bool lines = length > 0 && is_json_lines(line, (size_t)length, file);
    free(line);
    if (lines)
        return KIND_RUN_LOG;

    json_error_t wrong;
    rewind(file);
    *root = json_loadf(file, 0, &wrong);
    enum kind kind = *root ? kind_of_object(*root) : KIND_UNKNOWN;
    if (ferror(file))
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT, "%s: it cannot be read to its end",
                    path);
    else if (kind == KIND_UNKNOWN && *root)
        g_set_error(
            error, REPORT_ERROR, REPORT_ERROR_INPUT,
            "%s: unknown JSON: it must be a plan, a sweep, a timeline, a run log or a platform",
            path);
    else if (kind == KIND_UNKNOWN)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT,
                    "%s:%d:%d: neither a trace nor valid JSON: %s", path, wrong.line, wrong.column,
                    wrong.text);
    return kind;
}

/* Returns KIND_UNKNOWN and sets the error if it fails. *root is the JSON of a plan, a sweep or a
 * timeline; release it with json_decref. */
static enum kind kind_of_file(const char *path, json_t **root, GError **error)
{
    if (!input_file_check(path, error))
        return KIND_UNKNOWN;
    char head[sizeof sqlite_magic] = "";
    enum kind kind = KIND_UNKNOWN;
    FILE *file = fopen(path, "rb");
    errno = file ? 0 : errno;
    size_t read = file ? fread(head, 1, sizeof head, file) : 0;
    if (!file || ferror(file))
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT, "%s: %s", path, g_strerror(errno));
    else if (!read)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT, "%s: the file is empty", path);
    else if (!memcmp(head, sqlite_magic, MIN(read, sizeof head)))
        kind = KIND_TRACE;
    else {
        rewind(file);
        kind = kind_of_text(path, file, root, error);
    }
    if (file)
        fclose(file);
    return kind;
}

static void free_trace(void *data)
{
    struct input_trace *input = data;
    g_free(input->path);
    g_free(input->digest);
    trace_free(input->trace);
    gathers_free(input->gathers);
    g_free(input);
}

static void free_plan(void *data)
{
    struct input_plan *input = data;
    g_free(input->path);
    plan_free(input->plan);
    configuration_clear(&input->configuration);
    if (input->derived)
        free_trace(input->derived);
    g_free(input);
}

static bool has_no_iteration(const char *path)
{
    struct records *records = records_read(path, NULL);
    bool without = records && !records->has_iteration;
    if (records)
        records_free(records);
    return without;
}

static struct gathers *read_gathers(const char *path, const struct trace *trace)
{
    struct gathers *gathers = NULL;
    if (trace->ranks > 1)
        gathers_read(path, &gathers, NULL);
    return gathers;
}

/* A recording with neither an iteration nor work of a device is an error. */
static bool add_tracks(struct report_inputs *inputs, const char *path, const struct trace *trace,
                       GError **error)
{
    struct tracks *tracks = NULL;
    if (!tracks_of_records(path, trace, &tracks, error))
        return false;
    if (tracks)
        g_ptr_array_add(inputs->tracks, tracks);
    else if (!trace)
        g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT,
                    "%s: the trace has neither an iteration nor any work of a device", path);
    return tracks || trace;
}

static bool add_trace(struct report_inputs *inputs, const char *path, GError **error)
{
    GError *wrong = NULL;
    struct trace *trace = trace_read(path, &wrong);
    if (!trace && !has_no_iteration(path)) {
        g_propagate_error(error, wrong);
        return false;
    }
    g_clear_error(&wrong);
    if (trace) {
        struct input_trace *input = g_new0(struct input_trace, 1);
        *input = (struct input_trace){g_strdup(path), trace_digest(trace), trace,
                                      read_gathers(path, trace)};
        g_ptr_array_add(inputs->traces, input);
    }
    return add_tracks(inputs, path, trace, error);
}

static bool add_plan(struct report_inputs *inputs, const char *path, GError **error)
{
    struct plan *plan = plan_read(path, error);
    if (!plan)
        return false;
    struct input_plan *input = g_new0(struct input_plan, 1);
    *input = (struct input_plan){g_strdup(path), plan, configuration_of_plan(plan), NULL, NULL};
    g_ptr_array_add(inputs->plans, input);
    return true;
}

static bool add_platform(struct report_inputs *inputs, const char *path, GError **error)
{
    struct platform *platform = platform_read(path, error);
    if (!platform)
        return false;
    g_clear_pointer(&inputs->platform, platform_free);
    g_free(inputs->platform_path);
    inputs->platform = platform;
    inputs->platform_path = g_strdup(path);
    return true;
}

static bool add_file(struct report_inputs *inputs, const char *path, GError **error)
{
    json_t *root = NULL;
    struct sweep_file *sweep = NULL;
    struct logged_run *log = NULL;
    struct tracks *tracks = NULL;
    bool ok = false;
    switch (kind_of_file(path, &root, error)) {
    case KIND_TRACE:
        ok = add_trace(inputs, path, error);
        break;
    case KIND_PLAN:
        ok = add_plan(inputs, path, error);
        break;
    case KIND_SWEEP:
        ok = (sweep = sweep_file_read(root, path, error)) != NULL;
        break;
    case KIND_RUN_LOG:
        ok = (log = run_log_read(path, error)) != NULL;
        break;
    case KIND_TIMELINE:
        ok = (tracks = tracks_of_timeline(root, path, error)) != NULL;
        break;
    case KIND_PLATFORM:
        ok = add_platform(inputs, path, error);
        break;
    case KIND_UNKNOWN:
        break;
    }
    if (tracks)
        g_ptr_array_add(inputs->tracks, tracks);
    if (sweep)
        g_ptr_array_add(inputs->sweeps, sweep);
    if (log)
        g_ptr_array_add(inputs->runs, log);
    json_decref(root);
    return ok;
}

/* Derives the trace that the plan was made for from a trace of the same model. */
static void derive_trace(const struct report_inputs *inputs, struct input_plan *input)
{
    for (guint t = 0; t < inputs->traces->len; t++) {
        const struct input_trace *source = g_ptr_array_index(inputs->traces, t);
        struct trace *trace = plan_trace_derive(input->plan, source->trace);
        if (!trace)
            continue;
        struct input_trace *derived = g_new0(struct input_trace, 1);
        *derived = (struct input_trace){g_strdup(source->path), g_strdup(input->plan->digest),
                                        trace, NULL};
        input->trace = input->derived = derived;
        return;
    }
}

static bool pair_plan(const struct report_inputs *inputs, struct input_plan *input, GError **error)
{
    for (guint t = 0; t < inputs->traces->len && !input->trace; t++) {
        const struct input_trace *trace = g_ptr_array_index(inputs->traces, t);
        if (!g_strcmp0(trace->digest, input->plan->digest))
            input->trace = trace;
    }
    if (!input->trace)
        derive_trace(inputs, input);
    if (!input->trace || plan_check(input->plan, input->trace->trace, error))
        return true;
    g_prefix_error(error, "%s: ", input->path);
    return false;
}

/* The sweep of the slowest link of a trace is the current state. Sweeps of faster links show what a
 * faster link would buy. */
static void set_faster_apart(struct report_inputs *inputs)
{
    for (guint s = 0; s < inputs->sweeps->len;) {
        bool faster = false;
        for (guint o = 0; o < inputs->sweeps->len && !faster; o++)
            faster = sweep_file_is_slower(g_ptr_array_index(inputs->sweeps, o),
                                          g_ptr_array_index(inputs->sweeps, s));
        if (faster)
            g_ptr_array_add(inputs->faster, g_ptr_array_steal_index(inputs->sweeps, s));
        else
            s++;
    }
}

/* A recording does not state its link. A platform's file does, and it applies to everything that
 * was measured. */
static void tell_links(const struct report_inputs *inputs)
{
    const struct platform *platform = inputs->platform;
    for (guint i = 0; platform && i < inputs->tracks->len; i++) {
        struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        if (!tracks->measured)
            continue;
        const double large = 0x1p30;
        tracks->link_rate[0] = large / platform_seconds(&platform->h2d, large);
        tracks->link_rate[1] = large / platform_seconds(&platform->d2h, large);
        tracks->link_said_by = g_intern_string(inputs->platform_path);
        const struct input_trace *input = inputs_trace_of(inputs, tracks);
        tracks->network_rate = platform_ranks_rate(platform, input ? input->trace->ranks : 1);
    }
}

/* Traces without a recording still show how long their operators take. */
static void add_operators(struct report_inputs *inputs)
{
    for (guint t = 0; t < inputs->traces->len; t++) {
        const struct input_trace *input = g_ptr_array_index(inputs->traces, t);
        struct tracks *tracks = tracks_of_operators(input->path, input->trace);
        if (tracks)
            g_ptr_array_add(inputs->tracks, tracks);
    }
}

/* A platform alone shows nothing that ran. */
static bool check_any(const struct report_inputs *inputs, GError **error)
{
    if (inputs->traces->len || inputs->plans->len || inputs->sweeps->len || inputs->runs->len ||
        inputs->tracks->len)
        return true;
    g_set_error(error, REPORT_ERROR, REPORT_ERROR_INPUT,
                "%s: a platform alone shows nothing: also give a trace, a timeline, a plan, a "
                "sweep or a run log",
                inputs->platform_path);
    return false;
}

struct report_inputs *inputs_read(const char *const *paths, GError **error)
{
    struct report_inputs *inputs = g_new0(struct report_inputs, 1);
    inputs->traces = g_ptr_array_new_with_free_func(free_trace);
    inputs->plans = g_ptr_array_new_with_free_func(free_plan);
    inputs->sweeps = g_ptr_array_new_with_free_func((GDestroyNotify)sweep_file_free);
    inputs->faster = g_ptr_array_new_with_free_func((GDestroyNotify)sweep_file_free);
    inputs->runs = g_ptr_array_new_with_free_func((GDestroyNotify)run_log_free);
    inputs->tracks = g_ptr_array_new_with_free_func((GDestroyNotify)tracks_free);
    bool ok = true;
    for (size_t i = 0; ok && paths[i]; i++)
        ok = add_file(inputs, paths[i], error);
    for (guint p = 0; ok && p < inputs->plans->len; p++)
        ok = pair_plan(inputs, g_ptr_array_index(inputs->plans, p), error);
    ok = ok && inputs_match(inputs, error);
    if (ok && !inputs->tracks->len)
        add_operators(inputs);
    set_faster_apart(inputs);
    tell_links(inputs);
    inputs_name_copies(inputs);
    if (ok && check_any(inputs, error))
        return inputs;
    inputs_free(inputs);
    return NULL;
}

const struct input_trace *inputs_trace_of(const struct report_inputs *inputs,
                                          const struct tracks *tracks)
{
    for (guint t = 0; tracks->measured && t < inputs->traces->len; t++) {
        const struct input_trace *input = g_ptr_array_index(inputs->traces, t);
        if (!g_strcmp0(input->path, tracks->origin))
            return input;
    }
    return NULL;
}

void inputs_free(struct report_inputs *inputs)
{
    if (!inputs)
        return;
    g_ptr_array_unref(inputs->plans);
    g_ptr_array_unref(inputs->traces);
    g_ptr_array_unref(inputs->sweeps);
    g_ptr_array_unref(inputs->runs);
    g_ptr_array_unref(inputs->tracks);
    g_ptr_array_unref(inputs->faster);
    if (inputs->platform)
        platform_free(inputs->platform);
    g_free(inputs->platform_path);
    g_free(inputs);
}
