/* Several ranks with chunks at home in NVMe, each in a file of its own: the same bits as
 * without and as one process, exactly the predicted bytes, checkpoints, plans, and disks that are
 * too small or fail. */
#include "launch.h"
#include "nvme_file.h"
#include "saved.h"
#include "tests/drawn.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS "--steps 3 --host-update "
#define NVME  "--nvme . --nvme-memory 64MiB "

static uint64_t bytes_of(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* What a step computes, without where: any number of ranks that divides 12 may share it. */
static char *draw_job(const struct run_folder *folder)
{
    g_autofree char *config = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": %s, \"n_head\": 2, "
        "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": %s, "
        "\"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}",
        g_test_rand_int_range(1, 3), PICK("32", "48"), PICK("true", "false"));
    run_folder_write(folder, "config.json", config);
    return g_strdup_printf(
        "--steps 3 --micro-batches 12 %s --clip %s %s %s --seed %d ", PICK("", "--host-update"),
        PICK("0", "1"), PICK("", "--precision bf16", "--precision bf16 --bytes-per-parameter 16"),
        PICK("", "", "--train '*.weight'"), g_test_rand_int_range(0, 1000));
}

/* Returns the number before the words in the text; 0 if they are not there. */
static uint64_t number_before(const char *text, const char *words)
{
    const char *end = strstr(text, words);
    while (end && g_ascii_isdigit(end[-1]))
        end--;
    return end ? g_ascii_strtoull(end, NULL, 10) : 0;
}

/* Returns the least that the option of a memory may say, which a refusal of too little says. What a
 * driver holds is refused first. */
static uint64_t least_memory(const struct run_folder *folder, uint32_t ranks, const char *options,
                             const char *memory)
{
    uint64_t tried = 32 << 10, held = 0, least = 0;
    for (int i = 0; i < 2 && !least; i++) {
        g_autofree char *err = NULL,
                        *all = g_strdup_printf("%s %s %" G_GUINT64_FORMAT "B --dry-run", options,
                                               memory, tried + held);
        g_assert_cmpint(launch_run(folder, ranks, all, NULL, &err), ==, 3);
        least = number_before(err, " bytes would fit");
        held = number_before(err, " bytes already");
    }
    g_assert_cmpuint(least, >, 0);
    return least;
}

/* Returns the job with a placement. Where the host updates nothing, the device is too small. */
static char *draw_placement(const struct run_folder *folder, uint32_t ranks, const char *job)
{
    g_autofree char *placed = g_strdup_printf(
        "%s%s %s --chunk-size %s --recompute %s ", job, PICK("--stage 2", "--stage 3"),
        PICK("", "--look-ahead 9"), PICK("4KiB", "8KiB", "20KiB"), PICK("none", "all"));
    if (strstr(job, "--host-update") && g_test_rand_bit())
        return g_steal_pointer(&placed);
    uint64_t least = least_memory(folder, ranks, placed, "--device-memory");
    return g_strdup_printf("%s--device-memory %" G_GUINT64_FORMAT "B ", placed,
                           least + (uint64_t)g_test_rand_int_range(0, 1 << 15));
}

/* Returns a budget of the host that is shared by the ranks: none, or between the least with which
 * everything can live in NVMe, and what it takes without NVMe. */
static char *draw_budget(const struct run_folder *folder, uint32_t ranks, const char *placed)
{
    if (strstr(placed, "--host-update") && g_test_rand_bit())
        return g_strdup(NVME);
    json_t *above = launch_look(folder, ranks, placed);
    uint64_t most = ranks * bytes_of(above, "peak_host_bytes");
    json_decref(above);
    uint64_t least = least_memory(folder, ranks, placed, NVME "--host-memory");
    double share = g_test_rand_double();
    uint64_t all = least + (uint64_t)(share * share * (double)(MAX(most, least) - least));
    return g_strdup_printf(NVME "--host-memory %" G_GUINT64_FORMAT "B ", all);
}

