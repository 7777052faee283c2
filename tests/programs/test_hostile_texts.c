/* Texts of files cannot command the terminal, forge lines, or fill the screen, in no program's
 * output and in no message. */
#include "database.h"

#include <string.h>

#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json "
#define HOSTILE  "--platform hostile.json "
#define BUDGET   "--device-memory 1MiB "
#define RUN      "pstar-run --data text.txt --batch 2 --seq 32 --steps 1 "
#define ANY_PLAN "--time-limit 0.001 " /* the first that is found */

enum { LONG = 20000, WIDEST = 1200 };

/* Colours, a line of its own, a direction, a control sequence in 8 bits, and much more. */
static char *hostile_text(void)
{
    g_autofree char *rest = g_strnfill(LONG, 'x');
    return g_strconcat("a\033[31mb\nforged\342\200\256c\302\233"
                       "2J\r",
                       rest, NULL);
}

static void check_text(const char *command, const char *text)
{
    g_assert_true(g_utf8_validate(text, -1, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++) {
        bool bad = g_str_has_prefix(*line, "forged") || g_utf8_strlen(*line, -1) > WIDEST;
        for (const char *at = *line; *at && !bad; at = g_utf8_next_char(at)) {
            GUnicodeType type = g_unichar_type(g_utf8_get_char(at));
            bad = type == G_UNICODE_CONTROL || type == G_UNICODE_FORMAT;
        }
        if (bad)
            g_error("%s prints:\n%s", command, *line);
    }
}

static void expect(const struct workshop *workshop, const char *command, int status)
{
    struct outcome outcome = workshop_run(workshop, command);
    check_text(command, outcome.out);
    check_text(command, outcome.err);
    if (outcome.status != status)
        g_error("%s: status %d\n%s", command, outcome.status, outcome.err);
    outcome_clear(&outcome);
}

static struct workshop *set_up(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                "fp32 " PLATFORM "-o run.pstar");
    return workshop;
}

static void test_traces(void)
{
    static const char *const commands[] = {
        "pstar-trace info run.pstar",
        "pstar-trace check run.pstar",
        "pstar-sim run.pstar --stalls 10 --phases " PLATFORM BUDGET,
        "pstar-plan run.pstar -o plan.json --top all " PLATFORM BUDGET,
        "pstar-plan --explain plan.json",
        "pstar-plan --explain plan.json run.pstar",
        "pstar-plan --verify plan.json run.pstar",
        "pstar-report run.pstar plan.json --text",
    };
    struct workshop *workshop = set_up();
    g_autofree char *text = hostile_text();
    g_autofree char *sql = g_strdup_printf(
        "UPDATE operators SET name = name || '%s'; UPDATE tensors SET name = name || '%s';"
        "UPDATE buffers SET name = name || '%s';"
        "UPDATE meta SET value = value || '%s' WHERE key IN ('model', 'machine', 'producer')",
        text, text, text, text);
    workshop_alter(workshop, "run.pstar", sql);
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        expect(workshop, commands[i], 0);
    expect(workshop, "pstar-sim run.pstar --host-memory 1KiB " PLATFORM BUDGET, 3);
    expect(workshop, "pstar-plan run.pstar -o plan.json --device-memory 1KiB " PLATFORM, 3);
    workshop_free(workshop);
}

/* Replaces a word of a file. */
static void replace(const struct workshop *workshop, const char *file, const char *word,
                    const char *with)
{
    g_autofree char *path = workshop_path(workshop, file), *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_autoptr(GString) changed = g_string_new(text);
    g_assert_cmpuint(g_string_replace(changed, word, with, 0), >, 0);
    g_assert_true(g_file_set_contents(path, changed->str, -1, NULL));
}

/* The page's title, its tables and the bars of its timelines show long names cut, too. */
static void test_long_words(void)
{
    struct workshop *workshop = set_up();
    g_autofree char *word = g_strnfill(5000, 'w');
    g_autofree char *policy = g_strdup_printf("\"policy\": \"%s\"", word);
    g_autofree char *ran = g_strdup_printf("\"name\":\"%s", word);
    g_autofree char *trace = g_strdup_printf("\"trace\": \"%s", word);
    workshop_must_run(workshop, "pstar-sim run.pstar --policy opt --json sweep.json --timeline "
                                "step.json " PLATFORM BUDGET);
    replace(workshop, "sweep.json", "\"policy\": \"opt\"", policy);
    replace(workshop, "sweep.json", "\"trace\": \"", trace);
    replace(workshop, "step.json", "\"name\":\"forward", ran);
    for (int with_step = 0; with_step < 2; with_step++) {
        workshop_must_run_format(workshop, "pstar-report sweep.json%s -o page",
                                 with_step ? " step.json" : "");
        g_autofree char *path = workshop_path(workshop, "page/index.html"), *page = NULL;
        g_assert_true(g_file_get_contents(path, &page, NULL, NULL));
        g_assert_nonnull(strstr(page, "www"));
        g_assert_null(strstr(page, word));
    }
    workshop_free(workshop);
}

