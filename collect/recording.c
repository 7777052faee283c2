#include "collect/recording.h"

#include "traces/annotations.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct duration {
    uint64_t moment, duration_ns;
};

struct recording {
    GHashTable *strings_by_text; /* struct record_string */
    GHashTable *domains_by_name; /* struct collector_domain */
    GPtrArray *strings;          /* index is id - 1 */
    guint strings_written;       /* strings already in the file */
    GArray *names;               /* struct record, names of domains and categories */
    guint names_written;
    GArray *events;    /* struct record */
    GArray *samples;   /* struct record_sample */
    GArray *sampled;   /* uint64_t, times at which the process was sampled */
    GArray *durations; /* struct duration */
};

static void free_string(void *data)
{
    struct record_string *string = (struct record_string *)data;
    g_free(string->text);
    g_free(string);
}

struct recording *recording_new(void)
{
    struct recording *recording = g_new0(struct recording, 1);
    recording->strings_by_text = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    recording->domains_by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    recording->strings = g_ptr_array_new_with_free_func(free_string);
    recording->names = g_array_new(false, false, sizeof(struct record));
    recording->events = g_array_new(false, false, sizeof(struct record));
    recording->samples = g_array_new(false, false, sizeof(struct record_sample));
    recording->sampled = g_array_new(false, false, sizeof(uint64_t));
    recording->durations = g_array_new(false, false, sizeof(struct duration));
    return recording;
}

void recording_free(struct recording *recording)
{
    g_hash_table_unref(recording->strings_by_text);
    g_hash_table_unref(recording->domains_by_name);
    g_ptr_array_unref(recording->strings);
    g_array_unref(recording->names);
    g_array_unref(recording->events);
    g_array_unref(recording->samples);
    g_array_unref(recording->sampled);
    g_array_unref(recording->durations);
    g_free(recording);
}

