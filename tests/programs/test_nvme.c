/* Plans with chunks at home in NVMe: what pstar-plan says that they cost, and that pstar-run
 * moves exactly what they predict, with the losses of a run without NVMe. */
#include "tests/sanitized.h"
#include "workshop.h"

#include <string.h>

enum { STEPS = 3 };

#define SYNTH                                                                                 \
    "pstar-trace synth --model model/config.json --batch 2 --seq 16 --precision fp32 --host-" \
    "update -o run.pstar"
#define THOROUGH "pstar-plan run.pstar --device-memory 700KiB --recompute traced "
#define PLAN     THOROUGH "--time-limit 2 " /* where any plan will do */
#define RUN                                                                             \
    "pstar-run --model model/config.json --data text.txt --batch 2 --seq 16 --steps 3 " \
    "--threads 1 "

/* Fails unless the run's steps move what the plan predicts. */
static void check_bytes(const struct workshop *workshop, const char *log, const json_t *plan)
{
    static const char *const figures[] = {"nvme_read_bytes",  "nvme_write_bytes", "peak_nvme_bytes",
                                          "h2d_bytes",        "d2h_bytes",        "peak_host_bytes",
                                          "peak_device_bytes"};
    json_t *lines = workshop_read_json_lines(workshop, log), *line;
    const json_t *predicted = json_object_get(plan, "predicted");
    size_t index;
    int steps = 0;
    json_array_foreach (lines, index, line) {
        for (size_t f = 0; json_object_get(line, "step") && f < G_N_ELEMENTS(figures); f++)
            g_assert_cmpint(json_integer_value(json_object_get(line, figures[f])), ==,
                            json_integer_value(json_object_get(predicted, figures[f])));
        steps += json_object_get(line, "step") != NULL;
    }
    g_assert_cmpint(steps, ==, STEPS);
    json_decref(lines);
}

static void check_losses(const struct workshop *workshop, const char *left, const char *right)
{
    json_t *a = workshop_read_json_lines(workshop, left);
    json_t *b = workshop_read_json_lines(workshop, right);
    for (size_t i = 0; i < STEPS; i++)
        g_assert_cmpfloat(json_real_value(json_object_get(json_array_get(a, i), "loss")), ==,
                          json_real_value(json_object_get(json_array_get(b, i), "loss")));
    json_decref(a);
    json_decref(b);
}

/* A step takes at least as long as the certificate proves. Returns that. */
static json_int_t check_bound(const json_t *plan)
{
    const json_t *time = json_object_get(json_object_get(plan, "certificate"), "time");
    json_int_t bound = json_integer_value(json_object_get(time, "lower_bound_ns"));
    g_assert_cmpint(bound, >, 0);
    g_assert_cmpint(bound, <=, json_integer_value(json_object_get(time, "achieved_ns")));
    return bound;
}

/* A host that is too small alone. */
static void test_pays(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH);
    workshop_must_end(workshop, PLAN "--host-memory 1200KiB -o none.json", 3, "", "host memory");
    workshop_must_end(workshop, PLAN "--host-memory 1200KiB --nvme-memory 64MiB -o plan.json", 0,
                      "in NVMe  ", "no platform says what a disk gives (nvme): 2 GB/s are assumed");
    g_autofree char *said = workshop_must_print(
        workshop, PLAN "--host-memory 1200KiB --nvme-memory 64MiB -o plan.json");
    g_assert_nonnull(strstr(said, "in NVMe  "));
    g_assert_nonnull(strstr(said, " written a step"));
    g_assert_nonnull(strstr(said, "with enough host memory"));
    g_assert_nonnull(strstr(said, "the best plan without NVMe           none was found"));
    json_t *plan = workshop_read_json(workshop, "plan.json");
    g_assert_cmpint(json_integer_value(json_object_get(plan, "nvme_bytes")), >, 0);
    g_assert_cmpint(json_integer_value(json_object_get(plan, "host_bytes")), <=, 1200 << 10);
    g_autofree char *valid = workshop_must_print(workshop,
                                                 "pstar-plan --verify plan.json run.pstar");
    g_assert_nonnull(strstr(valid, "valid, and moves the bytes that it predicts"));
    g_assert_nonnull(strstr(valid, "  time: bound "));
    check_bound(plan);
    workshop_must_run(workshop, "pstar-plan --explain plan.json run.pstar");

    workshop_must_run(workshop, RUN "--plan plan.json --nvme . --log with.jsonl");
    workshop_must_run(workshop, RUN "--host-update --log without.jsonl");
    check_losses(workshop, "with.jsonl", "without.jsonl");
    check_bytes(workshop, "with.jsonl", plan);
    json_decref(plan);
    workshop_free(workshop);
}

