#include "collect/collector_parts.h"
#include "collect/iterations.h"
#include "traces/annotations.h"

#include <unistd.h>

struct thread_ranges {
    uint32_t id;
    GArray *open; /* struct open_range, the innermost last */
};

static void free_thread(void *data)
{
    struct thread_ranges *thread = (struct thread_ranges *)data;
    g_array_unref(thread->open);
    g_free(thread);
}

static struct thread_ranges *this_thread(void)
{
    static GPrivate key = G_PRIVATE_INIT(free_thread);
    struct thread_ranges *thread = (struct thread_ranges *)g_private_get(&key);
    if (!thread) {
        thread = g_new(struct thread_ranges, 1);
        thread->id = (uint32_t)gettid();
        thread->open = g_array_new(false, false, sizeof(struct open_range));
        g_private_set(&key, thread);
    }
    return thread;
}

uint32_t open_ranges_thread(void)
{
    return this_thread()->id;
}

int open_ranges_push(const struct open_range *range)
{
    GArray *open = this_thread()->open;
    g_array_append_val(open, *range);
    return (int)open->len - 1;
}

int open_ranges_pop(const struct collector_domain *domain, struct open_range *range,
                    uint32_t *place)
{
    GArray *open = this_thread()->open;
    guint i = open->len;
    while (i > 0 && g_array_index(open, struct open_range, i - 1).domain != domain)
        i--;
    if (i == 0)
        return -1;
    *range = g_array_index(open, struct open_range, i - 1);
    g_array_remove_index(open, i - 1);
    *place = i - 1;
    return (int)open->len;
}

uint32_t open_ranges_count(void)
{
    return this_thread()->open->len;
}

const struct open_range *open_ranges_at(uint32_t place)
{
    return &g_array_index(this_thread()->open, struct open_range, place);
}

enum { MOST_EVENTS_IN_MEMORY = 1 << 16 };

struct collector *collector_new(const char *output, struct window window, const char *range,
                                int64_t launch_ns)
{
    struct collector *collector = g_new0(struct collector, 1);
    g_mutex_init(&collector->lock);
    g_mutex_init(&collector->pattern_lock);
    collector->output = g_strdup(output);
    collector->window = window;
    collector->launch_ns = launch_ns;
    collector->range = g_strdup(range);
    collector->process = (uint32_t)getpid();
    collector->recording = recording_new();
    collector->declarations = declarations_new();
    collector->started = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
    collector->flushed_ns = recording_now();
    if (window.whole_run)
        collector_open_at_once(collector);
    return collector;
}

const struct record_string *collector_string(struct collector *collector, const char *text)
{
    harmless_lock(&collector->lock);
    const struct record_string *string = recording_string(collector->recording, text);
    harmless_unlock(&collector->lock);
    return string;
}

const struct collector_domain *collector_domain(struct collector *collector, const char *name)
{
    harmless_lock(&collector->lock);
    const struct collector_domain *domain = recording_domain(collector->recording, name);
    harmless_unlock(&collector->lock);
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
    if (collector_state(collector) == OVER)
        return;
    harmless_lock(&collector->lock);
    recording_name_category(collector->recording, domain, category, name);
    harmless_unlock(&collector->lock);
}

