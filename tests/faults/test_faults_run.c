/* pstar-run when memory is refused, copies fail or take long, the device is lost, or a gradient is
 * not a number: it ends with the right message and status, and its newest checkpoint goes on as if
 * nothing had happened. */
#include "workshop.h"

#include <stdint.h>
#include <string.h>

#define RUN                                                                                   \
    "pstar-run --model model --data text.txt --batch 2 --seq 32 --threads 1 --device-memory " \
    "1200KiB --steps 4 "
#define RESUME "pstar-run --resume saved --threads 1 --device-memory 1200KiB --steps 4 "

enum { DONE = 0, FAILED = 1, BAD_INPUT = 2, DOES_NOT_FIT = 3 };

static struct outcome run_with(const struct workshop *workshop, const char *fault, uint64_t nth,
                               const char *later, const char *command)
{
    g_autofree char *line = g_strdup_printf("env PSTAR_FAULT=%s:%" G_GUINT64_FORMAT "%s %s", fault,
                                            nth, later, command);
    return workshop_run(workshop, line);
}

static void expect(const char *fault, uint64_t nth, const struct outcome *outcome, int status,
                   const char *says)
{
    if (outcome->status != status || !strstr(outcome->err, says))
        g_error("%s:%" G_GUINT64_FORMAT ": status %d instead of %d, or without '%s'\n%s", fault,
                nth, outcome->status, status, says, outcome->err);
}

/* Each allocation is refused once, and the run leaves nothing. */
static void test_memory(void)
{
    static const char *const kinds[][2] = {{"device-memory", "cannot allocate an arena of "},
                                           {"pinned-memory", "cannot allocate a host pool of "}};
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++) {
        struct workshop *workshop = workshop_new();
        g_autofree char *before = workshop_listing(workshop);
        int status = DOES_NOT_FIT;
        uint64_t nth = 0;
        while (status != DONE) {
            struct outcome outcome = run_with(workshop, kinds[i][0], ++nth, "",
                                              RUN "--log log.jsonl");
            status = outcome.status;
            if (status != DONE) {
                g_autofree char *after = workshop_listing(workshop);
                expect(kinds[i][0], nth, &outcome, DOES_NOT_FIT, kinds[i][1]);
                g_assert_cmpstr(before, ==, after);
            }
            outcome_clear(&outcome);
        }
        g_assert_cmpuint(nth, >, 1);
        workshop_free(workshop);
    }
}

static json_t *losses_of(const struct workshop *workshop, const char *log)
{
    json_t *lines = workshop_read_json_lines(workshop, log), *line, *losses = json_array();
    size_t i;
    json_array_foreach (lines, i, line) {
        json_array_append(losses, json_object_get(line, "loss"));
    }
    json_decref(lines);
    return losses;
}

/* Goes on from the checkpoint that a run has left, if it has left one, and compares the losses. */
static void check_resumed(const struct workshop *workshop, json_t *whole)
{
    g_autofree char *state_path = workshop_path(workshop, "saved/trainer.json");
    if (!g_file_test(state_path, G_FILE_TEST_EXISTS))
        return;
    json_t *state = workshop_read_json(workshop, "saved/trainer.json");
    size_t done = (size_t)json_integer_value(json_object_get(state, "step"));
    json_decref(state);
    workshop_must_run(workshop, RESUME "--log rest.jsonl");
    json_t *rest = losses_of(workshop, "rest.jsonl");
    g_assert_cmpuint(done + json_array_size(rest), ==, json_array_size(whole));
    for (size_t i = 0; i < json_array_size(rest); i++)
        g_assert_true(json_equal(json_array_get(rest, i), json_array_get(whole, done + i)));
    json_decref(rest);
}

/* Lets the device fail at ever later events until the run comes to its end. */
static void test_device(gconstpointer data)
{
    const char *fault = data;
    const char *says = strcmp(fault, "copy") == 0 ? "the device failed" : "the device is lost at '";
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, RUN "--log whole.jsonl");
    json_t *whole = losses_of(workshop, "whole.jsonl");
    int status = FAILED, resumed = 0;
    for (uint64_t nth = 1; status != DONE; nth += 1 + nth / 2) {
        workshop_must_run(workshop, "rm -rf saved");
        struct outcome outcome = run_with(workshop, fault, nth, "",
                                          RUN "--save saved --save-every 1");
        status = outcome.status;
        if (status != DONE) {
            expect(fault, nth, &outcome, FAILED, says);
            check_resumed(workshop, whole);
            resumed++;
        }
        outcome_clear(&outcome);
    }
    g_assert_cmpint(resumed, >, 3);
    json_decref(whole);
    workshop_free(workshop);
}

/* A slow copy costs time, and nothing else. */
static void test_slow(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, RUN "--log whole.jsonl");
    struct outcome outcome = run_with(workshop, "slow-copy", 5, "+", RUN "--log slow.jsonl");
    expect("slow-copy", 5, &outcome, DONE, "");
    json_t *whole = losses_of(workshop, "whole.jsonl"), *slow = losses_of(workshop, "slow.jsonl");
    g_assert_true(json_equal(whole, slow));
    json_decref(whole);
    json_decref(slow);
    outcome_clear(&outcome);
    workshop_free(workshop);
}

/* One such step is skipped and counted; the third in a row ends the run. The operator that shows
 * the number first is named. */
static void test_gradient(void)
{
    static const char names[] =
        "'backward ln_f' left a gradient of 'ln_f.weight' whose norm is nan";
    struct workshop *workshop = workshop_new();
    struct outcome outcome = run_with(workshop, "gradient", 2, "", RUN "--log log.jsonl");
    expect("gradient", 2, &outcome, DONE, "step 2 is skipped: 'backward ln_f' left a gradient");
    g_assert_nonnull(strstr(outcome.out, "skipped                                 1 "));
    outcome_clear(&outcome);
    outcome = run_with(workshop, "gradient", 2, "+", RUN);
    expect("gradient", 2, &outcome, FAILED, "(3 steps in a row were skipped)");
    expect("gradient", 2, &outcome, FAILED, names);
    outcome_clear(&outcome);
    workshop_free(workshop);
}

static void test_text(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_end(workshop, "env PSTAR_FAULT=copies:1 " RUN, BAD_INPUT, "",
                      "PSTAR_FAULT: copies:1: must be NAME:N or NAME:N+");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/faults/memory", test_memory);
    g_test_add_data_func("/faults/copy", "copy", test_device);
    g_test_add_data_func("/faults/device-lost", "device-lost", test_device);
    g_test_add_func("/faults/slow-copy", test_slow);
    g_test_add_func("/faults/gradient", test_gradient);
    g_test_add_func("/faults/text", test_text);
    return g_test_run();
}
