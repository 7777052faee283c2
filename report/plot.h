/* A plot: a gnuplot script and its data. It is drawn three times: as a wide SVG, as a PNG, and as a
 * narrow SVG for phones. */
#ifndef PSTAR_REPORT_PLOT_H
#define PSTAR_REPORT_PLOT_H

#include "report/tracks.h"

#include <glib.h>
#include <stdbool.h>

#define PLOT_WIDE  960 /* pixels */
#define PLOT_PHONE 360

#define PLOT_COLUMNS 100 /* characters, in a terminal */

struct plot {
    char *name;         /* of its files: NAME.gp, NAME.dat, NAME.svg, NAME.png, NAME-phone.svg */
    char *title;        /* the heading */
    char *alt;          /* describes the picture for readers who cannot see it */
    char *caption;      /* how to read it */
    char *text_caption; /* how to read it as characters; NULL if the caption says it */
    char *axis; /* what its vertical axis has, "ms"; NULL if its numbers say so themselves */
    int wide_height, phone_height; /* pixels */
    GString *data;                 /* contents of NAME.dat */
    GString *setup;                /* gnuplot definitions, executed once */
    GString *drawing; /* gnuplot commands, executed for each drawing; `phone` says which it is */
    int timeline;     /* the number of the timeline that shows the same in the page, or -1 */
    GString *text;    /* the plot as characters; if it is empty, gnuplot draws them */
    char *svg, *phone_svg; /* the text of the drawn files, set by plot_draw */
};

/* Takes ownership of the strings. Data, setup, drawing and text are empty. */
struct plot *plot_new(char *name, char *title);
void plot_free(struct plot *plot);

/* Returns "stem", "stem-2", ... for the numbers 0, 1, ... Free with g_free. */
char *plot_name(const char *stem, unsigned number);

/* Returns the path of gnuplot, or NULL with REPORT_ERROR_FAILED if it is not in PATH. Free with
 * g_free. */
char *plot_find_gnuplot(GError **error);

/* Draws the plot into `folder`, which must exist. The script can be run again there by itself. */
bool plot_draw(struct plot *plot, const char *folder, const char *gnuplot, GError **error);

/* Appends the plot as characters, PLOT_COLUMNS wide, where the axis is named in the heading.
 * `folder` receives its data. */
bool plot_draw_text(const struct plot *plot, const char *folder, const char *gnuplot, GString *text,
                    GError **error);

/* Returns the name of a file or an operator as captions say it: at most 60 characters, with "…" for
 * the rest. Free with g_free. */
char *caption_name(const char *name);

/* Appends a character for a share in [0, 1]: the greater, the denser. */
void text_append_shade(GString *text, double share);

/* Appends a line with the names of the phases (struct track_phase) above the columns in which they
 * begin. `duration` is `columns` wide, behind `head` spaces. */
void text_append_phases(GString *text, const GArray *phases, double duration, int head,
                        int columns);

#define AREAS_MOST 8

/* Areas over time, to be drawn as characters (report/plot_areas.c). */
struct areas {
    unsigned count;
    const char *names[AREAS_MOST], *glyphs[AREAS_MOST]; /* one character each; set by the caller */
    double duration, top;                               /* of the axes */
    double *edges;         /* the upper edges of each column's areas; see areas_add */
    double line;           /* bytes; < 0 if there is no line */
    const char *line_name; /* of a line across; set with `line` */
    const char *mark;      /* may be NULL */
    double mark_at;        /* the time at which `mark` points */
};

/* Free with areas_free. */
struct areas *areas_new(unsigned count, double duration, double top);
void areas_free(struct areas *areas);

/* Adds what happened between two times: the areas' upper edges[count] in bytes. An area is drawn
 * where no area before it reaches. Where several times share a column, the one with the greatest
 * edge is drawn. */
void areas_add(struct areas *areas, double start, double end, const double *edges);

/* Appends the picture with its axes and its key. If not `timed`, the time counts moments. */
void areas_append_text(GString *text, const struct areas *areas, const GArray *phases, bool timed);

struct axis_unit {
    const char *name; /* "GiB", "ms" */
    double size;      /* in bytes, in seconds */
};

/* Return a unit that keeps the numbers of an axis short, for values up to `greatest`. */
struct axis_unit axis_bytes(double greatest);
struct axis_unit axis_seconds(double greatest);

/* Returns a size with at most three digits, "140 KiB". Free with g_free. */
char *axis_size(uint64_t size);

/* Appends a number to gnuplot data or to a script, with all its digits and a point in any locale.
 * NAN becomes "NaN", which gnuplot leaves out. */
void axis_append(GString *text, double value);

/* Appends the line "NAME = VALUE". The value is always written as a real number, because gnuplot
 * divides integers as C does. */
void axis_append_variable(GString *script, const char *name, double value);

/* Appends "set xtics (...)" for a logarithmic axis that is `pixels` wide: chunk sizes (uint64_t,
 * ascending) with three digits, as many as do not touch each other where a letter is `letter`
 * pixels wide. The last size is always labelled. */
void axis_append_size_tics(GString *script, const GArray *sizes, double pixels, double letter);

/* The colours follow Okabe and Ito: people with any colour vision can tell them apart. Each kind of
 * data has one colour in all plots. All are "#rrggbb". The first four are lines and text, secondary
 * text, grid and paper; in the page they follow light and dark mode. */
#define PALETTE_INK   "#1b1f24"
#define PALETTE_MUTED "#67707b"
#define PALETTE_GRID  "#d9dde2"
#define PALETTE_PAPER "#ffffff"

#define PALETTE_NON_MODEL "#e69f00"
#define PALETTE_COMPUTE   "#64748b" /* where the phase is unknown */
#define PALETTE_TWICE     "#9aa5b1" /* host memory of chunks that are also on the device */
#define PALETTE_PLAN      "#d55e00"

const char *palette_list(enum trace_list list);

/* The characters that stand for the colours in a terminal. */
#define GLYPH_NON_MODEL "▒"
#define GLYPH_TWICE     ":"
#define GLYPH_WHOLE     "░"
#define GLYPH_PART      "█"
const char *palette_glyph(enum trace_list list);

/* Returns the colour of a faster link. Numbers start at 1. */
const char *palette_link(unsigned number);

const char *palette_track(enum track track);

/* Return the colours of the parts of a step: blues for compute by phase, reds for waiting by cause
 * (TRACK_UNKNOWN if unknown). */
const char *palette_compute(enum trace_phase phase);
const char *palette_wait(int cause);

/* Return the colour and the gnuplot point type of a maker, "policy opt" or "planner". An unknown
 * maker gets a colour by its name, always the same. */
const char *palette_maker(const char *maker);
int palette_maker_point(const char *maker);

/* Appends the phases (struct track_phase) as shaded bands behind a plot whose x axis is time. The
 * script must have set `second`, the unit of the axis. Names are shown in phases that are wide
 * enough, and in the last one. */
void phase_bands_append(GString *drawing, const GArray *phases, double duration);

/* Returns the greatest value, or 0 if the curve is empty. */
double curve_most(const GArray *curve);

/* Sets most[columns] to the greatest value in each of `columns` equal parts of the step, NAN before
 * the first point. */
void curve_columns(const GArray *curve, double seconds, guint columns, double *most);

/* Appends a block of gnuplot data: for each of `columns` equal parts of the step its time in
 * seconds and its greatest value, drawn as steps. */
void curve_append_data(GString *data, const GArray *curve, double seconds, guint columns);

#endif
