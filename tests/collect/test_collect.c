/* pstar-collect on real processes. */
#include "tests/collect/annotated.h"
#include "tests/collect/process.h"
#include "tests/traces/random_trace.h"
#include "traces/annotations.h"
#include "traces/records.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct trace *expected_trace(guint32 seed)
{
    GRand *random = g_rand_new_with_seed(seed);
    struct trace *trace = random_trace(random, ANNOTATED_OPERATORS);
    trace->estimated = trace->partial = false;
    g_rand_free(random);
    return trace;
}

/* Compares everything except what the collector itself finds out. Takes `expected`. */
static void assert_collected(struct trace *expected, const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        expected->operators[m].duration_ns = trace->operators[m].duration_ns;
    if (!expected->machine)
        expected->machine = g_strdup(trace->machine);
    if (!expected->producer)
        expected->producer = g_strdup("traced_annotated");
    g_assert_nonnull(trace->machine);
    assert_traces_equal(expected, trace);
    trace_free(expected);
}

static struct trace *read_trace(const struct fixture *fixture)
{
    GError *error = NULL;
    struct trace *trace = trace_read(fixture->path, &error);
    g_assert_no_error(error);
    return trace;
}

static void test_whole_run(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    for (int round = 0; round < 5; round++) {
        int seed = g_test_rand_int_range(0, 1000000);
        collect(fixture, "-- %s %d 3", TRACED_ANNOTATED, seed);
        assert_exit(fixture, 0);
        g_assert_cmpstr(fixture->errors, ==, "");
        struct trace *trace = read_trace(fixture);
        for (uint32_t m = 0; m < trace->operator_count; m++)
            g_assert_cmpuint(trace->operators[m].duration_ns, >=, annotated_duration_ns(m));
        assert_collected(expected_trace((guint32)seed), trace);
        trace_free(trace);
    }
}

static uint32_t count_events(const struct records *records, enum record_type type,
                             uint32_t category)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < records->event_count; i++)
        count += records->events[i].type == type && records->events[i].category == category;
    return count;
}

/* Checks that each operator's range lies within its iteration's, and that its duration is the
 * median. */
static void assert_ranges(const struct trace *trace, const struct records *records,
                          uint64_t first_step)
{
    const struct record *iteration = NULL;
    uint64_t step = first_step, moment = 0;
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        if (event->type != RECORD_PUSH_POP)
            continue;
        g_assert_cmpuint(event->payload_type, ==, RECORD_UINT64);
        if (event->category == ANNOTATION_ITERATION) {
            g_assert_cmpstr(records_text(records, event->text), ==, "iteration");
            g_assert_cmpuint(event->payload, ==, step);
            step++;
            iteration = event;
            moment = 0;
            continue;
        }
        g_assert_nonnull(iteration);
        g_assert_cmpuint(event->payload, ==, moment);
        g_assert_cmpstr(records_text(records, event->text), ==, trace->operators[moment].name);
        g_assert_cmpuint(iteration->start_ns, <=, event->start_ns);
        g_assert_cmpuint(event->end_ns, <=, iteration->end_ns);
        moment++;
    }
}

static uint64_t median_of_3(const uint64_t *v)
{
    return MAX(MIN(v[0], v[1]), MIN(MAX(v[0], v[1]), v[2]));
}

static void test_window(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    int seed = g_test_rand_int_range(0, 1000000);
    collect(fixture, "-o run.pstar --iterations 2:5 -- %s %d 7", TRACED_ANNOTATED, seed);
    assert_exit(fixture, 0);
    struct trace *trace = read_trace(fixture);
    struct records *records = records_read(fixture->path, NULL);
    g_assert_cmpuint(count_events(records, RECORD_PUSH_POP, ANNOTATION_ITERATION), ==, 3);
    g_assert_cmpuint(count_events(records, RECORD_PUSH_POP, ANNOTATION_OPERATOR), ==,
                     3 * trace->operator_count);
    assert_ranges(trace, records, 2);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint64_t durations[3] = {0};
        int found = 0;
        for (uint32_t i = 0; i < records->event_count; i++)
            if (records->events[i].category == ANNOTATION_OPERATOR &&
                records->events[i].type == RECORD_PUSH_POP && records->events[i].payload == m)
                durations[found++] = records->events[i].end_ns - records->events[i].start_ns;
        g_assert_cmpuint(trace->operators[m].duration_ns, ==, median_of_3(durations));
    }
    /* two samplings per iteration, three counters each */
    g_assert_cmpuint(records->sample_count, ==, 3 * 2 * 3);
    g_assert_cmpuint(records->samples[0].value, >, 0);
    records_free(records);
    trace_free(trace);
}

