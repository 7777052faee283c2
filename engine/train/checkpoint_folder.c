#include "engine/train/checkpoint_folder.h"

#include "base/output_file.h"
#include "base/size.h"
#include "engine/train/checkpoint_files.h"
#include "engine/train/checkpoint_manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LINK       "newest.partial" /* a link that is to be renamed */
#define OLD        "old.partial"    /* a checkpoint that is being removed */
#define INCOMPLETE "incomplete"     /* in a checkpoint's folder whose files are not all there */
#define REPLACED   "next.partial"   /* of earlier versions */
#define CHECKPOINT "a checkpoint"   /* in errors */
#define MARK       "complete"       /* in REPLACED, if its files count */

/* ---- names ---- */

/* A complete checkpoint. */
struct checkpoint_entry {
    uint64_t number, step;
    char *name;
};

static void entry_clear(void *element)
{
    g_free(((struct checkpoint_entry *)element)->name);
}

static char *name_of(uint64_t number, uint64_t step)
{
    return g_strdup_printf("checkpoint-%04" PRIu64 "-step-%" PRIu64, number, step);
}

/* Returns whether the name is one that name_of returns. */
static bool parse_name(const char *name, struct checkpoint_entry *entry)
{
    if (sscanf(name, "checkpoint-%" SCNu64 "-step-%" SCNu64, &entry->number, &entry->step) != 2)
        return false;
    g_autofree char *same = name_of(entry->number, entry->step);
    return strcmp(name, same) == 0;
}

static int by_number(const void *a, const void *b)
{
    const struct checkpoint_entry *one = a, *other = b;
    return (one->number > other->number) - (one->number < other->number);
}

static char *partial_name(uint64_t step)
{
    return g_strdup_printf("step-%" PRIu64 ".partial", step);
}

/* Returns whether the files of a checkpoint's folder are all there: some file system could not
 * rename the folder (see move_files), and then they come from the partial one. A folder that cannot
 * be read, has lost its files or is a link that leads nowhere counts, so that a run is not
 * continued from an older one unseen: reading it says what is wrong. */
static bool is_whole(const char *path, const char *name, uint64_t step)
{
    g_autofree char *folder = g_build_filename(path, name, NULL);
    g_autofree char *mark = g_build_filename(folder, INCOMPLETE, NULL);
    g_autofree char *from = partial_name(step), *partial = g_build_filename(path, from, NULL);
    g_autoptr(GError) unreadable = NULL;
    g_auto(GStrv) names = checkpoint_files_list(folder, &unreadable);
    if (unreadable)
        return g_file_test(folder, G_FILE_TEST_IS_DIR) ||
               g_file_test(folder, G_FILE_TEST_IS_SYMLINK);
    return !g_file_test(*names ? mark : partial, G_FILE_TEST_EXISTS);
}

/* Returns struct checkpoint_entry in the order of their numbers, none if the folder is missing or
 * is no folder. Returns NULL if it cannot be read: a newer checkpoint could be in it unseen. The
 * caller frees the result with g_array_unref. */
static GArray *list_checkpoints(const char *path, GError **error)
{
    g_autoptr(GError) problem = NULL;
    g_auto(GStrv) names = checkpoint_files_list(path, &problem);
    if (!names && !g_error_matches(problem, G_FILE_ERROR, G_FILE_ERROR_NOENT) &&
        !g_error_matches(problem, G_FILE_ERROR, G_FILE_ERROR_NOTDIR)) {
        g_propagate_error(error, g_steal_pointer(&problem));
        return NULL;
    }
    GArray *entries = g_array_new(FALSE, FALSE, sizeof(struct checkpoint_entry));
    g_array_set_clear_func(entries, entry_clear);
    for (char **name = names; name && *name; name++) {
        struct checkpoint_entry entry;
        if (!parse_name(*name, &entry) || !is_whole(path, *name, entry.step))
            continue;
        entry.name = g_strdup(*name);
        g_array_append_val(entries, entry);
    }
    g_array_sort(entries, by_number);
    return entries;
}

static char *path_of(const char *path, const GArray *entries, guint i)
{
    return g_build_filename(path, g_array_index(entries, struct checkpoint_entry, i).name, NULL);
}

