#include "collect/collector_parts.h"
#include "traces/annotations.h"

#include <glib.h>
#include <string.h>
#include <unistd.h>

/* Returns NULL if the kernel does not tell. */
static char *processor_name(void)
{
    char *text;
    if (!g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL))
        return NULL;
    char *name = NULL;
    char *line = strstr(text, "model name");
    char *colon = !line ? NULL : strchr(line, ':');
    if (colon)
        name = g_strstrip(g_strndup(colon + 1, strcspn(colon + 1, "\n")));
    g_free(text);
    return name;
}

/* Returns the processor's name, the number of usable processors, and the GPU, if one is in use:
 * "Some CPU @ 2 GHz, 8 processors, Some GPU". Free with g_free. */
static char *machine_name(const struct collector *collector)
{
    g_autofree char *processor = processor_name();
    g_autofree char *gpu = collector_has_device(collector) ? device_session_gpu(collector->device)
                                                           : NULL;
    return g_strdup_printf("%s, %u processors%s%s", !processor ? "unknown" : processor,
                           g_get_num_processors(), gpu ? ", " : "", gpu ? gpu : "");
}

/* Returns the name of the program that this process runs. Free with g_free. */
static char *machine_program(void)
{
    char *path = g_file_read_link("/proc/self/exe", NULL);
    char *name = !path ? g_strdup("unknown") : g_path_get_basename(path);
    char *valid = g_utf8_make_valid(name, -1);
    g_free(name);
    g_free(path);
    return valid;
}

/* The window: when it opens and closes, and what is written to the file. */

static void set_state(struct collector *collector, enum state state)
{
    g_atomic_int_set(&collector->state, (gint)state);
}

/* Stops recording for good. */
static void stop(struct collector *collector)
{
    set_state(collector, OVER);
    if (collector->sampler)
        sampler_turn(collector->sampler, false);
    declared_clear(&collector->declared);
    g_clear_pointer(&collector->file, record_file_free);
}

void collector_give_up(struct collector *collector, GError *error)
{
    harmless_say("%s: the program goes on untraced", error->message);
    g_error_free(error);
    if (collector->device)
        activity_free(device_session_close(collector->device, 0));
    stop(collector);
}

bool collector_note_unknown(const struct collector *collector, GError **error)
{
    const char *const reasons[] = {collector->declared.unknown, collector->unrecorded,
                                   collector->undeclared, collector->doubted};
    g_autoptr(GString) text = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(reasons); i++)
        if (reasons[i])
            g_string_append_printf(text, "%s%s", text->len > 0 ? "\n" : "", reasons[i]);
    struct harmless before;
    harmless_begin(&before);
    bool ok = text->len == 0 || record_file_note(collector->file, "unknown", text->str, error);
    harmless_end(&before);
    return ok;
}

void collector_leave_out_operator(struct collector *collector, uint64_t moment)
{
    GError *error = NULL;
    if (collector->undeclared)
        return;
    collector->undeclared = g_strdup_printf(
        "ranges of operators that the program did not declare, the first with payload "
        "%" G_GUINT64_FORMAT " (it declared the operators 0 to %u)",
        moment, collector->operator_count - 1);
    harmless_say("not recorded: %s", collector->undeclared);
    if (!collector_note_unknown(collector, &error))
        collector_give_up(collector, error);
}

static bool is_anothers(const struct collector *collector, GError **error)
{
    if (collector->file || window_file_changed(collector->output) <= collector->launch_ns)
        return false;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO,
                "%s: another process of this run has written this file; put %%p into the name to "
                "give each process its own",
                collector->output);
    return true;
}

static bool describe_run(const struct collector *collector, GError **error)
{
    g_autofree char *program = machine_program();
    const struct record_session session = {
        .realtime_ns = g_get_real_time() * 1000 - (int64_t)recording_now(),
        .process = collector->process,
        .program = program,
    };
    return record_file_describe(collector->file, &session, error);
}

/* Creates the file, or creates it again. `trace` may be NULL if there is no iteration. */
static bool begin_file(struct collector *collector, const struct trace *trace, GError **error)
{
    int folder = window_lock_folder(collector->output);
    if (!is_anothers(collector, error)) {
        g_clear_pointer(&collector->file, record_file_free);
        collector->operator_count = !trace ? 0 : trace->operator_count;
        collector->file = record_file_new(collector->output, trace, error);
    }
    if (folder >= 0)
        close(folder);
    return collector->file && describe_run(collector, error) &&
           collector_note_unknown(collector, error);
}

