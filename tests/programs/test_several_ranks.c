/* pstar-sim with several ranks: what they exchange takes its time, a trace of one rank is as good
 * as one of several, and ranks that no machine holds are refused. */
#include "platforms/platform.h"
#include "traces/gathers.h"
#include "traces/shard.h"
#include "traces/trace_file.h"
#include "workshop.h"

#define A100 PROJECT_DIR "/platforms/a100-40gb.json"
#define DGX  PROJECT_DIR "/platforms/dgx-a100.json"

enum { DONE = 0, USAGE = 2 };

#define JOB "--model model --batch 2 --seq 32 --precision bf16 --platform " DGX " "
#define SIM "pstar-sim run.pstar --device-memory 1GiB --chunk-size 64KiB "

/* Returns the only result of a sweep. */
static json_t *simulate(const struct workshop *workshop, const char *options)
{
    g_autofree char *command = g_strconcat(SIM, options, " --json sweep.json", NULL);
    workshop_must_run(workshop, command);
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    json_t *result = json_incref(json_array_get(json_object_get(sweep, "results"), 0));
    g_assert_true(json_is_true(json_object_get(result, "fits")));
    json_decref(sweep);
    return result;
}

static double seconds_of(const json_t *result)
{
    return json_number_value(json_object_get(result, "iteration_seconds"));
}

/* Returns the bytes of all ranks' parts together, as a ring takes them. */
static double whole(const struct trace_exchange *exchange, bool gather, uint32_t ranks)
{
    double sent = (double)exchange->sent_bytes, received = (double)exchange->received_bytes;
    return gather ? received + sent / (ranks - 1) : sent + received / (ranks - 1);
}

/* Returns what the operators of the trace and their exchanges take, one after the other;
 * *exchanging is that of the exchanges alone. */
static double expected_seconds(const struct workshop *workshop, uint32_t nodes, double *exchanging)
{
    g_autofree char *path = workshop_path(workshop, "run.pstar");
    struct trace *trace = trace_read(path, NULL);
    struct platform *platform = platform_read(DGX, NULL);
    double seconds = 0;
    g_assert_true(platform_spread_ranks(platform, trace->ranks, nodes, NULL));
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_exchange *exchange = trace->operators[m].exchange;
        seconds += (double)trace->operators[m].duration_ns * 1e-9;
        *exchanging += platform_exchange_seconds(
            platform, PLATFORM_GATHER, whole(&exchange[TRACE_GATHER], true, trace->ranks));
        *exchanging += platform_exchange_seconds(
            platform, PLATFORM_REDUCE, whole(&exchange[TRACE_REDUCE], false, trace->ranks));
    }
    platform_free(platform);
    trace_free(trace);
    return seconds + *exchanging;
}

/* With everything on the device nothing but the network adds to the operators' times. Reductions
 * may be behind backward, and gathers behind the operators that do not wait for them. */
static void test_time(void)
{
    struct workshop *workshop = workshop_new();
    for (int i = 0; i < 6; i++) {
        uint32_t nodes = (uint32_t)g_test_rand_int_range(1, 4);
        uint32_t ranks = nodes * (uint32_t)g_test_rand_int_range(2, 9);
        workshop_must_run_format(workshop,
                                 "pstar-trace synth " JOB
                                 "--ranks %u --stage 2 --micro-batches %u -o run.pstar",
                                 ranks, ranks * (uint32_t)g_test_rand_int_range(1, 3));
        g_autofree char *options = g_strdup_printf("--platform %s --nodes %u --strategy resident",
                                                   DGX, nodes);
        json_t *result = simulate(workshop, options);
        double exchanging = 0, expected = expected_seconds(workshop, nodes, &exchanging);
        g_assert_cmpfloat(seconds_of(result), <, expected);
        g_assert_cmpfloat(seconds_of(result), >, exchanging);
        g_assert_cmpfloat(seconds_of(result), >, expected - exchanging);
        json_decref(result);
    }
    workshop_free(workshop);
}

