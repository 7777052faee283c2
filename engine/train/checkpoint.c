#include "engine/train/checkpoint.h"

#include "engine/adapters.h"
#include "engine/train/checkpoint_folder.h"
#include "traces/files.h"
#include "traces/output_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_FILE           "config.json"
#define OPTIMIZER_STEM        "optimizer"
#define CHECKPOINT_STATE_FILE "trainer.json"

/* ---- the state of training ---- */

#define VERSION 1

G_DEFINE_QUARK(pstar_checkpoint_error, checkpoint_error)

enum kind { UNSIGNED64, UNSIGNED32, REAL, FLAG, TEXT };

/* Whether a run that goes on may have another value. */
enum fixed { FREE, FIXED, FIXED_IN_ORDER /* if the data is read in its order */ };

struct field {
    const char *name;
    const char *option; /* that sets it; NULL for the name */
    uint8_t kind;       /* enum kind */
    uint8_t fixed;      /* enum fixed */
    bool optional;      /* checkpoints of earlier versions lack it */
    size_t offset;
};

#define STATE(kind, member, option, fixed)                                             \
    {                                                                                  \
#member, option, kind, fixed, false, offsetof(struct checkpoint_state, member) \
    }
#define LATER(kind, member)                                                        \
    {                                                                              \
#member, NULL, kind, FREE, true, offsetof(struct checkpoint_state, member) \
    }

/* The keys of trainer.json. The first is the progress of the run, the others are its settings. */
static const struct field state_fields[] = {
    STATE(UNSIGNED64, step, NULL, FREE),
    STATE(UNSIGNED64, seed, "--seed", FIXED),
    STATE(TEXT, precision, "--precision", FREE),
    STATE(UNSIGNED32, batch, "--batch", FIXED_IN_ORDER),
    STATE(UNSIGNED32, sequence, "--seq", FIXED_IN_ORDER),
    STATE(UNSIGNED32, micro_batches, "--micro-batches", FIXED_IN_ORDER),
    STATE(REAL, schedule.peak, "--lr", FREE),
    STATE(REAL, schedule.floor, "--min-lr", FREE),
    STATE(UNSIGNED64, schedule.warm_up, "--warmup-steps", FREE),
    STATE(UNSIGNED64, schedule.steps, "--schedule-steps", FREE),
    STATE(REAL, beta1, "--beta1", FREE),
    STATE(REAL, beta2, "--beta2", FREE),
    STATE(REAL, epsilon, "--epsilon", FREE),
    STATE(REAL, weight_decay, "--weight-decay", FREE),
    STATE(REAL, clip, "--clip", FREE),
    STATE(TEXT, data_order, "--data-order", FIXED),
    STATE(TEXT, data_digest, "the digest of --data", FIXED),
    STATE(REAL, held_out, "--held-out", FIXED),
    {"delay", "--delay", UNSIGNED32, FIXED, true, offsetof(struct checkpoint_state, delay)},
    {"train", "--train", TEXT, FIXED, true, offsetof(struct checkpoint_state, train)},
    {"lora_alpha", "--lora-alpha", REAL, FIXED, true,
     offsetof(struct checkpoint_state, lora_alpha)},
    LATER(UNSIGNED64, steps),
    LATER(TEXT, data),
    LATER(TEXT, tokens),
    LATER(TEXT, model),
};

#define CONFIG(kind, member)                                                     \
    {                                                                            \
#member, NULL, kind, FIXED, false, offsetof(struct model_config, member) \
    }

/* The keys that must be equal if two configs describe the same model. */
static const struct field config_fields[] = {
    CONFIG(UNSIGNED32, layers),
    CONFIG(UNSIGNED32, width),
    CONFIG(UNSIGNED32, heads),
    CONFIG(UNSIGNED32, inner),
    CONFIG(UNSIGNED32, positions),
    CONFIG(UNSIGNED32, vocabulary),
    CONFIG(UNSIGNED32, key_heads),
    CONFIG(UNSIGNED32, head_size),
    CONFIG(UNSIGNED32, window),
    CONFIG(UNSIGNED32, first_window),
    CONFIG(UNSIGNED32, full_every),
    CONFIG(REAL, query_scalar),
    CONFIG(REAL, score_cap),
    CONFIG(REAL, logit_cap),
    CONFIG(REAL, local_rotary.base),
    CONFIG(REAL, rotary.base),
    CONFIG(REAL, rotary.factor),
    CONFIG(FLAG, tied),
    CONFIG(UNSIGNED32, activation),
    CONFIG(UNSIGNED32, branches),
    CONFIG(UNSIGNED32, rotary.columns),
    CONFIG(REAL, embedding_dropout),
    CONFIG(REAL, attention_dropout),
    CONFIG(REAL, residual_dropout),
    CONFIG(REAL, norm_epsilon),
};

