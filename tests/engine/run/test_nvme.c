/* Training with chunks at home in NVMe: the same bits as without, exactly the predicted
 * bytes, checkpoints, evaluation, what is refused, and a file that changes under the run. */
#include "nvme_file.h"
#include "run_folder.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIVE   "--host-update --steps 5 --schedule-steps 5 --threads 1 "
#define STATES FIVE "--chunk-size 8KiB "
#define NVME   STATES "--nvme . --nvme-memory 64MiB "

static void must_run(const struct run_folder *folder, const char *options)
{
    g_autofree char *err = NULL;
    if (run_folder_run(folder, options, NULL, &err) != 0)
        g_error("%s: %s", options, err);
}

static void must_end(const struct run_folder *folder, const char *options, int status,
                     const char *says)
{
    g_autofree char *err = NULL;
    g_assert_cmpint(run_folder_run(folder, options, NULL, &err), ==, status);
    run_folder_expect(err, says);
}

/* Every step moves what the plan says. */
static void check_bytes(const struct run_folder *folder, const char *log, const json_t *plan)
{
    static const char *const figures[] = {"nvme_read_bytes", "nvme_write_bytes", "peak_nvme_bytes",
                                          "peak_host_bytes", "h2d_bytes",        "d2h_bytes"};
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        const json_t *predicted = json_object_get(json_object_get(plan, "predicted"), figures[i]);
        if (!predicted) /* nothing of it moves in a step, and the log has no such figure */
            continue;
        g_autoptr(GArray) measured = run_folder_log(folder, log, figures[i]);
        g_assert_cmpuint(measured->len, ==, 5);
        for (guint s = 0; s < measured->len; s++)
            g_assert_cmpfloat(g_array_index(measured, double, s), ==, json_number_value(predicted));
    }
}

static uint64_t bytes_of(const json_t *plan, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(plan, key));
}

/* Writes a platform of a disk that is best with such blocks. */
static void write_machine(const struct run_folder *folder, int block, int depth)
{
    g_autofree char *path = g_build_filename(folder->path, "machine.json", NULL);
    json_t *machine = json_load_file(PROJECT_DIR "/platforms/rtx-4090.json", 0, NULL);
    json_object_set_new(machine, "nvme",
                        json_pack("{s:s, s:[[i,i,f],[i,i,f]], s:[[i,i,f],[i,i,f]]}", "source",
                                  "a test", "read", 4096, 2, 1e6, block, depth, 1e9, "write", 4096,
                                  2, 1e6, block, depth, 1e9));
    g_assert_cmpint(json_dump_file(machine, path, 0), ==, 0);
    json_decref(machine);
}

static void test_same_bits(struct run_folder *folder, gconstpointer unused)
{
    (void)unused;
    must_run(folder, STATES "--log without.jsonl --emit-plan without.json --save without");
    must_run(folder, NVME "--log with.jsonl --emit-plan with.json --save with");
    json_t *without = run_folder_json(folder, "without.json");
    json_t *with = run_folder_json(folder, "with.json");
    run_folder_same_log(folder, "without.jsonl", "with.jsonl", "loss");
    run_folder_same_log(folder, "without.jsonl", "with.jsonl", "gradient_norm");
    run_folder_same_file(folder, "without/model.safetensors", "with/model.safetensors");
    run_folder_same_file(folder, "without/optimizer.safetensors", "with/optimizer.safetensors");
    check_bytes(folder, "with.jsonl", with);
    g_assert_cmpuint(bytes_of(with, "nvme_bytes"), >, 0);
    g_assert_cmpuint(bytes_of(with, "host_bytes"), <, bytes_of(without, "host_bytes"));

    must_run(folder, FIVE "--nvme . --log file.jsonl --plan with.json");
    run_folder_same_log(folder, "without.jsonl", "file.jsonl", "loss");
    check_bytes(folder, "file.jsonl", with);
    json_decref(without);
    json_decref(with);
}

/* The host's budget is kept, and NVMe holds no more than it must, but for an eighth. */
static void test_budget(struct run_folder *folder, gconstpointer unused)
{
    (void)unused;
    must_run(folder, STATES "--log without.jsonl --emit-plan without.json");
    json_t *without = run_folder_json(folder, "without.json");
    uint64_t all = bytes_of(without, "host_bytes"), before = UINT64_MAX;
    for (uint64_t budget = all * 7 / 10; budget <= all; budget += all / 10) {
        g_autofree char *options =
            g_strdup_printf(NVME "--log with.jsonl --emit-plan with.json --host-memory "
                                 "%" G_GUINT64_FORMAT "B",
                            budget);
        must_run(folder, options);
        json_t *with = run_folder_json(folder, "with.json");
        g_assert_cmpuint(bytes_of(with, "host_bytes"), <=, budget);
        g_assert_cmpuint(bytes_of(with, "nvme_bytes"), <=,
                         before == UINT64_MAX ? before : before * 9 / 8);
        before = bytes_of(with, "nvme_bytes");
        if (before)
            check_bytes(folder, "with.jsonl", with);
        run_folder_same_log(folder, "without.jsonl", "with.jsonl", "loss");
        json_decref(with);
    }
    json_decref(without);
}

