#include "planner/answers/family.h"

#include <string.h>

/* Deeper ones would take many minutes to plan. */
enum { MOST_LAYERS = 512 };

/* Takes the name over. */
static struct family_member *member_new(char *name, const char *path,
                                        const struct model_config *config)
{
    struct family_member *member = g_new(struct family_member, 1);

    member->name = name;
    member->path = g_strdup(path);
    member->config = g_memdup2(config, sizeof *config);
    member->config->name = g_strdup(config->name);
    return member;
}

void family_member_free(struct family_member *member)
{
    if (!member)
        return;
    g_free(member->name);
    g_free(member->path);
    model_config_free(member->config);
    g_free(member);
}

static bool add_file(struct family *family, const char *path, GError **error)
{
    g_autofree char *file = g_path_get_basename(path);
    struct model_config *config = model_config_read(path, error);

    if (!config)
        return false;
    *strrchr(file, '.') = '\0';
    g_ptr_array_add(family->members, member_new(g_strdup(file), path, config));
    model_config_free(config);
    return true;
}

static int by_parameters(const void *left, const void *right)
{
    const struct family_member *a = *(struct family_member *const *)left;
    const struct family_member *b = *(struct family_member *const *)right;
    uint64_t l = model_config_parameters(a->config), r = model_config_parameters(b->config);
    return l != r ? (l > r) - (l < r) : strcmp(a->name, b->name);
}

static bool add_files(struct family *family, const char *prefix, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(prefix);
    const char *slash = strrchr(prefix, G_DIR_SEPARATOR), *begin = slash ? slash + 1 : prefix;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, error);
    const char *file;
    bool ok = dir != NULL;

    while (ok && (file = g_dir_read_name(dir)))
        if (g_str_has_prefix(file, begin) && g_str_has_suffix(file, ".json")) {
            g_autofree char *path = g_build_filename(folder, file, NULL);
            ok = add_file(family, path, error);
        }
    if (ok && !family->members->len) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s*.json: there are none", prefix);
        ok = false;
    }
    g_ptr_array_sort(family->members, by_parameters);
    return ok;
}

struct family *family_read(const char *what, GError **error)
{
    struct family *family = g_new0(struct family, 1);
    g_autofree char *inside = g_build_filename(what, "config.json", NULL);
    bool ok;

    if (g_file_test(what, G_FILE_TEST_IS_REGULAR) || g_file_test(inside, G_FILE_TEST_EXISTS)) {
        ok = (family->base = model_config_read(what, error)) != NULL;
    } else {
        family->members = g_ptr_array_new_with_free_func((GDestroyNotify)family_member_free);
        ok = add_files(family, what, error);
    }
    if (ok)
        return family;
    family_free(family);
    return NULL;
}

void family_free(struct family *family)
{
    if (!family)
        return;
    if (family->members)
        g_ptr_array_unref(family->members);
    model_config_free(family->base);
    g_free(family);
}

uint32_t family_count(const struct family *family)
{
    return family->members ? family->members->len : MOST_LAYERS;
}

struct family_member *family_take(const struct family *family, uint32_t index)
{
    if (family->members) {
        const struct family_member *member = g_ptr_array_index(family->members, index);
        return member_new(g_strdup(member->name), member->path, member->config);
    }
    struct model_config config = *family->base;
    config.layers = index + 1;
    g_autofree char *name = g_strdup_printf("gpt2 %ux%u, vocabulary %u", config.layers,
                                            config.width, config.vocabulary);
    config.name = name;
    return member_new(g_strdup_printf("%u layers", config.layers), NULL, &config);
}
