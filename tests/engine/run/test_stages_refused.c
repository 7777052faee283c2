/* The stages of a pipeline under mpirun that are refused: one message says why, and of memory what
 * would fit all of them. */
#include "launch.h"
#include "tests/drawn.h"
#include "tests/sanitized.h"

#include <string.h>

#define STEPS "--steps 3 "

enum { LAYERS = 4 };

static void write_model(const struct run_folder *folder, const char *tied)
{
    g_autofree char *config = g_strdup_printf(
        "{\"model_type\": \"gpt2\", \"n_layer\": %d, \"n_embd\": %s, \"n_head\": 2, "
        "\"n_positions\": 32, \"vocab_size\": 256, \"tie_word_embeddings\": %s}",
        LAYERS, PICK("32", "48", "80"), tied);
    run_folder_write(folder, "config.json", config);
}

/* ---- what would fit ---- */

/* A budget, and how a refusal that is about it names it. */
struct budget {
    const char *option, *named;
    uint64_t bytes; /* 0: not given */
};

enum { BUDGETS = 3 };

/* Draws budgets of which no stage has enough. */
static void draw_budgets(const char *update, struct budget budgets[BUDGETS])
{
    static const struct budget all[BUDGETS] = {
        {"--device-memory", "device memory: ", 0},
        {"--host-memory", "host memory: ", 0},
        {"--nvme-memory", "NVMe: ", 0},
    };
    memcpy(budgets, all, sizeof all);
    budgets[0].bytes = (uint64_t)g_test_rand_int_range(1, 20000);
    budgets[1].bytes = g_test_rand_bit() ? (uint64_t)g_test_rand_int_range(1, 20000) : 0;
    budgets[2].bytes = strstr(update, "--nvme") ? (uint64_t)g_test_rand_int_range(1, 2000) : 0;
}

static char *with_budgets(const char *options, const struct budget budgets[BUDGETS])
{
    GString *text = g_string_new(options);
    for (int b = 0; b < BUDGETS; b++)
        if (budgets[b].bytes)
            g_string_append_printf(text, " %s %" G_GUINT64_FORMAT "B", budgets[b].option,
                                   budgets[b].bytes);
    return g_string_free(text, FALSE);
}

/* Returns the one budget that the refusal is about, and what it says would fit. */
static int read_refusal(const char *err, const struct budget budgets[BUDGETS], uint64_t *fits)
{
    int about = -1;
    const char *at = strstr(err, " bytes would fit");
    g_assert_cmpuint(launch_count_messages(err), ==, 1);
    g_assert_nonnull(at);
    while (g_ascii_isdigit(at[-1]))
        at--;
    *fits = g_ascii_strtoull(at, NULL, 10);
    for (int b = 0; b < BUDGETS; b++)
        if (strstr(err, budgets[b].named)) {
            g_assert_cmpint(about, ==, -1);
            about = b;
        }
    g_assert_cmpint(about, >=, 0);
    return about;
}

/* Returns the line of the message, which the launcher's lines follow; NULL if there is none. Free
 * with g_free. */
static char *message_of(const char *err)
{
    const char *begin = strstr(err, "pstar-run: ");
    return begin ? g_strndup(begin, strcspn(begin, "\n")) : NULL;
}

/* Gives the options what their refusals say until the stages fit. No budget is short twice in turn,
 * and a dry run says the same as a run. */
