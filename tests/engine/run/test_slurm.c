/* pstar-run under a real Slurm, whose nodes are network namespaces (tools/cluster --slurm):
 * whatever starts the ranks, they train with the bits of one process, and end together. */
#include "launch.h"
#include "saved.h"
#include "tests/drawn.h"

#include <signal.h>
#include <string.h>

#define CLUSTER PROJECT_DIR "/tools/cluster"
#define PAGE    PROJECT_DIR "/docs/ranks.md"
#define JOB     "--micro-batches 4 --clip 1 --steps 3 "

enum { SKIPPED = 77 };

/* ---- running ---- */

/* Runs a script of the shell beside two nodes that take two ranks each. PSTAR in the script is
 * pstar-run with a model and data. Returns the exit status. */
static int run(const struct run_folder *folder, const char *script, char **out, char **err)
{
    g_auto(GStrv) program = run_folder_command(JOB);
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all = g_strdup_printf("PSTAR='%s'\n%s\n", line, script);
    char *command[] = {(char *)CLUSTER, (char *)"--slurm", (char *)"--ranks", (char *)"2",
                       (char *)"--",    (char *)"sh",      (char *)"job.sh",  NULL};
    run_folder_write(folder, "job.sh", all);
    return run_folder_spawn(folder, command, NULL, NULL, out, err);
}

static void must_run(const struct run_folder *folder, const char *script, char **out)
{
    g_autofree char *err = NULL;
    int status = run(folder, script, out, &err);
    if (status != 0)
        g_error("%s: status %d: %s", script, status, err);
}

static void must_run_alone(const struct run_folder *folder, const char *options)
{
    g_autofree char *err = NULL;
    if (run_folder_run(folder, options, NULL, &err) != 0)
        g_error("%s: %s", options, err);
}

/* Returns whether there is Slurm, and it may run; says what is missing. */
static bool can_run(const struct run_folder *folder)
{
    g_autofree char *err = NULL;
    if (!launch_is_possible()) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        return false;
    }
    int status = run(folder,
                     "srun --mpi=list 2>&1 | grep -q pmix || "
                     "{ echo 'this Slurm has no PMIx' >&2; exit 77; }",
                     NULL, &err);
    if (status == SKIPPED)
        g_test_skip(err);
    else if (status != 0)
        g_error("status %d: %s", status, err);
    return status == 0;
}

/* ---- bits ---- */

static void test_bits(struct run_folder *folder, gconstpointer data)
{
    static const char *const logs[] = {"srun.jsonl", "crowded.jsonl", "salloc.jsonl",
                                       "sbatch.jsonl"};
    (void)data;
    if (!can_run(folder))
        return;
    must_run_alone(folder, JOB "--log one.jsonl --save one");
    run_folder_write(folder, "batch.sh", "#!/bin/sh\nmpirun $PSTAR --log sbatch.jsonl\n");
    must_run(folder,
             "set -e\nexport PSTAR\n"
             "srun --mpi=pmix -n 4 $PSTAR --stage 3 --look-ahead 2 --log srun.jsonl --save ranks\n"
             "srun --mpi=pmix -N 1 -n 4 --overcommit $PSTAR --host-update --log crowded.jsonl\n"
             "salloc -n 4 mpirun $PSTAR --log salloc.jsonl\n"
             "sbatch --wait -N 2 -n 2 batch.sh",
             NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(logs); i++) {
        run_folder_same_log(folder, "one.jsonl", logs[i], "loss");
        run_folder_same_log(folder, "one.jsonl", logs[i], "gradient_norm");
    }
    saved_must_be_same(folder, "one", "ranks");
}

/* Returns the text of the page between its mark and the end of the block. Free with g_free. */
static char *read_block(const char *mark)
{
    g_autofree char *text = NULL;
    g_assert_true(g_file_get_contents(PAGE, &text, NULL, NULL));
    const char *begin = strstr(text, mark);
    g_assert_nonnull(begin);
    begin += strlen(mark);
    return g_strndup(begin, (gsize)(strstr(begin, "```") - begin));
}

