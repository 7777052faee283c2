/* Every command that a report prints is run as printed, in the folder of the files, and works. It
 * is about the same budget, platform and link as the step that the report is about. */
#include "tests/drawn.h"
#include "workshop.h"

#include <stdio.h>
#include <string.h>

#define A100   PROJECT_DIR "/platforms/a100-40gb.json"
#define DGX    PROJECT_DIR "/platforms/dgx-a100.json"
#define RTX    PROJECT_DIR "/platforms/rtx-4090.json"
#define CPU    PROJECT_DIR "/platforms/cpu-2core.json"
#define KINETO PROJECT_DIR "/tests/data/kineto/"
#define LINK   "--link h2d=1GB/s,d2h=1GB/s"

/* The commands that were run in this folder. */
struct runner {
    const struct workshop *workshop;
    GHashTable *done;
};

/* Runs one that has not been run yet, unless there is none. */
static unsigned run_command(const struct runner *runner, const json_t *item)
{
    const struct workshop *workshop = runner->workshop;
    const char *command = json_string_value(json_object_get(item, "command"));
    if (!command || !g_str_has_prefix(command, "pstar-"))
        return 0;
    if (!g_hash_table_add(runner->done, g_strdup(command)))
        return 1;
    workshop_write(workshop, "command.sh", command);
    struct outcome outcome = workshop_run(workshop, "sh -e command.sh");
    if (outcome.status != 0)
        g_error("%s\nstatus %d\n%s%s", command, outcome.status, outcome.out, outcome.err);
    outcome_clear(&outcome);
    return 1;
}

static unsigned run_list(const struct runner *runner, const json_t *list)
{
    unsigned count = 0;
    size_t i;
    const json_t *item;
    json_array_foreach (list, i, item)
        count += run_command(runner, item);
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

/* Replaces what a page writes for & < > " and '. */
static char *unescaped(const char *html, gssize length)
{
    static const char *const entities[][2] = {
        {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
    GString *text = g_string_new_len(html, length);
    for (size_t i = 0; i < G_N_ELEMENTS(entities); i++)
        g_string_replace(text, entities[i][0], entities[i][1], 0);
    return g_string_free(text, FALSE);
}

/* Runs what the page prints as code and the program did not print as JSON. */
static void run_page(const struct runner *runner)
{
    g_autofree char *path = workshop_path(runner->workshop, "report/index.html"), *page = NULL;
    g_assert_true(g_file_get_contents(path, &page, NULL, NULL));
    const char *begin = page, *end;
    while ((begin = strstr(begin, "<code>")) && (end = strstr(begin, "</code>"))) {
        begin += strlen("<code>");
        g_autofree char *command = unescaped(begin, end - begin);
        json_t *item = json_pack("{s:s}", "command", command);
        run_command(runner, item);
        json_decref(item);
    }
}

/* Runs the commands of the report on these files. Those that simulate or plan say `machine`, unless
 * that is NULL. */
static void check_report(const struct runner *runner, const char *files, const char *machine)
{
    g_autofree char *command = g_strdup_printf("pstar-report -o report --json %s", files);
    json_t *report = workshop_must_print_json(runner->workshop, command);
    const json_t *advice = json_object_get(report, "advice"),
                 *missing = json_object_get(report, "missing");
    g_test_message("%s", command);
    g_assert_nonnull(missing);
    if (machine && !command_with(advice, machine) && !command_with(missing, machine))
        g_error("no command of %s has '%s':\n%s", command, machine,
                json_dumps(report, JSON_INDENT(1)));
    run_page(runner); /* before a command makes another page */
    g_assert_cmpuint(run_list(runner, advice) + run_list(runner, missing), >=, machine != NULL);
    json_decref(report);
}

static struct runner runner_new(void)
{
    return (struct runner){workshop_new(),
                           g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL)};
}

static void runner_clear(struct runner *runner)
{
    workshop_free((struct workshop *)runner->workshop);
    g_hash_table_unref(runner->done);
}

static void test_trained(void)
{
    struct runner runner = runner_new();
    const struct workshop *workshop = runner.workshop;
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
    check_report(&runner, "run.pstar", "--device-memory 50%");
    check_report(&runner, "run.pstar run.jsonl", "--device-memory 1MB " LINK);
    check_report(&runner, "step-now.json run.pstar", "--device-memory 1MB " LINK);
    check_report(&runner, "run.pstar swept.json", "--device-memory 1100kB " LINK);
    check_report(&runner, "run.pstar planned.json", "--device-memory 1MB " LINK);
    /* Which advice comes first depends on how long the run took. */
    check_report(&runner, "run.pstar swept.json planned.json run.jsonl step-now.json", NULL);
    runner_clear(&runner);
}

static void test_platform(void)
{
    struct runner runner = runner_new();
    const struct workshop *workshop = runner.workshop;
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 8 --seq 64 --precision "
                                "bf16 --recompute all --platform " A100 " -o \"a run.pstar\"");
    workshop_must_run(workshop, "pstar-sim \"a run.pstar\" --device-memory 3MiB --platform " A100
                                " --strategy zero3-offload --timeline z3.json");
    workshop_must_run(workshop, "pstar-sim \"a run.pstar\" --device-memory 3MiB --platform " A100
                                " " LINK " --policy fifo --timeline slow.json");
    check_report(&runner, "\"a run.pstar\" z3.json " A100, "--device-memory 3MiB --platform ");
    check_report(&runner, "\"a run.pstar\" slow.json " A100,
                 "--platform " A100 " " LINK); /* not the platform's own */
    /* A sweep names its platform. */
    workshop_must_run(workshop, "pstar-sim \"a run.pstar\" --device-memory 3MiB --platform " A100
                                " --strategy zero3-offload,megatrain --json swept.json");
    check_report(&runner, "\"a run.pstar\" swept.json", "--device-memory 3MiB --platform " A100);
    runner_clear(&runner);
}

/* Commands name the host's budget, unless it is what the programs take without the option. */
static void test_host(void)
{
    struct runner runner = runner_new();
    const struct workshop *workshop = runner.workshop;
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 8 --seq 64 --precision "
                                "bf16 --platform " A100 " -o run.pstar");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 4MiB --platform " A100
                                " --host-memory 3MiB --policy opt --json swept.json "
                                "--timeline step.json");
    workshop_must_run(workshop, "pstar-plan run.pstar --device-memory 4MiB --platform " A100
                                " --host-memory unlimited -o planned.json");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 4MiB --platform " A100
                                " --policy opt --json usual.json");
    check_report(&runner, "run.pstar swept.json",
                 "--device-memory 4MiB --host-memory 3MiB --platform " A100);
    check_report(&runner, "run.pstar step.json " A100,
                 "--device-memory 4MiB --host-memory 3MiB --platform " A100);
    check_report(&runner, "run.pstar planned.json " A100,
                 "--device-memory 4MiB --host-memory unlimited --platform " A100);
    check_report(&runner, "run.pstar usual.json", "--device-memory 4MiB --platform " A100);
    /* This platform's rates are fitted to its points, and are its own all the same. */
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 4MiB --platform " CPU
                                " --policy opt --json cpu.json");
    check_report(&runner, "run.pstar cpu.json",
                 "--device-memory 4MiB --platform " CPU " --timeline");
    runner_clear(&runner);
}

