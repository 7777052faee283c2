#include "run_folder.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>

#define CONFIG                                                                                    \
    "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 32, \"n_head\": 2, \"n_positions\": " \
    "32,"                                                                                         \
    " \"vocab_size\": 256, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0.1}"

char *run_folder_path(const struct run_folder *folder, const char *name)
{
    return g_build_filename(folder->path, name, NULL);
}

void run_folder_write(const struct run_folder *folder, const char *name, const char *text)
{
    g_autofree char *path = run_folder_path(folder, name);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

void run_folder_set_up(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    folder->path = g_dir_make_tmp("pstar-run-XXXXXX", NULL);
    g_autoptr(GString) text = g_string_new(NULL);
    for (int i = 0; i < 400; i++)
        g_string_append_printf(text, "%d bottles of beer on the wall, ", i);
    run_folder_write(folder, "config.json", CONFIG);
    run_folder_write(folder, "text.txt", text->str);
}

static void remove_all(const char *path)
{
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *child = g_build_filename(path, name, NULL);
        remove_all(child);
    }
    if (dir)
        g_dir_close(dir);
    g_remove(path);
}

void run_folder_tear_down(struct run_folder *folder, gconstpointer data)
{
    (void)data;
    remove_all(folder->path);
    g_free(folder->path);
}

char **run_folder_command(const char *options)
{
    g_autofree char *line = g_strconcat(
        PROGRAM_DIR
        "/pstar-run --model config.json --data text.txt --batch 2 --seq 16 --threads 1 ",
        options, NULL);
    char **command = NULL;
    g_assert_true(g_shell_parse_argv(line, NULL, &command, NULL));
    return command;
}

int run_folder_spawn(const struct run_folder *folder, char **command, GSpawnChildSetupFunc setup,
                     void *data, char **out, char **err)
{
    g_autofree char *errors = NULL, *output = NULL, *line = g_strjoinv(" ", command);
    int status = -1;
    g_assert_true(g_spawn_sync(folder->path, command, NULL, G_SPAWN_SEARCH_PATH, setup, data,
                               &output, &errors, &status, NULL));
    g_test_message("%s: %s", line, errors);
    if (out)
        *out = g_steal_pointer(&output);
    if (err)
        *err = g_steal_pointer(&errors);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int run_folder_run(const struct run_folder *folder, const char *options, char **out, char **err)
{
    g_auto(GStrv) command = run_folder_command(options);
    return run_folder_spawn(folder, command, NULL, NULL, out, err);
}

char *run_folder_await_end(GPid child, int err, int *status)
{
    char *text = NULL;
    GIOChannel *channel = g_io_channel_unix_new(err);
    g_io_channel_set_close_on_unref(channel, TRUE);
    g_assert_cmpint(g_io_channel_read_to_end(channel, &text, NULL, NULL), ==, G_IO_STATUS_NORMAL);
    g_io_channel_unref(channel);
    g_assert_cmpint(waitpid(child, status, 0), ==, child);
    g_test_message("%s", text);
    return text;
}

void run_folder_expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        g_error("\"%s\" is not in: %s", part, text);
}

json_t *run_folder_json(const struct run_folder *folder, const char *name)
{
    g_autofree char *path = run_folder_path(folder, name);
    json_error_t problem;
    json_t *value = json_load_file(path, 0, &problem);
    if (!value)
        g_error("%s:%d: %s", path, problem.line, problem.text);
    return value;
}

bool run_folder_has(const struct run_folder *folder, const char *name)
{
    g_autofree char *path = run_folder_path(folder, name);
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

GArray *run_folder_log(const struct run_folder *folder, const char *name, const char *key)
{
    g_autofree char *path = run_folder_path(folder, name), *text = NULL;
    GArray *values = g_array_new(FALSE, FALSE, sizeof(double));
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; **line; line++) {
        json_t *object = json_loads(*line, 0, NULL);
        double value = json_number_value(json_object_get(object, key));
        g_assert_nonnull(json_object_get(object, key));
        g_array_append_val(values, value);
        json_decref(object);
    }
    return values;
}

void run_folder_same_log(const struct run_folder *folder, const char *a, const char *b,
                         const char *key)
{
    GArray *left = run_folder_log(folder, a, key), *right = run_folder_log(folder, b, key);
    g_assert_cmpmem(left->data, left->len * sizeof(double), right->data,
                    right->len * sizeof(double));
    g_assert_cmpuint(left->len, >, 0);
    g_array_unref(left);
    g_array_unref(right);
}

void run_folder_same_file(const struct run_folder *folder, const char *a, const char *b)
{
    g_autofree char *path_a = run_folder_path(folder, a), *path_b = run_folder_path(folder, b);
    g_autofree char *text_a = NULL, *text_b = NULL;
    gsize length_a, length_b;
    g_assert_true(g_file_get_contents(path_a, &text_a, &length_a, NULL));
    g_assert_true(g_file_get_contents(path_b, &text_b, &length_b, NULL));
    g_assert_cmpmem(text_a, length_a, text_b, length_b);
}
