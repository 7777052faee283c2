/* Files that are read whole. */
#ifndef PSTAR_TRACES_FILES_H
#define PSTAR_TRACES_FILES_H

#include <glib.h>
#include <stdbool.h>

/* Fails with G_FILE_ERROR_INVAL where there is something other than a regular file: a device or a
 * pipe may never end, or never begin. What is missing, or is a folder, is left to who opens it. */
bool input_file_check(const char *path, GError **error);

/* Where libraries of ours lie that programs load when they are needed. */

/* The path of the library of that file name: beside this program in a build folder, or where it was
 * installed. Free with g_free. NULL where it is in neither: a G_FILE_ERROR that names the latter.
 */
char *library_file_find(const char *name, GError **error);

#endif
