/* Every command that a report prints is run as printed, in the folder of the files, and works. It
 * is about the same budget, platform and link as the step that the report is about. */
#include "workshop.h"

#include <stdio.h>
#include <string.h>

#define A100 PROJECT_DIR "/platforms/a100-40gb.json"
#define LINK "--link h2d=1GB/s,d2h=1GB/s"

/* Runs one, unless there is none. */
static unsigned run_command(const struct workshop *workshop, const json_t *item)
{
    const char *command = json_string_value(json_object_get(item, "command"));
    if (!command || !g_str_has_prefix(command, "pstar-"))
        return 0;
    workshop_write(workshop, "command.sh", command);
    struct outcome outcome = workshop_run(workshop, "sh -e command.sh");
    if (outcome.status != 0)
        g_error("%s\nstatus %d\n%s%s", command, outcome.status, outcome.out, outcome.err);
    outcome_clear(&outcome);
    return 1;
}

static unsigned run_list(const struct workshop *workshop, const json_t *list)
{
    unsigned count = 0;
    size_t i;
    const json_t *item;
    json_array_foreach (list, i, item)
        count += run_command(workshop, item);
    return count;
}

/* The first command with these words, or NULL. */
static const char *command_with(const json_t *list, const char *words)
{
    size_t i;
    const json_t *item;
    json_array_foreach (list, i, item) {
        const char *command = json_string_value(json_object_get(item, "command"));
        if (command && strstr(command, words))
            return command;
    }
    return NULL;
}

/* Runs the commands of the report on these files. Those that simulate or plan say `machine`. */
static void check_report(const struct workshop *workshop, const char *files, const char *machine)
{
    g_autofree char *command = g_strdup_printf("pstar-report %s -o report --json", files);
    json_t *report = workshop_must_print_json(workshop, command);
    const json_t *advice = json_object_get(report, "advice"),
                 *missing = json_object_get(report, "missing");
    g_test_message("%s", command);
    g_assert_nonnull(missing);
    if (!command_with(advice, machine) && !command_with(missing, machine))
        g_error("no command of %s has '%s':\n%s", command, machine,
                json_dumps(report, JSON_INDENT(1)));
    g_assert_cmpuint(run_list(workshop, advice) + run_list(workshop, missing), >, 0);
    json_decref(report);
}

static void test_trained(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-collect -o run.pstar -- pstar-run --model model --data "
                                "text.txt --batch 2 --seq 32 --steps 4 " LINK
                                " --device-memory 1000000B --chunk-size 16KiB --log run.jsonl");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 1000000B,1100000B " LINK
                                " --strategy zero-offload,fsdp-offload --policy opt,fifo "
                                "--json swept.json");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 1000000B " LINK
                                " --policy opt --timeline step-now.json");
    workshop_must_run(workshop,
                      "pstar-plan run.pstar --device-memory 1000000B " LINK " -o planned.json");
    check_report(workshop, "run.pstar", "--device-memory 50%");
    check_report(workshop, "run.pstar run.jsonl", "--device-memory 50%");
    check_report(workshop, "step-now.json run.pstar", "--device-memory 1MB " LINK);
    check_report(workshop, "run.pstar swept.json", "--device-memory 1100kB " LINK);
    check_report(workshop, "run.pstar planned.json", "--device-memory 1MB " LINK);
    check_report(workshop, "run.pstar swept.json planned.json run.jsonl step-now.json",
                 "--device-memory 1MB " LINK);
    workshop_free(workshop);
}

static void test_platform(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 8 --seq 64 --precision "
                                "bf16 --recompute all --platform " A100 " -o \"a run.pstar\"");
    workshop_must_run(workshop, "pstar-sim \"a run.pstar\" --device-memory 3MiB --platform " A100
                                " --strategy zero3-offload --timeline z3.json");
    workshop_must_run(workshop, "pstar-sim \"a run.pstar\" --device-memory 3MiB --platform " A100
                                " " LINK " --policy fifo --timeline slow.json");
    check_report(workshop, "\"a run.pstar\" z3.json " A100, "--device-memory 3MiB --platform ");
    check_report(workshop, "\"a run.pstar\" slow.json " A100,
                 "--platform " A100 " " LINK); /* not the platform's own */
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        puts("1..0 # SKIP no gnuplot");
        return 0;
    }
    g_test_add_func("/commands/trained", test_trained);
    g_test_add_func("/commands/platform", test_platform);
    return g_test_run();
}
