/* Several ranks under mpirun train with the bits of one, whatever lies where, and end together. */
#include "launch.h"
#include "saved.h"
#include "tests/drawn.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS "--steps 3 "

/* All tensors; adapters; tensors here and there; and such that backward ends before the layers do.
 */
static const char *const choices[] = {"", "--train lora:3", "--train '*.bias,wte.*'",
                                      "--train 'h.*.mlp.c_fc.weight,*ln_1*'",
                                      "--train 'ln_f.*,*.mlp.c_proj.*'"};

/* What a step computes, without where: any number of ranks that divides 12 may share it. */
static char *draw_job(const struct run_folder *folder, const char *trained)
{
    g_autofree char *config = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": %s, \"n_head\": 2, "
        "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": %s, "
        "\"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}",
        g_test_rand_int_range(1, 3), PICK("32", "48", "80"), PICK("true", "false"));
    run_folder_write(folder, "config.json", config);
    launch_draw_mask(folder);
    return g_strdup_printf(
        "%s --micro-batches 12 --clip %s %s %s --seed %d ", STEPS, PICK("0", "1"),
        PICK("", "", "--precision bf16", "--precision bf16 --bytes-per-parameter 16"), trained,
        g_test_rand_int_range(0, 1000));
}

static char *draw_placement(void)
{
    return g_strdup_printf("%s %s %s %s %s --recompute %s %s ",
                           PICK("--stage 2", "--stage 3", "--stage 3"),
                           PICK("", "--look-ahead 2", "--look-ahead 9"), PICK("", "--host-update"),
                           PICK("", "--chunk-size 4KiB", "--chunk-size 16KiB"),
                           PICK("--policy opt", "--policy lru", "--policy fifo"),
                           PICK("none", "all", "0"), PICK("", "", "--offload-activations all"));
}

static json_int_t number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    g_assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* What the first rank moves, sends and receives is what its plan says. */
static void check_traffic(const struct run_folder *folder, const json_t *dry)
{
    const char *const keys[] = {"sent_bytes",  "received_bytes",    "gathers",
                                "h2d_bytes",   "d2h_bytes",         "h2d_copies",
                                "d2h_copies",  "evictions",         "moves",
                                "moved_bytes", "peak_device_bytes", "peak_host_bytes"};
    for (size_t k = 0; k < G_N_ELEMENTS(keys); k++) {
        if (!json_object_get(dry, keys[k])) /* there are no gathers */
            continue;
        GArray *values = run_folder_log(folder, "ranks.jsonl", keys[k]);
        for (guint i = 0; i < values->len; i++)
            g_assert_cmpfloat(g_array_index(values, double, i), ==,
                              json_number_value(json_object_get(dry, keys[k])));
        g_array_unref(values);
    }
}

/* Trains the job in one process, and on so many ranks with a drawn placement and a drawn part of
 * the memory that is useful. */
static void compare(const struct run_folder *folder, uint32_t ranks, const char *job)
{
    g_autofree char *placement = draw_placement();
    g_autofree char *placed = g_strconcat(job, placement, NULL);
    json_t *dry = launch_look(folder, ranks, placed);
    json_int_t least = number_of(dry, "least_device_bytes");
    json_int_t most = number_of(dry, "device_bytes"), held = number_of(dry, "library_bytes");
    g_autofree char *one = g_strconcat(job, "--log one.jsonl --save one", NULL);
    g_autofree char *fitted = g_strdup_printf(
        "%s --device-memory %lld ", placed,
        (long long)(held + least + (json_int_t)(g_test_rand_double() * (double)(most - least))));
    g_autofree char *several = g_strconcat(fitted, "--log ranks.jsonl --save ranks", NULL);
    json_decref(dry);
    dry = launch_look(folder, ranks, fitted);
    g_test_message("%u ranks: %s", ranks, several);
    launch_must_run(folder, 1, one);
    launch_must_run(folder, ranks, several);
    run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "loss");
    run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "gradient_norm");
    saved_must_be_same(folder, "one", "ranks");
    check_traffic(folder, dry);
    json_decref(dry);
}

