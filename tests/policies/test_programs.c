/* Uses the example plug-in in the programs. pstar-sim predicts with it, pstar-run trains with it,
 * and moves what was predicted. */
#include "tests/programs/workshop.h"

#include <string.h>

enum { STEPS = 4, STEADY = 2 };
#define BUDGET " --device-memory 900KiB"

static const char *const figures[] = {"h2d_bytes", "d2h_bytes", "evictions", "peak_device_bytes"};

static json_int_t figure(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value))
        g_error("no figure %s", name);
    return json_integer_value(value);
}

/* The sweep's entry of one policy. */
static const json_t *entry_of(const json_t *sweep, const char *policy)
{
    size_t i;
    const json_t *entry;
    json_array_foreach (json_object_get(sweep, "results"), i, entry)
        if (g_str_equal(json_string_value(json_object_get(entry, "policy")), policy))
            return entry;
    g_error("no entry for %s", policy);
}

static void assert_steady_steps(const struct workshop *workshop, const json_t *predicted)
{
    json_t *lines = workshop_read_json_lines(workshop, "run.jsonl");
    size_t i, steps = 0;
    const json_t *line;
    json_array_foreach (lines, i, line)
        if (json_object_get(line, "step") && steps++ >= STEADY)
            for (size_t f = 0; f < G_N_ELEMENTS(figures); f++)
                g_assert_cmpint(figure(line, figures[f]), ==, figure(predicted, figures[f]));
    g_assert_cmpuint(steps, ==, STEPS);
    json_decref(lines);
}

static void test_example(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision bf16 -o run.pstar");
    workshop_must_run(workshop, "pstar-sim run.pstar --chunk-size 16KiB" BUDGET
                                " --policy opt," EXAMPLE_PLUGIN " --json sweep.json");
    char *command = g_strdup_printf("pstar-run --model model --data text.txt --batch 2 --seq 32 "
                                    "--precision bf16 --chunk-size 16KiB" BUDGET
                                    " --policy " EXAMPLE_PLUGIN " --steps %d --log run.jsonl",
                                    STEPS);
    workshop_must_run(workshop, command);
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    const json_t *mru = entry_of(sweep, "mru"), *opt = entry_of(sweep, "opt");
    g_assert_cmpint(figure(mru, "h2d_bytes"), >, figure(opt, "h2d_bytes"));
    assert_steady_steps(workshop, mru);
    json_decref(sweep);
    g_free(command);
    workshop_free(workshop);
}

static void refuses(const struct workshop *workshop, const char *command, const char *says)
{
    struct outcome outcome = workshop_run(workshop, command);
    if (outcome.status != 2 || !strstr(outcome.err, says))
        g_error("%s: exit status %d, %s", command, outcome.status, outcome.err);
    outcome_clear(&outcome);
}

static void test_refused(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision bf16 -o run.pstar");
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy ./none.so", "./none.so: ");
    workshop_must_run(workshop, "mkfifo pipe.so");
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy ./pipe.so", "not a regular file");
    workshop_must_run(workshop, "sh -c 'head -c 9000 " BROKEN_NO_VICTIM_PLUGIN " > cut.so'");
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy ./cut.so",
            "./cut.so: the shared object is truncated");
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy lru," BROKEN_OTHER_ABI_PLUGIN,
            "version 99");
    refuses(workshop, "pstar-run --model model --data text.txt --policy " BROKEN_NO_VICTIM_PLUGIN,
            "not define `victim`");
    refuses(workshop,
            "pstar-run --model model --data text.txt --batch 2 --seq 32 --chunk-size 16KiB" BUDGET
            " --policy " BROKEN_ANSWER_PLUGIN,
            "policy broken: at moment");
    workshop_free(workshop);
}