/* Writes the annotations and `activity`, which it frees and which may be NULL. */
static void flush(struct collector *collector, struct activity *activity)
{
    GError *error = NULL;
    struct harmless before;
    harmless_begin(&before);
    collector->flushed_ns = recording_now();
    bool ok = collector->file || begin_file(collector, NULL, &error);
    if (!ok || !recording_flush(collector->recording, activity, collector->file, &error))
        collector_give_up(collector, error);
    activity_free(activity);
    harmless_end(&before);
}

void collector_flush_annotations(struct collector *collector)
{
    flush(collector, NULL);
}

static struct activity *take_activity(struct collector *collector)
{
    return collector_has_device(collector) ? device_session_take(collector->device) : NULL;
}

void collector_flush_in_time(struct collector *collector)
{
    if (recording_now() - collector->flushed_ns > FLUSH_NS && !collector->closing)
        flush(collector, take_activity(collector));
}

/* Adds samples of pinned memory, which are known only when all records have come. */
static void add_pinned(struct collector *collector)
{
    uint32_t count;
    const uint64_t *times = recording_sampled(collector->recording, &count);
    g_autofree uint64_t *bytes = g_new(uint64_t, count);
    device_session_pinned(collector->device, times, count, bytes);
    for (uint32_t i = 0; i < count; i++)
        recording_add_sample(collector->recording, times[i], "pinned_bytes", bytes[i]);
}

/* A wrong time of an operator would falsify every prediction, so none goes unsaid. */
static bool note_doubts(struct collector *collector, const struct record_doubts *doubts,
                        GError **error)
{
    bool none = collector_has_device(collector) && device_session_lacks_ranges(collector->device);
    g_autofree char *calls = g_strdup_printf("%u", doubts->calls);
    if (doubts->calls && !record_file_note(collector->file, "correlated_by_time", calls, error))
        return false;
    if (doubts->calls && none)
        harmless_say("CUPTI did not say which ranges asked for the device's work: %u calls were "
                     "assigned to ranges by their times",
                     doubts->calls);
    if (!doubts->operators)
        return true;
    collector->doubted = g_strdup_printf(
        "the device's times of %u of %u operators, %s", doubts->operators,
        collector->operator_count,
        collector->declared.queued
            ? "whose durations are unknown: the program only queues them, and the device's work "
              "was "
              "not recorded (with PSTAR_CUDA_SYNC=1 pstar-run waits for each)"
            : "which have the host's times: work of unknown origin ran during them");
    harmless_say("not recorded: %s", collector->doubted);
    return collector_note_unknown(collector, error);
}

/* Recording slows the host, so the device may idle between kernels, and then computes at a higher
 * clock. If an iteration takes as long as its operators, one that was not recorded says how long
 * they take in all. */
static bool scale_durations(const struct collector *collector, uint64_t *durations, GError **error)
{
    double sum = 0;
    for (uint32_t m = 0; m < collector->operator_count; m++) {
        if (durations[m] == 0)
            return true;
        sum += (double)durations[m];
    }
    if (!collector->declared.resident || !collector->unrecorded_ns || sum == 0)
        return true;
    double factor = (double)collector->unrecorded_ns / sum;
    for (uint32_t m = 0; m < collector->operator_count; m++)
        durations[m] = (uint64_t)MAX(1, (double)durations[m] * factor + 0.5);
    g_autofree char *text = g_strdup_printf("%.4f", factor);
    return record_file_note(collector->file, "durations_scaled", text, error);
}

static bool set_durations(struct collector *collector, uint64_t *durations, bool partial,
                          GError **error)
{
    uint32_t count = collector->operator_count;
    struct record_doubts doubts;
    bool queued = collector->declared.queued;
    if (!record_file_device_times(collector->file, queued, durations, count, &doubts, error) ||
        !note_doubts(collector, &doubts, error))
        return false;
    if (collector->declared.fused)
        fused_divide(collector->declared.fused, durations);
    if (!scale_durations(collector, durations, error))
        return false;
    return record_file_complete(collector->file, durations, count, partial, error);
}

void collector_complete(struct collector *collector, uint64_t waited, bool partial)
{
    struct activity *rest = NULL;
    if (collector_has_device(collector))
        rest = device_session_close(collector->device, waited);
    if (rest)
        add_pinned(collector);
    flush(collector, rest);
    if (collector_state(collector) == OVER)
        return;
    GError *error = NULL;
    struct harmless before;
    harmless_begin(&before);
    uint64_t *durations = recording_durations(collector->recording, collector->operator_count);
    if (!set_durations(collector, durations, partial, &error))
        collector_give_up(collector, error);
    g_free(durations);
    stop(collector);
    harmless_end(&before);
}

