/* --platform by name: every program that takes one knows the shipped platforms, and what a name
 * stands for is its file. --list-platforms prints all of them. */
#include "workshop.h"

#include <string.h>

#define ANY_PLAN "--time-limit 1 " /* what is asked of it holds for all */
#define FOLDER   PROJECT_DIR "/platforms"
#define SYNTH                                                                                 \
    "pstar-trace synth --model " PROJECT_DIR "/models/configs/demo-11m.json --batch 1 --seq " \
    "64 --precision bf16 "

static const char *const takers[] = {"pstar-plan", "pstar-sim", "pstar-trace synth"};

/* Returns the numbers of a line of the list: GPUs, TFLOP/s, and GB/s of memory and link. */
static void read_row(const char *list, const char *name, double numbers[4])
{
    g_autofree char *begin = g_strdup_printf("\n  %s ", name);
    const char *line = strstr(list, begin);
    char unit[2][8];
    double sizes[2];
    g_assert_nonnull(line);
    g_assert_cmpint(sscanf(line + strlen(begin), "%lf %lf %7s %lf %7s %lf %lf %lf", &numbers[0],
                           &sizes[0], unit[0], &sizes[1], unit[1], &numbers[1], &numbers[2],
                           &numbers[3]),
                    ==, 8);
    g_assert_cmpstr(unit[0], ==, "GiB");
}

static void test_list(void)
{
    struct workshop *workshop = workshop_new();
    g_autoptr(GDir) folder = g_dir_open(FOLDER, 0, NULL);
    g_autofree char *list = workshop_must_print(workshop, "pstar-plan --list-platforms");
    const char *file;
    int files = 0;
    double row[4];
    while ((file = g_dir_read_name(folder))) {
        g_autofree char *name = g_strndup(file, strcspn(file, "."));
        if (!g_str_has_suffix(file, ".json"))
            continue;
        read_row(list, name, row);
        files++;
    }
    g_assert_cmpint(files, >=, 25);
    read_row(list, "dgx-a100", row);
    g_assert_cmpfloat(row[0], ==, 8);
    g_assert_cmpfloat(row[1], ==, 312);
    g_assert_cmpfloat(row[2], ==, 1555);
    g_assert_cmpfloat(row[3], ==, 25);
    for (size_t i = 0; i < G_N_ELEMENTS(takers); i++) {
        g_autofree char *command = g_strconcat(takers[i], " --list-platforms", NULL);
        g_autofree char *same = workshop_must_print(workshop, command);
        g_assert_cmpstr(same, ==, list);
    }
    workshop_free(workshop);
}

/* A rate that nothing can be simulated with is named with its file. */
static void test_slow(void)
{
    struct workshop *workshop = workshop_new();
    json_t *machine = json_load_file(FOLDER "/rtx-4090.json", 0, NULL);
    g_assert_nonnull(machine);
    json_object_set_new(machine, "h2d",
                        json_pack("{s:s, s:[[i,i]]}", "source", "a test", "points", 1, 1));
    g_autofree char *text = json_dumps(machine, 0);
    workshop_write(workshop, "slow.json", text);
    json_decref(machine);
    workshop_must_run(workshop, SYNTH "-o x.pstar");
    workshop_must_end(workshop, "pstar-sim x.pstar --device-memory 50% --platform slow.json", 2, "",
                      "pstar-sim: slow.json: h2d: below 100 kB/s");
    workshop_free(workshop);
}

/* A folder of results that is called like the platform does not stand in its way. */
static void test_folder(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "mkdir l4");
    workshop_must_run(workshop, SYNTH "--platform l4 -o run.pstar");
    workshop_free(workshop);
}

