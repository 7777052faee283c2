/* A search that is stopped, by a person or by its time, leaves the best plan so far: it verifies,
 * and no strategy is faster. Other programs leave what is done, and no unfinished files. */
#include "tests/heard_signals.h"
#include "workshop.h"

#include <glib/gstdio.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MODEL    PROJECT_DIR "/models/configs/patrickstar-1b.json"
#define PLATFORM PROJECT_DIR "/platforms/a100-40gb.json"
#define STAGES   PROJECT_DIR "/platforms/dgx-a100.json"
#define BUDGET   "--device-memory 20% --platform " PLATFORM

enum { POLL_US = 1000 };

/* What all tests read, and is made once. */
static struct {
    struct workshop *workshop; /* has the trace */
    double best_strategy;      /* seconds an iteration; 0 before any test asked for it */
} made;

/* Makes a workshop with the trace, as a link. */
static struct workshop *set_up(void)
{
    struct workshop *workshop = workshop_new();
    if (!made.workshop) {
        made.workshop = workshop_new();
        workshop_must_run(made.workshop,
                          "pstar-trace synth --model " MODEL
                          " --batch 4 --seq 512 --precision bf16 --platform " PLATFORM
                          " -o run.pstar");
    }
    workshop_must_run_format(workshop, "ln -s %s/run.pstar run.pstar", made.workshop->folder);
    return workshop;
}

/* Seconds an iteration of the fastest strategy. */
static double best_strategy(void)
{
    double best = INFINITY;
    size_t i;
    json_t *row;
    if (made.best_strategy > 0)
        return made.best_strategy;
    workshop_must_run(made.workshop,
                      "pstar-sim run.pstar " BUDGET " --strategy all --json sim.json");
    json_t *sim = workshop_read_json(made.workshop, "sim.json");
    json_array_foreach (json_object_get(sim, "results"), i, row)
        if (json_is_true(json_object_get(row, "fits")))
            best = fmin(best, json_number_value(json_object_get(row, "iteration_seconds")));
    json_decref(sim);
    g_assert_true(isfinite(best));
    return made.best_strategy = best;
}

static void check_plan(const struct workshop *workshop)
{
    double best = best_strategy();
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    json_t *plan = workshop_read_json(workshop, "plan.json");
    json_t *time = json_object_get(json_object_get(plan, "certificate"), "time");
    double seconds = (double)json_integer_value(json_object_get(time, "achieved_ns")) * 1e-9;
    g_assert_cmpfloat(seconds, >, 0);
    g_assert_cmpfloat(seconds, <=, best * (1 + 1e-8));
    json_decref(plan);
}

static void test_time_limit(void)
{
    struct workshop *workshop = set_up();
    struct outcome outcome = workshop_run(workshop, "pstar-plan run.pstar " BUDGET
                                                    " --time-limit 0.001 -o plan.json");
    g_assert_cmpint(outcome.status, ==, 0);
    g_assert_nonnull(strstr(outcome.out, "stopped early while it timed policies and strategies\n"));
    outcome_clear(&outcome);
    check_plan(workshop);
    workshop_free(workshop);
}

static bool blocks(GPid pid, int number)
{
    g_autofree char *path = g_strdup_printf("/proc/%d/status", (int)pid);
    g_autofree char *status = NULL;
    if (!g_file_get_contents(path, &status, NULL, NULL))
        return false;
    const char *blocked = strstr(status, "SigBlk:");
    g_assert_nonnull(blocked);
    return g_ascii_strtoull(blocked + strlen("SigBlk:"), NULL, 16) & (1ull << (number - 1));
}

/* Returns whether the process handles interrupts itself by now, so that they are blocked. */
static bool blocks_interrupts(GPid pid)
{
    return blocks(pid, SIGINT);
}

static bool has_unfinished(const struct workshop *workshop)
{
    bool found = false;
    const char *name;
    GDir *folder = g_dir_open(workshop->folder, 0, NULL);
    while (!found && (name = g_dir_read_name(folder)))
        found = g_str_has_suffix(name, ".tmp");
    g_dir_close(folder);
    return found;
}

