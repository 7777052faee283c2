/* The page's style sheet. */
#ifndef PSTAR_REPORT_PAGE_STYLE_H
#define PSTAR_REPORT_PAGE_STYLE_H

/* Its ink, muted and grid are those of the palette in light; figures take them over by name. */
extern const char page_style[];

#endif
