/* Checkpoints: whole or not at all, and only for the run that they continue. */
#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_folder.h"
#include "small_model.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

/* The files of a checkpoint of one process in one file of weights, and those that are not linked.
 */
enum { FILES = 5, OWN = 1 };

struct fixture {
    char *parent, *folder;
    struct small_model *model;
};

static struct checkpoint_state example_state(uint64_t step)
{
    return (struct checkpoint_state){.step = step,
                                     .seed = 42,
                                     .precision = g_strdup("fp32"),
                                     .batch = 4,
                                     .sequence = 16,
                                     .micro_batches = 2,
                                     .schedule = {1e-3, 1e-4, 10, 200},
                                     .beta1 = 0.9,
                                     .beta2 = 0.95,
                                     .epsilon = 1e-8,
                                     .weight_decay = 0.1,
                                     .clip = 1,
                                     .data_order = g_strdup("random"),
                                     .data_digest = g_strdup("0123abcd"),
                                     .held_out = 0.05,
                                     .train = g_strdup("lora:4"),
                                     .lora_alpha = 12};
}

static void set_up(struct fixture *fixture, const void *unused)
{
    (void)unused;
    fixture->parent = g_dir_make_tmp("checkpoint-XXXXXX", NULL);
    fixture->folder = g_build_filename(fixture->parent, "runs", "last", NULL);
    fixture->model = small_model_new(true, MODEL_FP32, 1);
}

static void remove_tree(const char *path)
{
    if (g_file_test(path, G_FILE_TEST_IS_SYMLINK) || !g_file_test(path, G_FILE_TEST_IS_DIR)) {
        g_unlink(path);
        return;
    }
    GDir *directory = g_dir_open(path, 0, NULL);
    for (const char *name; (name = g_dir_read_name(directory)) != NULL;) {
        char *child = g_build_filename(path, name, NULL);
        remove_tree(child);
        g_free(child);
    }
    g_dir_close(directory);
    g_rmdir(path);
}

static void tear_down(struct fixture *fixture, const void *unused)
{
    (void)unused;
    small_model_free(fixture->model);
    remove_tree(fixture->parent);
    g_free(fixture->folder);
    g_free(fixture->parent);
}

static uint32_t count_entries(const char *path)
{
    GDir *directory = g_dir_open(path, 0, NULL);
    uint32_t count = 0;
    while (g_dir_read_name(directory))
        count++;
    g_dir_close(directory);
    return count;
}

/* The folder has so many checkpoints, a link to the newest, and links to its files but the
 * manifest. */
static void expect_entries(const struct fixture *fixture, uint32_t checkpoints, uint32_t files)
{
    g_autofree char *newest = g_build_filename(fixture->folder, "newest", NULL);
    g_assert_cmpuint(checkpoint_folder_count(fixture->folder), ==, checkpoints);
    g_assert_cmpuint(count_entries(newest), ==, files);
    g_assert_cmpuint(count_entries(fixture->folder), ==, checkpoints + 1 + files - OWN);
}

static uint32_t count_siblings(const struct fixture *fixture)
{
    char *parent = g_path_get_dirname(fixture->folder);
    uint32_t count = count_entries(parent);
    g_free(parent);
    return count;
}

static bool save_as(const struct fixture *fixture, struct small_model *model, uint64_t step,
                    struct weights_form form, GError **error)
{
    struct checkpoint_state state = example_state(step);
    const struct checkpoint_content content = {.state = &state,
                                               .config = &model->config,
                                               .trace = model->trace,
                                               .store = &model->store,
                                               .form = &form};
    bool saved = checkpoint_save(fixture->folder, &content, 2, error);
    checkpoint_state_clear(&state);
    return saved;
}

static bool save(const struct fixture *fixture, struct small_model *model, uint64_t step,
                 GError **error)
{
    return save_as(fixture, model, step, weights_form_new(), error);
}

