/* What programs say on standard error, and how: colours on terminals that want them, --quiet and
 * --verbose. */
#include "workshop.h"

#include <string.h>

#define BUDGET  "--device-memory 10MiB --platform " PROJECT_DIR "/platforms/a100-40gb.json"
#define SIM     "pstar-sim good.pstar --policy opt " BUDGET
#define PLAN    "pstar-plan good.pstar -o plan.json --time-limit 0.001 " BUDGET
#define RUN     "pstar-run --model model --data text.txt --batch 2 --seq 32 --steps 2 --threads 1"
#define MISSING "pstar-sim missing.pstar"
#define ESCAPE  "\033["

static struct workshop *set_up(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 "
                      "--platform " PROJECT_DIR "/platforms/a100-40gb.json -o good.pstar");
    return workshop;
}

/* What a terminal receives from the command. Free with g_free. */
static char *on_terminal(const struct workshop *workshop, const char *environment,
                         const char *command)
{
    g_autofree char *inner = g_strdup_printf("env %s %s", environment, command);
    g_autofree char *quoted = g_shell_quote(inner);
    g_autofree char *outer = g_strdup_printf("script -qec %s /dev/null", quoted);
    struct outcome outcome = workshop_run(workshop, outer);
    g_test_message("%s\n%s", inner, outcome.out);
    g_free(outcome.err);
    return outcome.out;
}

static void test_colours(void)
{
    struct workshop *workshop = set_up();
    static const char *const without[] = {"TERM=dumb", "-u TERM", "TERM=xterm NO_COLOR=1"};
    static const char *const with[] = {"-u NO_COLOR TERM=xterm", "TERM=xterm NO_COLOR="};
    for (size_t i = 0; i < G_N_ELEMENTS(with); i++) {
        g_autofree char *error = on_terminal(workshop, with[i], MISSING);
        g_assert_true(g_str_has_prefix(error, ESCAPE "1;31mpstar-sim:" ESCAPE "0m missing.pstar"));
        g_autofree char *table = on_terminal(workshop, with[i], SIM);
        g_assert_nonnull(strstr(table, ESCAPE "1mpstar-sim:" ESCAPE "0m budget of host memory"));
        g_assert_nonnull(strstr(table, "\n" ESCAPE "1;32m* "));
        g_autofree char *plan = on_terminal(workshop, with[i], PLAN);
        g_assert_nonnull(strstr(plan, "\n" ESCAPE "1;32m  plan "));
        g_autofree char *more = on_terminal(workshop, with[i], SIM " --host-memory 1000GiB");
        g_assert_nonnull(strstr(more, ESCAPE "1;33mpstar-sim:" ESCAPE "0m --host-memory"));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(without); i++) {
        g_autofree char *error = on_terminal(workshop, without[i], MISSING);
        g_assert_true(g_str_has_prefix(error, "pstar-sim: missing.pstar"));
        g_autofree char *table = on_terminal(workshop, without[i], SIM);
        g_assert_null(strstr(table, "m* "));
    }
    workshop_free(workshop);
}

/* Neither of the streams has a control sequence when it is a pipe. */
static void test_pipe(void)
{
    struct workshop *workshop = set_up();
    static const char *const commands[] = {MISSING, SIM, RUN};
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        g_autofree char *command = g_strconcat("env -u NO_COLOR TERM=xterm ", commands[i], NULL);
        struct outcome outcome = workshop_run(workshop, command);
        g_assert_null(strchr(outcome.out, '\033'));
        g_assert_null(strchr(outcome.err, '\033'));
        outcome_clear(&outcome);
    }
    workshop_free(workshop);
}

static void test_progress(void)
{
    struct workshop *workshop = set_up();
    g_autofree char *shown = on_terminal(workshop, "TERM=xterm", RUN);
    g_assert_nonnull(strstr(shown, "\r2 of 2 steps"));
    g_autofree char *plain = on_terminal(workshop, "TERM=dumb", RUN);
    g_assert_null(strchr(plain, '\033'));
    g_autofree char *verbose = on_terminal(workshop, "TERM=xterm", RUN " --verbose");
    g_assert_null(strstr(verbose, "\033[K")); /* its lines stay */
    g_autofree char *quiet = on_terminal(workshop, "TERM=xterm", RUN " --quiet");
    g_assert_null(strchr(quiet, '\033'));
    g_assert_null(strstr(quiet, "of 2 steps"));
    g_assert_nonnull(strstr(quiet, "tokens a second"));
    workshop_free(workshop);
}

/* With --quiet the command says nothing, though it does without. */
static void expect_silence(const struct workshop *workshop, const char *command)
{
    g_autofree char *quiet = g_strconcat(command, " -q", NULL);
    struct outcome loud = workshop_run_well(workshop, command);
    struct outcome silent = workshop_run_well(workshop, quiet);
    g_assert_cmpuint(strlen(loud.out) + strlen(loud.err), >, 0);
    g_assert_cmpstr(silent.out, ==, "");
    g_assert_cmpstr(silent.err, ==, "");
    outcome_clear(&loud);
    outcome_clear(&silent);
}

