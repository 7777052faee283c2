/* What can go wrong in a report. */
#ifndef PSTAR_REPORT_REPORT_H
#define PSTAR_REPORT_REPORT_H

#include <glib.h>
#include <stdbool.h>

enum report_error {
    REPORT_ERROR_INPUT, /* an input file is unreadable, of no known kind, or damaged */
    REPORT_ERROR_FAILED /* gnuplot is missing or failed, or the report cannot be written */
};
#define REPORT_ERROR report_error_quark()
GQuark report_error_quark(void);

enum report_format { REPORT_TEXT, REPORT_JSON };

/* Reads `files` as report_write does, and writes nothing. Returns the figures as characters, the
 * tables and the advice; the caller's, to g_free. NULL on error, as report_write. */
char *report_text(const char *const *files, GError **error);

/* Reads `files` (NULL ends them; traces, plans, sweeps and run logs in any order) and writes
 * `folder`/index.html and `folder`/figures/. All is written into a temporary folder beside
 * `folder` first and moved when complete; nothing is written where an input is bad. Figures of an
 * earlier report in `folder` are replaced or removed, other files are left alone.
 *
 * Returns what to print: the tables, or one JSON object of the figures and the numbers; the
 * caller's, to g_free. NULL on error: REPORT_ERROR_FAILED where gnuplot or writing failed, any
 * other where an input file is bad, which the message names. */
char *report_write(const char *const *files, const char *folder, enum report_format format,
                   GError **error);

#endif