/* What is on the disk is the state of this step and the data of this model. */
static void expect_saved(const struct fixture *fixture, const struct small_model *model,
                         uint64_t step)
{
    GError *error = NULL;
    struct checkpoint_state state, expected = example_state(step);
    struct weights_form form;
    g_assert_true(checkpoint_read_state(fixture->folder, &state, &error));
    g_assert_true(checkpoint_match(fixture->folder, &state, &expected, &error));
    g_assert_cmpuint(state.step, ==, step);
    struct small_model *loaded = small_model_new(true, MODEL_FP32, 99);
    checkpoint_load(fixture->folder, &loaded->config, loaded->trace, false, &loaded->store, &form,
                    &error);
    g_assert_no_error(error);
    g_assert_true(small_model_equal(model, loaded, true));
    small_model_free(loaded);
    checkpoint_state_clear(&state);
    checkpoint_state_clear(&expected);
}

static void test_round_trip(struct fixture *fixture, const void *unused)
{
    (void)unused;
    GError *error = NULL;
    g_assert_true(save(fixture, fixture->model, 7, &error));
    expect_saved(fixture, fixture->model, 7);
    struct small_model *later = small_model_new(true, MODEL_FP32, 5);
    char *slashed = g_strconcat(fixture->folder, "//", NULL);
    struct checkpoint_state state = example_state(8);
    struct weights_form form = weights_form_new();
    const struct checkpoint_content content = {.state = &state,
                                               .config = &later->config,
                                               .trace = later->trace,
                                               .store = &later->store,
                                               .form = &form};
    g_assert_true(checkpoint_save(slashed, &content, 2, &error));
    expect_saved(fixture, later, 8);
    g_assert_cmpuint(count_siblings(fixture), ==, 1);
    expect_entries(fixture, 2, FILES);
    checkpoint_state_clear(&state);
    g_free(slashed);
    small_model_free(later);
}

static void test_failed_save(struct fixture *fixture, const void *unused)
{
    (void)unused;
    g_assert_true(save(fixture, fixture->model, 7, NULL));
    struct small_model *later = small_model_new(true, MODEL_FP32, 5);
    for (later->fail_after = 1; later->fail_after < 3 * later->trace->tensor_count;
         later->fail_after += 13) {
        GError *error = NULL;
        later->reads = 0;
        g_assert_false(save(fixture, later, 8, &error));
        g_assert_cmpstr(error->message, ==, "the store fails");
        g_error_free(error);
        expect_saved(fixture, fixture->model, 7);
        g_assert_cmpuint(count_siblings(fixture), ==, 1);
    }
    small_model_free(later);
}

/* A process that dies while it saves. */
static void test_killed_save(struct fixture *fixture, const void *unused)
{
    (void)unused;
    g_assert_true(save(fixture, fixture->model, 7, NULL));
    for (int delay = 0; delay < 10; delay++) {
        pid_t child = fork();
        g_assert_cmpint(child, >=, 0);
        if (child == 0)
            for (;;)
                save(fixture, fixture->model, 7, NULL);
        g_usleep((gulong)g_test_rand_int_range(1000, 30000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        expect_saved(fixture, fixture->model, 7);
    }
}

static void test_other_files(struct fixture *fixture, const void *unused)
{
    (void)unused;
    GError *error = NULL;
    char *file = g_build_filename(fixture->folder, "notes.txt", NULL);
    g_mkdir_with_parents(fixture->folder, 0777);
    g_assert_true(g_file_set_contents(file, "mine", -1, NULL));
    g_assert_false(checkpoint_may_save(fixture->folder, &error));
    g_assert_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO);
    g_clear_error(&error);
    g_assert_false(save(fixture, fixture->model, 7, &error));
    g_clear_error(&error);
    g_unlink(file);

    g_assert_true(save(fixture, fixture->model, 7, &error)); /* into an empty folder */
    g_assert_true(g_file_set_contents(file, "mine", -1, NULL));
    g_assert_true(save(fixture, fixture->model, 8, &error));
    expect_saved(fixture, fixture->model, 8);
    char *text;
    g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "mine");
    g_free(text);
    g_free(file);
}