void checkpoint_state_clear(struct checkpoint_state *state)
{
    g_clear_pointer(&state->precision, g_free);
    g_clear_pointer(&state->data_order, g_free);
    g_clear_pointer(&state->data_digest, g_free);
    g_clear_pointer(&state->data, g_free);
    g_clear_pointer(&state->tokens, g_free);
    g_clear_pointer(&state->train, g_free);
    g_clear_pointer(&state->model, g_free);
}

static json_t *field_write(const void *structure, const struct field *field)
{
    const void *value = (const char *)structure + field->offset;
    switch ((enum kind)field->kind) {
    case UNSIGNED64:
        return json_integer((json_int_t)(*(const uint64_t *)value));
    case UNSIGNED32:
        return json_integer(*(const uint32_t *)value);
    case REAL:
        return json_real(*(const double *)value);
    case FLAG:
        return json_boolean(*(const bool *)value);
    case TEXT:
        return json_string(*(char *const *)value);
    }
    g_assert_not_reached();
}

/* Returns false if the value has another type or is out of range. */
static bool field_read(struct checkpoint_state *state, const struct field *field,
                       const json_t *value)
{
    void *to = (char *)state + field->offset;
    json_int_t number = json_integer_value(value);
    bool natural = json_is_integer(value) && number >= 0;
    switch ((enum kind)field->kind) {
    case UNSIGNED64:
        *(uint64_t *)to = (uint64_t)number;
        return natural;
    case UNSIGNED32:
        *(uint32_t *)to = (uint32_t)number;
        return natural && number <= UINT32_MAX;
    case REAL:
        *(double *)to = json_number_value(value);
        return json_is_number(value);
    case FLAG:
        *(bool *)to = json_is_true(value);
        return json_is_boolean(value);
    case TEXT:
        *(char **)to = g_strdup(json_string_value(value));
        return json_is_string(value);
    }
    g_assert_not_reached();
}

/* Appends "NAME is VALUE in the checkpoint, but VALUE in this run" if they differ. */
static void add_difference(GString *differences, const struct field *field, const void *saved,
                           const void *run)
{
    json_t *before = field_write(saved, field), *now = field_write(run, field);
    if (!json_equal(before, now)) {
        char *before_text = json_dumps(before, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        char *now_text = json_dumps(now, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        g_string_append_printf(differences, "%s%s is %s in the checkpoint, but %s in this run",
                               differences->len ? "; " : "",
                               field->option ? field->option : field->name, before_text, now_text);
        free(before_text);
        free(now_text);
    }
    json_decref(before);
    json_decref(now);
}

static bool refuse_differences(const char *folder, const GString *differences, GError **error)
{
    if (differences->len)
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_OTHER_RUN,
                    "%s: %s. Give what the checkpoint has, or leave it out; --model %s without "
                    "--resume begins a new training from these weights",
                    folder, differences->str, folder);
    return !differences->len;
}

static bool checkpoint_write_state(const char *folder, const struct checkpoint_state *state,
                                   GError **error)
{
    json_t *root = json_pack("{s:i}", "version", VERSION);
    for (size_t i = 0; i < G_N_ELEMENTS(state_fields); i++)
        json_object_set_new(root, state_fields[i].name, field_write(state, &state_fields[i]));
    char *path = g_build_filename(folder, CHECKPOINT_STATE_FILE, NULL);
    bool written = output_file_write_json(path, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17),
                                          error);
    g_free(path);
    json_decref(root);
    return written;
}

