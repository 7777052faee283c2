#include "collect/collector.h"

#include "collect/declarations.h"
#include "collect/machine.h"
#include "collect/open_ranges.h"
#include "collect/recording.h"
#include "traces/annotations.h"

#include <stdio.h>
#include <unistd.h>

enum {
    MOST_EVENTS_IN_MEMORY = 1 << 16,
    /* A program without iterations may be killed at any time: it loses no more than this. */
    PLAIN_FLUSH_NS = 1000000000
};

enum state {
    PLAIN,     /* no annotation of ours has come: every range is recorded */
    WAITING,   /* for the window's first iteration */
    RECORDING, /* the window is open */
    OVER       /* nothing more is recorded */
};

struct collector {
    GMutex lock; /* of all that follows, but `state` may be read without it */
    gint state;  /* enum state; atomic */
    char *output;
    struct window window;
    int64_t launch_ns;
    struct recording *recording;
    struct declarations *declarations;
    struct record_file *file; /* NULL: not begun */
    uint32_t operator_count;  /* of the trace in the file; 0: it has no iteration */
    uint64_t begun;           /* iterations */
    bool in_iteration;
    uint32_t process;
    uint64_t window_ns; /* what began before is not recorded */
    uint64_t flushed_ns;
    uint64_t last_range;
    GHashTable *started; /* of struct open_range by id: ranges that any thread may end */
};

static enum state state_of(struct collector *collector)
{
    return (enum state)g_atomic_int_get(&collector->state);
}

static void set_state(struct collector *collector, enum state state)
{
    g_atomic_int_set(&collector->state, (gint)state);
}

static bool is_recording(enum state state)
{
    return state == PLAIN || state == RECORDING;
}

struct collector *collector_new(const char *output, struct window window, int64_t launch_ns)
{
    struct collector *collector = g_new0(struct collector, 1);
    g_mutex_init(&collector->lock);
    collector->output = g_strdup(output);
    collector->window = window;
    collector->launch_ns = launch_ns;
    collector->process = (uint32_t)getpid();
    collector->recording = recording_new();
    collector->declarations = declarations_new();
    collector->started = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    collector->flushed_ns = recording_now();
    return collector;
}

/* Stops for good. */
static void stop(struct collector *collector)
{
    set_state(collector, OVER);
    g_clear_pointer(&collector->file, record_file_free);
}

/* Takes the error. */
static void give_up(struct collector *collector, GError *error)
{
    fprintf(stderr, "pstar-collect: %s: the program goes on untraced\n", error->message);
    g_error_free(error);
    stop(collector);
}

/* Begins the file, or begins it anew; `trace` NULL: without an iteration. */
static bool begin_file(struct collector *collector, const struct trace *trace, GError **error)
{
    bool ours = collector->file != NULL;
    if (!ours && window_file_changed(collector->output) > collector->launch_ns) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO,
                    "%s: another process of this run has written it; with %%p in its name each "
                    "writes its own",
                    collector->output);
        return false;
    }
    g_clear_pointer(&collector->file, record_file_free);
    collector->operator_count = trace == NULL ? 0 : trace->operator_count;
    collector->file = record_file_new(collector->output, trace, error);
    return collector->file != NULL;
}

static void flush(struct collector *collector)
{
    GError *error = NULL;
    collector->flushed_ns = recording_now();
    bool good = collector->file != NULL || begin_file(collector, NULL, &error);
    if (!good || !recording_flush(collector->recording, collector->file, &error))
        give_up(collector, error);
}

static void complete(struct collector *collector, bool partial)
{
    flush(collector);
    if (state_of(collector) == OVER)
        return;
    GError *error = NULL;
    uint64_t *durations = recording_durations(collector->recording, collector->operator_count);
    if (!record_file_complete(collector->file, durations, collector->operator_count, partial,
                              &error))
        give_up(collector, error);
    g_free(durations);
    stop(collector);
}

static void open_window(struct collector *collector)
{
    GError *error = NULL;
    struct trace *trace = declarations_take(collector->declarations, &error);
    if (trace == NULL) {
        fprintf(stderr,
                "pstar-collect: the program's iteration is not recorded, its NVTX ranges "
                "are: %s\n",
                error->message);
        g_clear_error(&error);
    } else {
        if (trace->machine == NULL)
            trace->machine = machine_name();
        if (trace->producer == NULL)
            trace->producer = machine_program();
    }
    recording_restart(collector->recording);
    if (begin_file(collector, trace, &error))
        set_state(collector, RECORDING);
    else
        give_up(collector, error);
    collector->window_ns = recording_now();
    trace_free(trace);
}

