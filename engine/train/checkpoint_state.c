#include "engine/train/checkpoint_state.h"

#include "base/files.h"
#include "base/output_file.h"

#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 2 /* 1 had no checksums, and no plan */

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
    {"base_digest", "the digest of --model's weights", TEXT, FIXED, true,
     offsetof(struct checkpoint_state, base_digest)},
    LATER(UNSIGNED64, steps),
    LATER(TEXT, data),
    {"tokens", "--tokens", TEXT, FIXED, true, offsetof(struct checkpoint_state, tokens)},
    LATER(TEXT, model),
    LATER(TEXT, plan),
    LATER(TEXT, plan_made_by),
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
    CONFIG(FLAG, bidirectional),
    CONFIG(UNSIGNED32, token_types),
    CONFIG(FLAG, embedding_norm),
    CONFIG(FLAG, head_transform),
    CONFIG(UNSIGNED32, rotary.columns),
    CONFIG(REAL, embedding_dropout),
    CONFIG(REAL, attention_dropout),
    CONFIG(REAL, residual_dropout),
    CONFIG(REAL, norm_epsilon),
};

struct checkpoint_state checkpoint_state_copy(const struct checkpoint_state *state)
{
    struct checkpoint_state copy = *state;
    for (size_t i = 0; i < G_N_ELEMENTS(state_fields); i++) {
        char **text = (char **)((char *)&copy + state_fields[i].offset);
        if (state_fields[i].kind == TEXT)
            *text = g_strdup(*text);
    }
    return copy;
}

void checkpoint_state_clear(struct checkpoint_state *state)
{
    g_clear_pointer(&state->precision, g_free);
    g_clear_pointer(&state->data_order, g_free);
    g_clear_pointer(&state->data_digest, g_free);
    g_clear_pointer(&state->data, g_free);
    g_clear_pointer(&state->tokens, g_free);
    g_clear_pointer(&state->train, g_free);
    g_clear_pointer(&state->base_digest, g_free);
    g_clear_pointer(&state->model, g_free);
    g_clear_pointer(&state->plan, g_free);
    g_clear_pointer(&state->plan_made_by, g_free);
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

bool checkpoint_state_write(const char *folder, const struct checkpoint_state *state,
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
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    if (version < 1 || version > VERSION) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID,
                    "%s: version must be in [1, %d]", path, VERSION);
        return false;
    }
    state->version = (uint32_t)version;
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
    json_t *root = input_json_load(path, JSON_REJECT_DUPLICATES, &problem);
    if (!root)
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID, "%s: %s", path,
                    problem.text);
    return root;
}

bool checkpoint_state_read(const char *folder, struct checkpoint_state *state, GError **error)
{
    g_autofree char *path = g_build_filename(folder, CHECKPOINT_STATE_FILE, NULL);
    *state = (struct checkpoint_state){0};
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

/* Returns whether the checkpoint may lack the setting, and does. Data of "auto" are those that say
 * how they are read, and are refused with another --tokens. */
static bool is_unknown(const struct field *field, const struct checkpoint_state *saved)
{
    const char *text = field->optional && field->kind == TEXT
                           ? *(char *const *)((const char *)saved + field->offset)
                           : "";
    return !text || strcmp(text, "auto") == 0;
}

/* Lists the settings that differ and are fixed, or those that are free. */
static GString *list_differences(const struct checkpoint_state *saved,
                                 const struct checkpoint_state *run, bool fixed)
{
    GString *differences = g_string_new(NULL);
    for (size_t i = 1; i < G_N_ELEMENTS(state_fields); i++)
        if ((fixed || !state_fields[i].optional) && is_fixed(&state_fields[i], run) == fixed &&
            !is_unknown(&state_fields[i], saved))
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

bool checkpoint_match_config(const char *folder, const struct model_config *saved,
                             const struct model_config *run, GError **error)
{
    GString *differences = g_string_new(NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(config_fields); i++)
        add_difference(differences, &config_fields[i], saved, run);
    bool same = refuse_differences(folder, differences, error);
    g_string_free(differences, TRUE);
    return same;
}