/* Every step moves what the plan says. The program itself compares the figures of all ranks. */
static void check_bytes(const struct run_folder *folder, const char *log, const json_t *dry)
{
    static const char *const keys[] = {"nvme_read_bytes", "nvme_write_bytes",  "peak_nvme_bytes",
                                       "peak_host_bytes", "peak_device_bytes", "h2d_bytes",
                                       "d2h_bytes",       "sent_bytes",        "received_bytes"};
    for (size_t k = 0; k < G_N_ELEMENTS(keys); k++) {
        if (!json_object_get(dry, keys[k])) /* nothing has to live in NVMe */
            continue;
        g_autoptr(GArray) values = run_folder_log(folder, log, keys[k]);
        for (guint i = 0; i < values->len; i++)
            g_assert_cmpfloat(g_array_index(values, double, i), ==,
                              json_number_value(json_object_get(dry, keys[k])));
    }
}

static void test_bits(struct run_folder *folder, gconstpointer unused)
{
    (void)unused;
    for (int i = 0; i < draws(1, 3); i++) {
        uint32_t ranks = (uint32_t)g_test_rand_int_range(2, 5);
        g_autofree char *job = draw_job(folder);
        g_autofree char *placed = draw_placement(folder, ranks, job);
        g_autofree char *budget = draw_budget(folder, ranks, placed);
        g_autofree char *with = g_strconcat(placed, budget, NULL);
        g_autofree char *one = g_strconcat(job, "--log one.jsonl --save one", NULL);
        g_autofree char *several = g_strconcat(with, "--log ranks.jsonl --save ranks", NULL);
        g_test_message("%u ranks: %s", ranks, several);
        json_t *dry = launch_look(folder, ranks, with);
        launch_must_run(folder, 1, one);
        launch_must_run(folder, ranks, several);
        run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "loss");
        run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "gradient_norm");
        saved_must_be_same(folder, "one", "ranks");
        check_bytes(folder, "ranks.jsonl", dry);
        json_decref(dry);
    }
}

/* Fast sums depend on the number of ranks, and not on NVMe, in any stage. */
static void test_fast(struct run_folder *folder, gconstpointer unused)
{
    (void)unused;
    for (int stage = 0; stage < 4; stage++) {
        if (!draws_row(1, 4))
            continue;
        g_autofree char *without = g_strdup_printf(
            STEPS "--micro-batches 3 --precision bf16 --reduction fast --stage %d --chunk-size "
                  "8KiB ",
            stage);
        g_autofree char *with = g_strconcat(without, NVME, NULL);
        g_autofree char *first = g_strconcat(without, "--log a.jsonl --save a", NULL);
        g_autofree char *second = g_strconcat(with, "--log b.jsonl --save b", NULL);
        json_t *dry = launch_look(folder, 3, with);
        g_assert_cmpuint(bytes_of(dry, "peak_nvme_bytes"), >, 0);
        launch_must_run(folder, 3, first);
        launch_must_run(folder, 3, second);
        run_folder_same_log(folder, "a.jsonl", "b.jsonl", "loss");
        saved_must_be_same(folder, "a", "b");
        check_bytes(folder, "b.jsonl", dry);
        json_decref(dry);
    }
}

/* Checkpoints hold what lies in NVMe, and go on with any number of ranks, with NVMe or without.
 * Evaluation does not disturb what lies there, nor do checkpoints that are written meanwhile. */
static void test_resume(struct run_folder *folder, gconstpointer unused)
{
#define JOB "--host-update --chunk-size 8KiB --schedule-steps 8 --micro-batches 12 "
    (void)unused;
    launch_must_run(folder, 1, JOB "--steps 8 --save whole");
    launch_must_run(folder, 2, JOB NVME "--steps 2 --save a --eval text.txt --eval-every 1");
    launch_must_run(folder, 3, JOB "--steps 4 --stage 3 --resume a --save b");
    launch_must_run(folder, 4, JOB NVME "--steps 6 --stage 3 --resume b --save c --save-every 1");
    launch_must_run(folder, 1, JOB NVME "--steps 8 --resume c --save d");
    launch_must_run(folder, 1, JOB "--steps 8 --resume c --save e");
    saved_must_be_same(folder, "whole", "d");
    saved_must_be_same(folder, "whole", "e");
#undef JOB
}

