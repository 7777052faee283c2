#include "engine/train/checkpoint_state.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_FILE    "config.json"
#define OPTIMIZER_FILE "optimizer.safetensors"

static const char *const files[] = {CONFIG_FILE, WEIGHTS_FILE, OPTIMIZER_FILE,
                                    CHECKPOINT_STATE_FILE};
static const enum trace_list moments[] = {TRACE_EXP_AVG, TRACE_EXP_AVG_SQ};

static bool fail(const char *path, GError **error)
{
    g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO, "%s: %s", path, g_strerror(errno));
    return false;
}

static char *moment_name(const struct trace *trace, uint32_t tensor, enum trace_list list)
{
    return g_strconcat(trace->tensors[tensor].name, ".", trace_list_name(list), NULL);
}

static bool save_moments(const char *folder, const struct model_config *config,
                         const struct trace *trace, const struct weights_store *store,
                         GError **error)
{
    char *path = g_build_filename(folder, OPTIMIZER_FILE, NULL);
    struct safetensors_writer *writer = safetensors_writer_new(path);
    for (size_t m = 0; m < G_N_ELEMENTS(moments); m++) {
        for (uint32_t i = 0; i < trace->tensor_count; i++) {
            char *name = moment_name(trace, i, moments[m]);
            uint64_t shape[2];
            uint32_t rank = weights_shape(config, trace->tensors[i].name, shape);
            safetensors_writer_declare(writer, name, shape, rank);
            g_free(name);
        }
    }
    bool saved = true;
    for (size_t m = 0; m < G_N_ELEMENTS(moments); m++) {
        for (uint32_t i = 0; saved && i < trace->tensor_count; i++) {
            saved = weights_copy_out(writer, store, i, moments[m], trace->tensors[i].elements,
                                     error);
        }
    }
    saved = saved && safetensors_writer_finish(writer, error);
    safetensors_writer_free(writer);
    g_free(path);
    return saved;
}

static bool write_all(const char *folder, const struct checkpoint_state *state,
                      const struct model_config *config, const struct trace *trace,
                      const struct weights_store *store, GError **error)
{
    char *config_path = g_build_filename(folder, CONFIG_FILE, NULL);
    bool written = model_config_write(config, config_path, error) &&
                   weights_save(folder, config, trace, store, error) &&
                   save_moments(folder, config, trace, store, error) &&
                   checkpoint_write_state(folder, state, error);
    g_free(config_path);
    return written;
}

static bool is_ours(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++)
        if (strcmp(files[i], name) == 0)
            return true;
    return false;
}

/* Removes a folder of a checkpoint. What else people keep in it moves to `heir`; NULL: there is
 * nothing else. */
static bool remove_folder(const char *folder, const char *heir, GError **error)
{
    GDir *directory = g_dir_open(folder, 0, error);
    if (!directory)
        return false;
    bool removed = true;
    for (const char *name; removed && (name = g_dir_read_name(directory));) {
        char *path = g_build_filename(folder, name, NULL);
        if (!heir || is_ours(name)) {
            removed = g_unlink(path) == 0 || fail(path, error);
        } else {
            char *new_path = g_build_filename(heir, name, NULL);
            removed = g_rename(path, new_path) == 0 || fail(path, error);
            g_free(new_path);
        }
        g_free(path);
    }
    g_dir_close(directory);
    return removed && (g_rmdir(folder) == 0 || fail(folder, error));
}

/* Puts the new folder in the place of the old one, which must not be missing for a moment. */
static bool put_in_place(const char *fresh, const char *folder, GError **error)
{
    if (g_rename(fresh, folder) == 0) /* nothing was there, or an empty folder */
        return true;
    if (renameat2(AT_FDCWD, fresh, AT_FDCWD, folder, RENAME_EXCHANGE) != 0) {
        fail(folder, error);
        remove_folder(fresh, NULL, NULL);
        return false;
    }
    return remove_folder(fresh, folder, error);
}

