/* The report's folder: complete, or as it was before. */
#ifndef PSTAR_REPORT_FOLDER_H
#define PSTAR_REPORT_FOLDER_H

#include <glib.h>
#include <stdbool.h>

struct folder {
    char *path;      /* where the report goes; absolute */
    char *temporary; /* where it is written first: on the same file system */
    char *figures;   /* in it */
};

/* Makes the temporary folder, and the parents of `path` where they are missing. Errors
 * (REPORT_ERROR_FAILED) name the folder. */
struct folder *folder_begin(const char *path, GError **error);

/* Moves everything into place; figures of an earlier report that are not among the new ones are
 * removed, other files are left alone. */
bool folder_publish(struct folder *folder, GError **error);

/* Removes what is still temporary, and frees. */
void folder_end(struct folder *folder);

/* Removes a folder and the files in it. */
void folder_remove(const char *path);

#endif