/* Ends the window after its last iteration. Device work may need the lock, so waits without it. */
static void complete_after_device(struct collector *collector)
{
    uint64_t waited = 0;
    collector->closing = true;
    if (collector_has_device(collector)) {
        harmless_unlock(&collector->lock);
        waited = device_session_wait(collector->device);
        harmless_lock(&collector->lock);
    }
    if (collector_state(collector) == RECORDING)
        collector_complete(collector, waited, false);
}

/* Returns the declared trace; NULL if there is none. Prints the reason only if the program made
 * declarations. */
static struct trace *take_trace(struct collector *collector)
{
    GError *error = NULL;
    if (collector->source != OUR_ANNOTATIONS)
        return NULL;
    struct trace *trace = declarations_take(collector->declarations, &collector->declared, &error);
    if (!trace) {
        harmless_say("the program's iteration is not recorded, its NVTX ranges are: %s",
                     error->message);
        g_clear_error(&error);
    } else {
        if (!trace->machine)
            trace->machine = machine_name(collector);
        if (!trace->producer)
            trace->producer = machine_program();
    }
    return trace;
}

/* Returns NULL if iterations were annotated or there are none. Free with g_free. */
static char *describe_source(struct collector *collector)
{
    char *text = NULL;
    switch (collector->source) {
    case REPEATED_LAUNCHES:
        g_mutex_lock(&collector->pattern_lock);
        text = launch_pattern_describe(collector->pattern);
        g_mutex_unlock(&collector->pattern_lock);
        return text;
    case OPTIMIZER_STEPS:
        return g_strdup("ranges around the optimizer's steps");
    case STEP_RANGES:
        return g_strdup("ranges or marks with a step's number");
    case NAMED_RANGES:
        return g_strdup_printf("ranges of the name '%s'", collector->range);
    default:
        return NULL;
    }
}

static bool note_source(struct collector *collector, GError **error)
{
    g_autofree char *text = describe_source(collector);
    return !text || record_file_note(collector->file, "iterations_by", text, error);
}

static void open_window(struct collector *collector)
{
    GError *error = NULL;
    struct harmless before;
    harmless_begin(&before);
    struct trace *trace = take_trace(collector);
    recording_restart(collector->recording);
    if (begin_file(collector, trace, &error) && note_source(collector, &error)) {
        set_state(collector, RECORDING);
        collector_open_device(collector);
    } else {
        collector_give_up(collector, error);
    }
    collector->window_ns = recording_now();
    trace_free(trace);
    harmless_end(&before);
}

void collector_pause(struct collector *collector)
{
    set_state(collector, WAITING);
    collector->paused = true;
    collector->begun--;
    recording_drop(collector->recording);
    if (collector_has_device(collector))
        device_session_pause(collector->device);
    if (collector->sampler)
        sampler_turn(collector->sampler, false);
}

static void go_on(struct collector *collector)
{
    collector->paused = false;
    collector->window_ns = recording_now();
    set_state(collector, RECORDING);
    collector_open_device(collector);
}

void collector_open_at_once(struct collector *collector)
{
    if (collector_state(collector) == PLAIN)
        open_window(collector);
}

void collector_expect_iterations(struct collector *collector)
{
    collector->source = OUR_ANNOTATIONS;
    if (collector_state(collector) == PLAIN)
        set_state(collector, WAITING);
    if (collector_has_device(collector))
        device_session_watch(collector->device, false);
}

/* If only ends of iterations are marked, the first iteration has been running when its end is seen.
 */
bool collector_takes_over(struct collector *collector, enum source source)
{
    enum state state = collector_state(collector);
    if (source > collector->source && !collector->paused && (state == PLAIN || state == WAITING)) {
        collector->source = source;
        bool under_way = source <= OPTIMIZER_STEPS;
        collector->begun = under_way;
        collector->in_iteration = under_way;
        if (source > REPEATED_LAUNCHES && collector_has_device(collector))
            device_session_watch(collector->device, false);
        collector->step_thread = open_ranges_thread();
        set_state(collector, WAITING);
    }
    return source == collector->source && state != OVER;
}

/* Measures the iteration that ends where the next one begins, if it was not recorded. The first one
 * warms up. */