/* Commands name the budget of NVMe, without which the host's is too small. That of a plan has room
 * for policies, too. */
static void test_nvme(void)
{
    struct runner runner = runner_new();
    const struct workshop *workshop = runner.workshop;
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                "fp32 --host-update --platform " RTX " -o run.pstar");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 1200KiB,2MiB --host-memory "
                                "1400KiB --nvme-memory 64MiB --platform " RTX
                                " --policy opt,lru --strategy zero-infinity --json swept.json");
    workshop_must_run(workshop, "pstar-plan run.pstar --device-memory 1200KiB --host-memory 512KiB "
                                "--nvme-memory 64MiB --platform " RTX
                                " -o planned.json --timeline step-now.json");
    check_report(&runner, "run.pstar swept.json",
                 "--host-memory 1400KiB --nvme-memory 64MiB --platform " RTX);
    check_report(&runner, "run.pstar planned.json", "--host-memory 512KiB --nvme-memory ");
    check_report(&runner, "run.pstar planned.json step-now.json " RTX,
                 "--host-memory 512KiB --nvme-memory ");
    check_report(&runner, "run.pstar step-now.json", "--host-memory 512KiB --nvme-memory ");
    runner_clear(&runner);
}

/* Commands name the ranks, the nodes and the stage of the step, whether the trace is of one rank or
 * of several. */
static void test_ranks(void)
{
    struct runner runner = runner_new();
    const struct workshop *workshop = runner.workshop;
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 8 --seq 64 --precision "
                                "bf16 --platform " DGX " -o run.pstar");
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 8 --seq 64 --precision "
                                "bf16 --platform " DGX " --ranks 4 --stage 2 -o four.pstar");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 4MiB --platform " DGX
                                " --gpus 16 --nodes 4 --stage 2 --policy opt --json swept.json "
                                "--timeline step.json");
    workshop_must_run(workshop, "pstar-plan run.pstar --device-memory 4MiB --platform " DGX
                                " --gpus 8 --stage 2 --host-memory 3MiB -o planned.json");
    workshop_must_run(workshop, "pstar-sim four.pstar --device-memory 4MiB --policy opt --gpus 2 "
                                "--stage 3 --json two.json");
    workshop_must_run(workshop, "pstar-sim four.pstar --device-memory 4MiB --policy opt --gpus 1 "
                                "--json one.json");
    check_report(&runner, "run.pstar swept.json",
                 "--platform " DGX " --gpus 16 --nodes 4 --stage 2"); /* which share switches */
    check_report(&runner, "run.pstar step.json " DGX, " --gpus 16 --nodes 4 --stage 2");
    check_report(&runner, "run.pstar step.json", " --gpus 16 --stage 2");
    check_report(&runner, "run.pstar planned.json " DGX,
                 "--host-memory 3MiB --platform " DGX " --gpus 8 --nodes 1 --stage 2");
    check_report(&runner, "four.pstar two.json", " --gpus 2 --stage 3");
    check_report(&runner, "four.pstar one.json", " --gpus 1");
    runner_clear(&runner);
}