/* One plan serves all ranks, each of which has a file of the plan's size. */
static void test_plan(struct run_folder *folder, gconstpointer unused)
{
    g_autofree char *err = NULL;
    (void)unused;
    launch_must_run(folder, 2,
                    STEPS NVME "--chunk-size 8KiB --emit-plan plan.json --log one.jsonl");
    json_t *plan = run_folder_json(folder, "plan.json");
    json_t *predicted = json_object_get(plan, "predicted");
    g_assert_cmpuint(bytes_of(predicted, "nvme_read_bytes"), >, 0);
    launch_must_run(folder, 2, STEPS "--plan plan.json --nvme . --log ranks.jsonl");
    run_folder_same_log(folder, "one.jsonl", "ranks.jsonl", "loss");
    check_bytes(folder, "ranks.jsonl", predicted);
    g_assert_cmpint(launch_run(folder, 2, STEPS "--plan plan.json", NULL, &err), ==, 2);
    g_assert_cmpuint(launch_count_messages(err), ==, 1);
    run_folder_expect(err, "--nvme names the folder of their file");
    json_decref(plan);
}

/* The ranks of a host share its budget, each in equal parts. */
static void test_budget(struct run_folder *folder, gconstpointer unused)
{
    enum { RANKS = 3 };
    (void)unused;
#define JOB STEPS "--chunk-size 8KiB "
    json_t *all = launch_look(folder, RANKS, JOB NVME);
    uint64_t each = bytes_of(all, "peak_nvme_bytes");
    g_assert_cmpuint(each, >, 0);
    for (int less = 0; less < 2; less++) {
        g_autofree char *options = g_strdup_printf(
            JOB "--nvme . --nvme-memory %" G_GUINT64_FORMAT "B", RANKS * each - (uint64_t)less);
        json_t *dry = launch_look(folder, RANKS, options);
        if (less)
            g_assert_cmpuint(bytes_of(dry, "peak_nvme_bytes"), <, each);
        else
            g_assert_cmpuint(bytes_of(dry, "peak_nvme_bytes"), ==, each);
        json_decref(dry);
    }
    g_autofree char *text = NULL,
                    *size = g_strdup_printf("%" G_GUINT64_FORMAT, RANKS * each / 1024);
    g_assert_cmpint(launch_run(folder, RANKS, JOB NVME "--dry-run", &text, NULL), ==, 0);
    run_folder_expect(text, "NVMe of this host's ranks");
    run_folder_expect(text, size);
    json_decref(all);
#undef JOB
}

/* ---- disks that are too small, or fail ---- */

/* Returns the command of two ranks over the disk of disk_faults.c, of which the second runs
 * `before` in its shell first, and tells its process number in a file. While there is a file
 * "hold", the first does not end writing a checkpoint. Free with g_strfreev. */
static char **command_after(const char *before, const char *options)
{
    g_auto(GStrv) program = run_folder_command(options);
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all = g_strdup_printf(
        "mpirun -n 2 --oversubscribe sh -c 'test $OMPI_COMM_WORLD_RANK != 1 || { echo $$ >pid; %s; "
        "}; export LD_PRELOAD=" FAULTS_LIBRARY " PSTAR_TEST_HOLD=hold "
        "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0; exec %s'",
        before, line);
    char **command = NULL;
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    return command;
}

/* Returns the command of two ranks, of which the second sees so many free bytes on its disk. */
static char **command_on_disk(uint64_t free_bytes, const char *options)
{
    g_autofree char *disk = g_strdup_printf("export PSTAR_TEST_FREE=%" G_GUINT64_FORMAT,
                                            free_bytes);
    return command_after(disk, options);
}

/* The second rank cannot reserve its file; and both together need more than there is, although each
 * alone has room. Where there is just enough, or where the disk does not say, they train. */
static void test_too_small(struct run_folder *folder, gconstpointer unused)
{
    static const char job[] = STEPS "--chunk-size 8KiB --nvme . --nvme-memory 64MiB";
    json_t *dry = launch_look(folder, 2, job);
    uint64_t all = 2 * bytes_of(dry, "peak_nvme_bytes");
    (void)unused;
    json_decref(dry);
    g_auto(GStrv) full = command_after("export PSTAR_TEST_FULL=1", job);
    launch_refuse(folder, full, 3, "rank 1 on ");
    g_auto(GStrv) small = command_on_disk(all - 4096, job);
    launch_refuse(folder, small, 3, "the files of 2 ranks on this disk take");
    g_auto(GStrv) enough = command_on_disk(all, job), unknown = command_on_disk(0, job);
    g_assert_cmpint(run_folder_spawn(folder, enough, NULL, NULL, NULL, NULL), ==, 0);
    g_assert_cmpint(run_folder_spawn(folder, unknown, NULL, NULL, NULL, NULL), ==, 0);
}

