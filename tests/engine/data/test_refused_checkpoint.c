/* Checkpoints go on only whole, and only for the run that they continue: others are refused by
 * name. */
#include "engine/train/checkpoint_files.h"
#include "saving_fixture.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static void test_mismatch_by_name(struct saving_fixture *fixture, const void *unused)
{
    (void)fixture;
    (void)unused;
    static const struct {
        const char *name;
        bool fixed; /* in either order of the data */
        struct checkpoint_state run;
    } changes[] = {
        {"--seed is 42 in the checkpoint, but 43", true, {.seed = 43}},
        {"--precision is \"fp32\" in the checkpoint, but \"bf16\"",
         false,
         {.precision = (char *)"bf16"}},
        {"--batch is 4 in the checkpoint, but 5", false, {.batch = 5}},
        {"--seq", false, {.sequence = 15}},
        {"--micro-batches", false, {.micro_batches = 1}},
        {"--lr", false, {.schedule = {.peak = 2e-3}}},
        {"--min-lr", false, {.schedule = {.floor = 2e-4}}},
        {"--warmup-steps", false, {.schedule = {.warm_up = 11}}},
        {"--schedule-steps", false, {.schedule = {.steps = 201}}},
        {"--beta1", false, {.beta1 = 0.8}},
        {"--beta2", false, {.beta2 = 0.8}},
        {"--epsilon", false, {.epsilon = 1e-7}},
        {"--weight-decay", false, {.weight_decay = 0.2}},
        {"--clip", false, {.clip = 2}},
        {"--data-order", true, {.data_order = (char *)"sequential"}},
        {"the digest of --data", true, {.data_digest = (char *)"f"}},
        {"--held-out", true, {.held_out = 0.1}},
        {"--tokens is \"uint32\" in the checkpoint, but \"uint16\"",
         true,
         {.tokens = (char *)"uint16"}},
        {"--train", true, {.train = (char *)"all"}},
        {"--lora-alpha", true, {.lora_alpha = 8}},
    };
    struct checkpoint_state saved = saving_state(7);
    for (size_t i = 0; i < G_N_ELEMENTS(changes); i++) {
        struct checkpoint_state run = saved;
        const struct checkpoint_state *change = &changes[i].run;
#define TAKE(member)         \
    if (change->member != 0) \
    run.member = change->member
        TAKE(seed);
        TAKE(precision);
        TAKE(batch);
        TAKE(sequence);
        TAKE(micro_batches);
        TAKE(schedule.peak);
        TAKE(schedule.floor);
        TAKE(schedule.warm_up);
        TAKE(schedule.steps);
        TAKE(beta1);
        TAKE(beta2);
        TAKE(epsilon);
        TAKE(weight_decay);
        TAKE(clip);
        TAKE(data_order);
        TAKE(data_digest);
        TAKE(held_out);
        TAKE(tokens);
        TAKE(train);
        TAKE(lora_alpha);
#undef TAKE
        GError *error = NULL;
        bool same = checkpoint_match("DIR", &saved, &run, &error);
        g_assert_true(same == !changes[i].fixed);
        g_autofree char *text = same ? checkpoint_changes(&saved, &run)
                                     : g_strdup(error->message + strlen("DIR: "));
        g_assert_nonnull(text);
        g_assert_true(g_str_has_prefix(text, changes[i].name));
        g_clear_error(&error);
    }
    struct checkpoint_state run = saved;
    g_free(saved.tokens);
    saved.tokens = g_strdup("auto"); /* the data say how they are read, whatever is asked */
    run.tokens = (char *)"bytes";
    g_assert_true(checkpoint_match("DIR", &saved, &run, NULL));
    checkpoint_state_clear(&saved);
}

static void expect_load_refused(const struct saving_fixture *fixture, const char *reason)
{
    GError *error = NULL;
    struct small_model *loaded = small_model_new(true, MODEL_FP32, 99);
    struct small_model *untouched = small_model_new(true, MODEL_FP32, 99);
    struct weights_form form;
    g_assert_false(checkpoint_load(fixture->folder, &loaded->config, loaded->trace, false,
                                   &loaded->store, &form, &error));
    if (!strstr(error->message, reason))
        g_error("\"%s\" does not say \"%s\"", error->message, reason);
    g_assert_true(small_model_equal(loaded, untouched, true));
    g_error_free(error);
    small_model_free(loaded);
    small_model_free(untouched);
}