/* Without a trace, a page says how one is recorded, and prints no command that would read it. */
static void test_without_trace(void)
{
    static const char *const pages[] = {"run.jsonl", "moved.json", "step.json"};
    struct runner runner = runner_new();
    const struct workshop *workshop = runner.workshop;
    workshop_must_run(workshop, "pstar-collect -o run.pstar -- pstar-run --model model --data "
                                "text.txt --batch 2 --seq 32 --steps 4 --log run.jsonl");
    workshop_must_run(workshop,
                      "pstar-sim run.pstar --device-memory 1000000B,1100000B --policy opt "
                      "--json moved.json");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 1000000B --policy opt "
                                "--timeline step.json");
    workshop_must_run(workshop, "rm run.pstar");
    for (size_t i = 0; i < G_N_ELEMENTS(pages); i++) {
        check_report(&runner, pages[i], NULL);
        g_assert_cmpuint(g_hash_table_size(runner.done), ==, 0);
        workshop_must_end(workshop, "grep -c 'pstar-collect -o run.pstar' report/index.html", 0, "",
                          "");
    }
    runner_clear(&runner);
}

/* Files alone and in pairs, as people have them: of other models, of PyTorch, without durations. */
static void test_files(void)
{
    static const char *const pages[] = {"run.pstar",
                                        "run.jsonl",
                                        "swept.json",
                                        "step-now.json",
                                        "planned.json",
                                        "untimed.pstar",
                                        "torch.pstar",
                                        "times.pstar",
                                        "-- -dash.pstar",
                                        "swept.json faster.json",
                                        "planned.json run.jsonl",
                                        ("torch.pstar " A100),
                                        ("run.pstar " A100),
                                        "run.pstar untimed.pstar",
                                        "planned.json step-now.json",
                                        "run.jsonl eval.jsonl"};
    struct runner runner = runner_new();
    const struct workshop *workshop = runner.workshop;
    const char *setup =
        "pstar-collect -o run.pstar -- pstar-run --model model --data text.txt --batch 2 --seq 32 "
        "--steps 4 " LINK " --device-memory 1000000B --chunk-size 16KiB --log run.jsonl\n"
        "pstar-sim run.pstar --device-memory 1000000B " LINK " --policy opt --json swept.json\n"
        "pstar-sim run.pstar --device-memory 1000000B --link h2d=2GB/s,d2h=2GB/s --policy opt "
        "--json faster.json\n"
        "pstar-sim run.pstar --device-memory 1000000B " LINK
        " --policy opt --timeline step-now.json\n"
        "pstar-plan run.pstar --device-memory 1000000B " LINK " -o planned.json\n"
        "pstar-run --model model --data text.txt --batch 2 --seq 32 --steps 4 --eval text.txt "
        "--log eval.jsonl\n"
        "pstar-trace synth --model model --batch 8 --seq 64 --precision bf16 -o untimed.pstar\n"
        "pstar-trace import " KINETO "gpt.json.gz -o torch.pstar\n"
        "pstar-trace import " KINETO "gpt.et.json.gz --times " KINETO "gpt.json.gz -o times.pstar\n"
        "cp run.pstar ./-dash.pstar\n";
    workshop_write(workshop, "setup.sh", setup);
    workshop_must_run(workshop, "sh -e setup.sh");
    for (size_t i = 0; i < G_N_ELEMENTS(pages); i++)
        check_report(&runner, pages[i], NULL);
    g_assert_cmpuint(g_hash_table_size(runner.done), >, G_N_ELEMENTS(pages));
    runner_clear(&runner);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (!gnuplot) {
        puts("1..0 # SKIP no gnuplot");
        return 0;
    }
    draws_test(2, 7, "/commands/trained", test_trained);
    draws_test(2, 7, "/commands/platform", test_platform);
    draws_test(2, 7, "/commands/host", test_host);
    draws_test(2, 7, "/commands/nvme", test_nvme);
    draws_test(2, 7, "/commands/ranks", test_ranks);
    draws_test(2, 7, "/commands/without-trace", test_without_trace);
    draws_test(2, 7, "/commands/files", test_files);
    return g_test_run();
}