/* Returns the bytes that a refusal says would fit. */
static uint64_t would_fit(const char *text)
{
    const char *end = strstr(text, " bytes would fit");
    g_assert_nonnull(end);
    while (g_ascii_isdigit(end[-1]))
        end--;
    return g_ascii_strtoull(end, NULL, 10);
}

/* Whatever is updated where, everything on the host can live in NVMe, down to the least host
 * memory, which the refusal of less says. Checkpoints and evaluation find it there. */
static void test_lists(struct run_folder *folder, gconstpointer unused)
{
    GRand *random = g_rand_new_with_seed(g_test_rand_int());
    (void)unused;
    for (int i = 0; i < 6; i++) {
        if (!draws_row(UNLESS_SANITIZED(2, 1), 6))
            continue;
        static const char *const jobs[] = {"",
                                           "--recompute all ",
                                           "--micro-batches 3 ",
                                           "--precision bf16 --offload-activations all ",
                                           "--host-update --precision bf16 ",
                                           "--precision bf16 --micro-batches 2 --host-embedding "};
        g_autofree char *job = g_strdup_printf(
            "--steps 5 --schedule-steps 5 %s--device-memory %dKiB --chunk-size %dKiB "
            "--look-ahead %d --eval text.txt --eval-every %d ",
            jobs[i], g_rand_int_range(random, 350, 500), g_rand_int_range(random, 4, 20),
            g_rand_int_range(random, 0, 9), g_rand_int_range(random, 1, 6));
        g_autofree char *without = g_strconcat(job, "--log without.jsonl --save without", NULL);
        g_autofree char *little =
            g_strconcat(job, "--nvme . --nvme-memory 64MiB --host-memory 4KiB", NULL);
        g_autofree char *out = NULL, *err = NULL;
        g_test_message("%s", without);
        must_run(folder, without);
        g_assert_cmpint(run_folder_run(folder, little, &out, &err), ==, 3);
        g_autofree char *with = g_strdup_printf(
            "%s--nvme . --nvme-memory 64MiB --host-memory %" G_GUINT64_FORMAT
            "B --log with.jsonl --emit-plan with.json --save with",
            job, would_fit(err) + (uint64_t)g_rand_int_range(random, 0, i % 2 ? 1 : 100000));
        g_autofree char *resumed = g_strconcat(job, "--resume two --save resumed ", NULL);
        g_autofree char *two = g_strconcat(with, " --steps 2 --save two", NULL);
        must_run(folder, with);
        json_t *plan = run_folder_json(folder, "with.json");
        check_bytes(folder, "with.jsonl", plan);
        run_folder_same_log(folder, "without.jsonl", "with.jsonl", "loss");
        must_run(folder, two);
        must_run(folder, resumed);
        static const char *const saved[] = {"with", "resumed"};
        for (size_t s = 0; s < G_N_ELEMENTS(saved); s++) {
            g_autofree char *model = g_strconcat(saved[s], "/model.safetensors", NULL);
            g_autofree char *states = g_strconcat(saved[s], "/optimizer.safetensors", NULL);
            run_folder_same_file(folder, "without/model.safetensors", model);
            run_folder_same_file(folder, "without/optimizer.safetensors", states);
        }
        json_decref(plan);
    }
    g_rand_free(random);
}

/* Checkpoints hold what lies in NVMe, and evaluation does not disturb it. */
static void test_resume(struct run_folder *folder, gconstpointer unused)
{
    (void)unused;
    must_run(folder, STATES "--log whole.jsonl --save whole");
    must_run(folder, NVME "--steps 2 --save two --eval text.txt --eval-every 1");
    must_run(folder, NVME "--resume two --save with --log with.jsonl");
    must_run(folder, STATES "--resume two --save without");
    run_folder_same_file(folder, "whole/model.safetensors", "with/model.safetensors");
    run_folder_same_file(folder, "whole/optimizer.safetensors", "with/optimizer.safetensors");
    run_folder_same_file(folder, "whole/model.safetensors", "without/model.safetensors");
}

static void test_refused(struct run_folder *folder, gconstpointer unused)
{
    (void)unused;
    must_end(folder, STATES "--nvme-memory 64MiB", 2,
             "--nvme-memory 64MiB: needs --nvme, the folder of the file");
    must_end(folder, STATES "--nvme .", 2,
             "--nvme .: needs --nvme-memory, or a plan that uses NVMe");
    must_end(folder, STATES "--nvme nowhere --nvme-memory 64MiB", 2, "nowhere: cannot open it");
    must_end(folder, "--nvme . --nvme-memory 64MiB", 3,
             "it holds optimizer states that are updated on the host");
    must_end(folder, NVME "--nvme-memory 8KiB --host-memory 400KiB", 3,
             "NVMe: what the host has no room for takes ");
    must_end(folder, NVME "--host-memory 64KiB", 3, "host memory: ");
    write_machine(folder, 8192, 3);
    must_end(folder, STATES "--platform machine.json", 2, "is for the disk of --nvme, so far");
    must_end(folder, NVME "--platform " PROJECT_DIR "/platforms/a100-40gb.json", 2,
             "says nothing of a disk (nvme), which --probe --nvme measures");
    must_end(folder, "--probe --platform machine.json", 2, "not with --probe");
    must_run(folder, STATES "--nvme-memory 64MiB --dry-run");
    must_end(folder, STATES "--nvme nowhere --nvme-memory 64MiB --dry-run", 2,
             "--nvme nowhere: is not a folder");
    must_end(folder, STATES "--nvme /proc --nvme-memory 64MiB --dry-run", 2,
             "--nvme /proc: cannot open it");
    must_run(folder, NVME "--emit-plan with.json");
    must_end(folder, FIVE "--plan with.json", 2, "--nvme names the folder of their file");
    must_end(folder, FIVE "--nvme . --plan with.json --nvme-memory 8KiB", 3, "NVMe memory: ");
}

