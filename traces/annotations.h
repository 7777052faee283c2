/* The NVTX annotations with which a program describes its iteration. docs/formats.md describes the
 * protocol. */
#ifndef PSTAR_TRACES_ANNOTATIONS_H
#define PSTAR_TRACES_ANNOTATIONS_H

#define ANNOTATION_DOMAIN "pstar"

/* Categories of the domain. */
enum annotation_category {
    ANNOTATION_DECLARATION = 1, /* a mark with a line of text and a number */
    ANNOTATION_ITERATION = 2,   /* a range; the payload is the step */
    ANNOTATION_OPERATOR = 3,    /* a range; the payload is its moment */
    ANNOTATION_COPY = 4,        /* a range; the text is one of those below, the payload is bytes */
    ANNOTATION_EXCHANGE = 5     /* the same, between ranks, beside operators */
};

/* Direction of a copy. */
#define ANNOTATION_H2D "H2D"
#define ANNOTATION_D2H "D2H"

/* The exchange. */
#define ANNOTATION_GATHER        "gather"
#define ANNOTATION_QUEUED_GATHER "queued gather" /* a range that only queues it on a device */

#endif
