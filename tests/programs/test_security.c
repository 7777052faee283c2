/* What a file names is never executed or taken for markup, and nothing that is written may be
 * changed by everybody. SECURITY.md promises both. */
#include "database.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json "
#define BUDGET   "--device-memory 1200KiB " PLATFORM
#define RUN      "pstar-run --data text.txt --batch 2 --seq 32 --steps 2 --threads 1 --model model "

/* Commands for gnuplot, a shell, SQL and a browser. Each would leave the file "pwned", or a mark in
 * the page. */
static const char *const names[] = {
    "\"; system(\"touch pwned\"); \"",
    "'; system('touch pwned'); '",
    "`touch pwned`",
    "$(touch pwned)",
    "\"\n!touch pwned\n\"",
    "\\\"; !touch pwned",
    "| touch pwned",
    "< touch pwned",
    "@touch{pwned}",
    "; touch pwned;",
    "<script>pwned()</script>",
    "\"><img src=x onerror=pwned()>",
    "</svg><script>pwned()</script>",
    "javascript:pwned()",
    "]]><script>pwned()</script>",
};

/* Returns the SQL that puts one of the names, a different one each time, behind every name. */
static char *renaming_sql(void)
{
    g_autoptr(GString) each = g_string_new("CASE rowid % 15"), all = g_string_new("");
    G_STATIC_ASSERT(G_N_ELEMENTS(names) == 15);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autoptr(GString) quoted = g_string_new(names[i]);
        g_string_replace(quoted, "'", "''", 0);
        g_string_append_printf(each, " WHEN %zu THEN '%s'", i, quoted->str);
        g_string_append(all, quoted->str);
    }
    return g_strdup_printf("UPDATE operators SET name = name || %s END;"
                           "UPDATE tensors SET name = name || %s END;"
                           "UPDATE buffers SET name = name || %s END;"
                           "UPDATE meta SET value = value || '%s' WHERE key IN ('model', "
                           "'machine', 'producer')",
                           each->str, each->str, each->str, all->str);
}

/* Fails the test if a page has markup that the names bring. */
static void check_page(const struct workshop *workshop)
{
    static const char *const markup[] = {"<script>pwned", "<img src=x", "</svg><script>pwned"};
    g_autofree char *page_path = workshop_path(workshop, "page/index.html"), *page = NULL;
    g_assert_true(g_file_get_contents(page_path, &page, NULL, NULL));
    g_assert_nonnull(strstr(page, "pwned")); /* the name is shown */
    for (size_t i = 0; i < G_N_ELEMENTS(markup); i++)
        if (strstr(page, markup[i]))
            g_error("the page has the markup %s of a name", markup[i]);
}

static void check_nothing_ran(const struct workshop *workshop, const char *name)
{
    g_autofree char *listing = workshop_listing(workshop);
    if (strstr(listing, "pwned"))
        g_error("the name %s was executed:\n%s", name, listing);
}

static void test_names(void)
{
    static const char *const commands[] = {
        "pstar-plan run.pstar -o plan.json " BUDGET,
        "pstar-sim run.pstar --policy opt --json sweep.json --timeline step.json " BUDGET,
        "pstar-report run.pstar plan.json sweep.json step.json -o page",
    };
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                "fp32 " PLATFORM "-o run.pstar");
    g_autofree char *sql = renaming_sql();
    workshop_alter(workshop, "run.pstar", sql);
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        workshop_must_run(workshop, commands[i]);
    check_page(workshop);
    check_nothing_ran(workshop, "of an operator, a tensor or a model");
    workshop_free(workshop);
}

/* The path of an input is no command, either. */
static void test_paths(void)
{
    static const char *const paths[] = {"a'; touch pwned; '.pstar", "$(touch pwned).pstar",
                                        "a\"; system(\"touch pwned\").pstar"};
    struct workshop *workshop = workshop_new();
    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_autofree char *quoted = g_shell_quote(paths[i]);
        workshop_must_run_format(workshop,
                                 "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                 "fp32 " PLATFORM "-o %s",
                                 quoted);
        workshop_must_run_format(workshop, "pstar-report %s -o page", quoted);
        workshop_must_run_format(workshop, "rm -r page %s", quoted);
        check_nothing_ran(workshop, paths[i]);
    }
    workshop_free(workshop);
}

static void check_modes(const char *path)
{
    struct stat status;
    g_assert_cmpint(lstat(path, &status), ==, 0);
    if (!S_ISLNK(status.st_mode) && (status.st_mode & (S_IWOTH | S_ISUID | S_ISGID)))
        g_error("%s has the mode %o", path, status.st_mode & 07777);
    GDir *folder = S_ISDIR(status.st_mode) ? g_dir_open(path, 0, NULL) : NULL;
    for (const char *name = NULL; folder && (name = g_dir_read_name(folder));) {
        g_autofree char *child = g_build_filename(path, name, NULL);
        check_modes(child);
    }
    if (folder)
        g_dir_close(folder);
}

static void test_modes(void)
{
    static const char *const commands[] = {
        "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 " PLATFORM
        "-o run.pstar",
        "pstar-trace export run.pstar -o run.json",
        "pstar-plan run.pstar -o plan.json " BUDGET,
        "pstar-sim run.pstar --json sweep.json --csv sweep.csv --timeline step.json "
        "--policy opt " BUDGET,
        RUN "--log log.jsonl --save deep/saved --emit-plan own.json",
        "pstar-collect -o collected.pstar -- " RUN "--steps 4",
        "pstar-report run.pstar plan.json sweep.json log.jsonl -o page",
    };
    struct workshop *workshop = workshop_new();
    mode_t before = umask(0);
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        workshop_must_run(workshop, commands[i]);
    umask(before);
    check_modes(workshop->folder);
    workshop_free(workshop);
}

/* No program of the build needs rights that its user lacks. */
static void test_programs(void)
{
    GDir *folder = g_dir_open(PROGRAM_DIR, 0, NULL);
    unsigned programs = 0;
    for (const char *name; (name = g_dir_read_name(folder));) {
        struct stat status;
        g_autofree char *path = g_build_filename(PROGRAM_DIR, name, NULL);
        if (!g_str_has_prefix(name, "pstar") || stat(path, &status) != 0)
            continue;
        g_assert_cmpint(status.st_mode & (S_ISUID | S_ISGID | S_IWOTH), ==, 0);
        programs++;
    }
    g_assert_cmpuint(programs, >, 5);
    g_dir_close(folder);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/security/names", test_names);
    g_test_add_func("/security/paths", test_paths);
    g_test_add_func("/security/modes", test_modes);
    g_test_add_func("/security/programs", test_programs);
    return g_test_run();
}
