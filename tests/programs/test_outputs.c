/* Outputs of all programs: that they cannot be written is found before the work, they replace no
 * input, and "-" is standard output. */
#include "workshop.h"

#include <string.h>

#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json"
#define BUDGET   " --device-memory 10MiB " PLATFORM " "
#define RUN      "pstar-run --model model --data text.txt --batch 2 --seq 32 --steps 2 --threads 1 "

static struct workshop *set_up(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(
        workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 " PLATFORM
                  " -o good.pstar");
    return workshop;
}

static void expect(const struct workshop *workshop, const char *command, int status,
                   const char *says)
{
    g_autofree char *before = workshop_listing(workshop);
    workshop_must_end(workshop, command, status, "", says);
    g_autofree char *after = workshop_listing(workshop);
    g_assert_cmpstr(after, ==, before);
}

/* The inputs are missing, so a program that looked at them first would say so. */
static void test_no_place(void)
{
    static const char *const commands[][2] = {
        {"pstar-run --model none --data none --log", "nowhere/x"},
        {"pstar-run --model none --data none --emit-plan", "nowhere/x"},
        {"pstar-run --probe -o", "nowhere/x"},
        {"pstar-sim none.pstar --device-memory 10MiB --json", "nowhere/x"},
        {"pstar-sim none.pstar --device-memory 10MiB --csv", "text.txt/x"},
        {"pstar-sim none.pstar --device-memory 10MiB --timeline", "model"},
        {"pstar-sim none.pstar --device-memory 10MiB --emit-plan", "nowhere/x"},
        {"pstar-plan none.pstar --device-memory 10MiB -o", "nowhere/x"},
        {"pstar-plan none.pstar --device-memory 10MiB -o y --timeline", "nowhere/x"},
        {"pstar-plan none.pstar --device-memory 10MiB --sensitivity", "nowhere/x.svg"},
        {"pstar-trace export none.pstar --format jsonl -o", "nowhere/x"},
        {"pstar-trace import none.json -o", "nowhere/x"},
        {"pstar-trace synth --model none -o", "nowhere/x"},
        {"pstar-report none.pstar -o", "text.txt/x"},
        {"pstar-tokens --model none none.txt -o", "nowhere/x"},
    };
    struct workshop *workshop = set_up();
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        g_autofree char *command = g_strjoin(" ", commands[i][0], commands[i][1], NULL);
        g_autofree char *says = g_strconcat(": ", commands[i][1], ": cannot be written", NULL);
        expect(workshop, command, 1, says);
    }
    expect(workshop, "pstar-collect -o nowhere/x -- sh -c 'echo > ran'", 1, "--output: nowhere/x");
    workshop_write(workshop, "log.jsonl", "old");
    expect(workshop, RUN "--emit-plan nowhere/p.json --log log.jsonl", 1, "--emit-plan: nowhere");
    workshop_free(workshop);
}

/* Permissions alone do not say that nothing can be made in such a folder. */
static void test_odd_folders(void)
{
    struct workshop *workshop = set_up();
    expect(workshop, "pstar-sim none.pstar --device-memory 10MiB --json /proc/x", 1,
           "--json: /proc/x: cannot be written");
    expect(workshop, "pstar-run --probe -o /sys/x", 1, "--output: /sys/x: cannot be written");
    workshop_free(workshop);
}

/* A link stays, also if its target is missing. */
static void test_links(void)
{
    static const char *const commands[] = {
        "pstar-trace synth --model model --batch 1 --seq 8 --precision fp32 -o link",
        "pstar-trace export good.pstar -o link",
        "pstar-trace import " PROJECT_DIR "/tests/data/kineto/gpt.json.gz -o link",
        "pstar-sim good.pstar" BUDGET "--policy opt --json link",
        "pstar-plan good.pstar" BUDGET "-o link",
        "pstar-collect -o link -- " RUN "--steps 3",
    };
    struct workshop *workshop = set_up();
    workshop_must_run(workshop, "mkdir far");
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        workshop_must_run(workshop, "ln -sf middle link");
        workshop_must_run(workshop, "ln -sf far/file middle");
        workshop_must_run(workshop, commands[i]); /* makes the file */
        workshop_must_run(workshop, commands[i]); /* replaces it */
        workshop_must_run(workshop, "test -L link -a -L middle -a -s far/file -a ! -L far/file");
        workshop_must_run(workshop, "rm far/file");
    }
    workshop_free(workshop);
}

