/* Files that are read whole. */
#ifndef PSTAR_TRACES_INPUT_FILE_H
#define PSTAR_TRACES_INPUT_FILE_H

#include <glib.h>
#include <stdbool.h>

/* Fails with G_FILE_ERROR_INVAL where there is something other than a regular file: a device or a
 * pipe may never end, or never begin. What is missing, or is a folder, is left to who opens it. */
bool input_file_check(const char *path, GError **error);

#endif
