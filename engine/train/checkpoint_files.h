/* What a folder of checkpoints (checkpoint_folder.h) does with files: syncs, lists, removes and
 * links them. Errors are G_FILE_ERRORs that name the path. */
#ifndef PSTAR_ENGINE_TRAIN_CHECKPOINT_FILES_H
#define PSTAR_ENGINE_TRAIN_CHECKPOINT_FILES_H

#include <glib.h>
#include <stdbool.h>

/* Sets the error that errno names and returns false. */
bool checkpoint_files_fail(const char *path, GError **error);

/* Makes the names in a folder, or the bytes of a file, survive a loss of power. File systems that
 * cannot sync a folder are left alone. */
bool checkpoint_files_sync(const char *path, GError **error);

/* Returns all names in a folder, to be freed with g_strfreev, or NULL. */
char **checkpoint_files_list(const char *path, GError **error);

/* Removes a folder of ours with its files, if it is there. If a file cannot be removed, removes the
 * others, and fails. A symbolic link is refused: it is not ours, nor is its target. */
bool checkpoint_files_remove(const char *path, GError **error);

/* Names that begin so are of no use outside of a checkpoint. */
#define CHECKPOINT_FILES_OWN "checkpoint"

/* Lets the link "newest" in a folder lead to the folder `name` in it, and links of its files' names
 * to those, but not of CHECKPOINT_FILES_OWN. Removes links of ours that then lead nowhere, and
 * other files that `is_old` recognises and the folder `name` lacks. Where links cannot be made,
 * there are none. `place` is a descriptor of the folder: links are made in what it stands for,
 * though another file system may have come to its path meanwhile. */
void checkpoint_files_link(int place, const char *path, const char *name,
                           bool (*is_old)(const char *name));

#endif
