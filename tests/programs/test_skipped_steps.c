/* A step whose gradient is not finite is skipped: weights and moments stay as they are, bit for
 * bit, the run goes on, and it resumes as if it had not been interrupted. The embedding of one
 * letter is not a number, so exactly the steps whose text has the letter are such steps. */
#include "tests/drawn.h"
#include "workshop.h"

#include <stdint.h>
#include <string.h>

enum { SEQUENCE = 16, STEPS = 6, BAD_STEP = 4, LETTER = 'Z' };

#define RUN "pstar-run --data text.txt --data-order sequential --batch 1 --seq 16 --threads 1 "
#define BAD RUN "--model bad --schedule-steps 6 --device-memory 1500KiB "

static void write_config(const struct workshop *workshop)
{
    workshop_write(workshop, "model/config.json",
                   "{\"model_type\": \"gpt2\", \"architectures\": [\"GPT2LMHeadModel\"], "
                   "\"vocab_size\": 256, \"n_positions\": 16, \"n_embd\": 64, \"n_layer\": 2, "
                   "\"n_head\": 4, \"tie_word_embeddings\": false, \"resid_pdrop\": 0.0, "
                   "\"embd_pdrop\": 0.0, \"attn_pdrop\": 0.0}");
}

/* Writes a text that has the letter only where the bad step reads, or everywhere. */
static void write_text(const struct workshop *workshop, bool everywhere)
{
    char text[SEQUENCE * (STEPS + 2) + 1] = "";
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = (char)(everywhere && i % 2 ? LETTER : 'a' + i * i % 23);
    if (!everywhere)
        text[SEQUENCE * (BAD_STEP - 1) + 2] = LETTER;
    workshop_write(workshop, "text.txt", text);
}

/* Returns where a tensor's data begins in a safetensors file. */
static size_t find_tensor(const char *file, size_t bytes, const char *ending)
{
    uint64_t header;
    memcpy(&header, file, sizeof header);
    g_assert_cmpuint(header, <, bytes);
    json_t *root = json_loadb(file + sizeof header, header, 0, NULL), *tensor;
    const char *name;
    size_t begin = 0;
    json_object_foreach (root, name, tensor)
        if (g_str_has_suffix(name, ending))
            begin = sizeof header + header +
                    (size_t)json_integer_value(
                        json_array_get(json_object_get(tensor, "data_offsets"), 0));
    g_assert_cmpuint(begin, >, 0);
    json_decref(root);
    return begin;
}

/* Makes weights in which the letter's embedding is not a number. */
static struct workshop *set_up(void)
{
    enum { ROW = 64 * sizeof(float) };
    struct workshop *workshop = workshop_new();
    gsize bytes;
    write_config(workshop);
    write_text(workshop, false);
    workshop_must_run(workshop, RUN "--model model --steps 1 --save bad");
    g_autofree char *path = workshop_path(workshop, "bad/model.safetensors"), *weights = NULL;
    g_assert_true(g_file_get_contents(path, &weights, &bytes, NULL));
    memset(weights + find_tensor(weights, bytes, "wte.weight") + LETTER * ROW, 0xff, ROW);
    g_assert_true(g_file_set_contents(path, weights, (gssize)bytes, NULL));
    return workshop;
}

static bool same_file(const struct workshop *workshop, const char *left, const char *right,
                      const char *name)
{
    g_autofree char *in_left = g_build_filename(workshop->folder, left, name, NULL), *a = NULL;
    g_autofree char *in_right = g_build_filename(workshop->folder, right, name, NULL), *b = NULL;
    gsize a_bytes, b_bytes;
    g_assert_true(g_file_get_contents(in_left, &a, &a_bytes, NULL));
    g_assert_true(g_file_get_contents(in_right, &b, &b_bytes, NULL));
    return a_bytes == b_bytes && memcmp(a, b, a_bytes) == 0;
}

static bool same_weights(const struct workshop *workshop, const char *left, const char *right)
{
    return same_file(workshop, left, right, "model.safetensors") &&
           same_file(workshop, left, right, "optimizer.safetensors");
}

static void check_log(const struct workshop *workshop)
{
    json_t *log = workshop_read_json_lines(workshop, "log.jsonl"), *line;
    size_t i;
    g_assert_cmpuint(json_array_size(log), ==, STEPS);
    json_array_foreach (log, i, line) {
        bool bad = i + 1 == BAD_STEP;
        g_assert_true(json_is_true(json_object_get(line, "skipped")) == bad);
        g_assert_true(json_is_null(json_object_get(line, "gradient_norm")) == bad);
    }
    json_decref(log);
}

static const char *const forms[] = {"--precision fp32", "--precision fp32 --host-update",
                                    "--precision bf16", "--precision bf16 --delay 1",
                                    "--precision bf16 --bytes-per-parameter 12"};

