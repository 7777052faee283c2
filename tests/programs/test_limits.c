/* Limits that the system sets (setrlimit) end programs with a message, never by a signal, and only
 * if the work cannot be done otherwise. */
#include "workshop.h"

#include <glib/gstdio.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json "
#define RUN      "pstar-run --model model --data text.txt --batch 2 --seq 32 --steps 2 --threads 1 "
#define BUDGET   "--device-memory 1200KiB " PLATFORM

enum { DONE = 0, FAILED = 1, DOES_NOT_FIT = 3 };

static struct workshop *set_up(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision fp32 " PLATFORM "-o good.pstar");
    return workshop;
}

static void expect(const struct workshop *workshop, const char *limit, const char *command,
                   int status, const char *says)
{
    g_autofree char *line = g_strdup_printf("sh -c 'ulimit %s && exec %s'", limit, command);
    workshop_must_end(workshop, line, status, "", says);
}

/* A thread's stack is as large as the limit of the first one's, so none can be created. */
#define NO_THREADS "-s 1000000000000"

static void test_threads(void)
{
    struct workshop *workshop = set_up();
    struct outcome possible = workshop_run(workshop, "sh -c 'ulimit " NO_THREADS "'");
    bool skip = possible.status != 0;
    outcome_clear(&possible);
    if (skip) {
        g_test_skip("the hard limit of the stack is too low");
    } else {
        expect(workshop, NO_THREADS, RUN, DOES_NOT_FIT,
               "a thread, whose stack takes 931.32 TiB (ulimit -s)");
        expect(workshop, NO_THREADS, "pstar-sim good.pstar " BUDGET, DONE, "");
        expect(workshop, NO_THREADS, "pstar-plan good.pstar -o plan.json " BUDGET, DONE, "");
        workshop_must_run(workshop, "pstar-plan --verify plan.json good.pstar");
    }
    workshop_free(workshop);
}

/* In blocks of 512 bytes. */
#define SMALL_FILES "-f 1"

static void test_file_sizes(void)
{
    static const char *const commands[] = {
        RUN "--log log.jsonl",
        RUN "--save saved",
        RUN "--emit-plan plan.json",
        "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 -o out.pstar",
        "pstar-trace export good.pstar -o out.json",
        "pstar-sim good.pstar --json out.json " BUDGET,
        "pstar-sim good.pstar --timeline out.json " BUDGET,
        "pstar-plan good.pstar -o plan.json " BUDGET,
        "pstar-report good.pstar -o page",
    };
    struct workshop *workshop = set_up();
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        expect(workshop, SMALL_FILES, commands[i], FAILED, ": ");
    expect(workshop, SMALL_FILES, RUN "--device-memory 1200KiB", DOES_NOT_FIT, "a host pool of");
    workshop_free(workshop);
}

/* GLib ends a program that gets no memory by a signal; here it ends with a message and a status. */
static void test_address_space(void)
{
    struct workshop *workshop = set_up();
    workshop_must_run(workshop, "pstar-trace synth --model " PROJECT_DIR
                                "/models/configs/gpt2-xl.json --batch 4 --seq 1024 --precision "
                                "bf16 " PLATFORM "-o large.pstar");
    expect(workshop, "-v 30000", "pstar-trace check good.pstar", DOES_NOT_FIT,
           "pstar-trace: the address space is limited to 29.30 MiB (ulimit -v)");
    expect(workshop, "-v 45000", "pstar-plan large.pstar --device-memory 16GB -o p.json " PLATFORM,
           DOES_NOT_FIT, "pstar-plan: the system refuses memory: ");
    expect(workshop, "-v 200000", "pstar-plan good.pstar -o plan.json " BUDGET, DONE, "");
    expect(workshop, "-v 60000", RUN, DOES_NOT_FIT, "(ulimit -v)");
    workshop_free(workshop);
}

/* The threads of copies, updates and exchanges come after the memory. Whichever the system refuses,
 * the end is the same. */
