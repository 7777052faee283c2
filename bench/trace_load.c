/* Measures how long a trace with many kernel records takes to load from the page cache. Rival:
 * none. Goal: at most one second per million kernels for the iteration and everything about the
 * kernels. The records are added to the iteration of TRACE in a temporary file: N kernels with 300
 * names, how each was launched, the call that launched each, and a copy and two allocations for
 * every 50.
 *
 *   bench_trace_load TRACE [--kernels N] [--repeat R]
 *
 * Prints a row for each way of loading: the median seconds of R loads, the process's own seconds,
 * and whether the records that were read equal those that were written. Exit status 1 if they
 * differ or the goal is missed. */
#include "traces/records.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NAMES = 300, KERNELS_A_COPY = 50 };

static gint kernels = 1000000, repeat = 5;

static const GOptionEntry options[] = {
    {"kernels", 0, 0, G_OPTION_ARG_INT, &kernels, "Kernel records (1000000)", "N"},
    {"repeat", 0, 0, G_OPTION_ARG_INT, &repeat, "Loads; the median counts (5)", "R"},
    {0},
};

static struct activity *make_activity(void)
{
    struct activity *all = g_new0(struct activity, 1);
    uint64_t now = UINT64_C(1700000000000000000);
    all->kernel_count = all->call_count = (uint32_t)kernels;
    all->copy_count = all->kernel_count / KERNELS_A_COPY;
    all->memory_count = 2 * all->copy_count;
    all->kernels = g_new0(struct kernel_record, all->kernel_count);
    all->launches = g_new0(struct launch_record, all->kernel_count);
    all->calls = g_new0(struct call_record, all->call_count);
    all->copies = g_new0(struct copy_record, all->copy_count);
    all->memory = g_new0(struct memory_record, all->memory_count);
    for (uint32_t i = 0; i < all->kernel_count; i++) {
        uint64_t ns = 5000 + i * UINT64_C(7919) % 50000;
        all->kernels[i] = (struct kernel_record){.start_ns = now,
                                                 .end_ns = now + ns,
                                                 .context = 1,
                                                 .stream = 7,
                                                 .process = 12345,
                                                 .correlation = i + 1,
                                                 .name = 1 + i % NAMES,
                                                 .short_name = 1 + i % NAMES};
        all->launches[i] = (struct launch_record){.grid_id = i + 1,
                                                  .local_bytes = 9000000,
                                                  .mangled_name = 1 + i % NAMES,
                                                  .grid = {1 + i % 4096, 1 + i % 32, 1},
                                                  .block = {256, 1, 1},
                                                  .registers = 32 + i % 200,
                                                  .dynamic_shared_bytes = i % 100000};
        all->calls[i] = (struct call_record){.start_ns = now - 3000,
                                             .end_ns = now - 1000,
                                             .process = 12345,
                                             .thread = 12346,
                                             .correlation = i + 1,
                                             .name = 1};
        now += ns + 1000;
    }
    for (uint32_t i = 0; i < all->copy_count; i++)
        all->copies[i] = (struct copy_record){.start_ns = all->kernels[i].start_ns,
                                              .end_ns = all->kernels[i].end_ns,
                                              .bytes = 1 << 20,
                                              .context = 1,
                                              .stream = 14,
                                              .process = 12345,
                                              .correlation = i + 1,
                                              .kind = COPY_HOST_TO_DEVICE,
                                              .source = MEMORY_PINNED,
                                              .destination = MEMORY_DEVICE};
    for (uint32_t i = 0; i < all->memory_count; i++)
        all->memory[i] = (struct memory_record){.start_ns = all->kernels[i].start_ns,
                                                .address = UINT64_C(0x7f0000000000) + i / 2 * 512,
                                                .bytes = 512,
                                                .kind = MEMORY_DEVICE,
                                                .operation = i % 2 == 0 ? MEMORY_ALLOCATE
                                                                        : MEMORY_FREE,
                                                .process = 12345};
    return all;
}

static bool write_file(const char *path, const struct trace *trace, const struct activity *all,
                       GError **error)
{
    struct record_string strings[NAMES];
    struct record_file *file = record_file_new(path, trace, error);
    if (!file)
        return false;
    for (uint32_t i = 0; i < NAMES; i++)
        strings[i] = (struct record_string){i + 1, g_strdup_printf("void kernel_%u<float>()", i)};
    const struct records more = {.strings = strings, .string_count = NAMES, .activity = all};
    bool ok = record_file_add(file, &more, error);
    for (uint32_t i = 0; i < NAMES; i++)
        g_free(strings[i].text);
    record_file_free(file);
    return ok;
}