static void test_skipped(gconstpointer data)
{
    const char *form = data;
    struct workshop *workshop = set_up();
    g_autofree char *whole = g_strconcat(BAD "--steps 6 --save whole --log log.jsonl ", form, NULL);
    workshop_must_end(workshop, whole, 0, "skipped                                 1",
                      "step 4 is skipped: '");
    check_log(workshop);
    workshop_must_run_format(workshop, BAD "--steps 3 --save before %s", form);
    workshop_must_run_format(workshop, BAD "--steps 4 --save after %s", form);
    workshop_must_run_format(workshop,
                             "pstar-run --resume before --steps 6 --threads 1 --save "
                             "resumed_before %s",
                             form);
    workshop_must_run_format(workshop,
                             "pstar-run --resume after --steps 6 --threads 1 --save "
                             "resumed_after %s",
                             form);
    if (!strstr(form, "delay")) /* whose weights of the version before are other ones */
        g_assert_true(same_weights(workshop, "before", "after"));
    g_assert_true(same_file(workshop, "before", "after", "model.safetensors"));
    g_assert_false(same_file(workshop, "after", "whole", "model.safetensors"));
    g_assert_true(same_weights(workshop, "whole", "resumed_before"));
    g_assert_true(same_weights(workshop, "whole", "resumed_after"));
    workshop_free(workshop);
}

/* ---- ranks and stages ---- */

static const struct {
    const char *name, *job, *placement;
} together[] = {
    {"stage-2", "--precision fp32", "--stage 2 --host-update"},
    {"stage-3", "--precision bf16", "--stage 3"},
    {"fast", "--precision fp32", "--stage 0 --reduction fast"},
    {"1f1b", "--precision bf16 --bytes-per-parameter 16", "--stages 2"},
    {"zb-h1", "--precision fp32", "--stages 2 --schedule zb-h1 --host-update"},
    {"2bw", "--precision bf16 --delay 1", "--stages 2 --schedule 2bw"},
};

static bool can_launch(void)
{
    g_autofree char *mpirun = g_find_program_in_path("mpirun");
    return mpirun && g_file_test(PROGRAM_DIR "/libpstar-mpi.so", G_FILE_TEST_EXISTS);
}

/* Returns the one message that was printed; beside it there may be lines of the progress. The
 * caller frees it with g_free. */
static char *message_of(const char *err)
{
    const char *begin = strstr(err, "pstar-run: ");
    g_assert_nonnull(begin);
    g_assert_null(strstr(begin + 1, "pstar-run: "));
    return g_strndup(begin, strcspn(begin, "\n"));
}

/* Goes on alone, so that what both runs have saved is in files that can be compared. */
static void go_on(const struct workshop *workshop, const char *from, const char *to)
{
    workshop_must_run_format(workshop, "pstar-run --resume %s --steps 3 --threads 1 --save %s",
                             from, to);
}

/* A micro-batch of the second step is bad, so only one of two ranks has read the letter, and only
 * the last of two stages knows the loss. Both skip the step as one process does, one of them says
 * so, and the run goes on as if it had not been interrupted. */
static void test_together(gconstpointer data)
{
    size_t i = GPOINTER_TO_SIZE(data);
    static const char base[] = "--steps 2 --micro-batches 2";
    if (!can_launch()) {
        g_test_skip("there is no mpirun, or the build has no MPI");
        return;
    }
    struct workshop *workshop = set_up();
    g_autofree char *alone = g_strdup_printf(BAD "%s %s --save one", base, together[i].job);
    g_autofree char *both = g_strdup_printf("mpirun -n 2 " BAD "%s %s %s --save two", base,
                                            together[i].job, together[i].placement);
    struct outcome one = workshop_run_well(workshop, alone);
    struct outcome two = workshop_run_well(workshop, both);
    g_autofree char *said = message_of(one.err), *said_by_both = message_of(two.err);
    g_assert_nonnull(strstr(said, "step 2 is skipped: '"));
    g_assert_cmpstr(said, ==, said_by_both);
    go_on(workshop, "one", "one_resumed");
    go_on(workshop, "two", "two_resumed");
    g_assert_true(same_weights(workshop, "one_resumed", "two_resumed"));
    outcome_clear(&one);
    outcome_clear(&two);
    workshop_free(workshop);
}

/* The third step in a row ends the run, and so does the first one if the norm is not known before
 * the update, or if no step is left to do. */
static void test_ends(void)
{
    struct workshop *workshop = set_up();
    workshop_must_end(workshop, BAD "--steps 6 --clip 0", 1, "", "step 4: the loss is ");
    workshop_must_end(workshop, BAD "--steps 5 --clip 0", 1, "", "a lower --lr");
    write_text(workshop, true);
    workshop_must_end(workshop, BAD "--steps 6 --save never", 1, "", "step 3: the loss is ");
    workshop_must_end(workshop, BAD "--steps 6", 1, "", "(3 steps in a row were skipped): '");
    workshop_must_end(workshop, BAD "--steps 2", 1, "", "the run has not done a step before");
    g_autofree char *path = workshop_path(workshop, "never/trainer.json");
    g_assert_false(g_file_test(path, G_FILE_TEST_EXISTS));
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    /* mpirun does not run for root unless asked twice; the tests run in containers as root. */
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", TRUE);
    g_setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", TRUE);
    g_setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", TRUE);
    g_setenv("ASAN_OPTIONS", "detect_leaks=0", FALSE); /* MPI keeps memory until the end */
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(together); i++) {
        g_autofree char *name = g_strdup_printf("/skipped/together/%s", together[i].name);
        if (draws_row(2, G_N_ELEMENTS(together)))
            g_test_add_data_func(name, GSIZE_TO_POINTER(i), test_together);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(forms); i++) {
        g_autofree char *name = g_strdup_printf("/skipped/%s", forms[i]);
        g_test_add_data_func(name, forms[i], test_skipped);
    }
    g_test_add_func("/ends", test_ends);
    return g_test_run();
}
