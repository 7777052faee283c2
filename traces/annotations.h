/* How a program annotates its iteration with NVTX: docs/formats.md has the whole protocol. */
#ifndef PSTAR_TRACES_ANNOTATIONS_H
#define PSTAR_TRACES_ANNOTATIONS_H

#define ANNOTATION_DOMAIN "pstar"

/* Categories of the domain. */
enum annotation_category {
    ANNOTATION_DECLARATION = 1, /* a mark: a line of text and a number */
    ANNOTATION_ITERATION = 2,   /* a range; payload: the step */
    ANNOTATION_OPERATOR = 3,    /* a range; payload: its moment */
    ANNOTATION_COPY = 4         /* a range; its text is one of those below; payload: bytes */
};

/* Which way a copy goes. */
#define ANNOTATION_H2D "H2D"
#define ANNOTATION_D2H "D2H"

#endif