/* Updates on the device, and a host with room for hardly more than what comes and goes. */
static void test_device_updates(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model/config.json --batch 2 --seq 16 "
                                "--precision bf16 -o run.pstar");
    workshop_must_run(workshop, PLAN "--host-memory 300KiB --nvme-memory 64MiB -o plan.json");
    json_t *plan = workshop_read_json(workshop, "plan.json");
    const json_t *predicted = json_object_get(plan, "predicted");
    g_assert_cmpint(json_integer_value(json_object_get(predicted, "nvme_read_bytes")), >, 0);
    g_assert_cmpint(json_integer_value(json_object_get(plan, "host_bytes")), <=, 300 << 10);
    check_bound(plan);
    workshop_must_run(workshop, RUN "--precision bf16 --plan plan.json --nvme . --log with.jsonl");
    workshop_must_run(workshop, RUN "--precision bf16 --log without.jsonl");
    check_losses(workshop, "with.jsonl", "without.jsonl");
    check_bytes(workshop, "with.jsonl", plan);
    json_decref(plan);
    workshop_free(workshop);
}

/* Writes machine.json, a node of two GPUs whose disk is best with blocks of so many bytes, 8 at a
 * time. */
static void write_machine(const struct workshop *workshop, double rate, int block)
{
    json_t *machine = json_load_file(PROJECT_DIR "/platforms/rtx-4090.json", 0, NULL);
    json_object_set_new(machine, "nvme",
                        json_pack("{s:s, s:[[i,i,f],[i,i,f]], s:[[i,i,f],[i,i,f]]}", "source",
                                  "a test", "read", 4096, 1, rate / 2, block, 8, rate, "write",
                                  4096, 1, rate / 2, block, 8, rate));
    json_object_set_new(machine, "node",
                        json_pack("{s:s, s:i, s:f, s:f}", "source", "a test", "gpus", 2,
                                  "bytes_per_second", 1e11, "latency_seconds", 1e-6));
    g_autofree char *text = json_dumps(machine, 0);
    json_decref(machine);
    workshop_write(workshop, "machine.json", text);
}

/* What came next has NVMe, too, but for the best plan without. */
static void test_runners_up(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH);
    write_machine(workshop, 1e10, 1 << 20);
    g_autofree char *said = workshop_must_print(
        workshop,
        THOROUGH "--host-memory 1500KiB --nvme-memory 64MiB --platform machine.json --top "
                 "all --json result.json -o plan.json");
    json_t *result = workshop_read_json(workshop, "result.json"), *rival;
    json_t *plan = workshop_read_json(workshop, "plan.json");
    g_assert_cmpint(
        json_integer_value(
            json_object_get(json_object_get(result, "predicted"), "nvme_read_bytes")),
        ==,
        json_integer_value(json_object_get(json_object_get(plan, "predicted"), "nvme_read_bytes")));
    double step = json_number_value(
        json_object_get(json_object_get(result, "predicted"), "iteration_seconds"));
    size_t i;
    g_assert_cmpuint(json_array_size(json_object_get(result, "runners_up")), >=, 2);
    json_array_foreach (json_object_get(result, "runners_up"), i, rival) {
        const char *what = json_string_value(json_object_get(rival, "what"));
        g_assert_nonnull(strstr(said, what));
        g_assert_cmpfloat(json_number_value(json_object_get(rival, "iteration_seconds")), >=, step);
    }
    json_decref(result);
    json_decref(plan);
    workshop_free(workshop);
}

