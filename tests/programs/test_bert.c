/* BERT from its config to a plan, which no run carries out. */
#include "workshop.h"

#include <string.h>

#define PLATFORM "--platform " PROJECT_DIR "/platforms/a100-40gb.json "
#define SYNTH                                                                           \
    "pstar-trace synth --model bert.json --batch 2 --seq 64 --precision bf16 " PLATFORM \
    "-o run.pstar "
#define RUN     "pstar-run --model bert.json --data text.txt --seq 64 --steps 3 --batch 1 "
#define REFUSAL "bert.json: pstar-run trains decoders, not encoders such as bert, so far"

static struct workshop *open_workshop(void)
{
    struct workshop *workshop = workshop_new();
    workshop_write(workshop, "bert.json",
                   "{\"model_type\": \"bert\", \"num_hidden_layers\": 4, \"hidden_size\": 64,\n"
                   " \"num_attention_heads\": 4, \"intermediate_size\": 96, \"vocab_size\": 256,\n"
                   " \"max_position_embeddings\": 128}\n");
    return workshop;
}

/* Traces are simulated and planned, with choices that need their model to be recognised. */
static void test_planned(void)
{
    struct workshop *workshop = open_workshop();
    workshop_must_run(workshop, SYNTH);
    workshop_must_run(workshop, "pstar-sim run.pstar " PLATFORM
                                "--policy opt --strategy all --device-memory 4MiB");
    g_autofree char *said =
        workshop_must_print(workshop, "pstar-plan run.pstar " PLATFORM
                                      "--device-memory 3MiB --recompute any -o plan.json");
    g_assert_nonnull(strstr(said, "Proved for any schedule"));
    g_assert_null(strstr(said, "does not describe"));
    workshop_must_run(workshop, "pstar-plan --verify plan.json run.pstar " PLATFORM);
    workshop_must_run(workshop, "pstar-trace retime run.pstar --platform rtx-4090 -o there.pstar");
    workshop_must_end(workshop, RUN "--plan plan.json", 2, "", REFUSAL);
    workshop_free(workshop);
}

/* The front door, and pipelines whose first and last stages share the tied weights. Neither
 * proposes a run. */
static void test_front_door(void)
{
    struct workshop *workshop = open_workshop();
    g_autofree char *answer =
        workshop_must_print(workshop, "pstar-plan --model bert.json --batch 4 --seq 64 " PLATFORM);
    g_autofree char *pipeline = workshop_must_print(
        workshop, "pstar-plan --model bert.json --batch 1 --seq 64 --stages 2 --micro-batches 8 "
                  "--precision bf16 --gpus 2 " PLATFORM);
    g_assert_nonnull(strstr(answer, "bert 4x64, vocabulary 256"));
    g_assert_nonnull(strstr(answer, "pstar-run does not train such models"));
    g_assert_null(strstr(answer, "pstar-run --model"));
    g_assert_nonnull(strstr(pipeline, "pstar-run trains models that predict the next token"));
    g_assert_null(strstr(pipeline, "pstar-run --model"));
    workshop_free(workshop);
}

/* However it is asked for, a run ends with one line and the status of a model that is refused. */
static void test_refused(void)
{
    static const char *const ways[] = {"", "--policy opt --device-memory 4MiB",
                                       "--micro-batches 2 --delay 1", "--dry-run",
                                       "--train lora:2"};
    struct workshop *workshop = open_workshop();
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        g_autofree char *run = g_strconcat(RUN, ways[i], NULL);
        workshop_must_end(workshop, run, 2, "", REFUSAL);
    }
    workshop_free(workshop);
}

/* The same of ranks and of stages. */
static void test_refused_together(void)
{
    static const char *const ways[] = {"--micro-batches 2", "--stages 2 --micro-batches 2"};
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    struct workshop *workshop = open_workshop();
    bool ok = mpirun && g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS);
    if (!ok)
        g_test_skip("there is no mpirun, or the build has no MPI");
    for (size_t i = 0; ok && i < G_N_ELEMENTS(ways); i++) {
        g_autofree char *run = g_strconcat("mpirun -n 2 --oversubscribe " RUN, ways[i], NULL);
        workshop_must_end(workshop, run, 2, "", REFUSAL);
    }
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    /* mpirun does not run for root unless asked twice; the tests run in containers as root. */
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_test_add_func("/bert/planned", test_planned);
    g_test_add_func("/bert/front-door", test_front_door);
    g_test_add_func("/bert/refused", test_refused);
    g_test_add_func("/bert/refused-together", test_refused_together);
    return g_test_run();
}