static void test_other_model(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    fixture->model->config.heads = 6;
    GError *error = NULL;
    struct weights_form form;
    g_assert_false(checkpoint_load(fixture->folder, &fixture->model->config, fixture->model->trace,
                                   false, &fixture->model->store, &form, &error));
    g_assert_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_OTHER_RUN);
    g_assert_nonnull(strstr(error->message, "heads is 3 in the checkpoint, but 6"));
    g_error_free(error);
}

static void test_damaged(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    static const struct {
        const char *file, *reason;
    } files[] = {{"config.json", "config.json"},
                 {"model.safetensors", "model.safetensors"},
                 {"optimizer.safetensors", "optimizer.safetensors"}};
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
        char *path = g_build_filename(fixture->folder, "newest", files[i].file, NULL);
        char *text;
        gsize length;
        g_assert_true(g_file_get_contents(path, &text, &length, NULL));
        g_assert_true(g_file_set_contents(path, text, (gssize)(length / 2), NULL));
        expect_load_refused(fixture, files[i].reason);
        g_unlink(path);
        expect_load_refused(fixture, files[i].reason);
        g_free(text);
        g_free(path);
    }
}

/* Replaces the bits of the byte at `at` by others. */
static void flip(const char *path, gsize at)
{
    char *text;
    gsize length;
    g_assert_true(g_file_get_contents(path, &text, &length, NULL));
    g_assert_cmpuint(at, <, length);
    text[at] = (char)(text[at] ^ 1 << g_test_rand_int_range(0, 8));
    g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
    g_free(text);
}

static gsize length_of(const char *path)
{
    GStatBuf status;
    g_assert_cmpint(g_stat(path, &status), ==, 0);
    return (gsize)status.st_size;
}

/* One bit of any file of a checkpoint of one or several processes is noticed, wherever it is; where
 * a tensor's is, the tensor is named; and nothing is loaded. */
static void test_flipped(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    struct checkpoint_state state = saving_state(7);
    struct weights_form form = weights_form_new();
    const struct checkpoint_content content = {.state = &state,
                                               .config = &fixture->model->config,
                                               .trace = fixture->model->trace,
                                               .store = &fixture->model->store,
                                               .form = &form};
    for (uint32_t writers = 1; writers <= 3; writers += 2) {
        saving_save_together(fixture, &content, writers);
        g_autofree char *newest = checkpoint_folder_newest(fixture->folder, NULL);
        GDir *directory = g_dir_open(newest, 0, NULL);
        for (const char *name; (name = g_dir_read_name(directory));) {
            g_autofree char *path = g_build_filename(newest, name, NULL), *text = NULL;
            bool tensors = g_str_has_suffix(name, ".safetensors");
            gsize length;
            g_assert_true(g_file_get_contents(path, &text, &length, NULL));
            for (int i = 0; i < 6; i++) {
                /* first and last bytes, and any between */
                gsize at = i < 2 ? (length - 1) * (gsize)i
                                 : (gsize)g_test_rand_double_range(0, (double)length);
                flip(path, at);
                g_test_message("%s, byte %zu", name, (size_t)at);
                expect_load_refused(fixture, name);
                if (tensors && i == 1)
                    expect_load_refused(fixture, ": damaged: tensor ");
                g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
            }
            g_assert_true(g_file_set_contents(path, text, (gssize)length - 1, NULL));
            expect_load_refused(fixture, name);
            g_autofree char *longer = g_strconcat("{}", text, NULL);
            g_assert_true(g_file_set_contents(path, longer, -1, NULL));
            expect_load_refused(fixture, name);
            g_assert_true(g_file_set_contents(path, text, (gssize)length, NULL));
        }
        g_dir_close(directory);
        saving_expect(fixture, fixture->model, 7);
    }
    checkpoint_state_clear(&state);
}

