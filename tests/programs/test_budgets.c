/* The memories of a platform are the budgets of pstar-sim and pstar-plan unless others are given,
 * and whatever exceeds them is refused or named. */
#include "workshop.h"

#include <stdint.h>
#include <string.h>

#define A100 PROJECT_DIR "/platforms/a100-40gb.json"

enum { DONE = 0, USAGE = 2, DOES_NOT_FIT = 3 };

#define MIB (INT64_C(1) << 20)

/* An A100 with other memories: 24 MiB and 64 MiB, of which 8 MiB and 16 MiB are reserved. */
static void write_machine(const struct workshop *workshop, int ranks)
{
    json_t *machine = json_load_file(A100, 0, NULL);
    g_assert_nonnull(machine);
    json_object_set_new(machine, "device_bytes", json_integer(24 * MIB));
    json_object_set_new(machine, "host_bytes", json_integer(64 * MIB));
    json_object_set_new(machine, "reserved",
                        json_pack("{s:s, s:I, s:I}", "source", "this test", "device_bytes",
                                  (json_int_t)(8 * MIB), "host_bytes", (json_int_t)(16 * MIB)));
    if (ranks > 1)
        json_object_set_new(machine, "host",
                            json_pack("{s:s, s:f, s:i}", "source", "this test", "bytes_per_second",
                                      1e11, "ranks", ranks));
    g_autofree char *path = workshop_path(workshop, "machine.json");
    g_assert_cmpint(json_dump_file(machine, path, 0), ==, 0);
    json_decref(machine);
}

static struct workshop *open_workshop(void)
{
    struct workshop *workshop = workshop_new();
    write_machine(workshop, 1);
    workshop_must_run(workshop, "pstar-trace synth --model model --batch 2 --seq 32 --precision "
                                "fp32 --platform machine.json -o run.pstar");
    return workshop;
}

/* The device budget of the only row, and the host budget of the plan. */
static void expect_budgets(const struct workshop *workshop, json_int_t device, json_int_t host)
{
    json_t *plan = workshop_read_json(workshop, "plan.json");
    g_assert_cmpint(json_integer_value(json_object_get(plan, "device_budget_bytes")), ==, device);
    g_assert_cmpint(json_integer_value(json_object_get(plan, "host_budget_bytes")), ==, host);
    json_decref(plan);
}

static void test_defaults(void)
{
    struct workshop *workshop = open_workshop();
    static const char sim[] = "pstar-sim run.pstar --platform machine.json --policy opt "
                              "--chunk-size 64KiB --emit-plan plan.json";
    workshop_must_end(
        workshop, sim, DONE, "",
        "budget of device memory: 16 MiB. A100-SXM4-40GB has 24 MiB, less 8 MiB for the "
        "driver's context and libraries\n");
    expect_budgets(workshop, 16 * MIB, 48 * MIB);
    workshop_must_end(
        workshop, "pstar-plan run.pstar --platform machine.json -o plan.json", DONE, "",
        "budget of host memory: 48 MiB. A100-SXM4-40GB has 64 MiB, less 16 MiB for the "
        "system\n");
    expect_budgets(workshop, 16 * MIB, 48 * MIB);
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar");
    write_machine(workshop, 4);
    workshop_must_end(workshop, sim, DONE, "", "64 MiB, less 16 MiB for the system, for 4 ranks\n");
    expect_budgets(workshop, 16 * MIB, 12 * MIB);
    workshop_must_end(workshop, "pstar-sim run.pstar", USAGE, "",
                      "--device-memory or --platform is needed");
    workshop_free(workshop);
}

static void test_given(void)
{
    struct workshop *workshop = open_workshop();
    struct outcome outcome;
    workshop_must_end(
        workshop,
        "pstar-plan run.pstar --platform machine.json --device-memory 20MiB --host-memory "
        "50MiB -o plan.json",
        DONE, "",
        "--device-memory 20 MiB is more than the 16 MiB that A100-SXM4-40GB has for a step\n"
        "pstar-plan: --host-memory 50 MiB is more than the 48 MiB that A100-SXM4-40GB has for "
        "a step\n");
    expect_budgets(workshop, 20 * MIB, 50 * MIB);
    workshop_must_end(workshop,
                      "pstar-sim run.pstar --platform machine.json --device-memory 10MiB,90MiB "
                      "--host-memory unlimited --policy opt",
                      DONE, "", "--host-memory unlimited is more than the 48 MiB");
    outcome = workshop_run(workshop, "pstar-sim run.pstar --platform machine.json "
                                     "--device-memory 10MiB --host-memory 40MiB --policy opt");
    g_assert_cmpint(outcome.status, ==, DONE);
    g_assert_null(strstr(outcome.err, "memory"));
    outcome_clear(&outcome);
    workshop_free(workshop);
}

/* The states of 175 billion parameters take 2.2 TiB, and the node has 512 GiB. */
static void test_node(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop,
                      "pstar-trace synth --model " PROJECT_DIR
                      "/models/configs/patrickstar-175b.json --batch 1 --seq 1024 "
                      "--precision bf16 --recompute all --platform " A100 " -o 175b.pstar");
    workshop_must_end(workshop,
                      "pstar-sim 175b.pstar --platform " A100
                      " --chunk-size 1GiB --strategy zero-offload",
                      DOES_NOT_FIT, "", "budget of host memory: 496 GiB");
    workshop_must_end(workshop,
                      "pstar-sim 175b.pstar --platform " A100
                      " --chunk-size 1GiB --strategy fsdp-offload",
                      DOES_NOT_FIT, "", "nothing fits; host memory");
    workshop_must_end(workshop, "pstar-plan 175b.pstar --platform " A100 " -o plan.json",
                      DOES_NOT_FIT, "", "host memory");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/budgets/defaults", test_defaults);
    g_test_add_func("/budgets/given", test_given);
    g_test_add_func("/budgets/node", test_node);
    return g_test_run();
}
