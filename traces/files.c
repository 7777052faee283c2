#include "traces/files.h"

#include "traces/size.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

bool input_file_check(const char *path, GError **error)
{
    struct stat status;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
        return true;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "%s: not a regular file", path);
    return false;
}

bool input_text_check(const char *path, GError **error)
{
    enum { MOST_BYTES = 64 << 20 };
    struct stat status;
    if (!input_file_check(path, error))
        return false;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= MOST_BYTES)
        return true;
    g_autofree char *size = size_format((uint64_t)status.st_size);
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED,
                "%s: has %s; a file of this kind has at most 64 MiB", path, size);
    return false;
}

char *library_file_find(const char *name, GError **error)
{
    g_autofree char *program = g_file_read_link("/proc/self/exe", error);
    if (!program)
        return NULL;
    g_autofree char *folder = g_path_get_dirname(program);
    char *library = g_build_filename(folder, name, NULL);
    if (access(library, R_OK) == 0)
        return library;
    g_free(library);
    library = g_build_filename(folder, PSTAR_LIBRARY_FOLDER, name, NULL);
    if (access(library, R_OK) == 0)
        return library;
    g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno), "%s: %s", library,
                g_strerror(errno));
    g_free(library);
    return NULL;
}
