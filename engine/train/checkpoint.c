#include "engine/train/checkpoint.h"

#include "base/process_limits.h"
#include "base/size.h"
#include "engine/adapters.h"
#include "engine/train/checkpoint_folder.h"
#include "engine/train/checkpoint_manifest.h"
#include "engine/train/model_files.h"

#include <jansson.h>
#include <string.h>
#include <sys/resource.h>

#define CONFIG_FILE    "config.json"
#define OPTIMIZER_STEM "optimizer"

/* ---- files ---- */

/* A list of optimizer.safetensors: each tensor's name is followed by a dot and this one. */
struct saved_list {
    const char *name;
    enum trace_list list;
};

enum { MOST_LISTS = 4 };

/* Returns whether adapters are trained, and saved instead of the model. Their file is in fp32. */
static bool has_adapters(const struct trace *trace)
{
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        if (weights_is_adapter(trace->tensors[i].name))
            return true;
    return false;
}

/* Sets the lists: the moments; if the weights' file is in bf16, the weights in fp32; and with a
 * delay the parameters, which are a version behind the weights. Loading the weights sets both
 * versions, so parameters come last. Returns their number. */
static size_t saved_lists(const struct trace *trace, bool halves, bool delay,
                          struct saved_list lists[MOST_LISTS])
{
    bool masters = halves && !has_adapters(trace);
    size_t count = 0;
    lists[count++] = (struct saved_list){"exp_avg", TRACE_EXP_AVG};
    lists[count++] = (struct saved_list){"exp_avg_sq", TRACE_EXP_AVG_SQ};
    if (masters)
        lists[count++] = (struct saved_list){"master", weights_list(trace)};
    if (delay)
        lists[count++] = (struct saved_list){"param", TRACE_PARAM};
    return count;
}

/* Frozen tensors are as the weights' files have them. */
static bool is_frozen(const struct trace *trace, tensor_id tensor)
{
    return !trace_has(trace, TRACE_EXP_AVG, tensor);
}

static char *optimizer_name(const struct trace *trace, tensor_id tensor,
                            const struct saved_list *list)
{
    return g_strconcat(trace->tensors[tensor].name, ".", list->name, NULL);
}

/* Writes all lists of the file's tensors. */
static bool save_states(const char *folder, const char *file_name,
                        const struct checkpoint_content *content, const struct weights_file *file,
                        struct weights_writer of, GError **error)
{
    g_autofree char *path = g_build_filename(folder, file_name, NULL);
    const struct trace *trace = content->trace;
    struct saved_list lists[MOST_LISTS];
    size_t count = saved_lists(trace, content->form->halves, content->state->delay, lists);
    struct safetensors_writer *writer = safetensors_writer_new(path);
    for (size_t m = 0; m < count; m++) {
        for (uint32_t i = file->first; i < file->end; i++) {
            if (is_frozen(trace, i))
                continue;
            char *name = optimizer_name(trace, i, &lists[m]);
            uint64_t shape[2];
            uint32_t rank = weights_shape(content->config, trace->tensors[i].name, shape);
            safetensors_writer_declare(writer, SAFETENSORS_F32, name, shape, rank);
            g_free(name);
        }
    }
    bool saved = true;
    for (size_t m = 0; m < count; m++) {
        for (uint32_t i = file->first; saved && i < file->end; i++) {
            if (is_frozen(trace, i))
                continue;
            saved = weights_copy_out(writer, content->store, i, lists[m].list,
                                     trace->tensors[i].elements, error);
        }
    }
    saved = saved && weights_file_finish(of, file_name, writer, error);
    safetensors_writer_free(writer);
    return saved;
}

static bool save_optimizer_index(const char *folder, const struct checkpoint_content *content,
                                 const GArray *files, GError **error)
{
    const struct trace *trace = content->trace;
    struct saved_list lists[MOST_LISTS];
    size_t count = saved_lists(trace, content->form->halves, content->state->delay, lists);
    json_t *map = json_object();
    uint64_t bytes = 0;
    for (uint32_t f = 0; f < files->len; f++) {
        const struct weights_file *file = &g_array_index(files, struct weights_file, f);
        g_autofree char *in = weights_file_name(OPTIMIZER_STEM, f, files->len);
        for (uint32_t i = file->first; i < file->end; i++) {
            if (is_frozen(trace, i))
                continue;
            bytes += count * trace->tensors[i].elements * sizeof(float);
            for (size_t m = 0; m < count; m++) {
                g_autofree char *name = optimizer_name(trace, i, &lists[m]);
                json_object_set_new(map, name, json_string(in));
            }
        }
    }
    return weights_files_write_index(folder, OPTIMIZER_STEM, map, bytes, error);
}

