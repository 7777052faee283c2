/* What can go wrong in a report. */
#ifndef PSTAR_REPORT_ERROR_H
#define PSTAR_REPORT_ERROR_H

#include <glib.h>

enum report_error {
    REPORT_ERROR_INPUT, /* an input file is unreadable, of no known kind, or damaged */
    REPORT_ERROR_FAILED /* gnuplot is missing or failed, or the report cannot be written */
};
#define REPORT_ERROR report_error_quark()
GQuark report_error_quark(void);

#endif
