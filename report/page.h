/* The page: one HTML file with everything in it. */
#ifndef PSTAR_REPORT_PAGE_H
#define PSTAR_REPORT_PAGE_H

#include "report/contents.h"

/* The text of index.html. All figures must have been drawn. It refers to nothing but the files in
 * figures/ that its links name. */
GString *page_new(const struct contents *contents);

#endif
