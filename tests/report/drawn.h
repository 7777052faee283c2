/* Reports of a sample's files, and checks of what was drawn. */
#ifndef PSTAR_TESTS_REPORT_DRAWN_H
#define PSTAR_TESTS_REPORT_DRAWN_H

#include "report/report.h"
#include "tests/report/sample.h"

/* False, and the test is marked as skipped, where gnuplot is not installed. */
bool drawn_has_gnuplot(void);

/* Writes the report of `files` (NULL: all of the sample) into its folder "out". Returns the
 * summary, to g_free. */
char *drawn_report(const struct sample *sample, const char *const *files,
                   enum report_format format);

/* The text of its index.html. Free with g_free. */
char *drawn_page(const struct sample *sample);

/* The path of a file of a figure: ".svg", "-phone.svg", ".png", ".gp", ".dat". Free with g_free. */
char *drawn_path(const struct sample *sample, const char *name, const char *suffix);

/* A page holds nothing that a browser would fetch by itself, and no script but its own may run. */
void drawn_check_page(const char *page);

/* The figure is there in every form, and none is empty or damaged. */
void drawn_check(const struct sample *sample, const char *name);

#endif