/* Returns whether the text is a prefix and after it one or more of the characters. */
static bool is_prefix_and(const char *text, const char *prefix, const char *characters)
{
    if (!g_str_has_prefix(text, prefix))
        return false;
    const char *rest = text + strlen(prefix);
    return *rest && !rest[strspn(rest, characters)];
}

/* Returns whether a name is one of those that exist only while something is written or removed. A
 * GRegex would crash where it gets no memory. */
static bool is_left_over(const char *name)
{
    static const char *const others[] = {"newest", "old", "next", "try", NULL};
    const char *suffix = g_str_has_suffix(name, ".partial") ? strrchr(name, '.') : NULL;
    if (!suffix)
        return false;
    g_autofree char *stem = g_strndup(name, (gsize)(suffix - name));
    return g_strv_contains(others, stem) || is_prefix_and(stem, "step-", "0123456789") ||
           is_prefix_and(stem, "old-", "0123456789") ||
           is_prefix_and(stem, "signed-", "0123456789abcdef");
}

bool checkpoint_folder_is_empty(const char *path, GError **error)
{
    if (!g_file_test(path, G_FILE_TEST_EXISTS))
        return true;
    g_auto(GStrv) names = checkpoint_files_list(path, error);
    bool empty = names != NULL;
    for (char **name = names; empty && *name; name++)
        empty = is_left_over(*name);
    return empty;
}

char *checkpoint_folder_newest(const char *path, GError **error)
{
    g_autoptr(GArray) entries = list_checkpoints(path, error);
    return entries && entries->len ? path_of(path, entries, entries->len - 1) : NULL;
}

char *checkpoint_folder_before(const char *checkpoint)
{
    g_autofree char *path = g_path_get_dirname(checkpoint);
    g_autofree char *name = g_path_get_basename(checkpoint);
    g_autoptr(GArray) entries = list_checkpoints(path, NULL);
    for (guint i = 1; entries && i < entries->len; i++)
        if (strcmp(g_array_index(entries, struct checkpoint_entry, i).name, name) == 0)
            return path_of(path, entries, i - 1);
    return NULL;
}

uint32_t checkpoint_folder_count(const char *path)
{
    g_autoptr(GArray) entries = list_checkpoints(path, NULL);
    return entries ? entries->len : 0;
}

/* ---- the folder ---- */

/* Returns the folder to which a symbolic link points that has no target yet, else the path. */
static char *target_of(const char *path)
{
    g_autofree char *target = g_file_test(path, G_FILE_TEST_EXISTS) ? NULL
                                                                    : g_file_read_link(path, NULL);
    g_autofree char *parent = g_path_get_dirname(path);
    if (!target || g_path_is_absolute(target))
        return g_strdup(target ? target : path);
    return g_build_filename(parent, target, NULL);
}

static bool create(const char *path, GError **error)
{
    g_autofree char *target = target_of(path);
    if (g_mkdir_with_parents(target, 0777) != 0)
        return checkpoint_files_fail(path, error);
    g_autofree char *parent = g_path_get_dirname(target);
    return checkpoint_files_sync(parent, error);
}

/* Gives a folder that is to be removed a name that says so and that no other has: one before it
 * may still be there. Returns its path, to be freed with g_free, or NULL with errno set. */
static char *set_aside(const char *path, const char *folder)
{
    for (unsigned i = 1;; i++) {
        g_autofree char *name = i > 1 ? g_strdup_printf("old-%u.partial", i) : g_strdup(OLD);
        g_autofree char *aside = g_build_filename(path, name, NULL);
        if (g_rename(folder, aside) == 0)
            return g_steal_pointer(&aside);
        if (errno != ENOTEMPTY && errno != EEXIST)
            return NULL;
    }
}

/* Removes what is left over. What cannot be removed, because the disk fails, or because another
 * program has it open on NFS, must not keep a run from saving: it stays until a later save can
 * remove it, under another name if a new checkpoint could need its own. A symbolic link in the
 * place of a folder is refused: neither it nor its target is ours. */
static bool remove_left(const char *path, const char *name, GError **error)
{
    g_autofree char *left = g_build_filename(path, name, NULL);
    if (!g_file_test(left, G_FILE_TEST_IS_DIR) || strcmp(name, LINK) == 0) {
        g_unlink(left);
        return true;
    }
    if (g_file_test(left, G_FILE_TEST_IS_SYMLINK))
        return checkpoint_files_remove(left, error);
    if (!checkpoint_files_remove(left, NULL) && g_str_has_prefix(name, "step-"))
        g_free(set_aside(path, left));
    return true;
}