/* Captions of figures and titles of tables show a long name cut, the list of files whole. */
static void test_long_names(void)
{
    struct workshop *workshop = set_up();
    g_autofree char *name = g_strnfill(200, 'n');
    workshop_must_run_format(workshop, "mkdir %s", name);
    workshop_must_run_format(workshop, "mv run.pstar %s/run.pstar", name);
    workshop_must_run_format(workshop,
                             "pstar-sim %s/run.pstar --policy opt,lru --json %s/sweep.json "
                             "--timeline %s/best.json " PLATFORM BUDGET,
                             name, name, name);
    workshop_must_run_format(
        workshop, "pstar-plan %s/run.pstar -o %s/plan.json " PLATFORM BUDGET ANY_PLAN, name, name);
    workshop_must_run_format(
        workshop, RUN "--model model --plan %s/plan.json --steps 4 --log %s/run.jsonl", name, name);
    workshop_must_run_format(workshop,
                             "pstar-report %s/run.pstar %s/sweep.json %s/plan.json %s/run.jsonl "
                             "%s/best.json -o page",
                             name, name, name, name, name);
    g_autofree char *path = workshop_path(workshop, "page/index.html"), *page = NULL;
    g_assert_true(g_file_get_contents(path, &page, NULL, NULL));
    unsigned captions = 0;
    for (const char *at = page; (at = strstr(at, "<figcaption>")); captions++) {
        const char *end = strstr(at, "</figcaption>");
        g_autofree char *caption = g_strndup(at, (gsize)(end - at));
        if (strstr(caption, name))
            g_error("%s", caption);
        at = end;
    }
    g_assert_cmpuint(captions, >=, 6);
    workshop_free(workshop);
}

/* A copy of the value with the text behind every text in it. */
static json_t *with_text(const json_t *value, const char *text)
{
    const char *key;
    size_t i;
    json_t *child, *copy;
    if (json_is_string(value))
        return json_sprintf("%s%s", json_string_value(value), text);
    if (json_is_object(value)) {
        copy = json_object();
        json_object_foreach ((json_t *)value, key, child) {
            json_object_set_new(copy, key, with_text(child, text));
        }
        return copy;
    }
    if (!json_is_array(value))
        return json_deep_copy(value);
    copy = json_array();
    json_array_foreach (value, i, child) {
        json_array_append_new(copy, with_text(child, text));
    }
    return copy;
}

static void write_json(const struct workshop *workshop, const char *name, json_t *value)
{
    g_autofree char *path = workshop_path(workshop, name);
    g_assert_cmpint(json_dump_file(value, path, 0), ==, 0);
}

static void test_platforms(void)
{
    static const char *const commands[] = {
        "pstar-sim run.pstar " HOSTILE,
        "pstar-sim run.pstar " HOSTILE BUDGET,
        "pstar-plan run.pstar -o plan.json " HOSTILE,
        "pstar-plan --max-batch model " HOSTILE,
        "pstar-trace synth --model model --batch 1 --seq 8 --precision fp32 -o y.pstar " HOSTILE,
        "pstar-trace info y.pstar",
    };
    struct workshop *workshop = set_up();
    g_autofree char *text = hostile_text();
    json_t *platform = json_load_file(PROJECT_DIR "/platforms/a100-40gb.json", 0, NULL);
    json_t *hostile = with_text(platform, text);
    write_json(workshop, "hostile.json", hostile);
    json_decref(hostile);
    json_decref(platform);
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        expect(workshop, commands[i], 0);
    workshop_free(workshop);
}

/* Each key of the object in turn gets the text as its value, and each key's name. */
static void try_keys(const struct workshop *workshop, const char *from, const char *to,
                     const char *const *commands)
{
    const char *key;
    json_t *value, *object = workshop_read_json(workshop, from);
    g_autofree char *text = hostile_text();
    json_object_foreach (object, key, value) {
        json_t *changed = json_deep_copy(object);
        json_object_set_new(changed, key, json_string(text));
        write_json(workshop, to, changed);
        for (const char *const *command = commands; *command; command++)
            expect(workshop, *command, 2);
        json_decref(changed);
    }
    json_object_set_new(object, text, json_integer(1));
    write_json(workshop, to, object);
    json_decref(object);
}