/* Trains some tensors, `data`, or draws which. */
static void test_bits(struct run_folder *folder, gconstpointer data)
{
    const char *what = data;
    for (int i = 0; i < draws(1, 2); i++) {
        g_autofree char *job = draw_job(folder,
                                        what ? what : launch_pick(choices, G_N_ELEMENTS(choices)));
        compare(folder, (uint32_t)g_test_rand_int_range(2, 5), job);
    }
}

/* Routers choose other experts in every micro-batch, some of them none of a rank's rows. */
static void test_experts(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    const char *const trained = PICK("", "", "--train '*.experts.*'", "--train '*.mlp.gate.*'");
    g_autofree char *job = draw_job(folder, trained);
    launch_draw_experts(
        folder, 2, PICK("", ", \"output_router_logits\": true, \"router_aux_loss_coef\": 0.7"));
    compare(folder, (uint32_t)g_test_rand_int_range(2, 5), job);
}

/* Layers whose attention and MLP are parallel, trained in part. */
static void test_parallel(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    const char *const trained = PICK("--train lora:3", "--train '*.bias'", "--train '*.0.mlp.*'",
                                     "--train '*.1.*dense.*,*layernorm.weight'");
    g_autofree char *job = draw_job(folder, trained);
    g_autofree char *config =
        g_strdup_printf("{\"model_type\": %s, \"num_hidden_layers\": 2, \"hidden_size\": 48, "
                        "\"num_attention_heads\": 4, \"intermediate_size\": 96, "
                        "\"max_position_embeddings\": 32, \"vocab_size\": 256}",
                        PICK("\"phi\", \"resid_pdrop\": 0.1, \"num_key_value_heads\": 2",
                             "\"gpt_neox\", \"hidden_dropout\": 0.1, \"rotary_pct\": 0.5"));
    run_folder_write(folder, "config.json", config);
    compare(folder, (uint32_t)g_test_rand_int_range(2, 5), job);
}

/* Runs the job in a stage with fast sums, within a drawn part of the device's memory, and compares
 * its traffic with its plan. It leaves ranks.jsonl and the checkpoint `saved`. */
static void run_fast(struct run_folder *folder, uint32_t ranks, const char *job, uint32_t stage,
                     const char *saved)
{
    g_autofree char *placed = g_strdup_printf(
        "%s --reduction fast --stage %u %s %s --recompute %s ", job, stage,
        PICK("", "--host-update"), PICK("", "--chunk-size 16KiB"), PICK("none", "all"));
    json_t *dry = launch_look(folder, ranks, placed);
    json_int_t least = number_of(dry, "least_device_bytes");
    json_int_t most = number_of(dry, "device_bytes"), held = number_of(dry, "library_bytes");
    g_autofree char *fitted = g_strdup_printf(
        "%s --device-memory %lld ", placed,
        (long long)(held + least + (json_int_t)(g_test_rand_double() * (double)(most - least))));
    g_autofree char *several = g_strdup_printf("%s --log ranks.jsonl --save %s", fitted, saved);
    json_decref(dry);
    dry = launch_look(folder, ranks, fitted);
    g_test_message("%u ranks: %s", ranks, several);
    launch_must_run(folder, ranks, several);
    check_traffic(folder, dry);
    json_decref(dry);
}

/* Fast sums depend on the number of ranks, and on nothing else: all stages have the same bits,
 * unless several micro-batches are summed before they are exchanged (stages 0 and 1). Sums in fp32
 * of one micro-batch a rank are those of one process; tied weights are summed otherwise. */