/* A sweep goes on with the other policies, and says which one failed. */
static void test_fails_in_a_sweep(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision fp32 -o run.pstar");
    struct outcome outcome = workshop_run(workshop, "pstar-sim run.pstar --chunk-size 16KiB" BUDGET
                                                    " --policy lru," BROKEN_ANSWER_PLUGIN
                                                    " --json sweep.json");
    g_test_message("%s%s", outcome.out, outcome.err);
    g_assert_cmpint(outcome.status, ==, 2);
    g_assert_nonnull(strstr(outcome.err, "policy broken: at moment"));
    g_assert_nonnull(strstr(outcome.out, "failed: policy broken"));
    g_assert_null(strstr(outcome.out, "does not fit"));
    outcome_clear(&outcome);

    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    json_t *results = json_object_get(sweep, "results");
    g_assert_cmpuint(json_array_size(results), ==, 2);
    g_assert_true(json_is_true(json_object_get(json_array_get(results, 0), "fits")));
    g_assert_null(json_object_get(json_array_get(results, 0), "failed"));
    g_assert_true(json_is_true(json_object_get(json_array_get(results, 1), "failed")));
    json_decref(sweep);
    workshop_free(workshop);
}

/* The program dies of the signal, as it would without a plug-in, but says whose fault it is. */
static void test_crash(void)
{
    static const struct {
        const char *command, *said;
    } runs[] = {
        {"pstar-sim run.pstar --chunk-size 16KiB" BUDGET " --policy lru," BROKEN_CRASH_PLUGIN,
         BROKEN_CRASH_PLUGIN ": the policy crashed: Segmentation fault\n"},
        {"pstar-run --model model --data text.txt --batch 2 --seq 32 --chunk-size 16KiB" BUDGET
         " --steps 2 --policy " BROKEN_CRASH_PLUGIN,
         BROKEN_CRASH_PLUGIN ": the policy crashed: Segmentation fault\n"},
        {"pstar-sim run.pstar --chunk-size 16KiB" BUDGET " --policy lru," BROKEN_OVERFLOW_PLUGIN,
         BROKEN_OVERFLOW_PLUGIN ": the policy crashed: Segmentation fault\n"},
        {"pstar-run --model model --data text.txt --batch 2 --seq 32 --chunk-size 16KiB" BUDGET
         " --steps 2 --policy " BROKEN_OVERFLOW_PLUGIN,
         BROKEN_OVERFLOW_PLUGIN ": the policy crashed: Segmentation fault\n"},
        {"pstar-sim run.pstar" BUDGET " --policy " BROKEN_LOAD_PLUGIN,
         BROKEN_LOAD_PLUGIN ": crashed while it was loaded: Segmentation fault\n"}};
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision fp32 -o run.pstar");
    for (size_t i = 0; i < G_N_ELEMENTS(runs); i++) {
        struct outcome outcome = workshop_run(workshop, runs[i].command);
        const char *said = runs[i].said;
#ifdef __SANITIZE_ADDRESS__
        said = "plugins/broken.c"; /* by the sanitizer, which sees it first */
#endif
        if (!strstr(outcome.err, said))
            g_error("%s\nstatus %d\n%s%s", runs[i].command, outcome.status, outcome.out,
                    outcome.err);
        g_assert_cmpint(outcome.status, !=, 0);
        outcome_clear(&outcome);
    }
    workshop_free(workshop);
}

/* Nor does a plug-in end the program as if its work were done. */
static void test_exit(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision fp32 -o run.pstar");
    workshop_must_end(
        workshop, "pstar-sim run.pstar --chunk-size 16KiB" BUDGET " --policy " BROKEN_EXIT_PLUGIN,
        1, "", BROKEN_EXIT_PLUGIN ": the policy ended the program\n");
    workshop_must_end(
        workshop,
        "pstar-run --model model --data text.txt --batch 2 --seq 32 --chunk-size 16KiB" BUDGET
        " --steps 2 --policy " BROKEN_EXIT_PLUGIN,
        1, "", BROKEN_EXIT_PLUGIN ": the policy ended the program\n");
    workshop_free(workshop);
}