bool checkpoint_may_save(const char *folder, GError **error)
{
    char *state_path = g_build_filename(folder, CHECKPOINT_STATE_FILE, NULL);
    bool ours = g_file_test(state_path, G_FILE_TEST_EXISTS);
    g_free(state_path);
    if (ours || !g_file_test(folder, G_FILE_TEST_EXISTS))
        return true;
    GDir *directory = g_dir_open(folder, 0, error);
    if (!directory)
        return false;
    bool empty = g_dir_read_name(directory) == NULL;
    g_dir_close(directory);
    if (!empty) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO,
                    "%s: is neither empty nor a checkpoint", folder);
    }
    return empty;
}

/* Without slashes at the end, behind which the temporary name would lie inside the folder. */
static char *plain_name(const char *folder)
{
    char *name = g_strdup(folder);
    for (size_t length = strlen(name); length > 1 && name[length - 1] == '/'; length--)
        name[length - 1] = '\0';
    return name;
}

bool checkpoint_save(const char *folder, const struct checkpoint_state *state,
                     const struct model_config *config, const struct trace *trace,
                     const struct weights_store *store, GError **error)
{
    char *name = plain_name(folder);
    char *parent = g_path_get_dirname(name);
    char *fresh = g_strconcat(name, ".tmp-XXXXXX", NULL);
    bool saved = false;
    if (!checkpoint_may_save(name, error))
        goto out;
    if (g_mkdir_with_parents(parent, 0777) != 0 || !g_mkdtemp_full(fresh, 0777)) {
        fail(name, error);
        goto out;
    }
    if (!write_all(fresh, state, config, trace, store, error)) {
        remove_folder(fresh, NULL, NULL);
        goto out;
    }
    saved = put_in_place(fresh, name, error);
out:
    g_free(fresh);
    g_free(parent);
    g_free(name);
    return saved;
}

static bool check_moments(const struct safetensors *file, const struct model_config *config,
                          const struct trace *trace, GError **error)
{
    for (size_t m = 0; m < G_N_ELEMENTS(moments); m++) {
        for (uint32_t i = 0; i < trace->tensor_count; i++) {
            char *name = moment_name(trace, i, moments[m]);
            const struct safetensors_tensor *tensor = safetensors_find(file, name);
            uint64_t shape[2];
            uint32_t rank = weights_shape(config, trace->tensors[i].name, shape);
            if (!tensor) {
                g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID,
                            "%s: tensor %s is missing", safetensors_path(file), name);
            }
            g_free(name);
            if (!tensor || !safetensors_expect(file, tensor, shape, rank, error))
                return false;
        }
    }
    return true;
}

static bool load_moments(const struct safetensors *file, const struct trace *trace,
                         const struct weights_store *store, GError **error)
{
    bool loaded = true;
    for (size_t m = 0; m < G_N_ELEMENTS(moments); m++) {
        for (uint32_t i = 0; loaded && i < trace->tensor_count; i++) {
            char *name = moment_name(trace, i, moments[m]);
            loaded = weights_copy_in(file, safetensors_find(file, name), store, i, moments[m],
                                     error);
            g_free(name);
        }
    }
    return loaded;
}

static bool check_config(const char *folder, const struct model_config *config, GError **error)
{
    struct model_config *saved = model_config_read(folder, error);
    bool same = saved && checkpoint_match_config(folder, saved, config, error);
    model_config_free(saved);
    return same;
}

bool checkpoint_load(const char *folder, const struct model_config *config,
                     const struct trace *trace, const struct weights_store *store, GError **error)
{
    char *path = g_build_filename(folder, OPTIMIZER_FILE, NULL);
    struct safetensors *weights = NULL, *optimizer = NULL;
    bool loaded = check_config(folder, config, error) &&
                  (weights = weights_open(folder, config, trace, error)) &&
                  (optimizer = safetensors_open(path, error)) &&
                  check_moments(optimizer, config, trace, error) &&
                  weights_load(weights, trace, store, error) &&
                  load_moments(optimizer, trace, store, error);
    safetensors_close(optimizer);
    safetensors_close(weights);
    g_free(path);
    return loaded;
}
