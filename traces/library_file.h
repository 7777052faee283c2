/* Where libraries of ours lie that programs load when they are needed. */
#ifndef PSTAR_TRACES_LIBRARY_FILE_H
#define PSTAR_TRACES_LIBRARY_FILE_H

#include <glib.h>

/* The path of the library of that file name: beside this program in a build folder, or where it was
 * installed. Free with g_free. NULL where it is in neither: a G_FILE_ERROR that names the latter.
 */
char *library_file_find(const char *name, GError **error);

#endif