/* A file that is moved to its place would replace a pipe, even one that somebody reads. */
static void test_pipes(void)
{
    static const char *const commands[] = {
        "pstar-trace synth --model model --batch 1 --seq 8 --precision fp32 -o pipe",
        "pstar-trace import " PROJECT_DIR "/tests/data/kineto/gpt.json.gz -o pipe",
        "pstar-trace merge good.pstar good.pstar -o pipe",
        "pstar-collect -o pipe -- true",
    };
    struct workshop *workshop = set_up();
    workshop_must_run(workshop, "mkfifo pipe");
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        g_autofree char *command = g_strdup_printf("sh -c 'exec 3<>pipe; %s'", commands[i]);
        expect(workshop, command, 1, "--output: pipe: cannot be written: not a regular file");
    }
    workshop_free(workshop);
}

static void test_same(void)
{
    struct workshop *workshop = set_up();
    workshop_must_run(workshop, "ln -s text.txt link.txt");
    workshop_must_run(workshop, "pstar-plan good.pstar" BUDGET "-o plan.json");
    expect(workshop, RUN "--log text.txt", 2, "--log text.txt: is also the file of --data");
    expect(workshop, RUN "--log link.txt", 2, "--log link.txt: is also the file of --data");
    expect(workshop, RUN "--log x --emit-plan ./x", 2, "--emit-plan ./x");
    expect(workshop, RUN "--log model/config.json", 2,
           "--log model/config.json: would replace a file of --model");
    workshop_write(workshop, "model/vocab.json", "{}");
    expect(workshop, "pstar-tokens --model model text.txt -o model/vocab.json", 2,
           "would replace a file of --model");
    expect(workshop, RUN "--plan plan.json --log plan.json", 2, "is also the file of --plan");
    expect(workshop, "pstar-plan good.pstar" BUDGET "-o good.pstar", 2, "would replace an input");
    expect(workshop, "pstar-sim good.pstar" BUDGET "--json good.pstar", 2,
           "would replace an input");
    expect(workshop, "pstar-sim good.pstar" BUDGET "--json x --csv x", 2, "is also the file of");
    expect(workshop, "pstar-trace import good.pstar -o good.pstar", 2, "would replace an input");
    workshop_free(workshop);
}

static json_t *printed(const struct workshop *workshop, const char *command)
{
    struct outcome outcome = workshop_run(workshop, command);
    g_test_message("%s: %s", command, outcome.err);
    g_assert_cmpint(outcome.status, ==, 0);
    json_t *json = json_loads(outcome.out, 0, NULL);
    g_assert_nonnull(json);
    outcome_clear(&outcome);
    return json;
}

