#include "traces/input_file.h"

#include <sys/stat.h>

bool input_file_check(const char *path, GError **error)
{
    struct stat status;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))
        return true;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL, "%s: not a regular file", path);
    return false;
}