static void test_killed_in_window(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    int seed = g_test_rand_int_range(0, 1000000);
    collect(fixture, "--iterations 1:4 -- %s %d 9 kill 2", TRACED_ANNOTATED, seed);
    g_assert_true(WIFSIGNALED(fixture->status) && WTERMSIG(fixture->status) == SIGKILL);
    struct trace *trace = read_trace(fixture);
    g_assert_true(trace->partial);
    struct records *records = records_read(fixture->path, NULL);
    g_assert_cmpuint(count_events(records, RECORD_PUSH_POP, ANNOTATION_ITERATION), ==, 1);
    g_assert_cmpuint(count_events(records, RECORD_PUSH_POP, ANNOTATION_OPERATOR), ==,
                     trace->operator_count);
    records_free(records);
    struct trace *expected = expected_trace((guint32)seed);
    expected->partial = true;
    assert_collected(expected, trace);
    trace_free(trace);
}

static void remove_files(const struct fixture *fixture, const char *part_of_name)
{
    GDir *folder = g_dir_open(fixture->folder, 0, NULL);
    const char *name;
    while ((name = g_dir_read_name(folder)))
        if (strstr(name, part_of_name)) {
            char *path = g_build_filename(fixture->folder, name, NULL);
            g_unlink(path);
            g_free(path);
        }
    g_dir_close(folder);
}

static void lead_a_group(void *unused)
{
    (void)unused;
    setpgid(0, 0);
}

/* Kills the program at any time, even while the file is written. The file is refused by name or
 * valid. */
static void test_killed_anywhere(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    int found = 0;
    g_assert_cmpint(prctl(PR_SET_CHILD_SUBREAPER, 1), ==, 0);
    for (int round = 0; round < 30; round++) {
        g_unlink(fixture->path);
        /* The window does not end before, however few operators the drawn trace has. */
        char *command[] = {(char *)COLLECT,          (char *)"--iterations",
                           (char *)"0:100000",       (char *)"--",
                           (char *)TRACED_ANNOTATED, (char *)"5",
                           (char *)"1000000",        NULL};
        GPid child;
        g_assert_true(g_spawn_async(fixture->folder, command, NULL,
                                    G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDERR_TO_DEV_NULL,
                                    lead_a_group, NULL, &child, NULL));
        /* every other round waits until the window is open */
        for (int i = 0; i < 10000 && round % 2 == 0; i++) {
            if (g_file_test(fixture->path, G_FILE_TEST_EXISTS))
                break;
            g_usleep(1000);
        }
        g_usleep((gulong)g_test_rand_int_range(0, 60000));
        kill(-child, SIGKILL);
        while (waitpid(-child, NULL, 0) > 0) /* the program, too, which may still hold the file */
            continue;
        GError *error = NULL;
        struct trace *trace = trace_read(fixture->path, &error);
        if (trace) {
            g_assert_true(trace->partial);
            found++;
        } else {
            g_assert_true(g_str_has_prefix(error->message, fixture->path));
            g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
        }
        g_clear_error(&error);
        trace_free(trace);
    }
    remove_files(fixture, ".tmp"); /* left by a run killed while it created the file */
    g_test_message("%d of 30 left a partial trace, the others none", found);
    g_assert_cmpint(found, >=, 15);
}

