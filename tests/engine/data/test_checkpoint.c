/* Checkpoints: whole or not at all, and the last ones stay. */
#include "saving_fixture.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

/* The files of a checkpoint of one process in one file of weights, and those that are not linked.
 */
enum { FILES = 5, OWN = 1 };

/* The folder has so many checkpoints, a link to the newest, and links to its files but the
 * manifest. */
static void expect_entries(const struct saving_fixture *fixture, uint32_t checkpoints,
                           uint32_t files)
{
    g_autofree char *newest = g_build_filename(fixture->folder, "newest", NULL);
    g_assert_cmpuint(checkpoint_folder_count(fixture->folder), ==, checkpoints);
    g_assert_cmpuint(saving_count_entries(newest), ==, files);
    g_assert_cmpuint(saving_count_entries(fixture->folder), ==, checkpoints + 1 + files - OWN);
}

static uint32_t count_siblings(const struct saving_fixture *fixture)
{
    char *parent = g_path_get_dirname(fixture->folder);
    uint32_t count = saving_count_entries(parent);
    g_free(parent);
    return count;
}

static void test_round_trip(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    GError *error = NULL;
    g_assert_true(saving_save(fixture, fixture->model, 7, &error));
    saving_expect(fixture, fixture->model, 7);
    struct small_model *later = small_model_new(true, MODEL_FP32, 5);
    char *slashed = g_strconcat(fixture->folder, "//", NULL);
    struct checkpoint_state state = saving_state(8);
    struct weights_form form = weights_form_new();
    const struct checkpoint_content content = {.state = &state,
                                               .config = &later->config,
                                               .trace = later->trace,
                                               .store = &later->store,
                                               .form = &form};
    g_assert_true(checkpoint_save(slashed, &content, 2, &error));
    saving_expect(fixture, later, 8);
    g_assert_cmpuint(count_siblings(fixture), ==, 1);
    expect_entries(fixture, 2, FILES);
    checkpoint_state_clear(&state);
    g_free(slashed);
    small_model_free(later);
}

static void test_failed_save(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    struct small_model *later = small_model_new(true, MODEL_FP32, 5);
    for (later->fail_after = 1; later->fail_after < 3 * later->trace->tensor_count;
         later->fail_after += 13) {
        GError *error = NULL;
        later->reads = 0;
        g_assert_false(saving_save(fixture, later, 8, &error));
        g_assert_cmpstr(error->message, ==, "the store fails");
        g_error_free(error);
        saving_expect(fixture, fixture->model, 7);
        g_assert_cmpuint(count_siblings(fixture), ==, 1);
    }
    small_model_free(later);
}