/* Each writer has one file. */
static GArray *optimizer_files(const struct checkpoint_content *content, uint32_t writers)
{
    return weights_files(content->trace, writers, sizeof(float), UINT64_MAX);
}

static bool save_optimizer(const char *folder, const struct checkpoint_content *content,
                           struct weights_writer writer, GError **error)
{
    g_autoptr(GArray) files = optimizer_files(content, writer.count);
    bool saved = true;
    for (uint32_t f = 0; saved && f < files->len; f++) {
        const struct weights_file *file = &g_array_index(files, struct weights_file, f);
        g_autofree char *name = weights_file_name(OPTIMIZER_STEM, f, files->len);
        if (file->writer == writer.index)
            saved = save_states(folder, name, content, file, writer, error);
    }
    return saved && (files->len == 1 || writer.index > 0 ||
                     save_optimizer_index(folder, content, files, error));
}

/* Writes what a checkpoint has once. Adapters leave their model where it is. `folder` is within the
 * one that has the checkpoints. */
static bool write_common(const char *folder, const struct checkpoint_content *content,
                         GError **error)
{
    g_autofree char *config_path = g_build_filename(folder, CONFIG_FILE, NULL);
    g_autofree char *around = g_path_get_dirname(folder);
    return (content->config->lora_rank ||
            (model_config_write(content->config, config_path, error) &&
             model_files_copy(content->state->model, around, folder, error))) &&
           checkpoint_state_write(folder, content->state, error);
}

static bool write_weights(const char *folder, const struct checkpoint_content *content,
                          struct weights_writer writer, GError **error)
{
    if (!content->config->lora_rank)
        return weights_save(folder, content->config, content->trace, content->store, content->form,
                            writer, error);
    return writer.index > 0 || adapters_save(folder, content->config, content->trace,
                                             content->store, content->state->model, writer, error);
}

bool checkpoint_write(const char *partial, const struct checkpoint_content *content,
                      struct weights_writer writer, GError **error)
{
    writer.checksums = json_object();
    bool written = (writer.index > 0 || write_common(partial, content, error)) &&
                   write_weights(partial, content, writer, error) &&
                   save_optimizer(partial, content, writer, error) &&
                   checkpoint_manifest_write(partial, writer, error);
    json_decref(writer.checksums);
    return written;
}

/* ---- the folder ---- */

char *checkpoint_find(const char *path, GError **error)
{
    if (!checkpoint_folder_recover(path, error))
        return NULL;
    GError *unreadable = NULL;
    char *newest = checkpoint_folder_newest(path, &unreadable);
    if (unreadable) {
        g_propagate_error(error, unreadable);
        return NULL;
    }
    return newest ? newest : g_strdup(path);
}

bool checkpoint_may_save(const char *folder, GError **error)
{
    g_autoptr(GError) unreadable = NULL;
    struct checkpoint_state saved;
    if (!*folder) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO, "the folder's name is empty");
        return false;
    }
    if (checkpoint_manifest_exists(folder)) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO,
                    "%s: this is one checkpoint; the folder around it has several", folder);
        return false;
    }
    if (!checkpoint_folder_recover(folder, error))
        return false;
    if (checkpoint_folder_count(folder) || checkpoint_folder_is_empty(folder, &unreadable))
        return true;
    if (unreadable) {
        g_propagate_error(error, g_steal_pointer(&unreadable));
        return false;
    }
    bool ours = checkpoint_state_read(folder, &saved, NULL);
    checkpoint_state_clear(&saved);
    if (!ours)
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO,
                    "%s: the directory is neither empty nor a checkpoint", folder);
    return ours;
}

/* Masters that lie beside weights in bf16 are these weights. */
size_t checkpoint_lists(const struct trace *trace, tensor_id tensor, bool delay,
                        enum trace_list lists[CHECKPOINT_LISTS])
{
    size_t count = 0;
    if (!has_adapters(trace) || weights_is_adapter(trace->tensors[tensor].name))
        lists[count++] = weights_list_of(trace, tensor);
    if (is_frozen(trace, tensor))
        return count;
    lists[count++] = TRACE_EXP_AVG;
    lists[count++] = TRACE_EXP_AVG_SQ;
    if (delay && weights_list_of(trace, tensor) != TRACE_PARAM)
        lists[count++] = TRACE_PARAM;
    return count;
}