static void test_ends_in_window(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 1:4 -- %s 11 9 exit 2", TRACED_ANNOTATED);
    assert_exit(fixture, 9);
    assert_says(fixture, "partial");
    struct trace *trace = read_trace(fixture);
    g_assert_true(trace->partial);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        g_assert_cmpuint(trace->operators[m].duration_ns, >=, annotated_duration_ns(m));
    trace_free(trace);
}

/* The program itself succeeds. */
static void test_too_few_iterations(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 1:9 -- %s 11 3", TRACED_ANNOTATED);
    assert_exit(fixture, 1);
    assert_says(fixture, "run.pstar: the trace is partial");
    collect(fixture, "-o run-%%p.pstar --iterations 1:9 -- %s 11 3", TRACED_ANNOTATED);
    assert_exit(fixture, 1);
    assert_says(fixture, ".pstar: the trace is partial");
    /* Partial files of earlier runs do not count. */
    collect(fixture, "-o run-%%p.pstar --iterations 1:3 -- %s 11 3", TRACED_ANNOTATED);
    assert_exit(fixture, 0);
    remove_files(fixture, "run-");
}

static void test_percent_in_folder(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_autofree char *folder = g_build_filename(fixture->folder, "%%of%p", NULL);
    g_autofree char *path = g_build_filename(folder, "whole%.pstar", NULL);
    g_assert_cmpint(g_mkdir(folder, 0700), ==, 0);
    collect(fixture, "-o %s -- %s 11 3", path, TRACED_ANNOTATED);
    assert_exit(fixture, 0);
    g_assert_cmpint(g_unlink(path), ==, 0);
    g_assert_cmpint(g_rmdir(folder), ==, 0);
}

/* Limits file sizes, as a full disk would: writes fail, and would kill a program that makes them
 * itself. */
static void limit_files(void *unused)
{
    const struct rlimit limit = {128 << 10, 128 << 10};
    (void)unused;
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);
}

/* The program goes on to its end. The exit status reports the incomplete trace. */
static void test_disk_is_full(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    fixture->before_exec = limit_files;
    collect(fixture, "--iterations 0:200 -- %s 5 200", TRACED_ANNOTATED);
    assert_exit(fixture, 1);
    assert_says(fixture, "the program goes on untraced");
    assert_says(fixture, "run.pstar: the trace is partial");
    struct trace *trace = read_trace(fixture);
    g_assert_true(trace->partial);
    trace_free(trace);
}

static void test_ends_before_window(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 5:6 -- %s 11 3", TRACED_ANNOTATED);
    assert_exit(fixture, 1);
    assert_says(fixture, "ended after 3 iterations");
    g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
}

static void test_fork(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-- %s 12 3 fork 1", TRACED_ANNOTATED);
    assert_exit(fixture, 0);
    g_assert_cmpstr(fixture->errors, ==, "");
    struct trace *trace = read_trace(fixture);
    struct records *records = records_read(fixture->path, NULL);
    g_assert_cmpuint(count_events(records, RECORD_PUSH_POP, ANNOTATION_OPERATOR), ==,
                     trace->operator_count);
    records_free(records);
    assert_collected(expected_trace(12), trace);
    trace_free(trace);
}

static const struct record *find_event(const struct records *records, const char *text)
{
    for (uint32_t i = 0; i < records->event_count; i++)
        if (strcmp(records_text(records, records->events[i].text), text) == 0)
            return &records->events[i];
    g_error("no event '%s'", text);
}

static void assert_within(const struct record *inner, const struct record *outer)
{
    g_assert_cmpuint(outer->start_ns, <=, inner->start_ns);
    g_assert_cmpuint(inner->end_ns, <=, outer->end_ns);
}