/* A damaged checkpoint is refused, and the one before it is named, from which a run can go on. */
static void test_one_before(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    struct small_model *later = small_model_new(true, MODEL_FP32, 5);
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    g_assert_true(saving_save(fixture, later, 8, NULL));
    g_autofree char *path = g_build_filename(fixture->folder, "newest", "optimizer.safetensors",
                                             NULL);
    flip(path, length_of(path) - 1);
    expect_load_refused(fixture, "optimizer.safetensors: damaged: tensor ");
    expect_load_refused(fixture, "checkpoint-0001-step-7 goes on from the checkpoint before");
    char *folder = fixture->folder;
    fixture->folder = g_build_filename(folder, "checkpoint-0001-step-7", NULL);
    saving_expect(fixture, fixture->model, 7);
    g_free(fixture->folder);
    fixture->folder = folder;
    small_model_free(later);
}

/* Opens the folders around the checkpoints to everybody, and gives up the rights of root, whom no
 * permission binds. Returns whether the folder of the checkpoints can then be read. */
static bool become_another(const struct saving_fixture *fixture)
{
    enum { NOBODY = 65534 };
    g_autofree char *runs = g_path_get_dirname(fixture->folder);
    g_assert_cmpint(g_chmod(fixture->parent, 0755), ==, 0);
    g_assert_cmpint(g_chmod(runs, 0755), ==, 0);
    if (geteuid() == 0)
        g_assert_cmpint(seteuid(NOBODY), ==, 0);
    return g_access(fixture->folder, R_OK | X_OK) == 0;
}

/* Fails unless the folder cannot be resumed from, for want of permission to read this one. */
static void expect_forbidden(const char *folder, const char *unreadable)
{
    struct checkpoint_state state;
    g_autoptr(GError) error = NULL;
    g_assert_false(checkpoint_read_state(folder, &state, &error));
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, unreadable));
    g_assert_nonnull(strstr(error->message, "Permission denied"));
}

/* A checkpoint whose folder cannot be read is not passed over for an older one, which would repeat
 * steps unseen. */
static void test_unreadable(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    static const mode_t modes[] = {0, 0311}; /* 0311: files are found by name, but not listed */
    uid_t user = geteuid();
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    g_assert_true(saving_save(fixture, fixture->model, 8, NULL));
    g_autofree char *newest = g_build_filename(fixture->folder, "checkpoint-0002-step-8", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(modes); i++) {
        g_assert_cmpint(g_chmod(newest, modes[i]), ==, 0);
        if (become_another(fixture)) {
            expect_forbidden(fixture->folder, newest);
            g_assert_cmpuint(checkpoint_folder_count(fixture->folder), ==, 2);
        } else
            g_test_skip("another user cannot come to the folder of this test");
        g_assert_cmpint(seteuid(user), ==, 0);
    }
    g_assert_cmpint(g_chmod(fixture->folder, 0), ==, 0);
    if (!become_another(fixture))
        expect_forbidden(fixture->folder, fixture->folder);
    g_assert_cmpint(seteuid(user), ==, 0);
    g_assert_cmpint(g_chmod(fixture->folder, 0755), ==, 0);
    g_assert_cmpint(g_chmod(newest, 0755), ==, 0);
}

/* Removes what has the name of the newest checkpoint, a folder or a link. */
static void remove_newest(const char *newest)
{
    if (g_file_test(newest, G_FILE_TEST_IS_SYMLINK))
        g_assert_cmpint(g_unlink(newest), ==, 0);
    else
        g_assert_true(checkpoint_files_remove(newest, NULL));
}

/* The newest checkpoint is refused, with the name of the one before; saves keep as many whole ones
 * as ever. */
static void expect_lost(struct saving_fixture *fixture, const char *newest)
{
    struct checkpoint_state state;
    g_autoptr(GError) error = NULL;
    g_autofree char *before = g_build_filename(fixture->folder, "checkpoint-0001-step-7", NULL);
    g_assert_false(checkpoint_read_state(fixture->folder, &state, &error));
    g_test_message("%s", error->message);
    g_assert_nonnull(strstr(error->message, newest));
    g_assert_nonnull(strstr(error->message, before));
    g_assert_true(saving_save(fixture, fixture->model, 9, NULL));
    g_assert_cmpuint(checkpoint_folder_count(fixture->folder), ==, 3);
    g_autofree char *last = g_build_filename(fixture->folder, "checkpoint-0003-step-9", NULL);
    g_assert_true(checkpoint_files_remove(last, NULL));
}