static void test_fast(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    for (int i = 0; i < 3; i++) {
        if (!draws_row(1, 3))
            continue;
        uint32_t ranks = (uint32_t)g_test_rand_int_range(2, 5);
        uint32_t each = (uint32_t)g_test_rand_int_range(1, 3);
        bool bf16 = i != 0;
        g_autofree char *job = g_strdup_printf(
            STEPS "--micro-batches %u %s %s %s --seed %u ", ranks * each,
            PICK("--clip 0", "--clip 1"), bf16 ? "--precision bf16" : "--precision fp32",
            i == 1 ? "--train lora:3" : launch_pick(choices, G_N_ELEMENTS(choices)),
            g_test_rand_int_range(0, 1000));
        g_autofree char *one = g_strconcat(job, "--log first.jsonl --save first", NULL);
        run_folder_write(
            folder, "config.json",
            "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 48, \"n_head\": 2, "
            "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": false}");
        run_fast(folder, ranks, job, 0, "zero");
        for (uint32_t stage = 1; stage <= (each == 1 ? 3 : 1); stage++) {
            run_fast(folder, ranks, job, stage, "other");
            saved_must_be_same(folder, "zero", "other");
        }
        if (bf16 || each > 1)
            continue;
        launch_must_run(folder, 1, one);
        saved_must_be_same(folder, "first", "zero");
        run_folder_same_log(folder, "first.jsonl", "ranks.jsonl", "gradient_norm");
    }
}

/* Most tensors have fewer blocks than there are ranks, and most ranks no part of them. */
static void test_many_ranks(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    const char *const job = STEPS "--micro-batches 7 --clip 1 ";
    g_autofree char *one = g_strconcat(job, "--log one.jsonl --save one", NULL);
    g_autofree char *several =
        g_strconcat(job, "--stage 3 --chunk-size 4KiB --log ranks.jsonl --save ranks", NULL);
    run_folder_write(folder, "config.json",
                     "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_embd\": 8, \"n_head\": 2, "
                     "\"n_positions\": 16, \"vocab_size\": 256}");
    launch_must_run(folder, 1, one);
    launch_must_run(folder, 7, several);
    run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "loss");
    saved_must_be_same(folder, "one", "ranks");
}

static bool on_gpus(void)
{
    return strcmp(TEST_DEVICE, "cuda") == 0;
}

/* A GPU trains one rank. */
static void test_few_gpus(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *err = NULL;
    g_assert_cmpint(launch_run(folder, 5, STEPS "--micro-batches 5", NULL, &err), !=, 0);
    run_folder_expect(err, "5 ranks on this host need a GPU each, and it has 4");
}

/* A checkpoint goes on with any number of ranks. */
static void test_resume(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    launch_must_run(folder, 1, "--steps 6 --micro-batches 6 --precision bf16 --save one");
    launch_must_run(folder, 2,
                    "--steps 2 --schedule-steps 6 --micro-batches 6 --precision bf16 --save a");
    launch_must_run(folder, 3, "--steps 4 --resume a --save b --stage 3");
    launch_must_run(folder, 1, "--steps 6 --resume b --save c");
    saved_must_be_same(folder, "one", "c");
}

/* A checkpoint of fast sums goes on with the bits of a run that was not interrupted, on as many
 * ranks and in any stage. On another number of ranks it goes on as any checkpoint would there,
 * whatever the stages before and after; alone, or with exact sums, as one process. */
static void test_resume_fast(struct run_folder *folder, gconstpointer data)
{
    const char *precision = data;
    g_autofree char *job = g_strdup_printf("--schedule-steps 6 --micro-batches 4 --clip 1 %s ",
                                           precision);
#define FAST "--reduction fast --stage "
    static const struct {
        uint32_t ranks;
        const char *options, *saved;
        bool begins;
    } runs[] = {
        {4, FAST "0 --steps 6", "whole", true},
        {4, FAST "1 --steps 3", "half", true},
        {4, FAST "0 --steps 3", "other half", true},
        {4, FAST "3 --steps 6 --resume half", "resumed", false},
        {2, FAST "1 --steps 6 --resume half", "fewer", false},
        {2, FAST "0 --steps 6 --resume 'other half'", "also fewer", false},
        {4, "--stage 3 --steps 6 --resume half", "exact", false},
        {1, "--steps 6 --resume 'other half'", "alone", false},
    };
    static const char *const same[][2] = {
        {"half", "other half"}, {"whole", "resumed"}, {"fewer", "also fewer"}, {"exact", "alone"}};
    run_folder_write(folder, "config.json",
                     "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 48, \"n_head\": 2, "
                     "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": false}");
    for (size_t i = 0; i < G_N_ELEMENTS(runs); i++) {
        g_autofree char *options = g_strdup_printf("%s%s --save '%s'", runs[i].begins ? job : "",
                                                   runs[i].options, runs[i].saved);
        launch_must_run(folder, runs[i].ranks, options);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(same); i++)
        saved_must_be_same(folder, same[i][0], same[i][1]);
}

