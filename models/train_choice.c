#include "models/train_choice.h"

#include "models/family.h"
#include "models/iteration.h"

#include <string.h>

static bool refuse(GError **error, const char *text, const char *why)
{
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "--train %s: %s", text, why);
    return false;
}

static bool choose_adapters(struct model_config *config, const char *text, double alpha,
                            uint8_t **frozen, GError **error)
{
    guint64 rank;
    if (!g_ascii_string_to_unsigned(text + strlen("lora:"), 10, 1, MODEL_MOST_LORA_RANK, &rank,
                                    NULL))
        return refuse(error, text, "the rank must be a number from 1 to 65536, as in lora:16");
    config->lora_rank = (uint32_t)rank;
    config->lora_alpha = alpha > 0 ? alpha : 2 * (double)rank;
    const struct model_layout layout = model_layout_of(config);
    *frozen = g_malloc(layout.count);
    for (uint32_t t = 0; t < layout.count; t++) {
        struct model_tensor tensor;
        g_free(model_tensor_describe(config, &layout, t, &tensor));
        (*frozen)[t] = tensor.adapter == MODEL_NO_ADAPTER;
    }
    return true;
}

/* Marks in [count] what a pattern matches as trained. Returns false if it matches nothing. */
static bool thaw(const struct model_config *config, const char *pattern, uint8_t *frozen)
{
    const struct model_layout layout = model_layout_of(config);
    const char *prefix = model_family_of(config)->file_prefix;
    bool any = false;
    for (uint32_t t = 0; t < layout.count; t++) {
        struct model_tensor tensor;
        g_autofree char *name = model_tensor_describe(config, &layout, t, &tensor);
        g_autofree char *in_files = g_strconcat(prefix, name, NULL);
        if (!g_pattern_match_simple(pattern, name) && !g_pattern_match_simple(pattern, in_files))
            continue;
        frozen[t] = 0;
        any = true;
    }
    return any;
}

static bool choose_listed(const struct model_config *config, const char *text, uint8_t **frozen,
                          GError **error)
{
    g_auto(GStrv) patterns = g_strsplit(text, ",", -1);
    *frozen = model_every_tensor(config);
    bool ok = *patterns || refuse(error, text, "names no tensor");
    for (char **pattern = patterns; ok && *pattern; pattern++) {
        g_autofree char *why = g_strdup_printf("no tensor of the model matches '%s'", *pattern);
        ok = thaw(config, *pattern, *frozen) || refuse(error, text, why);
    }
    if (!ok || !memchr(*frozen, 1, model_tensor_count(config)))
        g_clear_pointer(frozen, g_free);
    return ok;
}

bool model_choose_trained(struct model_config *config, const char *text, double alpha,
                          uint8_t **frozen, GError **error)
{
    *frozen = NULL;
    if (!text || g_str_equal(text, "all"))
        return true;
    return g_str_has_prefix(text, "lora:") ? choose_adapters(config, text, alpha, frozen, error)
                                           : choose_listed(config, text, frozen, error);
}