/* A process that dies while it saves. */
static void test_killed_save(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    for (int delay = 0; delay < 10; delay++) {
        pid_t child = fork();
        g_assert_cmpint(child, >=, 0);
        if (child == 0)
            for (;;)
                saving_save(fixture, fixture->model, 7, NULL);
        g_usleep((gulong)g_test_rand_int_range(1000, 30000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        saving_expect(fixture, fixture->model, 7);
    }
}

static void test_other_files(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    GError *error = NULL;
    char *file = g_build_filename(fixture->folder, "notes.txt", NULL);
    g_mkdir_with_parents(fixture->folder, 0777);
    g_assert_true(g_file_set_contents(file, "mine", -1, NULL));
    g_assert_false(checkpoint_may_save(fixture->folder, &error));
    g_assert_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO);
    g_clear_error(&error);
    g_assert_false(saving_save(fixture, fixture->model, 7, &error));
    g_clear_error(&error);
    g_unlink(file);

    g_assert_true(saving_save(fixture, fixture->model, 7, &error)); /* into an empty folder */
    g_assert_true(g_file_set_contents(file, "mine", -1, NULL));
    g_assert_true(saving_save(fixture, fixture->model, 8, &error));
    saving_expect(fixture, fixture->model, 8);
    char *text;
    g_assert_true(g_file_get_contents(file, &text, NULL, NULL));
    g_assert_cmpstr(text, ==, "mine");
    g_free(text);
    g_free(file);
}

static bool has(const struct saving_fixture *fixture, const char *name)
{
    g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

static bool is_link(const struct saving_fixture *fixture, const char *name)
{
    g_autofree char *path = g_build_filename(fixture->folder, name, NULL);
    return g_file_test(path, G_FILE_TEST_IS_SYMLINK);
}

/* An earlier version that dies while it moves its files has replaced the checkpoint. The next
 * checkpoint has a folder of its own, and its links take their place. */
static void test_interrupted_replacement(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    static const char *const moved_later[] = {"optimizer.safetensors", "trainer.json", NULL};
    struct small_model *later = small_model_new(true, MODEL_FP32, 5);
    g_autofree char *partial = g_build_filename(fixture->folder, "next.partial", NULL);
    g_autofree char *complete = g_build_filename(partial, "complete", NULL);
    g_autofree char *state = g_build_filename(fixture->folder, "trainer.json", NULL);
    g_assert_true(saving_save(fixture, later, 8, NULL));
    saving_make_earlier(fixture);
    saving_expect(fixture, later, 8);

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
    saving_expect(fixture, later, 8);
    g_assert_cmpuint(saving_count_entries(fixture->folder), ==, 4);

    GError *error = NULL;
    const struct weights_form parts = {.halves = false, .file_bytes = 3000};
    saving_save_as(fixture, fixture->model, 9, parts, &error);
    g_assert_no_error(error);
    saving_expect(fixture, fixture->model, 9);
    g_assert_false(has(fixture, "model.safetensors"));
    g_assert_true(has(fixture, "model.safetensors.index.json"));
    g_assert_true(is_link(fixture, "trainer.json"));
    small_model_free(later);
}

/* A process that dies while it writes, removes or links leaves folders and links that the next one
 * removes. A folder of an unfinished checkpoint is never read. */
static void test_left_over(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    static const char *const folders[] = {"step-8.partial", "step-0.partial", "old.partial",
                                          "next.partial", "try.partial"};
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
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
    saving_expect(fixture, fixture->model, 7);
    g_assert_true(saving_save(fixture, fixture->model, 8, NULL));
    saving_expect(fixture, fixture->model, 8);
    g_assert_cmpint(g_rmdir(mine), ==, 0);
    expect_entries(fixture, 2, FILES);
}

/* A process that dies when a checkpoint is complete may not have moved the links, or only some. The
 * next one that saves there moves them before it does anything else. */
static void test_links_left(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    struct checkpoint_folder folder;
    GError *error = NULL;
    g_autofree char *newest = g_build_filename(fixture->folder, "newest", NULL);
    g_autofree char *file = g_build_filename(fixture->folder, "model.safetensors", NULL);
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    g_assert_true(saving_save(fixture, fixture->model, 8, NULL));
    g_assert_cmpint(g_unlink(newest), ==, 0);
    g_assert_cmpint(symlink("checkpoint-0001-step-7", newest), ==, 0);
    g_assert_cmpint(g_unlink(file), ==, 0);
    checkpoint_folder_open(&folder, fixture->folder, &error);
    g_assert_no_error(error);
    checkpoint_folder_clear(&folder);
    g_autofree char *target = g_file_read_link(newest, NULL);
    g_assert_cmpstr(target, ==, "checkpoint-0002-step-8");
    expect_entries(fixture, 2, FILES);
}

/* A folder of which no file has been moved yet is no checkpoint, and goes before the partial one
 * that tells it from a checkpoint that has lost its files. */
static void test_not_moved(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    static const char *const folders[] = {"checkpoint-0002-step-8", "step-8.partial"};
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    for (size_t i = 0; i < G_N_ELEMENTS(folders); i++) {
        g_autofree char *folder = g_build_filename(fixture->folder, folders[i], NULL);
        g_assert_cmpint(g_mkdir(folder, 0777), ==, 0);
    }
    saving_expect(fixture, fixture->model, 7);
    g_assert_true(saving_save(fixture, fixture->model, 9, NULL));
    saving_expect(fixture, fixture->model, 9);
    expect_entries(fixture, 2, FILES);
}

/* Makes a folder, `name` in the checkpoints' one, that holds a file and what cannot be removed: no
 * save removes a folder within one. A disk that fails, or NFS if a file is open, does the same. */
static void hold(const struct saving_fixture *fixture, const char *name)
{
    g_autofree char *folder = g_build_filename(fixture->folder, name, NULL);
    g_autofree char *held = g_build_filename(folder, "held", NULL);
    g_autofree char *file = g_build_filename(folder, "trainer.json", NULL);
    g_assert_cmpint(g_mkdir_with_parents(held, 0777), ==, 0);
    g_assert_true(g_file_set_contents(file, "half", -1, NULL));
}

static void let_go(const struct saving_fixture *fixture, const char *name)
{
    g_autofree char *held = g_build_filename(fixture->folder, name, "held", NULL);
    g_autofree char *file = g_build_filename(fixture->folder, name, "trainer.json", NULL);
    g_assert_false(g_file_test(file, G_FILE_TEST_EXISTS));
    g_assert_cmpint(g_rmdir(held), ==, 0);
}

/* Of what is left over and cannot be removed as much as can be is removed, and nothing of it keeps
 * a run from saving, or from removing old checkpoints. It goes as soon as it can. */
static void test_held(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    GError *error = NULL;
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    hold(fixture, "old.partial");
    hold(fixture, "step-8.partial");
    for (uint64_t step = 8; step < 11; step++) {
        g_assert_true(saving_save(fixture, fixture->model, step, &error));
        g_assert_no_error(error);
        saving_expect(fixture, fixture->model, step);
        g_assert_cmpuint(checkpoint_folder_count(fixture->folder), ==, 2);
    }
    let_go(fixture, "old.partial");
    let_go(fixture, "old-2.partial");
    g_assert_true(saving_save(fixture, fixture->model, 11, &error));
    expect_entries(fixture, 2, FILES);
}

/* The last ones stay, in the order in which they were saved, whatever their steps are. */
static void test_keep(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    static const uint64_t steps[] = {5, 9, 100, 3, 3, 4};
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        GError *error = NULL;
        uint32_t keep = i < 5 ? 3 : 1;
        struct checkpoint_state state = saving_state(steps[i]);
        struct weights_form form = weights_form_new();
        struct small_model *model = small_model_new(true, MODEL_FP32, (uint32_t)i + 1);
        const struct checkpoint_content content = {.state = &state,
                                                   .config = &model->config,
                                                   .trace = model->trace,
                                                   .store = &model->store,
                                                   .form = &form};
        checkpoint_save(fixture->folder, &content, keep, &error);
        g_assert_no_error(error);
        saving_expect(fixture, model, steps[i]);
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
static void test_vanished(struct saving_fixture *fixture, const void *unused)
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
    g_assert_true(saving_save(fixture, fixture->model, 7, NULL));
    g_autofree char *partial = checkpoint_folder_begin(&folder, 3, true, &error);
    g_assert_no_error(error);
    g_assert_true(g_file_test(partial, G_FILE_TEST_IS_DIR));
    checkpoint_folder_abandon(&folder, 3);
    g_assert_false(g_file_test(partial, G_FILE_TEST_EXISTS));
    checkpoint_folder_clear(&folder);
}

/* Weights in bf16 lose nothing, because their masters are beside the moments. Whatever the form of
 * a checkpoint, it replaces one of another form whole, also when that is interrupted. */
static void test_forms(struct saving_fixture *fixture, const void *unused)
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
        g_assert_true(saving_save_as(fixture, model, i, forms[i], &error));
        saving_expect(fixture, model, i);
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

/* Any number of writers leave together what one leaves, each in files of its own, and replace each
 * other's files. A file that one of them has not written is missed before anything is replaced. */
static void test_together(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    struct small_model *model = NULL;
    struct checkpoint_state state = saving_state(7);
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
        saving_save_together(fixture, &content, writers);
        saving_expect(fixture, model, 7);
        g_assert_true(has(fixture, "optimizer.safetensors") == (writers == 1));
        if (form.file_bytes > 5000)
            g_assert_cmpuint(saving_count_entries(fixture->folder), <=, 7 + 2 * writers);
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
    saving_expect(fixture, model, 7);
    checkpoint_state_clear(&state);
    small_model_free(model);
}

static void test_tried(struct saving_fixture *fixture, const void *unused)
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
static void test_linked_partial(struct saving_fixture *fixture, const void *unused)
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
    g_assert_false(saving_save(fixture, fixture->model, 1, &error));
    g_assert_error(error, G_FILE_ERROR, G_FILE_ERROR_NOTDIR);
    g_assert_nonnull(strstr(error->message, partial));
    g_assert_true(g_file_test(thesis, G_FILE_TEST_EXISTS));
    g_error_free(error);
}

#define ADD(path, function)                                                               \
    g_test_add("/checkpoint/" path, struct saving_fixture, NULL, saving_set_up, function, \
               saving_tear_down)

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
    ADD("links-left", test_links_left);
    ADD("not-moved", test_not_moved);
    ADD("held", test_held);
    ADD("keep", test_keep);
    ADD("vanished", test_vanished);
    ADD("forms", test_forms);
    ADD("together", test_together);
    return g_test_run();
}