/* The batch script that the page prints, as it stands there, but that all have one thread: bits
 * depend on the number of threads, and that of a rank on the machine's cores. */
static void test_page(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *block = read_block("```slurm\n");
    g_auto(GStrv) parts = g_strsplit(block, "pstar-run ", 2);
    g_assert_cmpuint(g_strv_length(parts), ==, 2);
    g_autofree char *script = g_strjoinv("pstar-run --threads 1 ", parts);
    g_autofree char *alone = g_strconcat("sh -c '" PROGRAM_DIR "/", strstr(script, "pstar-run "),
                                         "mkdir one && mv run.jsonl saved one'", NULL);
    g_auto(GStrv) command = NULL;
    (void)data;
    if (!can_run(folder))
        return;
    run_folder_write(folder, "train.sh", script);
    g_assert_true(g_shell_parse_argv(alone, NULL, &command, NULL));
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, NULL), ==, 0);
    must_run(folder, "PATH=" PROGRAM_DIR ":$PATH sbatch --wait train.sh", NULL);
    run_folder_same_log(folder, "one/run.jsonl", "run.jsonl", "loss");
    saved_must_be_same(folder, "one/saved", "saved");
}

/* ---- nodes ---- */

/* The ranks of a node share its memory, as they do under mpirun. */
static void test_dry_run(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *out = NULL;
    (void)data;
    if (!can_run(folder))
        return;
    must_run(folder,
             "set -e\nlook='--dry-run --json --host-update --host-memory'\n"
             "srun --mpi=pmix -N 2 -n 4 $PSTAR $look 8MiB >srun.json\n"
             "salloc -N 2 -n 4 mpirun $PSTAR $look 8MiB >mpirun.json\n"
             "srun --mpi=pmix -N 2 -n 4 $PSTAR $look 100KiB 2>&1 || echo status $?",
             &out);
    run_folder_same_file(folder, "srun.json", "mpirun.json");
    run_folder_expect(out, "the budget is 50 KiB");
    run_folder_expect(out, "status 3");
    json_t *look = run_folder_json(folder, "srun.json");
    g_assert_cmpint(json_integer_value(json_object_get(look, "ranks")), ==, 4);
    json_decref(look);
}

/* ---- refusals ---- */

static void refuse(const struct run_folder *folder, const char *script, int status, const char *why)
{
    g_autofree char *err = NULL;
    g_assert_cmpint(run(folder, script, NULL, &err), ==, status);
    g_assert_cmpuint(launch_count_messages(err), ==, 1);
    run_folder_expect(err, why);
}

static void test_refusals(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    if (!can_run(folder))
        return;
    refuse(folder, "srun --mpi=none -n 4 $PSTAR", 2, "the launcher started 4 processes, but MPI");
    refuse(folder, "srun --mpi=pmi2 -n 2 $PSTAR", 2, "under Slurm with srun --mpi=pmix");
    refuse(folder, "PSTAR=\"$PSTAR\" srun --mpi=pmix -N 2 -n 2 sh -c '$PSTAR --seed $SLURM_PROCID'",
           2, "rank 1 on host2 was started with another run than rank 0 on host1: --seed: 1");
    refuse(folder, "srun --mpi=pmix -n 4 $PSTAR --device-memory 1KiB", 3, "would fit");
}

/* ---- ranks that die or hang, and jobs that are cancelled ---- */

/* Trains on both nodes until the command, in which $PID is rank 1's process on the second node.
 * Prints how long the job then went on. */
#define UNTIL(command)                                                                        \
    "srun --mpi=pmix -N 2 -n 2 sh -c 'echo $$ >pid.$SLURM_PROCID; exec '\"$PSTAR\"' --steps " \
    "1000000 --log run.jsonl --save saved' &\n"                                               \
    "until [ -s run.jsonl ]; do sleep 0.05; done\n"                                           \
    "PID=$(cat pid.1) SECONDS_BEFORE=$(date +%s.%N)\n" command "\n"                           \
    "wait $! && status=0 || status=$?\n"                                                      \
    "echo \"from $SECONDS_BEFORE to $(date +%s.%N)\"\n"                                       \
    "exit $status"