/* Evaluation and sampling, in which all ranks gather parameters. */
static void test_forward_passes(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    const char *const job = STEPS
        "--micro-batches 4 --held-out 0.2 --eval-every 1 --sample 9 --json "
        "--log one.jsonl";
    g_autofree char *several = g_strconcat(job, " --log ranks.jsonl --stage 3", NULL);
    g_autofree char *one_text = NULL, *text = NULL;
    g_assert_cmpint(launch_run(folder, 1, job, &one_text, NULL), ==, 0);
    g_assert_cmpint(launch_run(folder, 2, several, &text, NULL), ==, 0);
    run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "eval_loss");
    json_t *one = json_loads(one_text, 0, NULL), *other = json_loads(text, 0, NULL);
    g_assert_cmpuint(json_array_size(json_object_get(one, "sample")), >, 9);
    g_assert_true(json_equal(json_object_get(one, "sample"), json_object_get(other, "sample")));
    json_decref(one);
    json_decref(other);
}

/* A plan that one run wrote is another's, on as many ranks. */
static void test_plan(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *err = NULL;
    launch_must_run(folder, 2, STEPS "--chunk-size 8KiB --emit-plan plan.json --log one.jsonl");
    launch_must_run(folder, 2, STEPS "--plan plan.json --log ranks.jsonl");
    run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "loss");
    g_assert_cmpint(launch_run(folder, 1, STEPS "--plan plan.json", NULL, &err), ==, 2);
    run_folder_expect(err, "ranks");
}

static void test_refusals(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const struct {
        const char *options, *why;
        int status;
    } refused[] = {
        {STEPS "--speed 3", "Unknown option --speed", 2},
        {STEPS "--chunk-size many", "--chunk-size many", 2},
        {STEPS "--probe -o missing/machine.json", "missing", 1},
        {STEPS "--micro-batches 4", "a multiple of the number of ranks, 3", 2},
        {STEPS "--host-embedding", "with several ranks", 2},
        {STEPS "--device-memory 1KiB", "would fit", 3},
        {STEPS "--host-update --host-memory 1KiB", "would fit", 3},
        {STEPS "--micro-batches 3 --plan two.json", "two.json: the plan was made for another run",
         2},
        {STEPS "--lr 1e30 --clip 0", "training has diverged", 1},
        {STEPS "--save text.txt", "--save", 1},
        {STEPS "--log /dev/full", "/dev/full", 1},
        {STEPS "--stage 1", "needs --reduction fast", 2},
        {STEPS "--stage 0 --reduction fast --micro-batches 3 --precision bf16 "
               "--bytes-per-parameter 12",
         "keeps none", 2},
    };
    launch_must_run(folder, 2, STEPS "--emit-plan two.json");
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_auto(GStrv) command = launch_command(3, refused[i].options);
        launch_refuse(folder, command, refused[i].status, refused[i].why);
    }
}

/* What would fit is the budget of a host, which its ranks divide. */
static void test_divided_budget(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    enum { RANKS = 3 };
    g_autofree char *err = NULL;
    g_assert_cmpint(launch_run(folder, RANKS, STEPS "--host-update --host-memory 9KiB", NULL, &err),
                    ==, 3);
    run_folder_expect(err, "the budget is 3 KiB; ");
    run_folder_expect(err, ". The 3 ranks of this host divide --host-memory: what would fit is for "
                           "all of them, and the other figures are of one\n");
    const char *at = strstr(err, " bytes would fit");
    g_assert_nonnull(at);
    while (g_ascii_isdigit(at[-1]))
        at--;
    guint64 fits = g_ascii_strtoull(at, NULL, 10);
    g_autofree char *enough =
        g_strdup_printf(STEPS "--host-update --host-memory %" G_GUINT64_FORMAT "B", fits);
    g_autofree char *less =
        g_strdup_printf(STEPS "--host-update --host-memory %" G_GUINT64_FORMAT "B", fits - 1);
    launch_must_run(folder, RANKS, enough);
    g_assert_cmpint(launch_run(folder, RANKS, less, NULL, NULL), ==, 3);
}