/* Sends the signal as soon as the program handles it and, if `unfinished`, has begun to write its
 * output. The program must end with the shell's status for it. Returns what it printed. */
static char *interrupt_at(const struct workshop *workshop, const char *command_line, int number,
                          bool unfinished)
{
    g_auto(GStrv) command = g_strsplit(command_line, " ", -1);
    GError *error = NULL;
    char *out = NULL;
    GPid pid;
    int status, from_out;
    g_spawn_async_with_pipes(workshop->folder, command, NULL, G_SPAWN_DO_NOT_REAP_CHILD, NULL, NULL,
                             &pid, NULL, &from_out, NULL, &error);
    g_assert_no_error(error);
    while (!blocks_interrupts(pid) || (unfinished && !has_unfinished(workshop))) {
        g_assert_cmpint(waitpid(pid, &status, WNOHANG), ==, 0);
        g_usleep(POLL_US);
    }
    g_assert_cmpint(kill(pid, number), ==, 0);
    GIOChannel *channel = g_io_channel_unix_new(from_out);
    g_io_channel_read_to_end(channel, &out, NULL, &error);
    g_assert_no_error(error);
    g_io_channel_shutdown(channel, FALSE, NULL);
    g_io_channel_unref(channel);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 128 + number);
    return out;
}

static char *interrupt(const struct workshop *workshop, const char *command_line, int number)
{
    return interrupt_at(workshop, command_line, number, false);
}

static void test_search(gconstpointer data)
{
    struct workshop *workshop = set_up();
    g_autofree char *out = interrupt(workshop,
                                     PROGRAM_DIR "/pstar-plan run.pstar " BUDGET " -o plan.json",
                                     GPOINTER_TO_INT(data));
    g_assert_nonnull(strstr(out, "stopped early while it "));
    check_plan(workshop);
    workshop_free(workshop);
}

/* So do stages whose chunks move, which say so. */
static void test_stages(gconstpointer data)
{
    struct workshop *workshop = workshop_new();
    g_autofree char *out = interrupt(
        workshop,
        PROGRAM_DIR "/pstar-plan --model " MODEL " --platform " STAGES " --gpus 2 --stages 2 "
                    "--batch 1 --micro-batches 4 --device-memory 8GiB -o plan-%s.json "
                    "--json answer.json",
        GPOINTER_TO_INT(data));
    g_assert_nonnull(strstr(out, "stopped early"));
    json_t *answer = workshop_read_json(workshop, "answer.json");
    json_t *moving = json_object_get(answer, "moving");
    g_assert_true(json_is_true(json_object_get(answer, "stopped")));
    g_assert_true(json_is_true(json_object_get(moving, "stopped")));
    json_decref(answer);
    for (int s = 0; s < 2; s++) {
        g_autofree char *name = g_strdup_printf("plan-%d.json", s);
        json_decref(workshop_read_json(workshop, name));
    }
    workshop_free(workshop);
}

static void test_question(gconstpointer data)
{
    struct workshop *workshop = set_up();
    g_free(interrupt(workshop, PROGRAM_DIR "/pstar-plan --max-batch " MODEL " --platform " PLATFORM,
                     GPOINTER_TO_INT(data)));
    workshop_free(workshop);
}

/* A sweep of many configurations holds those that were done. */
static void test_sweep(gconstpointer data)
{
    struct workshop *workshop = set_up();
    g_free(interrupt(workshop,
                     PROGRAM_DIR "/pstar-sim run.pstar " BUDGET
                                 " --chunk-size 1MiB:512MiB --look-ahead 0,1,2,3,4,5,6,7,8,9 "
                                 "--json sweep.json",
                     GPOINTER_TO_INT(data)));
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    g_assert_true(json_is_array(json_object_get(sweep, "results")));
    json_decref(sweep);
    workshop_free(workshop);
}

/* A training that is asked where it is says so in one line, though it is quiet, and goes on. The
 * pipe closes when it has ended by another signal. */