/* Returns whether a name is that of a checkpoint whose files are not all there. */
static bool is_unfinished(const char *path, const char *name)
{
    struct checkpoint_entry entry;
    return parse_name(name, &entry) && !is_whole(path, name, entry.step);
}

/* Removes what is left over, but not `except`: first checkpoints that are not whole, which only
 * their partial folders tell from those that have lost their files. */
static bool clean(const char *path, const char *except, GError **error)
{
    g_auto(GStrv) names = checkpoint_files_list(path, error);
    bool ok = names != NULL;
    for (char **name = names; ok && *name; name++)
        ok = !is_unfinished(path, *name) || remove_left(path, *name, error);
    for (char **name = names; ok && *name; name++)
        ok = !is_left_over(*name) || g_strcmp0(*name, except) == 0 ||
             remove_left(path, *name, error);
    return ok;
}

static bool is_never_old(G_GNUC_UNUSED const char *name)
{
    return false;
}

/* A process that dies when a checkpoint is complete may not have moved the links to it. */
static void mend_links(const char *path, int place)
{
    g_autofree char *newest = checkpoint_folder_newest(path, NULL);
    g_autofree char *name = newest ? g_path_get_basename(newest) : NULL;
    if (name)
        checkpoint_files_link(place, path, name, is_never_old);
}

static bool find_device(const char *path, uint64_t *device, GError **error)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return checkpoint_files_fail(path, error);
    *device = status.st_dev;
    return true;
}

bool checkpoint_folder_join(struct checkpoint_folder *folder, const char *path, GError **error)
{
    *folder = (struct checkpoint_folder){.path = g_strdup(path)};
    return find_device(path, &folder->device, error);
}

/* Two runs would remove each other's partial folders. */
static bool lock_folder(const char *path, int *lock, GError **error)
{
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0)
        return checkpoint_files_fail(path, error);
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return true;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_AGAIN, "%s: another run saves there", path);
    return false;
}

bool checkpoint_folder_open(struct checkpoint_folder *folder, const char *path, GError **error)
{
    int lock = -1;
    *folder = (struct checkpoint_folder){0};
    bool ok = create(path, error) && lock_folder(path, &lock, error) &&
              checkpoint_folder_recover(path, error) && clean(path, NULL, error) &&
              checkpoint_folder_join(folder, path, error);
    if (ok)
        mend_links(path, lock);
    folder->locked = lock >= 0;
    folder->lock = lock;
    return ok;
}

void checkpoint_folder_clear(struct checkpoint_folder *folder)
{
    g_free(folder->path);
    g_free(folder->newest);
    if (folder->locked)
        close(folder->lock);
    *folder = (struct checkpoint_folder){0};
}

/* ---- several processes ---- */

static char *signature(const char *path, uint64_t number)
{
    return g_strdup_printf("%s/signed-%016" PRIx64 ".partial", path, number);
}

bool checkpoint_folder_sign(const char *path, uint64_t number, GError **error)
{
    g_autofree char *file = signature(path, number);
    return g_file_set_contents(file, "", 0, error);
}

bool checkpoint_folder_is_signed(const char *path, uint64_t number)
{
    g_autofree char *file = signature(path, number);
    return g_file_test(file, G_FILE_TEST_EXISTS);
}

void checkpoint_folder_unsign(const char *path, uint64_t number)
{
    g_autofree char *file = signature(path, number);
    g_unlink(file);
}

/* ---- a new checkpoint ---- */

/* A file system that was mounted anew is another device, but has what this run has saved. */
static bool is_same_place(const struct checkpoint_folder *folder, int place)
{
    struct stat there;
    return (fstat(place, &there) == 0 && there.st_dev == folder->device) ||
           (folder->newest && fstatat(place, folder->newest, &there, 0) == 0 &&
            S_ISDIR(there.st_mode));
}

/* Returns a descriptor of the folder, which the caller closes, or -1. What is made relative to it
 * never lands in another file system, though a mount may vanish meanwhile. */