static void test_plans(void)
{
    static const char *const broken[] = {"pstar-plan --explain bad.json run.pstar", NULL};
    struct workshop *workshop = set_up();
    g_autofree char *text = hostile_text();
    workshop_must_run(workshop, "pstar-plan run.pstar -o plan.json " PLATFORM BUDGET ANY_PLAN);
    json_t *plan = workshop_read_json(workshop, "plan.json");
    json_object_set_new(plan, "made_by", json_string(text));
    json_object_set_new(plan, "policy", json_string(text));
    write_json(workshop, "hostile.json", plan);
    expect(workshop, "pstar-plan --explain hostile.json", 0);
    expect(workshop, "pstar-plan --verify hostile.json run.pstar", 2);
    expect(workshop, "pstar-report hostile.json --text", 0);
    expect(workshop, RUN "--model model --plan hostile.json", 0);
    json_object_set_new(json_object_get(plan, "made_for"), "model", json_string(text));
    write_json(workshop, "hostile.json", plan);
    expect(workshop, "pstar-plan --explain hostile.json", 0);
    expect(workshop, RUN "--model model --plan hostile.json --batch 4", 2);
    json_object_del(plan, "made_by");
    json_object_del(plan, "policy");
    write_json(workshop, "rest.json", plan);
    json_decref(plan);
    try_keys(workshop, "rest.json", "bad.json", broken);
    expect(workshop, broken[0], 2);
    workshop_free(workshop);
}

static void test_configurations(void)
{
    static const char *const commands[] = {
        RUN "--model bad.json",
        "pstar-trace synth --model bad.json --batch 1 --seq 8 --precision fp32 -o y.pstar",
        "pstar-plan --max-batch bad.json " PLATFORM, NULL};
    struct workshop *workshop = set_up();
    try_keys(workshop, "model/config.json", "bad.json", commands);
    workshop_free(workshop);
}

/* A file's own name is such a text: the report names runs by their files. */
static void test_file_names(void)
{
    static const char one[] = "'a\033[31mb\nforged.jsonl'", other[] = "'c\033[31m\nforged.jsonl'";
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, RUN "--model model --log run.jsonl");
    workshop_must_run_format(workshop, "cp run.jsonl %s", one);
    workshop_must_run_format(workshop, "cp run.jsonl %s", other);
    g_autofree char *names = g_strdup_printf("%s %s", one, other);
    g_autofree char *text = g_strdup_printf("pstar-report %s --text", names);
    g_autofree char *json = g_strdup_printf("pstar-report %s --json -o report", names);
    expect(workshop, text, 0);
    expect(workshop, json, 0);
    workshop_free(workshop);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* Names need not be UTF-8, but JSON must be, with all else in it. */
static void test_bad_bytes(void)
{
    static const char *const made[] = {"sweep.json", "plans.json", "front.json",
                                       "adapted/adapter_config.json"};
    struct workshop *workshop = set_up();
    workshop_must_run(workshop, "pstar-plan run.pstar -o plan.json " PLATFORM BUDGET ANY_PLAN);
    workshop_must_run(workshop, "mv run.pstar 'r\377.pstar'");
    workshop_must_run(workshop, "mv model 'm\377'");
    workshop_must_run(workshop, "mv plan.json 'p\377.json'");
    workshop_must_run(workshop, "cp " PROJECT_DIR "/platforms/a100-40gb.json 'a\377.json'");
    workshop_must_run(workshop, "pstar-sim 'r\377.pstar' --policy opt --layout 'p\377.json' "
                                "--platform 'a\377.json' --json sweep.json " BUDGET);
    workshop_must_run(workshop, "pstar-plan 'r\377.pstar' -o 'q\377.json' --json plans.json "
                                "--platform 'a\377.json' " BUDGET ANY_PLAN);
    workshop_must_run(workshop, "pstar-plan --model 'm\377' --batch 1 --platform 'a\377.json' "
                                "--json front.json");
    workshop_must_run(workshop, RUN "--model 'm\377' --train lora:2 --save adapted");
    json_t *read[G_N_ELEMENTS(made)];
    for (size_t i = 0; i < G_N_ELEMENTS(made); i++)
        read[i] = workshop_read_json(workshop, made[i]);
    json_t *sweep = read[0], *plans = read[1], *front = read[2], *adapted = read[3];
    g_assert_cmpstr(text_of(sweep, "trace"), ==, "r\357\277\275.pstar");
    g_assert_cmpstr(text_of(sweep, "platform"), ==, "a\357\277\275.json");
    g_assert_cmpuint(json_array_size(json_object_get(sweep, "results")), ==, 1);
    g_assert_cmpstr(text_of(plans, "plan"), ==, "q\357\277\275.json");
    g_assert_cmpuint(json_array_size(json_object_get(front, "commands")), ==, 3);
    g_assert_true(g_str_has_suffix(text_of(adapted, "base_model_name_or_path"), "/m\357\277\275"));
    for (size_t i = 0; i < G_N_ELEMENTS(made); i++)
        json_decref(read[i]);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hostile-texts/traces", test_traces);
    g_test_add_func("/hostile-texts/long-names", test_long_names);
    g_test_add_func("/hostile-texts/long-words", test_long_words);
    g_test_add_func("/hostile-texts/platforms", test_platforms);
    g_test_add_func("/hostile-texts/plans", test_plans);
    g_test_add_func("/hostile-texts/file-names", test_file_names);
    g_test_add_func("/hostile-texts/configurations", test_configurations);
    g_test_add_func("/hostile-texts/bad-bytes", test_bad_bytes);
    return g_test_run();
}