/* The trace of any number of ranks serves all. */
static void test_same_from_any_trace(void)
{
    struct workshop *workshop = workshop_new();
    static const char sim[] = "--platform " DGX " --gpus 8 --stage 3 --strategy zero3-offload";
    workshop_must_run(workshop, "pstar-trace synth " JOB "--ranks 8 --stage 3 -o run.pstar");
    json_t *of_eight = simulate(workshop, sim);
    workshop_must_run(workshop, "pstar-trace synth " JOB "-o run.pstar");
    json_t *of_one = simulate(workshop, sim);
    workshop_must_run(workshop, "pstar-trace synth " JOB "--ranks 3 --stage 2 -o run.pstar");
    json_t *of_three = simulate(workshop, sim);
    g_assert_true(json_equal(of_eight, of_one));
    g_assert_true(json_equal(of_eight, of_three));
    json_t *one = simulate(workshop, "--platform " DGX " --gpus 1 --strategy zero3-offload");
    g_assert_false(json_equal(of_eight, one));
    json_decref(one);
    json_decref(of_eight);
    json_decref(of_one);
    json_decref(of_three);
    workshop_free(workshop);
}

/* The more nodes share the same number of ranks, the more host each of them has; the network is
 * slower than the links within a node. */
static void test_contention(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth " JOB "--ranks 8 -o run.pstar");
    static const char *const ways[] = {"resident", "zero-offload"};
    double seconds[2][2];
    for (int way = 0; way < 2; way++)
        for (int spread = 0; spread < 2; spread++) {
            g_autofree char *options = g_strdup_printf("--platform %s --nodes %d --strategy %s",
                                                       DGX, spread ? 4 : 1, ways[way]);
            json_t *result = simulate(workshop, options);
            seconds[way][spread] = seconds_of(result);
            json_decref(result);
        }
    g_assert_cmpfloat(seconds[0][0], <, seconds[0][1]);
    g_assert_cmpfloat(seconds[1][0] - seconds[0][0], >, seconds[1][1] - seconds[0][1]);
    workshop_free(workshop);
}

/* Writes machine.json: the nodes of platforms/dgx-a100.json without NVLink. */
static void write_machine(const struct workshop *workshop, bool shares)
{
    json_t *machine = json_load_file(DGX, 0, NULL), *node = json_object_get(machine, "node");
    json_object_set_new(node, "bytes_per_second", json_real(2e10));
    json_object_set_new(node, "exchanges_share_link", json_boolean(shares));
    g_autofree char *path = workshop_path(workshop, "machine.json");
    g_assert_cmpint(json_dump_file(machine, path, 0), ==, 0);
    json_decref(machine);
}

/* Where what GPUs exchange crosses the link of their copies, both take longer. A plan for such a
 * machine verifies. */
static void test_shared_link(void)
{
    struct workshop *workshop = workshop_new();
    double seconds[2];
    workshop_must_run(workshop, "pstar-trace synth " JOB "-o run.pstar");
    for (int shares = 0; shares < 2; shares++) {
        write_machine(workshop, shares);
        json_t *result = simulate(workshop,
                                  "--platform machine.json --gpus 4 --strategy zero3-offload");
        seconds[shares] = seconds_of(result);
        json_decref(result);
    }
    g_assert_cmpfloat(seconds[1], >, 1.001 * seconds[0]);
    workshop_must_run(workshop, "pstar-plan run.pstar --platform machine.json --gpus 4 "
                                "--device-memory 1MiB --chunk-size 64KiB -o plan.json");
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    json_t *machine = workshop_read_json(workshop, "machine.json");
    json_object_set_new(json_object_get(machine, "node"), "exchanges_share_link", json_integer(1));
    g_autofree char *path = workshop_path(workshop, "machine.json");
    g_assert_cmpint(json_dump_file(machine, path, 0), ==, 0);
    json_decref(machine);
    workshop_must_end(workshop, SIM "--gpus 4 --platform machine.json", USAGE, "",
                      "exchanges_share_link");
    workshop_free(workshop);
}

/* PatrickStar gathers a chunk of each rank at a time, and gives a tenth of the device to it. */
static void test_patrickstar(void)
{
    struct workshop *workshop = workshop_new();
    static const char sim[] = "pstar-sim run.pstar --device-memory 20MiB --chunk-size %dKiB "
                              "--strategy patrickstar:1 --json sweep.json";
    workshop_must_run(workshop,
                      "pstar-trace synth " JOB "--ranks 8 --stage 3 --reduction fast -o run.pstar");
    for (int fits = 0; fits < 2; fits++) {
        g_autofree char *command = g_strdup_printf(sim, fits ? 256 : 257);
        struct outcome outcome = workshop_run(workshop, command);
        g_assert_cmpint(outcome.status, ==, fits ? DONE : 3);
        outcome_clear(&outcome);
    }
    workshop_free(workshop);
}

