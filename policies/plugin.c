#include "policies/plugin.h"

#include <dlfcn.h>
#include <string.h>

G_DEFINE_QUARK(pstar_policy_error, policy_error)

static bool is_path(const char *text)
{
    return strchr(text, '/') || g_str_has_suffix(text, ".so");
}

/* dlerror() begins with the path, as our messages do. */
static const char *reason_of_loader(const char *path)
{
    const char *reason = dlerror();
    size_t length = strlen(path);
    return !strncmp(reason, path, length) && reason[length] == ':' ? reason + length + 2 : reason;
}

static const char *missing_part(const struct pstar_policy_ops *ops)
{
    const struct {
        const char *name;
        bool is_there;
    } parts[] = {
        {"name", ops->name && *ops->name},
        {"summary", ops->summary},
        {"open", ops->open},
        {"close", ops->close},
        {"admit", ops->admit},
        {"remove", ops->remove},
        {"victim", ops->victim},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++)
        if (!parts[i].is_there)
            return parts[i].name;
    return NULL;
}

/* The policy that the loaded object exports; NULL with a reason, to be freed. */
static const struct pstar_policy_ops *find_exported(void *object, char **reason)
{
    const uint32_t *abi = dlsym(object, "pstar_policy_abi");
    const struct pstar_policy_ops *ops = dlsym(object, "pstar_policy");
    if (!abi || !ops)
        *reason = g_strdup_printf("not a policy: it exports no %s",
                                  abi ? "pstar_policy" : "pstar_policy_abi");
    else if (*abi != PSTAR_POLICY_ABI)
        *reason =
            g_strdup_printf("compiled for version %u of the policy interface, but this program has "
                            "version %u: recompile it with this version's pstar.h",
                            *abi, PSTAR_POLICY_ABI);
    else if (missing_part(ops))
        *reason = g_strdup_printf("its pstar_policy does not define `%s`", missing_part(ops));
    else if (policy_find(ops->name))
        *reason = g_strdup_printf("its policy is named %s like a built-in policy; rename it",
                                  ops->name);
    return *reason ? NULL : ops;
}

static const struct pstar_policy_ops *load(const char *path, GError **error)
{
    g_autofree char *full = g_canonicalize_filename(path, NULL);
    g_autofree char *reason = NULL;
    void *object = dlopen(full, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        g_set_error(error, POLICY_ERROR, POLICY_ERROR_PLUGIN, "%s: %s", path,
                    reason_of_loader(full));
        return NULL;
    }
    const struct pstar_policy_ops *ops = find_exported(object, &reason);
    if (!ops) {
        g_set_error(error, POLICY_ERROR, POLICY_ERROR_PLUGIN, "%s: %s", path, reason);
        dlclose(object);
    }
    return ops;
}

const struct pstar_policy_ops *policy_open(const char *name_or_path, GError **error)
{
    if (is_path(name_or_path))
        return load(name_or_path, error);
    const struct pstar_policy_ops *ops = policy_find(name_or_path);
    if (ops)
        return ops;
    g_autoptr(GString) names = g_string_new(NULL);
    for (int i = 0; policy_all[i]; i++)
        g_string_append_printf(names, "%s, ", policy_all[i]->name);
    g_set_error(error, POLICY_ERROR, POLICY_ERROR_UNKNOWN,
                "unknown policy '%s'; choose one of %sor give the path of a shared object",
                name_or_path, names->str);
    return NULL;
}
