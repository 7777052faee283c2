#include "engine/train/checkpoint_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
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

/* GDir takes names that a disk cannot read for the end of the folder. */
char **checkpoint_files_list(const char *path, GError **error)
{
    DIR *folder = opendir(path);
    if (!folder) {
        checkpoint_files_fail(path, error);
        return NULL;
    }
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    const struct dirent *entry;
    errno = 0;
    for (; (entry = readdir(folder)); errno = 0)
        if (!g_str_equal(entry->d_name, ".") && !g_str_equal(entry->d_name, ".."))
            g_ptr_array_add(names, g_strdup(entry->d_name));
    bool all = errno == 0 || checkpoint_files_fail(path, error);
    closedir(folder);
    g_ptr_array_add(names, NULL);
    if (all)
        return (char **)g_ptr_array_free(names, FALSE);
    g_ptr_array_unref(names);
    return NULL;
}

bool checkpoint_files_remove(const char *path, GError **error)
{
    if (g_file_test(path, G_FILE_TEST_IS_SYMLINK)) {
        errno = ENOTDIR;
        return checkpoint_files_fail(path, error);
    }
    g_auto(GStrv) names = checkpoint_files_list(path, NULL);
    bool ok = true;
    for (char **name = names; names && *name; name++) {
        g_autofree char *file = g_build_filename(path, *name, NULL);
        if (g_unlink(file) != 0 && errno != ENOENT)
            ok = checkpoint_files_fail(file, ok ? error : NULL);
    }
    return ok && (g_rmdir(path) == 0 || errno == ENOENT || checkpoint_files_fail(path, error));
}

/* ---- links ---- */

/* Replaces what has the name in the folder, if it is no folder. */
static bool link_to(int place, const char *target, const char *name)
{
    unlinkat(place, LINK, 0);
    if (symlinkat(target, place, LINK) != 0)
        return false;
    bool moved = renameat(place, LINK, place, name) == 0;
    if (!moved)
        unlinkat(place, LINK, 0);
    return moved;
}

/* Returns whether the file is a link of ours into the newest checkpoint. */
static bool is_link(int place, const char *name)
{
    char there[NAME_MAX + sizeof NEWEST + 1] = "";
    g_autofree char *target = g_build_filename(NEWEST, name, NULL);
    ssize_t length = readlinkat(place, name, there, sizeof there - 1);
    return length > 0 && strcmp(there, target) == 0;
}

static void link_file(int place, const char *name)
{
    g_autofree char *target = g_build_filename(NEWEST, name, NULL);
    if (!is_link(place, name))
        link_to(place, target, name);
}

/* Removes a link of ours, or a file of an earlier version, whose name the newest checkpoint does
 * not have. */
static void unlink_old(int place, const char *name, bool (*is_old)(const char *name))
{
    g_autofree char *newest = g_build_filename(NEWEST, name, NULL);
    if ((is_link(place, name) || is_old(name)) && faccessat(place, newest, F_OK, 0) != 0)
        unlinkat(place, name, 0);
}

void checkpoint_files_link(int place, const char *path, const char *name,
                           bool (*is_old)(const char *name))
{
    struct stat there;
    bool others = fstatat(place, NEWEST, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                  !S_ISLNK(there.st_mode);
    if (others || !link_to(place, name, NEWEST))
        return;
    g_autofree char *newest = g_build_filename(path, NEWEST, NULL);
    g_auto(GStrv) files = checkpoint_files_list(newest, NULL);
    for (char **file = files; files && *file; file++)
        if (!g_str_has_prefix(*file, CHECKPOINT_FILES_OWN))
            link_file(place, *file);
    g_auto(GStrv) names = checkpoint_files_list(path, NULL);
    for (char **file = names; names && *file; file++)
        unlink_old(place, *file, is_old);
}