static void test_refused_threads(void)
{
    struct workshop *workshop = set_up();
    unsigned threads = 0;
    for (unsigned mib = 64; mib <= 176; mib += 4) {
        g_autofree char *line = g_strdup_printf("sh -c 'ulimit -v %u && exec " RUN "--threads 8'",
                                                mib << 10);
        struct outcome outcome = workshop_run(workshop, line);
        threads += strstr(outcome.err, "pstar-run: the system refuses a thread, ") != NULL;
        if (outcome.status != DONE &&
            (outcome.status != DOES_NOT_FIT || !strstr(outcome.err, "(ulimit -v)")))
            g_error("%s\nstatus %d: %s", line, outcome.status, outcome.err);
        outcome_clear(&outcome);
    }
    g_assert_cmpuint(threads, >, 0);
    workshop_free(workshop);
}

/* Whatever needs memory first, the end is a message: of a thread that is refused, of GLib, of
 * oneDNN, but never of OpenMP's library. How much the run takes depends on the machine's libraries.
 */
static void test_data(void)
{
    struct workshop *workshop = set_up();
    unsigned refused = 0;
    for (unsigned mib = 8; mib <= 136; mib += 8) {
        g_autofree char *line = g_strdup_printf("sh -c 'ulimit -d %u && exec " RUN "--threads 8'",
                                                mib << 10);
        struct outcome outcome = workshop_run(workshop, line);
        bool memory = outcome.status == DOES_NOT_FIT && strstr(outcome.err, "(ulimit -d)");
        refused += memory;
        if (outcome.status != DONE && !memory)
            g_error("%s\nstatus %d: %s", line, outcome.status, outcome.err);
        outcome_clear(&outcome);
    }
    g_assert_cmpuint(refused, >, 0);
    workshop_free(workshop);
}

/* Whose model data are some 50 MiB for each layer, in fp32. */
static void write_large_model(const struct workshop *workshop, int layers)
{
    g_autofree char *config = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], "
        "\"vocab_size\": 256, \"n_positions\": 16, \"n_embd\": 512, \"n_layer\": %d, "
        "\"n_head\": 8, \"resid_pdrop\": 0.0, \"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0}",
        layers);
    workshop_must_run(workshop, "mkdir large");
    workshop_write(workshop, "large/config.json", config);
}

#define LARGE \
    "pstar-run --model large --data text.txt --batch 1 --seq 16 --steps 1 --threads 1 --verbose "

/* The number of bytes before "would fit", as the run's message has it. */
static uint64_t fitting_bytes(const char *message)
{
    const char *end = strstr(message, " bytes would fit"), *at = end;
    g_assert_nonnull(end);
    while (g_ascii_isdigit(at[-1]))
        at--;
    return g_ascii_strtoull(at, NULL, 10);
}

/* Before any memory is taken, the run says which limit is too low, by how much, what would fit, and
 * when the step needs the most. What it says would fit does: `unit` is the limit's. */
static void check_refused(const struct workshop *workshop, const char *limit, uint64_t unit,
                          uint64_t value, const char *options, const char *says)
{
    g_autofree char *line = g_strdup_printf(
        "sh -c 'ulimit %s %" G_GUINT64_FORMAT " && exec " LARGE "%s'", limit, value, options);
    struct outcome outcome = workshop_run(workshop, line);
    g_test_message("%s", outcome.err);
    g_assert_cmpint(outcome.status, ==, DOES_NOT_FIT);
    g_assert_nonnull(strstr(outcome.err, says));
    g_assert_nonnull(strstr(outcome.err, " more than the "));
    g_assert_nonnull(strstr(outcome.err, ". Any plan needs "));
    g_assert_nonnull(strstr(outcome.err, " on the device at moment "));
    g_autofree char *enough = g_strdup_printf("%s %" G_GUINT64_FORMAT, limit,
                                              (fitting_bytes(outcome.err) + unit - 1) / unit);
    g_autofree char *again = g_strconcat(LARGE, options, NULL);
    expect(workshop, enough, again, DONE, "");
    outcome_clear(&outcome);
}

static void test_refused(void)
{
    enum { KIB = 1024, BLOCK = 512 };
    static const char in_addresses[] = " left of the address space (ulimit -v); ";
    static const char in_data[] = " left for data (ulimit -d); ";
    struct workshop *workshop = set_up();
    write_large_model(workshop, 8);
    g_autofree char *before = workshop_listing(workshop);
    check_refused(workshop, "-v", KIB, 300000, "", in_addresses);
    check_refused(workshop, "-v", KIB, 300000, "--threads 8 --precision bf16", in_addresses);
    check_refused(workshop, "-v", KIB, 300000, "--device-memory 150MiB --batch 16", in_addresses);
    check_refused(workshop, "-d", KIB, 100000, "", in_data);
    check_refused(workshop, "-d", KIB, 100000, "--threads 32", in_data);
    check_refused(workshop, "-f", BLOCK, 100, "--device-memory 100MiB ",
                  " that a file may have (ulimit -f); ");
    g_autofree char *after = workshop_listing(workshop);
    g_assert_cmpstr(before, ==, after);
    workshop_free(workshop);
}