/* Runs one process in an environment that a launcher has made. Returns what it says. */
static char *say_in(const struct run_folder *folder, const char *environment, int status)
{
    g_auto(GStrv) program = run_folder_command("--steps 1");
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all = g_strconcat("env ", environment, " ", line, NULL);
    g_auto(GStrv) command = NULL;
    char *err;
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, &err), ==, status);
    return err;
}

/* A launcher that MPI does not know starts processes that would each train alone. The first says
 * so. */
static void test_unknown_launchers(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const struct {
        const char *environment;
        int status;
        const char *why;
    } started[] = {
        {"PMI_SIZE=2 PMI_RANK=0", 2, "2 processes, but MPI cannot join them"},
        {"PMI_SIZE=2 PMI_RANK=1", 2, NULL},
        {"SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0", 2, "with srun --mpi=pmix"},
        {"SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=2", 2, NULL},
        {"SLURM_NTASKS=3 SLURM_PROCID=0", 0, "Slurm has 3 tasks for this job"},
        {"SLURM_NTASKS=3 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", 0, NULL},
        {"SLURM_NTASKS=3 OMPI_COMM_WORLD_SIZE=1", 0, NULL},
        {"SLURM_NTASKS=1", 0, NULL},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(started); i++) {
        g_autofree char *text = say_in(folder, started[i].environment, started[i].status);
        g_assert_cmpuint(launch_count_messages(text), ==, started[i].why != NULL);
        if (started[i].why)
            run_folder_expect(text, started[i].why);
        else
            g_assert_cmpstr(text, ==, "");
    }
}

/* ---- ranks that die or hang ---- */

/* Starts three ranks that tell their process numbers in files and save when they are stopped, and
 * waits until they train. */
static GPid start(const struct run_folder *folder, int *err)
{
    g_auto(GStrv) program = run_folder_command("--steps 1000000 --log log.jsonl "
                                               "--save saved");
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all = g_strdup_printf(
        "mpirun --oversubscribe -n 3 sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec %s'", line);
    g_auto(GStrv) command = NULL;
    GPid child;
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    g_assert_true(g_spawn_async_with_pipes(folder->path, command, NULL,
                                           G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH |
                                               G_SPAWN_STDOUT_TO_DEV_NULL,
                                           NULL, NULL, &child, NULL, NULL, err, NULL));
    g_autofree char *log = run_folder_path(folder, "log.jsonl"), *text = NULL;
    while (!g_file_get_contents(log, &text, NULL, NULL) || !strchr(text, '\n')) {
        g_assert_cmpint(waitpid(child, NULL, WNOHANG), ==, 0);
        g_clear_pointer(&text, g_free);
        g_usleep(10000);
    }
    return child;
}

/* Sends a rank a signal. */
static void send_signal(const struct run_folder *folder, const char *rank, int number)
{
    g_autofree char *name = g_strconcat("pid.", rank, NULL), *pid = NULL;
    g_autofree char *path = run_folder_path(folder, name);
    g_assert_true(g_file_get_contents(path, &pid, NULL, NULL));
    if (kill(atoi(pid), number) != 0)
        g_assert_cmpint(errno, ==, ESRCH);
}

/* Sends rank 1 a signal. Returns what all ranks printed until the end, and the status. */
static char *signal_rank(struct run_folder *folder, int number, int *status)
{
    int err;
    GPid child = start(folder, &err);
    send_signal(folder, "1", number);
    char *text = run_folder_await_end(child, err, status);
    g_assert_true(WIFEXITED(*status));
    return text;
}

