/* Summaries of activity, and checks of its consistency. */
#include "traces/activity/activity_summary.h"

#include "tests/traces/random_activity.h"
#include "tests/traces/random_trace.h"
#include "traces/activity/activity_file.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>

enum { ROUNDS = 30, MOST = 60 };

struct fixture {
    GRand *random;
    struct activity *activity;
    struct record_string *strings;
    struct records records;
};

static void set_up(struct fixture *f, gconstpointer data)
{
    (void)data;
    f->random = g_rand_new_with_seed((guint32)g_test_rand_int());
    f->activity = random_activity(f->random, MOST);
    f->activity->recorded = ACTIVITY_ALL;
    f->strings = random_activity_strings();
    f->records = (struct records){.strings = f->strings, .string_count = RANDOM_ACTIVITY_STRINGS};
}

static void tear_down(struct fixture *f, gconstpointer data)
{
    (void)data;
    random_activity_strings_free(f->strings);
    activity_free(f->activity);
    g_rand_free(f->random);
}

/* Computes the busy time from scratch. Between two ends nothing changes, so it does not go
 * nanosecond by nanosecond. */
static uint64_t busy_of(const struct activity *activity, uint32_t device)
{
    g_autoptr(GArray) ends = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    uint64_t busy = 0;
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        g_array_append_val(ends, activity->kernels[i].start_ns);
        g_array_append_val(ends, activity->kernels[i].end_ns);
    }
    for (guint e = 0; e < ends->len; e++) {
        uint64_t from = g_array_index(ends, uint64_t, e), to = UINT64_MAX;
        bool first = true, ran = false;
        for (guint o = 0; o < ends->len; o++) {
            uint64_t other = g_array_index(ends, uint64_t, o);
            to = other > from ? MIN(to, other) : to;
            first = first && (other != from || o >= e);
        }
        for (uint32_t i = 0; i < activity->kernel_count; i++)
            ran |= activity->kernels[i].device == device && activity->kernels[i].start_ns <= from &&
                   activity->kernels[i].end_ns > from;
        busy += first && ran ? to - from : 0;
    }
    return busy;
}

static void check_devices(const struct activity_summary *summary, const struct activity *activity)
{
    uint32_t kernels = 0, copies = 0, sets = 0;
    for (guint i = 0; i < summary->devices->len; i++) {
        const struct device_summary *device = &g_array_index(summary->devices,
                                                             struct device_summary, i);
        g_assert_cmpuint(device->busy_ns, ==, busy_of(activity, device->device));
        g_assert_cmpuint(device->busy_ns, <=, device->kernel_ns);
        g_assert_true(device->gpu == &activity->gpus[device->device]);
        kernels += device->kernel_count;
        copies += device->copy_count;
        sets += device->set_count;
    }
    g_assert_cmpuint(kernels, ==, activity->kernel_count);
    g_assert_cmpuint(copies, ==, activity->copy_count);
    g_assert_cmpuint(sets, ==, activity->set_count);
}

static void check_kernels(const struct activity_summary *summary, const struct fixture *f)
{
    uint64_t before = UINT64_MAX;
    uint32_t count = 0;
    for (guint i = 0; i < summary->kernels->len; i++) {
        const struct kernel_summary *kernel = &g_array_index(summary->kernels,
                                                             struct kernel_summary, i);
        uint64_t total = 0, longest = 0;
        for (uint32_t k = 0; k < f->activity->kernel_count; k++) {
            const struct kernel_record *record = &f->activity->kernels[k];
            uint64_t ns = record->end_ns - record->start_ns;
            if (strcmp(f->strings[record->name - 1].text, kernel->name) != 0)
                continue;
            total += ns;
            longest = MAX(longest, ns);
            count++;
        }
        g_assert_cmpuint(kernel->total_ns, ==, total);
        g_assert_cmpuint(kernel->longest_ns, ==, longest);
        g_assert_cmpuint(kernel->total_ns, <=, before);
        before = kernel->total_ns;
    }
    g_assert_cmpuint(count, ==, f->activity->kernel_count);
}

