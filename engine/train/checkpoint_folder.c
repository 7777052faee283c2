#include "engine/train/checkpoint_folder.h"

#include "traces/size.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PARTIAL  "next.partial"
#define COMPLETE "complete" /* in PARTIAL, if its files count */

static bool fail(const char *path, GError **error)
{
    int code = errno;
    g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(code), "%s: %s", path,
                g_strerror(code));
    return false;
}

/* Makes the names in a folder, or the bytes of a file, survive a loss of power. File systems that
 * cannot sync a folder say EINVAL. */
static bool sync_path(const char *path, GError **error)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    if (!ok)
        fail(path, error);
    if (descriptor >= 0)
        close(descriptor);
    return ok;
}

/* Removes a folder of ours with its files. A symbolic link is not ours, nor is what it points to.
 */
static bool remove_folder(const char *path, GError **error)
{
    if (g_file_test(path, G_FILE_TEST_IS_SYMLINK)) {
        errno = ENOTDIR;
        return fail(path, error);
    }
    GDir *directory = g_dir_open(path, 0, NULL);
    bool ok = true;
    for (const char *name; ok && directory && (name = g_dir_read_name(directory));) {
        g_autofree char *file = g_build_filename(path, name, NULL);
        ok = g_unlink(file) == 0 || fail(file, error);
    }
    if (directory)
        g_dir_close(directory);
    return ok && (g_rmdir(path) == 0 || errno == ENOENT || fail(path, error));
}

bool checkpoint_folder_is_empty(const char *folder, GError **error)
{
    if (!g_file_test(folder, G_FILE_TEST_EXISTS))
        return true;
    GDir *directory = g_dir_open(folder, 0, error);
    bool empty = directory != NULL;
    for (const char *name; empty && (name = g_dir_read_name(directory));)
        empty = strcmp(name, PARTIAL) == 0;
    if (directory)
        g_dir_close(directory);
    return empty;
}

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

static bool create(const char *folder, GError **error)
{
    g_autofree char *target = target_of(folder);
    if (g_mkdir_with_parents(target, 0777) != 0)
        return fail(folder, error);
    g_autofree char *parent = g_path_get_dirname(target);
    return sync_path(parent, error);
}

/* ---- saving ---- */

char *checkpoint_folder_begin(const char *folder, GError **error)
{
    char *partial = g_build_filename(folder, PARTIAL, NULL);
    if (create(folder, error) && remove_folder(partial, error) &&
        (g_mkdir(partial, 0777) == 0 || fail(partial, error)))
        return partial;
    g_free(partial);
    return NULL;
}

char *checkpoint_folder_fresh(const char *folder)
{
    return g_build_filename(folder, PARTIAL, NULL);
}

static char *signature(const char *folder, uint64_t number)
{
    return g_strdup_printf("%s/" PARTIAL "/signed-%016" G_GINT64_MODIFIER "x", folder, number);
}

bool checkpoint_folder_sign(const char *folder, uint64_t number, GError **error)
{
    g_autofree char *path = signature(folder, number);
    return g_file_set_contents(path, "", 0, error);
}

bool checkpoint_folder_is_signed(const char *folder, uint64_t number)
{
    g_autofree char *path = signature(folder, number);
    return g_file_test(path, G_FILE_TEST_EXISTS);
}

void checkpoint_folder_unsign(const char *folder, uint64_t number)
{
    g_autofree char *path = signature(folder, number);
    g_unlink(path);
}

static bool is_complete(const char *partial)
{
    g_autofree char *mark = g_build_filename(partial, COMPLETE, NULL);
    return g_file_test(mark, G_FILE_TEST_EXISTS);
}

void checkpoint_folder_abandon(const char *folder)
{
    g_autofree char *partial = g_build_filename(folder, PARTIAL, NULL);
    if (!is_complete(partial))
        remove_folder(partial, NULL);
}

/* Returns the names of the folder's files but the mark's, as a GStrv. */
static char **list_files(const char *folder, GError **error)
{
    GDir *directory = g_dir_open(folder, 0, error);
    if (!directory)
        return NULL;
    GPtrArray *names = g_ptr_array_new();
    for (const char *name; (name = g_dir_read_name(directory));)
        if (strcmp(name, COMPLETE) != 0)
            g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_add(names, NULL);
    g_dir_close(directory);
    return (char **)g_ptr_array_free(names, FALSE);
}

