/* A profile of one of several ranks that train with shards of everything (FSDP), made up here, goes
 * through the programs: all of them count what the ranks gathered and summed. */
#include "workshop.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = 64, STEPS = 3 };

struct profile {
    GString *events;
    unsigned correlation;
    int layers, ranks;
    int elements; /* of a layer: rows of WIDTH, a multiple of the ranks */
    int flat;     /* elements of a layer's gradient in one piece; 0 if it is not flat */
};

/* Returns what a rank exchanges in a step: each layer's parameters are gathered for forward and for
 * backward, and its gradients summed in parts. */
static json_int_t exchanged(const struct profile *profile)
{
    int part = profile->elements / profile->ranks * (int)sizeof(float);
    return (json_int_t)3 * profile->layers * part * (profile->ranks - 1);
}

/* Adds an event; times are in microseconds. */
G_GNUC_PRINTF(6, 7)
static void add(const struct profile *profile, const char *category, const char *name, double start,
                double us, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    g_autofree char *arguments = g_strdup_vprintf(format, list);
    va_end(list);
    g_string_append_printf(profile->events,
                           "%s{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": 7, "
                           "\"tid\": 7, \"ts\": %.3f, \"dur\": %.3f, \"args\": {%s}}",
                           profile->events->len > 0 ? ",\n" : "", category, name, start, us,
                           arguments);
}

static void add_kernel(struct profile *profile, const char *name, double asked, double runs,
                       double us, const char *more)
{
    unsigned correlation = ++profile->correlation;
    add(profile, "cuda_runtime", "cudaLaunchKernel", asked, 1, "\"correlation\": %u", correlation);
    add(profile, "kernel", name, runs, us,
        "\"device\": 0, \"context\": 1, \"stream\": %d, \"correlation\": %u%s", *more ? 20 : 7,
        correlation, more);
}

static void add_collective(struct profile *profile, bool gathers, double asked, double runs)
{
    int part = profile->elements / profile->ranks;
    g_autofree char *more = g_strdup_printf(
        ", \"Collective name\": \"%s\", \"In msg nelems\": %d, \"Out msg nelems\": %d, \"dtype\": "
        "\"Float\", \"Group size\": %d",
        gathers ? "_allgather_base" : "_reduce_scatter_base", gathers ? part : profile->elements,
        gathers ? profile->elements : part, profile->ranks);
    add_kernel(profile,
               gathers ? "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                       : "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<"
                         "4096ul>)",
               asked, runs, 7, more);
}

static double add_forward(struct profile *profile, double at)
{
    for (int layer = 0; layer < profile->layers; layer++, at += 100) {
        add_collective(profile, true, at + 10.5, at + 11);
        add(profile, "cpu_op", "aten::linear", at + 10, 8,
            "\"Sequence number\": %d, \"Input Dims\": [[8, %d], [%d, %d]]", 10 + layer, WIDTH,
            profile->elements / WIDTH, WIDTH);
        add_kernel(profile, "scale", at + 12, at + 20, 30, "");
    }
    add(profile, "cpu_op", "aten::mse_loss", at + 20, 5, "\"Sequence number\": 90");
    add_kernel(profile, "scale", at + 21, at + 30, 5, "");
    return at + 30;
}

static double add_backward(struct profile *profile, double at)
{
    add(profile, "cpu_op", "autograd::engine::evaluate_function: MseLossBackward0", at, 5,
        "\"Sequence number\": 90, \"Fwd thread id\": 1");
    add_kernel(profile, "scale", at + 1, at + 6, 5, "");
    at += 20;
    g_autofree char *shape = profile->flat
                                 ? g_strdup_printf("%d", profile->flat)
                                 : g_strdup_printf("%d, %d", profile->elements / WIDTH, WIDTH);
    for (int layer = profile->layers - 1; layer >= 0; layer--, at += 100) {
        add_collective(profile, true, at + 5, at + 6);
        add(profile, "cpu_op", "autograd::engine::evaluate_function: MmBackward0", at + 10, 8,
            "\"Sequence number\": %d, \"Fwd thread id\": 1", 10 + layer);
        add_kernel(profile, "scale", at + 11, at + 20, 60, "");
        add(profile, "cpu_op",
            "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", at + 20, 0.9,
            "\"Ev Idx\": 1");
        add(profile, "cpu_op", "torch::autograd::AccumulateGrad", at + 20.1, 0.5,
            "\"Input Dims\": [[%s]], \"Input type\": [\"float\"]", shape);
        add_collective(profile, false, at + 25, at + 81);
    }
    return at;
}

