/* Ranks that were started with different options do not train, and the message names the option. */
#include "launch.h"
#include "tests/drawn.h"

#include <glib/gstdio.h>

#define JOB "--steps 3 --micro-batches 2 "

/* Returns the command line of two ranks that share options, with more at the end of the second's.
 * Free with g_strfreev. */
static char **two_ranks(const char *options, const char *more)
{
    g_autofree char *all = g_strconcat(JOB, options, NULL);
    g_auto(GStrv) program = run_folder_command(all);
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *both = g_strdup_printf("mpirun --oversubscribe -n 1 %s : -n 1 %s %s", line,
                                            line, more);
    char **command = NULL;
    g_assert_true(g_shell_parse_argv(both, NULL, &command, NULL));
    return command;
}

static void refuse_other(const struct run_folder *folder, const char *other, int status,
                         const char *why)
{
    g_auto(GStrv) command = two_ranks("", other);
    launch_refuse(folder, command, status, why);
}

/* Each of these options must be alike, and the message names it with both values. */
static const struct {
    const char *options, *why;
} differences[] = {
    {"--seed 7", "another run than rank 0"},
    {"--seed 7", ": --seed: 7, not 0\n"},
    {"--steps 4", ": --steps: 4, not 3\n"},
    {"--lr 0.5", ": --lr: 0.5, not 0.0006\n"},
    {"--schedule-steps 9", ": --schedule-steps: 9, not 3\n"},
    {"--warmup-steps 2", ": --warmup-steps: 2, not 3\n"},
    {"--clip 2", ": --clip: 2, not 1\n"},
    {"--data other.txt", ": --data: other.txt, not text.txt\n"},
    {"--eval other.txt", ": --eval: other.txt, not none\n"},
    {"--eval-every 2", ": --eval-every: 2, not 0\n"},
    {"--sample 5 --prompt a", ": --sample: 5, not 0\n"},
    {"--precision bf16", ": --precision: bf16, not fp32\n"},
    {"--batch 3", ": --batch: 3, not 2\n"},
    {"--micro-batches 4", ": --micro-batches: 4, not 2\n"},
    {"--chunk-size 4KiB", ": --chunk-size: 4KiB, not none\n"},
    {"--chunk-size param=4KiB,8KiB", ": --chunk-size: param=4KiB,8KiB, not none\n"},
    {"--device-memory 400KiB", ": --device-memory: 400KiB, not none\n"},
    {"--device-memory 400KiB --policy lru", ": --policy: lru, not none\n"},
    {"--stage 3", ": --stage: 3, not 2\n"},
    {"--stage 0 --reduction fast", ": --stage: 0, not 2\n"},
    {"--recompute 0", ": --recompute: 0, not none\n"},
    {"--offload-activations all", ": --offload-activations: all, not none\n"},
    {"--host-update", ": --host-update: yes, not no\n"},
    {"--train lora:2", ": --train: lora:2, not all\n"},
    {"--stages 2 --micro-batches 4", ": --stages: 2, not 1\n"},
};

/* An option that changes nothing here may differ. */
static void test_alike(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_auto(GStrv) command = two_ranks("", "--threads 2 --chunk-size 256KiB --policy lru");
    g_autofree char *err = NULL;
    if (run_folder_spawn(folder, command, NULL, NULL, NULL, &err) != 0)
        g_error("%s", err);
}

/* What a dry run says is of all ranks. */
static void test_dry_runs(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_auto(GStrv) command = two_ranks("--dry-run", "--stage 3");
    launch_refuse(folder, command, 2, ": --stage: 3, not 2\n");
    g_auto(GStrv) rates = two_ranks("--dry-run", "--lr 0.5");
    launch_refuse(folder, rates, 2, ": --lr: 0.5, not 0.0006\n");
    g_auto(GStrv) data_of_one = two_ranks("--dry-run", "--data missing.txt");
    launch_refuse(folder, data_of_one, 2, "rank 1 on ");
}