uint64_t checkpoint_bytes(const struct trace *trace, bool delay)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        enum trace_list lists[CHECKPOINT_LISTS];
        elements += checkpoint_lists(trace, i, delay, lists) * trace->tensors[i].elements;
    }
    return elements * sizeof(float);
}

/* Returns how many new checkpoints there will be at once. Those that are there already make room
 * for new ones. */
static uint32_t count_copies(const char *folder, uint64_t saves, uint32_t keep)
{
    uint64_t there = checkpoint_folder_count(folder), most = (uint64_t)keep + 1;
    return (uint32_t)MAX(MIN(MIN(saves, most), most - MIN(there, keep)), 1);
}

/* Looks at the largest file, which has the moments: RLIMIT_FSIZE ends its writing. */
static bool may_be_as_large(const char *folder, const struct trace *trace, uint32_t writers,
                            GError **error)
{
    enum { MOMENTS = 2 };
    uint64_t limit = process_limit(RLIMIT_FSIZE), elements = 0;
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        elements += is_frozen(trace, i) ? 0 : trace->tensors[i].elements;
    uint64_t bytes = MOMENTS * elements * sizeof(float) / writers;
    if (bytes <= limit)
        return true;
    g_autofree char *needed = size_format(bytes), *most = size_format(limit);
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED,
                "%s: a checkpoint has a file of %s, but files are limited to %s (ulimit -f)",
                folder, needed, most);
    return false;
}

bool checkpoint_try(const char *folder, const struct trace *trace, bool delay, uint32_t writers,
                    uint64_t saves, uint32_t keep, GError **error)
{
    return checkpoint_may_save(folder, error) && may_be_as_large(folder, trace, writers, error) &&
           checkpoint_folder_try(folder, checkpoint_bytes(trace, delay),
                                 count_copies(folder, saves, keep), error);
}

bool checkpoint_look(const char *folder, const struct trace *trace, bool delay, uint32_t writers,
                     uint64_t saves, uint32_t keep, GError **error)
{
    return checkpoint_may_save(folder, error) && may_be_as_large(folder, trace, writers, error) &&
           checkpoint_folder_look(folder, checkpoint_bytes(trace, delay),
                                  count_copies(folder, saves, keep), error);
}

/* Recognises the files that an earlier version had in the folder itself, besides those that every
 * checkpoint has. */
static bool is_old(const char *name)
{
    return weights_file_is(WEIGHTS_STEM, name) || weights_file_is(OPTIMIZER_STEM, name) ||
           adapters_is_file(name);
}

/* Several files have an index. */
static uint32_t with_index(GArray *files)
{
    uint32_t count = files->len;
    g_array_unref(files);
    return count == 1 ? 1 : count + 1;
}

static uint32_t count_files(const char *path, const struct checkpoint_content *content,
                            uint32_t writers)
{
    enum { COMMON = 2 }; /* config.json, or that of adapters, and trainer.json */
    uint32_t copied = content->config->lora_rank ? 0
                                                 : model_files_count(content->state->model, path);
    uint32_t weights = content->config->lora_rank
                           ? 1
                           : with_index(weights_form_files(content->form, content->trace, writers));
    return COMMON + copied + weights + with_index(optimizer_files(content, writers)) + writers;
}

bool checkpoint_complete(struct checkpoint_folder *folder, const struct checkpoint_content *content,
                         uint32_t writers, uint32_t keep, GError **error)
{
    return checkpoint_folder_complete(folder, content->state->step,
                                      count_files(folder->path, content, writers), keep, is_old,
                                      error);
}

bool checkpoint_save(const char *path, const struct checkpoint_content *content, uint32_t keep,
                     GError **error)
{
    const struct weights_writer alone = {.index = 0, .count = 1};
    uint64_t step = content->state->step;
    struct checkpoint_folder folder = {0};
    bool saved = false;
    if (checkpoint_may_save(path, error) && checkpoint_folder_open(&folder, path, error)) {
        g_autofree char *partial = checkpoint_folder_begin(&folder, step, true, error);
        saved = partial && checkpoint_write(partial, content, alone, error) &&
                checkpoint_complete(&folder, content, alone.count, keep, error);
        if (!saved)
            checkpoint_folder_abandon(&folder, step);
    }
    checkpoint_folder_clear(&folder);
    return saved;
}

/* ---- loading ---- */

/* Returns whether the file holds weights, because those in the model's file are rounded. */
static bool holds_weights(const struct safetensors *file, const struct trace *trace)
{
    const struct saved_list list = {"master", weights_list(trace)};
    tensor_id first = 0;
    while (is_frozen(trace, first))
        first++;
    g_autofree char *name = optimizer_name(trace, first, &list);
    return safetensors_find(file, name) != NULL;
}

