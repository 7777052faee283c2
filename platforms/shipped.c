#include "platforms/shipped.h"

#include <stdlib.h>
#include <string.h>

#define ENDING ".json"

/* Returns the folder of the shipped files, or NULL. Free it with g_free. */
static char *shipped_folder(void)
{
    static const char *const places[] = {"../" PSTAR_PLATFORM_FOLDER, PSTAR_PLATFORM_FOLDER};
    g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
    g_autofree char *programs = program ? g_path_get_dirname(program) : NULL;
    char *folder = NULL;
    for (size_t i = 0; programs && !folder && i < G_N_ELEMENTS(places); i++) {
        g_autofree char *place = g_build_filename(programs, places[i], NULL);
        folder = realpath(place, NULL);
    }
    return folder;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

char **platform_shipped_names(void)
{
    g_autofree char *folder = shipped_folder();
    g_autoptr(GDir) files = folder ? g_dir_open(folder, 0, NULL) : NULL;
    GPtrArray *names = g_ptr_array_new();
    const char *file;
    while (files && (file = g_dir_read_name(files)))
        if (g_str_has_suffix(file, ENDING))
            g_ptr_array_add(names, g_strndup(file, strlen(file) - strlen(ENDING)));
    g_ptr_array_sort(names, by_name);
    g_ptr_array_add(names, NULL);
    return (char **)g_ptr_array_free(names, FALSE);
}

char *platform_shipped_path(const char *name)
{
    g_auto(GStrv) names = platform_shipped_names();
    if (!g_strv_contains((const char *const *)names, name))
        return NULL;
    g_autofree char *folder = shipped_folder();
    g_autofree char *file = g_strconcat(name, ENDING, NULL);
    return g_build_filename(folder, file, NULL);
}