static bool has(const struct fixture *fixture, const char *name)
{
    g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

static bool is_link(const struct fixture *fixture, const char *name)
{
    g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
    return g_file_test(path, G_FILE_TEST_IS_SYMLINK);
}

/* Puts the files of the newest checkpoint where earlier versions had them. */
static void make_earlier(const struct fixture *fixture)
{
    g_autofree char *newest = checkpoint_folder_newest(fixture->folder);
    g_autofree char *aside = g_build_filename(fixture->parent, "aside", NULL);
    g_autofree char *manifest = g_build_filename(newest, "checkpoint.json", NULL);
    g_autofree char *state = g_build_filename(newest, "trainer.json", NULL), *text = NULL;
    g_assert_cmpint(g_unlink(manifest), ==, 0);
    g_assert_true(g_file_get_contents(state, &text, NULL, NULL));
    GString *edited = g_string_new(text);
    g_assert_cmpuint(g_string_replace(edited, "\"version\": 2", "\"version\": 1", 1), ==, 1);
    g_assert_true(g_file_set_contents(state, edited->str, -1, NULL));
    g_string_free(edited, TRUE);
    g_assert_cmpint(g_rename(newest, aside), ==, 0);
    remove_tree(fixture->folder);
    g_assert_cmpint(g_rename(aside, fixture->folder), ==, 0);
}

/* An earlier version that dies while it moves its files has replaced the checkpoint. The next
 * checkpoint has a folder of its own, and its links take their place. */
static void test_interrupted_replacement(struct fixture *fixture, const void *unused)
{
    (void)unused;
    static const char *const moved_later[] = {"optimizer.safetensors", "trainer.json", NULL};
    struct small_model *later = small_model_new(true, MODEL_FP32, 5);
    g_autofree char *partial = g_build_filename(fixture->folder, "next.partial", NULL);
    g_autofree char *complete = g_build_filename(partial, "complete", NULL);
    g_autofree char *state = g_build_filename(fixture->folder, "trainer.json", NULL);
    g_assert_true(save(fixture, later, 8, NULL));
    make_earlier(fixture);
    expect_saved(fixture, later, 8);

    g_assert_cmpint(g_mkdir(partial, 0777), ==, 0);
    for (size_t i = 0; moved_later[i]; i++) {
        g_autofree char *from = g_build_filename(fixture->folder, moved_later[i], NULL);
        g_autofree char *to = g_build_filename(partial, moved_later[i], NULL);
        g_assert_cmpint(g_rename(from, to), ==, 0);
        g_assert_true(g_file_set_contents(from, "of the checkpoint before", -1, NULL));
    }
    g_assert_true(g_file_set_contents(complete, "", -1, NULL));
    g_assert_cmpint(g_unlink(state), ==, 0); /* as in a first save */
    g_assert_true(checkpoint_may_save(fixture->folder, NULL));
    expect_saved(fixture, later, 8);
    g_assert_cmpuint(count_entries(fixture->folder), ==, 4);

    GError *error = NULL;
    const struct weights_form parts = {.halves = false, .file_bytes = 3000};
    save_as(fixture, fixture->model, 9, parts, &error);
    g_assert_no_error(error);
    expect_saved(fixture, fixture->model, 9);
    g_assert_false(has(fixture, "model.safetensors"));
    g_assert_true(has(fixture, "model.safetensors.index.json"));
    g_assert_true(is_link(fixture, "trainer.json"));
    small_model_free(later);
}

/* A process that dies while it writes, removes or links leaves folders and links that the next one
 * removes. A folder of an unfinished checkpoint is never read. */
static void test_left_over(struct fixture *fixture, const void *unused)
{
    (void)unused;
    static const char *const folders[] = {"step-8.partial", "step-0.partial", "old.partial",
                                          "next.partial", "try.partial"};
    g_assert_true(save(fixture, fixture->model, 7, NULL));
    g_autofree char *link = g_build_filename(fixture->folder, "newest.partial", NULL);
    g_autofree char *mine = g_build_filename(fixture->folder, "mine.partial", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree char *folder = g_build_filename(fixture->folder, folders[i], NULL);
        g_autofree char *half = g_build_filename(folder, "model.safetensors.0badcafe.tmp", NULL);
        g_autofree char *state = g_build_filename(folder, "trainer.json", NULL);
        g_assert_cmpint(g_mkdir(folder, 0777), ==, 0);
        g_assert_true(g_file_set_contents(half, "half", -1, NULL));
        g_assert_true(g_file_set_contents(state, "half", -1, NULL));
    }
    g_assert_cmpint(symlink("checkpoint-0009-step-9", link), ==, 0);
    g_assert_cmpint(g_mkdir(mine, 0777), ==, 0);
    expect_saved(fixture, fixture->model, 7);
    g_assert_true(save(fixture, fixture->model, 8, NULL));
    expect_saved(fixture, fixture->model, 8);
    g_assert_cmpint(g_rmdir(mine), ==, 0);
    expect_entries(fixture, 2, FILES);
}

/* The last ones stay, in the order in which they were saved, whatever their steps are. */
static void test_keep(struct fixture *fixture, const void *unused)
{
    (void)unused;
    static const uint64_t steps[] = {5, 9, 100, 3, 3, 4};
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        GError *error = NULL;
        uint32_t keep = i < 5 ? 3 : 1;
        struct checkpoint_state state = example_state(steps[i]);
        struct weights_form form = weights_form_new();
        struct small_model *model = small_model_new(true, MODEL_FP32, (uint32_t)i + 1);
        const struct checkpoint_content content = {.state = &state,
                                                   .config = &model->config,
                                                   .trace = model->trace,
                                                   .store = &model->store,
                                                   .form = &form};
        checkpoint_save(fixture->folder, &content, keep, &error);
        g_assert_no_error(error);
        expect_saved(fixture, model, steps[i]);
        expect_entries(fixture, MIN((uint32_t)i + 1, keep), FILES);
        g_autofree char *name = g_strdup_printf("checkpoint-%04zu-step-%" G_GUINT64_FORMAT, i + 1,
                                                steps[i]);
        g_autofree char *newest = g_build_filename(fixture->folder, "newest", NULL);
        g_autofree char *target = g_file_read_link(newest, NULL);
        g_assert_cmpstr(target, ==, name);
        checkpoint_state_clear(&state);
        small_model_free(model);
    }
}