static int open_place(const struct checkpoint_folder *folder, GError **error)
{
    int place = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place < 0) {
        checkpoint_files_fail(folder->path, error);
        return -1;
    }
    if (is_same_place(folder, place))
        return place;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NODEV,
                "%s: another file system is there than when the run began", folder->path);
    close(place);
    return -1;
}

/* Makes the partial folder, unless it is there. */
static bool make_partial(int place, const char *name, const char *path, GError **error)
{
    bool made = mkdirat(place, name, 0777) == 0 || errno == EEXIST;
    if (made && g_file_test(path, G_FILE_TEST_IS_SYMLINK)) {
        errno = ENOTDIR; /* it is not ours, nor is its target */
        made = false;
    }
    return made || checkpoint_files_fail(path, error);
}

char *checkpoint_folder_begin(const struct checkpoint_folder *folder, uint64_t step, bool first,
                              GError **error)
{
    g_autofree char *name = partial_name(step);
    g_autofree char *partial = g_build_filename(folder->path, name, NULL);
    int place = open_place(folder, error);
    if (place < 0)
        return NULL;
    bool ok = (!first || clean(folder->path, name, error)) &&
              make_partial(place, name, partial, error);
    close(place);
    return ok ? g_steal_pointer(&partial) : NULL;
}

void checkpoint_folder_abandon(const struct checkpoint_folder *folder, uint64_t step)
{
    g_autofree char *name = partial_name(step);
    g_autofree char *partial = g_build_filename(folder->path, name, NULL);
    if (g_file_test(partial, G_FILE_TEST_IS_DIR))
        checkpoint_files_remove(partial, NULL);
}

static bool expect_files(const char *partial, char **names, uint32_t files, GError **error)
{
    guint there = g_strv_length(names);
    if (there == files)
        return true;
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_FAILED, "%s: of %u new files, this host sees %u",
                partial, files, there);
    return false;
}

static bool sync_files(const char *partial, uint32_t files, GError **error)
{
    g_auto(GStrv) names = checkpoint_files_list(partial, error);
    bool ok = names && expect_files(partial, names, files, error);
    for (char **name = names; ok && *name; name++) {
        g_autofree char *file = g_build_filename(partial, *name, NULL);
        ok = checkpoint_files_sync(file, error);
    }
    return ok && checkpoint_files_sync(partial, error);
}

/* Moves the files into a new folder, where the file system cannot rename theirs: overlays refuse
 * that (EXDEV) for folders that they cannot mark. Until all are there, a file says so. */
static bool move_files(const char *from, const char *to, GError **error)
{
    g_auto(GStrv) names = checkpoint_files_list(from, error);
    g_autofree char *mark = g_build_filename(to, INCOMPLETE, NULL);
    if (!names || !(g_mkdir(to, 0777) == 0 || checkpoint_files_fail(to, error)) ||
        !g_file_set_contents(mark, "", 0, error) || !checkpoint_files_sync(to, error))
        return false;
    for (char **name = names; *name; name++) {
        g_autofree char *file = g_build_filename(from, *name, NULL);
        g_autofree char *moved = g_build_filename(to, *name, NULL);
        if (g_rename(file, moved) != 0)
            return checkpoint_files_fail(moved, error);
    }
    return checkpoint_files_sync(to, error) &&
           (g_unlink(mark) == 0 || checkpoint_files_fail(mark, error)) &&
           checkpoint_files_sync(to, error) && checkpoint_files_remove(from, error);
}

static bool move_folder(const struct checkpoint_folder *folder, int place, const char *from,
                        const char *to, GError **error)
{
    if (renameat(place, from, place, to) == 0)
        return true;
    g_autofree char *partial = g_build_filename(folder->path, from, NULL);
    g_autofree char *moved = g_build_filename(folder->path, to, NULL);
    return errno == EXDEV ? move_files(partial, moved, error) : checkpoint_files_fail(moved, error);
}

/* A folder that is being removed has no checkpoint's name, or is incomplete, so that none is ever
 * half there. */
static void remove_checkpoint(const char *path, const char *old)
{
    g_autofree char *mark = g_build_filename(old, INCOMPLETE, NULL);
    g_autofree char *removed = set_aside(path, old);
    if (removed)
        checkpoint_files_remove(removed, NULL);
    else if (errno == EXDEV && g_file_set_contents(mark, "", 0, NULL))
        checkpoint_files_remove(old, NULL);
}