static bool parse(const char *path, const json_t *root, struct checkpoint_state *state,
                  GError **error)
{
    if (json_integer_value(json_object_get(root, "version")) != VERSION) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID, "%s: version must be %d",
                    path, VERSION);
        return false;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(state_fields); i++) {
        const json_t *value = json_object_get(root, state_fields[i].name);
        if (!value && state_fields[i].optional)
            continue;
        if (!field_read(state, &state_fields[i], value)) {
            g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID, "%s: %s: %s", path,
                        state_fields[i].name, !value ? "is missing" : "has an invalid value");
            return false;
        }
    }
    if (!state->train)
        state->train = g_strdup("all");
    bool empty = !state->batch || !state->sequence || !state->micro_batches;
    if (empty) /* on the command line 0 would mean the usual value */
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID,
                    "%s: batch, sequence and micro_batches must be at least 1", path);
    return !empty;
}

/* Returns the JSON of a file, or NULL with an error that names it. */
static json_t *read_json(const char *path, GError **error)
{
    json_error_t problem;
    if (!input_text_check(path, INPUT_SMALL, error))
        return NULL;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID, "%s: %s", path,
                    problem.text);
    return root;
}

bool checkpoint_read_state(const char *folder, struct checkpoint_state *state, GError **error)
{
    g_autofree char *path = g_build_filename(folder, CHECKPOINT_STATE_FILE, NULL);
    *state = (struct checkpoint_state){0};
    if (!checkpoint_folder_recover(folder, error))
        return false;
    if (!g_file_test(path, G_FILE_TEST_EXISTS)) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID,
                    "%s: not a checkpoint, because it has no " CHECKPOINT_STATE_FILE, folder);
        return false;
    }
    json_t *root = read_json(path, error);
    bool read = root && parse(path, root, state, error);
    if (!read)
        checkpoint_state_clear(state);
    json_decref(root);
    return read;
}

static bool is_fixed(const struct field *field, const struct checkpoint_state *run)
{
    return field->fixed == FIXED ||
           (field->fixed == FIXED_IN_ORDER && strcmp(run->data_order, "sequential") == 0);
}

/* Lists the settings that differ and are fixed, or those that are free. */
static GString *list_differences(const struct checkpoint_state *saved,
                                 const struct checkpoint_state *run, bool fixed)
{
    GString *differences = g_string_new(NULL);
    for (size_t i = 1; i < G_N_ELEMENTS(state_fields); i++)
        if ((fixed || !state_fields[i].optional) && is_fixed(&state_fields[i], run) == fixed)
            add_difference(differences, &state_fields[i], saved, run);
    return differences;
}

bool checkpoint_match(const char *folder, const struct checkpoint_state *saved,
                      const struct checkpoint_state *run, GError **error)
{
    GString *differences = list_differences(saved, run, true);
    bool same = refuse_differences(folder, differences, error);
    g_string_free(differences, TRUE);
    return same;
}

char *checkpoint_changes(const struct checkpoint_state *saved, const struct checkpoint_state *run)
{
    GString *differences = list_differences(saved, run, false);
    bool any = differences->len > 0;
    char *text = g_string_free(differences, !any);
    return any ? text : NULL;
}

static bool checkpoint_match_config(const char *folder, const struct model_config *saved,
                                    const struct model_config *run, GError **error)
{
    GString *differences = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(config_fields); i++)
        add_difference(differences, &config_fields[i], saved, run);
    bool same = refuse_differences(folder, differences, error);
    g_string_free(differences, TRUE);
    return same;
}

/* ---- the folder ---- */

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
static bool save_states(const char *path, const struct checkpoint_content *content,
                        const struct weights_file *file, GError **error)
{
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
    saved = saved && safetensors_writer_finish(writer, error);
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
        g_autofree char *path = g_build_filename(folder, name, NULL);
        if (file->writer == writer.index)
            saved = save_states(path, content, file, error);
    }
    return saved && (files->len == 1 || writer.index > 0 ||
                     save_optimizer_index(folder, content, files, error));
}

