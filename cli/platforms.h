/* The option --platform: the name of a shipped platform, or a file. */
#ifndef PSTAR_CLI_PLATFORMS_H
#define PSTAR_CLI_PLATFORMS_H

#include <glib.h>
#include <stdbool.h>
#include <stdio.h>

/* Replaces the name of a shipped platform by the path of its file. A file of this name comes first.
 * Fails if there is neither, unless the text can only be a path. */
bool platforms_find(char **file, GError **error);

/* Prints the shipped platforms: their memories, rates and machines. Fails if there are none. */
bool platforms_print(FILE *out, GError **error);

#endif
