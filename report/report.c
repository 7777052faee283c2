#include "report/report.h"

#include "report/folder.h"
#include "report/page.h"
#include "report/summary.h"
#include "report/timeline.h"

G_DEFINE_QUARK(pstar_report_error, report_error)

static bool write_page(const struct contents *contents, const struct folder *folder, GError **error)
{
    g_autofree char *path = g_build_filename(folder->temporary, "index.html", NULL);
    GString *page = page_new(contents);
    GError *inner = NULL;
    bool good = g_file_set_contents(path, page->str, (gssize)page->len, &inner);
    if (!good)
        g_set_error_literal(error, REPORT_ERROR, REPORT_ERROR_FAILED, inner->message);
    g_clear_error(&inner);
    g_string_free(page, TRUE);
    return good;
}

static bool write_folder(const struct contents *contents, const char *path, const char *gnuplot,
                         GError **error)
{
    struct folder *folder = folder_begin(path, error);
    bool good = folder != NULL;
    for (guint i = 0; good && i < contents->figures->len; i++)
        good = figure_draw(g_ptr_array_index(contents->figures, i), folder->figures, gnuplot,
                           error);
    for (guint i = 0; good && i < contents->inputs->strips->len; i++)
        good = timeline_write(g_ptr_array_index(contents->inputs->strips, i), folder->figures, i,
                              error);
    good = good && write_page(contents, folder, error) && folder_publish(folder, error);
    folder_end(folder);
    return good;
}

static char *text_of(const struct contents *contents, const char *gnuplot, GError **error)
{
    g_autofree char *folder = g_dir_make_tmp("pstar-report-XXXXXX", error);
    GString *text = folder ? g_string_new(NULL) : NULL;
    bool good = text != NULL;
    for (guint i = 0; good && i < contents->figures->len; i++)
        good = figure_draw_text(g_ptr_array_index(contents->figures, i), folder, gnuplot, text,
                                error);
    if (good) {
        g_autofree char *summary = summary_text(contents, NULL);
        g_string_append(text, summary);
    }
    if (folder)
        folder_remove(folder);
    return text ? g_string_free(text, !good) : NULL;
}

char *report_text(const char *const *files, GError **error)
{
    struct inputs *inputs = inputs_read(files, error);
    if (!inputs)
        return NULL;
    g_autofree char *gnuplot = figure_find_gnuplot(error);
    struct contents *contents = gnuplot ? contents_new(inputs) : NULL;
    char *text = contents ? text_of(contents, gnuplot, error) : NULL;
    contents_free(contents);
    inputs_free(inputs);
    return text;
}

char *report_write(const char *const *files, const char *folder, enum report_format format,
                   GError **error)
{
    struct inputs *inputs = inputs_read(files, error);
    if (!inputs)
        return NULL;
    g_autofree char *gnuplot = figure_find_gnuplot(error);
    struct contents *contents = gnuplot ? contents_new(inputs) : NULL;
    char *summary = NULL;
    if (contents && write_folder(contents, folder, gnuplot, error))
        summary = format == REPORT_JSON ? summary_json(contents, folder)
                                        : summary_text(contents, folder);
    contents_free(contents);
    inputs_free(inputs);
    return summary;
}
