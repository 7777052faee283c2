#include "engine/train/checkpoint_files.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define NEWEST "newest"
#define LINK   "newest.partial" /* a link that is to be renamed */

bool checkpoint_files_fail(const char *path, GError **error)
{
    int code = errno;
    g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(code), "%s: %s", path,
                g_strerror(code));
    return false;
}

bool checkpoint_files_sync(const char *path, GError **error)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool ok = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    if (!ok)
        checkpoint_files_fail(path, error);
    if (descriptor >= 0)
        close(descriptor);
    return ok;
}

char **checkpoint_files_list(const char *path, GError **error)
{
    GDir *directory = g_dir_open(path, 0, error);
    if (!directory)
        return NULL;
    GPtrArray *names = g_ptr_array_new();
    for (const char *name; (name = g_dir_read_name(directory));)
        g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_add(names, NULL);
    g_dir_close(directory);
    return (char **)g_ptr_array_free(names, FALSE);
}

bool checkpoint_files_remove(const char *path, GError **error)
{
    if (g_file_test(path, G_FILE_TEST_IS_SYMLINK)) {
        errno = ENOTDIR;
        return checkpoint_files_fail(path, error);
    }
    g_auto(GStrv) names = checkpoint_files_list(path, NULL);
    bool ok = true;
    for (char **name = names; ok && names && *name; name++) {
        g_autofree char *file = g_build_filename(path, *name, NULL);
        ok = g_unlink(file) == 0 || errno == ENOENT || checkpoint_files_fail(file, error);
    }
    return ok && (g_rmdir(path) == 0 || errno == ENOENT || checkpoint_files_fail(path, error));
}

/* ---- links ---- */

/* Replaces what is at the path, if it is no folder. */
static bool link_to(const char *folder, const char *target, const char *name)
{
    g_autofree char *made = g_build_filename(folder, LINK, NULL);
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_unlink(made);
    if (symlink(target, made) != 0)
        return false;
    bool moved = g_rename(made, path) == 0;
    if (!moved)
        g_unlink(made);
    return moved;
}

/* Returns whether the file is a link of ours into the newest checkpoint. */
static bool is_link(const char *path, const char *name)
{
    g_autofree char *there = g_file_read_link(path, NULL);
    g_autofree char *target = g_build_filename(NEWEST, name, NULL);
    return g_strcmp0(there, target) == 0;
}

static void link_file(const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autofree char *target = g_build_filename(NEWEST, name, NULL);
    if (!is_link(path, name))
        link_to(folder, target, name);
}

/* Removes a link of ours, or a file of an earlier version, whose name the newest checkpoint does
 * not have. */
static void unlink_old(const char *folder, const char *name, bool (*is_old)(const char *name))
{
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_autofree char *newest = g_build_filename(folder, NEWEST, name, NULL);
    if ((is_link(path, name) || is_old(name)) && !g_file_test(newest, G_FILE_TEST_EXISTS))
        g_unlink(path);
}

void checkpoint_files_link(const char *path, const char *name, bool (*is_old)(const char *name))
{
    g_autofree char *newest = g_build_filename(path, NEWEST, NULL);
    bool others = g_file_test(newest, G_FILE_TEST_EXISTS) &&
                  !g_file_test(newest, G_FILE_TEST_IS_SYMLINK);
    if (others || !link_to(path, name, NEWEST))
        return;
    g_auto(GStrv) files = checkpoint_files_list(newest, NULL);
    for (char **file = files; files && *file; file++)
        if (!g_str_has_prefix(*file, CHECKPOINT_FILES_OWN))
            link_file(path, *file);
    g_auto(GStrv) there = checkpoint_files_list(path, NULL);
    for (char **file = there; there && *file; file++)
        unlink_old(path, *file, is_old);
}