/* A checkpoint that has lost its files, or is a link to a disk that is gone, is not passed over for
 * an older one either. */
static void test_lost(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    g_autofree char *newest = g_build_filename(fixture->folder, "checkpoint-0002-step-8", NULL);
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    g_assert_true(saving_save(fixture, fixture->model, 8, NULL));
    remove_newest(newest);
    g_assert_cmpint(g_mkdir(newest, 0777), ==, 0);
    expect_lost(fixture, newest);
    remove_newest(newest);
    g_assert_cmpint(symlink("/gone/checkpoint", newest), ==, 0);
    expect_lost(fixture, newest);
    remove_newest(newest);
    saving_expect(fixture, fixture->model, 7);
}

/* A manifest reads no file of another folder. */
static void test_other_place(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    g_autofree char *path = g_build_filename(fixture->folder, "newest", "checkpoint.json", NULL);
    json_t *root = json_load_file(path, 0, NULL);
    json_object_set_new(json_object_get(root, "files"), "../../thesis.txt",
                        json_pack("{s:i, s:i}", "bytes", 0, "crc32", 0));
    json_object_del(root, "crc32");
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    json_object_set_new(
        root, "crc32", json_integer((json_int_t)crc32(0, (const Bytef *)text, (uInt)strlen(text))));
    g_assert_cmpint(json_dump_file(root, path, 0), ==, 0);
    expect_load_refused(fixture, "a manifest names ../../thesis.txt, which is in another folder");
    free(text);
    json_decref(root);
}

static void test_bad_state(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    static const struct {
        const char *from, *to, *reason;
    } edits[] = {
        {"\"version\": 1", "\"version\": 3", "version"},
        {"\"version\": 1", "\"version\": 2", "checkpoint.json is missing"},
        {"\"step\": 7", "\"step\": -7", "step: has an invalid value"},
        {"\"step\": 7", "\"step\": 7.5", "step: has an invalid value"},
        {"\"batch\": 4", "\"batch\": 4294967296", "batch: has an invalid value"},
        {"\"batch\": 4", "\"batch\": 0", "batch, sequence and micro_batches must be at least 1"},
        {"\"clip\": 1.0", "\"clip\": \"x\"", "clip: has an invalid value"},
        {"\"precision\": \"fp32\"", "\"precision\": 32", "precision: has an invalid value"},
        {"\"seed\"", "\"sead\"", "seed: is missing"},
        {"{", "", "trainer.json"},
    };
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    saving_make_earlier(fixture); /* without checksums */
    char *path = g_build_filename(fixture->folder, "trainer.json", NULL), *text;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(edits); i++) {
        GString *edited = g_string_new(text);
        g_assert_cmpuint(g_string_replace(edited, edits[i].from, edits[i].to, 1), ==, 1);
        g_assert_true(g_file_set_contents(path, edited->str, -1, NULL));
        struct checkpoint_state state;
        GError *error = NULL;
        g_assert_false(checkpoint_read_state(fixture->folder, &state, &error));
        g_assert_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID);
        if (!strstr(error->message, edits[i].reason))
            g_error("\"%s\" does not say \"%s\"", error->message, edits[i].reason);
        g_error_free(error);
        g_string_free(edited, TRUE);
    }
    g_free(text);
    g_free(path);
}

#define ADD(path, function)                                                               \
    g_test_add("/checkpoint/" path, struct saving_fixture, NULL, saving_set_up, function, \
               saving_tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("mismatch-by-name", test_mismatch_by_name);
    ADD("other-model", test_other_model);
    ADD("damaged", test_damaged);
    ADD("flipped", test_flipped);
    ADD("one-before", test_one_before);
    ADD("unreadable", test_unreadable);
    ADD("lost", test_lost);
    ADD("other-place", test_other_place);
    ADD("bad-state", test_bad_state);
    return g_test_run();
}
