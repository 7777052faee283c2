/* Writes reports of a sample's files and checks what was drawn. */
#ifndef PSTAR_TESTS_REPORT_DRAWN_H
#define PSTAR_TESTS_REPORT_DRAWN_H

#include "report/report.h"
#include "tests/report/sample.h"

/* Returns false and marks the test as skipped if gnuplot is not installed. */
bool drawn_has_gnuplot(void);

/* Writes the report of `files` (NULL for all files of the sample) into its folder "out". Returns
 * the printed summary. Free with g_free. */
char *drawn_report(const struct sample *sample, const char *const *files,
                   enum report_format format);

/* Returns the text of index.html. Free with g_free. */
char *drawn_page(const struct sample *sample);

/* Returns the path of a figure's file; the suffix is ".svg", "-phone.svg", ".png", ".gp" or ".dat".
 * Free with g_free. */
char *drawn_path(const struct sample *sample, const char *name, const char *suffix);

/* Checks that the page loads nothing from outside and allows only its own script. */
void drawn_check_page(const char *page);

/* Checks that the figure exists in every form and that no file is empty or damaged. */
void drawn_check(const struct sample *sample, const char *name);

#endif