static void test_asked(void)
{
    static const char program[] = PROGRAM_DIR "/pstar-run";
    const char *const command[] = {program,   "--model", "model",      "--data",  "text.txt",
                                   "--batch", "1",       "--seq",      "16",      "--threads",
                                   "1",       "--steps", "1000000000", "--quiet", NULL};
    struct workshop *workshop = workshop_new();
    GError *error = NULL;
    g_autofree char *line = NULL, *rest = NULL;
    GPid pid;
    int status, from_err;
    g_spawn_async_with_pipes(workshop->folder, (char **)command, NULL, G_SPAWN_DO_NOT_REAP_CHILD,
                             NULL, NULL, &pid, NULL, NULL, &from_err, &error);
    g_assert_no_error(error);
    while (!blocks_interrupts(pid)) {
        g_assert_cmpint(waitpid(pid, &status, WNOHANG), ==, 0);
        g_usleep(POLL_US);
    }
    g_assert_cmpint(kill(pid, SIGUSR1), ==, 0);
    GIOChannel *channel = g_io_channel_unix_new(from_err);
    g_io_channel_read_line(channel, &line, NULL, NULL, &error);
    g_assert_no_error(error);
    g_assert_true(
        g_regex_match_simple("^[0-9]+ of 1000000000 steps, loss [0-9.]+, .* since the beginning, "
                             ".* left\n$",
                             line, 0, 0));
    g_assert_cmpint(kill(pid, SIGTERM), ==, 0);
    g_io_channel_read_to_end(channel, &rest, NULL, &error);
    g_assert_no_error(error);
    g_io_channel_shutdown(channel, FALSE, NULL);
    g_io_channel_unref(channel);
    g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 128 + SIGTERM);
    g_assert_nonnull(strstr(rest, "interrupted at "));
    workshop_free(workshop);
}

/* Asks from the first moment in which the program lets questions wait until it has ended, so also
 * before its first step and while it saves after the last one: none of them ends it. */
static void test_asked_always(void)
{
    static const char program[] = PROGRAM_DIR "/pstar-run";
    const char *const command[] = {program,      "--model",  "model", "--data",  "text.txt",
                                   "--batch",    "1",        "--seq", "16",      "--steps",
                                   "3",          "--sample", "20",    "--quiet", "--save",
                                   "checkpoint", NULL};
    struct workshop *workshop = workshop_new();
    GError *error = NULL;
    GPid pid;
    int status = 0;
    g_spawn_async(workshop->folder, (char **)command, NULL,
                  G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDERR_TO_DEV_NULL |
                      G_SPAWN_STDOUT_TO_DEV_NULL,
                  NULL, NULL, &pid, &error);
    g_assert_no_error(error);
    for (bool asks = false; waitpid(pid, &status, WNOHANG) == 0; g_usleep(POLL_US / 10)) {
        asks = asks || blocks(pid, SIGUSR1);
        if (asks)
            kill(pid, SIGUSR1);
    }
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 0);
    workshop_free(workshop);
}

/* A gnuplot that asks for the end once, while it draws. It runs in the folder that it draws into.
 */
static void write_gnuplot(const struct workshop *workshop, const char *gnuplot)
{
    g_autofree char *script = g_strdup_printf("#!/bin/sh\n"
                                              "[ -e asked ] || { : >asked; kill -TERM $PPID; }\n"
                                              "exec %s \"$@\"\n",
                                              gnuplot);
    g_autofree char *folder = workshop_path(workshop, "bin");
    g_autofree char *path = workshop_path(workshop, "bin/gnuplot");
    g_assert_cmpint(g_mkdir(folder, 0755), ==, 0);
    workshop_write(workshop, "bin/gnuplot", script);
    g_assert_cmpint(g_chmod(path, 0755), ==, 0);
}

static guint count_entries(const struct workshop *workshop)
{
    guint count = 0;
    GDir *folder = g_dir_open(workshop->folder, 0, NULL);
    while (g_dir_read_name(folder))
        count++;
    g_dir_close(folder);
    return count;
}