static GPid spawn(const struct run_folder *folder, char **command, int *err)
{
    GPid child;
    g_assert_true(g_spawn_async_with_pipes(folder->path, command, NULL,
                                           G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_SEARCH_PATH |
                                               G_SPAWN_STDOUT_TO_DEV_NULL,
                                           NULL, NULL, &child, NULL, NULL, err, NULL));
    return child;
}

/* Leaves the end of the process to whoever waits for it. */
static bool is_running(GPid child)
{
    siginfo_t ended = {.si_pid = 0};
    g_assert_cmpint(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), ==, 0);
    return ended.si_pid == 0;
}

/* Returns the second rank's file in the folder; -1 if the ranks have ended, because the file system
 * has no files without names. */
static int await_file(const struct run_folder *folder, GPid child, const char *nvme)
{
    g_autofree char *path = run_folder_path(folder, "pid"), *pid = NULL;
    int file = -1;
    while (file < 0 && is_running(child)) {
        g_usleep(1000);
        g_clear_pointer(&pid, g_free);
        if (g_file_get_contents(path, &pid, NULL, NULL) && *pid)
            file = nvme_file_open(atoi(pid), nvme);
    }
    return file;
}

/* Waits for the ranks' end, which is one message of the second. Closes the file. */
static void expect_damage(GPid child, int err, int file)
{
    int status;
    g_autofree char *text = run_folder_await_end(child, err, &status);
    if (file < 0) {
        g_test_skip("the file system has no files without names");
        return;
    }
    close(file);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 1);
    g_assert_cmpuint(launch_count_messages(text), ==, 1);
    run_folder_expect(text, "rank 1 on ");
    run_folder_expect(text, "damaged: chunk ");
}

/* Somebody else writes into the second rank's file while the ranks train. */
static void test_damaged(struct run_folder *folder, gconstpointer unused)
{
    g_auto(GStrv)
        command = command_after("true", "--host-update --chunk-size 8KiB --steps 3000 " NVME);
    int err;
    GPid child = spawn(folder, command, &err);
    int file = await_file(folder, child, folder->path);
    (void)unused;
    while (file >= 0 && is_running(child) && nvme_file_damage(file))
        g_usleep(1000);
    expect_damage(child, err, file);
}

/* After the last step, while the first rank writes a checkpoint, it asks the second for what lies
 * in the second's file, which was damaged meanwhile: there is no checkpoint. The second rank, which
 * does not see the folder of the checkpoint, writes no part of it, and so reads nothing for itself.
 */
static void test_damaged_save(struct run_folder *folder, gconstpointer unused)
{
    static const char before[] = "cp config.json text.txt elsewhere && cd elsewhere";
    g_auto(GStrv) command = command_after(before, STEPS "--chunk-size 8KiB --save saved " NVME);
    g_autofree char *hold = run_folder_path(folder, "hold");
    g_autofree char *elsewhere = run_folder_path(folder, "elsewhere");
    int err;
    (void)unused;
    run_folder_write(folder, "hold", "");
    g_assert_cmpint(g_mkdir(elsewhere, 0777), ==, 0);
    GPid child = spawn(folder, command, &err);
    int file = await_file(folder, child, elsewhere);
    while (is_running(child) && !run_folder_has(folder, "saved/step-3.partial"))
        g_usleep(1000);
    g_assert_true(file < 0 || nvme_file_damage(file));
    unlink(hold);
    expect_damage(child, err, file);
    g_assert_false(run_folder_has(folder, "saved/checkpoint-0001-step-3"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!launch_prepare())
        return 77;
#define ADD(name, test)                                                               \
    g_test_add("/nvme-ranks/" name, struct run_folder, NULL, run_folder_set_up, test, \
               run_folder_tear_down)
    ADD("bits", test_bits);
    ADD("fast", test_fast);
    ADD("resume", test_resume);
    ADD("plan", test_plan);
    if (strcmp(TEST_DEVICE, "cuda") == 0)
        return g_test_run(); /* the rest is the same on every device */
    ADD("budget", test_budget);
    ADD("too-small", test_too_small);
    ADD("damaged", test_damaged);
    ADD("damaged-save", test_damaged_save);
#undef ADD
    return g_test_run();
}