static void test_standard_output(void)
{
    struct workshop *workshop = set_up();
    json_t *sweep = printed(workshop, "pstar-sim good.pstar" BUDGET "--policy opt --json -");
    json_t *plan = printed(workshop, "pstar-plan good.pstar" BUDGET "-o -");
    json_t *timeline = printed(workshop, "pstar-sim good.pstar" BUDGET
                                         "--policy opt --chunk-size 64KiB --timeline /dev/stdout");
    g_assert_nonnull(json_object_get(sweep, "results"));
    g_assert_nonnull(json_object_get(plan, "moments"));
    json_decref(sweep);
    json_decref(plan);
    json_decref(timeline);

    struct outcome log = workshop_run(workshop, RUN "--log -");
    g_assert_cmpint(log.status, ==, 0);
    g_auto(GStrv) lines = g_strsplit(g_strchomp(log.out), "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 2);
    g_assert_true(g_str_has_prefix(lines[1], "{\"step\":2,"));
    g_assert_nonnull(strstr(log.err, "tokens a second"));
    outcome_clear(&log);
    /* What a shell appends to stays. */
    workshop_must_run(workshop,
                      "sh -c 'echo first > all; " RUN "--log - >> all; wc -l < all > count'");
    struct outcome count = workshop_run(workshop, "cat count");
    g_assert_cmpstr(g_strstrip(count.out), ==, "3");
    outcome_clear(&count);
    expect(workshop, "sh -c '" RUN "--log - >&-'", 1, "pstar-run: standard output: ");
    expect(workshop, "pstar-trace synth --model model --batch 1 --seq 8 -o -", 2,
           "--output -: cannot go to standard output");
    expect(workshop, "pstar-trace synth --model model --batch 1 --seq 8 --precision fp32 -o ''", 2,
           "--output: the name is empty");
    expect(workshop, "pstar-sim good.pstar" BUDGET "--json=", 2, "--json: the name is empty");
    expect(workshop, "pstar-sim good.pstar" BUDGET "--json - --csv -", 2,
           "cannot both go to standard output");
    workshop_free(workshop);
}

/* The name of the settings is not the user's choice, so that nothing of theirs may be lost. */
static void test_settings(void)
{
    struct workshop *workshop = set_up();
    const char *const plan = "pstar-plan good.pstar" BUDGET "-o plan.json --emit deepspeed";
    expect(workshop, "pstar-plan good.pstar" BUDGET "-o ds_config.json --emit deepspeed", 2,
           "--emit ds_config.json: is also the file of --output");
    expect(workshop, "pstar-plan good.pstar" BUDGET "-o - --emit fsdp", 2, "-o must be a file");
    expect(workshop, "pstar-plan --verify plan.json good.pstar --emit fsdp", 2, "--emit goes with");
    workshop_must_run(workshop, "cp good.pstar fsdp_config.json");
    expect(workshop, "pstar-plan fsdp_config.json" BUDGET "-o plan.json --emit fsdp", 2,
           "--emit fsdp_config.json: would replace an input");
    workshop_must_run(workshop, "mkdir ds_config.json");
    expect(workshop, plan, 1, "--emit: ds_config.json: cannot be written");
    workshop_must_run(workshop, "rmdir ds_config.json");
    workshop_write(workshop, "ds_config.json", "mine");
    g_autofree char *first = workshop_must_print(workshop, plan);
    g_assert_nonnull(strstr(first, "ds_config.json was there before. It is ds_config.json.old "));
    g_autofree char *again = workshop_must_print(workshop, plan);
    g_assert_null(strstr(again, "was there before")); /* the settings are the same */
    workshop_write(workshop, "ds_config.json", "{}");
    g_autofree char *third = workshop_must_print(workshop, plan);
    g_assert_nonnull(strstr(third, "was there before and is replaced"));
    g_autofree char *path = workshop_path(workshop, "ds_config.json.old"), *old = NULL;
    g_assert_true(g_file_get_contents(path, &old, NULL, NULL));
    g_assert_cmpstr(old, ==, "mine");
    json_decref(workshop_read_json(workshop, "ds_config.json"));
    workshop_free(workshop);
}

/* Tokens that cannot be replaced keep the mask without which they are of no use. */
static void test_mask(void)
{
    static const char tokens[] = "pstar-tokens --model " PROJECT_DIR
                                 "/tests/models/tokenizer text.txt -o tokens.bin";
    struct workshop *workshop = set_up();
    workshop_must_run(workshop, tokens);
    workshop_write(workshop, "tokens.bin.mask", "mine");
    g_autofree char *limited = g_strdup_printf("sh -c 'ulimit -f 20; exec %s'", tokens);
    expect(workshop, limited, 1, "pstar-tokens: tokens.bin: cannot be written: File too large");
    workshop_must_run(workshop, "test -e tokens.bin.mask");
    workshop_must_run(workshop, tokens);
    workshop_must_run(workshop, "test ! -e tokens.bin.mask");
    workshop_must_run(workshop, "mkdir tokens.bin.mask");
    expect(workshop, tokens, 1, "tokens.bin.mask: cannot be removed: Is a directory");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/outputs/no-place", test_no_place);
    g_test_add_func("/outputs/odd-folders", test_odd_folders);
    g_test_add_func("/outputs/links", test_links);
    g_test_add_func("/outputs/pipes", test_pipes);
    g_test_add_func("/outputs/same", test_same);
    g_test_add_func("/outputs/standard-output", test_standard_output);
    g_test_add_func("/outputs/settings", test_settings);
    g_test_add_func("/outputs/mask", test_mask);
    return g_test_run();
}