static void test_differences(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    run_folder_write(folder, "other.txt",
                     "This is another text, long enough for sequences of sixteen tokens.");
    for (size_t i = 0; i < G_N_ELEMENTS(differences); i++)
        if (draws_row(5, G_N_ELEMENTS(differences)))
            refuse_other(folder, differences[i].options, 2, differences[i].why);
    launch_must_run(folder, 2, JOB "--chunk-size 4KiB --emit-plan plan.json");
    refuse_other(folder, "--plan plan.json", 2, ": --plan: plan.json, not none\n");
    launch_must_run(folder, 1, "--steps 1 --save saved");
    refuse_other(folder, "--model saved", 2, ": --model: saved, not config.json\n");
    g_auto(GStrv) adapters = two_ranks("--train lora:2", "--lora-alpha 8");
    launch_refuse(folder, adapters, 2, ": --lora-alpha: 8, not 4\n");
    refuse_other(folder, "--data missing.txt", 2, "rank 1 on ");
    refuse_other(folder, "--dry-run", 2, "work: a dry run, not training");
    refuse_other(folder, "--probe", 2, "work: measurements, not training");
    refuse_other(folder, "--device-memory 1KiB", 3, "would fit");
    refuse_other(folder, "--speed 3", 2, "rank 1 on ");
    refuse_other(folder, "--steps many", 2, "rank 1 on ");
    refuse_other(folder, "--chunk-size many", 2, "rank 1 on ");
    refuse_other(folder, "--log missing/log.jsonl", 1, "rank 1 on ");
}

/* What the second rank finds at the same path is another model. Nothing of the structure tells. */
static void test_configs(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    static const char one[] = "{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_embd\": 32, "
                              "\"n_head\": 2, \"n_positions\": 32, \"vocab_size\": 256%s}";
    static const struct {
        const char *first, *second, *why;
    } pairs[] = {
        {", \"attn_pdrop\": 0", ", \"attn_pdrop\": 0.5",
         ": attn_pdrop of config.json: 0.5, not 0\n"},
        {"", ", \"layer_norm_epsilon\": 1e-3", ": layer_norm_epsilon of config.json: 0.001, not "},
        {", \"a\": 1, \"b\": [2, 3]", ", \"b\":[2,3],   \"a\": 1", NULL},
    };
    g_auto(GStrv) program = run_folder_command(JOB);
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *text = run_folder_path(folder, "text.txt");
    g_autofree char *both = g_strdup_printf("mpirun --oversubscribe -n 1 %s --data %s "
                                            ": -n 1 -wdir %s/other %s --data %s",
                                            line, text, folder->path, line, text);
    g_auto(GStrv) command = NULL;
    g_autofree char *other = run_folder_path(folder, "other");
    g_assert_true(g_shell_parse_argv(both, NULL, &command, NULL));
    g_assert_cmpint(g_mkdir(other, 0777), ==, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(pairs); i++) {
        g_autofree char *first = g_strdup_printf(one, pairs[i].first);
        g_autofree char *second = g_strdup_printf(one, pairs[i].second);
        run_folder_write(folder, "config.json", first);
        run_folder_write(folder, "other/config.json", second);
        if (pairs[i].why)
            launch_refuse(folder, command, 2, pairs[i].why);
        else
            g_assert_cmpint(run_folder_spawn(folder, command, NULL, NULL, NULL, NULL), ==, 0);
    }
}

/* Ranks 2 and 3 are the second stage. */
static void test_stages(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    g_auto(GStrv) program = run_folder_command("--steps 3 --micro-batches 4 --stages 2 --stage 3");
    g_auto(GStrv) command = NULL;
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *all = g_strdup_printf(
        "mpirun --oversubscribe -n 3 %s : -n 1 %s --device-memory 400KiB", line, line);
    g_assert_true(g_shell_parse_argv(all, NULL, &command, NULL));
    launch_refuse(folder, command, 2, "pstar-run: rank 2 on ");
    launch_refuse(folder, command, 2, ": --device-memory: 400KiB, not none\n");
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!launch_prepare())
        return 77;
#define ADD(name, test) \
    g_test_add(name, struct run_folder, NULL, run_folder_set_up, test, run_folder_tear_down)
    ADD("/ranks/differences", test_differences);
    ADD("/ranks/differences/none", test_alike);
    ADD("/ranks/differences/dry-run", test_dry_runs);
    ADD("/ranks/differences/configs", test_configs);
    ADD("/ranks/differences/stages", test_stages);
    return g_test_run();
}
