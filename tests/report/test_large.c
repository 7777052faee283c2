/* A recording of a million kernels gives a page that a phone can load. The size of the page does
 * not grow with the recording, and neither the time with the square of what a file holds. */
#include "tests/report/drawn.h"
#include "tests/sanitized.h"
#include "traces/records.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/resource.h>
#include <zlib.h>

/* Sanitizers see the same code with a tenth. */
enum { KERNELS = UNLESS_SANITIZED(1000000, 100000), KERNELS_A_COPY = 50, NAMES = 300 };

#define PAGE_BYTES 5000000

/* For this process and gnuplot together. CPU time is measured because other programs do not change
 * it, and only optimised builds must meet it. */
#define CPU_SECONDS     10
#define CPU_SECONDS_FEW 5 /* where there are fewer spans */
#if defined __OPTIMIZE__ && !defined __SANITIZE_ADDRESS__
#define FAST true
#else
#define FAST false
#endif

static double cpu_seconds(void)
{
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double seconds = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(whose); i++) {
        struct rusage usage;
        getrusage(whose[i], &usage);
        seconds += (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
    }
    return seconds;
}

static void make_names(struct record_string *strings)
{
    for (uint32_t i = 0; i < NAMES; i++)
        strings[i] = (struct record_string){i + 1, g_strdup_printf("kernel_%u<float>", i)};
}

/* Kernels of 5 to 55 us in one stream with gaps, and a copy after every fiftieth. */
static struct activity make_activity(void)
{
    struct activity activity = {.kernels = g_new0(struct kernel_record, KERNELS),
                                .copies = g_new0(struct copy_record, KERNELS / KERNELS_A_COPY),
                                .calls = g_new0(struct call_record, KERNELS),
                                .memory = g_new0(struct memory_record, KERNELS / KERNELS_A_COPY)};
    uint64_t now = UINT64_C(1700000000000000000);
    for (uint32_t i = 0; i < KERNELS; i++) {
        uint64_t ns = 5000 + i * UINT64_C(7919) % 50000;
        uint32_t name = 1 + i % NAMES;
        activity.calls[activity.call_count++] = (struct call_record){
            .start_ns = now - 5000, .end_ns = now - 4000, .correlation = i + 1, .name = name};
        activity.kernels[activity.kernel_count++] = (struct kernel_record){.start_ns = now,
                                                                           .end_ns = now + ns,
                                                                           .correlation = i + 1,
                                                                           .name = name,
                                                                           .short_name = name};
        now += ns + (i % 7 ? 500 : 40000);
        if (i % KERNELS_A_COPY != 0)
            continue;
        activity.memory[activity.memory_count] = (struct memory_record){
            .start_ns = now,
            .address = (1 + i / KERNELS_A_COPY % 400) << 20,
            .bytes = 64 << 20,
            .kind = i % 4 ? MEMORY_DEVICE : MEMORY_PINNED,
            .operation = i / KERNELS_A_COPY / 400 % 2 ? MEMORY_FREE : MEMORY_ALLOCATE};
        activity.memory_count++;
        activity.copies[activity.copy_count++] =
            (struct copy_record){.start_ns = now,
                                 .end_ns = now + 300000,
                                 .bytes = 4 << 20,
                                 .kind = i % 3 ? COPY_DEVICE_TO_HOST : COPY_HOST_TO_DEVICE};
    }
    return activity;
}

static char *write_recording(const struct sample *sample)
{
    GError *error = NULL;
    char *path = sample_path(sample, "million.pstar");
    struct record_string *strings = g_new(struct record_string, NAMES);
    struct activity activity = make_activity();
    make_names(strings);
    const struct records records = {
        .strings = strings, .string_count = NAMES, .activity = &activity};
    struct record_file *file = record_file_new(path, NULL, &error);
    g_assert_no_error(error);
    record_file_add(file, &records, &error);
    g_assert_no_error(error);
    record_file_free(file);
    for (uint32_t i = 0; i < NAMES; i++)
        g_free(strings[i].text);
    g_free(strings);
    g_free(activity.kernels);
    g_free(activity.copies);
    g_free(activity.calls);
    g_free(activity.memory);
    return path;
}

/* The Chrome trace has one line per kernel, one per row, and the two ends. */
static unsigned count_lines(const char *path)
{
    gzFile file = gzopen(path, "rb");
    g_assert_nonnull(file);
    static char buffer[1 << 20];
    unsigned lines = 0;
    int length;
    while ((length = gzread(file, buffer, sizeof buffer)) > 0)
        for (const char *at = buffer; (at = memchr(at, '\n', (size_t)(buffer + length - at))); at++)
            lines++;
    g_assert_cmpint(length, ==, 0);
    gzclose(file);
    return lines;
}