static bool can_run(void)
{
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    return mpirun && g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS);
}

/* Every rank records its gathers, as many as it counts in a step, and of as many bytes. A report of
 * both ranks says who waits, and puts the network's rate beside its peak. */
static void check_gathers(const struct workshop *workshop, bool any)
{
    json_t *log = workshop_read_json_lines(workshop, "log.jsonl");
    json_int_t counted = json_integer_value(
        json_object_get(json_array_get(log, json_array_size(log) - 1), "gathers"));
    for (int r = 0; r < 2; r++) {
        g_autofree char *name = g_strdup_printf("run-%d.pstar", r);
        g_autofree char *path = workshop_path(workshop, name);
        struct gathers *gathers;
        g_assert_true(gathers_read(path, &gathers, NULL));
        struct trace *trace = trace_read(path, NULL);
        uint64_t bytes = 0, least = 0;
        g_assert_true((gathers != NULL) == any);
        for (uint32_t g = 0; any && g < gathers->count; g++) {
            bytes += gathers->bytes[g];
            g_assert_cmpuint(gathers->duration_ns[g], >, 0);
        }
        for (uint32_t i = 0; any && i < trace->tensor_count; i++)
            least +=
                (trace->tensors[i].elements - shard_of(trace->tensors[i].elements, 2, r).count) * 2;
        g_assert_cmpuint(any ? gathers->count : 0, ==, counted);
        g_assert_cmpuint(bytes, >=, least);
        trace_free(trace);
        gathers_free(gathers);
    }
    write_machine(workshop, false);
    workshop_must_end(workshop, "pstar-report run-0.pstar run-1.pstar machine.json --text", DONE,
                      "Who waits for whom", "");
    workshop_must_end(workshop, "pstar-report run-0.pstar run-1.pstar machine.json --text", DONE,
                      "machine.json says that it can receive 20 GB/s", "");
    json_decref(log);
}

/* Law 2 across ranks: two ranks describe themselves to the collector; what the simulator counts for
 * their merged trace is what the first of them counted. */
static void test_counted(gconstpointer data)
{
    int stage = GPOINTER_TO_INT(data);
    static const char *const same[] = {"sent_bytes", "received_bytes", "gathers",
                                       "h2d_bytes",  "d2h_bytes",      "peak_device_bytes"};
    if (!can_run()) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        return;
    }
    struct workshop *workshop = workshop_new();
    workshop_must_run_format(
        workshop,
        "mpirun -n 2 --oversubscribe pstar-collect -o run-%%r.pstar -- pstar-run --model model "
        "--data text.txt --batch 1 --seq 16 --precision bf16 --micro-batches 4 --steps 3 --threads "
        "1 "
        "--stage %d --device-memory 64MiB --chunk-size 16KiB --policy opt --log log.jsonl",
        stage);
    workshop_must_run(workshop, "pstar-trace check run-0.pstar run-1.pstar");
    workshop_must_end(workshop, "pstar-trace merge run-1.pstar run-1.pstar -o run.pstar", USAGE, "",
                      "run-1.pstar: is the trace of one rank, and is given twice");
    workshop_must_run(workshop, "pstar-trace merge run-1.pstar run-0.pstar -o run.pstar");
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 64MiB --chunk-size 16KiB "
                                "--policy opt --json sweep.json");
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    json_t *log = workshop_read_json_lines(workshop, "log.jsonl");
    check_gathers(workshop, stage == 3);
    const json_t *predicted = json_array_get(json_object_get(sweep, "results"), 0);
    const json_t *measured = json_array_get(log, json_array_size(log) - 1);
    for (size_t i = 0; i < G_N_ELEMENTS(same); i++)
        g_assert_cmpint(json_integer_value(json_object_get(predicted, same[i])), ==,
                        json_integer_value(json_object_get(measured, same[i])));
    g_assert_cmpint(json_integer_value(json_object_get(measured, "sent_bytes")), >, 0);
    json_decref(sweep);
    json_decref(log);
    workshop_free(workshop);
}