/* A plan has the blocks with which its platform's disk is fastest, and a run takes them. */
static void test_blocks(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH);
    write_machine(workshop, 1e9, 12288);
    workshop_must_run(workshop, PLAN "--host-memory 1200KiB --nvme-memory 64MiB --platform "
                                     "machine.json -o plan.json");
    json_t *plan = workshop_read_json(workshop, "plan.json");
    g_assert_cmpint(json_integer_value(json_object_get(plan, "nvme_block_bytes")), ==, 12288);
    g_assert_cmpint(json_integer_value(json_object_get(plan, "nvme_depth")), ==, 8);
    g_autofree char *said = workshop_must_print(workshop, RUN "--plan plan.json --dry-run");
    g_assert_nonnull(strstr(said, "in blocks of 12 KiB, 8 at a time"));
    workshop_must_run(workshop, RUN "--plan plan.json --nvme . --log with.jsonl");
    write_machine(workshop, 1e9, 20480);
    g_autofree char *other = workshop_must_print(
        workshop, RUN "--plan plan.json --nvme . --platform machine.json --dry-run");
    g_assert_nonnull(strstr(other, "in blocks of 20 KiB, 8 at a time"));
    g_autofree char *usual = workshop_must_print(
        workshop, RUN "--host-update --chunk-size 8KiB --nvme-memory 64MiB --dry-run");
    g_assert_nonnull(strstr(usual, "in blocks of 1 MiB, 16 at a time"));
    workshop_must_run(workshop, RUN "--host-update --log without.jsonl");
    check_losses(workshop, "with.jsonl", "without.jsonl");
    check_bytes(workshop, "with.jsonl", plan);
    json_decref(plan);
    workshop_free(workshop);
}

/* Returns the first row of a sweep, which must fit. */
static json_t *simulate(const struct workshop *workshop, const char *options)
{
    g_autofree char *command = g_strconcat("pstar-sim run.pstar --platform machine.json "
                                           "--device-memory 900KiB --nvme-memory 64MiB --json "
                                           "sweep.json ",
                                           options, NULL);
    workshop_must_run(workshop, command);
    json_t *sweep = workshop_read_json(workshop, "sweep.json");
    json_t *row = json_incref(json_array_get(json_object_get(sweep, "results"), 0));
    g_assert_cmpint(json_integer_value(json_object_get(sweep, "nvme_memory_bytes")), ==, 64 << 20);
    g_assert_true(json_is_true(json_object_get(row, "fits")));
    json_decref(sweep);
    return json_pack("{s:o}", "predicted", row);
}

/* What pstar-sim says of a strategy is what its plan moves, in the sweep's platform's blocks. */
static void check_strategy(const struct workshop *workshop, const char *name, const char *host)
{
    g_autofree char *options = g_strdup_printf("--strategy %s --chunk-size 8KiB --emit-plan "
                                               "plan.json %s",
                                               name, host);
    json_t *simulated = simulate(workshop, options);
    json_t *plan = workshop_read_json(workshop, "plan.json");
    g_assert_cmpint(json_integer_value(json_object_get(plan, "nvme_bytes")), >, 0);
    g_assert_cmpint(json_integer_value(json_object_get(plan, "nvme_block_bytes")), ==, 12288);
    g_autofree char *valid = workshop_must_print(workshop,
                                                 "pstar-plan --verify plan.json run.pstar");
    g_assert_nonnull(strstr(valid, "valid, and moves the bytes that it predicts"));
    workshop_must_run(workshop, RUN "--plan plan.json --nvme . --log with.jsonl");
    check_bytes(workshop, "with.jsonl", simulated);
    check_losses(workshop, "with.jsonl", "without.jsonl");
    json_decref(plan);
    json_decref(simulated);
}

/* Activations that may leave the device never cost time where NVMe holds a part: a plan that leaves
 * them where they are is looked for, too. */
