/* Checks files before they are read, and finds our own libraries. */
#ifndef PSTAR_TRACES_FILES_H
#define PSTAR_TRACES_FILES_H

#include <glib.h>
#include <stdbool.h>

/* Fails with G_FILE_ERROR_INVAL if `path` is not a regular file, because a device or a pipe may
 * never end. Accepts missing files and folders: opening them fails with a better message. */
bool input_file_check(const char *path, GError **error);

/* The same for a text that is read whole, such as a model's configuration: also fails if it has
 * more than 64 MiB, which no such text has. */
bool input_text_check(const char *path, GError **error);

/* Returns the path of one of our libraries that are loaded at run time: beside this program in a
 * build folder, or in the installed folder. Free with g_free. Returns NULL with a G_FILE_ERROR that
 * names the installed path if it is in neither. */
char *library_file_find(const char *name, GError **error);

#endif
