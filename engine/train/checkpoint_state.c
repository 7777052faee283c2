#include "engine/train/checkpoint_state.h"

#include "traces/output_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1

G_DEFINE_QUARK(pstar_checkpoint_error, checkpoint_error)

enum kind { UNSIGNED64, UNSIGNED32, REAL, FLAG, TEXT };

struct field {
    const char *name;
    uint8_t kind; /* enum kind */
    size_t offset;
};

#define FIELD(structure, kind, member)                    \
    {                                                     \
#member, kind, offsetof(struct structure, member) \
    }

/* trainer.json, key by key. The first says where the run stands, the others what it is like. */
static const struct field state_fields[] = {
    FIELD(checkpoint_state, UNSIGNED64, step),
    FIELD(checkpoint_state, UNSIGNED64, seed),
    FIELD(checkpoint_state, TEXT, precision),
    FIELD(checkpoint_state, UNSIGNED32, batch),
    FIELD(checkpoint_state, UNSIGNED32, sequence),
    FIELD(checkpoint_state, UNSIGNED32, micro_batches),
    FIELD(checkpoint_state, REAL, schedule.peak),
    FIELD(checkpoint_state, REAL, schedule.floor),
    FIELD(checkpoint_state, UNSIGNED64, schedule.warm_up),
    FIELD(checkpoint_state, UNSIGNED64, schedule.steps),
    FIELD(checkpoint_state, REAL, beta1),
    FIELD(checkpoint_state, REAL, beta2),
    FIELD(checkpoint_state, REAL, epsilon),
    FIELD(checkpoint_state, REAL, weight_decay),
    FIELD(checkpoint_state, REAL, clip),
    FIELD(checkpoint_state, TEXT, data_order),
    FIELD(checkpoint_state, TEXT, data_digest),
    FIELD(checkpoint_state, REAL, held_out),
};

/* What makes two configs one model. */
static const struct field config_fields[] = {
    FIELD(model_config, UNSIGNED32, layers),
    FIELD(model_config, UNSIGNED32, width),
    FIELD(model_config, UNSIGNED32, heads),
    FIELD(model_config, UNSIGNED32, inner),
    FIELD(model_config, UNSIGNED32, positions),
    FIELD(model_config, UNSIGNED32, vocabulary),
    FIELD(model_config, FLAG, tied),
    FIELD(model_config, REAL, embedding_dropout),
    FIELD(model_config, REAL, attention_dropout),
    FIELD(model_config, REAL, residual_dropout),
    FIELD(model_config, REAL, norm_epsilon),
};

void checkpoint_state_clear(struct checkpoint_state *state)
{
    g_clear_pointer(&state->precision, g_free);
    g_clear_pointer(&state->data_order, g_free);
    g_clear_pointer(&state->data_digest, g_free);
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

/* False: the value is of another kind, or out of range. */
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

static bool match(const char *folder, const struct field *fields, size_t count, const void *saved,
                  const void *run, GError **error)
{
    bool same = true;
    for (size_t i = 0; same && i < count; i++) {
        json_t *before = field_write(saved, &fields[i]), *now = field_write(run, &fields[i]);
        same = json_equal(before, now);
        if (!same) {
            char *before_text = json_dumps(before, JSON_ENCODE_ANY);
            char *now_text = json_dumps(now, JSON_ENCODE_ANY);
            g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_OTHER_RUN,
                        "%s: %s is %s there, and %s in this run", folder, fields[i].name,
                        before_text, now_text);
            free(before_text);
            free(now_text);
        }
        json_decref(before);
        json_decref(now);
    }
    return same;
}

bool checkpoint_write_state(const char *folder, const struct checkpoint_state *state,
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
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID,
                    "%s: version: not %d, the one that can be read", path, VERSION);
        return false;
    }
    for (size_t i = 0; i < G_N_ELEMENTS(state_fields); i++) {
        const json_t *value = json_object_get(root, state_fields[i].name);
        if (!field_read(state, &state_fields[i], value)) {
            g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID, "%s: %s: %s", path,
                        state_fields[i].name, !value ? "is missing" : "has an absurd value");
            return false;
        }
    }
    return true;
}

bool checkpoint_read_state(const char *folder, struct checkpoint_state *state, GError **error)
{
    char *path = g_build_filename(folder, CHECKPOINT_STATE_FILE, NULL);
    json_error_t problem;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &problem);
    *state = (struct checkpoint_state){0};
    bool read = false;
    if (!root) {
        g_set_error(error, CHECKPOINT_ERROR, CHECKPOINT_ERROR_INVALID, "%s: %s", path,
                    problem.text);
    } else {
        read = parse(path, root, state, error);
    }
    if (!read)
        checkpoint_state_clear(state);
    json_decref(root);
    g_free(path);
    return read;
}

bool checkpoint_match(const char *folder, const struct checkpoint_state *saved,
                      const struct checkpoint_state *run, GError **error)
{
    const struct field *after_step = state_fields + 1;
    return match(folder, after_step, G_N_ELEMENTS(state_fields) - 1, saved, run, error);
}

bool checkpoint_match_config(const char *folder, const struct model_config *saved,
                             const struct model_config *run, GError **error)
{
    return match(folder, config_fields, G_N_ELEMENTS(config_fields), saved, run, error);
}