static void raise_budgets(const struct run_folder *folder, uint32_t processes, const char *options,
                          struct budget budgets[BUDGETS])
{
    enum { MOST_ROUNDS = 12 };
    int raised = -1;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        g_autofree char *given = with_budgets(options, budgets), *err = NULL, *other = NULL;
        g_autofree char *dry = g_strconcat(given, " --dry-run", NULL);
        uint64_t fits;
        g_test_message("%u processes: %s", processes, given);
        int status = launch_run(folder, processes, dry, NULL, &err);
        if (status == 0 || round == 0) {
            g_assert_cmpint(launch_run(folder, processes, given, NULL, &other), ==, status);
            g_autofree char *said = message_of(err), *said_otherwise = message_of(other);
            g_assert_cmpstr(said, ==, said_otherwise);
        }
        if (status == 0)
            return;
        g_assert_cmpint(status, ==, 3);
        int about = read_refusal(err, budgets, &fits);
        g_assert_cmpint(about, !=, raised);
        g_assert_cmpuint(fits, >, budgets[about].bytes);
        budgets[about].bytes = fits;
        raised = about;
    }
    g_error("%s: not enough after %d refusals", options, MOST_ROUNDS);
}

/* What a refusal says would fit is for all stages and ranks, whatever each of them needs. Of a
 * device's memory nothing less fits. */
static void test_fits(struct run_folder *folder, gconstpointer data)
{
    for (int i = 0; i < draws(1, 8); i++) {
        struct budget budgets[BUDGETS];
        uint32_t width = (uint32_t)g_test_rand_int_range(1, 3);
        uint32_t stages = (uint32_t)g_test_rand_int_range(2, width > 1 ? 3 : LAYERS + 1);
        const char *update = PICK("", "--host-update", "--host-update --nvme .");
        g_autofree char *layers = launch_draw_layers(LAYERS, stages);
        g_autofree char *options =
            g_strdup_printf("--steps 1 --micro-batches %u %s %s %s --recompute %s --chunk-size %s",
                            stages * width, layers, update, PICK("", "--precision bf16"),
                            PICK("none", "0,2"), PICK("4KiB", "16KiB", "64KiB"));
        write_model(folder, data);
        draw_budgets(update, budgets);
        raise_budgets(folder, stages * width, options, budgets);
        if (budgets[1].bytes || budgets[2].bytes)
            continue;
        budgets[0].bytes--;
        g_autofree char *less = with_budgets(options, budgets), *err = NULL;
        uint64_t fits;
        g_assert_cmpint(launch_run(folder, stages * width, less, NULL, &err), ==, 3);
        g_assert_cmpint(read_refusal(err, budgets, &fits), ==, 0);
        g_assert_cmpuint(fits, ==, budgets[0].bytes + 1);
    }
}

/* A refusal names the stage that needs the most, with several ranks a stage, too. */
static void test_which(struct run_folder *folder, gconstpointer data)
{
    static const char *const layers[] = {"3,1", "1,3"};
    write_model(folder, data);
    for (uint32_t stage = 0; stage < G_N_ELEMENTS(layers); stage++) {
        uint32_t processes = g_test_rand_bit() ? 2 : 4;
        g_autofree char *options = g_strdup_printf(
            "--schedule gpipe --stage-layers %s --micro-batches 16 --device-memory 20000B",
            layers[stage]);
        g_autofree char *err = NULL, *named = g_strdup_printf("stage %u of 2: device "
                                                              "memory: ",
                                                              stage);
        g_assert_cmpint(launch_run(folder, processes, options, NULL, &err), ==, 3);
        g_assert_cmpuint(launch_count_messages(err), ==, 1);
        run_folder_expect(err, named);
    }
}

/* Gives each of two stages the other's plan, as swapped-%s.json. */
static void swap_plans(const struct run_folder *folder)
{
    static const char *const names[][2] = {{"plan-0.json", "swapped-1.json"},
                                           {"plan-1.json", "swapped-0.json"}};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = run_folder_path(folder, names[i][0]), *text = NULL;
        g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
        run_folder_write(folder, names[i][1], text);
    }
}

/* Plans that were made for another schedule, another stage or no stages are refused with a message
 * that names the options: if embedding and classifier are tied, all stages have as many tensors,
 * and only the structure of their steps differs. */