static void test_other_programs(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-- %s", TRACED_RANGES);
    assert_exit(fixture, 3);
    g_assert_cmpstr(fixture->output, ==, "levels 0 1\n");
    assert_says(fixture, "no iteration");
    g_assert_cmpint(count_lines(fixture->errors), ==, 1);
    GError *error = NULL;
    g_assert_null(trace_read(fixture->path, &error));
    g_assert_error(error, TRACE_ERROR, TRACE_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, "no iteration"));
    g_clear_error(&error);

    struct records *records = records_read(fixture->path, &error);
    g_assert_no_error(error);
    const struct record *outer = find_event(records, "outer");
    const struct record *wide = find_event(records, "größer");
    const struct record *registered = find_event(records, "registered");
    const struct record *across = find_event(records, "across threads");
    const struct record *other = find_event(records, "in the other thread");
    assert_within(wide, outer);
    assert_within(other, across);
    g_assert_cmpuint(registered->end_ns, >=, wide->end_ns);
    g_assert_cmpuint(other->thread, !=, outer->thread);
    g_assert_cmpuint(across->thread, ==, outer->thread);
    g_assert_cmpuint(across->type, ==, RECORD_START_END);
    g_assert_cmpuint(find_event(records, "mark")->type, ==, RECORD_MARK);
    const struct record *domain = find_event(records, "library");
    g_assert_cmpuint(domain->type, ==, RECORD_DOMAIN);
    g_assert_cmpuint(registered->domain, ==, domain->domain);
    g_assert_cmpuint(find_event(records, "input")->category, ==, 7);
    g_assert_cmpuint(registered->category, ==, 7);
    double payload;
    memcpy(&payload, &registered->payload, sizeof payload);
    g_assert_cmpuint(registered->payload_type, ==, RECORD_DOUBLE);
    g_assert_cmpfloat(payload, ==, 0.5);
    records_free(records);
}

/* More ranges than are kept in memory, from several threads at the same time. */
static void test_threads(struct fixture *fixture, gconstpointer data)
{
    enum { THREADS = 4, RANGES = 25000 };
    (void)data;
    collect(fixture, "-- %s %d %d", TRACED_RANGES, THREADS, RANGES);
    assert_exit(fixture, 3);
    struct records *records = records_read(fixture->path, NULL);
    uint32_t count[THREADS] = {0}, threads[THREADS] = {0};
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        if (strcmp(records_text(records, event->text), "many") != 0)
            continue;
        g_assert_cmpuint(event->payload_type, ==, RECORD_INT32);
        g_assert_cmpuint(event->payload, <, THREADS);
        if (count[event->payload]++ == 0)
            threads[event->payload] = event->thread;
        g_assert_cmpuint(event->thread, ==, threads[event->payload]);
        g_assert_cmpuint(event->start_ns, <=, event->end_ns);
    }
    for (int thread = 0; thread < THREADS; thread++)
        g_assert_cmpuint(count[thread], ==, RANGES);
    records_free(records);
}

static void test_no_annotations(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-- true");
    assert_exit(fixture, 1);
    assert_says(fixture, "makes no NVTX annotations");
    g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
}

static void test_process_in_name(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-o run-%%p.pstar -- sh -c '%s 1 2 & echo $!; wait'", TRACED_ANNOTATED);
    assert_exit(fixture, 0);
    char *name = g_strdup_printf("run-%d.pstar", atoi(fixture->output));
    char *path = g_build_filename(fixture->folder, name, NULL);
    struct trace *trace = trace_read(path, NULL);
    g_assert_nonnull(trace);
    trace_free(trace);
    g_unlink(path);
    g_free(path);
    g_free(name);
}

/* Two numbers may follow each other. */
static void test_process_and_rank_in_name(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-o run-%%p%%r.pstar -- %s 1 2", TRACED_ANNOTATED);
    assert_exit(fixture, 0);
    remove_files(fixture, "run-");
}

/* One file per rank, as several processes of one run write them. */
static void test_rank_in_name(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-o rank-%%r%%%%.pstar -- sh -c 'RANK=0 %s 1 3; RANK=12 %s 2 3'",
            TRACED_ANNOTATED, TRACED_ANNOTATED);
    assert_exit(fixture, 0);
    static const char *const names[] = {"rank-0%.pstar", "rank-12%.pstar"};
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(fixture->folder, names[i], NULL);
        struct trace *trace = trace_read(path, NULL);
        g_assert_nonnull(trace);
        assert_collected(expected_trace(i + 1), trace);
        trace_free(trace);
        g_unlink(path);
    }
}

