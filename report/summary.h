/* What the program prints: for people, and for programs. */
#ifndef PSTAR_REPORT_SUMMARY_H
#define PSTAR_REPORT_SUMMARY_H

#include "report/contents.h"

/* Findings, tables, and what is missing. `folder` is where the report is. Free with g_free. */
char *summary_text(const struct contents *contents, const char *folder);

/* One JSON object: "folder", "page", "figures", "missing", "memory", "predicted_beside_measured".
 * docs/report.md has an example. Free with g_free. */
char *summary_json(const struct contents *contents, const char *folder);

#endif
