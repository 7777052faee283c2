#include "cli/platforms.h"

#include "base/size.h"
#include "cli/options.h"
#include "cli/suggest.h"
#include "platforms/platform.h"
#include "platforms/shipped.h"

#include <string.h>

static bool is_path(const char *text)
{
    return strchr(text, G_DIR_SEPARATOR) || g_str_has_suffix(text, ".json") ||
           g_file_test(text, G_FILE_TEST_EXISTS);
}

/* A folder that has a platform's name, such as that of its results, is not meant. */
bool platforms_find(char **file, GError **error)
{
    bool may_be_name = *file && (!is_path(*file) || g_file_test(*file, G_FILE_TEST_IS_DIR));
    char *path = may_be_name ? platform_shipped_path(*file) : NULL;
    if (path) {
        g_free(*file);
        *file = path;
    }
    if (!*file || path || is_path(*file))
        return true;
    g_auto(GStrv) names = platform_shipped_names();
    g_autoptr(GPtrArray) known = g_ptr_array_new();
    for (char **name = names; *name; name++)
        g_ptr_array_add(known, *name);
    const char *meant = suggest(*file, known);
    g_autofree char *hint = meant ? g_strdup_printf("did you mean %s?", meant)
                                  : g_strdup("--list-platforms prints their names");
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--platform %s: is neither a file nor a shipped platform; %s", *file, hint);
    return false;
}

/* Returns a rate at large amounts, which shipped platforms state in their last points. */
static double rate_of(const struct platform_curve *curve)
{
    const struct platform_point *last = &curve->points[curve->count - 1];
    return last->amount / last->seconds;
}

static void print_platform(const char *name, const struct platform *platform, FILE *out)
{
    const double tera = 1e12, giga = 1e9;
    g_autofree char *device = size_format(platform->device_capacity);
    g_autofree char *host = size_format(platform->host_capacity);
    fprintf(out, "  %-16s %4u %11s %11s %11.4g %11.4g %10.3g  %s\n", name,
            MAX(platform->node.gpus, 1), device, host, rate_of(&platform->compute[1]) / tera,
            rate_of(&platform->memory) / giga, rate_of(&platform->h2d) / giga, platform->name);
}

bool platforms_print(FILE *out, GError **error)
{
    g_auto(GStrv) names = platform_shipped_names();
    if (!*names)
        return options_refuse(error, "--list-platforms: the folder of platforms is missing");
    fprintf(out, "  %-16s %4s %11s %11s %11s %11s %10s\n", "", "", "", "", "bf16", "memory",
            "link");
    fprintf(out, "  %-16s %4s %11s %11s %11s %11s %10s  %s\n", "--platform", "GPUs", "device",
            "host", "TFLOP/s", "GB/s", "GB/s", "machine");
    for (char **name = names; *name; name++) {
        g_autofree char *path = platform_shipped_path(*name);
        struct platform *platform = platform_read(path, error);
        if (!platform)
            return false;
        print_platform(*name, platform, out);
        platform_free(platform);
    }
    fputs("Each file says where each rate comes from: nominal, measured or assumed.\n", out);
    return true;
}