/* A report that is interrupted leaves nothing. */
static void test_report(void)
{
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        g_test_skip("gnuplot is not installed");
        return;
    }
    struct workshop *workshop = set_up();
    write_gnuplot(workshop, gnuplot);
    guint before = count_entries(workshop);
    g_autofree char *command =
        g_strdup_printf("env \"PATH=%s/bin:%s:%s\" pstar-report run.pstar -o "
                        "report",
                        workshop->folder, PROGRAM_DIR, g_getenv("PATH"));
    struct outcome outcome = workshop_run(workshop, command);
    g_assert_cmpint(outcome.status, ==, 128 + SIGTERM);
    g_assert_nonnull(strstr(outcome.err, "interrupted: no report was written"));
    g_assert_cmpstr(outcome.out, ==, "");
    g_assert_cmpuint(count_entries(workshop), ==, before);
    outcome_clear(&outcome);
    workshop_free(workshop);
}

/* A trace that is being written is removed, whatever links lead to it, and others' files stay. */
static void test_trace(gconstpointer data)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "sh -c 'mkdir real && ln -s real linked && "
                                "ln -s linked/trace.pstar trace.pstar'");
    workshop_write(workshop, "real/trace.pstar.1-0123abcd.tmp-journal", "of another program");
    g_autofree char *path = workshop_path(workshop, "real");
    struct workshop real = {.folder = path};
    g_autofree char *out = interrupt_at(
        &real,
        PROGRAM_DIR "/pstar-trace synth --model " MODEL
                    " --batch 1 --micro-batches 4000 --seq 16 --precision bf16 -o ../trace.pstar",
        GPOINTER_TO_INT(data), true);
    g_assert_cmpstr(out, ==, "");
    g_autofree char *trace = workshop_path(workshop, "trace.pstar");
    bool complete = g_file_test(trace, G_FILE_TEST_EXISTS); /* when the signal came */
    if (complete)
        workshop_must_run(workshop, "pstar-trace check trace.pstar");
    g_assert_cmpuint(count_entries(&real), ==, 1 + complete);
    g_autofree char *others = workshop_path(workshop, "real/trace.pstar.1-0123abcd.tmp-journal");
    g_assert_true(g_file_test(others, G_FILE_TEST_EXISTS));
    workshop_free(workshop);
}

/* Tokens that are interrupted leave those that were there, and nothing beside them. */
static void test_tokens(void)
{
    enum { BYTES = 16 << 20 };
    struct workshop *workshop = workshop_new();
    g_autofree char *text = g_malloc(BYTES + 1), *before = NULL;
    for (size_t i = 0; i < BYTES; i++)
        text[i] = " the"[i % 4];
    text[BYTES] = '\0';
    workshop_write(workshop, "text.txt", text);
    workshop_write(workshop, "tokens.bin", "old");
    guint entries = count_entries(workshop);
    g_autofree char *out = interrupt(workshop,
                                     PROGRAM_DIR "/pstar-tokens --model " PROJECT_DIR
                                                 "/tests/models/tokenizer text.txt -o tokens.bin",
                                     SIGTERM);
    g_assert_cmpstr(out, ==, "");
    g_assert_cmpuint(count_entries(workshop), ==, entries);
    g_autofree char *path = workshop_path(workshop, "tokens.bin");
    g_assert_true(g_file_get_contents(path, &before, NULL, NULL));
    g_assert_cmpstr(before, ==, "old");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    hear_signals();
    g_test_add_func("/stop/time_limit", test_time_limit);
    g_test_add_data_func("/stop/search/terminate", GINT_TO_POINTER(SIGTERM), test_search);
    g_test_add_data_func("/stop/stages/interrupt", GINT_TO_POINTER(SIGINT), test_stages);
    g_test_add_data_func("/stop/question/hang-up", GINT_TO_POINTER(SIGHUP), test_question);
    g_test_add_data_func("/stop/sweep/interrupt", GINT_TO_POINTER(SIGINT), test_sweep);
    g_test_add_data_func("/stop/trace/interrupt", GINT_TO_POINTER(SIGINT), test_trace);
    g_test_add_data_func("/stop/trace/terminate", GINT_TO_POINTER(SIGTERM), test_trace);
    g_test_add_func("/stop/asked", test_asked);
    g_test_add_func("/stop/asked-always", test_asked_always);
    g_test_add_func("/stop/report/terminate", test_report);
    g_test_add_func("/stop/tokens/terminate", test_tokens);
    int status = g_test_run();
    if (made.workshop)
        workshop_free(made.workshop);
    return status;
}
