/* Writes a report's folder: completely, or not at all. */
#include "report/report.h"

#include "report/output.h"

#include <errno.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct folder {
    char *path;      /* where the report goes, absolute */
    char *temporary; /* where it is written first, on the same file system */
    char *figures;   /* inside `temporary` */
};

static bool fail_to_write(GError **error, const char *path)
{
    g_set_error(error, REPORT_ERROR, REPORT_ERROR_FAILED, "%s: %s", path, g_strerror(errno));
    return false;
}

/* Removes a folder and the files in it. */
static void folder_remove(const char *path)
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

/* Removes what is still temporary and frees the folder. */
static void folder_end(struct folder *folder)
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

/* Makes the temporary folder, and the parents of `path` if they are missing. Errors
 * (REPORT_ERROR_FAILED) name the folder. */
static struct folder *folder_begin(const char *path, GError **error)
{
    struct folder *folder = g_new0(struct folder, 1);
    folder->path = g_canonicalize_filename(path, NULL);
    bool exists = g_file_test(folder->path, G_FILE_TEST_IS_DIR);
    g_autofree char *parent = g_path_get_dirname(folder->path);
    /* The temporary folder is inside an existing folder, which may be a mount point that a rename
     * cannot leave. */
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
    fail_to_write(error, folder->path);
    folder_end(folder);
    return NULL;
}

/* Matches names of plots of this program: "memory.png", "sweep-2.gp", "loss-phone.svg". */
static bool is_figure(const char *name)
{
    return g_regex_match_simple("^(memory|non-model|allocated|host-measured|busy|link|timeline|"
                                "bars|sweep|sweep-time|heat|predicted|"
                                "sensitivity|host|loss|run-time)(-[0-9]+)?(-phone)?"
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
    bool ok = dir != NULL;
    while (ok && (name = g_dir_read_name(dir))) {
        g_autofree char *source = g_build_filename(from, name, NULL);
        g_autofree char *target = g_build_filename(to, name, NULL);
        if (!g_file_test(source, G_FILE_TEST_IS_DIR) && g_rename(source, target) != 0)
            ok = fail_to_write(error, target);
    }
    if (dir)
        g_dir_close(dir);
    return ok;
}

/* Moves everything into place. Plots of an earlier report that are not among the new ones are
 * removed; other files are left alone. */
static bool folder_publish(struct folder *folder, GError **error)
{
    if (!g_file_test(folder->path, G_FILE_TEST_IS_DIR)) {
        if (g_rename(folder->temporary, folder->path) != 0)
            return fail_to_write(error, folder->path);
        g_clear_pointer(&folder->temporary, g_free);
        return true;
    }
    g_autofree char *figures = g_build_filename(folder->path, "figures", NULL);
    if (g_mkdir_with_parents(figures, 0777) != 0)
        return fail_to_write(error, figures);
    remove_stale(figures, folder->figures);
    /* The page comes last, because it names the plots. */
    return move_files(folder->figures, figures, error) &&
           move_files(folder->temporary, folder->path, error);
}

G_DEFINE_QUARK(pstar_report_error, report_error)

static bool write_page(const struct contents *contents, const struct folder *folder, GError **error)
{
    g_autofree char *path = g_build_filename(folder->temporary, "index.html", NULL);
    GString *page = page_new(contents);
    GError *inner = NULL;
    bool ok = g_file_set_contents(path, page->str, (gssize)page->len, &inner);
    if (!ok)
        g_set_error_literal(error, REPORT_ERROR, REPORT_ERROR_FAILED, inner->message);
    g_clear_error(&inner);
    g_string_free(page, TRUE);
    return ok;
}

/* Returns false, with an error, if the caller wants no more. */
static bool goes_on(const struct report_progress *progress, guint done, guint total, GError **error)
{
    if (!progress || progress->update(progress->data, done, total))
        return true;
    g_set_error(error, REPORT_ERROR, REPORT_ERROR_STOPPED, "stopped at figure %u of %u", done,
                total);
    return false;
}

static bool write_folder(const struct contents *contents, const char *path, const char *gnuplot,
                         const struct report_progress *progress, GError **error)
{
    struct folder *folder = folder_begin(path, error);
    guint plots = contents->plots->len;
    bool ok = folder != NULL;
    for (guint i = 0; ok && i < plots; i++)
        ok = goes_on(progress, i, plots, error) &&
             plot_draw(g_ptr_array_index(contents->plots, i), folder->figures, gnuplot, error);
    ok = ok && goes_on(progress, plots, plots, error);
    for (guint i = 0; ok && i < contents->inputs->tracks->len; i++)
        ok = timeline_write(g_ptr_array_index(contents->inputs->tracks, i), folder->figures, i,
                            error);
    ok = ok && write_page(contents, folder, error) && folder_publish(folder, error);
    folder_end(folder);
    return ok;
}

static char *text_of(const struct contents *contents, const char *gnuplot,
                     const struct report_progress *progress, GError **error)
{
    g_autofree char *folder = g_dir_make_tmp("pstar-report-XXXXXX", error);
    GString *text = folder ? g_string_new(NULL) : NULL;
    guint plots = contents->plots->len;
    bool ok = text != NULL;
    for (guint i = 0; ok && i < plots; i++)
        ok = goes_on(progress, i, plots, error) &&
             plot_draw_text(g_ptr_array_index(contents->plots, i), folder, gnuplot, text, error);
    if (ok) {
        g_autofree char *summary = summary_text(contents, NULL);
        g_string_append(text, summary);
    }
    if (folder)
        folder_remove(folder);
    return text ? g_string_free(text, !ok) : NULL;
}

char *report_text(const char *const *files, const struct report_progress *progress, GError **error)
{
    struct report_inputs *inputs = inputs_read(files, error);
    if (!inputs)
        return NULL;
    g_autofree char *gnuplot = plot_find_gnuplot(error);
    struct contents *contents = gnuplot ? contents_new(inputs) : NULL;
    char *text = contents ? text_of(contents, gnuplot, progress, error) : NULL;
    contents_free(contents);
    inputs_free(inputs);
    return text;
}

char *report_write(const char *const *files, const char *folder, enum report_format format,
                   const struct report_progress *progress, GError **error)
{
    struct report_inputs *inputs = inputs_read(files, error);
    if (!inputs)
        return NULL;
    g_autofree char *gnuplot = plot_find_gnuplot(error);
    struct contents *contents = gnuplot ? contents_new(inputs) : NULL;
    char *summary = NULL;
    if (contents && write_folder(contents, folder, gnuplot, progress, error))
        summary = format == REPORT_JSON ? summary_json(contents, folder)
                                        : summary_text(contents, folder);
    contents_free(contents);
    inputs_free(inputs);
    return summary;
}