static void test_million(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *path = write_recording(sample);
    const char *const files[] = {path, NULL};
    double begin = cpu_seconds();
    g_free(drawn_report(sample, files, REPORT_TEXT));
    double seconds = cpu_seconds() - begin;
    g_test_message("%.2f s of CPU time", seconds);
    if (FAST)
        g_assert_cmpfloat(seconds, <, CPU_SECONDS);
    g_autofree char *page = drawn_page(sample);
    g_test_message("%zu bytes", strlen(page));
    g_assert_cmpuint(strlen(page), <, PAGE_BYTES);
    drawn_check_page(page);
    g_assert_nonnull(strstr(page, "kernel_"));
    static const char *const figures[] = {"bars", "busy", "link", "allocated", "host-measured"};
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++)
        drawn_check(sample, figures[i]);
    g_autofree char *chrome = drawn_path(sample, "timeline", ".json.gz");
    g_assert_cmpuint(count_lines(chrome), >, KERNELS + KERNELS / KERNELS_A_COPY);
    sample_free(sample);
}

/* Checks that a report of one file is made in time and has a page of bounded size. */
static void check_fast(const struct sample *sample, const char *path)
{
    const char *const files[] = {path, NULL};
    double begin = cpu_seconds();
    g_free(drawn_report(sample, files, REPORT_TEXT));
    double seconds = cpu_seconds() - begin;
    g_autofree char *page = drawn_page(sample);
    g_test_message("%.2f s of CPU time, %zu bytes", seconds, strlen(page));
    if (FAST)
        g_assert_cmpfloat(seconds, <, CPU_SECONDS_FEW);
    g_assert_cmpuint(strlen(page), <, PAGE_BYTES);
}

/* Short spans below one that lasts as long as the step, with phases that change at each of them. */
static char *write_timeline(const struct sample *sample, unsigned spans)
{
    static const char *const rows[] = {"compute", "H2D", "D2H", "host", "stalls"};
    static const char *const phases[] = {"forward", "backward", "update"};
    GString *text = g_string_new("{\"otherData\": {\"iteration_seconds\": ");
    g_string_append_printf(text, "%u.001}, \"traceEvents\": [{\"ph\": \"M\"}", spans / 1000);
    for (unsigned row = 0; row < G_N_ELEMENTS(rows); row++)
        g_string_append_printf(text,
                               ",\n{\"ph\": \"M\", \"name\": \"thread_name\", \"tid\": %u, "
                               "\"args\": {\"name\": \"%s\"}},\n{\"ph\": \"X\", \"tid\": %u, "
                               "\"name\": \"long\", \"ts\": 0, \"dur\": %u000, \"args\": "
                               "{\"phase\": \"forward\"}}",
                               row, rows[row], row, row < 4 ? spans : 1);
    for (unsigned i = 0; i < spans; i++)
        g_string_append_printf(text,
                               ",\n{\"ph\": \"X\", \"tid\": %u, \"name\": \"op\", \"ts\": "
                               "%u000, \"dur\": 900, \"args\": {\"phase\": \"%s\", "
                               "\"waits_for\": \"%s\", \"bytes\": 4096}}",
                               i % 5, i + 1, phases[i % 3], rows[1 + i % 3]);
    g_string_append(text, "]}\n");
    char *path = sample_file(sample, "spans.json", text->str);
    g_string_free(text, TRUE);
    return path;
}

static void test_spans(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *path = write_timeline(sample, FAST ? 200000 : 20000);
    check_fast(sample, path);
    sample_free(sample);
}

/* Each result has its own size, budget and policy. */
static void test_results(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    GString *text = g_string_new("{\"trace\": null, \"results\": [");
    for (unsigned i = 0; i < 2000; i++)
        g_string_append_printf(
            text,
            "%s\n{\"policy\": \"p%u\", \"chunk_bytes\": %u, \"device_memory_bytes\": %u, "
            "\"fits\": true, \"h2d_bytes\": 1, \"d2h_bytes\": 1, \"h2d_copies\": 1, "
            "\"d2h_copies\": 1, \"evictions\": 1, \"moves\": 0, \"moved_bytes\": 0, "
            "\"peak_device_bytes\": 1, \"peak_live_device_bytes\": 1, \"peak_host_bytes\": 1, "
            "\"stall_seconds\": 0.1, \"iteration_seconds\": %u}",
            i ? "," : "", i, 1024 + 64 * i, 1000000 + 4096 * i, 10 + i * 7 % 2000);
    g_string_append(text, "]}\n");
    g_autofree char *path = sample_file(sample, "results.json", text->str);
    g_string_free(text, TRUE);
    check_fast(sample, path);
    g_autofree char *page = drawn_page(sample);
    g_assert_nonnull(strstr(page, "Of 2000 memories, 2000 policies and 2000 sizes, 12, the best 24 "
                                  "and 64 are drawn."));
    g_assert_nonnull(strstr(page, "The first 200 of 2000 rows are shown."));
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/large/million", test_million);
    g_test_add_func("/report/large/spans", test_spans);
    g_test_add_func("/report/large/results", test_results);
    return g_test_run();
}