/* The second process finds the first one's trace and leaves it alone. */
static void test_two_processes(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_assert_true(g_file_set_contents(fixture->path, "of an earlier run", -1, NULL));
    g_usleep(20000);
    collect(fixture, "-- sh -c '%s 1 2; %s'", TRACED_ANNOTATED, TRACED_RANGES);
    assert_exit(fixture, 3);
    assert_says(fixture, "another process");
    struct trace *trace = read_trace(fixture);
    assert_collected(expected_trace(1), trace);
    trace_free(trace);
}

static void test_statuses(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-- sh -c 'exit 5'");
    assert_exit(fixture, 5);
    collect(fixture, "-- sh -c 'kill -TERM $$'");
    g_assert_true(WIFSIGNALED(fixture->status) && WTERMSIG(fixture->status) == SIGTERM);
    collect(fixture, "-- ./no-such-command");
    assert_exit(fixture, 2);
    assert_says(fixture, "./no-such-command: cannot be started: No such file");
    g_assert_cmpint(count_lines(fixture->errors), ==, 1);
    static const char *const bad[] = {"2:1", "1:1", "1", ":", "1:", ":2", "-1:2", "1:2x", "a:b"};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        collect(fixture, "--iterations %s -- true", bad[i]);
        assert_exit(fixture, 2);
        assert_says(fixture, bad[i]);
        g_assert_cmpint(count_lines(fixture->errors), ==, 1);
    }
    static const char *const nowhere[] = {"no/where.pstar", "."};
    for (size_t i = 0; i < G_N_ELEMENTS(nowhere); i++) {
        collect(fixture, "-o %s -- echo ran", nowhere[i]);
        assert_exit(fixture, 1);
        assert_says(fixture, "cannot be written");
        g_assert_cmpstr(fixture->output, ==, "");
        g_assert_cmpint(count_lines(fixture->errors), ==, 1);
    }
    static const char *const misused[] = {"-o '' -- echo ran", "--colour -- true", ""};
    for (size_t i = 0; i < G_N_ELEMENTS(misused); i++) {
        collect(fixture, "%s", misused[i]);
        assert_exit(fixture, 2);
        g_assert_cmpstr(fixture->output, ==, "");
    }
    collect(fixture, "--version");
    assert_exit(fixture, 0);
    g_assert_true(g_str_has_prefix(fixture->output, "pstar-collect "));
}

/* Such ranges contradict the declarations: they are left out, so that the trace stays valid. */
static void test_undeclared_operators(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "--iterations 0:3 -- %s 5 3 stray 1", TRACED_ANNOTATED);
    assert_exit(fixture, 0);
    assert_says(fixture, "not recorded: ranges of operators that the program did not declare");
    g_assert_cmpint(count_lines(fixture->errors), ==, 1);
    GError *error = NULL;
    g_assert_true(trace_verify(fixture->path, &error));
    g_assert_no_error(error);
    struct records *records = records_read(fixture->path, &error);
    g_assert_no_error(error);
    for (uint32_t i = 0; i < records->event_count; i++)
        g_assert_cmpstr(records_text(records, records->events[i].text), !=, "stray");
    g_assert_nonnull(strstr(records->unknown, "did not declare, the first with payload 30 "));
    records_free(records);
    struct trace *trace = read_trace(fixture);
    assert_collected(expected_trace(5), trace);
    trace_free(trace);
}

/* Returns PyTorch's options as the command sees them; NULL if not set. */
static char *allocator_options(struct fixture *fixture, const char *before)
{
    g_setenv("PYTORCH_CUDA_ALLOC_CONF", before, TRUE);
    collect(fixture, "--visible-tensors -- sh -c 'echo $PYTORCH_ALLOC_CONF; "
                     "test $PYTORCH_ALLOC_CONF = $PYTORCH_CUDA_ALLOC_CONF'");
    g_unsetenv("PYTORCH_CUDA_ALLOC_CONF");
    assert_exit(fixture, 1); /* nothing was annotated */
    assert_says(fixture, "cudaMallocAsync");
    return g_strchomp(g_strdup(fixture->output));
}

