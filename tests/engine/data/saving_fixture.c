#include "saving_fixture.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

struct checkpoint_state saving_state(uint64_t step)
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
                                     .tokens = g_strdup("uint32"),
                                     .train = g_strdup("lora:4"),
                                     .lora_alpha = 12};
}

void saving_set_up(struct saving_fixture *fixture, const void *unused)
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

void saving_tear_down(struct saving_fixture *fixture, const void *unused)
{
    (void)unused;
    small_model_free(fixture->model);
    remove_tree(fixture->parent);
    g_free(fixture->folder);
    g_free(fixture->parent);
}

uint32_t saving_count_entries(const char *path)
{
    GDir *directory = g_dir_open(path, 0, NULL);
    uint32_t count = 0;
    while (g_dir_read_name(directory))
        count++;
    g_dir_close(directory);
    return count;
}

bool saving_save_as(const struct saving_fixture *fixture, struct small_model *model, uint64_t step,
                    struct weights_form form, GError **error)
{
    struct checkpoint_state state = saving_state(step);
    const struct checkpoint_content content = {.state = &state,
                                               .config = &model->config,
                                               .trace = model->trace,
                                               .store = &model->store,
                                               .form = &form};
    bool saved = checkpoint_save(fixture->folder, &content, 2, error);
    checkpoint_state_clear(&state);
    return saved;
}

bool saving_save(const struct saving_fixture *fixture, struct small_model *model, uint64_t step,
                 GError **error)
{
    return saving_save_as(fixture, model, step, weights_form_new(), error);
}

void saving_save_together(const struct saving_fixture *fixture,
                          const struct checkpoint_content *content, uint32_t writers)
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

/* Puts the files of the newest checkpoint where earlier versions had them. */
void saving_make_earlier(const struct saving_fixture *fixture)
{
    g_autofree char *newest = checkpoint_folder_newest(fixture->folder, NULL);
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

/* What is on the disk is the state of this step and the data of this model. */
void saving_expect(const struct saving_fixture *fixture, const struct small_model *model,
                   uint64_t step)
{
    GError *error = NULL;
    struct checkpoint_state state, expected = saving_state(step);
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
