/* Names of files of which each stage of a pipeline has its own. */
#ifndef PSTAR_CHUNKS_STAGE_PATH_H
#define PSTAR_CHUNKS_STAGE_PATH_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns whether the name has a place for the number of a stage, "%s". */
bool stage_path_has_place(const char *pattern);

/* Returns the name with the stage's number, from 0, in each such place. The caller frees it with
 * g_free. */
char *stage_path(const char *pattern, uint32_t stage);

#endif