/* A name and the path of its file give the same trace and the same plan, which knows the file. */
static void test_name(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH "--platform rtx-4090 -o named.pstar");
    workshop_must_run(workshop, SYNTH "--platform " FOLDER "/rtx-4090.json -o path.pstar");
    g_autofree char *named = workshop_must_print(workshop, "pstar-trace export named.pstar -o -");
    g_autofree char *path = workshop_must_print(workshop, "pstar-trace export path.pstar -o -");
    g_assert_cmpstr(named, ==, path);
    workshop_must_end(workshop,
                      "pstar-sim named.pstar --platform rtx-4090 --policy opt --chunk-size 1MiB", 0,
                      "opt", "GeForce RTX 4090, 24 GB has 24 GiB");
    workshop_must_run(workshop, "pstar-plan named.pstar --platform rtx-4090 --device-memory 30% "
                                "--seed 1 " ANY_PLAN "-o plan.json");
    workshop_must_run(workshop, "pstar-plan --verify plan.json named.pstar --platform " FOLDER
                                "/rtx-4090.json");
    workshop_free(workshop);
}

/* A plan's proof is for the machine that it was made for, whichever the step's time is for. */
static void test_another(void)
{
    static const char says[] = "That time is for the --platform and --link given here. The plan "
                               "was made, and is proved below, with others: ";
    static const struct {
        const char *options, *others; /* others: NULL if they are the same */
    } cases[] = {
        {"", NULL},
        {"--platform rtx-4090", NULL},
        {"--platform l4", "GeForce RTX 4090, 24 GB\n"},
        {"--link h2d=1GB/s,d2h=1GB/s", "GeForce RTX 4090, 24 GB\n"},
    };
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH "--platform rtx-4090 -o run.pstar");
    workshop_must_run(workshop, "pstar-plan run.pstar --platform rtx-4090 --device-memory 30% "
                                "--seed 1 " ANY_PLAN "-o plan.json");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *command = g_strdup_printf("pstar-plan --verify plan.json run.pstar %s",
                                                   cases[i].options);
        g_autofree char *out = workshop_must_print(workshop, command);
        const char *at = strstr(out, says);
        g_assert_cmpint(at != NULL, ==, cases[i].others != NULL);
        if (at && !g_str_has_prefix(at + strlen(says), cases[i].others))
            g_error("%s", out);
    }
    workshop_must_run(workshop, "pstar-plan run.pstar --platform rtx-4090 --device-memory 30% "
                                "--link h2d=2GB/s --seed 1 " ANY_PLAN "-o plan.json");
    g_autofree char *out = workshop_must_print(
        workshop, "pstar-plan --verify plan.json run.pstar --platform rtx-4090");
    g_assert_nonnull(strstr(out, "with others: GeForce RTX 4090, 24 GB, --link h2d=2GB/s\n"));
    workshop_free(workshop);
}

static void test_unknown(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_end(workshop, SYNTH "--platform rtx-490 -o x.pstar", 2, "",
                      "--platform rtx-490: is neither a file nor a shipped platform; did you mean "
                      "rtx-4090?");
    workshop_must_end(workshop, SYNTH "--platform toaster -o x.pstar", 2, "",
                      "toaster: is neither a file nor a shipped platform; --list-platforms prints");
    workshop_must_end(workshop, SYNTH "--platform ./rtx-4090 -o x.pstar", 2, "", "./rtx-4090");
    workshop_free(workshop);
}

/* A file in the folder is meant, even if a shipped platform has the same name. */
static void test_file_first(void)
{
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "rtx-4090", "{}");
    workshop_must_end(workshop, SYNTH "--platform rtx-4090 -o x.pstar", 2, "",
                      "rtx-4090: name is missing");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/platforms/list", test_list);
    g_test_add_func("/platforms/slow", test_slow);
    g_test_add_func("/platforms/folder", test_folder);
    g_test_add_func("/platforms/name", test_name);
    g_test_add_func("/platforms/another", test_another);
    g_test_add_func("/platforms/unknown", test_unknown);
    g_test_add_func("/platforms/file-first", test_file_first);
    return g_test_run();
}