static void test_sums(struct fixture *f, gconstpointer data)
{
    (void)data;
    for (int round = 0; round < ROUNDS; round++) {
        struct activity_summary *summary = activity_summary_new(f->activity, &f->records);
        uint64_t bytes = 0, copied = 0, waits = 0;
        check_devices(summary, f->activity);
        check_kernels(summary, f);
        for (uint32_t i = 0; i < f->activity->copy_count; i++)
            copied += f->activity->copies[i].bytes;
        for (guint i = 0; i < summary->traffic->len; i++)
            bytes += g_array_index(summary->traffic, struct traffic_summary, i).bytes;
        g_assert_cmpuint(bytes, ==, copied);
        for (uint32_t i = 0; i < f->activity->sync_count; i++)
            if (f->activity->syncs[i].type != SYNC_STREAM_WAITS_EVENT)
                waits += f->activity->syncs[i].end_ns - f->activity->syncs[i].start_ns;
        g_assert_cmpuint(summary->wait_ns, ==, waits);
        activity_summary_free(summary);
        activity_free(f->activity);
        f->activity = random_activity(f->random, MOST);
        f->activity->recorded = ACTIVITY_ALL;
    }
}

enum { PLACES = 6, EVENTS = 200 };

/* Computes the level after an event from scratch. */
static uint64_t level_after(const struct memory_record *events, uint32_t count, uint32_t kind)
{
    uint64_t sum = 0;
    for (uint64_t place = 0; place < PLACES; place++) {
        const struct memory_record *last = NULL;
        for (uint32_t i = 0; i < count; i++)
            last = events[i].address == place ? &events[i] : last;
        if (last && last->operation == MEMORY_ALLOCATE && last->kind == kind)
            sum += last->bytes;
    }
    return sum;
}

static void check_level(const struct memory_level *level, const struct memory_record *events,
                        uint32_t kind)
{
    uint64_t peak = 0, when = 0;
    for (uint32_t i = 1; i <= EVENTS; i++) {
        uint64_t now = level_after(events, i, kind);
        when = now > peak ? events[i - 1].start_ns : when;
        peak = MAX(peak, now);
    }
    g_assert_cmpuint(level->peak_bytes, ==, peak);
    g_assert_cmpuint(level->peak_ns, ==, when);
    g_assert_cmpuint(level->live_bytes, ==, level_after(events, EVENTS, kind));
}

/* Allocates, frees, frees twice and allocates twice at random places. */
static void test_memory(struct fixture *f, gconstpointer data)
{
    (void)data;
    static const uint32_t kinds[] = {MEMORY_DEVICE, MEMORY_PINNED, MEMORY_MANAGED, MEMORY_PAGEABLE};
    for (int round = 0; round < ROUNDS; round++) {
        struct memory_record events[EVENTS];
        uint32_t unseen = 0, reused = 0;
        bool taken[PLACES] = {false};
        for (uint32_t i = 0; i < EVENTS; i++) {
            uint32_t place = (uint32_t)g_rand_int_range(f->random, 0, PLACES);
            bool allocate = g_rand_boolean(f->random);
            events[i] = (struct memory_record){
                .start_ns = 1000 + i,
                .address = place,
                .bytes = (uint64_t)g_rand_int_range(f->random, 1, 1000),
                .kind = kinds[g_rand_int_range(f->random, 0, G_N_ELEMENTS(kinds))],
                .pool_bytes = i,
                .operation = allocate ? MEMORY_ALLOCATE : MEMORY_FREE};
            unseen += !allocate && !taken[place];
            reused += allocate && taken[place];
            taken[place] = allocate;
        }
        const struct activity activity = {.memory = events, .memory_count = EVENTS};
        struct memory_use *use = memory_use_of(&activity);
        g_assert_cmpuint(use->devices->len, ==, 1);
        const struct device_memory *device = &g_array_index(use->devices, struct device_memory, 0);
        check_level(&device->allocated, events, MEMORY_DEVICE);
        check_level(&use->pinned, events, MEMORY_PINNED);
        check_level(&use->managed, events, MEMORY_MANAGED);
        g_assert_cmpuint(device->pool_peak_bytes, ==, EVENTS - 1);
        g_assert_cmpuint(use->unseen, ==, unseen);
        g_assert_cmpuint(use->reused, ==, reused);
        memory_use_free(use);
    }
}

