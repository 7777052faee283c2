/* A folder in which a run keeps its last checkpoints, each in a folder of its own.
 *
 *   checkpoint-0007-step-700/   a complete checkpoint; the greatest first number is the newest
 *   newest                      a symbolic link to the newest one
 *   config.json, ...            symbolic links to the files in it, so that programs that read a
 *                               model's folder (transformers) read this one, too
 *   step-800.partial/           one that is being written, or that a process has left unfinished
 *
 * The files of a new checkpoint are written to a "partial" folder and synced. Then this folder is
 * synced and renamed, and the folder around it is synced: from then on the checkpoint counts. Only
 * then are links moved and old checkpoints removed. A process that dies at any moment leaves the
 * newest complete checkpoint, and at most partial folders, which the next one removes, and links to
 * the checkpoint before, which the next one moves. Links are a
 * convenience: what counts is the names of folders, and where a file system has no symbolic links
 * there are none. Where a file system cannot rename a folder, files are moved one by one, and until
 * all are moved a file "incomplete" lies beside them. The folder itself is never renamed, so it may
 * be a symbolic link, a mount point, or in the lower layer of an image; other files in it are not
 * touched.
 *
 * Earlier versions had the files of one checkpoint in the folder itself, and replaced them by those
 * of "next.partial" as soon as that had a file "complete", which lists old files that have no new
 * one of their name. Such a replacement is still finished. */
#ifndef PSTAR_ENGINE_TRAIN_CHECKPOINT_FOLDER_H
#define PSTAR_ENGINE_TRAIN_CHECKPOINT_FOLDER_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Where a run saves. */
struct checkpoint_folder {
    char *path;
    uint64_t device; /* that holds it, as stat says */
    char *newest;    /* name of the last checkpoint that this run has completed; NULL */
    bool locked;     /* by this process, which opened it */
    int lock;        /* then a descriptor of the folder */
};

/* ---- before a run ---- */

/* Returns whether the folder is missing or holds nothing besides what an interrupted save left. If
 * it is there but cannot be read, returns false with a G_FILE_ERROR. */
bool checkpoint_folder_is_empty(const char *path, GError **error);

/* Returns the path of the newest complete checkpoint in the folder, to be freed with g_free, or
 * NULL if there is none. Returns NULL with a G_FILE_ERROR if the folder cannot be read. */
char *checkpoint_folder_newest(const char *path, GError **error);
/* Returns the path of the checkpoint before this one in the same folder, or NULL. */
char *checkpoint_folder_before(const char *checkpoint);
/* Returns the number of complete checkpoints in it, 0 if it cannot be read. */
uint32_t checkpoint_folder_count(const char *path);

/* Finishes a replacement that an earlier version began, if there is one. */
bool checkpoint_folder_recover(const char *path, GError **error);

/* Writes to the folder as a save does, and removes what it wrote. Fails with a G_FILE_ERROR that
 * names the folder if that does not work, or if its file system has less room than for `copies`
 * checkpoints of so many bytes. Folders that were missing are missing afterwards. */
bool checkpoint_folder_try(const char *path, uint64_t bytes, uint32_t copies, GError **error);

/* Does the same by the folder's permissions, without writing. */
bool checkpoint_folder_look(const char *path, uint64_t bytes, uint32_t copies, GError **error);

/* Fails with a G_FILE_ERROR that names the folder, which may be missing, if its file system has
 * less room than for `copies` of `what`, such as "a checkpoint", of so many bytes. */
bool checkpoint_folder_has_room(const char *path, const char *what, uint64_t bytes, uint32_t copies,
                                GError **error);

/* ---- during a run ---- */

/* Creates the folder if it is missing, locks it (flock) until checkpoint_folder_clear, removes what
 * interrupted saves have left in it, and moves links that they have not moved. Fails if another
 * process has locked it; where the file system has no locks, nothing is locked. */
bool checkpoint_folder_open(struct checkpoint_folder *folder, const char *path, GError **error);
/* Does the same for another process, which does not change the folder. */
bool checkpoint_folder_join(struct checkpoint_folder *folder, const char *path, GError **error);
void checkpoint_folder_clear(struct checkpoint_folder *folder);

/* Several processes may write one checkpoint, if all of them see the folder: a path may lead to
 * another folder on another host. One of them signs the folder with a number, and the others look
 * for it. */
bool checkpoint_folder_sign(const char *path, uint64_t number, GError **error);
bool checkpoint_folder_is_signed(const char *path, uint64_t number);
/* Removes the signature. */
void checkpoint_folder_unsign(const char *path, uint64_t number);

/* Creates the partial folder of a checkpoint after so many steps, unless another process has, and
 * returns its path, to be freed with g_free. With `first` removes what earlier attempts have left.
 * Fails if the folder is gone, or if another file system is in its place, as when a mount vanishes:
 * it is never created again. */
char *checkpoint_folder_begin(const struct checkpoint_folder *folder, uint64_t step, bool first,
                              GError **error);

/* Removes the partial folder, after an error. */
void checkpoint_folder_abandon(const struct checkpoint_folder *folder, uint64_t step);

/* Syncs the files of the partial folder and makes a complete checkpoint of it, the newest. Then
 * removes all but `keep` of them, and moves the links. Files of an earlier version's checkpoint in
 * the folder itself, which `is_old` recognises, give way to links. Fails if there are not `files`
 * new ones, because a file system shows those of other hosts too late. */
bool checkpoint_folder_complete(struct checkpoint_folder *folder, uint64_t step, uint32_t files,
                                uint32_t keep, bool (*is_old)(const char *name), GError **error);

#endif