static uint64_t nanoseconds(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

uint64_t recording_now(void)
{
    return nanoseconds(CLOCK_MONOTONIC);
}

const struct record_string *recording_string(struct recording *recording, const char *text)
{
    struct record_string *string =
        (struct record_string *)g_hash_table_lookup(recording->strings_by_text, text);
    if (string)
        return string;
    char *valid = g_utf8_make_valid(text, -1);
    string = g_new(struct record_string, 1);
    string->id = recording->strings->len + 1;
    string->text = valid;
    g_ptr_array_add(recording->strings, string);
    g_hash_table_insert(recording->strings_by_text, g_strdup(text), string);
    return string;
}

const char *recording_text(const struct recording *recording, uint32_t id)
{
    return ((const struct record_string *)g_ptr_array_index(recording->strings, id - 1))->text;
}

static void add_name(struct recording *recording, enum record_type type, uint32_t domain,
                     uint32_t category, const char *name)
{
    struct record record = {
        .type = (uint8_t)type,
        .start_ns = recording_now(),
        .process = (uint32_t)getpid(),
        .thread = (uint32_t)gettid(),
        .domain = domain,
        .category = category,
        .text = recording_string(recording, name)->id,
    };
    g_array_append_val(recording->names, record);
}

const struct collector_domain *recording_domain(struct recording *recording, const char *name)
{
    struct collector_domain *domain =
        (struct collector_domain *)g_hash_table_lookup(recording->domains_by_name, name);
    if (domain)
        return domain;
    domain = g_new(struct collector_domain, 1);
    domain->id = g_hash_table_size(recording->domains_by_name) + 1;
    domain->pstar = strcmp(name, ANNOTATION_DOMAIN) == 0;
    g_hash_table_insert(recording->domains_by_name, g_strdup(name), domain);
    add_name(recording, RECORD_DOMAIN, domain->id, 0, name);
    return domain;
}

void recording_name_category(struct recording *recording, const struct collector_domain *domain,
                             uint32_t category, const char *name)
{
    add_name(recording, RECORD_CATEGORY, domain->id, category, name);
}

void recording_add(struct recording *recording, const struct record *event)
{
    g_array_append_val(recording->events, *event);
}

uint32_t recording_event_count(const struct recording *recording)
{
    return recording->events->len;
}

/* Returns 0 if it is unknown. */
static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;
    if (!file)
        return 0;
    if (fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void recording_add_sample(struct recording *recording, uint64_t time_ns, const char *counter,
                          uint64_t value)
{
    struct record_sample sample = {.time_ns = time_ns, .counter = counter, .value = value};
    g_array_append_val(recording->samples, sample);
}

void recording_sample(struct recording *recording)
{
    uint64_t now = recording_now();
    g_array_append_val(recording->sampled, now);
    recording_add_sample(recording, now, "resident_bytes", resident_bytes());
    recording_add_sample(recording, now, "processor_ns", nanoseconds(CLOCK_PROCESS_CPUTIME_ID));
    recording_add_sample(recording, now, "realtime_ns", nanoseconds(CLOCK_REALTIME));
}

const uint64_t *recording_sampled(const struct recording *recording, uint32_t *count)
{
    *count = recording->sampled->len;
    return (const uint64_t *)(void *)recording->sampled->data;
}

void recording_add_duration(struct recording *recording, uint64_t moment, uint64_t duration_ns)
{
    struct duration duration = {.moment = moment, .duration_ns = duration_ns};
    g_array_append_val(recording->durations, duration);
}

static int by_moment_and_duration(const void *left, const void *right)
{
    const struct duration *a = (const struct duration *)left;
    const struct duration *b = (const struct duration *)right;
    if (a->moment != b->moment)
        return a->moment < b->moment ? -1 : 1;
    return (a->duration_ns > b->duration_ns) - (a->duration_ns < b->duration_ns);
}

uint64_t *recording_durations(const struct recording *recording, uint32_t operator_count)
{
    g_array_sort(recording->durations, by_moment_and_duration);
    const struct duration *sorted = (const struct duration *)(void *)recording->durations->data;
    uint64_t *medians = g_new0(uint64_t, operator_count);
    guint first = 0;
    while (first < recording->durations->len) {
        guint end = first;
        while (end < recording->durations->len && sorted[end].moment == sorted[first].moment)
            end++;
        guint count = end - first;
        uint64_t low = sorted[first + (count - 1) / 2].duration_ns;
        uint64_t high = sorted[first + count / 2].duration_ns;
        if (sorted[first].moment < operator_count)
            medians[sorted[first].moment] = low + (high - low) / 2;
        first = end;
    }
    return medians;
}

void recording_drop(struct recording *recording)
{
    g_array_set_size(recording->events, 0);
    g_array_set_size(recording->samples, 0);
}

void recording_restart(struct recording *recording)
{
    recording_drop(recording);
    g_array_set_size(recording->sampled, 0);
    g_array_set_size(recording->durations, 0);
    recording->strings_written = 0;
    recording->names_written = 0;
}

static bool flush_strings(struct recording *recording, struct record_file *file, GError **error)
{
    guint count = recording->strings->len - recording->strings_written;
    struct record_string *strings = g_new(struct record_string, count);
    for (guint i = 0; i < count; i++)
        strings[i] = *(const struct record_string *)g_ptr_array_index(
            recording->strings, recording->strings_written + i);
    struct record *names = (struct record *)(void *)recording->names->data;
    const struct records more = {
        .strings = strings,
        .string_count = count,
        .events = !names ? NULL : names + recording->names_written,
        .event_count = recording->names->len - recording->names_written,
    };
    bool ok = record_file_add(file, &more, error);
    if (ok) {
        recording->strings_written = recording->strings->len;
        recording->names_written = recording->names->len;
    }
    g_free(strings);
    return ok;
}

bool recording_flush(struct recording *recording, const struct activity *activity,
                     struct record_file *file, GError **error)
{
    const struct records more = {
        .events = (struct record *)(void *)recording->events->data,
        .event_count = recording->events->len,
        .samples = (struct record_sample *)(void *)recording->samples->data,
        .sample_count = recording->samples->len,
        .activity = activity,
    };
    bool ok = flush_strings(recording, file, error) && record_file_add(file, &more, error);
    g_array_set_size(recording->events, 0);
    g_array_set_size(recording->samples, 0);
    return ok;
}
