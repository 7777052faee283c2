/* Whichever allocation of heap memory gets none, a program ends by itself: well, where it can do
 * without, else with a message and its status, never by a signal. Which allocations come when
 * depends on the machine's libraries, so some are drawn. */
#include "workshop.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json "

enum {
    DONE = 0,
    FAILED = 1,
    BAD_INPUT = 2,
    DOES_NOT_FIT = 3,
    LAST = 30000,
    BEFORE = 3,
    DRAWS = 25,
    MANY_DRAWS = 1000,
};

static void run_once(const struct workshop *workshop, const char *command, uint32_t nth,
                     uint32_t *refused)
{
    g_autofree char *line = g_strdup_printf("env LD_PRELOAD=" PRELOAD " PSTAR_FAULT=heap:%u "
                                            "timeout -k 1 120 %s",
                                            nth, command);
    struct outcome outcome = workshop_run(workshop, line);
    bool by_glib = strstr(outcome.err,
                          "GSlice: failed") || /* GLib before 2.76 aborts, and locks do */
                   strstr(outcome.err, "(gthread-posix.c): Unexpected error");
    bool by_itself = outcome.status == DONE ||
                     (outcome.status > DONE && outcome.status <= DOES_NOT_FIT &&
                      strstr(outcome.err, "pstar-"));
    if (!by_glib && !by_itself)
        g_error("%s\nstatus %d: %s", line, outcome.status, outcome.err);
    *refused += outcome.status == DOES_NOT_FIT && strstr(outcome.err, "the system refuses memory");
    outcome_clear(&outcome);
}

static void test_heap(gconstpointer data)
{
    const char *command = data;
    struct workshop *workshop = workshop_new();
    uint32_t refused = 0, draws = g_test_slow() ? MANY_DRAWS : DRAWS;
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                "fp32 " PLATFORM "-o good.pstar");
    for (uint32_t i = 0; i < BEFORE; i++) /* they leave checkpoints, of which old ones go */
        workshop_must_run(workshop, command);
    for (uint32_t i = 0; i < draws; i++) {
        double share = g_test_rand_double(); /* more early ones than late ones */
        run_once(workshop, command, 1 + (uint32_t)(share * share * share * LAST), &refused);
    }
    g_assert_cmpuint(refused, >, 0);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/heap/run",
                         "pstar-run --model model --data text.txt --batch 2 --seq 32 --threads 1 "
                         "--device-memory 1200KiB --steps 2 --log log.jsonl --save saved",
                         test_heap);
    g_test_add_data_func("/heap/sim",
                         "pstar-sim good.pstar --device-memory 10MiB " PLATFORM
                         "--policy lru --json sweep.json",
                         test_heap);
    g_test_add_data_func("/heap/trace", "pstar-trace export good.pstar -o out.json", test_heap);
    return g_test_run();
}
