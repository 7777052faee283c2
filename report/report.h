/* A report: plots, tables and one page of what traces, plans, sweeps and run logs hold. */
#ifndef PSTAR_REPORT_REPORT_H
#define PSTAR_REPORT_REPORT_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

enum report_error {
    REPORT_ERROR_INPUT,  /* an input file cannot be read, has an unknown format, or is damaged */
    REPORT_ERROR_FAILED, /* gnuplot is missing or failed, or the report cannot be written */
    REPORT_ERROR_STOPPED /* the caller stopped it */
};
#define REPORT_ERROR report_error_quark()
GQuark report_error_quark(void);

enum report_format { REPORT_TEXT, REPORT_JSON };

/* Hears how many of the figures are drawn. */
struct report_progress {
    bool (*update)(void *data, uint32_t done, uint32_t total); /* returns false to stop */
    void *data;
};

/* Reads `files` and writes nothing. `progress` may be NULL. Returns the plots as characters, the
 * tables and the advice. Free with g_free. Fails as report_write does. */
char *report_text(const char *const *files, const struct report_progress *progress, GError **error);

/* Reads `files` (traces, plans, sweeps and run logs in any order; NULL ends the list) and writes
 * `folder`/index.html and `folder`/figures/. Everything is written to a temporary folder first and
 * moved when it is complete; nothing is written if an input is bad. Plots of an earlier report in
 * `folder` are replaced or removed. Other files are left alone. Returns the text to print: tables,
 * or one JSON object. Free with g_free. Returns NULL on error: REPORT_ERROR_FAILED if gnuplot or
 * writing failed, REPORT_ERROR_STOPPED if `progress` (may be NULL) stopped it, which leaves nothing
 * behind, any other error if an input file is bad; the message names the file. */
char *report_write(const char *const *files, const char *folder, enum report_format format,
                   const struct report_progress *progress, GError **error);

#endif
