/* Limits that the system sets (setrlimit) end programs with a message, never by a signal, and only
 * if the work cannot be done otherwise. */
#include "workshop.h"

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
        expect(workshop, NO_THREADS, RUN, FAILED, "pstar-run: Error creating thread");
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
        bool thread = outcome.status == FAILED && strstr(outcome.err, "Error creating thread");
        bool memory = outcome.status == DOES_NOT_FIT && strstr(outcome.err, "(ulimit -d)");
        refused += memory;
        if (outcome.status != DONE && !thread && !memory)
            g_error("%s\nstatus %d: %s", line, outcome.status, outcome.err);
        outcome_clear(&outcome);
    }
    g_assert_cmpuint(refused, >, 0);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/limits/threads", test_threads);
    g_test_add_func("/limits/file-sizes", test_file_sizes);
    g_test_add_func("/limits/address-space", test_address_space);
    g_test_add_func("/limits/data", test_data);
    return g_test_run();
}
