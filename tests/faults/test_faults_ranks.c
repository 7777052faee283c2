/* Two ranks, of which one fails: it says so and ends the other, which would wait for it for ever.
 */
#include "workshop.h"

#include <string.h>

#define RUN                                                                              \
    "pstar-run --model model --data text.txt --batch 2 --seq 32 --threads 1 --steps 20 " \
    "--device-memory 1300KiB --micro-batches 2"

static void test_fails(gconstpointer data)
{
    const char *fault = data;
    struct workshop *workshop = workshop_new();
    g_autofree char *line = g_strdup_printf(
        "timeout 300 mpirun --allow-run-as-root --oversubscribe -n 1 env PSTAR_FAULT=%s " RUN
        " : -n 1 " RUN,
        fault);
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    if (!mpirun) {
        g_test_skip("there is no mpirun");
    } else {
        workshop_must_end(workshop, line, 1, "", "pstar-run: rank 0 on ");
        workshop_must_end(workshop, line, 1, "",
                          strstr(fault, "copy") ? "the device failed" : "the device is lost at");
    }
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/ranks/copy", "copy:30", test_fails);
    g_test_add_data_func("/ranks/first-operator", "device-lost:1", test_fails);
    g_test_add_data_func("/ranks/operator", "device-lost:100", test_fails);
    return g_test_run();
}
