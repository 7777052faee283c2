/* What the program prints: for people, and for programs. */
#ifndef PSTAR_REPORT_SUMMARY_H
#define PSTAR_REPORT_SUMMARY_H

#include "report/contents.h"

/* Tables, what is missing, the verdict and the advice. `folder` is where the report is; NULL: it is
 * nowhere. Free with g_free. */
char *summary_text(const struct contents *contents, const char *folder);

/* One JSON object: "folder", "page", "verdict", "comparison", "advice", "figures", "missing",
 * "memory", "predicted_beside_measured". docs/report.md has an example. Free with g_free. */
char *summary_json(const struct contents *contents, const char *folder);

#endif