static void test_loss_of_a_rank(struct run_folder *folder, gconstpointer data)
{
    int number = GPOINTER_TO_INT(data), status;
    g_autofree char *text = signal_rank(folder, number, &status);
    g_assert_cmpint(WEXITSTATUS(status), !=, 0);
    g_assert_false(run_folder_has(folder, "saved/trainer.json"));
    g_assert_cmpuint(launch_count_messages(text), ==, 1);
    run_folder_expect(text, "pstar-run: rank 1 on ");
    run_folder_expect(text, number == SIGSTOP ? "has not answered" : "has ended before the others");
}

/* Returns whether a rank has started and runs no more. A launcher that hangs may not have asked for
 * its status. */
static bool has_ended(const struct run_folder *folder, int rank)
{
    g_autofree char *name = g_strdup_printf("pid.%d", rank), *pid = NULL, *text = NULL;
    g_autofree char *path = run_folder_path(folder, name);
    if (!g_file_get_contents(path, &pid, NULL, NULL) || !strchr(pid, '\n'))
        return false;
    g_autofree char *stat = g_strdup_printf("/proc/%d/stat", atoi(pid));
    return !g_file_get_contents(stat, &text, NULL, NULL) || strstr(text, ") Z ");
}

/* Waits until the launcher ends. PMIx 4.2.2 uses freed memory where processes die in its fence, and
 * one of some dozens of mpirun then waits for itself without end: what counts is that its ranks
 * have ended. */
static void await_launcher(const struct run_folder *folder, GPid child)
{
    enum { TICK_US = 10000, MOST_TICKS = 500 };
    for (int ticks = 0; waitpid(child, NULL, WNOHANG) == 0; g_usleep(TICK_US)) {
        bool all = has_ended(folder, 0) && has_ended(folder, 1) && has_ended(folder, 2);
        ticks += all;
        if (ticks == MOST_TICKS)
            kill(child, SIGKILL);
    }
}

/* What the shell of a rank runs so that the rank gets a signal where MPI gives no signs of life
 * (signal_rank.c). */
#define SIGNAL(where_and_number)                                    \
    "export LD_PRELOAD=" SIGNAL_LIBRARY " SIGNAL_" where_and_number \
    " ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"

/* Trains three ranks, of which rank 1 runs `before` in its shell first. Returns what they printed,
 * to be freed with g_free; the launcher's words are not among it. */
static char *signal_where(const struct run_folder *folder, const char *before)
{
    g_auto(GStrv) program = run_folder_command(STEPS "--micro-batches 3 --save saved");
    g_autofree char *line = g_strjoinv(" ", program), *said = run_folder_path(folder, "said");
    g_autofree char *all =
        g_strdup_printf("mpirun --oversubscribe -n 3 sh -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; "
                        "[ $OMPI_COMM_WORLD_RANK != 1 ] || { %s; }; exec %s 2>>said'",
                        before, line);
    g_auto(GStrv) command = NULL;
    GPid child;
    char *text;
    gint64 start = g_get_monotonic_time();
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    g_assert_true(g_spawn_async(folder->path, command, NULL,
                                G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH |
                                    G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL,
                                NULL, NULL, &child, NULL));
    await_launcher(folder, child);
    g_test_message("%s: %.1f s", before, (double)(g_get_monotonic_time() - start) * 1e-6);
    g_assert_true(g_file_get_contents(said, &text, NULL, NULL));
    return text;
}

/* Fails the test unless the text is the one message that rank 1 hangs. On a busy machine rank 1 may
 * come to its end so late that others have waited for it long enough to say so, too. */
static void expect_hang(const char *text)
{
    uint32_t late = strstr(text, "another rank has not left for") ? 1 : 0;
    if (launch_count_messages(text) != 1 + late)
        g_error("not one message: %s", text);
    run_folder_expect(text, "pstar-run: rank 1 on ");
    run_folder_expect(text, "has not answered for 7 seconds: it hangs");
}

static void test_loss_at_start(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *stopped = signal_where(folder, SIGNAL("AT_START=19"));
    expect_hang(stopped);
    g_autofree char *killed = signal_where(folder, SIGNAL("AT_START=9"));
    g_assert_cmpstr(killed, ==, stopped); /* only the launcher says more */
    g_assert_false(run_folder_has(folder, "saved/trainer.json"));
}

