/* Colours, after Okabe and Ito, that people with any colour vision tell apart. The same thing has
 * the same colour in every figure. All are "#rrggbb". */
#ifndef PSTAR_REPORT_PALETTE_H
#define PSTAR_REPORT_PALETTE_H

#include "report/strips.h"

/* Lines and text; secondary text; the grid; the paper. In the page they follow light and dark. */
#define PALETTE_INK   "#1b1f24"
#define PALETTE_MUTED "#67707b"
#define PALETTE_GRID  "#d9dde2"
#define PALETTE_PAPER "#ffffff"

#define PALETTE_NON_MODEL "#e69f00"
#define PALETTE_COMPUTE   "#64748b" /* of no known phase */
#define PALETTE_TWICE     "#9aa5b1" /* host memory of what is on the device, too */
#define PALETTE_PLAN      "#d55e00"

const char *palette_list(enum trace_list list);

/* Of the faster links that are drawn beside the one that is, from 1. */
const char *palette_link(unsigned number);

const char *palette_strip(enum strip strip);

/* Parts of a step: compute by phase in blues, waiting by its cause (STRIP_UNKNOWN: none is known)
 * in reds. */
const char *palette_compute(enum trace_phase phase);
const char *palette_wait(int cause);

/* The colour, and gnuplot's point type, of whoever decides what moves: "policy opt", "planner". One
 * that this program does not know gets a colour by its name, always the same. */
const char *palette_maker(const char *maker);
int palette_maker_point(const char *maker);

#endif