/* During a run the folder is never made again, and none that stands in its place is taken for it.
 */
static void test_vanished(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct checkpoint_folder folder;
    GError *error = NULL;
    g_assert_true(checkpoint_folder_open(&folder, fixture->folder, &error));
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    g_assert_null(checkpoint_folder_begin(&folder, 3, true, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOENT);
    g_clear_error(&error);
    g_assert_false(g_file_test(fixture->folder, G_FILE_TEST_EXISTS));
    g_assert_cmpint(g_mkdir(fixture->folder, 0777), ==, 0);
    folder.device++;
    g_assert_null(checkpoint_folder_begin(&folder, 3, true, &error));
    g_assert_nonnull(strstr(error->message, "another file system is there"));
    g_clear_error(&error);
    folder.newest = g_strdup("checkpoint-0001-step-7"); /* is there again after a new mount */
    g_assert_true(save(fixture, fixture->model, 7, NULL));
    g_autofree char *partial = checkpoint_folder_begin(&folder, 3, true, &error);
    g_assert_no_error(error);
    g_assert_true(g_file_test(partial, G_FILE_TEST_IS_DIR));
    checkpoint_folder_abandon(&folder, 3);
    g_assert_false(g_file_test(partial, G_FILE_TEST_EXISTS));
    checkpoint_folder_clear(&folder);
}

/* Weights in bf16 lose nothing, because their masters are beside the moments. Whatever the form of
 * a checkpoint, it replaces one of another form whole, also when that is interrupted. */
static void test_forms(struct fixture *fixture, const void *unused)
{
    (void)unused;
    const struct weights_form forms[] = {
        {.halves = true, .file_bytes = 3000},     /* many files */
        {.halves = false, .file_bytes = 1 << 20}, /* one file */
        {.halves = false, .file_bytes = 9000},    {.halves = true, .file_bytes = 1 << 20},
        {.halves = true, .file_bytes = 1}, /* a file a tensor */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(forms); i++) {
        struct small_model *model = small_model_new(true, MODEL_FP32, (uint32_t)i + 1);
        GError *error = NULL;
        g_assert_true(save_as(fixture, model, i, forms[i], &error));
        expect_saved(fixture, model, i);
        bool one = forms[i].file_bytes == 1 << 20;
        g_assert_true(has(fixture, "model.safetensors") == one);
        g_assert_true(has(fixture, "model.safetensors.index.json") != one);
        if (one)
            expect_entries(fixture, MIN((uint32_t)i + 1, 2), FILES);
        struct safetensors *file = weights_open(fixture->folder, &model->config, model->trace,
                                                &error);
        g_assert_no_error(error);
        struct weights_form form = weights_form_of(file);
        g_assert_true(form.halves == forms[i].halves);
        g_assert_cmpuint(safetensors_at(file, safetensors_count(file) - 1)->part > 0, ==, !one);
        safetensors_close(file);
        small_model_free(model);
    }
    g_autofree char *partial = g_build_filename(fixture->folder, "next.partial", NULL);
    g_autofree char *mark = g_build_filename(partial, "complete", NULL);
    g_autofree char *beside = g_build_filename(fixture->parent, "thesis.txt", NULL);
    g_assert_true(g_file_set_contents(beside, "mine", -1, NULL));
    g_assert_cmpint(g_mkdir(partial, 0777), ==, 0);
    g_assert_true(g_file_set_contents(
        mark, "model-00001-of-00003.safetensors\nmodel.safetensors.index.json\n../thesis.txt\n", -1,
        NULL));
    g_assert_true(checkpoint_may_save(fixture->folder, NULL));
    g_assert_false(has(fixture, "model.safetensors.index.json"));
    g_assert_false(has(fixture, "next.partial"));
    g_assert_true(g_file_test(beside, G_FILE_TEST_EXISTS));
}

static void save_together(const struct fixture *fixture, const struct checkpoint_content *content,
                          uint32_t writers)
{
    GError *error = NULL;
    struct checkpoint_folder folder;
    checkpoint_folder_open(&folder, fixture->folder, &error);
    g_assert_no_error(error);
    for (uint32_t w = writers; w-- > 0;) {
        g_autofree char *partial = checkpoint_folder_begin(&folder, 7, w == 0, &error);
        g_assert_no_error(error);
        g_assert_true(checkpoint_write(
            partial, content, (struct weights_writer){.index = w, .count = writers}, NULL));
    }
    checkpoint_complete(&folder, content, writers, 2, &error);
    g_assert_no_error(error);
    checkpoint_folder_clear(&folder);
}

/* Any number of writers leave together what one leaves, each in files of its own, and replace each
 * other's files. A file that one of them has not written is missed before anything is replaced. */
static void test_together(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct small_model *model = NULL;
    struct checkpoint_state state = example_state(7);
    struct weights_form form = weights_form_new();
    struct checkpoint_content content = {.state = &state, .form = &form};
    GError *error = NULL;
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t writers = i == 7 ? 2 : (uint32_t)g_test_rand_int_range(1, 12);
        if (model)
            small_model_free(model);
        model = small_model_new(true, MODEL_FP32, i + 1);
        content.config = &model->config;
        content.trace = model->trace;
        content.store = &model->store;
        form.halves = g_test_rand_bit();
        form.file_bytes = g_test_rand_bit() ? 5000 : 1 << 20;
        save_together(fixture, &content, writers);
        expect_saved(fixture, model, 7);
        g_assert_true(has(fixture, "optimizer.safetensors") == (writers == 1));
        if (form.file_bytes > 5000)
            g_assert_cmpuint(count_entries(fixture->folder), <=, 7 + 2 * writers);
    }
    form.file_bytes = 1 << 20;
    struct checkpoint_folder folder;
    g_assert_true(checkpoint_folder_open(&folder, fixture->folder, NULL));
    g_autofree char *partial = checkpoint_folder_begin(&folder, 7, true, NULL);
    g_assert_true(
        checkpoint_write(partial, &content, (struct weights_writer){.index = 0, .count = 2}, NULL));
    g_assert_false(checkpoint_complete(&folder, &content, 2, 2, &error));
    checkpoint_folder_clear(&folder);
    g_assert_nonnull(strstr(error->message, "of 10 new files, this host sees 7"));
    g_clear_error(&error);
    expect_saved(fixture, model, 7);
    checkpoint_state_clear(&state);
    small_model_free(model);
}