/* Parameters reach the policy in every program, and stand in tables and files with its name. */
static void test_parameters(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision bf16 -o run.pstar");
    workshop_must_run(workshop, "pstar-sim run.pstar --chunk-size 4KiB" BUDGET
                                " --policy s3fifo,s3fifo:small=0.1:ghosts=0.9,s3fifo:small=0.6"
                                " --json sweep.json");
    workshop_must_run(workshop, "pstar-run --model model --data text.txt --batch 2 --seq 32 "
                                "--precision bf16 --chunk-size 4KiB" BUDGET
                                " --policy s3fifo:small=0.6 --steps 4 --log run.jsonl");
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    const json_t *plain = entry_of(sweep, "s3fifo"), *larger = entry_of(sweep, "s3fifo:small=0.6"),
                 *usual = entry_of(sweep, "s3fifo:small=0.1:ghosts=0.9");
    for (size_t f = 0; f < G_N_ELEMENTS(figures); f++)
        g_assert_cmpint(figure(usual, figures[f]), ==, figure(plain, figures[f]));
    g_assert_cmpint(figure(larger, "h2d_bytes"), !=, figure(plain, "h2d_bytes"));
    assert_steady_steps(workshop, larger);
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy s3fifo:large=1",
            "policy s3fifo has no parameter 'large'; it has small in [0.001, 0.999], ghosts in "
            "[0, 100], promote in [1, 100], uses in [1, 100]");
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy clock:uses=1.5",
            "policy clock: uses must be a whole number in [1, 100], not '1.5'");
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy random:seed=-1",
            "policy random: seed must be a whole number in [0, 1000000000], not '-1'");
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy s3fifo:small=2",
            "policy s3fifo: small must be a number in [0.001, 0.999], not '2'");
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy lru:small=0.2",
            "policy lru has no parameter 'small'");
    json_decref(sweep);
    workshop_free(workshop);
}

/* Those of a plug-in as those of a policy of ours. */
static void test_parameters_of_plugin(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 "
                                "--precision bf16 -o run.pstar");
    workshop_must_run(workshop,
                      "pstar-sim run.pstar --chunk-size 4KiB" BUDGET " --policy " EXAMPLE_PLUGIN
                      "," EXAMPLE_PLUGIN ":spare=0," EXAMPLE_PLUGIN ":spare=3 --json sweep.json");
    workshop_must_run(workshop, "pstar-run --model model --data text.txt --batch 2 --seq 32 "
                                "--precision bf16 --chunk-size 4KiB" BUDGET
                                " --policy " EXAMPLE_PLUGIN ":spare=3 --steps 4 --log run.jsonl");
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    const json_t *plain = entry_of(sweep, "mru"),
                 *usual = entry_of(sweep, EXAMPLE_PLUGIN ":spare=0"),
                 *spared = entry_of(sweep, EXAMPLE_PLUGIN ":spare=3");
    for (size_t f = 0; f < G_N_ELEMENTS(figures); f++)
        g_assert_cmpint(figure(usual, figures[f]), ==, figure(plain, figures[f]));
    g_assert_cmpint(figure(spared, "h2d_bytes"), !=, figure(plain, "h2d_bytes"));
    assert_steady_steps(workshop, spared);
    refuses(workshop, "pstar-sim run.pstar" BUDGET " --policy " EXAMPLE_PLUGIN ":spare=0.5",
            "policy mru: spare must be a whole number in [0, 1000], not '0.5'");
    json_decref(sweep);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/policies/programs/example", test_example);
    g_test_add_func("/policies/programs/refused", test_refused);
    g_test_add_func("/policies/programs/fails_in_a_sweep", test_fails_in_a_sweep);
    g_test_add_func("/policies/programs/crash", test_crash);
    g_test_add_func("/policies/programs/exit", test_exit);
    g_test_add_func("/policies/programs/parameters", test_parameters);
    g_test_add_func("/policies/programs/parameters_of_plugin", test_parameters_of_plugin);
    return g_test_run();
}
