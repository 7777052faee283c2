#include "report/folder.h"

#include "report/error.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

static bool fail(GError **error, const char *path)
{
    g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED, "%s: %s", path, g_strerror(errno));
    return false;
}

struct folder *folder_begin(const char *path, GError **error)
{
    struct folder *folder = g_new0(struct folder, 1);
    folder->path = g_canonicalize_filename(path, NULL);
    bool exists = g_file_test(folder->path, G_FILE_TEST_IS_DIR);
    g_autofree char *parent = g_path_get_dirname(folder->path);
    /* Inside of an existing folder: it may be a mount point, and a rename does not leave one. */
    char *temporary = g_build_filename(exists ? folder->path : parent, ".pstar-report-XXXXXX",
                                       NULL);
    if (g_mkdir_with_parents(parent, 0777) == 0 && g_mkdtemp_full(temporary, 0777)) {
        folder->temporary = temporary;
        folder->figures = g_build_filename(temporary, "figures", NULL);
        if (g_mkdir(folder->figures, 0777) == 0)
            return folder;
    } else {
        g_free(temporary);
    }
    fail(error, folder->path);
    folder_end(folder);
    return NULL;
}

/* "memory.png", "sweep-2.gp", "loss-phone.svg": as figures of this program are called. */
static bool is_figure(const char *name)
{
    return g_regex_match_simple("^(memory|non-model|allocated|host-measured|busy|link|timeline|"
                                "bars|sweep|sweep-time|heat|predicted|"
                                "sensitivity|host|loss)(-[0-9]+)?(-phone)?"
                                "\\.(svg|png|gp|dat|json\\.gz)$",
                                name, 0, 0);
}

static void remove_stale(const char *old_figures, const char *new_figures)
{
    GDir *dir = g_dir_open(old_figures, 0, NULL);
    const char *name;
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *old = g_build_filename(old_figures, name, NULL);
        g_autofree char *fresh = g_build_filename(new_figures, name, NULL);
        if (is_figure(name) && !g_file_test(fresh, G_FILE_TEST_EXISTS))
            g_unlink(old);
    }
    if (dir)
        g_dir_close(dir);
}

static bool move_files(const char *from, const char *to, GError **error)
{
    GDir *dir = g_dir_open(from, 0, error);
    const char *name;
    bool good = dir != NULL;
    while (good && (name = g_dir_read_name(dir))) {
        g_autofree char *source = g_build_filename(from, name, NULL);
        g_autofree char *target = g_build_filename(to, name, NULL);
        if (!g_file_test(source, G_FILE_TEST_IS_DIR) && g_rename(source, target) != 0)
            good = fail(error, target);
    }
    if (dir)
        g_dir_close(dir);
    return good;
}

bool folder_publish(struct folder *folder, GError **error)
{
    if (!g_file_test(folder->path, G_FILE_TEST_IS_DIR)) {
        if (g_rename(folder->temporary, folder->path) != 0)
            return fail(error, folder->path);
        g_clear_pointer(&folder->temporary, g_free);
        return true;
    }
    g_autofree char *figures = g_build_filename(folder->path, "figures", NULL);
    if (g_mkdir_with_parents(figures, 0777) != 0)
        return fail(error, figures);
    remove_stale(figures, folder->figures);
    /* The page last: it names the figures. */
    return move_files(folder->figures, figures, error) &&
           move_files(folder->temporary, folder->path, error);
}

void folder_remove(const char *path)
{
    GDir *dir = g_dir_open(path, 0, NULL);
    const char *name;
    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *file = g_build_filename(path, name, NULL);
        if (!g_file_test(file, G_FILE_TEST_IS_DIR))
            g_unlink(file);
    }
    if (dir)
        g_dir_close(dir);
    g_rmdir(path);
}

void folder_end(struct folder *folder)
{
    if (!folder)
        return;
    if (folder->temporary) {
        if (folder->figures)
            folder_remove(folder->figures);
        folder_remove(folder->temporary);
    }
    g_free(folder->path);
    g_free(folder->temporary);
    g_free(folder->figures);
    g_free(folder);
}