/* Returns whether a checkpoint is a folder of files alone. Links to checkpoints elsewhere, and
 * folders within one, are a person's. */
static bool is_ours(const char *checkpoint)
{
    g_auto(GStrv) names = checkpoint_files_list(checkpoint, NULL);
    bool ours = names && !g_file_test(checkpoint, G_FILE_TEST_IS_SYMLINK);
    for (char **name = names; ours && *name; name++) {
        g_autofree char *inside = g_build_filename(checkpoint, *name, NULL);
        ours = g_file_test(inside, G_FILE_TEST_IS_SYMLINK) ||
               !g_file_test(inside, G_FILE_TEST_IS_DIR);
    }
    return ours;
}

/* Removes the checkpoints before the last `keep`. Damaged ones do not count as kept. One that
 * cannot be removed is left to the next time. */
static void remove_oldest(const char *path, uint32_t keep)
{
    g_autoptr(GArray) entries = list_checkpoints(path, NULL);
    guint first = entries ? entries->len : 0;
    for (uint32_t kept = 0; first > 0 && kept < keep; first--) {
        g_autofree char *checkpoint = path_of(path, entries, first - 1);
        kept += checkpoint_manifest_exists(checkpoint) &&
                checkpoint_manifest_check(checkpoint, false, NULL);
    }
    for (guint i = 0; i < first; i++) {
        g_autofree char *old = path_of(path, entries, i);
        if (is_ours(old))
            remove_checkpoint(path, old);
    }
}

static bool find_next_number(const char *path, uint64_t *number, GError **error)
{
    g_autoptr(GArray) entries = list_checkpoints(path, error);
    if (!entries)
        return false;
    *number = 1;
    if (entries->len)
        *number += g_array_index(entries, struct checkpoint_entry, entries->len - 1).number;
    return true;
}

/* Gives the partial folder, whose files are synced, its name of a checkpoint. */
static bool complete_in(struct checkpoint_folder *folder, int place, uint64_t step,
                        bool (*is_old)(const char *name), GError **error)
{
    uint64_t number;
    if (!find_next_number(folder->path, &number, error))
        return false;
    g_autofree char *partial = partial_name(step);
    g_autofree char *name = name_of(number, step);
    if (!move_folder(folder, place, partial, name, error))
        return false;
    g_free(folder->newest);
    folder->newest = g_steal_pointer(&name);
    if (!checkpoint_files_sync(folder->path, error))
        return false;
    checkpoint_files_link(place, folder->path, folder->newest, is_old);
    return true;
}

bool checkpoint_folder_complete(struct checkpoint_folder *folder, uint64_t step, uint32_t files,
                                uint32_t keep, bool (*is_old)(const char *name), GError **error)
{
    g_autofree char *name = partial_name(step);
    g_autofree char *partial = g_build_filename(folder->path, name, NULL);
    int place = sync_files(partial, files, error) ? open_place(folder, error) : -1;
    if (place < 0)
        return false;
    bool ok = complete_in(folder, place, step, is_old, error);
    close(place);
    if (ok)
        remove_oldest(folder->path, keep);
    return ok;
}

/* ---- earlier versions ---- */

/* Removes the files that the mark lists. They may be gone already. */
static bool remove_listed(const char *path, const char *partial, GError **error)
{
    g_autofree char *mark = g_build_filename(partial, MARK, NULL), *text = NULL;
    if (!g_file_get_contents(mark, &text, NULL, error))
        return false;
    g_auto(GStrv) names = g_strsplit(text, "\n", -1);
    bool ok = true;
    for (char **name = names; ok && *name; name++) {
        g_autofree char *file = g_build_filename(path, *name, NULL);
        bool here = **name && !strchr(*name, '/');
        ok = !here || g_unlink(file) == 0 || errno == ENOENT || checkpoint_files_fail(file, error);
    }
    return ok;
}

