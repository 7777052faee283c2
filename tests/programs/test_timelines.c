/* A timeline has all that an iteration does, once: its operators and waits last as long as the
 * iteration, its copies carry the bytes of the row that it is of, and so do its phases. */
#include "workshop.h"

#include <stdlib.h>
#include <string.h>

/* A machine, the step that is synthesised for it, and how it is simulated. */
struct simulated {
    const char *platform, *step, *how;
};

static const struct simulated all[] = {
    {"a100-40gb", "", "--strategy fsdp-offload --device-memory 35%"},
    {"a100-40gb", "", "--strategy zero-offload --device-memory 60%"},
    {"a100-40gb", "", "--strategy superoffload --device-memory 60%"},
    {"a100-40gb", "--host-update --micro-batches 3",
     "--policy opt --look-ahead 3 --device-memory 63%"},
    {"rtx-4090", "--host-update --offload-activations all",
     "--strategy gemini-auto --link h2d=1MB/s,d2h=1MB/s --device-memory 30%"},
    {"cpu-2core", "", "--strategy zero-offload --device-memory 60%"},
    {"cpu-2core", "--host-update", "--policy lru --look-ahead 2 --device-memory 20%"},
    {"dgx-a100", "", "--policy fifo --gpus 4 --device-memory 40%"}};

/* What the events of one row of a timeline sum to. */
struct row {
    double us;
    double bytes;
};

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Sums the row of this name. All of it lies between 0 and the iteration's end. */
static struct row sum_row(const json_t *timeline, const char *name)
{
    double end_us = number(json_object_get(timeline, "otherData"), "iteration_seconds") * 1e6;
    json_t *events = json_object_get(timeline, "traceEvents"), *event;
    struct row sum = {0, 0};
    double tid = -1;
    size_t i;
    json_array_foreach (events, i, event) {
        const json_t *arguments = json_object_get(event, "args");
        if (!g_strcmp0(json_string_value(json_object_get(arguments, "name")), name))
            tid = number(event, "tid");
        if (g_strcmp0(json_string_value(json_object_get(event, "ph")), "X") ||
            number(event, "tid") != tid)
            continue;
        g_assert_cmpfloat(number(event, "ts"), >=, 0);
        g_assert_cmpfloat(number(event, "ts") + number(event, "dur"), <=, end_us + 1e-3);
        sum.us += number(event, "dur");
        sum.bytes += number(arguments, "bytes");
    }
    return sum;
}

/* Sums a figure of a result over its phases. */
static double sum_phases(const json_t *result, const char *key)
{
    json_t *phase;
    double sum = 0;
    size_t i;
    json_array_foreach (json_object_get(result, "phases"), i, phase)
        sum += number(phase, key);
    return sum;
}

/* Returns the milliseconds of all resources in the line above the table of stalls. */
static double printed_ms(const char *out)
{
    const char *line = strstr(out, "Stalls of an iteration: ");
    g_assert_nonnull(line);
    g_auto(GStrv) lines = g_strsplit(line, "\n", 2);
    g_auto(GStrv) sums = g_strsplit(strstr(lines[0], "resource: ") + 10, ", ", -1);
    double sum = 0;
    for (char **part = sums; *part; part++)
        sum += strtod(strrchr(*part, ' '), NULL);
    return sum;
}

static void check(const json_t *timeline, const json_t *result, const char *out)
{
    double stall_us = number(result, "stall_seconds") * 1e6;
    double iteration_us = number(result, "iteration_seconds") * 1e6;
    struct row compute = sum_row(timeline, "compute"), stalls = sum_row(timeline, "stalls");
    g_assert_cmpfloat_with_epsilon(stalls.us, stall_us, 1e-2);
    g_assert_cmpfloat_with_epsilon(compute.us + stalls.us, iteration_us, 1e-2);
    g_assert_cmpfloat_with_epsilon(printed_ms(out) * 1e3, stall_us, 3.5);
    g_assert_cmpfloat(sum_row(timeline, "H2D").bytes, ==, number(result, "h2d_bytes"));
    g_assert_cmpfloat(sum_row(timeline, "D2H").bytes, ==, number(result, "d2h_bytes"));
    g_assert_cmpfloat(sum_phases(result, "h2d_bytes"), ==, number(result, "h2d_bytes"));
    g_assert_cmpfloat(sum_phases(result, "d2h_bytes"), ==, number(result, "d2h_bytes"));
}

static void test_sums(const void *data)
{
    const struct simulated *simulated = data;
    struct workshop *workshop = workshop_new();
    workshop_must_run_format(workshop,
                             "pstar-trace synth --model model --batch 2 --seq 32 --precision fp32 "
                             "--platform %s %s -o run.pstar",
                             simulated->platform, simulated->step);
    g_autofree char *line = g_strdup_printf("pstar-sim run.pstar --platform %s %s --chunk-size "
                                            "32KiB --phases --stalls 1 --json sweep.json "
                                            "--timeline timeline.json",
                                            simulated->platform, simulated->how);
    g_autofree char *out = workshop_must_print(workshop, line);
    json_t *timeline = workshop_read_json(workshop, "timeline.json");
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    check(timeline, json_array_get(json_object_get(sweep, "results"), 0), out);
    json_decref(timeline);
    json_decref(sweep);
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
        g_autofree char *path = g_strdup_printf("/timelines/sums/%zu", i);
        g_test_add_data_func(path, &all[i], test_sums);
    }
    return g_test_run();
}