static void test_other_plans(struct run_folder *folder, gconstpointer data)
{
    static const struct {
        uint32_t processes;
        const char *options;
    } others[] = {
        {2, "--stages 2 --schedule gpipe --plan plan-%s.json"},
        {2, "--stages 2 --schedule interleaved --plan plan-%s.json"},
        {2, "--stage-layers 1,3 --plan plan-%s.json"},
        {2, "--stages 2 --plan swapped-%s.json"},
        {1, "--plan plan-0.json"},
    };
    write_model(folder, data);
    json_decref(launch_look(folder, 2, "--stages 2 --micro-batches 4 --emit-plan plan-%s.json"));
    swap_plans(folder);
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        if (!draws_row(2, G_N_ELEMENTS(others)))
            continue;
        g_autofree char *options = g_strconcat("--micro-batches 4 ", others[i].options, NULL);
        g_auto(GStrv) command = launch_command(others[i].processes, options);
        launch_refuse(folder, command, 2, "--stages, --stage-layers, --schedule, --stage-parts");
    }
}

/* Options that contradict the plans of all stages are refused, as they are with one plan. */
static void test_contradictions(struct run_folder *folder, gconstpointer data)
{
    static const struct {
        const char *option, *why;
    } given[] = {
        {"--recompute 1", "recomputes other layers"},
        {"--offload-activations all", "offloads other layers"},
        {"--host-embedding", "embeds on the device"},
        {"--host-update", "updates tensors on the device"},
        {"--state-block 1024", "cuts optimizer states otherwise, or not at all"},
        {"--train '*ln_*'", "trains other tensors (--train)"},
        {"--train lora:2", "another model or cut (--train"},
    };
    write_model(folder, data);
    json_decref(launch_look(folder, 2, "--stages 2 --micro-batches 2 --emit-plan plan-%s.json"));
    for (size_t i = 0; i < G_N_ELEMENTS(given); i++) {
        if (!draws_row(3, G_N_ELEMENTS(given)))
            continue;
        g_autofree char *options = g_strconcat("--stages 2 --micro-batches 2 --plan plan-%s.json ",
                                               given[i].option, NULL);
        g_auto(GStrv) command = launch_command(2, options);
        launch_refuse(folder, command, 2, given[i].why);
    }
}

/* ---- refusals ---- */

