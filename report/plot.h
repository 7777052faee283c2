/* A figure: a gnuplot script and its data, drawn three times, as a wide SVG, as a PNG, and as a
 * narrow SVG that is readable on a phone. */
#ifndef PSTAR_REPORT_PLOT_H
#define PSTAR_REPORT_PLOT_H

#include "report/tracks.h"

#include <glib.h>
#include <stdbool.h>

#define PLOT_WIDE  960 /* pixels across */
#define PLOT_PHONE 360

#define PLOT_COLUMNS 100 /* characters across, in a terminal */

struct plot {
    char *name;    /* of its files: NAME.gp, NAME.dat, NAME.svg, NAME.png, NAME-phone.svg */
    char *title;   /* what is shown; a heading */
    char *alt;     /* what is to be seen, for those who do not see it */
    char *caption; /* how to read it */
    int wide_height, phone_height; /* pixels */
    GString *data;                 /* of NAME.dat */
    GString *setup;                /* gnuplot: definitions, once */
    GString *drawing;              /* gnuplot: drawn for each of the three; `phone` says which */
    char *svg, *phone_svg;         /* set by plot_draw: the text of the files */
};

/* Takes the strings over. Data, setup and drawing are empty. */
struct plot *plot_new(char *name, char *title);
void plot_free(struct plot *plot);

/* "stem", "stem-2", ...: number counts from 0. Free with g_free. */
char *plot_name(const char *stem, unsigned number);

/* The program, for plot_draw; NULL with REPORT_ERROR_FAILED where it is not in PATH. Free with
 * g_free. */
char *plot_find_gnuplot(GError **error);

/* Writes the files into `folder`, which exists. The script can be run again there by itself. */
bool plot_draw(struct plot *plot, const char *folder, const char *gnuplot, GError **error);

/* Appends the figure as characters, PLOT_COLUMNS wide; its data goes into `folder`. */
bool plot_draw_text(const struct plot *plot, const char *folder, const char *gnuplot, GString *text,
                    GError **error);

struct axis_unit {
    const char *name; /* "GiB", "ms" */
    double size;      /* in bytes, in seconds */
};

/* For values up to `greatest`, in bytes and in seconds. */
struct axis_unit axis_bytes(double greatest);
struct axis_unit axis_seconds(double greatest);

/* Appends numbers to gnuplot data or scripts with all their digits and a point in any locale; NAN
 * as "NaN", which gnuplot leaves out. */
void axis_append(GString *text, double value);

/* Appends "NAME = VALUE" as a line; a real number even where it is whole, because gnuplot divides
 * integers as C does. */
void axis_append_variable(GString *script, const char *name, double value);

/* Appends "set xtics (...)" with the chunk sizes (uint64_t, ascending) as labels, so many of them
 * at most; the last is always one. */
void axis_append_size_tics(GString *script, const GArray *sizes, guint most);

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

const char *palette_track(enum track track);

/* Parts of a step: compute by phase in blues, waiting by its cause (TRACK_UNKNOWN: none is known)
 * in reds. */
const char *palette_compute(enum trace_phase phase);
const char *palette_wait(int cause);

/* The colour, and gnuplot's point type, of whoever decides what moves: "policy opt", "planner". One
 * that this program does not know gets a colour by its name, always the same. */
const char *palette_maker(const char *maker);
int palette_maker_point(const char *maker);

/* Appends gnuplot's objects and labels for the phases (struct track_phase); the script has set
 * `second`, the axis' unit. Names stand at the top of the graph, in phases that are wide enough,
 * and in the last one. */
void phase_bands_append(GString *drawing, const GArray *phases, double duration);

/* The greatest value; 0: the curve is empty. */
double curve_most(const GArray *curve);

/* Appends gnuplot data, a block: seconds and the greatest value of each of `columns` equal parts of
 * the step, as steps. */
void curve_append_data(GString *data, const GArray *curve, double seconds, guint columns);

#endif