static void write_profile(const struct workshop *workshop, struct profile *profile)
{
    profile->events = g_string_new(NULL);
    for (int step = 0; step < STEPS; step++) {
        double begin = 1669783687000000.0 + 2000 * step;
        double at = add_backward(profile, add_forward(profile, begin));
        g_autofree char *mark = g_strdup_printf("ProfilerStep#%d", step);
        add(profile, "user_annotation", "Optimizer.step#AdamW.step", at, 50, "\"Ev Idx\": 1");
        add(profile, "cpu_op", "aten::_foreach_add_", at + 1, 10, "\"Ev Idx\": 1");
        add_kernel(profile, "step", at + 2, at + 10, 66, "");
        add(profile, "user_annotation", mark, begin, at + 60 - begin, "\"Ev Idx\": 1");
    }
    g_autofree char *text = g_strdup_printf("{\"schemaVersion\": 1, \"traceEvents\": [%s]}",
                                            profile->events->str);
    workshop_write(workshop, "profile.json", text);
    g_string_free(profile->events, TRUE);
}

static json_int_t bytes_of(const json_t *figures, const char *name)
{
    return json_integer_value(json_object_get(figures, name));
}

static void expect_exchanged(const json_t *figures, const struct profile *profile)
{
    g_assert_cmpint(bytes_of(figures, "sent_bytes"), ==, exchanged(profile));
    g_assert_cmpint(bytes_of(figures, "received_bytes"), ==, exchanged(profile));
}

/* Under every policy and strategy a step exchanges what was recorded. */
static void test_simulated(const struct workshop *workshop, const struct profile *profile)
{
    static const char *const choices[] = {"", "--strategy all"};
    for (size_t c = 0; c < G_N_ELEMENTS(choices); c++) {
        size_t i, fit = 0;
        json_t *row;
        workshop_must_run_format(
            workshop, "pstar-sim run.pstar --device-memory 1MiB %s --json sweep.json", choices[c]);
        json_t *sweep = workshop_read_json(workshop, "sweep.json");
        json_array_foreach (json_object_get(sweep, "results"), i, row) {
            if (!json_is_true(json_object_get(row, "fits")))
                continue;
            expect_exchanged(row, profile);
            fit++;
        }
        g_assert_cmpuint(fit, >, 5);
        json_decref(sweep);
    }
}

static void test_planned(const struct workshop *workshop, const struct profile *profile)
{
    workshop_must_run(workshop, "pstar-plan run.pstar --device-memory 40KiB -o plan.json");
    workshop_must_run(workshop, "pstar-plan run.pstar --verify plan.json");
    json_t *plan = workshop_read_json(workshop, "plan.json");
    expect_exchanged(json_object_get(plan, "predicted"), profile);
    json_decref(plan);
}

/* The report says how busy the network is, measured and simulated. */
static void test_reported(const struct workshop *workshop)
{
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 1MiB --policy fifo "
                                "--timeline times.json");
    g_autofree char *text = workshop_must_print(workshop,
                                                "pstar-report run.pstar times.json --text");
    g_auto(GStrv) before = g_strsplit(text, "\n network ", -1);
    g_assert_cmpuint(g_strv_length(before), >=, 3); /* measured and simulated */
    g_assert_null(strstr(text, "\n network            0 %"));
}

static struct profile drawn(void)
{
    int ranks = g_test_rand_int_range(2, 10);
    return (struct profile){.layers = g_test_rand_int_range(1, 9),
                            .ranks = ranks,
                            .elements = WIDTH * ranks * g_test_rand_int_range(1, 17)};
}

static void test_shards(void)
{
    struct workshop *workshop = workshop_new();
    struct profile profile = drawn();
    write_profile(workshop, &profile);
    workshop_must_run(workshop, "pstar-trace import profile.json -o run.pstar");
    g_autofree char *info = workshop_must_print(workshop, "pstar-trace info run.pstar");
    g_autofree char *ranks = g_strdup_printf(
        "%d, which share parameters, gradients and optimizer states", profile.ranks);
    g_assert_nonnull(strstr(info, ranks));
    test_simulated(workshop, &profile);
    test_planned(workshop, &profile);
    test_reported(workshop);
    workshop_free(workshop);
}

/* Where a module's parameters lie in one piece (FSDP's first version), filled up to a multiple of
 * the ranks, the weights of its layers are no further, frozen parameters. */
static void test_flat(void)
{
    struct workshop *workshop = workshop_new();
    struct profile profile = drawn();
    for (int g = 0; g < 2; g++) {
        profile.flat = profile.elements - (g ? profile.ranks : g_test_rand_int_range(0, 2));
        write_profile(workshop, &profile);
        g_autofree char *tensors = g_strdup_printf(": %d tensors, ", profile.layers * (g ? 2 : 1));
        g_autofree char *said = workshop_must_print(workshop,
                                                    "pstar-trace import profile.json -o run.pstar");
        g_assert_nonnull(strstr(said, tensors));
        g_assert_cmpint(strstr(said, "which operators use which parameter") != NULL, ==, g == 0);
    }
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/imported_ranks/shards", test_shards);
    g_test_add_func("/imported_ranks/flat", test_flat);
    return g_test_run();
}