/* The stages of a pipeline describe themselves to the collector. Their traces say what they pass
 * on; replaying one alone would leave out that it waits for the others. */
static void test_pipeline(void)
{
    if (!can_run()) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        return;
    }
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "untied.json",
                   "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 32, \"n_head\": 2, "
                   "\"n_positions\": 16, \"vocab_size\": 256, \"tie_word_embeddings\": false}");
    workshop_must_run(workshop,
                      "mpirun -n 2 --oversubscribe pstar-collect -o run-%r.pstar -- pstar-run "
                      "--model untied.json --data text.txt --batch 1 --seq 16 --micro-batches 3 "
                      "--steps 3 --threads 1 --stages 2");
    workshop_must_run(workshop, "pstar-trace check run-0.pstar run-1.pstar");
    for (uint32_t s = 0; s < 2; s++) {
        g_autofree char *name = g_strdup_printf("run-%u.pstar", s);
        g_autofree char *path = workshop_path(workshop, name);
        struct trace *trace = trace_read(path, NULL);
        struct trace_exchange passed = trace_exchanged(trace, TRACE_PASS);
        g_assert_cmpuint(trace->stage, ==, s);
        g_assert_cmpuint(trace->stages, ==, 2);
        g_assert_cmpuint(passed.sent_bytes, ==, 3 * 16 * 32 * sizeof(float));
        g_assert_cmpuint(passed.received_bytes, ==, passed.sent_bytes);
        trace_free(trace);
    }
    workshop_must_end(workshop, "pstar-sim run-1.pstar --device-memory 1MiB", USAGE, "",
                      "stage 1 of a pipeline of 2");
    workshop_must_end(workshop, "pstar-plan run-0.pstar --device-memory 1MiB -o plan.json", USAGE,
                      "", "stage 0 of a pipeline of 2");
    workshop_free(workshop);
}

/* Returns the strategy's result of a sweep; NULL if it has none. */
static const json_t *find_strategy(const json_t *sweep, const char *name)
{
    const json_t *results = json_object_get(sweep, "results");
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *result = json_array_get(results, i);
        if (!g_strcmp0(json_string_value(json_object_get(result, "strategy")), name))
            return result;
    }
    return NULL;
}

static int64_t figure_of(const json_t *sweep, const char *strategy, const char *name)
{
    return json_integer_value(json_object_get(find_strategy(sweep, strategy), name));
}

#define ALL "pstar-sim run.pstar --strategy all --chunk-size 64KiB --json sweep.json "

/* All strategies are those of several ranks, too, each with what its ranks share, whatever the
 * stage that is asked for. The less is shared, the more memory it takes; whoever gathers twice
 * sends most. Stages 0 and 1 have their own plans and timelines. */
static void test_stages(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth " JOB "-o run.pstar");
    workshop_must_run(workshop, ALL "--platform " DGX " --gpus 1");
    json_t *alone = workshop_read_json(workshop, "sweep.json");
    workshop_must_run(workshop, ALL "--platform " DGX " --gpus 4");
    json_t *four = workshop_read_json(workshop, "sweep.json");
    workshop_must_run(workshop, ALL "--platform " DGX " --gpus 4 --stage 2");
    json_t *stage_2 = workshop_read_json(workshop, "sweep.json");
    static const char *const names[] = {"ddp", "zero1", "zero2", "zero3", "fsdp-no-reshard"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_assert_null(find_strategy(alone, names[i]));
        g_assert_true(json_equal((json_t *)find_strategy(four, names[i]),
                                 (json_t *)find_strategy(stage_2, names[i])));
    }
    g_assert_cmpint(figure_of(four, "ddp", "peak_device_bytes"), >,
                    figure_of(four, "zero1", "peak_device_bytes"));
    g_assert_cmpint(figure_of(four, "zero3", "sent_bytes"), >,
                    figure_of(four, "ddp", "sent_bytes"));
    workshop_must_run(workshop,
                      "pstar-sim run.pstar --strategy ddp --chunk-size 64KiB --platform " DGX
                      " --gpus 4 --stalls 1 --phases --timeline t.json --emit-plan plan.json");
    workshop_must_run(workshop, "pstar-sim run.pstar --strategy resident --chunk-size 64KiB "
                                "--platform " DGX " --gpus 4 --emit-plan plan.json");
    workshop_must_end(
        workshop, "pstar-sim run.pstar --strategy ddp --gpus 4 --layout plan.json --platform " DGX,
        USAGE, "", "a strategy with a stage of its own needs others");
    workshop_must_run(workshop, "pstar-trace synth " JOB "--bytes-per-parameter 12 -o run.pstar");
    workshop_must_end(workshop, ALL "--platform " DGX " --gpus 4", DONE, "",
                      "strategies with a stage of their own are left out: stage 0");
    workshop_must_end(
        workshop, "pstar-sim run.pstar --strategy ddp --chunk-size 64KiB --gpus 4 --platform " DGX,
        USAGE, "", "keeps none");
    json_decref(alone);
    json_decref(four);
    json_decref(stage_2);
    workshop_free(workshop);
}

