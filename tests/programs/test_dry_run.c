/* pstar-run --dry-run: takes the whole command line of a run, says what is wrong with it as the run
 * would, and writes nothing but the plan that is asked for. */
#include "workshop.h"

#include <string.h>

#define DRY_RUN "pstar-run --model model --batch 2 --seq 32 --threads 1 --dry-run "
#define DATA    "--data text.txt "

static void expect(const struct workshop *workshop, const char *command, int status,
                   const char *out, const char *err)
{
    g_autofree char *before = workshop_listing(workshop);
    workshop_must_end(workshop, command, status, out, err);
    g_autofree char *after = workshop_listing(workshop);
    g_assert_cmpstr(after, ==, before);
}

/* What the run would refuse before its first step, as far as no memory is needed to know it. */
static void test_refused(void)
{
    static const struct {
        const char *options;
        int status;
        const char *why;
    } refused[] = {
        {"--data missing.txt", 2, "missing.txt: "},
        {"--data model", 2, "is a folder"},
        {DATA "--eval missing.txt", 2, "missing.txt: "},
        {DATA "--log nowhere/x", 1, "--log: nowhere/x: cannot be written"},
        {DATA "--emit-plan nowhere/x", 1, "--emit-plan: nowhere/x: cannot be written"},
        {DATA "--save model", 1, "--save: model: the directory is neither empty nor a checkpoint"},
        {DATA "--save text.txt/x", 1, "--save: text.txt/x: cannot be written"},
        {DATA "--save /dev/full/x --save-every 2", 1, "--save: /dev/full/x: "},
        {DATA "--train lora:2 --merge model", 2, "--merge model: the folder is not empty"},
        {DATA "--train lora:2 --adapters missing", 2, "missing/adapter_model.safetensors"},
        {DATA "--sample 2 --prompt ''", 2, "--prompt '': is empty"},
        {DATA "--host-update --nvme missing --nvme-memory 1MiB", 2, "--nvme missing: is not a"},
        {DATA "--host-update --nvme text.txt --nvme-memory 1MiB", 2, "--nvme text.txt: is not a"},
        {"--resume missing", 2, "missing"},
        {"--probe", 2, "--dry-run and --probe exclude each other"},
    };
    struct workshop *workshop = workshop_new();
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autofree char *command = g_strconcat(DRY_RUN, refused[i].options, NULL);
        expect(workshop, command, refused[i].status, "", refused[i].why);
    }
    workshop_free(workshop);
}

/* A command line that trains may have --dry-run at its end, and nothing is written, not even where
 * checkpoints are already. */
static void test_accepted(void)
{
    static const char *const accepted[] = {
        "",
        "--sample 3",
        DATA "--log run.jsonl --save saved/here --save-every 1 --keep 3 --sample 3 --prompt int",
        DATA "--eval text.txt --eval-every 1 --held-out 0.1 --lr 0.5 --seed 3",
        DATA "--train lora:2 --merge merged/here",
        DATA "--host-update --nvme model --nvme-memory 1MiB",
        "--resume done --steps 2 --save done",
    };
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-run --model model --batch 2 --seq 32 --threads 1 --steps 1 "
                                "--data text.txt --save done");
    workshop_write(workshop, "done/step-9.partial", "another run is writing it");
    for (size_t i = 0; i < G_N_ELEMENTS(accepted); i++) {
        g_autofree char *command = g_strconcat(DRY_RUN, accepted[i], NULL);
        expect(workshop, command, 0, "least that fits", "");
    }
    workshop_free(workshop);
}

/* What a resumed run would say is said before it. */
static void test_resumed(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, "pstar-run --model model --batch 2 --seq 32 --threads 1 --steps 2 "
                                "--data text.txt --save done");
    expect(workshop, DRY_RUN "--resume done --steps 2", 2, "", "has already done 2 steps");
    expect(workshop, DRY_RUN "--resume done --steps 3 --lr 0.5 --save done", 0, "least that fits",
           "0.5");
    expect(workshop, DRY_RUN "--resume done --steps 3", 0, "least that fits",
           "nothing will be saved");
    workshop_free(workshop);
}

static void test_plan(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run(workshop, DRY_RUN DATA "--log run.jsonl --emit-plan plan.json");
    workshop_must_run(workshop, "test -s plan.json -a ! -e run.jsonl");
    workshop_must_run(workshop, "pstar-run --model model --plan plan.json --dry-run");
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/dry-run/refused", test_refused);
    g_test_add_func("/dry-run/accepted", test_accepted);
    g_test_add_func("/dry-run/resumed", test_resumed);
    g_test_add_func("/dry-run/plan", test_plan);
    return g_test_run();
}