/* Writes what a checkpoint has once. */
static bool write_common(const char *folder, const struct checkpoint_content *content,
                         GError **error)
{
    g_autofree char *config_path = g_build_filename(folder, CONFIG_FILE, NULL);
    return (content->config->lora_rank ||
            model_config_write(content->config, config_path, error)) &&
           checkpoint_write_state(folder, content->state, error);
}

static bool write_weights(const char *folder, const struct checkpoint_content *content,
                          struct weights_writer writer, GError **error)
{
    return content->config->lora_rank ? adapters_save(folder, content->config, content->trace,
                                                      content->store, content->state->model, error)
                                      : weights_save(folder, content->config, content->trace,
                                                     content->store, content->form, writer, error);
}

bool checkpoint_write(const char *fresh, const struct checkpoint_content *content,
                      struct weights_writer writer, GError **error)
{
    return (writer.index > 0 || write_common(fresh, content, error)) &&
           write_weights(fresh, content, writer, error) &&
           save_optimizer(fresh, content, writer, error);
}

bool checkpoint_may_save(const char *folder, GError **error)
{
    g_autoptr(GError) unreadable = NULL;
    struct checkpoint_state saved;
    if (!*folder) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO, "the folder's name is empty");
        return false;
    }
    if (!checkpoint_folder_recover(folder, error))
        return false;
    if (checkpoint_folder_is_empty(folder, &unreadable))
        return true;
    if (unreadable) {
        g_propagate_error(error, g_steal_pointer(&unreadable));
        return false;
    }
    bool ours = checkpoint_read_state(folder, &saved, NULL);
    checkpoint_state_clear(&saved);
    if (!ours)
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_IO,
                    "%s: the directory is neither empty nor a checkpoint", folder);
    return ours;
}

bool checkpoint_try(const char *folder, const struct trace *trace, bool delay, bool several,
                    GError **error)
{
    struct saved_list lists[MOST_LISTS];
    uint64_t count = saved_lists(trace, false, delay, lists), elements = 0;
    bool of_adapters = has_adapters(trace);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        uint64_t weights = !of_adapters || weights_is_adapter(trace->tensors[i].name);
        elements += trace->tensors[i].elements * (weights + (is_frozen(trace, i) ? 0 : count));
    }
    uint64_t bytes = elements * sizeof(float);
    return checkpoint_may_save(folder, error) &&
           checkpoint_folder_try(folder, bytes, several && checkpoint_folder_is_empty(folder, NULL),
                                 error);
}

static bool is_old(const char *name)
{
    return weights_file_is(WEIGHTS_STEM, name) || weights_file_is(OPTIMIZER_STEM, name) ||
           adapters_is_file(name);
}

char *checkpoint_begin(const char *folder, GError **error)
{
    return checkpoint_may_save(folder, error) ? checkpoint_folder_begin(folder, error) : NULL;
}

/* Several files have an index. */
static uint32_t with_index(GArray *files)
{
    uint32_t count = files->len;
    g_array_unref(files);
    return count == 1 ? 1 : count + 1;
}

static uint32_t count_files(const struct checkpoint_content *content, uint32_t writers)
{
    enum { COMMON = 2 }; /* config.json, or that of adapters, and trainer.json */
    uint32_t weights = content->config->lora_rank
                           ? 1
                           : with_index(weights_form_files(content->form, content->trace, writers));
    return COMMON + weights + with_index(optimizer_files(content, writers));
}

bool checkpoint_end(const char *folder, const struct checkpoint_content *content, uint32_t writers,
                    bool well, GError **error)
{
    bool replaced = well &&
                    checkpoint_folder_replace(folder, count_files(content, writers), is_old, error);
    if (!replaced)
        checkpoint_folder_abandon(folder);
    return replaced;
}

bool checkpoint_save(const char *folder, const struct checkpoint_content *content, GError **error)
{
    const struct weights_writer alone = {.index = 0, .count = 1};
    g_autofree char *fresh = checkpoint_begin(folder, error);
    return fresh && checkpoint_end(folder, content, alone.count,
                                   checkpoint_write(fresh, content, alone, error), error);
}

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

bool checkpoint_load(const char *folder, const struct model_config *config,
                     const struct trace *trace, bool delay, const struct weights_store *store,
                     struct weights_form *form, GError **error)
{
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