static void test_activations(void)
{
    static const char *const ways[] = {"", "--offload-activations traced"};
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "small.json",
                   "{\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_embd\": 64, \"n_head\": 2, "
                   "\"n_positions\": 64, \"vocab_size\": 256}");
    workshop_must_run(workshop,
                      "pstar-trace synth --model small.json --batch 64 --seq 64 --precision bf16 "
                      "--platform " PROJECT_DIR "/platforms/rtx-4090.json -o run.pstar");
    write_machine(workshop, 1e9, 1 << 20);
    double seconds[2];
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        workshop_must_run_format(workshop,
                                 "pstar-plan run.pstar --device-memory 13MiB --host-memory 1500KiB "
                                 "--nvme-memory 64MiB --platform machine.json -o plan.json %s",
                                 ways[i]);
        json_t *plan = workshop_read_json(workshop, "plan.json");
        const json_t *predicted = json_object_get(plan, "predicted");
        g_assert_cmpint(json_integer_value(json_object_get(predicted, "nvme_read_bytes")), >, 0);
        seconds[i] = json_number_value(json_object_get(predicted, "iteration_seconds"));
        json_decref(plan);
    }
    g_assert_cmpfloat(seconds[0], <=, seconds[1]);
    workshop_free(workshop);
}

/* What pstar-sim says of a policy is what pstar-run counts with the same options, and what it says
 * of a strategy is what the plan that it writes moves: with a host that is too small, where some
 * states live in NVMe, and with one that is unlimited, where all do. */
static void test_simulated(void)
{
    static const char *const hosts[] = {"--host-memory 1340KiB ", "--host-memory unlimited "};
    static const char *const names[] = {"zero-offload", "zero-infinity", "zero-infinity:1"};
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH);
    write_machine(workshop, 1e9, 12288);
    workshop_must_run(workshop, RUN "--host-update --log without.jsonl");
    for (size_t i = 0; i < G_N_ELEMENTS(hosts); i++) {
        g_autofree char *policy = g_strconcat("--policy opt --chunk-size 8KiB ", hosts[i], NULL);
        g_autofree char *run = g_strconcat(RUN "--host-update --device-memory 900KiB --nvme . "
                                               "--nvme-memory 64MiB --log with.jsonl --policy opt "
                                               "--chunk-size 8KiB ",
                                           i ? "" : hosts[i], NULL);
        json_t *simulated = simulate(workshop, policy);
        workshop_must_run(workshop, run);
        check_bytes(workshop, "with.jsonl", simulated);
        check_losses(workshop, "with.jsonl", "without.jsonl");
        json_decref(simulated);
        for (size_t n = 0; n < G_N_ELEMENTS(names); n++)
            check_strategy(workshop, names[n], hosts[i]);
    }
    workshop_free(workshop);
}

static void test_simulation_refused(void)
{
#define SIM "pstar-sim run.pstar --device-memory 900KiB --policy opt --chunk-size 8KiB "
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH);
    write_machine(workshop, 1e9, 1 << 20);
    workshop_must_end(workshop, SIM "--nvme-memory 64MiB", 0, "",
                      "no platform says what a disk gives (nvme): 2 GB/s are assumed");
    workshop_must_end(workshop, SIM "--nvme-memory 64MiB --platform a100-40gb", 0, "",
                      "the platform does not say what a disk gives (nvme): 2 GB/s are assumed");
    workshop_must_end(workshop, SIM "--nvme-memory 64MiB --platform machine.json --stages 2", 2, "",
                      "--nvme-memory: not with the stages of a pipeline");
    workshop_must_end(workshop,
                      SIM "--nvme-memory 64KiB --host-memory 1200KiB --platform "
                          "machine.json",
                      3, "", "NVMe: what the host has no room for takes");
    g_autofree char *all = workshop_must_print(
        workshop, SIM "--strategy all --nvme-memory 64MiB --platform machine.json --top all");
    g_assert_nonnull(strstr(all, "zero-infinity"));
    workshop_free(workshop);
#undef SIM
}

/* The report draws what the disk does when, and says that the device waits for it. What a plan has
 * there is said where the plan is explained, and beside settings of other systems. */