struct way {
    const char *name;
    bool iteration; /* read what the simulator reads, and the strings */
    uint32_t parts;
    double limit; /* seconds per million kernels; 0 if unlimited */
};

static bool same(const struct activity *read, const struct activity *all, uint32_t parts)
{
#define SAME(part, array, count)                                       \
    (!(parts & (part)) || (read->count == all->count && read->array && \
                           memcmp(read->array, all->array, all->count * sizeof *all->array) == 0))
    return SAME(ACTIVITY_KERNELS, kernels, kernel_count) &&
           SAME(ACTIVITY_LAUNCHES, launches, kernel_count) &&
           SAME(ACTIVITY_CALLS, calls, call_count) && SAME(ACTIVITY_COPIES, copies, copy_count) &&
           SAME(ACTIVITY_MEMORY, memory, memory_count);
}

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Returns whether everything was read as written. The time excludes the comparison. */
static bool load(const char *path, const struct way *way, const struct activity *all, double *wall,
                 double *own)
{
    double wall_before = seconds_of(CLOCK_MONOTONIC);
    double own_before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    struct trace *trace = way->iteration ? trace_read(path, NULL) : NULL;
    struct records *records = way->iteration ? records_read(path, NULL) : NULL;
    struct activity *activity = activity_read(path, way->parts, NULL);
    *wall = seconds_of(CLOCK_MONOTONIC) - wall_before;
    *own = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - own_before;
    bool ok = activity && same(activity, all, way->parts) &&
              (!way->iteration || (trace && records && records->string_count == NAMES));
    activity_free(activity);
    records_free(records);
    trace_free(trace);
    return ok;
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static bool measure(const char *path, const struct way *way, const struct activity *all)
{
    g_autofree double *wall = g_new(double, repeat), *own = g_new(double, repeat);
    bool ok = true;
    for (int i = 0; i < repeat; i++)
        ok &= load(path, way, all, &wall[i], &own[i]);
    qsort(wall, (size_t)repeat, sizeof *wall, ascending);
    qsort(own, (size_t)repeat, sizeof *own, ascending);
    double median = wall[repeat / 2];
    bool late = way->limit > 0 && median > way->limit * MAX(kernels, 1000000) / 1e6;
    printf("%-46s %8.3f %8.3f   %s%s\n", way->name, median, own[repeat / 2],
           ok ? "same" : "DIFFERS", late ? ", TOO LONG" : "");
    return ok && !late;
}

static bool run(const char *path, const struct trace *trace, GError **error)
{
    static const struct way ways[] = {
        {"the iteration alone", true, 0, 0},
        {"kernels: when, where, which", false, ACTIVITY_KERNELS, 0},
        {"kernels and how they were launched", false, ACTIVITY_LAUNCHES | ACTIVITY_KERNELS, 0},
        {"the iteration and all of the kernels", true, ACTIVITY_LAUNCHES | ACTIVITY_KERNELS, 1},
        {"everything: calls, copies, allocations too", true, ACTIVITY_ALL, 0},
    };
    struct activity *all = make_activity();
    bool ok = write_file(path, trace, all, error);
    if (ok)
        printf("%d kernels\n%-46s %8s %8s   %s\n", kernels, "median", "s", "own s", "as written");
    for (size_t i = 0; !*error && i < G_N_ELEMENTS(ways); i++)
        ok &= measure(path, &ways[i], all);
    activity_free(all);
    return ok;
}

int main(int argc, char **argv)
{
    GOptionContext *context = g_option_context_new("TRACE");
    GError *error = NULL;
    g_option_context_add_main_entries(context, options, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error) || argc != 2 ||
        kernels < KERNELS_A_COPY || repeat < 1) {
        fprintf(stderr, "bench_trace_load: %s\n",
                error ? error->message : "give one TRACE; see --help");
        return 2;
    }
    g_option_context_free(context);
    struct trace *trace = trace_read(argv[1], &error);
    char *folder = g_dir_make_tmp("bench-trace-load-XXXXXX", NULL);
    char *path = g_build_filename(folder, "run.pstar", NULL);
    bool ok = trace && run(path, trace, &error);
    if (error)
        fprintf(stderr, "bench_trace_load: %s\n", error->message);
    g_unlink(path);
    g_rmdir(folder);
    g_free(path);
    g_free(folder);
    trace_free(trace);
    return ok ? 0 : 1;
}