static void test_tried(struct fixture *fixture, const void *unused)
{
    (void)unused;
    GError *error = NULL;
    g_assert_true(checkpoint_folder_try(fixture->folder, 1, 2, &error));
    g_assert_false(g_file_test(fixture->folder, G_FILE_TEST_EXISTS));
    g_assert_false(checkpoint_folder_try(fixture->folder, UINT64_MAX, 1, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOSPC);
    g_assert_false(g_file_test(fixture->folder, G_FILE_TEST_EXISTS));
    g_clear_error(&error);

    struct statvfs system;
    g_assert_cmpint(statvfs(fixture->parent, &system), ==, 0);
    uint64_t most = (uint64_t)system.f_bavail * system.f_frsize / 3 * 2;
    g_assert_true(checkpoint_folder_try(fixture->folder, most, 1, &error));
    g_assert_no_error(error);
    g_assert_false(checkpoint_folder_try(fixture->folder, most, 2, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOSPC);
    g_assert_nonnull(strstr(error->message, "and 2 will be there at once"));
    g_error_free(error);
}

/* A symbolic link in the place of our folder for new files is refused: its target is not ours. */
static void test_linked_partial(struct fixture *fixture, const void *unused)
{
    (void)unused;
    GError *error = NULL;
    g_autofree char *other = g_build_filename(fixture->parent, "other", NULL);
    g_autofree char *thesis = g_build_filename(other, "thesis.txt", NULL);
    g_autofree char *partial = g_build_filename(fixture->folder, "next.partial", NULL);
    g_assert_cmpint(g_mkdir(other, 0777), ==, 0);
    g_assert_true(g_file_set_contents(thesis, "mine", -1, NULL));
    g_assert_cmpint(g_mkdir_with_parents(fixture->folder, 0777), ==, 0);
    g_assert_cmpint(symlink(other, partial), ==, 0);
    g_assert_false(save(fixture, fixture->model, 1, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOTDIR);
    g_assert_nonnull(strstr(error->message, partial));
    g_assert_true(g_file_test(thesis, G_FILE_TEST_EXISTS));
    g_error_free(error);
}

static void test_mismatch_by_name(struct fixture *fixture, const void *unused)
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
        {"--train", true, {.train = (char *)"all"}},
        {"--lora-alpha", true, {.lora_alpha = 8}},
    };
    struct checkpoint_state saved = example_state(7);
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
    checkpoint_state_clear(&saved);
}

static void expect_load_refused(const struct fixture *fixture, const char *reason)
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

static void test_other_model(struct fixture *fixture, const void *unused)
{
    (void)unused;
    g_assert_true(save(fixture, fixture->model, 7, NULL));
    fixture->model->config.heads = 6;
    GError *error = NULL;
    struct weights_form form;
    g_assert_false(checkpoint_load(fixture->folder, &fixture->model->config, fixture->model->trace,
                                   false, &fixture->model->store, &form, &error));
    g_assert_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_OTHER_RUN);
    g_assert_nonnull(strstr(error->message, "heads is 3 in the checkpoint, but 6"));
    g_error_free(error);
}