static void test_reported(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-trace synth --model model/config.json --batch 2 --seq 16 "
                                "--precision fp32 --host-update --platform rtx-4090 -o run.pstar");
    write_machine(workshop, 1e8, 12288);
    workshop_must_run(workshop, PLAN "--host-memory 1200KiB --nvme-memory 64MiB --platform "
                                     "machine.json -o plan.json --timeline step.json");
    workshop_must_end(workshop, "pstar-plan --explain plan.json run.pstar", 0, "  read from NVMe  ",
                      "");
    workshop_must_end(workshop, "pstar-plan --explain plan.json run.pstar --emit fsdp", 0,
                      " at home in NVMe: with the settings it is in host memory", "");
    workshop_must_end(workshop,
                      PLAN "--host-memory 1200KiB --nvme-memory 64MiB -o plan2.json --emit "
                           "deepspeed",
                      0, " at home in NVMe: with the settings it is in host memory", "");
    g_autofree char *text = workshop_must_print(
        workshop, "pstar-report run.pstar plan.json step.json --text -o report");
    g_assert_nonnull(strstr(text, "waits for NVMe "));
    g_assert_nonnull(strstr(text, " NVMe reads "));
    g_assert_nonnull(strstr(text, " NVMe writes "));
    workshop_must_end(workshop, "pstar-report run.pstar plan.json step.json --json -o report", 0,
                      "The device waits for reads from NVMe", "");

    /* Without a file in NVMe nothing is said of one. */
    workshop_must_run(workshop, "pstar-sim run.pstar --device-memory 900KiB --policy opt "
                                "--platform machine.json --timeline usual.json");
    g_autofree char *usual = workshop_must_print(workshop,
                                                 "pstar-report run.pstar usual.json --text");
    g_assert_null(strstr(usual, "NVMe"));
    workshop_free(workshop);
}

/* A slow disk costs time, which the bound knows where both memories are too small, and enough host
 * memory needs none. */
static void test_costs(void)
{
    struct workshop *workshop = workshop_new();
    double step[2];
    json_int_t bound[2];
    workshop_must_run(workshop, "pstar-trace synth --model model/config.json --batch 2 --seq 16 "
                                "--precision fp32 --host-update --platform " PROJECT_DIR
                                "/platforms/rtx-4090.json -o run.pstar");
    for (int slow = 0; slow < 2; slow++) {
        double rate = slow ? 1e8 : 1e10;
        write_machine(workshop, rate, 1 << 20);
        workshop_must_run(workshop, PLAN "--host-memory 400KiB --nvme-memory 64MiB --platform "
                                         "machine.json -o plan.json");
        json_t *plan = workshop_read_json(workshop, "plan.json");
        const json_t *predicted = json_object_get(plan, "predicted");
        double bytes = json_number_value(json_object_get(predicted, "nvme_read_bytes"));
        step[slow] = json_number_value(json_object_get(predicted, "iteration_seconds"));
        g_assert_cmpfloat(step[slow], >=, bytes / rate * 0.999);
        bound[slow] = check_bound(plan);
        json_decref(plan);
    }
    g_assert_cmpfloat(step[1], >, step[0]);
    g_assert_cmpint(bound[1], >, bound[0]);
    g_autofree char *said = workshop_must_print(
        workshop, THOROUGH "--host-memory 64MiB --nvme-memory 64MiB -o plan.json");
    g_assert_nonnull(strstr(said, "NVMe does not pay: the best plan without it takes"));
    workshop_free(workshop);
}

/* Runs the options on two ranks, whose losses are those of one process, and whose first moves what
 * is predicted. */
static void check_ranks(const struct workshop *workshop, const char *options, const json_t *plan)
{
    workshop_must_run_format(workshop,
                             "mpirun -n 2 --oversubscribe " RUN "%s --nvme . --log "
                             "with.jsonl",
                             options);
    check_losses(workshop, "with.jsonl", "without.jsonl");
    check_bytes(workshop, "with.jsonl", plan);
    g_assert_cmpint(
        json_integer_value(json_object_get(json_object_get(plan, "predicted"), "nvme_read_bytes")),
        >, 0);
}

/* What pstar-sim and pstar-plan say of one of two ranks is what both move. Budgets are a rank's in
 * both, and the host's of pstar-run, and the ranks share the disk's rate. */