/* srun names a rank that is killed. What the other one says depends on the MPI. */
static void test_killed(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *err = NULL, *out = NULL;
    (void)data;
    if (!can_run(folder))
        return;
    g_assert_cmpint(run(folder, UNTIL("kill -KILL $PID"), &out, &err), !=, 0);
    g_test_message("%s", out);
    run_folder_expect(err, "host2: task 1: Killed");
    g_assert_false(run_folder_has(folder, "saved/trainer.json"));
}

static void test_stopped(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *err = NULL, *out = NULL;
    (void)data;
    if (!can_run(folder))
        return;
    g_assert_cmpint(run(folder, UNTIL("kill -STOP $PID"), &out, &err), ==, 1);
    g_test_message("%s", out);
    g_assert_cmpuint(launch_count_messages(err), ==, 1);
    run_folder_expect(err, "pstar-run: rank 1 on host2 has not answered for 7 seconds");
    g_assert_false(run_folder_has(folder, "saved/trainer.json"));
}

/* Rank 1, the only one of the second node, gets a signal before MPI starts. */
static void test_loss_at_start(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *err = NULL, *script = NULL;
    int number = GPOINTER_TO_INT(data);
    if (!can_run(folder))
        return;
    script = g_strdup_printf("export PSTAR\n"
                             "srun --mpi=pmix --kill-on-bad-exit -N 2 -n 2 sh -c '"
                             "[ $SLURM_PROCID != 1 ] || export LD_PRELOAD=" SIGNAL_LIBRARY
                             " SIGNAL_AT_START=%d ASAN_OPTIONS=verify_asan_link_order=0"
                             ":detect_leaks=0; exec $PSTAR --save saved'",
                             number);
    g_assert_cmpint(run(folder, script, NULL, &err), !=, 0);
    g_assert_cmpuint(launch_count_messages(err), ==, number == SIGSTOP);
    if (number == SIGSTOP)
        run_folder_expect(err, "pstar-run: rank 1 on host2 has not answered for 7 seconds");
    run_folder_expect(err, "host2: task 1: Killed");
    g_assert_false(run_folder_has(folder, "saved/trainer.json"));
}

/* Slurm sends this signal when a job is cancelled, and before its time is over. */
static void test_cancelled(struct run_folder *folder, gconstpointer data)
{
    g_autofree char *err = NULL;
    (void)data;
    if (!can_run(folder))
        return;
    g_assert_cmpint(run(folder, UNTIL("scancel --signal=TERM 1.0"), NULL, &err), ==, 0);
    g_assert_cmpuint(launch_count_messages(err), ==, 1);
    run_folder_expect(err, "; --resume saved goes on");
    must_run_alone(folder, "--resume saved --steps 100000000 --dry-run");
}

#define ADD(path, data, test) \
    g_test_add(path, struct run_folder, data, run_folder_set_up, test, run_folder_tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/slurm/bits", NULL, test_bits);
    ADD("/slurm/page", NULL, test_page);
    ADD("/slurm/dry-run", NULL, test_dry_run);
    ADD("/slurm/refusals", NULL, test_refusals);
    if (draws_row(2, 5))
        ADD("/slurm/killed", NULL, test_killed);
    if (draws_row(2, 5))
        ADD("/slurm/stopped", NULL, test_stopped);
    if (draws_row(2, 5))
        ADD("/slurm/killed-at-start", GINT_TO_POINTER(SIGKILL), test_loss_at_start);
    if (draws_row(2, 5))
        ADD("/slurm/stopped-at-start", GINT_TO_POINTER(SIGSTOP), test_loss_at_start);
    if (draws_row(2, 5))
        ADD("/slurm/cancelled", NULL, test_cancelled);
    return g_test_run();
}