static void test_damaged(struct fixture *fixture, const void *unused)
{
    (void)unused;
    static const struct {
        const char *file, *reason;
    } files[] = {{"config.json", "config.json"},
                 {"model.safetensors", "model.safetensors"},
                 {"optimizer.safetensors", "optimizer.safetensors"}};
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_assert_true(save(fixture, fixture->model, 7, NULL));
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
static void test_flipped(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct checkpoint_state state = example_state(7);
    struct weights_form form = weights_form_new();
    const struct checkpoint_content content = {.state = &state,
                                               .config = &fixture->model->config,
                                               .trace = fixture->model->trace,
                                               .store = &fixture->model->store,
                                               .form = &form};
    for (uint32_t writers = 1; writers <= 3; writers += 2) {
        save_together(fixture, &content, writers);
        g_autofree char *newest = checkpoint_folder_newest(fixture->folder);
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
        expect_saved(fixture, fixture->model, 7);
    }
    checkpoint_state_clear(&state);
}

/* A damaged checkpoint is refused, and the one before it is named, from which a run can go on. */
static void test_one_before(struct fixture *fixture, const void *unused)
{
    (void)unused;
    struct small_model *later = small_model_new(true, MODEL_FP32, 5);
    g_assert_true(save(fixture, fixture->model, 7, NULL));
    g_assert_true(save(fixture, later, 8, NULL));
    g_autofree char *path = g_build_filename(fixture->folder, "newest", "optimizer.safetensors",
                                             NULL);
    flip(path, length_of(path) - 1);
    expect_load_refused(fixture, "optimizer.safetensors: damaged: tensor ");
    expect_load_refused(fixture, "checkpoint-0001-step-7 goes on from the checkpoint before");
    char *folder = fixture->folder;
    fixture->folder = g_build_filename(folder, "checkpoint-0001-step-7", NULL);
    expect_saved(fixture, fixture->model, 7);
    g_free(fixture->folder);
    fixture->folder = folder;
    small_model_free(later);
}

/* A manifest reads no file of another folder. */
static void test_other_place(struct fixture *fixture, const void *unused)
{
    (void)unused;
    g_assert_true(save(fixture, fixture->model, 7, NULL));
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

static void test_bad_state(struct fixture *fixture, const void *unused)
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
    g_assert_true(save(fixture, fixture->model, 7, NULL));
    make_earlier(fixture); /* without checksums */
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

#define ADD(path, function) \
    g_test_add("/checkpoint/" path, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("round-trip", test_round_trip);
    ADD("failed-save", test_failed_save);
    ADD("killed-save", test_killed_save);
    ADD("other-files", test_other_files);
    ADD("tried", test_tried);
    ADD("linked-partial", test_linked_partial);
    ADD("interrupted-replacement", test_interrupted_replacement);
    ADD("left-over", test_left_over);
    ADD("keep", test_keep);
    ADD("vanished", test_vanished);
    ADD("forms", test_forms);
    ADD("together", test_together);
    ADD("mismatch-by-name", test_mismatch_by_name);
    ADD("other-model", test_other_model);
    ADD("damaged", test_damaged);
    ADD("flipped", test_flipped);
    ADD("one-before", test_one_before);
    ADD("other-place", test_other_place);
    ADD("bad-state", test_bad_state);
    return g_test_run();
}