/* Neither the size of blocks nor their number changes what a run computes and moves. Most blocks do
 * not divide the chunks of 20 KiB, and some are larger. */
static void test_blocks(struct run_folder *folder, gconstpointer unused)
{
    static const char run[] = FIVE "--chunk-size 20KiB --nvme . --nvme-memory 64MiB --platform "
                                   "machine.json --log with.jsonl --emit-plan with.json";
    GRand *random = g_rand_new_with_seed(g_test_rand_int());
    (void)unused;
    must_run(folder, FIVE "--chunk-size 20KiB --log without.jsonl");
    for (int i = 0; i < 6; i++) {
        if (!draws_row(UNLESS_SANITIZED(2, 1), 6))
            continue;
        int block = 4096 * g_rand_int_range(random, 1, i % 2 ? 4 : 400);
        int depth = i == 0 ? 256 : g_rand_int_range(random, 1, 9);
        g_autofree char *out = NULL, *err = NULL;
        g_test_message("blocks of %d bytes, %d at a time", block, depth);
        write_machine(folder, block, depth);
        must_run(folder, run);
        json_t *with = run_folder_json(folder, "with.json");
        g_assert_cmpuint(bytes_of(with, "nvme_block_bytes"), ==, (uint64_t)block);
        g_assert_cmpuint(bytes_of(with, "nvme_depth"), ==, (uint64_t)depth);
        check_bytes(folder, "with.jsonl", with);
        run_folder_same_log(folder, "without.jsonl", "with.jsonl", "loss");
        json_decref(with);

        must_run(folder, FIVE "--nvme . --log file.jsonl --plan with.json");
        run_folder_same_log(folder, "without.jsonl", "file.jsonl", "loss");
        g_assert_cmpint(
            run_folder_run(folder, FIVE "--dry-run --json --plan with.json", &out, &err), ==, 0);
        json_t *dry = json_loads(out, 0, NULL);
        g_assert_cmpuint(bytes_of(dry, "nvme_block_bytes"), ==, (uint64_t)block);
        g_assert_cmpuint(bytes_of(dry, "nvme_depth"), ==, (uint64_t)depth);
        json_decref(dry);
    }
    g_rand_free(random);
}

/* Leaves the end of the process to whoever waits for it. */
static bool is_running(GPid child)
{
    siginfo_t ended = {.si_pid = 0};
    g_assert_cmpint(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), ==, 0);
    return ended.si_pid == 0;
}

/* Somebody else writes into the file while the run trains, for as long as it does. */
static void test_damaged(struct run_folder *folder, gconstpointer unused)
{
    g_auto(GStrv) command = run_folder_command(NVME "--steps 100000 --schedule-steps 100000");
    g_autoptr(GError) error = NULL;
    GPid child;
    int err, file, status;
    (void)unused;
    g_assert_true(g_spawn_async_with_pipes(folder->path, command, NULL,
                                           G_SPAWN_DO_NOT_REAP_CHILD | G_SPAWN_STDOUT_TO_DEV_NULL,
                                           NULL, NULL, &child, NULL, NULL, &err, &error));
    while ((file = nvme_file_open(child, folder->path)) < 0 && is_running(child))
        g_usleep(1000);
    if (file < 0) {
        kill(child, SIGKILL);
        g_free(run_folder_await_end(child, err, &status));
        g_test_skip("the file system has no files without names");
        return;
    }
    while (is_running(child) && nvme_file_damage(file))
        g_usleep(1000);
    close(file);
    g_autofree char *text = run_folder_await_end(child, err, &status);
    g_assert_true(WIFEXITED(status));
    g_assert_cmpint(WEXITSTATUS(status), ==, 1);
    run_folder_expect(text, "damaged: chunk ");
    run_folder_expect(text, "not as written");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#define ADD(name, test)                                                         \
    g_test_add("/nvme/" name, struct run_folder, NULL, run_folder_set_up, test, \
               run_folder_tear_down)
    ADD("same-bits", test_same_bits);
    ADD("budget", test_budget);
    ADD("lists", test_lists);
    ADD("blocks", test_blocks);
    ADD("resume", test_resume);
    ADD("refused", test_refused);
    ADD("damaged", test_damaged);
#undef ADD
    return g_test_run();
}
