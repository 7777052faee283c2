#include "engine/train/model_files.h"

#include "models/config.h"

/* As transformers' save_pretrained names them. */
static const char *const names[] = {"generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "chat_template.jinja",
                                    "vocab.json",
                                    "merges.txt",
                                    "vocab.txt",
                                    "tokenizer.model",
                                    "spiece.model"};

/* Returns the path of a file that is there, or NULL. Free with g_free. */
static char *find_in(const char *folder, const char *name)
{
    char *path = folder ? g_build_filename(folder, name, NULL) : NULL;
    if (path && !g_file_test(path, G_FILE_TEST_IS_REGULAR))
        g_clear_pointer(&path, g_free);
    return path;
}

static char *find(const char *model, const char *instead, const char *name)
{
    g_autofree char *folder = model ? model_config_folder(model) : NULL;
    char *path = find_in(folder, name);
    return path ? path : find_in(instead, name);
}

uint32_t model_files_count(const char *model, const char *instead)
{
    uint32_t count = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = find(model, instead, names[i]);
        count += path != NULL;
    }
    return count;
}

bool model_files_copy(const char *model, const char *instead, const char *folder, GError **error)
{
    bool ok = true;
    for (size_t i = 0; ok && i < G_N_ELEMENTS(names); i++) {
        g_autofree char *from = find(model, instead, names[i]);
        g_autofree char *to = g_build_filename(folder, names[i], NULL), *bytes = NULL;
        gsize length;
        ok = !from || (g_file_get_contents(from, &bytes, &length, error) &&
                       g_file_set_contents(to, bytes, (gssize)length, error));
    }
    return ok;
}