/* Removes the files that the mark lists. They may be gone already. */
static bool remove_listed(const char *folder, const char *partial, GError **error)
{
    g_autofree char *mark = g_build_filename(partial, COMPLETE, NULL), *text = NULL;
    if (!g_file_get_contents(mark, &text, NULL, error))
        return false;
    g_auto(GStrv) names = g_strsplit(text, "\n", -1);
    bool ok = true;
    for (char **name = names; ok && *name; name++) {
        g_autofree char *path = g_build_filename(folder, *name, NULL);
        bool here = **name && !strchr(*name, '/');
        ok = !here || g_unlink(path) == 0 || errno == ENOENT || fail(path, error);
    }
    return ok;
}

/* A file that is not in `partial` has been moved before. */
static bool put_in_place(const char *folder, const char *partial, GError **error)
{
    g_auto(GStrv) names = list_files(partial, error);
    if (!names)
        return false;
    for (char **name = names; *name; name++) {
        g_autofree char *from = g_build_filename(partial, *name, NULL);
        g_autofree char *to = g_build_filename(folder, *name, NULL);
        if (g_rename(from, to) != 0)
            return fail(to, error);
    }
    return remove_listed(folder, partial, error) && sync_path(folder, error) &&
           remove_folder(partial, error);
}

/* Returns the old files that no new one replaces, a line for each. */
static char *list_old(const char *folder, const char *partial, bool (*is_old)(const char *name),
                      GError **error)
{
    g_auto(GStrv) names = list_files(folder, error);
    if (!names)
        return NULL;
    GString *old = g_string_new(NULL);
    for (char **name = names; *name; name++) {
        g_autofree char *replacing = g_build_filename(partial, *name, NULL);
        if (is_old(*name) && !g_file_test(replacing, G_FILE_TEST_EXISTS))
            g_string_append_printf(old, "%s\n", *name);
    }
    return g_string_free(old, FALSE);
}

/* The mark appears with all of its text. */
static bool mark_complete(const char *partial, const char *old, GError **error)
{
    g_autofree char *mark = g_build_filename(partial, COMPLETE, NULL);
    return g_file_set_contents(mark, old, -1, error) && sync_path(mark, error) &&
           sync_path(partial, error);
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

bool checkpoint_folder_replace(const char *folder, uint32_t files, bool (*is_old)(const char *name),
                               GError **error)
{
    g_autofree char *partial = g_build_filename(folder, PARTIAL, NULL);
    g_autofree char *old = list_old(folder, partial, is_old, error);
    g_auto(GStrv) names = old ? list_files(partial, error) : NULL;
    if (!names || !expect_files(partial, names, files, error))
        return false;
    for (char **name = names; *name; name++) {
        g_autofree char *file = g_build_filename(partial, *name, NULL);
        if (!sync_path(file, error))
            return false;
    }
    return sync_path(partial, error) && sync_path(folder, error) &&
           mark_complete(partial, old, error) && put_in_place(folder, partial, error);
}

bool checkpoint_folder_recover(const char *folder, GError **error)
{
    g_autofree char *partial = g_build_filename(folder, PARTIAL, NULL);
    return !is_complete(partial) || put_in_place(folder, partial, error);
}

/* ---- trying ---- */

static bool has_room(const char *folder, uint64_t bytes, bool twice, GError **error)
{
    struct statvfs system;
    if (statvfs(folder, &system) != 0 || system.f_blocks == 0)
        return true;
    uint64_t room = (uint64_t)system.f_bavail * system.f_frsize;
    if (bytes <= (twice ? room / 2 : room))
        return true;
    g_autofree char *needed = size_format(bytes), *there = size_format(room);
    g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOSPC,
                "%s: a checkpoint takes %s%s, but the file system has only %s free", folder, needed,
                twice ? ", and as much again while the next one replaces it" : "", there);
    return false;
}

static bool try_to_write(const char *folder, uint64_t bytes, bool twice, GError **error)
{
    g_autofree char *partial = checkpoint_folder_begin(folder, error);
    if (!partial)
        return false;
    g_autofree char *file = g_build_filename(partial, "try", NULL);
    g_autofree char *moved = g_build_filename(folder, PARTIAL ".try", NULL);
    bool ok = has_room(folder, bytes, twice, error) &&
              g_file_set_contents(file, "try", -1, error) && sync_path(file, error) &&
              (g_rename(file, moved) == 0 || fail(moved, error)) &&
              (g_unlink(moved) == 0 || fail(moved, error));
    checkpoint_folder_abandon(folder);
    return ok;
}

bool checkpoint_folder_try(const char *folder, uint64_t bytes, bool twice, GError **error)
{
    bool was_there = g_file_test(folder, G_FILE_TEST_EXISTS);
    bool ok = try_to_write(folder, bytes, twice, error);
    if (!was_there)
        g_rmdir(folder); /* a symbolic link stays, with an empty folder as its target */
    return ok;
}