static void test_ranks(void)
{
    static const char *const stages[] = {"--stage 2", "--stage 3"};
    enum { RATE = 100000000 };
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    if (!mpirun || !g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS)) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        return;
    }
    /* mpirun does not run for root unless asked twice. */
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH);
    write_machine(workshop, RATE, 12288);
    workshop_must_run(workshop, RUN "--micro-batches 2 --host-update --log without.jsonl");
    for (size_t i = 0; i < G_N_ELEMENTS(stages); i++) {
        g_autofree char *policy = g_strdup_printf(
            "--gpus 2 %s --policy opt --chunk-size 8KiB --host-memory 850KiB", stages[i]);
        g_autofree char *run = g_strdup_printf(
            "--host-update --device-memory 900KiB --nvme-memory 128MiB --host-memory 1700KiB "
            "--chunk-size 8KiB %s",
            stages[i]);
        json_t *simulated = simulate(workshop, policy);
        check_ranks(workshop, run, simulated);
        json_decref(simulated);
        workshop_must_run_format(workshop,
                                 PLAN "--host-memory 500KiB --nvme-memory 64MiB --gpus 2 %s "
                                      "--platform machine.json -o plan.json",
                                 stages[i]);
        json_t *plan = workshop_read_json(workshop, "plan.json");
        const json_t *predicted = json_object_get(plan, "predicted");
        double bytes = json_number_value(json_object_get(predicted, "nvme_read_bytes"));
        g_assert_cmpfloat(json_number_value(json_object_get(predicted, "iteration_seconds")), >=,
                          2 * bytes / RATE * 0.999);
        g_autofree char *valid = workshop_must_print(
            workshop, "pstar-plan --verify plan.json run.pstar --platform machine.json");
        g_assert_nonnull(strstr(valid, "valid, and moves the bytes that it predicts"));
        check_ranks(workshop, "--plan plan.json", plan);
        json_decref(plan);
    }
    workshop_free(workshop);
}

static void test_refused(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, SYNTH);
    workshop_must_end(workshop, PLAN "--nvme-memory 64MiB -o plan.json", 2, "",
                      "--nvme-memory: needs a size of --host-memory, below which NVMe is");
    workshop_must_end(workshop,
                      "pstar-plan run.pstar --device-memory 50KiB --host-memory 1MiB --nvme-memory "
                      "64MiB -o plan.json",
                      3, "", "with NVMe as if it were host memory: nothing fits: ");
    workshop_must_end(workshop,
                      PLAN "--nvme-memory 64MiB --host-memory 1MiB --objective traffic -o p.json",
                      2, "", "with --nvme-memory the fastest plan is sought, so far");
    workshop_must_end(workshop, PLAN "--nvme-memory 64MiB --host-memory 32KiB -o plan.json", 3, "",
                      "host memory: beside what can live in NVMe the run takes");
    workshop_must_end(workshop, "pstar-plan run.pstar --stages 2 --gpus 2 --nvme-memory 64MiB", 2,
                      "", "--nvme-memory: not with --stages");
    workshop_must_end(workshop, "pstar-plan run.pstar --sensitivity s.json --nvme-memory 64MiB", 2,
                      "", "--nvme-memory and --time-limit: of the questions only with");
    workshop_must_end(workshop, PLAN "--nvme-memory 64KiB --host-memory 1200KiB -o plan.json", 3,
                      "", "");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nvme-plans/pays", test_pays);
    g_test_add_func("/nvme-plans/device-updates", test_device_updates);
    g_test_add_func("/nvme-plans/runners-up", test_runners_up);
    g_test_add_func("/nvme-plans/blocks", test_blocks);
    if (UNLESS_SANITIZED(true, false)) /* two whole searches, whose code the others run */
        g_test_add_func("/nvme-plans/activations", test_activations);
    g_test_add_func("/nvme-plans/simulated", test_simulated);
    g_test_add_func("/nvme-plans/simulation-refused", test_simulation_refused);
    g_test_add_func("/nvme-plans/reported", test_reported);
    g_test_add_func("/nvme-plans/costs", test_costs);
    g_test_add_func("/nvme-plans/ranks", test_ranks);
    g_test_add_func("/nvme-plans/refused", test_refused);
    return g_test_run();
}