static bool check_optimizer(const struct safetensors *file, const struct model_config *config,
                            const struct trace *trace, bool delay, GError **error)
{
    struct saved_list lists[MOST_LISTS];
    size_t count = saved_lists(trace, holds_weights(file, trace), delay, lists);
    for (size_t m = 0; m < count; m++) {
        for (uint32_t i = 0; i < trace->tensor_count; i++) {
            if (is_frozen(trace, i))
                continue;
            char *name = optimizer_name(trace, i, &lists[m]);
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

static bool load_optimizer(const struct safetensors *file, const struct trace *trace, bool delay,
                           const struct weights_store *store, GError **error)
{
    struct saved_list lists[MOST_LISTS];
    size_t count = saved_lists(trace, holds_weights(file, trace), delay, lists);
    bool loaded = true;
    for (size_t m = 0; m < count; m++) {
        for (uint32_t i = 0; loaded && i < trace->tensor_count; i++) {
            if (is_frozen(trace, i))
                continue;
            char *name = optimizer_name(trace, i, &lists[m]);
            loaded = weights_copy_in(file, safetensors_find(file, name), store, i, lists[m].list,
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

/* The states lie in one file, or in one of each process that saved. */
static struct safetensors *open_optimizer(const char *folder, bool *several, GError **error)
{
    g_autofree char *file = g_build_filename(folder, OPTIMIZER_STEM ".safetensors", NULL);
    g_autofree char *index = g_build_filename(folder, OPTIMIZER_STEM ".safetensors.index.json",
                                              NULL);
    *several = !g_file_test(file, G_FILE_TEST_EXISTS) && g_file_test(index, G_FILE_TEST_EXISTS);
    return *several ? safetensors_open_index(index, error) : safetensors_open(file, error);
}

/* Files of tensors are read only with `tensors`. */
static bool check_files(const char *folder, bool tensors, GError **error)
{
    struct checkpoint_state state;
    if (!checkpoint_manifest_check(folder, false, error) ||
        !checkpoint_state_read(folder, &state, error))
        return false;
    bool needed = state.version > CHECKPOINT_WITHOUT_MANIFEST;
    checkpoint_state_clear(&state);
    if (needed && !checkpoint_manifest_exists(folder)) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID,
                    "%s: damaged: checkpoint.json is missing, which has the checksums", folder);
        return false;
    }
    return !tensors || checkpoint_manifest_check(folder, true, error);
}

/* Says from which other checkpoint a run can go on, if there is one. Nothing goes on from it by
 * itself: a run that repeats steps must be wanted. */
static bool check(const char *folder, bool tensors, GError **error)
{
    g_autoptr(GError) problem = NULL;
    if (check_files(folder, tensors, &problem))
        return true;
    g_autofree char *before = checkpoint_folder_before(folder);
    if (before)
        g_set_error(error, problem->domain, problem->code,
                    "%s; --resume %s goes on from the checkpoint before", problem->message, before);
    else
        g_propagate_error(error, g_steal_pointer(&problem));
    return false;
}

bool checkpoint_read_state(const char *folder, struct checkpoint_state *state, GError **error)
{
    g_autofree char *found = checkpoint_find(folder, error);
    *state = (struct checkpoint_state){0};
    return found && check(found, false, error) && checkpoint_state_read(found, state, error);
}

bool checkpoint_load(const char *path, const struct model_config *config, const struct trace *trace,
                     bool delay, const struct weights_store *store, struct weights_form *form,
                     GError **error)
{
    g_autofree char *folder = checkpoint_find(path, error);
    if (!folder || !check(folder, true, error))
        return false;
    bool several = false;
    struct safetensors *weights = NULL, *optimizer = NULL;
    bool of_model = !config->lora_rank;
    bool loaded = (!of_model || check_config(folder, config, error)) &&
                  (weights = of_model ? weights_open(folder, config, trace, error)
                                      : adapters_open(folder, config, trace, error)) &&
                  (optimizer = open_optimizer(folder, &several, error)) &&
                  check_optimizer(optimizer, config, trace, delay, error) &&
                  (of_model ? weights_load : adapters_load)(weights, config, trace, store, error) &&
                  load_optimizer(optimizer, trace, delay, store, error);
    if (loaded && of_model)
        *form = weights_form_of(weights);
    if (loaded && several) /* the sizes of the weights' files come from the number of ranks */
        form->file_bytes = weights_form_new().file_bytes;
    safetensors_close(optimizer);
    safetensors_close(weights);
    return loaded;
}
