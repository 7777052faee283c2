#include "engine/devices.h"

#include "base/files.h"

#include <dlfcn.h>
#include <string.h>

typedef const struct device_ops *find_device(void);

static const struct device_ops *refuse(GError **error, const char *why)
{
    g_set_error_literal(error, DEVICE_ERROR, DEVICE_ERROR_NONE_HERE, why);
    return NULL;
}

static const struct device_ops *load(const char *name, GError **error)
{
    g_autoptr(GError) missing = NULL;
    g_autofree char *file = g_strdup_printf("libpstar-%s.so", name);
    g_autofree char *path = library_file_find(file, &missing);
    if (!path)
        return refuse(error, "this build of pstar-run does not support the device");
    const char *why = library_file_refusal(path);
    if (why) {
        g_autofree char *reason = g_strdup_printf("%s: %s", path, why);
        return refuse(error, reason);
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "pstar_device") : NULL;
    if (!found)
        return refuse(error, dlerror());
    find_device *find;
    memcpy(&find, &found, sizeof find);
    return find();
}

const struct device_ops *devices_find(const char *name, GError **error)
{
    if (strcmp(name, device_cpu.name) == 0)
        return &device_cpu;
    if (strcmp(name, "cuda") == 0)
        return load(name, error);
    return refuse(error, "the device must be cpu or cuda");
}
