/* The platforms that come with the programs: files in share/pstar/platforms beside the installed
 * programs or, before they are installed, in the folder of the build. */
#ifndef PSTAR_PLATFORMS_SHIPPED_H
#define PSTAR_PLATFORMS_SHIPPED_H

#include <glib.h>

/* Returns the names of all shipped platforms in alphabetical order: "a100-40gb" is the file
 * a100-40gb.json. The array ends with NULL, and is empty if the folder is missing; free it with
 * g_strfreev. */
char **platform_shipped_names(void);

/* Returns the path of a shipped platform's file, or NULL if there is no platform of this name. Free
 * it with g_free. */
char *platform_shipped_path(const char *name);

#endif