/* The caller holds the lock. */
static uint32_t text_id(struct collector *collector, const struct annotation *annotation)
{
    if (annotation->registered)
        return annotation->registered->id;
    return !annotation->text ? 0 : recording_string(collector->recording, annotation->text)->id;
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

/* The caller holds the lock. */
static void add(struct collector *collector, const struct record *record)
{
    recording_add(collector->recording, record);
    if (recording_event_count(collector->recording) >= MOST_EVENTS_IN_MEMORY)
        collector_flush_annotations(collector);
    else if (collector_state(collector) == PLAIN || collector->window.whole_run)
        collector_flush_in_time(collector);
}

/* Returns what kind of iteration mark an annotation is. */
static enum source marks_of(const struct collector *collector,
                            const struct collector_domain *domain,
                            const struct annotation *annotation)
{
    const char *text = annotation->registered ? annotation->registered->text : annotation->text;
    if (domain->pstar)
        return annotation->category == ANNOTATION_ITERATION ? OUR_ANNOTATIONS : NOTHING_MARKS;
    if (!text || collector->window.whole_run || collector->source == OUR_ANNOTATIONS)
        return NOTHING_MARKS;
    if (collector->range)
        return g_pattern_match_simple(collector->range, text) ? NAMED_RANGES : NOTHING_MARKS;
    if (step_marks_is_step(text))
        return STEP_RANGES;
    return step_marks_is_optimizer(text) ? OPTIMIZER_STEPS : NOTHING_MARKS;
}

/* Ends an iteration and begins the next. The caller holds the lock. */
static void pass_to_next_iteration(struct collector *collector, enum source source)
{
    collector_end_iteration(collector, source);
    collector_begin_iteration(collector, source);
}

void collector_mark(struct collector *collector, const struct collector_domain *domain,
                    const struct annotation *annotation)
{
    if (collector_state(collector) == OVER)
        return;
    uint64_t now = recording_now();
    harmless_lock(&collector->lock);
    if (domain->pstar)
        collector_expect_iterations(collector);
    else if (marks_of(collector, domain, annotation) >= STEP_RANGES)
        pass_to_next_iteration(collector, marks_of(collector, domain, annotation));
    enum state state = collector_state(collector);
    if (domain->pstar && annotation->category == ANNOTATION_DECLARATION) {
        if (state == WAITING && annotation->text)
            declarations_add(collector->declarations, annotation->text, annotation->payload);
    } else if (collector_is_recording(state)) {
        struct record record = make_record(collector, RECORD_MARK, domain, annotation);
        record.start_ns = now;
        record.text = text_id(collector, annotation);
        add(collector, &record);
    }
    harmless_unlock(&collector->lock);
}

static struct open_range begin_range(struct collector *collector, enum record_type type,
                                     const struct collector_domain *domain,
                                     const struct annotation *annotation)
{
    struct open_range range = {
        .domain = domain,
        .record = make_record(collector, type, domain, annotation),
    };
    if (annotation->registered) {
        range.record.text = annotation->registered->id;
    } else if (collector_is_recording(collector_state(collector))) {
        harmless_lock(&collector->lock);
        range.record.text = text_id(collector, annotation);
        harmless_unlock(&collector->lock);
    }
    return range;
}

/* Returns whether the range is of an operator that the program has not declared. Such a range would
 * contradict the trace. The caller holds the lock. */
static bool is_undeclared(const struct collector *collector, const struct open_range *range)
{
    return range->domain->pstar && range->record.category == ANNOTATION_OPERATOR &&
           collector->operator_count > 0 && range->record.payload >= collector->operator_count;
}

/* Records a range that has ended. The caller holds the lock. */
static void end_range(struct collector *collector, struct open_range *range, uint64_t now)
{
    const struct record *record = &range->record;
    bool timed = range->domain->pstar && record->category == ANNOTATION_OPERATOR;
    range->record.end_ns = now;
    if (!collector_is_recording(collector_state(collector)) ||
        record->start_ns < collector->window_ns) {
        ; /* it is not of the window */
    } else if (is_undeclared(collector, range)) {
        collector_leave_out_operator(collector, record->payload);
    } else {
        if (timed && collector->in_iteration)
            recording_add_duration(collector->recording, record->payload, now - record->start_ns);
        add(collector, record);
    }
    if (range->marks == OPTIMIZER_STEPS)
        pass_to_next_iteration(collector, OPTIMIZER_STEPS);
    else if (range->marks != NOTHING_MARKS)
        collector_end_iteration(collector, (enum source)range->marks);
}

/* Begins an iteration if the range marks one. Ranges within an iteration and ranges of other
 * threads do not. */
static bool begin_marked(struct collector *collector, enum source source)
{
    harmless_lock(&collector->lock);
    bool taken = source < collector->source ||
                 (source == collector->source && source != OUR_ANNOTATIONS &&
                  (collector->in_iteration || collector->step_thread != open_ranges_thread()));
    if (!taken)
        collector_begin_iteration(collector, source);
    harmless_unlock(&collector->lock);
    return !taken;
}

/* Assigns the thread's device work to the range. */
static void correlate(struct collector *collector, struct open_range *range)
{
    uint32_t around = open_ranges_count();
    harmless_lock(&collector->lock);
    range->record.range_id = ++collector->last_range;
    harmless_unlock(&collector->lock);
    range->record.parent = around > 0 ? open_ranges_at(around - 1)->record.range_id : 0;
    range->correlated = true;
    device_session_push(collector->device, range->record.range_id);
}

/* Ranges of different domains may end in any order, but CUPTI knows only the innermost. So ranges
 * within `range` are popped with it and pushed again. */
static void end_correlation(struct collector *collector, const struct open_range *range,
                            uint32_t place)
{
    if (!range->correlated)
        return;
    for (uint32_t i = place; i < open_ranges_count(); i++)
        if (open_ranges_at(i)->correlated)
            device_session_pop(collector->device);
    device_session_pop(collector->device);
    for (uint32_t i = place; i < open_ranges_count(); i++)
        if (open_ranges_at(i)->correlated)
            device_session_push(collector->device, open_ranges_at(i)->record.range_id);
}

int collector_push(struct collector *collector, const struct collector_domain *domain,
                   const struct annotation *annotation)
{
    if (collector_state(collector) == OVER)
        return 0;
    enum source marks = marks_of(collector, domain, annotation);
    if (marks == OUR_ANNOTATIONS || marks == STEP_RANGES || marks == NAMED_RANGES)
        marks = begin_marked(collector, marks) ? marks : NOTHING_MARKS;
    struct open_range range = begin_range(collector, RECORD_PUSH_POP, domain, annotation);
    range.marks = marks;
    range.record.start_ns = recording_now();
    if (collector->device && collector_state(collector) == RECORDING)
        correlate(collector, &range);
    return open_ranges_push(&range);
}

int collector_pop(struct collector *collector, const struct collector_domain *domain)
{
    if (collector_state(collector) == OVER)
        return 0;
    uint64_t now = recording_now();
    struct open_range range;
    uint32_t place;
    int level = open_ranges_pop(domain, &range, &place);
    if (level < 0) /* nothing was pushed, or only before the collector was loaded */
        return level;
    end_correlation(collector, &range, place);
    harmless_lock(&collector->lock);
    end_range(collector, &range, now);
    harmless_unlock(&collector->lock);
    return level;
}

uint64_t collector_start(struct collector *collector, const struct collector_domain *domain,
                         const struct annotation *annotation)
{
    if (collector_state(collector) == OVER)
        return 0;
    struct open_range *range = g_new(struct open_range, 1);
    *range = begin_range(collector, RECORD_START_END, domain, annotation);
    harmless_lock(&collector->lock);
    uint64_t id = ++collector->last_range;
    range->record.range_id = id;
    range->record.start_ns = recording_now();
    g_hash_table_insert(collector->started, g_memdup2(&id, sizeof id), range);
    harmless_unlock(&collector->lock);
    return id;
}

void collector_end(struct collector *collector, uint64_t id)
{
    if (collector_state(collector) == OVER)
        return;
    uint64_t now = recording_now();
    harmless_lock(&collector->lock);
    struct open_range *range = (struct open_range *)g_hash_table_lookup(collector->started, &id);
    if (range) {
        end_range(collector, range, now);
        g_hash_table_remove(collector->started, &id);
    }
    harmless_unlock(&collector->lock);
}
