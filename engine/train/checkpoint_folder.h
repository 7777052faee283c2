/* Replaces the files of a folder all at once, on any file system.
 *
 * New files are written to the folder "next.partial" within the folder and synced, and then the
 * file "next.partial/complete" is made, which lists old files that have no new one of their name:
 * from then on the new files count. Then each is renamed over the file of its name, and the listed
 * ones are removed. A process that dies before "complete" leaves the old files; one that dies after
 * it leaves what checkpoint_folder_recover finishes. No folder is ever renamed, which overlays may
 * refuse, so the folder may be a symbolic link, a mount point, or in the lower layer of an image;
 * other files in it are not touched. */
#ifndef PSTAR_ENGINE_TRAIN_CHECKPOINT_FOLDER_H
#define PSTAR_ENGINE_TRAIN_CHECKPOINT_FOLDER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns whether the folder is missing or holds nothing besides what an interrupted save left. If
 * it is there but cannot be read, returns false with a G_FILE_ERROR. */
bool checkpoint_folder_is_empty(const char *folder, GError **error);

/* Writes to the folder as a save does, and removes what it wrote. Call it after
 * checkpoint_folder_recover. Fails with a G_FILE_ERROR that names the folder if that does not work,
 * or if its file system has less than `bytes` free, or less than twice as much if `twice`. */
bool checkpoint_folder_try(const char *folder, uint64_t bytes, bool twice, GError **error);

/* Creates the folder if it is missing, and returns the path of an empty folder for the new files.
 * Free it with g_free after checkpoint_folder_replace or checkpoint_folder_abandon. */
char *checkpoint_folder_begin(const char *folder, GError **error);

/* Several processes may write new files, if all of them see the folder: a path may lead to another
 * folder on another host. The one that began signs the new files' folder with a number, and the
 * others look for it. */
bool checkpoint_folder_sign(const char *folder, uint64_t number, GError **error);
bool checkpoint_folder_is_signed(const char *folder, uint64_t number);
/* Removes the signature. */
void checkpoint_folder_unsign(const char *folder, uint64_t number);
/* Returns the path of the new files' folder; free with g_free. */
char *checkpoint_folder_fresh(const char *folder);

/* Removes the new files, after an error in writing them. */
void checkpoint_folder_abandon(const char *folder);

/* Syncs the new files, puts them into place, and removes those of the folder's other files whose
 * names `is_old` recognises. Fails if there are not `files` new ones, because a file system shows
 * those of other hosts too late. */
bool checkpoint_folder_replace(const char *folder, uint32_t files, bool (*is_old)(const char *name),
                               GError **error);

/* Finishes a replacement that was interrupted, if there is one. */
bool checkpoint_folder_recover(const char *folder, GError **error);

#endif