/* A file that is not in `partial` has been moved before. */
static bool put_in_place(const char *path, const char *partial, GError **error)
{
    g_auto(GStrv) names = checkpoint_files_list(partial, error);
    if (!names)
        return false;
    for (char **name = names; *name; name++) {
        g_autofree char *from = g_build_filename(partial, *name, NULL);
        g_autofree char *to = g_build_filename(path, *name, NULL);
        if (strcmp(*name, MARK) != 0 && g_rename(from, to) != 0)
            return checkpoint_files_fail(to, error);
    }
    return remove_listed(path, partial, error) && checkpoint_files_sync(path, error) &&
           checkpoint_files_remove(partial, error);
}

bool checkpoint_folder_recover(const char *path, GError **error)
{
    g_autofree char *partial = g_build_filename(path, REPLACED, NULL);
    g_autofree char *mark = g_build_filename(partial, MARK, NULL);
    return !g_file_test(mark, G_FILE_TEST_EXISTS) || put_in_place(path, partial, error);
}

/* ---- trying ---- */

/* Returns the folder, or the nearest one above it that is there; free with g_free. */
static char *nearest_there(const char *path)
{
    char *folder = g_strdup(path);
    while (!g_file_test(folder, G_FILE_TEST_EXISTS)) {
        char *above = g_path_get_dirname(folder);
        g_free(folder);
        folder = above;
    }
    return folder;
}

/* Removes a folder, and those above it, that are empty and below `there`. */
static void remove_new(const char *path, const char *there)
{
    g_autofree char *folder = g_strdup(path);
    while (strcmp(folder, there) != 0) {
        char *above = g_path_get_dirname(folder);
        g_rmdir(folder);
        g_free(folder);
        folder = above;
    }
}

/* Looks at the file system of the folder, or of the nearest one above it if it is missing. */
static bool measure_room(const char *path, struct statvfs *system)
{
    g_autofree char *folder = nearest_there(path);
    return statvfs(folder, system) == 0 && system->f_blocks > 0;
}

bool checkpoint_folder_has_room(const char *path, const char *what, uint64_t bytes, uint32_t copies,
                                GError **error)
{
    struct statvfs system;
    if (!measure_room(path, &system))
        return true;
    uint64_t room = (uint64_t)system.f_bavail * system.f_frsize;
    if (bytes <= room / copies)
        return true;
    g_autofree char *needed = size_format(bytes), *there = size_format(room);
    g_autofree char *more = copies > 1 ? g_strdup_printf(", and %u will be there at once", copies)
                                       : g_strdup("");
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOSPC,
                "%s: %s takes %s%s, but the file system has only %s free", path, what, needed, more,
                there);
    return false;
}

/* Does what a save does: writes a file into a new folder, syncs it and renames the folder. */
static bool write_and_move(const struct checkpoint_folder *folder, const char *partial,
                           GError **error)
{
    g_autofree char *file = g_build_filename(partial, "try", NULL);
    g_autofree char *name = partial_name(0);
    g_autofree char *moved = g_build_filename(folder->path, "try.partial", NULL);
    if (!g_file_set_contents(file, "try", -1, error) || !checkpoint_files_sync(file, error))
        return false;
    int place = open_place(folder, error);
    if (place < 0)
        return false;
    bool ok = move_folder(folder, place, name, "try.partial", error);
    close(place);
    return ok && checkpoint_files_remove(moved, error);
}

static bool try_to_write(const struct checkpoint_folder *folder, uint64_t bytes, uint32_t copies,
                         GError **error)
{
    g_autofree char *partial = checkpoint_folder_begin(folder, 0, true, error);
    bool ok = partial &&
              checkpoint_folder_has_room(folder->path, CHECKPOINT, bytes, copies, error) &&
              write_and_move(folder, partial, error);
    if (partial)
        checkpoint_folder_abandon(folder, 0);
    return ok;
}

bool checkpoint_folder_try(const char *path, uint64_t bytes, uint32_t copies, GError **error)
{
    g_autofree char *there = nearest_there(path);
    struct checkpoint_folder folder;
    bool ok = checkpoint_folder_open(&folder, path, error) &&
              try_to_write(&folder, bytes, copies, error);
    checkpoint_folder_clear(&folder);
    remove_new(path, there); /* a symbolic link stays, with an empty folder as its target */
    return ok;
}

bool checkpoint_folder_look(const char *path, uint64_t bytes, uint32_t copies, GError **error)
{
    return output_folder_has_place(path, error) &&
           checkpoint_folder_has_room(path, CHECKPOINT, bytes, copies, error);
}