static void test_refusals(struct run_folder *folder, gconstpointer data)
{
    static const struct {
        const char *options, *why;
        uint32_t processes;
        int status;
    } refused[] = {
        {STEPS "--stages 5 --micro-batches 5", "5 stages: the model has only 4 layers", 5, 2},
        {STEPS "--stages 3 --micro-batches 2", "3 stages: a step needs as many micro-batches", 3,
         2},
        {STEPS "--stages 2 --micro-batches 2", "and has 1; --micro-batches 4 would do", 4, 2},
        {STEPS "--stage-layers 2,3 --micro-batches 2", "5 layers together, and the model has 4", 2,
         2},
        {STEPS "--stage-layers 2,x", "'2,x' must be the layers of each stage", 2, 2},
        {STEPS "--stages 3 --stage-layers 2,2", "names another number of stages", 3, 2},
        {STEPS "--stages 2", "the launcher started 3; mpirun -n 2", 3, 2},
        {STEPS "--stages 2", "the launcher started 1; mpirun -n 2", 1, 2},
        {STEPS "--stages 2 --emit-plan plan.json", "each stage has a plan of its own", 2, 2},
        {STEPS "--stages 2 --plan plan.json", "each stage has a plan of its own", 2, 2},
        {STEPS "--stages 2 --plan none-%s.json", "none-0.json", 2, 2},
        {STEPS "--stages 2 --layout layout.json", "other tensors", 2, 2},
        {STEPS "--stages 2 --device-memory 1KiB", "would fit", 2, 3},
        {STEPS "--stages 2 --micro-batches 2 --train 'lm_head.*'", "nothing would be trained", 2,
         2},
        {STEPS "--stages 2 --micro-batches 2 --train '*.0.*'", "trained in stage 1", 2, 2},
        {STEPS "--stages 2 --micro-batches 2 --train '*.3.*'", "the first 2 layers", 2, 2},
        {STEPS "--stages 2 --lr 1e30 --clip 0", "training has diverged", 2, 1},
        {STEPS "--schedule 2bw", "needs --stages", 1, 2},
        {STEPS "--schedule interleaved", "needs --stages", 1, 2},
        {STEPS "--schedule zb-h1", "needs --stages", 1, 2},
        {STEPS "--stages 2 --micro-batches 2 --stage-parts 2", "only schedule interleaved", 2, 2},
        {STEPS "--stages 2 --micro-batches 2 --schedule interleaved --stage-parts 3",
         "2 stages of 3 parts: the model has only 4 layers", 2, 2},
        {STEPS "--stages 2 --micro-batches 3 --schedule interleaved",
         "must be a multiple of the "
         "number of stages",
         2, 2},
        {STEPS "--stage-layers 1,3 --micro-batches 2 --schedule interleaved", "all parts have", 2,
         2},
        {STEPS "--stages 2 --schedule 2bw --delay 0", "updates must be delayed", 2, 2},
        {STEPS "--stages 2 --schedule 2bw --micro-batches 2 --precision bf16 --host-embedding",
         "the embedding runs on the device", 2, 2},
        {STEPS "--stages 2 --schedule 2bw --offload-activations all", "stay on the device", 2, 2},
        {STEPS "--stages 2 --schedule 2bw --state-block 1024", "cut into blocks", 2, 2},
        {STEPS "--stages 2 --schedule 2bw --micro-batches 1", "and has 1", 2, 2},
        {STEPS "--stages 2 --schedule 2bw --device-memory 1KiB", "would fit", 2, 3},
        {"--steps 9 --stages 2 --schedule 2bw --lr 1e30 --clip 0", "training has diverged", 2, 1},
        {STEPS "--stages 2 --save text.txt", "--save", 2, 1},
    };
    write_model(folder, data);
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        if (!draws_row(6, G_N_ELEMENTS(refused)))
            continue;
        g_auto(GStrv) command = launch_command(refused[i].processes, refused[i].options);
        launch_refuse(folder, command, refused[i].status, refused[i].why);
    }
}

/* Stages that were started with different schedules would wait for each other. */
static void test_differences(struct run_folder *folder, gconstpointer data)
{
    write_model(folder, data);
    g_auto(GStrv) program = run_folder_command(STEPS "--micro-batches 4 --stages 2");
    g_autofree char *line = g_strjoinv(" ", program);
    g_autofree char *both =
        g_strdup_printf("mpirun --oversubscribe -n 1 %s : -n 1 %s --schedule gpipe", line, line);
    g_auto(GStrv) command = NULL;
    g_assert_true(g_shell_parse_argv(both, NULL, &command, NULL));
    launch_refuse(folder, command, 2, "--schedule: gpipe, not 1f1b");
}

/* Adds the test; with sanitizers, which start slowly, one of the six. */
static void add(const char *path, const char *tied,
                void (*test)(struct run_folder *folder, gconstpointer data))
{
    if (draws_row(UNLESS_SANITIZED(6, 1), 6))
        g_test_add(path, struct run_folder, tied, run_folder_set_up, test, run_folder_tear_down);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!launch_prepare())
        return 77;
    add("/stages-refused/fits", g_test_rand_bit() ? "true" : "false", test_fits);
    add("/stages-refused/which", g_test_rand_bit() ? "true" : "false", test_which);
    add("/stages-refused/other-plans", g_test_rand_bit() ? "true" : "false", test_other_plans);
    add("/stages-refused/contradictions", g_test_rand_bit() ? "true" : "false",
        test_contradictions);
    add("/stages-refused/options", "false", test_refusals);
    add("/stages-refused/differences", "false", test_differences);
    return g_test_run();
}