/* The first annotation of ours: from here on only the window counts. */
static void expect_iterations(struct collector *collector)
{
    if (state_of(collector) == PLAIN)
        set_state(collector, WAITING);
}

static void begin_iteration(struct collector *collector)
{
    g_mutex_lock(&collector->lock);
    expect_iterations(collector);
    if (collector->begun == collector->window.first && state_of(collector) == WAITING)
        open_window(collector);
    collector->begun++;
    collector->in_iteration = true;
    if (state_of(collector) == RECORDING)
        recording_sample(collector->recording);
    g_mutex_unlock(&collector->lock);
}

/* With the lock. */
static void end_iteration(struct collector *collector)
{
    collector->in_iteration = false;
    if (state_of(collector) != RECORDING)
        return;
    recording_sample(collector->recording);
    if (collector->begun == collector->window.end)
        complete(collector, false);
    else
        flush(collector);
}

void collector_close(struct collector *collector)
{
    if (state_of(collector) == OVER)
        return;
    g_mutex_lock(&collector->lock);
    enum state state = state_of(collector);
    if (state == PLAIN &&
        (collector->file != NULL || recording_event_count(collector->recording) > 0)) {
        fprintf(stderr,
                "pstar-collect: %s has the NVTX ranges of the program but no iteration: "
                "the program did not annotate its tensors and operators\n",
                collector->output);
        complete(collector, false);
    } else if (state == RECORDING) {
        fprintf(stderr,
                "pstar-collect: the program ended within the window, after %" G_GUINT64_FORMAT
                " of its %" G_GUINT64_FORMAT " iterations began: %s is partial\n",
                collector->begun - collector->window.first,
                collector->window.end - collector->window.first, collector->output);
        complete(collector, true);
    } else if (state == WAITING) {
        fprintf(stderr,
                "pstar-collect: no trace: the program ended after %" G_GUINT64_FORMAT
                " iterations, the first to be recorded is iteration %" G_GUINT64_FORMAT
                ", counted from 0\n",
                collector->begun, collector->window.first);
        if (collector->file != NULL) /* it has but ranges from before the first annotation */
            unlink(collector->output);
    }
    stop(collector);
    g_mutex_unlock(&collector->lock);
}

void collector_before_fork(struct collector *collector)
{
    g_mutex_lock(&collector->lock);
}

void collector_after_fork(struct collector *collector, bool in_child)
{
    if (in_child) /* the file stays the parent's: it is not even closed */
        set_state(collector, OVER);
    g_mutex_unlock(&collector->lock);
}

const struct record_string *collector_string(struct collector *collector, const char *text)
{
    g_mutex_lock(&collector->lock);
    const struct record_string *string = recording_string(collector->recording, text);
    g_mutex_unlock(&collector->lock);
    return string;
}

const struct collector_domain *collector_domain(struct collector *collector, const char *name)
{
    g_mutex_lock(&collector->lock);
    const struct collector_domain *domain = recording_domain(collector->recording, name);
    g_mutex_unlock(&collector->lock);
    return domain;
}

const struct collector_domain *collector_default_domain(void)
{
    static const struct collector_domain unnamed = {.id = 0, .pstar = false};
    return &unnamed;
}

void collector_name_category(struct collector *collector, const struct collector_domain *domain,
                             uint32_t category, const char *name)
{
    if (state_of(collector) == OVER)
        return;
    g_mutex_lock(&collector->lock);
    recording_name_category(collector->recording, domain, category, name);
    g_mutex_unlock(&collector->lock);
}

/* With the lock. */
static uint32_t text_id(struct collector *collector, const struct annotation *annotation)
{
    if (annotation->registered != NULL)
        return annotation->registered->id;
    return annotation->text == NULL ? 0
                                    : recording_string(collector->recording, annotation->text)->id;
}

static struct record make_record(const struct collector *collector, enum record_type type,
                                 const struct collector_domain *domain,
                                 const struct annotation *annotation)
{
    return (struct record){
        .type = (uint8_t)type,
        .process = collector->process,
        .thread = open_ranges_thread(),
        .domain = domain->id,
        .category = annotation->category,
        .payload_type = annotation->payload_type,
        .payload = annotation->payload,
    };
}

