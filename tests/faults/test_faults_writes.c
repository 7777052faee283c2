/* A file system that becomes full at any write, change of a length, sync, new file or rename: a
 * program ends with a message and status 1, and each output is whole: as it was before, or new. */
#include "workshop.h"

#include <glib/gstdio.h>
#include <stdint.h>
#include <string.h>

#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json "
#define BUDGET   "--device-memory 1200KiB " PLATFORM
#define RUN \
    "pstar-run --model model --data text.txt --batch 2 --seq 32 --steps 2 --threads 1 --quiet "

enum { DONE = 0, FAILED = 1, SKIPPED = 77, MOST = 2000 };

/* Slow tests (-m slow) take every write, others all of the first ones and some of the later. */
static uint32_t next_after(uint32_t nth)
{
    return nth + 1 + (g_test_slow() ? 0 : nth / 3);
}

struct job {
    const char *name, *command;
    const char *files[3]; /* that it writes */
    bool log;             /* the first of them grows line by line */
};

static const struct job jobs[] = {
    {"synth",
     "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 " PLATFORM "-o out.pstar",
     {"out.pstar"},
     false},
    {"export", "pstar-trace export good.pstar -o out.json", {"out.json"}, false},
    {"sim",
     "pstar-sim good.pstar --policy opt --chunk-size 64KiB --json out.json --csv out.csv "
     "--timeline step.json " BUDGET,
     {"out.json", "out.csv", "step.json"},
     false},
    {"plan", "pstar-plan good.pstar -o plan.json " BUDGET, {"plan.json"}, false},
    {"emit", RUN "--emit-plan plan.json", {"plan.json"}, false},
    {"log", RUN "--log log.jsonl", {"log.jsonl"}, true},
};

static struct outcome run_full(const struct workshop *workshop, const char *command, uint32_t nth)
{
    g_autofree char *line = g_strdup_printf("env LD_PRELOAD=" PRELOAD " PSTAR_FAULT=write:%u+ %s",
                                            nth, command);
    return workshop_run(workshop, line);
}

/* Fails the test, with what was printed, unless the command failed as it should. */
static void check_end(const char *command, uint32_t nth, const struct outcome *outcome)
{
    bool named = strstr(outcome->err, "No space left on device") ||
                 strstr(outcome->err, "disk is full") || strstr(outcome->err, "disk I/O error") ||
                 strstr(outcome->err, "unable to open database file") ||
                 strstr(outcome->err, "gnuplot "); /* whose writes fail, on a disk that has room */
    if (outcome->status != FAILED || !named)
        g_error("%s\nwith a disk that is full at write %u: status %d\n%s", command, nth,
                outcome->status, outcome->err);
}

static char *contents(const struct workshop *workshop, const char *file, gsize *bytes)
{
    g_autofree char *path = workshop_path(workshop, file);
    char *text;
    return g_file_get_contents(path, &text, bytes, NULL) ? text : NULL;
}

static void check_lines(const struct workshop *workshop, const char *file)
{
    gsize bytes;
    g_autofree char *text = contents(workshop, file, &bytes);
    if (text && strcmp(text, "old") == 0)
        return;
    g_assert_true(!text || bytes == 0 || text[bytes - 1] == '\n');
    json_decref(workshop_read_json_lines(workshop, file));
}

/* Times and random names differ between runs, so a new file is only as long as a whole one, about.
 */
static void check_file(const struct workshop *workshop, const struct job *job, const char *file,
                       gsize whole)
{
    gsize bytes = 0;
    g_autofree char *text = contents(workshop, file, &bytes);
    bool is_old = text && strcmp(text, "old") == 0;
    bool is_new = text && bytes + bytes / 10 > whole;
    if (job->log && file == job->files[0])
        check_lines(workshop, file);
    else if (!is_old && !is_new)
        g_error("%s: %s has %" G_GSIZE_FORMAT " bytes instead of %" G_GSIZE_FORMAT, job->command,
                file, bytes, whole);
}

static void check_folder(const struct workshop *workshop, const char *command, uint32_t nth)
{
    g_autofree char *listing = workshop_listing(workshop);
    if (strstr(listing, ".tmp") || strstr(listing, "partial"))
        g_error("%s\nwith a disk that is full at write %u leaves\n%s", command, nth, listing);
}

static void put_old(const struct workshop *workshop, const struct job *job)
{
    for (size_t i = 0; i < G_N_ELEMENTS(job->files) && job->files[i]; i++)
        workshop_write(workshop, job->files[i], "old");
}

static struct workshop *set_up(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                "fp32 " PLATFORM "-o good.pstar");
    return workshop;
}