/* No memory is locked, so that limit does not count. */
static void test_locked(void)
{
    struct workshop *workshop = set_up();
    expect(workshop, "-l 0", RUN "--device-memory 1200KiB", DONE, "");
    workshop_free(workshop);
}

/* Makes a control group of either version that allows so many bytes. Returns the file that takes
 * its processes, to be freed with g_free, or NULL if the system does not allow that. */
static char *make_group(const char *name, const char *bytes)
{
    static const char *const places[][3] = {
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "cgroup.procs"},
        {"/sys/fs/cgroup", "memory.max", "cgroup.procs"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(places); i++) {
        g_autofree char *folder = g_build_filename(places[i][0], name, NULL);
        g_autofree char *limit = g_build_filename(folder, places[i][1], NULL);
        if (g_mkdir(folder, 0755) != 0)
            continue;
        FILE *file = g_access(limit, W_OK) == 0 ? fopen(limit, "we") : NULL;
        bool limited = file && fputs(bytes, file) >= 0 && fclose(file) == 0;
        if (limited)
            return g_build_filename(folder, places[i][2], NULL);
        g_rmdir(folder);
    }
    return NULL;
}

static void test_group(void)
{
    struct workshop *workshop = set_up();
    g_autofree char *name = g_strdup_printf("pstar-test-%d", (int)getpid());
    g_autofree char *processes = make_group(name, "104857600");
    if (!processes) {
        g_test_skip("control groups cannot be made here");
    } else {
        g_autofree char *folder = g_path_get_dirname(processes);
        g_autofree char *line = g_strdup_printf("sh -c 'echo $$ > %s && exec " LARGE "'",
                                                processes);
        write_large_model(workshop, 8);
        workshop_must_end(workshop, line, DOES_NOT_FIT, "", " that the control group leaves; ");
        g_assert_cmpint(g_rmdir(folder), ==, 0);
    }
    workshop_free(workshop);
}

static double number_after(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    g_assert_nonnull(at);
    return g_ascii_strtod(at + strlen(words), NULL);
}

/* Arena, host pool and 28 MiB beside are what the process holds at its peak, within 2 %. */
static void test_resident(void)
{
    static const char *const budgets[] = {"", "--device-memory 300MiB "};
    struct workshop *workshop = set_up();
    write_large_model(workshop, 16);
    for (size_t i = 0; i < G_N_ELEMENTS(budgets); i++) {
        g_autofree char *line = g_strconcat(LARGE "--emit-plan plan.json ", budgets[i], NULL);
        struct outcome outcome = workshop_run(workshop, line);
        g_assert_cmpint(outcome.status, ==, DONE);
        json_t *plan = workshop_read_json(workshop, "plan.json");
        double planned = (json_number_value(json_object_get(plan, "device_bytes")) +
                          json_number_value(json_object_get(plan, "host_bytes"))) /
                             1048576 +
                         28;
        double measured = number_after(outcome.err, "of processor time, and ");
        g_test_message("planned %.1f MiB, measured %.1f MiB", planned, measured);
        g_assert_cmpfloat(measured, >, planned * 0.98);
        g_assert_cmpfloat(measured, <, planned * 1.02);
        json_decref(plan);
        outcome_clear(&outcome);
    }
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/limits/threads", test_threads);
    g_test_add_func("/limits/file-sizes", test_file_sizes);
    g_test_add_func("/limits/address-space", test_address_space);
    g_test_add_func("/limits/refused-threads", test_refused_threads);
    g_test_add_func("/limits/data", test_data);
    g_test_add_func("/limits/refused", test_refused);
    g_test_add_func("/limits/locked", test_locked);
    g_test_add_func("/limits/group", test_group);
    g_test_add_func("/limits/resident", test_resident);
    return g_test_run();
}