/* With the lock. */
static void add(struct collector *collector, const struct record *record)
{
    recording_add(collector->recording, record);
    bool late = state_of(collector) == PLAIN &&
                recording_now() - collector->flushed_ns > PLAIN_FLUSH_NS;
    if (late || recording_event_count(collector->recording) >= MOST_EVENTS_IN_MEMORY)
        flush(collector);
}

void collector_mark(struct collector *collector, const struct collector_domain *domain,
                    const struct annotation *annotation)
{
    if (state_of(collector) == OVER)
        return;
    uint64_t now = recording_now();
    g_mutex_lock(&collector->lock);
    if (domain->pstar)
        expect_iterations(collector);
    enum state state = state_of(collector);
    if (domain->pstar && annotation->category == ANNOTATION_DECLARATION) {
        if (state == WAITING && annotation->text != NULL)
            declarations_add(collector->declarations, annotation->text, annotation->payload);
    } else if (is_recording(state)) {
        struct record record = make_record(collector, RECORD_MARK, domain, annotation);
        record.start_ns = now;
        record.text = text_id(collector, annotation);
        add(collector, &record);
    }
    g_mutex_unlock(&collector->lock);
}

static struct open_range begin_range(struct collector *collector, enum record_type type,
                                     const struct collector_domain *domain,
                                     const struct annotation *annotation)
{
    struct open_range range = {
        .domain = domain,
        .record = make_record(collector, type, domain, annotation),
    };
    if (annotation->registered != NULL) {
        range.record.text = annotation->registered->id;
    } else if (is_recording(state_of(collector))) {
        g_mutex_lock(&collector->lock);
        range.record.text = text_id(collector, annotation);
        g_mutex_unlock(&collector->lock);
    }
    return range;
}

/* With the lock: a range has ended. */
static void end_range(struct collector *collector, struct open_range *range, uint64_t now)
{
    const struct record *record = &range->record;
    bool ours = range->domain->pstar && record->type == RECORD_PUSH_POP;
    range->record.end_ns = now;
    if (is_recording(state_of(collector)) && record->start_ns >= collector->window_ns) {
        if (ours && record->category == ANNOTATION_OPERATOR && collector->in_iteration)
            recording_add_duration(collector->recording, record->payload, now - record->start_ns);
        add(collector, record);
    }
    if (ours && record->category == ANNOTATION_ITERATION)
        end_iteration(collector);
}

int collector_push(struct collector *collector, const struct collector_domain *domain,
                   const struct annotation *annotation)
{
    if (state_of(collector) == OVER)
        return 0;
    if (domain->pstar && annotation->category == ANNOTATION_ITERATION)
        begin_iteration(collector);
    struct open_range range = begin_range(collector, RECORD_PUSH_POP, domain, annotation);
    range.record.start_ns = recording_now();
    return open_ranges_push(&range);
}

int collector_pop(struct collector *collector, const struct collector_domain *domain)
{
    if (state_of(collector) == OVER)
        return 0;
    uint64_t now = recording_now();
    struct open_range range;
    int level = open_ranges_pop(domain, &range);
    if (level < 0) /* nothing was pushed, or before the collector came */
        return level;
    g_mutex_lock(&collector->lock);
    end_range(collector, &range, now);
    g_mutex_unlock(&collector->lock);
    return level;
}

uint64_t collector_start(struct collector *collector, const struct collector_domain *domain,
                         const struct annotation *annotation)
{
    if (state_of(collector) == OVER)
        return 0;
    struct open_range *range = g_new(struct open_range, 1);
    *range = begin_range(collector, RECORD_START_END, domain, annotation);
    g_mutex_lock(&collector->lock);
    uint64_t id = ++collector->last_range;
    range->record.range_id = id;
    range->record.start_ns = recording_now();
    g_hash_table_insert(collector->started, g_memdup2(&id, sizeof id), range);
    g_mutex_unlock(&collector->lock);
    return id;
}

void collector_end(struct collector *collector, uint64_t id)
{
    if (state_of(collector) == OVER)
        return;
    uint64_t now = recording_now();
    g_mutex_lock(&collector->lock);
    struct open_range *range = (struct open_range *)g_hash_table_lookup(collector->started, &id);
    if (range != NULL) {
        end_range(collector, range, now);
        g_hash_table_remove(collector->started, &id);
    }
    g_mutex_unlock(&collector->lock);
}