static void note_unrecorded(struct collector *collector)
{
    uint64_t took = recording_now() - collector->iteration_ns;
    bool whole = collector->begun > 1 && collector->begun <= collector->window.first;
    if (whole && (!collector->unrecorded_ns || took < collector->unrecorded_ns))
        collector->unrecorded_ns = took;
}

void collector_begin_iteration(struct collector *collector, enum source source)
{
    if (!collector_takes_over(collector, source))
        return;
    note_unrecorded(collector);
    struct window *window = &collector->window;
    if (collector->paused) {
        go_on(collector);
    } else if (collector->begun >= window->first && collector_state(collector) == WAITING) {
        uint64_t late = collector->begun - window->first;
        window->first += late;
        window->end += late;
        open_window(collector);
    }
    collector->begun++;
    collector->in_iteration = true;
    if (collector_has_device(collector))
        device_session_begin(collector->device);
    collector->iteration_ns = recording_now();
    if (collector_state(collector) == RECORDING)
        recording_sample(collector->recording);
}

/* Adds the range that an annotating program would have made. */
static void add_iteration(struct collector *collector)
{
    const struct record record = {
        .type = RECORD_PUSH_POP,
        .start_ns = collector->iteration_ns,
        .end_ns = recording_now(),
        .process = collector->process,
        .thread = open_ranges_thread(),
        .domain = recording_domain(collector->recording, ANNOTATION_DOMAIN)->id,
        .category = ANNOTATION_ITERATION,
        .payload_type = RECORD_UINT64,
        .payload = collector->begun - 1,
        .text = recording_string(collector->recording, "iteration")->id,
    };
    recording_add(collector->recording, &record);
}

void collector_end_iteration(struct collector *collector, enum source source)
{
    if (!collector_takes_over(collector, source) || !collector->in_iteration)
        return;
    collector->in_iteration = false;
    if (collector_state(collector) != RECORDING || collector->closing)
        return;
    if (source != OUR_ANNOTATIONS)
        add_iteration(collector);
    recording_sample(collector->recording);
    if (collector->begun == collector->window.end)
        complete_after_device(collector);
    else
        flush(collector, take_activity(collector));
}

static void say_why_none(const struct collector *collector)
{
    harmless_say("no trace: the program ended after %" G_GUINT64_FORMAT
                 " iterations, the first to be recorded is iteration %" G_GUINT64_FORMAT
                 ", counted from 0",
                 collector->begun, collector->window.first);
}

static void close_plain(struct collector *collector)
{
    if (!collector->file && recording_event_count(collector->recording) == 0) {
        if (collector_has_device(collector))
            harmless_say("no trace: nothing marks the program's iterations, and its launches do "
                         "not repeat often enough to tell them; --iterations all records the "
                         "whole run");
        return;
    }
    harmless_say("%s has the NVTX ranges of the program but no iteration: the program did not "
                 "annotate its tensors and operators",
                 collector->output);
    collector_complete(collector, 0, false);
}

static void close_window(struct collector *collector)
{
    bool whole = collector->window.whole_run;
    if (!whole)
        harmless_say("the program ended within the window, after %" G_GUINT64_FORMAT
                     " of its %" G_GUINT64_FORMAT " iterations began: %s is partial",
                     collector->begun - collector->window.first,
                     collector->window.end - collector->window.first, collector->output);
    collector_complete(collector, 0, !whole);
}

void collector_close(struct collector *collector)
{
    if (harmless_is_locked()) /* a signal handler that interrupted us ends the program */
        return;
    if (collector_state(collector) == OVER) {
        sampler_stop(g_steal_pointer(&collector->sampler));
        return;
    }
    harmless_lock(&collector->lock);
    enum state state = collector_state(collector);
    if (state == PLAIN) {
        close_plain(collector);
    } else if (state == RECORDING || collector->paused) {
        close_window(collector);
    } else if (state == WAITING) {
        say_why_none(collector);
        if (collector->file) /* it holds only ranges from before the first annotation */
            unlink(collector->output);
    }
    stop(collector);
    harmless_unlock(&collector->lock);
    sampler_stop(g_steal_pointer(&collector->sampler));
}

void collector_before_fork(struct collector *collector)
{
    harmless_lock(&collector->lock);
}

void collector_after_fork(struct collector *collector, bool in_child)
{
    if (in_child) { /* the parent keeps the file, which is not even closed here, and the thread */
        set_state(collector, OVER);
        collector->sampler = NULL;
    }
    harmless_unlock(&collector->lock);
}
