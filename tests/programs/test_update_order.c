/* Traces whose updates are not in the order of their tensors, as imports may have them: the plans
 * of pstar-plan and of pstar-sim verify. */
#include "tests/chunks/random_iteration.h"
#include "traces/trace_file.h"
#include "workshop.h"

#define PLATFORM "--platform " PROJECT_DIR "/platforms/cpu-2core.json "
#define LINK     "--link h2d=200MB/s,d2h=100MB/s "
#define SYNTH    "pstar-trace synth --model model --batch 2 --seq 32 --precision bf16 -o run.pstar "

static const struct {
    const char *step, *machine;
} jobs[] = {
    {"--host-update ", LINK}, {"--host-update ", PLATFORM LINK}, {"", LINK}, {"", PLATFORM LINK}};

static void reorder(const struct workshop *workshop, GRand *random)
{
    GError *error = NULL;
    g_autofree char *path = workshop_path(workshop, "run.pstar");
    struct trace *trace = trace_read(path, &error);
    g_assert_no_error(error);
    shuffle_updates(trace, random);
    trace_write(trace, path, &error);
    g_assert_no_error(error);
    trace_free(trace);
}

/* Plans for the trace, and emits plans of a policy and of strategies. All must verify. */
static void check(const struct workshop *workshop, const char *machine)
{
    static const char *const simulated[] = {"--policy opt", "--strategy zero-offload",
                                            "--strategy interleave:2"};
    workshop_must_run_format(
        workshop, "pstar-plan run.pstar --device-memory 30%% --chunk-size 64KiB %s -o plan.json",
        machine);
    workshop_must_run_format(workshop, "pstar-plan --verify plan.json run.pstar");
    for (size_t i = 0; i < G_N_ELEMENTS(simulated); i++) {
        workshop_must_run_format(workshop,
                                 "pstar-sim run.pstar --device-memory 90%% %s --chunk-size 64KiB "
                                 "%s --emit-plan swept.json",
                                 simulated[i], machine);
        workshop_must_run_format(workshop, "pstar-plan --verify swept.json run.pstar %s", machine);
    }
}

static void test_any_order(void)
{
    g_autoptr(GRand) random = g_rand_new_with_seed(random_seed());
    struct workshop *workshop = workshop_new();
    for (size_t i = 0; i < G_N_ELEMENTS(jobs); i++)
        for (int shuffled = 0; shuffled < 2; shuffled++) {
            workshop_must_run_format(workshop, SYNTH "%s%s", jobs[i].step, i % 2 ? PLATFORM : "");
            reorder(workshop, shuffled ? random : NULL);
            check(workshop, jobs[i].machine);
        }
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/update_order/any_order", test_any_order);
    return g_test_run();
}