/* The phases' bytes from other ranks are those of the step. */
static void test_phases(void)
{
    struct workshop *workshop = workshop_new();
    json_int_t bytes = 0;
    double seconds = 0;
    workshop_must_run(workshop, "pstar-trace synth " JOB "-o run.pstar");
    json_t *result = simulate(workshop, "--platform " DGX " --gpus 4 --strategy zero3 --phases");
    const json_t *phases = json_object_get(result, "phases");
    for (size_t p = 0; p < json_array_size(phases); p++) {
        const json_t *phase = json_array_get(phases, p);
        bytes += json_integer_value(json_object_get(phase, "network_bytes"));
        seconds += json_number_value(json_object_get(phase, "network_seconds"));
    }
    bytes -= json_integer_value(json_object_get(result, "received_bytes"));
    g_assert_cmpint(ABS(bytes), <=, 3);
    g_assert_cmpfloat(seconds, >, 0);
    json_decref(result);
    result = simulate(workshop, "--platform " DGX " --gpus 1 --strategy resident --phases");
    phases = json_object_get(result, "phases");
    g_assert_null(json_object_get(json_array_get(phases, 0), "network_bytes"));
    json_decref(result);
    workshop_free(workshop);
}

static void test_refusals(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth " JOB "-o run.pstar");
    workshop_must_end(workshop, SIM "--nodes 2", USAGE, "", "--nodes needs --platform");
    workshop_must_end(workshop, SIM "--stage 3", USAGE, "", "--stage 3: one rank shares nothing");
    workshop_must_end(workshop, SIM "--gpus 2 --stage 4", USAGE, "", "--stage");
    workshop_must_end(workshop, SIM "--gpus 0", USAGE, "", "--gpus");
    workshop_must_end(workshop, SIM "--platform " DGX " --gpus 9 --nodes 1", USAGE, "",
                      "has 8 GPUs");
    workshop_must_end(workshop, SIM "--platform " DGX " --gpus 9 --nodes 2", USAGE, "", "evenly");
    workshop_must_end(workshop, SIM "--platform " A100 " --gpus 2 --policy opt", DONE, "",
                      "does not say how 2 ranks exchange: that takes no time");
    workshop_must_end(workshop, SIM "--gpus 2 --policy opt", DONE, "", "no platform says how");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    /* mpirun does not run for root unless asked twice; the tests run in containers as root. */
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    g_test_init(&argc, &argv, NULL);
    g_test_add_data_func("/several-ranks/counted/2", GINT_TO_POINTER(2), test_counted);
    g_test_add_data_func("/several-ranks/counted/3", GINT_TO_POINTER(3), test_counted);
    g_test_add_func("/several-ranks/pipeline", test_pipeline);
    g_test_add_func("/several-ranks/time", test_time);
    g_test_add_func("/several-ranks/same-from-any-trace", test_same_from_any_trace);
    g_test_add_func("/several-ranks/contention", test_contention);
    g_test_add_func("/several-ranks/shared-link", test_shared_link);
    g_test_add_func("/several-ranks/patrickstar", test_patrickstar);
    g_test_add_func("/several-ranks/stages", test_stages);
    g_test_add_func("/several-ranks/phases", test_phases);
    g_test_add_func("/several-ranks/refusals", test_refusals);
    return g_test_run();
}
