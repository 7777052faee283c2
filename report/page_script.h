/* The page's script: it zooms timelines. */
#ifndef PSTAR_REPORT_PAGE_SCRIPT_H
#define PSTAR_REPORT_PAGE_SCRIPT_H

#include <glib.h>

extern const char page_script[];

/* What the page's Content-Security-Policy names the script by: "'sha256-...'". Free with g_free. */
char *page_script_hash(void);

#endif