static void test_missing(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_autoptr(GPtrArray) missing = g_ptr_array_new_with_free_func(g_free);
    struct activity only = *f->activity;
    only.recorded = ACTIVITY_KERNELS;
    only.dropped = 5;
    only.unfinished = 6;
    only.untimed = 7;
    only.unreadable = 8;
    only.memory_count = 0;
    struct activity_summary *summary = activity_summary_new(&only, &f->records);
    activity_summary_missing(summary, &only, missing);
    static const char *const begin[] = {"copies",    "allocations", "the calls", "5 records",
                                        "6 records", "7 records",   "8 bytes"};
    g_assert_cmpuint(missing->len, ==, G_N_ELEMENTS(begin));
    for (guint i = 0; i < missing->len; i++)
        g_assert_true(g_str_has_prefix(g_ptr_array_index(missing, i), begin[i]));
    activity_summary_free(summary);
    only.recorded = 0;
    g_assert_null(activity_summary_new(&only, &f->records));
}

static void refuse(const struct fixture *f, bool partial, const char *says)
{
    GError *error = NULL;
    bool ok = activity_verify(f->activity, &f->records, partial, "run.pstar", &error);
    if (!says) {
        g_assert_no_error(error);
        g_assert_true(ok);
        return;
    }
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_assert_false(ok);
    g_assert_true(g_str_has_prefix(error->message, "run.pstar: "));
    if (!strstr(error->message, says))
        g_error("'%s' does not say '%s'", error->message, says);
    g_clear_error(&error);
}

static void test_verify(struct fixture *f, gconstpointer data)
{
    (void)data;
    struct activity *activity = f->activity;
    uint32_t *fields[] = {&activity->kernels[0].name,        &activity->kernels[0].short_name,
                          &activity->calls[0].name,          &activity->kernels[0].device,
                          &activity->copies[0].device,       &activity->sets[0].device,
                          &activity->kernels[0].correlation, &activity->copies[0].correlation,
                          &activity->sets[0].correlation};
    static const char *const says[] = {
        "KERNEL: the row that starts at 1700000000",
        "names string 99999",
        "RUNTIME: the row",
        "names device 99999",
        "MEMCPY: the row",
        "MEMSET: the row",
        "names correlation 99999",
        "MEMCPY: the row",
        "MEMSET: the row",
    };
    activity->dropped = activity->unreadable = 0;
    activity->chosen_calls = false;
    refuse(f, false, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(fields); i++) {
        uint32_t right = *fields[i];
        *fields[i] = 99999;
        refuse(f, false, says[i]);
        *fields[i] = right;
    }
    activity->kernels[0].correlation = 99999; /* its call may be among the lost records */
    refuse(f, true, NULL);
    activity->dropped = 1;
    refuse(f, false, NULL);
    activity->dropped = 0;
    activity->chosen_calls = true;
    refuse(f, false, NULL);
}

/* Checks through the file, too. */
static void test_check(struct fixture *f, gconstpointer data)
{
    (void)data;
    g_autofree char *folder = g_dir_make_tmp("pstar-activity-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "run.pstar", NULL);
    struct trace *trace = random_trace(f->random, 10);
    for (int wrong = 0; wrong < 2; wrong++) {
        GError *error = NULL;
        f->activity->dropped = f->activity->unreadable = 0;
        f->activity->chosen_calls = false;
        f->activity->copies[0].correlation = wrong ? 77777 : f->activity->copies[0].correlation;
        f->records.activity = f->activity;
        struct record_file *file = record_file_new(path, trace, NULL);
        g_assert_true(record_file_add(file, &f->records, NULL));
        g_assert_true(record_file_complete(file, NULL, 0, false, NULL));
        record_file_free(file);
        g_assert_cmpint(trace_verify(path, &error), ==, !wrong);
        g_assert_cmpint(error && strstr(error->message, "correlation 77777"), ==, wrong);
        g_clear_error(&error);
    }
    trace_free(trace);
    g_unlink(path);
    g_rmdir(folder);
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/activity-summary/sums", test_sums);
    ADD("/activity-summary/memory", test_memory);
    ADD("/activity-summary/missing", test_missing);
    ADD("/activity-summary/verify", test_verify);
    ADD("/activity-summary/check", test_check);
    return g_test_run();
}