/* With --quiet standard output has the same, and standard error nothing. */
static void expect_results(const struct workshop *workshop, const char *command)
{
    g_autofree char *quiet = g_strconcat(command, " --quiet", NULL);
    struct outcome loud = workshop_run_well(workshop, command);
    struct outcome silent = workshop_run_well(workshop, quiet);
    g_assert_cmpuint(strlen(loud.out), >, 0);
    g_assert_cmpstr(silent.out, ==, loud.out);
    g_assert_cmpstr(silent.err, ==, "");
    outcome_clear(&loud);
    outcome_clear(&silent);
}

static void test_quiet(void)
{
    struct workshop *workshop = set_up();
    expect_silence(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 "
                             "-o other.pstar");
    expect_silence(workshop, "pstar-trace check good.pstar");
    expect_silence(workshop, SIM " --json sweep.json");
    expect_silence(workshop, "pstar-plan good.pstar -o plan.json " BUDGET);
    expect_silence(workshop, "pstar-plan good.pstar --verify plan.json");
    expect_silence(workshop, RUN " --log run.jsonl");
    expect_results(workshop, "pstar-trace info good.pstar");
    expect_results(workshop, SIM);
    expect_results(workshop, SIM " --stalls 1 --json sweep.json");
    expect_results(workshop, "pstar-plan --explain plan.json good.pstar --emit deepspeed");
    expect_results(workshop, RUN " --dry-run --log run.jsonl");
    expect_results(workshop, "pstar-report --text plan.json");
    workshop_free(workshop);
}

/* What --quiet does not hide: errors, and what a traced command prints. */
static void test_quiet_failures(void)
{
    struct workshop *workshop = set_up();
    struct outcome outcome = workshop_run(workshop, "pstar-trace check -q good.pstar text.txt");
    g_assert_cmpint(outcome.status, ==, 2);
    g_assert_cmpstr(outcome.out, ==, "");
    g_assert_true(g_str_has_prefix(outcome.err, "pstar-trace: text.txt: "));
    outcome_clear(&outcome);
    outcome = workshop_run(workshop, SIM " -q --host-memory 1000GiB --json x");
    g_assert_cmpstr(outcome.out, ==, "");
    g_assert_true(g_str_has_prefix(outcome.err, "pstar-sim: --host-memory 1000 GiB is more"));
    outcome_clear(&outcome);
    outcome = workshop_run(workshop, "pstar-collect -q --visible-tensors -o run.pstar -- " RUN);
    g_assert_cmpint(outcome.status, ==, 0);
    g_assert_null(strstr(outcome.err, "pstar-collect"));
    g_assert_nonnull(strstr(outcome.out, "tokens a second"));
    outcome_clear(&outcome);
    workshop_free(workshop);
}

static void test_verbose(void)
{
    struct workshop *workshop = set_up();
    struct outcome outcome = workshop_run_well(workshop, SIM " --verbose --json sweep.json");
    g_assert_nonnull(strstr(outcome.err, "pstar-sim: reads good.pstar, "));
    g_assert_nonnull(strstr(outcome.err, "pstar-sim: wrote sweep.json, "));
    g_assert_nonnull(strstr(outcome.err, "pstar-sim: took "));
    g_assert_nonnull(strstr(outcome.out, "\n* "));
    outcome_clear(&outcome);
    outcome = workshop_run_well(workshop, SIM " -v --json -");
    g_assert_nonnull(strstr(outcome.err, "pstar-sim: wrote standard output"));
    outcome_clear(&outcome);
    outcome = workshop_run_well(workshop, RUN " --nvme . --nvme-memory 1GiB --host-update "
                                              "--save saved --verbose");
    g_assert_nonnull(strstr(outcome.err, "pstar-run: reads text.txt, "));
    g_assert_null(strstr(outcome.err, "reads saved"));
    g_assert_null(strstr(outcome.err, "reads .\n"));
    g_assert_nonnull(strstr(outcome.err, "pstar-run: wrote saved\n"));
    outcome_clear(&outcome);
    outcome = workshop_run_well(workshop, SIM);
    g_assert_null(strstr(outcome.err, "reads good.pstar"));
    outcome_clear(&outcome);
    outcome = workshop_run(workshop, SIM " -q -v");
    g_assert_cmpint(outcome.status, ==, 2);
    g_assert_nonnull(strstr(outcome.err, "--quiet and --verbose exclude each other"));
    outcome_clear(&outcome);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/console/colours", test_colours);
    g_test_add_func("/console/pipe", test_pipe);
    g_test_add_func("/console/progress", test_progress);
    g_test_add_func("/console/quiet", test_quiet);
    g_test_add_func("/console/quiet-failures", test_quiet_failures);
    g_test_add_func("/console/verbose", test_verbose);
    return g_test_run();
}