static void test_visible_tensors(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_autofree char *alone = allocator_options(fixture, "");
    g_assert_cmpstr(alone, ==, "backend:cudaMallocAsync");
    g_autofree char *others = allocator_options(fixture,
                                                "max_split_size_mb:64, backend:native,a:b");
    g_assert_cmpstr(others, ==, "backend:cudaMallocAsync,max_split_size_mb:64,a:b");
}

/* A trace that cannot be written is refused before the program starts. Later errors of the
 * collector never harm the program and are reported once. */
static void test_errors(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    collect(fixture, "-o /dev/null -- sh -c '%s 1 4; echo done'", TRACED_ANNOTATED);
    assert_exit(fixture, 1);
    g_assert_cmpstr(fixture->output, ==, "");
    assert_says(fixture, "--output: /dev/null: cannot be written: not a regular file");
    g_assert_cmpint(count_lines(fixture->errors), ==, 1);

    /* A limit on file sizes replaces a full disk. */
    collect(fixture, "-- sh -c 'ulimit -f 8; %s 7 4; echo done'", TRACED_ANNOTATED);
    assert_exit(fixture, 1);
    g_assert_cmpstr(fixture->output, ==, "done\n");
    assert_says(fixture, "goes on untraced");
    g_assert_false(g_file_test(fixture->path, G_FILE_TEST_EXISTS));
}

static void test_signals(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    char *command[] = {(char *)COLLECT,
                       (char *)"--",
                       (char *)"sh",
                       (char *)"-c",
                       (char *)"trap 'exit 7' TERM; trap 'echo usr1' USR1; echo ready; "
                               "while :; do sleep 0.02; done",
                       NULL};
    GPid child;
    int output;
    g_assert_true(g_spawn_async_with_pipes(fixture->folder, command, NULL,
                                           G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD |
                                               G_SPAWN_STDERR_TO_DEV_NULL,
                                           NULL, NULL, &child, NULL, &output, NULL, NULL));
    FILE *lines = fdopen(output, "r");
    char line[16];
    g_assert_nonnull(fgets(line, sizeof line, lines));
    g_assert_cmpstr(line, ==, "ready\n");
    g_assert_cmpint(kill(child, SIGUSR1), ==, 0);
    g_assert_nonnull(fgets(line, sizeof line, lines));
    g_assert_cmpstr(line, ==, "usr1\n");
    g_assert_cmpint(kill(child, SIGTERM), ==, 0);
    int status;
    g_assert_cmpint(waitpid(child, &status, 0), ==, child);
    g_assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    fclose(lines);
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/collect/undeclared-operators", test_undeclared_operators);
    ADD("/collect/whole-run", test_whole_run);
    ADD("/collect/window", test_window);
    ADD("/collect/killed-in-window", test_killed_in_window);
    ADD("/collect/killed-anywhere", test_killed_anywhere);
    ADD("/collect/ends-in-window", test_ends_in_window);
    ADD("/collect/too-few-iterations", test_too_few_iterations);
    ADD("/collect/percent-in-folder", test_percent_in_folder);
    ADD("/collect/disk-is-full", test_disk_is_full);
    ADD("/collect/ends-before-window", test_ends_before_window);
    ADD("/collect/fork", test_fork);
    ADD("/collect/other-programs", test_other_programs);
    ADD("/collect/threads", test_threads);
    ADD("/collect/no-annotations", test_no_annotations);
    ADD("/collect/process-in-name", test_process_in_name);
    ADD("/collect/process-and-rank-in-name", test_process_and_rank_in_name);
    ADD("/collect/rank-in-name", test_rank_in_name);
    ADD("/collect/two-processes", test_two_processes);
    ADD("/collect/statuses", test_statuses);
    ADD("/collect/visible-tensors", test_visible_tensors);
    ADD("/collect/errors", test_errors);
    ADD("/collect/signals", test_signals);
    return g_test_run();
}