/* Nobody watches the rank yet, but those beside it do. A stop that ends in time ends nothing. */
static void test_stop_before_watch(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *stopped = signal_where(folder, "kill -STOP $$");
    expect_hang(stopped);
    g_assert_false(run_folder_has(folder, "saved/trainer.json"));
    g_autofree char *paused = signal_where(folder, "(sleep 3; kill -CONT $$) & kill -STOP $$");
    /* On a busy machine there is also a line of the progress. */
    g_assert_cmpuint(launch_count_messages(paused), ==, launch_count_messages(stopped));
    g_assert_true(run_folder_has(folder, "saved/trainer.json"));
}

/* All have trained and saved. */
static void test_hang_at_end(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_autofree char *text = signal_where(folder, SIGNAL("AT_END=19"));
    expect_hang(text);
    launch_must_run(folder, 1, "--resume saved --steps 4");
}

/* A signal to one rank stops all after a step, and they save. */
static void test_signal(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    int status;
    g_autofree char *text = signal_rank(folder, SIGTERM, &status);
    g_assert_cmpint(WEXITSTATUS(status), ==, 0);
    g_assert_cmpuint(launch_count_messages(text), ==, 1);
    run_folder_expect(text, "; --resume saved goes on");
    launch_must_run(folder, 1, "--resume saved --steps 100000000 --dry-run");
}

/* A launcher's signal may come to one rank when the others' has already stopped all of them. */
static void test_late_signal(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    for (int i = 0; i < draws(1, 5); i++) {
        int err, status;
        GPid child = start(folder, &err);
        send_signal(folder, "0", SIGTERM);
        while (!run_folder_has(folder, "saved/trainer.json"))
            g_usleep(1000);
        g_usleep((gulong)g_test_rand_int_range(0, 50000));
        send_signal(folder, "1", SIGTERM);
        g_free(run_folder_await_end(child, err, &status));
        g_assert_true(WIFEXITED(status));
        g_assert_cmpint(WEXITSTATUS(status), ==, 0);
        run_folder_tear_down(folder, NULL);
        run_folder_set_up(folder, NULL);
    }
}

static void add(const char *path, const void *data,
                void (*test)(struct run_folder *folder, gconstpointer data))
{
    g_test_add(path, struct run_folder, data, run_folder_set_up, test, run_folder_tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!launch_prepare())
        return 77;
    add("/ranks/bits", "", test_bits);
    add("/ranks/bits-of-adapters", "--train lora:3", test_bits);
    add("/ranks/bits-of-some", NULL, test_bits);
    add("/ranks/fast", NULL, test_fast);
    add("/ranks/resume", NULL, test_resume);
    if (draws_row(1, 2))
        add("/ranks/resume-fast/fp32", "--precision fp32", test_resume_fast);
    if (draws_row(1, 2))
        add("/ranks/resume-fast/bf16", "--precision bf16", test_resume_fast);
    add("/ranks/forward", NULL, test_forward_passes);
    add("/ranks/killed", GINT_TO_POINTER(SIGKILL), test_loss_of_a_rank);
    if (on_gpus()) {
        add("/ranks/few-gpus", NULL, test_few_gpus);
        return g_test_run(); /* the rest is the same on every device */
    }
    add("/ranks/experts", NULL, test_experts);
    add("/ranks/parallel", NULL, test_parallel);
    add("/ranks/many", NULL, test_many_ranks);
    add("/ranks/plan", NULL, test_plan);
    add("/ranks/refusals", NULL, test_refusals);
    add("/ranks/divided-budget", NULL, test_divided_budget);
    add("/ranks/unknown-launchers", NULL, test_unknown_launchers);
    add("/ranks/signal", NULL, test_signal);
    add("/ranks/late-signal", NULL, test_late_signal);
    add("/ranks/loss-at-start", NULL, test_loss_at_start);
    add("/ranks/stop-before-watch", NULL, test_stop_before_watch);
    add("/ranks/hang-at-end", NULL, test_hang_at_end);
    add("/ranks/stopped", GINT_TO_POINTER(SIGSTOP), test_loss_of_a_rank);
    return g_test_run();
}