static bool can_inject(const struct workshop *workshop)
{
    struct outcome outcome = run_full(workshop, "true", MOST);
    bool can = outcome.status != SKIPPED;
    outcome_clear(&outcome);
    if (!can)
        g_test_skip("the system does not let writes be caught");
    return can;
}

static void test_files(gconstpointer data)
{
    const struct job *job = data;
    struct workshop *workshop = set_up();
    gsize whole[G_N_ELEMENTS(job->files)] = {0};
    int status = can_inject(workshop) ? FAILED : DONE;
    workshop_must_run(workshop, job->command);
    for (size_t i = 0; i < G_N_ELEMENTS(job->files) && job->files[i]; i++)
        g_free(contents(workshop, job->files[i], &whole[i]));
    for (uint32_t nth = 1; status != DONE; nth = next_after(nth)) {
        put_old(workshop, job);
        struct outcome outcome = run_full(workshop, job->command, nth);
        status = outcome.status;
        if (status != DONE)
            check_end(job->command, nth, &outcome);
        for (size_t i = 0; i < G_N_ELEMENTS(job->files) && job->files[i]; i++)
            check_file(workshop, job, job->files[i], whole[i]);
        check_folder(workshop, job->command, nth);
        outcome_clear(&outcome);
        g_assert_cmpuint(nth, <, MOST);
    }
    workshop_free(workshop);
}

/* Runs the command with a full disk at each write in turn, into a folder that is new each time, and
 * lets `check` look at the file `name`. */
static void fill_at_every_write(const char *command, const char *folder, const char *name,
                                void (*check)(struct workshop *workshop, const char *path,
                                              int status))
{
    struct workshop *workshop = set_up();
    int status = can_inject(workshop) ? FAILED : DONE;
    for (uint32_t nth = 1; status != DONE; nth = next_after(nth)) {
        g_autofree char *file = g_strdup_printf("%s/%s", folder, name);
        g_autofree char *path = workshop_path(workshop, file);
        g_autofree char *remove = g_strdup_printf("rm -rf %s", folder);
        workshop_must_run(workshop, remove);
        struct outcome outcome = run_full(workshop, command, nth);
        status = outcome.status;
        if (status != DONE)
            check_end(command, nth, &outcome);
        check(workshop, path, status);
        outcome_clear(&outcome);
        g_assert_cmpuint(nth, <, MOST);
    }
    workshop_free(workshop);
}

static void check_resumes(struct workshop *workshop, const char *path, int status)
{
    (void)status;
    if (g_file_test(path, G_FILE_TEST_EXISTS))
        workshop_must_run(workshop, "pstar-run --resume saved --steps 4 --quiet");
}

/* A checkpoint is there, whole, or it is not. Only a failure of the last save fails the run. */
static void test_checkpoint(void)
{
    fill_at_every_write(RUN "--save saved --save-every 1", "saved", "trainer.json", check_resumes);
}

static void check_is_there(struct workshop *workshop, const char *path, int status)
{
    (void)workshop;
    g_assert_cmpint(g_file_test(path, G_FILE_TEST_EXISTS), ==, status == DONE);
}

/* A folder with a config and no weights would be read as a new model. */
static void test_merge(void)
{
    fill_at_every_write(RUN "--train lora:2 --merge merged", "merged", "config.json",
                        check_is_there);
}

/* The report's page appears with all of its files, or it does not. */
static void test_report(void)
{
    static const char command[] = "pstar-report good.pstar -o page";
    struct workshop *workshop = set_up();
    int status = can_inject(workshop) ? FAILED : DONE;
    for (uint32_t nth = 1; status != DONE; nth = next_after(nth)) {
        g_autofree char *page = workshop_path(workshop, "page");
        workshop_must_run(workshop, "rm -rf page");
        struct outcome outcome = run_full(workshop, command, nth);
        status = outcome.status;
        if (status != DONE) {
            check_end(command, nth, &outcome);
            g_assert_false(g_file_test(page, G_FILE_TEST_EXISTS));
        }
        check_folder(workshop, command, nth);
        outcome_clear(&outcome);
        g_assert_cmpuint(nth, <, MOST);
    }
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++) {
        g_autofree char *name = g_strdup_printf("/writes/%s", jobs[i].name);
        g_test_add_data_func(name, &jobs[i], test_files);
    }
    g_test_add_func("/writes/checkpoint", test_checkpoint);
    g_test_add_func("/writes/merge", test_merge);
    g_test_add_func("/writes/report", test_report);
    return g_test_run();
}
